//! Who has had which unit of ownership, by the views that were decided.
//!
//! A unit (a key slot, or a numbered instance) belongs to one log under each of its epochs, everywhere and
//! for ever. A deed also says how the unit came: from the deed before it, with all that it held, or from
//! nowhere, since what it held was lost.

use std::collections::{BTreeMap, BTreeSet};

use membership::view_log::{LogId, Seat};
use membership::{Epoch, NodeId, Time};
use node::View;
use pe::Unit;

use crate::violation::{Violation, holds};

/// A unit in one epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    pub(crate) epoch: Epoch,
    pub(crate) log: LogId,
    pub(crate) node: NodeId,
    pub(crate) container: u16,
    /// The view that made it so.
    pub(crate) by: Epoch,
    /// The epoch before, if what the unit held came from there.
    pub(crate) from: Option<Epoch>,
    /// Whether the owner before was gone, so that it came from a replica: without what had not been committed.
    pub(crate) is_takeover: bool,
}

/// The deeds of all units, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    of: BTreeMap<Unit, Vec<Deed>>,
    /// The epochs of next sets, as of the last view.
    next: BTreeMap<Unit, Epoch>,
    /// Units that went to another container with all they held.
    pub(crate) handoffs: u64,
    /// Units that began empty; how often that was, and which.
    pub(crate) losses: u64,
    pub(crate) lost: BTreeSet<Unit>,
    /// Units that went on from a replica, since their owner was gone.
    pub(crate) takeovers: u64,
    /// The members of the last view, and since when they are.
    pub(crate) seated: BTreeMap<LogId, Epoch>,
    /// Units whose owner was gone in the last view.
    waiting: BTreeSet<Unit>,
}

impl Deeds {
    /// Learns of the next view; gives the units that came to another container with what they held.
    pub(crate) fn learn(&mut self, now: Time, view: &View) -> Result<Vec<Unit>, Violation> {
        let mut moved = Vec::new();
        for (unit, share) in view.body.shares() {
            let deeds = self.of.entry(unit).or_default();
            let (epoch, log) = (share.active.epoch, share.active.owner());
            let next = share.next.as_ref().map(|next| next.epoch);
            let before =
                std::mem::replace(self.next.entry(unit).or_default(), next.unwrap_or_default());
            let last = deeds.last().copied();
            if let Some(known) = deeds.iter().rev().find(|deed| deed.epoch == epoch) {
                a_unit_has_one_owner_in_an_epoch(now, unit, known, log, share.active.container)?;
                if last.is_some_and(|last| last.epoch == epoch) {
                    continue;
                }
            }
            // Whoever was next and had installed has what the one before had; else nobody is left to ask.
            let is_handed_over = before == epoch;
            let from = last.filter(|_| is_handed_over).map(|last| last.epoch);
            let node = view.head.seat_of(log.disk).map_or(NodeId(0), Seat::node);
            let container = share.active.container;
            let by = view.head.number;
            let was_seated = last.is_some_and(|last| {
                view.head.seat_of(last.log.disk).is_some_and(|seat| seat.log == last.log)
            });
            let was_waiting = self.waiting.contains(&unit);
            let is_takeover = is_handed_over && (!was_seated || was_waiting);
            deeds.push(Deed { epoch, log, node, container, by, from, is_takeover });
            let is_elsewhere =
                last.is_some_and(|last| (last.log, last.container) != (log, container));
            if is_handed_over && is_elsewhere {
                self.handoffs += 1;
                moved.push(unit);
            }
            if last.is_some() && !is_handed_over {
                self.losses += 1;
                self.lost.insert(unit);
            }
            self.takeovers += u64::from(is_takeover);
        }
        let seats = view.head.seats.iter();
        self.seated = seats.map(|seat| (seat.log, view.body.since(seat))).collect();
        let has_it = |set: &node::Set| {
            let seat = view.head.seat_of(set.owner().disk);
            seat.is_some_and(|seat| seat.log == set.owner() && seat.since <= set.epoch)
        };
        let waiting = view.body.shares().filter(|(_, share)| !has_it(&share.active));
        self.waiting = waiting.map(|(unit, _)| unit).collect();
        Ok(moved)
    }

    /// Whose a unit is under a view.
    pub(crate) fn under(&self, unit: Unit, view: Epoch) -> Option<&Deed> {
        self.of.get(&unit)?.iter().rev().find(|deed| deed.by <= view)
    }

    /// The deed of a unit in an epoch.
    pub(crate) fn of(&self, unit: Unit, epoch: Epoch) -> Option<&Deed> {
        self.of.get(&unit)?.iter().rev().find(|deed| deed.epoch == epoch)
    }

    /// The epochs whose state a unit has in one of its epochs: that one, the one before, and so on.
    pub(crate) fn line(&self, unit: Unit, epoch: Epoch) -> impl Iterator<Item = Epoch> + '_ {
        let deeds = self.of.get(&unit).map_or(&[][..], Vec::as_slice);
        let from = move |epoch: &Epoch| {
            deeds.iter().find(|deed| deed.epoch == *epoch).and_then(|deed| deed.from)
        };
        std::iter::successors(Some(epoch), from)
    }
}

impl Deeds {
    /// The same as far as it was given by one who lived, so that it has all.
    pub(crate) fn given(&self, unit: Unit, epoch: Epoch) -> impl Iterator<Item = Epoch> + '_ {
        let is_takeover =
            move |epoch: Epoch| self.of(unit, epoch).is_some_and(|deed| deed.is_takeover);
        let mut is_over = false;
        self.line(unit, epoch).take_while(move |&epoch| {
            let was_over = is_over;
            is_over |= is_takeover(epoch);
            !was_over
        })
    }
}

fn a_unit_has_one_owner_in_an_epoch(
    now: Time,
    unit: Unit,
    known: &Deed,
    log: LogId,
    container: u16,
) -> Result<(), Violation> {
    let is_same = (known.log, known.container) == (log, container);
    holds("a_unit_has_one_owner_in_an_epoch", now, is_same, || {
        format!("{unit:?} in epoch {} is of {:?} and of {log:?}", known.epoch, known.log)
    })
}
