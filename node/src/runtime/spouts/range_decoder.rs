//! The lines of a part of a file.
//!
//! A part is cut anywhere, also in the middle of a line, and yet each line must come once. The rule: a
//! range has the lines that begin in it. So whoever reads a range looks at the byte before it: a line
//! begins at the start if that is a line end, and else behind the next one. At the end of the range the
//! last line is read on to where it ends, however far that is. A range inside a long line has none.
//!
//! Where a line begins does not depend on who asks, so the same lines follow an offset each time. What
//! bytes are needed is said by [`RangeDecoder::wanted`]; how they are read is not known here.

use std::ops::Range;

use memchr::memchr;

use super::byte_range::ByteRange;
use super::line_decoder::{Found, LineDecoder};

/// Cuts a range of bytes into the lines that begin in it, once.
#[derive(Debug)]
pub(super) struct RangeDecoder {
    range: ByteRange,
    /// Where it goes on from.
    opened: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Bytes from here on are not known, and no line was seen to begin before.
    Seeking(u64),
    Reading(LineDecoder),
}

impl RangeDecoder {
    /// A decoder that goes on from an offset which [`Self::offset`] gave; from 0, or whatever is not
    /// behind the start of the range, it begins.
    pub(super) fn at(range: ByteRange, offset: u64) -> Self {
        let opened = offset.max(range.start);
        let state = match opened.checked_sub(1) {
            Some(before) if opened == range.start => State::Seeking(before),
            Some(_) | None => State::Reading(LineDecoder::at(opened)),
        };
        Self { range, opened, state }
    }

    /// Begins again.
    pub(super) fn restart(&mut self) {
        *self = Self::at(self.range, self.range.start);
    }

    /// Takes the next bytes, some or all that are wanted, and gives out the lines that are complete.
    pub(super) fn take(&mut self, bytes: &[u8], mut each: impl FnMut(Found<'_>)) {
        let mut rest = bytes;
        if let State::Seeking(at) = &mut self.state {
            let found = memchr(b'\n', bytes);
            let len = found.map_or(bytes.len(), |end| end + 1);
            *at += len as u64;
            if found.is_none() {
                return;
            }
            self.state = State::Reading(LineDecoder::at(*at));
            rest = &bytes[len..];
        }
        let State::Reading(decoder) = &mut self.state else { return };
        if decoder.end() >= self.range.end {
            // The end of the last line; what is behind it is another's.
            rest = &rest[..memchr(b'\n', rest).map_or(rest.len(), |end| end + 1)];
        }
        decoder.take(rest, &mut each);
    }

    /// There are no more bytes: what is left is a line too, if there is any.
    pub(super) fn finish(&mut self, each: impl FnMut(Found<'_>)) {
        if let State::Reading(decoder) = &mut self.state {
            decoder.finish(each);
        }
    }

    /// The next bytes that are of use, of which any number may be taken; none if the range is over.
    pub(super) fn wanted(&self) -> Option<Range<u64>> {
        let (at, is_inside) = match &self.state {
            State::Seeking(at) => (*at, false),
            State::Reading(decoder) => (decoder.end(), decoder.is_inside()),
        };
        match self.range.end {
            end if at < end => Some(at..end),
            _ => is_inside.then_some(at..u64::MAX),
        }
    }

    /// Behind the last line that was given out, or where it goes on from if none was: what is read again
    /// from there gives the rest.
    pub(super) fn offset(&self) -> u64 {
        match &self.state {
            State::Reading(decoder) if decoder.has_given() => decoder.offset(),
            State::Reading(_) | State::Seeking(_) => self.opened,
        }
    }

    /// Whether it stands where a range begins, with nothing given out.
    pub(super) fn is_at_start(&self) -> bool {
        self.offset() == self.range.start
    }

    /// Whether nothing has been taken of a range that begins.
    pub(super) fn is_untouched(&self) -> bool {
        match &self.state {
            State::Seeking(at) => at + 1 == self.range.start,
            State::Reading(decoder) => decoder.end() == self.range.start,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(found: Found<'_>) -> String {
        let Found::Line(line) = found else { panic!("{found:?}") };
        line.to_owned()
    }

    /// The lines of a range from an offset on, the bytes taken in pieces of the given lengths, again and
    /// again; and after each piece, how many lines there were and the offset.
    fn decode(
        bytes: &[u8],
        range: ByteRange,
        offset: u64,
        pieces: &[usize],
    ) -> (Vec<String>, Vec<(usize, u64)>) {
        let mut decoder = RangeDecoder::at(range, offset);
        let (mut lines, mut offsets) = (Vec::new(), Vec::new());
        let mut lengths = pieces.iter().cycle();
        while let Some(wanted) = decoder.wanted() {
            let within = |at| usize::try_from(at).map_or(bytes.len(), |at| at.min(bytes.len()));
            let wanted = &bytes[within(wanted.start)..within(wanted.end)];
            if wanted.is_empty() {
                break;
            }
            let len = (*lengths.next().unwrap()).clamp(1, wanted.len());
            decoder.take(&wanted[..len], |found| lines.push(text(found)));
            offsets.push((lines.len(), decoder.offset()));
        }
        decoder.finish(|found| lines.push(text(found)));
        assert_eq!(decoder.is_at_start(), lines.is_empty() && offset <= range.start);
        (lines, offsets)
    }

    fn range(start: u64, end: u64) -> ByteRange {
        ByteRange { start, end }
    }

    fn lines_of(bytes: &str, start: u64, end: u64) -> Vec<String> {
        decode(bytes.as_bytes(), range(start, end), 0, &[3]).0
    }

    #[test]
    fn a_range_has_the_lines_that_begin_in_it() {
        //          0  3  6  9
        let text = "ab\ncd\nef\n";
        assert_eq!(lines_of(text, 0, 3), ["ab"], "the next begins at the end");
        assert_eq!(lines_of(text, 0, 4), ["ab", "cd"], "the last is read on beyond the end");
        assert_eq!(lines_of(text, 3, 6), ["cd"], "a line end is before the start");
        assert_eq!(lines_of(text, 4, 7), ["ef"]);
        assert_eq!(lines_of(text, 1, 3), [""; 0], "all of it is inside one line");
        assert_eq!(lines_of(text, 4, 6), [""; 0]);
        assert_eq!(lines_of(text, 6, u64::MAX), ["ef"]);
        assert_eq!(lines_of(text, 7, u64::MAX), [""; 0]);
        assert_eq!(lines_of(text, 9, u64::MAX), [""; 0], "the file ends before");
        assert_eq!(lines_of(text, 99, 200), [""; 0]);
        assert_eq!(lines_of("\n\r\n\n", 1, 2), [""]);
        assert_eq!(lines_of("\n\r\n\n", 2, 3), [""; 0], "within a line end of two bytes");
        assert_eq!(lines_of("ab\r\ncd", 1, 5), ["cd"], "without a last line end");
    }

    #[test]
    fn no_more_is_wanted_than_the_range_and_the_end_of_its_last_line() {
        let mut decoder = RangeDecoder::at(range(10, 20), 0);
        assert_eq!((decoder.wanted(), decoder.is_untouched()), (Some(9..20), true));
        decoder.take(b"xx", |found| panic!("{found:?}"));
        assert_eq!((decoder.wanted(), decoder.is_untouched()), (Some(11..20), false));
        assert_eq!(decoder.offset(), 10, "no line was found yet");
        decoder.take(b"\nabcdefgh", |found| panic!("{found:?}"));
        assert_eq!((decoder.wanted(), decoder.offset()), (Some(20..u64::MAX), 10));
        let mut count = 0;
        decoder.take(b"ij\nnext\nnext", |found| {
            assert_eq!(found, Found::Line("abcdefghij"));
            count += 1;
        });
        assert_eq!((decoder.wanted(), decoder.offset(), count), (None, 23, 1));
        decoder.restart();
        assert_eq!((decoder.wanted(), decoder.is_untouched()), (Some(9..20), true));
        assert_eq!(RangeDecoder::at(range(10, 20), 23).wanted(), None, "it is over");
        assert_eq!(RangeDecoder::at(range(10, 20), 12).wanted(), Some(12..20));
    }

    proptest! {
        #[test]
        fn each_line_is_in_one_range_and_what_follows_an_offset_is_the_rest(
            text in "(a|\u{e4}|\r|\n){0,60}|[a\n]{0,20}a{30}[a\n]{0,20}",
            size in 1..40u64,
            pieces in prop::collection::vec(1..20usize, 1..5),
        ) {
            let bytes = text.as_bytes();
            let mut all = Vec::new();
            for range in ByteRange::cut(bytes.len() as u64, size) {
                let (lines, offsets) = decode(bytes, range, 0, &pieces);
                for (given, offset) in offsets {
                    let (rest, _) = decode(bytes, range, offset, &[7]);
                    prop_assert_eq!(&rest, &lines[given..], "{} from {}", range, offset);
                }
                all.extend(lines);
            }
            prop_assert_eq!(all, text.lines().collect::<Vec<_>>());
        }
    }
}
