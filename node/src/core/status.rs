//! What a node shows of itself, in the words of the contract.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use membership::Time;
use membership::view_log::State;
use pe::topology::Delivery;
use pe::{Evicted, Phase, RunReport, TreeReport};
use serde::{Deserialize, Serialize};

use super::{NodeCore, id16};

/// A node as `GET /api/v1/status` shows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The node, in 16 hexadecimal digits.
    pub node: String,
    /// Which of its lives.
    pub run: u64,
    /// The name of the cluster.
    pub cluster: String,
    /// The version of the program.
    pub version: String,
    /// How long it has been up; filled in by the driver, which has the clock.
    pub uptime_ms: u64,
    /// Its data directory; filled in by the driver.
    pub data_dir: String,
    /// The number of its view; 0 before it has one.
    pub epoch: u64,
    /// The member that asks the others for counts: the first voter that is alive.
    pub coordinator: Option<String>,
    /// How many of the voters are there, and how many it takes for another view.
    pub voters_live: usize,
    /// The majority of the voters.
    pub voters_needed: usize,
    /// Whether too few voters are there: nothing moves, and nobody joins, until they are back.
    pub is_degraded: bool,
    /// Units (slots and numbered instances) on their way to another owner, in the whole cluster.
    pub moving: usize,
    /// Units that this node is taking over.
    pub arriving: usize,
    /// Units that this node is giving away.
    pub leaving: usize,
    /// Units that this node has taken over since it started.
    pub units_taken: u64,
    /// Bytes of state that came with them.
    pub bytes_taken: u64,
    /// How long they stood still, in microseconds: the median of the last of them.
    pub pause_median_us: u64,
    /// The longest of those times.
    pub pause_worst_us: u64,
    /// How many nodes there are to be with the state of each unit, its owner included.
    #[serde(default)]
    pub replicas: u32,
    /// Units with fewer, in the whole cluster: of those the loss of a node, or of some, would lose the state.
    #[serde(default)]
    pub thin: usize,
    /// Units that nobody serves, in the whole cluster: all who have their state are gone, and may come back with it, since it
    /// is on their disks.
    #[serde(default)]
    pub unavailable: usize,
    /// Units of the cluster that have begun empty since this node started, since nobody was left who had their state.
    #[serde(default)]
    pub units_lost: u64,
    /// Replicas that this node keeps, of its own units too if they are on disk; filled in by the driver.
    #[serde(default)]
    pub replicas_kept: u64,
    /// About how much memory they take; filled in by the driver.
    #[serde(default)]
    pub replica_bytes: u64,
    /// How many slots the cluster has.
    pub slots: u32,
    /// The name of the key hash.
    pub key_hash: String,
    /// The members of the view.
    pub members: Vec<MemberStatus>,
    /// The topologies, by name.
    pub topologies: Vec<TopologyStatus>,
    /// Containers in which code of the application has not returned for a second or more; filled in by the driver.
    #[serde(default)]
    pub stuck: Vec<StuckStatus>,
}

/// A container that does not come back from code of the application. Its other figures are as old as that.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StuckStatus {
    /// The container.
    pub container: u16,
    /// The topology.
    pub topology: String,
    /// The spout, PE or sink whose code it is.
    pub pe: String,
    /// For how long.
    pub for_ms: u64,
}

impl StuckStatus {
    /// For how long, as people read it: `5.2 s`.
    pub fn span(&self) -> String {
        format!("{}.{} s", self.for_ms / 1000, self.for_ms / 100 % 10)
    }
}

/// A member of the view.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MemberStatus {
    /// The node.
    pub node: String,
    /// Which of its lives.
    pub run: u64,
    /// Where it takes control messages.
    pub control: SocketAddr,
    /// Where it takes events.
    pub data: SocketAddr,
    /// Where it serves HTTP.
    pub http: Option<SocketAddr>,
    /// How many containers it has.
    pub containers: u16,
    /// `joining`, `active` or `draining`.
    pub state: String,
    /// Whether it has a vote on the next view.
    pub is_voter: bool,
    /// How many slots it serves.
    pub slots: usize,
    /// Whether it is the node that answers.
    pub is_self: bool,
}

/// A topology, on the node that answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TopologyStatus {
    /// Its name.
    pub name: String,
    /// Its hash; equal on all nodes.
    pub hash: String,
    /// `at-most-once` or `at-least-once`.
    #[serde(default)]
    pub delivery: String,
    /// `waiting`, `running`, `ending` or `ended`.
    pub phase: String,
    /// Its spouts.
    pub spouts: Vec<SpoutStatus>,
    /// Its PEs and sinks.
    pub pes: Vec<PeStatus>,
    /// Events handled by its PEs and sinks.
    pub applied: u64,
    /// Events emitted by its spouts and PEs.
    pub emitted: u64,
    /// Events dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Events given to a node that went before it had confirmed them.
    pub in_doubt: u64,
    /// Trees of this node's spouts that are complete; under at-least-once, like all that follows.
    #[serde(default)]
    pub trees_completed: u64,
    /// Trees that are not, those that wait to be read again included.
    #[serde(default)]
    pub trees_pending: u64,
    /// The most that were pending at a time, by container, added up.
    #[serde(default)]
    pub trees_pending_peak: u64,
    /// Trees that were read again.
    #[serde(default)]
    pub replays: u64,
    /// Trees that were given up, by reason; each is read again or a dead letter.
    #[serde(default)]
    pub trees_failed: BTreeMap<String, u64>,
    /// Bytes of acks that containers of this node sent to others.
    #[serde(default)]
    pub ack_bytes: u64,
    /// The most bytes that were kept of trees, by container, added up.
    #[serde(default)]
    pub ledger_bytes_peak: u64,
    /// The trees of each container that have been pending longest.
    #[serde(default)]
    pub oldest_trees: Vec<TreeStatus>,
}

/// A tree that is not complete, on the node that planted it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TreeStatus {
    /// Its name, in 16 hexadecimal digits.
    pub root: String,
    /// The spout.
    pub spout: String,
    /// The partition.
    pub partition: String,
    /// Where the spout can be opened to read it again.
    pub position: u64,
    /// How many times the partition was played to its end before that.
    pub plays: u64,
    /// How many events come before it from there on.
    pub skip: u64,
    /// How often it failed.
    pub attempts: u32,
    /// Why it failed last.
    pub why: Option<String>,
    /// How long nothing was heard of it while younger ones were completed.
    pub idle_ms: u64,
}

/// A spout, on the node that answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SpoutStatus {
    /// Its name.
    pub name: String,
    /// The partitions that this node holds.
    pub partitions: Vec<PartitionStatus>,
    /// Events emitted.
    pub emitted: u64,
    /// Whether it waits for what it feeds.
    pub is_held_back: bool,
    /// Events that it emitted and that wait on this node's disk, since what it feeds is behind.
    #[serde(default)]
    pub spilled: u64,
    /// The bytes that they take.
    #[serde(default)]
    pub spilled_bytes: u64,
}

/// A partition of a spout.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartitionStatus {
    /// Its name.
    pub partition: String,
    /// Where it stands; under at-least-once, where it is committed.
    pub position: u64,
    /// So many events behind it are committed, too.
    #[serde(default)]
    pub skip: u64,
    /// How many times it was played to its end.
    pub plays: u64,
    /// Whether it has nothing more.
    pub exhausted: bool,
}

/// A PE or sink, on the node that answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PeStatus {
    /// Its name.
    pub name: String,
    /// Instances that live here.
    pub instances: u64,
    /// Events handled.
    pub applied: u64,
    /// When the last of them was, in microseconds of the time that the node has been up.
    pub last_applied_us: Option<u64>,
    /// Events emitted.
    pub emitted: u64,
    /// Events dropped since a handler panicked.
    pub dead_letters: u64,
    /// Keyed instances that were given up, since there were too many of them or they were idle.
    #[serde(default)]
    pub evicted: Evicted,
    /// Whether it waits for what it feeds.
    pub is_held_back: bool,
    /// Whether it is behind: what feeds it on this node has as much on its way to it as may be. If it is not
    /// held back itself, it is what the others wait for.
    #[serde(default)]
    pub is_behind: bool,
    /// Events that it emitted and that wait on this node's disk, since what it feeds is behind.
    #[serde(default)]
    pub spilled: u64,
    /// The bytes that they take.
    #[serde(default)]
    pub spilled_bytes: u64,
}

pub(super) fn of(core: &NodeCore) -> Status {
    let (setup, me) = (&core.setup, core.membership.me());
    let view = core.view.as_ref();
    let members = view.into_iter().flat_map(|view| {
        view.head.seats.iter().map(|seat| MemberStatus {
            node: seat.member.node.to_string(),
            run: seat.member.run.0,
            control: seat.member.control,
            data: seat.member.data,
            http: seat.member.http,
            containers: seat.member.containers,
            state: match seat.state {
                State::Joining => "joining",
                State::Active => "active",
                State::Draining => "draining",
            }
            .to_owned(),
            is_voter: view.head.is_voter(seat.disk()),
            slots: view.body.slots_of(seat.log),
            is_self: seat.member.node == me.node,
        })
    });
    let runs = core.run_reports();
    let (live, needed) = core.log.quorum().unwrap_or_default();
    let ((arriving, leaving), counts) = (core.handoff.moving(), core.handoff.counts());
    let (median, worst) = counts.pauses();
    Status {
        node: me.node.to_string(),
        run: me.run.0,
        cluster: setup.cluster.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_ms: 0,
        data_dir: String::new(),
        epoch: view.map_or(0, |view| view.head.number.0),
        coordinator: core.coordinator().map(|node| node.to_string()),
        voters_live: live,
        voters_needed: needed,
        is_degraded: live < needed,
        moving: view.map_or(0, |view| view.body.moving()),
        arriving,
        leaving,
        units_taken: counts.units,
        bytes_taken: counts.bytes,
        pause_median_us: micros(Time(median)),
        pause_worst_us: micros(Time(worst)),
        replicas: view.map_or(setup.replicas, |view| view.body.replicas),
        thin: view.map_or(0, |view| view.body.thin(&view.head)),
        unavailable: view.map_or(0, |view| view.body.unavailable(&view.head)),
        units_lost: core.units_lost,
        replicas_kept: 0,
        replica_bytes: 0,
        slots: setup.slots,
        key_hash: routing::KEY_HASH.to_owned(),
        members: members.collect(),
        topologies: (0..setup.plans.len()).map(|at| topology(core, at, runs.get(at))).collect(),
        stuck: Vec::new(),
    }
}

fn micros(time: Time) -> u64 {
    u64::try_from(time.0.as_micros()).unwrap_or(u64::MAX)
}

fn topology(core: &NodeCore, at: usize, run: Option<&RunReport>) -> TopologyStatus {
    let plan = &core.setup.plans[at];
    let none = RunReport::default();
    let run = run.unwrap_or(&none);
    let phase = core.view.as_ref().map_or(Phase::Waiting, |view| view.body.topologies[at].phase);
    let host = |prototype: usize| run.hosts.get(prototype).cloned().unwrap_or_default();
    let (mut spouts, mut pes) = (Vec::new(), Vec::new());
    for (number, prototype) in plan.prototypes.iter().enumerate() {
        let (host, name) = (host(number), prototype.name.clone());
        if prototype.is_spout {
            let tokens = core.tokens.of(id16(at), id16(number));
            let partitions = tokens.map(|token| PartitionStatus {
                partition: token.name.as_str().to_owned(),
                position: token.position.offset,
                skip: token.skip,
                plays: token.position.plays,
                exhausted: token.is_exhausted,
            });
            spouts.push(SpoutStatus {
                name,
                partitions: partitions.collect(),
                emitted: host.emitted,
                is_held_back: host.is_held_back,
                spilled: host.spilled,
                spilled_bytes: host.spilled_bytes,
            });
        } else {
            pes.push(PeStatus {
                name,
                instances: host.instances,
                applied: host.applied,
                last_applied_us: host.last_applied.map(micros),
                emitted: host.emitted,
                dead_letters: host.dead_letters,
                evicted: host.evicted,
                is_held_back: host.is_held_back,
                is_behind: host.is_behind,
                spilled: host.spilled,
                spilled_bytes: host.spilled_bytes,
            });
        }
    }
    let trees = &run.trees;
    let tree = |tree: &TreeReport| TreeStatus {
        root: format!("{:016x}", tree.root),
        spout: plan.prototypes[usize::from(tree.prototype)].name.clone(),
        partition: tree.partition.clone(),
        position: tree.position.offset,
        plays: tree.position.plays,
        skip: tree.skip,
        attempts: tree.attempts,
        why: tree.why.map(|why| why.as_str().to_owned()),
        idle_ms: tree.idle_ms,
    };
    let delivery = if plan.acks.is_some() { Delivery::AtLeastOnce } else { Delivery::AtMostOnce };
    TopologyStatus {
        name: plan.name.clone(),
        hash: format!("{:016x}", plan.hash),
        delivery: delivery.as_str().to_owned(),
        trees_completed: trees.completed,
        trees_pending: trees.pending,
        trees_pending_peak: trees.pending_peak,
        replays: trees.replays,
        trees_failed: trees.failed.clone(),
        ack_bytes: trees.ack_bytes,
        ledger_bytes_peak: trees.ledger_bytes_peak,
        oldest_trees: trees.oldest.iter().map(tree).collect(),
        phase: match phase {
            Phase::Waiting => "waiting",
            Phase::Running => "running",
            Phase::Ending(_) => "ending",
            Phase::Ended => "ended",
        }
        .to_owned(),
        applied: pes.iter().map(|pe| pe.applied).sum(),
        emitted: run.hosts.iter().map(|host| host.emitted).sum(),
        spouts,
        pes,
        dropped: run.dropped.clone(),
        in_doubt: run.in_doubt,
    }
}
