//! The topologies of the workloads, as a user would write them.

use super::TOPOLOGY;
use crate::{CHAIN, Model, Spec, Workload};

/// The text of a workload's topology.
pub(super) fn text(spec: &Spec) -> String {
    // Two partitions for each container: the engine spreads them evenly.
    let parts = 2 * spec.threads;
    let body = match spec.workload {
        Workload::KeyedCount | Workload::HotKey => counted(parts, "end"),
        Workload::Counters => counted(parts, "idle"),
        Workload::WordCount => word_count(parts),
        Workload::TopWords => top_words(parts),
        Workload::ClickThrough => click_through(parts),
        Workload::Chain if spec.model == Model::OneStep => one_step(parts),
        Workload::Chain => chain(parts),
        Workload::FanOut => fan_out(parts),
        Workload::OpenLoop if spec.join_at.is_some() => watched(spec),
        Workload::OpenLoop => open_loop(spec),
        Workload::StalledSink => stalled(parts),
    };
    format!("name = \"{TOPOLOGY}\"\n{body}")
}

fn numbers(parts: usize, after: &str) -> String {
    format!(
        r#"
[spout.numbers]
type = "numbers"
params = {{ parts = {parts}, after = "{after}" }}
emits = "numbers"
"#
    )
}

fn lines(parts: usize) -> String {
    format!(
        r#"
[spout.lines]
type = "text"
params = {{ parts = {parts} }}
emits = "lines"

[pe.split]
type = "splitter"
input = [{{ stream = "lines", grouping = "local-or-shuffle" }}]
emits = "words"
"#
    )
}

fn counted(parts: usize, after: &str) -> String {
    let numbers = numbers(parts, after);
    format!(
        r#"{numbers}
[pe.count]
type = "counter"
input = [{{ stream = "numbers", key = ["n"] }}]
"#
    )
}

fn word_count(parts: usize) -> String {
    let lines = lines(parts);
    format!(
        r#"{lines}
[pe.count]
type = "word-counter"
input = [{{ stream = "words", key = ["text"] }}]
"#
    )
}

fn top_words(parts: usize) -> String {
    let (lines, tasks) = (lines(parts), parts / 2);
    format!(
        r#"{lines}
[pe.count]
type = "teller"
input = [{{ stream = "words", key = ["text"] }}]
emits = "counts"

[pe.sort]
type = "top-k"
input = [{{ stream = "counts", key = ["word"] }}]
emits = "tops"
parallelism = {tasks}
trigger = {{ events = 20000, after = "200ms" }}

[pe.merge]
type = "top-k-merge"
input = [{{ stream = "tops", grouping = "global" }}]
"#
    )
}

fn click_through(parts: usize) -> String {
    format!(
        r#"
[spout.ads]
type = "ads"
params = {{ parts = {parts} }}
emits = {{ Impression = "impressions", Click = "clicks" }}

[pe.join]
type = "join"
input = [{{ stream = "impressions", key = ["id"] }}, {{ stream = "clicks", key = ["id"] }}]
emits = "clicked"

[pe.campaign]
type = "campaign"
input = [
  {{ stream = "impressions", key = ["campaign"] }},
  {{ stream = "clicked", key = ["campaign"] }},
]
"#
    )
}

fn chain(parts: usize) -> String {
    let mut text = numbers(parts, "end");
    let mut before = "numbers".to_owned();
    for which in 0..CHAIN {
        let after = format!("step-{which}");
        text += &format!(
            r#"
[pe.step-{which}]
type = "step"
params = {{ which = {which} }}
input = [{{ stream = "{before}", grouping = "local-or-shuffle" }}]
emits = "{after}"
"#
        );
        before = after;
    }
    text + &sum(&before)
}

fn one_step(parts: usize) -> String {
    let numbers = numbers(parts, "end");
    let sum = sum("stepped");
    format!(
        r#"{numbers}
[pe.steps]
type = "all-steps"
input = [{{ stream = "numbers", grouping = "local-or-shuffle" }}]
emits = "stepped"
{sum}"#
    )
}

fn sum(stream: &str) -> String {
    format!(
        r#"
[pe.sum]
type = "sum"
input = [{{ stream = "{stream}", grouping = "local-or-shuffle" }}]
"#
    )
}

fn fan_out(parts: usize) -> String {
    let numbers = numbers(parts, "end");
    format!(
        r#"{numbers}
[pe.fan]
type = "fan"
input = [{{ stream = "numbers", grouping = "local-or-shuffle" }}]
emits = "fanned"

[pe.count]
type = "counter"
input = [{{ stream = "fanned", key = ["n"] }}]
"#
    )
}

fn schedule(spec: &Spec) -> String {
    let rate = spec.rate;
    format!(
        r#"
[spout.schedule]
type = "schedule"
params = {{ rate = {rate} }}
emits = "due"
"#
    )
}

fn open_loop(spec: &Spec) -> String {
    let (schedule, crossed) = (schedule(spec), spec.processes > 1);
    format!(
        r#"{schedule}
[pe.relay]
type = "relay"
input = [{{ stream = "due", key = ["key"] }}]
emits = "passed"

[pe.lateness]
type = "lateness"
params = {{ crossed = {crossed} }}
input = [{{ stream = "passed", grouping = "local-or-shuffle" }}]
"#
    )
}

fn watched(spec: &Spec) -> String {
    let schedule = schedule(spec);
    format!(
        r#"{schedule}
[pe.watch]
type = "watch"
input = [{{ stream = "due", key = ["key"] }}]
"#
    )
}

fn stalled(parts: usize) -> String {
    let numbers = numbers(parts, "again");
    format!(
        r#"{numbers}
[pe.echo]
type = "echo"
input = [{{ stream = "numbers", key = ["n"] }}]
emits = "echoed"

[pe.out]
type = "stdout"
input = [{{ stream = "echoed" }}]
"#
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::ValueEnum;
    use pe::Registry;
    use pe::topology::Topology;

    use super::super::register;
    use super::*;

    #[test]
    fn all_can_be_planned_without_a_warning() {
        let catalog = register(Registry::new().sink(
            "stdout",
            &[],
            std::sync::Arc::new(|_| unreachable!("nothing runs")),
        ))
        .catalog();
        for &workload in Workload::value_variants() {
            for model in [Model::Keyed, Model::OneStep] {
                let duration = Duration::from_secs(1);
                let (events, bytes, threads, processes) = (1, 1, 2, 1);
                let spec = Spec {
                    workload,
                    model,
                    events,
                    bytes,
                    threads,
                    processes,
                    rate: 1,
                    duration,
                    join_at: None,
                    seed: 1,
                };
                let planned = Topology::parse(&text(&spec)).and_then(|read| read.plan(&catalog));
                let plan = planned.unwrap_or_else(|errors| panic!("{workload:?}: {errors:?}"));
                assert_eq!(plan.warnings, [], "{workload:?}");
            }
        }
    }
}
