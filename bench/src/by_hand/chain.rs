//! Ten steps, one after the other, in one loop.
//!
//! Nothing has to be at another thread, so nothing goes there, and nobody who writes it by hand stores
//! what is between two steps.

use std::thread;

use crate::data::{keys, share};
use crate::{CHAIN, Meter, Outcome, Spec, step};

/// [`Chain`](crate::Workload::Chain).
pub(super) fn run(spec: &Spec) -> Outcome {
    let numbers = keys(spec);
    let meter = Meter::start();
    let threads = spec.threads.max(1);
    let answer = thread::scope(|scope| {
        let shares = (0..threads).map(|me| &numbers[share(numbers.len(), me, threads)]);
        let handles: Vec<_> = shares.map(|share| scope.spawn(|| chain(share))).collect();
        let sums = handles.into_iter().map(|handle| handle.join().expect("no thread panics"));
        sums.fold(0, u64::wrapping_add)
    });
    meter.finish(numbers.len() as u64, size_of_val(&**numbers) as u64, answer)
}

fn chain(numbers: &[u64]) -> u64 {
    numbers.iter().fold(0, |sum, &number| sum.wrapping_add((0..CHAIN).fold(number, step)))
}
