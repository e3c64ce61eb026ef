//! Numbered instances: n of them, one per node, or one alone.

mod moving;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use membership::Time;
use routing::{AnyOutlet, Batch, BatchHeader, Columns, Event};

use super::{
    AnyHost, Blueprint, Delivery, Desk, Here, Mark, Pass, Reached, Tally, contain, contain_each,
};
use crate::acker::Tracker;
use crate::chunk::{ChunkWriter, CommitWriter, Copied};
use crate::pe::Receive;
use crate::topology::Trigger;
use crate::trigger::{Beat, Beating, Pulse};
use crate::units::{Scope, Units};
use crate::{Ctx, Failure, Inputs, KeyRef, On, Outputs, Pe, Removal, Seen, Which, look};

/// The numbered instances of a prototype in a container.
pub(crate) struct TasksHost<P: Pe> {
    instances: BTreeMap<u32, Task<P>>,
    desk: Desk<P::Out>,
    task: u32,
    now: Time,
    copies: Vec<Copying>,
    /// Those that have changed since they were committed, if somebody wants to know.
    changed: Option<BTreeSet<u32>>,
}

/// A copy under way, ahead of a handoff.
struct Copying {
    handoff: u64,
    /// What goes.
    all: BTreeSet<u32>,
    /// What has yet to be written in this pass.
    round: BTreeSet<u32>,
    /// What has changed since.
    noted: BTreeSet<u32>,
    is_again: bool,
}

struct Task<P> {
    pe: P,
    pulse: Beating,
    due: Option<Time>,
}

/// An instance is known by its number; the one of a node, which has none, by this.
fn key_of(task: u32, count: u32) -> KeyRef<'static> {
    if task == BatchHeader::NO_TASK { KeyRef::of_task(0, 1) } else { KeyRef::of_task(task, count) }
}

impl<P: Pe> TasksHost<P> {
    pub(crate) fn new(plan: Blueprint) -> Self {
        let (instances, desk) = (BTreeMap::new(), Desk::new(plan));
        Self { instances, desk, task: 0, now: Time::default(), copies: Vec::new(), changed: None }
    }

    /// Makes an instance if it is not there; an instance that panics while it is made is made again for
    /// its next event.
    fn make(&mut self, task: u32) {
        if !self.instances.contains_key(&task) {
            let plan = &self.desk.plan;
            let pe = P::create(key_of(task, plan.tasks), &plan.params);
            self.instances.insert(task, Task { pe, pulse: Beating::default(), due: None });
            self.note(task);
        }
    }

    fn run<E: Event>(&mut self, batch: &Batch<E>, at: &Cell<usize>)
    where
        P: On<E>,
    {
        while at.get() < batch.len() {
            self.make(self.task);
            let is_closing = match batch.chosen() {
                None => self.run_rows(batch, |place| place, at),
                Some(rows) => self.run_rows(batch, |place| rows[place] as usize, at),
            };
            if is_closing {
                self.remove(self.task, Removal::Closed);
                at.set(at.get() + 1);
            }
        }
    }

    /// Handles rows until the instance closes itself; `at` is then the place at which it did.
    ///
    /// A step that does next to nothing with an event is as fast as this loop: it has one counter.
    #[inline(always)]
    fn run_rows<E: Event>(
        &mut self,
        batch: &Batch<E>,
        row: impl Fn(usize) -> usize,
        at: &Cell<usize>,
    ) -> bool
    where
        P: On<E>,
    {
        let task = self.instances.get_mut(&self.task).expect("made before");
        let trigger = self.desk.plan.trigger;
        let mut ctx = self.desk.ctx(self.now);
        let runs = batch.runs.as_slice();
        let mut mark = Mark::new(at);
        while mark.at < batch.len() {
            ctx.follow(mark.at, runs);
            task.pe.on(batch.columns.get(row(mark.at)), &mut ctx);
            if let Some(trigger) = trigger {
                task.beat(self.now, trigger, &mut ctx);
            }
            if ctx.is_closing {
                return true;
            }
            mark.at += 1;
        }
        false
    }

    fn remove(&mut self, task: u32, reason: Removal) {
        let count = self.desk.plan.tasks;
        self.note(task);
        // In its place until the hook has returned: dropped by a panic, it might panic again and abort.
        if let Some(going) = self.instances.get_mut(&task) {
            going.pe.on_remove(reason, &mut self.desk.ctx(self.now).keyed(key_of(task, count)));
        }
        self.instances.remove(&task);
    }

    /// Calls a hook for each of some instances; one that panics is dropped.
    fn each(&mut self, tasks: &[u32], what: &str, mut hook: impl FnMut(&mut Self, u32)) {
        contain_each(
            self,
            tasks.len(),
            |host, at| {
                while let Some(&task) = tasks.get(at.get()) {
                    hook(host, task);
                    at.set(at.get() + 1);
                }
            },
            |host, at, cause| {
                host.drop_quietly(tasks[at]);
                host.desk.bury(what, cause);
            },
        );
    }

    fn drop_quietly(&mut self, task: u32) {
        self.note(task);
        let removed = self.instances.remove(&task);
        let _ = contain(|| drop(removed));
    }

    fn hook_or_close(&mut self, task: u32, hook: impl FnOnce(&mut P, &mut Ctx<'_, P::Out>)) {
        let count = self.desk.plan.tasks;
        self.note(task);
        let Some(instance) = self.instances.get_mut(&task) else { return };
        let mut ctx = self.desk.ctx(self.now);
        let mut ctx = ctx.keyed(key_of(task, count));
        hook(&mut instance.pe, &mut ctx);
        if ctx.is_closing {
            self.remove(task, Removal::Closed);
        }
    }

    /// Calls instances whose triggers are due.
    fn trigger(&mut self, tasks: &[u32]) {
        let what = if P::IS_WINDOWED { "on_window" } else { "on_trigger" };
        self.each(tasks, what, |host, task| {
            let Some(instance) = host.instances.get_mut(&task) else { return };
            let due = instance.due.take();
            if !P::IS_WINDOWED && !due.is_some_and(|at| instance.pulse.is_due(at)) {
                return; // It has fired by its count since.
            }
            instance.pulse = Beating::default();
            host.hook_or_close(task, |pe, ctx| pe.on_trigger(ctx));
            if P::IS_WINDOWED {
                host.wait_for_window(task);
            }
        });
    }

    /// Tells the window that has ended before the events of a batch came: it may close the instance, so
    /// it is told before it is known which instance has them.
    fn tell_late(&mut self) {
        let task = self.task;
        let due = self.instances.get(&task).and_then(|task| task.due);
        if due.is_some_and(|at| at <= self.now) {
            self.trigger(&[task]);
        }
    }

    fn wait_for_window(&mut self, task: u32) {
        if let Some(task) = self.instances.get_mut(&task) {
            task.due = task.pe.window_deadline();
        }
    }

    fn tasks(&self, is_wanted: impl Fn(u32, &Task<P>) -> bool) -> Vec<u32> {
        let all = self.instances.iter().filter(|(number, task)| is_wanted(**number, task));
        all.map(|(number, _)| *number).collect()
    }
}

impl<P: Pe> Task<P> {
    fn beat(&mut self, now: Time, trigger: Trigger, ctx: &mut Ctx<'_, P::Out>) {
        match self.pulse.event(now, trigger, None) {
            Beat::Wait => {}
            Beat::Armed(at) => self.due = Some(at),
            Beat::Fire => self.pe.on_trigger(ctx),
        }
    }
}

impl<P: Pe> Receive<P> for TasksHost<P> {
    fn receive<E: Event>(&mut self, batch: &Batch<E>)
    where
        P: On<E>,
    {
        if P::IS_WINDOWED {
            self.tell_late();
        }
        let before = self.desk.tally.panics;
        self.note(self.task);
        self.desk.tracker.begin(batch.runs.as_slice());
        contain_each(
            self,
            batch.len(),
            |host, at| host.run(batch, at),
            |host, _, cause| {
                host.drop_quietly(host.task);
                host.desk.tracker.fail(Failure::Panicked);
                host.desk.bury("on", cause);
            },
        );
        self.desk.tracker.finish(batch.runs.as_slice());
        let lost = self.desk.tally.panics - before;
        self.desk.tally.applied += batch.len() as u64 - lost;
        if P::IS_WINDOWED {
            self.wait_for_window(self.task);
        }
    }
}

impl<P: Pe> AnyHost for TasksHost<P> {
    fn deliver(&mut self, delivery: Delivery<'_>) {
        (self.task, self.now) = (delivery.task, delivery.now);
        let is_known = P::In::receive(delivery.batch, self);
        assert!(is_known, "the plan compares the types of streams and inputs");
    }

    fn outlets(&mut self, each: &mut dyn FnMut(usize, &mut dyn AnyOutlet)) {
        P::Out::each(&mut self.desk.outlets, each);
    }

    fn is_over_budget(&self) -> bool {
        P::Out::any(&self.desk.outlets, |outlet| outlet.is_over_budget())
    }

    fn is_open(&self) -> bool {
        P::Out::any(&self.desk.outlets, |outlet| outlet.is_open())
    }

    fn tick(&mut self, now: Time, still: Scope<'_>) {
        self.now = now;
        if self.desk.timer_is_due(now) {
            let tasks = self.tasks(|number, _| !still.has_task(number));
            self.each(&tasks, "on_time", |host, task| {
                host.hook_or_close(task, |pe, ctx| pe.on_time(ctx));
            });
        }
        let is_due = |task: &Task<P>| task.due.is_some_and(|at| at <= now);
        let tasks = self.tasks(|number, task| is_due(task) && !still.has_task(number));
        self.trigger(&tasks);
    }

    fn deadline(&self, still: Scope<'_>) -> Option<Time> {
        let timer = self.desk.plan.timer.and(self.desk.next_timer.or(Some(Time::default())));
        let moving = self.instances.iter().filter(|(number, _)| !still.has_task(**number));
        timer.into_iter().chain(moving.filter_map(|(_, task)| task.due)).min()
    }

    fn copy(&mut self, handoff: u64, units: &Arc<Units>, place: (u16, usize)) {
        let all = units.of(place).tasks();
        match self.copies.iter_mut().find(|copy| copy.handoff == handoff) {
            Some(copy) => copy.narrow(all),
            None => self.copies.push(Copying::new(handoff, all)),
        }
    }

    fn write(&mut self, handoff: u64, pass: Pass, chunk: &mut ChunkWriter) -> bool {
        self.write_copy(handoff, pass, chunk)
    }

    fn forget(&mut self, handoff: u64) {
        self.copies.retain(|copy| copy.handoff != handoff);
    }

    fn stage(&mut self, copied: Copied<'_>, now: Time, _: bool) -> Result<(), String> {
        self.take_in(copied, now)
    }

    fn watch(&mut self, is_watched: bool) {
        if self.changed.is_some() != is_watched {
            self.changed = is_watched.then(BTreeSet::new);
        }
    }

    fn changed(&self) -> usize {
        self.changed.as_ref().map_or(0, BTreeSet::len)
    }

    fn commit(&mut self, commit: &mut CommitWriter) {
        self.write_changes(commit);
    }

    fn write_from(
        &mut self,
        from: Reached,
        units: Scope<'_>,
        chunk: &mut ChunkWriter,
    ) -> Option<Reached> {
        let position = self.write_instances(from.position, units, chunk)?;
        Some(Reached { position, ..from })
    }

    fn look(&mut self, which: &Which) -> Seen {
        let Which::Task(task) = which else { return Seen::Absent };
        self.instances.get(task).map_or(Seen::Absent, |task| look::shown(&task.pe))
    }

    fn look_at_copy(&self, state: &[u8]) -> Seen {
        look::copy::<P>(state)
    }

    fn unstage(&mut self, units: Scope<'_>) {
        let tasks = self.tasks(|number, _| units.has_task(number));
        tasks.into_iter().for_each(|task| self.drop_quietly(task));
    }

    fn settle(&mut self, now: Time, here: &Here<'_>) {
        self.now = now;
        let gone = self.tasks(|number, _| !(here.has_task)(number));
        self.each(&gone, "on_remove", |host, task| host.remove(task, Removal::Moved));
        self.each(here.tasks, "create", Self::make);
    }

    fn remove_all(&mut self, now: Time, reason: Removal) {
        self.now = now;
        let all = self.tasks(|_, _| true);
        self.each(&all, "on_remove", |host, task| host.remove(task, reason));
    }

    fn instances(&self) -> usize {
        self.instances.len()
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.desk.tally
    }

    fn tracker(&mut self) -> &mut Tracker {
        &mut self.desk.tracker
    }
}
