//! The shipped spouts, into batches that nobody reads: how much a source gives at most.

mod support;

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use node::runtime::Program;
use support::Alone;

fn main() {
    support::main();
}

/// What `text-files` reads at once.
const CHUNK: u64 = 64 << 10;

/// Turns after which it is known how many lines there are in one.
const TURNS: u64 = 100;

/// What `generator` emits at once.
const EVENTS: u64 = 2048;

/// Lines of a bundled text, read from the cache of the system and cut.
#[divan::bench]
fn lines(bencher: Bencher<'_, '_>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../corpus/speeches-01.txt");
    let params = format!("paths = [\"{path}\"], repeat = 1_000_000_000_000");
    let mut alone = spout("text-files", &params, path);
    let before = alone.emitted();
    (0..TURNS).for_each(|_| alone.turn());
    let lines = (alone.emitted() - before) / TURNS;
    bencher
        .counter(BytesCount::new(4 * CHUNK))
        .counter(ItemsCount::new(lines))
        .bench_local(|| alone.turn());
}

/// Keys out of a million.
#[divan::bench(args = ["uniform", "zipf"])]
fn generator(bencher: Bencher<'_, '_>, distribution: &str) {
    let params = format!("distribution = \"{distribution}\"");
    let mut alone = spout("generator", &params, "0");
    bencher.counter(ItemsCount::new(4 * EVENTS)).bench_local(|| alone.turn());
    // What the counter says is what the spout did.
    let before = alone.emitted();
    alone.turn();
    assert_eq!(alone.emitted() - before, 4 * EVENTS);
}

fn spout(spout: &str, params: &str, partition: &str) -> Alone {
    let topology = format!(
        "name = \"spout\"\n\
         spout.source = {{ type = \"{spout}\", emits = \"out\", params = {{ {params} }} }}\n"
    );
    Alone::new(&Program::default().registry, &topology, partition)
}
