//! The topologies of the workloads, as a user would write them.

use super::TOPOLOGY;
use crate::{CHAIN, Model, Spec, Workload};

/// The text of a workload's topology.
pub(super) fn text(spec: &Spec) -> String {
    // Two partitions for each container: the engine spreads them evenly.
    let parts = 2 * spec.threads;
    let shape = Shape::of(spec);
    let body = match spec.workload {
        Workload::KeyedCount | Workload::HotKey => counted(parts, "end", &shape),
        Workload::Counters => counted(parts, "idle", &shape),
        Workload::WordCount => word_count(parts, &shape),
        Workload::TopWords => top_words(parts, &shape),
        Workload::ClickThrough => click_through(parts, &shape),
        Workload::Chain if spec.model == Model::OneStep => one_step(parts),
        Workload::Chain => chain(parts),
        Workload::FanOut => fan_out(parts),
        Workload::OpenLoop if spec.join_at.is_some() => watched(spec),
        Workload::OpenLoop => open_loop(spec),
        Workload::StalledSink => stalled(parts),
    };
    format!("name = \"{TOPOLOGY}\"\n{}{body}", delivery(spec))
}

/// How PEs are instantiated: one instance for each key, or tasks with maps.
struct Shape {
    /// What is behind the type of a PE.
    suffix: &'static str,
    /// A line that says how many tasks a PE has, if they are counted.
    tasks: String,
}

impl Shape {
    fn of(spec: &Spec) -> Self {
        match spec.model {
            Model::Bolt => {
                Self { suffix: "-bolt", tasks: format!("parallelism = {}\n", spec.threads) }
            }
            Model::Keyed | Model::OneStep | Model::Baseline | Model::Timely | Model::Actor => {
                Self { suffix: "", tasks: String::new() }
            }
        }
    }
}

fn delivery(spec: &Spec) -> String {
    spec.acks.map_or_else(String::new, |granularity| {
        format!("delivery = \"at-least-once\"\nack = {{ granularity = {granularity} }}\n")
    })
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

fn lines(parts: usize, Shape { tasks, .. }: &Shape) -> String {
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
{tasks}"#
    )
}

fn counted(parts: usize, after: &str, Shape { suffix, tasks }: &Shape) -> String {
    let numbers = numbers(parts, after);
    format!(
        r#"{numbers}
[pe.count]
type = "counter{suffix}"
input = [{{ stream = "numbers", key = ["n"] }}]
{tasks}"#
    )
}

fn word_count(parts: usize, shape: &Shape) -> String {
    let (lines, Shape { suffix, tasks }) = (lines(parts, shape), shape);
    format!(
        r#"{lines}
[pe.count]
type = "word-counter{suffix}"
input = [{{ stream = "words", key = ["text"] }}]
{tasks}"#
    )
}

fn top_words(parts: usize, shape: &Shape) -> String {
    // What is sorted is sorted in shares under both: there is no key by which to sort.
    let (lines, sorters) = (lines(parts, shape), parts / 2);
    let Shape { suffix, tasks } = shape;
    format!(
        r#"{lines}
[pe.count]
type = "teller{suffix}"
input = [{{ stream = "words", key = ["text"] }}]
emits = "counts"
{tasks}
[pe.sort]
type = "top-k"
input = [{{ stream = "counts", key = ["word"] }}]
emits = "tops"
parallelism = {sorters}
trigger = {{ events = 20000, after = "200ms" }}

[pe.merge]
type = "top-k-merge"
input = [{{ stream = "tops", grouping = "global" }}]
"#
    )
}

fn click_through(parts: usize, Shape { suffix, tasks }: &Shape) -> String {
    format!(
        r#"
[spout.ads]
type = "ads"
params = {{ parts = {parts} }}
emits = {{ Impression = "impressions", Click = "clicks" }}

[pe.join]
type = "join{suffix}"
input = [{{ stream = "impressions", key = ["id"] }}, {{ stream = "clicks", key = ["id"] }}]
emits = "clicked"
{tasks}
[pe.campaign]
type = "campaign{suffix}"
input = [
  {{ stream = "impressions", key = ["campaign"] }},
  {{ stream = "clicked", key = ["campaign"] }},
]
{tasks}"#
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
    use clap::ValueEnum;

    use super::super::asked::{plan, refusal};
    use super::*;
    use crate::models;

    #[test]
    fn all_can_be_planned_without_a_warning() {
        for &workload in Workload::value_variants() {
            for model in [Model::Keyed, Model::OneStep, Model::Bolt] {
                let spec = Spec { threads: 2, ..Spec::new(workload, model) };
                let plan =
                    plan(&text(&spec)).unwrap_or_else(|errors| panic!("{workload:?}: {errors:?}"));
                assert_eq!(plan.warnings, [], "{workload:?}");
            }
        }
    }

    /// Whatever a workload has been written for as bolts has tasks alone, as many as threads.
    #[test]
    fn bolts_are_counted_and_have_types_of_their_own() {
        for &workload in Workload::value_variants() {
            let of = |model| text(&Spec { threads: 3, ..Spec::new(workload, model) });
            let has_bolts = models(workload).contains(&Model::Bolt);
            assert_eq!(of(Model::Bolt).contains("-bolt\""), has_bolts, "{workload:?}");
            assert!(!of(Model::Keyed).contains("-bolt\""), "{workload:?}");
            if has_bolts {
                let (pes, counted) = ("[pe.", "parallelism = 3\n");
                let count = |what| of(Model::Bolt).matches(what).count();
                let alone = usize::from(workload == Workload::TopWords);
                assert_eq!(count(pes), count(counted) + alone, "{}", of(Model::Bolt));
            }
        }
    }

    #[test]
    fn acks_are_asked_for_above_all_tables() {
        let spec = Spec::new(Workload::WordCount, Model::Bolt);
        assert!(!text(&spec).contains("delivery"));
        let acked = text(&Spec { acks: Some(64), ..spec });
        let head =
            "name = \"compare\"\ndelivery = \"at-least-once\"\nack = { granularity = 64 }\n\n[";
        assert!(acked.starts_with(head), "{acked}");
    }

    /// A version that has acks takes them for all of these; one that does not says so.
    #[test]
    fn a_version_has_acks_or_refuses_them_for_all() {
        let refused: Vec<bool> = Workload::value_variants()
            .iter()
            .map(|&workload| Spec { acks: Some(1), ..Spec::new(workload, Model::Keyed) })
            .map(|spec| refusal(&spec).is_some())
            .collect();
        assert!(refused.windows(2).all(|two| two[0] == two[1]), "{refused:?}");
    }
}
