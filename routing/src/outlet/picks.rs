//! Which lane each row goes to, where the slot or the share of its hash does not say it.
//!
//! Such a choice may depend on the rows before, on the value of a field or on code of the application, so
//! it is made once per row, in order, and written down; then rows are sorted by it like by a hash. One
//! number more than there are lanes stands for a task that there is not.

use std::fmt;
use std::sync::Arc;

use super::route::even;
use crate::{Batch, Column, Columns, Event, KeyFields};

/// A function of the application that chooses a task: from the canonical bytes of a key and the number of
/// tasks. A result that is no task drops the event.
///
/// It gives the same for the same key on every node, and does not panic.
#[derive(Clone)]
pub struct Choice(Arc<Choose>);

type Choose = dyn Fn(&[u8], u32) -> u32 + Send + Sync;

impl Choice {
    /// A choice by this function.
    pub fn new(choose: impl Fn(&[u8], u32) -> u32 + Send + Sync + 'static) -> Self {
        Self(Arc::new(choose))
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choice").finish_non_exhaustive()
    }
}

/// The choices for the rows of a batch, and what has to be remembered of those before.
#[derive(Debug, Default)]
pub(super) struct Picks {
    /// By row: a lane, or their number for none.
    pub(super) lanes: Vec<u64>,
    /// By lane: how many rows it was given, where that matters.
    given: Vec<u64>,
}

impl Picks {
    /// Each row to the one of two lanes of its key that was given fewer so far.
    ///
    /// "The Power of Both Choices" (Nasir et al., ICDE 2015): what a sender counts by itself balances the sum
    /// over all senders, so nobody is asked how loaded a lane is.
    pub(super) fn by_two_choices(&mut self, hashes: &[u64], lanes: usize) {
        let Self { lanes: picks, given } = self;
        given.resize(lanes, 0);
        picks.clear();
        picks.extend(hashes.iter().map(|&hash| {
            let (one, two) = two_choices(hash, lanes);
            let lane = if given[two] < given[one] { two } else { one };
            given[lane] += 1;
            lane as u64
        }));
    }

    /// Each row to the lane whose number is its key, which is one unsigned field.
    pub(super) fn by_number(&mut self, column: &dyn Column, lanes: usize) {
        let numbers = column.numbers().expect("a plan has tasks named by an unsigned field only");
        let none = lanes as u64;
        self.lanes.clear();
        self.lanes.extend(numbers.iter().map(|&number| number.min(none)));
    }

    /// Each row to the lane that a function of its key chooses.
    pub(super) fn by_choice<E: Event>(
        &mut self,
        batch: &mut Batch<E>,
        key: &KeyFields,
        choice: &Choice,
        lanes: usize,
    ) {
        let tasks = u32::try_from(lanes).expect("a lane is a task, and those are counted so");
        self.lanes.clear();
        self.lanes.reserve(batch.columns.rows());
        batch.each_key(key, |bytes| {
            let task = (choice.0)(bytes, tasks).min(tasks);
            self.lanes.push(u64::from(task));
        });
    }
}

/// Two different lanes for a hash, by its two halves, which are hashes of the key independent of each other;
/// of one lane, twice that.
#[inline(always)]
pub(super) fn two_choices(hash: u64, lanes: usize) -> (usize, usize) {
    let one = even(lanes, hash);
    // Of the others, so that each key has a choice.
    let other = even(lanes - 1, hash << 32);
    (one, (other + usize::from(other >= one)).min(lanes - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    #[test]
    fn each_pair_of_lanes_is_as_likely_as_any_other() {
        for lanes in 2..9 {
            let mut pairs = vec![0u32; lanes * lanes];
            let keys = 2000 * (lanes * (lanes - 1)) as u64;
            for key in 0..keys {
                let (one, two) = two_choices(key.hash(), lanes);
                pairs[one * lanes + two] += 1;
            }
            for (place, &count) in pairs.iter().enumerate() {
                let is_pair = place / lanes != place % lanes;
                let wanted = if is_pair { 1800..2200 } else { 0..1 };
                assert!(wanted.contains(&count), "{count} keys of {keys} at {place} of {lanes}²");
            }
        }
        assert_eq!(two_choices(u64::MAX, 1), (0, 0));
    }
}
