//! What a container tells of itself: the figures that people see, and the counts by which the end of a
//! topology is known.

use std::collections::BTreeMap;

use membership::Time;
use serde::{Deserialize, Serialize};

use crate::{Failure, PartitionName, Position};

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
    /// What became of trees, under at-least-once.
    pub trees: TreesReport,
}

/// What became of trees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreesReport {
    /// Complete.
    pub completed: u64,
    /// Not complete, those that wait to be read again included.
    pub pending: u64,
    /// The most that were pending at a time in one container, added up.
    pub pending_peak: u64,
    /// Trees that were read again.
    pub replays: u64,
    /// Given up, by reason.
    pub failed: BTreeMap<String, u64>,
    /// Bytes of acks that went to other containers.
    pub ack_bytes: u64,
    /// Bytes of what was kept of trees, at most.
    pub ledger_bytes_peak: u64,
    /// Those that wait longest.
    pub oldest: Vec<TreeReport>,
}

/// A tree that is not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeReport {
    /// Its name.
    pub root: u64,
    /// The spout, by its place in the plan.
    pub prototype: u16,
    /// The partition.
    pub partition: String,
    /// Where the spout can be opened to read it again.
    pub position: Position,
    /// How many events come before it from there on.
    pub skip: u64,
    /// How often it failed.
    pub attempts: u32,
    /// Why it failed last.
    pub why: Option<Failure>,
    /// Milliseconds in which younger ones were completed and nothing was heard of it.
    pub idle_ms: u64,
}

impl TreesReport {
    /// Adds another container's.
    pub fn add(&mut self, other: &Self) {
        self.completed += other.completed;
        self.pending += other.pending;
        self.pending_peak += other.pending_peak;
        self.replays += other.replays;
        for (why, count) in &other.failed {
            *self.failed.entry(why.clone()).or_default() += count;
        }
        self.ack_bytes += other.ack_bytes;
        self.ledger_bytes_peak += other.ledger_bytes_peak;
        self.oldest.extend(other.oldest.iter().cloned());
    }
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
    /// Keyed instances that were given up.
    pub evicted: Evicted,
    /// Whether what it feeds is behind, so that it is held back.
    pub is_held_back: bool,
    /// Whether it is behind: something here has as much on its way to it as may be.
    pub is_behind: bool,
    /// Events that it emitted and that wait on disk, since what it feeds is behind.
    pub spilled: u64,
    /// The bytes that they take.
    pub spilled_bytes: u64,
    /// The partitions that are held here.
    pub partitions: Vec<PartitionReport>,
}

/// Keyed instances that were given up, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evicted {
    /// There were too many.
    pub full: u64,
    /// They had had no event for too long.
    pub idle: u64,
}

/// A partition of a spout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionReport {
    /// Which.
    pub name: PartitionName,
    /// Behind its last event; under at-least-once, behind the last of those that are done with, all before
    /// them included.
    pub position: Position,
    /// So many events behind it are done with, too.
    pub skip: u64,
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
            host.evicted.full += other.evicted.full;
            host.evicted.idle += other.evicted.idle;
            host.is_held_back |= other.is_held_back;
            host.is_behind |= other.is_behind;
            host.spilled += other.spilled;
            host.spilled_bytes += other.spilled_bytes;
            host.partitions.extend(other.partitions.iter().cloned());
        }
        self.sent += other.sent;
        self.received += other.received;
        for (reason, count) in &other.dropped {
            *self.dropped.entry(reason.clone()).or_default() += count;
        }
        self.in_doubt += other.in_doubt;
        self.unconfirmed += other.unconfirmed;
        self.trees.add(&other.trees);
    }
}
