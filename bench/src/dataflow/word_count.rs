//! How often each word was seen.
//!
//! Words are `String`s, as in timely's own example: made by the worker that reads, freed by the one
//! that counts, unless it is a word that it has not seen.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use hashbrown::HashTable;
use routing::{Key, Packed};
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::Input;
use timely::dataflow::{InputHandleVec, ProbeHandle};
use timely::worker::Worker;
use xxhash_rust::xxh3::xxh3_64;

use super::{BATCH, feed, give, on_workers};
use crate::data::{part, text};
use crate::{Meter, Outcome, Spec, digest};

/// [`WordCount`](crate::Workload::WordCount).
pub(super) fn run(spec: &Spec) -> Outcome {
    let text = text(spec);
    let meter = Meter::start();
    let shared = Arc::clone(&text);
    let parts = on_workers(spec.threads, move |worker| {
        let part = part(&shared, worker.index(), worker.peers());
        count(worker, &shared[part])
    });
    let (words, answer) = parts
        .into_iter()
        .fold((0, 0u64), |(words, sum), (more, digest)| (words + more, sum.wrapping_add(digest)));
    meter.finish(words, text.len() as u64, answer)
}

#[derive(Default)]
struct Counts(HashTable<(String, u64)>);

impl Counts {
    fn take(&mut self, word: String) {
        let hash = hash(&word);
        match self.0.find_mut(hash, |(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => drop(self.0.insert_unique(hash, (word, 1), |(word, _)| self::hash(word))),
        }
    }

    fn digest(&self) -> u64 {
        let digests = self.0.iter().map(|(word, count)| digest(xxh3_64(word.as_bytes()), *count));
        digests.fold(0, u64::wrapping_add)
    }
}

/// The hash that all models file a word under.
fn hash(word: &str) -> u64 {
    Packed::new(word.as_bytes(), 0).hash()
}

/// Counts the words that this worker owns; says how many words were in its part of the text.
fn count(worker: &mut Worker, text: &str) -> (u64, u64) {
    let all = Rc::new(RefCell::new(Counts::default()));
    let counts = Rc::clone(&all);
    let (mut input, probe) = (InputHandleVec::new(), ProbeHandle::new());
    worker.dataflow(|scope| {
        let by_word = Exchange::new(|word: &String| hash(word) >> 32);
        give(scope.input_from(&mut input), by_word, &probe, move |words| {
            let mut counts = counts.borrow_mut();
            words.drain(..).for_each(|word| counts.take(word));
        });
    });
    let mut words = text.split([' ', '\n']).filter(|word| !word.is_empty()).map(str::to_owned);
    let mut read = 0;
    feed(worker, input, &probe, |batch| {
        batch.extend(words.by_ref().take(BATCH));
        read += batch.len() as u64;
    });
    (read, all.borrow().digest())
}
