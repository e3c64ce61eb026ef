//! One handoff, step by step: what a chunk holds, what is kept and for whom it counts, and what of a
//! liar's bytes is taken.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use pe as starling;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use membership::NodeId;
use pe::{ChunkKind, Ctx, Event, Input, On, Pe, Position, Registry, Removal, STATE_MAX, Unit};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use support::{Cluster, Feed, Lend, at, feed, log, logged};
use xxhash_rust::xxh3::xxh3_64;

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

#[derive(Clone, Event)]
struct Item {
    key: u64,
    pad: String,
}

impl Lend for Item {
    fn lend(&self) -> ItemRef<'_> {
        ItemRef { key: self.key, pad: &self.pad }
    }
}

/// Counts the items of its key.
#[derive(Default, Serialize, Deserialize)]
struct Counter {
    count: u64,
    /// The pads.
    state: String,
}

impl Pe for Counter {
    type In = Item;
    type Out = ();

    fn on_trigger(&mut self, _: &mut Ctx<'_, ()>) {
        log("trigger");
    }

    fn on_remove(&mut self, reason: Removal, _: &mut Ctx<'_, ()>) {
        log(format!("{reason:?} {}", self.count));
    }
}

impl On<Item> for Counter {
    fn on(&mut self, item: ItemRef<'_>, _: &mut Ctx<'_, ()>) {
        self.count += 1;
        self.state.push_str(item.pad);
    }
}

const SLOTS: u16 = 64;

/// Two nodes; the spout is on the first. Keys 0 to `keys`, one after the other.
fn cluster(keys: u64, items: u64, pad: usize) -> Cluster {
    with("", keys, items, pad)
}

fn with(trigger: &str, keys: u64, items: u64, pad: usize) -> Cluster {
    logged();
    let registry = Registry::new().spout::<Feed<Item, 100>>("feed").pe::<Counter>("counter");
    let text = format!(
        r#"name = "staging"
        spout.items = {{ type = "feed", emits = "items" }}
        pe.count = {{ type = "counter", input = [{{ stream = "items", key = ["key"] }}]{trigger} }}"#
    );
    let item = |n: u64| Item { key: n % keys, pad: "x".repeat(pad) };
    for part in ["0", "1"] {
        feed(part, (0..items).map(item).collect());
    }
    Cluster::new(registry, &text, &[1, 1], 5)
}

fn read(cluster: &mut Cluster, part: &str) {
    cluster.open_at(at(1, 0), (0, 0), part, Position::default());
    cluster.settle();
}

/// All slots of the second node.
fn slots(cluster: &Cluster) -> Vec<Unit> {
    let layout = cluster.layout(NodeId(1));
    let all = (0..SLOTS).map(Unit::Slot);
    all.filter(|&slot| layout.home(slot) == Some(at(2, 0))).collect()
}

fn copy(cluster: &mut Cluster) {
    let units = slots(cluster);
    cluster.give(at(2, 0), Input::Copy { handoff: 7, units });
}

fn pull(cluster: &mut Cluster) -> Option<(Vec<u8>, ChunkKind)> {
    cluster.give(at(2, 0), Input::Pull(7));
    cluster.chunks.pop_front().map(|(_, bytes, kind)| (bytes, kind))
}

fn stage(cluster: &mut Cluster, bytes: Vec<u8>) -> Result<(), String> {
    cluster
        .give(at(1, 0), Input::Stage { handoff: 7, bytes: Bytes::from(bytes), is_replica: false });
    cluster.staged.pop_front().unwrap().1
}

/// Pulls up to a chunk of some kind; all that was staged.
fn pull_to(cluster: &mut Cluster, last: ChunkKind) -> Vec<(usize, ChunkKind)> {
    let mut all = Vec::new();
    loop {
        let (bytes, kind) = pull(cluster).unwrap();
        all.push((bytes.len(), kind));
        stage(cluster, bytes).unwrap();
        if kind == last {
            return all;
        }
    }
}

fn counts() -> BTreeMap<String, usize> {
    support::counts(logged())
}

#[test]
fn a_copy_is_made_of_small_chunks_and_its_rest_is_what_has_changed() {
    let mut cluster = cluster(20_000, 20_000, 10);
    read(&mut cluster, "0");
    copy(&mut cluster);
    let ahead = pull_to(&mut cluster, ChunkKind::AheadEnd);
    assert!(ahead.len() > 3 && ahead.iter().all(|(len, _)| *len < 66 << 10), "{ahead:?}");
    assert_eq!(pull(&mut cluster), None, "nothing is left to be copied ahead");
    // A few keys change.
    feed("2", (0..50).map(|key| Item { key, pad: String::new() }).collect());
    read(&mut cluster, "2");
    cluster.give(at(2, 0), Input::Seal(7));
    let (_, bytes, kind) = cluster.chunks.pop_front().unwrap();
    assert!(kind == ChunkKind::End && bytes.len() < 4 << 10, "{} bytes {kind:?}", bytes.len());
    stage(&mut cluster, bytes).unwrap();
    let units: Vec<_> = slots(&cluster).into_iter().map(|unit| (unit, at(1, 0))).collect();
    cluster.move_units(&units);
    cluster.settle();
    let moved: usize = counts().values().sum();
    assert!((5_000..15_000).contains(&moved), "{moved} moved");
    cluster.finish();
    let ended = BTreeMap::from([("Ended 1".to_owned(), 19_950), ("Ended 2".to_owned(), 50)]);
    assert_eq!(counts(), ended);
}

/// The sender of what is kept gets its weight back, and is not told that it was handled.
#[test]
fn what_is_kept_holds_nobody_back_and_is_open_until_it_is_handled() {
    let mut cluster = cluster(1000, 10_000, 700);
    copy(&mut cluster);
    cluster.give(at(2, 0), Input::Seal(7));
    read(&mut cluster, "0");
    let report = cluster.report();
    let kept = report.unconfirmed;
    assert!(report.hosts[0].partitions[0].is_exhausted, "3 MB of a budget of 1 MiB were sent");
    assert!(kept > 3000 && report.hosts[1].applied == 10_000 - kept, "{report:?}");
    assert_eq!(report.sent, report.received + kept, "the topology cannot end");
    cluster.give(at(2, 0), Input::Release(7));
    cluster.settle();
    let report = cluster.report();
    assert_eq!((report.hosts[1].applied, report.unconfirmed), (10_000, 0));
    assert_eq!(report.sent, report.received);
    cluster.finish();
}

/// Whoever was giving units away, missed the views by which they went, and hears that they are to come back from a
/// replica: what ends is what was being given.
#[test]
fn what_is_waited_for_stays_kept_when_a_handoff_ends() {
    let mut cluster = cluster(1000, 10_000, 10);
    copy(&mut cluster);
    cluster.give(at(2, 0), Input::Seal(7));
    read(&mut cluster, "0");
    let kept = cluster.report().unconfirmed;
    cluster.await_units(&slots(&cluster));
    cluster.settle();
    cluster.give(at(2, 0), Input::Release(7));
    cluster.settle();
    assert_eq!(cluster.report().unconfirmed, kept);
    cluster.await_units(&[]);
    cluster.settle();
    assert_eq!(cluster.report().unconfirmed, 0);
    cluster.finish();
}

#[test]
fn what_is_kept_is_in_doubt_when_its_node_dies() {
    let mut cluster = cluster(1000, 10_000, 10);
    copy(&mut cluster);
    cluster.give(at(2, 0), Input::Seal(7));
    read(&mut cluster, "0");
    let kept = cluster.report().unconfirmed;
    cluster.bury(NodeId(2));
    cluster.settle();
    let report = cluster.report();
    assert!(kept > 3000 && report.in_doubt == kept, "{kept} kept, {} in doubt", report.in_doubt);
}

#[test]
fn when_too_much_is_kept_whoever_sends_it_is_held_back() {
    let mut cluster = cluster(1000, 60_000, 1000);
    copy(&mut cluster);
    cluster.give(at(2, 0), Input::Seal(7));
    read(&mut cluster, "0");
    let report = cluster.report();
    assert!(report.hosts[0].is_held_back);
    let bytes = report.unconfirmed * 1000;
    assert!((12 << 20..19 << 20).contains(&bytes), "{bytes} bytes are kept");
    cluster.give(at(2, 0), Input::Release(7));
    cluster.settle();
    assert_eq!(cluster.report().hosts[1].applied, 60_000);
    cluster.finish();
}

#[test]
fn a_trigger_by_time_waits_as_long_as_its_unit_stands_still() {
    for is_given_up in [true, false] {
        let mut cluster = with(r#", trigger = { after = "20ms" }"#, 10, 10, 0);
        read(&mut cluster, "0");
        copy(&mut cluster);
        pull_to(&mut cluster, ChunkKind::AheadEnd);
        cluster.give(at(2, 0), Input::Seal(7));
        pull_to(&mut cluster, ChunkKind::End);
        cluster.pass(Duration::from_millis(30));
        let (before, units) = (counts()["trigger"], slots(&cluster));
        assert!(0 < before && before < 10, "{before} of 10 are not sealed");
        if is_given_up {
            cluster.give(at(1, 0), Input::Discard(units));
            cluster.give(at(2, 0), Input::Release(7));
        } else {
            let units: Vec<_> = units.into_iter().map(|unit| (unit, at(1, 0))).collect();
            cluster.move_units(&units);
        }
        cluster.settle();
        assert_eq!(counts()["trigger"], 10 - before);
        cluster.finish();
    }
}

#[test]
fn staged_instances_are_nobodys_until_a_layout_says_so() {
    let mut cluster = cluster(500, 1000, 10);
    read(&mut cluster, "0");
    copy(&mut cluster);
    pull_to(&mut cluster, ChunkKind::AheadEnd);
    // To end now calls nobody twice.
    cluster.finish();
    assert_eq!(counts(), BTreeMap::from([("Ended 2".to_owned(), 500)]));

    let mut cluster = self::cluster(500, 1000, 10);
    read(&mut cluster, "0");
    copy(&mut cluster);
    pull_to(&mut cluster, ChunkKind::AheadEnd);
    let staged = slots(&cluster);
    cluster.give(at(1, 0), Input::Discard(staged.clone()));
    // What was copied is gone there: so they begin anew.
    let units: Vec<_> = staged.into_iter().map(|unit| (unit, at(1, 0))).collect();
    cluster.move_units(&units);
    cluster.settle();
    read(&mut cluster, "1");
    let moved = counts()["Moved 2"];
    cluster.finish();
    let ended = [("Ended 2".to_owned(), moved), ("Ended 4".to_owned(), 500 - moved)];
    assert_eq!(counts(), BTreeMap::from(ended));
}

#[test]
fn an_instance_goes_alone_if_it_is_large_and_not_at_all_if_it_is_too_large() {
    let mut cluster = cluster(1, 0, 0);
    let key = (0..100).find(|&key| {
        let layout = cluster.layout(NodeId(1));
        let hash = routing::Key::hash(key);
        layout.home(Unit::Slot(routing::Slot::of(hash, usize::from(SLOTS)).0)) == Some(at(2, 0))
    });
    let large = Item { key: key.unwrap(), pad: "x".repeat(4_000_000) };
    feed("0", vec![large.clone()]);
    feed("1", vec![large; 4]);
    read(&mut cluster, "0");
    copy(&mut cluster);
    let (bytes, kind) = pull(&mut cluster).unwrap();
    assert!(kind == ChunkKind::AheadEnd && bytes.len() > 4_000_000 && bytes.len() < STATE_MAX);
    stage(&mut cluster, bytes).unwrap();
    read(&mut cluster, "1");
    cluster.give(at(2, 0), Input::Seal(7));
    let (bytes, kind) = pull(&mut cluster).unwrap();
    assert!(kind == ChunkKind::End && bytes.len() < 100, "{} bytes", bytes.len());
    let refused = stage(&mut cluster, bytes).unwrap_err();
    assert_eq!(refused, "an instance of count cannot be written");
}

/// A chunk of the second node, and where in it the state of its first instance is.
fn chunk() -> (Cluster, Vec<u8>) {
    let mut cluster = cluster(10, 100, 10);
    read(&mut cluster, "0");
    copy(&mut cluster);
    let (bytes, _) = pull(&mut cluster).unwrap();
    (cluster, bytes)
}

fn sealed(records: &[u8]) -> Vec<u8> {
    let mut bytes = xxh3_64(records).to_le_bytes().to_vec();
    bytes.extend_from_slice(records);
    bytes
}

#[test]
fn what_lives_here_cannot_be_staged_over() {
    let (mut cluster, bytes) = chunk();
    cluster.give(
        at(2, 0),
        Input::Stage { handoff: 1, bytes: Bytes::from(bytes.clone()), is_replica: false },
    );
    let refused = cluster.staged.pop_front().unwrap().1.unwrap_err();
    assert!(refused.contains("lives here already"), "{refused}");
    assert_eq!(
        stage(&mut cluster, bytes[..bytes.len() - 1].to_vec()).unwrap_err(),
        "the checksum of a chunk is wrong"
    );
    stage(&mut cluster, bytes).unwrap();
    cluster.finish();
}

#[test]
fn a_key_that_is_none_is_refused() {
    let mut cluster = cluster(10, 0, 0);
    let record = |key: &[u8]| {
        // A keyed instance of the first prototype behind the spout, without a state.
        let mut record = vec![0, 0, 0, 1, 0];
        record.extend_from_slice(&u32::try_from(key.len()).unwrap().to_le_bytes());
        record.extend_from_slice(key);
        record.extend_from_slice(&[0; 8]);
        sealed(&record)
    };
    let refused = (0u8..100).map(|byte| stage(&mut cluster, record(&[byte; 3])).unwrap_err());
    let refused: Vec<_> = refused.filter(|why| why.contains("that is none")).collect();
    assert!(refused.len() > 20, "about half of them are of slots that live elsewhere");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_chunk_ends_a_container(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        junk in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let (mut cluster, bytes) = chunk();
        let mut records = bytes[8..].to_vec();
        for (at, bits) in flips {
            let at = at.index(records.len());
            records[at] ^= bits;
        }
        let _ = stage(&mut cluster, sealed(&records));
        let _ = stage(&mut cluster, sealed(&junk));
        let _ = stage(&mut cluster, junk);
        let units = slots(&cluster).into_iter().map(|unit| (unit, at(1, 0))).collect::<Vec<_>>();
        cluster.move_units(&units);
        cluster.settle();
        read(&mut cluster, "1");
        prop_assert_eq!(cluster.report().hosts[1].applied, 200);
        cluster.finish();
    }
}
