//! Sets of units: what is handed over, what is sealed, what is staged.
//!
//! Whether a key is in a set is asked for each event while a handoff is under way, so slots are a flag
//! each; numbered instances are few.

use std::collections::BTreeSet;

use routing::Slot;

use crate::Unit;

/// Some units.
#[derive(Clone, Debug, Default)]
pub(crate) struct Units {
    all: BTreeSet<Unit>,
    /// By slot; empty as long as no slot was added.
    slots: Vec<bool>,
}

impl Units {
    /// Adds a unit of a cluster with so many slots.
    pub(crate) fn insert(&mut self, unit: Unit, slots: usize) {
        if let Unit::Slot(slot) = unit {
            self.slots.resize(slots, false);
            self.slots[usize::from(slot)] = true;
        }
        self.all.insert(unit);
    }

    /// Takes a unit out.
    pub(crate) fn remove(&mut self, unit: Unit) -> bool {
        if let Unit::Slot(slot) = unit
            && let Some(flag) = self.slots.get_mut(usize::from(slot))
        {
            *flag = false;
        }
        self.all.remove(&unit)
    }

    /// In order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Unit> + '_ {
        self.all.iter().copied()
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether a unit is among them.
    pub(crate) fn has(&self, unit: Unit) -> bool {
        self.all.contains(&unit)
    }

    /// Whether the slot of a key hash is among them.
    #[inline]
    pub(crate) fn has_key(&self, hash: u64) -> bool {
        !self.slots.is_empty() && self.slots[usize::from(Slot::of(hash, self.slots.len()).0)]
    }

    /// What of them is of one prototype.
    pub(crate) fn of(&self, (topology, prototype): (u16, usize)) -> Scope<'_> {
        let prototype = u16::try_from(prototype).expect("a plan has at most 1,024 prototypes");
        Scope { units: self, topology, prototype }
    }
}

/// Some units, as far as they are of one prototype.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'u> {
    units: &'u Units,
    topology: u16,
    prototype: u16,
}

impl Scope<'_> {
    /// Whether the key with a hash is among them.
    #[inline]
    pub(crate) fn has_key(&self, hash: u64) -> bool {
        self.units.has_key(hash)
    }

    /// Whether a numbered instance is.
    pub(crate) fn has_task(&self, task: u32) -> bool {
        let Self { topology, prototype, .. } = *self;
        self.units.has(Unit::Task { topology, prototype, task })
    }

    /// The numbered instances among them.
    pub(crate) fn tasks(&self) -> BTreeSet<u32> {
        let of_this = |unit| match unit {
            Unit::Task { topology, prototype, task } => {
                ((topology, prototype) == (self.topology, self.prototype)).then_some(task)
            }
            Unit::Slot(_) => None,
        };
        self.units.iter().filter_map(of_this).collect()
    }
}
