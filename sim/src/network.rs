//! The network of a simulation: what is under way, what the rules of the moment do to it, and when it
//! arrives.
//!
//! Control messages go from one node to another in order unless they are lost, doubled or overtaken. The
//! two ends of a data stream keep their order, as those of a TCP connection do: what a stream loses, it
//! loses with all that follows, until another stream is opened. Nothing reaches a later life of a node
//! than the one that it was sent to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use membership::Time;
use membership::view_log::{ViewId, Word};
use node::link::{LinkAnswer, LinkHello};
use node::{HandoffMessage, Hello, Message, View};
use routing::{BatchHeader, Frame, FrameError, FrameHeader, FrameKind, codec};

use crate::Chance;

/// What crosses the network.
#[derive(Clone, Debug)]
pub(crate) enum Letter {
    Hello(Box<Hello>),
    Welcome(Box<Hello>),
    Control(Message),
    /// On a data stream, whose number all of these have: it begins,
    Open(u64, LinkHello),
    /// from where on it is read,
    Opened(u64, LinkAnswer),
    /// a frame,
    Frame(u64, Bytes),
    /// and what was read.
    Confirmed(u64, u64),
    /// It is not read any more.
    Ended(u64),
    /// The connections to the sender are closed, and it refuses others.
    Closed,
}

/// Which of the links between a pair of nodes, one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    Control,
    Data,
}

impl Letter {
    fn link(&self) -> Link {
        match self {
            Self::Open(..)
            | Self::Opened(..)
            | Self::Frame(..)
            | Self::Confirmed(..)
            | Self::Ended(_) => Link::Data,
            Self::Hello(_) | Self::Welcome(_) | Self::Control(_) | Self::Closed => Link::Control,
        }
    }

    /// Whether it goes from the writer of a data stream to the reader.
    fn is_written(&self) -> bool {
        matches!(self, Self::Open(..) | Self::Frame(..))
    }

    /// Whether it is a frame with events in it; others have credits or fences.
    pub(crate) fn has_events(&self) -> bool {
        let Self::Frame(_, bytes) = self else { return false };
        let header = bytes.first_chunk().expect("a frame has a header");
        let header = FrameHeader::parse(header).expect("it was sealed");
        let mut frame = Frame::new(header, bytes.slice(FrameHeader::LEN..)).expect("it was sealed");
        let has_rows =
            |batch: Result<(BatchHeader, Bytes), FrameError>| batch.is_ok_and(|(b, _)| b.rows > 0);
        header.kind == FrameKind::Batches && frame.any(has_rows)
    }

    /// What it is, in one word.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Welcome(_) => "welcome",
            Self::Control(Message::Gossip(_)) => "gossip",
            Self::Control(Message::Log(message)) => match message.word {
                Word::Decided(_) => "decided",
                Word::Here => "here",
                Word::Ask => "where",
                Word::Prepare(_) => "prepare",
                Word::Promise(..) => "promise",
                Word::Accept(..) => "accept",
                Word::Accepted(_) => "accepted",
                Word::Beaten(..) => "beaten",
                Word::Wish(_) => "wish",
            },
            Self::Control(Message::Handoff(HandoffMessage::Pull(_))) => "pull",
            Self::Control(Message::Handoff(HandoffMessage::Piece { .. })) => "piece",
            Self::Control(Message::Handoff(HandoffMessage::Unknown(_))) => "unknown",
            Self::Control(Message::Ask { .. }) => "ask",
            Self::Control(Message::Answer { .. }) => "answer",
            Self::Control(Message::Token { .. }) => "token",
            Self::Control(Message::Taken(..)) => "taken",
            Self::Control(Message::Quiet { .. }) => "quiet",
            Self::Control(Message::Book(_)) => "book",
            Self::Open(..) => "open",
            Self::Opened(..) => "opened",
            Self::Frame(..) => "frame",
            Self::Confirmed(..) => "confirmed",
            Self::Ended(_) => "ended",
            Self::Closed => "closed",
        }
    }
}

/// What the network does wrong, for a while. Machines are counted in the order in which they came.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// Nothing goes from one machine to another.
    Cut(usize, usize),
    /// Nothing goes from one side to another; who is not in the list is on the first.
    Partition(Vec<u8>),
    /// Of a hundred control messages so many are lost,
    Loss(u64),
    /// doubled,
    Duplicate(u64),
    /// or late by up to half a second.
    Reorder(u64),
}

/// How late a message may be that is overtaken, in microseconds.
const LATE: u64 = 500_000;

/// What was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

/// A letter, and when it arrives.
pub(crate) type Arrival = (Time, Letter);

/// The rules, and the order of what is under way.
#[derive(Debug, Default)]
pub(crate) struct Network {
    rules: BTreeMap<u64, Rule>,
    made: u64,
    last: BTreeMap<(usize, usize, Link), Time>,
    /// Pairs of writer and reader whose stream has lost something.
    broken: BTreeSet<(usize, usize)>,
    /// Bytes of views, which are large and travel often.
    sizes: BTreeMap<ViewId, u64>,
    scratch: Vec<u8>,
    pub(crate) control: Traffic,
    pub(crate) data: Traffic,
}

impl Network {
    /// Adds a rule; what it is called.
    pub(crate) fn rule(&mut self, rule: Rule) -> u64 {
        self.made += 1;
        self.rules.insert(self.made, rule);
        self.made
    }

    pub(crate) fn lift(&mut self, rule: u64) {
        self.rules.remove(&rule);
    }

    pub(crate) fn heal(&mut self) {
        self.rules.clear();
    }

    /// Loses what is under way on the data streams of one machine to another, and what follows on them.
    pub(crate) fn break_stream(&mut self, writer: usize, reader: usize) {
        self.broken.insert((writer, reader));
    }

    /// Whether what arrives has been lost on its way with the stream that it is on.
    pub(crate) fn is_lost(&self, from: usize, to: usize, letter: &Letter) -> bool {
        let way = if letter.is_written() { (from, to) } else { (to, from) };
        letter.link() == Link::Data
            && !matches!(letter, Letter::Open(..))
            && self.broken.contains(&way)
    }

    /// Takes a letter; when it arrives, and perhaps arrives again.
    pub(crate) fn send(
        &mut self,
        now: Time,
        chance: &mut Chance,
        (from, to): (usize, usize),
        letter: Letter,
    ) -> [Option<Arrival>; 2] {
        self.count(&letter);
        let link = letter.link();
        let way = if letter.is_written() { (from, to) } else { (to, from) };
        if self.is_cut(from, to) {
            if link == Link::Data {
                self.broken.insert(way);
            }
            return [None, None];
        }
        if link == Link::Data {
            if matches!(letter, Letter::Open(..)) {
                self.broken.remove(&way);
            } else if self.broken.contains(&way) {
                return [None, None];
            }
        }
        let arrives = now + Duration::from_micros(100 + chance.below(2_000));
        let last = self.last.entry((from, to, link)).or_default();
        let arrives = arrives.max(*last);
        if link == Link::Control && !self.rules.is_empty() {
            return self.mistreat(chance, (from, to), arrives, letter);
        }
        *last = arrives;
        [Some((arrives, letter)), None]
    }

    /// Sends a control message by the rules.
    fn mistreat(
        &mut self,
        chance: &mut Chance,
        (from, to): (usize, usize),
        arrives: Time,
        letter: Letter,
    ) -> [Option<Arrival>; 2] {
        let (mut is_lost, mut is_doubled, mut is_late) = (false, false, false);
        for rule in self.rules.values() {
            match rule {
                Rule::Loss(percent) => is_lost |= chance.percent(*percent),
                Rule::Duplicate(percent) => is_doubled |= chance.percent(*percent),
                Rule::Reorder(percent) => is_late |= chance.percent(*percent),
                Rule::Cut(..) | Rule::Partition(_) => {}
            }
        }
        if is_lost {
            return [None, None];
        }
        let late = |chance: &mut Chance| arrives + Duration::from_micros(chance.below(LATE));
        let again = is_doubled.then(|| (late(chance), letter.clone()));
        if is_late {
            return [Some((late(chance), letter)), again];
        }
        self.last.insert((from, to, Link::Control), arrives);
        [Some((arrives, letter)), again]
    }

    fn is_cut(&self, from: usize, to: usize) -> bool {
        self.rules.values().any(|rule| match rule {
            Rule::Cut(one, other) => (*one, *other) == (from, to),
            Rule::Partition(sides) => {
                let side = |machine: usize| sides.get(machine).copied().unwrap_or(0);
                side(from) != side(to)
            }
            Rule::Loss(_) | Rule::Duplicate(_) | Rule::Reorder(_) => false,
        })
    }

    fn count(&mut self, letter: &Letter) {
        let bytes = self.size(letter);
        let traffic = match letter.link() {
            Link::Control => &mut self.control,
            Link::Data => &mut self.data,
        };
        traffic.messages += 1;
        traffic.bytes += bytes;
    }

    /// How many bytes a letter has on the wire, but for what the transport adds.
    fn size(&mut self, letter: &Letter) -> u64 {
        match letter {
            Letter::Frame(_, bytes) => bytes.len() as u64,
            Letter::Control(Message::Gossip(bytes)) => 8 + bytes.len() as u64,
            Letter::Control(Message::Handoff(HandoffMessage::Piece { bytes, .. })) => {
                40 + bytes.len() as u64
            }
            Letter::Control(Message::Log(message)) => {
                const HEAD: u64 = 48;
                match &message.word {
                    Word::Decided(view) => HEAD + self.view_size(view),
                    Word::Accept(_, view) | Word::Promise(_, Some((_, view))) => {
                        HEAD + 24 + self.view_size(view)
                    }
                    Word::Wish(wish) => HEAD + self.encoded(wish),
                    Word::Here | Word::Ask => HEAD,
                    Word::Prepare(_) | Word::Promise(_, None) | Word::Accepted(_) => HEAD + 24,
                    Word::Beaten(..) => HEAD + 48,
                }
            }
            Letter::Control(message) => self.encoded(message),
            Letter::Hello(hello) | Letter::Welcome(hello) => self.encoded(hello),
            Letter::Open(..) => 32,
            Letter::Opened(..) => 16,
            Letter::Confirmed(..) => 8,
            Letter::Ended(_) | Letter::Closed => 0,
        }
    }

    fn view_size(&mut self, view: &View) -> u64 {
        if let Some(&size) = self.sizes.get(&view.id()) {
            return size;
        }
        let size = self.encoded(view);
        while self.sizes.len() >= 64 {
            self.sizes.pop_first();
        }
        self.sizes.insert(view.id(), size);
        size
    }

    fn encoded<T: serde::Serialize>(&mut self, value: &T) -> u64 {
        self.scratch.clear();
        codec::encode(value, &mut self.scratch).expect("what nodes say can be encoded");
        self.scratch.len() as u64
    }
}
