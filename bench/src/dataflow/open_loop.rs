//! Events on a schedule, from the first worker to the last.
//!
//! As in timely's own `openloop`: the worker that reads steps the dataflow all the time and gives it all
//! events that are due, closing a time with them so that they leave at once. The others do not park.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use timely::dataflow::InputHandleVec;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::{Input, Operator};
use timely::worker::Worker;

use super::on_workers;
use crate::data::{due, keys};
use crate::measure::monotonic;
use crate::table::Table;
use crate::{Latencies, Meter, Outcome, Spec};

/// When an event was to be sent, in nanoseconds of the system's clock, and its key.
type Timed = (u64, u64);

/// [`OpenLoop`](crate::Workload::OpenLoop).
pub(super) fn run(spec: &Spec) -> Outcome {
    let keys = keys(spec);
    let meter = Meter::start();
    let (shared, rate) = (Arc::clone(&keys), spec.rate);
    let sinks = on_workers(spec.threads, move |worker| {
        let mine = if worker.index() == 0 { &**shared } else { &[] };
        count(worker, mine, rate)
    });
    let mut latencies = Latencies::new();
    sinks.iter().for_each(|(_, more)| latencies.add(more));
    let answer = sinks.iter().fold(0u64, |sum, (digest, _)| sum.wrapping_add(*digest));
    let outcome = meter.finish(keys.len() as u64, size_of_val(&**keys) as u64, answer);
    Outcome { latency: Some(latencies.finish()), ..outcome }
}

fn count(worker: &mut Worker, keys: &[u64], rate: u64) -> (u64, Latencies) {
    let sink = Rc::new(RefCell::new((Table::new(), Latencies::new())));
    let counts = Rc::clone(&sink);
    let mut input = InputHandleVec::new();
    let last = worker.peers() as u64 - 1;
    worker.dataflow(|scope| {
        let to_last = Exchange::new(move |_: &Timed| last);
        scope.input_from(&mut input).sink(to_last, "Count", move |(input, _)| {
            let (table, latencies) = &mut *counts.borrow_mut();
            input.for_each(|_, events| {
                for &(at, key) in events.iter() {
                    table.count(key);
                    latencies.record(monotonic().saturating_sub(Duration::from_nanos(at)));
                }
            });
        });
    });
    send(worker, input, keys, rate);
    while worker.step() {}
    let (table, latencies) = &*sink.borrow();
    (table.digest(), latencies.clone())
}

/// Gives the dataflow each event when it is due.
fn send(worker: &mut Worker, mut input: InputHandleVec<u64, Timed>, keys: &[u64], rate: u64) {
    let start = nanos(monotonic());
    let at = |number| start + nanos(due(number, rate));
    let mut events = (0..).zip(keys).map(|(number, &key)| (at(number), key)).peekable();
    while events.peek().is_some() {
        let now = nanos(monotonic());
        if let Some(first) = events.next_if(|&(at, _)| at <= now) {
            input.send(first);
            while let Some(event) = events.next_if(|&(at, _)| at <= now) {
                input.send(event);
            }
            // Now they leave; without them nobody has to hear of the time.
            input.advance_to(now);
        }
        worker.step();
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("centuries of nanoseconds")
}
