//! Instances of one prototype in one container, by key.
//!
//! They lie one behind the other in the order in which they were made, and an [`Index`] says where. The
//! frequent keys of a skewed stream come early, so they lie close together and stay in the cache; a map
//! would strew them over all of its memory. The index is given the hash that the batch brought, so an
//! event is hashed once in its life. An instance is its key, its state and, where the prototype has a
//! trigger, its pulse: eight bytes for a key of one number, sixteen for any other, and eight to sixteen
//! for its share of the index.

mod changes;
mod copying;
mod dormant;
mod index;
mod marks;

use routing::{Key, Packed};

use self::changes::Changes;
pub(crate) use self::copying::Copying;
pub(crate) use self::dormant::{Dormant, Mark, Sleeper};
pub(crate) use self::index::Hint;
use self::index::Index;
use self::marks::Marks;

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
    index: Index,
    /// Without gaps: where one is removed, the last takes its position.
    all: Vec<Instance<P, K, M>>,
    /// The bytes of long keys; their instances say which. A removed one leaves its place free.
    long: Vec<Option<Box<[u8]>>>,
    free: Vec<u32>,
    /// The copies that are being made.
    pub(crate) copies: Vec<Copying>,
    /// What has changed since it was committed.
    pub(crate) changes: Changes,
    /// What was used of late.
    pub(crate) marks: Marks,
}

impl<P, K, M> Default for Instances<P, K, M> {
    fn default() -> Self {
        Self {
            index: Index::default(),
            all: Vec::new(),
            long: Vec::new(),
            free: Vec::new(),
            copies: Vec::new(),
            changes: Changes::default(),
            marks: Marks::default(),
        }
    }
}

impl<P, K: Key, M: Default> Instances<P, K, M> {
    /// Where the instance of a key most likely is; costs a load, and no branch.
    #[inline(always)]
    pub(crate) fn hint(&self, hash: u64) -> Hint {
        self.index.hint(hash)
    }

    /// The instance of a short key, if it is where a hint says.
    #[inline(always)]
    pub(crate) fn probable(&mut self, hint: Hint, key: K) -> Option<&mut Instance<P, K, M>> {
        self.all.get_mut(hint.position()).filter(|instance| instance.key == key)
    }

    /// Where the instance of a short key is.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: K) -> Option<usize> {
        self.index.find(hash, |position| self.all[position].key == key)
    }

    /// The instance at a position that was found since the last removal.
    #[inline(always)]
    pub(crate) fn at(&mut self, position: usize) -> &mut Instance<P, K, M> {
        &mut self.all[position]
    }

    /// Adds an instance whose key is not there; gives its position.
    pub(crate) fn insert(&mut self, hash: u64, key: K, pe: P) -> usize {
        let position = self.all.len();
        self.all.push(Instance { key, pe, pulse: M::default() });
        self.marks.added();
        self.index.insert(hash, position, |at| self.all[at].key.hash());
        position
    }

    /// Takes out what is filed under a key.
    fn take(&mut self, key: K) -> Option<Instance<P, K, M>> {
        let position = self.find(key.hash(), key)?;
        self.index.remove(key.hash(), position, |at| self.all[at].key.hash());
        let removed = self.all.swap_remove(position);
        self.marks.removed(position);
        let from = self.all.len();
        self.changes.removed(key.hash(), from, position);
        if let Some(moved) = self.all.get(position) {
            let hash = moved.key.hash();
            self.index.moved(hash, from, position);
            self.copies.iter_mut().for_each(|copy| copy.moved(hash, from, position));
        }
        self.note(key.hash());
        Some(removed)
    }

    /// The key of an instance that was not used of late, among those that a condition holds for.
    pub(crate) fn unused(&mut self, may_go: impl Fn(K) -> bool) -> Option<K> {
        let Self { marks, all, .. } = self;
        marks.victim(|position| may_go(all[position].key)).map(|position| all[position].key)
    }

    /// The instances with a hash are not what they were.
    pub(crate) fn note(&mut self, hash: u64) {
        self.copies.iter_mut().for_each(|copy| copy.note(hash));
    }

    /// The positions of all instances with a hash.
    pub(crate) fn positions(&self, hash: u64) -> Vec<usize> {
        let mut positions = Vec::new();
        self.index.find(hash, |position| {
            if self.all[position].key.hash() == hash {
                positions.push(position);
            }
            false
        });
        positions
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// The bytes of all long keys, by place.
    pub(crate) fn long(&self) -> &[Option<Box<[u8]>>] {
        &self.long
    }

    /// The keys of all instances that a condition holds for, the newest first: removed in this order,
    /// they leave no gap for others to move into.
    pub(crate) fn keys(&self, is_wanted: impl Fn(K) -> bool) -> Vec<K> {
        let keys = self.all.iter().rev().map(|instance| instance.key);
        keys.filter(|&key| is_wanted(key)).collect()
    }
}

impl<P, M: Default> Instances<P, Packed, M> {
    /// Where the instance of a long key is.
    #[cold]
    pub(crate) fn find_long(&self, key: Packed, bytes: &[u8]) -> Option<usize> {
        self.index.find(key.hash(), |position| {
            let known = self.all[position].key;
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
        self.take(key)
    }
}

impl<P, M: Default> Remove<P, Packed, M> for Instances<P, Packed, M> {
    fn remove(&mut self, key: Packed) -> Option<Instance<P, Packed, M>> {
        // A kept long key is equal to itself alone: its place is its own.
        let instance = self.take(key)?;
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
        let key = instances.at(position).key;
        assert_eq!(instances.remove(key).unwrap().pe, 0);
        assert!(instances.remove(key).is_none());
        assert_eq!(index(instances.keep_long(key, &bytes[0])), 0, "the place is used again");
        assert_eq!(instances.len(), 1);
    }
}
