//! Instances that came with their unit and that no event has asked for yet.
//!
//! A node that takes over from replicas may get a million instances at once, and is waited for until it has them. Most
//! of them may not be asked for before long. So they stay what they are in a replica, bytes, and each becomes an
//! instance by its first event (S4 called it lazy recovery; Neumeyer et al., S4, 2010, has checkpoints that are read
//! so). Whether the bytes can be read is known only then: those that cannot stay as they are, and their events fail.
//!
//! They lie on shelves, by some bits of the hash of their keys, one behind the other as they came. A shelf finds out
//! where its keys are when it is first asked for one, so nobody waits for all of them, and it goes when all of its keys
//! have gone. Nothing on a shelf is moved: whoever writes them down goes on by the place where it stopped.

use hashbrown::HashTable;

/// A thousandth of a million keys is indexed in some tens of microseconds.
const SHELVES: usize = 1024;

/// Before a key: its hash, and how long it and its state are.
const HEAD: usize = 16;

/// What has come and is not an instance yet.
#[derive(Debug, Default)]
pub(crate) struct Dormant {
    /// Without any, nothing is dormant.
    shelves: Vec<Shelf>,
    len: usize,
}

#[derive(Debug, Default)]
struct Shelf {
    /// Bytes that were here and went, so that a mark never stands within an entry.
    gone: usize,
    bytes: Vec<u8>,
    /// Where the entries are that still count; all of them, if it was not asked yet.
    index: Option<HashTable<usize>>,
    len: usize,
}

/// An instance as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sleeper<'d> {
    /// The hash of its key.
    pub(crate) hash: u64,
    /// Its canonical key.
    pub(crate) key: &'d [u8],
    /// Its state.
    pub(crate) state: &'d [u8],
}

/// How far somebody has written them down. The first is the start.
pub(crate) type Mark = (usize, usize);

fn shelf_of(hash: u64) -> usize {
    // Other bits than those that say which slot it is, of which a node has some.
    (hash >> 24) as usize % SHELVES
}

/// The entry at a place, and where the next one is.
fn entry(bytes: &[u8], at: usize) -> (Sleeper<'_>, usize) {
    let number = |from: usize| {
        let four = bytes[at + from..at + from + 4].try_into().expect("four bytes");
        u32::from_le_bytes(four) as usize
    };
    let hash = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let (key, state) = (at + HEAD, at + HEAD + number(8));
    let end = state + number(12);
    (Sleeper { hash, key: &bytes[key..state], state: &bytes[state..end] }, end)
}

impl Shelf {
    fn put(&mut self, sleeper: Sleeper<'_>) {
        let Sleeper { hash, key, state } = sleeper;
        let at = self.bytes.len();
        let length =
            |bytes: &[u8]| u32::try_from(bytes.len()).expect("keys and states are limited");
        self.bytes.extend_from_slice(&hash.to_le_bytes());
        self.bytes.extend_from_slice(&length(key).to_le_bytes());
        self.bytes.extend_from_slice(&length(state).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(state);
        self.len += 1;
        let Self { bytes, index, len, gone: _ } = self;
        if let Some(index) = index {
            *len -= usize::from(file(index, bytes, at));
        }
    }

    /// Where its entries are, from now on.
    fn index(&mut self) -> (&mut HashTable<usize>, &[u8]) {
        let Self { bytes, index, len, gone: _ } = self;
        let index = index.get_or_insert_with(|| {
            let mut all = HashTable::with_capacity(*len);
            let mut at = 0;
            while at < bytes.len() {
                file(&mut all, bytes, at);
                at = entry(bytes, at).1;
            }
            all
        });
        *len = index.len();
        (index, bytes)
    }

    /// Whether the entry at a place still counts.
    fn counts(&self, at: usize, hash: u64) -> bool {
        self.index.as_ref().is_none_or(|index| index.find(hash, |known| *known == at).is_some())
    }
}

/// Notes where an entry is; whether it takes the place of another.
fn file(index: &mut HashTable<usize>, bytes: &[u8], at: usize) -> bool {
    let Sleeper { hash, key, .. } = entry(bytes, at).0;
    match index.find_mut(hash, |known| is_key(bytes, *known, hash, key)) {
        Some(known) => {
            *known = at;
            true
        }
        None => {
            index.insert_unique(hash, at, |known| entry(bytes, *known).0.hash);
            false
        }
    }
}

fn is_key(bytes: &[u8], at: usize, hash: u64, key: &[u8]) -> bool {
    let known = entry(bytes, at).0;
    known.hash == hash && known.key == key
}

impl Dormant {
    /// Whether there are none; asked for each event that finds no instance.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many there are. One that came twice counts twice until its shelf has been asked.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds one, in the place of what there is of the key.
    pub(crate) fn put(&mut self, sleeper: Sleeper<'_>) {
        if self.shelves.is_empty() {
            self.shelves.resize_with(SHELVES, Shelf::default);
        }
        self.change(shelf_of(sleeper.hash), |shelf| shelf.put(sleeper));
    }

    /// Changes a shelf, and drops it if nothing on it counts any more.
    fn change<R>(&mut self, shelf: usize, change: impl FnOnce(&mut Shelf) -> R) -> R {
        let shelf = &mut self.shelves[shelf];
        let before = shelf.len;
        let result = change(shelf);
        self.len = self.len + shelf.len - before;
        if shelf.len == 0 {
            *shelf = Shelf { gone: shelf.gone + shelf.bytes.len(), ..Shelf::default() };
        }
        result
    }

    /// Where the entries of the shelf of a hash are.
    fn asked(&mut self, hash: u64) -> (&HashTable<usize>, &[u8]) {
        let shelf = &mut self.shelves[shelf_of(hash)];
        let before = shelf.len;
        let (index, bytes) = shelf.index();
        self.len = self.len + index.len() - before;
        (index, bytes)
    }

    /// The state of a key.
    pub(crate) fn state(&mut self, hash: u64, key: &[u8]) -> Option<&[u8]> {
        if self.is_empty() {
            return None;
        }
        let (index, bytes) = self.asked(hash);
        let at = *index.find(hash, |known| is_key(bytes, *known, hash, key))?;
        Some(entry(bytes, at).0.state)
    }

    /// All of a hash.
    pub(crate) fn of_hash(&mut self, hash: u64) -> Vec<Sleeper<'_>> {
        if self.is_empty() {
            return Vec::new();
        }
        let (index, bytes) = self.asked(hash);
        let all = index.iter_hash(hash).map(|at| entry(bytes, *at).0);
        all.filter(|sleeper| sleeper.hash == hash).collect()
    }

    /// Takes out what there is of a key.
    pub(crate) fn remove(&mut self, hash: u64, key: &[u8]) {
        self.take_out(hash, |sleeper| sleeper.key == key);
    }

    /// Takes out all of a hash.
    pub(crate) fn remove_hash(&mut self, hash: u64) {
        self.take_out(hash, |_| true);
    }

    fn take_out(&mut self, hash: u64, is_meant: impl Fn(Sleeper<'_>) -> bool) {
        if self.is_empty() {
            return;
        }
        self.change(shelf_of(hash), |shelf| {
            let (index, bytes) = shelf.index();
            let is_it = |at: usize| {
                let known = entry(bytes, at).0;
                known.hash == hash && is_meant(known)
            };
            while let Ok(found) = index.find_entry(hash, |at| is_it(*at)) {
                found.remove();
            }
            shelf.index();
        });
    }

    /// Takes out what a condition does not hold for, from a shelf on; gives the shelf to go on with, unless that was the
    /// last.
    pub(crate) fn retain(
        &mut self,
        from: usize,
        shelves: usize,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Option<usize> {
        let end = from.saturating_add(shelves).min(self.shelves.len());
        for shelf in from..end {
            self.change(shelf, |shelf| {
                let (index, bytes) = shelf.index();
                index.retain(|at| is_wanted(entry(bytes, *at).0.hash));
                shelf.index();
            });
        }
        (end < self.shelves.len()).then_some(end)
    }

    /// The next one behind a mark, and the mark behind it.
    pub(crate) fn next(&self, mut mark: Mark) -> Option<(Sleeper<'_>, Mark)> {
        while let Some(shelf) = self.shelves.get(mark.0) {
            let mut at = mark.1.saturating_sub(shelf.gone);
            while at < shelf.bytes.len() {
                let (sleeper, end) = entry(&shelf.bytes, at);
                if shelf.counts(at, sleeper.hash) {
                    return Some((sleeper, (mark.0, shelf.gone + end)));
                }
                at = end;
            }
            mark = (mark.0 + 1, 0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Few hashes, on two shelves, and for each of them two keys.
    fn key(number: u64) -> (u64, Vec<u8>) {
        ((number / 2) << 23, vec![0; usize::try_from(number).unwrap()])
    }

    proptest! {
        /// It is a map, whenever it is asked; what is written down in pieces is all that was there all along.
        #[test]
        fn it_gives_what_was_put_in_last(
            steps in prop::collection::vec((0u8..9, 0u64..8, any::<u64>()), 0..60), read in 0usize..60,
        ) {
            let (mut dormant, mut model) = (Dormant::default(), BTreeMap::new());
            let (mut mark, mut written, mut stays) = (None, BTreeMap::new(), BTreeMap::new());
            for (nth, (what, number, value)) in steps.into_iter().enumerate() {
                let (hash, key) = key(number);
                let state = value.to_le_bytes();
                match what {
                    0..5 => {
                        dormant.put(Sleeper { hash, key: &key, state: &state });
                        stays.remove(&(hash, key.clone()));
                        model.insert((hash, key), state);
                    }
                    5 => {
                        let known = model.get(&(hash, key.clone()));
                        prop_assert_eq!(dormant.state(hash, &key), known.map(|state| &state[..]));
                    }
                    6 => {
                        dormant.remove(hash, &key);
                        model.remove(&(hash, key.clone()));
                        stays.remove(&(hash, key));
                    }
                    7 => {
                        dormant.remove_hash(hash);
                        model.retain(|(known, _), _| *known != hash);
                        stays.retain(|(known, _), _| *known != hash);
                    }
                    8 => {
                        prop_assert_eq!(dormant.retain(0, SHELVES, |known| known != hash), None);
                        model.retain(|(known, _), _| *known != hash);
                        stays.retain(|(known, _), _| *known != hash);
                    }
                    _ => {}
                }
                let of_hash: BTreeMap<_, _> = dormant
                    .of_hash(hash)
                    .into_iter()
                    .map(|sleeper| ((sleeper.hash, sleeper.key.to_vec()), sleeper.state.to_vec()))
                    .collect();
                let known = model.iter().filter(|((known, _), _)| *known == hash);
                let known: BTreeMap<_, _> =
                    known.map(|(key, state)| (key.clone(), state.to_vec())).collect();
                prop_assert_eq!(of_hash, known);
                if nth == read {
                    mark = Some((0, 0));
                    stays = model.clone();
                }
                if let Some(at) = mark
                    && let Some((sleeper, next)) = dormant.next(at)
                {
                    written.insert((sleeper.hash, sleeper.key.to_vec()), sleeper.state.to_vec());
                    mark = Some(next);
                }
            }
            while let Some((sleeper, next)) = mark.and_then(|at| dormant.next(at)) {
                written.insert((sleeper.hash, sleeper.key.to_vec()), sleeper.state.to_vec());
                mark = Some(next);
            }
            if mark.is_some() {
                for (key, state) in stays {
                    prop_assert_eq!(written.get(&key).map(|state| &state[..]), Some(&state[..]));
                }
            }
            (0..8).map(key).for_each(|(hash, _)| drop(dormant.of_hash(hash)));
            prop_assert_eq!(dormant.len(), model.len());
            prop_assert_eq!(dormant.is_empty(), model.is_empty());
        }
    }
}
