//! A view: what the nodes of a cluster agree on.
//!
//! Gossip tells each node something else at each moment. A view is one record with a number, the same
//! for all, and it is whole: who has slept through many needs the newest and no other. Its [`Head`]
//! says who is a member and who decides the next view; its body is whatever else must be agreed on,
//! and nothing here looks into it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Body;
use super::codec;
use crate::{Epoch, Member, NodeId, Run};

/// The most voters of a view: seven survive three failures, and each more makes every decision slower.
pub const VOTERS_MAX: usize = 7;

/// The most members of a view. A constant, not a setting: were it different on two nodes, one would
/// refuse what the other proposes.
pub const SEATS_MAX: usize = 1024;

/// A cluster: a random number that its founder drew. Nodes of two clusters never share a view.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Default,
)]
pub struct ClusterId(pub u64);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A data directory: a random number, written when the directory was made.
///
/// Quorums count disks. A node that lost its disk has forgotten what it promised, so it comes back as
/// another member; a node that only restarted has not, so it stays the same.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct DiskId(pub u64);

impl fmt::Display for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The slot logs of a disk.
///
/// Logs that are synced outlive the process and are the disk's own; others are new in each run, since
/// a replica that forgot entries must not answer as if it held them.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct LogId {
    /// Where they are.
    pub disk: DiskId,
    /// The run that began them; 0 if they outlive runs.
    pub run: Run,
}

impl LogId {
    /// Logs that are synced.
    pub fn synced(disk: DiskId) -> Self {
        Self { disk, run: Run(0) }
    }

    /// Logs that end with the process.
    pub fn unsynced(disk: DiskId, run: Run) -> Self {
        Self { disk, run }
    }
}

/// How far a member has come.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum State {
    /// It has no vote and no share of the work yet; it gets ready.
    Joining,
    /// It takes its share, and may be a voter.
    Active,
    /// It gets nothing new, gives away what it has, and goes when nothing is left.
    Draining,
}

/// A member of a view. A node has one seat at most.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Seat {
    /// The node, as it was when the seat was last written: a restart that changed nothing else leaves
    /// the seat alone, so its run may be higher by now.
    pub member: Member,
    /// Its disk, and the logs on it.
    pub log: LogId,
    /// How far it has come.
    pub state: State,
    /// The view since which it is here with these logs.
    pub since: Epoch,
}

impl Seat {
    /// Who it is.
    pub fn node(&self) -> NodeId {
        self.member.node
    }

    /// Whose promises and votes count.
    pub fn disk(&self) -> DiskId {
        self.log.disk
    }
}

/// Counts recoveries from a lost majority; the first generation began with the founding.
///
/// It names who wrote it: two operators who recover two sides of a cluster make two generations. When the
/// sides meet, the view with the larger number stays.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Generation {
    /// How many recoveries came before.
    pub count: u32,
    /// The disk of the node that began it.
    pub author: DiskId,
}

/// Which view; a later one is larger. One id, one view.
///
/// The number comes first: epochs are fences, and a node never goes back to a smaller one. A recovery
/// leaps far enough for its number to be larger than any that was lost.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct ViewId {
    /// The number.
    pub number: Epoch,
    /// The generation.
    pub generation: Generation,
}

/// The fingerprint of a view.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct Digest(pub u128);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// The part of a view that the view log itself understands.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Head {
    /// The cluster.
    pub cluster: ClusterId,
    /// The generation.
    pub generation: Generation,
    /// The number of the view.
    pub number: Epoch,
    /// The view before it.
    pub parent: Digest,
    /// The members, ordered by node.
    pub seats: Vec<Seat>,
    /// Whose majority decides the next view, in order; an odd number of them.
    pub voters: Vec<DiskId>,
    /// The members given up by the recovery that made this view; otherwise nobody.
    pub lost: Vec<NodeId>,
}

impl Head {
    /// Which view this is.
    pub fn id(&self) -> ViewId {
        ViewId { generation: self.generation, number: self.number }
    }

    /// The seat of a node.
    pub fn seat(&self, node: NodeId) -> Option<&Seat> {
        self.seats.binary_search_by_key(&node, Seat::node).ok().map(|at| &self.seats[at])
    }

    /// The seat of a disk. Whoever asks for many of them makes [`Seats`].
    pub fn seat_of(&self, disk: DiskId) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.disk() == disk)
    }

    /// Whether a disk has a vote on the next view.
    pub fn is_voter(&self, disk: DiskId) -> bool {
        self.voters.binary_search(&disk).is_ok()
    }

    /// The nodes of the voters, in the order of the voters.
    pub fn voter_nodes(&self) -> impl Iterator<Item = NodeId> {
        self.voters.iter().filter_map(|&disk| self.seat_of(disk)).map(Seat::node)
    }

    /// How many voters decide.
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }
}

/// The seats of a view by disk, for whoever asks for one after the other.
#[derive(Debug)]
pub struct Seats<'h>(Vec<&'h Seat>);

impl<'h> Seats<'h> {
    /// Those of a view.
    pub fn new(head: &'h Head) -> Self {
        let mut seats: Vec<_> = head.seats.iter().collect();
        seats.sort_unstable_by_key(|seat| seat.disk());
        Self(seats)
    }

    /// The seat of a disk.
    pub fn of_disk(&self, disk: DiskId) -> Option<&'h Seat> {
        self.0.binary_search_by_key(&disk, |seat| seat.disk()).ok().map(|at| self.0[at])
    }

    /// The seat of a log, if it still has one.
    pub fn of(&self, log: LogId) -> Option<&'h Seat> {
        self.of_disk(log.disk).filter(|seat| seat.log == log)
    }
}

/// A view.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(bound = "B: Body")]
pub struct View<B> {
    /// Who is a member, and who decides next.
    pub head: Head,
    /// What else is agreed on.
    pub body: B,
}

impl<B: Body> View<B> {
    /// Which view this is.
    pub fn id(&self) -> ViewId {
        self.head.id()
    }

    /// The fingerprint by which the next view names this one.
    pub fn digest(&self) -> Digest {
        codec::digest(self)
    }

    /// The first view of a cluster.
    pub(super) fn first(cluster: ClusterId, member: Member, log: LogId, body: B) -> Arc<Self> {
        let number = Epoch(1);
        let seat = Seat { member, log, state: State::Active, since: number };
        let head = Head {
            cluster,
            generation: Generation { count: 0, author: log.disk },
            number,
            parent: Digest::default(),
            seats: vec![seat],
            voters: vec![log.disk],
            lost: Vec::new(),
        };
        Arc::new(Self { head, body })
    }
}

/// The voters among some seats: an odd number of active ones; those in `sure` first, then those that
/// vote already.
///
/// `sure` are the disks that have just answered. When few voters are left, one that is dead and not yet
/// missed would be the end of all views. Where nobody is active, those that drain go on voting.
pub(super) fn voters(before: &[DiskId], seats: &[Seat], sure: &BTreeSet<DiskId>) -> Vec<DiskId> {
    let with = |state: State| seats.iter().filter(move |seat| seat.state == state).map(Seat::disk);
    let mut able: Vec<_> = with(State::Active).collect();
    if able.is_empty() {
        able = with(State::Draining).collect();
    }
    // Stable, so otherwise by node.
    able.sort_by_key(|disk| (!sure.contains(disk), !before.contains(disk)));
    able.truncate(VOTERS_MAX);
    if able.len() % 2 == 0 {
        able.pop();
    }
    able.sort_unstable();
    able
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view_log::tests::seat;

    #[test]
    fn voters_are_an_odd_number_of_active_members_and_stay_who_they_are() {
        let active = |nodes: &[u64]| -> Vec<_> {
            nodes.iter().map(|&node| seat(node, State::Active)).collect()
        };
        let disks = |nodes: &[u64]| -> Vec<_> { nodes.iter().copied().map(DiskId).collect() };
        for (before, nodes, sure, expected) in [
            (&[1][..], &[1][..], &[][..], &[1][..]),
            (&[2], &[1, 2], &[], &[2]),
            (&[2], &[1, 2, 3], &[], &[1, 2, 3]),
            (&[1, 2, 3], &[1, 2], &[2], &[2]),
            (&[1, 2, 3], &[1, 2, 3, 4], &[4], &[1, 2, 4]),
            (&[2, 3, 4], &[1, 2, 3, 4], &[], &[2, 3, 4]),
            (&[2, 3, 4], &[1, 2, 3, 4, 5], &[], &[1, 2, 3, 4, 5]),
            (&[5], &[1, 2, 3, 4, 5, 6, 7, 8, 9], &[], &[1, 2, 3, 4, 5, 6, 7]),
            (&[9], &[1, 2, 3, 4, 5, 6, 7, 8, 9], &[8], &[1, 2, 3, 4, 5, 8, 9]),
        ] {
            let sure: BTreeSet<_> = sure.iter().copied().map(DiskId).collect();
            let found = voters(&disks(before), &active(nodes), &sure);
            assert_eq!(found, disks(expected), "{before:?} then {nodes:?}");
        }
        let mut seats = active(&[1, 2, 3]);
        seats[0].state = State::Draining;
        seats[1].state = State::Joining;
        assert_eq!(voters(&disks(&[1]), &seats, &BTreeSet::new()), disks(&[3]));
        seats[2].state = State::Draining;
        assert_eq!(voters(&disks(&[3]), &seats, &BTreeSet::new()), disks(&[3]), "somebody has to");
    }
}
