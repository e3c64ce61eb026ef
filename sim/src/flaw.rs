//! Bugs that are planted on purpose: an invariant that never fails may be one that cannot.
//!
//! Each is a switch in the simulation's own driver of the cores, which are as in production: the driver
//! does not do what a core wants done, or does it twice, or says that it was done. So what is proved is that
//! the cores rely on it, and that somebody would notice.

use std::fmt;
use std::str::FromStr;

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// A record is said to be synced, and was not written.
    Fsync,
    /// A link that goes on with another stream forgets what was not confirmed.
    Resend,
    /// Who was taken off goes on serving, and does not drop what came for nothing.
    Fence,
    /// A container is not told to seal.
    Seal,
    /// A chunk of state is dropped, and said to have been read.
    Stage,
    /// What was emitted before a unit moved is overtaken by the word that it is all there.
    Order,
    /// A voter agrees to everything, whatever it has promised.
    Quorum,
    /// A partition is passed on and read on.
    DoubleToken,
    /// Events are acked when they leave their node, and not when they were handled. This and what follows is in what
    /// at-least-once adds.
    AckEarly,
    /// Acks from another node are applied twice.
    AckTwice,
    /// What was read is said to be done with.
    CommitEarly,
    /// A partition is opened behind more than was done with.
    Skip,
    /// What was sent to a replica is taken for what it has. This and what follows is in what replicas add.
    ConfirmEarly,
    /// A replica leaves out every second message and confirms them all: who goes on with it is not in sync.
    HalfCopy,
    /// With each view, a node forgets the replicas that it keeps.
    Forget,
    /// What is to be in the journal of replicas is said to be synced, and is not written. This and what follows is in what
    /// replicas on disk add.
    SkipSync,
    /// Segments of the journal are discarded as soon as it is being cleaned, not once it is.
    DiscardEarly,
}

impl Flaw {
    /// All of them.
    pub const ALL: [Self; 17] = [
        Self::Fsync,
        Self::Resend,
        Self::Fence,
        Self::Seal,
        Self::Stage,
        Self::Order,
        Self::Quorum,
        Self::DoubleToken,
        Self::AckEarly,
        Self::AckTwice,
        Self::CommitEarly,
        Self::Skip,
        Self::ConfirmEarly,
        Self::HalfCopy,
        Self::Forget,
        Self::SkipSync,
        Self::DiscardEarly,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fsync => "fsync",
            Self::Resend => "resend",
            Self::Fence => "fence",
            Self::Seal => "seal",
            Self::Stage => "stage",
            Self::Order => "order",
            Self::Quorum => "quorum",
            Self::DoubleToken => "double-token",
            Self::AckEarly => "ack-early",
            Self::AckTwice => "ack-twice",
            Self::CommitEarly => "commit-early",
            Self::Skip => "skip",
            Self::ConfirmEarly => "confirm-early",
            Self::HalfCopy => "half-copy",
            Self::Forget => "forget",
            Self::SkipSync => "skip-sync",
            Self::DiscardEarly => "discard-early",
        }
    }

    /// Whether it is in what at-least-once adds, so that nothing comes of it otherwise.
    pub fn is_of_acks(self) -> bool {
        match self {
            Self::AckEarly
            | Self::AckTwice
            | Self::CommitEarly
            | Self::Skip
            | Self::ConfirmEarly
            | Self::HalfCopy
            | Self::Forget
            | Self::SkipSync
            | Self::DiscardEarly => true,
            Self::Fsync
            | Self::Resend
            | Self::Fence
            | Self::Seal
            | Self::Stage
            | Self::Order
            | Self::Quorum
            | Self::DoubleToken => false,
        }
    }
}

impl Flaw {
    /// Whether it is in what replicas on disk add.
    pub fn is_of_disks(self) -> bool {
        matches!(self, Self::SkipSync | Self::DiscardEarly)
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Flaw {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|flaw| flaw.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|flaw| flaw.name()).collect();
            format!("there are {}", names.join(", "))
        })
    }
}
