//! Nothing leaves before what it rests on is on disk.
//!
//! A promise that is sent and then lost in a crash is given twice. Rather than ask of each message
//! what it depends on, all of them wait while anything in memory is not on disk. Writes are grouped:
//! one is under way at a time, and what changes meanwhile goes into the next.

use std::collections::BTreeMap;

use super::message::{Message, Stamp, Word};
use super::{Body, SEATS_MAX};
use crate::NodeId;

/// The most messages that wait for the disk: one of each kind for each member. A peer that makes up
/// more finds its answers lost, as messages may be.
const WAITING_MAX: usize = SEATS_MAX * 10;

/// The messages on their way out, and how much is on disk.
#[derive(Debug)]
pub(super) struct Journal<B: Body> {
    /// Counts the changes in memory.
    changed: Stamp,
    /// The changes that are being written.
    writing: Option<Stamp>,
    /// The changes that are on disk.
    written: Stamp,
    /// By receiver and kind, with the last change before each: a newer message replaces an older.
    waiting: BTreeMap<(NodeId, u8), (Stamp, Message<B>)>,
}

impl<B: Body> Journal<B> {
    pub(super) fn new() -> Self {
        let start = Stamp::default();
        Self { changed: start, writing: None, written: start, waiting: BTreeMap::new() }
    }

    /// The record has changed.
    pub(super) fn touch(&mut self) -> Stamp {
        self.changed.0 += 1;
        self.changed
    }

    pub(super) fn send(&mut self, to: NodeId, message: Message<B>) {
        let key = (to, kind(&message.word));
        if self.waiting.len() < WAITING_MAX || self.waiting.contains_key(&key) {
            self.waiting.insert(key, (self.changed, message));
        }
    }

    /// The next write, if there is something to write and none is under way.
    pub(super) fn write(&mut self) -> Option<Stamp> {
        let is_due = self.writing.is_none() && self.written < self.changed;
        self.writing = if is_due { Some(self.changed) } else { self.writing };
        is_due.then_some(self.changed)
    }

    /// A write has come to its end; other than the one under way there is none.
    pub(super) fn persisted(&mut self, stamp: Stamp) {
        if self.writing == Some(stamp) {
            self.writing = None;
            self.written = stamp;
        }
    }

    /// Whether a change is on disk.
    pub(super) fn is_written(&self, change: Stamp) -> bool {
        change <= self.written
    }

    /// All that decides what is done next; how many changes there have been does not.
    pub(super) fn described(&self) -> String {
        let age = |stamp: Stamp| self.changed.0 - stamp.0;
        let waiting = self.waiting.iter();
        let waiting = waiting.map(|(key, (stamp, message))| (key, age(*stamp), message));
        let (writing, written) = (self.writing.map(age), age(self.written));
        format!("{writing:?} {written} {:?}", waiting.collect::<Vec<_>>())
    }

    /// The messages that need wait no longer, by receiver and kind.
    pub(super) fn release(&mut self) -> Vec<(NodeId, Message<B>)> {
        let written = self.written;
        let ready = self.waiting.extract_if(.., |_, (stamp, _)| *stamp <= written);
        ready.map(|((to, _), (_, message))| (to, message)).collect()
    }
}

/// The kinds, in the order in which a receiver is best told: first the view that the rest is about.
fn kind<B: Body>(word: &Word<B>) -> u8 {
    match word {
        Word::Decided(_) => 0,
        Word::Here => 1,
        Word::Ask => 2,
        Word::Prepare(_) => 3,
        Word::Promise(..) => 4,
        Word::Accept(..) => 5,
        Word::Accepted(_) => 6,
        Word::Beaten(..) => 7,
        Word::Wish(_) => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view_log::DiskId;
    use crate::view_log::tests::Notes;

    fn here(disk: u64) -> Message<Notes> {
        Message { disk: DiskId(disk), at: None, word: Word::Here }
    }

    #[test]
    fn messages_wait_for_the_change_before_them_and_writes_for_each_other() {
        let mut journal = Journal::new();
        journal.send(NodeId(1), here(1));
        assert_eq!(journal.release(), [(NodeId(1), here(1))], "nothing to wait for");

        let first = journal.touch();
        journal.send(NodeId(1), here(2));
        assert_eq!(journal.write(), Some(first));
        let second = journal.touch();
        journal.send(NodeId(2), here(3));
        assert_eq!((journal.write(), journal.release()), (None, vec![]));

        journal.persisted(second); // Nobody wrote it.
        assert_eq!(journal.release(), []);
        journal.persisted(first);
        assert_eq!(journal.release(), [(NodeId(1), here(2))]);
        assert!(journal.is_written(first) && !journal.is_written(second));
        assert_eq!(journal.write(), Some(second));
        journal.persisted(second);
        assert_eq!(journal.release(), [(NodeId(2), here(3))]);
    }

    #[test]
    fn what_waits_is_replaced_and_bounded() {
        let mut journal = Journal::new();
        let change = journal.touch();
        for node in 0..2 * WAITING_MAX as u64 {
            journal.send(NodeId(node), here(1));
        }
        journal.send(NodeId(1), here(2));
        assert_eq!(journal.write(), Some(change));
        journal.persisted(change);
        let sent = journal.release();
        assert_eq!(sent.len(), WAITING_MAX);
        assert_eq!(sent[1], (NodeId(1), here(2)));
    }
}
