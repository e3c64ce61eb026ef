//! One topology in one container.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use membership::{NodeId, Time};
use routing::{AnyOutlet, BatchHeader, ContainerId, KeyFields, Lane, Ready};

use super::Desk;
use super::edge::{EdgeSide, held};
use super::message::{Action, Contents, Credit, Input, Parcel, Returned};
use crate::Registry;
use crate::host::{AnyHost, Delivery, Here, PartitionState, Source};
use crate::layout::{Layout, Phase};
use crate::pe::Removal;
use crate::report::{HostReport, PartitionReport, RunReport};
use crate::topology::{InstancePlan, Plan};

/// A topology in one container.
pub(super) struct Run {
    topology: u16,
    plan: Arc<Plan>,
    hosts: Vec<Slot>,
    edges: Vec<EdgeSide>,
    /// Hosts with batches in their queues that may run; the last is next.
    work: Vec<usize>,
    dropped: BTreeMap<&'static str, u64>,
    in_doubt: u64,
    /// Bytes that other nodes have us hold.
    held: usize,
    stages_removed: u32,
}

/// A host and what waits for it.
struct Slot {
    host: Box<dyn AnyHost>,
    queue: VecDeque<Parcel>,
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
            edges.push(EdgeSide::new(outlets.len(), key.clone(), is_keyed, events[input.stream]));
            outlets.push(at);
            hosts[edge.from].outlet(edge.output, |outlet| outlet.connect(key));
        }
        Self {
            topology,
            plan: Arc::clone(plan),
            hosts,
            edges,
            work: Vec::new(),
            dropped: BTreeMap::new(),
            in_doubt: 0,
            held: 0,
            stages_removed: 0,
        }
    }

    pub(super) fn source(&mut self, prototype: u16) -> Option<&mut dyn Source> {
        self.hosts.get_mut(usize::from(prototype))?.host.as_source()
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
        let from = ContainerId { node, container: header.from };
        let parcel = Parcel { from, header, contents: Contents::Bytes(body) };
        // What all senders together may have on its way here, twice: credits and views cross.
        let budget = desk.layout.budget().kibibytes as usize * 1024;
        let limit = 2 * budget * desk.layout.containers() * self.edges.len().max(1);
        if self.held + held(&parcel) > limit {
            self.lose(reason::OVER_CREDIT, &header);
            return desk.credit(from, &header, None, out);
        }
        self.held += held(&parcel);
        self.take(parcel, desk, out);
    }

    /// Takes a batch, and handles what comes of it here.
    pub(super) fn take(&mut self, parcel: Parcel, desk: &mut Desk, out: &mut Vec<Action>) {
        let Some(edge) = self.plan.edges.get(usize::from(parcel.header.edge)) else {
            tracing::warn!(from = %parcel.from.node, edge = parcel.header.edge, "a batch of no edge");
            self.held -= held(&parcel);
            return self.lose(reason::UNDECODABLE, &parcel.header);
        };
        self.queue(edge.to, parcel);
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
        let route = self.edges[usize::from(credit.edge)].route;
        let lane = Lane { to: ContainerId { node, container: credit.to }, task: credit.task };
        let from = edge.from;
        self.hosts[from].outlet(edge.output, |outlet| outlet.credit(route, lane, rows, weight));
        if !self.hosts[from].queue.is_empty() && !self.hosts[from].is_held_back() {
            self.work.push(from);
            self.settle(desk, out);
        }
    }

    /// Lets one partition of each spout emit; `false` if none may.
    pub(super) fn poll(&mut self, desk: &mut Desk, out: &mut Vec<Action>) -> bool {
        if desk.phase(self.topology) != Phase::Running {
            return false;
        }
        let mut has_polled = false;
        for at in 0..self.hosts.len() {
            let slot = &mut self.hosts[at];
            if slot.is_held_back() {
                continue;
            }
            if !slot.host.is_ready_source(desk.now) {
                continue;
            }
            slot.host.as_source().expect("a ready source is one").poll(desk.now);
            has_polled = true;
            self.collect(at, desk, out);
            self.settle(desk, out);
        }
        has_polled
    }

    pub(super) fn wants_turn(&self, desk: &Desk) -> bool {
        desk.phase(self.topology) == Phase::Running
            && self
                .hosts
                .iter()
                .any(|slot| slot.host.is_ready_source(desk.now) && !slot.is_held_back())
    }

    /// Calls the timers and triggers that are due.
    pub(super) fn tick(&mut self, desk: &mut Desk, out: &mut Vec<Action>) {
        if !matches!(desk.phase(self.topology), Phase::Running | Phase::Ending(_)) {
            return;
        }
        for at in 0..self.hosts.len() {
            let slot = &mut self.hosts[at];
            if slot.host.deadline().is_some_and(|due| due <= desk.now) && !slot.is_held_back() {
                slot.host.tick(desk.now);
                self.collect(at, desk, out);
                self.settle(desk, out);
            }
        }
    }

    pub(super) fn deadline(&self, desk: &Desk) -> Option<Time> {
        let is_active = matches!(desk.phase(self.topology), Phase::Running | Phase::Ending(_));
        // A host that is held back is looked at again when its credit comes.
        let free = self.hosts.iter().filter(|slot| is_active && !slot.is_held_back());
        free.filter_map(|slot| slot.host.deadline()).min()
    }

    /// Whether something waits for company.
    pub(super) fn is_open(&self) -> bool {
        self.hosts.iter().any(|slot| slot.host.is_open())
    }

    /// Moves everything out that waits for company.
    pub(super) fn flush(&mut self, desk: &mut Desk, out: &mut Vec<Action>) {
        // By stage: what a flushed batch makes a later host emit is flushed with that host.
        for at in self.by_stage() {
            self.hosts[at].host.outlets(&mut |_, outlet| outlet.flush());
            self.collect(at, desk, out);
            self.settle(desk, out);
        }
    }

    pub(super) fn idle(&mut self) {
        self.hosts.iter_mut().for_each(|slot| slot.host.idle());
    }

    /// Takes a new view: edges lead elsewhere, instances go and come, and the topology may have come
    /// further.
    pub(super) fn lay(&mut self, before: &Layout, desk: &mut Desk, out: &mut Vec<Action>) {
        let layout = Arc::clone(&desk.layout);
        let is_same = |node| layout.run(node).is_some() && layout.run(node) == before.run(node);
        for (at, edge) in self.plan.edges.iter().enumerate() {
            let lanes = layout.lanes(&self.plan, usize::from(self.topology), edge);
            let (me, budget, route) = (desk.me, layout.budget(), self.edges[at].route);
            let producer = &mut self.hosts[edge.from];
            let left = producer.outlet(edge.output, |outlet| outlet.lead(route, me, lanes, budget));
            let lost = left.iter().filter(|(lane, _)| !is_same(lane.to.node));
            self.in_doubt += lost.map(|(_, rows)| rows).sum::<u64>();
            self.edges[at].forget(is_same);
        }
        let phase = desk.phase(self.topology);
        let is_active = matches!(phase, Phase::Running | Phase::Ending(_));
        for at in 0..self.hosts.len() {
            let is_removed = self.plan.prototypes[at].stage < self.stages_removed as usize;
            let place = (usize::from(self.topology), at);
            let tasks = match is_active && !is_removed {
                true => layout.tasks(&self.plan, place, desk.me),
                false => Vec::new(),
            };
            let me = desk.me;
            let here = Here { has_key: &|hash| layout.has_key(hash, me), tasks: &tasks };
            self.hosts[at].host.settle(desk.now, &here);
            self.collect(at, desk, out);
        }
        self.settle(desk, out);
        let stages = u32::try_from(self.plan.stages).expect("at most as many as prototypes");
        let removed = match phase {
            Phase::Waiting | Phase::Running => 0,
            Phase::Ending(stage) => stage.saturating_add(1).min(stages),
            Phase::Ended => stages,
        };
        while self.stages_removed < removed {
            self.remove_stage(self.stages_removed as usize, Removal::Ended, desk, out);
            self.stages_removed += 1;
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
                self.hosts[at].host.remove_all(desk.now, reason);
                self.hosts[at].host.outlets(&mut |_, outlet| outlet.flush());
                self.collect(at, desk, out);
                self.settle(desk, out);
            }
        }
    }

    pub(super) fn report(&mut self, layout: &Layout) -> RunReport {
        let live = |counts: &BTreeMap<NodeId, u64>| -> u64 {
            counts.iter().filter(|(node, _)| layout.run(**node).is_some()).map(|(_, n)| n).sum()
        };
        let mut report = RunReport {
            sent: self.edges.iter().map(|edge| live(&edge.sent)).sum(),
            received: self.edges.iter().map(|edge| live(&edge.received)).sum(),
            in_doubt: self.in_doubt,
            stages_removed: self.stages_removed,
            ..RunReport::default()
        };
        let mut drop = |reason: &str, count: u64| {
            *report.dropped.entry(reason.to_owned()).or_default() += count;
        };
        for slot in &mut self.hosts {
            slot.host.tally().discarded.iter().for_each(|(reason, count)| drop(reason, *count));
            let mut oversized = 0;
            slot.host.outlets(&mut |_, outlet| oversized += outlet.oversized());
            if oversized > 0 {
                *self.dropped.entry(reason::OVERSIZED).or_default() += oversized;
            }
        }
        self.dropped.iter().for_each(|(reason, count)| drop(reason, *count));
        report.hosts = self.hosts.iter_mut().map(Slot::report).collect();
        report
    }

    fn by_stage(&self) -> Vec<usize> {
        let mut order: Vec<_> = (0..self.hosts.len()).collect();
        order.sort_by_key(|&at| self.plan.prototypes[at].stage);
        order
    }

    fn queue(&mut self, host: usize, parcel: Parcel) {
        self.hosts[host].queue.push_back(parcel);
        self.work.push(host);
    }

    /// Handles the batches for hosts here until none may run.
    fn settle(&mut self, desk: &mut Desk, out: &mut Vec<Action>) {
        while let Some(host) = self.work.pop() {
            while !self.hosts[host].is_held_back() {
                let Some(parcel) = self.hosts[host].queue.pop_front() else { break };
                self.deliver(host, parcel, desk, out);
                // What came of it is handled first: it is in the cache, and it frees budgets.
                if self.work.last().is_some_and(|&next| next != host) {
                    self.work.insert(self.work.len() - 1, host);
                    break;
                }
            }
        }
    }

    /// Hands a batch to its host, or passes it on if its instances are not here.
    fn deliver(&mut self, host: usize, parcel: Parcel, desk: &mut Desk, out: &mut Vec<Action>) {
        self.held -= held(&parcel);
        let Parcel { from, header, contents } = parcel;
        let is_foreign = from.node != desk.me.node;
        let edge = self.plan.edges[usize::from(header.edge)];
        let side = &mut self.edges[usize::from(header.edge)];
        *side.received.entry(from.node).or_default() += u64::from(header.rows);
        let mut batch = match side.open(contents, header.rows) {
            Ok(batch) => batch,
            Err(error) => {
                tracing::warn!(from = %from.node, edge = header.edge, "a batch is dropped: {error}");
                self.lose(reason::UNDECODABLE, &header);
                return desk.credit(from, &header, None, out);
            }
        };
        let mut astray = side.astray(&mut batch, header.layout, &desk.layout, desk.me);
        let is_elsewhere = !side.is_keyed && !self.is_here(edge.to, header.task, desk);
        if is_elsewhere {
            astray = self.edges[usize::from(header.edge)].event.batches.meant(&*batch);
        }
        if !is_elsewhere {
            let (input, task, now) = (edge.input, header.task, desk.now);
            self.hosts[host].host.deliver(Delivery { input, task, batch: &*batch, now });
            self.collect(host, desk, out);
        }
        if !astray.is_empty() {
            self.pass_on(&header, &*batch, &astray, desk, out);
        }
        if is_foreign {
            self.edges[usize::from(header.edge)].keep(batch);
            desk.credit(from, &header, None, out);
        } else if from.container == desk.me.container {
            let credit = Credit {
                topology: header.topology,
                edge: header.edge,
                from: header.from,
                to: desk.me.container,
                task: header.task,
            };
            let lane = Lane { to: desk.me, task: credit.task };
            let route = self.edges[usize::from(header.edge)].route;
            let producer = &mut self.hosts[edge.from];
            producer.outlet(edge.output, |outlet| {
                outlet.recycle(batch);
                outlet.credit(route, lane, u64::from(header.rows), header.weight);
            });
            if !producer.queue.is_empty() && !producer.is_held_back() {
                self.work.insert(0, edge.from);
            }
        } else {
            desk.credit(from, &header, Some(batch), out);
        }
    }

    /// Whether a numbered instance, or the node's own, is in this container.
    fn is_here(&self, prototype: usize, task: u32, desk: &Desk) -> bool {
        let place = (usize::from(self.topology), prototype);
        desk.layout.has_task(&self.plan, place, task, desk.me)
    }

    /// A batch that met a newer table: once it is sent on, the second time dropped.
    fn pass_on(
        &mut self,
        header: &BatchHeader,
        batch: &(dyn std::any::Any + Send),
        rows: &[u32],
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        if header.is_forwarded {
            *self.dropped.entry(reason::MISROUTED).or_default() += rows.len() as u64;
            return;
        }
        let edge = self.plan.edges[usize::from(header.edge)];
        let route = self.edges[usize::from(header.edge)].route;
        self.hosts[edge.from].outlet(edge.output, |outlet| outlet.forward(route, batch, rows));
        self.collect(edge.from, desk, out);
    }

    /// Takes what a host has ready to where it goes.
    fn collect(&mut self, host: usize, desk: &mut Desk, out: &mut Vec<Action>) {
        let Self { topology, hosts, edges, work, plan, .. } = self;
        let slot = &mut hosts[host];
        let mut local = Vec::new();
        let ids = &slot.edges;
        slot.host.outlets(&mut |output, outlet| {
            let mut ready = std::mem::take(outlet.ready());
            for batch in ready.drain(..) {
                let edge = ids[output][batch.route];
                let header = header(*topology, edge, desk, &batch);
                let side = &mut edges[edge];
                *side.sent.entry(batch.lane.to.node).or_default() += u64::from(batch.rows);
                let to = batch.lane.to;
                let from = desk.me;
                if to.node != desk.me.node {
                    let contents = &*batch.batch;
                    desk.add(to.node, header, |bytes| outlet.encode(contents, bytes), out);
                    outlet.recycle(batch.batch);
                    continue;
                }
                let parcel = Parcel { from, header, contents: Contents::Batch(batch.batch) };
                if to == desk.me {
                    local.push((plan.edges[edge].to, parcel));
                } else {
                    out.push(Action::Post(to.container, Input::Parcel(parcel)));
                }
            }
            *outlet.ready() = ready;
        });
        for (to, parcel) in local {
            hosts[to].queue.push_back(parcel);
            work.push(to);
        }
    }

    fn lose(&mut self, why: &'static str, header: &BatchHeader) {
        *self.dropped.entry(why).or_default() += u64::from(header.rows);
    }
}

fn header(topology: u16, edge: usize, desk: &Desk, ready: &Ready) -> BatchHeader {
    BatchHeader {
        topology,
        edge: u16::try_from(edge).expect("a plan has at most 1,024 edges"),
        from: desk.me.container,
        to: ready.lane.to.container,
        task: ready.lane.task,
        rows: ready.rows,
        weight: ready.weight,
        layout: desk.layout.digest,
        is_forwarded: ready.is_forwarded,
    }
}

impl Slot {
    /// Whether a lane that this host feeds is over its budget.
    fn is_held_back(&self) -> bool {
        self.host.is_over_budget()
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

    fn report(&mut self) -> HostReport {
        let mut emitted = 0;
        self.host.outlets(&mut |_, outlet| emitted += outlet.emitted());
        let partitions = self.host.as_source().map_or_else(Vec::new, |source| source.partitions());
        let tally = self.host.tally();
        HostReport {
            applied: tally.applied,
            dead_letters: tally.dead_letters,
            instances: self.host.instances() as u64,
            emitted,
            is_held_back: self.is_held_back(),
            partitions: partitions.into_iter().map(partition_report).collect(),
        }
    }
}

pub(super) fn partition_report(state: PartitionState) -> PartitionReport {
    let PartitionState { name, position, is_exhausted, failure } = state;
    PartitionReport { name, position, is_exhausted, failure }
}
