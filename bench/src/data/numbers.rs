//! Keys that are numbers.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;

use super::chunks::{Chunk, drawn};
use super::zipf::Zipf;
use crate::{Spec, Workload};

/// The different keys of a keyed workload if nothing else is said: 1 to this; of those skewed by Zipf's law
/// 1 is the most frequent.
pub const KEYS: u32 = 1_000_000;

/// The key of half of the events of [`HotKey`](Workload::HotKey); the others are 1 to [`KEYS`], or
/// as many as the run says.
pub const HOT_KEY: u64 = 0;

/// The keys, or numbers, of a workload, in the order in which they are read.
///
/// [`KeyedCount`](Workload::KeyedCount), [`OpenLoop`](Workload::OpenLoop) and
/// [`StalledSink`](Workload::StalledSink): 1 to [`KEYS`], skewed by Zipf's law with exponent 1; of the first
/// the run may say both. [`HotKey`](Workload::HotKey): [`HOT_KEY`] or, as often, any of 1 to [`KEYS`].
/// [`Counters`](Workload::Counters): 0 to the number of events, each once. All others: any number.
pub fn keys(spec: &Spec) -> Arc<Vec<u64>> {
    let events = usize::try_from(scheduled(spec)).expect("as many events as fit into memory");
    let draw = |draw: &(dyn Fn(Chunk, &mut Vec<u64>) + Sync)| {
        Arc::new(drawn(events, spec.seed, spec.threads, draw))
    };
    let keys = different(spec);
    match spec.workload {
        Workload::KeyedCount | Workload::OpenLoop | Workload::StalledSink => {
            let zipf = Zipf::new(keys, spec.skew.unwrap_or(1.0));
            draw(&|mut chunk, keys| {
                keys.extend((0..chunk.len).map(|_| zipf.sample(&mut chunk.rng) as u64 + 1));
            })
        }
        Workload::HotKey => draw(&|mut chunk, drawn| {
            drawn.extend((0..chunk.len).map(|_| {
                let key = chunk.rng.random_range(1..=u64::from(keys));
                if chunk.rng.random::<bool>() { HOT_KEY } else { key }
            }));
        }),
        Workload::Counters => draw(&|chunk, keys| {
            keys.extend(chunk.start..chunk.start + chunk.len as u64);
        }),
        Workload::Chain
        | Workload::FanOut
        | Workload::WordCount
        | Workload::TopWords
        | Workload::ClickThrough => draw(&|mut chunk, numbers| {
            numbers.extend((0..chunk.len).map(|_| chunk.rng.random::<u64>()));
        }),
    }
}

/// The different keys of a run, but for the hot one.
pub(super) fn different(spec: &Spec) -> u32 {
    spec.keys.unwrap_or(KEYS)
}

/// How many events a run reads: those that its rate and duration come to where it has a rate, else
/// those that it says.
pub fn scheduled(spec: &Spec) -> u64 {
    match spec.workload {
        Workload::OpenLoop => {
            let events = u128::from(spec.rate) * spec.duration.as_micros() / 1_000_000;
            u64::try_from(events).expect("as many events as can be counted")
        }
        Workload::KeyedCount
        | Workload::HotKey
        | Workload::WordCount
        | Workload::TopWords
        | Workload::ClickThrough
        | Workload::Chain
        | Workload::FanOut
        | Workload::Counters
        | Workload::StalledSink => spec.events,
    }
}

/// When an event of a schedule is due, after the first.
///
/// # Panics
///
/// At a rate of 0.
#[inline]
pub fn due(number: u64, rate: u64) -> Duration {
    let nanos = u128::from(number) * 1_000_000_000 / u128::from(rate);
    Duration::from_nanos(u64::try_from(nanos).expect("centuries of nanoseconds"))
}
