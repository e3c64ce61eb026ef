//! What a log of slots should hold: the events that came in, or the states that they left behind.
//!
//! A log that lets keyed instances outlive their node can be written in two ways. The first keeps the batches
//! that came, and runs the handlers again to get the states back. The second keeps *deltas*: the states of the
//! instances that were touched, where the last one wins. A delta may be written behind every batch, or once for
//! all batches that go to disk together, which is what a *commit* is here. This measures what each of them
//! costs the container that writes it, how many bytes it comes to, and how long a rebuild from it takes.
//!
//! Events are a key of eight letters and a number. Columns, key hashes, frames with their checksums and the
//! encoding of states are those of the engine. The host is one of its own, since that of the engine shows its
//! instances to nobody: as there, instances lie in a vector in the order in which they were made, with an index
//! beside it that is asked by a ready hash. Records have the layout of those in the chunks of a handoff.
//! `cargo bench -p bench --bench instances` has the cost of an event in the engine's own host.
//!
//! ```text
//! cargo run --release -p bench --example slot_log [-- --quick] [--turns N] [--dir DIR]
//! ```
//!
//! Frames are sealed, written and synced by a second thread. While it is busy the container goes on, and waits
//! only when more than [`BACKLOG`] bytes have been logged. What is timed ends when all of it is on disk. The
//! ways take turns, and are compared within a turn. A cell has the median of the turns, with the lowest and the
//! highest in parentheses. Processor time suffers less than speed where the machine is shared; it is the median of
//! all runs that are synced.
//!
//! A rebuild is from a log of four events a key, each key's first one included, that lies in memory. It is
//! given in processor time of one thread.

#![expect(clippy::print_stdout, reason = "a table is what it is for")]

// What `#[derive(Event)]` names.
extern crate pe as starling;

mod host;
mod log;
mod table;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use bench::data::keys;
use bench::measure::{monotonic, processor};
use bench::{Model, Spec, Workload};
use clap::Parser;
use pe::Event;
use routing::{Batch, Columns, KeyFields, ROWS_MAX};
use rustix::time::{ClockId, clock_gettime};

use self::host::{Count, Host, Large, State, Wide};
use self::log::{BACKLOG, Log, Writer, write};
use self::table::{Figures, Line};

/// An event.
#[derive(Event)]
struct Hit {
    key: String,
    by: u64,
}

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Nothing: what the others are compared with.
    Nothing,
    /// Each batch that came.
    Inputs,
    /// Behind each batch the instances that it touched.
    EachBatch,
    /// The batch, and the instances that it touched.
    Both,
    /// At each commit the instances that were touched since the one before.
    EachCommit,
}

impl Way {
    const LOGS: [Self; 4] = [Self::Inputs, Self::EachBatch, Self::Both, Self::EachCommit];

    fn has_inputs(self) -> bool {
        matches!(self, Self::Inputs | Self::Both)
    }

    fn has_deltas_of_batches(self) -> bool {
        matches!(self, Self::EachBatch | Self::Both)
    }

    fn marks(self) -> bool {
        self.has_deltas_of_batches() || self == Self::EachCommit
    }
}

/// From one commit to the next, at least.
const COMMITS: [Duration; 3] =
    [Duration::from_millis(1), Duration::from_millis(10), Duration::from_millis(100)];

/// The commits of runs that are not synced.
const UNSYNCED: Duration = COMMITS[1];

/// Batches of a commit in the log of a rebuild: about what comes in ten milliseconds.
const BATCHES: usize = 64;

/// Events of a key in the log of a rebuild.
const HISTORY: usize = 4;

/// What to measure.
#[derive(Clone, Debug, Parser)]
struct Options {
    /// A thousandth of the keys and a turn of short runs: whether it works, not how fast
    #[arg(long)]
    quick: bool,
    /// How often each way is measured
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Where the log is written: on the disk that is meant
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    dir: PathBuf,
}

impl Options {
    fn keys(&self) -> u32 {
        if self.quick { 1_000 } else { 1_000_000 }
    }

    fn turns(&self) -> usize {
        if self.quick { 1 } else { self.turns.max(1) }
    }

    /// How long a run takes.
    fn length(&self) -> Duration {
        Duration::from_millis(if self.quick { 5 } else { 120 })
    }
}

fn main() {
    let options = Options::parse();
    table::HEAD.iter().for_each(|line| println!("{line}"));
    measure(&options, |line| println!("{line}"));
}

/// Measures every way for all kinds of keys and states.
fn measure(options: &Options, mut show: impl FnMut(Line)) {
    let path = options.dir.join(format!("slot-log-{}", std::process::id()));
    for skew in [0.0, 1.0] {
        group::<Count>(options, skew, &path, &mut show);
        group::<Wide>(options, skew, &path, &mut show);
        group::<Large>(options, skew, &path, &mut show);
    }
    // Where it was not made, there was nothing to measure.
    let _ = fs::remove_file(path);
}

/// Measures every way for one kind of keys and states.
fn group<S: State>(options: &Options, skew: f64, path: &Path, show: &mut impl FnMut(Line)) {
    let keys = options.keys() / S::FEWER_KEYS;
    let mut feed = Feed::new(keys, skew);
    let mut host = Host::<S>::default();
    feed.all_keys(keys, |batch| host.deliver::<false>(batch));

    let mut lines: Vec<Figures> = Way::LOGS.map(Figures::new).into();
    let mut nothing = Figures::new(Way::Nothing);
    for _ in 0..options.turns() {
        let mut run = |way, commit, is_synced| {
            let file = File::create(path).expect("the directory of the log can be written to");
            run(&mut host, &mut feed, way, (commit, is_synced), &file, options.length())
        };
        for figures in &mut lines {
            // Right before those that are compared with it: what else the machine does changes in seconds.
            let base = run(Way::Nothing, UNSYNCED, false);
            nothing.rates.push(base.rate);
            nothing.own_costs.push(base.own_cost);
            let unsynced = run(figures.way, UNSYNCED, false);
            figures.unsynced.push(unsynced.rate / base.rate);
            for (at, commit) in COMMITS.into_iter().enumerate() {
                let synced = run(figures.way, commit, true);
                figures.synced[at].push(synced.rate / base.rate);
                figures.bytes[at].push(synced.bytes);
                figures.own_costs.push(synced.own_cost - base.own_cost);
                figures.writer_costs.push(synced.writer_cost);
            }
        }
    }
    drop(host);
    rebuilds::<S>(options, keys, &mut feed, &mut lines);
    for figures in [nothing].into_iter().chain(lines) {
        show(Line { skew, state: S::NAME, figures });
    }
}

/// What a run came to.
struct Run {
    /// Events in a second.
    rate: f64,
    /// Bytes of the log for each event.
    bytes: f64,
    /// Nanoseconds of processor time for each event, of the container and of the writer.
    own_cost: f64,
    writer_cost: f64,
}

/// Handles events for a while, and logs them.
fn run<S: State>(
    host: &mut Host<S>,
    feed: &mut Feed,
    way: Way,
    (commit, is_synced): (Duration, bool),
    file: &File,
    length: Duration,
) -> Run {
    thread::scope(|scope| {
        let (mut writer, commits, done) = Writer::new();
        scope.spawn(move || write(file, is_synced, &commits, &done));
        let (mut log, mut events) = (Log::default(), 0);
        let (own, all, began) = (own_processor(), processor(), monotonic());
        let (mut now, mut committed) = (began, began);
        while now - began < length {
            events += handle(host, feed.next(), way, &mut log);
            now = monotonic();
            let is_due = now - committed >= commit && writer.is_idle();
            if way != Way::Nothing && (is_due || log.len() > BACKLOG) {
                host.commit(way, &mut log);
                writer.give(log.take());
                committed = now;
            }
        }
        host.commit(way, &mut log);
        let bytes = writer.finish(log.take());
        let (took, own, all) = (monotonic() - began, own_processor() - own, processor() - all);
        let events = events as f64;
        Run {
            rate: events / took.as_secs_f64(),
            bytes: bytes as f64 / events,
            own_cost: 1e9 * own.as_secs_f64() / events,
            writer_cost: 1e9 * all.saturating_sub(own).as_secs_f64() / events,
        }
    })
}

/// The processor time of this thread.
fn own_processor() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().expect("it starts at zero")
}

/// Handles a batch and logs it; says how many events it has.
fn handle<S: State>(host: &mut Host<S>, batch: &Batch<Hit>, way: Way, log: &mut Log) -> usize {
    if way.marks() {
        host.deliver::<true>(batch);
    } else {
        host.deliver::<false>(batch);
    }
    if way.has_inputs() {
        log.inputs(batch);
    }
    if way.has_deltas_of_batches() {
        host.write(log);
    }
    batch.len()
}

/// Measures how long it takes to come back to the states of a history from what was logged of it.
fn rebuilds<S: State>(options: &Options, keys: u32, feed: &mut Feed, lines: &mut [Figures]) {
    let histories: Vec<_> = [Way::Inputs, Way::EachBatch, Way::EachCommit]
        .into_iter()
        .map(|way| (way, history::<S>(keys, feed.clone(), way)))
        .collect();
    // They differ by more than turns do.
    for turn in 0..options.turns().min(3) {
        for (way, (frames, host)) in &histories {
            let figures = lines.iter_mut().find(|figures| figures.way == *way);
            let figures = figures.expect("each of them is a log");
            let rebuild = |is_newest_first| {
                let began = own_processor();
                let rebuilt = Host::<S>::rebuild(frames, is_newest_first);
                let seconds = (own_processor() - began).as_secs_f64();
                assert!(turn > 0 || rebuilt == *host, "{way:?} does not give back what was logged");
                seconds * 1e6 / f64::from(keys)
            };
            figures.rebuilt.push(rebuild(false));
            if !way.has_inputs() {
                figures.rebuilt_newest_first.push(rebuild(true));
            }
        }
    }
}

/// The log of a history, and what it has to come to.
fn history<S: State>(keys: u32, mut feed: Feed, way: Way) -> (Vec<bytes::Bytes>, Host<S>) {
    let (mut host, mut log, mut batches) = (Host::default(), Log::default(), 0);
    let mut take = |batch: &Batch<Hit>| {
        handle(&mut host, batch, way, &mut log);
        batches += 1;
        if batches % BATCHES == 0 {
            host.commit(way, &mut log);
        }
    };
    feed.all_keys(keys, &mut take);
    for _ in 0..(HISTORY - 1) * keys as usize / ROWS_MAX {
        take(feed.next());
    }
    host.commit(way, &mut log);
    (log::sealed(log.take()), host)
}

/// The events, in batches.
struct Feed {
    /// Their keys; behind the last comes the first again.
    keys: Arc<Vec<u64>>,
    at: usize,
    batch: Batch<Hit>,
    key: KeyFields,
}

impl Feed {
    fn new(different: u32, skew: f64) -> Self {
        let spec = Spec {
            // More than are handled between two commits, or there would be fewer keys than there are.
            events: 4 * u64::from(different),
            keys: Some(different),
            skew: Some(skew),
            threads: 1,
            seed: 7,
            ..Spec::new(Workload::KeyedCount, Model::Keyed)
        };
        Self { keys: keys(&spec), at: 0, batch: Batch::default(), key: KeyFields(vec![0]) }
    }

    /// Another that goes on from here.
    fn clone(&self) -> Self {
        let (keys, key) = (Arc::clone(&self.keys), self.key.clone());
        Self { keys, at: self.at, batch: Batch::default(), key }
    }

    /// The next batch.
    fn next(&mut self) -> &Batch<Hit> {
        self.batch.clear();
        for _ in 0..ROWS_MAX {
            let number = self.keys[self.at];
            self.at = if self.at + 1 == self.keys.len() { 0 } else { self.at + 1 };
            self.push(number);
        }
        self.batch.hash(&self.key);
        &self.batch
    }

    /// Shows batches of each key once.
    fn all_keys(&mut self, different: u32, mut each: impl FnMut(&Batch<Hit>)) {
        for first in (1..=different).step_by(ROWS_MAX) {
            self.batch.clear();
            let last = different.min(first + 1_023);
            (first..=last).for_each(|number| self.push(number.into()));
            self.batch.hash(&self.key);
            each(&self.batch);
        }
    }

    #[inline(always)]
    fn push(&mut self, number: u64) {
        let mut letters = [0; 8];
        for (at, letter) in letters.iter_mut().enumerate() {
            *letter = b'a' + (number >> (4 * at) & 15).to_le_bytes()[0];
        }
        let key = str::from_utf8(&letters).expect("letters");
        self.batch.columns.push(HitRef { key, by: number });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rebuilds are compared with what was logged while they are measured.
    #[test]
    fn every_way_is_measured_and_gives_back_what_was_logged() {
        let options = Options { quick: true, turns: 1, dir: std::env::temp_dir() };
        let mut lines = Vec::new();
        measure(&options, |line| lines.push(line.to_string()));
        assert_eq!(lines.len(), 2 * 3 * 5, "{lines:#?}");
    }
}
