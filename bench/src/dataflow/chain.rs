//! Ten maps, one after the other.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::Input;
use timely::dataflow::operators::vec::Map;
use timely::dataflow::{InputHandleVec, ProbeHandle};
use timely::worker::Worker;

use super::{BATCH, feed, give, on_workers};
use crate::data::{keys, share};
use crate::{CHAIN, Meter, Outcome, Spec, step};

/// [`Chain`](crate::Workload::Chain).
pub(super) fn run(spec: &Spec) -> Outcome {
    let numbers = keys(spec);
    let meter = Meter::start();
    let shared = Arc::clone(&numbers);
    let sums = on_workers(spec.threads, move |worker| {
        let share = share(shared.len(), worker.index(), worker.peers());
        chain(worker, &shared[share])
    });
    let answer = sums.into_iter().fold(0, u64::wrapping_add);
    meter.finish(numbers.len() as u64, size_of_val(&**numbers) as u64, answer)
}

fn chain(worker: &mut Worker, numbers: &[u64]) -> u64 {
    let all = Rc::new(Cell::new(0u64));
    let sum = Rc::clone(&all);
    let (mut input, probe) = (InputHandleVec::new(), ProbeHandle::new());
    worker.dataflow(|scope| {
        let numbers = scope.input_from(&mut input);
        // In place: a container goes through all ten.
        let stepped = (0..CHAIN).fold(numbers, |numbers, which| {
            numbers.map_in_place(move |number| *number = step(*number, which))
        });
        give(stepped, Pipeline, &probe, move |numbers| {
            sum.set(numbers.iter().copied().fold(sum.get(), u64::wrapping_add));
        });
    });
    let mut batches = numbers.chunks(BATCH);
    feed(worker, input, &probe, |batch| {
        batch.extend_from_slice(batches.next().unwrap_or_default());
    });
    all.get()
}
