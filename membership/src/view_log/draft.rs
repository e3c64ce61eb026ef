//! What the next view should hold, and when this node proposes it.
//!
//! Whatever is to change goes into one view: members that died, came, are ready or leave, and the causes
//! of all nodes. The voters take turns: the first that is there begins at once, each later one only if
//! those before it have done nothing, so that as a rule nobody is outbid.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::message::{Event, Word};
use super::proposer::Attempt;
use super::view::voters;
use super::wishes::{heed, joining, next_welcome};
use super::{Action, Body, DiskId, Epoch, Head, SEATS_MAX, Seat, State, View, ViewLog, Wish};
use crate::{NodeId, Time};

impl<B: Body> ViewLog<B> {
    /// The view to propose, if anything is to change.
    pub(super) fn draft(&self, now: Time) -> Option<Arc<View<B>>> {
        let view = self.record.view.as_ref()?;
        let seats = self.wanted_seats(now, view);
        let causes = self.wishes.causes(|node| self.counts(now, node));
        if seats == view.head.seats && causes.is_empty() {
            return None;
        }
        let next = self.following(view, seats, &causes);
        let is_change = next.head.seats != view.head.seats || next.body != view.body;
        is_change.then_some(next)
    }

    fn following(
        &self,
        view: &View<B>,
        seats: Vec<Seat>,
        causes: &BTreeSet<B::Cause>,
    ) -> Arc<View<B>> {
        let head = Head {
            number: Epoch(view.head.number.0 + 1),
            parent: view.digest(),
            voters: voters(&view.head.voters, &seats, &self.proposer.answered()),
            seats,
            lost: Vec::new(),
            ..view.head.clone()
        };
        let body = view.body.next(&view.head, &head, causes);
        Arc::new(View { head, body })
    }

    fn has_cause(&self, now: Time) -> bool {
        let Some(view) = &self.record.view else { return false };
        if !view.head.is_voter(self.log.disk) {
            return false; // It is not on us.
        }
        // A vote may have decided a view that nobody has learned of, and that nobody wants any more.
        self.record.accepted.is_some()
            || self.wishes.has_causes(|node| self.counts(now, node))
            || self.wanted_seats(now, view) != view.head.seats
    }

    /// Whether what a node wants is of weight: of the dead nobody wants anything.
    fn counts(&self, now: Time, node: NodeId) -> bool {
        !self.contacts.is_dead(now, node)
    }

    /// The members that there should be, ordered by node.
    fn wanted_seats(&self, now: Time, view: &View<B>) -> Vec<Seat> {
        let (head, number) = (&view.head, Epoch(view.head.number.0 + 1));
        let kept = head.seats.iter().filter(|seat| !self.contacts.is_dead(now, seat.node()));
        let kept = kept.map(|seat| (seat.node(), self.heeded(seat, number)));
        let mut seats: BTreeMap<_, _> = kept.collect();
        for (node, wish) in self.wishes.newcomers(head, &view.body) {
            let has_room = seats.len() < SEATS_MAX || seats.contains_key(&node);
            if has_room && self.may_join(now, head, &view.body, (node, wish)) {
                seats.insert(node, joining(wish, number));
            }
        }
        let is_drained = |seat: &Seat| {
            seat.state == State::Draining
                && head.seat_of(seat.disk()).is_some_and(|before| before.state == State::Draining)
                && !view.body.needs(head, seat.log)
        };
        let stays = |seat: &Seat| seat.state != State::Joining && !is_drained(seat);
        if seats.values().any(stays) {
            seats.retain(|_, seat| !is_drained(seat)); // Otherwise nobody would be left to decide.
        }
        seats.into_values().collect()
    }

    /// A seat as who has it wants it. Who joins has to have shown that it knows: one that died on its way
    /// in would otherwise become a voter before it is missed.
    fn heeded(&self, seat: &Seat, number: Epoch) -> Seat {
        let shown = self.contacts.view(seat.node()).map(|view| view.number);
        let is_here = seat.state != State::Joining || shown >= Some(seat.since);
        let wish = self.wishes.of(seat.node()).filter(|_| is_here);
        wish.map_or_else(|| seat.clone(), |wish| heed(seat, wish, number))
    }

    /// Whether a newcomer may come in: gossip has this life of it, and it has not come and gone too often.
    fn may_join(
        &self,
        now: Time,
        head: &Head,
        body: &B,
        (node, wish): (NodeId, &Wish<B::Cause>),
    ) -> bool {
        self.contacts.is_up_as(node, wish.member.run)
            && self.contacts.welcome_from(node, &self.config) <= now
            && body.admits(head, &wish.member)
    }

    /// The voters that may be there, in order: not down for long, and not known to have another disk.
    pub(super) fn live_voters<'a>(&'a self, head: &'a Head) -> impl Iterator<Item = DiskId> + 'a {
        head.voters.iter().copied().filter(|&disk| {
            head.seat_of(disk).is_some_and(|seat| {
                let wish = self.wishes.of(seat.node());
                !self.contacts.is_dead(self.now, seat.node())
                    && wish.is_none_or(|wish| wish.log.disk == disk)
            })
        })
    }

    /// When this node would begin an attempt.
    pub(super) fn propose_at(&self) -> Option<Time> {
        let head = &self.record.view.as_ref()?.head;
        let since = self.chores.cause_since.filter(|_| self.proposer.is_idle())?;
        let mut live = self.live_voters(head);
        let rank = live.position(|disk| disk == self.log.disk)?;
        let rank = u32::try_from(rank).expect("there are few voters");
        let members = u32::try_from(head.seats.len()).expect("there are at most SEATS_MAX");
        let gather = self.config.gather.max(self.config.gather_by_member * members);
        let turn = since + gather + self.config.rank_delay * rank;
        Some(turn.max(self.proposer.not_before))
    }

    /// When the next newcomer that has to wait may come in.
    pub(super) fn next_welcome(&self) -> Option<Time> {
        let view = self.record.view.as_ref()?;
        let times = self.wishes.newcomers(&view.head, &view.body);
        let times = times.map(|(node, _)| self.contacts.welcome_from(node, &self.config));
        next_welcome(self.now, times)
    }

    /// Looks at what has changed by the last input, or by time alone.
    pub(super) fn review(&mut self, now: Time, out: &mut Vec<Action<B>>) {
        let has_cause = self.has_cause(now);
        let since = self.chores.cause_since.unwrap_or(now);
        self.chores.cause_since = has_cause.then_some(since);
        if !has_cause && matches!(self.proposer.attempt, Attempt::Preparing(..)) {
            self.proposer.attempt = Attempt::None;
        }
        let wish = self.chores.wish.unwrap_or((now, self.config.retry));
        self.chores.wish = self.is_wanting().then_some(wish);
        self.tell_of_quorum(out);
        self.tell_of_damped(now, out);
    }

    /// Whether the view is not what this node wants.
    fn is_wanting(&self) -> bool {
        let (Some(view), Some(own)) = (&self.record.view, self.wishes.of(self.me.node)) else {
            return false;
        };
        let is_seated = match view.head.seat_of(self.log.disk) {
            Some(seat) => heed(seat, own, view.head.number) == *seat,
            None => own.state == State::Draining && !view.body.wants_back(&view.head, self.log),
        };
        !is_seated || !own.causes.is_empty()
    }

    fn tell_of_quorum(&mut self, out: &mut Vec<Action<B>>) {
        let Some((live, needed)) = self.quorum() else { return };
        let is_lost = live < needed;
        if is_lost != self.is.without_quorum {
            self.is.without_quorum = is_lost;
            let lost = Event::QuorumLost { live, needed };
            out.push(Action::Tell(if is_lost { lost } else { Event::QuorumBack }));
        }
    }

    fn tell_of_damped(&mut self, now: Time, out: &mut Vec<Action<B>>) {
        let Some(view) = self.record.view.clone() else { return };
        if !view.head.is_voter(self.log.disk) {
            return; // It does not wait for us.
        }
        let waiting = self.wishes.newcomers(&view.head, &view.body);
        let waiting =
            waiting.map(|(node, _)| (node, self.contacts.welcome_from(node, &self.config)));
        let waiting: Vec<_> = waiting.filter(|(_, from)| *from > now).collect();
        for (node, from) in waiting {
            if self.contacts.tell_damped(node) {
                let wait = u64::try_from((from - now).as_millis()).unwrap_or(u64::MAX);
                out.push(Action::Tell(Event::Damped(node, wait)));
            }
        }
    }

    /// Says that this node may end, once the others can go on without it: a majority of the voters has a
    /// view in which it is no member. Its own vote may have been needed for that view until then.
    pub(super) fn leave_if_allowed(&mut self, now: Time, out: &mut Vec<Action<B>>) {
        let is_leaving =
            self.wishes.of(self.me.node).is_some_and(|own| own.state == State::Draining);
        if !is_leaving || self.is.dismissed {
            return;
        }
        let Some(view) = &self.record.view else { return self.dismiss(out) };
        let (head, id) = (&view.head, view.id());
        if head.seats.len() == 1 && head.seat_of(self.log.disk).is_some() {
            return self.dismiss(out);
        }
        if head.seat_of(self.log.disk).is_some() || view.body.wants_back(head, self.log) {
            return;
        }
        let has_it = |node: &NodeId| self.contacts.view(*node) >= Some(id);
        let (told, untold): (Vec<_>, Vec<_>) = head.voter_nodes().partition(has_it);
        if told.len() >= head.majority() {
            return self.dismiss(out);
        }
        if self.chores.poll_at.is_none_or(|at| at <= now) {
            self.chores.poll_at = Some(now + self.config.retry);
            untold.into_iter().for_each(|node| self.send(node, Word::Ask));
        }
    }

    fn dismiss(&mut self, out: &mut Vec<Action<B>>) {
        self.is.dismissed = true;
        self.chores.poll_at = None;
        out.push(Action::Dismissed);
    }
}
