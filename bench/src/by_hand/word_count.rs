//! How often each word was seen.

use hashbrown::HashMap;
use routing::Packed;
use xxhash_rust::xxh3::{Xxh3DefaultBuilder, xxh3_64};

use super::mesh::{Port, on_mesh};
use super::words::{Words, send};
use crate::data::{part, text};
use crate::table::Table;
use crate::{Meter, Outcome, Spec, digest};

/// [`WordCount`](crate::Workload::WordCount).
pub(super) fn run(spec: &Spec) -> Outcome {
    let text = text(spec);
    let meter = Meter::start();
    let parts = on_mesh(spec.threads, |me, port| {
        count(text[part(&text, me, port.threads())].as_bytes(), port)
    });
    let (words, answer) = parts
        .into_iter()
        .fold((0, 0u64), |(words, sum), (more, digest)| (words + more, sum.wrapping_add(digest)));
    meter.finish(words, text.len() as u64, answer)
}

/// The counts of the words of one thread.
struct Counts {
    short: Table<Packed, u64>,
    long: HashMap<Vec<u8>, u64, Xxh3DefaultBuilder>,
}

impl Counts {
    fn take(&mut self, words: &Words) {
        words.short.iter().for_each(|&word| self.short.count(word));
        for word in words.long() {
            *self.long.entry_ref(word).or_insert(0) += 1;
        }
    }

    fn digest(&self) -> u64 {
        let short = self
            .short
            .iter()
            .map(|(word, &count)| digest(xxh3_64(&word.block()[..word.short_len()]), count));
        let long = self.long.iter().map(|(word, &count)| digest(xxh3_64(word), count));
        short.chain(long).fold(0, u64::wrapping_add)
    }
}

/// Counts the words of a text that this thread owns; says how many words were in its part of the text.
fn count(text: &[u8], mut port: Port<Words>) -> (u64, u64) {
    let long = HashMap::with_hasher(Xxh3DefaultBuilder);
    let mut counts = Counts { short: Table::new(), long };
    let words = send(text, &mut port, |words| counts.take(words));
    (words, counts.digest())
}
