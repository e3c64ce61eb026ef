//! The world of a simulation: nodes, network and time.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use membership::view_log::{self, ClusterId, DiskId, Founding, LogId, Start, ViewLog};
use membership::{Config, Epoch, Member, Membership, NodeId, Run, Time};
use node::{Assignment, Input, NodeCore, Setup, Status};
use pe::topology::Plan;
use pe::{Home, Layout, Phase, Place, Registry, active_containers, spread_tasks};

use crate::Chance;
use crate::network::{Letter, Network};
use crate::node_sim::{Outbox, SimNode};

/// How many slots a simulated cluster has.
const SLOTS: u32 = 64;

/// How long a turn of a container takes: without it, a spout that always has more would stop time.
const TURN: Duration = Duration::from_micros(50);

/// A simulated cluster.
pub struct World {
    now: Time,
    chance: Chance,
    nodes: BTreeMap<NodeId, SimNode>,
    network: Network,
    registry: Arc<Registry>,
    plans: Vec<Arc<Plan>>,
    expected_nodes: u32,
    members: Vec<Member>,
    trace: String,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.now).finish_non_exhaustive()
    }
}

impl World {
    /// A world without nodes; all that start in it run the same program and topologies.
    pub fn new(seed: u64, registry: Arc<Registry>, plans: &[Arc<Plan>]) -> Self {
        Self {
            now: Time::default(),
            chance: Chance::new(seed),
            nodes: BTreeMap::new(),
            network: Network::default(),
            registry,
            plans: plans.to_vec(),
            expected_nodes: 1,
            members: Vec::new(),
            trace: String::new(),
        }
    }

    /// Spouts read once there are so many members; for nodes that start from now on.
    pub fn expect(&mut self, nodes: u32) {
        self.expected_nodes = nodes;
    }

    /// Starts a node: one that founds a cluster, or one that joins by the n-th node started.
    pub fn start(&mut self, containers: u16, join: Option<usize>) -> NodeId {
        let number = u16::try_from(self.members.len()).expect("few nodes") + 1;
        let address = |port: u16| SocketAddr::from(([10, 0, 0, 1], port));
        let me = Member {
            node: NodeId(self.chance.number()),
            run: Run(1),
            peer: number.to_le_bytes().to_vec(),
            control: address(2 * number),
            data: address(2 * number + 1),
            http: None,
            containers,
        };
        let node = me.node;
        let setup = Setup {
            cluster: "sim".to_owned(),
            slots: SLOTS,
            expected_nodes: self.expected_nodes,
            plans: self.plans.clone(),
        };
        let membership = Membership::new(me.clone(), Config::local(), self.chance.number());
        let log_id = LogId::unsynced(DiskId(self.chance.number()), me.run);
        let start = Start {
            member: me.clone(),
            log: log_id,
            record: None,
            founding: join.is_none().then(|| Founding {
                cluster: ClusterId(self.chance.number()),
                body: Assignment::first(&setup, &me, log_id),
                nodes: Vec::new(),
            }),
            seed: self.chance.number(),
        };
        let log = ViewLog::new(start, view_log::Config::lan()).expect("a first start is possible");
        let membership = membership.expect("the preset is valid");
        let core = NodeCore::new(setup, membership, log, log_id);
        let first = Arc::new(self.first_layout(&me));
        let registry = Arc::clone(&self.registry);
        let sim = SimNode::new(core, &first, containers, registry, self.plans.clone());
        let hello = Box::new(sim.core.hello());
        self.nodes.insert(node, sim);
        self.members.push(me);
        self.note(node, "starts");
        self.step(node, |node, now, out| node.step(now, Input::Started, out));
        if let Some(seed) = join {
            let to = self.members[seed].node;
            self.network.send(self.now, &mut self.chance, (node, to), Letter::Hello(hello));
        }
        node
    }

    /// Ends a node without a word; the others see their connections close.
    pub fn kill(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        self.note(node, "is killed");
        for &other in self.nodes.keys() {
            self.network.send(self.now, &mut self.chance, (node, other), Letter::Closed);
        }
    }

    /// Breaks the data link from one node to another: what is under way on it is lost, and the writer
    /// notices. How many frames with events were lost.
    pub fn break_link(&mut self, from: NodeId, to: NodeId) -> usize {
        let lost = self.network.lose_frames(from, to);
        if lost > 0 {
            self.note(from, &format!("has to send {lost} frames to {to} again"));
        }
        self.step(from, |node, now, out| node.reopen(now, to, out));
        lost
    }

    /// Lets a node forget what it has read of another's data link, as if it had taken it for dead.
    pub fn forget_link(&mut self, node: NodeId, of: NodeId) {
        self.note(node, &format!("forgets what it read from {of}"));
        self.step(node, |node, _, out| node.forget(of, out));
    }

    /// Tells a node to leave.
    pub fn leave(&mut self, node: NodeId) {
        self.note(node, "is told to leave");
        self.step(node, |node, now, out| node.step(now, Input::Leave, out));
    }

    /// Lets time pass until a condition holds, or for at most `limit`; whether it holds.
    pub fn run_until(&mut self, limit: Duration, is_met: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + limit;
        while self.now < end {
            if is_met(self) {
                return true;
            }
            let nodes = self.nodes.values().filter_map(|node| node.deadline(self.now));
            let next = nodes.chain(self.network.next()).min().unwrap_or(end);
            self.now = next.max(self.now + TURN);
            self.deliver();
            for node in self.nodes.keys().copied().collect::<Vec<_>>() {
                self.step(node, SimNode::wake);
                self.step(node, SimNode::turn);
                if self.nodes.get(&node).is_some_and(|node| node.has_left) {
                    self.nodes.remove(&node);
                    self.note(node, "has left");
                }
            }
        }
        is_met(self)
    }

    /// What a node shows of itself; a node that is gone shows nothing, and asking for it is a mistake.
    pub fn status(&self, node: NodeId) -> Status {
        self.nodes.get(&node).expect("the node is there").core.status()
    }

    /// Whether a node is there.
    pub fn has(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node)
    }

    /// What has happened, one line each.
    pub fn trace(&self) -> &str {
        &self.trace
    }

    fn first_layout(&self, me: &Member) -> Layout {
        let place =
            Place { node: me.node, since: Epoch(0), containers: me.containers, is_active: true };
        let slots = vec![Home::first(me.node); SLOTS as usize];
        let places = vec![place];
        let tasks = spread_tasks(&self.plans, &active_containers(&places));
        let phases = vec![Phase::Waiting; self.plans.len()];
        Layout::new(Epoch(0), me.node, places, slots, tasks, &self.plans, phases)
    }

    fn deliver(&mut self) {
        while let Some((from, to, letter)) = self.network.take(self.now) {
            self.step(to, |node, now, out| node.receive(now, from, letter, out));
        }
    }

    /// Steps a node, if it is there, and posts what it sends.
    fn step(&mut self, id: NodeId, step: impl FnOnce(&mut SimNode, Time, &mut Outbox)) {
        let mut out = Outbox::new();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let before = node.core.view().map(|view| view.head.number);
        step(node, self.now, &mut out);
        let after = node.core.view().map(|view| (view.head.number, view.head.seats.len()));
        if let Some((epoch, members)) = after.filter(|(epoch, _)| Some(*epoch) != before) {
            self.note(id, &format!("has view {epoch} of {members}"));
        }
        for (to, letter) in out {
            self.network.send(self.now, &mut self.chance, (id, to), letter);
        }
    }

    fn note(&mut self, node: NodeId, what: &str) {
        let at = self.now.0.as_secs_f64();
        writeln!(self.trace, "{at:>9.6} {node} {what}").expect("writing to a string");
    }
}
