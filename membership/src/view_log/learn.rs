//! What a new view means for this node: learning one, being told to go on without a majority, and
//! finding out that the others went on without us.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::RngExt;

use super::view::voters;
use super::{
    Action, Body, Epoch, Event, Generation, Head, Proposer, Seat, State, Unrecoverable, View,
    ViewLog,
};
use crate::{NodeId, Time};

/// How far a recovery leaps, at least. The lost majority may have decided views that nobody here has
/// heard of; the epochs of the new generation have to lie above theirs. It is a view a second for twelve
/// days. Up to as much again is left to chance, so that two sides that both recover do not use the same.
const RECOVERY_LEAP: u64 = 1 << 20;

impl<B: Body> ViewLog<B> {
    /// Takes a view that is decided and was checked.
    pub(super) fn learn(&mut self, now: Time, view: Arc<View<B>>) {
        let before = self.record.view.clone();
        self.record.learn(Arc::clone(&view));
        self.view_change = self.journal.touch();
        self.proposer = Proposer::new();
        self.waiting = None;
        let before = before.as_ref().map(|before| &before.head);
        self.contacts.follow(now, before, &view.head, &self.config);
        let (me, contacts) = (self.me.node, &self.contacts);
        let stays = |node| node == me || contacts.is_up(node) || view.head.seat(node).is_some();
        self.wishes.prune(&view.head, &view.body, stays);
        self.chores.cause_since = None;
        self.chores.wish = None;
        self.chores.poll_at = None;
    }

    /// A majority has voted for a view: it is decided, and everybody is told.
    pub(super) fn decide(&mut self, now: Time, view: Arc<View<B>>) {
        let before = self.record.view.clone();
        self.learn(now, Arc::clone(&view));
        let seats = before.iter().chain([&view]).flat_map(|view| &view.head.seats);
        let mut nodes: Vec<_> = seats.map(Seat::node).chain(self.contacts.live()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.retain(|&node| node != self.me.node);
        nodes.into_iter().for_each(|node| self.send_view(now, node));
    }

    /// Hands out the newest view when it is on disk, and what people must know of it.
    pub(super) fn publish(&mut self, out: &mut Vec<Action<B>>) {
        let Some(view) = self.record.view.clone() else { return };
        let is_known = self.installed.as_ref().is_some_and(|before| before.id() == view.id());
        if is_known || !self.journal.is_written(self.view_change) {
            return;
        }
        let before = self.installed.replace(Arc::clone(&view));
        let head = &view.head;
        if before.as_ref().is_some_and(|before| before.head.generation < head.generation) {
            let lost = head.lost.clone();
            out.push(Action::Tell(Event::Recovered { number: head.number, lost }));
        }
        let seat = head.seat(self.me.node);
        if seat.is_some_and(|seat| seat.member.run > self.me.run) {
            // On our disk or another: this process is a past life of the node.
            self.is.over = true;
            out.push(Action::Tell(Event::Superseded));
            return;
        }
        let disk = self.log.disk;
        let was_member = before.is_some_and(|before| before.head.seat_of(disk).is_some());
        let is_leaving =
            self.wishes.of(self.me.node).is_some_and(|own| own.state == State::Draining);
        if was_member && head.seat_of(disk).is_none() && !is_leaving {
            out.push(Action::Tell(Event::Fenced));
        }
        out.push(Action::Install(view));
    }

    /// Goes on without the members that are not there. What only they knew is lost.
    pub(super) fn recover(&mut self, now: Time, out: &mut Vec<Action<B>>) {
        let leap = RECOVERY_LEAP + self.rng.random_range(0..RECOVERY_LEAP);
        match self.recovery(leap) {
            Ok(view) => self.decide(now, view),
            Err(why) => out.push(Action::Tell(Event::NotRecovered(why))),
        }
    }

    fn recovery(&self, leap: u64) -> Result<Arc<View<B>>, Unrecoverable> {
        let view = self.record.view.as_ref().ok_or(Unrecoverable::NotAMember)?;
        let head = &view.head;
        if head.seat_of(self.log.disk).is_none() {
            return Err(Unrecoverable::NotAMember);
        }
        if self.quorum().is_some_and(|(live, needed)| live >= needed) {
            return Err(Unrecoverable::NotLost);
        }
        let is_there = |seat: &Seat| self.contacts.is_up(seat.node());
        let (mut seats, lost): (Vec<_>, Vec<_>) = head.seats.iter().cloned().partition(is_there);
        if seats.iter().all(|seat| seat.state == State::Joining) {
            let own = seats.iter_mut().find(|seat| seat.disk() == self.log.disk);
            own.ok_or(Unrecoverable::NotAMember)?.state = State::Active;
        }
        let count = head.generation.count.checked_add(1).ok_or(Unrecoverable::Unfit)?;
        let next = Head {
            generation: Generation { count, author: self.log.disk },
            number: Epoch(head.number.0 + leap),
            parent: view.digest(),
            voters: voters(&head.voters, &seats, &BTreeSet::new()),
            seats,
            lost: lost.iter().map(Seat::node).collect::<Vec<NodeId>>(),
            ..head.clone()
        };
        let body = view.body.recovered(head, &next);
        let recovered = Arc::new(View { head: next, body });
        recovered.check().map(|()| recovered).map_err(|_| Unrecoverable::Unfit)
    }
}
