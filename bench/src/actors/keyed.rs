//! Counting keys: skewed ones, a hot one, and each once.

use std::sync::Arc;

use routing::Key;

use super::count;
use super::keeper::Filed;
use crate::data::{keys, share};
use crate::{Meter, Outcome, Spec, measure};

impl Filed for u64 {
    fn hash(&self) -> u64 {
        Key::hash(*self)
    }

    fn digest_hash(&self) -> u64 {
        Key::hash(*self)
    }
}

/// [`KeyedCount`](crate::Workload::KeyedCount), [`HotKey`](crate::Workload::HotKey) and
/// [`Counters`](crate::Workload::Counters).
pub(super) fn run(spec: &Spec) -> Outcome {
    let (keys, threads) = (keys(spec), spec.threads.max(1));
    let (meter, before) = (Meter::start(), measure::resident());
    let shared = Arc::clone(&keys);
    let part = move |number| {
        let keys = Arc::clone(&shared);
        share(keys.len(), number, threads).map(move |index| keys[index])
    };
    count(threads, part, |counted| {
        let outcome = meter.finish(counted.events, size_of_val(&**keys) as u64, counted.digest);
        Outcome { bytes_per_key: measure::per_key(before, counted.keys), ..outcome }
    })
}
