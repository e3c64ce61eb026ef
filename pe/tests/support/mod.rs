//! Drives containers of one or several nodes in one thread, with a virtual clock.
//!
//! Whatever goes from one container to another takes the way it would take in a cluster: inputs by
//! pointer within a node, frames through the real wire format between nodes, credits beside them. Each
//! of these ways is first in, first out; which way is served next, and when a container finds that it has
//! nothing else to do, is drawn from a seed. The same seed is the same run.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use membership::{Epoch, NodeId, Time};
use pe::topology::{Plan, Topology};
use pe::{
    Action, Alone, ChunkKind, Container, Ctx, DeadLetter, Duty, Emits, Event, Holder, Home, Input,
    Layout, Next, Opening, PartitionName, PartitionReport, Phase, Place, Position, Registry,
    ReplicaAction, ReplicaInput, ReplicaStore, Report, Rows, RunReport, Sets, Sink, SpillId, Spout,
    SpoutError, TaskHomes, Unit, Waker, active_containers, spread_tasks,
};
use routing::{
    BatchHeader, BatchKind, ContainerId, Frame, FrameHeader, FrameKind, SlotTable, seal,
};

/// Slots of every cluster here.
const SLOTS: usize = 64;
/// A run that takes more steps than this goes round in circles.
const STEPS_MAX: usize = 2_000_000;

/// A way on which inputs keep their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Way {
    /// What the node itself tells its containers.
    Own(ContainerId),
    /// Between two containers of a node.
    Near(ContainerId, ContainerId),
    /// Frames between two nodes.
    Link(NodeId, NodeId),
    /// What came over a link, for one container.
    Arrived(NodeId, ContainerId),
    /// Credits between two nodes.
    Credits(NodeId, NodeId),
    /// What a node's replicas say.
    Kept(ContainerId),
}

/// What is on a way.
#[derive(Debug)]
pub(crate) enum Thing {
    /// For a container.
    Input(ContainerId, Input),
    /// A sealed frame.
    Frame(Vec<u8>),
}

/// Containers of some nodes.
pub(crate) struct Cluster {
    pub(crate) now: Time,
    pub(crate) plans: Vec<Arc<Plan>>,
    pub(crate) containers: BTreeMap<ContainerId, Container>,
    pub(crate) ways: BTreeMap<Way, VecDeque<Thing>>,
    /// Containers that are not given a turn.
    pub(crate) stalled: BTreeSet<ContainerId>,
    /// The most things that were on one way, and the most bytes of frames on all.
    pub(crate) peak: BTreeMap<Way, usize>,
    pub(crate) closed: Vec<(PartitionName, Option<PartitionReport>)>,
    /// Events that were tried often enough.
    pub(crate) letters: Vec<DeadLetter>,
    /// Who said that it has events of a tree.
    pub(crate) holders: Vec<Holder>,
    /// Chunks that were given, and what became of those that were staged.
    pub(crate) chunks: VecDeque<(u64, Vec<u8>, ChunkKind)>,
    pub(crate) staged: VecDeque<(u64, Result<(), String>)>,
    /// What is kept on disk, whether it can be read, and the most bytes that were.
    pub(crate) spilled: BTreeMap<(ContainerId, SpillId), VecDeque<Vec<u8>>>,
    pub(crate) is_readable: bool,
    pub(crate) spilled_peak: usize,
    /// Who said that all have replicas of which units, under the set of which epoch.
    pub(crate) secured: Vec<(ContainerId, Epoch, Vec<Unit>)>,
    /// Where each node keeps replicas of what it owns, if they do: acks wait until it has.
    replicas: Option<BTreeMap<NodeId, ReplicaStore>>,
    /// Whether they do not say that they have it.
    pub(crate) are_replicas_mute: bool,
    places: Vec<Place>,
    table: SlotTable,
    slots: Vec<Home<NodeId>>,
    tasks: TaskHomes,
    waiting: BTreeSet<Unit>,
    epoch: Epoch,
    phases: Vec<Phase>,
    registry: Registry,
    /// Containers that had an input since they were last drained.
    dirty: BTreeSet<ContainerId>,
    sequences: BTreeMap<(NodeId, NodeId), u64>,
    reports: Vec<(NodeId, Report)>,
    stopped: BTreeSet<ContainerId>,
    random: u64,
    actions: Vec<Action>,
}

impl Cluster {
    /// Nodes 1, 2, ... with as many containers each as said; everything runs.
    pub(crate) fn new(registry: Registry, topology: &str, nodes: &[u16], seed: u64) -> Self {
        Self::with(registry, &[topology], nodes, seed)
    }

    /// The same for several topologies.
    pub(crate) fn with(registry: Registry, topologies: &[&str], nodes: &[u16], seed: u64) -> Self {
        let catalog = registry.catalog();
        let plan = |text: &&str| {
            let plan = Topology::parse(text).and_then(|topology| topology.plan(&catalog));
            Arc::new(plan.unwrap_or_else(|problems| panic!("{problems:#?}")))
        };
        let plans: Vec<_> = topologies.iter().map(plan).collect();
        let phases = vec![Phase::Running; plans.len()];
        let mut cluster = Self {
            now: Time(Duration::from_secs(1)),
            plans,
            containers: BTreeMap::new(),
            ways: BTreeMap::new(),
            stalled: BTreeSet::new(),
            peak: BTreeMap::new(),
            closed: Vec::new(),
            secured: Vec::new(),
            letters: Vec::new(),
            holders: Vec::new(),
            chunks: VecDeque::new(),
            staged: VecDeque::new(),
            spilled: BTreeMap::new(),
            is_readable: true,
            spilled_peak: 0,
            replicas: None,
            are_replicas_mute: false,
            places: Vec::new(),
            table: SlotTable::of_one(NodeId(1), SLOTS),
            slots: Vec::new(),
            tasks: Vec::new(),
            waiting: BTreeSet::new(),
            epoch: Epoch(0),
            phases,
            registry,
            dirty: BTreeSet::new(),
            sequences: BTreeMap::new(),
            reports: Vec::new(),
            stopped: BTreeSet::new(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            actions: Vec::new(),
        };
        let all: Vec<_> = (1..).map(NodeId).zip(nodes.iter().copied()).collect();
        cluster.view(&all);
        cluster
    }

    /// From now on nodes keep replicas of what they own.
    pub(crate) fn keep_replicas(&mut self) {
        self.replicas = Some(BTreeMap::new());
        self.epoch.0 += 1;
        self.tell();
    }

    /// A view with these members; nodes that are new start with it.
    pub(crate) fn view(&mut self, members: &[(NodeId, u16)]) {
        self.epoch.0 += 1;
        let nodes: Vec<_> = members.iter().map(|&(node, _)| node).collect();
        self.table = self.table.next(&nodes);
        let since =
            |node| self.places.iter().find(|place| place.node == node).map(|place| place.since);
        self.places = members
            .iter()
            .map(|&(node, containers)| {
                let since = since(node).unwrap_or(self.epoch);
                // Another life has another number.
                let number = u16::try_from(since.0 * 16 + node.0).unwrap();
                Place { node, containers, since, number, is_drained: false, is_active: true }
            })
            .collect();
        let slots = self.table.owners().iter().copied().map(Home::first);
        let slots: Vec<_> = slots.collect();
        let tasks = spread_tasks(&self.plans, &active_containers(&self.places));
        self.slots = moved(&self.slots, slots, self.epoch);
        let homes = tasks.into_iter().enumerate().map(|(topology, prototypes)| {
            let prototypes = prototypes.into_iter().enumerate().map(|(prototype, homes)| {
                let before = self.tasks.get(topology).map(|before| &before[prototype][..]);
                moved(before.unwrap_or_default(), homes, self.epoch)
            });
            prototypes.collect()
        });
        self.tasks = homes.collect();
        self.tell();
    }

    /// A view in which units live elsewhere; a slot in the container of that node that it maps to.
    pub(crate) fn move_units(&mut self, units: &[(Unit, ContainerId)]) {
        self.epoch.0 += 1;
        for &(unit, to) in units {
            match unit {
                Unit::Slot(slot) => rehome(&mut self.slots[usize::from(slot)], to.node, self.epoch),
                Unit::Task { topology, prototype, task } => {
                    let homes = &mut self.tasks[usize::from(topology)][usize::from(prototype)];
                    rehome(&mut homes[task as usize], to, self.epoch);
                }
            }
        }
        self.tell();
    }

    /// A view in which nobody serves these units yet, and all others are served.
    pub(crate) fn await_units(&mut self, units: &[Unit]) {
        self.epoch.0 += 1;
        self.waiting = units.iter().copied().collect();
        self.tell();
    }

    /// How many events a node has passed on that have yet to arrive; what waits for company there is sent.
    pub(crate) fn passed_on(&mut self, node: NodeId) -> u64 {
        let all: Vec<_> = self.containers.keys().copied().filter(|id| id.node == node).collect();
        all.into_iter().for_each(|id| drop(self.report_of(id)));
        let rows = |header: BatchHeader| {
            if header.kind == BatchKind::Forwarded { u64::from(header.rows) } else { 0 }
        };
        let mut sum = 0;
        for (way, things) in &self.ways {
            let is_of = match way {
                Way::Link(from, _) | Way::Arrived(from, _) => *from == node,
                Way::Own(_) | Way::Near(..) | Way::Credits(..) | Way::Kept(_) => false,
            };
            for thing in things.iter().filter(|_| is_of) {
                match thing {
                    Thing::Frame(bytes) => {
                        sum += batches(bytes).map(|(header, _)| rows(header)).sum::<u64>();
                    }
                    Thing::Input(_, Input::Arrived(_, header, _)) => sum += rows(*header),
                    Thing::Input(..) => {}
                }
            }
        }
        sum
    }

    /// A node is gone; the others have its units, and keep their own.
    pub(crate) fn bury(&mut self, node: NodeId) {
        self.kill(node);
        self.epoch.0 += 1;
        self.places.retain(|place| place.node != node);
        let heirs = active_containers(&self.places);
        for (at, home) in self.slots.iter_mut().enumerate().filter(|(_, home)| home.at == node) {
            rehome(home, heirs[at % heirs.len()].node, self.epoch);
        }
        let tasks = self.tasks.iter_mut().flatten().flatten();
        for (at, home) in tasks.enumerate().filter(|(_, home)| home.at.node == node) {
            rehome(home, heirs[at % heirs.len()], self.epoch);
        }
        self.tell();
    }

    /// The same members in another phase of all topologies.
    pub(crate) fn phase(&mut self, phase: Phase) {
        self.epoch.0 += 1;
        self.phases.fill(phase);
        self.tell();
    }

    /// Tells all nodes of the present view, as soon as they look.
    fn tell(&mut self) {
        for place in self.places.clone() {
            // It hears of replicas with its first layout.
            let layout = Arc::new(self.bare_layout(place.node));
            for number in 0..place.containers {
                let me = ContainerId { node: place.node, container: number };
                if !self.containers.contains_key(&me) {
                    let waker = Waker::new(|| {});
                    let made = Container::new(
                        number,
                        Arc::clone(&layout),
                        &self.registry,
                        &self.plans,
                        waker,
                    );
                    self.containers.insert(me, made);
                    self.dirty.insert(me);
                }
            }
        }
        let nodes: BTreeSet<_> = self.containers.keys().map(|id| id.node).collect();
        for node in nodes {
            let layout = self.layout(node);
            if let Some(replicas) = &mut self.replicas {
                let store = || ReplicaStore::new(Arc::clone(&layout));
                let store = replicas.entry(node).or_insert_with(store);
                store.step(ReplicaInput::Laid(Arc::clone(&layout)), &mut Vec::new());
            }
            for &to in self.containers.keys().filter(|id| id.node == node) {
                let laid = Thing::Input(to, Input::Laid(Arc::clone(&layout)));
                self.ways.entry(Way::Own(to)).or_default().push_back(laid);
            }
        }
    }

    /// The present view for a node.
    pub(crate) fn layout(&self, node: NodeId) -> Arc<Layout> {
        let layout = self.bare_layout(node);
        let sets = self.sets(node, &layout);
        Arc::new(layout.with_sets(sets))
    }

    fn bare_layout(&self, node: NodeId) -> Layout {
        let (places, phases) = (self.places.clone(), self.phases.clone());
        let (slots, tasks) = (self.slots.clone(), self.tasks.clone());
        Layout::new(self.epoch, node, places, slots, tasks, &self.plans, phases)
    }

    /// What a node has to do with replicas.
    fn sets(&self, node: NodeId, layout: &Layout) -> Sets {
        let mut sets = Sets { waiting: self.waiting.clone(), ..Sets::default() };
        for (unit, came) in self.units().filter(|_| self.replicas.is_some()) {
            let Some(home) = layout.home(unit).filter(|home| home.node == node) else { continue };
            let (container, replicas) = (home.container, vec![node]);
            let duty = Duty { unit, container, is_active: true, epoch: came, replicas };
            sets.duties.push(duty);
            sets.kept.insert(unit, vec![came]);
        }
        sets
    }

    /// All units, and since which view each is where it is.
    fn units(&self) -> impl Iterator<Item = (Unit, Epoch)> {
        let since = |came: Option<Epoch>| came.unwrap_or(Epoch(1));
        let slots = (0..).map(Unit::Slot).zip(self.slots.iter().map(|home| home.came.map(|c| c.1)));
        let tasks = (0..).zip(&self.tasks).flat_map(|(topology, prototypes)| {
            (0..).zip(prototypes).flat_map(move |(prototype, homes)| {
                let unit = move |task| Unit::Task { topology, prototype, task };
                (0..).map(unit).zip(homes.iter().map(|home| home.came.map(|c| c.1)))
            })
        });
        slots.chain(tasks).map(move |(unit, came)| (unit, since(came)))
    }

    /// A node is gone, with all that was on its way from and to it.
    pub(crate) fn kill(&mut self, node: NodeId) {
        self.spilled.retain(|(id, _), _| id.node != node);
        self.replicas.iter_mut().for_each(|all| drop(all.remove(&node)));
        self.containers.retain(|id, _| id.node != node);
        self.dirty.retain(|id| id.node != node);
        self.ways.retain(|way, _| match way {
            Way::Own(to) | Way::Near(_, to) | Way::Kept(to) => to.node != node,
            Way::Link(from, to) | Way::Credits(from, to) => *from != node && *to != node,
            Way::Arrived(from, to) => *from != node && to.node != node,
        });
    }

    /// A node is gone and back at once, with nothing of what it had; the others hear of both in one view.
    pub(crate) fn restart(&mut self, node: NodeId) {
        self.kill(node);
        let members: Vec<_> =
            self.places.iter().map(|place| (place.node, place.containers)).collect();
        self.places.retain(|place| place.node != node);
        self.view(&members);
    }

    /// What all containers have dropped for a reason, whether their nodes are members or not.
    pub(crate) fn dropped(&mut self, reason: &str) -> u64 {
        let all: Vec<_> = self.containers.keys().copied().collect();
        all.into_iter().filter_map(|id| self.report_of(id).dropped.remove(reason)).sum()
    }

    /// Opens partitions of the spout of a name where the view puts them.
    pub(crate) fn open(&mut self, spout: &str, names: &[&str]) {
        for (topology, plan) in self.plans.clone().iter().enumerate() {
            let Some(at) = plan.prototypes.iter().position(|known| known.name == spout) else {
                continue;
            };
            let readers = self.layout(self.places[0].node).readers(plan, at, names.len());
            for (name, to) in names.iter().zip(readers) {
                self.open_at(to, (topology, at), name, Position::default());
            }
        }
    }

    /// Opens a partition in a container.
    pub(crate) fn open_at(
        &mut self,
        to: ContainerId,
        (topology, prototype): (usize, usize),
        name: &str,
        position: Position,
    ) {
        let (topology, prototype) = (u16::try_from(topology), u16::try_from(prototype));
        let input = Input::Open {
            topology: topology.unwrap(),
            prototype: prototype.unwrap(),
            name: PartitionName::new(name),
            position,
            skip: 0,
        };
        self.give(to, input);
    }

    /// Gives a container an input at once.
    pub(crate) fn give(&mut self, to: ContainerId, input: Input) {
        let container = self.containers.get_mut(&to).unwrap();
        let is_drain = matches!(input, Input::Drained);
        container.step(self.now, input, &mut self.actions);
        if is_drain && !container.wants_turn() {
            self.dirty.remove(&to);
        } else {
            self.dirty.insert(to);
        }
        let mut actions = std::mem::take(&mut self.actions);
        actions.drain(..).for_each(|action| self.act(to, action));
        self.actions = actions;
    }

    fn act(&mut self, from: ContainerId, action: Action) {
        match action {
            Action::Post(number, input) => {
                let to = ContainerId { node: from.node, container: number };
                self.push(Way::Near(from, to), Thing::Input(to, input));
            }
            Action::Replicate(body) => {
                let store = self.replicas.as_mut().and_then(|all| all.get_mut(&from.node));
                let (container, mut out) = (from.container, Vec::new());
                let body = body.into();
                store.unwrap().step(ReplicaInput::Own { container, body }, &mut out);
                if self.are_replicas_mute {
                    return;
                }
                for said in out {
                    let ReplicaAction::Tell(container, body) = said else { continue };
                    let to = ContainerId { node: from.node, container };
                    self.push(Way::Kept(to), Thing::Input(to, Input::Replicated(body)));
                }
            }
            Action::Send(to, mut frame) => {
                let sequence = self.sequences.entry((from.node, to)).or_default();
                seal(&mut frame, FrameKind::Batches, *sequence);
                *sequence += 1;
                self.push(Way::Link(from.node, to), Thing::Frame(frame));
            }
            Action::Credit { node, credit, rows, weight } => {
                let to = ContainerId { node, container: credit.from };
                let input = Input::Credited { node: from.node, credit, rows, weight };
                self.push(Way::Credits(from.node, node), Thing::Input(to, input));
            }
            Action::Report(report) => self.reports.push((from.node, report)),
            Action::Closed { name, state, .. } => self.closed.push((name, state)),
            Action::Chunk { handoff, bytes, kind } => {
                self.chunks.push_back((handoff, bytes, kind));
            }
            Action::Bury(letter) => self.letters.push(letter),
            Action::Spill(id, bytes) => {
                self.spilled.entry((from, id)).or_default().push_back(bytes);
                let bytes = self.spilled.values().flatten().map(Vec::len).sum();
                self.spilled_peak = self.spilled_peak.max(bytes);
            }
            Action::Unspill(id) => {
                let kept = self.spilled.get_mut(&(from, id)).and_then(VecDeque::pop_front);
                let bytes = kept.filter(|_| self.is_readable).map(Bytes::from);
                self.push(Way::Own(from), Thing::Input(from, Input::Unspilled(id, bytes)));
            }
            Action::Secured { epoch, units, .. } => self.secured.push((from, epoch, units)),
            Action::Explained { holders, .. } => self.holders.extend(holders),
            Action::Looked { .. } => {}
            Action::Staged { handoff, outcome } => self.staged.push_back((handoff, outcome)),
            Action::Stopped => {
                self.stopped.insert(from);
            }
        }
    }

    pub(crate) fn push(&mut self, way: Way, thing: Thing) {
        let to_nobody = match way {
            Way::Own(_) | Way::Near(..) | Way::Kept(_) => false,
            Way::Link(_, to)
            | Way::Credits(_, to)
            | Way::Arrived(_, ContainerId { node: to, .. }) => {
                !self.containers.keys().any(|id| id.node == to)
            }
        };
        if to_nobody {
            return; // A node that is gone.
        }
        let queue = self.ways.entry(way).or_default();
        queue.push_back(thing);
        let peak = self.peak.entry(way).or_default();
        *peak = queue.len().max(*peak);
    }

    pub(crate) fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).unwrap() % below
    }

    /// Whether the head of a way can be served now.
    fn is_open(&self, thing: &Thing) -> bool {
        match thing {
            Thing::Input(to, _) => !self.stalled.contains(to),
            Thing::Frame(_) => true,
        }
    }

    /// Serves one way, or drains one container; `false` if there is nothing to do at this time.
    pub(crate) fn turn(&mut self) -> bool {
        let open = self
            .ways
            .iter()
            .filter(|(_, things)| things.front().is_some_and(|thing| self.is_open(thing)));
        let open: Vec<_> = open.map(|(way, _)| *way).collect();
        let ready = self.containers.iter().filter(|(id, container)| {
            let is_due = container.deadline().is_some_and(|at| at <= self.now);
            !self.stalled.contains(id)
                && (self.dirty.contains(id) || container.wants_turn() || is_due)
        });
        let ready: Vec<_> = ready.map(|(id, _)| *id).collect();
        if open.is_empty() && ready.is_empty() {
            return false;
        }
        let at = self.random(open.len() + ready.len());
        let Some(&way) = open.get(at) else {
            self.give(ready[at - open.len()], Input::Drained);
            return true;
        };
        match self.ways.get_mut(&way).unwrap().pop_front().unwrap() {
            // A peer may name containers that there are not.
            Thing::Input(to, _) if !self.containers.contains_key(&to) => {}
            Thing::Input(to, input) => self.give(to, input),
            Thing::Frame(bytes) => {
                let Way::Link(from, to) = way else { panic!("frames are on links") };
                self.frame(from, to, &bytes);
            }
        }
        true
    }

    fn frame(&mut self, from: NodeId, to: NodeId, bytes: &[u8]) {
        for (header, body) in batches(bytes) {
            let to = ContainerId { node: to, container: header.to };
            self.push(Way::Arrived(from, to), Thing::Input(to, Input::Arrived(from, header, body)));
        }
    }

    /// Takes turns until nothing is left to do at this time.
    pub(crate) fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            if !self.turn() {
                return;
            }
        }
        panic!("no end in sight: {:?}", self.ways.keys());
    }

    /// The same while a container is not given a turn; it stays so.
    pub(crate) fn settle_without(&mut self, stalled: ContainerId) {
        self.stalled.insert(stalled);
        self.settle();
    }

    /// Bytes of batches from other nodes that wait for a container.
    pub(crate) fn waiting_bytes(&self, to: ContainerId) -> usize {
        let bytes = |thing: &Thing| {
            if let Thing::Input(for_whom, Input::Arrived(_, _, body)) = thing {
                if *for_whom == to { body.len() } else { 0 }
            } else {
                0
            }
        };
        self.ways.values().flatten().map(bytes).sum()
    }

    /// The figures of the first topology in one container.
    pub(crate) fn report_of(&mut self, of: ContainerId) -> RunReport {
        self.reports.clear();
        self.give(of, Input::Asked(0));
        self.reports.pop().unwrap().1.runs.swap_remove(0)
    }

    /// Takes so many turns.
    pub(crate) fn turns(&mut self, count: usize) {
        for _ in 0..count {
            self.turn();
        }
    }

    /// Lets time pass, from one deadline to the next.
    pub(crate) fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        self.settle();
        while let Some(at) = self.deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    fn deadline(&self) -> Option<Time> {
        let free = self.containers.iter().filter(|(id, _)| !self.stalled.contains(id));
        free.filter_map(|(_, container)| container.deadline()).min()
    }

    /// The figures of the first topology, summed over the members.
    pub(crate) fn report(&mut self) -> RunReport {
        let mut sum = RunReport::default();
        for (_, report) in self.reports_by_node() {
            sum.add(&report.runs[0]);
        }
        sum
    }

    /// What each container of a member reports.
    pub(crate) fn reports_by_node(&mut self) -> Vec<(NodeId, Report)> {
        self.reports.clear();
        let members: Vec<_> = self.containers.keys().copied().collect();
        let is_member = |id: &ContainerId| self.places.iter().any(|place| place.node == id.node);
        for to in members.into_iter().filter(is_member).collect::<Vec<_>>() {
            self.give(to, Input::Asked(self.epoch.0));
        }
        std::mem::take(&mut self.reports)
    }

    /// Runs to the end of the first topology: all spouts exhausted, all sent events received, then the
    /// stages one after the other. Gives the figures before the first stage went.
    pub(crate) fn finish(&mut self) -> RunReport {
        self.settle();
        self.report();
        self.settle();
        let before = self.report();
        let spouts = before.hosts.iter().flat_map(|host| &host.partitions);
        assert!(spouts.clone().all(|partition| partition.is_exhausted), "{:?}", before.hosts);
        assert_eq!(before.sent, before.received, "{before:?}");
        let stages = u32::try_from(self.plans[0].stages).unwrap();
        for stage in 0..stages {
            self.phase(Phase::Ending(stage));
            self.settle();
            let after = self.report();
            self.settle();
            assert_eq!(after.sent, after.received, "after stage {stage}: {after:?}");
        }
        self.phase(Phase::Ended);
        self.settle();
        assert_eq!(
            self.report().hosts.iter().map(|host| host.instances).sum::<u64>()
                - spouts_left(&before),
            0
        );
        before
    }

    /// Shuts a node down.
    pub(crate) fn stop(&mut self, node: NodeId) {
        let all: Vec<_> = self.containers.keys().copied().filter(|id| id.node == node).collect();
        for to in all {
            self.give(to, Input::Stopped);
            assert!(self.stopped.contains(&to), "a container says when it has stopped");
        }
    }
}

/// The batches of a sealed frame.
fn batches(bytes: &[u8]) -> impl Iterator<Item = (BatchHeader, Bytes)> {
    let (header, payload) = bytes.split_first_chunk::<{ FrameHeader::LEN }>().unwrap();
    let header = FrameHeader::parse(header).unwrap();
    Frame::new(header, Bytes::copy_from_slice(payload)).unwrap().map(Result::unwrap)
}

/// Homes of a view, as they have come from those of the one before.
fn moved<T: Copy + PartialEq>(
    before: &[Home<T>],
    mut now: Vec<Home<T>>,
    at: Epoch,
) -> Vec<Home<T>> {
    for (home, before) in now.iter_mut().zip(before) {
        let to = std::mem::replace(home, *before).at;
        rehome(home, to, at);
    }
    now
}

fn rehome<T: Copy + PartialEq>(home: &mut Home<T>, to: T, at: Epoch) {
    if home.at != to {
        *home = Home { at: to, came: Some((home.at, at)) };
    }
}

/// Exhausted partitions count as instances for ever.
fn spouts_left(report: &RunReport) -> u64 {
    report.hosts.iter().map(|host| host.partitions.len() as u64).sum()
}

/// The prototype of a name.
pub(crate) fn host(plan: &Plan, name: &str) -> usize {
    plan.prototypes.iter().position(|prototype| prototype.name == name).unwrap()
}

pub(crate) fn at(node: u64, container: u16) -> ContainerId {
    ContainerId { node: NodeId(node), container }
}

/// An event that can be lent to `emit`.
pub(crate) trait Lend: Event + Emits<Self, Alone> + Sync {
    /// All fields, borrowed.
    fn lend(&self) -> Self::Ref<'_>;
}

thread_local! {
    static FEEDS: RefCell<BTreeMap<(TypeId, String), Arc<dyn Any + Send + Sync>>> = const {
        RefCell::new(BTreeMap::new())
    };
    static LOG: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Says what the partition of a name has to emit, in this thread.
pub(crate) fn feed<E: Lend>(partition: &str, events: Vec<E>) {
    let key = (TypeId::of::<E>(), partition.to_owned());
    FEEDS.with_borrow_mut(|feeds| feeds.insert(key, Arc::new(events)));
}

/// Notes what application code wants remembered, in this thread.
pub(crate) fn log(line: impl Into<String>) {
    LOG.with_borrow_mut(|log| log.push(line.into()));
}

/// Takes what was noted.
pub(crate) fn logged() -> Vec<String> {
    LOG.take()
}

/// A spout that emits what [`feed`] gave its partition, `burst` at a time.
pub(crate) struct Feed<E, const BURST: usize = 100> {
    events: Arc<dyn Any + Send + Sync>,
    next: usize,
    of: PhantomData<E>,
}

impl<E: Lend, const BURST: usize> Spout for Feed<E, BURST> {
    type Out = E;

    fn partitions(_: &pe::Params) -> Result<Vec<PartitionName>, SpoutError> {
        Ok(vec![PartitionName::new("0")])
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let key = (TypeId::of::<E>(), opening.name.as_str().to_owned());
        let events = FEEDS.with_borrow(|feeds| feeds.get(&key).cloned());
        let events = events.ok_or_else(|| SpoutError::new("nothing was fed"))?;
        let next = usize::try_from(opening.position.offset).unwrap();
        Ok(Self { events, next, of: PhantomData })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, E>) -> Result<Next, SpoutError> {
        let events = self.events.downcast_ref::<Vec<E>>().unwrap();
        for event in events[self.next..].iter().take(BURST) {
            ctx.emit(event.lend());
            self.next += 1;
        }
        Ok(if self.next < events.len() { Next::More } else { Next::Exhausted })
    }

    fn position(&self) -> Position {
        Position { offset: self.next as u64, plays: 0 }
    }
}

/// What all sinks of a registry have written, as JSON.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<String>>>);

impl Written {
    /// Registers a sink of this name that writes here.
    pub(crate) fn sink(&self, registry: Registry, name: &str) -> Registry {
        let written = self.clone();
        registry.sink(name, &[], Arc::new(move |_| Ok(Box::new(written.clone()))))
    }

    /// What was written, in order.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// What was written, with the number of times.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        counts(self.take())
    }
}

impl Sink for Written {
    fn write(&mut self, rows: &dyn Rows) -> Result<(), SpoutError> {
        for at in 0..rows.len() {
            let mut line = Vec::new();
            rows.write_json(at, &mut line);
            self.0.lock().unwrap().push(String::from_utf8(line).unwrap());
        }
        Ok(())
    }
}

/// How often each value is there.
pub(crate) fn counts<T: Ord>(values: impl IntoIterator<Item = T>) -> BTreeMap<T, usize> {
    let mut counts = BTreeMap::new();
    values.into_iter().for_each(|value| *counts.entry(value).or_default() += 1);
    counts
}

/// A topology of these lines.
pub(crate) fn topology(lines: &[&str]) -> String {
    let mut text = "name = \"test\"\n".to_owned();
    lines.iter().for_each(|line| writeln!(text, "{line}").unwrap());
    text
}
