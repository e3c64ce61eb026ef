//! The vocabulary of membership: nodes, their runs, what they tell of themselves, and epochs.

use std::fmt;
use std::net::{SocketAddr, SocketAddrV6};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One node of the cluster, the same across restarts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct NodeId(pub u64);

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for NodeId {
    type Err = ParseNodeIdError;

    fn from_str(text: &str) -> Result<Self, ParseNodeIdError> {
        // `from_str_radix` alone would take a sign and a short number.
        let is_id = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| is_id);
        number.map(Self).ok_or(ParseNodeIdError)
    }
}

/// The text is not 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ParseNodeIdError;

impl fmt::Display for ParseNodeIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a node id is 16 hexadecimal digits")
    }
}

impl std::error::Error for ParseNodeIdError {}

/// Counts the starts of a node: the process with the larger run is the one that counts.
///
/// It must grow by one at every start, so it has to be on disk before the node is heard of.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct Run(pub u64);

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a view: what the nodes agree on later has a larger one.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a node tells the others of itself; constant for a run.
#[derive(Clone, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
pub struct Member {
    /// Who it is.
    pub node: NodeId,
    /// Which of its lives this is.
    pub run: Run,
    /// The transport's name of the node; opaque here, and at most [`Member::PEER_BYTES_MAX`] long.
    pub peer: Vec<u8>,
    /// Where it listens for gossip and the view log.
    pub control: SocketAddr,
    /// Where it listens for batches of events.
    pub data: SocketAddr,
    /// Where it serves its pages and metrics, if it does.
    pub http: Option<SocketAddr>,
    /// How many containers it runs, which is its share of the load.
    pub containers: u16,
}

impl Member {
    /// The longest `peer`. A libp2p id has 38 to 42 bytes; room is left for others.
    pub const PEER_BYTES_MAX: usize = 128;

    /// As the others will see it: flow labels and scopes of IPv6 do not travel, since they mean
    /// something on one machine only.
    pub(crate) fn portable(mut self) -> Self {
        for addr in [&mut self.control, &mut self.data].into_iter().chain(&mut self.http) {
            if let SocketAddr::V6(v6) = addr {
                *v6 = SocketAddrV6::new(*v6.ip(), v6.port(), 0, 0);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_ids_are_read_as_written() {
        let node = NodeId(0xab);
        assert_eq!(node.to_string(), "00000000000000ab");
        assert_eq!(node.to_string().parse(), Ok(node));
        for wrong in ["", "ab", "+0000000000000ab", "00000000000000abc", "000000000000000g"] {
            assert_eq!(wrong.parse::<NodeId>(), Err(ParseNodeIdError), "{wrong}");
        }
        assert_eq!((Run(7).to_string(), Epoch(7).to_string()), ("7".into(), "7".into()));
    }
}
