//! Where everything lives under one view.
//!
//! A view names members and owners of slots. A container wants to know where the rows of each edge go
//! and what is its own; that is worked out once per view and node, and shared by its containers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use membership::{Epoch, NodeId};
use routing::{BatchHeader, Budget, Choice, ContainerId, Lane, Lanes, Slot, Spread, place};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::topology::{Edge, Grouping, InstancePlan, Plan};

/// How far a topology has come. It only goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Phase {
    /// Not enough members are there yet; spouts do not read.
    Waiting,
    /// Events flow.
    Running,
    /// Every event was handled; the instances up to this stage are removed, and what they emit while
    /// they go is handled by later stages.
    Ending(u32),
    /// All instances are gone.
    Ended,
}

/// A member, as far as routing cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its name.
    pub node: NodeId,
    /// The view in which it became a member. A node that was taken off, or started again, is another
    /// member: what was counted with the old one is over.
    pub since: Epoch,
    /// How many containers it has.
    pub containers: u16,
    /// Its number among all members that there ever were, above zero; by it the trees are named that it plants.
    pub number: u16,
    /// Whether it leaves and has given away all it had: when it goes, nothing is lost with it.
    pub is_drained: bool,
    /// Whether slots, numbered instances and partitions may live there. A member that leaves is not
    /// active: it passes on what still comes to it, and what it sends is still counted and credited.
    pub is_active: bool,
}

/// What moves as one from a container to another, with all state that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Unit {
    /// The keyed instances of all prototypes whose keys are in this slot.
    Slot(u16),
    /// A numbered instance.
    Task {
        /// The topology.
        topology: u16,
        /// The prototype.
        prototype: u16,
        /// Its number.
        task: u32,
    },
}

/// Where a unit lives: a slot on a node, a numbered instance in a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home<T> {
    /// Where.
    pub at: T,
    /// From where it came last, and the number of the view that said so; none if it was made here.
    pub came: Option<(T, Epoch)>,
}

impl<T> Home<T> {
    /// That of a unit which never moved.
    pub fn first(at: T) -> Self {
        Self { at, came: None }
    }
}

/// What a node has to do for the sets of replicas that it is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sets {
    /// Of the units that it owns, or is to own.
    pub duties: Vec<Duty>,
    /// The epochs of the sets that it is in, by unit.
    pub kept: BTreeMap<Unit, Vec<Epoch>>,
    /// Units, wherever they are, that nobody serves: one who has a replica is getting ready, or none is there.
    pub waiting: BTreeSet<Unit>,
}

/// Who is to have replicas of a unit under a set that this node owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Duty {
    /// The unit.
    pub unit: Unit,
    /// The container that owns it.
    pub container: u16,
    /// Whether this set is the active one, and not the next.
    pub is_active: bool,
    /// The view that named the set.
    pub epoch: Epoch,
    /// The others of the set.
    pub replicas: Vec<NodeId>,
}

/// Which move brought a unit to where it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Origin {
    /// The container that it lived in before.
    pub(crate) from: ContainerId,
    /// The number of the view that said so.
    pub(crate) at: Epoch,
}

/// A move of one or many units between two containers that are the same members still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Move {
    /// Whence, and when.
    pub(crate) origin: Origin,
    /// Where to.
    pub(crate) to: ContainerId,
}

/// The homes of numbered instances, by topology and prototype; of other prototypes there are none.
pub type TaskHomes = Vec<Vec<Vec<Home<ContainerId>>>>;

/// A view, worked out for the containers of a node.
#[derive(Debug)]
pub struct Layout {
    /// The number of the view.
    pub epoch: Epoch,
    /// The node that this is for.
    pub me: NodeId,
    /// The members, by name.
    pub places: Vec<Place>,
    /// The phase of each topology.
    pub phases: Vec<Phase>,
    /// Equal for layouts that route alike.
    pub digest: u64,
    /// All containers in which units live or may live: also those of a member that leaves and has not yet
    /// given away all it has.
    containers: Vec<ContainerId>,
    /// The container of each slot, by its place in `containers`.
    slots: Arc<[u16]>,
    /// The node of each slot.
    owners: Vec<Home<NodeId>>,
    /// From where each slot came, if whoever had it then may still have events for it.
    origins: Vec<Option<Origin>>,
    /// The moves of slots, each once; worked out when somebody asks.
    moves: OnceLock<Vec<Move>>,
    tasks: TaskHomes,
    sets: Sets,
}

/// The most containers of a cluster: a lane is two bytes in the table of slots.
pub const CONTAINERS_MAX: usize = 1 << 15;

/// The containers in which units may live: those of active members, which are ordered by node.
pub fn active_containers(places: &[Place]) -> Vec<ContainerId> {
    containers_of(places.iter().filter(|place| place.is_active))
}

/// Spreads the numbered instances of some topologies evenly over containers, as where no instance has
/// lived anywhere before.
pub fn spread_tasks(plans: &[Arc<Plan>], containers: &[ContainerId]) -> TaskHomes {
    let homes = |seed, count| {
        let places = place(seed, count, containers);
        places.into_iter().map(Home::first).collect()
    };
    let of_plan = |plan: &Arc<Plan>| {
        let prototypes = (0u64..).zip(&plan.prototypes);
        prototypes.map(|(at, known)| homes(plan.hash ^ at, known.instances.tasks())).collect()
    };
    plans.iter().map(of_plan).collect()
}

/// The containers of members that are active or still have a unit, in order.
fn serving_containers(
    places: &[Place],
    slots: &[Home<NodeId>],
    tasks: &TaskHomes,
) -> Vec<ContainerId> {
    let tasks = tasks.iter().flatten().flatten().map(|home| home.at.node);
    let serving: BTreeSet<_> = slots.iter().map(|home| home.at).chain(tasks).collect();
    let has_unit = |place: &Place| place.is_active || serving.contains(&place.node);
    containers_of(places.iter().filter(|place| has_unit(place)))
}

/// The lane of the first container of each place; of those that serve.
fn first_lanes(places: &[Place], containers: &[ContainerId]) -> Vec<u16> {
    let first = |place: &Place| {
        let first = ContainerId { node: place.node, container: 0 };
        let lane = containers.partition_point(|container| *container < first);
        u16::try_from(lane).expect("at most CONTAINERS_MAX")
    };
    places.iter().map(first).collect()
}

fn containers_of<'p>(places: impl Iterator<Item = &'p Place>) -> Vec<ContainerId> {
    let of = |&Place { node, containers, .. }: &Place| {
        (0..containers).map(move |container| ContainerId { node, container })
    };
    places.flat_map(of).collect()
}

impl Layout {
    /// Works a view out; `places` is ordered by node, and has the home of each slot and of each numbered
    /// instance of `plans`.
    ///
    /// `me` may be missing: a node that was taken off passes on what still comes to it.
    pub fn new(
        epoch: Epoch,
        me: NodeId,
        places: Vec<Place>,
        slots: Vec<Home<NodeId>>,
        tasks: TaskHomes,
        plans: &[Arc<Plan>],
        phases: Vec<Phase>,
    ) -> Self {
        let containers = serving_containers(&places, &slots, &tasks);
        assert!(containers.len() <= CONTAINERS_MAX, "members that would be too many are refused");
        assert!(slots.len().is_power_of_two(), "a slot is some bits of a hash");
        let counts = plans.iter().map(|plan| plan.prototypes.iter().map(|p| p.instances.tasks()));
        let is_numbered = tasks.len() == plans.len()
            && tasks.iter().zip(counts).all(|(homes, counts)| {
                homes.iter().map(|homes| homes.len() as u64).eq(counts.map(u64::from))
            });
        assert!(is_numbered, "each numbered instance of the plans has a home");
        let first = first_lanes(&places, &containers);
        let owners = slots;
        let slots = (0..)
            .zip(&owners)
            .map(|(slot, home)| {
                let at = places.binary_search_by_key(&home.at, |place| place.node);
                let at = at.expect("an owner is a member");
                first[at] + Slot(slot).container(places[at].containers)
            })
            .collect();
        let mut layout = Self {
            epoch,
            me,
            places,
            phases,
            digest: 0,
            containers,
            slots,
            owners,
            origins: Vec::new(),
            moves: OnceLock::new(),
            tasks,
            sets: Sets::default(),
        };
        layout.digest = layout.digest();
        layout.trace();
        layout
    }

    /// The same with replicas.
    pub fn with_sets(self, sets: Sets) -> Self {
        Self { sets, ..self }
    }

    /// Whose replicas a container sees to.
    pub(crate) fn duties(&self, container: u16) -> impl Iterator<Item = &Duty> {
        self.sets.duties.iter().filter(move |duty| duty.container == container)
    }

    /// Since which view this node is in a set of a unit, if it is.
    pub(crate) fn keeps_replica(&self, unit: Unit) -> Option<Epoch> {
        self.sets.kept.get(&unit).and_then(|epochs| epochs.iter().copied().min())
    }

    /// Whether it is in the one of an epoch.
    pub(crate) fn keeps_replica_for(&self, unit: Unit, epoch: Epoch) -> bool {
        self.sets.kept.get(&unit).is_some_and(|epochs| epochs.contains(&epoch))
    }

    /// The units that nobody serves.
    pub(crate) fn waiting(&self) -> &BTreeSet<Unit> {
        &self.sets.waiting
    }

    /// Finds out from where slots came.
    fn trace(&mut self) {
        let traced = (0..).zip(&self.owners).map(|(slot, home)| {
            let (node, at) = home.came?;
            let containers = self.place(node)?.containers;
            let from = ContainerId { node, container: Slot(slot).container(containers) };
            self.origin(from, at, self.container_of(slot))
        });
        self.origins = traced.collect();
    }

    fn moves_of_slots(&self) -> Vec<Move> {
        let moves = (0..).zip(&self.origins).filter_map(|(slot, &origin)| {
            Some(Move { origin: origin?, to: self.container_of(slot) })
        });
        let mut moves: Vec<_> = moves.collect();
        moves.sort_unstable();
        moves.dedup();
        moves
    }

    /// A move, unless one of its ends has been another member since: then nothing is left of it.
    fn origin(&self, from: ContainerId, at: Epoch, to: ContainerId) -> Option<Origin> {
        let is_known = self.place(from.node)?.since < at && self.place(to.node)?.since <= at;
        (is_known && from != to).then_some(Origin { from, at })
    }

    /// Whether there is such a container.
    pub(crate) fn has(&self, container: ContainerId) -> bool {
        self.containers.binary_search(&container).is_ok()
    }

    fn place(&self, node: NodeId) -> Option<&Place> {
        let at = self.places.binary_search_by_key(&node, |place| place.node).ok()?;
        Some(&self.places[at])
    }

    fn container_of(&self, slot: u16) -> ContainerId {
        self.containers[usize::from(self.slots[usize::from(slot)])]
    }

    fn digest(&self) -> u64 {
        let mut hash = Xxh3::new();
        for place in &self.places {
            hash.update(&place.node.0.to_le_bytes());
            hash.update(&place.since.0.to_le_bytes());
            hash.update(&place.containers.to_le_bytes());
            hash.update(&[u8::from(place.is_active)]);
        }
        for home in &self.owners {
            hash.update(&home.at.0.to_le_bytes());
        }
        for home in self.tasks.iter().flatten().flatten() {
            hash.update(&home.at.node.0.to_le_bytes());
            hash.update(&home.at.container.to_le_bytes());
        }
        hash.digest()
    }

    /// How many containers the cluster has.
    pub fn containers(&self) -> usize {
        self.containers.len()
    }

    /// Since when a node is a member, if it is one.
    pub fn since(&self, node: NodeId) -> Option<Epoch> {
        Some(self.place(node)?.since)
    }

    /// The containers of all who were members before a view, and are.
    pub(crate) fn members_before(&self, at: Epoch) -> impl Iterator<Item = ContainerId> + '_ {
        let known = self.places.iter().filter(move |place| place.since < at);
        known.flat_map(|&Place { node, containers, .. }| {
            (0..containers).map(move |container| ContainerId { node, container })
        })
    }

    /// Whether a node is a member and does not leave.
    pub fn is_active(&self, node: NodeId) -> bool {
        self.places.iter().any(|place| place.node == node && place.is_active)
    }

    /// The node of a number.
    pub(crate) fn node_of(&self, number: u16) -> Option<NodeId> {
        self.places.iter().find(|place| place.number == number).map(|place| place.node)
    }

    /// The number of this node; zero if it is no member.
    pub(crate) fn my_number(&self) -> u16 {
        self.place(self.me).map_or(0, |place| place.number)
    }

    /// Whether something may have been lost since a former layout: a member is gone that had something, or is
    /// another one since, or we are.
    pub(crate) fn has_lost(&self, before: &Self) -> bool {
        before.places.iter().any(|place| {
            let is_same = self.since(place.node) == Some(place.since);
            !(is_same || place.is_drained && self.since(place.node).is_none())
        })
    }

    /// Whether a node is the same member as under a former layout, and so are we: only then do counts,
    /// credits and what is on its way go on. Between containers of one node they always do.
    pub(crate) fn keeps(&self, node: NodeId, before: &Self) -> bool {
        let is_same =
            |node| self.since(node).is_some_and(|since| before.since(node) == Some(since));
        node == self.me || is_same(self.me) && is_same(node)
    }

    /// Whether what passed between a node and us under a view counts: both were the members then that
    /// they are now. What does not count was given up as in doubt by whoever sent it.
    pub(crate) fn counts(&self, node: NodeId, epoch: u64) -> bool {
        let was_member = |node| self.since(node).is_some_and(|since| since.0 <= epoch);
        node == self.me || was_member(self.me) && was_member(node)
    }

    /// Which container reads each of some partitions: evenly, like numbered instances, since by the
    /// slot of a hash a handful of files would often all be read by one node.
    pub fn readers(&self, plan: &Plan, spout: usize, partitions: usize) -> Vec<ContainerId> {
        let count = u32::try_from(partitions).expect("fewer partitions than 2^32");
        let active = active_containers(&self.places);
        let all = if active.is_empty() { &self.containers } else { &active };
        place(plan.hash ^ (spout as u64) << 32, count, all)
    }

    /// Whether the key with a hash lives in a container of this node.
    #[inline]
    pub fn has_key(&self, hash: u64, container: ContainerId) -> bool {
        let slot = Slot::of(hash, self.slots.len());
        self.containers[usize::from(self.slots[usize::from(slot.0)])] == container
    }

    /// The numbered instances of a prototype that live in a container.
    pub fn tasks(
        &self,
        plan: &Plan,
        (topology, at): (usize, usize),
        container: ContainerId,
    ) -> Vec<u32> {
        match plan.prototypes[at].instances {
            InstancePlan::Keyed | InstancePlan::Partitions => Vec::new(),
            InstancePlan::PerNode if self.of_node(plan, at, container.node) == container => {
                vec![BatchHeader::NO_TASK]
            }
            InstancePlan::PerNode => Vec::new(),
            InstancePlan::PerContainer => vec![BatchHeader::NO_TASK],
            InstancePlan::Tasks(_) => {
                let all = (0..).zip(&self.tasks[topology][at]);
                all.filter(|(_, home)| home.at == container).map(|(task, _)| task).collect()
            }
        }
    }

    /// Whether a numbered instance of a prototype, or the node's or container's own, lives in a container.
    pub fn has_task(
        &self,
        plan: &Plan,
        (topology, at): (usize, usize),
        task: u32,
        container: ContainerId,
    ) -> bool {
        match plan.prototypes[at].instances {
            InstancePlan::Tasks(_) => {
                let home = self.tasks[topology][at].get(task as usize);
                home.is_some_and(|home| home.at == container)
            }
            InstancePlan::PerNode => {
                task == BatchHeader::NO_TASK && self.of_node(plan, at, container.node) == container
            }
            InstancePlan::PerContainer => task == BatchHeader::NO_TASK,
            InstancePlan::Keyed | InstancePlan::Partitions => false,
        }
    }

    /// The container of the one instance that a node has of a prototype.
    fn of_node(&self, plan: &Plan, prototype: usize, node: NodeId) -> ContainerId {
        let at = self.places.binary_search_by_key(&node, |place| place.node);
        let containers = at.map_or(1, |at| self.places[at].containers);
        let spread = plan.hash.wrapping_add(prototype as u64) % u64::from(containers.max(1));
        ContainerId { node, container: u16::try_from(spread).expect("below a count of 16 bits") }
    }

    /// The container in which a unit lives; none if there is no such unit.
    pub fn home(&self, unit: Unit) -> Option<ContainerId> {
        match unit {
            Unit::Slot(slot) => {
                let lane = *self.slots.get(usize::from(slot))?;
                Some(self.containers[usize::from(lane)])
            }
            Unit::Task { topology, prototype, task } => {
                let homes = self.tasks.get(usize::from(topology))?.get(usize::from(prototype))?;
                Some(homes.get(task as usize)?.at)
            }
        }
    }

    /// How many slots there are.
    pub fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// From where the key with a hash came.
    pub(crate) fn origin_of_key(&self, hash: u64) -> Option<Origin> {
        self.origins[usize::from(Slot::of(hash, self.slots.len()).0)]
    }

    /// From where a unit came.
    pub(crate) fn origin_of(&self, unit: Unit) -> Option<Origin> {
        match unit {
            Unit::Slot(slot) => *self.origins.get(usize::from(slot))?,
            Unit::Task { topology, prototype, task } => {
                let homes = self.tasks.get(usize::from(topology))?.get(usize::from(prototype))?;
                let home = homes.get(task as usize)?;
                let (from, at) = home.came?;
                self.origin(from, at, home.at)
            }
        }
    }

    /// The moves of the units of a prototype, each once.
    pub(crate) fn moves(&self, plan: &Plan, (topology, at): (usize, usize)) -> Vec<Move> {
        match plan.prototypes[at].instances {
            InstancePlan::Keyed => self.moves.get_or_init(|| self.moves_of_slots()).clone(),
            InstancePlan::Tasks(_) => {
                let moves = self.tasks[topology][at].iter().filter_map(|home| {
                    let (from, at) = home.came?;
                    Some(Move { origin: self.origin(from, at, home.at)?, to: home.at })
                });
                moves.collect()
            }
            InstancePlan::Partitions | InstancePlan::PerNode | InstancePlan::PerContainer => {
                Vec::new()
            }
        }
    }

    /// Where the rows of an edge go that are emitted in a container of this node; `choice` is the function
    /// that its grouping names, if it names one.
    pub fn lanes(
        &self,
        plan: &Plan,
        topology: usize,
        edge: &Edge,
        me: ContainerId,
        choice: Option<&Choice>,
    ) -> Lanes {
        let consumer = &plan.prototypes[edge.to];
        let grouping = &consumer.inputs[edge.input].grouping;
        let plain = |to: ContainerId| Lane { to, task: BatchHeader::NO_TASK };
        let containers = self.containers.iter().copied();
        match consumer.instances {
            InstancePlan::Keyed => Lanes {
                lanes: containers.map(plain).collect(),
                spread: Spread::Slots(Arc::clone(&self.slots)),
            },
            InstancePlan::Tasks(_) => {
                let tasks = (0..).zip(&self.tasks[topology][edge.to]);
                let lanes = tasks.map(|(task, home)| Lane { to: home.at, task }).collect();
                among_tasks(lanes, grouping, me, choice)
            }
            InstancePlan::PerContainer => {
                // What is for everybody is not for somebody who leaves.
                let is_active = |node| self.place(node).is_some_and(|place| place.is_active);
                let is_meant = |to: &ContainerId| *grouping != Grouping::All || is_active(to.node);
                among_equals(containers.filter(is_meant).map(plain), grouping, plain(me))
            }
            InstancePlan::PerNode | InstancePlan::Partitions => {
                let lane = |node| plain(self.of_node(plan, edge.to, node));
                let active = self.places.iter().filter(|place| place.is_active);
                among_equals(active.map(|place| lane(place.node)), grouping, lane(self.me))
            }
        }
    }

    /// How much may be on its way in a lane.
    pub fn budget(&self) -> Budget {
        // A container has as many senders as the cluster has containers, so what each may send is a
        // share of what a container holds for one edge: 16 MiB, but no less than a few large batches.
        let share = (16 << 10) / self.containers.len();
        let kibibytes = u32::try_from(share.clamp(64, 1024)).expect("clamped");
        Budget { batches: 32, kibibytes }
    }
}

/// Which of the tasks of a prototype get the rows of an edge.
fn among_tasks(
    mut lanes: Vec<Lane>,
    grouping: &Grouping,
    me: ContainerId,
    choice: Option<&Choice>,
) -> Lanes {
    let spread = match grouping {
        Grouping::Key => Spread::Hash,
        Grouping::PartialKey => Spread::TwoChoices,
        Grouping::Direct => Spread::Numbered,
        Grouping::Named(_) => {
            Spread::Custom(choice.expect("a plan names groupings that are registered").clone())
        }
        Grouping::Shuffle => Spread::Rotate,
        Grouping::LoadAwareShuffle => Spread::LeastLoaded,
        Grouping::LocalOrShuffle => {
            keep_nearest(&mut lanes, me);
            Spread::Rotate
        }
        Grouping::All => Spread::All,
        Grouping::Global | Grouping::Local => {
            lanes.truncate(1);
            Spread::Only
        }
    };
    Lanes { lanes, spread }
}

/// Which of the instances that are one per node or container get the rows of an edge; `own` is there always.
fn among_equals(all: impl Iterator<Item = Lane>, grouping: &Grouping, own: Lane) -> Lanes {
    let spread = match grouping {
        Grouping::Shuffle => Spread::Rotate,
        Grouping::LoadAwareShuffle => Spread::LeastLoaded,
        Grouping::All => Spread::All,
        Grouping::Local
        | Grouping::LocalOrShuffle
        | Grouping::Key
        | Grouping::PartialKey
        | Grouping::Direct
        | Grouping::Named(_)
        | Grouping::Global => return Lanes { lanes: vec![own], spread: Spread::Only },
    };
    let mut lanes: Vec<_> = all.collect();
    if lanes.is_empty() {
        lanes.push(own);
    }
    Lanes { lanes, spread }
}

/// Leaves the lanes to one's own container; if there are none, to one's own node; or else all.
fn keep_nearest(lanes: &mut Vec<Lane>, me: ContainerId) {
    let is_here = |lane: &Lane| lane.to == me;
    let is_near = |lane: &Lane| lane.to.node == me.node;
    if lanes.iter().any(is_here) {
        lanes.retain(is_here);
    } else if lanes.iter().any(is_near) {
        lanes.retain(is_near);
    }
}
