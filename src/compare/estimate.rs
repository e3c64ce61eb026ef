//! How long a comparison is going to take, as far as can be said before it has begun.
//!
//! Who starts a command wants to know whether to wait or to come back. What is said is made of what a run needs
//! beside its events and of rough rates; nothing else depends on it, and what it says is called an estimate.
//! While runs go on, what is left is scaled by what has been so far.

use std::time::Duration;

use bench::{Model, Spec, Workload};

use super::plan::{Plan, Planned};

/// What a run takes beside its events: a process starts.
const PROCESS: f64 = 0.1;
/// The same of the engine: a cluster forms, a topology starts and is seen to have ended, all leave.
const CLUSTER: f64 = 1.2;
/// Numbers that a thread draws in a second, and bytes of text.
const DRAWN: f64 = 40e6;
const DRAWN_BYTES: f64 = 200e6;
/// Events that a thread handles in a second, and bytes of text that it counts; one actor a key handles a
/// tenth of either.
const HANDLED: f64 = 10e6;
const HANDLED_BYTES: f64 = 80e6;
const ACTOR: f64 = 0.1;

/// How long a plan may take.
pub(super) fn of_plan(plan: &Plan) -> Duration {
    let all = plan.comparisons.iter().flat_map(|planned| {
        let runs = planned.turns + usize::from(plan.warms_up(planned));
        // What is expected is found once.
        let data = Duration::from_secs_f64(drawing(&planned.spec));
        let each = planned.contenders.iter().map(move |&contender| planned.run_of(contender));
        each.map(move |spec| of_run(&spec) * u32::try_from(runs).unwrap_or(u32::MAX)).chain([data])
    });
    all.sum()
}

/// How long one run may take.
pub(super) fn of_run(spec: &Spec) -> Duration {
    let is_engine = spec.model.is_engine();
    let start = if is_engine { CLUSTER } else { PROCESS };
    Duration::from_secs_f64(start + drawing(spec) + working(spec))
}

fn drawing(spec: &Spec) -> f64 {
    let table = f64::from(spec.keys.unwrap_or(1_000_000)) / DRAWN;
    amount(spec)
        / if spec.workload.reads_text() { DRAWN_BYTES } else { DRAWN }
        / spec.threads as f64
        + table
}

fn working(spec: &Spec) -> f64 {
    if matches!(spec.workload, Workload::OpenLoop | Workload::StalledSink) {
        return spec.duration.as_secs_f64();
    }
    let rate = if spec.workload.reads_text() { HANDLED_BYTES } else { HANDLED };
    let fan = if spec.workload == Workload::FanOut { f64::from(bench::FAN_OUT) } else { 1.0 };
    let slow = if spec.model == Model::Actor { ACTOR } else { 1.0 };
    fan * amount(spec) / (rate * slow) / spec.threads as f64
}

fn amount(spec: &Spec) -> f64 {
    if spec.workload.reads_text() { spec.bytes as f64 } else { bench::data::scheduled(spec) as f64 }
}

/// In words, for who waits.
pub(super) fn shown(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..90 => format!("{} s", seconds.max(1)),
        seconds => format!("{} min", (seconds + 30) / 60),
    }
}

/// What is said before the first run.
pub(super) fn announced(plan: &Plan) -> String {
    let count = |of: fn(&Planned) -> bool| plan.comparisons.iter().filter(|each| of(each)).count();
    let varied = count(|planned| planned.setting.is_some());
    let workloads = plan.comparisons.len() - varied;
    let (runs, time) = (plan.runs(), shown(of_plan(plan)));
    format!(
        "{workloads} workloads and {varied} settings of what is varied, {runs} runs: about {time} \
         (estimated from rough rates of two cores, not measured)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(model: Model, events: u64) -> Spec {
        Spec { events, threads: 2, ..Spec::new(Workload::KeyedCount, model) }
    }

    #[test]
    fn more_takes_longer_and_so_do_actors_and_clusters() {
        let of = |model, events| of_run(&spec(model, events));
        assert!(of(Model::Keyed, 50_000_000) > of(Model::Keyed, 5_000_000));
        assert!(of(Model::Keyed, 5_000_000) > of(Model::Baseline, 5_000_000));
        assert!(of(Model::Actor, 50_000_000) > of(Model::Keyed, 50_000_000));
        let open = Spec {
            duration: Duration::from_secs(9),
            ..Spec::new(Workload::OpenLoop, Model::Timely)
        };
        assert!((9..12).contains(&of_run(&open).as_secs()));
    }

    #[test]
    fn times_are_told_as_people_tell_them() {
        assert_eq!(shown(Duration::from_millis(300)), "1 s");
        assert_eq!(shown(Duration::from_secs(89)), "89 s");
        assert_eq!(shown(Duration::from_secs(100)), "2 min");
        assert_eq!(shown(Duration::from_secs(3_600)), "60 min");
    }
}
