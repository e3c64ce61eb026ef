//! A part of a file.
//!
//! A large file is read by many nodes at once if it is many partitions. Where lines begin is known only
//! to who reads the file, and whoever lists it must not have to: so a part is a range of bytes, cut
//! anywhere, and has the lines that begin in it. What that takes is in `range_decoder`; here is how a
//! file is cut, and how a part is named.

use std::fmt;

/// The bytes from `start` on and before `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ByteRange {
    pub(super) start: u64,
    /// [`OPEN`] is where the file ends, whenever that is looked at.
    pub(super) end: u64,
}

/// The end of what goes on to the end of the file.
const OPEN: u64 = u64::MAX;

impl ByteRange {
    /// A whole file.
    pub(super) const WHOLE: Self = Self { start: 0, end: OPEN };

    /// Cuts a file into ranges of `size` bytes; the last one takes what is left, and what is added
    /// later. A file that fits into one range, also an empty one, is left whole.
    pub(super) fn cut(length: u64, size: u64) -> impl Iterator<Item = Self> {
        let last = length.saturating_sub(1) / size;
        (0..=last).map(move |number| {
            let start = number * size;
            Self { start, end: if number == last { OPEN } else { start + size } }
        })
    }

    /// What a range of a file is called: `a.txt#0-64`, the last one `a.txt#64-`. A whole file is called
    /// as it is, unless that reads like a range of another.
    pub(super) fn name(self, path: &str) -> String {
        if self == Self::WHOLE && Self::of_name(path).is_none() {
            path.to_owned()
        } else {
            format!("{path}#{self}")
        }
    }

    /// The path and the range that a name means, if it is that of a range.
    pub(super) fn of_name(name: &str) -> Option<(&str, Self)> {
        let (path, range) = name.rsplit_once('#')?;
        let (start, end) = range.split_once('-')?;
        let end = if end.is_empty() { OPEN } else { end.parse().ok()? };
        let found = Self { start: start.parse().ok()?, end };
        // One range, one name: what is written in another way is a path of somebody's own.
        (found.start < found.end && found.to_string() == range).then_some((path, found))
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.end {
            OPEN => write!(f, "{}-", self.start),
            end => write!(f, "{}-{end}", self.start),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_is_cut_into_ranges_and_the_last_one_is_open() {
        let cut = |length, size| {
            ByteRange::cut(length, size).map(|range| range.name("a#b")).collect::<Vec<_>>()
        };
        assert_eq!(cut(10, 4), ["a#b#0-4", "a#b#4-8", "a#b#8-"]);
        assert_eq!(cut(8, 4), ["a#b#0-4", "a#b#4-"]);
        for (length, size) in [(4, 4), (1, 4), (0, 4), (0, 1), (u64::MAX, u64::MAX)] {
            assert_eq!(cut(length, size), ["a#b"], "{length} bytes by {size}");
        }
        let many = u64::MAX / 2;
        assert_eq!(ByteRange::cut(many, 1).nth(1 << 20).unwrap().to_string(), "1048576-1048577");
    }

    #[test]
    fn a_path_that_reads_like_a_range_is_told_from_one() {
        assert_eq!(ByteRange::WHOLE.name("a.txt#0-4"), "a.txt#0-4#0-");
        assert_eq!(ByteRange::of_name("a.txt#0-4#0-"), Some(("a.txt#0-4", ByteRange::WHOLE)));
        for path in ["a", "a#", "a#-", "a#-4", "a#4", "a#4-4", "a#5-4", "a#04-5", "a#+4-5", "a#4-x"]
        {
            assert_eq!(ByteRange::of_name(path), None, "{path}");
            assert_eq!(ByteRange::WHOLE.name(path), path);
        }
        let max = format!("a#4-{}", u64::MAX);
        assert_eq!(ByteRange::of_name(&max), None, "its name is `a#4-`");
    }

    proptest! {
        #[test]
        fn ranges_of_a_file_are_all_of_it_and_have_their_names(
            length in 0..10_000u64, size in 1..3_000u64, path in "[a#0-9-]{0,6}",
        ) {
            let mut end = 0;
            for range in ByteRange::cut(length, size) {
                prop_assert_eq!(range.start, end);
                end = range.end;
                let name = range.name(&path);
                let found = ByteRange::of_name(&name).unwrap_or((&name, ByteRange::WHOLE));
                prop_assert_eq!(found, (&*path, range));
            }
            prop_assert_eq!(end, OPEN);
        }
    }
}
