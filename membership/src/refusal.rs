//! Why something that came from outside was not believed.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{NodeId, Run};

/// Why a packet, or what it or a handshake says of a member, was refused.
///
/// What is refused has changed nothing. A packet is refused as a whole when its bytes or its sender
/// are wrong; when it repeats something wrong about a third node, only that is left out, since the
/// sender may have been the first victim.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Refusal {
    /// The packet has this many bytes, more than [`crate::Config::packet_bytes_max`].
    TooLong(usize),
    /// The packet is not one of ours: cut short, followed by something, or of another version.
    Undecodable,
    /// The packet is for another node, or wants us to probe ourselves.
    Misaddressed,
    /// The sender says it is us. Two processes with one key, or an earlier run of ours.
    FromMyself,
    /// The run, the renewal or the incarnation is at its limit, or far beyond the last one known.
    Incarnation(NodeId, Run),
    /// Another member is known under this node and run.
    Conflict(NodeId, Run),
    /// A later run of this node is known.
    OlderRun(NodeId, Run),
    /// There is a later run of our own node. This process should end.
    Superseded(NodeId, Run),
    /// [`crate::Config::members_max`] nodes are known already.
    Full(NodeId, Run),
    /// The name that the transport has for the node is longer than [`crate::Member::PEER_BYTES_MAX`].
    PeerTooLong(NodeId),
    /// We were declared down more often than a run can come back from. This process should end.
    RenewalsSpent,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong(bytes) => write!(f, "a packet of {bytes} bytes is too long"),
            Self::Undecodable => f.write_str("the packet cannot be decoded"),
            Self::Misaddressed => f.write_str("the packet is not for this node"),
            Self::FromMyself => f.write_str("the sender claims to be this node"),
            Self::Incarnation(node, run) => {
                write!(f, "node {node} claims an absurd incarnation, run {run}")
            }
            Self::Conflict(node, run) => {
                write!(f, "node {node} run {run} is known as another member")
            }
            Self::OlderRun(node, run) => write!(f, "node {node} has a later run than {run}"),
            Self::Superseded(_, run) => write!(f, "run {run} of this node is there"),
            Self::Full(node, _) => write!(f, "no room to know of node {node}"),
            Self::PeerTooLong(node) => write!(f, "the peer name of node {node} is too long"),
            Self::RenewalsSpent => f.write_str("declared down too often to come back in this run"),
        }
    }
}
