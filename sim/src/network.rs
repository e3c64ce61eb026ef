//! The network of a simulation: what is under way, and when it arrives.
//!
//! A link between two nodes keeps its order, as a TCP connection does; different links, and the control
//! and data links of one pair, overtake each other by chance. A stream of a data link may break: then what
//! is under way on it is lost, both ways, as if the connection were gone.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use membership::{NodeId, Time};
use node::link::{LinkAnswer, LinkHello};
use node::{Hello, Message};
use routing::{BatchHeader, Frame, FrameError, FrameHeader, FrameKind};

use crate::Chance;

/// What crosses the network.
#[derive(Debug)]
pub(crate) enum Letter {
    Hello(Box<Hello>),
    Welcome(Box<Hello>),
    Control(Message),
    /// On a data stream, whose number all of these have: it begins,
    Open(LinkHello),
    /// from where on it is read,
    Opened(u64, LinkAnswer),
    /// a frame,
    Frame(u64, Bytes),
    /// and what was read.
    Confirmed(u64, u64),
    /// It is not read any more.
    Ended(u64),
    /// The connection to the sender is closed, and it refuses another.
    Closed,
}

/// Which of the two links between a pair of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    Control,
    Data,
}

impl Letter {
    fn link(&self) -> Link {
        match self {
            Self::Open(_)
            | Self::Opened(..)
            | Self::Frame(..)
            | Self::Confirmed(..)
            | Self::Ended(_) => Link::Data,
            Self::Hello(_) | Self::Welcome(_) | Self::Control(_) | Self::Closed => Link::Control,
        }
    }

    /// Whether it is a frame with events in it.
    fn has_events(&self) -> bool {
        let Self::Frame(_, bytes) = self else { return false };
        let header = bytes.first_chunk().expect("a frame has a header");
        let header = FrameHeader::parse(header).expect("it was sealed");
        let mut frame = Frame::new(header, bytes.slice(FrameHeader::LEN..)).expect("it was sealed");
        let has_rows =
            |batch: Result<(BatchHeader, Bytes), FrameError>| batch.is_ok_and(|(b, _)| b.rows > 0);
        header.kind == FrameKind::Batches && frame.any(has_rows)
    }

    /// Whether it goes from the writer of a data stream to the reader.
    fn is_written(&self) -> bool {
        matches!(self, Self::Open(_) | Self::Frame(..))
    }
}

/// Everything under way.
#[derive(Debug, Default)]
pub(crate) struct Network {
    /// By arrival; the second part of the key keeps equal times in order.
    letters: BTreeMap<(Time, u64), (NodeId, NodeId, Letter)>,
    last: BTreeMap<(NodeId, NodeId, Link), Time>,
    sent: u64,
}

impl Network {
    pub(crate) fn send(
        &mut self,
        now: Time,
        chance: &mut Chance,
        (from, to): (NodeId, NodeId),
        letter: Letter,
    ) {
        let link = letter.link();
        let delay = Duration::from_micros(100 + chance.below(2_000));
        let last = self.last.entry((from, to, link)).or_default();
        *last = (*last).max(now + delay);
        self.sent += 1;
        self.letters.insert((*last, self.sent), (from, to, letter));
    }

    /// Loses what is under way on the data streams of one node to another; how many frames with events there
    /// were. Others have credits or fences.
    pub(crate) fn lose_frames(&mut self, writer: NodeId, reader: NodeId) -> usize {
        let mut frames = 0;
        self.letters.retain(|_, (from, to, letter)| {
            let way = if letter.is_written() { (writer, reader) } else { (reader, writer) };
            let is_lost = letter.link() == Link::Data && (*from, *to) == way;
            frames += usize::from(is_lost && letter.has_events());
            !is_lost
        });
        frames
    }

    /// When the next letter arrives.
    pub(crate) fn next(&self) -> Option<Time> {
        self.letters.keys().next().map(|(at, _)| *at)
    }

    /// Takes the next letter if it has arrived.
    pub(crate) fn take(&mut self, now: Time) -> Option<(NodeId, NodeId, Letter)> {
        let first = self.letters.first_entry()?;
        if first.key().0 <= now { Some(first.remove()) } else { None }
    }
}
