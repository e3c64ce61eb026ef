//! Workloads, and what they should come to.
//!
//! A figure without a baseline of the same minute says more about the machine than about the engine. So
//! a workload here is a seeded generator and an oracle, and what runs it runs a loop written by hand
//! beside the engine.
//!
//! ```
//! let keys: Vec<u64> = bench::Keys::new(7, 1000).take(5).collect();
//! assert_eq!(keys, bench::Keys::new(7, 1000).take(5).collect::<Vec<_>>());
//! assert!(keys.iter().all(|&key| key < 1000));
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
mod table;
mod unsupported;
mod work;

pub use digest::digest;
pub use measure::{Latencies, Meter};
pub use outcome::{Latency, Outcome};
pub use process::Process;
pub use spec::{Model, Spec, Workload};
pub use unsupported::{Unsupported, models};
pub use work::{CHAIN, FAN_OUT, FAN_OUT_KEYS, TOP_WORDS, spread, step};

/// The compiler that built this.
pub const RUSTC: &str = env!("BENCH_RUSTC");

/// Numbers below a bound, skewed as words are: the square of an even number between 0 and 1, twice over,
/// so that a few keys are very frequent. The same seed gives the same numbers for ever.
#[derive(Clone, Debug)]
pub struct Keys {
    state: u64,
    distinct: u64,
}

impl Keys {
    /// Keys below `distinct`, which is not zero.
    pub fn new(seed: u64, distinct: u64) -> Self {
        Self { state: seed | 1, distinct }
    }
}

impl Iterator for Keys {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        // Marsaglia's xorshift64*: enough for a workload.
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let even = u128::from(self.state.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let squared = (even * even) >> 64;
        let skewed = (squared * squared) >> 64;
        let key = (skewed * u128::from(self.distinct)) >> 64;
        Some(u64::try_from(key).expect("below a bound of 64 bits"))
    }
}
