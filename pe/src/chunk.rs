//! Chunks: instances on their way to another container.
//!
//! A chunk is a checksum and records, one behind the other. A record is an instance with its state, or
//! says that one is gone; later records of an instance replace earlier ones. A key that is gone is known
//! by its hash alone: so what changed is remembered by hash, and all keys of the hash are written anew
//! behind it. What comes from another node is read before anything is trusted: a length that it claims is
//! compared with what is there, and nothing is allocated by it.

use std::collections::{BTreeMap, BTreeSet};

use membership::Time;
use routing::{Slot, codec};
use serde::Serialize;
use xxhash_rust::xxh3::xxh3_64;

use crate::Unit;
use crate::host::contain;
use crate::instances::Sleeper;

/// A chunk is closed when it has this many bytes: so much is written between two other inputs.
const CHUNK_TARGET: usize = 64 << 10;

/// The most instances that are looked at for one chunk, whether or not they are among those that go.
const VISITS_MAX: usize = 16 << 10;

/// Bytes of the checksum.
const CHECKSUM: usize = 8;

const KEYED: u8 = 0;
const KEY_GONE: u8 = 1;
const TASK: u8 = 2;
const TASK_GONE: u8 = 3;
const UNWRITABLE: u8 = 4;

/// Why bytes were not a chunk; nothing of it was staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChunkError {
    /// It is not what was written.
    #[error("the checksum of a chunk is wrong")]
    Checksum,
    /// A record ends behind the end.
    #[error("a record ends behind the end of its chunk")]
    Overrun,
    /// A record is of a kind that there is not.
    #[error("a record of kind {0}")]
    Kind(u8),
}

/// Collects records.
#[derive(Debug)]
pub(crate) struct ChunkWriter {
    bytes: Vec<u8>,
    visits: usize,
    place: (u16, u16),
    now: Time,
}

impl ChunkWriter {
    /// Nothing yet.
    pub(crate) fn new(now: Time) -> Self {
        Self { bytes: vec![0; CHECKSUM], visits: 0, place: (0, 0), now }
    }

    /// When it is written.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// What follows is of a prototype.
    pub(crate) fn set_place(&mut self, topology: u16, prototype: usize) {
        let prototype = u16::try_from(prototype).expect("a plan has at most 1,024 prototypes");
        self.place = (topology, prototype);
    }

    /// Counts an instance that was looked at; `false` when there were enough, or the chunk is full.
    pub(crate) fn has_room(&mut self) -> bool {
        self.visits += 1;
        self.visits <= VISITS_MAX && self.bytes.len() < CHUNK_TARGET
    }

    /// Adds a keyed instance: its canonical key, the count of its trigger and its state.
    pub(crate) fn keyed(&mut self, key: &[u8], events: u32, state: &impl Serialize) {
        let start = self.bytes.len();
        self.begin(KEYED);
        self.length(key.len());
        self.bytes.extend_from_slice(key);
        self.state(start, events, state);
    }

    /// Adds a keyed instance whose state was written before.
    pub(crate) fn dormant(&mut self, sleeper: Sleeper<'_>) {
        self.begin(KEYED);
        self.length(sleeper.key.len());
        self.bytes.extend_from_slice(sleeper.key);
        self.bytes.extend_from_slice(&0u32.to_le_bytes());
        self.length(sleeper.state.len());
        self.bytes.extend_from_slice(sleeper.state);
    }

    /// All keys of a hash are gone.
    pub(crate) fn key_gone(&mut self, hash: u64) {
        self.begin(KEY_GONE);
        self.bytes.extend_from_slice(&hash.to_le_bytes());
    }

    /// Adds a numbered instance.
    pub(crate) fn task(&mut self, task: u32, events: u32, state: &impl Serialize) {
        let start = self.bytes.len();
        self.begin(TASK);
        self.bytes.extend_from_slice(&task.to_le_bytes());
        self.state(start, events, state);
    }

    /// A numbered instance is gone.
    pub(crate) fn task_gone(&mut self, task: u32) {
        self.begin(TASK_GONE);
        self.bytes.extend_from_slice(&task.to_le_bytes());
    }

    /// Bytes of records so far.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - CHECKSUM
    }

    /// The chunk.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let checksum = xxh3_64(&self.bytes[CHECKSUM..]);
        self.bytes[..CHECKSUM].copy_from_slice(&checksum.to_le_bytes());
        self.bytes
    }

    fn begin(&mut self, kind: u8) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&self.place.0.to_le_bytes());
        self.bytes.extend_from_slice(&self.place.1.to_le_bytes());
    }

    fn length(&mut self, len: usize) {
        let len = u32::try_from(len).expect("keys and states are limited");
        self.bytes.extend_from_slice(&len.to_le_bytes());
    }

    /// Ends a record with a state. One that cannot be written is said to be so: whoever reads that
    /// refuses the handoff, and the instance stays what and where it is.
    fn state(&mut self, start: usize, events: u32, state: &impl Serialize) {
        self.bytes.extend_from_slice(&events.to_le_bytes());
        let length_at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        let bytes = &mut self.bytes;
        // Serializing is application code.
        match contain(|| codec::encode(state, bytes)) {
            Ok(Ok(())) => {
                let len = u32::try_from(self.bytes.len() - length_at - 4).expect("limited");
                self.bytes[length_at..length_at + 4].copy_from_slice(&len.to_le_bytes());
            }
            Ok(Err(_)) | Err(_) => {
                self.bytes.truncate(start);
                self.begin(UNWRITABLE);
            }
        }
    }
}

/// So many bytes of a commit go in one message: far less than a frame may have.
const PART_TARGET: usize = 1 << 20;

/// Collects what has changed, for those who keep replicas of it.
#[derive(Debug)]
pub(crate) struct CommitWriter {
    now: Time,
    routes: ReplicaRoutes,
    place: (u16, usize),
    /// By replica: what is being filled, and what is full.
    chunks: Vec<(ChunkWriter, Vec<Vec<u8>>)>,
    touched: BTreeSet<Unit>,
    touched_slots: Vec<bool>,
}

/// Which replicas there are of each unit that is here.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplicaRoutes {
    /// By slot, and of numbered instances: the group.
    slots: Vec<u16>,
    tasks: BTreeMap<Unit, u16>,
    /// Distinct sets of replicas.
    groups: Vec<Vec<usize>>,
}

impl ReplicaRoutes {
    /// No replicas.
    pub(crate) fn new(slots: usize) -> Self {
        Self { slots: vec![u16::MAX; slots], tasks: BTreeMap::new(), groups: Vec::new() }
    }

    /// A unit has replicas, each once and in order.
    pub(crate) fn add(&mut self, unit: Unit, replicas: Vec<usize>) {
        let known = self.groups.iter().position(|group| *group == replicas);
        let group = known.unwrap_or_else(|| {
            self.groups.push(replicas);
            self.groups.len() - 1
        });
        let group = u16::try_from(group).expect("there are fewer sets than units");
        match unit {
            Unit::Slot(slot) => self.slots[usize::from(slot)] = group,
            Unit::Task { .. } => {
                self.tasks.insert(unit, group);
            }
        }
    }
}

impl CommitWriter {
    /// Nothing yet, for so many replicas.
    pub(crate) fn new(now: Time, replicas: usize, routes: ReplicaRoutes) -> Self {
        let chunks = (0..replicas).map(|_| (ChunkWriter::new(now), Vec::new())).collect();
        let touched_slots = vec![false; routes.slots.len()];
        Self { now, routes, place: (0, 0), chunks, touched: BTreeSet::new(), touched_slots }
    }

    /// When it is written.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// What follows is of a prototype.
    pub(crate) fn set_place(&mut self, topology: u16, prototype: usize) {
        self.place = (topology, prototype);
        self.chunks.iter_mut().for_each(|(chunk, _)| chunk.set_place(topology, prototype));
    }

    /// A keyed instance is as follows.
    pub(crate) fn keyed(&mut self, hash: u64, key: &[u8], events: u32, state: &impl Serialize) {
        let group = self.of_key(hash);
        self.write(group, |chunk| chunk.keyed(key, events, state));
    }

    /// A keyed instance is as it was written before.
    pub(crate) fn dormant(&mut self, sleeper: Sleeper<'_>) {
        let group = self.of_key(sleeper.hash);
        self.write(group, |chunk| chunk.dormant(sleeper));
    }

    /// All keys of a hash are gone.
    pub(crate) fn key_gone(&mut self, hash: u64) {
        let group = self.of_key(hash);
        self.write(group, |chunk| chunk.key_gone(hash));
    }

    /// A numbered instance is as follows.
    pub(crate) fn task(&mut self, task: u32, events: u32, state: &impl Serialize) {
        let group = self.of_task(task);
        self.write(group, |chunk| chunk.task(task, events, state));
    }

    /// A numbered instance is gone.
    pub(crate) fn task_gone(&mut self, task: u32) {
        let group = self.of_task(task);
        self.write(group, |chunk| chunk.task_gone(task));
    }

    /// What each replica is to get, and which units have changed.
    pub(crate) fn finish(self) -> (Vec<Vec<Vec<u8>>>, BTreeSet<Unit>) {
        let chunks = self.chunks.into_iter().map(|(chunk, mut full)| {
            if chunk.len() > 0 {
                full.push(chunk.finish());
            }
            full
        });
        let mut touched = self.touched;
        let slots = (0..).zip(self.touched_slots).filter(|(_, is_touched)| *is_touched);
        touched.extend(slots.map(|(slot, _)| Unit::Slot(slot)));
        (chunks.collect(), touched)
    }

    fn of_key(&mut self, hash: u64) -> u16 {
        let slot = usize::from(Slot::of(hash, self.routes.slots.len()).0);
        let group = self.routes.slots[slot];
        self.touched_slots[slot] |= group != u16::MAX;
        group
    }

    fn of_task(&mut self, task: u32) -> u16 {
        let (topology, prototype) = self.place;
        let prototype = u16::try_from(prototype).expect("a plan has at most 1,024 prototypes");
        let unit = Unit::Task { topology, prototype, task };
        let Some(&group) = self.routes.tasks.get(&unit) else { return u16::MAX };
        self.touched.insert(unit);
        group
    }

    fn write(&mut self, group: u16, write: impl FnOnce(&mut ChunkWriter)) {
        let Some(replicas) = self.routes.groups.get(usize::from(group)) else { return };
        let Some((&first, others)) = replicas.split_first() else { return };
        let start = self.chunks[first].0.bytes.len();
        write(&mut self.chunks[first].0);
        for &other in others {
            let [from, to] = self.chunks.get_disjoint_mut([first, other]).expect("each once");
            to.0.bytes.extend_from_slice(&from.0.bytes[start..]);
        }
        for &replica in replicas {
            let (chunk, full) = &mut self.chunks[replica];
            if chunk.len() >= PART_TARGET {
                let mut next = ChunkWriter::new(self.now);
                next.set_place(self.place.0, self.place.1);
                full.push(std::mem::replace(chunk, next).finish());
            }
        }
    }
}

/// What a chunk says of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'c> {
    /// The topology.
    pub(crate) topology: u16,
    /// The prototype.
    pub(crate) prototype: u16,
    /// What.
    pub(crate) copied: Copied<'c>,
}

/// An instance, or that there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied<'c> {
    /// A keyed instance.
    Keyed {
        /// Its canonical key.
        key: &'c [u8],
        /// Where its trigger stands.
        events: u32,
        /// Its state.
        state: &'c [u8],
    },
    /// No key of this hash is there.
    KeyGone(u64),
    /// A numbered instance.
    Task {
        /// Its number.
        task: u32,
        /// Where its trigger stands.
        events: u32,
        /// Its state.
        state: &'c [u8],
    },
    /// No instance of this number is there.
    TaskGone(u32),
    /// An instance whose state cannot be written.
    Unwritable,
}

/// Reads a chunk; the whole of it is looked at before anything is given.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<Record<'_>>, ChunkError> {
    let (checksum, records) = bytes.split_first_chunk::<CHECKSUM>().ok_or(ChunkError::Overrun)?;
    if u64::from_le_bytes(*checksum) != xxh3_64(records) {
        return Err(ChunkError::Checksum);
    }
    let mut reader = Reader(records);
    let mut read = Vec::new();
    while !reader.0.is_empty() {
        read.push(reader.record()?);
    }
    Ok(read)
}

/// Reads records one by one, from bytes that were checked when they came.
pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = (usize, usize, Record<'_>)> {
    let mut reader = Reader(bytes);
    std::iter::from_fn(move || {
        let start = bytes.len() - reader.0.len();
        let record = reader.record().ok()?;
        Some((start, bytes.len() - reader.0.len(), record))
    })
}

/// A chunk of records that were written before.
pub(crate) fn of_records(records: &[u8]) -> Vec<u8> {
    let mut chunk = xxh3_64(records).to_le_bytes().to_vec();
    chunk.extend_from_slice(records);
    chunk
}

/// The records of a chunk, if it is what was written.
pub(crate) fn checked(chunk: &[u8]) -> Option<&[u8]> {
    let (checksum, records) = chunk.split_first_chunk::<CHECKSUM>()?;
    (u64::from_le_bytes(*checksum) == xxh3_64(records)).then_some(records)
}

struct Reader<'c>(&'c [u8]);

impl<'c> Reader<'c> {
    fn record(&mut self) -> Result<Record<'c>, ChunkError> {
        let [kind] = self.array()?;
        let topology = u16::from_le_bytes(self.array()?);
        let prototype = u16::from_le_bytes(self.array()?);
        let copied = match kind {
            KEYED => {
                Copied::Keyed { key: self.slice()?, events: self.number()?, state: self.slice()? }
            }
            KEY_GONE => Copied::KeyGone(u64::from_le_bytes(self.array()?)),
            TASK => {
                Copied::Task { task: self.number()?, events: self.number()?, state: self.slice()? }
            }
            TASK_GONE => Copied::TaskGone(self.number()?),
            UNWRITABLE => Copied::Unwritable,
            _ => return Err(ChunkError::Kind(kind)),
        };
        Ok(Record { topology, prototype, copied })
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ChunkError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(ChunkError::Overrun)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn number(&mut self) -> Result<u32, ChunkError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn slice(&mut self) -> Result<&'c [u8], ChunkError> {
        let len = self.number()? as usize;
        let (taken, rest) = self.0.split_at_checked(len).ok_or(ChunkError::Overrun)?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Untold;

    impl Serialize for Untold {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            panic!("in serialize")
        }
    }

    fn chunk() -> Vec<u8> {
        let mut writer = ChunkWriter::new(Time::default());
        writer.set_place(3, 4);
        writer.keyed(b"key", 5, &"state");
        writer.key_gone(6);
        writer.task(7, 8, &9u64);
        writer.task_gone(10);
        writer.keyed(b"other", 0, &Untold);
        writer.finish()
    }

    #[test]
    fn records_come_back_and_a_state_that_panics_is_said_to_be_unwritable() {
        let bytes = chunk();
        let records: Vec<_> = read(&bytes).unwrap();
        assert!(records.iter().all(|record| (record.topology, record.prototype) == (3, 4)));
        let copied: Vec<_> = records.into_iter().map(|record| record.copied).collect();
        let state = b"\x05\0\0\0\0\0\0\0state";
        assert_eq!(copied[0], Copied::Keyed { key: b"key", events: 5, state });
        assert_eq!(copied[1], Copied::KeyGone(6));
        let state = &9u64.to_le_bytes();
        assert_eq!(copied[2], Copied::Task { task: 7, events: 8, state });
        assert_eq!(copied[3..], [Copied::TaskGone(10), Copied::Unwritable]);
    }

    proptest! {
        #[test]
        fn anything_else_is_refused(at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut bytes = chunk();
            prop_assert!(read(&bytes[..at.index(bytes.len())]).is_err());
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(read(&bytes), Err(ChunkError::Checksum));
        }

        #[test]
        fn bytes_of_a_liar_are_read_to_their_end(body in prop::collection::vec(0u8..6, 0..200)) {
            let mut bytes = xxh3_64(&body).to_le_bytes().to_vec();
            bytes.extend_from_slice(&body);
            let _ = read(&bytes);
        }
    }
}
