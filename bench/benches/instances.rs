//! Instances: what an event costs from the spout to its keyed instance, in one container.
//!
//! The map of instances is not open to others, so it is measured with what is around it, which is always
//! the same: emit, seal, hash. What differs is how many instances there are, and with that, how many of
//! them are in the cache.

mod support;

use divan::Bencher;
use divan::counter::ItemsCount;
use pe::{
    Ctx, Next, On, Opening, Param, Params, PartitionName, Pe, Position, Registry, Spout, SpoutError,
};
use serde::{Deserialize, Serialize};
use support::{Alone, Number, NumberRef, Sequence, Word, WordRef};

fn main() {
    support::main();
}

/// Instances, as powers of two: in the nearest cache, in none.
const INSTANCES: [u32; 3] = [10, 16, 20];

/// Events that a spout here emits at once.
const EVENTS: u32 = 2048;

const PARAMS: &[Param] = &[Param::integer("bits", "of a number").required()];

fn sequence(params: &Params) -> Sequence {
    Sequence::new(u32::try_from(params.integer("bits")).expect("below 64"))
}

struct Numbers(Sequence);

impl Spout for Numbers {
    type Out = Number;
    const PARAMS: &'static [Param] = PARAMS;

    fn partitions(_: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        Ok(vec![PartitionName::new("all")])
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        Ok(Self(sequence(opening.params)))
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Number>) -> Result<Next, SpoutError> {
        for _ in 0..EVENTS {
            ctx.emit(NumberRef { key: self.0.draw() });
        }
        Ok(Next::More)
    }

    fn position(&self) -> Position {
        Position::default()
    }
}

struct Words(Sequence);

impl Spout for Words {
    type Out = Word;
    const PARAMS: &'static [Param] = PARAMS;

    fn partitions(_: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        Ok(vec![PartitionName::new("all")])
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        Ok(Self(sequence(opening.params)))
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Word>) -> Result<Next, SpoutError> {
        // Spelled out here: words that were made before would be in no cache either.
        let mut letters = [0; 8];
        for _ in 0..EVENTS {
            ctx.emit(WordRef { text: spell(self.0.draw(), &mut letters) });
        }
        Ok(Next::More)
    }

    fn position(&self) -> Position {
        Position::default()
    }
}

/// A number as a word of eight letters.
#[inline(always)]
fn spell(number: u64, letters: &mut [u8; 8]) -> &str {
    for (at, letter) in letters.iter_mut().enumerate() {
        *letter = b'a' + (number >> (4 * at) & 15).to_le_bytes()[0];
    }
    str::from_utf8(letters).expect("letters")
}

#[derive(Default, Serialize, Deserialize)]
struct NumberCounter(u64);

impl Pe for NumberCounter {
    type In = Number;
    type Out = ();
}

impl On<Number> for NumberCounter {
    fn on(&mut self, _: NumberRef, _: &mut Ctx<'_, ()>) {
        self.0 += 1;
    }
}

#[derive(Default, Serialize, Deserialize)]
struct WordCounter(u64);

impl Pe for WordCounter {
    type In = Word;
    type Out = ();
}

impl On<Word> for WordCounter {
    fn on(&mut self, _: WordRef<'_>, _: &mut Ctx<'_, ()>) {
        self.0 += 1;
    }
}

#[divan::bench(args = INSTANCES.map(|bits| 1 << bits))]
fn numbers(bencher: Bencher<'_, '_>, instances: u64) {
    let registry = Registry::new().spout::<Numbers>("numbers").pe::<NumberCounter>("counter");
    count(bencher, &registry, "numbers", "key", instances);
}

#[divan::bench(args = INSTANCES.map(|bits| 1 << bits))]
fn words(bencher: Bencher<'_, '_>, instances: u64) {
    let registry = Registry::new().spout::<Words>("words").pe::<WordCounter>("counter");
    count(bencher, &registry, "words", "text", instances);
}

fn count(bencher: Bencher<'_, '_>, registry: &Registry, spout: &str, key: &str, instances: u64) {
    let bits = instances.ilog2();
    let topology = format!(
        "name = \"count\"\n\
         spout.source = {{ type = \"{spout}\", emits = \"seen\", params = {{ bits = {bits} }} }}\n\
         pe.count = {{ type = \"counter\", input = [{{ stream = \"seen\", key = [\"{key}\"] }}] }}\n"
    );
    let mut alone = Alone::new(registry, &topology, "all");
    // Until all instances are there.
    while alone.emitted() < 4 * instances {
        alone.turn();
    }
    bencher.counter(ItemsCount::new(4 * EVENTS)).bench_local(|| alone.turn());
}
