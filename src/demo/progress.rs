//! What the nodes say while they run, seen from outside, and whether it is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use starling::cli::{Exit, Failure, Status, TopologyStatus};

use super::cluster::Cluster;
use super::plain::Place;
use crate::node_process::{now, pause};

/// The topology of the demo.
const TOPOLOGY: &str = "top-words";
/// The table that its ranking ends in.
const TABLE: &str = "top";
/// How often the nodes are asked.
const PERIOD: Duration = Duration::from_millis(250);
/// How long nothing may happen before the demo gives up.
const STALL_LIMIT: Duration = Duration::from_secs(60);

/// What all nodes said at one time.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) nodes: Vec<NodeView>,
    /// The ranking so far.
    pub(super) top: Vec<Place>,
    /// How often each file was played.
    pub(super) plays: BTreeMap<String, u64>,
}

/// What one node said.
#[derive(Clone, Debug)]
pub(super) struct NodeView {
    pub(super) status: Status,
    /// Its part in the topology; none before it has taken it in.
    pub(super) part: Option<TopologyStatus>,
}

impl NodeView {
    fn new(status: Status) -> Self {
        let part = status.topologies.iter().find(|topology| topology.name == TOPOLOGY).cloned();
        Self { status, part }
    }

    pub(super) fn applied(&self) -> u64 {
        self.part.as_ref().map_or(0, |part| part.applied)
    }

    pub(super) fn slots(&self) -> usize {
        self.status.members.iter().find(|member| member.is_self).map_or(0, |member| member.slots)
    }

    pub(super) fn phase(&self) -> &str {
        self.part.as_ref().map_or("starting", |part| &part.phase)
    }

    /// Events that are known not to have been applied, by reason.
    pub(super) fn dropped(&self) -> impl Iterator<Item = (&String, u64)> {
        let parts = self.part.iter();
        parts.flat_map(|part| &part.dropped).map(|(reason, count)| (reason, *count))
    }

    /// Events of which it is not known whether they were applied.
    pub(super) fn in_doubt(&self) -> u64 {
        self.part.as_ref().map_or(0, |part| part.in_doubt)
    }

    /// Events that a PE gave up on.
    pub(super) fn dead_letters(&self) -> u64 {
        self.part.iter().flat_map(|part| &part.pes).map(|pe| pe.dead_letters).sum()
    }
}

impl Snapshot {
    /// Asks every node.
    fn take(cluster: &Cluster) -> Result<Self, Failure> {
        let mut nodes = Vec::new();
        let mut top: Vec<Place> = Vec::new();
        let mut plays = BTreeMap::new();
        for node in cluster.nodes() {
            let client = node.client();
            let view = NodeView::new(client.status()?);
            for partition in
                view.part.iter().flat_map(|part| &part.spouts).flat_map(|spout| &spout.partitions)
            {
                // One that has moved is reported twice, and the newer owner has played it more often.
                let most = plays.entry(file_name(&partition.partition)).or_insert(0);
                *most = partition.plays.max(*most);
            }
            let rows = client.table::<Place>(TABLE)?;
            // Only the node with the last stage has rows; of two that had it, one has the newer ones.
            if rows.iter().map(|place| place.n).max() > top.iter().map(|place| place.n).max() {
                top = rows;
            }
            nodes.push(view);
        }
        top.sort_by_key(|place| place.rank);
        Ok(Self { at: now(), nodes, top, plays })
    }

    pub(super) fn applied(&self) -> u64 {
        self.nodes.iter().map(NodeView::applied).sum()
    }

    fn has_ended(&self) -> bool {
        self.nodes.iter().all(|node| node.phase() == "ended")
    }
}

/// Watches the cluster until the topology has ended everywhere.
pub(super) fn watch(
    cluster: &mut Cluster,
    mut show: impl FnMut(&Snapshot),
) -> Result<Snapshot, Failure> {
    let mut moved = (0, now());
    loop {
        let taken = Snapshot::take(cluster);
        // A node that does not answer has mostly ended, and its log says more.
        cluster.check()?;
        let snapshot = taken?;
        show(&snapshot);
        if snapshot.has_ended() {
            return Ok(snapshot);
        }
        if snapshot.applied() != moved.0 {
            moved = (snapshot.applied(), snapshot.at);
        } else if snapshot.at.duration_since(moved.1) > STALL_LIMIT {
            let seconds = STALL_LIMIT.as_secs();
            let message = format!("no event was applied anywhere for {seconds} s");
            return Err(Failure::new(Exit::Failure, message));
        }
        pause(PERIOD);
    }
}

/// The name of a partition may be a path; files of the demo have names of their own.
fn file_name(partition: &str) -> String {
    partition.rsplit('/').next().unwrap_or(partition).to_owned()
}
