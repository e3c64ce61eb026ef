//! `bench [EVENTS [KEYS]]`: counts keys in one container, and by hand, in turns.
//!
//! One thread and no network: this is the path of an event through outlet, lane, host and instance and
//! nothing else. `starling demo --nodes 1` is the same with everything around it.

#![expect(clippy::print_stdout, reason = "its output is its result")]
#![expect(clippy::disallowed_methods, reason = "a measurement needs a clock")]

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::Keys;
use hashbrown::HashTable;
use membership::{Epoch, NodeId, Time};
use pe::topology::Topology;
use pe::{
    Container, Ctx, Event, Input, Layout, Next, On, Opening, Param, Params, PartitionName, Pe,
    Phase, Place, Position, Registry, Removal, Spout, SpoutError, Waker,
};
use routing::{Key, SlotTable};

extern crate pe as starling;

/// A key was seen.
#[derive(Event)]
struct Seen {
    id: u64,
}

/// How often one key was seen.
#[derive(Default)]
struct Counter {
    n: u64,
}

/// Over all counters, 1 + 2 + ... + n, added when they are removed: a lost or doubled event shows.
static CHECK: AtomicU64 = AtomicU64::new(0);

impl Pe for Counter {
    type In = Seen;
    type Out = ();

    fn on_remove(&mut self, _: Removal, _: &mut Ctx<'_, ()>) {
        CHECK.fetch_add(self.n * (self.n + 1) / 2, Ordering::Relaxed);
    }
}

impl On<Seen> for Counter {
    fn on(&mut self, _: SeenRef, _: &mut Ctx<'_, ()>) {
        self.n += 1;
    }
}

struct Source {
    keys: Keys,
    left: u64,
}

impl Spout for Source {
    type Out = Seen;
    const PARAMS: &'static [Param] = &[
        Param::integer("events", "how many").required(),
        Param::integer("keys", "how many different ones").required(),
    ];

    fn partitions(_: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        Ok(vec![PartitionName::new("all")])
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let [left, keys] =
            ["events", "keys"].map(|name| opening.params.integer(name).unsigned_abs());
        Ok(Self { keys: Keys::new(SEED, keys), left })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Seen>) -> Result<Next, SpoutError> {
        let now = self.left.min(2048);
        self.left -= now;
        for _ in 0..now {
            ctx.emit(SeenRef { id: self.keys.next().expect("without end") });
        }
        Ok(if self.left == 0 { Next::Exhausted } else { Next::More })
    }

    fn position(&self) -> Position {
        Position { offset: self.left, plays: 0 }
    }
}

const SEED: u64 = 20_251_130;
const TURNS: usize = 7;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("usage: bench [EVENTS [KEYS]]: {error}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<bool, Box<dyn Error>> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let events = args.next().transpose()?.unwrap_or(20_000_000);
    let keys = args.next().transpose()?.unwrap_or(1_000_000).max(1);
    let (mut engine, mut by_hand) = (Vec::new(), Vec::new());
    let mut is_right = true;
    for _ in 0..TURNS {
        let (took, expected) = hand(events, keys);
        by_hand.push(took);
        let (took, found) = container(events, keys)?;
        engine.push(took);
        is_right &= expected == found;
    }
    engine.sort_unstable();
    by_hand.sort_unstable();
    let (engine, by_hand) = (engine[TURNS / 2], by_hand[TURNS / 2]);
    let rate = |took: Duration| events as f64 / took.as_secs_f64() / 1e6;
    println!("{events} events, {keys} keys, medians of {TURNS} turns, one thread");
    println!("by hand    {:>7.1} million events/s", rate(by_hand));
    println!("container  {:>7.1} million events/s", rate(engine));
    println!("ratio      {:>7.2}", by_hand.as_secs_f64() / engine.as_secs_f64());
    if !is_right {
        println!("WRONG: the container and the loop by hand do not agree");
    }
    Ok(is_right)
}

/// A loop over a map with the same hash.
fn hand(events: u64, keys: u64) -> (Duration, u64) {
    let start = Instant::now();
    let mut counts = HashTable::<(u64, u64)>::new();
    for key in Keys::new(SEED, keys).zip(0..events).map(|(key, _)| key) {
        let entry = counts.entry(key.hash(), |(known, _)| *known == key, |(known, _)| known.hash());
        entry.or_insert((key, 0)).into_mut().1 += 1;
    }
    let took = start.elapsed();
    (took, counts.iter().map(|(_, n)| n * (n + 1) / 2).sum())
}

/// The engine's container, stepped as a driver steps it.
fn container(events: u64, keys: u64) -> Result<(Duration, u64), Box<dyn Error>> {
    let registry = Registry::new().spout::<Source>("source").pe::<Counter>("counter");
    let text = format!(
        "name = \"keyed-count\"\n\
         spout.source = {{ type = \"source\", emits = \"seen\", params = {{ events = {events}, keys = {keys} }} }}\n\
         pe.count = {{ type = \"counter\", input = [{{ stream = \"seen\", key = [\"id\"] }}] }}\n"
    );
    let plan = Topology::parse(&text).and_then(|topology| topology.plan(&registry.catalog()));
    let plan = Arc::new(plan.map_err(|errors| errors[0].to_string())?);
    let (me, since) = (NodeId(1), Epoch(1));
    let layout = |phase| {
        let places = vec![Place { node: me, since, containers: 1, is_active: true }];
        let table = SlotTable::of_one(me, 1024);
        Arc::new(Layout::new(since, me, places, table, &[Arc::clone(&plan)], vec![phase]))
    };
    let waker = Waker::new(|| {});
    let plans = [Arc::clone(&plan)];
    let mut container = Container::new(0, layout(Phase::Running), &registry, &plans, waker);
    let mut out = Vec::new();
    let (name, position) = (PartitionName::new("all"), Position::default());
    let start = Instant::now();
    let now = || Time(start.elapsed());
    let open = Input::Open { topology: 0, prototype: 0, name, position };
    container.step(now(), open, &mut out);
    while container.wants_turn() {
        container.step(now(), Input::Drained, &mut out);
    }
    container.step(now(), Input::Drained, &mut out);
    let took = start.elapsed();
    CHECK.store(0, Ordering::Relaxed);
    container.step(now(), Input::Laid(layout(Phase::Ended)), &mut out);
    Ok((took, CHECK.load(Ordering::Relaxed)))
}
