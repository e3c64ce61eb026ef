//! What goes into membership and what comes out of it.
//!
//! Both are plain data that serde can write: a driver, a simulator, a journal and a test all speak
//! to [`crate::Membership`] in these words and in no others.

use serde::{Deserialize, Serialize};

use crate::{Member, NodeId, Refusal};

/// What can happen to a [`crate::Membership`].
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Input {
    /// A packet from a peer; any bytes at all.
    Received(Vec<u8>),
    /// The [`crate::Membership::deadline`] has passed.
    Woke,
    /// A handshake with this member has just succeeded. We join the cluster through it, and ask
    /// again until it answers or is `Lost`.
    Met(Member),
    /// The connection to this node closed and dialling it again was refused.
    ///
    /// It becomes suspect at once, and down after [`crate::Config::evidence_wait`] unless it objects: a
    /// node that only we cannot reach hears of it through the others and stays up everywhere.
    Lost(NodeId),
    /// We leave. Nothing happens after it.
    Leave,
}

/// What a [`crate::Membership`] wants done.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Action {
    /// These bytes to that member. Best effort: they may be lost.
    Send(Member, Vec<u8>),
    /// A member is there: new, back, or restarted with a higher run.
    Up(Member),
    /// A member that was up is gone. When it has restarted and is up, its `Up` follows.
    Down(Member, Reason),
    /// The others had declared us down, and we have come back. Same run: nothing of ours is lost,
    /// but they may have given our work to others.
    Fenced,
    /// Something from outside was not believed, and changed nothing. For a log line and a counter.
    Refused(Refusal),
}

/// Why a member is no longer up.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Reason {
    /// It said so.
    Left,
    /// It does not answer, or so somebody says.
    Failed,
    /// It has a later run.
    Restarted,
}
