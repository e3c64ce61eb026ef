//! From key hashes to positions: open addressing with linear probing over 32-bit places.
//!
//! It is read once for every event, and mostly not from the first-level cache. So a place is four bytes,
//! and where a key most likely is can be read without a branch: [`Index::hint`]. A host asks for the
//! hints of many events first, and their cache lines are fetched at the same time; what a hint says is
//! then compared with the key itself, and is never relied upon.
//!
//! A place holds a position in its low bits, as many as it takes to number the places, and bits of the
//! hash in the others: a search rarely looks at an instance that is not the one.

/// No position.
const EMPTY: u32 = u32::MAX;

/// The fewest places.
const LEAST: usize = 16;

/// Where the instance of a key most likely is. Only worth a look: it may be another's, or nobody's.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hint(u32);

impl Hint {
    /// As a position.
    #[inline(always)]
    pub(crate) fn position(self) -> usize {
        self.0 as usize
    }
}

/// The positions of some keys, by hash.
#[derive(Debug)]
pub(super) struct Index {
    /// A power of two of them, at most half of them taken.
    places: Vec<u32>,
    /// The bits of a place that are a position.
    mask: u32,
    taken: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self::of_size(LEAST)
    }
}

impl Index {
    fn of_size(places: usize) -> Self {
        let mask = u32::try_from(places - 1).expect("no container holds 2^31 instances");
        Self { places: vec![EMPTY; places], mask, taken: 0 }
    }

    /// How many positions it holds.
    pub(super) fn len(&self) -> usize {
        self.taken
    }

    /// What the first place for a hash holds.
    #[inline(always)]
    pub(super) fn hint(&self, hash: u64) -> Hint {
        Hint(self.places[self.home(hash)] & self.mask)
    }

    /// The first position with such a hash that a condition holds for.
    #[inline]
    pub(super) fn find(&self, hash: u64, mut is_it: impl FnMut(usize) -> bool) -> Option<usize> {
        let place = self.place_of(hash, &mut is_it)?;
        Some((self.places[place] & self.mask) as usize)
    }

    /// Adds a position. `hash_of` gives the hash of every position that is held, in case that they have
    /// to move.
    pub(super) fn insert(&mut self, hash: u64, position: usize, hash_of: impl Fn(usize) -> u64) {
        if 2 * (self.taken + 1) > self.places.len() {
            // In the order of their positions, so that the oldest keys come to lie where their hints
            // point. Where keys are skewed, the frequent ones are the oldest.
            let mut larger = Self::of_size(2 * self.places.len());
            for held in 0..self.taken {
                larger.put(hash_of(held), held);
            }
            *self = larger;
        }
        self.put(hash, position);
    }

    fn put(&mut self, hash: u64, position: usize) {
        let mut place = self.home(hash);
        while self.places[place] != EMPTY {
            place = self.after(place);
        }
        self.places[place] = self.packed(hash, position);
        self.taken += 1;
    }

    /// Takes a position out.
    pub(super) fn remove(&mut self, hash: u64, position: usize, hash_of: impl Fn(usize) -> u64) {
        let found = self.place_of(hash, &mut |held| held == position);
        let mut hole = found.expect("a position that is held is found by its hash");
        // What lies behind moves up, unless it would come before its home; so there are no marks where
        // something was, and a search ends at the first empty place.
        let mut next = self.after(hole);
        while self.places[next] != EMPTY {
            let home = self.home(hash_of((self.places[next] & self.mask) as usize));
            if self.distance(home, next) >= self.distance(hole, next) {
                self.places[hole] = self.places[next];
                hole = next;
            }
            next = self.after(next);
        }
        self.places[hole] = EMPTY;
        self.taken -= 1;
    }

    /// Says that what was at one position is at another now.
    pub(super) fn moved(&mut self, hash: u64, from: usize, to: usize) {
        let place = self.place_of(hash, &mut |held| held == from);
        let place = place.expect("a position that is held is found by its hash");
        self.places[place] = self.packed(hash, to);
    }

    #[inline]
    fn place_of(&self, hash: u64, is_it: &mut impl FnMut(usize) -> bool) -> Option<usize> {
        let tag = self.packed(hash, 0);
        let mut place = self.home(hash);
        loop {
            let held = self.places[place];
            if held == EMPTY {
                return None;
            }
            if (held ^ tag) & !self.mask == 0 && is_it((held & self.mask) as usize) {
                return Some(place);
            }
            place = self.after(place);
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (hash as u32 & self.mask) as usize
    }

    /// A position with bits of its hash above it. The hash has chosen the home by its lower half and,
    /// before that, the slot by the lower bits of its upper half.
    #[inline(always)]
    fn packed(&self, hash: u64, position: usize) -> u32 {
        let position = u32::try_from(position).expect("fewer positions than places");
        ((hash >> 32) as u32 & !self.mask) | position
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & self.mask as usize
    }

    /// How many places on.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & self.mask as usize
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Hashes of few bits, so that they collide in every way: same home, same tag, both.
        #[test]
        fn it_is_a_map(steps in prop::collection::vec((0u64..24, 0u64..3, any::<bool>()), 1..400)) {
            let mut index = Index::default();
            let (mut hashes, mut model) = (Vec::new(), BTreeMap::new());
            for (low, high, is_added) in steps {
                let hash = low | high << 62;
                if is_added && !model.contains_key(&hash) {
                    let position = hashes.len();
                    hashes.push(hash);
                    index.insert(hash, position, |at| hashes[at]);
                    model.insert(hash, position);
                } else if let Some(position) = model.remove(&hash) {
                    // As instances are removed: the last takes the place.
                    index.remove(hash, position, |at| hashes[at]);
                    let last = hashes.len() - 1;
                    if position != last {
                        index.moved(hashes[last], last, position);
                        model.insert(hashes[last], position);
                    }
                    hashes.swap_remove(position);
                }
                prop_assert_eq!(index.len(), model.len());
                for low in 0..24 {
                    for high in 0..3 {
                        let hash = low | high << 62;
                        let found = index.find(hash, |at| hashes[at] == hash);
                        prop_assert_eq!(found, model.get(&hash).copied());
                    }
                }
            }
        }
    }

    #[test]
    fn the_oldest_keys_are_where_their_hints_point() {
        let hashes: Vec<u64> =
            (0..1000).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let mut index = Index::default();
        for (position, &hash) in hashes.iter().enumerate() {
            index.insert(hash, position, |at| hashes[at]);
        }
        let is_right = |at: &usize| index.hint(hashes[*at]).position() == *at;
        assert!((0..100).filter(is_right).count() > 95);
        assert!((0..1000).filter(is_right).count() > 700);
    }
}
