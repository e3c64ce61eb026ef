//! Instances of one prototype in one container, by key.
//!
//! The map is given the hash that the batch brought, so an event is hashed once in its life. An entry is
//! the key, the state and, where the prototype has a trigger, its pulse: eight bytes for a number,
//! sixteen for any other key. Growing hashes again from the key, which costs less than eight bytes an
//! instance for keeping the hash.

use hashbrown::HashTable;
use routing::{Key, Packed};

/// One instance.
#[derive(Debug)]
pub(crate) struct Instance<P, K, M> {
    /// What it is filed under.
    pub(crate) key: K,
    /// The state.
    pub(crate) pe: P,
    /// Where its trigger stands.
    pub(crate) pulse: M,
}

/// Marks the place of a key that is kept. The places of keys in a batch are row numbers, far below, so
/// a long key of a batch never equals a kept one without its bytes being compared.
const KEPT: u32 = 1 << 31;

fn index(key: Packed) -> usize {
    (key.place() & !KEPT) as usize
}

/// All instances of a prototype in a container.
#[derive(Debug)]
pub(crate) struct Instances<P, K, M> {
    table: HashTable<Instance<P, K, M>>,
    /// The bytes of long keys; their instances say which. A removed one leaves its place free.
    long: Vec<Option<Box<[u8]>>>,
    free: Vec<u32>,
}

impl<P, K, M> Default for Instances<P, K, M> {
    fn default() -> Self {
        Self { table: HashTable::new(), long: Vec::new(), free: Vec::new() }
    }
}

impl<P, K: Key, M: Default> Instances<P, K, M> {
    /// Makes room, so that positions stay valid while `more` keys are added.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, more: usize) {
        self.table.reserve(more, |instance| instance.key.hash());
    }

    /// Where the instance of a short key is.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, key: K) -> Option<usize> {
        self.table.find_bucket_index(hash, |instance| instance.key == key)
    }

    /// The instance at a position that was found since the last growth; `None` if it was removed.
    #[inline(always)]
    pub(crate) fn at(&mut self, position: usize) -> Option<&mut Instance<P, K, M>> {
        self.table.get_bucket_mut(position)
    }

    /// Adds an instance whose key is not there; gives its position.
    pub(crate) fn insert(&mut self, hash: u64, key: K, pe: P) -> usize {
        let instance = Instance { key, pe, pulse: M::default() };
        let rehash = |instance: &Instance<P, K, M>| instance.key.hash();
        self.table.insert_unique(hash, instance, rehash).bucket_index()
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// The bytes of all long keys, by place.
    pub(crate) fn long(&self) -> &[Option<Box<[u8]>>] {
        &self.long
    }

    /// The keys of all instances that a condition holds for.
    pub(crate) fn keys(&self, is_wanted: impl Fn(K) -> bool) -> Vec<K> {
        self.table.iter().map(|instance| instance.key).filter(|&key| is_wanted(key)).collect()
    }
}

impl<P, M: Default> Instances<P, Packed, M> {
    /// Where the instance of a long key is.
    #[cold]
    pub(crate) fn find_long(&self, key: Packed, bytes: &[u8]) -> Option<usize> {
        self.table.find_bucket_index(key.hash(), |instance| {
            let known = instance.key;
            known.is_long()
                && known.same_hash(key)
                && self.long[index(known)].as_deref() == Some(bytes)
        })
    }

    /// Keeps the bytes of a long key; gives the key that says where.
    pub(crate) fn keep_long(&mut self, key: Packed, bytes: &[u8]) -> Packed {
        let kept = Some(bytes.to_vec().into_boxed_slice());
        let place = match self.free.pop() {
            Some(place) => {
                self.long[place as usize] = kept;
                place
            }
            None => {
                self.long.push(kept);
                u32::try_from(self.long.len() - 1).expect("fewer long keys than 2^32")
            }
        };
        key.moved(place | KEPT)
    }
}

/// The canonical bytes of a kept long key.
pub(crate) fn long_bytes(key: Packed, long: &[Option<Box<[u8]>>]) -> &[u8] {
    long[index(key)].as_ref().expect("the bytes of a key live as long as its instance")
}

/// What differs between the two forms of a key when an instance goes.
pub(crate) trait Remove<P, K, M> {
    /// Takes an instance out by its own key.
    fn remove(&mut self, key: K) -> Option<Instance<P, K, M>>;
}

impl<P, M: Default> Remove<P, u64, M> for Instances<P, u64, M> {
    fn remove(&mut self, key: u64) -> Option<Instance<P, u64, M>> {
        let entry = self.table.find_entry(key.hash(), |instance| instance.key == key).ok()?;
        Some(entry.remove().0)
    }
}

impl<P, M: Default> Remove<P, Packed, M> for Instances<P, Packed, M> {
    fn remove(&mut self, key: Packed) -> Option<Instance<P, Packed, M>> {
        // A kept long key is equal to itself alone: its place is its own.
        let entry = self.table.find_entry(key.hash(), |instance| instance.key == key).ok()?;
        let (instance, _) = entry.remove();
        if key.is_long() {
            self.long[index(key)] = None;
            self.free.push(key.place() & !KEPT);
        }
        Some(instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_key_is_compared_by_its_bytes_and_gives_its_place_back() {
        let mut instances = Instances::<u8, Packed, ()>::default();
        let bytes = [b"a key of more than fifteen bytes".to_vec(), vec![7; 40]];
        for (n, bytes) in (0..).zip(&bytes) {
            let packed = Packed::new(bytes, 99);
            assert_eq!(instances.find_long(packed, bytes), None);
            let kept = instances.keep_long(packed, bytes);
            instances.insert(kept.hash(), kept, n);
        }
        // The same hash with other bytes is another key.
        assert_eq!(instances.find_long(Packed::new(&bytes[0], 0), &bytes[1]), None);
        let position = instances.find_long(Packed::new(&bytes[0], 5), &bytes[0]).unwrap();
        let key = instances.at(position).unwrap().key;
        assert_eq!(instances.remove(key).unwrap().pe, 0);
        assert!(instances.remove(key).is_none());
        assert_eq!(index(instances.keep_long(key, &bytes[0])), 0, "the place is used again");
        assert_eq!(instances.len(), 1);
    }
}
