//! A map from keys to values for whoever is not the engine.
//!
//! All models count in the same map with the same hash, so that what differs between them is how an
//! event gets there. It is looked up key by key in a plain loop: a processor runs ahead of a miss by
//! itself, and looking up a group of keys before the first value is touched costs more here than it
//! saves.

use hashbrown::HashTable;
use routing::Key;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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

    /// Forgets a key.
    pub(crate) fn remove(&mut self, key: K) {
        if let Ok(entry) = self.0.find_entry(key.hash(), |(known, _)| *known == key) {
            entry.remove();
        }
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

impl<K: Key, V: Default> Default for Table<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

/// All keys with their values, as a sequence of pairs.
impl<V: Serialize> Serialize for Table<u64, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter())
    }
}

impl<'de, V: Default + Deserialize<'de>> Deserialize<'de> for Table<u64, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut table = Self::new();
        for (key, value) in Vec::<(u64, V)>::deserialize(deserializer)? {
            *table.value(key) = value;
        }
        Ok(table)
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
    fn a_table_is_the_same_behind_serde_and_forgets_what_it_is_told_to() {
        let mut table: Table<u64, u64> = Table::new();
        (0..1_000u64).for_each(|key| *table.value(key % 300) += key);
        table.remove(7);
        table.remove(7);
        assert_eq!((table.len(), *table.value(8)), (299, 8 + 308 + 608 + 908));
        let text = serde_json::to_string(&table).unwrap();
        let moved: Table<u64, u64> = serde_json::from_str(&text).unwrap();
        assert_eq!((moved.len(), moved.digest()), (299, table.digest()));
    }

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
