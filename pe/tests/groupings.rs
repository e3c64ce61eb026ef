//! Every grouping, in clusters of one to three nodes: which instance gets what, how evenly, in which order.
//!
//! What a sender does batch by batch is shown in `routing`; here it is what comes of it when several emit at
//! once, instances live all over the place, and turns fall as they like.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use pe as starling;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use membership::{Epoch, NodeId};
use pe::topology::{InstancePlan, Prototype, Topology};
use pe::{
    Ctx, Event, Home, Input, KeyRef, Layout, On, Params, Pe, Phase, Place, Registry, RunReport,
    Unit,
};
use proptest::prelude::*;
use routing::{BatchKind, ContainerId};
use serde::{Deserialize, Serialize};
use support::{Cluster, Feed, Lend, Thing, Written, at, feed, host, log, logged};

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

/// The `n`th event of a partition.
#[derive(Clone, Event)]
struct Step {
    key: u64,
    name: String,
    from: u64,
    n: u64,
}

impl Lend for Step {
    fn lend(&self) -> StepRef<'_> {
        StepRef { key: self.key, name: &self.name, from: self.from, n: self.n }
    }
}

/// Who got it.
#[derive(Clone, Debug, Event, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    by: u64,
    key: u64,
    from: u64,
    n: u64,
}

/// Says which events it gets.
#[derive(Default, Serialize, Deserialize)]
struct Teller {
    by: u64,
}

impl Pe for Teller {
    type In = Step;
    type Out = Seen;

    fn create(key: KeyRef<'_>, _: &Params) -> Self {
        let by = key.task().map(|(task, _)| u64::from(task)).or(key.unsigned(0));
        Self { by: by.unwrap() }
    }
}

impl On<Step> for Teller {
    fn on(&mut self, StepRef { key, from, n, .. }: StepRef<'_>, ctx: &mut Ctx<'_, Seen>) {
        let by = self.by;
        log(serde_json::to_string(&Seen { by, key, from, n }).unwrap());
        ctx.emit(SeenRef { by, key, from, n });
    }
}

/// By the sum of the fields of the key; for some keys it names no task, for others it panics.
fn by_sum(key: KeyRef<'_>, tasks: u32) -> u32 {
    let sum: u64 = (0..key.fields()).filter_map(|field| key.unsigned(field)).sum();
    assert!(sum % 11 != 3, "no task for this one");
    u32::try_from(sum % u64::from(tasks + 1)).unwrap()
}

const PARTITIONS: [&str; 3] = ["0", "1", "2"];

fn topology(input: &str, parallelism: Option<u32>, overflow: &str) -> String {
    let parallelism = parallelism.map_or(String::new(), |tasks| format!("parallelism = {tasks}"));
    format!(
        r#"name = "groupings"
        spout.steps = {{ type = "feed", emits = "steps" }}
        stream.steps = {{ overflow = "{overflow}" }}
        [pe.tell]
        type = "teller"
        input = [{{ stream = "steps"{input} }}]
        emits = "seen"
        {parallelism}
        [pe.out]
        type = "collect"
        input = [{{ stream = "seen", grouping = "global" }}]"#
    )
}

/// Another input makes it one instance per container; nothing comes by it.
fn one_per_container(overflow: &str) -> String {
    let input = r#", grouping = "all" }, { stream = "more", grouping = "local-or-shuffle""#;
    topology(input, None, overflow) + "\n[spout.more]\ntype = \"feed\"\nemits = \"more\""
}

struct Scene {
    cluster: Cluster,
    written: Written,
    steps: BTreeSet<(u64, u64)>,
}

/// A cluster that reads three partitions with events of these keys.
fn scene(text: &str, nodes: &[u16], seed: u64, keys: &[u64]) -> Scene {
    let written = Written::default();
    let registry = Registry::new().spout::<Feed<Step, 70>>("feed").pe::<Teller>("teller");
    let registry = written.sink(registry.grouping("by-sum", by_sum), "collect");
    let cluster = Cluster::new(registry, text, nodes, seed);
    drop(logged());
    let mut steps = BTreeSet::new();
    for from in 0..3u64 {
        let step = |(n, key): (u64, &u64)| {
            let name = "n".repeat(usize::try_from(key % 30).unwrap());
            Step { key: *key, name, from, n }
        };
        let mine = keys.iter().skip(usize::try_from(from).unwrap()).step_by(3);
        let mine: Vec<_> = (0..).zip(mine).map(step).collect();
        steps.extend(mine.iter().map(|step| (from, step.n)));
        feed(&from.to_string(), mine);
    }
    Scene { cluster, written, steps }
}

struct Told {
    seen: Vec<Seen>,
    report: RunReport,
    steps: BTreeSet<(u64, u64)>,
    /// Handled and emitted, by container.
    by_container: BTreeMap<ContainerId, (u64, u64)>,
}

impl Scene {
    fn finish(mut self) -> Told {
        self.cluster.settle();
        let all: Vec<_> = self.cluster.containers.keys().copied().collect();
        let [steps, tell] = ["steps", "tell"].map(|name| host(&self.cluster.plans[0], name));
        let by_container = all.into_iter().map(|id| {
            let hosts = self.cluster.report_of(id).hosts;
            (id, (hosts[tell].applied, hosts[steps].emitted))
        });
        let by_container = by_container.collect();
        let report = self.cluster.finish();
        let seen = self.written.take();
        let seen: Vec<Seen> = seen.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        // From a partition to an instance there is one way, whatever the grouping. Those that are one per
        // node are not told apart. What a former home and the present one say of it meets only behind them, so it is
        // by the calls themselves that the order is known.
        let has_number = match self.cluster.plans[0].prototypes[tell].instances {
            InstancePlan::Keyed | InstancePlan::Tasks(_) => true,
            InstancePlan::PerNode | InstancePlan::PerContainer | InstancePlan::Partitions => false,
        };
        let mut last = BTreeMap::new();
        let calls = logged();
        for call in calls.iter().filter(|_| has_number) {
            let Seen { by, key, from, n } = serde_json::from_str(call).unwrap();
            let before = last.insert((by, from), n);
            assert!(before.is_none_or(|before| before < n), "{from}:{n} of {key} at {by}");
        }
        Told { seen, report, steps: self.steps, by_container }
    }
}

impl Told {
    /// That each step was seen once, and nothing dropped.
    fn each_once(&self) {
        assert_eq!(self.report.dropped, BTreeMap::new());
        assert_eq!(self.seen.len(), self.steps.len());
        assert_eq!(self.of(|_| true), self.steps);
    }

    fn of(&self, is_meant: impl Fn(&Seen) -> bool) -> BTreeSet<(u64, u64)> {
        let meant = self.seen.iter().filter(|seen| is_meant(seen));
        meant.map(|seen| (seen.from, seen.n)).collect()
    }

    /// The instances that got events of each key.
    fn by_key(&self) -> BTreeMap<u64, BTreeSet<u64>> {
        let mut by_key: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        for seen in &self.seen {
            by_key.entry(seen.key).or_default().insert(seen.by);
        }
        by_key
    }

    fn count(&self, by: u64) -> u64 {
        self.seen.iter().filter(|seen| seen.by == by).count() as u64
    }
}

fn told(input: &str, parallelism: Option<u32>, nodes: &[u16], seed: u64, keys: &[u64]) -> Told {
    let mut scene = scene(&topology(input, parallelism, "block"), nodes, seed, keys);
    scene.cluster.open("steps", &PARTITIONS);
    scene.finish()
}

fn nodes() -> impl Strategy<Value = Vec<u16>> {
    prop::sample::select(vec![vec![1], vec![3], vec![2, 2], vec![1, 2, 1]])
}

/// Keys, some of them common.
fn keys() -> impl Strategy<Value = Vec<u64>> {
    let key = prop_oneof![0u64..3, 0u64..1000];
    prop::collection::vec(key, 0..6000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn by_key_each_instance_has_its_key_and_in_order(
        seed in any::<u64>(), nodes in nodes(), keys in keys(),
    ) {
        let told = told(r#", key = ["key"]"#, None, &nodes, seed, &keys);
        told.each_once();
        prop_assert!(told.seen.iter().all(|seen| seen.by == seen.key));
        let distinct: BTreeSet<_> = keys.iter().collect();
        let instances: Vec<_> = told.report.hosts.iter().map(|host| host.instances).collect();
        // The partitions, the sink, and an instance per key wherever it is.
        prop_assert_eq!(instances, [3, 1, distinct.len() as u64]);
    }

    #[test]
    fn by_fields_each_key_has_one_task(
        seed in any::<u64>(), nodes in nodes(), keys in keys(), tasks in 1u32..7,
    ) {
        let input = r#", key = ["key"], grouping = "fields""#;
        let told = told(input, Some(tasks), &nodes, seed, &keys);
        told.each_once();
        prop_assert!(told.by_key().values().all(|tasks| tasks.len() == 1));
        prop_assert!(told.seen.iter().all(|seen| seen.by < tasks.into()));
    }

    /// Whoever emits chooses by itself, between the same two tasks as everybody.
    #[test]
    fn by_partial_key_each_key_has_two_tasks_at_most(
        seed in any::<u64>(), nodes in nodes(), keys in keys(), tasks in 1u32..7, is_text in any::<bool>(),
    ) {
        let field = if is_text { "name" } else { "key" };
        let input = format!(r#", key = ["{field}"], grouping = "partial-key""#);
        let told = told(&input, Some(tasks), &nodes, seed, &keys);
        told.each_once();
        prop_assert!(told.by_key().values().all(|tasks| tasks.len() <= 2));
        if tasks == 2 {
            // Each of three emitters at most is even by itself.
            prop_assert!(told.count(0).abs_diff(told.count(1)) <= 3);
        }
    }

    #[test]
    fn to_all_each_task_gets_a_copy(
        seed in any::<u64>(), nodes in nodes(), keys in keys(), tasks in 1u32..7,
    ) {
        let told = told(r#", grouping = "all""#, Some(tasks), &nodes, seed, &keys);
        for task in 0..u64::from(tasks) {
            prop_assert_eq!(told.of(|seen| seen.by == task), told.steps.clone());
            prop_assert_eq!(told.count(task), keys.len() as u64, "once");
        }
        prop_assert_eq!(told.report.hosts[0].emitted, keys.len() as u64);
        prop_assert!(told.report.dropped.is_empty());
    }

    #[test]
    fn to_all_each_node_gets_a_copy_where_there_is_one_instance_per_node(
        seed in any::<u64>(), nodes in nodes(), keys in keys(),
    ) {
        let told = told(r#", grouping = "all""#, None, &nodes, seed, &keys);
        for node in (1..).take(nodes.len()).map(NodeId) {
            let of_node = told.by_container.iter().filter(|(id, _)| id.node == node);
            let applied: Vec<_> = of_node.map(|(_, (applied, _))| *applied).collect();
            prop_assert_eq!(applied.iter().sum::<u64>(), keys.len() as u64);
            let instances = applied.iter().filter(|applied| **applied > 0).count();
            prop_assert_eq!(instances, usize::from(!keys.is_empty()));
        }
        prop_assert!(told.report.dropped.is_empty());
    }

    #[test]
    fn to_all_each_container_gets_a_copy_where_there_is_one_instance_per_container(
        seed in any::<u64>(), nodes in nodes(), keys in keys(),
    ) {
        let mut scene = scene(&one_per_container("block"), &nodes, seed, &keys);
        scene.cluster.open("steps", &PARTITIONS);
        let told = scene.finish();
        let counts = told.by_container.values().map(|(applied, _)| *applied);
        prop_assert!(counts.clone().all(|applied| applied == keys.len() as u64), "{:?}", counts);
        prop_assert!(told.report.dropped.is_empty());
    }

    /// Two ways to say that each goes to some task, once.
    #[test]
    fn by_shuffle_and_none_each_goes_to_one_task(
        seed in any::<u64>(), nodes in nodes(), keys in keys(), tasks in prop::option::of(1u32..7),
    ) {
        for input in [r#", grouping = "shuffle""#, r#", grouping = "none""#] {
            let told = told(input, tasks, &nodes, seed, &keys);
            told.each_once();
            prop_assert!(told.seen.iter().all(|seen| seen.by < tasks.unwrap_or(1).into()));
        }
    }

    #[test]
    fn by_load_aware_shuffle_each_goes_to_one_task(
        seed in any::<u64>(), nodes in nodes(), keys in keys(), tasks in prop::option::of(1u32..7),
    ) {
        let told = told(r#", grouping = "load-aware-shuffle""#, tasks, &nodes, seed, &keys);
        told.each_once();
        prop_assert!(told.seen.iter().all(|seen| seen.by < tasks.unwrap_or(1).into()));
    }

    #[test]
    fn by_direct_the_key_is_the_task_and_others_are_counted(
        seed in any::<u64>(), nodes in nodes(), keys in keys(), tasks in 1u32..900,
    ) {
        let input = r#", key = ["key"], grouping = "direct""#;
        let told = told(input, Some(tasks), &nodes, seed, &keys);
        prop_assert!(told.seen.iter().all(|seen| seen.by == seen.key));
        let lost = keys.iter().filter(|key| **key >= u64::from(tasks)).count() as u64;
        prop_assert_eq!(told.seen.len() as u64 + lost, keys.len() as u64);
        prop_assert_eq!(told.of(|_| true).len(), told.seen.len(), "once");
        let counted = told.report.dropped.get("no such task").copied();
        prop_assert_eq!(counted.unwrap_or_default(), lost);
        prop_assert_eq!(told.report.hosts[0].emitted, keys.len() as u64);
    }

    /// What the function says, of one field and of two; what it does not say is counted, panics included.
    #[test]
    fn by_a_grouping_of_the_application_each_goes_where_it_says(
        seed in any::<u64>(), nodes in nodes(), keys in keys(), tasks in 1u32..7, is_of_two in any::<bool>(),
    ) {
        let key = if is_of_two { r#"["from", "key"]"# } else { r#"["key"]"# };
        let input = format!(r#", key = {key}, grouping = "by-sum""#);
        let told = told(&input, Some(tasks), &nodes, seed, &keys);
        let task = |key: u64, from: u64| {
            let sum = key + if is_of_two { from } else { 0 };
            let task = sum % u64::from(tasks + 1);
            (sum % 11 != 3 && task < u64::from(tasks)).then_some(task)
        };
        prop_assert!(told.seen.iter().all(|seen| Some(seen.by) == task(seen.key, seen.from)));
        let is_lost = |(at, key): &(u64, &u64)| task(**key, at % 3).is_none();
        let lost = (0..).zip(&keys).filter(is_lost).count() as u64;
        prop_assert_eq!(told.of(|_| true).len() as u64 + lost, keys.len() as u64);
        prop_assert_eq!(told.seen.len() as u64 + lost, keys.len() as u64, "once");
        let counted = told.report.dropped.get("no such task").copied();
        prop_assert_eq!(counted.unwrap_or_default(), lost);
        prop_assert!(told.report.hosts.iter().all(|host| host.dead_letters == 0));
    }

    #[test]
    fn to_global_all_go_to_the_first(seed in any::<u64>(), nodes in nodes(), keys in keys()) {
        for tasks in [None, Some(4)] {
            let told = told(r#", grouping = "global""#, tasks, &nodes, seed, &keys);
            told.each_once();
            prop_assert_eq!(told.count(0), keys.len() as u64);
        }
    }

    /// Without a grouping a node handles what it emits; with `local-or-shuffle`, a container.
    #[test]
    fn local_events_stay_where_they_are(seed in any::<u64>(), nodes in nodes(), keys in keys()) {
        let near = told("", None, &nodes, seed, &keys);
        near.each_once();
        let mut by_node: BTreeMap<NodeId, (u64, u64)> = BTreeMap::new();
        for (id, (applied, emitted)) in near.by_container {
            let sum = by_node.entry(id.node).or_default();
            *sum = (sum.0 + applied, sum.1 + emitted);
        }
        prop_assert!(by_node.values().all(|(applied, emitted)| applied == emitted), "{:?}", by_node);
        // Without a number there is an instance in each container; with as many as containers, too.
        let containers = nodes.iter().copied().map(u32::from).sum();
        for tasks in [None, Some(containers)] {
            let here = told(r#", grouping = "local-or-shuffle""#, tasks, &nodes, seed, &keys);
            here.each_once();
            let all = &here.by_container;
            prop_assert!(all.values().all(|(applied, emitted)| applied == emitted), "{:?}", all);
        }
    }

    /// A task that moves meanwhile gets what is for it once, at its old home or its new one, and in order.
    #[test]
    fn events_follow_a_task_that_moves(
        seed in any::<u64>(), keys in keys(), turns in 0usize..400, tasks in 1u32..5, to in 0usize..3,
        how in 0usize..6,
    ) {
        let inputs = [
            r#", key = ["key"], grouping = "fields""#,
            r#", key = ["key"], grouping = "partial-key""#,
            r#", key = ["n"], grouping = "direct""#,
            r#", key = ["key"], grouping = "by-sum""#,
            r#", grouping = "load-aware-shuffle""#,
            r#", grouping = "all""#,
        ];
        let text = topology(inputs[how], Some(tasks), "block");
        let mut scene = scene(&text, &[1, 1, 1], seed, &keys);
        scene.cluster.open("steps", &PARTITIONS);
        scene.cluster.turns(turns);
        let prototype = u16::try_from(host(&scene.cluster.plans[0], "tell")).unwrap();
        let unit = |task| Unit::Task { topology: 0, prototype, task };
        let home = |task: u32| at((u64::from(task) + to as u64) % 3 + 1, 0);
        let moves: Vec<_> = (0..tasks).map(|task| (unit(task), home(task))).collect();
        scene.cluster.move_units(&moves);
        let mut told = scene.finish();
        let lost = told.report.dropped.remove("no such task").unwrap_or_default();
        prop_assert!(told.report.dropped.is_empty(), "{:?}", told.report.dropped);
        let copies = if how == 5 { u64::from(tasks) } else { 1 };
        prop_assert_eq!(told.seen.len() as u64 + lost, copies * keys.len() as u64);
        let distinct: BTreeSet<_> = told.seen.iter().collect();
        prop_assert_eq!(distinct.len(), told.seen.len(), "once");
        if how == 1 {
            prop_assert!(told.by_key().values().all(|tasks| tasks.len() <= 2));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5))]

    /// Whoever stalls: the spouts go on to their end, and what did not come is counted, to the last event.
    #[test]
    fn what_is_shed_holds_no_spout_back(
        seed in any::<u64>(), nodes in nodes(), stalled in 0usize..4, how in 0usize..4,
    ) {
        let inputs = [
            (r#", key = ["key"]"#, None, 1),
            (r#", grouping = "global""#, None, 1),
            (r#", grouping = "all""#, Some(3), 3),
            (r#", grouping = "shuffle""#, Some(3), 1),
        ];
        let (input, tasks, copies) = inputs[how];
        let keys: Vec<_> = (0..90_000).map(|n| n * 7 % 500).collect();
        let mut scene = scene(&topology(input, tasks, "shed"), &nodes, seed, &keys);
        scene.cluster.open("steps", &PARTITIONS);
        let all: Vec<_> = scene.cluster.containers.keys().copied().collect();
        let stalled = all[stalled % all.len()];
        scene.cluster.settle_without(stalled);
        for id in all.into_iter().filter(|id| *id != stalled) {
            let spout = &scene.cluster.report_of(id).hosts[0];
            prop_assert!(!spout.is_held_back && spout.partitions.iter().all(|part| part.is_exhausted));
        }
        scene.cluster.stalled.clear();
        let told = scene.finish();
        let shed = told.report.dropped.get("shed").copied().unwrap_or_default();
        let Told { report, seen, .. } = told;
        prop_assert_eq!(report.hosts[0].emitted, keys.len() as u64);
        prop_assert_eq!(seen.len() as u64 + shed, copies * keys.len() as u64);
        prop_assert_eq!(report.dropped.keys().filter(|reason| *reason != "shed").count(), 0);
        prop_assert_eq!((report.in_doubt, report.unconfirmed), (0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(9))]

    /// Whoever stalls: the spouts go on to their end, and what waits on disk meanwhile comes to all for whom it was.
    #[test]
    fn what_spills_holds_no_spout_back(
        seed in any::<u64>(), nodes in nodes(), stalled in 0usize..4, how in 0usize..9,
    ) {
        let each_node = nodes.len() as u64;
        let each_container = nodes.iter().map(|&containers| u64::from(containers)).sum();
        let (input, tasks, copies) = [
            (r#", key = ["key"]"#, None, 1),
            (r#", key = ["key"], grouping = "fields""#, Some(4), 1),
            (r#", key = ["key"], grouping = "partial-key""#, Some(4), 1),
            (r#", grouping = "load-aware-shuffle""#, Some(3), 1),
            (r#", grouping = "shuffle""#, Some(3), 1),
            (r#", grouping = "global""#, None, 1),
            (r#", grouping = "all""#, Some(3), 3),
            (r#", grouping = "all""#, None, each_node),
            ("", None, each_container),
        ][how];
        let text = match input {
            "" => one_per_container("spill"),
            input => topology(input, tasks, "spill"),
        };
        let keys: Vec<_> = (0..90_000).map(|n| n * 7 % 500).collect();
        let mut scene = scene(&text, &nodes, seed, &keys);
        scene.cluster.open("steps", &PARTITIONS);
        let all: Vec<_> = scene.cluster.containers.keys().copied().collect();
        let stalled = all[stalled % all.len()];
        let steps = host(&scene.cluster.plans[0], "steps");
        scene.cluster.settle_without(stalled);
        for id in all.into_iter().filter(|id| *id != stalled) {
            let spout = &scene.cluster.report_of(id).hosts[steps];
            prop_assert!(!spout.is_held_back && spout.partitions.iter().all(|part| part.is_exhausted));
        }
        scene.cluster.stalled.clear();
        let Told { report, seen, .. } = scene.finish();
        prop_assert!(report.dropped.is_empty(), "{:?}", report.dropped);
        prop_assert_eq!(seen.len() as u64, copies * keys.len() as u64);
        prop_assert_eq!((report.in_doubt, report.unconfirmed), (0, 0));
    }
}

/// A shuffle would wait for the node that stands still; this one finds the other.
#[test]
fn a_load_aware_shuffle_goes_round_a_node_that_stands_still() {
    let keys: Vec<_> = (0..200_000).collect();
    let run = |grouping: &str| {
        let text = topology(&format!(r#", grouping = "{grouping}""#), None, "block");
        // Nothing behind it, which might live on the node that stands still.
        let (text, _) = text.split_once("[pe.out]").unwrap();
        let mut scene = scene(text, &[1, 1], 5, &keys);
        scene.cluster.open_at(at(1, 0), (0, 0), "0", pe::Position::default());
        scene.cluster.settle_without(at(2, 0));
        let spout = scene.cluster.report_of(at(1, 0)).hosts.swap_remove(0);
        let is_done = spout.partitions[0].is_exhausted;
        scene.cluster.stalled.clear();
        let told = scene.finish();
        assert!(told.report.dropped.is_empty());
        (is_done, told.by_container[&at(2, 0)].0)
    };
    assert_eq!(run("load-aware-shuffle"), (true, 0));
    let (is_done, applied) = run("shuffle");
    assert!(!is_done && applied > 20_000, "{applied}");
}

/// 32 batches are on their way to a neighbour that is not stepped; the rest of 80,000 events is shed.
#[test]
fn what_a_neighbour_is_too_slow_for_is_shed_and_counted() {
    let keys = vec![1; 240_000];
    let text = topology(r#", grouping = "global""#, None, "shed");
    let mut scene = scene(&text, &[2], 3, &keys);
    let (layout, plan) = (scene.cluster.layout(NodeId(1)), scene.cluster.plans[0].clone());
    let has_task = |id| !layout.tasks(&plan, (0, host(&plan, "tell")), id).is_empty();
    let [slow, fast] = if has_task(at(1, 0)) { [0, 1] } else { [1, 0] };
    scene.cluster.open_at(at(1, fast), (0, 0), "0", pe::Position::default());
    scene.cluster.settle_without(at(1, slow));
    let report = scene.cluster.report_of(at(1, fast));
    assert!(report.hosts[0].partitions[0].is_exhausted && !report.hosts[0].is_held_back);
    let shed = report.dropped["shed"];
    assert!((80_000 - 32 * 1024..60_000).contains(&shed), "{shed}");
    scene.cluster.stalled.clear();
    let told = scene.finish();
    assert_eq!(told.report.dropped, BTreeMap::from([("shed".to_owned(), shed)]), "once");
    assert_eq!(told.seen.len() as u64, 80_000 - shed);
}

/// One key in three is the same: the one task that has it by hash does a third, by partial key two share it.
#[test]
fn a_partial_key_divides_what_is_common() {
    let keys: Vec<_> = (0..18_000).map(|n| if n / 3 % 3 == 0 { 0 } else { n % 1000 }).collect();
    let most = |grouping: &str| {
        let input = format!(r#", key = ["key"], grouping = "{grouping}""#);
        let told = told(&input, Some(6), &[1, 1], 3, &keys);
        told.each_once();
        (0..6).map(|task| told.count(task)).max().unwrap()
    };
    let (hashed, chosen) = (most("fields"), most("partial-key"));
    assert!(hashed > 6_000 && chosen < 3_400, "{hashed} and {chosen} of 18,000 with six tasks");
}

/// Who leaves has no use for copies; where everybody leaves, what is emitted stays on its node.
#[test]
fn copies_are_for_members_that_stay() {
    let registry = Registry::new().spout::<Feed<Step, 70>>("feed").pe::<Teller>("teller");
    let registry = Written::default().sink(registry, "collect");
    let one_per_node = topology(r#", grouping = "all""#, None, "block");
    for (text, each) in [(one_per_node, 1), (one_per_container("block"), 2)] {
        let plan = Topology::parse(&text).unwrap().plan(&registry.catalog()).unwrap();
        let plans = [Arc::new(plan)];
        let (plan, tell) = (&plans[0], host(&plans[0], "tell"));
        let edge = plan.edges.iter().find(|edge| edge.to == tell && edge.input == 0).unwrap();
        let nodes = |active: [bool; 3]| {
            let places = (1..).map(NodeId).zip(active).map(|(node, is_active)| Place {
                node,
                since: Epoch(1),
                containers: 2,
                number: 1,
                is_drained: false,
                is_active,
            });
            let homes =
                |known: &Prototype| vec![Home::first(at(1, 0)); known.instances.tasks() as usize];
            let tasks = vec![plan.prototypes.iter().map(homes).collect()];
            // All three have slots yet.
            let slots = [1, 2, 3, 1].map(|node| Home::first(NodeId(node))).to_vec();
            let (places, phases) = (places.collect(), vec![Phase::Running]);
            let layout = Layout::new(Epoch(1), NodeId(1), places, slots, tasks, &plans, phases);
            let lanes = layout.lanes(plan, 0, edge, at(1, 1), None).lanes;
            lanes.iter().map(|lane| lane.to.node.0).collect::<Vec<_>>()
        };
        let each =
            |nodes: &[u64]| nodes.iter().flat_map(|node| vec![*node; each]).collect::<Vec<_>>();
        assert_eq!(nodes([true, true, true]), each(&[1, 2, 3]));
        assert_eq!(nodes([true, false, true]), each(&[1, 3]));
        assert_eq!(nodes([false, false, true]), each(&[3]));
        assert_eq!(nodes([false, false, false]), [1]);
    }
}

/// A copy that comes to a container without its instance is lost: all other instances have theirs.
#[test]
fn a_copy_that_goes_astray_is_not_copied_again() {
    let keys: Vec<_> = (0..3000).collect();
    let mut scene = scene(&topology(r#", grouping = "all""#, None, "block"), &[1, 1], 7, &keys);
    scene.cluster.open_at(at(1, 0), (0, 0), "0", pe::Position::default());
    scene.cluster.settle_without(at(2, 0));
    let mut astray = 0;
    for thing in scene.cluster.ways.values_mut().flatten() {
        let Thing::Input(_, Input::Arrived(_, header, _)) = thing else { continue };
        if header.kind == BatchKind::Direct && astray == 0 {
            (header.task, astray) = (99, u64::from(header.rows));
        }
    }
    scene.cluster.stalled.clear();
    let told = scene.finish();
    assert!(astray > 0);
    assert_eq!(told.report.dropped, BTreeMap::from([("misrouted".to_owned(), astray)]));
    let applied = [at(1, 0), at(2, 0)].map(|id| told.by_container[&id].0);
    assert_eq!(applied, [1000, 1000 - astray]);
}

#[test]
fn a_grouping_of_the_engine_cannot_be_replaced() {
    for name in ["shuffle", "fields", "none", "partial-key", "load-aware-shuffle"] {
        let register = || Registry::new().grouping(name, |_, _| 0);
        assert!(std::panic::catch_unwind(register).is_err(), "{name}");
    }
    let registry = Registry::new().spout::<Feed<Step, 70>>("feed").pe::<Teller>("teller");
    let registry = registry.grouping("mine", |_, _| 0);
    assert!(registry.catalog().groupings.contains("mine"));
    let text = topology(r#", key = ["key"], grouping = "mien""#, Some(2), "block");
    let registry = Written::default().sink(registry, "collect");
    let problems = Topology::parse(&text).unwrap().plan(&registry.catalog()).unwrap_err();
    assert_eq!(problems[0].help.as_deref(), Some("did you mean `mine`?"));
}
