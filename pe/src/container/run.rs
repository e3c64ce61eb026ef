//! One topology in one container.

mod acks;
mod commit;
mod delivery;
mod fences;
mod gate;
mod moving;
mod report;
mod spill;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use membership::{Epoch, NodeId, Time};
use routing::{AnyOutlet, BatchHeader, BatchKind, ContainerId, Excess, KeyFields, Lane};

use self::acks::{Acks, seed};
use self::commit::OwnCheckpoint;
use self::gate::Gate;
use self::report::partition_report;
pub(super) use self::spill::Spill;
use super::Desk;
use super::edge::{EdgeSide, held};
use super::handoffs::Laying;
use super::mark::Mark;
use super::message::{Action, Contents, Credit, Parcel, Returned};
use crate::Registry;
use crate::acker::Ledger;
use crate::host::{AnyHost, Opened, Source};
use crate::layout::{Layout, Phase};
use crate::pe::Removal;
use crate::topology::{InstancePlan, Overflow, Plan};

/// A topology in one container.
pub(super) struct Run {
    topology: u16,
    plan: Arc<Plan>,
    hosts: Vec<Slot>,
    edges: Vec<EdgeSide>,
    /// Batches of views that we have not heard of yet.
    early: Vec<Parcel>,
    /// Hosts with batches in their queues that may run; the last is next.
    work: Vec<usize>,
    dropped: BTreeMap<&'static str, u64>,
    in_doubt: u64,
    /// Bytes that other nodes have us hold.
    held: usize,
    stages_removed: u32,
    /// The hosts, by stage.
    by_stage: Vec<usize>,
    /// Batches of a host for others here, while they are collected.
    local: Vec<(usize, Parcel)>,
    gate: Gate,
    acks: Acks,
    /// When the ledgers are told next that what waits on disk is not lost.
    next_touch: Time,
}

/// How often what comes round a cycle is flushed at once. With less, an event waits for company at each hop.
const LAPS: usize = 4;

/// A host and what waits for it.
struct Slot {
    host: Box<dyn AnyHost>,
    queue: VecDeque<Parcel>,
    last_applied: Option<Time>,
    /// What of it waits for a checkpoint of its own, if it has such.
    own: Option<OwnCheckpoint>,
    /// Whether too much of what it emitted waits on disk.
    is_full: bool,
    /// By output and route: the edge.
    edges: Vec<Vec<usize>>,
}

/// The reasons under which a container drops events.
mod reason {
    /// The bytes of a batch were not one.
    pub(super) const UNDECODABLE: &str = "undecodable";
    /// A batch was passed on once, and came to a node that does not have its instance either.
    pub(super) const MISROUTED: &str = "misrouted";
    /// A node sent more than it had credit for.
    pub(super) const OVER_CREDIT: &str = "over credit";
    /// An event was larger than any may be.
    pub(super) const OVERSIZED: &str = "oversized";
    /// An event was for a task that there is not.
    pub(super) const NO_SUCH_TASK: &str = "no such task";
    /// A reader was behind, of a stream that sheds.
    pub(super) const SHED: &str = "shed";
    /// A reader was behind, and twice as much as may be waited on disk.
    pub(super) const SPILL_FULL: &str = "spill full";
    /// What waited on disk could not be read.
    pub(super) const UNREADABLE: &str = "unreadable";
    /// Emitted at the end, to somebody of the same cycle who has ended.
    pub(super) const ENDED: &str = "ended";
}

impl Run {
    pub(super) fn new(
        topology: u16,
        plan: &Arc<Plan>,
        registry: &Registry,
        me: ContainerId,
    ) -> Self {
        let events = registry.events(plan);
        let place = (me.node, me.container);
        let mut hosts: Vec<_> = plan
            .prototypes
            .iter()
            .map(|prototype| Slot {
                host: registry.host(plan, prototype, &events, place),
                queue: VecDeque::new(),
                last_applied: None,
                own: prototype.checkpoint.map(OwnCheckpoint::new),
                is_full: false,
                edges: vec![Vec::new(); prototype.outputs.len()],
            })
            .collect();
        let mut edges = Vec::new();
        for (at, edge) in plan.edges.iter().enumerate() {
            let consumer = &plan.prototypes[edge.to];
            let input = &consumer.inputs[edge.input];
            let key = KeyFields(input.key.clone());
            let outlets = &mut hosts[edge.from].edges[edge.output];
            let is_keyed = consumer.instances == InstancePlan::Keyed;
            let route = outlets.len();
            let mut side = EdgeSide::new(route, key.clone(), is_keyed, events[input.stream]);
            side.choice = registry.choice(plan, input);
            side.is_cyclic = plan.is_cyclic(*edge);
            let excess = match plan.streams[input.stream].overflow {
                Overflow::Block => Excess::Blocks,
                Overflow::Shed => Excess::IsShed,
                Overflow::Spill { mib } => {
                    side.spill = Some(Spill::new(mib));
                    Excess::Spills
                }
            };
            edges.push(side);
            outlets.push(at);
            hosts[edge.from].outlet(edge.output, |outlet| {
                outlet.connect(key);
                outlet.set_excess(route, excess);
            });
        }
        let mut by_stage: Vec<_> = (0..hosts.len()).collect();
        by_stage.sort_by_key(|&at| plan.prototypes[at].stage);
        let acks = Acks::new(plan.acks, seed(me, topology, plan.hash));
        let mut run = Self {
            topology,
            plan: Arc::clone(plan),
            hosts,
            edges,
            early: Vec::new(),
            work: Vec::new(),
            dropped: BTreeMap::new(),
            in_doubt: 0,
            held: 0,
            stages_removed: 0,
            by_stage,
            local: Vec::new(),
            gate: Gate::default(),
            acks,
            next_touch: Time::default(),
        };
        run.track(me);
        run
    }

    /// A partition is read here from now on.
    pub(super) fn open(&mut self, opened: Opened) {
        let ledger = self.acks.ledger.as_mut();
        let slot = self.hosts.get_mut(usize::from(opened.prototype));
        if let Some(source) = slot.and_then(|slot| slot.host.as_source()) {
            source.open(opened, ledger);
        }
    }

    pub(super) fn wake(&mut self) {
        self.hosts.iter_mut().filter_map(|slot| slot.host.as_source()).for_each(Source::wake);
    }

    /// Takes a batch from another node.
    pub(super) fn arrived(
        &mut self,
        node: NodeId,
        header: BatchHeader,
        body: Bytes,
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        if matches!(header.kind, BatchKind::Acks | BatchKind::Fails) {
            return self.acks_arrived(node, &header, &body, desk, out);
        }
        let Some(edge) = self.plan.edges.get(usize::from(header.edge)) else {
            tracing::warn!(from = %node, edge = header.edge, "a batch of no edge");
            return self.lose(reason::UNDECODABLE, &header);
        };
        let (header, contents) = match header.kind {
            BatchKind::Direct | BatchKind::Forwarded => (header, None),
            BatchKind::Replicate | BatchKind::Replicated => return,
            BatchKind::Fence | BatchKind::Flushed | BatchKind::Acks | BatchKind::Fails => {
                let header = BatchHeader { rows: 0, weight: 0, ..header };
                let Some(mark) = Mark::read(header.kind, &body) else {
                    tracing::warn!(from = %node, edge = header.edge, "a mark that is none");
                    return;
                };
                (header, Some(Contents::Mark(mark)))
            }
        };
        // What has to wait is copied: all of its frame would be kept for it.
        let must_wait = header.epoch > desk.layout.epoch.0 || self.hosts[edge.to].is_held_back();
        let body = if must_wait { Bytes::copy_from_slice(&body) } else { body };
        let from = ContainerId { node, container: header.from };
        let contents = contents.unwrap_or(Contents::Bytes(body));
        let parcel = Parcel { from, header, contents };
        // What all senders together may have on its way here, twice: credits and views cross.
        let budget = desk.layout.budget().kibibytes as usize * 1024;
        let limit = 2 * budget * desk.layout.containers() * self.edges.len().max(1);
        if self.held + held(&parcel) > limit {
            self.edges[usize::from(header.edge)].count_received(node, &header, &desk.layout);
            self.lose(reason::OVER_CREDIT, &header);
            return desk.credit(from, &header, None, out);
        }
        self.held += held(&parcel);
        self.take(parcel, desk, out);
    }

    /// Takes a batch, and handles what comes of it here.
    pub(super) fn take(&mut self, parcel: Parcel, desk: &mut Desk, out: &mut Vec<Action>) {
        if parcel.header.epoch > desk.layout.epoch.0 {
            // Its sender has heard of a view before us. By ours it would go to an instance that is about
            // to move; it waits for the view, within the credit of its sender.
            return self.early.push(parcel);
        }
        let host = self.plan.edges[usize::from(parcel.header.edge)].to;
        self.hosts[host].queue.push_back(parcel);
        self.work.push(host);
        self.settle(desk, out);
    }

    /// A batch of ours comes back from a neighbour.
    pub(super) fn returned(&mut self, returned: Returned, desk: &mut Desk, out: &mut Vec<Action>) {
        let Returned { credit, rows, weight, batch } = returned;
        if let Some(batch) = batch {
            let edge = self.plan.edges[usize::from(credit.edge)];
            self.hosts[edge.from].outlet(edge.output, |outlet| outlet.recycle(batch));
        }
        self.credited(desk.me.node, credit, rows, weight, desk, out);
    }

    /// A lane of ours has room again.
    pub(super) fn credited(
        &mut self,
        node: NodeId,
        credit: Credit,
        rows: u64,
        weight: u32,
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        let Some(edge) = self.plan.edges.get(usize::from(credit.edge)) else { return };
        if !desk.layout.counts(node, credit.epoch) {
            return;
        }
        let route = self.edges[usize::from(credit.edge)].route;
        let lane = Lane { to: ContainerId { node, container: credit.to }, task: credit.task };
        let from = edge.from;
        self.hosts[from].outlet(edge.output, |outlet| outlet.credit(route, lane, rows, weight));
        self.unspill(usize::from(credit.edge), desk, out);
        if !self.hosts[from].queue.is_empty() && !self.hosts[from].is_held_back() {
            self.work.push(from);
        }
        if !self.work.is_empty() {
            self.settle(desk, out);
        }
    }

    /// Lets one partition of each spout emit; `false` if none did.
    pub(super) fn poll(&mut self, desk: &mut Desk, out: &mut Vec<Action>) -> bool {
        if !self.may_read(desk) {
            return false;
        }
        let mut has_emitted = false;
        for at in 0..self.hosts.len() {
            let may_plant = self.may_plant();
            let slot = &mut self.hosts[at];
            if slot.is_held_back() {
                continue;
            }
            if !slot.host.is_ready_source(desk.now, may_plant) {
                continue;
            }
            let before = slot.emitted();
            let source = slot.host.as_source().expect("a ready source is one");
            let ledger = self.acks.ledger.as_mut();
            desk.activity.during(self.topology, at, || source.poll(desk.now, ledger));
            has_emitted |= slot.emitted() > before;
            self.collect(at, desk, out);
            self.settle(desk, out);
        }
        self.keep_books(out);
        has_emitted
    }

    /// Whether spouts may be read now.
    fn may_read(&self, desk: &Desk) -> bool {
        let is_paused = desk.is_degraded && self.acks.ledger.is_some();
        desk.phase(self.topology) == Phase::Running && !is_paused
    }

    pub(super) fn wants_turn(&self, desk: &Desk) -> bool {
        let may_plant = self.may_plant();
        let has_work = !self.work.is_empty();
        has_work
            || self.may_read(desk)
                && self.hosts.iter().any(|slot| {
                    slot.host.is_ready_source(desk.now, may_plant) && !slot.is_held_back()
                })
    }

    /// Calls the timers and triggers that are due.
    pub(super) fn tick(&mut self, desk: &mut Desk, out: &mut Vec<Action>) {
        // What goes round a cycle goes on here.
        self.settle(desk, out);
        if !matches!(desk.phase(self.topology), Phase::Running | Phase::Ending(_)) {
            return;
        }
        self.tick_acks(desk, out);
        for at in 0..self.hosts.len() {
            let slot = &mut self.hosts[at];
            let still = desk.handoffs.still.of((self.topology, at));
            let is_due = slot.host.deadline(still).is_some_and(|due| due <= desk.now);
            if is_due && !slot.is_held_back() {
                desk.activity.during(self.topology, at, || slot.host.tick(desk.now, still));
                self.collect(at, desk, out);
                self.settle(desk, out);
            }
        }
    }

    pub(super) fn deadline(&self, desk: &Desk) -> Option<Time> {
        let phase = desk.phase(self.topology);
        let is_active = matches!(phase, Phase::Running | Phase::Ending(_));
        // A host that is held back is looked at again when its credit comes.
        let all = self.plan.prototypes.iter().zip(&self.hosts).enumerate();
        let free = all.filter(|(_, (prototype, slot))| {
            // Who may plant no more is looked at again when acks come.
            let may_read = self.may_read(desk) && self.may_plant();
            let has_turn = if prototype.is_spout { may_read } else { is_active };
            has_turn && !slot.is_held_back()
        });
        let still = |at| desk.handoffs.still.of((self.topology, at));
        let ledger = self.acks.ledger.as_ref().filter(|_| is_active);
        let books = ledger.and_then(Ledger::deadline);
        let touch = ledger.filter(|_| self.has_spilled()).map(|_| self.next_touch);
        let hosts = free.filter_map(|(at, (_, slot))| slot.host.deadline(still(at)));
        hosts.chain(books).chain(touch).min()
    }

    /// Whether something waits for company.
    pub(super) fn is_open(&self) -> bool {
        self.hosts.iter().any(|slot| slot.host.is_open())
    }

    /// Moves everything out that waits for company.
    pub(super) fn flush(&mut self, desk: &mut Desk, out: &mut Vec<Action>) {
        // By stage: what a flushed batch makes a later host emit is flushed with that host.
        for lap in 0..LAPS {
            if lap > 0 && (!self.is_open() || !self.edges.iter().any(|edge| edge.is_cyclic)) {
                break;
            }
            for place in 0..self.by_stage.len() {
                let at = self.by_stage[place];
                self.hosts[at].host.outlets(&mut |_, outlet| outlet.flush());
                self.collect(at, desk, out);
                self.settle(desk, out);
            }
        }
        self.send_acks(desk, out);
        self.keep_books(out);
    }

    pub(super) fn idle(&mut self, desk: &mut Desk, out: &mut Vec<Action>) {
        for at in 0..self.hosts.len() {
            desk.activity.during(self.topology, at, || self.hosts[at].host.idle());
            self.collect_acks(at, desk, out);
        }
        self.send_acks(desk, out);
        self.keep_books(out);
    }

    /// Takes a new view: edges lead elsewhere, instances go and come, and the topology may have come
    /// further.
    pub(super) fn lay(
        &mut self,
        (before, former): (&Layout, Epoch),
        laying: &Laying,
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        let layout = Arc::clone(&desk.layout);
        for (at, edge) in self.plan.edges.iter().enumerate() {
            let (topology, choice) = (usize::from(self.topology), self.edges[at].choice.as_ref());
            let lanes = layout.lanes(&self.plan, topology, edge, desk.me, choice);
            let (me, budget, route) = (desk.me, layout.budget(), self.edges[at].route);
            let producer = &mut self.hosts[edge.from];
            self.in_doubt += producer.outlet(edge.output, |outlet| {
                let rows = outlet.abandon(route, &|node| !layout.keeps(node, before));
                outlet.lead(route, me, lanes, budget);
                rows
            });
            self.edges[at].forget(|node| layout.keeps(node, before));
        }
        self.forget_acks(|node| layout.keeps(node, before));
        self.lay_acks(layout.has_lost(before), desk);
        self.fence(former, desk, out);
        self.refresh(desk);
        self.unkeep(|_, _, _| true, desk);
        // A lane that held a host back may be gone, and with it the credit that would wake the host.
        self.work.extend((0..self.hosts.len()).filter(|&at| !self.hosts[at].queue.is_empty()));
        (0..self.edges.len()).for_each(|edge| self.unspill(edge, desk, out));
        let phase = desk.phase(self.topology);
        let stages = u32::try_from(self.plan.stages).expect("at most as many as prototypes");
        let removed = match phase {
            Phase::Waiting | Phase::Running => 0,
            Phase::Ending(stage) => stage.saturating_add(1).min(stages),
            Phase::Ended => stages,
        };
        for at in 0..self.hosts.len() {
            self.move_instances(at, removed as usize, laying, desk);
            self.collect(at, desk, out);
        }
        self.settle(desk, out);
        for parcel in std::mem::take(&mut self.early) {
            self.take(parcel, desk, out);
        }
        while self.stages_removed < removed {
            let stage = self.stages_removed as usize;
            // What they emit to each other, if they are of a cycle, makes no new ones.
            self.stages_removed += 1;
            self.remove_stage(stage, Removal::Ended, desk, out);
        }
    }

    pub(super) fn remove_all(&mut self, reason: Removal, desk: &mut Desk, out: &mut Vec<Action>) {
        for stage in self.stages_removed as usize..self.plan.stages {
            self.remove_stage(stage, reason, desk, out);
        }
    }

    fn remove_stage(
        &mut self,
        stage: usize,
        reason: Removal,
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        for at in 0..self.hosts.len() {
            if self.plan.prototypes[at].stage == stage {
                self.hosts[at].host.unstage(desk.handoffs.staged.of((self.topology, at)));
                if let Some(source) = self.hosts[at].host.as_source() {
                    source.stop(self.acks.ledger.as_ref());
                }
                let host = &mut self.hosts[at].host;
                desk.activity.during(self.topology, at, || host.remove_all(desk.now, reason));
                self.hosts[at].host.outlets(&mut |_, outlet| outlet.flush());
                self.collect(at, desk, out);
                self.settle(desk, out);
            }
        }
    }
}

fn narrow(prototype: usize) -> u16 {
    u16::try_from(prototype).expect("a plan has at most 1,024 prototypes")
}

impl Slot {
    /// Whether a lane that this host feeds is over its budget, or too much waits on disk.
    fn is_held_back(&self) -> bool {
        self.is_full || self.host.is_over_budget()
    }

    fn outlet<R>(&mut self, output: usize, with: impl FnOnce(&mut dyn AnyOutlet) -> R) -> R {
        let (mut with, mut result) = (Some(with), None);
        self.host.outlets(&mut |at, outlet| {
            if at == output {
                result = with.take().map(|with| with(outlet));
            }
        });
        result.expect("the plan names outputs that there are")
    }

    fn emitted(&mut self) -> u64 {
        let mut emitted = 0;
        self.host.outlets(&mut |_, outlet| emitted += outlet.emitted());
        emitted
    }
}
