//! What figures are compared with.
//!
//! Each limit is a number of the claim or lies far from where figures of either answer do, so that the noise of
//! a shared machine does not decide. What was measured when limits were chosen is in `docs/performance.md`, section Verdicts.

/// With fewer turns an interval says next to nothing of the median.
pub(super) const TURNS_MIN: usize = 3;

/// From so many times the bytes of a bolt's entry on, an object per key costs memory. An actor takes some thirty.
pub(super) const COSTLY: f64 = 4.0;
/// Up to so many times its bytes an instance costs about what an entry does. A map that has just grown is
/// half empty, so less than two would be decided by the number of keys.
pub(super) const CHEAP: f64 = 2.5;
/// And below this an object per key would cost nothing, and the claim would be wrong.
pub(super) const FREE: f64 = 1.5;
/// The least share of a bolt's speed at which one instance per key is no loss to speak of.
pub(super) const NO_LOSS: f64 = 0.33;

/// From so many words an instance on it is one object for many.
pub(super) const MANY_WORDS: f64 = 100.0;
/// Messages of both shapes are as many if they differ by no more than this share.
pub(super) const SAME_MESSAGES: f64 = 0.1;

/// Up to so many bytes a tree a ledger is of the size claimed, 16; half of a map may be empty.
pub(super) const LEDGER_BYTES: f64 = 32.0;
/// From so many on it is not.
pub(super) const LEDGER_BYTES_WRONG: f64 = 64.0;
/// How many times the bytes of the smallest trees those of the largest may take, whatever the size.
pub(super) const LEDGER_GROWTH: f64 = 2.0;

/// Records a second that are good for a node, and how many cores such a node has.
pub(super) const GOOD_NODE: f64 = 1_000_000.0;
pub(super) const ACCEPTABLE_NODE: f64 = 500_000.0;
pub(super) const NODE_CORES: f64 = 24.0;

/// Fault tolerance that costs less than this share of the throughput costs less than claimed.
pub(super) const ACKS_CHEAP: f64 = 0.10;
/// What costs more than this costs more than claimed (15 %), or was ever published of Storm (16.8 %).
pub(super) const ACKS_DEAR: f64 = 0.20;

/// "Tens of milliseconds", in microseconds: the 99th percentile is below this.
pub(super) const TENS_OF_MILLISECONDS: f64 = 100_000.0;
/// "Seconds".
pub(super) const SECONDS: f64 = 1_000_000.0;
