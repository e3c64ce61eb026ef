//! Storm's model on this engine: bolts.
//!
//! A bolt has a fixed number of tasks (`parallelism` in the topology), an event goes to one of them by its
//! key (a grouping by fields), and each task keeps a map of its own of all the keys that come to it. So the
//! engine knows tasks and not keys: what it does for a key elsewhere, the map does here. What is computed is
//! the same as by one instance per key, and so is what is said of it at the end.
//!
//! A task moves as a whole, and only if all its keys fit into [`pe::STATE_MAX`] bytes.

mod ads;
mod numbers;
mod words;

pub(super) use ads::{CampaignBolt, JoinBolt};
pub(super) use numbers::CounterBolt;
pub(super) use words::{TellerBolt, WordCounterBolt};
