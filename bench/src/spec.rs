//! What one run does: a workload under a model, how much of it, and from which seed.
//!
//! Every run is a process of its own, so that its memory is its own; this is what the process is told.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// What is computed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// How often each of a million numbers was seen, skewed by Zipf's law with exponent 1, if nothing else is
    /// said.
    KeyedCount,
    /// The same, but half of all events are of one number, and the others even.
    HotKey,
    /// How often each word of a generated text was seen; 100,000 words, skewed, ten a line.
    WordCount,
    /// The hundred most frequent words, kept up to date with every count.
    TopWords,
    /// Clicks joined with the impressions that they belong to (synthetic).
    ClickThrough,
    /// Ten stateless steps, one after the other.
    Chain,
    /// Each event makes a hundred, counted by key.
    FanOut,
    /// Counters that are made and then sit there: what one costs in memory.
    Counters,
    /// Events on a schedule through one keyed PE to a sink: how late they arrive.
    OpenLoop,
    /// A sink that takes nothing: whether memory grows.
    StalledSink,
}

/// Who computes it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Threads and channels, written by hand for the workload.
    Baseline,
    /// A timely dataflow program.
    Timely,
    /// This engine, one instance per key.
    Keyed,
    /// Storm's model on this engine: a fixed number of tasks, each with a map of the keys that are its own.
    Bolt,
    /// One actix actor per key.
    Actor,
    /// This engine, the work of all steps in one (`chain` alone).
    OneStep,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spec {
    /// What.
    pub workload: Workload,
    /// By whom.
    pub model: Model,
    /// Events that are read; for a text what its bytes come to.
    pub events: u64,
    /// Bytes of text that are read, where the workload reads text.
    pub bytes: u64,
    /// Threads that compute, over all processes: one container each.
    pub threads: usize,
    /// Processes that share the work.
    pub processes: usize,
    /// Events a second, where they come on a schedule.
    pub rate: u64,
    /// How long, where that is not said by the number of events.
    pub duration: Duration,
    /// When another node joins, after the first event; open-loop with several processes only.
    pub join_at: Option<Duration>,
    /// How many different keys there are, if not as many as usual: of `keyed-count` and `hot-key`. Of
    /// `counters` there are as many as events.
    pub keys: Option<u32>,
    /// The exponent of Zipf's law by which the keys of `keyed-count` are skewed, if not 1; 0 is even.
    pub skew: Option<f64>,
    /// Of how many events an ack speaks, if trees are acknowledged and replayed: `at-least-once`. Engine only.
    pub acks: Option<u32>,
    /// How many nodes have the state of each key, where there are several processes. One unless it is said, since
    /// what the engine is compared with has no replicas.
    pub replicas: u32,
    /// Whether they are on disk before anything is acknowledged.
    pub is_durable: bool,
    /// After how many MiB their journals are cleaned, if not after as many as usual.
    pub journal_mib: Option<u32>,
    /// The same seed is the same data.
    pub seed: u64,
}

impl Spec {
    /// A run of nothing, by one thread of one process: all that is said of it is what and by whom.
    pub fn new(workload: Workload, model: Model) -> Self {
        Self {
            workload,
            model,
            events: 0,
            bytes: 0,
            threads: 1,
            processes: 1,
            rate: 1,
            duration: Duration::ZERO,
            join_at: None,
            keys: None,
            skew: None,
            acks: None,
            replicas: 1,
            is_durable: false,
            journal_mib: None,
            seed: 1,
        }
    }
}

impl Workload {
    /// Whether its events are the words of a text, of which bytes say how much there is.
    pub fn reads_text(self) -> bool {
        matches!(self, Self::WordCount | Self::TopWords)
    }

    /// Whether it can be said how many different keys there are.
    pub fn has_keys(self) -> bool {
        matches!(self, Self::KeyedCount | Self::HotKey | Self::Counters)
    }

    /// Whether it can be said how skewed keys are.
    pub fn has_skew(self) -> bool {
        self == Self::KeyedCount
    }
}

impl Model {
    /// Whether this engine runs it.
    pub fn is_engine(self) -> bool {
        matches!(self, Self::Keyed | Self::Bolt | Self::OneStep)
    }

    /// Whether this engine runs it on a topology whose delivery can be chosen.
    pub fn has_acks(self) -> bool {
        matches!(self, Self::Keyed | Self::Bolt)
    }
}
