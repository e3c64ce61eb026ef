//! What of the instances is being copied ahead of a handoff, and what has changed since.
//!
//! Instances are copied in the order in which they lie while events go on changing them. What is touched,
//! made or removed meanwhile is noted by the hash of its key, and so is an instance that a removal moves
//! from where the copy has yet to come to where it has been. Noted ones are written last.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Mark;
use crate::units::Units;

/// A copy under way.
#[derive(Debug)]
pub(crate) struct Copying {
    /// The handoff that it is for.
    pub(crate) handoff: u64,
    /// What goes.
    pub(crate) units: Arc<Units>,
    /// How far what is dormant has been written: that goes first, since it may become an instance meanwhile.
    pub(crate) mark: Mark,
    /// The position that comes next; those before have been looked at.
    pub(crate) cursor: usize,
    /// What was noted, by hash.
    pub(crate) noted: BTreeSet<u64>,
    /// What had been noted when the copy began to write such.
    pub(crate) round: Option<BTreeSet<u64>>,
}

impl Copying {
    /// Nothing has been copied.
    pub(crate) fn new(handoff: u64, units: Arc<Units>) -> Self {
        Self { handoff, units, mark: (0, 0), cursor: 0, noted: BTreeSet::new(), round: None }
    }

    /// An instance with this hash is not what it was.
    pub(crate) fn note(&mut self, hash: u64) {
        if self.units.has_key(hash) {
            self.noted.insert(hash);
        }
    }

    /// An instance lies elsewhere now.
    pub(crate) fn moved(&mut self, hash: u64, from: usize, to: usize) {
        if to < self.cursor && self.cursor <= from {
            self.note(hash);
        }
    }
}
