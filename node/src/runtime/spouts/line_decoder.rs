//! From bytes to lines.
//!
//! Bytes come in pieces that end anywhere, also in the middle of a letter; lines go out whole. This is
//! the hottest loop of a source, so what is complete in a piece is checked for UTF-8 at once and lent
//! out where it lies; only the line that crosses a border is copied. Only when the check fails is each
//! line looked at by itself, so that one bad line costs one line.
//!
//! Where the bytes come from, and what becomes of the lines, is not known here.

use memchr::{memchr, memchr_iter, memrchr};

use super::fault::Fault;

/// The longest line, without its end. A file without line ends must not fill the memory; shorter, and
/// a document in JSON on one line may not fit.
pub(super) const LINE_MAX: usize = 1 << 20;

/// The reason for giving up a line that is not text.
const NOT_TEXT: &str = "not UTF-8";

/// The reason for giving up a line above [`LINE_MAX`].
const TOO_LONG: &str = "line too long";

/// How much memory a finished line may leave behind for the next one that crosses a border.
const KEPT_MAX: usize = 4 << 10;

/// What is at the place of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// A line, without its end.
    Line(&'a str),
    /// A line that is no text, or too long.
    Fault(Fault),
}

/// Cuts bytes into lines; knows where it stands, and holds the line that is not complete.
#[derive(Debug)]
pub(super) struct LineDecoder {
    /// Where it began.
    since: u64,
    /// Lines given out.
    lines: u64,
    /// Where the first line begins that was not given out.
    offset: u64,
    /// What was taken of that line, if it is not too long.
    held: Vec<u8>,
    /// How much was taken of that line, if it is too long.
    skipped: u64,
}

impl LineDecoder {
    /// A decoder of bytes from an offset on, which is the start of a line.
    pub(super) fn at(offset: u64) -> Self {
        Self { since: offset, lines: 0, offset, held: Vec::new(), skipped: 0 }
    }

    /// Takes the next bytes, and gives out the lines that are complete now.
    pub(super) fn take(&mut self, bytes: &[u8], mut each: impl FnMut(Found<'_>)) {
        let mut rest = bytes;
        if self.is_inside() {
            let Some(end) = memchr(b'\n', rest) else { return self.hold(rest) };
            self.hold(&rest[..end]);
            self.close(true, &mut each);
            rest = &rest[end + 1..];
        }
        if let Some(last) = memrchr(b'\n', rest) {
            let (whole, tail) = rest.split_at(last + 1);
            self.give(whole, &mut each);
            rest = tail;
        }
        self.hold(rest);
    }

    /// There are no more bytes: what is left is a line too, if there is any.
    pub(super) fn finish(&mut self, mut each: impl FnMut(Found<'_>)) {
        if self.is_inside() {
            self.close(false, &mut each);
        }
    }

    /// Where the first line begins that was not given out: what can be read again from there gives the
    /// rest.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Where the next bytes are.
    pub(super) fn end(&self) -> u64 {
        self.offset + self.held.len() as u64 + self.skipped
    }

    /// Whether any line was given out.
    pub(super) fn has_given(&self) -> bool {
        self.lines > 0
    }

    /// Whether a part of a line was taken, and not yet its end.
    pub(super) fn is_inside(&self) -> bool {
        self.end() > self.offset
    }

    /// Takes a part of a line that does not end in it.
    fn hold(&mut self, part: &[u8]) {
        // One more than a line may have: the last byte may turn out to be half a line end.
        if self.skipped == 0 && self.held.len() + part.len() <= LINE_MAX + 1 {
            self.held.extend_from_slice(part);
        } else {
            self.skipped += self.held.len() as u64 + part.len() as u64;
            self.held = Vec::new();
        }
    }

    /// Gives out the line that is held; `has_end` if a line end follows it.
    fn close(&mut self, has_end: bool, each: &mut impl FnMut(Found<'_>)) {
        let end = self.end() + u64::from(has_end);
        let line = std::mem::take(&mut self.held);
        match self.skipped {
            0 if has_end => self.give_one(without_return(&line), each),
            0 => self.give_one(&line, each),
            _ => each(Found::Fault(self.fault(TOO_LONG))),
        }
        (self.offset, self.skipped) = (end, 0);
        self.lines += 1;
        if line.capacity() <= KEPT_MAX {
            self.held = line;
            self.held.clear();
        }
    }

    /// Gives out lines that are complete; `bytes` is empty or ends with a line end.
    #[inline(always)]
    fn give(&mut self, bytes: &[u8], each: &mut impl FnMut(Found<'_>)) {
        match str::from_utf8(bytes) {
            Ok(text) if text.len() <= LINE_MAX => {
                let (mut start, mut lines) = (0, 0);
                for end in memchr_iter(b'\n', bytes) {
                    let line = &text[start..end];
                    each(Found::Line(line.strip_suffix('\r').unwrap_or(line)));
                    start = end + 1;
                    lines += 1;
                }
                self.lines += lines;
            }
            Ok(_) | Err(_) => self.give_each(bytes, each),
        }
        self.offset += bytes.len() as u64;
    }

    /// The same where not all of them are text, or may be too long.
    #[cold]
    fn give_each(&mut self, bytes: &[u8], each: &mut impl FnMut(Found<'_>)) {
        let mut start = 0;
        for end in memchr_iter(b'\n', bytes) {
            self.give_one(without_return(&bytes[start..end]), each);
            start = end + 1;
            self.lines += 1;
        }
    }

    fn give_one(&self, line: &[u8], each: &mut impl FnMut(Found<'_>)) {
        each(match str::from_utf8(line) {
            _ if line.len() > LINE_MAX => Found::Fault(self.fault(TOO_LONG)),
            Ok(line) => Found::Line(line),
            Err(_) => Found::Fault(self.fault(NOT_TEXT)),
        });
    }

    fn fault(&self, reason: &'static str) -> Fault {
        Fault { reason, line: self.lines + 1, since: self.since }
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is found, the lines as texts and the faults as reasons with their line.
    #[derive(Clone, Debug, PartialEq)]
    enum Seen {
        Line(String),
        Fault(&'static str, u64),
    }

    fn seen(found: Found<'_>) -> Seen {
        match found {
            Found::Line(text) => Seen::Line(text.to_owned()),
            Found::Fault(fault) => Seen::Fault(fault.reason, fault.line),
        }
    }

    fn offset(decoder: &LineDecoder) -> usize {
        decoder.offset().try_into().unwrap()
    }

    /// The lines of `bytes`, taken in pieces of the given lengths, again and again.
    fn decode(bytes: &[u8], pieces: &[usize]) -> Vec<Seen> {
        let (mut decoder, mut all) = (LineDecoder::at(0), Vec::new());
        let (mut rest, mut lengths) = (bytes, pieces.iter().cycle());
        while !rest.is_empty() {
            let len = (*lengths.next().unwrap()).clamp(1, rest.len());
            decoder.take(&rest[..len], |found| all.push(seen(found)));
            rest = &rest[len..];
            assert_eq!(decoder.end(), (bytes.len() - rest.len()) as u64);
            let given = &bytes[..offset(&decoder)];
            assert!(given.is_empty() || given.ends_with(b"\n"));
        }
        decoder.finish(|found| all.push(seen(found)));
        assert_eq!((decoder.offset(), decoder.end()), (bytes.len() as u64, bytes.len() as u64));
        all
    }

    /// The same, without any cleverness.
    fn split(bytes: &[u8]) -> Vec<Seen> {
        let mut lines: Vec<&[u8]> = bytes.split(|&byte| byte == b'\n').collect();
        let last = lines.pop().unwrap();
        let mut lines: Vec<_> = lines.into_iter().map(without_return).collect();
        lines.extend((!last.is_empty()).then_some(last));
        let seen = |(number, line): (u64, &[u8])| match str::from_utf8(line) {
            _ if line.len() > LINE_MAX => Seen::Fault(TOO_LONG, number),
            Ok(text) => Seen::Line(text.to_owned()),
            Err(_) => Seen::Fault(NOT_TEXT, number),
        };
        (1..).zip(lines).map(seen).collect()
    }

    fn lines(texts: &[&str]) -> Vec<Seen> {
        texts.iter().map(|&text| Seen::Line(text.to_owned())).collect()
    }

    #[test]
    fn line_ends_of_both_kinds_are_taken_off_and_the_last_may_be_missing() {
        for pieces in [&[1][..], &[2], &[3, 1], &[100]] {
            assert_eq!(decode(b"a\r\nb\n\r\n\nc", pieces), lines(&["a", "b", "", "", "c"]));
            assert_eq!(decode(b"a\n", pieces), lines(&["a"]));
            assert_eq!(decode(b"\n", pieces), lines(&[""]));
            assert_eq!(decode(b"", pieces), lines(&[]));
            // A return that is no line end is a letter like any other, as for `str::lines`.
            assert_eq!(decode(b"a\rb\r\r\nc\r", pieces), lines(&["a\rb\r", "c\r"]));
            assert_eq!(decode(b"a\0b\n", pieces), lines(&["a\0b"]));
        }
    }

    #[test]
    fn only_the_line_that_is_no_text_is_given_up() {
        let bytes = "first\nzweit\u{e4}\n".as_bytes();
        let bytes = [bytes, b"bro\xffken\r\nlast \xe2\x82\xac\nopen \xe2\x82"].concat();
        let mut expected = lines(&["first", "zweit\u{e4}"]);
        expected.push(Seen::Fault("not UTF-8", 3));
        expected.extend(lines(&["last \u{20ac}"]));
        expected.push(Seen::Fault("not UTF-8", 5));
        for piece in 1..bytes.len() + 1 {
            assert_eq!(decode(&bytes, &[piece]), expected, "pieces of {piece}");
        }
    }

    #[test]
    fn a_line_of_the_greatest_length_passes_and_a_longer_one_does_not() {
        let line = |len: usize, end: &str| [&"x".repeat(len), end].concat();
        for end in ["\n", "\r\n"] {
            let bytes = ["a\n", &line(LINE_MAX, end), "b\n"].concat();
            let over = ["a\n", &line(LINE_MAX + 1, end), "b\n"].concat();
            for piece in [64 << 10, LINE_MAX - 1, LINE_MAX + 3, bytes.len() + 9] {
                assert_eq!(decode(bytes.as_bytes(), &[piece]), split(bytes.as_bytes()));
                let found = decode(over.as_bytes(), &[piece]);
                assert_eq!(found[1], Seen::Fault("line too long", 2), "pieces of {piece}");
                assert_eq!((found.len(), &found[2]), (3, &lines(&["b"])[0]));
            }
        }
        assert_eq!(decode(line(LINE_MAX, "").as_bytes(), &[1 << 16]).len(), 1);
        let over = decode(line(LINE_MAX + 1, "").as_bytes(), &[1 << 16]);
        assert_eq!(over, [Seen::Fault("line too long", 1)]);
    }

    #[test]
    fn a_line_without_end_takes_no_more_memory_than_the_longest() {
        let mut decoder = LineDecoder::at(7);
        for _ in 0..1000 {
            decoder.take(&[b'x'; 64 << 10], |found| panic!("{found:?}"));
            assert!(decoder.held.capacity() <= 2 * LINE_MAX);
        }
        assert_eq!((decoder.offset(), decoder.end()), (7, 7 + 1000 * (64 << 10)));
        let mut found = Vec::new();
        decoder.take(b"\nafter\n", |line| found.push(seen(line)));
        assert_eq!(found[..1], [Seen::Fault("line too long", 1)]);
        assert_eq!(found[1..], lines(&["after"]));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            bytes in prop::collection::vec(
                prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), Just(0xc3), Just(0xa4), any::<u8>()],
                0..200,
            ),
            pieces in prop::collection::vec(1..60usize, 1..9),
        ) {
            prop_assert_eq!(decode(&bytes, &pieces), split(&bytes));
        }

        #[test]
        fn what_follows_an_offset_is_the_rest(
            text in "[a\u{e4}\n\r]{0,80}", piece in 1..20usize, stop in 0..90usize,
        ) {
            let bytes = text.as_bytes();
            let (mut decoder, mut all) = (LineDecoder::at(0), Vec::new());
            for piece in bytes.chunks(piece).take(stop) {
                decoder.take(piece, |found| all.push(seen(found)));
            }
            all.extend(decode(&bytes[offset(&decoder)..], &[7]));
            prop_assert_eq!(all, split(bytes));
        }
    }
}
