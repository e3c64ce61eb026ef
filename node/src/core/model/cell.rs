//! A container, as far as a handoff knows one: a number for each unit, which writes add to.
//!
//! It answers at once. What its real like does with batches and chunks is checked where it lives.

use std::collections::{BTreeMap, BTreeSet};

use membership::Epoch;
use pe::{ChunkKind, Unit};

use super::super::{Input, View};
use super::LogId;

/// A slot and the view that assigned it.
pub(super) type Term = (u16, Epoch);

/// What a container holds of each unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    /// The units that it serves, each under the epoch of its set, with what they hold.
    pub(super) serves: BTreeMap<u16, (Epoch, u8)>,
    /// Those that are sealed.
    sealed: BTreeSet<u16>,
    /// What has come of those that are to be served.
    staged: BTreeMap<u16, u8>,
    /// Which units go out, by handoff, and whether what is copied ahead was asked for.
    going: BTreeMap<u64, (Vec<u16>, bool)>,
    /// What has come to its end here.
    pub(super) whole: BTreeSet<Term>,
    /// Whether units go without being sealed, which is a fault.
    is_hasty: bool,
}

impl Cell {
    pub(super) fn new(is_hasty: bool) -> Self {
        Self { is_hasty, ..Self::default() }
    }

    /// There is a new view; what it says is ours, `has` says as containers find out.
    pub(super) fn lay(&mut self, view: &View, has: impl Fn(u16) -> bool) {
        for (slot, share) in (0..).zip(&view.body.slots) {
            let epoch = share.active.epoch;
            if has(slot) {
                let staged = self.staged.remove(&slot).unwrap_or(0);
                self.serves.entry(slot).or_insert((epoch, staged)).0 = epoch;
            } else {
                self.serves.remove(&slot);
                self.sealed.remove(&slot);
            }
        }
    }

    /// One more event for a unit; whether it was taken.
    pub(super) fn write(&mut self, slot: u16) -> bool {
        let is_served = self.serves.contains_key(&slot) && !self.sealed.contains(&slot);
        if is_served {
            self.serves.entry(slot).and_modify(|(_, value)| *value += 1);
        }
        is_served
    }

    /// Does what the core says, and answers.
    pub(super) fn take(&mut self, input: pe::Input, view: &View, log: LogId) -> Option<Input> {
        match input {
            pe::Input::Copy { handoff, units } => {
                let slots = units.into_iter().filter_map(slot_of);
                self.going.insert(handoff, (slots.collect(), false));
                None
            }
            pe::Input::Seal(handoff) => {
                let slots = self.going.get(&handoff).into_iter().flat_map(|(slots, _)| slots);
                self.sealed.extend(slots.filter(|slot| self.serves.contains_key(slot)));
                None
            }
            pe::Input::Pull(handoff) => self.chunk(handoff),
            pe::Input::Release(handoff) => {
                let (slots, _) = self.going.remove(&handoff).unwrap_or_default();
                slots.iter().for_each(|slot| {
                    self.sealed.remove(slot);
                });
                None
            }
            pe::Input::Stage { handoff, bytes, .. } => {
                self.stage(&bytes, view, log);
                Some(Input::Staged { handoff, outcome: Ok(()) })
            }
            pe::Input::Discard(units) => {
                units.into_iter().filter_map(slot_of).for_each(|slot| {
                    self.staged.remove(&slot);
                });
                None
            }
            other => panic!("a handoff says nothing like {other:?}"),
        }
    }

    /// The next chunk: all that is there, once ahead and once sealed; the last byte says which.
    fn chunk(&mut self, handoff: u64) -> Option<Input> {
        let (slots, is_ahead) = self.going.get_mut(&handoff)?;
        let is_sealed = self.is_hasty || slots.iter().all(|slot| self.sealed.contains(slot));
        if *is_ahead && !is_sealed {
            return None; // Answered when they are sealed; here nobody asks before.
        }
        *is_ahead = true;
        let kind = if is_sealed { ChunkKind::End } else { ChunkKind::AheadEnd };
        let value = |slot: &u16| self.serves.get(slot).map_or(0, |(_, value)| *value);
        let rows = slots.iter().flat_map(|slot| [slot.to_le_bytes()[0], value(slot)]);
        let bytes = rows.chain([u8::from(is_sealed)]).collect();
        Some(Input::Chunk { handoff, kind, bytes })
    }

    fn stage(&mut self, bytes: &[u8], view: &View, log: LogId) {
        let (rows, is_end) = bytes.split_at(bytes.len() - 1);
        for row in rows.chunks(2) {
            let slot = u16::from(row[0]);
            self.staged.insert(slot, row[1]);
            let next = view.body.slots[usize::from(slot)].next.as_ref();
            if let Some(next) = next.filter(|next| next.owner() == log && is_end[0] == 1) {
                self.whole.insert((slot, next.epoch));
            }
        }
    }
}

fn slot_of(unit: Unit) -> Option<u16> {
    match unit {
        Unit::Slot(slot) => Some(slot),
        Unit::Task { .. } => None,
    }
}
