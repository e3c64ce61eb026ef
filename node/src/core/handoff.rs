//! How a unit goes from the node that serves it to the one that is to.
//!
//! The view says what is to move; who gets it does the work. It takes over from each other node in one
//! *taking* per view, so that a join with a thousand slots is a handful of conversations: a stream from
//! each container there to each container here. The state is copied ahead while the old owner serves;
//! when all streams of a taking have come that far, its units are sealed, what has changed meanwhile
//! follows, and the next view makes the new owner serve. Until then a taking that fails, or that the
//! view takes back, has changed nothing.
//!
//! A unit whose owner is gone is taken from the replica of a node that is left, which seals it when it is asked
//! first; nearly always that is the node that takes it.
//!
//! Whoever takes asks for each chunk, so a slow receiver is never flooded, and asks again when nothing
//! comes: messages may be lost, doubled or late.

mod giving;
mod taking;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use membership::view_log::LogId;
use membership::{Epoch, NodeId, Run, Time};
use pe::{ChunkKind, Unit};
use serde::{Deserialize, Serialize};

use giving::Giving;
use taking::Taking;

use super::{Action, Cause, View};

/// In place of a container: the replicas that a node keeps for others.
pub(super) const REPLICAS: u16 = u16::MAX;

/// A stream of chunks, as the node that takes has named it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StreamId {
    /// The life of that node.
    pub run: Run,
    /// Which of its streams.
    pub number: u64,
}

/// What two nodes say to each other about units that move.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum HandoffMessage {
    /// From the node that takes: the next chunk?
    Pull(Pull),
    /// From the node that gives: a chunk, or as much of it as fits a message.
    Piece {
        /// Of which stream.
        stream: StreamId,
        /// The number of the chunk.
        chunk: u32,
        /// What it is.
        kind: ChunkKind,
        /// Where in the chunk this piece begins.
        offset: u32,
        /// How long the chunk is.
        len: u32,
        /// Instances, as their containers read and write them.
        bytes: Vec<u8>,
    },
    /// From the node that gives: it does not know this stream, and needs the whole question.
    Unknown(StreamId),
}

/// A question for a chunk.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pull {
    /// Of which stream.
    pub stream: StreamId,
    /// Which chunk.
    pub chunk: u32,
    /// From where in it: one of a large instance comes in pieces.
    pub offset: u32,
    /// Whether the units are to be sealed.
    pub seal: bool,
    /// The view that named the next sets of the units.
    pub epoch: Epoch,
    /// The container that has them, or 65,535 for the replicas that the node keeps.
    pub container: u16,
    /// The units; none once the stream is known.
    pub units: Vec<Unit>,
}

/// What moves to and from this node.
#[derive(Debug)]
pub(super) struct Handoff {
    log: LogId,
    run: Run,
    /// Streams are counted here, from either side, so that containers can tell them apart.
    numbers: u64,
    /// By the log that gives and the view that said so.
    taking: BTreeMap<(LogId, Epoch), Taking>,
    /// By the node that takes and its stream.
    giving: BTreeMap<(NodeId, StreamId), Giving>,
    /// Since when the next chunk may be asked for, by the limit on the rate.
    next_pull: Time,
    counts: Counts,
}

/// What has been moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Units taken over with their state.
    pub(super) units: u64,
    /// Bytes of state taken over.
    pub(super) bytes: u64,
    /// How long units stood still, and how many did; the last of them.
    pauses: VecDeque<(Duration, usize)>,
}

/// Pauses that are remembered.
const PAUSES_MAX: usize = 1024;

impl Counts {
    fn paused(&mut self, pause: Duration, units: usize) {
        if self.pauses.len() == PAUSES_MAX {
            self.pauses.pop_front();
        }
        self.pauses.push_back((pause, units));
    }

    /// The median and the longest time that a unit stood still.
    pub(super) fn pauses(&self) -> (Duration, Duration) {
        let mut sorted: Vec<_> = self.pauses.iter().copied().collect();
        sorted.sort_unstable();
        let half = sorted.iter().map(|(_, units)| units).sum::<usize>() / 2;
        let mut seen = 0;
        let median = sorted.iter().find(|(_, units)| {
            seen += units;
            seen > half
        });
        let longest =
            |found: Option<&(Duration, usize)>| found.map_or(Duration::ZERO, |(at, _)| *at);
        (longest(median), longest(sorted.last()))
    }
}

/// What comes of a step beside actions.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// What the view log must hear.
    pub(super) causes: Vec<Cause>,
    /// Messages for nodes, this one too: units may move between two of its containers.
    pub(super) messages: Vec<(NodeId, HandoffMessage)>,
}

impl Handoff {
    pub(super) fn new(log: LogId, run: Run) -> Self {
        Self {
            log,
            run,
            numbers: 0,
            taking: BTreeMap::new(),
            giving: BTreeMap::new(),
            next_pull: Time::default(),
            counts: Counts::default(),
        }
    }

    /// Takes a message.
    pub(super) fn receive(
        &mut self,
        now: Time,
        view: &View,
        (from, message): (NodeId, HandoffMessage),
        out: &mut Vec<Action>,
        outcome: &mut Outcome,
    ) {
        match message {
            HandoffMessage::Pull(pull) => self.pulled(view, from, pull, out, outcome),
            HandoffMessage::Piece { stream, chunk, kind, offset, len, bytes } => {
                let piece = taking::Piece { chunk, kind, offset, len, bytes };
                self.piece(now, (from, stream), piece, out, outcome);
            }
            HandoffMessage::Unknown(stream) => self.unknown(from, stream, outcome),
        }
    }

    /// How many units come and go.
    pub(super) fn moving(&self) -> (usize, usize) {
        let taken = self.taking.values().map(Taking::units).sum();
        (taken, self.giving.values().map(Giving::units).sum())
    }

    /// What has been moved here.
    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// All that decides what is done next, with moments only as far as they have passed.
    #[cfg(test)]
    pub(super) fn described(&self, now: Time) -> String {
        let Self { numbers, giving, next_pull, .. } = self;
        let taking = self.taking.iter().map(|(key, taking)| (key, taking.described(now)));
        let taking: Vec<_> = taking.collect();
        format!("{numbers} {giving:?} {taking:?} {}", *next_pull > now)
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }
}
