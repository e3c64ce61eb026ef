//! One topology in one container.

mod acks;
mod fences;
mod gate;
mod moving;
mod spill;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use membership::{Epoch, NodeId, Time};
use routing::{
    AnyOutlet, BatchHeader, BatchKind, ContainerId, Dropped, Excess, KeyFields, Lane, Passage,
    Ready,
};

use self::acks::{Acks, seed};
use self::gate::Gate;
use self::spill::Aside;
pub(super) use self::spill::Spill;
use super::Desk;
use super::edge::{EdgeSide, held};
use super::handoffs::Laying;
use super::mark::Mark;
use super::message::{Action, Contents, Credit, Input, Parcel, Returned, SpillId};
use crate::acker::{Ledger, Offset};
use crate::event_type::AnyBatch;
use crate::host::{AnyHost, Delivery, Opened, PartitionState, Source};
use crate::layout::{Layout, Phase};
use crate::pe::Removal;
use crate::report::{HostReport, PartitionReport, RunReport};
use crate::topology::{Grouping, InstancePlan, Overflow, Plan};
use crate::{Registry, Unit};

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

/// How many batches may go round a cycle in one step; the driver looks at other inputs in between.
const ROUND_MAX: usize = 256;

/// How often what comes round a cycle is flushed at once. With less, an event waits for company at each hop.
const LAPS: usize = 4;

/// A host and what waits for it.
struct Slot {
    host: Box<dyn AnyHost>,
    queue: VecDeque<Parcel>,
    last_applied: Option<Time>,
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
            desk.activity.enter(self.topology, at);
            source.poll(desk.now, self.acks.ledger.as_mut());
            desk.activity.leave();
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
                desk.activity.enter(self.topology, at);
                slot.host.tick(desk.now, still);
                desk.activity.leave();
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
            desk.activity.enter(self.topology, at);
            self.hosts[at].host.idle();
            desk.activity.leave();
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
                desk.activity.enter(self.topology, at);
                self.hosts[at].host.remove_all(desk.now, reason);
                desk.activity.leave();
                self.hosts[at].host.outlets(&mut |_, outlet| outlet.flush());
                self.collect(at, desk, out);
                self.settle(desk, out);
            }
        }
    }

    pub(super) fn report(&mut self, layout: &Layout) -> RunReport {
        let live = |counts: &BTreeMap<NodeId, u64>| -> u64 {
            counts.iter().filter(|(node, _)| layout.since(**node).is_some()).map(|(_, n)| n).sum()
        };
        let acks = self.count_acks(live);
        let sent = self.edges.iter().map(|edge| live(&edge.sent)).sum::<u64>();
        let received = self.edges.iter().map(|edge| live(&edge.received)).sum::<u64>();
        let (spilled, _) = self.spilled(None);
        let mut report = RunReport {
            // What is kept is under way, though it was taken; what waits on disk, though it was not sent.
            sent: sent + self.gate.open_rows + spilled + acks.0,
            received: received + acks.1,
            trees: self.report_trees(),
            in_doubt: self.in_doubt,
            stages_removed: self.stages_removed,
            ..RunReport::default()
        };
        let mut unconfirmed = spilled;
        let mut drop = |reason: &str, count: u64| {
            *report.dropped.entry(reason.to_owned()).or_default() += count;
        };
        for slot in &mut self.hosts {
            slot.host.tally().discarded.iter().for_each(|(reason, count)| drop(reason, *count));
            let mut dropped = Dropped::default();
            slot.host.outlets(&mut |_, outlet| {
                dropped += outlet.dropped();
                unconfirmed += outlet.unconfirmed();
            });
            let Dropped { oversized, no_such_task, shed } = dropped;
            let all = [
                (reason::OVERSIZED, oversized),
                (reason::NO_SUCH_TASK, no_such_task),
                (reason::SHED, shed),
            ];
            for (reason, count) in all.into_iter().filter(|(_, count)| *count > 0) {
                *self.dropped.entry(reason).or_default() += count;
            }
        }
        self.dropped.iter().for_each(|(reason, count)| drop(reason, *count));
        report.unconfirmed = unconfirmed;
        let ledger = self.acks.ledger.as_ref();
        report.hosts = self.hosts.iter_mut().map(|slot| slot.report(ledger)).collect();
        for at in 0..self.hosts.len() {
            (report.hosts[at].spilled, report.hosts[at].spilled_bytes) = self.spilled(Some(at));
        }
        for (edge, side) in self.plan.edges.iter().zip(&self.edges) {
            let has_excess = |outlet: &mut dyn AnyOutlet| outlet.has_excess(side.route);
            let is_behind = self.hosts[edge.from].outlet(edge.output, has_excess);
            report.hosts[edge.to].is_behind |= is_behind;
        }
        report
    }

    /// Handles the batches for hosts here until none may run, or enough have gone round a cycle.
    fn settle(&mut self, desk: &mut Desk, out: &mut Vec<Action>) {
        let mut left = ROUND_MAX;
        while let Some(host) = self.work.pop() {
            while let Some(parcel) = self.next_of(host) {
                left -= usize::from(self.edges[usize::from(parcel.header.edge)].is_cyclic);
                self.deliver(host, parcel, desk, out);
                if left == 0 {
                    return self.work.push(host);
                }
                // What came of it is handled first: it is in the cache, and it frees budgets.
                if self.work.last().is_some_and(|&next| next != host) {
                    self.work.insert(self.work.len() - 1, host);
                    break;
                }
            }
        }
    }

    /// The next batch that a host may have. While too much waits on disk, it is what comes round a cycle.
    fn next_of(&mut self, host: usize) -> Option<Parcel> {
        let slot = &mut self.hosts[host];
        if slot.host.is_over_budget() {
            return None;
        }
        if !slot.is_full {
            return slot.queue.pop_front();
        }
        let edge = |parcel: &Parcel| usize::from(parcel.header.edge);
        let at = slot.queue.iter().position(|parcel| self.edges[edge(parcel)].is_cyclic)?;
        slot.queue.remove(at)
    }

    /// Hands a batch to its host, or passes it on if its instances are not here.
    fn deliver(&mut self, host: usize, parcel: Parcel, desk: &mut Desk, out: &mut Vec<Action>) {
        self.held -= if parcel.from.node == desk.me.node { 0 } else { held(&parcel) };
        let Parcel { from, header, contents } = parcel;
        let edge = self.plan.edges[usize::from(header.edge)];
        let side = &mut self.edges[usize::from(header.edge)];
        // Whether the memory of the batch was made here.
        let is_ours = from.node != desk.me.node || matches!(contents, Contents::Kept(_));
        match contents {
            Contents::Mark(mark) => return self.marked(from, &header, mark, desk, out),
            Contents::Kept(_) => self.gate.open_rows -= u64::from(header.rows),
            Contents::Batch(_) | Contents::Bytes(_) => {
                side.count_received(from.node, &header, &desk.layout);
            }
        }
        let mut batch = match side.open(contents, header.rows) {
            Ok(batch) => batch,
            Err(error) => {
                tracing::warn!(from = %from.node, edge = header.edge, "a batch is dropped: {error}");
                self.lose(reason::UNDECODABLE, &header);
                return desk.credit(from, &header, None, out);
            }
        };
        let (split, batches) =
            (side.astray(&mut batch, header.layout, &desk.layout, desk.me), side.event.batches);
        let is_elsewhere = !side.is_keyed && !self.is_here(edge.to, header.task, desk);
        if is_elsewhere {
            self.pass_on(&header, &*batch, &batches.meant(&*batch), desk, out);
            batches.retire(&*batch, &mut self.acks.owing);
        } else if let Some((here, astray)) = split {
            self.pass_on(&header, &*batch, &astray, desk, out);
            batches.narrow_to(&mut *batch, &here, &mut self.acks.owing);
        }
        let (left, batch) = if self.gate.is_closed && !is_elsewhere {
            self.keep_back(from, header, batch, desk)
        } else {
            (header, Some(batch))
        };
        self.collect_owed();
        let Some(batch) = batch else { return self.confirm(from, &left, None, desk, out) };
        let has_ended = self.plan.prototypes[host].stage < self.stages_removed as usize;
        if has_ended && self.edges[usize::from(header.edge)].is_cyclic && !is_elsewhere {
            self.lose(reason::ENDED, &left);
            batches.retire(&*batch, &mut self.acks.owing);
            self.collect_owed();
        } else if !is_elsewhere {
            let (input, task, now) = (edge.input, header.task, desk.now);
            let slot = &mut self.hosts[host];
            desk.activity.enter(self.topology, host);
            slot.host.deliver(Delivery { input, task, batch: &*batch, now });
            desk.activity.leave();
            slot.last_applied = Some(now);
            self.collect(host, desk, out);
        }
        if is_ours {
            self.edges[usize::from(header.edge)].keep(batch);
            self.confirm(from, &left, None, desk, out);
        } else {
            self.confirm(from, &left, Some(batch), desk, out);
        }
    }

    /// Says to whoever sent a batch what of it was handled or passed on, and gives its memory back.
    fn confirm(
        &mut self,
        from: ContainerId,
        header: &BatchHeader,
        batch: Option<AnyBatch>,
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        if header.rows == 0 && header.weight == 0 && batch.is_none() {
            return; // All of it is kept.
        }
        if from != desk.me {
            return desk.credit(from, header, batch, out);
        }
        let edge = self.plan.edges[usize::from(header.edge)];
        let lane = Lane { to: desk.me, task: header.task };
        let route = self.edges[usize::from(header.edge)].route;
        let producer = &mut self.hosts[edge.from];
        producer.outlet(edge.output, |outlet| {
            if let Some(batch) = batch {
                outlet.recycle(batch);
            }
            outlet.credit(route, lane, u64::from(header.rows), header.weight);
        });
        self.unspill(usize::from(header.edge), desk, out);
        let producer = &mut self.hosts[edge.from];
        if !producer.queue.is_empty() && !producer.is_held_back() {
            self.work.insert(0, edge.from);
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
        if header.kind == BatchKind::Forwarded {
            self.lose_rows(reason::MISROUTED, rows.len());
            return self.fail_batch(usize::from(header.edge), batch);
        }
        self.send_on(header, Passage::Forwarded, batch, rows, desk, out);
    }

    /// Sends rows of a batch to where they live now.
    fn send_on(
        &mut self,
        header: &BatchHeader,
        passage: Passage,
        batch: &(dyn std::any::Any + Send),
        rows: &[u32],
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        let edge = self.plan.edges[usize::from(header.edge)];
        let route = self.edges[usize::from(header.edge)].route;
        // To the same instance, wherever it is: it has events of this container behind these.
        let (topology, prototype) = (self.topology, narrow(edge.to));
        let home = desk.layout.home(Unit::Task { topology, prototype, task: header.task });
        let lane = home.map(|to| Lane { to, task: header.task });
        let is_copy = self.plan.prototypes[edge.to].inputs[edge.input].grouping == Grouping::All;
        if is_copy && lane.is_none() {
            // It was for an instance of this container alone; the others have theirs.
            return self.lose_rows(reason::MISROUTED, rows.len());
        }
        self.hosts[edge.from].outlet(edge.output, |outlet| match lane {
            Some(lane) => {
                let is_near = lane.to.node == desk.me.node;
                outlet.send_to(route, passage, (lane, is_near), batch, rows);
            }
            None => outlet.send_on(route, passage, batch, rows),
        });
        self.collect(edge.from, desk, out);
    }

    /// Takes what a host has ready to where it goes.
    fn collect(&mut self, host: usize, desk: &mut Desk, out: &mut Vec<Action>) {
        let Self { topology, hosts, edges, work, plan, local, .. } = self;
        let slot = &mut hosts[host];
        let ids = &slot.edges;
        let (mut has_spilled, mut lost) = (Vec::new(), Vec::new());
        slot.host.outlets(&mut |output, outlet| {
            let mut ready = std::mem::take(outlet.ready());
            for batch in ready.drain(..) {
                let edge = ids[output][batch.route];
                let header = header(*topology, edge, desk, &batch);
                let side = &mut edges[edge];
                let batch = match side.set_aside(batch, desk.me, outlet) {
                    Aside::Goes(batch) => batch,
                    Aside::Waits(bytes) => {
                        let id = SpillId { topology: *topology, edge: narrow(edge) };
                        out.push(Action::Spill(id, bytes));
                        has_spilled.push(edge);
                        continue;
                    }
                    Aside::IsTooMuch(batch) => {
                        lost.push((edge, batch));
                        continue;
                    }
                };
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
        for (to, parcel) in local.drain(..) {
            hosts[to].queue.push_back(parcel);
            work.push(to);
        }
        for (edge, batch) in lost {
            let rows = self.edges[edge].event.batches.meant(&*batch).len();
            self.lose_rows(reason::SPILL_FULL, rows);
            self.fail_batch(edge, &*batch);
        }
        if !has_spilled.is_empty() {
            self.fill(host);
            has_spilled.into_iter().for_each(|edge| self.unspill(edge, desk, out));
        }
        self.collect_acks(host, desk, out);
    }

    fn lose(&mut self, why: &'static str, header: &BatchHeader) {
        self.lose_rows(why, header.rows as usize);
    }

    fn lose_rows(&mut self, why: &'static str, rows: usize) {
        *self.dropped.entry(why).or_default() += rows as u64;
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
        epoch: desk.layout.epoch.0,
        layout: desk.layout.digest,
        kind: match ready.passage {
            Passage::Forwarded => BatchKind::Forwarded,
            Passage::Emitted | Passage::Spilled => BatchKind::Direct,
        },
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

    fn report(&mut self, ledger: Option<&Ledger>) -> HostReport {
        let emitted = self.emitted();
        let source = self.host.as_source();
        let partitions = source.map_or_else(Vec::new, |source| source.partitions(ledger));
        let tally = self.host.tally();
        HostReport {
            applied: tally.applied,
            last_applied: self.last_applied,
            dead_letters: tally.dead_letters,
            instances: self.host.instances() as u64,
            emitted,
            is_held_back: self.is_held_back(),
            is_behind: false,
            spilled: 0,
            spilled_bytes: 0,
            partitions: partitions.into_iter().map(partition_report).collect(),
        }
    }
}

pub(super) fn partition_report(state: PartitionState) -> PartitionReport {
    let PartitionState { name, offset, is_exhausted, failure } = state;
    let Offset { position, skip } = offset;
    PartitionReport { name, position, skip, is_exhausted, failure }
}
