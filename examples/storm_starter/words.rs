//! The bolts that work on words.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use starling::storm::{Bolt, Collector, Execute};
use starling::{Ctx, Event, Line, LineRef, Param, Params, Takes, WindowRef, Windowed};

/// A word.
#[derive(Event)]
pub(crate) struct Word {
    pub(crate) text: String,
}

/// How often a word was seen.
#[derive(Event)]
pub(crate) struct Count {
    pub(crate) word: String,
    pub(crate) n: u64,
}

/// A place in a list, from one.
#[derive(Event)]
pub(crate) struct Ranking {
    pub(crate) rank: u64,
    pub(crate) word: String,
    pub(crate) n: u64,
}

/// A line into its words, in lower case.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Split;

impl Bolt for Split {
    type In = Line;
    type Out = Word;
}

impl Execute<Line> for Split {
    fn execute(&mut self, line: LineRef<'_>, collector: &mut Collector<'_, '_, Word>) {
        for word in line.text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
        {
            collector.emit(WordRef { text: &word.to_lowercase() });
        }
    }
}

/// Storm's `ExclamationBolt`.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Exclaim;

impl Bolt for Exclaim {
    type In = Word;
    type Out = Word;
}

impl Execute<Word> for Exclaim {
    fn execute(&mut self, word: WordRef<'_>, collector: &mut Collector<'_, '_, Word>) {
        collector.emit(WordRef { text: &format!("{}!!!", word.text) });
    }
}

/// Storm's `WordCount`: one object for all words of its task.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct WordCount {
    counts: BTreeMap<String, u64>,
}

impl Bolt for WordCount {
    type In = Word;
    type Out = Count;
}

impl Execute<Word> for WordCount {
    fn execute(&mut self, word: WordRef<'_>, collector: &mut Collector<'_, '_, Count>) {
        let n = match self.counts.get_mut(word.text) {
            Some(n) => {
                *n += 1;
                *n
            }
            None => {
                self.counts.insert(word.text.to_owned(), 1);
                1
            }
        };
        collector.emit(CountRef { word: word.text, n });
    }
}

/// Storm's `RollingCountBolt`: how often each word was seen in the window.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct RollingCount;

impl Windowed for RollingCount {
    type In = Word;
    type Out = Count;
    type Item = String;

    fn on_window(&mut self, window: &WindowRef<'_, String>, ctx: &mut Ctx<'_, Count>) {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        // What has left the window is told, too: it is there no more.
        window.expired().for_each(|word| {
            counts.entry(word).or_default();
        });
        window.items().for_each(|word| *counts.entry(word).or_default() += 1);
        for (word, n) in counts {
            ctx.emit(CountRef { word, n });
        }
    }
}

impl Takes<Word> for RollingCount {
    fn take(&mut self, word: WordRef<'_>, _: &mut Ctx<'_, Count>) -> Option<String> {
        Some(word.text.to_owned())
    }
}

/// Storm's `IntermediateRankingsBolt` and `TotalRankingsBolt`: the most frequent words, told at each tick.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Rankings {
    k: usize,
    counts: BTreeMap<String, u64>,
}

impl Rankings {
    fn best(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<_> = self.counts.iter().map(|(word, n)| (word.as_str(), *n)).collect();
        all.sort_by(|one, two| two.1.cmp(&one.1).then(one.0.cmp(two.0)));
        all.truncate(self.k);
        all
    }

    fn tell(&self, collector: &mut Collector<'_, '_, Ranking>) {
        for (rank, (word, n)) in (1..).zip(self.best()) {
            collector.emit(RankingRef { rank, word, n });
        }
    }
}

impl Bolt for Rankings {
    type In = Count;
    type Out = Ranking;
    const PARAMS: &'static [Param] =
        &[Param::integer("k", "how many to keep").between(1, 1_000).default(10)];

    fn prepare(&mut self, params: &Params, _: starling::storm::TaskContext) {
        self.k = usize::try_from(params.integer("k")).unwrap_or(usize::MAX);
    }

    fn tick(&mut self, collector: &mut Collector<'_, '_, Ranking>) {
        self.tell(collector);
    }

    fn cleanup(&mut self, collector: &mut Collector<'_, '_, Ranking>) {
        self.tell(collector);
    }
}

impl Execute<Count> for Rankings {
    fn execute(&mut self, count: CountRef<'_>, _: &mut Collector<'_, '_, Ranking>) {
        if count.n == 0 {
            self.counts.remove(count.word);
        } else {
            self.counts.insert(count.word.to_owned(), count.n);
        }
        // Whoever is far from the list may come back with a higher count; memory stays bounded.
        if self.counts.len() > 64 * self.k.max(16) {
            let best: Vec<String> =
                self.best().iter().map(|(word, _)| (*word).to_owned()).collect();
            self.counts.retain(|word, _| best.contains(word));
        }
    }
}
