//! Workloads, by whom they are done, and what they should come to.
//!
//! A figure without a baseline of the same minute says more about the machine than about the engine. So
//! each workload is done by several models, on the very same data, and held against an oracle. A run is
//! told what to do by a [`Spec`] and says what came of it in an [`Outcome`]; who runs what, how often and in
//! which order, is the business of `starling compare`.
//!
//! ```
//! use bench::data::{Data, expected};
//! use bench::{Model, Spec, Workload};
//!
//! let spec = Spec {
//!     events: 1_000,
//!     threads: 2,
//!     seed: 7,
//!     ..Spec::new(Workload::KeyedCount, Model::Baseline)
//! };
//! let outcome = bench::by_hand::run(&spec).unwrap();
//! assert_eq!(outcome.answer, expected(&spec, &Data::new(&spec)));
//! ```

// What `#[derive(Event)]` names.
extern crate pe as starling;

pub mod actors;
pub mod by_hand;
pub mod data;
pub mod dataflow;
mod digest;
pub mod engine;
pub mod measure;
mod outcome;
mod process;
mod spec;
mod split;
mod table;
mod unsupported;
mod work;

pub use digest::digest;
pub use measure::{Latencies, Meter};
pub use outcome::{Acks, Join, Latency, Outcome, Traffic};
pub use process::Process;
pub use spec::{Model, Spec, Workload};
pub use unsupported::{Unsupported, models};
pub use work::{CHAIN, FAN_OUT, FAN_OUT_KEYS, TOP_WORDS, spread, step};

/// The compiler that built this.
pub const RUSTC: &str = env!("BENCH_RUSTC");
