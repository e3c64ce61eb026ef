//! When the events of a partition are due.
//!
//! The partitions of a generator have one rate between them and no clock in common, so they share it by
//! turns: of the events of all, numbered from 0, a partition has every n-th, and each has its time. Times
//! are worked out from the number alone. A sum of pauses would drift, and what comes late would make
//! all that follows late; so, whoever was held back finds everything due that it missed.

use std::time::Duration;

use membership::Time;

const NANOS: u128 = 1_000_000_000;

/// The times of a partition's events, counted from when it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    /// When number 0 of all partitions is due.
    pub(super) start: Time,
    /// Events a second, of all partitions.
    pub(super) rate: u64,
    /// The first of its numbers: its place among the partitions.
    pub(super) first: u64,
    /// How far apart its numbers are: how many partitions there are.
    pub(super) stride: u64,
}

impl Schedule {
    /// How many of its events are due.
    pub(super) fn due(&self, now: Time) -> u64 {
        // Number n is due n/rate seconds after the start.
        let numbers = (now - self.start).as_nanos() * u128::from(self.rate) / NANOS + 1;
        let its = numbers.saturating_sub(self.first.into()).div_ceil(self.stride.into());
        u64::try_from(its).unwrap_or(u64::MAX)
    }

    /// When its event at an index is due.
    pub(super) fn time(&self, index: u64) -> Time {
        let number = u128::from(index) * u128::from(self.stride) + u128::from(self.first);
        let nanos = (number * NANOS).div_ceil(self.rate.into());
        let whole = u64::try_from(nanos / NANOS).unwrap_or(u64::MAX);
        let rest = u32::try_from(nanos % NANOS).expect("less than a second");
        self.start + Duration::new(whole, rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Time {
        Time(Duration::from_millis(millis))
    }

    fn schedule(rate: u64, first: u64, stride: u64) -> Schedule {
        Schedule { start: at(5000), rate, first, stride }
    }

    #[test]
    fn partitions_take_turns() {
        let due =
            |millis: u64| [0, 1, 2].map(|first| schedule(1000, first, 3).due(at(5000 + millis)));
        assert_eq!(due(0), [1, 0, 0]);
        assert_eq!(due(1), [1, 1, 0]);
        assert_eq!(due(2), [1, 1, 1]);
        assert_eq!(due(3), [2, 1, 1]);
        assert_eq!(due(3_600_000), [1_200_001, 1_200_000, 1_200_000]);
    }

    #[test]
    fn nothing_is_due_before_the_start() {
        assert_eq!(schedule(1_000_000_000, 1, 2).due(at(0)), 0);
    }

    #[test]
    fn a_slow_rate_has_its_pauses() {
        let slow = schedule(1, 1, 2);
        assert_eq!((slow.time(0), slow.time(1)), (at(6000), at(8000)));
        assert_eq!((slow.due(at(5999)), slow.due(at(6000)), slow.due(at(7999))), (0, 1, 1));
    }

    #[test]
    fn the_end_of_time_is_no_error() {
        let schedule = schedule(1_000_000_000, 4095, 4096);
        assert_eq!(schedule.due(Time(Duration::MAX)), u64::MAX);
        assert_eq!(schedule.time(u64::MAX).0.as_secs(), 75_557_863_725_919);
    }

    proptest! {
        #[test]
        fn an_event_is_due_at_its_time_and_not_before(
            rate in 1..2_000_000_000u64,
            stride in 1..5000u64,
            first in 0..5000u64,
            index in 0..1u64 << 40,
        ) {
            let schedule = schedule(rate, first % stride, stride);
            let time = schedule.time(index);
            prop_assert!(schedule.due(time) > index);
            if time > schedule.start {
                let before = Time(time.0 - Duration::from_nanos(1));
                prop_assert!(schedule.due(before) <= index);
            }
        }
    }
}
