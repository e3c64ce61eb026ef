//! When what a PE has come to is with its replicas: as soon as may be, or when its `checkpoint` says.
//!
//! One container and the replicas of its own node: what they say to each other needs no network.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use pe as starling;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use membership::{Epoch, NodeId, Time};
use pe::topology::{Plan, Topology};
use pe::{
    Action, Container, Ctx, Duty, Event, Home, Input, Layout, On, PartitionName, Pe, Phase, Place,
    Position, Registry, ReplicaAction, ReplicaInput, ReplicaStore, RunReport, Sets, Sought, Unit,
    Waker, Which,
};
use serde::{Deserialize, Serialize};
use support::{Feed, Lend, feed};

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

const SLOTS: u16 = 16;
const ME: NodeId = NodeId(1);

#[derive(Clone, Event)]
struct Item {
    key: u64,
}

impl Lend for Item {
    fn lend(&self) -> ItemRef {
        ItemRef { key: self.key }
    }
}

/// Counts the items of its key; that of key 0 wants each of them saved.
#[derive(Default, Serialize, Deserialize)]
struct Counter(u64);

impl Pe for Counter {
    type In = Item;
    type Out = ();
}

impl On<Item> for Counter {
    fn on(&mut self, item: ItemRef, ctx: &mut Ctx<'_, ()>) {
        self.0 += 1;
        if item.key == 0 {
            ctx.checkpoint();
        }
    }
}

/// A container that owns everything, and its replicas.
struct Node {
    now: Time,
    container: Container,
    replicas: ReplicaStore,
    inputs: VecDeque<Input>,
    plan: Arc<Plan>,
    partitions: u32,
    report: RunReport,
}

impl Node {
    fn new(delivery: &str, checkpoint: &str) -> Self {
        let registry = Registry::new().spout::<Feed<Item>>("feed").pe::<Counter>("counter");
        let text = format!(
            r#"name = "checkpoints"
            delivery = "{delivery}"
            spout.items = {{ type = "feed", emits = "items" }}
            pe.count = {{ type = "counter", input = [{{ stream = "items", key = ["key"] }}]{checkpoint} }}"#
        );
        let topology = Topology::parse(&text).unwrap();
        let plans = [Arc::new(topology.plan(&registry.catalog()).unwrap())];
        let (before, layout) = (layout(&plans, 0), layout(&plans, 1));
        let waker = Waker::new(|| {});
        let mut node = Self {
            now: Time(Duration::from_secs(100)),
            container: Container::new(0, before, &registry, &plans, waker),
            replicas: ReplicaStore::new(layout.clone()),
            inputs: VecDeque::from([Input::Laid(layout)]),
            plan: Arc::clone(&plans[0]),
            partitions: 0,
            report: RunReport::default(),
        };
        node.pass(Duration::from_secs(2));
        node
    }

    fn place(&self, name: &str) -> u16 {
        let place = self.plan.prototypes.iter().position(|known| known.name == name);
        u16::try_from(place.unwrap()).unwrap()
    }

    /// So many events of a key are read.
    fn count(&mut self, key: u64, events: usize) {
        let name = self.partitions.to_string();
        self.partitions += 1;
        feed(&name, vec![Item { key }; events]);
        let (name, position) = (PartitionName::new(name), Position::default());
        let prototype = self.place("items");
        self.inputs.push_back(Input::Open { topology: 0, prototype, name, position, skip: 0 });
    }

    /// Time passes, and what is due is done.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        loop {
            self.settle();
            match self.container.deadline() {
                // A deadline that has passed and moves nothing would be one for ever.
                Some(at) if at <= end => self.now = at.max(self.now + Duration::from_micros(100)),
                _ => break,
            }
        }
        self.now = end;
        self.settle();
    }

    fn settle(&mut self) {
        loop {
            while let Some(input) = self.inputs.pop_front() {
                self.step(input);
            }
            self.step(Input::Drained);
            if self.inputs.is_empty() && !self.container.wants_turn() {
                return;
            }
        }
    }

    fn step(&mut self, input: Input) {
        let (mut actions, mut replicated) = (Vec::new(), Vec::new());
        self.container.step(self.now, input, &mut actions);
        for action in actions {
            if let Action::Replicate(body) = action {
                let own = ReplicaInput::Own { container: 0, body: body.into() };
                self.replicas.step(own, &mut replicated);
            } else if let Action::Post(0, input) = action {
                self.inputs.push_back(input);
            } else if let Action::Report(mut report) = action {
                self.report = report.runs.remove(0);
            }
        }
        for action in replicated {
            if let ReplicaAction::Tell(_, body) = action {
                self.inputs.push_back(Input::Replicated(body));
            }
        }
    }

    /// What the replicas know of a key.
    fn saved(&mut self, key: u64) -> Option<u64> {
        let which = Which::Key(key.to_le_bytes().to_vec());
        let sought = Sought { topology: 0, prototype: self.place("count"), which };
        let mut out = Vec::new();
        self.replicas.step(ReplicaInput::Look { question: 1, sought }, &mut out);
        let Some(ReplicaAction::Looked { found, .. }) = out.pop() else { panic!("{out:?}") };
        let state = found.expect("the replicas are whole");
        state.map(|state| u64::from_le_bytes(state.try_into().unwrap()))
    }

    fn pending(&mut self) -> u64 {
        self.step(Input::Asked(1));
        self.report.trees.pending
    }
}

/// All is on one node, and that keeps replicas of it, as where they are on its disk.
fn layout(plans: &[Arc<Plan>], epoch: u64) -> Arc<Layout> {
    let place = Place {
        node: ME,
        since: Epoch(1),
        containers: 1,
        number: 1,
        is_drained: false,
        is_active: true,
    };
    let slots = vec![Home::first(ME); usize::from(SLOTS)];
    let tasks = vec![vec![Vec::new(); plans[0].prototypes.len()]];
    let units = || (0..SLOTS).map(Unit::Slot);
    let duty =
        |unit| Duty { unit, container: 0, is_active: true, epoch: Epoch(1), replicas: vec![ME] };
    let sets = Sets {
        duties: units().map(duty).filter(|_| epoch > 0).collect(),
        kept: units().map(|unit| (unit, vec![Epoch(1)])).collect(),
        ..Sets::default()
    };
    let phases = vec![Phase::Running];
    let layout = Layout::new(Epoch(epoch), ME, vec![place], slots, tasks, plans, phases);
    Arc::new(layout.with_sets(sets))
}

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn without_a_checkpoint_it_is_a_matter_of_milliseconds() {
    let mut node = Node::new("at-least-once", "");
    node.count(7, 5);
    node.pass(millis(20));
    assert_eq!((node.saved(7), node.pending()), (Some(5), 0));
    let mut node = Node::new("at-most-once", "");
    node.count(7, 5);
    node.pass(millis(300));
    assert_eq!(node.saved(7), Some(5));
}

#[test]
fn by_time_it_is_when_the_time_is_over() {
    let mut node = Node::new("at-most-once", r#", checkpoint = { every = "10s" }"#);
    node.count(7, 5);
    node.pass(millis(300));
    // The first is due at once: none has been made.
    assert_eq!(node.saved(7), Some(5));
    node.count(7, 1);
    node.pass(millis(9_000));
    assert_eq!(node.saved(7), Some(5));
    node.pass(millis(1_000));
    assert_eq!(node.saved(7), Some(6));
}

#[test]
fn acks_wait_for_it_but_not_once_nothing_more_comes() {
    let mut node = Node::new("at-least-once", r#", checkpoint = { every = "1h" }"#);
    node.count(7, 1);
    node.pass(millis(1_100));
    for done in 1..6 {
        assert_eq!(node.saved(7), Some(1));
        node.count(7, 1);
        node.pass(millis(900));
        assert_eq!(node.pending(), done);
    }
    node.pass(millis(200));
    assert_eq!((node.saved(7), node.pending()), (Some(6), 0), "nothing came for a second");
}

#[test]
fn by_count_it_is_when_so_many_were_handled() {
    let mut node = Node::new("at-least-once", r#", checkpoint = { events = 4, every = "1h" }"#);
    node.count(7, 1);
    node.pass(millis(1_100));
    node.count(7, 3);
    node.pass(millis(300));
    assert_eq!((node.saved(7), node.pending()), (Some(1), 3));
    node.count(8, 1);
    node.pass(millis(10));
    assert_eq!((node.saved(7), node.saved(8), node.pending()), (Some(4), Some(1), 0));
}

#[test]
fn by_hand_it_is_at_once() {
    for delivery in ["at-least-once", "at-most-once"] {
        for checkpoint in ["", r#", checkpoint = { every = "1h" }"#] {
            let mut node = Node::new(delivery, checkpoint);
            node.count(7, 2);
            node.count(0, 1);
            node.pass(millis(1));
            assert_eq!(
                (node.saved(7), node.saved(0)),
                (Some(2), Some(1)),
                "{delivery}{checkpoint}"
            );
        }
    }
}
