//! The rows of a batch, by lane.
//!
//! Which lane a row goes to is as good as chance, so a branch on it is guessed wrong every other time;
//! and a count in memory that every row adds to makes each row wait for the one before. Two lanes, the
//! containers of a small node, are told apart with neither; more are sorted by counting.

use std::ops::Range;

use crate::column::narrow;

/// Rows, sorted by lane; within a lane in their order.
#[derive(Debug, Default)]
pub(super) struct Order {
    rows: Vec<u32>,
    /// Where the rows of each lane lie.
    lanes: Vec<Range<u32>>,
}

impl Order {
    /// Sorts the rows with some hashes; `lane_of` is below `lanes`.
    #[inline(always)]
    pub(super) fn sort(&mut self, hashes: &[u64], lanes: usize, lane_of: impl Fn(u64) -> usize) {
        if lanes == 2 { self.halve(hashes, lane_of) } else { self.count(hashes, lanes, lane_of) }
    }

    /// The rows of a lane.
    pub(super) fn of(&self, lane: usize) -> &[u32] {
        let Range { start, end } = self.lanes[lane];
        &self.rows[start as usize..end as usize]
    }

    /// Writes each row to both ends, and moves on only one of them.
    #[inline(always)]
    fn halve(&mut self, hashes: &[u64], lane_of: impl Fn(u64) -> usize) {
        let half = hashes.len();
        self.rows.resize(2 * half, 0);
        let (zeroth, first) = self.rows.split_at_mut(half);
        let mut ones = 0;
        for (row, &hash) in hashes.iter().enumerate() {
            zeroth[row - ones] = narrow(row);
            first[ones] = narrow(row);
            ones += lane_of(hash);
        }
        let (half, ones) = (narrow(half), narrow(ones));
        self.lanes.clear();
        self.lanes.extend([0..half - ones, half..half + ones]);
    }

    #[inline(always)]
    fn count(&mut self, hashes: &[u64], lanes: usize, lane_of: impl Fn(u64) -> usize) {
        self.lanes.clear();
        self.lanes.resize(lanes, 0..0);
        for &hash in hashes {
            self.lanes[lane_of(hash)].end += 1;
        }
        let mut start = 0;
        for lane in &mut self.lanes {
            let rows = lane.end;
            *lane = start..start;
            start += rows;
        }
        self.rows.resize(hashes.len(), 0);
        for (row, &hash) in hashes.iter().enumerate() {
            let end = &mut self.lanes[lane_of(hash)].end;
            self.rows[*end as usize] = narrow(row);
            *end += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_row_is_in_its_lane_and_in_order(
            batches in prop::collection::vec((1usize..6, prop::collection::vec(any::<u64>(), 0..300)), 1..5),
        ) {
            let mut order = Order::default();
            for (lanes, hashes) in batches {
                let lane_of = |hash: u64| usize::try_from(hash % lanes as u64).expect("small");
                order.sort(&hashes, lanes, lane_of);
                for lane in 0..lanes {
                    let rows = 0..narrow(hashes.len());
                    let expected: Vec<_> =
                        rows.filter(|&row| lane_of(hashes[row as usize]) == lane).collect();
                    prop_assert_eq!(order.of(lane), expected);
                }
            }
        }
    }
}
