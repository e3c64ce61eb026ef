//! What several benchmarks measure with: two events, their data, and a container to itself.

#![allow(dead_code, reason = "each benchmark uses a part of it")]

use std::sync::Arc;
use std::time::Duration;

use divan::Divan;
use membership::{Epoch, NodeId, Time};
use pe as starling;
use pe::topology::Topology;
use pe::{
    Action, Container, Event, Home, Input, Layout, PartitionName, Phase, Place, Position, Registry,
    Waker, active_containers, spread_tasks,
};
use routing::Columns;

/// An event of a number.
#[derive(Event)]
pub(crate) struct Number {
    pub(crate) key: u64,
}

/// An event of a text.
#[derive(Event)]
pub(crate) struct Word {
    pub(crate) text: String,
}

/// Rows of a full batch.
pub(crate) const ROWS: usize = routing::ROWS_MAX;

/// Runs the benchmarks of a file, each for a while: the machine may be shared.
pub(crate) fn main() {
    let (least, most) = (Duration::from_millis(500), Duration::from_secs(2));
    Divan::default().min_time(least).max_time(most).config_with_args().main();
}

/// Each of 2^`bits` numbers equally often, in no order that a processor would guess.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequence {
    at: u64,
    bits: u32,
}

impl Sequence {
    pub(crate) fn new(bits: u32) -> Self {
        Self { at: 0, bits }
    }

    #[inline(always)]
    pub(crate) fn draw(&mut self) -> u64 {
        // Steps by the golden section of 2^64 (Weyl): the upper bits reach all values.
        self.at = self.at.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.at >> (64 - self.bits)
    }
}

/// Numbers of a million.
pub(crate) fn numbers() -> impl Iterator<Item = u64> {
    let mut sequence = Sequence::new(20);
    std::iter::repeat_with(move || sequence.draw())
}

/// Texts of 3 to 9 bytes, which fit a packed key.
pub(crate) fn words() -> impl Iterator<Item = String> {
    numbers().map(|number| format!("w-{number}"))
}

/// Texts of 30 to 36 bytes, which do not.
pub(crate) fn long_words() -> impl Iterator<Item = String> {
    numbers().map(|number| format!("a-word-of-many-more-letters-{number}"))
}

/// The columns of a full batch of numbers.
pub(crate) fn number_columns() -> NumberColumns {
    let mut columns = NumberColumns::default();
    numbers().take(ROWS).for_each(|key| columns.push(NumberRef { key }));
    columns
}

/// The columns of a full batch of texts.
pub(crate) fn word_columns(words: impl Iterator<Item = String>) -> WordColumns {
    let mut columns = WordColumns::default();
    words.take(ROWS).for_each(|text| columns.push(WordRef { text: &text }));
    columns
}

/// The only container of a node, with one partition of its first spout open.
pub(crate) struct Alone {
    container: Container,
    actions: Vec<Action>,
}

impl Alone {
    pub(crate) fn new(registry: &Registry, topology: &str, partition: &str) -> Self {
        let plan = Topology::parse(topology).and_then(|parsed| parsed.plan(&registry.catalog()));
        let plan = plan.unwrap_or_else(|problems| panic!("{problems:?}"));
        let prototype = plan.prototypes.iter().position(|prototype| prototype.is_spout);
        let prototype = u16::try_from(prototype.expect("there is a spout")).expect("few");
        let (me, since, plans) = (NodeId(1), Epoch(1), [Arc::new(plan)]);
        let places = vec![Place {
            node: me,
            since,
            containers: 1,
            number: 1,
            is_drained: false,
            is_active: true,
        }];
        let slots = vec![Home::first(me); 1024];
        let (tasks, phases) =
            (spread_tasks(&plans, &active_containers(&places)), vec![Phase::Running]);
        let layout = Arc::new(Layout::new(since, me, places, slots, tasks, &plans, phases));
        let container = Container::new(0, layout, registry, &plans, Waker::new(|| {}));
        let mut alone = Self { container, actions: Vec::new() };
        let (name, position) = (PartitionName::new(partition), Position::default());
        alone.step(Input::Open { topology: 0, prototype, name, position, skip: 0 });
        alone
    }

    /// Lets the spout emit four times, which is what a container does in one step, and handles it all.
    pub(crate) fn turn(&mut self) {
        self.step(Input::Drained);
    }

    fn step(&mut self, input: Input) {
        self.container.step(Time::default(), input, &mut self.actions);
        self.actions.clear();
    }

    /// Events emitted by its spout so far.
    pub(crate) fn emitted(&mut self) -> u64 {
        self.container.step(Time::default(), Input::Asked(0), &mut self.actions);
        let emitted = self.actions.drain(..).find_map(|action| match action {
            Action::Report(report) => report.runs[0].hosts.iter().map(|host| host.emitted).max(),
            Action::Post(..)
            | Action::Send(..)
            | Action::Credit { .. }
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
            | Action::Stopped => None,
        });
        emitted.expect("a container answers when asked")
    }
}
