//! What comes from another node is not trusted: nothing it says ends or grows a container.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use pe as starling;

use bytes::Bytes;
use membership::NodeId;
use pe::{Credit, Ctx, Event, Input, On, Pe, Registry};
use proptest::prelude::*;
use routing::{BatchHeader, BatchKind, Columns};
use serde::{Deserialize, Serialize};
use support::{Cluster, Feed, Lend, at, feed, host};

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

#[derive(Clone, Event)]
struct Word {
    text: String,
    note: Option<String>,
    n: u32,
}

impl Lend for Word {
    fn lend(&self) -> WordRef<'_> {
        WordRef { text: &self.text, note: self.note.as_deref(), n: self.n }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Relay;

impl Pe for Relay {
    type In = Word;
    type Out = Word;
}

impl On<Word> for Relay {
    fn on(&mut self, word: WordRef<'_>, ctx: &mut Ctx<'_, Word>) {
        ctx.emit(word);
    }
}

/// Two nodes with a chain of relays.
fn cluster() -> Cluster {
    by(r#", key = ["text"]"#)
}

fn by(first_key: &str) -> Cluster {
    let registry = Registry::new().spout::<Feed<Word>>("feed").pe::<Relay>("relay");
    let text = format!(
        r#"name = "hostile"
        spout.words = {{ type = "feed", emits = "a" }}
        pe.one = {{ type = "relay", emits = "b", input = [{{ stream = "a"{first_key} }}] }}
        pe.two = {{ type = "relay", emits = "c", input = [{{ stream = "b" }}] }}
        pe.three = {{ type = "relay", emits = "d", input = [{{ stream = "c", key = ["note"] }}] }}"#
    );
    let mut cluster = Cluster::new(registry, &text, &[1, 1], 1);
    cluster.settle();
    cluster
}

/// A batch of some words that is in order.
fn body(words: usize) -> Vec<u8> {
    let mut columns = WordColumns::default();
    for n in 0..words {
        columns.push(WordRef { text: "word", note: Some("note"), n: u32::try_from(n).unwrap() });
    }
    let mut body = Vec::new();
    columns.encode(&mut body);
    body
}

fn header(cluster: &Cluster, rows: u32) -> BatchHeader {
    let layout = cluster.layout(NodeId(1));
    BatchHeader {
        rows,
        weight: 1,
        layout: layout.digest,
        epoch: layout.epoch.0,
        ..BatchHeader::default()
    }
}

fn arrive(cluster: &mut Cluster, header: BatchHeader, body: &[u8]) {
    cluster.give(at(2, 0), Input::Arrived(NodeId(1), header, Bytes::copy_from_slice(body)));
}

fn dropped(cluster: &mut Cluster, reason: &str) -> u64 {
    cluster.report_of(at(2, 0)).dropped.get(reason).copied().unwrap_or_default()
}

/// The container still does its work.
fn works(cluster: &mut Cluster) {
    let at = host(&cluster.plans[0], "three");
    let before = cluster.report().hosts[at].applied;
    feed("0", (0..500).map(|n| Word { text: n.to_string(), note: None, n }).collect());
    cluster.open("words", &["0"]);
    cluster.settle();
    assert_eq!(cluster.report().hosts[at].applied, before + 500);
}

#[test]
fn a_batch_that_is_none_is_dropped_and_counted_by_what_it_claimed() {
    let mut cluster = cluster();
    let good = body(7);
    let all = header(&cluster, 0);
    for cut in 0..good.len() {
        arrive(&mut cluster, BatchHeader { rows: 7, ..all }, &good[..cut]);
    }
    let mut count = 7 * good.len() as u64;
    assert_eq!(dropped(&mut cluster, "undecodable"), count);
    for rows in [0, 1, 6, 8, 1 << 20, u32::MAX] {
        arrive(&mut cluster, BatchHeader { rows, ..all }, &good);
        count += u64::from(rows);
    }
    assert_eq!(dropped(&mut cluster, "undecodable"), count);
    arrive(&mut cluster, BatchHeader { rows: u32::MAX, ..all }, &[]);
    arrive(&mut cluster, all, &[]);
    works(&mut cluster);
}

#[test]
fn numbers_of_nothing_lead_nowhere() {
    let mut cluster = cluster();
    let good = header(&cluster, 7);
    for header in [
        BatchHeader { topology: 1, ..good },
        BatchHeader { topology: u16::MAX, ..good },
        BatchHeader { edge: 3, ..good },
        BatchHeader { edge: u16::MAX, ..good },
        BatchHeader { from: u16::MAX, ..good },
        BatchHeader { to: u16::MAX, ..good },
        BatchHeader { task: 5, ..good },
        BatchHeader { weight: u32::MAX, ..good },
        BatchHeader { layout: 0, ..good },
        BatchHeader { edge: 1, task: 77, ..good },
        BatchHeader { edge: 1, task: 77, kind: BatchKind::Forwarded, ..good },
    ] {
        arrive(&mut cluster, header, &body(7));
    }
    assert_eq!(dropped(&mut cluster, "undecodable"), 2 * 7, "of edges that there are not");
    assert_eq!(dropped(&mut cluster, "misrouted"), 7);
    cluster.settle();
    let credit = Credit { topology: 0, edge: 0, from: 0, to: 0, task: 0, epoch: 1 };
    for credit in [
        Credit { topology: 9, ..credit },
        Credit { edge: 9, ..credit },
        Credit { from: 9, ..credit },
        Credit { to: 9, ..credit },
        Credit { task: 9, ..credit },
        Credit { epoch: u64::MAX, ..credit },
        Credit { task: BatchHeader::NO_TASK, ..credit },
    ] {
        for (rows, weight) in [(0, 0), (7, 1), (u64::MAX, u32::MAX)] {
            let node = NodeId(1);
            cluster.give(at(2, 0), Input::Credited { node, credit, rows, weight });
            cluster.give(at(2, 0), Input::Credited { node: NodeId(9), credit, rows, weight });
        }
    }
    works(&mut cluster);
}

/// While a host is held back, its batches wait; who sends more than it has credit for fills no memory.
#[test]
fn a_flood_beyond_credit_is_dropped_and_counted() {
    let mut cluster = by("");
    // The relay on node 2 is held back: node 1 takes nothing.
    let word = |n: u32| Word { text: "x".repeat(40), note: Some(n.to_string()), n };
    feed("0", (0..100_000).map(word).collect());
    cluster.open_at(at(2, 0), (0, 0), "0", pe::Position::default());
    cluster.settle_without(at(1, 0));
    let one = host(&cluster.plans[0], "two");
    assert!(cluster.report_of(at(2, 0)).hosts[one].is_held_back);
    // Of two nodes with a container each: a MiB for each of three edges and two senders, twice.
    let limit = (2 * 2 * 3) << 20;
    let large = vec![7; 100 << 10];
    let to_two = BatchHeader { edge: edge_to(&cluster, "two"), ..header(&cluster, 1) };
    let received = cluster.report_of(at(2, 0)).received;
    for _ in 0..2 * limit / large.len() {
        arrive(&mut cluster, to_two, &large);
    }
    let lost = dropped(&mut cluster, "over credit");
    let least = (limit / large.len()) as u64;
    assert!((least..least + 20).contains(&lost), "{lost} of {} dropped", 2 * least);
    let taken = cluster.report_of(at(2, 0)).received - received;
    assert_eq!(taken, lost, "dropped is received; the rest waits");
    // Empty ones take memory, too.
    for _ in 0..200 {
        if dropped(&mut cluster, "over credit") > lost {
            break;
        }
        for _ in 0..1000 {
            arrive(&mut cluster, to_two, &[]);
        }
    }
    assert!(dropped(&mut cluster, "over credit") > lost);
    cluster.stalled.clear();
    cluster.settle();
    works(&mut cluster);
}

fn edge_to(cluster: &Cluster, name: &str) -> u16 {
    let to = host(&cluster.plans[0], name);
    let at = cluster.plans[0].edges.iter().position(|edge| edge.to == to).unwrap();
    u16::try_from(at).unwrap()
}

/// A batch of a view that nobody knows waits for it; it takes no more than its sender's credit.
#[test]
fn batches_of_views_that_never_come_are_bounded() {
    let mut cluster = cluster();
    let early = BatchHeader { epoch: u64::MAX, ..header(&cluster, 1) };
    for _ in 0..300 {
        arrive(&mut cluster, early, &vec![7; 100 << 10]);
    }
    let lost = dropped(&mut cluster, "over credit");
    assert!((170..190).contains(&lost), "{lost} of 300 dropped");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_and_no_header_end_a_container(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        numbers in any::<(u16, u16, u16, u16)>(), task in any::<u32>(), rows in 0u32..20,
        layout in any::<bool>(), kind in 0..4usize,
    ) {
        let mut cluster = cluster();
        let mut flipped = body(7);
        for (at, bits) in flips {
            let at = at.index(flipped.len());
            flipped[at] ^= bits;
        }
        let good = header(&cluster, rows);
        let header = BatchHeader {
            topology: numbers.0 % 2,
            edge: numbers.1 % 4,
            from: numbers.2 % 3,
            to: numbers.3 % 3,
            task,
            layout: if layout { good.layout } else { 1 },
            kind: [
                BatchKind::Direct,
                BatchKind::Forwarded,
                BatchKind::Fence,
                BatchKind::Flushed,
            ][kind],
            ..good
        };
        arrive(&mut cluster, header, &bytes);
        arrive(&mut cluster, BatchHeader { rows: 7, ..header }, &flipped);
        cluster.settle();
        works(&mut cluster);
    }
}
