//! Keyed instances that are given up: since there are too many, or since they are idle.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use pe as starling;

use std::collections::BTreeMap;
use std::time::Duration;

use membership::NodeId;
use pe::{Ctx, Event, Evicted, Input, On, Pe, Position, Registry, Removal, Unit};
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

/// What an instance had when it went.
#[derive(Event)]
struct Went {
    key: u64,
    count: u64,
}

/// Counts the items of its key, and says what it has come to when it goes.
#[derive(Default, Serialize, Deserialize)]
struct Counter {
    count: u64,
}

impl Pe for Counter {
    type In = Item;
    type Out = Went;

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, Went>) {
        log(format!("{reason:?}"));
        let key = ctx.key().unwrap().unsigned(0).unwrap();
        ctx.emit(WentRef { key, count: self.count });
    }
}

impl On<Item> for Counter {
    fn on(&mut self, _: ItemRef, _: &mut Ctx<'_, Went>) {
        self.count += 1;
    }
}

/// Adds up what the others had.
#[derive(Default, Serialize, Deserialize)]
struct Sum {
    count: u64,
}

impl Pe for Sum {
    type In = Went;
    type Out = ();

    fn on_remove(&mut self, _: Removal, ctx: &mut Ctx<'_, ()>) {
        log(format!("{} {}", ctx.key().unwrap().unsigned(0).unwrap(), self.count));
    }
}

impl On<Went> for Sum {
    fn on(&mut self, went: WentRef, _: &mut Ctx<'_, ()>) {
        self.count += went.count;
    }
}

/// A container that has a spout and counters, of which `memory` says how many there may be.
fn cluster(memory: &str, nodes: &[u16]) -> Cluster {
    logged();
    let registry =
        Registry::new().spout::<Feed<Item, 100>>("feed").pe::<Counter>("counter").pe::<Sum>("sum");
    let text = format!(
        r#"name = "evictions"
        [spout.items]
        type = "feed"
        emits = "items"
        [pe.count]
        type = "counter"
        input = [{{ stream = "items", key = ["key"] }}]
        memory = {{ {memory} }}
        emits = "went"
        [pe.sum]
        type = "sum"
        input = [{{ stream = "went", key = ["key"] }}]"#
    );
    Cluster::new(registry, &text, nodes, 5)
}

fn read(cluster: &mut Cluster, part: &str, keys: impl Iterator<Item = u64>) {
    feed(part, keys.map(|key| Item { key }).collect());
    cluster.open_at(at(1, 0), (0, 0), part, Position::default());
    cluster.settle();
}

fn figures(cluster: &mut Cluster) -> (u64, Evicted) {
    let report = cluster.report();
    (report.hosts[1].instances, report.hosts[1].evicted)
}

/// Ends all; what was counted of each key, in all its lives.
fn finish(cluster: &mut Cluster) -> BTreeMap<u64, u64> {
    logged();
    cluster.finish();
    let lines = logged();
    let sums = lines.iter().filter_map(|line| line.split_once(' '));
    sums.map(|(key, count)| (key.parse().unwrap(), count.parse().unwrap())).collect()
}

#[test]
fn with_too_many_those_go_that_nobody_uses_and_are_told() {
    let mut cluster = cluster("max_instances = 1000", &[1]);
    // A hundred keys come again and again, among many that come once.
    let keys = (0..100_000u64).map(|n| if n % 10 == 0 { n / 10 % 100 } else { 1_000_000 + n });
    read(&mut cluster, "0", keys.clone());
    let (instances, evicted) = figures(&mut cluster);
    assert_eq!(instances, 1000);
    assert_eq!(evicted, Evicted { full: 90_100 - 1000, idle: 0 }, "none of the hundred");
    assert_eq!(support::counts(logged()), BTreeMap::from([("Full".to_owned(), 89_100)]));
    // What they had when they went is not lost, and begins anew.
    read(&mut cluster, "1", keys);
    let sums = finish(&mut cluster);
    assert!(sums.iter().all(|(&key, &sum)| sum == if key < 100 { 200 } else { 2 }));
    assert_eq!(sums.len(), 90_100);
}

#[test]
fn one_that_has_had_no_event_for_long_enough_goes() {
    let mut cluster = cluster(r#"idle_after = "10s""#, &[1]);
    read(&mut cluster, "0", 0..1000);
    for part in 1..20 {
        cluster.pass(Duration::from_secs(1));
        read(&mut cluster, &part.to_string(), 0..100);
        let (instances, evicted) = figures(&mut cluster);
        let is_too_early = part < 10;
        assert!(!is_too_early || instances == 1000, "{instances} after {part} s");
        assert_eq!(evicted, Evicted { full: 0, idle: 1000 - instances });
    }
    assert_eq!(figures(&mut cluster).0, 100, "after 12.5 s at most");
    let sums = finish(&mut cluster);
    assert!(sums.iter().all(|(&key, &sum)| sum == if key < 100 { 20 } else { 1 }));
}

#[test]
fn what_stands_still_is_not_given_up() {
    let mut cluster = cluster(r#"max_instances = 10, idle_after = "1s""#, &[1, 1]);
    let layout = cluster.layout(NodeId(1));
    let theirs = (0..64).map(Unit::Slot).filter(|&slot| layout.home(slot) == Some(at(2, 0)));
    cluster.give(at(2, 0), Input::Copy { handoff: 7, units: theirs.collect() });
    cluster.give(at(2, 0), Input::Seal(7));
    read(&mut cluster, "0", 0..1000);
    cluster.pass(Duration::from_secs(5));
    cluster.settle();
    let (instances, _) = figures(&mut cluster);
    assert_eq!(instances, 0, "of those that are served; the events of the others are kept");
    cluster.give(at(2, 0), Input::Release(7));
    cluster.settle();
    assert_eq!(figures(&mut cluster).0, 10);
    assert_eq!(finish(&mut cluster).values().sum::<u64>(), 1000);
}
