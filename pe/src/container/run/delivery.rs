//! Batches on their way through a container: to the hosts here, on to where their instances live, and out.

use routing::{BatchHeader, BatchKind, ContainerId, Lane, Passage, Ready};

use super::super::Desk;
use super::super::edge::held;
use super::super::message::{Action, Contents, Input, Parcel, SpillId};
use super::spill::Aside;
use super::{Run, narrow, reason};
use crate::Unit;
use crate::event_type::AnyBatch;
use crate::host::Delivery;
use crate::topology::Grouping;

/// How many batches may go round a cycle in one step; the driver looks at other inputs in between.
const ROUND_MAX: usize = 256;

impl Run {
    /// Handles the batches for hosts here until none may run, or enough have gone round a cycle.
    pub(super) fn settle(&mut self, desk: &mut Desk, out: &mut Vec<Action>) {
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
            let delivery = Delivery { input, task, batch: &*batch, now };
            desk.activity.during(self.topology, host, || slot.host.deliver(delivery));
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
        let was_for = Lane { to: desk.me, task: header.task };
        let place = (usize::from(header.edge), was_for);
        self.send_on(place, Passage::Forwarded, batch, rows, desk, out);
    }

    /// Sends rows of a batch of an edge that were for a lane to where they live now.
    pub(super) fn send_on(
        &mut self,
        (at, was_for): (usize, Lane),
        passage: Passage,
        batch: &(dyn std::any::Any + Send),
        rows: &[u32],
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        let (edge, route) = (self.plan.edges[at], self.edges[at].route);
        // To the same instance, wherever it is: it has events of this container behind these.
        let (topology, prototype) = (self.topology, narrow(edge.to));
        let home = desk.layout.home(Unit::Task { topology, prototype, task: was_for.task });
        let mut lane = home.map(|to| Lane { to, ..was_for });
        let is_copy = self.plan.prototypes[edge.to].inputs[edge.input].grouping == Grouping::All;
        if is_copy && passage == Passage::Spilled && desk.layout.has(was_for.to) {
            // Of an instance without a number, whoever has it.
            lane = lane.or(Some(was_for));
        }
        if is_copy && lane.is_none() {
            // It was for one instance alone, which is not there; the others have theirs.
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
    pub(super) fn collect(&mut self, host: usize, desk: &mut Desk, out: &mut Vec<Action>) {
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

    pub(super) fn lose(&mut self, why: &'static str, header: &BatchHeader) {
        self.lose_rows(why, header.rows as usize);
    }

    pub(super) fn lose_rows(&mut self, why: &'static str, rows: usize) {
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
