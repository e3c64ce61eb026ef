//! Counting by key equals a plain count, whatever the key, however many containers and nodes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use pe as starling;

use std::collections::BTreeMap;

use pe::{Ctx, Encoded, Event, KeyRef, On, Params, Pe, Registry, Removal};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use support::{Cluster, Feed, Lend, Written, feed};

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

/// Every kind of field that can be a key.
#[derive(Clone, Debug, Event)]
struct Reading {
    word: String,
    id: u64,
    delta: i64,
    share: f64,
    narrow: f32,
    is_new: bool,
    note: Option<String>,
    code: Option<u32>,
    blob: Vec<u8>,
    #[event(encoded)]
    tags: Vec<(String, u32)>,
}

impl Lend for Reading {
    fn lend(&self) -> ReadingRef<'_> {
        let Self { id, delta, share, narrow, is_new, code, .. } = *self;
        ReadingRef {
            word: &self.word,
            id,
            delta,
            share,
            narrow,
            is_new,
            note: self.note.as_deref(),
            code,
            blob: &self.blob,
            tags: Encoded::Value(&self.tags),
        }
    }
}

/// How often something was seen.
#[derive(Event)]
struct Total {
    key: String,
    n: u64,
}

/// Counts the events of its key, and says how many there were when it goes.
#[derive(Default, Serialize, Deserialize)]
struct Counter {
    key: String,
    n: u64,
}

impl Pe for Counter {
    type In = Reading;
    type Out = Total;

    fn create(key: KeyRef<'_>, _: &Params) -> Self {
        Self { key: shown(key), n: 0 }
    }

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, Total>) {
        assert_eq!(reason, Removal::Ended);
        ctx.emit(TotalRef { key: &self.key, n: self.n });
    }
}

impl On<Reading> for Counter {
    fn on(&mut self, _: ReadingRef<'_>, _: &mut Ctx<'_, Total>) {
        self.n += 1;
    }
}

/// The fields of a key by what they are.
fn shown(key: KeyRef<'_>) -> String {
    let field = |at| {
        let text = key.text(at).map(|text| format!("{text:?}"));
        text.or_else(|| key.unsigned(at).map(|n| format!("u{n}")))
            .or_else(|| key.signed(at).map(|n| format!("i{n}")))
            .or_else(|| key.float(at).map(|n| format!("f{n}")))
            .or_else(|| key.boolean(at).map(|n| format!("{n}")))
            .or_else(|| key.bytes(at).map(|bytes| format!("b{bytes:?}")))
            .unwrap_or_else(|| "none".to_owned())
    };
    (0..key.fields()).map(field).collect::<Vec<_>>().join(" ")
}

/// The same of one field of an event.
fn field(reading: &Reading, name: &str) -> String {
    let float = |n: f64| format!("f{}", if n == 0.0 { 0.0 } else { n });
    match name {
        "word" => format!("{:?}", reading.word),
        "id" => format!("u{}", reading.id),
        "delta" => format!("i{}", reading.delta),
        "share" => float(reading.share),
        "narrow" => float(f64::from(reading.narrow)),
        "is_new" => reading.is_new.to_string(),
        "note" => reading.note.as_ref().map_or("none".to_owned(), |note| format!("{note:?}")),
        "code" => reading.code.map_or("none".to_owned(), |code| format!("u{code}")),
        "blob" => format!("b{:?}", reading.blob),
        "tags" => {
            let mut bytes = Vec::new();
            routing::codec::encode(&reading.tags, &mut bytes).unwrap();
            format!("b{bytes:?}")
        }
        _ => panic!("no field {name}"),
    }
}

fn readings() -> impl Strategy<Value = Vec<Reading>> {
    let word = prop_oneof![
        "[a-c]{0,2}",
        "[a-b]{14,17}",
        Just("naïve — 日本語".to_owned()),
        Just("a word of more than fifteen letters".to_owned()),
    ];
    let share = prop_oneof![
        Just(0.0),
        Just(-0.0),
        Just(f64::NAN),
        Just(f64::from_bits(f64::NAN.to_bits() | 77)),
        Just(-1.5),
        Just(f64::INFINITY),
    ];
    let number = prop_oneof![0u64..3, Just(u64::MAX), Just(1 << 63)];
    let one = (word, number, share, any::<bool>(), prop::option::of("[x-y]{0,16}"), 0u8..3)
        .prop_map(|(word, id, share, is_new, note, small)| Reading {
            tags: vec![(word.clone(), u32::from(small)); usize::from(small)],
            blob: word.as_bytes().to_vec(),
            word,
            id,
            delta: i64::from_le_bytes(id.to_le_bytes()),
            share,
            narrow: if small == 0 { 1.5 } else { -0.0 },
            is_new,
            note,
            code: (small > 0).then_some(u32::from(small)),
        });
    prop::collection::vec(one, 0..300)
}

fn counted(
    readings: &[Reading],
    key: &[&str],
    nodes: &[u16],
    seed: u64,
) -> BTreeMap<String, usize> {
    for (part, readings) in readings.chunks(readings.len().div_ceil(3).max(1)).enumerate() {
        feed(&part.to_string(), readings.to_vec());
    }
    let parts = readings.chunks(readings.len().div_ceil(3).max(1)).len();
    let written = Written::default();
    let registry = Registry::new().spout::<Feed<Reading>>("feed").pe::<Counter>("counter");
    let text = format!(
        r#"name = "count"
        spout.readings = {{ type = "feed", emits = "readings" }}
        pe.count = {{ type = "counter", emits = "totals", input = [{{ stream = "readings", key = {key:?} }}] }}
        pe.out = {{ type = "collect", input = [{{ stream = "totals", grouping = "global" }}] }}"#
    );
    let mut cluster = Cluster::new(written.sink(registry, "collect"), &text, nodes, seed);
    let names: Vec<_> = (0..parts).map(|part| part.to_string()).collect();
    cluster.open("readings", &names.iter().map(String::as_str).collect::<Vec<_>>());
    let report = cluster.finish();
    assert_eq!(
        report.hosts[support::host(&cluster.plans[0], "count")].applied,
        readings.len() as u64
    );
    assert!(report.dropped.is_empty() && report.in_doubt == 0, "{report:?}");
    let total = |line: String| {
        let total: serde_json::Value = serde_json::from_str(&line).unwrap();
        (
            total["key"].as_str().unwrap().to_owned(),
            usize::try_from(total["n"].as_u64().unwrap()).unwrap(),
        )
    };
    let lines = written.take();
    let totals: BTreeMap<_, _> = lines.iter().cloned().map(total).collect();
    assert_eq!(totals.len(), lines.len(), "one instance per key: {lines:?}");
    totals
}

fn check(readings: &[Reading], key: &[&str], nodes: &[u16], seed: u64) {
    let plain =
        support::counts(readings.iter().map(|reading| {
            key.iter().map(|name| field(reading, name)).collect::<Vec<_>>().join(" ")
        }));
    assert_eq!(counted(readings, key, nodes, seed), plain, "{key:?} on {nodes:?}, seed {seed}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_count_by_any_key_equals_a_plain_count(readings in readings(), seed in any::<u64>()) {
        let keys: [&[&str]; 13] = [
            &["word"], &["id"], &["delta"], &["share"], &["narrow"], &["is_new"], &["note"], &["code"],
            &["blob"], &["tags"], &["word", "id"], &["note", "share", "is_new"], &["id", "delta"],
        ];
        for (place, key) in keys.iter().enumerate() {
            let nodes: &[u16] = [&[1][..], &[2], &[1, 1], &[2, 1, 2]][place % 4];
            check(&readings, key, nodes, seed);
        }
    }

    #[test]
    fn a_count_of_words_equals_a_plain_count_on_every_cluster(
        readings in readings(), seed in any::<u64>(),
    ) {
        for nodes in [&[1][..], &[2], &[1, 1], &[2, 2], &[1, 2, 3]] {
            check(&readings, &["word"], nodes, seed);
        }
    }
}
