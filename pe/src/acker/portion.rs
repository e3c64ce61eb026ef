//! Portions: what a spout read in one go, so that it can be read again.
//!
//! A spout says where it stands behind each poll, not behind each event. So trees are counted from the start
//! of a portion: to read one again, the spout is opened at that start, and what comes before is left out.

use std::collections::BTreeMap;

use membership::Time;
use serde::{Deserialize, Serialize};

use super::Failure;
use crate::Position;

/// Where reading is to go on: so many events behind a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offset {
    /// Where a spout can be opened.
    pub(crate) position: Position,
    /// How many of the events from there on are done with.
    pub(crate) skip: u64,
}

/// What a spout read behind one position.
#[derive(Debug, Default)]
pub(crate) struct Portion {
    /// Which partition.
    pub(super) reading: u32,
    /// Where it begins.
    pub(super) start: Position,
    /// So many events at its start are left out.
    pub(super) from: u64,
    /// Events, also those that were left out.
    pub(super) events: u64,
    /// Trees of its first attempt, also those left out.
    pub(super) trees: u32,
    /// Trees that are not complete.
    pub(super) open: u32,
    /// The first trees, as far as all of them are complete.
    pub(super) done: u32,
    /// Whether more may follow.
    pub(super) is_growing: bool,
    /// The tree to which more is to be added, and its number.
    pub(super) growing: Option<(u16, u64)>,
    /// Trees that were given up, or planted again since.
    pub(super) retries: BTreeMap<u16, Retry>,
}

/// A tree that was given up once at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    /// How often for a reason of its own.
    pub(super) attempts: u32,
    pub(super) why: Failure,
    /// When it is read again; none while it is.
    pub(super) due: Option<Time>,
}

/// The partitions that are read here, as the ledger sees them.
#[derive(Debug)]
pub(super) struct Reading {
    /// The spout.
    pub(super) spout: u16,
    /// Its portions that are not complete, in order.
    pub(super) portions: std::collections::VecDeque<u32>,
    /// Behind its last event.
    pub(super) end: Position,
}
