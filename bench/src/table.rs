//! A map from keys to values for whoever is not the engine.
//!
//! All models count in the same map with the same hash, so that what differs between them is how an
//! event gets there. It is looked up key by key in a plain loop: a processor runs ahead of a miss by
//! itself, and looking up a group of keys before the first value is touched costs more here than it
//! saves.

use hashbrown::HashTable;
use routing::Key;

use crate::digest;

/// A value for each key, made when the key is first seen.
#[derive(Debug)]
pub(crate) struct Table<K, V>(HashTable<(K, V)>);

impl<K: Key, V: Default> Table<K, V> {
    pub(crate) fn new() -> Self {
        Self(HashTable::new())
    }

    /// The value of a key.
    #[inline(always)]
    pub(crate) fn value(&mut self, key: K) -> &mut V {
        let rehash = |(key, _): &(K, V)| key.hash();
        let entry = self.0.entry(key.hash(), |(known, _)| *known == key, rehash);
        &mut entry.or_insert_with(|| (key, V::default())).into_mut().1
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All keys with their values, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.0.iter().map(|(key, value)| (*key, value))
    }
}

impl<K: Key> Table<K, u64> {
    /// Counts a key.
    #[inline(always)]
    pub(crate) fn count(&mut self, key: K) {
        let hash = key.hash();
        // Not through an entry, which makes room for a key before it is known to be needed.
        match self.0.find_mut(hash, |(known, _)| *known == key) {
            Some((_, count)) => *count += 1,
            None => {
                self.0.insert_unique(hash, (key, 1), |(key, _)| key.hash());
            }
        }
    }
}

impl Table<u64, u64> {
    /// The digest of all counts.
    pub(crate) fn digest(&self) -> u64 {
        self.iter().fold(0, |sum, (key, &count)| sum.wrapping_add(digest(key.hash(), count)))
    }
}

/// Which of some places, threads or containers, a hash belongs to: an even share each.
///
/// By the middle of the hash, as the engine does: a map takes its buckets from the lower end and its
/// tags from the upper, and would be half empty.
#[inline(always)]
pub(crate) fn owner(hash: u64, places: usize) -> usize {
    let middle = hash >> 20 & 0xffff_ffff;
    usize::try_from((middle * places as u64) >> 32).expect("below `places`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_have_even_shares() {
        for places in 1..5 {
            let mut shares = vec![0usize; places];
            (0..10_000u64).for_each(|key| shares[owner(key.hash(), places)] += 1);
            let even = 10_000 / places;
            assert!(shares.iter().all(|share| share.abs_diff(even) < even / 10), "{shares:?}");
        }
    }
}
