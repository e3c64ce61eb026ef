//! What a node shows of itself, in the words of the contract.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use membership::Time;
use pe::{Phase, RunReport};
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
    /// The number of its view; 0 before it has one.
    pub epoch: u64,
    /// Who makes the views.
    pub coordinator: Option<String>,
    /// How many slots the cluster has.
    pub slots: u32,
    /// The name of the key hash.
    pub key_hash: String,
    /// The members of the view.
    pub members: Vec<MemberStatus>,
    /// The topologies, by name.
    pub topologies: Vec<TopologyStatus>,
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
    /// How many slots it owns.
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
}

/// A partition of a spout.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PartitionStatus {
    /// Its name.
    pub partition: String,
    /// Where it stands.
    pub position: u64,
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
    /// Whether it waits for what it feeds.
    pub is_held_back: bool,
}

pub(super) fn of(core: &NodeCore, now: Time) -> Status {
    let (setup, me) = (&core.setup, core.membership.me());
    let record = core.record.as_ref();
    let members = record.into_iter().flat_map(|record| {
        record.seats.iter().map(|seat| MemberStatus {
            node: seat.member.node.to_string(),
            run: seat.member.run.0,
            control: seat.member.control,
            data: seat.member.data,
            http: seat.member.http,
            containers: seat.member.containers,
            slots: record.table.count(seat.member.node),
            is_self: seat.member.node == me.node,
        })
    });
    let runs = core.run_reports();
    Status {
        node: me.node.to_string(),
        run: me.run.0,
        cluster: setup.cluster.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_ms: 0,
        epoch: record.map_or(0, |record| record.epoch.0),
        coordinator: core.coordinator(now).map(|node| node.to_string()),
        slots: setup.slots,
        key_hash: routing::KEY_HASH.to_owned(),
        members: members.collect(),
        topologies: (0..setup.plans.len()).map(|at| topology(core, at, runs.get(at))).collect(),
    }
}

fn micros(time: Time) -> u64 {
    u64::try_from(time.0.as_micros()).unwrap_or(u64::MAX)
}

fn topology(core: &NodeCore, at: usize, run: Option<&RunReport>) -> TopologyStatus {
    let plan = &core.setup.plans[at];
    let none = RunReport::default();
    let run = run.unwrap_or(&none);
    let phase = core.record.as_ref().map_or(Phase::Waiting, |record| record.phases[at]);
    let host = |prototype: usize| run.hosts.get(prototype).cloned().unwrap_or_default();
    let (mut spouts, mut pes) = (Vec::new(), Vec::new());
    for (number, prototype) in plan.prototypes.iter().enumerate() {
        let (host, name) = (host(number), prototype.name.clone());
        if prototype.is_spout {
            let tokens = core.tokens.of(id16(at), id16(number));
            let partitions = tokens.map(|token| PartitionStatus {
                partition: token.name.as_str().to_owned(),
                position: token.position.offset,
                plays: token.position.plays,
                exhausted: token.is_exhausted,
            });
            spouts.push(SpoutStatus {
                name,
                partitions: partitions.collect(),
                emitted: host.emitted,
                is_held_back: host.is_held_back,
            });
        } else {
            pes.push(PeStatus {
                name,
                instances: host.instances,
                applied: host.applied,
                last_applied_us: host.last_applied.map(micros),
                emitted: host.emitted,
                dead_letters: host.dead_letters,
                is_held_back: host.is_held_back,
            });
        }
    }
    TopologyStatus {
        name: plan.name.clone(),
        hash: format!("{:016x}", plan.hash),
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
