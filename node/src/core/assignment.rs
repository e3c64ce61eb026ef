//! What the members agree on beside who they are: which log has which unit, and how far topologies are.
//!
//! This is the body of a view. Each unit of ownership (a key slot, or a numbered instance) has an
//! *active* set of replicas, the owner first, which serves it, and while that changes a *next* one, which gets
//! ready. A set becomes active through the view log only, so at most one is, whatever gossip believes.
//!
//! The write quorum of a set is all of it, and the seal quorum one: what is acknowledged is with every member of
//! the active set, so any one that is left can go on, and to seal itself is enough for it to shut out the others
//! (`protocol.md` has this as one of its quorums). The price is that commits stand still until a view is without a
//! member that is gone.
//!
//! The changes of a unit are few: a next set is named; a next set that has installed becomes active; and
//! a unit whose replicas are all lost with their nodes begins empty elsewhere.

mod draft;
mod layout;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use membership::view_log::{Body, DiskId, Head, LogId, Seat, Seats, State};
use membership::{Epoch, Member, NodeId, Run};
use pe::topology::InstancePlan;
use pe::{CONTAINERS_MAX, Phase, Unit};
use routing::{ContainerId, Slot};
use serde::{Deserialize, Serialize};

use super::message::Setup;
pub(super) use layout::layout;

/// A view of the cluster.
pub type View = membership::view_log::View<Assignment>;

/// What is agreed on beside the members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// How many active members there must be before spouts read.
    pub expected_nodes: u32,
    /// How many copies there are to be of each unit, as far as there are members.
    pub replicas: u32,
    /// Whether each of them is on a disk before anything is acknowledged, so that it outlives its process.
    pub is_durable: bool,
    /// What members have of replicas on their disks: since which of their lives. Sets that were named since then are still
    /// there, whatever has become of the members in between.
    pub stores: BTreeMap<LogId, Run>,
    /// The last view that gave up what nobody had, since an operator said so.
    pub given_up: Epoch,
    /// Who has which key slot.
    pub slots: Vec<Share>,
    /// The topologies, by name.
    pub topologies: Vec<TopologyState>,
    /// Members that count as if they had come in a later view than their seat says: a link to them could
    /// not be repaired.
    pub anew: BTreeMap<NodeId, Epoch>,
    /// Who may have a token of a partition; nobody else takes one.
    pub holders: BTreeSet<LogId>,
    /// Disks that may have tokens which outlive their nodes. A life that has just begun on one holds nothing, and still has
    /// what is there.
    pub books: BTreeSet<DiskId>,
    /// Draining members that have given away all they had.
    pub drained: BTreeSet<LogId>,
    /// Disks that are gone since a view and may have had tokens, which nobody has inherited yet.
    pub orphans: BTreeMap<DiskId, Epoch>,
    /// Who has inherited what disks had that were gone, as long as not both have acted on it.
    pub heirs: BTreeMap<DiskId, Heir>,
    /// The numbers of the members, above zero, and the one that was given last. Trees of events are named by
    /// them, so none is given again before all others have been.
    pub numbers: BTreeMap<LogId, u16>,
    /// The number that was given last.
    pub last_number: u16,
}

/// A topology, as far as its members have to agree on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopologyState {
    /// Its name.
    pub name: String,
    /// The hash of what it says; equal on all nodes.
    pub hash: u64,
    /// How many stages its instances are removed in.
    pub stages: u32,
    /// How far it is.
    pub phase: Phase,
    /// Who has which numbered instance, by prototype.
    pub tasks: BTreeMap<u16, Vec<Share>>,
    /// Who made the tokens of the partitions of each spout, once somebody has.
    pub spouts: BTreeMap<u16, Option<LogId>>,
    /// How many partitions each spout has, once somebody has listed them; none if partitions end with their nodes.
    pub partitions: Option<BTreeMap<u16, u32>>,
}

/// A unit of ownership.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Who serves it.
    pub active: Set,
    /// Who gets ready to.
    pub next: Option<Set>,
    /// From where it came with its state, when it last did.
    pub came: Option<Came>,
}

/// A set of copies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// The number of the view that named it.
    pub epoch: Epoch,
    /// Where the copies are; the owner first.
    pub logs: Vec<LogId>,
    /// The container of the owner.
    pub container: u16,
}

/// Who has inherited the partitions of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heir {
    /// The life whose disk has them.
    pub log: LogId,
    /// Since which view the disk had been gone.
    pub gone: Epoch,
    /// Whether they are in its own book. Until then, what is to be its own lies beside it, and this is the only word that
    /// they are no longer those of the disk.
    pub has_merged: bool,
    /// Whether the disk came back, and has dropped them.
    pub is_forgotten: bool,
}

/// From where a unit came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Came {
    /// The container that served it before.
    pub from: ContainerId,
    /// The view that made the new set active.
    pub at: Epoch,
}

/// What calls for another view beside the coming and going of members.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Cause {
    /// The next sets of these units, named in that view, have installed.
    Installed(Epoch, Vec<Unit>),
    /// All have replicas who are to have them under the next sets of these units, named in that view, which keep their
    /// owner: each by itself, since nobody gives them.
    Replicated(Epoch, Vec<Unit>),
    /// A topology is to go on to a phase.
    Advance(u16, Phase),
    /// The partitions of a spout were listed, and their tokens are on this node.
    Listed {
        /// The topology.
        topology: u16,
        /// The spout.
        prototype: u16,
        /// Who listed them.
        by: LogId,
        /// How many there are.
        count: u32,
    },
    /// A member wants to take tokens of partitions.
    Holds(LogId),
    /// Something may be lost between a node, a member since that view, and another.
    Broken(NodeId, Epoch),
    /// A draining member has given away all it had.
    Drained(LogId),
    /// A member has what was with a disk that is gone since a view, on its own disk and with others.
    Inherited(DiskId, Epoch, LogId),
    /// What was with a disk that is gone since a view is in the book of its heir.
    Merged(DiskId, Epoch),
    /// A disk that came back has forgotten what another has inherited.
    Forgot(DiskId),
    /// A member has on its disk what it was given of replicas since one of its lives.
    Stored(LogId, Run),
    /// An operator gives up the units that nobody has under that view: they begin empty.
    GivenUp(Epoch),
}

/// Who has copies: the seats of a view, and what is known of the disks of their members.
pub(super) struct Copies<'v> {
    pub(super) seats: &'v Seats<'v>,
    pub(super) stores: &'v BTreeMap<LogId, Run>,
}

impl<'v> Copies<'v> {
    /// The seat of one of a set, if it has a copy: since it has been a member ever since, or on its disk.
    pub(super) fn seat(&self, set: &Set, log: LogId) -> Option<&'v Seat> {
        let stored = || {
            let seat = self.seats.of_disk(log.disk)?;
            self.stores.get(&seat.log).filter(|since| **since <= log.run).map(|_| seat)
        };
        set.seat(log, self.seats).or_else(stored)
    }

    /// Which members have a copy of a unit that has all.
    pub(super) fn of(&self, share: &Share) -> Vec<&'v Seat> {
        share.active.logs.iter().filter_map(|&log| self.seat(&share.active, log)).collect()
    }
}

impl Set {
    fn of(epoch: Epoch, to: (LogId, u16)) -> Self {
        Self { epoch, logs: vec![to.0], container: to.1 }
    }

    /// The seat of one of the set, if it has what it is to have: it has been a member ever since the set was named.
    /// Who was taken off meanwhile and is back has dropped it.
    pub(super) fn seat<'h>(&self, log: LogId, seats: &Seats<'h>) -> Option<&'h Seat> {
        seats.of(log).filter(|seat| seat.since <= self.epoch)
    }

    /// The seat of the owner, if it has what it is to have.
    pub(super) fn owner_seat<'h>(&self, seats: &Seats<'h>) -> Option<&'h Seat> {
        self.seat(self.owner(), seats)
    }

    /// Whether all of the set have it.
    pub(super) fn is_whole(&self, seats: &Seats<'_>) -> bool {
        self.logs.iter().all(|&log| self.seat(log, seats).is_some())
    }

    /// The replicas beside that of the owner.
    pub fn others(&self) -> &[LogId] {
        &self.logs[1..]
    }

    /// Whose copy serves.
    pub fn owner(&self) -> LogId {
        self.logs[0]
    }

    fn has(&self, to: (LogId, u16)) -> bool {
        (self.owner(), self.container) == to
    }
}

impl Assignment {
    /// What a cluster begins with: its founder has everything.
    pub fn first(setup: &Setup, founder: &Member, log: LogId) -> Self {
        let epoch = Epoch(1);
        let share = |container: u16| Share {
            active: Set::of(epoch, (log, container)),
            next: None,
            came: None,
        };
        let slots = (0..setup.slots).map(|slot| {
            let slot = Slot(u16::try_from(slot).expect("config bounds the slots"));
            share(slot.container(founder.containers))
        });
        let topologies = setup.plans.iter().map(|plan| {
            let prototypes = || (0u16..).zip(&plan.prototypes);
            let tasks = prototypes().filter_map(|(at, prototype)| match prototype.instances {
                InstancePlan::Tasks(count) => {
                    let spread = (0..count).map(|_| share(0)).collect();
                    Some((at, spread))
                }
                InstancePlan::Keyed
                | InstancePlan::PerNode
                | InstancePlan::PerContainer
                | InstancePlan::Partitions => None,
            });
            TopologyState {
                name: plan.name.clone(),
                hash: plan.hash,
                stages: u32::try_from(plan.stages).expect("bounded by the planner"),
                phase: Phase::Waiting,
                partitions: plan.acks.map(|_| BTreeMap::new()),
                tasks: tasks.collect(),
                spouts: prototypes()
                    .filter(|(_, p)| p.is_spout)
                    .map(|(at, _)| (at, None))
                    .collect(),
            }
        });
        let mut first = Self {
            expected_nodes: setup.expected_nodes,
            replicas: setup.replicas,
            is_durable: setup.is_durable,
            stores: BTreeMap::new(),
            given_up: Epoch(0),
            slots: slots.collect(),
            topologies: topologies.collect(),
            anew: BTreeMap::new(),
            holders: BTreeSet::new(),
            books: BTreeSet::new(),
            drained: BTreeSet::new(),
            orphans: BTreeMap::new(),
            heirs: BTreeMap::new(),
            numbers: BTreeMap::from([(log, 1)]),
            last_number: 1,
        };
        first.place_first_tasks(founder, log);
        if first.expected_nodes <= 1 {
            first.topologies.iter_mut().for_each(|topology| topology.phase = Phase::Running);
        }
        first
    }

    /// The unit's share, if there is such a unit.
    pub fn share(&self, unit: Unit) -> Option<&Share> {
        match unit {
            Unit::Slot(slot) => self.slots.get(usize::from(slot)),
            Unit::Task { topology, prototype, task } => {
                let tasks = self.topologies.get(usize::from(topology))?.tasks.get(&prototype)?;
                tasks.get(task as usize)
            }
        }
    }

    /// All units with their shares.
    pub fn shares(&self) -> impl Iterator<Item = (Unit, &Share)> {
        let slots = (0..).zip(&self.slots).map(|(slot, share)| (Unit::Slot(slot), share));
        let tasks = (0..).zip(&self.topologies).flat_map(|(topology, state)| {
            state.tasks.iter().flat_map(move |(&prototype, shares)| {
                let unit = move |task| Unit::Task { topology, prototype, task };
                (0..).zip(shares).map(move |(task, share)| (unit(task), share))
            })
        });
        slots.chain(tasks)
    }

    /// Since which view a member counts as the one that it is.
    pub fn since(&self, seat: &Seat) -> Epoch {
        self.anew.get(&seat.node()).map_or(seat.since, |&anew| anew.max(seat.since))
    }

    /// How many slots a log serves.
    pub fn slots_of(&self, log: LogId) -> usize {
        self.slots.iter().filter(|share| share.active.owner() == log).count()
    }

    /// How many units have fewer replicas than there are to be.
    pub fn thin(&self, head: &Head) -> usize {
        let active = head.seats.iter().filter(|seat| is_active(seat)).count();
        let wanted = active.min(self.replicas as usize);
        let seats = Seats::new(head);
        let copies = self.copies(&seats);
        self.shares().filter(|(_, share)| copies.of(share).len() < wanted).count()
    }

    /// How many units nobody can serve, since all who have copies are gone.
    pub fn unavailable(&self, head: &Head) -> usize {
        let seats = Seats::new(head);
        let copies = self.copies(&seats);
        self.shares().filter(|(_, share)| copies.of(share).is_empty()).count()
    }

    /// Who has copies.
    pub(super) fn copies<'v>(&'v self, seats: &'v Seats<'v>) -> Copies<'v> {
        Copies { seats, stores: &self.stores }
    }

    /// How many units are on their way.
    pub fn moving(&self) -> usize {
        self.shares().filter(|(_, share)| share.next.is_some()).count()
    }
}

/// How many units begin empty with a view that follows another.
pub(super) fn begun_empty(before: &View, view: &View) -> usize {
    let (then, now) = (before.body.shares(), view.body.shares());
    let is_lost = |was: &Share, is: &Share| {
        is.active != was.active
            && was.next.as_ref() != Some(&is.active)
            && is.active.epoch == view.head.number
    };
    then.zip(now).filter(|((_, was), (_, is))| is_lost(was, is)).count()
}

/// The seat of a log, if it still has one.
pub(super) fn seat_of(head: &Head, log: LogId) -> Option<&Seat> {
    head.seat_of(log.disk).filter(|seat| seat.log == log)
}

pub(super) fn is_active(seat: &Seat) -> bool {
    seat.state == State::Active
}

/// Whether a member may be given a unit: one that is active, or, where all leave, that votes.
fn may_own(head: &Head, seat: &Seat) -> bool {
    is_active(seat) || seat.state == State::Draining && !head.seats.iter().any(is_active)
}

impl Body for Assignment {
    type Cause = Cause;

    fn wants(&self, head: &Head, cause: &Cause) -> bool {
        match cause {
            // All of them or none: if one is meant for somebody else by now, who gives them has taken all of
            // them back, and they have to be installed anew.
            Cause::Installed(epoch, units) => units.iter().all(|&unit| self.is_next(unit, *epoch)),
            Cause::Replicated(epoch, units) => units.iter().any(|&unit| self.is_next(unit, *epoch)),
            Cause::Advance(topology, phase) => {
                let state = self.topologies.get(usize::from(*topology));
                state.is_some_and(|state| state.may_go_on_to(*phase)) && self.moving() == 0
            }
            Cause::Listed { topology, prototype, by, .. } => {
                let state = self.topologies.get(usize::from(*topology));
                let maker = state.and_then(|state| state.spouts.get(prototype));
                maker == Some(&None) && seat_of(head, *by).is_some()
            }
            Cause::Holds(log) => seat_of(head, *log).is_some() && !self.holders.contains(log),
            Cause::Broken(node, since) => {
                head.seat(*node).is_some_and(|seat| self.since(seat) == *since)
            }
            Cause::Drained(log) => {
                let seat = seat_of(head, *log);
                let is_draining = seat.is_some_and(|seat| seat.state == State::Draining);
                is_draining && !self.keeps(head, *log) && !self.drained.contains(log)
            }
            Cause::Inherited(disk, gone, by) => {
                let is_open = self.orphans.get(disk) == Some(gone);
                is_open && !self.heirs.contains_key(disk) && seat_of(head, *by).is_some()
            }
            Cause::Merged(disk, gone) => {
                // As long as the disk is away it makes no difference, and each view costs all nodes something.
                let is_back = head.seat_of(*disk).is_some();
                let heir = self.heirs.get(disk).filter(|heir| heir.gone == *gone);
                heir.is_some_and(|heir| !heir.has_merged && (is_back || heir.is_forgotten))
            }
            Cause::Forgot(disk) => {
                let heir = self.heirs.get(disk);
                heir.is_some_and(|heir| !heir.is_forgotten) && head.seat_of(*disk).is_some()
            }
            Cause::Stored(log, since) => {
                self.is_durable
                    && seat_of(head, *log).is_some()
                    && self.stores.get(log) != Some(since)
            }
            Cause::GivenUp(epoch) => *epoch == head.number && self.unavailable(head) > 0,
        }
    }

    fn next(&self, head: &Head, next: &Head, causes: &BTreeSet<Cause>) -> Self {
        draft::next(self, head, next, causes)
    }

    fn needs(&self, head: &Head, log: LogId) -> bool {
        self.keeps(head, log) || !self.drained.contains(&log)
    }

    /// Whether it has what nobody else has: by its disk, since it may have started again in between.
    fn wants_back(&self, head: &Head, log: LogId) -> bool {
        let seats = Seats::new(head);
        let copies = self.copies(&seats);
        let is_without = |share: &Share| {
            let mut had_it = share.active.logs.iter();
            had_it.any(|had| had.disk == log.disk) && copies.of(share).is_empty()
        };
        let is_off = seats.of_disk(log.disk).is_none();
        let has_units = || self.is_durable && self.shares().any(|(_, share)| is_without(share));
        is_off && (self.orphans.contains_key(&log.disk) || has_units())
    }

    fn check(&self, head: &Head) -> Result<(), String> {
        rules::check(self, head).map_err(str::to_owned)
    }

    fn check_next(&self, _: &Head, next: &Self, next_head: &Head) -> Result<(), String> {
        rules::check_next(self, next, next_head).map_err(str::to_owned)
    }

    fn admits(&self, head: &Head, member: &Member) -> bool {
        let others = head.seats.iter().filter(|seat| seat.node() != member.node);
        let containers: usize = others.map(|seat| usize::from(seat.member.containers)).sum();
        member.containers > 0 && containers + usize::from(member.containers) <= CONTAINERS_MAX
    }
}

impl Share {
    /// Whether nobody serves the unit: its owner is gone, and the next set is not ready.
    pub(super) fn is_waiting(&self, seats: &Seats<'_>) -> bool {
        self.active.owner_seat(seats).is_none()
    }

    /// Where it is, or will be as soon as somebody can serve it.
    pub(super) fn home(&self, seats: &Seats<'_>) -> Option<(LogId, u16)> {
        let is_there = |set: &&Set| set.owner_seat(seats).is_some();
        let active = Some(&self.active).filter(is_there);
        let set = active.or_else(|| self.next.as_ref().filter(is_there))?;
        Some((set.owner(), set.container))
    }
}

impl Assignment {
    /// Whether the next set of a unit was named in that view.
    fn is_next(&self, unit: Unit, epoch: Epoch) -> bool {
        let next = self.share(unit).and_then(|share| share.next.as_ref());
        next.is_some_and(|next| next.epoch == epoch)
    }

    /// Whether a member still has to give: a set names it, or its disk alone has what it had in a former life.
    pub(super) fn keeps(&self, head: &Head, log: LogId) -> bool {
        let seats = Seats::new(head);
        let copies = self.copies(&seats);
        let is_last = |share: &Share| {
            let left = copies.of(share);
            !left.is_empty() && left.iter().all(|seat| seat.log == log)
        };
        self.names(log) || self.is_durable && self.shares().any(|(_, share)| is_last(share))
    }

    /// Whether a log owns a unit by its active set.
    pub(super) fn is_owner(&self, unit: Unit, log: LogId) -> bool {
        self.share(unit).is_some_and(|share| share.active.owner() == log)
    }

    /// Whether a set names a log.
    pub(super) fn names(&self, log: LogId) -> bool {
        self.shares().any(|(_, share)| {
            share.active.logs.contains(&log)
                || share.next.as_ref().is_some_and(|next| next.logs.contains(&log))
        })
    }
}

impl TopologyState {
    /// Whether a phase is the one after the present one, as far as counts decide.
    fn may_go_on_to(&self, phase: Phase) -> bool {
        match (self.phase, phase) {
            (Phase::Running, Phase::Ending(0)) => true,
            (Phase::Ending(stage), Phase::Ending(next)) => next == stage + 1 && next < self.stages,
            (Phase::Ending(stage), Phase::Ended) => stage + 1 >= self.stages,
            _ => false,
        }
    }
}
