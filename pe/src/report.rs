//! What a container tells of itself: the figures that people see, and the counts by which the end of a
//! topology is known.

use std::collections::BTreeMap;

use membership::Time;
use serde::{Deserialize, Serialize};

use crate::{PartitionName, Position};

/// A container, at one moment between two batches.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// What was asked.
    pub round: u64,
    /// Which container.
    pub container: u16,
    /// The digest of the layout it has.
    pub layout: u64,
    /// The topologies, in the order of the node's plans.
    pub runs: Vec<RunReport>,
}

/// A topology in one container, or summed over several.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct RunReport {
    /// The prototypes, in the order of the plan.
    pub hosts: Vec<HostReport>,
    /// Events sent to members of the layout, over all edges; the container itself counts.
    pub sent: u64,
    /// Events taken from members of the layout: handled, passed on or dropped.
    pub received: u64,
    /// Events that were dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Events given to a node that went before it had confirmed them.
    pub in_doubt: u64,
    /// Events on their way from here, or handled without our having heard of it.
    pub unconfirmed: u64,
    /// How many stages of instances have been removed.
    pub stages_removed: u32,
}

/// A prototype in one container, or summed over several.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct HostReport {
    /// Instances that live here.
    pub instances: u64,
    /// Events that were handled.
    pub applied: u64,
    /// When the last of them was.
    pub last_applied: Option<Time>,
    /// Events that were emitted.
    pub emitted: u64,
    /// Events that were dropped since a handler panicked.
    pub dead_letters: u64,
    /// Whether what it feeds is behind, so that it is held back.
    pub is_held_back: bool,
    /// The partitions that are held here.
    pub partitions: Vec<PartitionReport>,
}

/// A partition of a spout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionReport {
    /// Which.
    pub name: PartitionName,
    /// Behind its last event.
    pub position: Position,
    /// Whether it has nothing more, ever.
    pub is_exhausted: bool,
    /// Why it has nothing more, if that is not its end.
    pub failure: Option<String>,
}

impl RunReport {
    /// Adds another container's figures of the same topology.
    pub fn add(&mut self, other: &Self) {
        self.hosts.resize_with(other.hosts.len().max(self.hosts.len()), HostReport::default);
        for (host, other) in self.hosts.iter_mut().zip(&other.hosts) {
            host.instances += other.instances;
            host.applied += other.applied;
            host.last_applied = host.last_applied.max(other.last_applied);
            host.emitted += other.emitted;
            host.dead_letters += other.dead_letters;
            host.is_held_back |= other.is_held_back;
            host.partitions.extend(other.partitions.iter().cloned());
        }
        self.sent += other.sent;
        self.received += other.received;
        for (reason, count) in &other.dropped {
            *self.dropped.entry(reason.clone()).or_default() += count;
        }
        self.in_doubt += other.in_doubt;
        self.unconfirmed += other.unconfirmed;
    }
}
