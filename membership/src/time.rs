//! Time as the cores know it.
//!
//! A core that read a clock could not be replayed. So time is an argument, counted from a start of
//! the driver's choosing; it says nothing of the hour, and two nodes cannot compare theirs.

use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time since an arbitrary start, as told to a core by its driver.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct Time(pub Duration);

impl Add<Duration> for Time {
    type Output = Self;

    /// Saturates: a deadline past the end of time is never due.
    fn add(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }
}

impl Sub for Time {
    type Output = Duration;

    /// Zero where `earlier` is in fact the later one.
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_time_hold() {
        let (early, late) = (Time(Duration::from_secs(1)), Time(Duration::MAX));
        assert_eq!(late + Duration::from_secs(1), late);
        assert_eq!(early - late, Duration::ZERO);
        assert_eq!(early + Duration::from_secs(2) - early, Duration::from_secs(2));
    }
}
