//! Who has had which unit of ownership, by the views that were decided.
//!
//! A unit (a key slot, or a numbered instance) belongs to one log under each of its epochs, everywhere and
//! for ever. A deed also says how the unit came: from the deed before it, with all that it held, or from
//! nowhere, since what it held was lost.

use std::collections::BTreeMap;

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
}

/// The deeds of all units, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Deeds {
    of: BTreeMap<Unit, Vec<Deed>>,
    /// The epochs of next sets, as of the last view.
    next: BTreeMap<Unit, Epoch>,
    /// Units that went to another container with all they held.
    pub(crate) handoffs: u64,
    /// Units that began empty.
    pub(crate) losses: u64,
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
            deeds.push(Deed { epoch, log, node, container, by, from });
            let is_elsewhere =
                last.is_some_and(|last| (last.log, last.container) != (log, container));
            if is_handed_over && is_elsewhere {
                self.handoffs += 1;
                moved.push(unit);
            }
            self.losses += u64::from(last.is_some() && !is_handed_over);
        }
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
