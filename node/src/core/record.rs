//! The view: one record that says who is a member, who owns which slot and how far topologies are.
//!
//! A record is whole: whoever has the newest needs no other. In this version it is what a coordinator
//! believes (the founder of the cluster while it lives, else the first live member), told to all; two
//! sides of a split may each make their own, and when they meet the higher number wins. Agreement by a
//! majority replaces this without changing what a record is.

use std::collections::BTreeSet;
use std::sync::Arc;

use membership::{Epoch, Member, NodeId};
use pe::topology::Plan;
use pe::{CONTAINERS_MAX, Home, Layout, Phase, Place, active_containers, spread_tasks};
use routing::SlotTable;
use serde::{Deserialize, Serialize};

use super::message::Setup;

/// A view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The cluster; nodes of different clusters never share a view.
    pub cluster_id: u64,
    /// The node that founded it.
    pub founder: NodeId,
    /// The number of the view.
    pub epoch: Epoch,
    /// Who made it.
    pub author: NodeId,
    /// The members, by node.
    pub seats: Vec<Seat>,
    /// Who owns which slot.
    pub table: SlotTable,
    /// How far each topology is, in the order of their names.
    pub phases: Vec<Phase>,
}

/// A member of a view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seat {
    /// Who.
    pub member: Member,
    /// The view in which it came.
    pub since: Epoch,
    /// Whether it leaves: it owns nothing any more, and is a member until it has given away what it has.
    pub is_draining: bool,
}

/// Who should be a member.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Wanted {
    /// Who.
    pub(super) member: Member,
    /// Whether it leaves.
    pub(super) is_draining: bool,
}

impl Record {
    /// The first view of a cluster.
    pub(super) fn first(setup: &Setup, founder: Member) -> Self {
        let (node, epoch) = (founder.node, Epoch(1));
        let record = Self {
            cluster_id: setup.cluster_id,
            founder: node,
            epoch,
            author: node,
            seats: vec![Seat { member: founder, since: epoch, is_draining: false }],
            table: SlotTable::of_one(node, setup.slots as usize),
            phases: vec![Phase::Waiting; setup.plans.len()],
        };
        record.started(setup)
    }

    /// The next view, with other members; they are ordered by node, and at least one of them stays.
    pub(super) fn with_members(&self, members: Vec<Wanted>, author: NodeId, setup: &Setup) -> Self {
        let epoch = Epoch(self.epoch.0 + 1);
        let staying = members.iter().filter(|wanted| !wanted.is_draining);
        let nodes: Vec<_> = staying.map(|wanted| wanted.member.node).collect();
        let seat = |Wanted { member, is_draining }| {
            let known = self.seats.iter().find(|seat| seat.member == member);
            Seat { since: known.map_or(epoch, |seat| seat.since), member, is_draining }
        };
        let seats = members.into_iter().map(seat).collect();
        let table = self.table.next(&nodes);
        Self { epoch, author, seats, table, ..self.clone() }.started(setup)
    }

    /// The next view, with topologies further on.
    pub(super) fn with_phases(&self, phases: Vec<Phase>, author: NodeId) -> Self {
        Self { epoch: Epoch(self.epoch.0 + 1), author, phases, ..self.clone() }
    }

    /// The next view, with some members as if they had just come.
    pub(super) fn with_anew(&self, nodes: &[NodeId], author: NodeId) -> Self {
        let mut next = Self { epoch: Epoch(self.epoch.0 + 1), author, ..self.clone() };
        let anew = next.seats.iter_mut().filter(|seat| nodes.contains(&seat.member.node));
        anew.for_each(|seat| seat.since = next.epoch);
        next
    }

    /// Topologies run once enough members are there, and do not stop when there are fewer again.
    fn started(mut self, setup: &Setup) -> Self {
        if self.seats.len() >= setup.expected_nodes as usize {
            let waiting = self.phases.iter_mut().filter(|phase| **phase == Phase::Waiting);
            waiting.for_each(|phase| *phase = Phase::Running);
        }
        self
    }

    /// Whether this view replaces another. Of two with one number, which only the sides of a split can
    /// have made, the one of the lower author stays.
    pub(super) fn supersedes(&self, other: &Self) -> bool {
        (self.epoch, std::cmp::Reverse(self.author))
            > (other.epoch, std::cmp::Reverse(other.author))
    }

    /// Who is a member, and whether it leaves.
    pub(super) fn members(&self) -> Vec<Wanted> {
        let wanted =
            |seat: &Seat| Wanted { member: seat.member.clone(), is_draining: seat.is_draining };
        self.seats.iter().map(wanted).collect()
    }

    /// Whether a node is a member that leaves.
    pub(super) fn is_draining(&self, node: NodeId) -> bool {
        self.seats.iter().any(|seat| seat.member.node == node && seat.is_draining)
    }

    /// Since when a node is a member, if it is one.
    pub(super) fn since(&self, node: NodeId) -> Option<Epoch> {
        self.seats.iter().find(|seat| seat.member.node == node).map(|seat| seat.since)
    }

    /// Whether a node is a member.
    pub fn has(&self, node: NodeId) -> bool {
        self.seats.binary_search_by_key(&node, |seat| seat.member.node).is_ok()
    }

    /// What is worked out from this view for a node.
    pub(super) fn layout(&self, me: NodeId, plans: &[Arc<Plan>]) -> Layout {
        let places = self.seats.iter().map(|seat| Place {
            node: seat.member.node,
            since: seat.since,
            containers: seat.member.containers,
            is_active: !seat.is_draining,
        });
        let places: Vec<_> = places.collect();
        let slots = self.table.owners().iter().copied().map(Home::first).collect();
        let tasks = spread_tasks(plans, &active_containers(&places));
        Layout::new(self.epoch, me, places, slots, tasks, plans, self.phases.clone())
    }

    /// Whether a record that a peer sent can be worked with at all.
    pub(super) fn check(&self, setup: &Setup) -> Result<(), &'static str> {
        let nodes: BTreeSet<_> = self.seats.iter().map(|seat| seat.member.node).collect();
        let stays = |owner| self.seats.iter().any(|s| s.member.node == owner && !s.is_draining);
        let containers: usize =
            self.seats.iter().map(|seat| usize::from(seat.member.containers)).sum();
        let is_ordered = self.seats.is_sorted_by_key(|seat| seat.member.node);
        if self.seats.is_empty() || nodes.len() != self.seats.len() || !is_ordered {
            return Err("its members are not a list in order");
        }
        if self.seats.iter().any(|seat| seat.member.containers == 0) || containers > CONTAINERS_MAX
        {
            return Err("it has a member without containers, or too many");
        }
        if self.table.owners().len() != setup.slots as usize {
            return Err("it has another number of slots");
        }
        if !self.table.owners().iter().copied().collect::<BTreeSet<_>>().into_iter().all(stays) {
            return Err("a slot belongs to nobody, or to who leaves");
        }
        if self.phases.len() != setup.plans.len() {
            return Err("it has other topologies");
        }
        Ok(())
    }
}
