//! Lines of words that nobody ever said.
//!
//! Words of a natural language would be a licence and a download. What matters of them is how frequent
//! they are and how long, so a vocabulary is made up: frequent words are short, as in any language, and
//! some have letters of more than one byte.

use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashSet;
use hashbrown::hash_set::Entry;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::chunks::{Chunk, drawn};
use super::zipf::Zipf;
use crate::Spec;

/// How many different words there are.
pub const VOCABULARY: u32 = 100_000;

/// How many words a line has; a space is between two, a line feed behind the last.
pub const WORDS_PER_LINE: usize = 10;

/// About as many bytes of text as the run says: each chunk ends with a whole line.
pub fn text(spec: &Spec) -> Arc<String> {
    let bytes = usize::try_from(spec.bytes).expect("as many bytes as fit into memory");
    let (words, zipf) = (vocabulary(spec.seed), Zipf::new(VOCABULARY, 1.0));
    let text = drawn(bytes, spec.seed, spec.threads, |mut chunk: Chunk, text: &mut Vec<u8>| {
        while text.len() < chunk.len {
            for place in 1..=WORDS_PER_LINE {
                text.extend_from_slice(words[zipf.sample(&mut chunk.rng)].as_bytes());
                text.push(if place == WORDS_PER_LINE { b'\n' } else { b' ' });
            }
        }
    });
    Arc::new(String::from_utf8(text).expect("made of words"))
}

/// Where part `part` of `parts` is in a text: whole lines, and all parts together are the text.
///
/// # Panics
///
/// Without a part.
pub fn part(text: &str, part: usize, parts: usize) -> Range<usize> {
    let even = super::share(text.len(), part, parts);
    line_start(text, even.start)..line_start(text, even.end)
}

/// The start of the first line at or behind a place.
fn line_start(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    if at == 0 || bytes[at - 1] == b'\n' {
        return at;
    }
    bytes[at..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |end| at + end + 1)
}

/// Different words, the most frequent first.
fn vocabulary(seed: u64) -> Vec<String> {
    // Not the seed itself: the first chunk has that.
    let mut rng = Pcg64Mcg::seed_from_u64(!seed);
    let mut known = HashSet::with_hasher(xxhash_rust::xxh3::Xxh3DefaultBuilder);
    let mut words = Vec::with_capacity(VOCABULARY as usize);
    for rank in 1..=VOCABULARY {
        loop {
            if let Entry::Vacant(entry) = known.entry(word(rank, &mut rng)) {
                words.push(entry.get().clone());
                entry.insert();
                break;
            }
        }
    }
    words
}

/// A word of two to twelve letters, in turns a consonant and a vowel.
fn word(rank: u32, rng: &mut Pcg64Mcg) -> String {
    const CONSONANTS: &[char] =
        &['b', 'c', 'd', 'f', 'g', 'h', 'k', 'l', 'm', 'n', 'p', 'r', 's', 't', 'v', 'w', 'z'];
    const VOWELS: &[char] = &['a', 'e', 'i', 'o', 'u'];
    const MARKED: &[char] = &['ä', 'é', 'ö', 'ü', 'å', 'ø', 'č', 'ñ', 'š', 'ž'];
    // By the logarithm of its rank, which is how it is with natural words.
    let len = (1 + rank.ilog2() * 3 / 8 + rng.random_range(0..5)).clamp(2, 12);
    let mut is_vowel = rng.random::<bool>();
    let mut pick = |letters: &[char]| letters[rng.random_range(0..letters.len())];
    let mut word = String::new();
    for _ in 0..len {
        word.push(pick(if is_vowel { VOWELS } else { CONSONANTS }));
        is_vowel = !is_vowel;
    }
    // One word in twenty has a letter with a mark.
    if rng.random_range(0..20) == 0 {
        word.pop();
        word.push(MARKED[rng.random_range(0..MARKED.len())]);
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_different_and_the_frequent_ones_short() {
        let words = vocabulary(3);
        assert_eq!(words.len(), VOCABULARY as usize);
        let mut sorted = words.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), words.len());
        let letters = |words: &[String]| -> f64 {
            let letters = words.iter().map(|word| word.chars().count()).sum::<usize>();
            letters as f64 / words.len() as f64
        };
        assert!(words.iter().all(|word| (2..=12).contains(&word.chars().count())));
        assert!(letters(&words[..100]) + 2.0 < letters(&words[10_000..]));
        let marked = words.iter().filter(|word| !word.is_ascii()).count();
        assert!((3_000..7_000).contains(&marked), "{marked}");
    }

    #[test]
    fn parts_are_whole_lines_and_all_of_the_text() {
        let text = "one two\nthree\nfour five six\nno end";
        for parts in 1..9 {
            let ranges: Vec<_> = (0..parts).map(|at| part(text, at, parts)).collect();
            assert_eq!((ranges[0].start, ranges[parts - 1].end), (0, text.len()));
            assert!(ranges.windows(2).all(|two| two[0].end == two[1].start));
            for range in ranges.iter().filter(|range| range.end < text.len()) {
                assert!(range.is_empty() || text[..range.end].ends_with('\n'), "{range:?}");
            }
        }
    }
}
