//! The workloads on this engine: real nodes, on topologies made of the spouts and PEs below.
//!
//! An engine inside the process that measures it would be measured without its network, its gossip and
//! its memory. So a run is one or more node processes as `starling node` runs them; this module is what
//! such a process does: it makes its data, registers the types, runs the topology of the workload until
//! its standard input is closed, and writes down what only it can know. Who starts the processes, watches
//! them and adds up what they say is not here.
//!
//! Spouts emit from memory, so that the engine is measured and not a generator. What instances have to
//! say at their end is gathered in one place of the process, and left there as a [`Part`].

mod ack_counts;
mod ads;
mod asked;
mod bolts;
mod chain;
mod counters;
mod ledger;
mod node;
mod schedule;
mod sources;
mod topology;
mod total;
mod words;

pub use ack_counts::AckCounts;
pub use asked::{STORM_GROUPINGS, has_grouping, refusal};
pub use ledger::{Moment, Part, Sample, Used};
pub use node::{NodeError, Order, run};
pub use total::{NodeEnd, total};

use pe::Registry;

/// The name of every topology of a comparison.
pub const TOPOLOGY: &str = "compare";

/// Adds the types that the topologies of the workloads name.
fn register(registry: Registry) -> Registry {
    registry
        .spout::<sources::Numbers>("numbers")
        .spout::<sources::Lines>("text")
        .spout::<ads::Ads>("ads")
        .spout::<schedule::Schedule>("schedule")
        .pe::<counters::Counter>("counter")
        .pe::<counters::Fan>("fan")
        .pe::<counters::Echo>("echo")
        .pe::<chain::Step>("step")
        .pe::<chain::AllSteps>("all-steps")
        .pe::<chain::Sum>("sum")
        .pe::<words::Splitter>("splitter")
        .pe::<words::WordCounter>("word-counter")
        .pe::<words::Teller>("teller")
        .pe::<words::TopK>("top-k")
        .pe::<words::TopKMerge>("top-k-merge")
        .pe::<ads::Join>("join")
        .pe::<ads::Campaign>("campaign")
        .pe::<bolts::CounterBolt>("counter-bolt")
        .pe::<bolts::WordCounterBolt>("word-counter-bolt")
        .pe::<bolts::TellerBolt>("teller-bolt")
        .pe::<bolts::JoinBolt>("join-bolt")
        .pe::<bolts::CampaignBolt>("campaign-bolt")
        .pe::<schedule::Relay>("relay")
        .pe::<schedule::Lateness>("lateness")
        .pe::<schedule::Watch>("watch")
}
