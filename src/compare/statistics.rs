//! What several turns say together.
//!
//! Turns on a shared machine are few, and disturbed in one direction: now and then one is much slower.
//! A mean and a standard deviation would describe the disturbance. So figures are medians; and how sure a
//! median is, is said by order statistics, which assume nothing of how the figures are distributed.

use serde::Serialize;

/// Several turns of one figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

/// Where the true median is, with some confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Interval {
    pub(super) low: f64,
    pub(super) high: f64,
    /// How often an interval that is made like this has the median in it, in per cent.
    pub(super) coverage: f64,
}

/// A median, and where the true one is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) median: f64,
    pub(super) interval: Interval,
    /// Of how many turns.
    pub(super) turns: usize,
}

/// On which side of a limit something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// All of its interval is below.
    Below,
    /// The limit is within the interval.
    Astride,
    /// All of its interval is above.
    Above,
}

/// The confidence that is asked for, in per cent.
const CONFIDENCE: f64 = 95.0;

impl Spread {
    /// Of at least one figure.
    pub(super) fn new(figures: &[f64]) -> Self {
        let sorted = sorted(figures);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Self { low: sorted[0], median, high: sorted[sorted.len() - 1] }
    }
}

impl Estimate {
    /// Of at least one figure.
    pub(super) fn new(figures: &[f64]) -> Self {
        let (median, interval) = (Spread::new(figures).median, Interval::of_median(figures));
        Self { median, interval, turns: figures.len() }
    }

    /// On which side of a limit it is; with its interval.
    pub(super) fn side(&self, limit: f64) -> Side {
        if self.interval.low > limit {
            Side::Above
        } else if self.interval.high < limit {
            Side::Below
        } else {
            Side::Astride
        }
    }

    /// The same figure in another unit, or turned around: a function that only rises or only falls.
    pub(super) fn map(&self, of: impl Fn(f64) -> f64) -> Self {
        let Interval { low, high, coverage } = self.interval;
        let (one, other) = (of(low), of(high));
        let interval = Interval { low: one.min(other), high: one.max(other), coverage };
        Self { median: of(self.median), interval, turns: self.turns }
    }
}

impl Interval {
    /// The narrowest interval between two of the figures, as far from the lowest as from the highest, that
    /// has the median in it with 95 % confidence; if there are too few figures for that (less than
    /// six), between the lowest and the highest, with less.
    ///
    /// Each figure is above the median as likely as below it. So the median is below the figure of rank k
    /// if fewer than k of n are below it, which has the chance that fewer than k of n coins show heads.
    pub(super) fn of_median(figures: &[f64]) -> Self {
        let sorted = sorted(figures);
        let count = sorted.len();
        let coverage = |rank: usize| 100.0 * (1.0 - 2.0 * fewer_heads(rank, count));
        let deepest = (1..=count.div_ceil(2)).rev().find(|&rank| coverage(rank) >= CONFIDENCE);
        let rank = deepest.unwrap_or(1);
        let coverage = coverage(rank).max(0.0);
        Self { low: sorted[rank - 1], high: sorted[count - rank], coverage }
    }
}

/// The chance that of so many coins fewer than `heads` show heads.
fn fewer_heads(heads: usize, coins: usize) -> f64 {
    let mut chance = 0.5f64.powi(i32::try_from(coins).expect("no more turns than that"));
    let mut sum = 0.0;
    for shown in 0..heads {
        sum += chance;
        chance *= (coins - shown) as f64 / (shown + 1) as f64;
    }
    sum
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    assert!(!figures.is_empty(), "there is at least one turn");
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Spread::new(&[3.0]), Spread { low: 3.0, median: 3.0, high: 3.0 });
        assert_eq!(Spread::new(&[9.0, 1.0, 2.0]), Spread { low: 1.0, median: 2.0, high: 9.0 });
        assert_eq!(Spread::new(&[4.0, 1.0, 2.0, 9.0]).median, 3.0);
    }

    /// The ranks and coverages are those of the tables of the sign test.
    #[test]
    fn intervals_are_those_of_the_sign_test() {
        let interval = |count: u8| {
            let figures: Vec<f64> = (1..=count).map(f64::from).collect();
            let Interval { low, high, coverage } = Interval::of_median(&figures);
            (low, high, (coverage * 100.0).round() / 100.0)
        };
        assert_eq!(interval(1), (1.0, 1.0, 0.0));
        assert_eq!(interval(2), (1.0, 2.0, 50.0));
        assert_eq!(interval(5), (1.0, 5.0, 93.75));
        assert_eq!(interval(6), (1.0, 6.0, 96.88));
        assert_eq!(interval(8), (1.0, 8.0, 99.22));
        assert_eq!(interval(9), (2.0, 8.0, 96.09));
        assert_eq!(interval(20), (6.0, 15.0, 95.86));
    }

    #[test]
    fn a_limit_within_the_interval_is_neither_above_nor_below() {
        let estimate = Estimate::new(&[2.0, 4.0, 3.0]);
        assert_eq!((estimate.median, estimate.turns), (3.0, 3));
        let sides = [1.9, 2.0, 3.0, 4.0, 4.1].map(|limit| estimate.side(limit));
        assert_eq!(sides, [Side::Above, Side::Astride, Side::Astride, Side::Astride, Side::Below]);
        let cost = estimate.map(|ratio| 1.0 - ratio);
        assert_eq!((cost.interval.low, cost.median, cost.interval.high), (-3.0, -2.0, -1.0));
    }

    #[test]
    fn the_order_of_turns_does_not_matter() {
        let one = Interval::of_median(&[5.0, 3.0, 1.0, 2.0, 4.0, 6.0]);
        assert_eq!(one, Interval::of_median(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        assert_eq!((one.low, one.high), (1.0, 6.0));
    }
}
