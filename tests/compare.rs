//! The comparison, as somebody runs it who has a second: real processes, small sizes, right results.
//!
//! What is measured here means nothing, and nothing looks at it; that it is measured, and that a wrong
//! result would be seen, does.

#![cfg(feature = "compare")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::process::Output;

use serde_json::Value;

/// Sizes at which every run takes less than a second, whatever the workload.
const SMALL: &str = "--events 20000 --bytes 200000 --rate 2000 --threads 2 --turns 1";

/// What every model has, whatever the workload.
const ALWAYS: &[&str] = &["events_per_second", "seconds", "peak_rss_bytes", "start_rss_bytes"];

#[test]
fn counted_keys_are_right_under_every_model() {
    for workload in ["keyed-count", "hot-key"] {
        let result = compare(&format!("--workload {workload} {SMALL}"));
        assert_eq!(models(&result), ["baseline", "timely", "keyed", "actor"]);
        has(&result, &["bytes_per_second", "ratio", "cpu_seconds", "cpu_seconds_per_gb"]);
        assert_eq!(result["events"], 20_000, "{result}");
        assert_eq!(result["reference"], "baseline", "{result}");
        assert_eq!(result["models"][0]["ratio"], 1.0, "{result}");
    }
}

#[test]
fn counted_words_are_right_under_every_model() {
    let result = compare(&format!("--workload word-count {SMALL}"));
    assert_eq!(models(&result), ["baseline", "timely", "keyed", "actor"]);
    has(&result, &["bytes_per_second", "ratio", "cpu_seconds_per_gb"]);
    let result = compare(&format!("--workload top-words {SMALL}"));
    assert_eq!(models(&result), ["baseline", "keyed"]);
}

#[test]
fn joins_and_fans_are_right_under_every_model() {
    for workload in ["click-through", "fan-out"] {
        let result = compare(&format!("--workload {workload} {SMALL}"));
        assert_eq!(models(&result), ["baseline", "keyed"]);
        has(&result, &["ratio"]);
    }
}

#[test]
fn a_chain_is_right_in_ten_steps_and_in_one() {
    let result = compare(&format!("--workload chain {SMALL}"));
    assert_eq!(models(&result), ["baseline", "timely", "keyed", "one-step"]);
    let two = format!("--workload chain --models one-step,keyed --reference keyed {SMALL}");
    let result = compare(&two);
    assert_eq!(models(&result), ["one-step", "keyed"]);
    assert_eq!(result["models"][1]["ratio"], 1.0, "{result}");
}

#[test]
fn what_a_counter_costs_is_said() {
    let result = compare(&format!("--workload counters {SMALL}"));
    assert_eq!(models(&result), ["baseline", "keyed", "actor"]);
    has(&result, &["bytes_per_key"]);
}

#[test]
fn events_on_a_schedule_are_not_faster_than_it_and_their_lateness_is_said() {
    let result = compare(&format!("--workload open-loop {SMALL} --seconds 2"));
    assert_eq!(models(&result), ["baseline", "timely", "keyed"]);
    has(&result, &["latency_p50_us", "latency_p99_us", "latency_p999_us", "latency_max_us"]);
    assert_eq!(result["events"], 4_000, "{result}");
    for model in result["models"].as_array().unwrap() {
        let seconds = model["seconds"].as_f64().unwrap();
        assert!(seconds > 1.9, "{seconds} s for a schedule of 2 s: {model}");
        let us = |name: &str| model[name].as_u64().unwrap();
        assert!(us("latency_p50_us") <= us("latency_max_us"), "{model}");
        assert_eq!(model["ratio"], Value::Null, "{model}");
    }
}

#[test]
fn memory_does_not_grow_behind_a_sink_that_stands_still() {
    let result = compare(&format!("--workload stalled-sink {SMALL} --seconds 4"));
    assert_eq!(models(&result), ["keyed"]);
}

#[test]
fn two_nodes_count_right_and_their_parts_add_up() {
    let two = format!("--models keyed --processes 2 {SMALL}");
    let result = compare(&format!("--workload keyed-count {two}"));
    assert_eq!((&result["processes"], &result["events"]), (&2.into(), &20_000.into()));
}

#[test]
fn between_two_processes_lateness_is_said_with_an_engine_and_without() {
    let two = "--workload open-loop --models baseline,keyed --processes 2 --seconds 2";
    let result = compare(&format!("{two} {SMALL}"));
    has(&result, &["latency_p50_us"]);
    for model in result["models"].as_array().unwrap() {
        assert!(model["latency_p50_us"].as_u64().unwrap() > 0, "{model}");
        assert_eq!(model["outcomes"][0]["events"], 4_000, "{model}");
    }
}

#[test]
fn a_table_has_a_row_for_each_model_and_says_where_it_was_made() {
    let output = run(&format!("--workload chain --models keyed,one-step {SMALL}"));
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].starts_with("chain: 20 000 events, 0.2 MB; 2 threads; 1 turn, seed 1"),
        "{said}"
    );
    assert!(lines[1].starts_with("MODEL ") && lines[1].ends_with(" RESULT"), "{said}");
    assert!(lines[2].starts_with("keyed ") && lines[2].ends_with(" correct"), "{said}");
    assert!(lines[3].starts_with("one-step ") && lines[3].ends_with(" correct"), "{said}");
    assert!(said.contains("kernel ") && said.contains("allocator "), "{said}");
    // Progress is for a terminal.
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_model_that_a_workload_does_not_have_is_refused_by_name() {
    let refused = |arguments: &str, why: &str| {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(why), "{why} is not in\n{said}");
    };
    refused("--workload fan-out --models keyed,timely", "only for baseline, keyed");
    refused("--workload keyed-count --models keyed,keyed", "keyed is named twice");
    refused("--workload chain --models keyed --reference timely", "not among the models");
    refused("--workload chain --threads 3 --processes 2", "cannot be shared out evenly");
    refused("--workload nothing", "possible values: keyed-count, hot-key,");
}

/// Compares, and holds the result against what every result must be.
#[track_caller]
fn compare(arguments: &str) -> Value {
    let output = run(&format!("{arguments} --json"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["ok"], true, "{result}");
    for name in ["cpu", "cores", "kernel", "load_before", "load_after", "version", "allocator"] {
        assert!(!result["environment"][name].is_null(), "{name} is not in {result}");
    }
    for model in result["models"].as_array().unwrap() {
        assert_eq!(model["correct"], true, "{result}");
    }
    has(&result, ALWAYS);
    result
}

/// Demands numbers of these names of all models.
#[track_caller]
fn has(result: &Value, names: &[&str]) {
    for model in result["models"].as_array().unwrap() {
        for &name in names {
            assert!(model[name].is_number(), "{name} is no number in {model}");
            let spread = &model["spread"][name];
            let has_spread = spread["low"].is_number() && spread["high"].is_number();
            assert!(has_spread || name == "ratio", "{name} has no spread in {model}");
        }
    }
}

fn models(result: &Value) -> Vec<&str> {
    let models = result["models"].as_array().unwrap().iter();
    models.map(|model| model["model"].as_str().unwrap()).collect()
}

fn run(arguments: &str) -> Output {
    let mut command = support::starling();
    command.arg("compare").args(arguments.split_whitespace()).output().unwrap()
}
