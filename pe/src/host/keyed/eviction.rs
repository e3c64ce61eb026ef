//! Keyed instances that are given up: more of them than there may be, and idle ones.

use std::time::Duration;

use membership::Time;

use super::{KeyColumn, Keyed, Long, SWEEP_LOOKED};
use crate::instances::{Instances, Remove};
use crate::trigger::Pulse;
use crate::units::Scope;
use crate::{Pe, Removal};

/// How many instances are given up in one go.
const EVICTED: usize = 512;

/// One is idle when so many looks have found it unused. There are as many in the time after which it is, so it stays up to
/// a quarter longer.
const LOOKS: u8 = 4;

/// After this it is looked again whether units stand still.
const STILL: Duration = Duration::from_millis(20);

/// When it is looked for instances to be given up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Eviction {
    /// For such that are too many, if there are.
    full: Option<Time>,
    /// For idle ones, if they are to go; the first time at once.
    idle: Option<Time>,
    /// Below which position such have still to be looked for; none between two walks.
    from: Option<usize>,
}

impl Eviction {
    /// When [`Keyed::evict`] is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        [self.full, self.idle].into_iter().flatten().min()
    }
}

impl<P: Pe, K: KeyColumn, M: Pulse> Keyed<P, K, M>
where
    Instances<P, K, M>: Remove<P, K, M> + Long<P, K>,
{
    /// Has it noted which instances are used, if some are to be given up.
    pub(super) fn watch_use(&mut self) {
        if let Some(memory) = self.desk.plan.memory {
            self.instances.marks.keep();
            self.eviction.idle = memory.idle_after.map(|_| Time::default());
        }
    }

    /// After a batch: whether some are to be given up.
    pub(super) fn notice_excess(&mut self) {
        if self.excess() > 0 {
            self.eviction.full.get_or_insert(self.now);
        }
    }

    /// How many instances there are too many.
    fn excess(&self) -> usize {
        let max = self.desk.plan.memory.and_then(|memory| memory.max_instances);
        max.map_or(0, |max| self.instances.len().saturating_sub(max as usize))
    }

    /// Gives up some of the instances that are too many, and some that are idle, but none of units that stand still.
    pub(super) fn evict(&mut self, now: Time, still: Scope<'_>) {
        if self.eviction.full.is_some_and(|due| due <= now) {
            let mut keys = Vec::new();
            for _ in 0..self.excess().min(EVICTED) {
                keys.extend(self.instances.unused(|key| !still.has_key(key.hash())));
            }
            let before = self.instances.len();
            self.each(&keys, "on_remove", |host, key| host.remove(key, Removal::Full));
            let gone = before.saturating_sub(self.instances.len());
            self.desk.tally.evicted.full += gone as u64;
            // Where all that are too many stand still, they do so for a while.
            let next = if gone > 0 { now } else { now + STILL };
            self.eviction.full = (self.excess() > 0).then_some(next);
        }
        let idle_after = self.desk.plan.memory.and_then(|memory| memory.idle_after);
        if let Some(idle_after) = idle_after.filter(|_| self.eviction.idle <= Some(now)) {
            self.evict_idle(now, idle_after, still);
        }
    }

    /// Looks at some instances, from the end: whoever moves into a gap has been looked at.
    fn evict_idle(&mut self, now: Time, idle_after: Duration, still: Scope<'_>) {
        let last = self.instances.len();
        let from = self.eviction.from.map_or(last, |from| from.min(last));
        let (mut at, mut keys) = (from, Vec::new());
        while at > from.saturating_sub(SWEEP_LOOKED) && keys.len() < EVICTED {
            at -= 1;
            let key = self.instances.at(at).key;
            if self.instances.marks.look(at) >= LOOKS && !still.has_key(key.hash()) {
                keys.push(key);
            }
        }
        let before = self.instances.len();
        self.each(&keys, "on_remove", |host, key| host.remove(key, Removal::Idle));
        self.desk.tally.evicted.idle += before.saturating_sub(self.instances.len()) as u64;
        self.eviction.from = (at > 0).then_some(at);
        let pause = if at > 0 { Duration::ZERO } else { idle_after / LOOKS.into() };
        self.eviction.idle = Some(now + pause);
    }
}
