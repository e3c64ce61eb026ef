//! The hash of a key: computed once for each event and edge, a column at a time.

mod support;

use divan::Bencher;
use divan::counter::ItemsCount;
use pe::Event;
use routing::{Batch, KeyFields};
use support::{Number, ROWS, Word, long_words, number_columns, word_columns, words};

fn main() {
    support::main();
}

/// Keys of one integer, which is hashed where it lies.
#[divan::bench]
fn numbers(bencher: Bencher<'_, '_>) {
    hash::<Number>(bencher, number_columns());
}

/// Keys of at most 15 bytes, which are packed first.
#[divan::bench]
fn short_texts(bencher: Bencher<'_, '_>) {
    hash::<Word>(bencher, word_columns(words()));
}

/// Longer keys, which are hashed byte by byte.
#[divan::bench]
fn long_texts(bencher: Bencher<'_, '_>) {
    hash::<Word>(bencher, word_columns(long_words()));
}

fn hash<E: Event>(bencher: Bencher<'_, '_>, columns: E::Columns) {
    let mut batch = Batch::<E>::default();
    batch.columns = columns;
    let key = KeyFields(vec![0]);
    bencher.counter(ItemsCount::new(ROWS)).bench_local(|| {
        batch.hash(&key);
        batch.hashes.last().copied()
    });
}
