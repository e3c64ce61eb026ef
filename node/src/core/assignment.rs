//! What the members agree on beside who they are: which log has which unit, and how far topologies are.
//!
//! This is the body of a view. Each unit of ownership (a key slot, or a numbered instance) has an
//! *active* set of copies, which serves it, and while it moves a *next* one, which gets ready. A set
//! becomes active through the view log only, so at most one is, whatever gossip believes. In this version
//! a set has one copy.
//!
//! The changes of a unit are few: a next set is named; a next set that has installed becomes active; and
//! a unit whose copies are all lost with their nodes begins empty elsewhere. The last is possible since
//! with one copy there is nobody left to seal; with more, Q of the rest will have to.

mod draft;
mod layout;
mod rules;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use membership::view_log::{Body, Head, LogId, Seat, State};
use membership::{Epoch, Member, NodeId};
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
    /// Who has which key slot.
    pub slots: Vec<Share>,
    /// The topologies, by name.
    pub topologies: Vec<TopologyState>,
    /// Members that count as if they had come in a later view than their seat says: a link to them could
    /// not be repaired.
    pub anew: BTreeMap<NodeId, Epoch>,
    /// Who may have a token of a partition; nobody else takes one.
    pub holders: BTreeSet<LogId>,
    /// Draining members that have given away all they had.
    pub drained: BTreeSet<LogId>,
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
}

impl Set {
    fn of(epoch: Epoch, to: (LogId, u16)) -> Self {
        Self { epoch, logs: vec![to.0], container: to.1 }
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
            slots: slots.collect(),
            topologies: topologies.collect(),
            anew: BTreeMap::new(),
            holders: BTreeSet::new(),
            drained: BTreeSet::new(),
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

    /// How many units are on their way.
    pub fn moving(&self) -> usize {
        self.shares().filter(|(_, share)| share.next.is_some()).count()
    }
}

/// The seat of a log, if it still has one.
pub(super) fn seat_of(head: &Head, log: LogId) -> Option<&Seat> {
    head.seat_of(log.disk).filter(|seat| seat.log == log)
}

fn is_active(seat: &Seat) -> bool {
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
            Cause::Installed(epoch, units) => units.iter().all(|&unit| {
                let next = self.share(unit).and_then(|share| share.next.as_ref());
                next.is_some_and(|next| next.epoch == *epoch)
            }),
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
                is_draining && !self.names(*log) && !self.drained.contains(log)
            }
        }
    }

    fn next(&self, head: &Head, next: &Head, causes: &BTreeSet<Cause>) -> Self {
        draft::next(self, head, next, causes)
    }

    fn needs(&self, _: &Head, log: LogId) -> bool {
        self.names(log) || !self.drained.contains(&log)
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

impl Assignment {
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
