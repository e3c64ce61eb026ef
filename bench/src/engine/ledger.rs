//! What a process gathers from all its containers while it runs.
//!
//! Instances are made by the engine, on threads of its choosing, and an application has no way to hand
//! them anything but parameters of a topology. So what they share is the process's: the data before the
//! first event, and afterwards counts and sums. Nothing of it is touched per event.

use std::cell::RefCell;
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use membership::Time;
use serde::{Deserialize, Serialize};

use crate::Latencies;
use crate::data::Data;
use crate::measure::{monotonic, processor, resident};

static DATA: OnceLock<Data> = OnceLock::new();
static BEGINNING: OnceLock<(Moment, Used)> = OnceLock::new();
static ENDING: OnceLock<Moment> = OnceLock::new();
static EVENTS: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static ANSWER: AtomicU64 = AtomicU64::new(0);
static INSTANCES: AtomicU64 = AtomicU64::new(0);
static KEYS: AtomicU64 = AtomicU64::new(0);
static LOADS: Mutex<Vec<Arc<AtomicU64>>> = Mutex::new(Vec::new());
static LATENESS: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());
static ALL_SAMPLES: Mutex<Vec<Sample>> = Mutex::new(Vec::new());

/// What a node process knows at its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// What its instances add to the answer.
    pub answer: u64,
    /// Events that its spouts read.
    pub events: u64,
    /// Bytes that its spouts read.
    pub bytes: u64,
    /// When its spouts began, if it had any.
    pub beginning: Option<Moment>,
    /// A moment by two clocks, so that a time of the node can be told in that of the machine.
    pub clocks: Option<Moment>,
    /// What the process had used before its first event: for making the data, above all.
    pub before: Used,
    /// How late events were: the buckets of a histogram.
    pub lateness: Vec<(u64, u64)>,
    /// How late some events were, where it matters which and when.
    pub samples: Vec<Sample>,
    /// Instances of PEs that count.
    pub instances: u64,
    /// Keys that these counted for.
    pub keys: u64,
    /// Events that these counted, by container.
    pub loads: Vec<u64>,
}

/// How late an event was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The slot of its key.
    pub slot: u16,
    /// When it was applied: milliseconds of the clock that all processes of the machine share.
    pub at: u64,
    /// How late, in nanoseconds.
    pub late: u64,
}

/// One event of so many is a sample.
const SAMPLED: usize = 64;

/// What a container has sampled.
#[derive(Debug, Default)]
struct Samples {
    seen: usize,
    samples: Vec<Sample>,
}

thread_local! {
    static SAMPLES: RefCell<Samples> = RefCell::default();
    /// What this container has counted; there are a million instances, so without a lock for each.
    static LOAD: Arc<AtomicU64> = {
        let load = Arc::<AtomicU64>::default();
        LOADS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&load));
        load
    };
}

/// A moment, as the machine and as the node call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// By the clock that all processes of the machine share.
    pub machine: Duration,
    /// Since the start of the node.
    pub node: Duration,
}

/// What a process has used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Processor time.
    pub cpu: Duration,
    /// Bytes that are resident.
    pub resident: u64,
}

impl Moment {
    fn new(now: Time) -> Self {
        Self { machine: monotonic(), node: now.0 }
    }

    /// What the machine calls another time of the node.
    pub fn machine_at(self, node: Duration) -> Duration {
        (self.machine + node).saturating_sub(self.node)
    }
}

impl Used {
    /// By this process, until now. From now on its peak is counted anew, so that it is not that of what
    /// was before.
    pub(super) fn new() -> Self {
        // See proc_pid_clear_refs(5). Where it is not allowed, the peak includes what was before.
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self { cpu: processor(), resident: resident() }
    }
}

/// Puts the data where spouts find it; once, before any is opened.
pub(super) fn provide(data: Data) {
    DATA.set(data).expect("a process runs once");
}

/// The data of this process.
pub(super) fn data() -> &'static Data {
    DATA.get().expect("a node process makes its data before it runs")
}

/// Says that a spout is about to emit; the first of the process is the beginning.
pub(super) fn begin(now: Time) {
    BEGINNING.get_or_init(|| {
        let used = Used::new();
        // The clock last: it is what the rest is measured from.
        (Moment::new(now), used)
    });
}

/// Counts what a spout has read.
pub(super) fn read(events: usize, bytes: usize) {
    EVENTS.fetch_add(events as u64, Ordering::Relaxed);
    BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Adds to the answer, at the end of an instance.
pub(super) fn answer(part: u64, now: Time) {
    ENDING.get_or_init(|| Moment::new(now));
    ANSWER.fetch_add(part, Ordering::Relaxed);
}

/// Adds an instance to those that count, at its end: for so many keys, so many events.
pub(super) fn counted(keys: usize, events: u64) {
    INSTANCES.fetch_add(1, Ordering::Relaxed);
    KEYS.fetch_add(keys as u64, Ordering::Relaxed);
    LOAD.with(|load| load.fetch_add(events, Ordering::Relaxed));
}

/// Adds to how late events were, at the end of an instance.
pub(super) fn late(latencies: &Latencies) {
    LATENESS.lock().unwrap_or_else(PoisonError::into_inner).extend(latencies.buckets());
}

/// Takes a sample now and then; `due` is when the event was due.
#[inline]
pub(super) fn sample(slot: u16, due: Duration) {
    SAMPLES.with_borrow_mut(|samples| {
        samples.seen += 1;
        if samples.seen.is_multiple_of(SAMPLED) {
            let now = monotonic();
            let late = u64::try_from(now.saturating_sub(due).as_nanos()).unwrap_or(u64::MAX);
            let at = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
            samples.samples.push(Sample { slot, at, late });
        }
    });
}

/// Hands in the samples of a container, at the end of its instances.
pub(super) fn hand_in() {
    let samples = SAMPLES.with_borrow_mut(|samples| std::mem::take(&mut samples.samples));
    if !samples.is_empty() {
        ALL_SAMPLES.lock().unwrap_or_else(PoisonError::into_inner).extend(samples);
    }
}

/// What has been gathered by a process that had used so much before it ran.
pub(super) fn part(before: Used) -> Part {
    let beginning = BEGINNING.get().copied();
    Part {
        answer: ANSWER.load(Ordering::Relaxed),
        events: EVENTS.load(Ordering::Relaxed),
        bytes: BYTES.load(Ordering::Relaxed),
        beginning: beginning.map(|(at, _)| at),
        clocks: beginning.map(|(at, _)| at).or_else(|| ENDING.get().copied()),
        before: beginning.map_or(before, |(_, used)| used),
        lateness: LATENESS.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        samples: ALL_SAMPLES.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        instances: INSTANCES.load(Ordering::Relaxed),
        keys: KEYS.load(Ordering::Relaxed),
        loads: LOADS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .map(|load| load.load(Ordering::Relaxed))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_node_is_told_in_that_of_the_machine() {
        let nanos = Duration::from_nanos;
        let first = Moment { machine: nanos(1_000_000), node: nanos(300) };
        assert_eq!(first.machine_at(nanos(500)), nanos(1_000_200));
        assert_eq!(first.machine_at(nanos(100)), nanos(999_800));
    }
}
