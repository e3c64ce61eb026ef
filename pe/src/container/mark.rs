//! Marks: batches of no events, by which the order of events is kept when a unit moves.
//!
//! A container that learns of a move sends its next events to the new home, while older ones may be on
//! their way to the old one. So it sends a *fence* to the old home, behind all that it ever sent there.
//! The old home passes on what came before the fence and, behind that, says *flushed* to the new home,
//! which has kept the newer events until then.

use membership::{Epoch, NodeId};
use routing::{BatchKind, ContainerId};

/// A batch of no events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Behind everything that its sender routed by the layouts up to `former`. Which layout it has now is
    /// said by the header.
    Fence {
        /// The number of the view of the sender's former layout.
        former: Epoch,
    },
    /// Behind everything that came before a fence and was passed on.
    Flushed {
        /// Whose fence.
        producer: ContainerId,
        /// Under which view it was sent.
        epoch: Epoch,
    },
}

impl Mark {
    /// What a header says of it.
    pub(super) fn kind(self) -> BatchKind {
        match self {
            Self::Fence { .. } => BatchKind::Fence,
            Self::Flushed { .. } => BatchKind::Flushed,
        }
    }

    /// Appends what is not in its header.
    pub(super) fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Fence { former } => out.extend_from_slice(&former.0.to_le_bytes()),
            Self::Flushed { producer, epoch } => {
                out.extend_from_slice(&producer.node.0.to_le_bytes());
                out.extend_from_slice(&producer.container.to_le_bytes());
                out.extend_from_slice(&epoch.0.to_le_bytes());
            }
        }
    }

    /// Reads the body of a batch of a kind; `None` if it is no mark.
    pub(super) fn read(kind: BatchKind, body: &[u8]) -> Option<Self> {
        match kind {
            BatchKind::Direct
            | BatchKind::Forwarded
            | BatchKind::Acks
            | BatchKind::Fails
            | BatchKind::Replicate
            | BatchKind::Replicated => None,
            BatchKind::Fence => {
                let former = Epoch(u64::from_le_bytes(body.try_into().ok()?));
                Some(Self::Fence { former })
            }
            BatchKind::Flushed => {
                let (node, rest) = body.split_first_chunk()?;
                let (container, rest) = rest.split_first_chunk()?;
                let node = NodeId(u64::from_le_bytes(*node));
                let producer = ContainerId { node, container: u16::from_le_bytes(*container) };
                let epoch = Epoch(u64::from_le_bytes(rest.try_into().ok()?));
                Some(Self::Flushed { producer, epoch })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_and_nothing_else_is_one() {
        let producer = ContainerId { node: NodeId(1 << 40), container: 2 };
        let marks =
            [Mark::Fence { former: Epoch(3) }, Mark::Flushed { producer, epoch: Epoch(1 << 33) }];
        for mark in marks {
            let mut body = Vec::new();
            mark.write(&mut body);
            assert_eq!(Mark::read(mark.kind(), &body), Some(mark));
            assert_eq!(Mark::read(BatchKind::Direct, &body), None);
            for end in 0..body.len() {
                assert_eq!(Mark::read(mark.kind(), &body[..end]), None);
            }
            body.push(0);
            assert_eq!(Mark::read(mark.kind(), &body), None);
        }
    }
}
