//! Who runs when.
//!
//! A machine is not the same machine a minute later: others use it, it is cooler or warmer. So the contenders
//! take turns, and within a turn they run one after the other; what changes slowly is the same for all
//! of a turn. Settings that are compared with each other take turns as well. The first turn is not counted: it
//! reads the executable from disk.

use bench::{Outcome, Spec};
use starling::cli::Failure;

use super::plan::{Plan, Planned};
use super::progress::Progress;
use super::report::Series;
use super::{child, estimate, name};

/// Runs all of a plan; gives the series of each comparison.
pub(super) fn run(plan: &Plan) -> Result<Vec<Vec<Series>>, Failure> {
    interleaved(plan, child::run)
}

fn interleaved(
    plan: &Plan,
    run: impl Fn(&Spec) -> Result<Outcome, Failure>,
) -> Result<Vec<Vec<Series>>, Failure> {
    let mut progress = Progress::new(plan.runs(), estimate::of_plan(plan));
    let new = |planned: &Planned| planned.contenders.iter().map(|&who| Series::new(who)).collect();
    let mut all: Vec<Vec<Series>> = plan.comparisons.iter().map(new).collect();
    let mut turn = |planned: &Planned, series: &Series, which: &str| {
        let workload = name(&planned.spec.workload);
        progress.say(&format!("{which}: {workload} {}", series.contender));
        let spec = planned.run_of(series.contender);
        let outcome = run(&spec);
        progress.ran(estimate::of_run(&spec));
        outcome
    };
    if let (false, Some(planned), Some(first)) = (
        plan.has_warm_ups,
        plan.comparisons.first(),
        all.first_mut().and_then(|all| all.first_mut()),
    ) {
        first.warm_up = Some(turn(planned, first, "warm-up")?);
    }
    for (planned, all) in plan.comparisons.iter().zip(&mut all) {
        for series in all.iter_mut().filter(|_| plan.warms_up(planned)) {
            series.warm_up = Some(turn(planned, series, "warm-up")?);
        }
    }
    let turns = plan.comparisons.iter().map(|planned| planned.turns).max().unwrap_or_default();
    for number in 1..=turns {
        for (planned, all) in plan.comparisons.iter().zip(&mut all) {
            for series in all.iter_mut().filter(|_| number <= planned.turns) {
                let which = format!("turn {number} of {}", planned.turns);
                series.turns.push(turn(planned, series, &which)?);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use bench::{Model, Workload};

    use super::super::contender::Contender;
    use super::*;

    fn plan(comparisons: &[(Workload, usize)], has_warm_ups: bool) -> Plan {
        let planned = |&(workload, turns): &(Workload, usize)| Planned {
            spec: Spec::new(workload, Model::Baseline),
            setting: None,
            contenders: [Model::Baseline, Model::Keyed].map(Contender::plain).to_vec(),
            reference: Model::Baseline,
            turns,
        };
        Plan { comparisons: comparisons.iter().map(planned).collect(), has_warm_ups }
    }

    /// The number of the run of each turn of each series of each comparison.
    type Numbers = Vec<Vec<Vec<f64>>>;

    /// What ran, in order, and the numbers of the runs that count for each series.
    fn ran(plan: &Plan) -> (Vec<(Workload, Model)>, Numbers) {
        let ran = RefCell::new(Vec::new());
        let run = |spec: &Spec| {
            ran.borrow_mut().push((spec.workload, spec.model));
            Ok(Outcome { seconds: ran.borrow().len() as f64, ..Outcome::default() })
        };
        let all = interleaved(plan, run).unwrap();
        let seconds = |series: &Series| series.turns.iter().map(|turn| turn.seconds).collect();
        let seconds = all.iter().map(|all| all.iter().map(seconds).collect()).collect();
        (ran.into_inner(), seconds)
    }

    #[test]
    fn models_take_turns_after_one_that_does_not_count() {
        let plan = plan(&[(Workload::KeyedCount, 2)], true);
        let (order, seconds) = ran(&plan);
        let (one, other) = (Model::Baseline, Model::Keyed);
        let models: Vec<Model> = order.iter().map(|&(_, model)| model).collect();
        assert_eq!(models, [one, other, one, other, one, other]);
        assert_eq!(seconds, [[[3.0, 5.0], [4.0, 6.0]]]);
        assert_eq!(order.len(), plan.runs());
    }

    #[test]
    fn comparisons_take_turns_and_the_quick_warm_up_is_one_run() {
        let (one, other) = (Workload::KeyedCount, Workload::HotKey);
        let plan = plan(&[(one, 2), (other, 1)], false);
        let (order, seconds) = ran(&plan);
        let workloads: Vec<Workload> = order.iter().map(|&(workload, _)| workload).collect();
        assert_eq!(workloads, [one, one, one, other, other, one, one]);
        assert_eq!(seconds[0], [[2.0, 6.0], [3.0, 7.0]]);
        assert_eq!(seconds[1], [[4.0], [5.0]]);
        assert_eq!(order.len(), plan.runs());
    }

    #[test]
    fn who_waits_for_nothing_to_happen_has_no_warm_up() {
        let plan = plan(&[(Workload::StalledSink, 1)], true);
        assert_eq!(ran(&plan).0.len(), 2);
        assert_eq!(plan.runs(), 2);
    }
}
