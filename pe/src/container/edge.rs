//! The two sides of an edge in one container, and what is counted there.

use std::collections::BTreeMap;

use membership::NodeId;
use routing::{BatchHeader, Choice, ContainerId, DecodeError, KeyFields, Owing};

use super::message::{Contents, Parcel};
use super::run::Spill;
use crate::EventType;
use crate::event_type::AnyBatch;
use crate::layout::Layout;

/// Batches kept for what comes from other nodes, per edge.
const SPARES_MAX: usize = 16;

/// An edge, in one container.
pub(super) struct EdgeSide {
    /// The place of the edge among the routes of its outlet.
    pub(super) route: usize,
    /// The consumer's key; empty if it has none.
    pub(super) key: KeyFields,
    /// Whether the consumer has one instance per key.
    pub(super) is_keyed: bool,
    /// The function that the grouping names, if it names one.
    pub(super) choice: Option<Choice>,
    /// The events.
    pub(super) event: EventType,
    /// What of it waits on disk, if its stream spills.
    pub(super) spill: Option<Spill>,
    /// Whether it is part of a cycle.
    pub(super) is_cyclic: bool,
    /// Whether they say which tree they are of.
    pub(super) is_tracked: bool,
    /// Emptied batches for what comes next from other nodes.
    spares: Vec<AnyBatch>,
    /// Events sent to and taken from each node, this one included.
    pub(super) sent: BTreeMap<NodeId, u64>,
    pub(super) received: BTreeMap<NodeId, u64>,
}

impl EdgeSide {
    pub(super) fn new(route: usize, key: KeyFields, is_keyed: bool, event: EventType) -> Self {
        let (spares, sent, received) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            route,
            key,
            is_keyed,
            choice: None,
            event,
            spill: None,
            is_cyclic: false,
            is_tracked: false,
            spares,
            sent,
            received,
        }
    }

    /// Counts a batch, whatever becomes of it.
    pub(super) fn count_received(&mut self, node: NodeId, header: &BatchHeader, layout: &Layout) {
        if !layout.counts(node, header.epoch) {
            return;
        }
        *self.received.entry(node).or_default() += u64::from(header.rows);
    }

    /// The batch of a parcel; its keys are computed if it came from another node.
    pub(super) fn open(&mut self, parcel: Contents, rows: u32) -> Result<AnyBatch, DecodeError> {
        match parcel {
            Contents::Batch(batch) | Contents::Kept(batch) => Ok(batch),
            Contents::Mark(_) => Err(DecodeError::Malformed("a mark has no events")),
            Contents::Bytes(bytes) => {
                let (spare, has_runs) = (self.spares.pop(), self.is_tracked);
                let batches = self.event.batches;
                let mut batch = batches.decode(spare, rows as usize, has_runs, &bytes)?;
                if !self.key.is_empty() {
                    self.event.batches.hash(&mut *batch, &self.key);
                }
                Ok(batch)
            }
        }
    }

    /// Copies some rows of a batch into one of their own.
    pub(super) fn pick(&mut self, batch: &AnyBatch, rows: &[u32], owing: &mut Owing) -> AnyBatch {
        self.event.batches.pick(self.spares.pop(), &**batch, rows, owing)
    }

    /// Keeps the memory of a batch that came from another node.
    pub(super) fn keep(&mut self, mut batch: AnyBatch) {
        if self.spares.len() < SPARES_MAX {
            self.event.batches.clear(&mut *batch);
            self.spares.push(batch);
        }
    }

    /// The rows of a batch that live here, and those that do not, if the batch was routed by another layout
    /// than ours.
    pub(super) fn astray(
        &mut self,
        batch: &mut AnyBatch,
        parcel_layout: u64,
        layout: &Layout,
        me: ContainerId,
    ) -> Option<(Vec<u32>, Vec<u32>)> {
        if parcel_layout == layout.digest || !self.is_keyed {
            return None;
        }
        let meant = self.event.batches.meant(&**batch);
        let hashes = self.event.batches.hash(&mut **batch, &self.key);
        let is_here = |&row: &u32| layout.has_key(hashes[row as usize], me);
        let (here, astray): (Vec<_>, Vec<_>) = meant.into_iter().partition(is_here);
        (!astray.is_empty()).then_some((here, astray))
    }

    /// Forgets what was counted with nodes that are gone, or live again.
    pub(super) fn forget(&mut self, is_same: impl Fn(NodeId) -> bool) {
        self.sent.retain(|&node, _| is_same(node));
        self.received.retain(|&node, _| is_same(node));
    }
}

/// How much of a parcel counts against what a sender may have us hold.
pub(super) fn held(parcel: &Parcel) -> usize {
    match &parcel.contents {
        Contents::Batch(_) | Contents::Kept(_) => 0,
        Contents::Bytes(bytes) => bytes.len() + size_of::<Parcel>(),
        Contents::Mark(_) => size_of::<Parcel>(),
    }
}
