//! Counting keys, skewed ones or a hot one.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use routing::Key;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::Input;
use timely::dataflow::{InputHandleVec, ProbeHandle};
use timely::worker::Worker;

use super::{BATCH, feed, give, on_workers};
use crate::data::{keys, share};
use crate::table::Table;
use crate::{Meter, Outcome, Spec};

/// [`KeyedCount`](crate::Workload::KeyedCount) and [`HotKey`](crate::Workload::HotKey).
pub(super) fn run(spec: &Spec) -> Outcome {
    let keys = keys(spec);
    let meter = Meter::start();
    let shared = Arc::clone(&keys);
    let digests = on_workers(spec.threads, move |worker| {
        let share = share(shared.len(), worker.index(), worker.peers());
        count(worker, &shared[share])
    });
    let answer = digests.into_iter().fold(0, u64::wrapping_add);
    meter.finish(keys.len() as u64, size_of_val(&**keys) as u64, answer)
}

fn count(worker: &mut Worker, keys: &[u64]) -> u64 {
    let table = Rc::new(RefCell::new(Table::new()));
    let counts = Rc::clone(&table);
    let (mut input, probe) = (InputHandleVec::new(), ProbeHandle::new());
    worker.dataflow(|scope| {
        // Not by the lower end of the hash, from which the map takes its buckets.
        let by_key = Exchange::new(|key: &u64| key.hash() >> 32);
        give(scope.input_from(&mut input), by_key, &probe, move |keys| {
            let mut counts = counts.borrow_mut();
            keys.iter().for_each(|&key| counts.count(key));
        });
    });
    let mut batches = keys.chunks(BATCH);
    feed(worker, input, &probe, |batch| {
        batch.extend_from_slice(batches.next().unwrap_or_default());
    });
    table.borrow().digest()
}
