//! Words of a text, on their way to their owners.
//!
//! No word is a `String`. Nearly all have fifteen bytes or fewer and travel as the sixteen of a packed
//! key, copied from the text in one go, whatever their length; others travel as bytes and lengths.
//! Where words end is found for eight bytes at a time.

use routing::{Key, Packed};
use xxhash_rust::xxh3::xxh3_64;

use super::mesh::{Batch, FULL, Port};
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
    each(text, |start, end| {
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

/// Calls a function with the start and the end of each word of a text.
///
/// What is between words is a byte of at most [`SPACE`]; words are not empty.
#[inline(always)]
fn each(text: &[u8], mut word: impl FnMut(usize, usize)) {
    let mut start = 0;
    let mut ended = |end: usize| {
        if end > start {
            word(start, end);
        }
        start = end + 1;
    };
    let (blocks, rest) = text.as_chunks::<64>();
    for (number, block) in blocks.iter().enumerate() {
        let mut spaces = spaces(block);
        while spaces != 0 {
            ended(number * 64 + spaces.trailing_zeros() as usize);
            spaces &= spaces - 1;
        }
    }
    for (at, &byte) in (text.len() - rest.len()..).zip(rest) {
        if byte <= SPACE {
            ended(at);
        }
    }
    ended(text.len());
}

/// Bytes up to this are between words.
const SPACE: u8 = b' ';

/// The bytes of a block that are between words, a bit for each.
#[inline(always)]
fn spaces(block: &[u8; 64]) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let (eights, _) = block.as_chunks::<8>();
    eights.iter().enumerate().fold(0, |bits, (number, &eight)| {
        let eight = u64::from_le_bytes(eight);
        // The top bit of a byte is set if the byte is above `SPACE`: by the sum if it is ASCII, else of
        // itself. No sum of seven bits runs over into the next byte.
        let above = ((eight & (0x7f * EACH)) + u64::from(0x7f - SPACE) * EACH) | eight;
        let tops = (!above & (0x80 * EACH)) >> 7;
        // Gathers the lowest bit of each byte into the highest byte.
        let gathered = tops.wrapping_mul(0x0102_0408_1020_4080) >> 56;
        bits | gathered << (8 * number)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_as_by_splitting() {
        let text =
            "a few  words\nand ängström, naïve — Ünïcödé\n\nan-exceedingly-long-one \n".repeat(9);
        for from in (0..70).filter(|&from| text.is_char_boundary(from)) {
            for to in (text.len() - 70..=text.len()).filter(|&to| text.is_char_boundary(to)) {
                let text = &text[from..to];
                let mut found = Vec::new();
                each(text.as_bytes(), |start, end| found.push(&text[start..end]));
                let words: Vec<_> =
                    text.split([' ', '\n']).filter(|word| !word.is_empty()).collect();
                assert_eq!(found, words);
            }
        }
    }

    #[test]
    fn a_short_word_is_packed_wherever_it_stands() {
        let text = b"one word and fifteen-letters sixteen-letters- end";
        each(text, |start, end| {
            let word = &text[start..end];
            let packed = (word.len() < 16).then(|| Packed::new(word, 0));
            assert_eq!(short(text, start, end), packed);
        });
    }
}
