//! Numbered instances that move: written here, taken in there.

use std::collections::BTreeSet;

use membership::Time;
use routing::codec;

use super::{Copying, Task, TasksHost};
use crate::Pe;
use crate::chunk::{ChunkWriter, CommitWriter, Copied};
use crate::host::{Pass, contain};
use crate::topology::Trigger;
use crate::trigger::{Beating, Pulse};
use crate::units::Scope;

impl Copying {
    pub(super) fn new(handoff: u64, all: BTreeSet<u32>) -> Self {
        Self { handoff, round: all.clone(), all, noted: BTreeSet::new(), is_again: false }
    }

    /// Some do not go any more.
    pub(super) fn narrow(&mut self, all: BTreeSet<u32>) {
        self.round.retain(|task| all.contains(task));
        self.noted.retain(|task| all.contains(task));
        self.all = all;
    }
}

impl<P: Pe> TasksHost<P> {
    /// An instance is not what it was, as the copies under way have to know.
    pub(super) fn note(&mut self, task: u32) {
        for copy in self.copies.iter_mut().filter(|copy| copy.all.contains(&task)) {
            copy.noted.insert(task);
        }
        if let Some(changed) = &mut self.changed {
            changed.insert(task);
        }
    }

    /// Writes what has changed since it was committed.
    pub(super) fn write_changes(&mut self, commit: &mut CommitWriter) {
        for task in self.changed.as_mut().map(std::mem::take).unwrap_or_default() {
            match self.instances.get_mut(&task) {
                Some(Task { pe, pulse, .. }) => {
                    pe.window_clock(commit.now());
                    commit.task(task, pulse.events(), pe);
                }
                None => commit.task_gone(task),
            }
        }
    }

    /// Writes instances in order, from the number `at` on.
    pub(super) fn write_instances(
        &mut self,
        at: usize,
        units: Scope<'_>,
        chunk: &mut ChunkWriter,
    ) -> Option<usize> {
        let from = u32::try_from(at).ok()?;
        for (&task, Task { pe, pulse, .. }) in self.instances.range_mut(from..) {
            if !chunk.has_room() {
                return Some(task as usize);
            }
            if units.has_task(task) {
                pe.window_clock(chunk.now());
                chunk.task(task, pulse.events(), pe);
            }
        }
        None
    }

    /// Writes more of a copy; whether this pass has nothing more.
    pub(super) fn write_copy(&mut self, handoff: u64, pass: Pass, chunk: &mut ChunkWriter) -> bool {
        let Some(copy) = self.copies.iter_mut().find(|copy| copy.handoff == handoff) else {
            return true;
        };
        if pass == Pass::Rest || pass == Pass::Again && !copy.is_again {
            copy.is_again = true;
            copy.round.append(&mut copy.noted);
        }
        while let Some(&task) = copy.round.first() {
            if !chunk.has_room() {
                return false;
            }
            copy.round.pop_first();
            match self.instances.get_mut(&task) {
                Some(Task { pe, pulse, .. }) => {
                    pe.window_clock(chunk.now());
                    chunk.task(task, pulse.events(), pe);
                }
                None => chunk.task_gone(task),
            }
        }
        true
    }

    /// Takes in an instance, or that it is gone.
    pub(super) fn take_in(&mut self, copied: Copied<'_>, now: Time) -> Result<(), String> {
        let name = &self.desk.plan.name;
        match copied {
            Copied::Task { task, events, state } => {
                let pe = contain(|| codec::decode::<P>(state));
                let pe = pe.map_err(|panic| format!("{name} panicked: {}", panic.0))?;
                let mut pe = pe.map_err(|error| format!("a state of {name}: {error}"))?;
                pe.window_clock(now);
                let trigger =
                    self.desk.plan.trigger.unwrap_or(Trigger { events: None, after: None });
                let (pulse, due) = Beating::arrived(events, now, trigger, None);
                let due = due.or(pe.window_deadline());
                self.drop_quietly(task);
                self.instances.insert(task, Task { pe, pulse, due });
            }
            Copied::TaskGone(task) => self.drop_quietly(task),
            Copied::Keyed { .. } | Copied::KeyGone(_) | Copied::Unwritable => {
                return Err(format!("{name} has numbered instances"));
            }
        }
        Ok(())
    }
}
