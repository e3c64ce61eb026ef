//! The topology as it is written down, before its names mean anything.
//!
//! Names carry their places, so that what turns out wrong later can still be pointed at. A value
//! can only come out of [`Topology::parse`], which is why the planner need not check again what
//! the reader has checked; a builder would have to come the same way.

use std::collections::BTreeMap;
use std::time::Duration;

use super::catalog::Catalog;
use super::diagnostic::Diagnostic;
use super::located::Located;
use super::params::ParamValue;
use super::plan::Plan;
use super::{planner, reader};
use crate::window::WindowSpec;

/// The longest name of a topology, stream, spout or PE; it becomes a label of metrics.
pub const NAME_BYTES_MAX: usize = 64;
/// How many spouts and PEs a topology may have; each is a host in every container.
pub const PROTOTYPES_MAX: usize = 256;
/// How many edges a topology may have; each costs a lane per container.
pub const EDGES_MAX: usize = 1024;
/// The largest `parallelism`; each task has a place in the view.
pub const PARALLELISM_MAX: u32 = 4096;

/// Streams, spouts and PEs, and who emits and reads what.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Topology {
    /// What the cluster calls it.
    pub name: String,
    /// What is promised for each event.
    pub delivery: Delivery,
    /// How it is found out that events were lost; of no consequence under at-most-once.
    pub ack: AckPlan,
    /// What is said about streams; a stream need not be declared.
    pub streams: BTreeMap<String, StreamSpec>,
    /// The sources.
    pub spouts: BTreeMap<String, SpoutSpec>,
    /// Everything that reads a stream.
    pub pes: BTreeMap<String, PeSpec>,
}

impl Topology {
    /// Reads a topology file; all that is wrong with its declarations, in the order of the text.
    ///
    /// Whether names exist and fit together is seen by [`Topology::plan`] only.
    pub fn parse(text: &str) -> Result<Self, Vec<Diagnostic>> {
        reader::read(text)
    }

    /// Resolves every name, or says all that is wrong, in the order of the text.
    ///
    /// The same topology and catalog give the same plan on every node.
    pub fn plan(&self, catalog: &Catalog) -> Result<Plan, Vec<Diagnostic>> {
        planner::plan(self, catalog)
    }
}

/// What is promised for each event of a topology.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delivery {
    /// An event is handled once or, if something breaks, not at all.
    #[default]
    AtMostOnce,
    /// Each event of a spout, and all that came of it, is handled once at least: what may have been lost is
    /// read again.
    AtLeastOnce,
}

impl Delivery {
    /// How a file writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AtMostOnce => "at-most-once",
            Self::AtLeastOnce => "at-least-once",
        }
    }
}

/// How it is found out that events were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckPlan {
    /// How many events of a spout make a tree. One is Storm's: then one event is read again when something of
    /// it was lost. More cost less, and are read again together.
    pub granularity: u32,
    /// How many trees of a container may be pending before its spouts wait. Too few, and spouts wait for acks
    /// while there is room; too many, and more is read again when a node is lost.
    pub max_pending: u32,
    /// How long younger trees may be completed while nothing is heard of one before it is read again. It must be
    /// longer than anything holds an event back, such as a window.
    pub timeout: Duration,
    /// How often a tree is tried that fails for a reason of its own, before it is a dead letter.
    pub attempts: u32,
}

impl Default for AckPlan {
    fn default() -> Self {
        Self { granularity: 1, max_pending: 1 << 16, timeout: Duration::from_secs(30), attempts: 5 }
    }
}

/// The most events that make a tree.
pub const GRANULARITY_MAX: u32 = 1 << 16;
/// The most trees that may be pending in a container.
pub const PENDING_MAX: u32 = 1 << 20;

/// What is said about a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamSpec {
    /// What becomes of its events when a reader is behind.
    pub overflow: Overflow,
    pub(super) at: Located<()>,
}

/// What becomes of the events of a stream for a reader that is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Overflow {
    /// `block`: whoever emits is held back.
    #[default]
    Block,
    /// `shed`: they are dropped and counted, and nobody is held back.
    Shed,
    /// `spill`: they wait on disk, and nobody is held back before they are so many.
    Spill {
        /// `spill_mib`: MiB of them, in each container that emits them.
        mib: u32,
    },
}

/// How much of a stream waits on disk, unless a topology says otherwise.
pub(super) const SPILL_MIB: u32 = 1024;
/// The most that a topology may say.
pub(super) const SPILL_MIB_MAX: u32 = 1 << 20;

/// A declared source.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SpoutSpec {
    /// The registered type.
    pub type_name: Located<String>,
    /// What it is told.
    pub params: BTreeMap<Located<String>, Located<ParamValue>>,
    /// Where its events go; `None` for a type without outputs.
    pub emits: Option<Located<Emits>>,
    pub(super) at: Located<()>,
}

/// A declared PE.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PeSpec {
    /// The registered type.
    pub type_name: Located<String>,
    /// What it reads.
    pub inputs: Vec<InputSpec>,
    /// Where its events go; `None` for a type without outputs.
    pub emits: Option<Located<Emits>>,
    /// The number of instances; `None` if keys or nodes decide.
    pub parallelism: Option<u32>,
    /// What it is told.
    pub params: BTreeMap<Located<String>, Located<ParamValue>>,
    /// How often each instance is told the time.
    pub timer: Option<Duration>,
    /// When each instance is triggered.
    pub trigger: Option<Located<Trigger>>,
    /// Which windows each instance is given.
    pub window: Option<Located<WindowSpec>>,
    /// When what its instances have come to is written to their replicas, if not as soon as may be.
    pub checkpoint: Option<Located<Checkpoint>>,
    /// How many instances there may be, and how long they stay unused.
    pub memory: Option<Located<Memory>>,
    pub(super) at: Located<()>,
}

/// A declared input of a PE.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputSpec {
    /// The stream it reads.
    pub stream: Located<String>,
    /// The names of the fields that choose the instance; empty for no key.
    pub key: Vec<Located<String>>,
    /// How an event chooses its instance, if the file says so.
    pub grouping: Option<Located<StatedGrouping>>,
}

/// The groupings that a file can name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatedGrouping {
    /// `shuffle`: evenly over the instances.
    Shuffle,
    /// `none`: wherever the engine likes, which is `shuffle`.
    None,
    /// `load-aware-shuffle`: to the instance with the least on its way.
    LoadAwareShuffle,
    /// `local-or-shuffle`: to an instance in the same container; if there is none, on the same node; if
    /// there is none either, evenly over all. Without `parallelism` each container has an instance.
    LocalOrShuffle,
    /// `fields`: by key, to one of a fixed number of instances.
    Fields,
    /// `partial-key`: by key, to one of two of a fixed number of instances.
    PartialKey,
    /// `direct`: to the instance whose number is the key.
    Direct,
    /// `global`: to the first instance, always.
    Global,
    /// `all`: to every instance, a copy each.
    All,
    /// Any other name: one that the application may have registered.
    Named(String),
}

impl StatedGrouping {
    /// Those that every topology may name.
    pub(super) const SHIPPED: &[Self] = &[
        Self::Shuffle,
        Self::Fields,
        Self::Global,
        Self::LocalOrShuffle,
        Self::PartialKey,
        Self::All,
        Self::None,
        Self::Direct,
        Self::LoadAwareShuffle,
    ];

    /// What a file means by a name.
    pub fn of(name: &str) -> Self {
        let shipped = Self::SHIPPED.iter().find(|grouping| grouping.as_str() == name);
        shipped.cloned().unwrap_or_else(|| Self::Named(name.to_owned()))
    }

    /// How a file writes it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Shuffle => "shuffle",
            Self::None => "none",
            Self::LoadAwareShuffle => "load-aware-shuffle",
            Self::LocalOrShuffle => "local-or-shuffle",
            Self::Fields => "fields",
            Self::PartialKey => "partial-key",
            Self::Direct => "direct",
            Self::Global => "global",
            Self::All => "all",
            Self::Named(name) => name,
        }
    }
}

/// Where the events of a spout or PE go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Emits {
    /// The only output goes into this stream.
    Stream(String),
    /// Each output, by the name of its event, goes into a stream.
    ByEvent(BTreeMap<Located<String>, Located<String>>),
}

/// When what the instances of a PE in a container have come to is written to their replicas: whichever comes first. S4
/// had both, for each prototype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// After so many events that they handled since they were last written.
    pub events: Option<u32>,
    /// After so much time since then.
    pub every: Option<Duration>,
}

/// Which keyed instances of a PE are given up, though they have not closed themselves: S4 had both, for each prototype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// With more in a container, those that were not used of late.
    pub max_instances: Option<u32>,
    /// Those that have had no event for so long.
    pub idle_after: Option<Duration>,
}

/// When an instance is triggered: whichever comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// After so many events.
    pub events: Option<u32>,
    /// After so much time.
    pub after: Option<Duration>,
}
