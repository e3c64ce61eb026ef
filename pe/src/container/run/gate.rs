//! Events that may not be handled yet.
//!
//! Those of a sealed unit wait until it is known where it will live; those of a unit that has come here
//! wait until nothing older can come by way of its former home. They are taken out of their batch and
//! kept; the rest of the batch is handled at once. Their weight goes back to whoever sent them, so that
//! nothing else has to wait, but the events are confirmed only when they are handled or passed on: if
//! this node dies meanwhile, the sender knows that they may be lost. When too much is kept, the weight
//! is kept as well, and the sender is held back.
//!
//! What is kept goes back to the front of its host's queue whenever its reason may be over, and is looked
//! at again there: so there is one place where it is decided what becomes of an event, and the order is
//! that in which they came.

use std::collections::{BTreeMap, BTreeSet};

use routing::{BatchHeader, BatchKind, ContainerId};

use super::super::message::{Contents, Parcel};
use super::super::{Desk, KEPT_MAX};
use super::Run;
use crate::Unit;
use crate::event_type::AnyBatch;
use crate::layout::Origin;

/// What a run may not handle yet.
#[derive(Default)]
pub(super) struct Gate {
    /// By edge and origin of units: the containers that may have sent events to their former home which
    /// have not come yet.
    pub(super) awaited: BTreeMap<(usize, Origin), BTreeSet<ContainerId>>,
    /// In the order in which they came.
    kept: Vec<Kept>,
    /// Events that were taken and not handled.
    pub(super) open_rows: u64,
    /// Whether there is any reason to keep anything.
    pub(super) is_closed: bool,
}

impl Gate {
    /// What is kept, and for which host.
    pub(super) fn kept(&self) -> impl Iterator<Item = (usize, &Parcel)> {
        self.kept.iter().map(|kept| (kept.host, &kept.parcel))
    }
}

/// A batch that is kept.
pub(super) struct Kept {
    host: usize,
    pub(super) parcel: Parcel,
    bytes: usize,
    /// The origin of its unit, if that is why; else its unit is sealed.
    pub(super) origin: Option<Origin>,
}

/// Rows of a batch by why they have to wait, and those that do not.
#[derive(Default)]
struct Sorted {
    wait: Vec<(Option<Origin>, Vec<u32>)>,
    now: Vec<u32>,
}

impl Sorted {
    fn add(&mut self, reason: Option<Option<Origin>>, row: u32) {
        let Some(reason) = reason else { return self.now.push(row) };
        match self.wait.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, rows)) => rows.push(row),
            None => self.wait.push((reason, vec![row])),
        }
    }
}

impl Run {
    /// Finds out whether there is any reason to keep anything.
    pub(in crate::container) fn refresh(&mut self, desk: &Desk) {
        self.gate.is_closed = !self.gate.awaited.is_empty() || !desk.handoffs.sealed.is_empty();
    }

    /// Keeps the rows of a batch that have to wait. What is left are those that do not, and what of the
    /// header is to be confirmed now; the batch itself only if something of it is needed.
    pub(super) fn keep_back(
        &mut self,
        from: ContainerId,
        header: BatchHeader,
        mut batch: AnyBatch,
        desk: &mut Desk,
    ) -> (BatchHeader, Option<AnyBatch>) {
        let Sorted { mut wait, now } = self.sort(from, &header, &batch, desk);
        let mut left = header;
        if now.is_empty() && wait.len() == 1 {
            let (origin, rows) = wait.remove(0);
            self.keep(from, (&mut left, rows.len()), batch, origin, desk);
            return (left, None);
        }
        if wait.is_empty() {
            return (left, Some(batch));
        }
        for (origin, rows) in wait {
            let side = &mut self.edges[usize::from(header.edge)];
            let picked = side.pick(&batch, &rows, &mut self.acks.owing);
            self.keep(from, (&mut left, rows.len()), picked, origin, desk);
        }
        let batches = self.edges[usize::from(header.edge)].event.batches;
        batches.narrow_to(&mut *batch, &now, &mut self.acks.owing);
        (left, Some(batch))
    }

    /// Tells rows that have to wait from those that do not.
    fn sort(
        &self,
        from: ContainerId,
        header: &BatchHeader,
        batch: &AnyBatch,
        desk: &Desk,
    ) -> Sorted {
        let at = usize::from(header.edge);
        let (edge, side) = (self.plan.edges[at], &self.edges[at]);
        // What was passed on is what the others wait for.
        let is_direct = header.kind == BatchKind::Direct;
        let awaited = self.gate.awaited.iter().filter(|((known, origin), producers)| {
            *known == at && origin.at.0 <= header.epoch && producers.contains(&from)
        });
        let awaited: Vec<_> = awaited.map(|((_, origin), _)| *origin).collect();
        let of = |origin: Option<Origin>| {
            origin.filter(|origin| is_direct && awaited.contains(origin)).map(Some)
        };
        let rows = side.event.batches.meant(&**batch);
        let mut sorted = Sorted::default();
        if side.is_keyed {
            let hashes = side.event.batches.hashes(&**batch);
            for row in rows {
                let hash = hashes[row as usize];
                let is_sealed = desk.handoffs.sealed.has_key(hash);
                let origin = || of(desk.layout.origin_of_key(hash));
                sorted.add(if is_sealed { Some(None) } else { origin() }, row);
            }
        } else {
            let (topology, task) = (self.topology, header.task);
            let prototype = u16::try_from(edge.to).expect("a plan has at most 1,024 prototypes");
            let unit = Unit::Task { topology, prototype, task };
            let is_sealed = desk.handoffs.sealed.has(unit);
            let reason = if is_sealed { Some(None) } else { of(desk.layout.origin_of(unit)) };
            rows.into_iter().for_each(|row| sorted.add(reason, row));
        }
        sorted
    }

    fn keep(
        &mut self,
        from: ContainerId,
        (left, rows): (&mut BatchHeader, usize),
        batch: AnyBatch,
        origin: Option<Origin>,
        desk: &mut Desk,
    ) {
        let rows = u32::try_from(rows).expect("no more than the batch has");
        let edge = usize::from(left.edge);
        let bytes = self.edges[edge].event.batches.bytes(&*batch);
        let is_too_much = desk.handoffs.kept_bytes + bytes > KEPT_MAX;
        let weight = if is_too_much { std::mem::take(&mut left.weight) } else { 0 };
        left.rows -= rows;
        desk.handoffs.kept_bytes += bytes;
        self.gate.open_rows += u64::from(rows);
        let header = BatchHeader { rows, weight, ..*left };
        let parcel = Parcel { from, header, contents: Contents::Kept(batch) };
        self.gate.kept.push(Kept { host: self.plan.edges[edge].to, parcel, bytes, origin });
    }

    /// Puts what was kept back in front of the queues, in its order, where it is looked at again.
    pub(in crate::container) fn unkeep(
        &mut self,
        is_meant: impl Fn(&BatchHeader, ContainerId, Option<Origin>) -> bool,
        desk: &mut Desk,
    ) {
        let all = std::mem::take(&mut self.gate.kept);
        let (back, kept): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|kept| is_meant(&kept.parcel.header, kept.parcel.from, kept.origin));
        self.gate.kept = kept;
        for Kept { host, parcel, bytes, .. } in back.into_iter().rev() {
            desk.handoffs.kept_bytes -= bytes;
            self.hosts[host].queue.push_front(parcel);
            self.work.push(host);
        }
    }
}
