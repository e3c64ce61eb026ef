//! Whatever application code panics, and wherever: it costs an event and an instance, and is counted.

use pe as starling;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pe::{
    Ctx, Encoded, Event, KeyRef, Next, On, Opening, Params, PartitionName, Pe, Phase, Position,
};
use pe::{Registry, Removal, Rows, Sink, Spout, SpoutError};
use serde::{Deserialize, Serialize, Serializer};
use support::{Cluster, Feed, Lend, Written, feed, host};

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

#[derive(Clone, Event)]
struct Word {
    key: u64,
    text: String,
}

impl Lend for Word {
    fn lend(&self) -> WordRef<'_> {
        WordRef { key: self.key, text: &self.text }
    }
}

/// Cannot always be encoded.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Fussy(u64);

impl Serialize for Fussy {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 == 666 {
            return Err(serde::ser::Error::custom("not this one"));
        }
        self.0.serialize(serializer)
    }
}

/// The encoded column in the middle: a failed push leaves those before it longer.
#[derive(Event)]
struct Said {
    key: u64,
    text: String,
    #[event(encoded)]
    fussy: Fussy,
    n: u64,
}

/// Panics where its word says.
#[derive(Default, Serialize, Deserialize)]
struct Fragile {
    key: u64,
    n: u64,
    last: String,
}

impl Fragile {
    fn fall(&mut self, place: &str) {
        if self.last == place {
            panic!("in {place}");
        }
    }

    fn say(&self, ctx: &mut Ctx<'_, Said>, fussy: u64) {
        ctx.emit(SaidRef {
            key: self.key,
            text: &self.last,
            fussy: Encoded::Value(&Fussy(fussy)),
            n: self.n,
        });
    }
}

impl Pe for Fragile {
    type In = Word;
    type Out = Said;

    fn create(key: KeyRef<'_>, _: &Params) -> Self {
        let key = key.unsigned(0).unwrap_or_default();
        assert_ne!(key, 13, "in create");
        Self { key, n: 0, last: String::new() }
    }

    fn on_time(&mut self, ctx: &mut Ctx<'_, Said>) {
        self.say(ctx, 1);
        self.fall("on_time");
    }

    fn on_trigger(&mut self, ctx: &mut Ctx<'_, Said>) {
        self.say(ctx, 2);
        self.fall("on_trigger");
    }

    fn on_remove(&mut self, _: Removal, ctx: &mut Ctx<'_, Said>) {
        self.say(ctx, 3);
        self.fall("on_remove");
        self.fall("on_remove and drop");
    }
}

impl On<Word> for Fragile {
    fn on(&mut self, word: WordRef<'_>, ctx: &mut Ctx<'_, Said>) {
        self.n += 1;
        self.last = word.text.to_owned();
        match word.text {
            "emit" => self.say(ctx, 666),
            "close and on_remove" => {
                self.last = "on_remove and drop".to_owned();
                ctx.close();
            }
            "close" => ctx.close(),
            "close and drop" => {
                self.last = "drop".to_owned();
                ctx.close();
            }
            _ => self.say(ctx, 0),
        }
        self.fall("on");
        self.fall("on and drop");
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        if self.last.ends_with("drop") {
            panic!("in drop");
        }
    }
}

struct Outcome {
    applied: u64,
    dead_letters: u64,
    emitted: u64,
    said: Vec<String>,
}

/// Runs words through fragile instances; checks that nothing else is disturbed.
fn run(words: &[(u64, &str)], with: &str, nodes: &[u16]) -> Outcome {
    let words = words.iter().map(|&(key, text)| Word { key, text: text.to_owned() });
    feed("0", words.collect());
    let written = Written::default();
    let registry = Registry::new().spout::<Feed<Word>>("feed").pe::<Fragile>("fragile");
    let text = format!(
        r#"name = "fragile"
        spout.words = {{ type = "feed", emits = "words" }}
        pe.fragile = {{ type = "fragile", emits = "said", {with} }}
        pe.out = {{ type = "collect", input = [{{ stream = "said", grouping = "global" }}] }}"#
    );
    let mut cluster = Cluster::new(written.sink(registry, "collect"), &text, nodes, 9);
    cluster.open("words", &["0"]);
    cluster.pass(Duration::from_millis(15));
    let report = cluster.report();
    cluster.settle();
    let said = written.take();
    cluster.finish();
    assert_eq!(report.sent, report.received);
    let fragile = &report.hosts[host(&cluster.plans[0], "fragile")];
    Outcome {
        applied: fragile.applied,
        dead_letters: fragile.dead_letters,
        emitted: fragile.emitted,
        said,
    }
}

const KEYED: &str = r#"input = [{ stream = "words", key = ["key"] }]"#;
const ONE: &str = r#"input = [{ stream = "words", grouping = "global" }]"#;

fn line(key: u64, text: &str, fussy: u64, n: u64) -> String {
    format!(r#"{{"key":{key},"text":"{text}","fussy":{fussy},"n":{n}}}"#)
}

#[test]
fn a_panic_in_on_costs_the_event_and_the_instance() {
    for fall in ["on", "on and drop"] {
        let words = [(1, "a"), (2, "a"), (1, fall), (2, "b"), (1, "c"), (2, "c")];
        let outcome = run(&words, KEYED, &[1]);
        assert_eq!((outcome.applied, outcome.dead_letters), (5, 1));
        let said = [
            line(1, "a", 0, 1),
            line(2, "a", 0, 1),
            line(1, fall, 0, 2), // Emitted before the panic.
            line(2, "b", 0, 2),
            line(1, "c", 0, 1), // A new instance.
            line(2, "c", 0, 3),
        ];
        assert_eq!(outcome.said, said);
    }
}

#[test]
fn a_panic_of_a_numbered_instance_makes_a_new_one() {
    for fall in ["on", "on and drop"] {
        let outcome = run(&[(1, "a"), (1, fall), (1, "b"), (1, "c")], ONE, &[2, 1]);
        assert_eq!((outcome.applied, outcome.dead_letters), (3, 1));
        let said =
            [line(0, "a", 0, 1), line(0, fall, 0, 2), line(0, "b", 0, 1), line(0, "c", 0, 2)];
        assert_eq!(outcome.said, said);
    }
}

#[test]
fn a_panic_in_create_costs_each_event_that_would_make_the_instance() {
    let outcome = run(&[(13, "a"), (1, "a"), (13, "b"), (1, "b")], KEYED, &[1]);
    assert_eq!((outcome.applied, outcome.dead_letters), (2, 2));
    assert_eq!(outcome.said, [line(1, "a", 0, 1), line(1, "b", 0, 2)]);
}

#[test]
fn a_panic_in_the_middle_of_an_emit_does_not_tear_the_batch() {
    for with in [KEYED, ONE] {
        let mut words = Vec::new();
        for key in 0..5000 {
            words.push((key % 10, if key % 7 == 0 { "emit" } else { "a" }));
        }
        let bad = words.iter().filter(|(_, text)| *text == "emit").count() as u64;
        let outcome = run(&words, with, &[2, 1]);
        assert_eq!((outcome.applied, outcome.dead_letters), (5000 - bad, bad));
        assert_eq!(outcome.emitted, 5000 - bad);
        assert_eq!(outcome.said.len() as u64, 5000 - bad);
        assert!(outcome.said.iter().all(|line| line.contains(r#""text":"a","fussy":0"#)));
    }
}

#[test]
fn a_panic_in_on_time_drops_that_instance_alone() {
    for (with, others) in [(KEYED, 1), (ONE, 0)] {
        let words = if others == 1 { vec![(1, "on_time"), (2, "a")] } else { vec![(1, "on_time")] };
        let outcome = run(&words, &format!(r#"{with}, timer = "5ms""#), &[1]);
        assert_eq!((outcome.applied, outcome.dead_letters), (1 + others, 1));
        let told = outcome.said.iter().filter(|line| line.contains(r#""fussy":1"#)).count() as u64;
        // The one that fell was told once, the other three times; a task that fell is not made again
        // before its next event.
        assert_eq!(told, 1 + 3 * others);
    }
}

#[test]
fn a_panic_in_on_trigger_drops_the_instance() {
    for with in [KEYED, ONE] {
        let key = if with == KEYED { 1 } else { 0 };
        let words = [(1, "a"), (1, "on_trigger"), (1, "b"), (1, "c")];
        let outcome = run(&words, &format!("{with}, trigger = {{ events = 2 }}"), &[1]);
        assert_eq!((outcome.applied, outcome.dead_letters), (3, 1));
        let said = [
            line(key, "a", 0, 1),
            line(key, "on_trigger", 0, 2),
            line(key, "on_trigger", 2, 2),
            line(key, "b", 0, 1),
            line(key, "c", 0, 2),
            line(key, "c", 2, 2),
        ];
        assert_eq!(outcome.said, said);
        let words = [(1, "on_trigger")];
        let outcome = run(&words, &format!(r#"{with}, trigger = {{ after = "5ms" }}"#), &[1]);
        assert_eq!((outcome.applied, outcome.dead_letters), (1, 1));
        assert_eq!(outcome.said, [line(key, "on_trigger", 0, 1), line(key, "on_trigger", 2, 1)]);
    }
}

#[test]
fn a_panic_in_on_remove_or_drop_does_not_keep_the_instance() {
    for with in [KEYED, ONE] {
        for close in ["close and on_remove", "close and drop"] {
            let outcome = run(&[(1, "a"), (1, close), (1, "b")], with, &[1]);
            // The event whose instance was to be closed counts as lost: nobody can say how far it got.
            assert_eq!((outcome.applied, outcome.dead_letters), (2, 1), "{with} {close}");
            assert!(
                outcome.said[2].ends_with(r#""text":"b","fussy":0,"n":1}"#),
                "{:?}",
                outcome.said
            );
        }
    }
}

#[test]
fn the_end_comes_though_every_hook_panics_on_the_way() {
    for with in [KEYED, ONE] {
        for fall in ["on_remove", "on_remove and drop", "drop"] {
            feed("0", (0..50).map(|key| Word { key, text: fall.to_owned() }).collect());
            let registry = Registry::new().spout::<Feed<Word>>("feed").pe::<Fragile>("fragile");
            let text = format!(
                r#"name = "fragile"
                spout.words = {{ type = "feed", emits = "words" }}
                pe.fragile = {{ type = "fragile", emits = "said", {with} }}"#
            );
            let mut cluster = Cluster::new(registry, &text, &[2], 9);
            cluster.open("words", &["0"]);
            cluster.finish();
            let report = cluster.report();
            assert_eq!((report.hosts[1].instances, report.stages_removed), (0, 0));
            let gone = if with == KEYED { 50 } else { 1 };
            assert_eq!(report.hosts[1].dead_letters, gone, "{with} {fall}");
        }
    }
}

/// A spout that panics where the name of its partition says.
struct Shaky {
    name: String,
    next: u64,
}

impl Spout for Shaky {
    type Out = Word;

    fn partitions(_: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        panic!("in partitions");
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let name = opening.name.as_str().to_owned();
        assert_ne!(name, "open", "in open");
        Ok(Self { name, next: 0 })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Word>) -> Result<Next, SpoutError> {
        self.next += 1;
        ctx.emit(WordRef { key: 1, text: &self.name });
        assert!(self.name != "poll" || self.next < 3, "in poll");
        Ok(if self.next < 5 { Next::More } else { Next::Exhausted })
    }

    fn position(&self) -> Position {
        assert!(self.name != "position" || self.next < 3, "in position");
        Position { offset: self.next, plays: 0 }
    }
}

impl Drop for Shaky {
    fn drop(&mut self) {
        assert!(!self.name.contains("drop"), "in drop");
    }
}

#[test]
fn a_spout_that_panics_is_exhausted_and_says_why() {
    let written = Written::default();
    let registry = Registry::new().spout::<Shaky>("shaky");
    let text = r#"name = "shaky"
        spout.words = { type = "shaky", emits = "words" }
        pe.out = { type = "collect", input = [{ stream = "words", grouping = "global" }] }"#;
    let mut cluster = Cluster::new(written.sink(registry, "collect"), text, &[1], 9);
    cluster.open("words", &["open", "poll", "position", "drop", "good", "never and drop"]);
    let close = PartitionName::new("never and drop");
    cluster.give(support::at(1, 0), pe::Input::Close { topology: 0, prototype: 0, name: close });
    assert!(cluster.closed.pop().unwrap().1.is_some());
    let report = cluster.finish();
    let partitions = &report.hosts[0].partitions;
    let ends: BTreeMap<_, _> = partitions
        .iter()
        .map(|end| {
            (end.name.as_str(), (end.position.offset, end.failure.clone().unwrap_or_default()))
        })
        .collect();
    let text = |end: &str| ends[end].1.split(": ").take(2).collect::<Vec<_>>().join(": ");
    assert!(text("open").starts_with("panicked: assertion"), "{ends:?}");
    assert_eq!((ends["poll"].0, &text("poll")[..]), (2, "panicked: in poll"));
    assert_eq!((ends["position"].0, &text("position")[..]), (2, "panicked: in position"));
    assert_eq!((ends["drop"].0, &text("drop")[..]), (5, ""));
    assert_eq!((ends["good"].0, &text("good")[..]), (5, ""));
    let said = written.counts();
    let of = |text: &str| said.get(&format!(r#"{{"key":1,"text":"{text}"}}"#)).copied();
    assert_eq!(
        (of("poll"), of("position"), of("drop"), of("good")),
        (Some(3), Some(3), Some(5), Some(5))
    );
    // Listing them is contained, too.
    let registry = Registry::new().spout::<Shaky>("shaky");
    let listed = registry.partitions(&cluster.plans[0].prototypes[0]);
    assert_eq!(listed.unwrap_err().to_string(), "panicked: in partitions");
}

/// A sink that panics, or fails, where its input says.
struct Leaky(Written);

impl Sink for Leaky {
    fn write(&mut self, rows: &dyn Rows) -> Result<(), SpoutError> {
        let mut json = Vec::new();
        rows.write_field(0, 1, &mut json);
        match &json[..] {
            b"\"write\"" => panic!("in write"),
            b"\"refuse\"" => Err(SpoutError::new("full")),
            _ => self.0.write(rows),
        }
    }

    fn flush(&mut self) -> Result<(), SpoutError> {
        panic!("in flush");
    }
}

impl Drop for Leaky {
    fn drop(&mut self) {
        panic!("in drop of a sink");
    }
}

#[test]
fn a_sink_that_panics_loses_its_batch_and_goes_on() {
    let written = Written::default();
    let (opened, count) = (written.clone(), std::sync::atomic::AtomicU64::new(0));
    let registry = Registry::new().spout::<Feed<Word, 1>>("feed").sink(
        "leaky",
        &[],
        Arc::new(move |_| {
            // The first attempt fails: it is tried again for the first batch.
            let attempt = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            assert_ne!(attempt, 0, "in open");
            Ok(Box::new(Leaky(opened.clone())))
        }),
    );
    let text = r#"name = "leaky"
        spout.words = { type = "feed", emits = "words" }
        pe.out = { type = "leaky", input = [{ stream = "words", grouping = "global" }] }"#;
    let mut cluster = Cluster::new(registry, text, &[1], 9);
    for (place, text) in ["a", "write", "refuse", "b"].iter().enumerate() {
        let name = place.to_string();
        feed(&name, vec![Word { key: 1, text: (*text).to_owned() }]);
        cluster.open("words", &[&name]);
        cluster.settle();
    }
    let report = cluster.finish();
    assert_eq!((report.hosts[1].applied, report.dropped["sink failed"]), (2, 2));
    assert_eq!(written.take().len(), 2);
}

#[test]
fn an_event_that_is_too_large_is_dropped_and_counted_and_the_stream_goes_on() {
    let huge = "x".repeat(routing::EVENT_MAX);
    let large = "y".repeat(routing::EVENT_MAX - 64);
    let texts = ["a", &huge, "b", &large, "c", &huge, &huge, "d"];
    feed("0", texts.map(|text| Word { key: 1, text: text.to_owned() }).to_vec());
    let written = Written::default();
    let registry = Registry::new().spout::<Feed<Word>>("feed");
    let text = r#"name = "large"
        spout.words = { type = "feed", emits = "words" }
        pe.out = { type = "collect", input = [{ stream = "words", grouping = "global" }] }"#;
    let mut cluster = Cluster::new(written.sink(registry, "collect"), text, &[1, 1, 1], 9);
    cluster.open("words", &["0"]);
    let report = cluster.finish();
    assert_eq!((report.dropped["oversized"], report.hosts[0].emitted), (3, 5));
    let lengths: Vec<_> = written.take().iter().map(String::len).collect();
    let least = r#"{"key":1,"text":"a"}"#.len();
    assert_eq!(lengths, [least, least, large.len() + least - 1, least, least]);
    assert_eq!(cluster.report().dropped["oversized"], 3, "counted once");
    assert_eq!(cluster.layout(membership::NodeId(1)).phases, [Phase::Ended]);
}
