//! A host of keyed instances that knows which of them were touched.
//!
//! A touched instance is marked by a bit at its position and listed once, so that an event costs a test of a bit
//! and not a look-up, and nothing is kept for instances at rest but the bit.

use bytes::Bytes;
use hashbrown::HashTable;
use routing::{Batch, Columns, Frame, FrameHeader, Key, KeyFields, Packed, codec};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::log::{CHUNK_TARGET, DELTAS, INPUTS, Log, Record, records};
use crate::{Hit, Way};

/// The state of an instance.
pub(crate) trait State: Default + PartialEq + Serialize + DeserializeOwned {
    /// Its size, for the table.
    const NAME: &'static str;
    /// By how much there have to be fewer keys, for the memory.
    const FEWER_KEYS: u32 = 1;
    /// Handles an event.
    fn on(&mut self, by: u64);
}

/// A small state.
#[derive(Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Count(u64);

impl State for Count {
    const NAME: &'static str = "8 B";

    #[inline(always)]
    fn on(&mut self, by: u64) {
        self.0 += by;
    }
}

/// A larger state, of which an event changes a part.
#[derive(Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wide([u64; 8]);

impl State for Wide {
    const NAME: &'static str = "64 B";

    #[inline(always)]
    fn on(&mut self, by: u64) {
        self.0[(by & 7) as usize] += by;
    }
}

/// A large state, of which an event changes a small part.
#[derive(Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Large([[u64; 32]; 4]);

impl State for Large {
    const NAME: &'static str = "1 KiB";
    const FEWER_KEYS: u32 = 10;

    #[inline(always)]
    fn on(&mut self, by: u64) {
        self.0[(by & 3) as usize][(by >> 2 & 31) as usize] += by;
    }
}

/// Instances that are found before the first of them is read or written: the processor waits for them at once.
const GROUP: usize = 32;

/// Instances by key.
#[derive(Default)]
pub(crate) struct Host<S> {
    /// Positions, by key.
    index: HashTable<u32>,
    /// Keys and states in the order in which they were made.
    all: Vec<(Packed, S)>,
    /// A bit for each position that is among the touched.
    marks: Vec<u64>,
    /// The positions of those that are marked.
    touched: Vec<u32>,
}

impl<S: State> Host<S> {
    /// Handles a batch, and marks what it touches or does not.
    pub(crate) fn deliver<const MARKS: bool>(&mut self, batch: &Batch<Hit>) {
        for (row, (&key, &hash)) in batch.keys.iter().zip(&batch.hashes).enumerate() {
            let position = match self.find(key, hash) {
                Some(position) => position,
                None => self.insert(key, hash, S::default()),
            };
            if MARKS {
                self.mark(position);
            }
            self.all[position].1.on(batch.columns.get(row).by);
        }
    }

    /// Logs what was touched since the last commit, where that is done at commits.
    pub(crate) fn commit(&mut self, way: Way, log: &mut Log) {
        if way == Way::EachCommit {
            self.write(log);
        }
    }

    /// Logs what was touched.
    pub(crate) fn write(&mut self, log: &mut Log) {
        let Self { all, marks, touched, .. } = self;
        let mut groups = touched.chunks(GROUP).peekable();
        let mut keys = [Packed::default(); GROUP];
        while groups.peek().is_some() {
            log.deltas(|bytes| {
                let end = bytes.len() + CHUNK_TARGET;
                while let Some(group) = groups.next_if(|_| bytes.len() < end) {
                    for (key, &position) in keys.iter_mut().zip(group) {
                        *key = all[position as usize].0;
                    }
                    for (key, &position) in keys.iter().zip(group) {
                        let state = &all[position as usize].1;
                        Record::write(&key.block()[..key.short_len()], state, bytes);
                        // With others that are listed as well.
                        marks[position as usize / 64] = 0;
                    }
                }
            });
        }
        touched.clear();
    }

    /// Reads a log from its first frame to its last, or the other way: then an instance that is there is newer
    /// than what is read of it, which need not be decoded.
    pub(crate) fn rebuild(frames: &[Bytes], is_newest_first: bool) -> Self {
        let mut host = Self::default();
        let mut batch = Batch::default();
        for at in 0..frames.len() {
            let at = if is_newest_first { frames.len() - 1 - at } else { at };
            let header = frames[at].first_chunk().expect("it has a header");
            let header = FrameHeader::parse(header).expect("it was sealed");
            let frame = Frame::new(header, frames[at].slice(FrameHeader::LEN..));
            let parts = frame.expect("it is whole").map(|part| part.expect("it was built"));
            if is_newest_first {
                let parts: Vec<_> = parts.collect();
                parts.iter().rev().for_each(|(_, body)| host.take(body, true));
            } else {
                parts.for_each(|(header, body)| match header.edge {
                    INPUTS => host.again(&mut batch, header.rows as usize, &body),
                    DELTAS => host.take(&body, false),
                    edge => unreachable!("no part is of kind {edge}"),
                });
            }
        }
        host
    }

    /// Handles logged events again.
    fn again(&mut self, batch: &mut Batch<Hit>, rows: usize, body: &[u8]) {
        batch.clear();
        batch.decode(rows, false, body).expect("it was encoded");
        batch.hash(&KeyFields(vec![0]));
        self.deliver::<false>(batch);
    }

    /// Takes states, in a part that has each instance once: all of them, or those of instances that are not there.
    fn take(&mut self, body: &[u8], is_older: bool) {
        let (mut records, mut group) = (records(body), Vec::with_capacity(GROUP));
        loop {
            group.clear();
            group.extend(records.by_ref().take(GROUP).map(|Record { key, state }| {
                let key = Packed::new(key, 0);
                (key, self.find(key, key.hash()), state)
            }));
            for &(key, found, state) in &group {
                let decoded = || codec::decode(state).expect("it was encoded");
                match found {
                    Some(position) if !is_older => self.all[position].1 = decoded(),
                    Some(_) => {}
                    None => _ = self.insert(key, key.hash(), decoded()),
                }
            }
            if group.is_empty() {
                return;
            }
        }
    }

    #[inline(always)]
    fn find(&self, key: Packed, hash: u64) -> Option<usize> {
        let is_it = |&position: &u32| self.all[position as usize].0 == key;
        self.index.find(hash, is_it).map(|&position| position as usize)
    }

    fn insert(&mut self, key: Packed, hash: u64, state: S) -> usize {
        let Self { index, all, marks, .. } = self;
        let position = all.len();
        all.push((key, state));
        marks.resize(position / 64 + 1, 0);
        let place = u32::try_from(position).expect("a million");
        index.insert_unique(hash, place, |&place| all[place as usize].0.hash());
        position
    }

    #[inline(always)]
    fn mark(&mut self, position: usize) {
        let (word, bit) = (&mut self.marks[position / 64], 1 << (position % 64));
        if *word & bit == 0 {
            *word |= bit;
            self.touched.push(u32::try_from(position).expect("a million"));
        }
    }
}

/// The same keys with the same states, in whatever order.
impl<S: State> PartialEq for Host<S> {
    fn eq(&self, other: &Self) -> bool {
        self.all.len() == other.all.len()
            && self.all.iter().all(|(key, state)| {
                let position = other.find(*key, key.hash());
                position.is_some_and(|position| other.all[position].1 == *state)
            })
    }
}
