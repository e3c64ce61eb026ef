//! How often each word was seen.

use std::ops::Range;
use std::sync::Arc;

use routing::{Key, Packed};
use xxhash_rust::xxh3::xxh3_64;

use super::count;
use super::keeper::Filed;
use crate::data::{part, text};
use crate::{Meter, Outcome, Spec};

impl Filed for String {
    fn hash(&self) -> u64 {
        Packed::new(self.as_bytes(), 0).hash()
    }

    fn digest_hash(&self) -> u64 {
        xxh3_64(self.as_bytes())
    }
}

/// [`WordCount`](crate::Workload::WordCount).
pub(super) fn run(spec: &Spec) -> Outcome {
    let (text, threads) = (text(spec), spec.threads.max(1));
    let meter = Meter::start();
    let shared = Arc::clone(&text);
    let words =
        move |number| Words { text: Arc::clone(&shared), rest: part(&shared, number, threads) };
    count(threads, words, |counted| meter.finish(counted.events, text.len() as u64, counted.digest))
}

/// The words of a part of a text.
struct Words {
    text: Arc<String>,
    /// What has not been read.
    rest: Range<usize>,
}

impl Iterator for Words {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        while !self.rest.is_empty() {
            let rest = &self.text[self.rest.clone()];
            let end = rest.find([' ', '\n']).unwrap_or(rest.len());
            let word = &rest[..end];
            self.rest.start = (self.rest.start + end + 1).min(self.rest.end);
            if !word.is_empty() {
                return Some(word.to_owned());
            }
        }
        None
    }
}
