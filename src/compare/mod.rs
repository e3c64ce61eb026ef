//! `starling compare`: workloads under several models, and what each makes of them.
//!
//! A figure without another of the same minute says more about the machine than about the engine. So
//! the models run in turns, A B C, A B C, ..., and are compared within a turn; and each run is a
//! process of its own, so that its memory is its own and nobody runs on what another has warmed up
//! or torn to pieces. Every result is held against a plain count.
//!
//! What a workload is and how the models do it is in the package `bench`. Here is who runs them, and what
//! is made of the outcomes: tables, a page with plots, and verdicts on what the literature claims.

mod child;
mod cluster;
mod comparison;
mod contender;
mod environment;
mod estimate;
mod figures;
mod html;
mod html_file;
mod pair;
mod plan;
mod plot;
mod progress;
mod report;
mod statistics;
mod sweep;
mod turns;
mod verdict;

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use bench::data::{Data, expected};
use bench::engine::refusal;
use bench::{Model, Spec, Unsupported, Workload};
use clap::{Args, ValueEnum};
use starling::cli::{Exit, Failure, output};

use comparison::{Comparison, command_line};
use contender::{Acks, parse_acks};
use environment::Environment;
use html_file::HtmlFile;
use plan::{Plan, Planned, Sizes};
use report::Report;
use sweep::{Setting, Sweep, parse_keys, parse_skew};

pub(crate) use child::{NodeArgs, RunArgs};
pub(crate) use pair::ReceiveArgs;

const EXAMPLES: &str = "Examples:
  starling compare --quick --html report.html
  starling compare --workload keyed-count --models baseline,keyed,bolt
  starling compare --workload word-count --models baseline,keyed --bytes 100000000 --turns 9
  starling compare --workload keyed-count --models keyed,bolt --sweep keys=1000,100000,10000000 --html keys.html
  starling compare --workload open-loop --models keyed --processes 2 --rate 100000
  starling compare --workload open-loop --models keyed --processes 3 --threads 3 --seconds 60 --join-at 35 --turns 1
  starling compare --workload counters --models keyed,actor --json | jq '.models[].bytes_per_key'

Without --workload and --quick all workloads run under all models; how long that may take is said before the first run.

Exit code 1 says that a result was wrong, 2 that a workload has not been written for a model.";

/// Runs workloads under several models in turns, and compares speed, memory and results
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// What is computed; all there is if nothing is said
    #[arg(long, value_name = "NAME")]
    workload: Option<Workload>,
    /// A selection of small runs that takes about two minutes, with a verdict on each claim of the literature
    #[arg(long, conflicts_with = "workload")]
    quick: bool,
    /// Who computes it, with commas; all for whom the workload has been written if nothing is said
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    models: Vec<Model>,
    /// To whom the others are compared; baseline if it is among them, else the first
    #[arg(long, value_name = "MODEL")]
    reference: Option<Model>,
    /// Whether the engine acknowledges events, with commas: off, or of how many events an ack speaks. Each is a
    /// series of its own for keyed and bolt
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_acks)]
    acks: Vec<Acks>,
    /// What is varied, with its values: keys=1000,100000 or skew=0,0.5,1 or parallelism=1,2,4 or replicas=1,2 or
    /// durability=memory,fsync or journal=1,1000; may be said more than once
    #[arg(long, value_name = "WHAT=LIST", value_parser = Sweep::parse)]
    sweep: Vec<Sweep>,
    /// How many different keys there are: keyed-count and hot-key (a million if nothing is said), counters
    #[arg(long, value_name = "N", value_parser = parse_keys)]
    keys: Option<u32>,
    /// The exponent of Zipf's law by which the keys of keyed-count are skewed; 1 if nothing is said, 0 is even
    #[arg(long, value_name = "X", value_parser = parse_skew)]
    skew: Option<f64>,
    /// How many events are read, where that is not said by bytes or by a rate
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=EVENTS_MAX))]
    events: Option<u64>,
    /// How many bytes are read, where the workload reads text; 500 million if nothing is said
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 36))]
    bytes: Option<u64>,
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
    /// Events a second, for open-loop; 200,000 if nothing is said
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rate: Option<u64>,
    /// How long, for open-loop (10 if nothing is said) and stalled-sink (60)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: Option<u64>,
    /// When another node joins, in seconds after the first event: open-loop of the engine with several processes.
    /// Latencies are then those of slots that stay, while it joins and in the 30 s before
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    join_at: Option<u64>,
    /// The same seed is the same data
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
    /// Writes a page with tables, plots and verdicts as well; it is one file and needs no network
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The most events of a run: they are all in memory.
const EVENTS_MAX: u64 = 1 << 32;

impl CompareArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let plan = self.plan()?;
        let html = self.html.as_deref().map(HtmlFile::new).transpose()?;
        if self.workload.is_none() {
            output::message(estimate::announced(&plan));
        }
        let environment = Environment::before();
        let expected =
            plan.comparisons.iter().map(|Planned { spec, .. }| expected(spec, &Data::new(spec)));
        let expected: Vec<u64> = expected.collect();
        let series = turns::run(&plan)?;
        let environment = environment.after();
        let reports = plan.comparisons.into_iter().zip(expected).zip(series);
        let reports =
            reports.map(|((planned, expected), series)| Report::new(planned, expected, series));
        let command = command_line(std::env::args());
        let comparison = Comparison::new(reports.collect(), environment, command);
        if self.json {
            output::json(&comparison.to_json());
        } else {
            comparison.lines().iter().for_each(output::data);
        }
        html.map_or(Ok(()), |html| html.write(&html::page(&comparison)))?;
        comparison.result()
    }

    /// What runs; a failure if that cannot be.
    fn plan(&self) -> Result<Plan, Failure> {
        let sizes = self.sizes()?;
        let Some(workload) = self.workload else {
            self.check_selection()?;
            let plan = if self.quick {
                Plan::quick(&sizes)
            } else {
                Plan::full(&sizes, Workload::value_variants())
            };
            self.check_schedules(&plan)?;
            return Ok(plan);
        };
        let models = self.models(workload)?;
        let mut planned = sizes.planned(workload, &models);
        planned.reference = self.reference(&models)?;
        if self.acks.iter().any(|acks| acks.0.is_some())
            && !models.iter().any(|model| model.has_acks())
        {
            return Err(usage("--acks is for keyed and bolt".to_owned()));
        }
        for setting in self.keys.map(Setting::Keys).into_iter().chain(self.skew.map(Setting::Skew))
        {
            planned.spec = setting.apply(&planned.spec).map_err(usage)?;
        }
        let mut comparisons = Vec::new();
        for &setting in self.sweep.iter().flat_map(|Sweep(settings)| settings) {
            let spec = setting.apply(&planned.spec).map_err(usage)?;
            comparisons.push(Planned { spec, setting: Some(setting), ..planned.clone() });
        }
        if comparisons.is_empty() {
            comparisons.push(planned);
        }
        for Planned { spec, .. } in &comparisons {
            self.check(spec)?;
        }
        let plan = Plan { comparisons, has_warm_ups: true };
        self.check_schedules(&plan)?;
        Ok(plan)
    }

    /// Who runs; each once, and only those for whom the workload has been written.
    fn models(&self, workload: Workload) -> Result<Vec<Model>, Failure> {
        let known = bench::models(workload);
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
            None => Ok(plan::reference(models)),
        }
    }

    fn sizes(&self) -> Result<Sizes, Failure> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let base = Spec {
            threads: self.threads.map_or(cores, usize::from),
            processes: self.processes.into(),
            join_at: self.join_at.map(Duration::from_secs),
            seed: self.seed,
            ..Spec::new(Workload::KeyedCount, Model::Keyed)
        };
        let acks = self.acks(&base)?;
        Ok(Sizes {
            base,
            events: self.events,
            bytes: self.bytes,
            rate: self.rate,
            seconds: self.seconds,
            turns: self.turns.map(usize::from),
            acks,
        })
    }

    /// The choices of acks; where nothing is said, all that this version has of a selection, and off else.
    fn acks(&self, base: &Spec) -> Result<Vec<Option<u32>>, Failure> {
        let refusal = |acks: u32| refusal(&Spec { acks: Some(acks), ..base.clone() });
        if self.acks.is_empty() {
            let is_selection = self.workload.is_none() && refusal(1).is_none();
            let acks: &[Option<u32>] =
                if is_selection { &[None, Some(1), Some(64)] } else { &[None] };
            return Ok(acks.to_vec());
        }
        let all: Vec<Option<u32>> = self.acks.iter().map(|&Acks(acks)| acks).collect();
        for (at, acks) in all.iter().enumerate() {
            if all[..at].contains(acks) {
                return Err(usage("a choice of --acks is named twice".to_owned()));
            }
            if let Some(why) = acks.and_then(refusal) {
                return Err(usage(format!("this version of the engine refuses acks: {why}")));
            }
        }
        Ok(all)
    }

    /// What is said of one workload cannot be said of a selection. Not left to `requires`, which clap does not look
    /// at where there is something that conflicts.
    fn check_selection(&self) -> Result<(), Failure> {
        let said = [
            ("--models", !self.models.is_empty()),
            ("--reference", self.reference.is_some()),
            ("--sweep", !self.sweep.is_empty()),
            ("--keys", self.keys.is_some()),
            ("--skew", self.skew.is_some()),
            ("--processes", self.processes > 1),
            ("--join-at", self.join_at.is_some()),
        ];
        match said.iter().find(|(_, is_said)| *is_said) {
            Some((flag, _)) => {
                Err(usage(format!("{flag} is for one workload: --workload says which")))
            }
            None => Ok(()),
        }
    }

    /// Whether a run can be at all.
    fn check(&self, spec: &Spec) -> Result<(), Failure> {
        let Spec { threads, processes, .. } = *spec;
        if !threads.is_multiple_of(processes) {
            let what =
                format!("{threads} threads cannot be shared out evenly to {processes} nodes");
            return Err(usage(format!("{what}: --threads counts all of them together")));
        }
        if self.join_at.is_some()
            && (spec.workload != Workload::OpenLoop || processes < 2 || spec.model != Model::Keyed)
        {
            let what = "--join-at is for --workload open-loop --models keyed with --processes";
            return Err(usage(what.to_owned()));
        }
        Ok(())
    }

    fn check_schedules(&self, plan: &Plan) -> Result<(), Failure> {
        let scheduled =
            |Planned { spec, .. }: &Planned| spec.rate.saturating_mul(spec.duration.as_secs());
        let mut open =
            plan.comparisons.iter().filter(|planned| planned.spec.workload == Workload::OpenLoop);
        if open.any(|planned| scheduled(planned) > EVENTS_MAX) {
            return Err(usage(format!("a schedule has at most {EVENTS_MAX} events")));
        }
        Ok(())
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
