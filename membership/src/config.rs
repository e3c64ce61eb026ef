//! What an operator may choose about membership.

use std::fmt;
use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use crate::codec::ITEM_BYTES_MAX;

/// Settings of [`crate::Membership`]; the nodes of a cluster should have the same.
///
/// A dead node is declared down about `2 * probe_period + suspicion` after its death, four periods
/// and more when chance is against it. Where the driver has evidence, it takes `evidence_wait`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// How often one other node, chosen in turn, is probed.
    ///
    /// Shorter finds a dead node sooner and costs two small messages per node and period; too short
    /// and a busy machine looks dead. It is also how long a node that was declared down waits before
    /// it comes back a second time, and how late we may be woken before we take it that we ourselves
    /// were asleep and judge nobody for what we missed.
    pub probe_period: Duration,

    /// How long an answer may take before others are asked to probe in our stead.
    ///
    /// A high quantile of the round trip. Too short and every probe is sent by four nodes; too long
    /// and the others have no time left. Must be shorter than half of `probe_period`.
    pub probe_rtt: Duration,

    /// How many others are asked to probe in our stead, and get gossip at a time.
    ///
    /// With too few, one bad link looks like a dead node; more than five only cost packets.
    pub fanout: NonZeroUsize,

    /// How long a node that did not answer has to object before it is declared down.
    ///
    /// Too short and a pause or a lost packet costs a node its slots; too long and events for a dead
    /// node wait. Must be longer than `probe_period`.
    pub suspicion: Duration,

    /// How long a node has to object when there is evidence that it is gone.
    ///
    /// Too short and a node that one other cannot reach is declared down by all, since its objection
    /// comes round by gossip: leave it four of `gossip_period`. Must not be longer than `suspicion`.
    pub evidence_wait: Duration,

    /// How often news is passed on, while there is some.
    ///
    /// News reaches all in about `log(nodes) / log(fanout + 1)` periods. Too short costs packets
    /// when many nodes come and go at once.
    pub gossip_period: Duration,

    /// How often a node passes on the same news.
    ///
    /// Too few and some node may miss it, and learn it from its own probes; too many and every change
    /// is talked about for longer. Five for a handful of nodes, fifteen for a thousand.
    pub transmissions: NonZeroU8,

    /// How often one known node is asked for its whole list, and two that are down whether they are
    /// there again.
    ///
    /// This heals what gossip missed, and splits of the network. Shorter heals sooner and costs one
    /// full packet per node and period.
    pub announce_period: Duration,

    /// How long to wait for the answer of a node just met before it is asked again; doubles each
    /// time.
    ///
    /// Too short and a node asks twice when it would have been answered; too long and a lost packet
    /// delays its joining.
    pub announce_wait: Duration,

    /// The longest wait for the answer of a node that was met, and of the nodes we lost sight of
    /// when we know of nobody alive.
    ///
    /// Longer is quieter when a node never answers, and slower to find back after a split. Must not
    /// be shorter than `announce_wait`.
    pub announce_wait_max: Duration,

    /// How long a node that is down is remembered by its exact identity.
    ///
    /// Too short and old news brings a dead node to life for a moment; too long and nodes that never
    /// come back fill `members_max`. Must be longer than `suspicion`.
    pub forget_after: Duration,

    /// How many nodes are known at most, those that are down included, and how many are remembered
    /// after that so that an older run of theirs cannot return.
    ///
    /// Bounds memory against a peer that makes up nodes; a new node beyond it is refused.
    pub members_max: usize,

    /// The longest packet sent or taken, in bytes.
    ///
    /// A packet of 8 KiB holds some 80 members. In packets of 1,400 bytes a thousand nodes never got
    /// to know each other. At least 2 KiB, so that any one message fits.
    pub packet_bytes_max: usize,
}

impl Config {
    /// For nodes in one data centre: round trips of milliseconds, pauses below a second.
    pub fn lan() -> Self {
        Self {
            probe_period: Duration::from_millis(500),
            probe_rtt: Duration::from_millis(150),
            fanout: FANOUT,
            suspicion: Duration::from_millis(2500),
            evidence_wait: Duration::from_millis(600),
            gossip_period: Duration::from_millis(100),
            transmissions: TRANSMISSIONS,
            announce_period: Duration::from_secs(2),
            announce_wait: Duration::from_millis(200),
            announce_wait_max: Duration::from_secs(5),
            forget_after: Duration::from_secs(3600),
            members_max: 4096,
            packet_bytes_max: 8 * 1024,
        }
    }

    /// For nodes on one machine or in one rack: round trips below a millisecond.
    pub fn local() -> Self {
        Self {
            probe_period: Duration::from_millis(200),
            probe_rtt: Duration::from_millis(60),
            suspicion: Duration::from_millis(600),
            evidence_wait: Duration::from_millis(250),
            gossip_period: Duration::from_millis(50),
            announce_period: Duration::from_secs(1),
            announce_wait: Duration::from_millis(50),
            announce_wait_max: Duration::from_secs(1),
            ..Self::lan()
        }
    }

    pub(crate) fn check(self) -> Result<Self, ConfigError> {
        let wrong = [
            (self.probe_rtt.is_zero(), ConfigError::ProbeRttZero),
            (self.probe_period <= self.probe_rtt * 2, ConfigError::ProbePeriodTooShort),
            (self.suspicion <= self.probe_period, ConfigError::SuspicionTooShort),
            (self.evidence_wait.is_zero(), ConfigError::EvidenceWaitZero),
            (self.evidence_wait > self.suspicion, ConfigError::EvidenceWaitTooLong),
            (self.gossip_period.is_zero(), ConfigError::GossipPeriodZero),
            (self.announce_period.is_zero(), ConfigError::AnnouncePeriodZero),
            (self.announce_wait.is_zero(), ConfigError::AnnounceWaitZero),
            (self.announce_wait_max < self.announce_wait, ConfigError::AnnounceWaitMaxTooShort),
            (self.forget_after <= self.suspicion, ConfigError::ForgetsTooSoon),
            (self.members_max == 0, ConfigError::NoMembers),
            (self.packet_bytes_max < ITEM_BYTES_MAX, ConfigError::PacketTooShort),
        ];
        match wrong.into_iter().find(|&(is_wrong, _)| is_wrong) {
            Some((_, error)) => Err(error),
            None => Ok(self),
        }
    }

    pub(crate) fn foca(&self) -> foca::Config {
        let every = |frequency, num_members| Some(foca::PeriodicParams { frequency, num_members });
        foca::Config {
            probe_period: self.probe_period,
            probe_rtt: self.probe_rtt,
            num_indirect_probes: self.fanout,
            max_transmissions: self.transmissions,
            suspect_to_down_after: self.suspicion,
            remove_down_after: Some(self.forget_after),
            max_packet_size: NonZeroUsize::new(self.packet_bytes_max).unwrap_or(NonZeroUsize::MIN),
            notify_down_members: true,
            periodic_announce: every(self.announce_period, NonZeroUsize::MIN),
            periodic_announce_to_down_members: every(self.announce_period, TWO),
            periodic_gossip: every(self.gossip_period, self.fanout),
        }
    }
}

const TWO: NonZeroUsize = NonZeroUsize::new(2).expect("not zero");
const FANOUT: NonZeroUsize = NonZeroUsize::new(3).expect("not zero");
const TRANSMISSIONS: NonZeroU8 = NonZeroU8::new(10).expect("not zero");

/// Why [`crate::Membership::new`] refused. Nothing was started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// No answer could ever come in time.
    ProbeRttZero,
    /// The nodes asked to probe in our stead would have no time to.
    ProbePeriodTooShort,
    /// A suspected node could not object in time.
    SuspicionTooShort,
    /// A node could not object to evidence.
    EvidenceWaitZero,
    /// Evidence would slow the detector down.
    EvidenceWaitTooLong,
    /// Gossip would never end.
    GossipPeriodZero,
    /// Announcing would never end.
    AnnouncePeriodZero,
    /// Announcing to a node just met would never end.
    AnnounceWaitZero,
    /// The wait could not grow.
    AnnounceWaitMaxTooShort,
    /// A node would be forgotten while others still say that it is alive.
    ForgetsTooSoon,
    /// No other node could be known.
    NoMembers,
    /// A message might not fit into a packet.
    PacketTooShort,
    /// The node's own `peer` is longer than [`crate::Member::PEER_BYTES_MAX`].
    PeerTooLong,
    /// The node's own run is so large that the others would refuse it.
    RunTooLarge,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ProbeRttZero => "probe_rtt must not be zero",
            Self::ProbePeriodTooShort => "probe_period must be longer than twice probe_rtt",
            Self::SuspicionTooShort => "suspicion must be longer than probe_period",
            Self::EvidenceWaitZero => "evidence_wait must not be zero",
            Self::EvidenceWaitTooLong => "evidence_wait must not be longer than suspicion",
            Self::GossipPeriodZero => "gossip_period must not be zero",
            Self::AnnouncePeriodZero => "announce_period must not be zero",
            Self::AnnounceWaitZero => "announce_wait must not be zero",
            Self::AnnounceWaitMaxTooShort => {
                "announce_wait_max must not be shorter than announce_wait"
            }
            Self::ForgetsTooSoon => "forget_after must be longer than suspicion",
            Self::NoMembers => "members_max must not be zero",
            Self::PacketTooShort => "packet_bytes_max must be at least 2048",
            Self::PeerTooLong => "the node's peer name is too long",
            Self::RunTooLarge => "the node's run is too large",
        })
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_good() {
        assert_eq!(Config::lan().check(), Ok(Config::lan()));
        assert_eq!(Config::local().check(), Ok(Config::local()));
    }

    #[test]
    fn refuses_what_cannot_work() {
        let zero = Duration::ZERO;
        let lan = Config::lan;
        for (config, error) in [
            (Config { probe_rtt: zero, ..lan() }, ConfigError::ProbeRttZero),
            (Config { probe_rtt: lan().probe_period, ..lan() }, ConfigError::ProbePeriodTooShort),
            (Config { suspicion: lan().probe_period, ..lan() }, ConfigError::SuspicionTooShort),
            (Config { evidence_wait: zero, ..lan() }, ConfigError::EvidenceWaitZero),
            (Config { evidence_wait: Duration::MAX, ..lan() }, ConfigError::EvidenceWaitTooLong),
            (Config { gossip_period: zero, ..lan() }, ConfigError::GossipPeriodZero),
            (Config { announce_period: zero, ..lan() }, ConfigError::AnnouncePeriodZero),
            (Config { announce_wait: zero, ..lan() }, ConfigError::AnnounceWaitZero),
            (Config { announce_wait_max: zero, ..lan() }, ConfigError::AnnounceWaitMaxTooShort),
            (Config { forget_after: zero, ..lan() }, ConfigError::ForgetsTooSoon),
            (Config { members_max: 0, ..lan() }, ConfigError::NoMembers),
            (Config { packet_bytes_max: 1400, ..lan() }, ConfigError::PacketTooShort),
        ] {
            assert_eq!(config.check(), Err(error));
        }
    }
}
