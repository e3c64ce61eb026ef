//! Where the words of a text begin and end, found for sixty-four bytes at a time.
//!
//! All models that split do it by this, so that what differs between them is how words reach their
//! counters and not how well each was written. Only timely is given a line and splits it as its users do.

/// Calls a function with the start and the end of each word of a text.
///
/// What is between words is a byte of at most [`SPACE`]; words are not empty.
#[inline(always)]
pub(crate) fn each_word(text: &[u8], mut word: impl FnMut(usize, usize)) {
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
                each_word(text.as_bytes(), |start, end| found.push(&text[start..end]));
                let words: Vec<_> =
                    text.split([' ', '\n']).filter(|word| !word.is_empty()).collect();
                assert_eq!(found, words);
            }
        }
    }
}
