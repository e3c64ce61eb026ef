//! `starling compare`: one workload under several models, and what each makes of it.
//!
//! A figure without another of the same minute says more about the machine than about the engine. So
//! the models run in turns, A B C, A B C, ..., and are compared within a turn; and each run is a
//! process of its own, so that its memory is its own and nobody runs on what another has warmed up
//! or torn to pieces. Every result is held against a plain count.
//!
//! What a workload is and how the models do it is in the package `bench`. Here is who runs them, and what
//! is made of the outcomes.

mod child;
mod cluster;
mod environment;
mod figures;
mod pair;
mod progress;
mod report;
mod statistics;
mod turns;

use std::thread;
use std::time::Duration;

use bench::data::{Data, expected};
use bench::{Model, Spec, Unsupported, Workload};
use clap::{Args, ValueEnum};
use starling::cli::{Exit, Failure, output};

use environment::Environment;
use report::Report;

pub(crate) use child::{NodeArgs, RunArgs};
pub(crate) use pair::ReceiveArgs;

const EXAMPLES: &str = "Examples:
  starling compare --workload keyed-count --models baseline,timely,keyed
  starling compare --workload word-count --models baseline,keyed --bytes 100000000 --turns 9
  starling compare --workload open-loop --models keyed --processes 2 --rate 100000
  starling compare --workload open-loop --models keyed --processes 3 --threads 3 --seconds 60 --join-at 35 --turns 1
  starling compare --workload counters --models keyed,actor --json | jq '.models[].bytes_per_key'

Exit code 1 says that a result was wrong, 2 that a workload has not been written for a model.";

/// Runs a workload under several models in turns, and compares speed, memory and results
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// What is computed
    #[arg(long, value_name = "NAME")]
    workload: Workload,
    /// Who computes it, with commas; all for whom the workload has been written if nothing is said
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    models: Vec<Model>,
    /// To whom the others are compared; baseline if it is among them, else the first
    #[arg(long, value_name = "MODEL")]
    reference: Option<Model>,
    /// How many events are read, where that is not said by bytes or by a rate
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=EVENTS_MAX))]
    events: Option<u64>,
    /// How many bytes are read, where the workload reads text
    #[arg(long, value_name = "N", default_value_t = BYTES)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 36))]
    bytes: u64,
    /// How many threads compute, in all processes together; as many as there are cores if nothing is said
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// How many nodes the engine has, each a process; others have one, but for the baseline of open-loop
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=16))]
    processes: u16,
    /// How often each model runs, after a first time that does not count
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    turns: Option<u16>,
    /// Events a second, for open-loop
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rate: u64,
    /// How long, for open-loop (10 if nothing is said) and stalled-sink (60)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// When another node joins, in seconds after the first event: open-loop of the engine with several processes.
    /// Latencies are then those of slots that stay, while it joins and in the 30 s before
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    join_at: Option<u64>,
    /// The same seed is the same data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

/// The most events of a run: they are all in memory.
const EVENTS_MAX: u64 = 1 << 32;
/// How much text there is if nobody says otherwise.
const BYTES: u64 = 500_000_000;

impl CompareArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let models = self.models()?;
        let (spec, reference) = (self.spec(models[0])?, self.reference(&models)?);
        let environment = Environment::before();
        let expected = expected(&spec, &Data::new(&spec));
        let series = turns::run(&spec, &models, self.turns())?;
        let environment = environment.after();
        let report = Report { spec, expected, reference, series, environment };
        if self.json {
            output::json(&report.to_json());
        } else {
            report.lines().iter().for_each(output::data);
        }
        report.verdict()
    }

    /// Who runs; each once, and only those for whom the workload has been written.
    fn models(&self) -> Result<Vec<Model>, Failure> {
        let (workload, known) = (self.workload, bench::models(self.workload));
        if self.models.is_empty() {
            return Ok(known.to_vec());
        }
        for (at, &model) in self.models.iter().enumerate() {
            if !known.contains(&model) {
                return Err(unsupported(Unsupported { workload, model }));
            }
            if self.models[..at].contains(&model) {
                return Err(usage(format!("{} is named twice", name(&model))));
            }
        }
        Ok(self.models.clone())
    }

    fn reference(&self, models: &[Model]) -> Result<Model, Failure> {
        match self.reference {
            Some(model) if models.contains(&model) => Ok(model),
            Some(model) => Err(usage(format!("{} is not among the models", name(&model)))),
            None if models.contains(&Model::Baseline) => Ok(Model::Baseline),
            None => Ok(models[0]),
        }
    }

    fn spec(&self, model: Model) -> Result<Spec, Failure> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let (threads, processes) = (self.threads.map_or(cores, usize::from), self.processes.into());
        if !threads.is_multiple_of(processes) {
            let what =
                format!("{threads} threads cannot be shared out evenly to {processes} nodes");
            return Err(usage(format!("{what}: --threads counts all of them together")));
        }
        let is_stalled = self.workload == Workload::StalledSink;
        let seconds = self.seconds.unwrap_or(if is_stalled { 60 } else { 10 });
        if self.workload == Workload::OpenLoop && self.rate.saturating_mul(seconds) > EVENTS_MAX {
            return Err(usage(format!("a schedule has at most {EVENTS_MAX} events")));
        }
        if self.join_at.is_some()
            && (self.workload != Workload::OpenLoop || processes < 2 || model != Model::Keyed)
        {
            let what = "--join-at is for --workload open-loop --models keyed with --processes";
            return Err(usage(what.to_owned()));
        }
        Ok(Spec {
            workload: self.workload,
            model,
            events: self.events.unwrap_or(events(self.workload)),
            bytes: self.bytes,
            threads,
            processes,
            rate: self.rate,
            duration: Duration::from_secs(seconds),
            join_at: self.join_at.map(Duration::from_secs),
            seed: self.seed,
        })
    }

    fn turns(&self) -> usize {
        let default = if self.workload == Workload::StalledSink { 1 } else { 5 };
        self.turns.unwrap_or(default).into()
    }
}

/// How many events there are if nobody says otherwise: some seconds of work for the slowest model.
fn events(workload: Workload) -> u64 {
    match workload {
        Workload::KeyedCount | Workload::HotKey => 20_000_000,
        Workload::Chain => 10_000_000,
        Workload::ClickThrough | Workload::Counters => 5_000_000,
        Workload::FanOut => 200_000,
        // Repeated, or said by bytes or a rate.
        Workload::StalledSink => 1_000_000,
        Workload::WordCount | Workload::TopWords | Workload::OpenLoop => 0,
    }
}

fn unsupported(what: Unsupported) -> Failure {
    usage(what.to_string())
}

fn usage(what: String) -> Failure {
    Failure::new(Exit::Usage, what)
}

/// A workload or model as it is written on the command line.
fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no value is hidden");
    value.get_name().to_owned()
}
