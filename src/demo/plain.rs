//! The same count without any engine, to hold the result against.
//!
//! It shares nothing with the PEs, not even the rule for what a word is: that is written down here a
//! second time, letter by letter.

use std::collections::BTreeMap;

use super::text::FILES;

/// A place in a list of the most frequent words.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
pub(super) struct Place {
    pub(super) rank: u64,
    pub(super) word: String,
    pub(super) n: u64,
}

/// The ten most frequent words of the bundled files, each taken as often as it was played; of equal
/// counts, the word that comes first in the alphabet comes first.
pub(super) fn top_ten(plays: &BTreeMap<String, u64>) -> Vec<Place> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (name, text) in FILES {
        let times = plays.get(*name).copied().unwrap_or(0);
        let mut word = String::new();
        for letter in text.chars().chain(['\n']) {
            if letter.is_alphanumeric() || letter == '\'' {
                word.push(letter.to_ascii_lowercase());
                continue;
            }
            let inner = word.trim_matches('\'');
            if !inner.is_empty() && times > 0 {
                *counts.entry(inner.to_owned()).or_default() += times;
            }
            word.clear();
        }
    }
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    // The sort is stable, and the map was in the order of the alphabet.
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    (1..=10).zip(counts).map(|(rank, (word, n))| Place { rank, word, n }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_word_is_the_article() {
        let once: BTreeMap<String, u64> =
            FILES.iter().map(|(name, _)| ((*name).to_owned(), 1)).collect();
        let top = top_ten(&once);
        assert_eq!(top[0], Place { rank: 1, word: "the".into(), n: 15_561 });
        assert_eq!(top.len(), 10);
        assert!(top.windows(2).all(|pair| pair[0].n >= pair[1].n));
    }

    #[test]
    fn a_file_counts_as_often_as_it_was_played() {
        let plays = |n| BTreeMap::from([("speeches-01.txt".to_owned(), n)]);
        let (once, thrice) = (top_ten(&plays(1)), top_ten(&plays(3)));
        assert!(once.iter().zip(&thrice).all(|(one, three)| 3 * one.n == three.n));
        assert_eq!(top_ten(&BTreeMap::new()), []);
    }
}
