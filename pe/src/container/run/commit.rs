//! What of a run goes into commits, and the acks that wait for them.

use std::time::Duration;

use membership::Time;
use routing::Ack;

use super::{Run, Slot};
use crate::Failure;
use crate::acker::Fail;
use crate::chunk::{ChunkWriter, CommitWriter};
use crate::host::Reached;
use crate::topology::{Checkpoint, InstancePlan};
use crate::units::Units;

/// A host that has handled nothing for so long is due for its checkpoint, if acks wait for that or nothing but a number
/// of events makes it due: else trees of a stream that has run dry would wait for a long time, or for ever.
const OWN_IDLE: Duration = Duration::from_secs(1);

/// What of a host waits for a checkpoint of its own.
pub(super) struct OwnCheckpoint {
    plan: Checkpoint,
    /// When the last one was made, and how many events had been handled by then.
    made: Time,
    applied: u64,
    /// The acks that wait for the next one.
    pub(super) held: Vec<Ack>,
}

impl OwnCheckpoint {
    pub(super) fn new(plan: Checkpoint) -> Self {
        Self { plan, made: Time::default(), applied: 0, held: Vec::new() }
    }
}

impl Slot {
    /// Whether a checkpoint of its own is due.
    fn is_own_due(&mut self, now: Time) -> bool {
        let Some(own) = &self.own else { return false };
        let has_any = self.host.changed() > 0 || !own.held.is_empty();
        let (events, before) = (own.plan.events, own.applied);
        has_any
            && (self.own_deadline().is_some_and(|at| at <= now)
                || self.host.tracker().wants_checkpoint
                || events.is_some_and(|n| self.host.tally().applied - before >= u64::from(n)))
    }

    /// When it is, if nothing is handled.
    fn own_deadline(&self) -> Option<Time> {
        let own = self.own.as_ref()?;
        if self.host.changed() == 0 && own.held.is_empty() {
            return None;
        }
        let is_to_be_idle = !own.held.is_empty() || own.plan.every.is_none();
        let idle = self.last_applied.unwrap_or_default().max(own.made) + OWN_IDLE;
        let every = own.plan.every.map(|every| own.made + every);
        every.into_iter().chain(is_to_be_idle.then_some(idle)).min()
    }
}

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

    /// About how much waits for the next commit: instances that have changed, and acks.
    pub(in crate::container) fn uncommitted(&self) -> usize {
        let common = self.hosts.iter().filter(|slot| slot.own.is_none());
        self.acks.held.len() + common.map(|slot| slot.host.changed()).sum::<usize>()
    }

    /// Whether the next commit is wanted at once.
    pub(in crate::container) fn is_commit_wanted(&mut self) -> bool {
        let mut common = self.hosts.iter_mut().filter(|slot| slot.own.is_none());
        common.any(|slot| slot.host.tracker().wants_checkpoint)
    }

    /// Whether a host with checkpoints of its own is due for one.
    pub(in crate::container) fn has_own_due(&mut self, now: Time) -> bool {
        self.hosts.iter_mut().any(|slot| slot.is_own_due(now))
    }

    /// When [`Run::has_own_due`] is, though nothing is handled.
    pub(in crate::container) fn own_deadline(&self) -> Option<Time> {
        self.hosts.iter().filter_map(Slot::own_deadline).min()
    }

    /// Whether acks wait for such.
    pub(in crate::container) fn holds_for_own(&self) -> bool {
        self.hosts.iter().filter_map(|slot| slot.own.as_ref()).any(|own| !own.held.is_empty())
    }

    /// Whether more has changed than was remembered; it is forgotten.
    pub(in crate::container) fn has_overrun(&mut self) -> bool {
        self.hosts.iter_mut().fold(false, |any, slot| slot.host.has_overrun() | any)
    }

    /// How many acks wait for commits that have not been made.
    pub(super) fn held_acks(&self) -> usize {
        let own = self.hosts.iter().filter_map(|slot| slot.own.as_ref());
        self.acks.held.len() + own.map(|own| own.held.len()).sum::<usize>()
    }

    /// Writes what has changed: of hosts with checkpoints of their own if those are due, of others if `is_common`.
    /// Gives the acks that wait for it.
    pub(in crate::container) fn commit(
        &mut self,
        commit: &mut CommitWriter,
        is_common: bool,
        now: Time,
    ) -> Vec<Ack> {
        let mut acks = if is_common { std::mem::take(&mut self.acks.held) } else { Vec::new() };
        for (at, slot) in self.hosts.iter_mut().enumerate() {
            if !if slot.own.is_some() { slot.is_own_due(now) } else { is_common } {
                continue;
            }
            if slot.host.changed() > 0 {
                commit.set_place(self.topology, at);
                slot.host.commit(commit);
            }
            slot.host.tracker().wants_checkpoint = false;
            let applied = slot.host.tally().applied;
            if let Some(own) = &mut slot.own {
                (own.made, own.applied) = (now, applied);
                acks.append(&mut own.held);
            }
        }
        self.acks.withheld += acks.len() as u64;
        acks
    }

    /// Writes instances of some units as they lie, from a position of a host on.
    pub(in crate::container) fn write_from(
        &mut self,
        host: usize,
        from: Reached,
        units: &Units,
        chunk: &mut ChunkWriter,
    ) -> Option<Reached> {
        chunk.set_place(self.topology, host);
        self.hosts[host].host.write_from(from, units.of((self.topology, host)), chunk)
    }

    /// Trees whose acks wait for a commit are not lost: so their ledgers are told.
    pub(in crate::container) fn touch_waiting<'a>(&mut self, made: impl Iterator<Item = &'a Ack>) {
        let alive = |ack: &Ack| Ack { root: ack.root, edges: 0 };
        let mut acks: Vec<_> = made.map(alive).collect();
        let own = self.hosts.iter().filter_map(|slot| slot.own.as_ref());
        let held = self.acks.held.iter().chain(own.flat_map(|own| &own.held));
        acks.extend(held.map(alive));
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
        self.give_up(acks);
    }

    /// What was done since the last commit may be lost, too.
    pub(in crate::container) fn forfeit_held(&mut self) {
        let held = self.take_held();
        self.give_up(held);
    }

    fn give_up(&mut self, acks: Vec<Ack>) {
        let of = |ack: Ack| Fail { root: ack.root, why: Failure::NodeLost };
        let mut fails: Vec<_> = acks.into_iter().map(of).collect();
        self.acks.give_up(&mut fails);
    }

    /// Nobody has replicas any more, so nothing waits; whether something did.
    pub(in crate::container) fn release_held(&mut self) -> bool {
        let mut held = self.take_held();
        let has_held = !held.is_empty();
        self.acks.take(&mut held);
        has_held
    }

    /// What hosts owe for what they did since it was last committed.
    fn take_held(&mut self) -> Vec<Ack> {
        let mut held = std::mem::take(&mut self.acks.held);
        let own = self.hosts.iter_mut().filter_map(|slot| slot.own.as_mut());
        own.for_each(|own| held.append(&mut own.held));
        held
    }
}
