//! The disk of a simulated machine: what is synced outlives the process, what is being written may not.

use std::time::Duration;

use membership::view_log::{DiskId, Record, Stamp};
use node::{Assignment, Offsets};

use crate::Chance;
use crate::journal::Journal;

/// How long a sync takes.
const SYNC: Duration = Duration::from_millis(2);

/// The record of the view log, as a node has it.
pub(crate) type NodeRecord = Record<Assignment>;

/// A disk.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) id: DiskId,
    synced: Option<Box<NodeRecord>>,
    writing: Option<(Stamp, Box<NodeRecord>)>,
    /// Where partitions have come to; synced, and being written.
    offsets: Option<Box<Offsets>>,
    keeping: Option<Box<Offsets>>,
    /// The replicas that are kept here.
    pub(crate) journal: Journal,
    /// How much longer a sync takes than it should.
    pub(crate) slower: Duration,
    /// Whether the journal finds no room.
    pub(crate) is_full: bool,
    /// Whether it claims to have written what it has not.
    pub(crate) lies: bool,
}

impl Disk {
    pub(crate) fn blank(id: DiskId, lies: bool) -> Self {
        let (synced, writing, offsets, keeping) = (None, None, None, None);
        let (journal, is_full) = (Journal::default(), false);
        let slower = Duration::ZERO;
        Self { id, synced, writing, offsets, keeping, journal, slower, is_full, lies }
    }

    /// Begins to write; how long it takes.
    pub(crate) fn write(&mut self, stamp: Stamp, record: Box<NodeRecord>) -> Duration {
        self.writing = Some((stamp, record));
        SYNC + self.slower
    }

    /// A write has come to its end.
    pub(crate) fn sync(&mut self) -> Option<Stamp> {
        let (stamp, record) = self.writing.take()?;
        if !self.lies {
            self.synced = Some(record);
        }
        Some(stamp)
    }

    /// How long it takes to write to the journal.
    pub(crate) fn journal_wait(&self) -> Duration {
        SYNC + self.slower
    }

    /// Begins to write where partitions have come to; how long it takes.
    pub(crate) fn keep(&mut self, offsets: Box<Offsets>) -> Duration {
        self.keeping = Some(offsets);
        SYNC + self.slower
    }

    /// That write has come to its end; whether there was one.
    pub(crate) fn kept(&mut self) -> bool {
        let kept = self.keeping.take();
        let is_kept = kept.is_some();
        if !self.lies {
            self.offsets = kept.or(self.offsets.take());
        }
        is_kept
    }

    /// What a process finds of that when it starts.
    pub(crate) fn offsets(&self) -> Option<Offsets> {
        self.offsets.as_deref().cloned()
    }

    /// What is there.
    pub(crate) fn synced(&self) -> Option<&NodeRecord> {
        self.synced.as_deref()
    }

    /// The process ends in the middle of what it does. What it was writing is lost, or torn and so refused
    /// when it is read, or there although nobody was told.
    pub(crate) fn crash(&mut self, chance: &mut Chance) {
        self.journal.crash(chance);
        if let Some(offsets) = self.keeping.take()
            && chance.below(2) == 0
            && !self.lies
        {
            self.offsets = Some(offsets);
        }
        let Some((_, record)) = self.writing.take() else { return };
        match chance.below(4) {
            0 if !self.lies => self.synced = Some(record),
            1 => {
                let mut bytes = record.to_bytes();
                let end = chance.below(bytes.len() as u64);
                bytes.truncate(usize::try_from(end).expect("a length is one"));
                let read = NodeRecord::from_bytes(&bytes);
                assert!(read.is_err(), "a torn record is refused");
            }
            _ => {}
        }
    }

    /// What a process finds when it starts, read as it lies.
    pub(crate) fn read(&self) -> Option<NodeRecord> {
        let bytes = self.synced.as_ref()?.to_bytes();
        Some(NodeRecord::from_bytes(&bytes).expect("what was synced can be read"))
    }
}
