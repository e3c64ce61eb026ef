//! Instances that come from a replica: each is loaded by its first event, and one that cannot be read is kept.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use pe as starling;

use std::cell::Cell;
use std::collections::BTreeMap;

use bytes::Bytes;
use membership::NodeId;
use pe::{ChunkKind, Ctx, Event, Input, On, Pe, Position, Registry, Removal, Unit};
use routing::ContainerId;
use serde::{Deserialize, Serialize};
use support::{Cluster, Feed, Lend, at, feed, log, logged};

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

#[derive(Clone, Event)]
struct Item {
    key: u64,
}

impl Lend for Item {
    fn lend(&self) -> ItemRef {
        ItemRef { key: self.key }
    }
}

thread_local! {
    /// The key whose state cannot be read now.
    static UNREADABLE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Counts the items of its key, and says when it is loaded.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
#[serde(try_from = "(u64, u64)", into = "(u64, u64)")]
struct Counter {
    key: u64,
    count: u64,
}

impl From<Counter> for (u64, u64) {
    fn from(counter: Counter) -> Self {
        (counter.key, counter.count)
    }
}

impl TryFrom<(u64, u64)> for Counter {
    type Error = String;

    fn try_from((key, count): (u64, u64)) -> Result<Self, String> {
        if UNREADABLE.get() == Some(key) {
            return Err("not now".to_owned());
        }
        log("loaded");
        Ok(Self { key, count })
    }
}

impl Pe for Counter {
    type In = Item;
    type Out = ();

    fn on_remove(&mut self, reason: Removal, _: &mut Ctx<'_, ()>) {
        log(format!("{reason:?} {}", self.count));
    }
}

impl On<Item> for Counter {
    fn on(&mut self, item: ItemRef, _: &mut Ctx<'_, ()>) {
        self.key = item.key;
        self.count += 1;
    }
}

const KEYS: usize = 1000;
const SLOTS: u16 = 64;
const ONE: ContainerId = ContainerId { node: NodeId(1), container: 0 };
const TWO: ContainerId = ContainerId { node: NodeId(2), container: 0 };

/// Two nodes, and an event for each key has been handled; `more` is set on the PE.
fn cluster(more: &str) -> Cluster {
    logged();
    UNREADABLE.set(None);
    let registry = Registry::new().spout::<Feed<Item, 100>>("feed").pe::<Counter>("counter");
    let text = format!(
        r#"name = "dormant"
        spout.items = {{ type = "feed", emits = "items" }}
        pe.count = {{ type = "counter", input = [{{ stream = "items", key = ["key"] }}]{more} }}"#
    );
    let mut cluster = Cluster::new(registry, &text, &[1, 1], 5);
    read(&mut cluster, "first", 0..1000);
    cluster
}

fn read(cluster: &mut Cluster, part: &str, keys: impl Iterator<Item = u64>) {
    feed(part, keys.map(|key| Item { key }).collect());
    cluster.open_at(at(1, 0), (0, 0), part, Position::default());
    cluster.settle();
}

/// All slots of a node go to the other, as from a replica if `is_replica`.
fn move_all(cluster: &mut Cluster, from: ContainerId, to: ContainerId, is_replica: bool) {
    let layout = cluster.layout(NodeId(1));
    let all = (0..SLOTS).map(Unit::Slot);
    let units: Vec<_> = all.filter(|&slot| layout.home(slot) == Some(from)).collect();
    cluster.give(from, Input::Copy { handoff: 7, units: units.clone() });
    let mut may_seal = true;
    loop {
        cluster.give(from, Input::Pull(7));
        let (_, bytes, kind) = cluster.chunks.pop_front().unwrap();
        let bytes = Bytes::from(bytes);
        cluster.give(to, Input::Stage { handoff: 7, bytes, is_replica });
        cluster.staged.pop_front().unwrap().1.unwrap();
        match kind {
            ChunkKind::AheadEnd if std::mem::take(&mut may_seal) => {
                cluster.give(from, Input::Seal(7));
            }
            ChunkKind::End => break,
            ChunkKind::Ahead | ChunkKind::AheadEnd | ChunkKind::Rest => {}
        }
    }
    let units: Vec<_> = units.into_iter().map(|unit| (unit, to)).collect();
    cluster.move_units(&units);
    cluster.settle();
}

fn counts() -> BTreeMap<String, usize> {
    support::counts(logged())
}

fn instances(cluster: &mut Cluster, node: ContainerId) -> usize {
    usize::try_from(cluster.report_of(node).hosts[1].instances).unwrap()
}

#[test]
fn an_instance_is_loaded_by_its_first_event_and_not_before() {
    let mut cluster = cluster("");
    let theirs = instances(&mut cluster, TWO);
    assert!(theirs > KEYS / 4, "{theirs}");
    move_all(&mut cluster, TWO, ONE, true);
    assert_eq!(counts(), BTreeMap::from([("Moved 1".to_owned(), theirs)]));
    assert_eq!(instances(&mut cluster, ONE), KEYS, "they are there all the same");
    read(&mut cluster, "more", (0..100).chain(0..100));
    let loaded = counts()["loaded"];
    assert!((10..90).contains(&loaded), "those of the first hundred that came: {loaded}");
    // They go as they came, and nobody is told who was never there.
    move_all(&mut cluster, ONE, TWO, true);
    let all = BTreeMap::from([
        ("Moved 1".to_owned(), KEYS - theirs - (100 - loaded)),
        ("Moved 3".to_owned(), 100),
    ]);
    assert_eq!(counts(), all);
    assert_eq!((instances(&mut cluster, ONE), instances(&mut cluster, TWO)), (0, KEYS));
    // At the end each is told.
    cluster.finish();
    let all = [("Ended 1", KEYS - 100), ("Ended 3", 100), ("loaded", KEYS)];
    assert_eq!(counts(), all.map(|(what, count)| (what.to_owned(), count)).into());
}

#[test]
fn what_somebody_else_still_serves_or_a_timer_calls_is_loaded_at_once() {
    let mut served = cluster("");
    let theirs = instances(&mut served, TWO);
    move_all(&mut served, TWO, ONE, false);
    assert_eq!(counts()["loaded"], theirs);
    for more in [
        r#", timer = "1h""#,
        r#", trigger = { events = 100 }"#,
        r#", memory = { idle_after = "1h" }"#,
    ] {
        let mut called = cluster(more);
        move_all(&mut called, TWO, ONE, true);
        assert_eq!(counts()["loaded"], theirs, "{more}");
    }
}

#[test]
fn one_that_cannot_be_read_is_kept_and_its_events_fail() {
    let mut cluster = cluster("");
    let layout = cluster.layout(NodeId(1));
    let is_theirs = |key: &u64| {
        let slot = routing::Slot::of(routing::Key::hash(*key), usize::from(SLOTS));
        layout.home(Unit::Slot(slot.0)) == Some(TWO)
    };
    let key = (0..1000).find(is_theirs).unwrap();
    move_all(&mut cluster, TWO, ONE, true);
    UNREADABLE.set(Some(key));
    read(&mut cluster, "second", 0..1000);
    read(&mut cluster, "third", 0..1000);
    let host = &cluster.report().hosts[1];
    assert_eq!((host.instances, host.applied, host.dead_letters), (1000, 2998, 2));
    // Its bytes go on, and are read when they can be.
    move_all(&mut cluster, ONE, TWO, true);
    read(&mut cluster, "fourth", [key].into_iter());
    UNREADABLE.set(None);
    read(&mut cluster, "fifth", [key].into_iter());
    logged();
    cluster.finish();
    let ended = counts();
    assert_eq!((ended["Ended 2"], ended["Ended 3"]), (1, KEYS - 1));
}
