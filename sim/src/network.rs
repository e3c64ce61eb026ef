//! The network of a simulation: what is under way, and when it arrives.
//!
//! A link between two nodes keeps its order, as a TCP connection does; different links, and the control
//! and data links of one pair, overtake each other by chance.

use std::collections::BTreeMap;
use std::time::Duration;

use membership::{NodeId, Time};
use node::{Hello, Message};
use pe::Credit;

use crate::Chance;

/// What crosses the network.
#[derive(Debug)]
pub(crate) enum Letter {
    Hello(Box<Hello>),
    Welcome(Box<Hello>),
    Control(Message),
    Credit(Credit, u64, u32),
    Frame(Vec<u8>),
    /// The connection to the sender is closed, and it refuses another.
    Closed,
}

/// Which of the two links between a pair of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    Control,
    Data,
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
        let link = match letter {
            Letter::Frame(_) => Link::Data,
            Letter::Hello(_)
            | Letter::Welcome(_)
            | Letter::Control(_)
            | Letter::Credit(..)
            | Letter::Closed => Link::Control,
        };
        let delay = Duration::from_micros(100 + chance.below(2_000));
        let last = self.last.entry((from, to, link)).or_default();
        *last = (*last).max(now + delay);
        self.sent += 1;
        self.letters.insert((*last, self.sent), (from, to, letter));
    }

    /// Loses the frames under way from one node to another; how many there were.
    pub(crate) fn lose_frames(&mut self, (lost_from, lost_to): (NodeId, NodeId)) -> usize {
        let before = self.letters.len();
        self.letters.retain(|_, (from, to, letter)| {
            (*from, *to) != (lost_from, lost_to) || !matches!(letter, Letter::Frame(_))
        });
        before - self.letters.len()
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
