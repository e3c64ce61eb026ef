//! Hosts: one prototype in one container.
//!
//! A batch arrives as `dyn Any`; the host finds its type among the declared inputs, once, and from there
//! on everything is monomorphic: the loop over rows, the look-up, the handler and what it emits.
//!
//! Application code is only ever called from here, and always inside [`contain`]: a panic costs the event
//! and the instance, is counted, and ends nothing else.

mod grouping;
mod keyed;
mod sink;
mod source;
mod tasks;

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use membership::Time;
use routing::{AnyOutlet, FieldKind, KeyFields};

pub(crate) use grouping::{ChooseTask, choice};
pub(crate) use keyed::keyed;
pub(crate) use sink::SinkHost;
pub(crate) use source::{Closed, Letter, Opened, PartitionState, Source, SourceHost};
pub(crate) use tasks::TasksHost;

use crate::acker::Tracker;
use crate::chunk::{ChunkWriter, CommitWriter, Copied};
use crate::ctx::Discarded;
use crate::report::Evicted;
use crate::topology::{Memory, Params, Trigger};
use crate::units::{Scope, Units};
use crate::window::WindowSpec;
use crate::{Ctx, Outputs, Removal, Seen, Which};

/// A batch on its way into a host.
#[derive(Clone, Copy)]
pub(crate) struct Delivery<'d> {
    /// By which input it came.
    pub(crate) input: usize,
    /// For which numbered instance.
    pub(crate) task: u32,
    /// A `Batch<E>`.
    pub(crate) batch: &'d dyn Any,
    /// When.
    pub(crate) now: Time,
}

/// How far instances have been written: those that are dormant, then the others by their positions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reached {
    pub(crate) mark: crate::instances::Mark,
    pub(crate) position: usize,
}

/// A prototype as its container sees it.
pub(crate) trait AnyHost: Send {
    /// Handles a batch.
    fn deliver(&mut self, delivery: Delivery<'_>);
    /// The outlets, in the order of the declared outputs.
    fn outlets(&mut self, each: &mut dyn FnMut(usize, &mut dyn AnyOutlet));
    /// Whether a lane that an outlet feeds is over its budget.
    fn is_over_budget(&self) -> bool;
    /// Whether something waits for company in an outlet.
    fn is_open(&self) -> bool;
    /// Calls the timers and triggers that are due, but not those of units that stand still.
    fn tick(&mut self, now: Time, still: Scope<'_>);
    /// When [`AnyHost::tick`] is due, or for a spout when it may have something.
    fn deadline(&self, still: Scope<'_>) -> Option<Time>;
    /// Units that stood still do so no more.
    fn resume(&mut self) {}
    /// Removes the instances that are another container's now, and makes those numbered ones that are
    /// this one's.
    fn settle(&mut self, now: Time, here: &Here<'_>);
    /// Removes some of the keyed instances that have gone with their slots; whether none is left. A slot may have
    /// a hundred thousand, and events for others wait meanwhile.
    fn sweep(&mut self, _now: Time, _gone: Scope<'_>) -> bool {
        true
    }
    /// Removes every instance.
    fn remove_all(&mut self, now: Time, reason: Removal);
    /// Begins to copy units ahead of a handoff, or goes on with fewer of them.
    fn copy(&mut self, _handoff: u64, _units: &Arc<Units>, _place: (u16, usize)) {}
    /// Writes more of a copy; whether there is nothing more to write in this pass.
    fn write(&mut self, _handoff: u64, _pass: Pass, _chunk: &mut ChunkWriter) -> bool {
        true
    }
    /// A copy is over.
    fn forget(&mut self, _handoff: u64) {}
    /// Takes in what is to be this container's. What is `lazy` need not be read before an event asks for it.
    fn stage(&mut self, _copied: Copied<'_>, _now: Time, _is_lazy: bool) -> Result<(), String> {
        Err("a prototype without state is given state".to_owned())
    }
    /// Drops what was staged and does not come, without a word to it.
    fn unstage(&mut self, _units: Scope<'_>) {}
    /// Whether it is to be remembered from now on what changes.
    fn watch(&mut self, _is_watched: bool) {}
    /// About how many instances have changed since they were committed.
    fn changed(&self) -> usize {
        0
    }
    /// Whether more has changed than is remembered; that is forgotten now.
    fn has_overrun(&mut self) -> bool {
        false
    }
    /// Writes what has changed since.
    fn commit(&mut self, _commit: &mut CommitWriter) {}
    /// Writes instances of some units as they lie, from a position on; gives where to go on, unless that was all.
    fn write_from(
        &mut self,
        _from: Reached,
        _units: Scope<'_>,
        _chunk: &mut ChunkWriter,
    ) -> Option<Reached> {
        None
    }
    /// What an instance is.
    fn look(&mut self, _which: &Which) -> Seen {
        Seen::Hidden("it has no state".to_owned())
    }
    /// What a copy of the state of an instance is.
    fn look_at_copy(&self, _state: &[u8]) -> Seen {
        Seen::Hidden("it has no state".to_owned())
    }
    /// Nothing else is to be done.
    fn idle(&mut self) {}
    /// How many instances there are.
    fn instances(&self) -> usize;
    /// What is counted here.
    fn tally(&mut self) -> &mut Tally;
    /// What is owed to ledgers.
    fn tracker(&mut self) -> &mut Tracker;
    /// Whether this is a spout that may have something now; `may_plant` says whether it may be something new.
    fn is_ready_source(&self, _now: Time, _may_plant: bool) -> bool {
        false
    }
    /// The partitions, if this is a spout.
    fn as_source(&mut self) -> Option<&mut dyn Source> {
        None
    }
}

/// What of a prototype lives in this container under the present view.
pub(crate) struct Here<'h> {
    /// Whether the key with this hash does; nothing if those that do not are removed by [`AnyHost::sweep`].
    pub(crate) has_key: Option<&'h dyn Fn(u64) -> bool>,
    /// Whether the instance of this number does.
    pub(crate) has_task: &'h dyn Fn(u32) -> bool,
    /// The numbered instances that have to be there.
    pub(crate) tasks: &'h [u32],
}

/// Which part of a copy is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    /// All instances as they lie, while they go on changing.
    Ahead,
    /// Those that changed during the first pass.
    Again,
    /// What is left once nothing changes any more.
    Rest,
}

/// The reason under which events are counted whose handler panicked, where they are tried again.
const PANICKED: &str = "panicked";

/// What a host counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Events that were handled.
    pub(crate) applied: u64,
    /// How often application code panicked.
    pub(crate) panics: u64,
    /// Events that were dropped since a handler panicked; under at-least-once, trees that are tried no more.
    pub(crate) dead_letters: u64,
    /// Events that application code gave up, by reason.
    pub(crate) discarded: Discarded,
    /// How often a state was asked for that could not be read.
    pub(crate) unreadable: Unreadable,
    /// Instances that were given up since there were too many, and since they were idle.
    pub(crate) evicted: Evicted,
}

/// The reason under which events are counted whose instances cannot be read, where they are tried again.
const UNREADABLE: &str = "unreadable state";

/// Counts what could not be read.
#[derive(Debug, Default)]
pub(crate) struct Unreadable(u64);

impl Unreadable {
    /// Once more.
    fn note(&mut self, name: &str, why: &str) {
        self.0 += 1;
        if self.0.is_power_of_two() {
            // Not each: a key may be asked for by every event.
            tracing::error!(pe = %name, times = self.0,
                "the state of an instance cannot be read; it is kept, and its events fail: {why}");
        }
    }
}

/// What a prototype is made from; the same in every container.
#[derive(Clone, Debug)]
pub(crate) struct Blueprint {
    /// Its name.
    pub(crate) name: String,
    /// What it is told.
    pub(crate) params: Arc<Params>,
    /// The key of each input.
    pub(crate) keys: Vec<KeyFields>,
    /// The kinds of the fields of its key; the same for all inputs.
    pub(crate) kinds: Vec<FieldKind>,
    /// How many numbered instances there are.
    pub(crate) tasks: u32,
    /// How often `on_time` is called.
    pub(crate) timer: Option<std::time::Duration>,
    /// When `on_trigger` is called.
    pub(crate) trigger: Option<Trigger>,
    /// When the windows of a windowed type fire.
    pub(crate) window: Option<WindowSpec>,
    /// How many keyed instances there may be, and how long they stay unused.
    pub(crate) memory: Option<Memory>,
}

/// What every host has beside its instances.
struct Desk<Out: Outputs> {
    outlets: Out::Outlets,
    tally: Tally,
    tracker: Tracker,
    next_timer: Option<Time>,
    plan: Blueprint,
}

impl<Out: Outputs> Desk<Out> {
    fn new(plan: Blueprint) -> Self {
        let (tally, tracker) = (Tally::default(), Tracker::default());
        Self { outlets: Out::outlets(), tally, tracker, next_timer: None, plan }
    }

    fn ctx(&mut self, now: Time) -> Ctx<'_, Out> {
        Ctx::new(&mut self.outlets, &mut self.tally.discarded, &mut self.tracker, now)
    }

    /// Whether the timer is due; if so, sets the next. The first call starts it.
    fn timer_is_due(&mut self, now: Time) -> bool {
        let Some(every) = self.plan.timer else { return false };
        let is_due = self.next_timer.is_some_and(|at| at <= now);
        if is_due || self.next_timer.is_none() {
            self.next_timer = Some(now + every);
        }
        is_due
    }

    /// Events whose instances could not be read are counted as those whose handlers panicked.
    fn fail_unread(&mut self, events: u64) {
        if events > 0 && self.tracker.is_on() {
            *self.tally.discarded.entry(UNREADABLE).or_default() += events;
        } else {
            self.tally.dead_letters += events;
        }
    }

    /// After a panic: counts it, says so, and makes the outlets whole.
    fn bury(&mut self, what: &str, cause: &Panic) {
        self.tally.panics += 1;
        if self.tracker.is_on() {
            // It is tried again, and a dead letter once that has been of no use.
            *self.tally.discarded.entry(PANICKED).or_default() += 1;
        } else {
            self.tally.dead_letters += 1;
        }
        if self.tally.panics.is_power_of_two() {
            // Not each: a handler that always panics would flood the log.
            tracing::error!(pe = %self.plan.name, hook = what, panics = self.tally.panics,
                "a handler panicked; its instance and the event are dropped: {}", cause.0);
        }
        Out::each(&mut self.outlets, &mut |_, outlet| outlet.repair());
    }
}

/// The text of a panic in application code.
pub(crate) struct Panic(String);

impl Panic {
    pub(crate) fn text(&self) -> &str {
        &self.0
    }
}

/// Calls application code.
pub(crate) fn contain<R>(call: impl FnOnce() -> R) -> Result<R, Panic> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|cause| {
        let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
        Panic(
            text.or_else(|| cause.downcast_ref().cloned()).unwrap_or_else(|| "no text".to_owned()),
        )
    })
}

/// A position that a loop moves in a register; it is written down when the loop is left, by a panic too.
/// Written down for every event, it would make each wait for the one before.
struct Mark<'c> {
    at: usize,
    seen: &'c Cell<usize>,
}

impl<'c> Mark<'c> {
    #[inline(always)]
    fn new(seen: &'c Cell<usize>) -> Self {
        Self { at: seen.get(), seen }
    }
}

impl Drop for Mark<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.seen.set(self.at);
    }
}

/// Calls application code for positions `0..len`, where a panic costs the position that `at` shows and
/// the rest goes on: `run` is called again and starts at `at`.
fn contain_each<S>(
    state: &mut S,
    len: usize,
    mut run: impl FnMut(&mut S, &Cell<usize>),
    mut lost: impl FnMut(&mut S, usize, &Panic),
) {
    let at = Cell::new(0);
    while at.get() < len {
        match contain(|| run(state, &at)) {
            Ok(()) => return,
            Err(cause) => {
                lost(state, at.get(), &cause);
                at.set(at.get() + 1);
            }
        }
    }
}
