//! Windows in containers: of keyed and of numbered instances, at their boundaries, late, on the move and
//! at the end.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use pe as starling;

use std::time::Duration;

use bytes::Bytes;
use pe::{
    ChunkKind, Ctx, Event, Input, KeyRef, Params, Phase, Position, Registry, Removal, Takes, Unit,
    WindowRef, Windowed, Windows,
};
use serde::{Deserialize, Serialize};
use support::{Cluster, Feed, Lend, Written, at, feed, host};

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

#[derive(Clone, Event)]
struct Word {
    key: String,
    /// The same key, longer than what a batch keeps of it beside its hash.
    long: String,
    /// A key of the one number that there is.
    number: u64,
    text: String,
}

impl Lend for Word {
    fn lend(&self) -> WordRef<'_> {
        WordRef { key: &self.key, long: &self.long, number: self.number, text: &self.text }
    }
}

#[derive(Clone, Event)]
struct Said {
    what: String,
}

/// Says what is in its windows. An empty one closes it, and so does "enough"; "panic" panics.
#[derive(Default, Serialize, Deserialize)]
struct Teller {
    name: String,
}

impl Teller {
    fn say(&self, what: &str, window: &WindowRef<'_, String>, ctx: &mut Ctx<'_, Said>) {
        let list = |items: pe::Items<'_, String>| items.cloned().collect::<Vec<_>>().join(" ");
        let millis = (ctx.now().0 - Duration::from_secs(1) - window.late()).as_millis();
        let (items, expired) = (list(window.items()), list(window.expired()));
        let (name, fresh) = (&self.name, window.fresh().len());
        let said = format!("{name} {what} {millis}: {items}, {fresh} fresh, -{expired}");
        ctx.emit(SaidRef { what: &said });
    }
}

impl Windowed for Teller {
    type In = Word;
    type Out = Said;
    type Item = String;

    fn create(key: KeyRef<'_>, _: &Params) -> Self {
        let number = key.unsigned(0).map(|number| number.to_string());
        let task = || format!("task {}", key.task().unwrap().0);
        Self { name: key.text(0).map(str::to_owned).or(number).unwrap_or_else(task) }
    }

    fn on_window(&mut self, window: &WindowRef<'_, String>, ctx: &mut Ctx<'_, Said>) {
        assert!(!window.items().any(|item| item == "panic"), "as it was told");
        self.say("at", window, ctx);
        if window.is_empty() || window.items().any(|item| item == "enough") {
            ctx.close();
        }
    }

    fn on_time(&mut self, ctx: &mut Ctx<'_, Said>) {
        ctx.emit(SaidRef { what: &format!("{} tick", self.name) });
    }

    fn on_remove(
        &mut self,
        reason: Removal,
        rest: &WindowRef<'_, String>,
        ctx: &mut Ctx<'_, Said>,
    ) {
        if reason != Removal::Moved {
            self.say(&format!("{reason:?}"), rest, ctx);
        }
    }
}

impl Takes<Word> for Teller {
    fn take(&mut self, word: WordRef<'_>, ctx: &mut Ctx<'_, Said>) -> Option<String> {
        if word.text == "bad" {
            ctx.discard("bad word");
            return None;
        }
        Some(word.text.to_owned())
    }
}

struct Tell {
    cluster: Cluster,
    written: Written,
}

/// A teller that feeds a sink; `with` goes into its declaration.
fn tell(with: &str, nodes: &[u16]) -> Tell {
    seeded(with, nodes, 5)
}

fn seeded(with: &str, nodes: &[u16], seed: u64) -> Tell {
    let written = Written::default();
    let registry = Registry::new().spout::<Feed<Word>>("feed").windowed::<Teller>("teller");
    let text = format!(
        r#"name = "tell"
        spout.words = {{ type = "feed", emits = "words" }}
        pe.tell = {{ type = "teller", emits = "said", {with} }}
        pe.out = {{ type = "collect", input = [{{ stream = "said", grouping = "global" }}] }}"#
    );
    let mut cluster = Cluster::new(written.sink(registry, "collect"), &text, nodes, seed);
    cluster.settle();
    Tell { cluster, written }
}

impl Tell {
    /// Gives some words now, all of one key if none is before a colon.
    fn hear(&mut self, words: &str) {
        let name = self.feed(words);
        self.cluster.open("words", &[&name]);
        self.cluster.settle();
    }

    /// The same from the spout of a node.
    fn hear_from(&mut self, node: u64, words: &str) {
        let name = self.feed(words);
        let spout = host(&self.cluster.plans[0], "words");
        self.cluster.open_at(at(node, 0), (0, spout), &name, Position::default());
        self.cluster.settle();
    }

    fn feed(&self, words: &str) -> String {
        let words = words.split(' ').map(|word| word.split_once(':').unwrap_or(("k", word)));
        let words = words.map(|(key, text)| Word {
            key: key.to_owned(),
            long: format!("{key}{LONGER}"),
            number: 7,
            text: text.to_owned(),
        });
        let name = format!("at {:?}", self.cluster.now);
        feed(&name, words.collect());
        name
    }

    fn pass(&mut self, millis: u64) {
        self.cluster.pass(Duration::from_millis(millis));
    }

    /// What was said since, in order of keys.
    fn said(&mut self) -> Vec<String> {
        self.cluster.settle();
        let said = self.written.take();
        let mut said: Vec<_> = said.iter().map(|line| line[9..line.len() - 2].to_owned()).collect();
        said.sort_by_key(|line| line.split(' ').next().map(str::to_owned));
        said
    }

    fn instances_at(&mut self, node: u64) -> u64 {
        let teller = host(&self.cluster.plans[0], "tell");
        self.cluster.report_of(at(node, 0)).hosts[teller].instances
    }

    fn instances(&mut self) -> u64 {
        let teller = host(&self.cluster.plans[0], "tell");
        self.cluster.report().hosts[teller].instances
    }
}

const KEYED: &str = r#"input = [{ stream = "words", key = ["key"] }], window"#;
const ONE: &str = r#"input = [{ stream = "words", grouping = "global" }], window"#;
const LONG: &str = r#"input = [{ stream = "words", key = ["long"] }], window"#;
const NUMBER: &str = r#"input = [{ stream = "words", key = ["number"] }], window"#;
const LONGER: &str = "-and-more-than-fifteen-bytes";
const NONE: [&str; 0] = [];

/// All kinds of instances, and what they are called.
const ALL: [(&str, &str); 4] =
    [(KEYED, "k"), (LONG, "k-and-more-than-fifteen-bytes"), (NUMBER, "7"), (ONE, "task")];

fn named(name: &str, lines: &[&str]) -> Vec<String> {
    let name = if name == "task" { "task 0" } else { name };
    lines.iter().map(|line| format!("{name} {line}")).collect()
}

#[test]
fn windows_of_time_end_at_multiples_of_the_slide_after_the_first_event() {
    for (input, name) in ALL {
        let mut tell = tell(&format!(r#"{input} = {{ length = "10ms" }}"#), &[1]);
        tell.pass(7);
        tell.hear("a b");
        tell.pass(9);
        assert_eq!(tell.said(), NONE);
        tell.pass(1);
        assert_eq!(tell.said(), named(name, &["at 17: a b, 2 fresh, -"]));
        // Exactly at the next boundary is behind it.
        tell.hear("c");
        tell.pass(10);
        assert_eq!(tell.said(), named(name, &["at 27: c, 1 fresh, -a b"]));
        tell.hear("d");
        tell.pass(10);
        assert_eq!(tell.said(), named(name, &["at 37: d, 1 fresh, -c"]));
        tell.pass(1_000);
        let last = ["at 47: , 0 fresh, -d", "Closed 47: , 0 fresh, -"];
        assert_eq!(tell.said(), named(name, &last));
    }
}

#[test]
fn windows_of_time_slide() {
    for (input, name) in ALL {
        let mut tell = tell(&format!(r#"{input} = {{ length = "30ms", slide = "10ms" }}"#), &[1]);
        for word in ["a", "b", "c", "d"] {
            tell.hear(word);
            tell.pass(10);
        }
        tell.pass(1_000);
        let said = [
            "at 10: a, 1 fresh, -",
            "at 20: a b, 1 fresh, -",
            "at 30: a b c, 1 fresh, -",
            "at 40: b c d, 1 fresh, -a",
            "at 50: c d, 0 fresh, -b",
            "at 60: d, 0 fresh, -c",
            "at 70: , 0 fresh, -d",
            "Closed 70: , 0 fresh, -",
        ];
        assert_eq!(tell.said(), named(name, &said));
    }
}

#[test]
fn windows_of_events_fire_with_the_last_of_them_and_what_is_left_is_told_at_the_end() {
    for (input, name) in ALL {
        let mut tell = tell(&format!("{input} = {{ length = 3 }}"), &[2, 1]);
        tell.hear("a b c d e f g h");
        let said = ["at 0: a b c, 3 fresh, -", "at 0: d e f, 3 fresh, -a b c"];
        assert_eq!(tell.said(), named(name, &said));
        tell.cluster.finish();
        assert_eq!(tell.said(), named(name, &["Ended 0: g h, 2 fresh, -d e f"]));

        let mut tell = self::tell(&format!("{input} = {{ length = 3, slide = 2 }}"), &[2, 1]);
        tell.hear("a b c d e");
        let said = ["at 0: a b, 2 fresh, -", "at 0: b c d, 2 fresh, -a"];
        assert_eq!(tell.said(), named(name, &said));
        tell.cluster.finish();
        assert_eq!(tell.said(), named(name, &["Ended 0: d e, 1 fresh, -b c"]));
    }
}

#[test]
fn lengths_and_slides_may_be_of_two_kinds() {
    for (input, name) in ALL {
        let mut tell = tell(&format!(r#"{input} = {{ length = 3, slide = "10ms" }}"#), &[1]);
        tell.hear("a b c d e");
        tell.pass(10);
        tell.hear("f");
        tell.pass(100);
        let said = ["at 10: c d e, 3 fresh, -", "at 20: d e f, 1 fresh, -c"];
        assert_eq!(tell.said(), named(name, &said), "and no more until something comes");
        tell.hear("g");
        tell.pass(10);
        assert_eq!(tell.said(), named(name, &["at 120: e f g, 1 fresh, -d"]));

        let mut tell = self::tell(&format!(r#"{input} = {{ length = "10ms", slide = 3 }}"#), &[1]);
        tell.hear("a");
        tell.pass(5);
        tell.hear("b");
        tell.pass(5);
        tell.hear("c d");
        tell.pass(100);
        tell.hear("e f");
        let said = ["at 10: b c, 2 fresh, -", "at 110: e f, 2 fresh, -b c"];
        assert_eq!(tell.said(), named(name, &said));
    }
}

#[test]
fn each_key_has_its_own_windows_and_boundaries() {
    for (input, longer) in [(KEYED, ""), (LONG, LONGER)] {
        let mut tell = tell(&format!(r#"{input} = {{ length = "10ms" }}"#), &[2, 2]);
        tell.hear("x:a y:b");
        tell.pass(4);
        tell.hear("z:c x:d");
        tell.pass(6);
        let said = [
            format!("x{longer} at 10: a d, 2 fresh, -"),
            format!("y{longer} at 10: b, 1 fresh, -"),
        ];
        assert_eq!(tell.said(), said, "as soon as they have ended");
        tell.pass(4);
        assert_eq!(tell.said(), [format!("z{longer} at 14: c, 1 fresh, -")]);
    }
}

#[test]
fn a_numbered_instance_has_a_window_of_what_it_is_given() {
    let shuffle = r#"parallelism = 2, input = [{ stream = "words", key = ["key"] }], window"#;
    let mut tell = tell(&format!(r#"{shuffle} = {{ length = "10ms" }}"#), &[1]);
    tell.hear("a:1 b:2 c:3 d:4 e:5 f:6 g:7 h:8");
    tell.pass(10);
    let said = tell.said();
    assert_eq!(said.len(), 2, "{said:?}");
    let fresh = said.iter().map(|line| line.split(' ').filter(|word| word.len() == 1).count() - 1);
    assert!(said.iter().all(|line| line.contains("at 10: ")) && fresh.sum::<usize>() >= 8);
}

/// The node of the instance could not run from before the first boundary until behind the last; then it has
/// events, or finds that it is late, whichever comes first.
#[test]
fn windows_that_ended_long_ago_have_what_they_would_have_had() {
    for (input, name) in ALL {
        for seed in 0..8 {
            let window = format!(r#"{input} = {{ length = "20ms", slide = "10ms" }}"#);
            let mut tell = seeded(&window, &[1, 1], seed);
            let all = units(&tell).map(|unit| (unit, at(2, 0)));
            tell.cluster.move_units(&all.collect::<Vec<_>>());
            tell.cluster.settle();
            tell.hear_from(1, "a");
            tell.pass(9);
            tell.hear_from(1, "b");
            tell.cluster.stalled.insert(at(2, 0));
            tell.cluster.now = tell.cluster.now + Duration::from_millis(100);
            if seed > 0 {
                tell.hear_from(1, "late later");
            }
            tell.cluster.stalled.clear();
            let said = [
                "at 10: a b, 2 fresh, -",
                "at 20: a b, 0 fresh, -",
                "at 30: , 0 fresh, -a b",
                "Closed 109: , 0 fresh, -",
            ];
            assert_eq!(tell.said(), named(name, &said), "seed {seed}");
            // The events are of a new instance, whose time begins with them.
            tell.pass(10);
            let said = if seed > 0 { &["at 119: late later, 2 fresh, -"][..] } else { &[] };
            assert_eq!(tell.said(), named(name, said), "seed {seed}");
        }
    }
}

/// Two windows have ended when the first is told.
#[test]
fn an_instance_that_closes_itself_is_told_no_more() {
    for (input, name) in ALL {
        let mut tell = tell(&format!(r#"{input} = {{ length = "20ms", slide = "10ms" }}"#), &[1]);
        tell.hear("enough");
        tell.cluster.now = tell.cluster.now + Duration::from_millis(25);
        let said = ["at 10: enough, 1 fresh, -", "Closed 25: , 0 fresh, -enough"];
        assert_eq!(tell.said(), named(name, &said));
    }
}

#[test]
fn an_instance_in_whose_window_nothing_is_waits_for_nothing() {
    for (input, _) in ALL {
        let mut tell = tell(&format!(r#"{input} = {{ length = 5, slide = "10ms" }}"#), &[1]);
        assert_eq!(tell.cluster.containers[&at(1, 0)].deadline(), None);
        tell.hear("a");
        assert!(tell.cluster.containers[&at(1, 0)].deadline().is_some());
        tell.pass(10);
        assert_eq!(tell.cluster.containers[&at(1, 0)].deadline(), None);
        assert_eq!(tell.instances(), 1);
    }
}

#[test]
fn what_is_not_taken_or_does_not_fit_is_counted() {
    for (input, name) in ALL {
        let mut tell = tell(&format!(r#"{input} = {{ length = "10ms", most = 2 }}"#), &[1]);
        tell.hear("bad a b c d");
        let report = tell.cluster.report();
        assert_eq!((report.dropped["bad word"], report.dropped["window full"]), (1, 2));
        tell.pass(10);
        tell.hear("e");
        tell.pass(10);
        let said = ["at 10: a b, 2 fresh, -", "at 20: e, 1 fresh, -a b"];
        assert_eq!(tell.said(), named(name, &said));
    }
}

#[test]
fn a_panic_in_a_window_costs_the_instance_and_nothing_else() {
    for (input, name) in ALL {
        for window in [r#"{ length = "10ms" }"#, "{ length = 2 }"] {
            let mut tell = tell(&format!("{input} = {window}"), &[1]);
            tell.hear("a panic");
            tell.pass(10);
            let teller = host(&tell.cluster.plans[0], "tell");
            assert_eq!(tell.cluster.report().hosts[teller].dead_letters, 1);
            tell.hear("b c");
            tell.pass(10);
            let said = tell.said();
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].ends_with(": b c, 2 fresh, -"), "{said:?} of {name}");
        }
    }
}

/// Tick tuples are timers: they are no events, and neither wait for windows nor fire them.
#[test]
fn the_timer_ticks_beside_windows() {
    for (input, name) in ALL {
        let window = format!(r#"timer = "4ms", {input} = {{ length = "10ms" }}"#);
        let mut tell = tell(&window, &[1]);
        tell.hear("a");
        tell.pass(11);
        assert_eq!(tell.said(), named(name, &["tick", "tick", "at 10: a, 1 fresh, -"]),);
    }
}

#[test]
fn what_has_ended_is_told_before_the_instance_ends() {
    for (input, name) in ALL {
        let mut tell = tell(&format!(r#"{input} = {{ length = "20ms", slide = "10ms" }}"#), &[1]);
        tell.hear("a");
        tell.pass(9);
        tell.hear("b");
        tell.cluster.now = tell.cluster.now + Duration::from_millis(1);
        for stage in 0..3 {
            tell.cluster.phase(Phase::Ending(stage));
        }
        let said = ["at 10: a b, 2 fresh, -", "Ended 10: a b, 0 fresh, -"];
        assert_eq!(tell.said(), named(name, &said));
    }
}

/// All slots, and the numbered instance if there is one.
fn units(tell: &Tell) -> impl Iterator<Item = Unit> {
    let plan = &tell.cluster.plans[0];
    let at = host(plan, "tell");
    let (tasks, prototype) = (plan.prototypes[at].instances.tasks(), u16::try_from(at).unwrap());
    let tasks = (0..tasks).map(move |task| Unit::Task { topology: 0, prototype, task });
    (0..64).map(Unit::Slot).chain(tasks)
}

/// Moves everything from the first node to the second, in two parts: what is copied ahead and the rest.
fn move_all(tell: &mut Tell, between: impl FnOnce(&mut Tell)) {
    let (from, to) = (at(1, 0), at(2, 0));
    let units: Vec<_> = units(tell).collect();
    tell.cluster.give(from, Input::Copy { handoff: 7, units: units.clone() });
    stage_until(tell, ChunkKind::AheadEnd);
    between(tell);
    tell.cluster.give(from, Input::Seal(7));
    stage_until(tell, ChunkKind::End);
    // It stands still here and there.
    tell.cluster.pass(Duration::from_millis(3));
    assert_eq!(tell.said(), NONE);
    let moved: Vec<_> = units.into_iter().map(|unit| (unit, to)).collect();
    tell.cluster.move_units(&moved);
    tell.cluster.settle();
}

fn stage_until(tell: &mut Tell, last: ChunkKind) {
    loop {
        tell.cluster.give(at(1, 0), Input::Pull(7));
        let (_, bytes, kind) = tell.cluster.chunks.pop_front().unwrap();
        tell.cluster.give(
            at(2, 0),
            Input::Stage { handoff: 7, bytes: Bytes::from(bytes), is_replica: false },
        );
        tell.cluster.staged.pop_front().unwrap().1.unwrap();
        if kind == last {
            return;
        }
    }
}

#[test]
fn a_window_moves_with_its_events_and_its_boundaries() {
    for (input, name) in ALL {
        for is_changed in [false, true] {
            let window = format!(r#"{input} = {{ length = "20ms", slide = "10ms" }}"#);
            let mut tell = tell(&window, &[1, 1]);
            let all = units(&tell).map(|unit| (unit, at(1, 0)));
            tell.cluster.move_units(&all.collect::<Vec<_>>());
            tell.cluster.settle();
            tell.hear("a");
            tell.pass(5);
            tell.hear("b");
            tell.pass(1);
            assert_eq!((tell.instances_at(1), tell.instances_at(2)), (1, 0));
            move_all(&mut tell, |tell| {
                tell.pass(2);
                if is_changed {
                    tell.hear("c");
                }
                tell.pass(1);
            });
            assert_eq!((tell.instances_at(1), tell.instances_at(2)), (0, 1));
            // 12 ms after the first event; the window that ended at 10 is told where it is now.
            let [first, second, third] = if is_changed {
                [
                    "at 10: a b c, 3 fresh, -",
                    "at 20: a b c d, 1 fresh, -",
                    "at 30: d, 0 fresh, -a b c",
                ]
            } else {
                ["at 10: a b, 2 fresh, -", "at 20: a b d, 1 fresh, -", "at 30: d, 0 fresh, -a b"]
            };
            assert_eq!(tell.said(), named(name, &[first]));
            tell.hear("d");
            tell.pass(18);
            assert_eq!(tell.said(), named(name, &[second, third]));
        }
    }
}

#[test]
fn a_windowed_type_can_be_registered_by_its_full_name() {
    let registry = Registry::new().pe::<Windows<Teller>>("teller");
    assert!(registry.catalog().pes["teller"].is_windowed);
}
