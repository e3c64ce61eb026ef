//! What a node does about a message.
//!
//! First the two find out who of them is behind, and help it. Only what is said by a node with the very
//! same view is about the number that we vote on: an acceptor that answered about another number would
//! forget what it promised about its own.

use std::cmp::Ordering;
use std::sync::Arc;

use super::record::Verdict;
use super::{
    Accepted, Action, Attempt, Ballot, Body, ClusterId, DiskId, Event, Message, Refusal, Unfit,
    View, ViewId, ViewLog, Wish, Word,
};
use crate::{Member, NodeId, Time};

/// How far a ballot may be above what was promised. A rival grows by one with each attempt that is
/// beaten; what is further away would bring the rounds to their end.
const ROUND_JUMP_MAX: u64 = 1 << 32;

/// How far a view may be ahead of ours. A recovery leaps by a 2^20.
const NUMBER_JUMP_MAX: u64 = 1 << 40;

impl<B: Body> ViewLog<B> {
    pub(super) fn hear(
        &mut self,
        now: Time,
        from: NodeId,
        message: Message<B>,
        out: &mut Vec<Action<B>>,
    ) {
        let Message { disk, at, word } = message;
        if let (Some((ours, _)), Some((theirs, _))) = (self.at(), at)
            && ours != theirs
        {
            return self.refuse(from, Refusal::Foreign(theirs), out);
        }
        let theirs = at.map(|(_, id)| id);
        self.contacts.saw(from, theirs);
        self.contacts.heard(now, from, self.config.stable_after);
        if let Some(waiting) = self.waiting.as_mut().filter(|_| theirs.is_none()) {
            waiting.heard_of_none(from);
        }
        match word {
            Word::Decided(view) => self.told(now, from, at, view, out),
            Word::Wish(wish) => self.wished(from, disk, wish, theirs.is_some(), out),
            Word::Here => {}
            // Who is behind is sent the view below, which answers it.
            Word::Ask if theirs >= self.id() => self.send(from, Word::Here),
            Word::Ask => {}
            Word::Prepare(_)
            | Word::Promise(..)
            | Word::Accept(..)
            | Word::Accepted(_)
            | Word::Beaten(..)
                if theirs.is_some() && theirs == self.id() =>
            {
                self.deliberate(now, (from, disk), word, out);
            }
            Word::Prepare(_)
            | Word::Promise(..)
            | Word::Accept(..)
            | Word::Accepted(_)
            | Word::Beaten(..) => {}
        }
        self.level(now, from, theirs);
    }

    /// Helps whoever of two is behind.
    fn level(&mut self, now: Time, from: NodeId, theirs: Option<ViewId>) {
        let ours = self.id();
        match theirs.cmp(&ours) {
            Ordering::Less => {
                self.send_view(now, from);
                // It may be a voter that we wait for.
                self.ask_voter(from);
            }
            Ordering::Greater => self.send(from, Word::Ask),
            Ordering::Equal => {}
        }
    }

    /// Somebody says that a view is decided.
    fn told(
        &mut self,
        now: Time,
        from: NodeId,
        at: Option<(ClusterId, ViewId)>,
        view: Arc<View<B>>,
        out: &mut Vec<Action<B>>,
    ) {
        if at != Some((view.head.cluster, view.id())) {
            return self.refuse(from, Refusal::Nonsense, out);
        }
        match self.is_newer(&view) {
            Ok(true) => self.learn(now, view),
            Ok(false) => {}
            Err(why) => self.refuse(from, why, out),
        }
    }

    /// Whether a view takes the place of ours.
    fn is_newer(&self, view: &View<B>) -> Result<bool, Refusal> {
        let Some(mine) = &self.record.view else {
            return view.check().map(|()| true).map_err(Refusal::Unfit);
        };
        let (old, new) = (mine.id(), view.id());
        if new.number == old.number && **mine != *view {
            return Err(Refusal::Conflict(new));
        }
        if new.number <= old.number {
            return Ok(false);
        }
        let step = new.number.0 - old.number.0;
        if step > NUMBER_JUMP_MAX {
            return Err(Refusal::Unfit(Unfit::Number(new.number)));
        }
        let is_next = step == 1 && new.generation == old.generation;
        let checked = if is_next { mine.check_next(view) } else { view.check() };
        checked.map(|()| true).map_err(Refusal::Unfit)
    }

    /// A node says what it wants.
    fn wished(
        &mut self,
        from: NodeId,
        disk: DiskId,
        mut wish: Wish<B::Cause>,
        hears_us: bool,
        out: &mut Vec<Action<B>>,
    ) {
        let Some(view) = &self.record.view else { return };
        let member = wish.member.clone().portable();
        let is_possible = member.node == from
            && wish.log.disk == disk
            && wish.log.run <= member.run
            && member.peer.len() <= Member::PEER_BYTES_MAX;
        if !is_possible {
            return self.refuse(from, Refusal::Seat(member.run), out);
        }
        wish.member = member;
        wish.causes.truncate(self.config.causes_max);
        wish.causes.retain(|cause| view.body.wants(&view.head, cause));
        let is_near = self.contacts.is_up(from) || view.head.seat(from).is_some();
        if is_near && !self.wishes.take(from, wish, hears_us) {
            self.refuse(from, Refusal::Full, out);
        }
    }

    /// Takes part in deciding the next view.
    fn deliberate(
        &mut self,
        now: Time,
        (from, disk): (NodeId, DiskId),
        word: Word<B>,
        out: &mut Vec<Action<B>>,
    ) {
        let Some(view) = self.record.view.clone() else { return };
        let seat = view.head.seat_of(disk).filter(|seat| seat.node() == from);
        if seat.is_none() || !view.head.is_voter(disk) {
            return self.refuse(from, Refusal::NotAVoter(disk), out);
        }
        if !view.head.is_voter(self.log.disk) {
            return; // Asked by mistake: our vote does not count.
        }
        match word {
            Word::Prepare(ballot) if self.is_possible(ballot, disk) => {
                self.prepare(now, from, ballot);
            }
            Word::Accept(ballot, value) if self.is_possible(ballot, disk) => {
                match view.check_next(&value) {
                    Ok(()) => self.accept(from, ballot, value, out),
                    Err(why) => self.refuse(from, Refusal::Unfit(why), out),
                }
            }
            Word::Prepare(ballot) | Word::Accept(ballot, _) => {
                self.refuse(from, Refusal::Ballot(ballot), out);
            }
            Word::Promise(ballot, accepted) => {
                let voted = accepted.as_ref().map_or(Ok(()), |(_, value)| view.check_next(value));
                match voted {
                    Ok(()) => self.promised(now, &view, disk, (ballot, accepted), out),
                    Err(why) => self.refuse(from, Refusal::Unfit(why), out),
                }
            }
            Word::Accepted(ballot) => {
                if let Some(value) = self.proposer.voted(&view.head, disk, ballot) {
                    self.decide(now, value);
                }
            }
            Word::Beaten(ballot, by) if self.proposer.is_mine(ballot) && by > ballot => {
                let chance = self.chance();
                self.proposer.beaten(now, by, &self.config, chance);
            }
            Word::Beaten(..) | Word::Decided(_) | Word::Here | Word::Ask | Word::Wish(_) => {}
        }
    }

    fn is_possible(&self, ballot: Ballot, proposer: DiskId) -> bool {
        let promised = self.record.promised.map_or(0, |promised| promised.round);
        ballot.disk == proposer && ballot.round <= promised + ROUND_JUMP_MAX
    }

    fn prepare(&mut self, now: Time, from: NodeId, ballot: Ballot) {
        let verdict = self.record.prepare(ballot);
        if verdict == Verdict::New {
            self.journal.touch();
        }
        if let Verdict::Beaten(by) = verdict {
            return self.send(from, Word::Beaten(ballot, by));
        }
        let accepted = self.record.accepted.clone();
        self.send(from, Word::Promise(ballot, accepted));
        if from != self.me.node {
            self.proposer.give_way(now, ballot, &self.config);
        }
    }

    fn accept(
        &mut self,
        from: NodeId,
        ballot: Ballot,
        value: Arc<View<B>>,
        out: &mut Vec<Action<B>>,
    ) {
        match self.record.accept(ballot, value) {
            Verdict::New => {
                self.journal.touch();
                self.send(from, Word::Accepted(ballot));
            }
            Verdict::Again => self.send(from, Word::Accepted(ballot)),
            Verdict::Beaten(by) => self.send(from, Word::Beaten(ballot, by)),
            Verdict::Reused => self.refuse(from, Refusal::Ballot(ballot), out),
        }
    }

    /// Counts a promise. With a majority, puts to the vote what may be decided already, and only where
    /// nothing may, what we want ourselves.
    fn promised(
        &mut self,
        now: Time,
        view: &View<B>,
        disk: DiskId,
        (ballot, accepted): (Ballot, Option<Accepted<B>>),
        out: &mut Vec<Action<B>>,
    ) {
        if !self.proposer.promised(&view.head, disk, ballot, accepted) {
            return;
        }
        let value = self.proposer.bound().or_else(|| self.draft(now));
        let unfit = value.as_ref().and_then(|value| view.check_next(value).err());
        match value {
            Some(value) if unfit.is_none() => {
                self.proposer.choose(now, value, &self.config);
                self.ask_voters();
            }
            Some(_) | None => {
                self.proposer.attempt = Attempt::None;
                self.proposer.not_before = now + self.config.retry;
            }
        }
        if let Some(why) = unfit {
            out.push(Action::Tell(Event::Unfit(why)));
        }
    }
}
