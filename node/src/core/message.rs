//! What goes into a node's core, what comes out, and what two cores say to each other.

use std::sync::Arc;
use std::time::Duration;

use membership::view_log::{self, LogId, Record, Stamp};
use membership::{Epoch, Member, NodeId, Reason};
use pe::topology::Plan;
use pe::{ChunkKind, Layout, PartitionName, PartitionReport, Phase, Position, Report, Unit};
use serde::{Deserialize, Serialize};

use super::assignment::Assignment;
use super::books::BookMessage;
use super::handoff::HandoffMessage;
use super::rounds::Totals;
use super::tokens::{Offsets, Token, TokenId};

/// What a node is started with.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The name of the cluster.
    pub cluster: String,
    /// How many slots there are.
    pub slots: u32,
    /// How many members there must be before spouts read, in a cluster that this node founds.
    pub expected_nodes: u32,
    /// How many nodes there are to be with the state of each unit, its owner included, in such a cluster.
    pub replicas: u32,
    /// Whether each of them is on a disk before anything is acknowledged; equal on all nodes.
    pub is_durable: bool,
    /// The topologies, by name.
    pub plans: Vec<Arc<Plan>>,
}

/// What can happen to a node.
#[derive(Debug)]
pub enum Input {
    /// The node has started; the first input.
    Started,
    /// A handshake with a member has succeeded.
    Met(Member),
    /// The connection to a node broke, and dialling it again was refused.
    Lost(NodeId),
    /// A link to or from a node cannot be repaired: events or credits may be lost.
    Broken(NodeId),
    /// [`Action::Persist`] is done: what was asked for is on disk, synced.
    Persisted(Stamp),
    /// [`Action::Keep`] is done: what was asked for is on disk, synced.
    Kept,
    /// A container has the next chunk of what is given away.
    Chunk {
        /// Which handoff, in the words of [`Action::Give`].
        handoff: u64,
        /// What it is.
        kind: ChunkKind,
        /// Instances.
        bytes: Vec<u8>,
    },
    /// A container has read a chunk of what is taken over.
    Staged {
        /// Which handoff.
        handoff: u64,
        /// Or why it could not.
        outcome: Result<(), String>,
    },
    /// All who are to have replicas of these units under the next sets have them.
    Secured {
        /// The handoff by which the units came; 0 if they have been here.
        handoff: u64,
        /// The view that named the sets.
        epoch: Epoch,
        /// Which.
        units: Vec<Unit>,
    },
    /// An operator gives up the members that are not there, and what only they knew.
    RecoverUnsafe,
    /// A message from a node.
    Received(NodeId, Message),
    /// A container answers [`Action::Ask`].
    Reported(Report),
    /// The answer to [`Action::List`].
    Listed {
        /// The topology.
        topology: u16,
        /// The spout.
        prototype: u16,
        /// Its partitions, or why there are none.
        partitions: Result<Vec<PartitionName>, String>,
    },
    /// A container closed a partition.
    Closed {
        /// The topology.
        topology: u16,
        /// The spout.
        prototype: u16,
        /// The partition.
        name: PartitionName,
        /// Where it stands; `None` if it was not there.
        state: Option<PartitionReport>,
    },
    /// No more events come from a node: its farewell arrived behind the last of them.
    Finished(NodeId),
    /// A container gave out everything, after [`Action::Stop`].
    Stopped(u16),
    /// The others have all that was sent to them on data links, after [`Action::Flush`].
    Flushed,
    /// This node is to leave.
    Leave,
    /// The deadline is due.
    Woke,
}

/// What a node wants done.
#[derive(Debug)]
pub enum Action {
    /// A message for a member; it may be lost.
    Send(Member, Message),
    /// Keep links to a member.
    Connect(Member),
    /// Drop the links to a node.
    Disconnect(NodeId, Reason),
    /// Put the record on disk in place of the one before, synced, and say [`Input::Persisted`]. A node
    /// whose disk refuses has to end.
    Persist(Stamp, Box<Record<Assignment>>),
    /// Put what is known of partitions on disk in place of what was there, synced, and say [`Input::Kept`].
    /// Nothing else of this kind is asked for before.
    Keep(Box<Offsets>),
    /// A layout for all containers, and for the replicas.
    Lay(Arc<Layout>),
    /// Whether too few voters are there, for all containers.
    Degraded(bool),
    /// An input for a container.
    Give(u16, pe::Input),
    /// An input for the replicas that this node keeps.
    Replicas(pe::ReplicaInput),
    /// Ask all containers how things are.
    Ask(u64),
    /// Find out the partitions of a spout.
    List {
        /// The topology.
        topology: u16,
        /// The spout.
        prototype: u16,
    },
    /// A container reads a partition from now on.
    Open {
        /// The container.
        container: u16,
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
    /// A container reads a partition no more.
    Close {
        /// The container.
        container: u16,
        /// The topology.
        topology: u16,
        /// The spout.
        prototype: u16,
        /// The partition.
        name: PartitionName,
    },
    /// Tell a node that no more events come, behind the last of them.
    Farewell(NodeId),
    /// All containers give out what they have.
    Stop,
    /// Say when the others have all that was sent to them on data links.
    Flush,
    /// Something for people.
    Tell(Event),
    /// The node is done.
    Exit(Ending),
}

/// How a node ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It has left, and left nothing behind.
    Left,
    /// There was nobody to give to what it had, though there are other members.
    LeftAlone,
    /// It ran out of time; so many events were not confirmed.
    DrainLimit(u64),
    /// A later life of this node is in the cluster.
    Superseded,
    /// The cluster that its data directory belongs to is not one that it can be in.
    Unfit(String),
}

/// Something that people want to know.
#[derive(Clone, Debug)]
pub enum Event {
    /// A member is there.
    Up(Member),
    /// A member is gone.
    Down(Member, Reason),
    /// There is a new view.
    View {
        /// Its number.
        epoch: Epoch,
        /// How many members it has.
        members: usize,
        /// How many slots have another owner than before.
        moved: usize,
        /// How many units are on their way to another owner.
        moving: usize,
        /// How long it took from the first sign that one is needed.
        took: Duration,
    },
    /// A topology has come further.
    Phase(String, Phase),
    /// What the view log has to say.
    Log(view_log::Event),
    /// So many units were taken over from a node with their state, and stood still for so long.
    TookOver(NodeId, usize, Duration),
    /// So many units have begun empty: no member is left that had their state.
    StateLost(usize),
    /// So many units are served by nobody, since all who have their state are gone and may come back with it.
    Unavailable(usize),
    /// Units could not be taken over from a node; it is tried again.
    HandoffFailed(NodeId, String),
    /// A peer's gossip was not believed.
    RefusedGossip(String),
    /// A spout has no partitions.
    NothingToRead(String, String),
    /// A partition was on its way to a node that is gone.
    PartitionLost(PartitionName),
    /// This node leaves.
    Leaving,
}

/// What two nodes say to each other on the control link.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Message {
    /// A packet of gossip.
    Gossip(Vec<u8>),
    /// A message of the view log.
    Log(Box<view_log::Message<Assignment>>),
    /// About units that move.
    Handoff(HandoffMessage),
    /// How are things in this view?
    Ask {
        /// The number of the asker's view.
        epoch: Epoch,
        /// The round.
        round: u64,
    },
    /// So are things; from an older view, a request to be sent the newer one.
    Answer {
        /// The number of the answerer's view.
        epoch: Epoch,
        /// The round.
        round: u64,
        /// By topology.
        totals: Vec<Totals>,
    },
    /// A partition is the receiver's from now on.
    Token {
        /// Which.
        token: Token,
        /// The life of the receiver that it is for.
        to: LogId,
    },
    /// A token arrived that had been passed on so often.
    Taken(TokenId, u64),
    /// About what nodes have of partitions.
    Book(BookMessage),
    /// Nothing of these topologies was on its way in this view, on any node.
    Quiet {
        /// The number of the view.
        epoch: Epoch,
        /// Which topologies.
        topologies: Vec<u16>,
    },
}
