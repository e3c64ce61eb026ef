//! What waits on disk.
//!
//! A stream with `overflow = "spill"` holds nobody back while its readers are behind: what is ready for a lane
//! over its budget is given to the driver to keep, and asked back when there is room. So who emits into it
//! always goes on, and a cycle with such a stream in it drains, however small the queues are. What waits is
//! bounded: when there is too much, its host takes no more than what comes round a cycle, so that spouts stop
//! and the cycle does not; and if the cycle itself makes ever more, what is beyond twice the bound is dropped,
//! counted and given up.
//!
//! **Order.** There is one queue for each edge, and while something is in it, all that is emitted along the edge
//! goes to its end. What comes out of it is routed by the layout of that moment, so no fence has to wait for it:
//! it was never sent. What was passed on for others goes at once: it is older than all that waits here, or of
//! another container.

use std::collections::VecDeque;

use bytes::Bytes;
use routing::{Ack, AnyOutlet, ContainerId, Lane, Passage, Ready};

use super::super::Desk;
use super::super::edge::EdgeSide;
use super::super::message::{Action, Contents, SpillId};
use super::{Run, narrow, reason};
use crate::event_type::AnyBatch;

/// Batches of an edge that wait on disk.
#[derive(Debug)]
pub(in crate::container) struct Spill {
    /// How many bytes may wait before the spouts stop.
    limit: u64,
    /// In order; the first is being read, if one is.
    waiting: VecDeque<Record>,
    is_being_read: bool,
    /// The first, which has been read and waits for room.
    head: Option<(Record, Bytes)>,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// A batch that waits on disk.
#[derive(Debug)]
struct Record {
    /// Where it was to go.
    lane: Lane,
    rows: u32,
    bytes: u32,
    /// The trees that it has events of.
    trees: Vec<u64>,
}

impl Spill {
    pub(super) fn new(mib: u32) -> Self {
        Self {
            limit: u64::from(mib) << 20,
            waiting: VecDeque::new(),
            is_being_read: false,
            head: None,
            rows: 0,
            bytes: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Whether a batch goes to the end of the queue.
    fn takes(&self, ready: &Ready) -> bool {
        ready.passage == Passage::Emitted && (ready.is_over || !self.is_empty())
    }

    /// Whether there is so much that spouts stop.
    fn is_full(&self) -> bool {
        self.bytes >= self.limit
    }

    /// Whether there is so much that what comes is dropped.
    fn is_spent(&self) -> bool {
        self.bytes >= 2 * self.limit
    }

    fn records(&self) -> impl Iterator<Item = &Record> {
        self.head.iter().map(|(record, _)| record).chain(&self.waiting)
    }

    /// The trees that have events here.
    fn trees(&self) -> impl Iterator<Item = u64> {
        self.records().flat_map(|record| record.trees.iter().copied())
    }

    /// How many batches have events of a tree.
    pub(super) fn batches_of(&self, root: u64) -> u64 {
        self.records().filter(|record| record.trees.contains(&root)).count() as u64
    }
}

/// What becomes of a batch that is ready.
pub(super) enum Aside {
    Goes(Ready),
    /// It waits on disk, with these bytes.
    Waits(Vec<u8>),
    /// Too much does already.
    IsTooMuch(AnyBatch),
}

impl EdgeSide {
    /// Puts a batch at the end of the queue, if there is one or its lane is over its budget.
    pub(super) fn set_aside(
        &mut self,
        ready: Ready,
        me: ContainerId,
        outlet: &mut dyn AnyOutlet,
    ) -> Aside {
        if self.spill.as_ref().is_none_or(|spill| !spill.takes(&ready)) {
            return Aside::Goes(ready);
        }
        let Ready { route, lane, mut batch, rows, weight, .. } = ready;
        outlet.credit(route, lane, u64::from(rows), weight);
        let batches = self.event.batches;
        if lane.to == me {
            // Of a batch that stays here, rows are chosen in place.
            let picked = self.pick(&batch, &batches.meant(&*batch), outlet.owing());
            batches.retire(&*batch, outlet.owing());
            outlet.recycle(std::mem::replace(&mut batch, picked));
        }
        let Some(spill) = self.spill.as_mut().filter(|spill| !spill.is_spent()) else {
            return Aside::IsTooMuch(batch);
        };
        let mut trees = Vec::new();
        if self.is_tracked {
            let runs = batches.runs(&*batch);
            trees.extend(runs.iter().map(|run| run.root).filter(|root| *root != 0));
            trees.dedup();
        }
        let mut bytes = Vec::new();
        outlet.encode(&*batch, &mut bytes);
        outlet.recycle(batch);
        let length = u32::try_from(bytes.len()).expect("a batch fits a frame");
        spill.rows += u64::from(rows);
        spill.bytes += u64::from(length);
        spill.waiting.push_back(Record { lane, rows, bytes: length, trees });
        Aside::Waits(bytes)
    }
}

impl Run {
    fn spill_id(&self, edge: usize) -> SpillId {
        SpillId { topology: self.topology, edge: narrow(edge) }
    }

    /// Sends what waits on disk, as far as there is room, and asks for more of it.
    pub(super) fn unspill(&mut self, at: usize, desk: &mut Desk, out: &mut Vec<Action>) {
        if self.edges[at].spill.is_none() {
            return;
        }
        let edge = self.plan.edges[at];
        let route = self.edges[at].route;
        if !self.hosts[edge.from].outlet(edge.output, |outlet| outlet.has_excess(route))
            && let Some((record, bytes)) =
                self.edges[at].spill.as_mut().and_then(|it| it.head.take())
        {
            self.take_off(at, &record);
            self.send_spilled(at, record, bytes, desk, out);
        }
        let id = self.spill_id(at);
        let Some(spill) = &mut self.edges[at].spill else { return };
        if spill.head.is_none() && !spill.is_being_read && !spill.waiting.is_empty() {
            spill.is_being_read = true;
            out.push(Action::Unspill(id));
        }
    }

    /// What waited on disk has been read; nothing if it cannot be.
    pub(in crate::container) fn unspilled(
        &mut self,
        at: usize,
        bytes: Option<Bytes>,
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        let Some(spill) = self.edges.get_mut(at).and_then(|edge| edge.spill.as_mut()) else {
            return;
        };
        if !std::mem::take(&mut spill.is_being_read) {
            return;
        }
        let record = spill.waiting.pop_front().expect("what is being read waits");
        match bytes {
            Some(bytes) => spill.head = Some((record, bytes)),
            None => {
                self.take_off(at, &record);
                self.lose_rows(reason::UNREADABLE, record.rows as usize);
                self.give_up_trees(record.trees);
            }
        }
        self.unspill(at, desk, out);
        self.settle(desk, out);
    }

    /// A batch waits no more.
    fn take_off(&mut self, at: usize, record: &Record) {
        let Some(spill) = &mut self.edges[at].spill else { return };
        spill.rows -= u64::from(record.rows);
        spill.bytes -= u64::from(record.bytes);
        self.fill(self.plan.edges[at].from);
    }

    /// Finds out whether a host has too much on disk to take more.
    pub(super) fn fill(&mut self, host: usize) {
        let slot = &mut self.hosts[host];
        let mut edges = slot.edges.iter().flatten();
        let was_full = slot.is_full;
        slot.is_full = edges.any(|&at| self.edges[at].spill.as_ref().is_some_and(Spill::is_full));
        if was_full && !slot.is_full {
            self.work.push(host);
        }
    }

    /// Sends a batch that has waited, by the present layout.
    fn send_spilled(
        &mut self,
        at: usize,
        record: Record,
        bytes: Bytes,
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        let batch = match self.edges[at].open(Contents::Bytes(bytes), record.rows) {
            Ok(batch) => batch,
            Err(error) => {
                tracing::error!(edge = at, "a batch that waited on disk is none: {error}");
                self.lose_rows(reason::UNREADABLE, record.rows as usize);
                return self.give_up_trees(record.trees);
            }
        };
        let batches = self.edges[at].event.batches;
        let rows = batches.meant(&*batch);
        self.send_on((at, record.lane), Passage::Spilled, &*batch, &rows, desk, out);
        batches.retire(&*batch, &mut self.acks.owing);
        self.edges[at].keep(batch);
        self.collect_owed();
    }

    /// Says to the ledgers that what waits on disk is not lost, however long it does.
    pub(super) fn touch(&mut self) {
        let spills = self.edges.iter().filter_map(|edge| edge.spill.as_ref());
        let trees = spills.flat_map(Spill::trees);
        let mut acks: Vec<_> = trees.map(|root| Ack { root, edges: 0 }).collect();
        self.acks.take(&mut acks);
    }

    /// Whether something waits on disk.
    pub(super) fn has_spilled(&self) -> bool {
        self.edges.iter().any(|edge| edge.spill.as_ref().is_some_and(|spill| !spill.is_empty()))
    }

    /// Events and bytes that wait on disk, of a host or of all.
    pub(super) fn spilled(&self, host: Option<usize>) -> (u64, u64) {
        let edges = self.plan.edges.iter().zip(&self.edges);
        let of = edges.filter(|(edge, _)| host.is_none_or(|host| edge.from == host));
        let all = of.filter_map(|(_, side)| side.spill.as_ref());
        all.fold((0, 0), |(rows, bytes), spill| (rows + spill.rows, bytes + spill.bytes))
    }
}
