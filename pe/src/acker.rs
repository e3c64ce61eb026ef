//! Acks: whether all that came of a spout's event has been handled.
//!
//! At least once means that somebody notices when an event was lost on the way, and reads it again. Storm's
//! answer is a ledger of one word per *tree* (a spout's event and all that came of it), into which the id of
//! each event is `XORed` when it is emitted and again when it was handled: zero says that nothing is left,
//! whatever the size of the tree and the order of the news.
//!
//! Here the ledger is with the container that reads the partition: if that node dies, whoever reads the
//! partition next begins at what was committed, so there is no other acker to lose. `routing` has how events
//! carry their trees, [`ledger`] what is pending and where it came from, [`tracker`] how a handler's work
//! becomes an ack. Nothing is given up by a clock alone: see [`ledger`].

mod anchor;
mod ledger;
mod planting;
mod portion;
mod tracker;

pub use anchor::Anchor;
pub(crate) use ledger::{Ledger, Pending, Replay};
pub(crate) use planting::{Buried, Fate, Growing, Plant, Planting};
pub(crate) use portion::Offset;
pub(crate) use tracker::{Fail, Tracker};

use serde::{Deserialize, Serialize};

/// Why a tree was given up, to be read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Failure {
    /// A handler of one of its events panicked.
    Panicked,
    /// A handler gave it up: [`Ctx::fail`](crate::Ctx::fail).
    Failed,
    /// A sink could not write one of its events.
    SinkFailed,
    /// One of its events was dropped on the way.
    Dropped,
    /// A node that may have had one of its events is gone, or a link is lost.
    NodeLost,
    /// Nothing was on its way any more, and it was not complete.
    Vanished,
    /// Younger trees went on to be completed while nothing was heard of it for too long.
    NoProgress,
    /// The state of an instance that one of its events was for could not be read.
    Unreadable,
}

impl Failure {
    /// All, in the order of their numbers on the wire.
    pub const ALL: [Self; 8] = [
        Self::Panicked,
        Self::Failed,
        Self::SinkFailed,
        Self::Dropped,
        Self::NodeLost,
        Self::Vanished,
        Self::NoProgress,
        Self::Unreadable,
    ];

    /// For people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Panicked => "a handler panicked",
            Self::Failed => "a handler gave it up",
            Self::SinkFailed => "a sink failed",
            Self::Dropped => "an event was dropped on the way",
            Self::NodeLost => "a node or a link was lost",
            Self::Vanished => "nothing was on its way any more",
            Self::NoProgress => "no progress",
            Self::Unreadable => "a state could not be read",
        }
    }

    /// Whether the tree itself may be the cause, so that reading it again may fail again.
    pub(crate) fn counts(self) -> bool {
        !matches!(self, Self::NodeLost | Self::Vanished)
    }

    pub(crate) fn number(self) -> u8 {
        u8::try_from(Self::ALL.iter().position(|&known| known == self).expect("all are listed"))
            .expect("there are few")
    }

    pub(crate) fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}
