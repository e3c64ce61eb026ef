//! `starling sim`: whole clusters, each in one thread, in virtual time, in which things go wrong.
//!
//! A seed is a run, and a run that fails is a number that anybody can type again. So it is printed with
//! the invariant that was broken, as few faults as it takes, and the end of what happened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use sim::{Campaign, FaultKind, Flaw, Run, Scale, Stage, Totals};
use starling::cli::{Exit, Failure, output};

const EXAMPLES: &str = "Examples:
  starling sim --seeds 1000
  starling sim --seed 4711 --faults crash,partition,loss
  starling sim --break seal --seeds 200
  starling sim --delivery at-least-once --seeds 1000
  starling sim --delivery at-least-once --durability fsync --seeds 1000
  starling sim --nodes 200 --slots 4096 --scale --json

Exit code 1 says that an invariant was broken.";

/// What is promised for each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Promise {
    AtMostOnce,
    AtLeastOnce,
}

/// Where state is before anything that rests on it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Durability {
    Memory,
    Fsync,
}

/// How much of the trace of a run that failed is printed.
const LINES: usize = 60;

/// Runs clusters in virtual time in which things go wrong, and checks every step
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimArgs {
    /// The first seed; the same seed is the same run
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    seeds: u64,
    /// How many seeds run at a time; as many as there are processors if nothing is said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_024))]
    threads: Option<u16>,
    /// How many nodes there are at first
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1_000))]
    nodes: u16,
    /// How many slots; a power of two, at most 65536
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = slots)]
    slots: u32,
    /// What goes wrong, with commas; all of it if nothing is said
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    faults: Vec<FaultKind>,
    /// Plants a bug, to see that it is found
    #[arg(long = "break", value_name = "NAME")]
    flaw: Option<Flaw>,
    /// What is promised for each event: at-least-once reads what was lost again, and has nothing missing in the end;
    /// it is without `wipe` unless that is named, since partitions are lost with a disk
    #[arg(long, value_name = "MODE", default_value = "at-most-once")]
    delivery: Promise,
    /// Where state is before anything that rests on it is acknowledged: with fsync, all processes may end at once, disks
    /// rot and are full
    #[arg(long, value_name = "MODE", default_value = "memory")]
    durability: Durability,
    /// Shows what it costs to be many, in place of runs with faults
    #[arg(long, conflicts_with_all = ["faults", "flaw", "seeds", "threads"])]
    scale: bool,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

fn slots(text: &str) -> Result<u32, String> {
    let slots: u32 = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_possible = slots.is_power_of_two() && slots <= 1 << 16;
    is_possible.then_some(slots).ok_or_else(|| "not a power of two up to 65536".to_owned())
}

#[expect(clippy::disallowed_methods, reason = "how long it took is shown")]
fn now() -> Instant {
    Instant::now()
}

impl SimArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if self.scale {
            self.scale();
            return Ok(());
        }
        let is_at_least_once = self.delivery == Promise::AtLeastOnce;
        if let Some(flaw) = self.flaw.filter(|flaw| flaw.is_of_acks() && !is_at_least_once) {
            let why = format!("`{flaw}` breaks nothing without `--delivery at-least-once`");
            return Err(Failure::new(Exit::Usage, why));
        }
        let is_durable = self.durability == Durability::Fsync;
        if let Some(flaw) = self.flaw.filter(|flaw| flaw.is_of_disks() && !is_durable) {
            let why = format!("`{flaw}` breaks nothing without `--durability fsync`");
            return Err(Failure::new(Exit::Usage, why));
        }
        // With its disk goes what a node knew of its partitions.
        let is_meant = |kind: &FaultKind| {
            (!is_at_least_once || *kind != FaultKind::Wipe) && (is_durable || !kind.needs_disks())
        };
        let all = || FaultKind::ALL.iter().copied().filter(is_meant).collect();
        let faults = if self.faults.is_empty() { all() } else { self.faults.clone() };
        let (nodes, slots, flaw) = (usize::from(self.nodes), self.slots, self.flaw);
        let has_acks = is_at_least_once;
        let campaign = Campaign { nodes, slots, faults, flaw, has_acks, is_durable };
        let begin = now();
        let (totals, failed) = self.run_all(&campaign);
        self.show(&totals, begin.elapsed());
        failed.map_or(Ok(()), |run| Err(self.failed(&campaign, &run)))
    }

    /// Runs seeds, several at a time, until one fails; what happened in them, and the lowest that failed.
    fn run_all(&self, campaign: &Campaign) -> (Totals, Option<Run>) {
        let end = self.seed.saturating_add(self.seeds);
        let next = AtomicU64::new(self.seed);
        // The lowest that is known to fail; those below it still run.
        let bound = AtomicU64::new(end);
        let all = Mutex::new((Totals::default(), None::<Run>));
        let work = || {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= bound.load(Ordering::Relaxed) {
                    break;
                }
                let run = campaign.run(seed);
                let (totals, failed) = &mut *all.lock().unwrap_or_else(PoisonError::into_inner);
                totals.add(&run.totals);
                if run.violation.is_some() {
                    bound.fetch_min(seed, Ordering::Relaxed);
                    if failed.as_ref().is_none_or(|failed| seed < failed.seed) {
                        *failed = Some(run);
                    }
                }
            }
        };
        let processors = || thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.map_or_else(processors, usize::from);
        thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
        all.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, totals: &Totals, took: Duration) {
        if self.json {
            return output::json(&figures(totals, took));
        }
        let figures = figures(totals, took);
        for (name, value) in figures.as_object().into_iter().flatten() {
            output::data(format_args!("{name:<16} {value}"));
        }
    }

    /// Shows as little as it takes to see the failure again.
    fn failed(&self, campaign: &Campaign, run: &Run) -> Failure {
        output::message(format_args!("seed {} fails; looking for fewer faults", run.seed));
        let shrunk = campaign.shrink(run);
        let violation = shrunk.violation.as_ref().or(run.violation.as_ref());
        let why = violation.map(ToString::to_string).unwrap_or_default();
        let faults: Vec<_> = shrunk.faults.iter().map(ToString::to_string).collect();
        let lines: Vec<_> = shrunk.trace.lines().collect();
        let end = &lines[lines.len().saturating_sub(LINES)..];
        if self.json {
            let invariant = violation.map(|violation| violation.invariant);
            output::json(&json!({
                "seed": run.seed, "invariant": invariant, "why": why, "faults": faults, "trace": end,
            }));
        } else {
            output::data(format_args!("seed {}: {why}", run.seed));
            output::data("faults");
            faults.iter().for_each(|fault| output::data(format_args!("  {fault}")));
            output::data("trace");
            end.iter().for_each(|line| output::data(format_args!("  {line}")));
        }
        Failure::new(Exit::Failure, format!("seed {}: {why}", run.seed))
    }

    fn scale(&self) {
        let (nodes, slots, seed) = (usize::from(self.nodes), self.slots, self.seed);
        let (begin, scale) = (now(), Scale { nodes, slots, seed });
        if self.json {
            let mut stages = Vec::new();
            scale.run(|stage| stages.push(stage_figures(&stage)));
            return output::json(&json!({
                "nodes": nodes, "slots": slots, "seed": seed, "stages": stages,
                "wall_s": begin.elapsed().as_secs_f64(),
            }));
        }
        output::data(
            "stage                  took_s   views   moved  fenced  msg/node/s  bytes/node/s",
        );
        scale.run(show_stage);
        output::message(format_args!("{:.1} s", begin.elapsed().as_secs_f64()));
    }
}

fn show_stage(stage: Stage) {
    let Stage { name, took, views, moved, fenced, messages, bytes } = stage;
    let took = took.map_or_else(|| "-".to_owned(), |took| format!("{:.1}", took.as_secs_f64()));
    output::data(format_args!(
        "{name:<20} {took:>8} {views:>7} {moved:>7} {fenced:>7} {messages:>11.1} {bytes:>13.0}"
    ));
}

fn stage_figures(stage: &Stage) -> serde_json::Value {
    let Stage { name, took, views, moved, fenced, messages, bytes } = stage;
    json!({
        "name": name, "took_s": took.map(|took| took.as_secs_f64()), "views": views, "moved": moved,
        "fenced": fenced, "messages_per_node_second": messages, "bytes_per_node_second": bytes,
    })
}

fn figures(totals: &Totals, took: Duration) -> serde_json::Value {
    json!({
        "seeds": totals.seeds,
        "virtual_s": totals.time.as_secs(),
        "steps": totals.steps,
        "events_emitted": totals.emitted,
        "events_applied": totals.applied,
        "faults": totals.faults,
        "crashes": totals.crashes,
        "restarts": totals.restarts,
        "handoffs": totals.handoffs,
        "losses": totals.losses,
        "views": totals.views,
        "messages": totals.messages,
        "message_bytes": totals.bytes,
        "frames": totals.frames,
        "frame_bytes": totals.frame_bytes,
        "barren": totals.barren,
        "wall_s": took.as_secs_f64(),
    })
}
