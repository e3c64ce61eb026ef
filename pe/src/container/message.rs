//! What goes into a container and what comes out.

use std::sync::Arc;

use bytes::Bytes;
use membership::{Epoch, NodeId};
use routing::{Ack, BatchHeader, ContainerId};
use serde::{Deserialize, Serialize};

use super::mark::Mark;
use crate::Unit;
use crate::event_type::AnyBatch;
use crate::layout::Layout;
use crate::report::{PartitionReport, Report};
use crate::{Failure, PartitionName, Position, Seen, Sought};

/// What can happen to a container.
#[derive(Debug)]
pub enum Input {
    /// A batch from another container of this node.
    Parcel(Parcel),
    /// A batch from another node, as it came.
    Arrived(NodeId, BatchHeader, Bytes),
    /// A batch of ours was handled by another container of this node.
    Returned(Returned),
    /// Batches of ours were handled by a container of another node.
    Credited {
        /// The node.
        node: NodeId,
        /// Which lane of ours.
        credit: Credit,
        /// How many events were handled.
        rows: u64,
        /// How much of its budget is free again.
        weight: u32,
    },
    /// Acks for trees that were planted here, from another container of this node.
    Acked {
        /// The topology.
        topology: u16,
        /// The acks.
        acks: Vec<Ack>,
    },
    /// Trees that were planted here are given up by another container of this node.
    Failed {
        /// The topology.
        topology: u16,
        /// The trees, and why.
        trees: Vec<(u64, Failure)>,
    },
    /// Who has events of a tree?
    Explain {
        /// What the answer is called.
        question: u64,
        /// The tree.
        root: u64,
    },
    /// What is an instance?
    Look {
        /// What the answer is called.
        question: u64,
        /// Which.
        sought: Sought,
    },
    /// What is an instance, by a copy of its state?
    LookAtCopy {
        /// What the answer is called.
        question: u64,
        /// The topology.
        topology: u16,
        /// The prototype.
        prototype: u16,
        /// The copy, as [`ReplicaAction::Looked`](crate::ReplicaAction::Looked) gave it.
        state: Vec<u8>,
    },
    /// A dead letter is to be read again, and handled once more.
    Resend {
        /// The topology.
        topology: u16,
        /// The spout.
        prototype: u16,
        /// The partition.
        name: PartitionName,
        /// Where the spout is opened.
        position: Position,
        /// How many events come before it from there on.
        skip: u64,
    },
    /// Nothing of a topology is on its way any more, on any node: what is pending has lost something.
    Quiet(u16),
    /// There is a new view.
    Laid(Arc<Layout>),
    /// Whether too few voters are there. While they are, nothing new is read of a topology that is to lose nothing:
    /// others may go on without this node, and what it handles would be lost with its state.
    Degraded(bool),
    /// Begin to copy units that live here, and go to one other container, ahead of a handoff.
    ///
    /// Those that do not live here are left out. A former handoff of one of them is released.
    Copy {
        /// What the handoff is called from now on.
        handoff: u64,
        /// What goes.
        units: Vec<Unit>,
    },
    /// Give the next chunk of a handoff; nothing is given of one that there is not.
    Pull(u64),
    /// Seal the units of a handoff, as soon as nothing older is awaited for them: their events are kept,
    /// their timers stand still, and what has not been copied ahead is given to those who pull.
    Seal(u64),
    /// A handoff is over or given up: what of it was sealed and lives here by the layout is served again,
    /// what was kept for it first.
    Release(u64),
    /// A chunk of instances that are about to be ours. They stand still until a layout says so.
    Stage {
        /// The handoff.
        handoff: u64,
        /// As [`Action::Chunk`] gave it.
        bytes: Bytes,
        /// Whether it is of a replica, and nobody serves it. Such instances are loaded by their first events; of
        /// others it is known before they are ours whether they can be read, and whoever has them goes on if not.
        is_replica: bool,
    },
    /// All that was to be staged of units that this node is to own is here: those who are to have replicas of them may
    /// get them.
    Whole {
        /// By which handoff, in the words of [`Input::Stage`].
        handoff: u64,
        /// Which.
        units: Vec<Unit>,
    },
    /// The answer to [`Action::Replicate`].
    Replicated(Vec<u8>),
    /// Units do not come, or begin anew: what is here of them is dropped.
    Discard(Vec<Unit>),
    /// A partition is ours from now on.
    Open {
        /// The topology.
        topology: u16,
        /// The spout.
        prototype: u16,
        /// The partition.
        name: PartitionName,
        /// Where to go on.
        position: Position,
        /// So many events from there on are left out.
        skip: u64,
    },
    /// A partition is another's from now on.
    Close {
        /// The topology.
        topology: u16,
        /// The spout.
        prototype: u16,
        /// The partition.
        name: PartitionName,
    },
    /// The answer to [`Action::Unspill`]: what was kept first; nothing if it cannot be read.
    Unspilled(SpillId, Option<Bytes>),
    /// A spout has something again.
    Woken,
    /// Somebody wants to know how things are.
    Asked(u64),
    /// The node shuts down.
    Stopped,
    /// There is no other input at the moment, or a deadline is due.
    Drained,
}

/// What a container wants done.
#[derive(Debug)]
pub enum Action {
    /// An input for another container of this node, to arrive in order.
    Post(u16, Input),
    /// A frame for a node, not yet numbered, to be sent in order.
    Send(NodeId, Vec<u8>),
    /// Credit for a container of another node.
    Credit {
        /// The node.
        node: NodeId,
        /// Which of its lanes.
        credit: Credit,
        /// How many events were handled.
        rows: u64,
        /// How much of its budget is free again.
        weight: u32,
    },
    /// The answer to [`Input::Asked`].
    Report(Report),
    /// The answer to [`Input::Close`]; no state if the partition was not here.
    Closed {
        /// The topology.
        topology: u16,
        /// The spout.
        prototype: u16,
        /// The partition.
        name: PartitionName,
        /// Where it stands.
        state: Option<PartitionReport>,
    },
    /// The answer to [`Input::Pull`].
    Chunk {
        /// The handoff.
        handoff: u64,
        /// About 64 KiB of instances, or one larger one, with a checksum; perhaps none.
        bytes: Vec<u8>,
        /// What follows it.
        kind: ChunkKind,
    },
    /// The answer to [`Input::Stage`].
    Staged {
        /// The handoff.
        handoff: u64,
        /// Why the chunk could not be staged; some of it may have been.
        outcome: Result<(), String>,
    },
    /// All who are to have replicas of these units under the next set have them.
    Secured {
        /// The handoff by which the units came; 0 if they have been here.
        handoff: u64,
        /// The view that named the set.
        epoch: Epoch,
        /// Which.
        units: Vec<Unit>,
    },
    /// Something for the replicas that this node itself keeps of what it owns.
    Replicate(Vec<u8>),
    /// The answer to [`Input::Explain`].
    Explained {
        /// What was asked.
        question: u64,
        /// What is here.
        holders: Vec<Holder>,
    },
    /// The answer to [`Input::Look`] and [`Input::LookAtCopy`].
    Looked {
        /// What was asked.
        question: u64,
        /// What was seen.
        seen: Seen,
    },
    /// An event of a spout was tried often enough.
    Bury(DeadLetter),
    /// Events for readers that are behind, to be kept behind what is kept of the same edge already.
    Spill(SpillId, Vec<u8>),
    /// What is kept first of an edge is wanted, and not to be kept any more.
    Unspill(SpillId),
    /// The answer to [`Input::Stopped`]: everything was given out.
    Stopped,
}

/// An edge of a container of which something is kept on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpillId {
    /// The topology.
    pub topology: u16,
    /// The edge.
    pub edge: u16,
}

/// Something in a container that has events of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The topology, by its place.
    pub topology: u16,
    /// The prototype.
    pub prototype: u16,
    /// How it has them.
    pub how: Held,
    /// How many events; where they are not counted, how many batches or anchors.
    pub count: u64,
}

/// How something has events of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Held {
    /// They wait for it.
    Queued,
    /// They wait until it is where it will live.
    Kept,
    /// It has emitted them, and they wait for company.
    Open,
    /// It has anchors of some trees; nobody knows of which.
    Anchored,
    /// They wait for it on disk.
    Spilled,
}

/// An event of a spout that was tried often enough, and is done with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The name of the topology.
    pub topology: String,
    /// The spout.
    pub spout: String,
    /// Its partition.
    pub partition: String,
    /// Where the spout is opened to read it again.
    pub position: Position,
    /// How many events come before it from there on.
    pub skip: u64,
    /// The name of its type; none if it could not be read again.
    pub event: Option<String>,
    /// The event as JSON.
    pub json: String,
    /// Why it failed last.
    pub why: Failure,
    /// How often it was tried.
    pub attempts: u32,
}

/// Where in a handoff a chunk comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChunkKind {
    /// Copied ahead; more is to come.
    Ahead,
    /// The last that could be copied ahead: a further pull is answered when the units are sealed.
    AheadEnd,
    /// Of sealed units; more is to come.
    Rest,
    /// The last.
    End,
}

/// A batch on its way between two containers of a node.
#[derive(Debug)]
pub struct Parcel {
    /// Who sent it, and will have it back.
    pub(crate) from: ContainerId,
    /// What it is.
    pub(crate) header: BatchHeader,
    /// The events.
    pub(crate) contents: Contents,
}

/// The events of a parcel.
#[derive(Debug)]
pub(crate) enum Contents {
    /// A batch that never left this node.
    Batch(AnyBatch),
    /// As it came from another node.
    Bytes(Bytes),
    /// No events, but word of them.
    Mark(Mark),
    /// A batch that was taken before and could not be handled at once.
    Kept(AnyBatch),
}

/// Which lane a credit is for, in words of whoever sent the batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Credit {
    /// The topology.
    pub topology: u16,
    /// The edge.
    pub edge: u16,
    /// The container that sent the batches.
    pub from: u16,
    /// The container that they went to.
    pub to: u16,
    /// The instance that they went to.
    pub task: u32,
    /// The view under which they were sent.
    pub epoch: u64,
}

/// A batch that was handled, back where it came from.
#[derive(Debug)]
pub struct Returned {
    pub(crate) credit: Credit,
    pub(crate) rows: u64,
    pub(crate) weight: u32,
    pub(crate) batch: Option<AnyBatch>,
}
