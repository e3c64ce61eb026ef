//! What is compared: workloads, each at one setting, and who takes part.
//!
//! A comparison that somebody asks for names a workload. Two are made up here: the quick one, which has to be
//! over before whoever tries it turns to something else, and the full one, which runs whatever there is.

use std::time::Duration;

use bench::{Model, Spec, Workload, models};

use super::contender::{Contender, contenders};
use super::sweep::Setting;

/// All that a command runs.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) comparisons: Vec<Planned>,
    /// Whether each contender runs once before it counts; else the first of all does, since it reads the
    /// executable from disk.
    pub(super) has_warm_ups: bool,
}

/// A workload at one setting.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    /// The runs; the model is that of the first contender.
    pub(super) spec: Spec,
    /// What is varied, if this is of a sweep.
    pub(super) setting: Option<Setting>,
    pub(super) contenders: Vec<Contender>,
    /// To whom the others are compared.
    pub(super) reference: Model,
    /// How often each runs.
    pub(super) turns: usize,
}

/// What is the same for all workloads of a plan, and what somebody wants otherwise.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
    /// Threads, seed and all else that is not of one workload.
    pub(super) base: Spec,
    pub(super) events: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) rate: Option<u64>,
    pub(super) seconds: Option<u64>,
    pub(super) turns: Option<usize>,
    /// The choices of acks that this version of the engine has.
    pub(super) acks: Vec<Option<u32>>,
}

/// What the quick comparison runs: a workload, its size (bytes of text, events, or events a second), and who.
///
/// Sizes are such that a run takes about a second: below that, processor time is counted in too few ticks, and
/// what a node does once is no longer small beside what it does for each event.
const QUICK: &[(Workload, u64, &[Model])] = &[
    (
        Workload::KeyedCount,
        4_000_000,
        &[Model::Baseline, Model::Timely, Model::Keyed, Model::Bolt, Model::Actor],
    ),
    (Workload::Counters, 400_000, &[Model::Baseline, Model::Keyed, Model::Bolt, Model::Actor]),
    (Workload::WordCount, 150_000_000, &[Model::Baseline, Model::Keyed, Model::Bolt]),
    (Workload::TopWords, 30_000_000, &[Model::Baseline, Model::Keyed, Model::Bolt]),
    (Workload::ClickThrough, 1_000_000, &[Model::Baseline, Model::Keyed, Model::Bolt]),
    (Workload::OpenLoop, 100_000, &[Model::Baseline, Model::Keyed]),
];

/// The different keys with which the quick comparison counts 4 million events.
const QUICK_KEYS: [u32; 3] = [1_000, 30_000, 1_000_000];
const QUICK_TURNS: usize = 3;
const QUICK_SECONDS: u64 = 2;
/// Where the quick comparison looks at what acks cost: trees of one event, and of a line and its words.
const QUICK_ACKED: [Workload; 2] = [Workload::KeyedCount, Workload::WordCount];
/// How long a sink stands still in it, and how many different events wait for it.
const QUICK_STALL: u64 = 6;
const QUICK_STALLED: u64 = 100_000;

/// What the full comparison varies, with `keyed-count`.
const FULL_KEYS: [u32; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
const FULL_SKEWS: [f64; 4] = [0.0, 0.5, 1.0, 1.5];
const FULL_TASKS: [u16; 3] = [1, 2, 4];
/// Counters of the full comparison: an actor takes a kilobyte, and they are all there at the same time.
const FULL_COUNTERS: u64 = 1_000_000;
/// Who takes part where something is varied; to have all would take hours.
const SWEPT: &[Model] = &[Model::Baseline, Model::Keyed, Model::Bolt];

impl Plan {
    /// A selection that takes about two minutes.
    pub(super) fn quick(sizes: &Sizes) -> Self {
        let planned = |&(workload, size, models): &(Workload, u64, &[Model])| {
            let mut planned = sizes.quick(workload, size, models);
            let is_acked = |who: &Contender| {
                who.acks.is_none() || (who.model == Model::Keyed && QUICK_ACKED.contains(&workload))
            };
            planned.contenders.retain(is_acked);
            planned
        };
        let mut comparisons: Vec<Planned> = QUICK.iter().map(planned).collect();
        let swept = contenders(&[Model::Keyed, Model::Bolt], &[None]);
        let counted =
            Planned { contenders: swept, reference: Model::Keyed, ..comparisons[0].clone() };
        comparisons.extend(QUICK_KEYS.map(|keys| counted.at(Setting::Keys(keys))));
        // What is asked here is whether acks take a sink that stands still for one that has failed.
        let mut stalled = sizes.quick(Workload::StalledSink, QUICK_STALLED, &[Model::Keyed]);
        stalled.spec.duration = Duration::from_secs(sizes.seconds.unwrap_or(QUICK_STALL));
        stalled.contenders.retain(|who| who.acks == Some(1));
        stalled.turns = 1;
        comparisons.extend(Some(stalled).filter(|stalled| !stalled.contenders.is_empty()));
        Self { comparisons, has_warm_ups: false }
    }

    /// All workloads under all models, and what can be varied.
    pub(super) fn full(sizes: &Sizes, workloads: &[Workload]) -> Self {
        let planned = |&workload: &Workload| {
            let mut planned = sizes.planned(workload, models(workload));
            if workload == Workload::Counters {
                planned.spec.events = sizes.events.unwrap_or(FULL_COUNTERS);
            }
            planned
        };
        let mut comparisons: Vec<Planned> = workloads.iter().map(planned).collect();
        let swept = Planned {
            contenders: contenders(SWEPT, &[None]),
            ..sizes.planned(Workload::KeyedCount, SWEPT)
        };
        comparisons.extend(FULL_KEYS.map(|keys| swept.at(Setting::Keys(keys))));
        comparisons.extend(FULL_SKEWS.map(|skew| swept.at(Setting::Skew(skew))));
        comparisons.extend(FULL_TASKS.map(|tasks| swept.at(Setting::Parallelism(tasks))));
        Self { comparisons, has_warm_ups: true }
    }

    /// How many processes, or clusters, are run.
    pub(super) fn runs(&self) -> usize {
        let counted = |planned: &Planned| planned.contenders.len() * planned.turns;
        let warm_ups =
            |planned: &Planned| usize::from(self.warms_up(planned)) * planned.contenders.len();
        let first = usize::from(!self.has_warm_ups);
        self.comparisons.iter().map(|planned| counted(planned) + warm_ups(planned)).sum::<usize>()
            + first
    }

    /// Whether all of a comparison run once before it counts.
    pub(super) fn warms_up(&self, planned: &Planned) -> bool {
        // Who waits for a minute that nothing happens needs no warm-up.
        self.has_warm_ups && planned.spec.workload != Workload::StalledSink
    }
}

impl Planned {
    /// The same with something set; of a workload that has it.
    fn at(&self, setting: Setting) -> Self {
        let spec = setting.apply(&self.spec).expect("made for a workload that has it");
        Self { spec, setting: Some(setting), ..self.clone() }
    }

    /// The run of one of the contenders.
    pub(super) fn run_of(&self, contender: Contender) -> Spec {
        contender.run_of(&self.spec)
    }
}

impl Sizes {
    /// A workload of the size that it has in the quick comparison: bytes of text, events, or events a second.
    fn quick(&self, workload: Workload, size: u64, models: &[Model]) -> Planned {
        let mut planned = self.planned(workload, models);
        let spec = &mut planned.spec;
        if workload == Workload::OpenLoop {
            spec.rate = self.rate.unwrap_or(size);
        } else if workload.reads_text() {
            spec.bytes = self.bytes.unwrap_or(size);
        } else {
            spec.events = self.events.unwrap_or(size);
        }
        spec.duration = Duration::from_secs(self.seconds.unwrap_or(QUICK_SECONDS));
        planned.turns = self.turns.unwrap_or(QUICK_TURNS);
        planned
    }

    /// A workload of the size that it has if nothing is said.
    pub(super) fn planned(&self, workload: Workload, models: &[Model]) -> Planned {
        let is_stalled = workload == Workload::StalledSink;
        let seconds = if is_stalled { 60 } else { 10 };
        let spec = Spec {
            workload,
            model: models[0],
            events: self.events.unwrap_or(events(workload)),
            bytes: self.bytes.unwrap_or(BYTES),
            rate: self.rate.unwrap_or(RATE),
            duration: Duration::from_secs(self.seconds.unwrap_or(seconds)),
            ..self.base.clone()
        };
        let contenders = contenders(models, &self.acks);
        let turns = self.turns.unwrap_or(if is_stalled { 1 } else { TURNS });
        let reference = reference(models);
        Planned { spec, setting: None, contenders, reference, turns }
    }
}

/// To whom the others are compared if nothing is said.
pub(super) fn reference(models: &[Model]) -> Model {
    if models.contains(&Model::Baseline) { Model::Baseline } else { models[0] }
}

/// How often each runs if nobody says otherwise; once, where that takes a minute.
const TURNS: usize = 5;
/// How much text there is if nobody says otherwise.
const BYTES: u64 = 500_000_000;
/// Events a second if nobody says otherwise.
const RATE: u64 = 200_000;

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

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    fn sizes(acks: &[Option<u32>]) -> Sizes {
        Sizes {
            base: Spec { threads: 2, ..Spec::new(Workload::KeyedCount, Model::Baseline) },
            events: None,
            bytes: None,
            rate: None,
            seconds: None,
            turns: None,
            acks: acks.to_vec(),
        }
    }

    #[test]
    fn only_what_has_been_written_is_planned() {
        let plans = [
            Plan::quick(&sizes(&[None])),
            Plan::full(&sizes(&[None, Some(1)]), Workload::value_variants()),
        ];
        for planned in plans.iter().flat_map(|plan| &plan.comparisons) {
            let workload = planned.spec.workload;
            let written = models(workload);
            let mut all = planned.contenders.iter();
            assert!(all.all(|contender| written.contains(&contender.model)), "{planned:?}");
            let mut all = planned.contenders.iter();
            assert!(all.any(|contender| contender.model == planned.reference), "{planned:?}");
            assert!(planned.turns > 0);
        }
        let has = |workload| {
            let mut all = plans[1].comparisons.iter();
            all.any(|planned| planned.spec.workload == workload && planned.setting.is_none())
        };
        assert!(Workload::value_variants().iter().all(|&workload| has(workload)));
    }

    #[test]
    fn acks_multiply_runs_and_sizes_can_be_said() {
        let off = Plan::quick(&sizes(&[None]));
        let on = Plan::quick(&Sizes { turns: Some(1), ..sizes(&[None, Some(1)]) });
        assert_eq!(off.runs(), 3 * (5 + 4 + 3 + 3 + 3 + 2 + 3 * 2) + 1);
        assert_eq!(on.runs(), 6 + 4 + 4 + 3 + 3 + 2 + 3 * 2 + 1 + 1);
        let stalled = on.comparisons.last().unwrap();
        assert_eq!(stalled.spec.workload, Workload::StalledSink);
        let acked = Contender { model: Model::Keyed, acks: Some(1) };
        assert_eq!(stalled.contenders, [acked]);
        assert!(on.comparisons[2].contenders.contains(&acked));
        let small = Sizes { events: Some(9), bytes: Some(8), rate: Some(7), ..sizes(&[None]) };
        for Planned { spec, .. } in Plan::quick(&small).comparisons {
            assert!(spec.events == 9 || spec.bytes == 8 || spec.rate == 7, "{spec:?}");
        }
    }

    #[test]
    fn what_is_varied_is_set() {
        let quick = Plan::quick(&sizes(&[None]));
        let keys: Vec<_> =
            quick.comparisons.iter().filter_map(|planned| planned.spec.keys).collect();
        assert_eq!(keys, QUICK_KEYS);
        let full = Plan::full(&sizes(&[None]), &[]);
        assert_eq!(full.comparisons.len(), 12);
        assert_eq!(full.comparisons[6].spec.skew, Some(0.5));
        assert_eq!(full.comparisons[11].spec.threads, 4);
    }
}
