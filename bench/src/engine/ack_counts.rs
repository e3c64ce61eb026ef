//! What a node says of trees in its status.
//!
//! These fields are read by name from the JSON and not by a type of the engine's: a version that does not
//! acknowledge trees does not have them, and its nodes are measured all the same.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::TOPOLOGY;
use crate::Acks;

/// What a node says of the trees whose ledger it keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AckCounts {
    trees_completed: u64,
    #[serde(default)]
    trees_pending_peak: u64,
    #[serde(default)]
    replays: u64,
    #[serde(default)]
    ack_bytes: u64,
    #[serde(default)]
    ledger_bytes_peak: u64,
}

impl AckCounts {
    /// From the status of a node; `None` if it says nothing of trees.
    pub fn of_status(status: &Value) -> Option<Self> {
        let topologies = status.get("topologies")?.as_array()?.iter();
        let ours = topologies.filter(|topology| topology["name"] == TOPOLOGY);
        let counts = ours.filter_map(|topology| Self::deserialize(topology).ok());
        counts.reduce(Self::plus)
    }

    /// Both together; what was the most on each at some time counts as if it was at the same.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            trees_completed: self.trees_completed + other.trees_completed,
            trees_pending_peak: self.trees_pending_peak + other.trees_pending_peak,
            replays: self.replays + other.replays,
            ack_bytes: self.ack_bytes + other.ack_bytes,
            ledger_bytes_peak: self.ledger_bytes_peak + other.ledger_bytes_peak,
        }
    }
}

impl From<AckCounts> for Acks {
    fn from(counts: AckCounts) -> Self {
        let each = |bytes: u64, trees: u64| (trees > 0).then(|| bytes as f64 / trees as f64);
        Self {
            trees: counts.trees_completed,
            replays: counts.replays,
            ack_bytes_per_tree: each(counts.ack_bytes, counts.trees_completed),
            ledger_bytes_per_tree: each(counts.ledger_bytes_peak, counts.trees_pending_peak),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_node_says_of_trees_is_found_and_of_no_trees_is_nothing() {
        let said = json!({ "name": TOPOLOGY, "applied": 7, "trees_completed": 10, "trees_pending": 1,
            "trees_pending_peak": 4, "replays": 2, "ack_bytes": 160, "ledger_bytes_peak": 64 });
        let other = json!({ "name": "other", "trees_completed": 5 });
        let counts = AckCounts::of_status(&json!({ "topologies": [other, said] })).unwrap();
        let acks = Acks::from(counts.plus(counts));
        assert_eq!((acks.trees, acks.replays), (20, 4));
        assert_eq!((acks.ack_bytes_per_tree, acks.ledger_bytes_per_tree), (Some(16.0), Some(16.0)));
        let silent = json!({ "topologies": [{ "name": TOPOLOGY, "applied": 7 }] });
        assert_eq!(AckCounts::of_status(&silent), None);
    }
}
