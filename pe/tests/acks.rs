//! Trees: none is complete before all of it was handled, and none hangs, whatever is lost on the way.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use pe as starling;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use membership::NodeId;
use pe::{
    Anchor, Ctx, Event, Failure, Held, Input, Next, On, Param, Params, Pe, Position, Registry,
    RunReport, Unit, storm,
};
use proptest::prelude::*;
use routing::ContainerId;
use serde::{Deserialize, Serialize};
use support::{Cluster, Feed, Lend, Thing, Way, Written, at, feed, host, log, logged};

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

/// An event that knows which way it came.
#[derive(Clone, Event)]
struct Item {
    id: u64,
    path: String,
}

impl Lend for Item {
    fn lend(&self) -> ItemRef<'_> {
        ItemRef { id: self.id, path: &self.path }
    }
}

/// Passes each event on `copies` times, under its own name.
#[derive(Default, Serialize, Deserialize)]
struct Step {
    name: String,
    copies: i64,
    /// Events that wait for the next one.
    held: Vec<(Anchor, u64, String)>,
    is_holding: bool,
    is_joining: bool,
    is_flaky: bool,
}

thread_local! {
    /// What a flaky step failed at, once.
    static FAILED: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

impl Step {
    fn next(&self, path: &str, copy: i64) -> String {
        format!("{path}/{}{copy}", self.name)
    }

    /// What comes of three events is of the trees of all of them.
    fn join(&mut self, ctx: &mut Ctx<'_, Item>) {
        let mut held = std::mem::take(&mut self.held);
        for at in 0..held.len() {
            let (id, path) = (held[at].1, held[at].2.clone());
            for copy in 0..self.copies {
                let mut anchors: Vec<_> = held.iter_mut().map(|(anchor, ..)| anchor).collect();
                ctx.emit_joined(&mut anchors, ItemRef { id, path: &self.next(&path, copy) });
            }
        }
        held.into_iter().for_each(|(anchor, ..)| ctx.ack(anchor));
    }

    fn let_go(&mut self, ctx: &mut Ctx<'_, Item>) {
        for (mut anchor, id, path) in std::mem::take(&mut self.held) {
            for copy in 0..self.copies {
                ctx.emit_anchored(&mut anchor, ItemRef { id, path: &self.next(&path, copy) });
            }
            ctx.ack(anchor);
        }
    }
}

impl Pe for Step {
    type In = Item;
    type Out = Item;
    const PARAMS: &'static [Param] = &[
        Param::text("name", "its name").required(),
        Param::integer("copies", "how many").required(),
        Param::text("how", "what it does with them")
            .one_of(&["plain", "holds", "joins", "flaky"])
            .required(),
    ];

    fn create(_: pe::KeyRef<'_>, params: &Params) -> Self {
        Self {
            name: params.text("name").to_owned(),
            copies: params.integer("copies"),
            held: Vec::new(),
            is_holding: params.text("how") != "plain" && params.text("how") != "flaky",
            is_joining: params.text("how") == "joins",
            is_flaky: params.text("how") == "flaky",
        }
    }

    fn on_trigger(&mut self, ctx: &mut Ctx<'_, Item>) {
        self.let_go(ctx);
    }
}

impl On<Item> for Step {
    fn on(&mut self, item: ItemRef<'_>, ctx: &mut Ctx<'_, Item>) {
        if self.is_holding {
            let anchor = ctx.hold();
            self.held.push((anchor, item.id, item.path.to_owned()));
            if self.is_joining && self.held.len() == 3 {
                self.join(ctx);
            }
            return;
        }
        let is_new = || FAILED.with_borrow_mut(|failed| failed.insert(item.path.to_owned()));
        if self.is_flaky && item.id % 7 < 2 && is_new() {
            if item.id.is_multiple_of(7) {
                return ctx.fail();
            }
            panic!("once");
        }
        for copy in 0..self.copies {
            ctx.emit(ItemRef { id: item.id, path: &self.next(item.path, copy) });
        }
    }
}

/// A topology drawn by proptest: who reads what.
#[derive(Clone, Debug)]
struct Dag {
    steps: Vec<Drawn>,
    granularity: u32,
}

/// The grouping by which each of two instances gets each event.
const ALL: u8 = 7;

#[derive(Clone, Debug)]
struct Drawn {
    reads: BTreeSet<usize>,
    copies: u32,
    how: &'static str,
    grouping: u8,
}

impl Dag {
    fn text(&self) -> String {
        let mut text = format!(
            "name = \"test\"\ndelivery = \"at-least-once\"\nmax_pending = 200\n\
             ack = {{ granularity = {}, attempts = 20 }}\n\
             spout.items = {{ type = \"items\", emits = \"s0\" }}\n",
            self.granularity
        );
        let mut read = String::new();
        for (at, step) in self.steps.iter().enumerate() {
            let how = [
                "key = [\"id\"]",
                "key = [\"path\"]",
                "grouping = \"shuffle\"",
                "key = [\"id\"]",
                "grouping = \"global\"",
                "grouping = \"partial-key\", key = [\"path\"]",
                "grouping = \"load-aware-shuffle\"",
                "grouping = \"all\"",
            ][usize::from(step.grouping)];
            let parallelism = match step.grouping {
                2 | 3 | 5 | 6 => "parallelism = 3,",
                ALL => "parallelism = 2,",
                _ => "",
            };
            let inputs = step.reads.iter().map(|from| format!("{{ stream = \"s{from}\", {how} }}"));
            let inputs: Vec<_> = inputs.collect();
            writeln!(
                text,
                "pe.p{at} = {{ type = \"step\", {parallelism} input = [{}], emits = \"s{}\", \
                 trigger = {{ after = \"50ms\" }}, \
                 params = {{ name = \"{at}.\", copies = {}, how = \"{}\" }} }}",
                inputs.join(", "),
                at + 1,
                step.copies,
                step.how,
            )
            .unwrap();
            write!(read, "{{ stream = \"s{}\", grouping = \"global\" }},", at + 1).unwrap();
        }
        writeln!(text, "pe.out = {{ type = \"seen\", input = [{read}] }}").unwrap();
        text
    }

    /// All that comes to the sink of an event; what comes twice is in it twice.
    fn paths(&self, id: u64) -> Vec<String> {
        let mut streams = vec![vec![format!("{id}")]];
        for (at, step) in self.steps.iter().enumerate() {
            let each = if step.grouping == ALL { 2 } else { 1 };
            let taken = step.reads.iter().flat_map(|&from| &streams[from]);
            let taken = taken.flat_map(|path| (0..each).map(move |_| path));
            let given = taken
                .flat_map(|path| (0..step.copies).map(move |copy| format!("{path}/{at}.{copy}")));
            streams.push(given.collect());
        }
        streams.split_off(1).into_iter().flatten().collect()
    }
}

fn dag(hows: &'static [&'static str]) -> impl Strategy<Value = Dag> {
    let step = |at: usize| {
        let reads = prop::collection::btree_set(0..=at, 1..=2);
        (reads, 0..3_u32, prop::sample::select(hows), 0..8_u8)
    };
    let steps = (step(0), step(1), step(2), step(3));
    (steps, 1..5_usize, prop::sample::select(&[1_u32, 3, 64][..])).prop_map(
        |((a, b, c, d), count, granularity)| {
            let steps = [a, b, c, d].into_iter().take(count);
            let drawn = |(reads, copies, how, grouping)| Drawn { reads, copies, how, grouping };
            Dag { steps: steps.map(drawn).collect(), granularity }
        },
    )
}

/// A cluster under test, and what its sink has seen.
struct Trial {
    dag: Dag,
    cluster: Cluster,
    written: Written,
    seen: BTreeMap<String, usize>,
    items: u64,
}

impl Trial {
    fn new(dag: Dag, nodes: &[u16], items: u64, seed: u64) -> Self {
        FAILED.with_borrow_mut(BTreeSet::clear);
        let written = Written::default();
        let registry = Registry::new().spout::<Feed<Item, 13>>("items").pe::<Step>("step");
        let cluster = Cluster::new(written.sink(registry, "seen"), &dag.text(), nodes, seed);
        feed("a", (0..items).map(|id| Item { id, path: format!("{id}") }).collect());
        Self { dag, cluster, written, seen: BTreeMap::new(), items }
    }

    fn look(&mut self) {
        for line in self.written.take() {
            let path = line.split("\"path\":\"").nth(1).unwrap().split('"').next().unwrap();
            *self.seen.entry(path.to_owned()).or_default() += 1;
        }
    }

    /// Whatever is committed has been handled, all of it. The feed emits in the order of its ids.
    fn check(&mut self, committed: u64) {
        self.look();
        for id in 0..committed.min(self.items) {
            for path in self.dag.paths(id) {
                assert!(self.seen.contains_key(&path), "{path} is missing below {committed}");
            }
        }
    }

    /// What the partition has committed, and whether it is at its end.
    fn committed(report: &RunReport) -> Option<(u64, bool)> {
        let partition = report.hosts.iter().flat_map(|host| &host.partitions).next()?;
        Some((partition.position.offset + partition.skip, partition.is_exhausted))
    }

    /// Goes on until all is done.
    fn end(&mut self) -> RunReport {
        for _ in 0..400 {
            self.cluster.pass(Duration::from_millis(100));
            let report = self.cluster.report();
            let (committed, is_over) = Self::committed(&report).unwrap();
            self.check(committed);
            if is_over && report.trees.pending == 0 {
                assert_eq!(committed, self.items, "all of it");
                return report;
            }
        }
        panic!("a tree hangs: {:#?}", self.cluster.report().trees);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// With nothing lost, nothing is read again, and everything comes once.
    #[test]
    fn a_tree_is_complete_when_all_of_it_was_handled(
        dag in dag(&["plain", "holds", "joins"]),
        is_replicated: bool,
        seed: u64,
    ) {
        let mut trial = Trial::new(dag, &[2, 1], 300, seed);
        if is_replicated {
            trial.cluster.keep_replicas();
        }
        trial.cluster.open("items", &["a"]);
        for _ in 0..20 {
            trial.cluster.turns(150);
            let report = trial.cluster.report();
            if let Some((committed, _)) = Trial::committed(&report) {
                trial.check(committed);
            }
        }
        let report = trial.end();
        prop_assert_eq!(report.trees.replays, 0);
        let trees = 300_u64.div_ceil(13).max(300_u64.div_ceil(u64::from(trial.dag.granularity)));
        prop_assert!(report.trees.completed <= trees + 300_u64.div_ceil(13), "{:?}", report.trees);
        let mut expected: BTreeMap<String, usize> = BTreeMap::new();
        let paths = (0..300).flat_map(|id| trial.dag.paths(id));
        paths.for_each(|path| *expected.entry(path).or_default() += 1);
        prop_assert_eq!(&trial.seen, &expected);
    }

    /// Handlers fail, units move, and nodes are killed and come back empty; the partition is opened again where it
    /// was committed.
    #[test]
    fn what_is_committed_was_handled_whatever_is_lost(
        dag in dag(&["plain", "flaky"]),
        faults in prop::collection::vec((0..3_u8, 20..600_usize), 1..6),
        is_replicated: bool,
        seed: u64,
    ) {
        let mut trial = Trial::new(dag, &[2, 1, 1], 200, seed);
        if is_replicated {
            trial.cluster.keep_replicas();
        }
        let spout = host(&trial.cluster.plans[0], "items");
        let mut reader = at(1, 1);
        trial.cluster.open_at(reader, (0, spout), "a", Position::default());
        for (fault, turns) in faults {
            trial.cluster.turns(turns);
            let known = trial.cluster.report_of(reader).hosts.swap_remove(spout).partitions;
            let known = known.into_iter().next().unwrap();
            let committed = known.position.offset + known.skip;
            trial.check(committed);
            match fault {
                // Somebody else dies, and is back at once, another member.
                0 => trial.cluster.restart(at(if reader.node.0 == 2 { 3 } else { 2 }, 0).node),
                // The one that reads does.
                1 => {
                    trial.cluster.restart(reader.node);
                    open(&mut trial.cluster, reader, spout, (known.position, known.skip));
                }
                // The partition moves: what is pending is waited for.
                _ => {
                    let (topology, prototype) = (0, u16::try_from(spout).unwrap());
                    let name = known.name.clone();
                    trial.cluster.give(reader, Input::Close { topology, prototype, name });
                    for _ in 0..400 {
                        trial.cluster.pass(Duration::from_millis(100));
                        if !trial.cluster.closed.is_empty() {
                            break;
                        }
                    }
                    let report = trial.cluster.report_of(reader);
                    let closed = trial.cluster.closed.pop();
                    let (_, state) = closed.unwrap_or_else(|| panic!("not closed: {:?}", report.trees));
                    let state = state.unwrap();
                    prop_assert!(trial.cluster.letters.is_empty());
                    trial.check(state.position.offset + state.skip);
                    reader = if reader.node.0 == 1 { at(2, 0) } else { at(1, 0) };
                    if state.is_exhausted {
                        break;
                    }
                    open(&mut trial.cluster, reader, spout, (state.position, state.skip));
                }
            }
        }
        let has_partition =
            trial.cluster.report().hosts[spout].partitions.iter().any(|known| !known.is_exhausted);
        if has_partition {
            trial.end();
        }
        trial.check(200);
        prop_assert!(trial.cluster.letters.is_empty(), "{:?}", trial.cluster.letters);
    }
}

/// What comes to a node that does not have its instance any more is passed on, under ids of its own. These were announced
/// with the acks that wait for a commit, and the former ids were acked at once: the tree was complete in between, and what
/// was lost then was not read again.
#[test]
fn what_is_passed_on_is_announced_before_a_commit() {
    let step = |reads, grouping| Drawn {
        reads: BTreeSet::from([reads]),
        copies: 1,
        how: "plain",
        grouping,
    };
    let mut passed_on = 0;
    for seed in 0..10 {
        let dag = Dag { steps: vec![step(0, 0), step(1, 1)], granularity: 1 };
        let mut trial = Trial::new(dag, &[1, 1, 1], 100, seed);
        trial.cluster.keep_replicas();
        let spout = host(&trial.cluster.plans[0], "items");
        let out = u16::try_from(host(&trial.cluster.plans[0], "out")).unwrap();
        let sink = Unit::Task { topology: 0, prototype: out, task: 0 };
        let reader = trial.cluster.layout(NodeId(1)).home(sink).unwrap();
        let others = (1..4).map(|node| at(node, 0)).filter(|other| *other != reader);
        let [former, heir] = others.collect::<Vec<_>>()[..] else { panic!("three nodes") };
        trial.cluster.open_at(reader, (0, spout), "a", Position::default());
        trial.cluster.settle_without(former);
        trial.cluster.pass(Duration::from_millis(100));
        trial.cluster.are_replicas_mute = true;
        let layout = trial.cluster.layout(former.node);
        let units = (0..).take(layout.slot_count()).map(Unit::Slot);
        let moved = units.filter(|&unit| layout.home(unit) == Some(former));
        // It still has something, and waits for commits of that.
        let moved: Vec<_> = moved.skip(1).map(|unit| (unit, heir)).collect();
        trial.cluster.move_units(&moved);
        trial.cluster.stalled = BTreeSet::from([heir]);
        for _ in 0..300 {
            trial.cluster.turns(2);
            passed_on += trial.cluster.passed_on(former.node);
        }
        // What went to it is lost.
        trial.cluster.restart(heir.node);
        trial.cluster.stalled.clear();
        trial.cluster.are_replicas_mute = false;
        trial.end();
        trial.check(100);
    }
    assert!(passed_on > 0, "some of it went round");
}

fn open(cluster: &mut Cluster, to: ContainerId, spout: usize, (position, skip): (Position, u64)) {
    let (topology, prototype) = (0, u16::try_from(spout).unwrap());
    let name = pe::PartitionName::new("a");
    cluster.give(to, Input::Open { topology, prototype, name, position, skip });
}

/// Panics at one event, always.
#[derive(Default, Serialize, Deserialize)]
struct Poisoned;

impl Pe for Poisoned {
    type In = Item;
    type Out = Item;
}

impl On<Item> for Poisoned {
    fn on(&mut self, item: ItemRef<'_>, ctx: &mut Ctx<'_, Item>) {
        assert!(item.id != 5, "five");
        ctx.emit(item);
    }
}

const POISONED: &str = r#"
name = "test"
delivery = "at-least-once"
ack = { attempts = 3 }
spout.items = { type = "items", emits = "items" }
pe.poisoned = { type = "poisoned", input = [{ stream = "items", key = ["id"] }], emits = "passed" }
pe.out = { type = "seen", input = [{ stream = "passed", grouping = "global" }] }
"#;

/// It is tried as often as is said, later each time, and then it is a dead letter with all that is known of it;
/// everything else goes on, and the partition comes to its end.
#[test]
fn a_poisonous_event_is_a_dead_letter_in_the_end() {
    let written = Written::default();
    let registry = Registry::new().spout::<Feed<Item, 4>>("items").pe::<Poisoned>("poisoned");
    let mut cluster = Cluster::new(written.sink(registry, "seen"), POISONED, &[1], 1);
    feed("a", (0..10).map(|id| Item { id, path: format!("{id}") }).collect());
    cluster.open("items", &["a"]);
    cluster.pass(Duration::from_millis(50));
    assert_eq!(written.take().len(), 9);
    let report = cluster.report();
    assert_eq!((report.trees.pending, report.trees.completed, report.trees.replays), (1, 9, 0));
    let tree = &report.trees.oldest;
    assert_eq!(tree.len(), 0, "it is not under way, but waits");
    let partition = &report.hosts[host(&cluster.plans[0], "items")].partitions[0];
    assert_eq!((partition.position.offset + partition.skip, partition.is_exhausted), (5, false));
    assert_eq!(cluster.letters, []);
    // After 100, 200 and 400 ms.
    cluster.pass(Duration::from_millis(100));
    assert_eq!(cluster.report().trees.replays, 1);
    cluster.pass(Duration::from_secs(1));
    let report = cluster.report();
    assert_eq!(report.trees.replays, 2);
    assert_eq!(report.dropped.get("panicked"), Some(&3));
    let [letter] = &cluster.letters[..] else { panic!("{:?}", cluster.letters) };
    assert_eq!((letter.spout.as_str(), letter.partition.as_str()), ("items", "a"));
    assert_eq!((letter.why, letter.attempts), (Failure::Panicked, 3));
    assert_eq!(letter.event.as_deref(), Some("Item"));
    assert_eq!(letter.json, r#"{"id":5,"path":"5"}"#);
    let partition = &report.hosts[host(&cluster.plans[0], "items")].partitions[0];
    assert_eq!((partition.position.offset, partition.is_exhausted), (10, true));
    assert_eq!(written.take(), Vec::<String>::new());
}

/// A spout in Storm's words, which notes what it is told.
struct Counting {
    task: storm::TaskContext,
    next: u64,
}

impl storm::Spout for Counting {
    type Out = Item;

    fn tasks(_: &Params) -> u32 {
        2
    }

    fn open(_: &Params, task: storm::TaskContext, first: u64) -> Result<Self, pe::SpoutError> {
        Ok(Self { task, next: first })
    }

    fn next_tuple(
        &mut self,
        collector: &mut storm::SpoutCollector<'_, '_, Item>,
    ) -> Result<Next, pe::SpoutError> {
        if self.next == 50 {
            return Ok(Next::Exhausted);
        }
        let id = u64::from(self.task.task * 100) + self.next;
        collector.emit(ItemRef { id, path: "" });
        self.next += 1;
        Ok(Next::More)
    }

    fn ack(&mut self, tuple: u64) {
        log(format!("{} acks {tuple}", self.task.task));
    }

    fn fail(&mut self, tuple: u64) {
        log(format!("{} fails {tuple}", self.task.task));
    }
}

/// Fails what it sees for the first time, if it is told to.
#[derive(Default, Serialize, Deserialize)]
struct Hesitant {
    has_seen: bool,
}

impl Pe for Hesitant {
    type In = Item;
    type Out = ();
}

impl On<Item> for Hesitant {
    fn on(&mut self, item: ItemRef<'_>, ctx: &mut Ctx<'_, ()>) {
        if !std::mem::replace(&mut self.has_seen, true) && item.id % 20 == 7 {
            ctx.fail();
        }
    }
}

/// Each tuple is acked once and in order, what failed is said to have, and is read again by the engine.
#[test]
fn a_spout_in_storms_words_is_told_of_each_tuple() {
    let registry = Registry::new().storm_spout::<Counting>("counting").pe::<Hesitant>("hesitant");
    let text = r#"
        name = "test"
        delivery = "at-least-once"
        spout.items = { type = "counting", emits = "items" }
        pe.hesitant = { type = "hesitant", input = [{ stream = "items", key = ["id"] }] }"#;
    let mut cluster = Cluster::new(registry, text, &[1], 1);
    drop(logged());
    cluster.open("items", &["0", "1"]);
    cluster.pass(Duration::from_secs(2));
    let report = cluster.report();
    assert_eq!((report.trees.completed, report.trees.pending, report.trees.replays), (100, 0, 6));
    let told = logged();
    for task in 0..2 {
        let of = |what: &str| -> Vec<String> {
            let start = format!("{task} {what} ");
            told.iter().filter_map(|line| line.strip_prefix(&start)).map(str::to_owned).collect()
        };
        assert_eq!(of("acks"), (0..50).map(|tuple| tuple.to_string()).collect::<Vec<_>>());
        assert_eq!(of("fails"), ["7", "27", "47"]);
    }
}

/// Where too few voters are there nothing new is read, and what is pending waits for as long as it takes.
#[test]
fn while_too_few_voters_are_there_nothing_is_read() {
    // Of the first, six are read again.
    for (delivery, meanwhile, all) in [("at-least-once", 0, 106), ("at-most-once", 100, 100)] {
        let text = format!(
            r#"
            name = "test"
            delivery = "{delivery}"
            spout.items = {{ type = "counting", emits = "items" }}
            pe.hesitant = {{ type = "hesitant", input = [{{ stream = "items", key = ["id"] }}] }}"#
        );
        let registry = Registry::new().storm_spout::<Counting>("counting");
        let mut cluster = Cluster::new(registry.pe::<Hesitant>("hesitant"), &text, &[1], 1);
        cluster.give(at(1, 0), Input::Degraded(true));
        cluster.open("items", &["0", "1"]);
        cluster.pass(Duration::from_secs(100));
        assert_eq!(cluster.report().hosts[0].emitted, meanwhile, "{delivery}");
        cluster.give(at(1, 0), Input::Degraded(false));
        cluster.pass(Duration::from_secs(2));
        let report = cluster.report();
        assert_eq!((report.hosts[0].emitted, report.trees.pending), (all, 0), "{delivery}");
    }
}

/// Ten events on their way from a spout to a sink that has had no turn; where both are.
fn under_way() -> (Cluster, Written, ContainerId, ContainerId) {
    let written = Written::default();
    let registry = written.sink(Registry::new().spout::<Feed<Item, 10>>("items"), "seen");
    let text = r#"
        name = "test"
        delivery = "at-least-once"
        spout.items = { type = "items", emits = "items" }
        pe.out = { type = "seen", input = [{ stream = "items", grouping = "global" }] }"#;
    let mut cluster = Cluster::new(registry, text, &[2], 1);
    feed("a", (0..10).map(|id| Item { id, path: String::new() }).collect());
    let sink = cluster.layout(NodeId(1)).home(Unit::Task { topology: 0, prototype: 1, task: 0 });
    let (sink, spout) =
        if sink == Some(at(1, 0)) { (at(1, 0), at(1, 1)) } else { (at(1, 1), at(1, 0)) };
    cluster.open_at(spout, (0, 0), "a", Position::default());
    cluster.settle_without(sink);
    (cluster, written, spout, sink)
}

/// What a sink has gathered and not written yet is under way: whoever asks, and however often, nothing is taken for lost.
#[test]
fn what_a_sink_has_gathered_is_under_way() {
    let (mut cluster, written, spout, sink) = under_way();
    cluster.stalled.clear();
    // It takes the events, and is asked twice before it has had a turn, in which it would write.
    while let Some(Thing::Input(to, input)) = next(&mut cluster, Way::Near(spout, sink)) {
        cluster.give(to, input);
    }
    for _ in 0..2 {
        let report = cluster.report();
        assert_eq!(report.trees.pending, 10);
        assert!(report.sent > report.received, "{report:?}");
    }
    cluster.settle();
    let report = cluster.report();
    assert_eq!(
        (report.trees.pending, report.trees.replays, report.sent - report.received),
        (0, 0, 0)
    );
    assert_eq!(written.take().len(), 10);
}

/// Another had inherited it and gave it back before what is pending of it here was done with. That is nobody's any more.
#[test]
fn a_partition_that_comes_back_before_it_was_closed_is_read_from_where_it_is() {
    let (mut cluster, _, spout, _) = under_way();
    assert_eq!(cluster.report_of(spout).trees.pending, 10);
    let name = pe::PartitionName::new("a");
    cluster.give(spout, Input::Close { topology: 0, prototype: 0, name });
    cluster.open_at(spout, (0, 0), "a", Position { offset: 4, plays: 0 });
    let report = cluster.report_of(spout);
    let partitions: Vec<_> = report.hosts[0].partitions.iter().map(|p| p.position.offset).collect();
    assert_eq!((partitions, report.trees.pending), (vec![4], 0));
    cluster.stalled.clear();
    cluster.settle();
    let report = cluster.report_of(spout);
    assert_eq!((report.hosts[0].emitted, report.trees.pending), (16, 0));
    assert_eq!(report.hosts[0].partitions[0].position.offset, 10);
    assert!(cluster.closed.is_empty(), "{:?}", cluster.closed);
}

fn next(cluster: &mut Cluster, way: Way) -> Option<Thing> {
    cluster.ways.get_mut(&way)?.pop_front()
}

/// Of a tree that waits, it is said who has what of it.
#[test]
fn a_tree_that_waits_is_explained() {
    let step = Drawn { reads: BTreeSet::from([0]), copies: 1, how: "holds", grouping: 0 };
    let mut trial = Trial::new(Dag { steps: vec![step], granularity: 1 }, &[1], 3, 1);
    trial.cluster.open("items", &["a"]);
    trial.cluster.settle();
    let report = trial.cluster.report();
    let [first, ..] = &report.trees.oldest[..] else { panic!("{:?}", report.trees) };
    assert_eq!((first.partition.as_str(), first.skip, report.trees.pending), ("a", 0, 3));
    let root = first.root;
    trial.cluster.give(at(1, 0), Input::Explain { question: 1, root });
    let step = u16::try_from(host(&trial.cluster.plans[0], "p0")).unwrap();
    let holders = std::mem::take(&mut trial.cluster.holders);
    let [holder] = &holders[..] else { panic!("{holders:?}") };
    assert_eq!((holder.prototype, holder.how, holder.count), (step, Held::Anchored, 3));
    trial.end();
    trial.cluster.give(at(1, 0), Input::Explain { question: 2, root });
    assert_eq!(trial.cluster.holders, []);
}
