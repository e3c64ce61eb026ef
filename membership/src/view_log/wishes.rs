//! What the nodes want of the next view.
//!
//! A cause for a view is often seen by a node that may not propose one: it wants to join, its slots have
//! installed, somebody deployed a topology on it. So each node keeps telling the voters all that it
//! wants, whole and not piece by piece, until a view heeds it. Wishes are hints: losing one costs time,
//! and believing an old one costs a view that nobody needed.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{Body, DiskId, Head, LogId, SEATS_MAX, Seat, State};
use crate::{Epoch, Member, NodeId, Time};

/// All that a node wants of the next view.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Wish<C> {
    /// Grows with each change in one run, so that a late message does not bring an old wish back.
    pub count: u64,
    /// The node as it is now.
    pub member: Member,
    /// Its disk and logs.
    pub log: LogId,
    /// How far it wants to have come.
    pub state: State,
    /// What else it wants.
    pub causes: Vec<C>,
}

impl<C> Wish<C> {
    fn disk(&self) -> DiskId {
        self.log.disk
    }

    fn is_older_than(&self, other: &Self) -> bool {
        let age = |wish: &Self| (wish.member.run, wish.count);
        self.disk() == other.disk() && age(self) < age(other)
    }
}

/// The wishes of all nodes, ours included.
#[derive(Debug)]
pub(super) struct Wishes<B: Body> {
    /// By node; whether the node has shown that it hears the cluster.
    known: BTreeMap<NodeId, (Wish<B::Cause>, bool)>,
}

/// Twice as many as there can be members: those, and as many who want to be.
const WISHES_MAX: usize = SEATS_MAX * 2;

impl<B: Body> Wishes<B> {
    pub(super) fn new(node: NodeId, own: Wish<B::Cause>) -> Self {
        Self { known: BTreeMap::from([(node, (own, true))]) }
    }

    pub(super) fn of(&self, node: NodeId) -> Option<&Wish<B::Cause>> {
        self.known.get(&node).map(|(wish, _)| wish)
    }

    /// Takes over what a node wants; whether there was room.
    pub(super) fn take(&mut self, node: NodeId, wish: Wish<B::Cause>, hears_us: bool) -> bool {
        let known = self.known.get(&node).map(|(known, _)| known);
        if known.is_none() && self.known.len() >= WISHES_MAX {
            return false;
        }
        if !known.is_some_and(|known| wish.is_older_than(known)) {
            self.known.insert(node, (wish, hears_us));
        }
        true
    }

    /// Changes our own wish.
    pub(super) fn change(&mut self, me: NodeId, change: impl FnOnce(&mut Wish<B::Cause>)) {
        if let Some((own, _)) = self.known.get_mut(&me) {
            change(own);
            own.count += 1;
        }
    }

    /// Forgets the nodes that are no more, and the causes that were heeded.
    pub(super) fn prune(&mut self, head: &Head, body: &B, stays: impl Fn(NodeId) -> bool) {
        self.known.retain(|&node, _| stays(node));
        for (wish, _) in self.known.values_mut() {
            wish.causes.retain(|cause| body.wants(head, cause));
        }
    }

    /// What the nodes that count want beside seats.
    pub(super) fn causes(&self, counts: impl Fn(NodeId) -> bool) -> BTreeSet<B::Cause> {
        let all = self.known.iter().filter(|&(&node, _)| counts(node));
        all.flat_map(|(_, (wish, _))| &wish.causes).cloned().collect()
    }

    pub(super) fn has_causes(&self, counts: impl Fn(NodeId) -> bool) -> bool {
        self.known.iter().any(|(&node, (wish, _))| !wish.causes.is_empty() && counts(node))
    }

    /// The nodes that want a seat under a disk that has none, and hear the cluster.
    pub(super) fn newcomers<'a>(
        &'a self,
        head: &'a Head,
        body: &'a B,
    ) -> impl Iterator<Item = (NodeId, &'a Wish<B::Cause>)> {
        let wants_in = |node, wish: &Wish<B::Cause>| {
            // A later life may have the seat already.
            let is_latest = head.seat(node).is_none_or(|seat| seat.member.run < wish.member.run);
            let stays = wish.state != State::Draining || body.wants_back(head, wish.log);
            is_latest && head.seat_of(wish.disk()).is_none() && stays
        };
        let all = self.known.iter();
        let all = all.filter(move |&(&node, (wish, hears))| *hears && wants_in(node, wish));
        all.map(|(&node, (wish, _))| (node, wish))
    }
}

/// The seat of a newcomer.
pub(super) fn joining<C>(wish: &Wish<C>, number: Epoch) -> Seat {
    let Wish { member, log, .. } = wish;
    Seat { member: member.clone(), log: *log, state: State::Joining, since: number }
}

/// What a seat becomes by the wish of who has it, in the view of that number.
///
/// A restart alone changes nothing: were it otherwise, a cold restart could not go on in its old view.
pub(super) fn heed<C>(seat: &Seat, wish: &Wish<C>, number: Epoch) -> Seat {
    let is_of_now = wish.disk() == seat.disk() && wish.member.run >= seat.member.run;
    if !is_of_now {
        return seat.clone();
    }
    let state = if wish.state == State::Joining { seat.state } else { wish.state };
    let same_run = Member { run: seat.member.run, ..wish.member.clone() };
    if same_run == seat.member && wish.log == seat.log {
        return Seat { state, ..seat.clone() };
    }
    let since = if wish.log == seat.log { seat.since } else { number };
    Seat { member: wish.member.clone(), log: wish.log, state, since }
}

/// When the first newcomer that has to wait may come in.
pub(super) fn next_welcome(now: Time, times: impl Iterator<Item = Time>) -> Option<Time> {
    times.filter(|at| *at > now).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Run;
    use crate::view_log::tests::{Notes, seat, view};

    fn wish(node: u64, run: u64, count: u64) -> Wish<u32> {
        let Seat { mut member, log, .. } = seat(node, State::Active);
        member.run = Run(run);
        Wish { count, member, log, state: State::Active, causes: Vec::new() }
    }

    #[test]
    fn a_late_wish_does_not_replace_a_newer_one_of_the_same_disk() {
        let mut wishes = Wishes::<Notes>::new(NodeId(1), wish(1, 1, 0));
        for (given, kept) in
            [((1, 5), (1, 5)), ((1, 4), (1, 5)), ((2, 0), (2, 0)), ((1, 9), (2, 0))]
        {
            assert!(wishes.take(NodeId(2), wish(2, given.0, given.1), true));
            let known = wishes.of(NodeId(2)).unwrap();
            assert_eq!((known.member.run.0, known.count), kept);
        }
        let blank = Wish { log: LogId::synced(DiskId(77)), ..wish(2, 1, 0) };
        wishes.take(NodeId(2), blank.clone(), true);
        assert_eq!(wishes.of(NodeId(2)), Some(&blank), "a lost disk starts to count anew");
    }

    #[test]
    fn wishes_are_bounded() {
        let mut wishes = Wishes::<Notes>::new(NodeId(0), wish(0, 1, 0));
        let taken =
            (1..=2 * WISHES_MAX as u64).filter(|&n| wishes.take(NodeId(n), wish(n, 1, 0), true));
        assert_eq!(taken.count(), WISHES_MAX - 1);
        assert!(wishes.take(NodeId(1), wish(1, 1, 1), true), "who is known is heard");
    }

    #[test]
    fn a_restart_alone_changes_no_seat() {
        let before = seat(2, State::Active);
        let number = Epoch(8);
        assert_eq!(heed(&before, &wish(2, 9, 0), number), before);
        let drains = Wish { state: State::Draining, ..wish(2, 9, 0) };
        assert_eq!(
            heed(&before, &drains, number),
            Seat { state: State::Draining, ..before.clone() }
        );
        let unready = Wish { state: State::Joining, ..wish(2, 9, 0) };
        assert_eq!(heed(&before, &unready, number), before, "nobody goes back to joining");
        let mut moved = wish(2, 9, 0);
        moved.member.containers += 1;
        let expected = Seat { member: moved.member.clone(), ..before.clone() };
        assert_eq!(heed(&before, &moved, number), expected);
        let forgot = Wish { log: LogId::unsynced(DiskId(2), Run(9)), ..wish(2, 9, 0) };
        let expected = Seat {
            member: forgot.member.clone(),
            log: forgot.log,
            since: number,
            ..before.clone()
        };
        assert_eq!(heed(&before, &forgot, number), expected);
        let old =
            Seat { member: Member { run: Run(10), ..before.member.clone() }, ..before.clone() };
        assert_eq!(heed(&old, &drains, number), old, "a past life has no say");
        let elsewhere = Wish { log: LogId::synced(DiskId(77)), ..drains };
        assert_eq!(heed(&before, &elsewhere, number), before, "nor has another disk");
    }

    #[test]
    fn newcomers_hear_the_cluster_and_have_no_seat() {
        let view = view(3);
        let mut wishes = Wishes::<Notes>::new(NodeId(1), wish(1, 1, 0));
        wishes.take(NodeId(4), wish(4, 1, 0), true);
        wishes.take(NodeId(5), wish(5, 1, 0), false);
        wishes.take(NodeId(6), Wish { state: State::Draining, ..wish(6, 1, 0) }, true);
        let other_disk = |run, node| Wish { log: LogId::synced(DiskId(77)), ..wish(node, run, 0) };
        wishes.take(NodeId(2), other_disk(1, 2), true); // No later than who has the seat.
        wishes.take(NodeId(3), other_disk(2, 3), true);
        let nodes: Vec<_> =
            wishes.newcomers(&view.head, &view.body).map(|(node, _)| node.0).collect();
        assert_eq!(nodes, [3, 4]);
        let notes = Notes([60].into());
        let nodes: Vec<_> = wishes.newcomers(&view.head, &notes).map(|(node, _)| node.0).collect();
        assert_eq!(nodes, [3, 4, 6], "who leaves as well, if it is needed for that");
    }
}
