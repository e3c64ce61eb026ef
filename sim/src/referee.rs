//! What must hold of disks, messages and views, at each step.
//!
//! It sees what is synced, what is sent and what is installed, and nothing of the inside of a core. What is
//! decided it works out for itself: what a majority of the voters has on disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use membership::view_log::{Ballot, Digest, DiskId, Message as LogMessage, State, ViewId, Word};
use membership::{Epoch, NodeId, Time};
use node::{Assignment, Message, View};

use crate::disk::NodeRecord;
use crate::network::Letter;
use crate::violation::{Violation, holds};

/// How many of the last views are kept to be compared with.
const KEPT: usize = 64;

/// Who voted for the same: the view voted in, the ballot, and the value.
type Vote = (ViewId, Ballot, Digest);

/// Keeps the books of one world.
#[derive(Debug, Default)]
pub(crate) struct Referee {
    /// The last views that were decided.
    decided: BTreeMap<ViewId, Arc<View>>,
    votes: BTreeMap<Vote, BTreeSet<DiskId>>,
    /// The promise of a disk, and the view it was about.
    promised: BTreeMap<DiskId, (Option<ViewId>, Option<Ballot>)>,
    /// Seats taken away without having left, and members that count anew, so that events may be lost.
    pub(crate) fences: u64,
    /// How many views there were.
    pub(crate) views: u64,
}

impl Referee {
    /// The newest view that was decided.
    pub(crate) fn newest(&self) -> Option<&Arc<View>> {
        self.decided.last_key_value().map(|(_, view)| view)
    }

    /// A record is on disk; gives the view that is decided by that, if one is.
    pub(crate) fn written(
        &mut self,
        now: Time,
        record: &NodeRecord,
    ) -> Result<Option<Arc<View>>, Violation> {
        self.promises_and_views_never_fall(now, record)?;
        let mut news = None;
        if let Some(view) = &record.view {
            news = self.one_view_has_a_number(now, view)?;
        }
        if let (Some(view), Some((ballot, value))) = (&record.view, &record.accepted) {
            let id = (view.id(), *ballot, value.digest());
            if !self.votes.contains_key(&id) {
                a_vote_is_for_what_may_follow(now, view, value)?;
            }
            let voters = self.votes.entry(id).or_default();
            if view.head.is_voter(record.disk) {
                voters.insert(record.disk);
            }
            if voters.len() >= view.head.majority() {
                news = self.decide(now, value)?.or(news);
            }
        }
        Ok(news)
    }

    /// A view has been decided, here or there.
    fn decide(&mut self, now: Time, view: &Arc<View>) -> Result<Option<Arc<View>>, Violation> {
        if let Some(known) = self.decided.get(&view.id()) {
            let is_same = Arc::ptr_eq(known, view) || known == view;
            return holds("one_view_has_a_number", now, is_same, || {
                format!("two views are decided as {}", view.head.number)
            })
            .map(|()| None);
        }
        if let Some(before) = self.newest().cloned() {
            self.views_follow_each_other(now, &before, view)?;
        }
        self.views += 1;
        self.decided.insert(view.id(), Arc::clone(view));
        while self.decided.len() > KEPT {
            let old = self.decided.pop_first().map(|(id, _)| id);
            self.votes.retain(|(id, ..), _| Some(*id) > old);
        }
        Ok(Some(Arc::clone(view)))
    }

    /// A view on a disk was decided, and is the one that all have of that number.
    fn one_view_has_a_number(
        &mut self,
        now: Time,
        view: &Arc<View>,
    ) -> Result<Option<Arc<View>>, Violation> {
        let is_old = self.decided.first_key_value().is_some_and(|(first, _)| view.id() < *first);
        if is_old {
            return Ok(None); // Of a number that is not kept any more.
        }
        let is_first = view.head.number == Epoch(1);
        let is_known = self.decided.contains_key(&view.id());
        holds("a_view_was_decided", now, is_known || is_first, || {
            format!("view {} is on a disk and nobody decided it", view.head.number)
        })?;
        self.decide(now, view)
    }

    fn views_follow_each_other(
        &mut self,
        now: Time,
        before: &Arc<View>,
        view: &Arc<View>,
    ) -> Result<(), Violation> {
        let checked = before.check_next(view);
        holds("views_follow_each_other", now, checked.is_ok(), || {
            format!("view {} after {}: {checked:?}", view.head.number, before.head.number)
        })?;
        let is_fenced = |seat: &membership::view_log::Seat| {
            let after = view.head.seat_of(seat.disk()).filter(|after| after.log == seat.log);
            after.is_none() && seat.state != State::Draining
        };
        let fenced = before.head.seats.iter().filter(|seat| is_fenced(seat)).count();
        let anew = view.body.anew.iter().filter(|(_, since)| **since == view.head.number).count();
        self.fences += (fenced + anew) as u64;
        changes_move_their_part(now, before, view)
    }

    fn promises_and_views_never_fall(
        &mut self,
        now: Time,
        record: &NodeRecord,
    ) -> Result<(), Violation> {
        let after = (record.view.as_ref().map(|view| view.id()), record.promised);
        let before = self.promised.insert(record.disk, after);
        let invariant = "promises_and_views_never_fall";
        holds(invariant, now, before.is_none_or(|before| before <= after), || {
            format!("disk {} had {before:?} and has {after:?}", record.disk)
        })?;
        let voted = record.accepted.as_ref().map(|(ballot, _)| *ballot);
        holds(invariant, now, voted <= record.promised, || {
            format!("disk {} voted for {voted:?} and promised {:?}", record.disk, record.promised)
        })
    }

    /// A process with a disk has started: what it finds is what was written last.
    pub(crate) fn read(
        &mut self,
        now: Time,
        disk: DiskId,
        record: Option<&NodeRecord>,
    ) -> Result<(), Violation> {
        let found =
            record.map(|record| (record.view.as_ref().map(|view| view.id()), record.promised));
        let known = self.promised.get(&disk).copied();
        // A write that the process did not hear of may be there.
        let is_kept = found.unwrap_or_default() >= known.unwrap_or_default();
        holds("promises_and_views_never_fall", now, is_kept, || {
            format!("disk {disk} had {known:?} and {found:?} is read from it")
        })
    }
}

/// A join moves its part of the slots and nothing else, a leave its own: see design section 7.
fn changes_move_their_part(now: Time, before: &View, view: &View) -> Result<(), Violation> {
    let is_active = |view: &View, node: NodeId| {
        view.head.seat(node).is_some_and(|seat| seat.state == State::Active)
    };
    let nodes = |view: &View, other: &View| -> Vec<NodeId> {
        let active = view.head.seats.iter().map(|seat| seat.node());
        active.filter(|&node| is_active(view, node) && !is_active(other, node)).collect()
    };
    let (came, went) = (nodes(view, before), nodes(before, view));
    let is_same_log = |node: NodeId| {
        before.head.seat(node).map(|seat| seat.log) == view.head.seat(node).map(|seat| seat.log)
    };
    let kept = before
        .head
        .seats
        .iter()
        .all(|seat| !is_active(view, seat.node()) || is_same_log(seat.node()));
    // What was on its way to somebody who goes may have to go elsewhere.
    let was_at_rest = before.body.moving() == 0;
    if came.len() + went.len() != 1
        || !kept
        || !was_at_rest
        || view.body.slots.len() != before.body.slots.len()
    {
        return Ok(());
    }
    let place = |view: &View, body: &Assignment, slot: usize| {
        let share = &body.slots[slot];
        let seated = |log: membership::view_log::LogId| {
            view.head.seat_of(log.disk).filter(|seat| seat.log == log).map(|seat| seat.node())
        };
        let next = share.next.as_ref().and_then(|next| seated(next.owner()));
        next.or_else(|| seated(share.active.owner()))
    };
    let slots = view.body.slots.len();
    let moved =
        (0..slots).map(|slot| (place(before, &before.body, slot), place(view, &view.body, slot)));
    let moved: Vec<_> = moved.filter(|(then, after)| then != after).collect();
    let active = view.head.seats.iter().filter(|seat| seat.state == State::Active).count().max(1);
    let part = (slots * 11).div_ceil(active * 10);
    let invariant = "changes_move_their_part";
    if let [node] = came[..] {
        let is_right = moved.iter().all(|(_, to)| *to == Some(node)) && moved.len() <= part;
        return holds(invariant, now, is_right, || {
            format!("{node} joins in view {} and moves {moved:?}, of {slots}", view.head.number)
        });
    }
    let node = went[0];
    let is_right = moved.iter().all(|(from, _)| *from == Some(node));
    holds(invariant, now, is_right, || {
        format!("{node} goes in view {} and moves {moved:?}, of {slots}", view.head.number)
    })
}

fn a_vote_is_for_what_may_follow(now: Time, view: &View, value: &View) -> Result<(), Violation> {
    let checked = view.check_next(value);
    holds("a_vote_is_for_what_may_follow", now, checked.is_ok(), || {
        format!("view {} after {}: {checked:?}", value.head.number, view.head.number)
    })
}

/// Whether what is sent rests on what is synced alone.
pub(crate) fn nothing_is_sent_before_it_is_on_disk(
    now: Time,
    record: Option<&NodeRecord>,
    letter: &Letter,
) -> Result<(), Violation> {
    let Letter::Control(Message::Log(message)) = letter else { return Ok(()) };
    holds("nothing_is_sent_before_it_is_on_disk", now, is_on_disk(record, message), || {
        let record = record.map(|record| {
            (record.view.as_ref().map(|view| view.id()), record.promised, record.accepted.is_some())
        });
        format!("{} at {:?} was sent, on disk is {record:?}", letter.kind(), message.at)
    })
}

fn is_on_disk(record: Option<&NodeRecord>, message: &LogMessage<Assignment>) -> bool {
    let on_disk = record.and_then(|record| record.view.as_ref()).map(|view| view.id());
    let said = message.at.map(|(_, id)| id);
    if said != on_disk {
        return said < on_disk; // About a number that is decided.
    }
    let promised = record.and_then(|record| record.promised);
    let voted = record.and_then(|record| record.accepted.as_ref()).map(|(ballot, _)| *ballot);
    match &message.word {
        Word::Promise(ballot, accepted) => {
            Some(*ballot) <= promised && accepted.as_ref().map(|(ballot, _)| *ballot) <= voted
        }
        Word::Accepted(ballot) => Some(*ballot) <= voted,
        Word::Decided(_)
        | Word::Here
        | Word::Ask
        | Word::Prepare(_)
        | Word::Accept(..)
        | Word::Beaten(..)
        | Word::Wish(_) => true,
    }
}
