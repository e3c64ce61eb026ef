//! All models, at small sizes, against the oracle.

use std::time::Duration;

use bench::data::{Data, expected};
use bench::{Model, Outcome, Spec, Unsupported, Workload, actors, by_hand, dataflow, models};
use clap::ValueEnum;

/// A run of a model that is not the engine.
fn run(spec: &Spec) -> Result<Outcome, Unsupported> {
    match spec.model {
        Model::Baseline => by_hand::run(spec),
        Model::Timely => dataflow::run(spec),
        Model::Actor => actors::run(spec),
        Model::Keyed | Model::Bolt | Model::OneStep => Err(spec.into()),
    }
}

fn spec(workload: Workload, model: Model, threads: usize, seed: u64) -> Spec {
    let events = match workload {
        Workload::FanOut => 300,
        Workload::KeyedCount
        | Workload::HotKey
        | Workload::WordCount
        | Workload::TopWords
        | Workload::ClickThrough
        | Workload::Chain
        | Workload::Counters
        | Workload::OpenLoop
        | Workload::StalledSink => 20_000,
    };
    let (bytes, rate, duration) = (100_000, 20_000, Duration::from_millis(100));
    Spec { events, bytes, threads, rate, duration, seed, ..Spec::new(workload, model) }
}

/// Every workload of a model comes to what the oracle says, with one thread, two and three.
fn check(model: Model) {
    for &workload in Workload::value_variants() {
        for threads in 1..=3 {
            let spec = spec(workload, model, threads, 7 + threads as u64);
            let outcome = match run(&spec) {
                Ok(outcome) => outcome,
                Err(gap) => {
                    assert!(!models(workload).contains(&model), "{gap}");
                    continue;
                }
            };
            assert!(models(workload).contains(&model), "{spec:?}");
            let data = Data::new(&spec);
            assert_eq!(outcome.answer, expected(&spec, &data), "{spec:?}");
            assert_eq!(outcome.events, events(&data), "{spec:?}");
            assert!(outcome.seconds > 0.0 && outcome.peak_rss_bytes > 0, "{outcome:?}");
            let has_latency = workload == Workload::OpenLoop;
            assert_eq!(outcome.latency.is_some(), has_latency, "{outcome:?}");
            let has_size = workload == Workload::Counters;
            assert!(outcome.bytes_per_key.is_some() || !has_size, "{outcome:?}");
        }
    }
}

fn events(data: &Data) -> u64 {
    let events = match data {
        Data::Numbers(numbers) => numbers.len(),
        Data::Text(text) => text.split_ascii_whitespace().count(),
        Data::Ads(ads) => ads.len(),
    };
    events as u64
}

#[test]
fn by_hand_comes_to_what_is_expected() {
    check(Model::Baseline);
}

#[test]
fn timely_comes_to_what_is_expected() {
    check(Model::Timely);
}

#[test]
fn actors_come_to_what_is_expected() {
    check(Model::Actor);
}
