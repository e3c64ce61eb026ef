//! What is done with an event, where that is more than counting.
//!
//! All models do the same work with an event, so the work is here once; how it reaches the event is
//! theirs.

/// The steps of [`Chain`](crate::Workload::Chain).
pub const CHAIN: u32 = 10;

/// The numbers that an event of [`FanOut`](crate::Workload::FanOut) makes.
pub const FAN_OUT: u32 = 100;

/// How many different ones there are.
pub const FAN_OUT_KEYS: u64 = 65_536;

/// How many words [`TopWords`](crate::Workload::TopWords) keeps.
pub const TOP_WORDS: usize = 100;

/// Step number `which` of [`Chain`](crate::Workload::Chain): one round of multiplication and shifts, two
/// to three nanoseconds from its argument to its result.
///
/// The result of the workload is the wrapping sum over all numbers after steps 0 to [`CHAIN`] - 1.
#[inline(always)]
pub fn step(number: u64, which: u32) -> u64 {
    let mixed = (number ^ number >> 29 ^ u64::from(which)).wrapping_mul(0x1656_6791_9e37_79f9);
    mixed ^ mixed >> 32
}

/// Number `which` of the [`FAN_OUT`] that an event of [`FanOut`](crate::Workload::FanOut) makes, below
/// [`FAN_OUT_KEYS`].
#[inline(always)]
pub fn spread(number: u64, which: u32) -> u64 {
    let mixed = (number ^ u64::from(which) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 31) % FAN_OUT_KEYS
}
