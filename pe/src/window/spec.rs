//! What a window is, as a topology says it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::topology::DURATION_MAX;

/// The events that a window of a length of time holds at most, if the topology does not say.
///
/// Less gives events up that a burst brings, more lets one instance take the memory of all.
pub const MOST: u32 = 1_000_000;

/// The largest count that a length, a slide or a `most` may be.
pub const COUNT_MAX: u32 = 16_000_000;

/// The most windows of time that an event may be in. An instance that could not run for long has so
/// many to catch up with at once.
pub const OVERLAP_MAX: u32 = 10_000;

/// How long a window is, or how far the next is from it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum Extent {
    /// So many events.
    Count(u32),
    /// So much time.
    Time(Duration),
}

/// A window: its length, and how far it slides. They may be of different kinds.
///
/// A window that slides by its length is a tumbling one: each event is in one window.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct WindowSpec {
    /// How much is in it: the last events, or those of the last so much time.
    pub length: Extent,
    /// When it fires: after so many events, or at every multiple of so much time.
    pub slide: Extent,
    /// How many events a length of time holds; a length of events ignores it.
    pub most: u32,
}

/// Why there is no such window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// A length, a slide or a `most` is zero or too large.
    #[error("a length, a slide or a limit of a window is zero or too large")]
    OutOfRange,
    /// Some events would be in no window.
    #[error("the slide is longer than the length, so some events would be in no window")]
    Gaps,
    /// An event would be in more than [`OVERLAP_MAX`] windows.
    #[error("the length is more than {} slides", OVERLAP_MAX)]
    Overlap,
}

impl WindowSpec {
    /// Each window begins where the last has ended.
    pub fn tumbling(length: Extent) -> Self {
        Self::sliding(length, length)
    }

    /// Each window begins before the last has ended.
    pub fn sliding(length: Extent, slide: Extent) -> Self {
        Self { length, slide, most: MOST }
    }

    /// Whether there can be such a window.
    ///
    /// # Errors
    /// There cannot, and why.
    pub fn check(self) -> Result<Self, WindowError> {
        let is_fine = |extent| match extent {
            Extent::Count(count) => (1..=COUNT_MAX).contains(&count),
            Extent::Time(time) => !time.is_zero() && time <= DURATION_MAX,
        };
        let is_most_fine = (1..=COUNT_MAX).contains(&self.most);
        if !is_fine(self.length) || !is_fine(self.slide) || !is_most_fine {
            return Err(WindowError::OutOfRange);
        }
        match (self.length, self.slide) {
            (Extent::Count(length), Extent::Count(slide)) if slide > length => {
                Err(WindowError::Gaps)
            }
            (Extent::Time(length), Extent::Time(slide)) if slide > length => Err(WindowError::Gaps),
            (Extent::Time(length), Extent::Time(slide)) if length > slide * OVERLAP_MAX => {
                Err(WindowError::Overlap)
            }
            _ => Ok(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_an_extent_and_leaves_no_event_out() {
        let millis = |millis| Extent::Time(Duration::from_millis(millis));
        let count = Extent::Count;
        for (length, slide, result) in [
            (count(1), count(1), Ok(())),
            (count(10), count(3), Ok(())),
            (count(10), millis(30_000), Ok(())),
            (millis(10), count(30_000), Ok(())),
            (millis(10_000), millis(1), Ok(())),
            (millis(10_001), millis(1), Err(WindowError::Overlap)),
            (count(0), count(1), Err(WindowError::OutOfRange)),
            (count(1), count(0), Err(WindowError::OutOfRange)),
            (count(COUNT_MAX + 1), count(1), Err(WindowError::OutOfRange)),
            (millis(0), count(1), Err(WindowError::OutOfRange)),
            (Extent::Time(Duration::MAX), count(1), Err(WindowError::OutOfRange)),
            (count(3), count(4), Err(WindowError::Gaps)),
            (millis(3), millis(4), Err(WindowError::Gaps)),
        ] {
            let spec = WindowSpec::sliding(length, slide);
            assert_eq!(spec.check().map(|_| ()), result, "{spec:?}");
        }
        let spec = WindowSpec { most: 0, ..WindowSpec::tumbling(count(1)) };
        assert_eq!(spec.check(), Err(WindowError::OutOfRange));
    }
}
