//! What a spout emits becomes trees.

use super::Ledger;
use super::ledger::{LAST_TREE, Replay};
use super::portion::Offset;
use crate::{Failure, Position};

/// Whoever decides which tree the next event of a spout is of.
pub(crate) trait Plant {
    /// What becomes of the next event.
    fn next(&mut self) -> Fate;
    /// So much is owed for it.
    fn owe(&mut self, edge: u64);
    /// It is a dead letter; how it looks, and what its type is called.
    fn bury(&mut self, event: &'static str, json: Vec<u8>);
}

/// What becomes of an event of a spout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is left out.
    LeftOut,
    /// It is of this tree.
    Planted(u64),
    /// It was tried often enough.
    Dead,
}

/// An event that was tried often enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buried {
    pub(crate) tree: u16,
    pub(crate) event: &'static str,
    pub(crate) json: Vec<u8>,
    pub(crate) why: Failure,
    pub(crate) attempts: u32,
}

/// One poll of a partition.
pub(crate) struct Planting<'l> {
    ledger: &'l mut Ledger,
    portion: u32,
    /// Which event of the portion is next.
    event: u64,
    /// The tree that grows: its place in the portion, and its number.
    growing: Option<(u16, u64)>,
    what: What<'l>,
}

/// Which events are meant.
enum What<'l> {
    /// All from here on.
    Fresh {
        /// From this event on.
        from: u64,
        /// Before this one.
        until: u64,
    },
    /// Some trees, in order; the next at `at`.
    Again { trees: &'l [(u16, Option<(Failure, u32)>)], at: usize, buried: &'l mut Vec<Buried> },
}

impl<'l> Planting<'l> {
    /// A partition is read on; `skip` events are left out if it begins a portion.
    pub(crate) fn fresh(
        ledger: &'l mut Ledger,
        reading: u32,
        offset: Offset,
        until: Option<u64>,
    ) -> Self {
        let portion = ledger.portion(reading, offset.position);
        let granularity = ledger.granularity();
        let of = ledger.portion_mut(portion);
        if of.events == 0 && of.trees == 0 {
            let trees = u32::try_from(offset.skip / granularity).unwrap_or(u32::MAX);
            (of.trees, of.done, of.from) = (trees, trees, offset.skip);
        }
        let (event, from, until) = (of.events, of.from, until.unwrap_or(u64::MAX));
        Self { ledger, portion, event, growing: None, what: What::Fresh { from, until } }
    }

    /// Some trees are read again; `event` events of the portion came before.
    pub(crate) fn again(
        ledger: &'l mut Ledger,
        replay: &'l Replay,
        event: u64,
        buried: &'l mut Vec<Buried>,
    ) -> Self {
        let what = What::Again { trees: &replay.trees, at: 0, buried };
        Self { ledger, portion: replay.portion, event, growing: None, what }
    }

    /// The poll has ended, at a position; `may_grow` says that the next event follows at once. How many events of
    /// the portion there were so far.
    pub(crate) fn end(mut self, end: Position, may_grow: bool) -> u64 {
        let is_cut = self.growing.is_some();
        self.close();
        if let What::Fresh { .. } = self.what {
            self.ledger.portion_mut(self.portion).events = self.event;
            self.ledger.end_portion(self.portion, end, may_grow && !is_cut);
        }
        self.ledger.trim();
        self.event
    }

    fn close(&mut self) {
        if let Some((_, number)) = self.growing.take() {
            self.ledger.close_tree(number);
        }
    }

    fn tree_of(&self, event: u64) -> u16 {
        let granularity = self.ledger.granularity();
        // A division costs as much as all else here.
        let tree = if granularity == 1 { event } else { event / granularity };
        u16::try_from(tree).unwrap_or(LAST_TREE)
    }
}

impl Plant for Planting<'_> {
    #[inline]
    fn next(&mut self) -> Fate {
        let (event, tree) = (self.event, self.tree_of(self.event));
        self.event += 1;
        match &mut self.what {
            What::Fresh { from, until } if event < *from || event >= *until => {
                return Fate::LeftOut;
            }
            What::Fresh { .. } => {}
            What::Again { trees, at, .. } => {
                while trees.get(*at).is_some_and(|(wanted, _)| *wanted < tree) {
                    *at += 1;
                }
                match trees.get(*at) {
                    Some((wanted, None)) if *wanted == tree => {}
                    Some((wanted, Some(_))) if *wanted == tree => return Fate::Dead,
                    _ => return Fate::LeftOut,
                }
            }
        }
        let number = match self.growing {
            Some((known, number)) if known == tree => number,
            _ => {
                self.close();
                if let What::Fresh { .. } = self.what {
                    let portion = self.ledger.portion_mut(self.portion);
                    portion.trees = u32::from(tree) + 1;
                    portion.open += 1;
                }
                let number = self.ledger.plant(self.portion, tree);
                self.growing = Some((tree, number));
                number
            }
        };
        Fate::Planted(self.ledger.root(number))
    }

    #[inline]
    fn owe(&mut self, edge: u64) {
        let Some((tree, number)) = self.growing else { return };
        self.ledger.owe(number, edge);
        let granularity = self.ledger.granularity();
        if tree != LAST_TREE && (granularity == 1 || self.event.is_multiple_of(granularity)) {
            self.close();
        }
    }

    fn bury(&mut self, event: &'static str, json: Vec<u8>) {
        if let What::Again { trees, at, buried } = &mut self.what
            && let Some(&(tree, Some((why, attempts)))) = trees.get(*at)
        {
            buried.push(Buried { tree, event, json, why, attempts });
        }
    }
}
