//! Counting words: a map of them in each task.

use hashbrown::HashTable;
use pe::{Ctx, On, Pe, Removal};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use xxhash_rust::xxh3::xxh3_64;

use super::super::ledger;
use super::super::words::{Count, CountRef, Word, WordRef};
use crate::digest;

/// How often each of some words was seen.
#[derive(Debug, Default)]
struct Words(HashTable<(Box<str>, u64)>);

impl Words {
    /// Counts a word; how often it was seen by then.
    #[inline(always)]
    fn count(&mut self, word: &str) -> u64 {
        let hash = hash(word);
        match self.0.find_mut(hash, |(known, _)| **known == *word) {
            Some((_, count)) => {
                *count += 1;
                *count
            }
            None => {
                self.insert(hash, word.into(), 1);
                1
            }
        }
    }

    fn insert(&mut self, hash: u64, word: Box<str>, count: u64) {
        self.0.insert_unique(hash, (word, count), |(word, _)| self::hash(word));
    }

    fn digest(&self) -> u64 {
        let parts = self.0.iter().map(|(word, count)| digest(hash(word), *count));
        parts.fold(0, u64::wrapping_add)
    }

    /// Says at the end of its task what it has.
    fn tell(&self) {
        ledger::counted(self.0.len(), self.0.iter().map(|(_, count)| count).sum());
    }
}

#[inline(always)]
fn hash(word: &str) -> u64 {
    xxh3_64(word.as_bytes())
}

impl Serialize for Words {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter())
    }
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut words = Self::default();
        for (word, count) in Vec::<(Box<str>, u64)>::deserialize(deserializer)? {
            words.insert(hash(&word), word, count);
        }
        Ok(words)
    }
}

/// How often each of the words of a task was seen, told at the end.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct WordCounterBolt {
    counts: Words,
}

impl Pe for WordCounterBolt {
    type In = Word;
    type Out = ();

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, ()>) {
        if reason == Removal::Moved {
            return; // It goes on elsewhere.
        }
        self.counts.tell();
        ledger::answer(self.counts.digest(), ctx.now());
    }
}

impl On<Word> for WordCounterBolt {
    fn on(&mut self, word: WordRef<'_>, _: &mut Ctx<'_, ()>) {
        self.counts.count(word.text);
    }
}

/// The same, told each time.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct TellerBolt {
    counts: Words,
}

impl Pe for TellerBolt {
    type In = Word;
    type Out = Count;

    fn on_remove(&mut self, reason: Removal, _: &mut Ctx<'_, Count>) {
        if reason != Removal::Moved {
            self.counts.tell();
        }
    }
}

impl On<Word> for TellerBolt {
    fn on(&mut self, word: WordRef<'_>, ctx: &mut Ctx<'_, Count>) {
        let n = self.counts.count(word.text);
        ctx.emit(CountRef { word: word.text, n });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_moves_has_its_words_and_goes_on_counting() {
        let mut words = Words::default();
        "so and so and so".split(' ').for_each(|word| _ = words.count(word));
        let text = serde_json::to_string(&words).unwrap();
        let mut moved: Words = serde_json::from_str(&text).unwrap();
        assert_eq!(moved.digest(), words.digest());
        assert_eq!((moved.count("so"), moved.count("and"), moved.count("on")), (4, 3, 1));
        assert_eq!(moved.0.len(), 3);
    }
}
