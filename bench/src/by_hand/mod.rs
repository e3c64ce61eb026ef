//! Threads and channels, written by hand for each workload.
//!
//! This is what an engine has to be compared with: the program that somebody would write who has one
//! job, one machine and a week. It keeps the division of labour of the engine, each key with one owner
//! among the threads, and drops all that the engine has for the sake of others: no topologies, no
//! placement, no failure, no end but that of the data.
//!
//! It is meant to be fast: keys travel in batches that come home to be filled again, the own share goes
//! nowhere, nothing is allocated for an event. Whoever finds a way to make it faster should.

mod chain;
mod clicks;
mod fan_out;
mod keyed;
mod mesh;
mod open_loop;
mod top_words;
mod word_count;
mod words;

pub use open_loop::{receive_from, send_over};

use crate::{Outcome, Spec, Unsupported, Workload};

/// Draws the data of a run, does it and says what it came to.
///
/// # Errors
///
/// If the workload has not been written by hand.
pub fn run(spec: &Spec) -> Result<Outcome, Unsupported> {
    match spec.workload {
        Workload::KeyedCount | Workload::HotKey | Workload::Counters => Ok(keyed::run(spec)),
        Workload::WordCount => Ok(word_count::run(spec)),
        Workload::TopWords => Ok(top_words::run(spec)),
        Workload::ClickThrough => Ok(clicks::run(spec)),
        Workload::Chain => Ok(chain::run(spec)),
        Workload::FanOut => Ok(fan_out::run(spec)),
        Workload::OpenLoop => Ok(open_loop::run(spec)),
        Workload::StalledSink => Err(spec.into()),
    }
}
