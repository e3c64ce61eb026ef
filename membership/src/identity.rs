//! A member as it stands on the wire.
//!
//! To SWIM, down is for ever: a node declared down by mistake comes back only as somebody else. A
//! higher run would do, but the run says that the process has restarted and its memory is lost,
//! which is not so. Hence the renewal: a second number below the run, seen in this crate only.
//!
//! Down also has no reason in SWIM. A node that leaves therefore becomes one that `has_left`, which
//! spreads like any other identity and tells everybody that nothing has failed.

use foca::Identity as Renewable;
use serde::{Deserialize, Serialize};

use crate::{Member, NodeId};

/// What foca calls an identity.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Identity {
    pub(crate) member: Member,
    /// How often the node had to come back in this run.
    pub(crate) renewal: u16,
    /// Said by the node itself, with its last renewal.
    pub(crate) has_left: bool,
}

impl Identity {
    /// The largest renewal that is believed, kept for a node that leaves. One that would go beyond
    /// it has to restart.
    pub(crate) const RENEWAL_MAX: u16 = u16::MAX - 1;

    pub(crate) fn new(member: Member) -> Self {
        Self { member, renewal: 0, has_left: false }
    }

    pub(crate) fn node(&self) -> NodeId {
        self.member.node
    }

    /// The same member after `renewal`, if there is a number left.
    pub(crate) fn after(&self, renewal: u16) -> Option<Self> {
        let renewal = renewal.checked_add(1).filter(|&next| next < Self::RENEWAL_MAX)?;
        Some(Self { renewal, ..self.clone() })
    }

    /// What this one becomes when it leaves.
    pub(crate) fn leave(&self) -> Self {
        Self { renewal: self.renewal + 1, has_left: true, ..self.clone() }
    }
}

impl Renewable for Identity {
    type Addr = NodeId;

    fn renew(&self) -> Option<Self> {
        if self.has_left { None } else { self.after(self.renewal) }
    }

    fn addr(&self) -> NodeId {
        self.node()
    }

    fn win_addr_conflict(&self, adversary: &Self) -> bool {
        // The one that was there first wins a tie.
        (self.member.run, self.renewal) >= (adversary.member.run, adversary.renewal)
    }
}
