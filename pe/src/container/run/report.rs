//! What a run tells of itself.

use std::collections::BTreeMap;

use membership::NodeId;
use routing::{AnyOutlet, Dropped};

use super::{Run, Slot, reason};
use crate::acker::{Ledger, Offset};
use crate::host::PartitionState;
use crate::layout::Layout;
use crate::report::{HostReport, PartitionReport, RunReport};

impl Run {
    /// The figures of all hosts, and the counts by which an end is known.
    pub(in crate::container) fn report(&mut self, layout: &Layout) -> RunReport {
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
}

impl Slot {
    fn report(&mut self, ledger: Option<&Ledger>) -> HostReport {
        let emitted = self.emitted();
        let source = self.host.as_source();
        let partitions = source.map_or_else(Vec::new, |source| source.partitions(ledger));
        let tally = self.host.tally();
        HostReport {
            applied: tally.applied,
            last_applied: self.last_applied,
            dead_letters: tally.dead_letters,
            evicted: tally.evicted,
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

/// A partition, as it is told.
pub(super) fn partition_report(state: PartitionState) -> PartitionReport {
    let PartitionState { name, offset, is_exhausted, failure } = state;
    let Offset { position, skip } = offset;
    PartitionReport { name, position, skip, is_exhausted, failure }
}
