//! The hundred most frequent words, at any moment.
//!
//! Each thread keeps the hundred most frequent of its own words, with every count. A count is of one
//! more than before, so a word that is among them stays, and another gets in only past the least of
//! them, which is looked for when somebody may have passed it. What is asked for by a reader, the order
//! and the hundred of all threads, is found when it is read.

use std::cmp::Reverse;

use hashbrown::HashMap;
use routing::Packed;
use xxhash_rust::xxh3::{Xxh3DefaultBuilder, xxh3_64};

use super::mesh::{Port, on_mesh};
use super::words::{Words, send};
use crate::data::{part, text};
use crate::table::Table;
use crate::{Meter, Outcome, Spec, TOP_WORDS, digest};

/// [`TopWords`](crate::Workload::TopWords).
pub(super) fn run(spec: &Spec) -> Outcome {
    let text = text(spec);
    let meter = Meter::start();
    let parts = on_mesh(spec.threads, |me, port| {
        count(text[part(&text, me, port.threads())].as_bytes(), port)
    });
    let words = parts.iter().map(|(words, _)| words).sum();
    let answer = first(parts.into_iter().flat_map(|(_, top)| top).collect());
    meter.finish(words, text.len() as u64, answer)
}

/// Words and their counts.
type Ranking = Vec<(Box<[u8]>, u64)>;

/// The digest of the first hundred.
fn first(mut top: Ranking) -> u64 {
    top.sort_unstable_by(|(a, n), (b, m)| (Reverse(n), a).cmp(&(Reverse(m), b)));
    let first = top.iter().take(TOP_WORDS);
    first.fold(0, |sum, (word, count)| sum.wrapping_add(digest(xxh3_64(word), *count)))
}

/// What is known of a word.
struct Ranked {
    count: u64,
    /// Which word this is: its place in [`Top::words`].
    number: u32,
    /// Where it is, or was, in [`Top::members`].
    place: u32,
}

impl Default for Ranked {
    fn default() -> Self {
        Self { count: 0, number: u32::MAX, place: u32::MAX }
    }
}

/// A word that is among the most frequent.
struct Member {
    number: u32,
    count: u64,
}

/// The most frequent words, in no order.
#[derive(Default)]
struct Top {
    members: Vec<Member>,
    /// No member has less.
    least: u64,
    /// All words, by number.
    words: Vec<Box<[u8]>>,
}

impl Top {
    /// A word was seen once more.
    #[inline(always)]
    fn see(&mut self, word: &[u8], ranked: &mut Ranked) {
        if ranked.count == 0 {
            ranked.number = u32::try_from(self.words.len()).expect("fewer words than 2^32");
            self.words.push(word.into());
        }
        ranked.count += 1;
        match self.members.get_mut(ranked.place as usize) {
            // Who was pushed out does not know, so the number decides.
            Some(member) if member.number == ranked.number => member.count = ranked.count,
            _ if ranked.count >= self.least => self.enter(ranked),
            _ => {}
        }
    }

    /// Takes a word in if it is before the last of the members.
    #[inline(never)]
    fn enter(&mut self, ranked: &mut Ranked) {
        let member = Member { number: ranked.number, count: ranked.count };
        if self.members.len() < TOP_WORDS {
            ranked.place = place(self.members.len());
            self.members.push(member);
            return;
        }
        let members = self.members.iter().enumerate();
        let last = members.min_by_key(|(_, member)| self.standing(member));
        let (index, last) = last.expect("a hundred members");
        let is_before = self.standing(&member) > self.standing(last);
        self.least = last.count;
        if is_before {
            ranked.place = place(index);
            self.members[index] = member;
        }
    }

    /// The greater, the further in front.
    fn standing(&self, member: &Member) -> (u64, Reverse<&[u8]>) {
        (member.count, Reverse(&self.words[member.number as usize]))
    }

    fn into_ranking(mut self) -> Ranking {
        let take = |member: &Member| {
            (std::mem::take(&mut self.words[member.number as usize]), member.count)
        };
        self.members.iter().map(take).collect()
    }
}

fn place(index: usize) -> u32 {
    u32::try_from(index).expect("a hundred places")
}

/// The words of one thread.
struct Counts {
    short: Table<Packed, Ranked>,
    long: HashMap<Vec<u8>, Ranked, Xxh3DefaultBuilder>,
    top: Top,
}

impl Counts {
    fn take(&mut self, words: &Words) {
        for &word in &words.short {
            self.top.see(&word.block()[..word.short_len()], self.short.value(word));
        }
        for word in words.long() {
            self.top.see(word, self.long.entry_ref(word).or_default());
        }
    }
}

/// The most frequent of the words of a text that this thread owns, with their counts; and how many words
/// were in its part of the text.
fn count(text: &[u8], mut port: Port<Words>) -> (u64, Ranking) {
    let long = HashMap::with_hasher(Xxh3DefaultBuilder);
    let mut counts = Counts { short: Table::new(), long, top: Top::default() };
    let words = send(text, &mut port, |words| counts.take(words));
    (words, counts.top.into_ranking())
}
