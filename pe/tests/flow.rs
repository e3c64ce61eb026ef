//! Order is kept and memory is bounded, whoever is slow and however the turns fall.

use pe as starling;

use std::collections::BTreeMap;

use membership::NodeId;
use pe::{Ctx, Event, On, Pe, Registry};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use support::{Cluster, Feed, Lend, Way, Written, at, feed, host};

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

#[derive(Clone, Event)]
struct Step {
    key: u64,
    from: u64,
    n: u64,
    pad: String,
}

impl Lend for Step {
    fn lend(&self) -> StepRef<'_> {
        StepRef { key: self.key, from: self.from, n: self.n, pad: &self.pad }
    }
}

/// The same under another name: an edge of its own between the same two PEs.
#[derive(Event)]
struct Back {
    key: u64,
    from: u64,
    n: u64,
}

/// Passes steps on; `On<Step>` gives a step and a `Back`.
#[derive(Default, Serialize, Deserialize)]
struct Relay;

impl Pe for Relay {
    type In = Step;
    type Out = (Step, Back);
}

impl On<Step> for Relay {
    fn on(&mut self, step: StepRef<'_>, ctx: &mut Ctx<'_, Self::Out>) {
        ctx.emit(step);
        ctx.emit(BackRef { key: step.n % 97, from: step.from, n: step.n });
    }
}

/// Checks that the steps of its key come in order, from each spout.
#[derive(Default, Serialize, Deserialize)]
struct Checker {
    last: BTreeMap<u64, u64>,
    n: u64,
}

#[derive(Clone, Event)]
struct Wrong {
    key: u64,
    n: u64,
}

impl Pe for Checker {
    type In = (Step, Back);
    type Out = Wrong;
}

impl Checker {
    fn check(&mut self, key: u64, from: u64, n: u64, ctx: &mut Ctx<'_, Wrong>) {
        self.n += 1;
        let last = self.last.insert(from, n);
        if last.is_some_and(|last| last >= n) {
            ctx.emit(WrongRef { key, n });
        }
    }
}

impl On<Step> for Checker {
    fn on(&mut self, step: StepRef<'_>, ctx: &mut Ctx<'_, Wrong>) {
        self.check(step.key, step.from, step.n, ctx);
    }
}

impl On<Back> for Checker {
    fn on(&mut self, _: BackRef, _: &mut Ctx<'_, Wrong>) {
        // One key of many producers: there is no order among them.
        self.n += 1;
    }
}

/// A chain by key, task and key again, with several edges between any two containers.
fn chain(nodes: &[u16], seed: u64) -> (Cluster, Written) {
    chain_of(nodes, seed, "")
}

/// The same with more said of it.
fn chain_of(nodes: &[u16], seed: u64, more: &str) -> (Cluster, Written) {
    let wrong = Written::default();
    let registry = Registry::new()
        .spout::<Feed<Step, 700>>("feed")
        .pe::<Relay>("relay")
        .pe::<Checker>("checker");
    let text = r#"name = "chain"
        spout.steps = { type = "feed", emits = "steps" }
        [pe.one]
        type = "relay"
        input = [{ stream = "steps", key = ["key"] }]
        emits = { Step = "one", Back = "back" }
        [pe.two]
        type = "relay"
        input = [{ stream = "one", key = ["key"], grouping = "fields" }]
        parallelism = 5
        emits = { Step = "two", Back = "forth" }
        [pe.check]
        type = "checker"
        input = [{ stream = "two", key = ["key"] }, { stream = "back", key = ["key"] }]
        emits = "wrong"
        [pe.other]
        type = "checker"
        input = [{ stream = "two", grouping = "global" }, { stream = "forth", grouping = "global" }]
        emits = "wrong"
        [pe.out]
        type = "collect"
        input = [{ stream = "wrong", grouping = "global" }]"#;
    let text = text.replacen("name = \"chain\"", &format!("name = \"chain\"\n{more}"), 1);
    (Cluster::new(wrong.sink(registry, "collect"), &text, nodes, seed), wrong)
}

fn steps(from: u64, count: u64, keys: u64, pad: usize) -> Vec<Step> {
    let step = |n| Step { key: n * 7 % keys, from, n, pad: "x".repeat(pad) };
    (0..count).map(step).collect()
}

fn applied(cluster: &mut Cluster, name: &str) -> u64 {
    let at = host(&cluster.plans[0], name);
    cluster.report().hosts[at].applied
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// From the spout to `check` a key takes one way, so it keeps the order in which each partition
    /// emitted it.
    #[test]
    fn events_of_a_key_from_one_producer_stay_in_order(seed in any::<u64>(), keys in 1u64..200) {
        for nodes in [&[1][..], &[3], &[2, 2], &[1, 2, 1]] {
            let (mut cluster, wrong) = chain(nodes, seed);
            for part in 0..3 {
                feed(&part.to_string(), steps(part, 3000, keys, 3));
            }
            cluster.open("steps", &["0", "1", "2"]);
            let report = cluster.finish();
            let check = host(&cluster.plans[0], "check");
            let other = host(&cluster.plans[0], "other");
            prop_assert_eq!(report.hosts[check].applied, 2 * 9000);
            prop_assert_eq!(report.hosts[other].applied, 2 * 9000);
            let lines = wrong.take().len();
            let of_check = report.hosts[check].emitted;
            prop_assert_eq!(of_check, 0, "seed {} keys {} on {:?}: {}", seed, keys, nodes, lines);
        }
    }

    /// Whoever stalls, and for however long: the spouts stop, nothing grows, and in the end all is there.
    #[test]
    fn a_container_that_stalls_stops_the_spouts_and_loses_nothing(
        seed in any::<u64>(), stalled in 0usize..6, turns in 0usize..3000,
    ) {
        let (mut cluster, _) = chain(&[2, 2, 2], seed);
        let part = ["0", "1", "2", "3"];
        part.iter().zip(0..).for_each(|(name, from)| feed(name, steps(from, 4000, 500, 40)));
        cluster.open("steps", &part);
        cluster.turns(turns);
        let stalled = at(stalled as u64 / 2 + 1, u16::try_from(stalled % 2).unwrap());
        cluster.stalled.insert(stalled);
        cluster.settle();
        cluster.stalled.clear();
        let report = cluster.finish();
        let other = host(&cluster.plans[0], "other");
        prop_assert_eq!(report.hosts[other].applied, 2 * 16_000, "seed {}", seed);
        prop_assert!(report.dropped.is_empty(), "{:?}", report.dropped);
        prop_assert_eq!((report.in_doubt, report.unconfirmed), (0, 0));
    }
}

/// All streams of the chain spill.
const SPILLS: &str = r#"
    stream.steps = { overflow = "spill" }
    stream.one = { overflow = "spill" }
    stream.two = { overflow = "spill" }
    stream.back = { overflow = "spill" }
    stream.forth = { overflow = "spill" }
    stream.wrong = { overflow = "spill" }"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Whoever stalls, the spouts go on to their end; what waits on disk meanwhile comes in its order, once, though
    /// units move to a node that joins.
    #[test]
    fn what_spills_holds_nobody_back_and_keeps_its_order(
        seed in any::<u64>(), stalled in 0usize..4, turns in 0usize..40, joins in any::<bool>(),
    ) {
        let first = r#"pe.first = { type = "checker", input = [{ stream = "steps", key = ["key"] }], emits = "wrong" }"#;
        let (mut cluster, wrong) = chain_of(&[2, 2], seed, &format!("{SPILLS}\n{first}"));
        let part = ["0", "1", "2"];
        part.iter().zip(0..).for_each(|(name, from)| feed(name, steps(from, 20_000, 500, 300)));
        let stalled = at(stalled as u64 / 2 + 1, u16::try_from(stalled % 2).unwrap());
        let spouts: Vec<_> = (1..3).flat_map(|node| [at(node, 0), at(node, 1)]).collect();
        let spouts = spouts.into_iter().filter(|at| *at != stalled);
        spouts.zip(part).for_each(|(to, name)| cluster.open_at(to, (0, 0), name, pe::Position::default()));
        cluster.turns(turns);
        cluster.settle_without(stalled);
        let report = cluster.report();
        prop_assert_eq!(report.hosts[0].emitted, 60_000);
        prop_assert!(report.hosts.iter().map(|host| host.spilled).sum::<u64>() > 0);
        if joins {
            cluster.view(&[(NodeId(1), 2), (NodeId(2), 2), (NodeId(3), 1)]);
            cluster.turns(50 * turns);
        }
        cluster.stalled.clear();
        let report = cluster.finish();
        for (name, times) in [("check", 2), ("other", 2)] {
            let at = host(&cluster.plans[0], name);
            prop_assert_eq!(report.hosts[at].applied, times * 60_000, "{} of seed {}", name, seed);
        }
        // What moves is fed by its former home and by its new one, and there is no order among these.
        for name in if joins { &["first"][..] } else { &["first", "check"] } {
            let at = host(&cluster.plans[0], name);
            prop_assert_eq!(report.hosts[at].emitted, 0, "seed {}: {}", seed, wrong.take().len());
        }
        prop_assert!(report.dropped.is_empty(), "{:?}", report.dropped);
        prop_assert_eq!((report.in_doubt, report.unconfirmed), (0, 0));
        prop_assert!(cluster.spilled.values().all(std::collections::VecDeque::is_empty));
    }
}

#[test]
fn spouts_stop_when_too_much_waits_on_disk() {
    let more = SPILLS.replace("\"spill\"", "\"spill\", spill_mib = 1");
    let (mut cluster, _) = chain_of(&[2], 3, &more);
    feed("0", steps(0, 400_000, 1000, 8));
    cluster.open_at(at(1, 0), (0, 0), "0", pe::Position::default());
    cluster.settle_without(at(1, 1));
    let report = cluster.report_of(at(1, 0));
    assert!(report.hosts[0].is_held_back);
    assert!(report.hosts[0].emitted < 200_000, "{}", report.hosts[0].emitted);
    // A MiB of each of six edges that leave the first container, and what was ready at a time.
    assert!((1 << 20..8 << 20).contains(&cluster.spilled_peak), "{}", cluster.spilled_peak);
    cluster.stalled.clear();
    let report = cluster.finish();
    assert!(report.dropped.is_empty(), "{:?}", report.dropped);
    assert_eq!(applied(&mut cluster, "other"), 2 * 400_000);
}

#[test]
fn what_cannot_be_read_from_disk_is_counted() {
    let (mut cluster, _) = chain_of(&[2], 3, SPILLS);
    feed("0", steps(0, 100_000, 1000, 8));
    cluster.open_at(at(1, 0), (0, 0), "0", pe::Position::default());
    cluster.settle_without(at(1, 1));
    cluster.is_readable = false;
    cluster.turns(3000);
    cluster.stalled.clear();
    let report = cluster.finish();
    let lost = report.dropped["unreadable"];
    assert!(lost > 0);
    // Of both streams of `one`, what is lost before `two` is missing twice behind it.
    let check = host(&cluster.plans[0], "check");
    assert!(
        report.hosts[check].applied < 200_000 && report.hosts[check].applied + 4 * lost >= 200_000
    );
}

/// Goes round until it has gone round often enough; each time as `copies`.
#[derive(Clone, Event)]
struct Hop {
    key: u64,
    left: u64,
    copies: u64,
    pad: String,
}

impl Lend for Hop {
    fn lend(&self) -> HopRef<'_> {
        HopRef { key: self.key, left: self.left, copies: self.copies, pad: &self.pad }
    }
}

/// Sends on what comes, and says farewell to what has come to its end.
#[derive(Default, Serialize, Deserialize)]
struct Round;

impl Pe for Round {
    type In = Hop;
    type Out = (Hop, Back);

    fn on_remove(&mut self, _: pe::Removal, ctx: &mut Ctx<'_, Self::Out>) {
        ctx.emit(HopRef { key: 0, left: 1, copies: 0, pad: "" });
    }
}

impl On<Hop> for Round {
    fn on(&mut self, hop: HopRef<'_>, ctx: &mut Ctx<'_, Self::Out>) {
        if hop.left == 0 {
            ctx.emit(BackRef { key: hop.key, from: 0, n: 0 });
        }
        for _ in 0..if hop.left > 0 { hop.copies } else { 0 } {
            ctx.emit(HopRef { key: hop.key.wrapping_mul(31) + 7, left: hop.left - 1, ..hop });
        }
    }
}

/// Two PEs that feed each other.
fn ring(nodes: &[u16], seed: u64, more: &str) -> (Cluster, Written) {
    let done = Written::default();
    let registry =
        done.sink(Registry::new().spout::<Feed<Hop, 700>>("feed").pe::<Round>("round"), "collect");
    let text = format!(
        r#"name = "ring"
        {more}
        spout.hops = {{ type = "feed", emits = "hops" }}
        pe.a = {{ type = "round", input = [{{ stream = "hops", key = ["key"] }}, {{ stream = "b", key = ["key"] }}], emits = {{ Hop = "a", Back = "done" }} }}
        pe.b = {{ type = "round", input = [{{ stream = "a", key = ["key"] }}], emits = {{ Hop = "b", Back = "done" }} }}
        pe.out = {{ type = "collect", input = [{{ stream = "done", grouping = "global" }}] }}"#
    );
    (Cluster::new(registry, &text, nodes, seed), done)
}

fn hops(count: u64, left: u64, copies: u64) -> Vec<Hop> {
    let hop = |key| Hop { key, left, copies, pad: "x".repeat(40) };
    (0..count).map(hop).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4))]

    /// Where one of a ring is asleep, the other goes on until too much waits; then all of it goes round to its end.
    #[test]
    fn a_cycle_drains_though_one_of_it_sleeps(
        seed in any::<u64>(), asleep in 0usize..4, turns in 0usize..3000, is_acked in any::<bool>(),
        laps in 1u64..6, copies in 1u64..3,
    ) {
        let delivery = if is_acked { "delivery = \"at-least-once\"\nmax_pending = 1000000" } else { "" };
        // Where one event becomes several, more goes round than the spouts gave.
        let mib = if copies == 1 { 1 } else { 64 };
        let more = format!("{delivery}\nstream.b = {{ overflow = \"spill\", spill_mib = {mib} }}");
        let (mut cluster, done) = ring(&[2, 2], seed, &more);
        let count = 20_000;
        feed("0", hops(count, laps, copies));
        cluster.open("hops", &["0"]);
        cluster.turns(turns);
        let asleep = at(asleep as u64 / 2 + 1, u16::try_from(asleep % 2).unwrap());
        cluster.settle_without(asleep);
        cluster.stalled.clear();
        cluster.pass(std::time::Duration::from_secs(1));
        let report = cluster.finish();
        prop_assert_eq!(done.take().len() as u64, count * copies.pow(u32::try_from(laps).unwrap()));
        prop_assert!(report.dropped.is_empty(), "{:?}", report.dropped);
        prop_assert_eq!((report.trees.pending, report.trees.replays), (0, 0));
        prop_assert_eq!(report.trees.completed, if is_acked { count } else { 0 });
    }
}

#[test]
fn a_cycle_that_makes_ever_more_loses_what_is_too_much_and_says_so() {
    let (mut cluster, done) = ring(&[1], 7, "stream.b = { overflow = \"spill\", spill_mib = 1 }");
    feed("0", hops(8, 16, 2));
    cluster.open("hops", &["0"]);
    let report = cluster.finish();
    assert!(report.dropped["spill full"] > 0);
    assert!(cluster.spilled_peak < 3 << 20, "{}", cluster.spilled_peak);
    assert!(!done.take().is_empty());
}

#[test]
fn a_neighbour_that_is_not_stepped_holds_the_spout_back_at_its_budget() {
    let registry = Registry::new().spout::<Feed<Step, 1024>>("feed").pe::<Checker>("checker");
    let text = r#"name = "near"
        spout.steps = { type = "feed", emits = "steps" }
        pe.check = { type = "checker", input = [{ stream = "steps", key = ["key"] }], emits = "wrong" }"#;
    let mut cluster = Cluster::new(registry, text, &[2], 3);
    feed("0", steps(0, 300_000, 1000, 8));
    cluster.open_at(at(1, 0), (0, 0), "0", pe::Position::default());
    cluster.settle_without(at(1, 1));
    let report = cluster.report_of(at(1, 0));
    assert!(report.hosts[0].is_held_back);
    let emitted = report.hosts[0].emitted;
    // 32 batches of at least half of 1,024 rows, and as many rows for ourselves.
    assert!((30_000..70_000).contains(&emitted), "{emitted}");
    let waiting = cluster.peak[&Way::Near(at(1, 0), at(1, 1))];
    assert!(waiting <= 40, "{waiting} batches wait for a container with a budget of 32");
    cluster.stalled.clear();
    cluster.finish();
    assert_eq!(applied(&mut cluster, "check"), 300_000);
    assert!(cluster.peak[&Way::Near(at(1, 0), at(1, 1))] <= 40);
}

#[test]
fn a_node_that_is_not_stepped_holds_the_spout_back_at_its_budget() {
    let registry = Registry::new().spout::<Feed<Step, 1024>>("feed").pe::<Checker>("checker");
    let text = r#"name = "far"
        spout.steps = { type = "feed", emits = "steps" }
        pe.check = { type = "checker", input = [{ stream = "steps", key = ["key"] }], emits = "wrong" }"#;
    let mut cluster = Cluster::new(registry, text, &[1, 1], 3);
    feed("0", steps(0, 400_000, 1000, 8));
    cluster.open_at(at(1, 0), (0, 0), "0", pe::Position::default());
    cluster.settle_without(at(2, 0));
    let bytes = cluster.waiting_bytes(at(2, 0));
    // A MiB is the most that one lane may have on its way, and a poll more.
    assert!((900 << 10..1300 << 10).contains(&bytes), "{bytes} bytes wait");
    assert!(cluster.report_of(at(1, 0)).hosts[0].is_held_back);
    cluster.stalled.clear();
    cluster.finish();
    assert_eq!(applied(&mut cluster, "check"), 400_000);
    assert_eq!(cluster.report().unconfirmed, 0);
}

/// In the middle of a chain: the host that feeds the slow one keeps its batches, and the one before that
/// waits in turn, up to the spout.
#[test]
fn hosts_are_held_back_one_after_the_other_up_to_the_spout() {
    let registry = Registry::new()
        .spout::<Feed<Step, 1024>>("feed")
        .pe::<Relay>("relay")
        .pe::<Checker>("checker");
    let text = r#"name = "chain"
        spout.steps = { type = "feed", emits = "steps" }
        [pe.one]
        type = "relay"
        input = [{ stream = "steps" }]
        emits = { Step = "one", Back = "none" }
        [pe.two]
        type = "relay"
        input = [{ stream = "one" }]
        emits = { Step = "two", Back = "back" }
        [pe.check]
        type = "checker"
        input = [{ stream = "two", key = ["key"] }, { stream = "back", key = ["key"] }]
        emits = "wrong""#;
    let mut cluster = Cluster::new(registry, text, &[1, 1], 5);
    feed("0", steps(0, 400_000, 1000, 60));
    cluster.open_at(at(1, 0), (0, 0), "0", pe::Position::default());
    cluster.settle_without(at(2, 0));
    let report = cluster.report_of(at(1, 0));
    let is_held = |name| report.hosts[host(&cluster.plans[0], name)].is_held_back;
    assert_eq!(["steps", "one", "two", "check"].map(is_held), [true, true, true, false]);
    let bytes = cluster.waiting_bytes(at(2, 0));
    assert!(bytes < 3 << 20, "{bytes} bytes wait on two edges with a budget of a MiB each");
    // What was emitted and is not on its way there waits in the queues of `one` and `two`.
    let emitted = report.hosts[0].emitted;
    assert!(
        emitted < 120_000,
        "{emitted} events were read of which {bytes} bytes are on their way"
    );
    cluster.stalled.clear();
    cluster.finish();
    assert_eq!(applied(&mut cluster, "check"), 2 * 400_000);
}
