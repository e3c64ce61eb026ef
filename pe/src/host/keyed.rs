//! Keyed instances: one for each key, made by its first event.

mod eviction;
mod moving;

use std::any::Any;
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use membership::Time;
use routing::{AnyOutlet, Batch, Columns, Event, Group, Key, KeyFields, Packed};

use self::eviction::Eviction;
use super::{
    AnyHost, Blueprint, Delivery, Desk, Here, Mark, Panic, Pass, Reached, Tally, contain,
    contain_each,
};
use crate::acker::Tracker;
use crate::chunk::{ChunkWriter, CommitWriter, Copied};
use crate::instance_key::Unpack;
use crate::instances::{Copying, Dormant, Hint, Instance, Instances, Remove};
use crate::pe::Receive;
use crate::topology::Trigger;
use crate::trigger::{Beat, Beating, Pulse, Waking};
use crate::units::{Scope, Units};
use crate::window::Extent;
use crate::{Ctx, Failure, Inputs, KeyRef, On, Outputs, Pe, Removal, Seen, Which, look};

/// Rows whose hints are asked for before the first of them is handled: the questions do not depend on one
/// another, so the processor waits for many cache lines at once.
const GROUP: usize = 32;

/// How many instances are looked at, and how many removed, in one go: some tenths of a millisecond.
const SWEEP_LOOKED: usize = 16 << 10;
const SWEEP_REMOVED: usize = 512;

/// How many shelves of dormant instances are looked at in one go.
const SWEEP_SHELVES: usize = 32;

/// Makes the host that fits the keys and the trigger of a prototype.
pub(crate) fn keyed<P: Pe>(plan: Blueprint) -> Box<dyn AnyHost> {
    let is_number = plan.kinds.len() == 1 && plan.kinds[0].is_number();
    let slide = plan.window.map(|window| window.slide);
    // The first half is a constant: for other types these hosts are not compiled.
    if P::IS_WINDOWED && matches!(slide, Some(Extent::Time(_))) {
        return if is_number {
            Box::new(Keyed::<P, u64, Waking>::new(plan))
        } else {
            Box::new(Keyed::<P, Packed, Waking>::new(plan))
        };
    }
    match (is_number, plan.trigger.is_some()) {
        (true, false) => Box::new(Keyed::<P, u64, ()>::new(plan)),
        (true, true) => Box::new(Keyed::<P, u64, Beating>::new(plan)),
        (false, false) => Box::new(Keyed::<P, Packed, ()>::new(plan)),
        (false, true) => Box::new(Keyed::<P, Packed, Beating>::new(plan)),
    }
}

struct Keyed<P: Pe, K, M> {
    instances: Instances<P, K, M>,
    /// Those that came from a replica and wait for their first events.
    dormant: Dormant,
    desk: Desk<P::Out>,
    trigger: Trigger,
    due: Due<K>,
    input: usize,
    now: Time,
    scratch: Vec<u8>,
    /// Below which position instances have still to be looked at by [`AnyHost::sweep`]; none between two.
    swept: Option<usize>,
    /// The next shelf of dormant ones to be looked at by it, as long as there is one.
    swept_shelf: Option<usize>,
    eviction: Eviction,
}

/// The instances whose triggers, or the ends of whose windows, are due at some time. Triggers all wait
/// equally long, so adding one moves none; windows end when they will.
///
/// A trigger that fires by its count leaves its entry behind, and so does an instance that goes.
struct Due<K> {
    queue: BinaryHeap<Entry<K>>,
    /// Those that were due while their units stood still.
    still: Vec<Entry<K>>,
    /// How many there have been.
    count: u64,
    /// At this length, what is out of date is taken out.
    limit: usize,
}

/// The first in time is the greatest; of equals, the one that was there first.
#[derive(Clone, Copy)]
struct Entry<K> {
    at: Time,
    nth: u64,
    key: K,
}

impl<K> Ord for Entry<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.nth).cmp(&(self.at, self.nth))
    }
}

impl<K> PartialOrd for Entry<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Eq for Entry<K> {}

impl<K> PartialEq for Entry<K> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<K> Default for Due<K> {
    fn default() -> Self {
        Self { queue: BinaryHeap::new(), still: Vec::new(), count: 0, limit: Self::LEAST }
    }
}

impl<K> Due<K> {
    const LEAST: usize = 1024;

    fn push(&mut self, at: Time, key: K) {
        self.count += 1;
        self.queue.push(Entry { at, nth: self.count, key });
    }

    fn first(&self) -> Option<Time> {
        self.queue.peek().map(|entry| entry.at)
    }

    /// The next that is due.
    fn pop(&mut self, now: Time) -> Option<Entry<K>> {
        if self.first()? <= now { self.queue.pop() } else { None }
    }

    fn shrink(&mut self, is_current: impl FnMut(&Entry<K>) -> bool) {
        self.queue.retain(is_current);
        self.limit = Self::LEAST.max(2 * self.queue.len());
    }
}

/// How a host gets at the keys of a batch.
trait KeyColumn: Unpack {
    /// The key of each row.
    fn of<'b, E: Event>(batch: &'b Batch<E>, key: &KeyFields) -> &'b [Self];
}

impl KeyColumn for u64 {
    #[inline(always)]
    fn of<'b, E: Event>(batch: &'b Batch<E>, key: &KeyFields) -> &'b [Self] {
        batch
            .columns
            .column(key.0[0])
            .numbers()
            .expect("this host was chosen for a key of one number")
    }
}

impl KeyColumn for Packed {
    #[inline(always)]
    fn of<'b, E: Event>(batch: &'b Batch<E>, _: &KeyFields) -> &'b [Self] {
        &batch.keys
    }
}

/// What long keys need, and numbers do not.
trait Long<P, K> {
    /// Where the instance of a long key is.
    fn find_long(&self, key: K, bytes: &[u8]) -> Option<usize>;
    /// Keeps the bytes of a long key.
    fn keep(&mut self, key: K, bytes: &[u8]) -> K;
}

impl<P, M: Default> Long<P, u64> for Instances<P, u64, M> {
    fn find_long(&self, _: u64, _: &[u8]) -> Option<usize> {
        None
    }
    fn keep(&mut self, key: u64, _: &[u8]) -> u64 {
        key
    }
}

impl<P, M: Default> Long<P, Packed> for Instances<P, Packed, M> {
    fn find_long(&self, key: Packed, bytes: &[u8]) -> Option<usize> {
        Self::find_long(self, key, bytes)
    }
    fn keep(&mut self, key: Packed, bytes: &[u8]) -> Packed {
        if key.is_long() { self.keep_long(key, bytes) } else { key }
    }
}

impl<P: Pe, K: KeyColumn, M: Pulse> Keyed<P, K, M>
where
    Instances<P, K, M>: Remove<P, K, M> + Long<P, K>,
{
    fn new(plan: Blueprint) -> Self {
        let trigger = plan.trigger.unwrap_or(Trigger { events: None, after: None });
        let mut host = Self {
            instances: Instances::default(),
            dormant: Dormant::default(),
            desk: Desk::new(plan),
            trigger,
            due: Due::default(),
            input: 0,
            now: Time::default(),
            scratch: Vec::new(),
            swept: None,
            swept_shelf: Some(0),
            eviction: Eviction::default(),
        };
        host.watch_use();
        host
    }

    /// Handles the rows from `at` on; `at` follows.
    #[inline(always)]
    fn run<E: Event>(&mut self, batch: &Batch<E>, at: &Cell<usize>)
    where
        P: On<E>,
    {
        while at.get() < batch.len() {
            match batch.group(at.get(), GROUP) {
                Group::Run(rows) => self.run_group(batch, rows, at),
                Group::Chosen(rows) => {
                    self.run_group(batch, rows.iter().map(|&row| row as usize), at);
                }
            }
        }
    }

    /// Handles the rows of a group.
    #[inline(always)]
    fn run_group<E: Event>(
        &mut self,
        batch: &Batch<E>,
        rows: impl Iterator<Item = usize> + Clone,
        at: &Cell<usize>,
    ) where
        P: On<E>,
    {
        let Self { instances, dormant, desk, trigger, due, input, now, scratch, .. } = self;
        let key_fields = &desk.plan.keys[*input];
        let (hashes, keys) = (&batch.hashes[..], K::of(batch, key_fields));
        let mut hints = [Hint::default(); GROUP];
        for (hint, row) in hints.iter_mut().zip(rows.clone()) {
            *hint = instances.hint(hashes[row]);
        }
        let (discarded, tracker) = (&mut desk.tally.discarded, &mut desk.tracker);
        let mut ctx = Ctx::new(&mut desk.outlets, discarded, tracker, *now);
        let runs = batch.runs.as_slice();
        let mut mark = Mark::new(at);
        for (&hint, row) in hints.iter().zip(rows) {
            ctx.follow(mark.at, runs);
            let (key, event) = (keys[row], batch.columns.get(row));
            let mut handle = |instance: &mut Instance<P, K, M>, ctx: &mut Ctx<'_, P::Out>| {
                instance.pe.on(event, ctx);
                if M::BEATS {
                    beat(instance, *now, *trigger, due, ctx);
                }
            };
            if let Some(instance) = instances.probable(hint, key) {
                handle(instance, &mut ctx);
                instances.changes.touch(hint.position());
                instances.marks.touch(hint.position());
            } else if let Some(position) = instances.find(hashes[row], key) {
                handle(instances.at(position), &mut ctx);
                instances.changes.touch(position);
                instances.marks.touch(position);
            } else {
                key_fields.write(&batch.columns, row, scratch);
                let create =
                    || P::create(KeyRef::of_key(scratch, &desk.plan.kinds), &desk.plan.params);
                let of_key = (hashes[row], key, &scratch[..]);
                match find_or_create(instances, dormant, of_key, create) {
                    Ok(position) => {
                        handle(instances.at(position), &mut ctx);
                        instances.changes.touch(position);
                    }
                    Err(why) => {
                        ctx.unread();
                        desk.tally.unreadable.note(&desk.plan.name, &why);
                    }
                }
            }
            if ctx.is_closing {
                key_fields.write(&batch.columns, row, scratch);
                close(instances, (hashes[row], key), &desk.plan.kinds, scratch, &mut ctx);
            }
            mark.at += 1;
        }
    }

    /// After a panic: the instance of the event is dropped, without its hook, and the event is counted.
    fn lost<E: Event>(&mut self, batch: &Batch<E>, at: usize, cause: &Panic) {
        let row = batch.group(at, 1).row(0);
        if let Some(position) = self.position_of(batch, row) {
            let key = self.instances.at(position).key;
            self.drop_quietly(key);
        }
        self.desk.tracker.fail(Failure::Panicked);
        self.desk.bury("on", cause);
    }

    /// Drops an instance whose code has panicked, and may do so again.
    fn drop_quietly(&mut self, key: K) {
        let instance = self.instances.remove(key);
        let _ = contain(|| drop(instance));
    }

    /// Calls a hook for each key; an instance that panics is dropped.
    fn each(&mut self, keys: &[K], what: &str, mut hook: impl FnMut(&mut Self, K)) {
        contain_each(
            self,
            keys.len(),
            |host, at| {
                while let Some(&key) = keys.get(at.get()) {
                    hook(host, key);
                    at.set(at.get() + 1);
                }
            },
            |host, at, cause| {
                host.drop_quietly(keys[at]);
                host.desk.bury(what, cause);
            },
        );
    }

    /// Calls a hook of one instance that is there under this very key.
    fn call(&mut self, key: K, hook: impl FnOnce(&mut P, &mut Ctx<'_, P::Out>)) -> bool {
        let Some(position) = self.instances.find(key.hash(), key) else { return false };
        self.instances.note(key.hash());
        self.instances.changes.touch(position);
        key.unpack(self.instances.long(), &mut self.scratch);
        let Self { instances, desk, now, scratch, .. } = self;
        let instance = instances.at(position);
        let kinds = &desk.plan.kinds;
        let (discarded, tracker) = (&mut desk.tally.discarded, &mut desk.tracker);
        let mut ctx = Ctx::new(&mut desk.outlets, discarded, tracker, *now);
        let mut ctx = ctx.keyed(KeyRef::of_key(scratch, kinds));
        hook(&mut instance.pe, &mut ctx);
        ctx.is_closing
    }

    /// Calls instances whose triggers are due.
    fn trigger(&mut self, keys: &[K]) {
        let what = if P::IS_WINDOWED { "on_window" } else { "on_trigger" };
        self.each(keys, what, |host, key| {
            host.hook_or_close(key, |pe, ctx| pe.on_trigger(ctx));
            let Some(position) = host.instances.find(key.hash(), key) else { return };
            let instance = host.instances.at(position);
            let next = instance.pulse.called(instance.pe.window_deadline());
            next.into_iter().for_each(|at| host.due.push(at, key));
        });
    }

    /// Tells the windows that have ended before the events of a batch came. A window may close its
    /// instance, so it is told before it is known which instance has the event.
    fn tell_late<E: Event>(&mut self, batch: &Batch<E>) {
        if self.due.first().is_none_or(|at| at > self.now) {
            return;
        }
        let (rows, mut keys) = (batch.group(0, usize::MAX), Vec::new());
        for row in (0..rows.len()).map(|at| rows.row(at)) {
            let Some(position) = self.position_of(batch, row) else { continue };
            let instance = self.instances.at(position);
            if instance.pulse.is_late(self.now) {
                instance.pulse = M::default();
                keys.push(instance.key);
            }
        }
        self.trigger(&keys);
    }

    /// Where the instance of a row is.
    fn position_of<E: Event>(&mut self, batch: &Batch<E>, row: usize) -> Option<usize> {
        let key_fields = &self.desk.plan.keys[self.input];
        let key = K::of(batch, key_fields)[row];
        key_fields.write(&batch.columns, row, &mut self.scratch);
        let short = self.instances.find(batch.hashes[row], key);
        short.or_else(|| self.instances.find_long(key, &self.scratch))
    }

    /// Makes instances of all that are dormant: each is to be told that it goes.
    fn wake_all(&mut self) {
        let mut mark = Default::default();
        while let Some((sleeper, next)) = self.dormant.next(mark) {
            mark = next;
            match look::decoded::<P>(sleeper.state) {
                Ok(pe) => {
                    let key = self.instances.keep(K::pack(sleeper.key), sleeper.key);
                    self.instances.insert(sleeper.hash, key, pe);
                }
                Err(why) => self.desk.tally.unreadable.note(&self.desk.plan.name, &why),
            }
        }
        self.dormant = Dormant::default();
    }

    fn remove(&mut self, key: K, reason: Removal) {
        self.call(key, |pe, ctx| pe.on_remove(reason, ctx));
        self.instances.remove(key);
    }

    fn hook_or_close(&mut self, key: K, hook: impl FnOnce(&mut P, &mut Ctx<'_, P::Out>)) {
        if self.call(key, hook) {
            self.remove(key, Removal::Closed);
        }
    }
}

/// A new key, a long one, or one that is dormant; of that, why it cannot be read.
#[inline(never)]
fn find_or_create<P: Pe, K: KeyColumn, M: Default>(
    instances: &mut Instances<P, K, M>,
    dormant: &mut Dormant,
    (hash, key, bytes): (u64, K, &[u8]),
    create: impl FnOnce() -> P,
) -> Result<usize, String>
where
    Instances<P, K, M>: Long<P, K>,
{
    if let Some(position) = instances.find_long(key, bytes) {
        instances.marks.touch(position);
        return Ok(position);
    }
    // First the application's code, which may panic, then the map.
    let pe = match dormant.state(hash, bytes) {
        Some(state) => {
            let pe = look::decoded(state)?;
            dormant.remove(hash, bytes);
            pe
        }
        None => create(),
    };
    let key = instances.keep(key, bytes);
    Ok(instances.insert(hash, key, pe))
}

/// Takes one event into the account of the trigger.
#[inline(always)]
fn beat<P: Pe, K: Copy, M: Pulse>(
    instance: &mut Instance<P, K, M>,
    now: Time,
    trigger: Trigger,
    due: &mut Due<K>,
    ctx: &mut Ctx<'_, P::Out>,
) {
    match instance.pulse.event(now, trigger, instance.pe.window_deadline()) {
        Beat::Wait => {}
        Beat::Armed(at) => due.push(at, instance.key),
        Beat::Fire => instance.pe.on_trigger(ctx),
    }
}

/// Removes an instance that asked for it.
#[cold]
fn close<P: Pe, K: KeyColumn, M: Pulse>(
    instances: &mut Instances<P, K, M>,
    (hash, key): (u64, K),
    kinds: &[routing::FieldKind],
    bytes: &[u8],
    ctx: &mut Ctx<'_, P::Out>,
) where
    Instances<P, K, M>: Remove<P, K, M> + Long<P, K>,
{
    ctx.is_closing = false;
    let position = instances.find(hash, key).or_else(|| instances.find_long(key, bytes));
    // In its place until the hook has returned: dropped by a panic, it might panic again and abort.
    let instance = instances.at(position.expect("it just handled an event"));
    let key = instance.key;
    instance.pe.on_remove(Removal::Closed, &mut ctx.keyed(KeyRef::of_key(bytes, kinds)));
    instances.remove(key);
}

impl<P: Pe, K: KeyColumn, M: Pulse> Receive<P> for Keyed<P, K, M>
where
    Instances<P, K, M>: Remove<P, K, M> + Long<P, K>,
{
    fn receive<E: Event>(&mut self, batch: &Batch<E>)
    where
        P: On<E>,
    {
        if P::IS_WINDOWED {
            self.tell_late(batch);
        }
        let before = (self.desk.tally.panics, self.desk.tally.unreadable.0);
        self.desk.tracker.begin(batch.runs.as_slice());
        contain_each(
            self,
            batch.len(),
            |host, at| host.run(batch, at),
            |host, at, cause| host.lost(batch, at, cause),
        );
        self.desk.tracker.finish(batch.runs.as_slice());
        let unread = self.desk.tally.unreadable.0 - before.1;
        self.desk.fail_unread(unread);
        self.notice_excess();
        let lost = self.desk.tally.panics - before.0 + unread;
        self.desk.tally.applied += batch.len() as u64 - lost;
        if !self.instances.copies.is_empty() {
            self.note(batch);
        }
        if self.due.queue.len() > self.due.limit {
            let instances = &mut self.instances;
            self.due.shrink(|&Entry { at, key, .. }| {
                let position = instances.find(key.hash(), key);
                position.is_some_and(|position| instances.at(position).pulse.is_due(at))
            });
        }
    }
}

impl<P: Pe, K: KeyColumn, M: Pulse> AnyHost for Keyed<P, K, M>
where
    Instances<P, K, M>: Remove<P, K, M> + Long<P, K>,
{
    fn deliver(&mut self, delivery: Delivery<'_>) {
        (self.input, self.now) = (delivery.input, delivery.now);
        let batch: &dyn Any = delivery.batch;
        assert!(P::In::receive(batch, self), "the plan compares the types of streams and inputs");
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
            let keys = self.instances.keys(|key| !still.has_key(key.hash()));
            self.each(&keys, "on_time", |host, key| {
                host.hook_or_close(key, |pe, ctx| pe.on_time(ctx));
            });
        }
        let mut keys = Vec::new();
        while let Some(entry) = self.due.pop(now) {
            let Entry { at, key, .. } = entry;
            let Some(position) = self.instances.find(key.hash(), key) else { continue };
            if still.has_key(key.hash()) {
                self.due.still.push(entry);
                continue;
            }
            let instance = self.instances.at(position);
            if instance.pulse.is_due(at) {
                instance.pulse = M::default();
                keys.push(key);
            }
        }
        self.trigger(&keys);
        self.evict(now, still);
    }

    fn deadline(&self, _: Scope<'_>) -> Option<Time> {
        let timer = self.desk.plan.timer.and(self.desk.next_timer.or(Some(Time::default())));
        let all = [timer, self.due.first(), self.eviction.deadline()];
        all.into_iter().flatten().min()
    }

    fn resume(&mut self) {
        self.due.queue.extend(self.due.still.drain(..));
    }

    fn copy(&mut self, handoff: u64, units: &Arc<Units>, _: (u16, usize)) {
        let copies = &mut self.instances.copies;
        match copies.iter_mut().find(|copy| copy.handoff == handoff) {
            Some(copy) => copy.units = Arc::clone(units),
            None => copies.push(Copying::new(handoff, Arc::clone(units))),
        }
    }

    fn write(&mut self, handoff: u64, pass: Pass, chunk: &mut ChunkWriter) -> bool {
        self.write_copy(handoff, pass, chunk)
    }

    fn forget(&mut self, handoff: u64) {
        self.instances.copies.retain(|copy| copy.handoff != handoff);
    }

    fn stage(&mut self, copied: Copied<'_>, now: Time, is_lazy: bool) -> Result<(), String> {
        self.take_in(copied, now, is_lazy)
    }

    fn watch(&mut self, is_watched: bool) {
        self.instances.changes.watch(is_watched);
    }

    fn changed(&self) -> usize {
        self.instances.changes.len()
    }

    fn has_overrun(&mut self) -> bool {
        self.instances.changes.has_overrun()
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
        self.write_instances(from, units, chunk)
    }

    fn look(&mut self, which: &Which) -> Seen {
        let Which::Key(key) = which else { return Seen::Absent };
        if let Some(position) = self.position_of_key(key) {
            return look::shown(&self.instances.at(position).pe);
        }
        let state = self.dormant.state(K::pack(key).hash(), key);
        state.map_or(Seen::Absent, look::copy::<P>)
    }

    fn look_at_copy(&self, state: &[u8]) -> Seen {
        look::copy::<P>(state)
    }

    fn unstage(&mut self, units: Scope<'_>) {
        let keys = self.instances.keys(|key| units.has_key(key.hash()));
        keys.into_iter().for_each(|key| self.drop_quietly(key));
        self.dormant.retain(0, usize::MAX, |hash| !units.has_key(hash));
    }

    fn settle(&mut self, now: Time, here: &Here<'_>) {
        self.now = now;
        let Some(has_key) = here.has_key else { return };
        let keys = self.instances.keys(|key| !has_key(key.hash()));
        self.each(&keys, "on_remove", |host, key| host.remove(key, Removal::Moved));
        self.dormant.retain(0, usize::MAX, has_key);
    }

    fn sweep(&mut self, now: Time, gone: Scope<'_>) -> bool {
        self.now = now;
        // Those that were never instances here are not told.
        if let Some(shelf) = self.swept_shelf {
            let is_here = |hash| !gone.has_key(hash);
            self.swept_shelf = self.dormant.retain(shelf, SWEEP_SHELVES, is_here);
            if self.swept_shelf.is_some() {
                return false;
            }
        }
        // From the end: whoever moves into a gap has been looked at.
        let last = self.instances.len();
        let from = self.swept.map_or(last, |swept| swept.min(last));
        let (mut at, mut keys) = (from, Vec::new());
        while at > from.saturating_sub(SWEEP_LOOKED) && keys.len() < SWEEP_REMOVED {
            at -= 1;
            let key = self.instances.at(at).key;
            if gone.has_key(key.hash()) {
                keys.push(key);
            }
        }
        self.each(&keys, "on_remove", |host, key| host.remove(key, Removal::Moved));
        self.swept = (at > 0).then_some(at);
        if at == 0 {
            self.swept_shelf = Some(0);
        }
        at == 0
    }

    fn remove_all(&mut self, now: Time, reason: Removal) {
        self.now = now;
        self.wake_all();
        let keys = self.instances.keys(|_| true);
        self.each(&keys, "on_remove", |host, key| host.remove(key, reason));
        let changes = std::mem::take(&mut self.instances.changes);
        self.instances = Instances::default();
        self.instances.changes = changes;
        self.eviction = Eviction::default();
        self.watch_use();
        (self.due, self.swept, self.swept_shelf) = (Due::default(), None, Some(0));
    }

    fn instances(&self) -> usize {
        self.instances.len() + self.dormant.len()
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.desk.tally
    }

    fn tracker(&mut self) -> &mut Tracker {
        &mut self.desk.tracker
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use routing::FieldKind;
    use serde::{Deserialize, Serialize};

    use super::*;
    use crate as starling;
    use crate::topology::Params;
    use crate::trigger::Beating;

    #[derive(crate::Event)]
    struct Tick {
        key: u64,
    }

    /// Closes at every third event.
    #[derive(Default, Serialize, Deserialize)]
    struct Counter(u64);

    impl Pe for Counter {
        type In = Tick;
        type Out = ();
    }

    impl On<Tick> for Counter {
        fn on(&mut self, _: TickRef, ctx: &mut Ctx<'_, ()>) {
            self.0 += 1;
            if self.0 == 3 {
                ctx.close();
            }
        }
    }

    /// Each event of a busy instance used to leave an entry behind until its time came, an hour later.
    #[test]
    fn triggers_that_are_out_of_date_take_no_memory() {
        let trigger = Trigger { events: Some(2), after: Some(Duration::from_secs(3600)) };
        let mut host = Keyed::<Counter, u64, Beating>::new(Blueprint {
            name: "count".to_owned(),
            params: Arc::new(Params::default()),
            keys: vec![KeyFields(vec![0])],
            kinds: vec![FieldKind::Unsigned],
            tasks: 0,
            timer: None,
            trigger: Some(trigger),
            window: None,
            memory: None,
        });
        let mut batch = Batch::<Tick>::default();
        for key in 0..1000 {
            batch.columns.push(TickRef { key: key % 100 });
        }
        batch.hash(&KeyFields(vec![0]));
        for millis in 0..301 {
            let now = Time(Duration::from_millis(millis));
            host.deliver(Delivery { input: 0, task: 0, batch: &batch, now });
            assert!(host.due.queue.len() <= 2048 + 1000, "{} entries", host.due.queue.len());
        }
        assert_eq!(host.instances.len(), 100);
    }
}
