//! Words of a text, on their way to their owners.
//!
//! No word is a `String`. Nearly all have fifteen bytes or fewer and travel as the sixteen of a packed
//! key, copied from the text in one go, whatever their length; others travel as bytes and lengths.

use routing::{Key, Packed};
use xxhash_rust::xxh3::xxh3_64;

use super::mesh::{Batch, FULL, Port};
use crate::split::each_word;
use crate::table::owner;

/// Words of one batch.
#[derive(Default)]
pub(super) struct Words {
    pub(super) short: Vec<Packed>,
    long: Vec<u8>,
    ends: Vec<usize>,
}

impl Batch for Words {
    fn is_empty(&self) -> bool {
        self.short.is_empty() && self.ends.is_empty()
    }

    fn clear(&mut self) {
        self.short.clear();
        self.long.clear();
        self.ends.clear();
    }
}

impl Words {
    /// The words that have no packed form.
    pub(super) fn long(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.long[start..end])
    }
}

/// Sends each word of a text to its owner; `take` is given those that come here.
pub(super) fn send(text: &[u8], port: &mut Port<Words>, mut take: impl FnMut(&Words)) -> u64 {
    let mut words = 0;
    each_word(text, |start, end| {
        words += 1;
        let (to, len) = match short(text, start, end) {
            Some(key) => {
                let to = owner(key.hash(), port.threads());
                let batch = port.open(to);
                batch.short.push(key);
                (to, batch.short.len())
            }
            None => {
                let word = &text[start..end];
                let to = owner(xxh3_64(word), port.threads());
                let batch = port.open(to);
                batch.long.extend_from_slice(word);
                batch.ends.push(batch.long.len());
                (to, batch.ends.len())
            }
        };
        if len == FULL {
            port.ship(to, &mut take);
        }
    });
    port.finish(&mut take);
    words
}

/// The packed form of a word, if it has one.
#[inline(always)]
fn short(text: &[u8], start: usize, end: usize) -> Option<Packed> {
    let len = end - start;
    if len > Packed::SHORT_MAX {
        return None;
    }
    match text[start..].first_chunk() {
        Some(&block) => Some(Packed::masked(block, len)),
        // The last words of the text.
        None => Some(Packed::new(&text[start..end], 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_word_is_packed_wherever_it_stands() {
        let text = b"one word and fifteen-letters sixteen-letters- end";
        each_word(text, |start, end| {
            let word = &text[start..end];
            let packed = (word.len() < 16).then(|| Packed::new(word, 0));
            assert_eq!(short(text, start, end), packed);
        });
    }
}
