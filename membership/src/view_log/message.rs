//! What goes into a view log, what comes out of it, and what two of them say to each other.
//!
//! All of it is plain data that serde can write.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::record::{Accepted, Ballot, Record};
use super::rules::Unfit;
use super::wishes::Wish;
use super::{Body, ClusterId, DiskId, Epoch, View, ViewId};
use crate::{Member, NodeId, Reason, Run};

/// Names one write of the record.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct Stamp(pub u64);

/// What can happen to a [`super::ViewLog`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(bound = "B: Body")]
pub enum Input<B: Body> {
    /// The [`super::ViewLog::deadline`] has passed.
    Woke,
    /// Gossip says that a node is there: new, back, or restarted.
    Up(Member),
    /// Gossip says that a node is gone.
    Down(NodeId, Reason),
    /// A message from a node, whose name the transport vouches for.
    Received(NodeId, Message<B>),
    /// The record of [`Action::Persist`] is on disk, synced, in place of the one before.
    ///
    /// A node whose disk refuses must end: what it may already have written cannot be known.
    Persisted(Stamp),
    /// This node sees a cause for another view. Repeated and passed on until a view heeds it.
    Cause(B::Cause),
    /// This node is ready for its share. Until then it is [`super::State::Joining`].
    Ready,
    /// This node wants to leave. [`Action::Dismissed`] says when it may.
    Drain,
    /// An operator gives up the members that are not there, and with them whatever only they knew.
    RecoverUnsafe,
}

/// What a [`super::ViewLog`] wants done.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(bound = "B: Body")]
pub enum Action<B: Body> {
    /// Write the record and sync, then give [`Input::Persisted`]. One at a time; nothing that depends
    /// on it is sent before.
    Persist(Stamp, Record<B>),
    /// A message for a node. Best effort: it may be lost, doubled or late.
    Send(NodeId, Message<B>),
    /// The view from now on; it is on disk. Views only grow, and some may be left out.
    Install(Arc<View<B>>),
    /// After [`Input::Drain`]: the others go on without this node, which may end.
    Dismissed,
    /// Something for people.
    Tell(Event),
}

/// Something that people want to know.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Event {
    /// This node founded a cluster.
    Founded(ClusterId),
    /// This node was to found a cluster and did not: its disk belongs to this one.
    AlreadyFounded(ClusterId),
    /// The others went on without this node. Whatever it held, somebody else may hold now. It asks to
    /// be let in again.
    Fenced,
    /// A later run of this node has its seat, with this disk or another. Nothing more comes of this view
    /// log, and the process should end.
    Superseded,
    /// Too few voters are there for another view.
    QuorumLost {
        /// How many of them are there.
        live: usize,
        /// How many it takes.
        needed: usize,
    },
    /// Enough voters are there again.
    QuorumBack,
    /// A node that comes and goes is let in again no sooner than after this many milliseconds.
    Damped(NodeId, u64),
    /// The cluster went on without a majority, by order of an operator.
    Recovered {
        /// The first view after it.
        number: Epoch,
        /// Who was given up.
        lost: Vec<NodeId>,
    },
    /// [`Input::RecoverUnsafe`] did nothing.
    NotRecovered(Unrecoverable),
    /// This node would have proposed a view that cannot be. A fault of the body.
    Unfit(Unfit),
    /// Something from outside was not believed, and changed nothing.
    Refused(NodeId, Refusal),
}

/// Why there was nothing to recover.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Unrecoverable {
    /// This node is no member of any view.
    NotAMember,
    /// Enough voters are there, or have not been away for long enough to be given up.
    NotLost,
    /// What would come of it cannot be.
    Unfit,
}

impl fmt::Display for Unrecoverable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAMember => "this node is not a member of the cluster",
            Self::NotLost => "a majority of the voters is there, or was a moment ago",
            Self::Unfit => "the members that are left cannot make a view",
        })
    }
}

/// Why something from outside was refused. It changed nothing.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Refusal {
    /// It is from a node of this other cluster.
    Foreign(ClusterId),
    /// The sender has no vote, or not under this disk.
    NotAVoter(DiskId),
    /// The ballot is not the sender's, or absurdly large.
    Ballot(Ballot),
    /// The view cannot stand or cannot follow ours.
    Unfit(Unfit),
    /// Another view has the number of ours. Either two sides have recovered, and the next view of one of
    /// them settles it, or something is broken.
    Conflict(ViewId),
    /// The seat that the node asks for is not one that it could have.
    Seat(Run),
    /// No more wishes or causes are kept.
    Full,
    /// What the message says does not fit together.
    Nonsense,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(cluster) => write!(f, "it is of the cluster {cluster}"),
            Self::NotAVoter(disk) => write!(f, "disk {disk} has no vote"),
            Self::Ballot(ballot) => write!(f, "it may not use round {}", ballot.round),
            Self::Unfit(why) => why.fmt(f),
            Self::Conflict(id) => write!(f, "it has another view {}", id.number),
            Self::Seat(run) => write!(f, "the seat it asks for in run {run} is not possible"),
            Self::Full => f.write_str("there is no room for what it wants"),
            Self::Nonsense => f.write_str("the message makes no sense"),
        }
    }
}

/// What one view log says to another.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(bound = "B: Body")]
pub struct Message<B: Body> {
    /// The sender's disk.
    pub disk: DiskId,
    /// The sender's cluster and newest view, if it has one. Whoever of two is behind is sent the view
    /// of the other, whatever the message was about.
    pub at: Option<(ClusterId, ViewId)>,
    /// The rest.
    pub word: Word<B>,
}

/// What a message is about. The ballots are about the number after the sender's view.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(bound = "B: Body")]
pub enum Word<B: Body> {
    /// A view that is decided.
    Decided(Arc<View<B>>),
    /// Nothing but where the sender stands.
    Here,
    /// Where do you stand?
    Ask,
    /// Promise not to take part in older attempts?
    Prepare(Ballot),
    /// Promised, and what the sender last voted for.
    Promise(Ballot, Option<Accepted<B>>),
    /// Vote for this view?
    Accept(Ballot, Arc<View<B>>),
    /// Voted for the value of this ballot.
    Accepted(Ballot),
    /// This ballot is beaten by that one.
    Beaten(Ballot, Ballot),
    /// What the sender wants of the next view.
    Wish(Wish<B::Cause>),
}
