//! What has changed since it was last written down.
//!
//! A bit for each position and a list of those whose bit is set: to touch an instance again costs a look at a
//! word. One that is removed is known by the hash of its key alone, as in [chunks](crate::chunk).

/// What has changed, if somebody wants to know.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    is_watched: bool,
    bits: Vec<u64>,
    list: Vec<u32>,
    gone: Vec<u64>,
    has_overrun: bool,
}

/// So many removals are remembered: while nobody takes them, as where too few voters are there, they would be ever
/// more.
const GONE_MAX: usize = 1 << 20;

impl Changes {
    /// Whether somebody wants to know from now on. Nothing is remembered from before.
    pub(crate) fn watch(&mut self, is_watched: bool) {
        if self.is_watched != is_watched {
            *self = Self { is_watched, ..Self::default() };
        }
    }

    /// How many changes are noted; one may be noted twice.
    pub(crate) fn len(&self) -> usize {
        self.list.len() + self.gone.len()
    }

    /// The instance at a position is not what it was.
    #[inline(always)]
    pub(crate) fn touch(&mut self, position: usize) {
        if self.is_watched {
            self.mark(position);
        }
    }

    #[inline(never)]
    fn mark(&mut self, position: usize) {
        let (word, bit) = (position / 64, 1 << (position % 64));
        if word >= self.bits.len() {
            self.bits.resize((word + 1).next_power_of_two(), 0);
        }
        if self.bits[word] & bit == 0 {
            self.bits[word] |= bit;
            self.list.push(u32::try_from(position).expect("fewer instances than 2^32"));
        }
    }

    /// An instance with this hash was removed, and the one behind all others moved into its place, if there is one.
    pub(crate) fn removed(&mut self, hash: u64, from: usize, to: usize) {
        if !self.is_watched {
            return;
        }
        if self.gone.len() == GONE_MAX {
            self.has_overrun = true;
            self.gone.clear();
        }
        self.gone.push(hash);
        self.take(from);
        if from == to {
            return;
        }
        // Whoever goes through all positions may have been here already.
        self.mark(to);
    }

    /// Whether a position is marked; it is no more.
    fn take(&mut self, position: usize) -> bool {
        let (word, bit) = (position / 64, 1 << (position % 64));
        let Some(word) = self.bits.get_mut(word).filter(|word| **word & bit != 0) else {
            return false;
        };
        *word &= !bit;
        true
    }

    /// Whether more was removed than is remembered; that is forgotten now.
    pub(crate) fn has_overrun(&mut self) -> bool {
        std::mem::take(&mut self.has_overrun)
    }

    /// The hashes of what was removed, to be forgotten.
    pub(crate) fn take_gone(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.gone)
    }

    /// What was touched and is there, among so many, to be forgotten.
    pub(crate) fn take_touched(&mut self, len: usize) -> Vec<u32> {
        let mut list = std::mem::take(&mut self.list);
        list.retain(|&position| self.take(position as usize) && (position as usize) < len);
        list
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_is_remembered_while_nobody_wants_to_know() {
        let mut changes = Changes::default();
        changes.touch(3);
        changes.removed(7, 1, 0);
        assert_eq!(changes.len(), 0);
        changes.watch(true);
        changes.touch(3);
        changes.watch(true);
        assert_eq!(changes.len(), 1);
        changes.watch(false);
        changes.watch(true);
        assert_eq!(changes.len(), 0);
    }

    #[test]
    fn what_nobody_takes_is_bounded() {
        let mut changes = Changes::default();
        changes.watch(true);
        (0..3 * GONE_MAX as u64).for_each(|hash| changes.removed(hash, 1, 0));
        assert!(changes.len() <= GONE_MAX + 1 && changes.has_overrun());
        assert!(!changes.has_overrun());
    }

    proptest! {
        /// A reader that is told the changes only, whenever it likes, always ends with what is there.
        #[test]
        fn whoever_is_told_the_changes_knows_all(
            steps in prop::collection::vec((0u8..8, 0usize..200, any::<u8>()), 0..400),
        ) {
            let mut changes = Changes::default();
            changes.watch(true);
            let (mut all, mut copy) = (Vec::<(u64, u8)>::new(), BTreeMap::new());
            let mut next = 0u64;
            let tell = |changes: &mut Changes, all: &[(u64, u8)], copy: &mut BTreeMap<u64, u8>| {
                changes.take_gone().iter().for_each(|key| { copy.remove(key); });
                let touched = changes.take_touched(all.len());
                prop_assert_eq!(touched.iter().collect::<BTreeSet<_>>().len(), touched.len());
                copy.extend(touched.iter().map(|&at| all[at as usize]));
                Ok(())
            };
            for (what, at, value) in steps {
                match what {
                    0..3 => {
                        changes.touch(all.len());
                        all.push((next, value));
                        next += 1;
                    }
                    3..5 if !all.is_empty() => {
                        let at = at % all.len();
                        all[at].1 = value;
                        changes.touch(at);
                    }
                    5..7 if !all.is_empty() => {
                        let at = at % all.len();
                        changes.removed(all[at].0, all.len() - 1, at);
                        all.swap_remove(at);
                    }
                    7 => tell(&mut changes, &all, &mut copy)?,
                    _ => {}
                }
            }
            tell(&mut changes, &all, &mut copy)?;
            prop_assert_eq!(copy, all.into_iter().collect::<BTreeMap<_, _>>());
        }
    }
}
