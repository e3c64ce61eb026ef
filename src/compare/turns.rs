//! Who runs when.
//!
//! A machine is not the same machine a minute later: others use it, it is cooler or warmer. So the models
//! take turns, and within a turn they run one after the other; what changes slowly is the same for all
//! of a turn. The first turn is not counted: it reads the executable from disk.

use bench::{Model, Outcome, Spec, Workload};
use starling::cli::Failure;

use super::progress::Progress;
use super::report::Series;
use super::{child, name};

/// Runs each of the models so many times.
pub(super) fn run(spec: &Spec, models: &[Model], turns: usize) -> Result<Vec<Series>, Failure> {
    interleaved(spec, models, turns, child::run)
}

fn interleaved(
    spec: &Spec,
    models: &[Model],
    turns: usize,
    run: impl Fn(&Spec) -> Result<Outcome, Failure>,
) -> Result<Vec<Series>, Failure> {
    let mut progress = Progress::new();
    let new = |&model: &Model| Series { model, warm_up: None, turns: Vec::new() };
    let mut all: Vec<Series> = models.iter().map(new).collect();
    // Who waits for a minute that nothing happens needs no warm-up.
    if spec.workload != Workload::StalledSink {
        for series in &mut all {
            progress.say(&format!("warm-up: {}", name(&series.model)));
            series.warm_up = Some(run(&Spec { model: series.model, ..spec.clone() })?);
        }
    }
    for turn in 1..=turns {
        for series in &mut all {
            progress.say(&format!("turn {turn} of {turns}: {}", name(&series.model)));
            series.turns.push(run(&Spec { model: series.model, ..spec.clone() })?);
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;

    #[test]
    fn models_take_turns_after_one_that_does_not_count() {
        let duration = Duration::from_secs(1);
        let (workload, model) = (Workload::KeyedCount, Model::Baseline);
        let (events, bytes, threads, processes, rate, seed) = (1, 0, 1, 1, 1, 1);
        let spec = Spec {
            workload,
            model,
            events,
            bytes,
            threads,
            processes,
            rate,
            duration,
            join_at: None,
            seed,
        };
        let ran = RefCell::new(Vec::new());
        let run = |spec: &Spec| {
            ran.borrow_mut().push(spec.model);
            let seconds = ran.borrow().len() as f64;
            Ok(Outcome {
                seconds,
                events: 1,
                bytes: 0,
                answer: 0,
                cpu_seconds: 0.0,
                peak_rss_bytes: 0,
                start_rss_bytes: 0,
                bytes_per_key: None,
                latency: None,
                join: None,
            })
        };
        let (one, other) = (Model::Baseline, Model::Keyed);
        let all = interleaved(&spec, &[one, other], 2, run).unwrap();
        assert_eq!(ran.into_inner(), [one, other, one, other, one, other]);
        let seconds = |series: &Series| series.turns.iter().map(|turn| turn.seconds).collect();
        let seconds: Vec<Vec<f64>> = all.iter().map(seconds).collect();
        assert_eq!(seconds, [[3.0, 5.0], [4.0, 6.0]]);
    }
}
