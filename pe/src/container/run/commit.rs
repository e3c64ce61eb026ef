//! What of a run goes into commits, and the acks that wait for them.

use routing::Ack;

use super::Run;
use crate::Failure;
use crate::acker::Fail;
use crate::chunk::{ChunkWriter, CommitWriter};
use crate::topology::InstancePlan;
use crate::units::Units;

impl Run {
    /// Whether it is known of each event whether it was handled, so that somebody waits for commits.
    pub(in crate::container) fn is_tracked(&self) -> bool {
        self.acks.ledger.is_some()
    }

    /// Whether it is to be noted from now on what changes, and acks are held until it is committed.
    pub(in crate::container) fn watch(&mut self, is_on: bool) {
        self.acks.is_holding = is_on;
        for at in 0..self.hosts.len() {
            let is_watched = is_on && self.is_replicated(at);
            self.hosts[at].host.watch(is_watched);
        }
    }

    /// Whether the instances of a prototype are units, or of units, and have replicas.
    pub(super) fn is_replicated(&self, host: usize) -> bool {
        matches!(self.plan.prototypes[host].instances, InstancePlan::Keyed | InstancePlan::Tasks(_))
    }

    /// About how many instances have changed since they were committed.
    pub(in crate::container) fn changed(&self) -> usize {
        self.hosts.iter().map(|slot| slot.host.changed()).sum()
    }

    /// Whether more has changed than was remembered; it is forgotten.
    pub(in crate::container) fn has_overrun(&mut self) -> bool {
        self.hosts.iter_mut().fold(false, |any, slot| slot.host.has_overrun() | any)
    }

    /// How many acks wait for a commit.
    pub(in crate::container) fn held_acks(&self) -> usize {
        self.acks.held.len()
    }

    /// Writes what has changed.
    pub(in crate::container) fn commit(&mut self, commit: &mut CommitWriter) {
        for (at, slot) in self.hosts.iter_mut().enumerate() {
            if slot.host.changed() > 0 {
                commit.set_place(self.topology, at);
                slot.host.commit(commit);
            }
        }
    }

    /// Writes instances of some units as they lie, from a position of a host on.
    pub(in crate::container) fn write_from(
        &mut self,
        host: usize,
        at: usize,
        units: &Units,
        chunk: &mut ChunkWriter,
    ) -> Option<usize> {
        chunk.set_place(self.topology, host);
        self.hosts[host].host.write_from(at, units.of((self.topology, host)), chunk)
    }

    /// The acks that wait for the commit that is made now.
    pub(in crate::container) fn take_held(&mut self) -> Vec<Ack> {
        self.acks.withheld += self.acks.held.len() as u64;
        std::mem::take(&mut self.acks.held)
    }

    /// Trees whose acks wait for a commit are not lost: so their ledgers are told.
    pub(in crate::container) fn touch_waiting(&mut self, made: &[Ack]) {
        let waiting = made.iter().chain(&self.acks.held);
        let mut acks: Vec<_> = waiting.map(|ack| Ack { root: ack.root, edges: 0 }).collect();
        self.acks.take(&mut acks);
    }

    /// What they are for is safe.
    pub(in crate::container) fn release(&mut self, mut acks: Vec<Ack>) {
        self.acks.withheld -= acks.len() as u64;
        self.acks.take(&mut acks);
    }

    /// What they are for may be lost.
    pub(in crate::container) fn forfeit(&mut self, acks: Vec<Ack>) {
        self.acks.withheld -= acks.len() as u64;
        let of = |ack: Ack| Fail { root: ack.root, why: Failure::NodeLost };
        let mut fails: Vec<_> = acks.into_iter().map(of).collect();
        self.acks.give_up(&mut fails);
    }

    /// Nobody has replicas any more, so nothing waits; whether something did.
    pub(in crate::container) fn release_held(&mut self) -> bool {
        let mut held = std::mem::take(&mut self.acks.held);
        let has_held = !held.is_empty();
        self.acks.take(&mut held);
        has_held
    }
}
