//! The workloads as timely dataflow programs.
//!
//! Timely is the engine to beat: containers of records between operators that are compiled in, no
//! dispatch for a record and no copy where an operator can take a container over. These programs use it
//! as its examples do: each worker has an input with its own part, records are exchanged by hash, and
//! the map is in the operator. It is the same map with the same hash as everybody's. Workers are fed in
//! rounds, so what is under way has a limit. Containers are timely's own, of about a thousand records,
//! and are allocated anew by whoever sends them to another worker.

mod chain;
mod keyed;
mod open_loop;
mod word_count;

use timely::Config;
use timely::container::CapacityContainerBuilder;
use timely::dataflow::channels::pact::ParallelizationContract;
use timely::dataflow::operators::{Operator, Probe};
use timely::dataflow::{InputHandleVec, ProbeHandle, StreamVec};
use timely::worker::Worker;

use crate::{Outcome, Spec, Unsupported, Workload};

/// Draws the data of a run, does it and says what it came to.
///
/// # Errors
///
/// If the workload has not been written for timely.
pub fn run(spec: &Spec) -> Result<Outcome, Unsupported> {
    match spec.workload {
        Workload::KeyedCount | Workload::HotKey => Ok(keyed::run(spec)),
        Workload::WordCount => Ok(word_count::run(spec)),
        Workload::Chain => Ok(chain::run(spec)),
        Workload::OpenLoop => Ok(open_loop::run(spec)),
        Workload::TopWords
        | Workload::ClickThrough
        | Workload::FanOut
        | Workload::Counters
        | Workload::StalledSink => Err(spec.into()),
    }
}

/// Runs a function on as many workers as asked for; gives what they returned.
fn on_workers<T: Send + 'static>(
    threads: usize,
    work: impl Fn(&mut Worker) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let guards = timely::execute(Config::process(threads.max(1)), work);
    let results = guards.expect("threads can be started").join();
    results.into_iter().map(|result| result.expect("no worker panics")).collect()
}

/// Records that a worker is given at a time.
const BATCH: usize = 1024;

/// Batches of a round.
const ROUND: u64 = 64;

/// Rounds that may be under way.
const UNDER_WAY: u64 = 4;

/// Feeds a worker until `fill` has nothing to fill a batch with, and runs it until all is done.
fn feed<D: Clone + 'static>(
    worker: &mut Worker,
    mut input: InputHandleVec<u64, D>,
    probe: &ProbeHandle<u64>,
    mut fill: impl FnMut(&mut Vec<D>),
) {
    let mut batch = Vec::with_capacity(BATCH);
    for number in 1u64.. {
        // What is left in it after it was sent is not ours.
        batch.clear();
        fill(&mut batch);
        if batch.is_empty() {
            break;
        }
        input.send_batch(&mut batch);
        worker.step();
        if number.is_multiple_of(ROUND) {
            let round = number / ROUND;
            input.advance_to(round);
            worker.step_while(|| probe.less_than(&round.saturating_sub(UNDER_WAY)));
        }
    }
    input.close();
    while worker.has_dataflows() {
        worker.step_or_park(None);
    }
}

/// Gives each container of a stream to a function; the probe sees when it has been.
fn give<D: 'static>(
    stream: StreamVec<'_, u64, D>,
    pact: impl ParallelizationContract<u64, Vec<D>>,
    probe: &ProbeHandle<u64>,
    mut take: impl FnMut(&mut Vec<D>) + 'static,
) {
    let nothing =
        stream.unary::<CapacityContainerBuilder<Vec<()>>, _, _, _>(pact, "Take", |_, _| {
            move |input, _| input.for_each(|_, records| take(records))
        });
    nothing.probe_with(probe);
}
