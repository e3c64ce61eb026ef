//! The PEs of top words: split, count, sort, merge.
//!
//! The most frequent words of a stream of lines, as S4's paper has it: a count per word, the best k of
//! every share of the words, and the best k of those. The demo of the `starling` command is made of
//! these same four.

use serde::{Deserialize, Serialize};
use starling::{Ctx, Event, KeyRef, Line, LineRef, On, Param, Params, Pe, Removal};

/// A word of a line, in lower case.
#[derive(Event)]
pub(crate) struct Word {
    pub(crate) text: String,
}

/// How often a word was seen so far.
#[derive(Event)]
pub(crate) struct Count {
    pub(crate) word: String,
    pub(crate) n: u64,
}

/// One of the best words of a share of the words.
#[derive(Event)]
pub(crate) struct Top {
    pub(crate) word: String,
    pub(crate) n: u64,
}

/// A place in the list of the best words, counted from one.
#[derive(Event)]
pub(crate) struct Ranking {
    pub(crate) rank: u64,
    pub(crate) word: String,
    pub(crate) n: u64,
}

/// Splits lines into words: runs of letters, digits and apostrophes, the outer apostrophes taken off,
/// ASCII letters in lower case.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Splitter {
    /// Reused, so that a word in capitals costs no allocation.
    #[serde(skip)]
    word: String,
}

impl Pe for Splitter {
    type In = Line;
    type Out = Word;
}

impl On<Line> for Splitter {
    fn on(&mut self, line: LineRef<'_>, ctx: &mut Ctx<'_, Word>) {
        for run in line.text.split(|c: char| !c.is_alphanumeric() && c != '\'') {
            let word = run.trim_matches('\'');
            if !word.is_empty() {
                self.word.clear();
                self.word.push_str(word);
                self.word.make_ascii_lowercase();
                ctx.emit(WordRef { text: &self.word });
            }
        }
    }
}

/// Counts one word: there is an instance for each.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counter {
    n: u64,
}

impl Pe for Counter {
    type In = Word;
    type Out = Count;
}

impl On<Word> for Counter {
    fn on(&mut self, word: WordRef<'_>, ctx: &mut Ctx<'_, Count>) {
        self.n += 1;
        ctx.emit(CountRef { word: word.text, n: self.n });
    }
}

/// Keeps the best k of the words that come to this task, and passes them on when they changed.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct TopK {
    best: Best,
}

impl TopK {
    fn pass_on(&mut self, ctx: &mut Ctx<'_, Top>) {
        if self.best.take_changed() {
            for entry in &self.best.entries {
                ctx.emit(TopRef { word: &entry.word, n: entry.n });
            }
        }
    }
}

impl Pe for TopK {
    type In = Count;
    type Out = Top;
    const PARAMS: &'static [Param] = &[K];

    fn create(_: KeyRef<'_>, params: &Params) -> Self {
        Self { best: Best::new(params) }
    }

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

/// Keeps the best k of what all tasks of [`TopK`] passed on, and ranks them.
///
/// A task passes on its best k, so what is among the best k of all words is among them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct TopKMerge {
    best: Best,
}

impl TopKMerge {
    fn pass_on(&mut self, ctx: &mut Ctx<'_, Ranking>) {
        if self.best.take_changed() {
            for (rank, entry) in (1..).zip(&self.best.entries) {
                ctx.emit(RankingRef { rank, word: &entry.word, n: entry.n });
            }
        }
    }
}

impl Pe for TopKMerge {
    type In = Top;
    type Out = Ranking;
    const PARAMS: &'static [Param] = &[K];

    fn create(_: KeyRef<'_>, params: &Params) -> Self {
        Self { best: Best::new(params) }
    }

    fn on_trigger(&mut self, ctx: &mut Ctx<'_, Ranking>) {
        self.pass_on(ctx);
    }

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, Ranking>) {
        if reason != Removal::Moved {
            self.pass_on(ctx);
        }
    }
}

impl On<Top> for TopKMerge {
    fn on(&mut self, top: TopRef<'_>, _: &mut Ctx<'_, Ranking>) {
        self.best.offer(top.word, top.n);
    }
}

/// The parameter that both lists have.
const K: Param = Param::integer("k", "how many words to keep").between(1, 1_000).default(10);

/// The k words with the highest counts, best first; of equal counts, the word that comes first.
///
/// It relies on counts that only grow: what has fallen off the list can come back only with a higher
/// count, so nothing needs to be remembered of it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Best {
    k: usize,
    entries: Vec<Entry>,
    is_changed: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    word: String,
    n: u64,
}

impl Best {
    fn new(params: &Params) -> Self {
        let k = usize::try_from(params.integer("k")).unwrap_or(0);
        Self { k, entries: Vec::new(), is_changed: false }
    }

    fn offer(&mut self, word: &str, n: u64) {
        let is_full = self.entries.len() >= self.k;
        // Nearly every offer ends here: it costs a comparison of numbers.
        if is_full && self.entries.last().is_none_or(|last| !last.is_behind(word, n)) {
            return;
        }
        let mut at = match self.entries.iter().position(|entry| entry.word == word) {
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

    /// Puts the word at the end of the list, on whose last place is somebody else if it is full.
    fn take_last_place(&mut self, word: &str, is_full: bool) -> usize {
        let mut entry = if is_full { self.entries.pop() } else { None }
            .unwrap_or(Entry { word: String::new(), n: 0 });
        entry.word.clear();
        entry.word.push_str(word);
        self.entries.push(entry);
        self.entries.len() - 1
    }

    /// Whether the list differs from what was passed on last; from now on it does not.
    fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.is_changed)
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

    /// Words in an arbitrary order, the count of each growing one by one.
    #[test]
    fn the_best_are_those_of_a_sorted_list() {
        for k in 0..6 {
            let mut best = Best { k, entries: Vec::new(), is_changed: false };
            let mut counts: BTreeMap<String, u64> = BTreeMap::new();
            for step in 0u64..500 {
                let word = format!("w{}", step * step % 23);
                let n = counts.entry(word.clone()).and_modify(|n| *n += 1).or_insert(1);
                best.offer(&word, *n);
                let mut sorted: Vec<(&String, u64)> = counts.iter().map(|(w, n)| (w, *n)).collect();
                sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
                sorted.truncate(k);
                let kept: Vec<(&String, u64)> =
                    best.entries.iter().map(|entry| (&entry.word, entry.n)).collect();
                assert_eq!(kept, sorted, "k = {k}, step {step}");
            }
        }
    }

    #[test]
    fn a_list_has_changed_only_if_something_in_it_did() {
        let mut best = Best { k: 2, entries: Vec::new(), is_changed: false };
        best.offer("b", 5);
        best.offer("a", 5);
        assert!(best.take_changed());
        best.offer("c", 4);
        best.offer("a", 5);
        assert!(!best.take_changed());
        best.offer("a", 6);
        assert!(best.take_changed());
    }
}
