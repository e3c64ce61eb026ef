//! A topology in which every name has become a number.
//!
//! Names are for people; the parts that run want positions in arrays, and want them equal on all
//! nodes. A plan is made once, is shown to be in order while it is made, and is then only read.

use std::time::Duration;

use routing::Schema;

use super::diagnostic::Diagnostic;
use super::model::{AckPlan, Checkpoint, Memory, Overflow, Trigger};
use super::params::Params;
use crate::window::WindowSpec;

/// A topology that can run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What the cluster calls it.
    pub name: String,
    /// Differs between any two plans that mean different things; equal for texts that differ in
    /// comments, in the order of keys or in the spelling of values.
    pub hash: u64,
    /// How it is found out that events were lost, under at-least-once.
    pub acks: Option<AckPlan>,
    /// All streams, by name.
    pub streams: Vec<StreamPlan>,
    /// The spouts by name, then the PEs by name.
    pub prototypes: Vec<Prototype>,
    /// Who feeds whom, in the order of the fields of [`Edge`].
    pub edges: Vec<Edge>,
    /// The length of the longest way through the topology, counted in prototypes; a cycle counts as one.
    pub stages: usize,
    /// What is probably not meant, though it can run.
    pub warnings: Vec<Diagnostic>,
}

impl Plan {
    /// Whether an edge is part of a cycle: any other leads to a later stage.
    pub fn is_cyclic(&self, edge: Edge) -> bool {
        self.prototypes[edge.from].stage == self.prototypes[edge.to].stage
    }
}

/// A stream and what flows in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPlan {
    /// Its name.
    pub name: String,
    /// The type of its events.
    pub event: Schema,
    /// What becomes of them when a reader is behind.
    pub overflow: Overflow,
}

/// A spout or a PE.
#[derive(Clone, Debug, PartialEq)]
pub struct Prototype {
    /// Its name; no spout and PE share one.
    pub name: String,
    /// The name its type was registered by.
    pub type_name: String,
    /// Whether it is a source.
    pub is_spout: bool,
    /// What it is told, defaults included.
    pub params: Params,
    /// What it reads, in the order of the file; empty for a spout.
    pub inputs: Vec<InputPlan>,
    /// The stream of each output of the type, in the order of `type Out`.
    pub outputs: Vec<usize>,
    /// How many instances there are.
    pub instances: InstancePlan,
    /// How often each instance is told the time.
    pub timer: Option<Duration>,
    /// When each instance is triggered.
    pub trigger: Option<Trigger>,
    /// The windows of each instance, if its type is windowed.
    pub window: Option<WindowSpec>,
    /// When what the instances have come to is written to their replicas, if not as soon as may be.
    pub checkpoint: Option<Checkpoint>,
    /// How many instances there may be, and how long they stay unused.
    pub memory: Option<Memory>,
    /// The longest distance from a spout; zero for a spout, and the same for all of one cycle.
    pub stage: usize,
}

/// An input of a PE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputPlan {
    /// The stream it reads.
    pub stream: usize,
    /// The positions of the fields that are the key; empty unless the grouping is by key.
    pub key: Vec<usize>,
    /// How an event chooses its instance.
    pub grouping: Grouping,
}

/// How an event chooses the instance that gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// It stays on the node where it was emitted.
    Local,
    /// By the hash of its key.
    Key,
    /// By its key, to the one of two instances that was given fewer events.
    PartialKey,
    /// To the instance whose number is its key, one unsigned integer.
    Direct,
    /// To the instance that a function of its key names, registered under this name.
    Named(String),
    /// Evenly over the instances.
    Shuffle,
    /// To the instance with the least on its way.
    LoadAwareShuffle,
    /// Evenly over the instances of this container, or of this node, or over all.
    LocalOrShuffle,
    /// To the first instance.
    Global,
    /// To every instance, a copy each.
    All,
}

/// How many instances a prototype has, and what decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstancePlan {
    /// One per partition of the source.
    Partitions,
    /// One per key.
    Keyed,
    /// As many as the file says.
    Tasks(u32),
    /// One per node.
    PerNode,
    /// One per container.
    PerContainer,
}

impl InstancePlan {
    /// How many numbered instances there are.
    pub fn tasks(self) -> u32 {
        match self {
            Self::Tasks(count) => count,
            Self::Partitions | Self::Keyed | Self::PerNode | Self::PerContainer => 0,
        }
    }
}

/// An output of a prototype that feeds an input of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The position of the prototype that emits.
    pub from: usize,
    /// Which of its outputs.
    pub output: usize,
    /// The position of the prototype that reads.
    pub to: usize,
    /// Which of its inputs.
    pub input: usize,
}
