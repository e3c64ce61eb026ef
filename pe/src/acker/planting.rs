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
    growing: Option<Growing>,
    what: What<'l>,
}

/// A tree that grows: its place in the portion, and its number.
pub(crate) type Growing = (u16, u64);

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
    Again {
        trees: &'l [(u16, Option<(Failure, u32)>)],
        at: usize,
        /// What comes behind so many events is of the portion that follows.
        events: u64,
        buried: &'l mut Vec<Buried>,
        /// A tree that was given up again before it was whole.
        lost: Option<Growing>,
    },
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
        let growing = of.growing.take();
        Self { ledger, portion, event, growing, what: What::Fresh { from, until } }
    }

    /// Some trees are read again; `event` events of the portion came before, and one of the trees may be growing.
    pub(crate) fn again(
        ledger: &'l mut Ledger,
        replay: &'l Replay,
        (event, growing): (u64, Option<Growing>),
        buried: &'l mut Vec<Buried>,
    ) -> Self {
        let is_live = |growing: &Growing| ledger.is_growing(replay.portion, *growing);
        let lost = growing.filter(|growing| !is_live(growing));
        let growing = growing.filter(is_live);
        let (trees, events) = (&replay.trees[..], replay.events);
        let what = What::Again { trees, at: 0, events, buried, lost };
        Self { ledger, portion: replay.portion, event, growing, what }
    }

    /// The poll has ended: how many events of the portion there were so far, and which tree goes on growing if there
    /// are more. One that was given up is named until another grows, since the rest of it may come in any later poll.
    pub(crate) fn end_again(mut self, events: u64) -> (u64, Option<Growing>) {
        let growing = self.growing.take_if(|_| self.event < events);
        self.close();
        self.ledger.trim();
        let lost = match self.what {
            What::Again { lost, .. } => lost,
            What::Fresh { .. } => None,
        };
        (self.event, growing.or(lost))
    }

    /// The poll has ended, at a position, and perhaps there is more at once: then the last tree goes on growing. How
    /// many events of the portion there were so far.
    pub(crate) fn end(mut self, end: Position, has_more: bool) -> u64 {
        if let What::Fresh { .. } = self.what {
            // Where no other may be planted, none must wait for more.
            let has_more = has_more && self.ledger.may_plant();
            let is_cut = !has_more && self.growing.is_some();
            let growing = self.growing.take_if(|_| has_more);
            self.close();
            let portion = self.ledger.portion_mut(self.portion);
            (portion.events, portion.growing) = (self.event, growing);
            self.ledger.end_portion(self.portion, end, !is_cut);
        }
        self.close();
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
            What::Again { events, .. } if event >= *events => return Fate::LeftOut,
            What::Again { lost: Some((lost, _)), .. } if *lost == tree => return Fate::LeftOut,
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
        if let What::Again { trees, at, buried, .. } = &mut self.what
            && let Some(&(tree, Some((why, attempts)))) = trees.get(*at)
        {
            buried.push(Buried { tree, event, json, why, attempts });
        }
    }
}
