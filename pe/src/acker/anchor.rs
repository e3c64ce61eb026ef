//! An event whose ack is held back: its tree waits until the application says that it is done.

use serde::{Deserialize, Serialize};

/// What is owed for an event that a handler goes on with later, or that goes into a window.
///
/// It is part of the state of whoever holds it, so it moves with its instance. One that is dropped without
/// having been acked or failed keeps its tree from ever being complete; the spout reads it again when that is
/// found out.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[must_use = "a tree is not complete before its anchors are acked"]
pub struct Anchor {
    /// The tree; zero if nobody is told.
    pub(crate) root: u64,
    /// What is owed: the id of the anchor, and those of what was emitted for it, `XORed`. They are announced and
    /// done with in one word, so that the ledger cannot find zero in between.
    pub(crate) owed: u64,
}

impl Anchor {
    /// Whether a tree waits for this; not under at-most-once, nor for events that came of no tree.
    pub fn is_tracked(&self) -> bool {
        self.root != 0
    }
}
