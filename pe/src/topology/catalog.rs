//! What an application registered: the names that a topology may use as types.
//!
//! The planner must check a file without touching a Rust type, on any node and in `starling check`.
//! So registration boils each type down to its schemas and parameters, and this is all of it.

use std::collections::{BTreeMap, BTreeSet};

use routing::Schema;

use super::param::Param;

/// The types of PEs and of spouts, each under the name it was registered by, and the names of groupings.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// What `[pe.NAME] type` may say.
    pub pes: BTreeMap<String, PeSchema>,
    /// What `[spout.NAME] type` may say.
    pub spouts: BTreeMap<String, SpoutSchema>,
    /// What `grouping` may say beside the names that every topology has.
    pub groupings: BTreeSet<String>,
}

/// A type of PE.
#[derive(Clone, Debug)]
pub struct PeSchema {
    /// The events it takes.
    pub inputs: Accepts,
    /// The events it emits, in the order of `type Out`.
    pub outputs: Vec<Schema>,
    /// What it can be told.
    pub params: &'static [Param],
    /// Whether it is given windows of events, so that the file has to say which.
    pub is_windowed: bool,
}

/// A type of spout.
#[derive(Clone, Debug)]
pub struct SpoutSchema {
    /// The events it emits, in the order of `type Out`.
    pub outputs: Vec<Schema>,
    /// What it can be told.
    pub params: &'static [Param],
}

/// Which events a type of PE takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// Every event there is: a sink that looks at schemas.
    Any,
    /// These and no others.
    These(Vec<Schema>),
}

impl Accepts {
    /// Whether an event of this schema is taken.
    pub fn takes(&self, event: &Schema) -> bool {
        match self {
            Self::Any => true,
            Self::These(events) => events.contains(event),
        }
    }
}
