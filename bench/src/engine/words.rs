//! Words of lines: how often each was seen, and which are the most frequent.
//!
//! The shape is that of S4's paper: a count per word, the best of every share of the words, and the best
//! of those.

use pe::{Ctx, Event, Line, LineRef, On, Pe, Removal};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::ledger;
use crate::split::each_word;
use crate::{TOP_WORDS, digest};

/// A word of a line.
#[derive(Event)]
pub(super) struct Word {
    pub(super) text: String,
}

/// How often a word was seen so far.
#[derive(Event)]
pub(super) struct Count {
    pub(super) word: String,
    pub(super) n: u64,
}

/// One of the best words of a share of the words.
#[derive(Event)]
pub(super) struct Top {
    word: String,
    n: u64,
}

/// Splits a line at its spaces.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Splitter;

impl Pe for Splitter {
    type In = Line;
    type Out = Word;
}

impl On<Line> for Splitter {
    fn on(&mut self, line: LineRef<'_>, ctx: &mut Ctx<'_, Word>) {
        let text = line.text;
        each_word(text.as_bytes(), |start, end| ctx.emit(WordRef { text: &text[start..end] }));
    }
}

/// How often one word was seen, told at the end.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct WordCounter {
    count: u64,
}

impl Pe for WordCounter {
    type In = Word;
    type Out = ();

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, ()>) {
        if reason == Removal::Moved {
            return; // It goes on elsewhere.
        }
        if let Some(word) = ctx.key().and_then(|key| key.text(0)) {
            ledger::counted(1, self.count);
            ledger::answer(digest(xxh3_64(word.as_bytes()), self.count), ctx.now());
        }
    }
}

impl On<Word> for WordCounter {
    fn on(&mut self, _: WordRef<'_>, _: &mut Ctx<'_, ()>) {
        self.count += 1;
    }
}

/// How often one word was seen, told each time.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Teller {
    count: u64,
}

impl Pe for Teller {
    type In = Word;
    type Out = Count;

    fn on_remove(&mut self, reason: Removal, _: &mut Ctx<'_, Count>) {
        if reason != Removal::Moved {
            ledger::counted(1, self.count);
        }
    }
}

impl On<Word> for Teller {
    fn on(&mut self, word: WordRef<'_>, ctx: &mut Ctx<'_, Count>) {
        self.count += 1;
        ctx.emit(CountRef { word: word.text, n: self.count });
    }
}

/// The best words of a share of the words, passed on when they changed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct TopK {
    best: Best,
}

impl TopK {
    fn pass_on(&mut self, ctx: &mut Ctx<'_, Top>) {
        if std::mem::take(&mut self.best.is_changed) {
            for Entry { word, n } in &self.best.entries {
                ctx.emit(TopRef { word, n: *n });
            }
        }
    }
}

impl Pe for TopK {
    type In = Count;
    type Out = Top;

    fn on_trigger(&mut self, ctx: &mut Ctx<'_, Top>) {
        self.pass_on(ctx);
    }

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, Top>) {
        if reason != Removal::Moved {
            self.pass_on(ctx);
        }
    }
}

impl On<Count> for TopK {
    fn on(&mut self, count: CountRef<'_>, _: &mut Ctx<'_, Top>) {
        self.best.offer(count.word, count.n);
    }
}

/// The best of what all shares passed on.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct TopKMerge {
    best: Best,
}

impl Pe for TopKMerge {
    type In = Top;
    type Out = ();

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, ()>) {
        if reason == Removal::Moved {
            return; // It goes on elsewhere.
        }
        let parts = self.best.entries.iter();
        let parts = parts.map(|entry| digest(xxh3_64(entry.word.as_bytes()), entry.n));
        ledger::answer(parts.fold(0, u64::wrapping_add), ctx.now());
    }
}

impl On<Top> for TopKMerge {
    fn on(&mut self, top: TopRef<'_>, _: &mut Ctx<'_, ()>) {
        self.best.offer(top.word, top.n);
    }
}

/// The [`TOP_WORDS`] words with the highest counts, best first; of equal counts, the word that comes first.
///
/// It relies on counts that only grow: what has fallen off can come back only with a higher count, so
/// nothing is remembered of it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Best {
    entries: Vec<Entry>,
    is_changed: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    word: String,
    n: u64,
}

impl Best {
    fn offer(&mut self, word: &str, n: u64) {
        let is_full = self.entries.len() >= TOP_WORDS;
        // Most offers end here: it costs a comparison of numbers.
        if is_full && self.entries.last().is_some_and(|last| !last.is_behind(word, n)) {
            return;
        }
        let mut at = match self.find(word, n) {
            Some(at) if self.entries[at].n >= n => return,
            Some(at) => at,
            None => self.take_last_place(word, is_full),
        };
        self.entries[at].n = n;
        while at > 0 && self.entries[at - 1].is_behind(word, n) {
            self.entries.swap(at - 1, at);
            at -= 1;
        }
        self.is_changed = true;
    }

    /// Where a word is. A count mostly grows by one, so it is looked for there first.
    fn find(&self, word: &str, n: u64) -> Option<usize> {
        let guess = self.entries.partition_point(|entry| entry.n >= n);
        let mut near = self.entries.iter().enumerate().skip(guess);
        let near = near.by_ref().take_while(|(_, entry)| entry.n + 1 == n);
        let is_it = |entry: &Entry| entry.word == word;
        let found = { near }.find(|(_, entry)| is_it(entry)).map(|(at, _)| at);
        found.or_else(|| self.entries.iter().position(is_it))
    }

    /// Puts the word at the end of the list, on whose last place is somebody else if it is full.
    fn take_last_place(&mut self, word: &str, is_full: bool) -> usize {
        let last = if is_full { self.entries.pop() } else { None };
        let mut entry = last.unwrap_or(Entry { word: String::new(), n: 0 });
        entry.word.clear();
        entry.word.push_str(word);
        self.entries.push(entry);
        self.entries.len() - 1
    }
}

impl Entry {
    /// Whether this belongs after a word with that count.
    fn is_behind(&self, word: &str, n: u64) -> bool {
        self.n < n || (self.n == n && *self.word > *word)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// More words than places, in an order that is not that of their counts; some offers are left out.
    #[test]
    fn the_best_are_those_of_a_sorted_list() {
        let mut best = Best::default();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut offered: BTreeMap<String, u64> = BTreeMap::new();
        for step in 0..20_000u64 {
            let word = format!("w{}", (step * step + step / 7) % 331);
            let n = counts.entry(word.clone()).and_modify(|n| *n += 1).or_insert(1);
            if step % 5 != 0 {
                offered.insert(word.clone(), *n);
                best.offer(&word, *n);
            }
        }
        let mut sorted: Vec<Entry> =
            offered.into_iter().map(|(word, n)| Entry { word, n }).collect();
        sorted.sort_by(|a, b| b.n.cmp(&a.n).then(a.word.cmp(&b.word)));
        sorted.truncate(TOP_WORDS);
        assert_eq!(best.entries, sorted);
    }
}
