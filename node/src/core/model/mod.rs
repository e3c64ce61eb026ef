//! Every order of events within small bounds, on the cores that run.
//!
//! Simulation finds what it happens to run into. Here a checker goes through all that can happen to
//! three nodes: messages late, twice, out of order or never, for one that was sent stays on its way
//! whatever becomes of it; deadlines in any order; nodes that crash before or after a write, that die,
//! and that are given up while they live; links that break; events for units that move meanwhile. What
//! decides is not a model: [`NodeCore`](super::NodeCore), with the view log, the assignment and the
//! handoff in it, is driven as the runtime drives it. Only gossip is the checker's, and containers are
//! replaced by a [`cell`].
//!
//! A checker that never fails proves nothing, so each [`Flaw`] makes the world break a promise on which
//! the cores rely, and must be found; and what shall be possible has to be reached, or all the rest
//! holds for want of anything happening.
//!
//! What is tried at each push ends in a minute. `MODEL_STATES`, a number of states, tries more: with it
//! the larger bounds are gone through as well, up to so many.
//!
//! Not covered: sets of more than one copy, which there are not yet; gossip, topologies, tokens and
//! batches, which the simulator covers; joining and leaving nodes.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what the model does not know of it leaves out"
)]

mod cell;
mod checks;
mod history;
mod host;
mod schedules;
mod table;
mod world;

use membership::view_log::{LogId, Word};
use membership::{Epoch, NodeId};

use super::Message;

/// How many nodes there are.
const COUNT: usize = 3;

/// Nodes, numbered from 1; all of them members and voters of the first view.
const NODES: u64 = COUNT as u64;

/// Slots; both begin on node 1.
const SLOTS: u16 = 2;

/// A promise of the world to the cores, broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// A disk forgets promises and votes, and keeps views.
    PromiseForgotten,
    /// A vote is said to be given as soon as it is asked for.
    VotesForged,
    /// A next set is said to have installed when it has not.
    ActiveTooEarly,
    /// A container gives units away without sealing them.
    GivenUnsealed,
}

/// How much may happen.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    flaw: Option<Flaw>,
    /// Whether writes to disk take time.
    is_slow: bool,
    /// How often time passes, by node.
    wakes: [u8; COUNT],
    crashes: u8,
    deaths: u8,
    /// How often gossip gives up somebody.
    suspicions: u8,
    /// How often the link to the next node breaks, by node, which makes a view and lets units move.
    breaks: [u8; COUNT],
    /// Events for units.
    writes: u8,
    /// No view after this one.
    last: Epoch,
}

impl Bounds {
    /// Whether a message may arrive; what only costs time when it is lost always is.
    ///
    /// Whoever decides a view tells everybody, and that stays on its way: where somebody stands need not
    /// be told beside it. What nodes want is of use to those that propose, and units move where there is
    /// a view for them to become active in. Gossip and counts are left out altogether.
    fn has(&self, to: NodeId, message: &Message) -> bool {
        match message {
            Message::Log(message) => match message.word {
                Word::Here | Word::Ask | Word::Beaten(..) => false,
                Word::Wish(_) => self.moves() && self.wakes[place(to)] > 0,
                _ => true,
            },
            Message::Handoff(_) => self.moves(),
            _ => false,
        }
    }

    /// Whether units can come to where they are to go.
    fn moves(&self) -> bool {
        self.last > Epoch(2)
    }

    /// Nothing happens by itself.
    fn calm() -> Self {
        Self {
            flaw: None,
            is_slow: false,
            wakes: [0; COUNT],
            crashes: 0,
            deaths: 0,
            suspicions: 0,
            breaks: [0; COUNT],
            writes: 0,
            last: Epoch(2),
        }
    }
}

/// Where a node stands in a list of all.
fn place(node: NodeId) -> usize {
    usize::try_from(node.0).unwrap() - 1
}
