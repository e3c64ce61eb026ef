//! The path of an event allocates nothing once it is warm.
//!
//! Lines go by shuffle to two splitters and words by key to counters, over two containers of a node that
//! one thread drives: all that a container does with an event happens here. Memory is taken while batches,
//! lanes, queues and instances find their sizes; from then on batches go round and nothing is taken.

#![expect(unsafe_code, reason = "a global allocator that counts can be had no other way")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use membership::{Epoch, NodeId, Time};
use pe::topology::Topology;
use pe::{
    Action, Container, Ctx, Event, Home, Input, Layout, Next, On, Opening, Params, PartitionName,
    Pe, Phase, Place, Position, Registry, Spout, SpoutError, Waker, active_containers,
    spread_tasks,
};
use serde::{Deserialize, Serialize};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Words that were counted.
static COUNTED: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call goes to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Memory) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Memory) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[derive(Event)]
struct Line {
    text: String,
}

#[derive(Event)]
struct Word {
    text: String,
}

/// The same lines again and again.
struct Lines(usize);

const LINES: [&str; 4] = [
    "we the people of the united states in order to form",
    "a more perfect union establish justice insure domestic tranquillity",
    "provide for the common defence promote the general welfare and secure",
    "internationalization and counterrevolutionaries are words of more than fifteen letters",
];

impl Spout for Lines {
    type Out = Line;

    fn partitions(_: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        Ok(vec![PartitionName::new("0")])
    }

    fn open(_: Opening<'_>) -> Result<Self, SpoutError> {
        Ok(Self(0))
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Line>) -> Result<Next, SpoutError> {
        for _ in 0..500 {
            ctx.emit(LineRef { text: LINES[self.0 % LINES.len()] });
            self.0 += 1;
        }
        Ok(Next::More)
    }

    fn position(&self) -> Position {
        Position::default()
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Splitter;

impl Pe for Splitter {
    type In = Line;
    type Out = Word;
}

impl On<Line> for Splitter {
    fn on(&mut self, line: LineRef<'_>, ctx: &mut Ctx<'_, Word>) {
        for text in line.text.split(' ') {
            ctx.emit(WordRef { text });
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Counter(u64);

impl Pe for Counter {
    type In = Word;
    type Out = ();
}

impl On<Word> for Counter {
    fn on(&mut self, _: WordRef<'_>, _: &mut Ctx<'_, ()>) {
        self.0 += 1;
        COUNTED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Two containers of one node, and what is on its way to each.
struct Node {
    now: Time,
    containers: [Container; 2],
    inputs: [VecDeque<Input>; 2],
    actions: Vec<Action>,
}

impl Node {
    fn new() -> Self {
        let registry = Registry::new()
            .spout::<Lines>("lines")
            .pe::<Splitter>("splitter")
            .pe::<Counter>("counter");
        let text = r#"name = "words"
            spout.lines = { type = "lines", emits = "lines" }
            [pe.split]
            type = "splitter"
            input = [{ stream = "lines", grouping = "shuffle" }]
            parallelism = 2
            emits = "words"
            [pe.count]
            type = "counter"
            input = [{ stream = "words", key = ["text"] }]"#;
        let plan = Topology::parse(text).and_then(|topology| topology.plan(&registry.catalog()));
        let plans = [Arc::new(plan.unwrap())];
        let me = NodeId(1);
        let places = vec![Place {
            node: me,
            since: Epoch(1),
            containers: 2,
            number: 1,
            is_drained: false,
            is_active: true,
        }];
        let slots = vec![Home::first(me); 1024];
        let tasks = spread_tasks(&plans, &active_containers(&places));
        let layout = Layout::new(Epoch(1), me, places, slots, tasks, &plans, vec![Phase::Running]);
        let layout = Arc::new(layout);
        let container = |number| {
            Container::new(number, Arc::clone(&layout), &registry, &plans, Waker::new(|| {}))
        };
        let name = PartitionName::new("0");
        let open =
            Input::Open { topology: 0, prototype: 0, name, position: Position::default(), skip: 0 };
        Self {
            now: Time::default(),
            containers: [container(0), container(1)],
            inputs: [VecDeque::from([open]), VecDeque::new()],
            actions: Vec::new(),
        }
    }

    /// Runs until so many more words were counted.
    fn count(&mut self, words: u64) {
        let end = COUNTED.load(Ordering::Relaxed) + words;
        while COUNTED.load(Ordering::Relaxed) < end {
            self.now = self.now + Duration::from_micros(100);
            for at in 0..2 {
                while let Some(input) = self.inputs[at].pop_front() {
                    self.step(at, input);
                }
                self.step(at, Input::Drained);
            }
        }
    }

    fn step(&mut self, at: usize, input: Input) {
        self.containers[at].step(self.now, input, &mut self.actions);
        for action in self.actions.drain(..) {
            match action {
                Action::Post(to, input) => self.inputs[usize::from(to)].push_back(input),
                other @ (Action::Send(..)
                | Action::Credit { .. }
                | Action::Report(_)
                | Action::Closed { .. }
                | Action::Chunk { .. }
                | Action::Staged { .. }
                | Action::Bury(_)
                | Action::Spill(..)
                | Action::Unspill(_)
                | Action::Replicate(_)
                | Action::Secured { .. }
                | Action::Explained { .. }
                | Action::Looked { .. }
                | Action::Stopped) => panic!("there is no other node: {other:?}"),
            }
        }
    }
}

#[test]
fn a_warm_topology_allocates_nothing() {
    let mut node = Node::new();
    node.count(1_000_000);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    node.count(1_000_000);
    // A batch has up to 1,024 rows, so an allocation per batch would show as a thousand or more.
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}
