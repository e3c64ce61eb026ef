//! The comparison, as somebody runs it who has a second: real processes, small sizes, right results.
//!
//! What is measured here means nothing, and nothing looks at it; that it is measured, and that a wrong
//! result would be seen, does.

#![cfg(feature = "compare")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs;
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
        assert_eq!(models(&result), ["baseline", "timely", "keyed", "bolt", "actor"]);
        has(&result, &["bytes_per_second", "ratio", "cpu_seconds", "cpu_seconds_per_gb"]);
        assert_eq!(result["events"], 20_000, "{result}");
        assert_eq!(result["reference"], "baseline", "{result}");
        assert_eq!(result["models"][0]["ratio"], 1.0, "{result}");
    }
}

#[test]
fn counted_words_are_right_under_every_model() {
    let result = compare(&format!("--workload word-count {SMALL}"));
    assert_eq!(models(&result), ["baseline", "timely", "keyed", "bolt", "actor"]);
    has(&result, &["bytes_per_second", "ratio", "cpu_seconds_per_gb"]);
    let thrice = SMALL.replace("--turns 1", "--turns 3");
    let result = compare(&format!("--workload top-words {thrice}"));
    assert_eq!(models(&result), ["baseline", "keyed", "bolt"]);
    // Whatever the size, this claim is decided.
    assert_eq!(result["verdicts"][4]["verdict"], "holds", "{}", result["verdicts"][4]);
    let [_, keyed, bolt] = result["models"].as_array().unwrap().as_slice() else { unreachable!() };
    // A count for each word, a word for each line, some more; and the two differ in who has how many.
    for model in [keyed, bolt] {
        let messages = model["messages_per_event"].as_f64().unwrap();
        assert!((2.0..3.0).contains(&messages), "{model}");
        assert!(model["busiest"].as_f64().unwrap() >= 1.0, "{model}");
        assert_eq!(model["dropped"], 0, "{model}");
    }
    assert_eq!(keyed["keys_per_instance"], 1.0, "{keyed}");
    assert!(bolt["keys_per_instance"].as_f64().unwrap() > 100.0, "{bolt}");
}

#[test]
fn joins_and_fans_are_right_under_every_model() {
    for (workload, all) in
        [("click-through", &["baseline", "keyed", "bolt"][..]), ("fan-out", &["baseline", "keyed"])]
    {
        let result = compare(&format!("--workload {workload} {SMALL}"));
        assert_eq!(models(&result), all);
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
    assert_eq!(models(&result), ["baseline", "keyed", "bolt", "actor"]);
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
    let two = format!("--models keyed,bolt --processes 2 {SMALL}");
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
fn what_is_varied_is_a_comparison_for_each_value() {
    let swept = "--workload keyed-count --models keyed,bolt --sweep keys=10,1000 --sweep skew=1.5";
    let result = parsed(&run(&format!("{swept} --skew 0 --json {SMALL}")));
    let comparisons = result["comparisons"].as_array().unwrap();
    let value = |name| comparisons.iter().map(|each| &each[name]).collect::<Vec<_>>();
    assert_eq!(value("keys"), [&10.into(), &1_000.into(), &Value::Null]);
    assert_eq!(value("skew"), [&0.0.into(), &0.0.into(), &1.5.into()] as [&Value; 3]);
    assert_eq!(comparisons[1]["sweep"], serde_json::json!({ "name": "keys", "value": 1_000 }));
    for each in comparisons {
        assert_eq!(models(each), ["keyed", "bolt"]);
        has(each, ALWAYS);
    }
    let counters = "--workload counters --models keyed --keys 3000";
    assert_eq!(compare(&format!("{counters} {SMALL}"))["events"], 3_000);
}

/// All of it, at sizes that mean nothing: what is written and printed is what a real one would be.
#[test]
fn the_quick_comparison_has_verdicts_and_a_page_that_needs_nothing() {
    let folder = support::folder("compare-html");
    let path = folder.join("report.html");
    let small = "--events 20000 --bytes 200000 --rate 2000 --seconds 1 --threads 2 --turns 1";
    let output = support::starling()
        .args(["compare", "--quick", "--json", "--seed", "5", "--html"])
        .arg(&path)
        .args(small.split(' '))
        .output()
        .unwrap();
    // What it is going to do is said before.
    assert!(String::from_utf8_lossy(&output.stderr).contains("(estimated "), "{output:?}");
    let result = parsed(&output);
    assert_eq!((&result["ok"], &result["seed"]), (&true.into(), &5.into()));
    let verdicts = result["verdicts"].as_array().unwrap();
    assert_eq!(verdicts.len(), 15, "{result}");
    for verdict in verdicts {
        let word = verdict["verdict"].as_str().unwrap();
        assert!(["holds", "fixed-here", "refuted", "open"].contains(&word), "{verdict}");
        assert!(!verdict["why"].as_str().unwrap().is_empty(), "{verdict}");
    }
    // One turn decides nothing that has an interval.
    assert!(verdicts[4]["why"].as_str().unwrap().contains("3 turns or more"), "{}", verdicts[4]);
    let page = fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{page}");
    for part in ["keyed-count by keys", "Seed: 5", "C15", "kernel", "--quick", "<polyline"] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    for part in ["<script", "http:", "https:", "NaN"] {
        assert!(!page.contains(part), "{part} is in {page}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_page_that_cannot_be_written_is_refused_before_anything_runs() {
    let output = run("--workload chain --html no-such-folder/report.html");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("cannot write no-such-folder/report.html"), "{said}");
    assert!(output.stdout.is_empty());
}

/// A version of the engine that does not have acks says so; one that has them counts trees.
#[test]
fn acks_are_a_series_of_their_own_or_refused() {
    let acked = "--workload keyed-count --models baseline,keyed --acks off,1";
    let output = run(&format!("{acked} --json {SMALL}"));
    if output.status.code() == Some(2) {
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("this version of the engine refuses acks"), "{said}");
        return;
    }
    let result = parsed(&output);
    assert_eq!(models(&result), ["baseline", "keyed", "keyed"]);
    assert_eq!(result["models"][2]["acks"], 1, "{result}");
    assert!(result["models"][2]["trees"].as_u64().unwrap() > 0, "{result}");
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
    refused("--workload word-count --sweep keys=1,2", "the keys of word-count cannot be chosen");
    refused("--workload keyed-count --sweep speed=1", "`speed` cannot be varied");
    refused("--workload chain --models one-step --acks 1", "acks");
    refused("--workload chain --acks 0", "`off`, or a number");
    refused("--quick --workload chain", "cannot be used with");
    refused("--quick --models keyed", "--models is for one workload");
    refused("--processes 2", "--processes is for one workload");
    refused("--workload nothing", "possible values: keyed-count, hot-key,");
}

/// Compares, and holds the result against what every result must be.
#[track_caller]
fn compare(arguments: &str) -> Value {
    let result = parsed(&run(&format!("{arguments} --json")));
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

/// What a run that succeeded printed as JSON.
#[track_caller]
fn parsed(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
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
