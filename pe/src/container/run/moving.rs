//! What moves in and out of a run: its hosts are told, one by one.

use std::sync::Arc;

use super::super::Desk;
use super::super::handoffs::Laying;
use super::super::message::Action;
use super::Run;
use crate::chunk::{ChunkWriter, Copied};
use crate::host::{Here, Pass};
use crate::layout::Phase;
use crate::topology::InstancePlan;
use crate::units::Units;
use crate::{Seen, Sought};

impl Run {
    /// Lets instances go that live elsewhere, and makes those that have to be here.
    pub(super) fn move_instances(
        &mut self,
        at: usize,
        removed: usize,
        laying: &Laying,
        desk: &Desk,
    ) {
        let (me, layout, handoffs) = (desk.me, &desk.layout, &desk.handoffs);
        let place = (self.topology, at);
        let (still, staged) = (handoffs.still.of(place), handoffs.staged.of(place));
        let gone = laying.gone.of(place);
        let activity = &desk.activity;
        let host = &mut self.hosts[at].host;
        host.unstage(laying.discarded.of(place));
        // Of a stage that ends, nothing is made, and nothing goes that was not handed over before.
        if self.plan.prototypes[at].stage < removed {
            let (has_key, has_task) = (|hash| !gone.has_key(hash), |task| !gone.has_task(task));
            let has_key: Option<&dyn Fn(u64) -> bool> = Some(&has_key);
            let here = Here { has_key, has_task: &has_task, tasks: &[] };
            activity.during(self.topology, at, || host.settle(desk.now, &here));
        } else {
            let mut tasks = match desk.phase(self.topology) {
                Phase::Waiting => Vec::new(),
                Phase::Running | Phase::Ending(_) | Phase::Ended => {
                    layout.tasks(&self.plan, (usize::from(self.topology), at), me)
                }
            };
            let lives = tasks.clone();
            tasks.retain(|&task| !still.has_task(task));
            let has_key = |hash| layout.has_key(hash, me) || staged.has_key(hash);
            let has_task = |task| lives.contains(&task) || staged.has_task(task);
            // What ends removes all that it has at once, and must not find what has gone.
            let is_at_once = desk.phase(self.topology) != Phase::Running;
            let has_key: &dyn Fn(u64) -> bool = &has_key;
            let has_key = is_at_once.then_some(has_key);
            let here = Here { has_key, has_task: &has_task, tasks: &tasks };
            activity.during(self.topology, at, || host.settle(desk.now, &here));
        }
        host.resume();
    }

    /// Removes some of the instances of a host that have gone with their slots; whether none is left.
    pub(in crate::container) fn sweep(
        &mut self,
        at: usize,
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) -> bool {
        let gone = desk.handoffs.departed((self.topology, at));
        let host = &mut self.hosts[at].host;
        let is_done = desk.activity.during(self.topology, at, || host.sweep(desk.now, gone));
        self.collect(at, desk, out);
        self.settle(desk, out);
        is_done
    }

    /// Timers stood still and do so no more.
    pub(in crate::container) fn wake_timers(&mut self) {
        self.hosts.iter_mut().for_each(|slot| slot.host.resume());
    }

    /// Begins to copy units ahead of a handoff.
    pub(in crate::container) fn copy(&mut self, handoff: u64, units: &Arc<Units>) {
        for (at, slot) in self.hosts.iter_mut().enumerate() {
            slot.host.copy(handoff, units, (self.topology, at));
        }
    }

    /// Writes more of the copy of a host; whether it has nothing more in this pass.
    pub(in crate::container) fn write(
        &mut self,
        host: usize,
        handoff: u64,
        pass: Pass,
        chunk: &mut ChunkWriter,
    ) -> bool {
        chunk.set_place(self.topology, host);
        self.hosts[host].host.write(handoff, pass, chunk)
    }

    /// A copy is over.
    pub(in crate::container) fn forget(&mut self, handoff: u64) {
        self.hosts.iter_mut().for_each(|slot| slot.host.forget(handoff));
    }

    /// Takes in an instance that is about to live here. Of a stage that has ended, none is wanted.
    pub(in crate::container) fn stage(
        &mut self,
        prototype: u16,
        copied: Copied<'_>,
        is_lazy: bool,
        desk: &Desk,
    ) -> Result<(), String> {
        let at = usize::from(prototype);
        if self.plan.prototypes[at].stage < self.stages_removed as usize {
            return Ok(());
        }
        self.hosts[at].host.stage(copied, desk.now, is_lazy)
    }

    /// Drops what was staged of some units.
    pub(in crate::container) fn unstage(&mut self, units: &Units) {
        for (at, slot) in self.hosts.iter_mut().enumerate() {
            slot.host.unstage(units.of((self.topology, at)));
        }
    }

    /// Units that were sealed are served again: what was kept for them first.
    pub(in crate::container) fn resume(&mut self, desk: &mut Desk, out: &mut Vec<Action>) {
        self.hosts.iter_mut().for_each(|slot| slot.host.resume());
        self.refresh(desk);
        self.unkeep(|_, _, origin| origin.is_none(), desk);
        self.settle(desk, out);
    }

    /// How many prototypes there are.
    pub(in crate::container) fn host_count(&self) -> usize {
        self.hosts.len()
    }

    /// How many instances a prototype has; `None` if there is no such prototype.
    pub(in crate::container) fn instances(&self, prototype: u16) -> Option<InstancePlan> {
        self.plan.prototypes.get(usize::from(prototype)).map(|known| known.instances)
    }

    /// What an instance is.
    pub(in crate::container) fn look(&mut self, sought: &Sought) -> Seen {
        let slot = self.hosts.get_mut(usize::from(sought.prototype));
        slot.map_or(Seen::Absent, |slot| slot.host.look(&sought.which))
    }

    /// What a copy of the state of an instance is.
    pub(in crate::container) fn look_at_copy(&self, prototype: u16, state: &[u8]) -> Seen {
        let slot = self.hosts.get(usize::from(prototype));
        slot.map_or(Seen::Absent, |slot| slot.host.look_at_copy(state))
    }

    /// The name of a prototype.
    pub(in crate::container) fn name(&self, prototype: u16) -> &str {
        &self.plan.prototypes[usize::from(prototype)].name
    }
}
