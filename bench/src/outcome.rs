//! What one run came to.

use serde::{Deserialize, Serialize};

/// The result and the cost of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// From the first event read to the last result; without the making of the data.
    pub seconds: f64,
    /// Events that were read.
    pub events: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// A digest of the result; the oracle has the same.
    pub answer: u64,
    /// Seconds of processor time within `seconds`, user and system, over all threads.
    pub cpu_seconds: f64,
    /// The most memory that was resident, of all processes together.
    pub peak_rss_bytes: u64,
    /// What of that was there before the first event, the data above all.
    pub start_rss_bytes: u64,
    /// Bytes of memory for each key at rest, where the workload asks for it.
    pub bytes_per_key: Option<f64>,
    /// How late events arrived, where they came on a schedule; if a node joined, those of slots that stayed
    /// where they were, from when it listened until it had its part.
    pub latency: Option<Latency>,
    /// What came of the node that joined, if one did.
    pub join: Option<Join>,
    /// How events came to who handled them; the engine alone says that.
    pub traffic: Option<Traffic>,
    /// What acks cost, if trees were acknowledged.
    pub acks: Option<Acks>,
}

/// How events went through the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Events that PEs handled, all of them together.
    pub messages: u64,
    /// Events that were dropped, or given to a node that went before it had confirmed them.
    pub dropped: u64,
    /// Keys that an instance of the PE that counts had, on average.
    pub keys_per_instance: Option<f64>,
    /// Events that the busiest container counted, as a multiple of what each would have of even shares.
    pub busiest: Option<f64>,
}

/// What it cost to know of every event whether all that came of it was handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Acks {
    /// Trees that were completed.
    pub trees: u64,
    /// Events that were emitted again.
    pub replays: u64,
    /// Bytes of acks for each tree.
    pub ack_bytes_per_tree: Option<f64>,
    /// Bytes of the ledger for each tree that was pending when most were.
    pub ledger_bytes_per_tree: Option<f64>,
}

/// A node that joined a running cluster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Join {
    /// From when it listened until nothing moved any more.
    pub seconds: f64,
    /// How late events of the same slots had arrived in the time before, up to 30 seconds.
    pub before: Latency,
    /// How long the slots that moved stood still: the median, in microseconds.
    pub pause_median: f64,
    /// The longest.
    pub pause_worst: f64,
}

/// How late events arrived, behind the time at which they should have been sent.
///
/// Not behind the time at which they were: a sender that is held up would hide the delay of all that it
/// could not send meanwhile ("coordinated omission").
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the events were no later, in microseconds.
    pub p50: f64,
    /// 99 % were no later.
    pub p99: f64,
    /// 99.9 % were no later.
    pub p999: f64,
    /// The latest.
    pub max: f64,
}
