//! Events that come on a schedule, whatever becomes of them, and how late they arrive.
//!
//! An event carries the time at which it was due, and lateness is counted from then. If the spout is held
//! up, it emits what is overdue as soon as it can, and the delay counts; from the time of emitting, it
//! would be hidden.

use std::sync::Arc;
use std::time::Duration;

use pe::{
    Ctx, Event, Next, On, Opening, Param, Params, PartitionName, Pe, Position, Removal, Spout,
    SpoutError,
};
use routing::{Key, Slot};
use serde::{Deserialize, Serialize};

use super::ledger;
use super::sources::{POLL, other_data};
use crate::data::{Data, due};
use crate::measure::monotonic;
use crate::{Latencies, digest};

/// An event of the schedule.
#[derive(Event)]
pub(super) struct Due {
    key: u64,
    /// When it was due, in nanoseconds of the clock that all processes of the machine share.
    at: u64,
    /// The process that emitted it.
    from: u32,
}

/// The same behind the instance of its key.
#[derive(Event)]
pub(super) struct Passed {
    at: u64,
    from: u32,
}

/// The schedule.
#[derive(Debug)]
pub(super) struct Schedule {
    keys: Arc<Vec<u64>>,
    at: usize,
    /// Events a second.
    rate: u64,
    /// When its first event was due, by the clock of the machine.
    began: Option<Duration>,
}

impl Schedule {
    /// How long after the first its next event is due.
    fn next(&self) -> Duration {
        due(self.at as u64, self.rate)
    }
}

impl Spout for Schedule {
    type Out = Due;
    const PARAMS: &'static [Param] =
        &[Param::integer("rate", "events a second").between(1, 1_000_000_000).required()];

    fn partitions(_: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        Ok(vec![PartitionName::new("schedule")])
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let Data::Numbers(keys) = ledger::data() else { return Err(other_data()) };
        let at = usize::try_from(opening.position.offset).unwrap_or(usize::MAX).min(keys.len());
        let rate = opening.params.integer("rate").unsigned_abs();
        Ok(Self { keys: Arc::clone(keys), at, rate, began: None })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Due>) -> Result<Next, SpoutError> {
        ledger::begin(ctx.now());
        let now = monotonic();
        // One that goes on elsewhere keeps to the same schedule, but for the time that it took to move.
        let next = self.next();
        let began = *self.began.get_or_insert_with(|| now.saturating_sub(next));
        let (first, from) = (self.at, std::process::id());
        let end = self.keys.len().min(first + POLL);
        while self.at < end {
            let at = began + self.next();
            if at > now {
                break;
            }
            let at = nanos(at);
            ctx.emit(DueRef { key: self.keys[self.at], at, from });
            self.at += 1;
        }
        ledger::read(self.at - first, (self.at - first) * size_of::<u64>());
        Ok(if self.at == self.keys.len() {
            Next::Exhausted
        } else {
            // The clock of the node stood still since the turn began, so this is early rather than late.
            Next::Until(ctx.now() + (began + self.next()).saturating_sub(now))
        })
    }

    fn position(&self) -> Position {
        Position { offset: self.at as u64, plays: 0 }
    }
}

/// Counts the events of one key and passes them on.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Relay {
    count: u64,
}

impl Pe for Relay {
    type In = Due;
    type Out = Passed;

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, Passed>) {
        if reason == Removal::Moved {
            return; // It goes on elsewhere.
        }
        if let Some(key) = ctx.key().and_then(|key| key.unsigned(0)) {
            ledger::answer(digest(key.hash(), self.count), ctx.now());
        }
    }
}

impl On<Due> for Relay {
    fn on(&mut self, due: DueRef, ctx: &mut Ctx<'_, Passed>) {
        self.count += 1;
        ctx.emit(PassedRef { at: due.at, from: due.from });
    }
}

/// Writes down how late events are that come here, on the node of the instance that passed them on.
///
/// With several nodes only those count that came from another: about half of the keys live where the
/// schedule is, and say nothing of a network.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Lateness {
    /// Told where they were measured, so they stay when the instance moves.
    #[serde(skip)]
    latencies: Latencies,
    only_crossed: bool,
}

impl Pe for Lateness {
    type In = Passed;
    type Out = ();
    const PARAMS: &'static [Param] =
        &[Param::boolean("crossed", "only what came from another process").required()];

    fn create(_: pe::KeyRef<'_>, params: &Params) -> Self {
        Self { only_crossed: params.boolean("crossed"), ..Self::default() }
    }

    fn on_remove(&mut self, _: Removal, _: &mut Ctx<'_, ()>) {
        ledger::late(&self.latencies);
    }
}

impl On<Passed> for Lateness {
    fn on(&mut self, passed: PassedRef, _: &mut Ctx<'_, ()>) {
        if !self.only_crossed || passed.from != std::process::id() {
            let due = Duration::from_nanos(passed.at);
            self.latencies.record(monotonic().saturating_sub(due));
        }
    }
}

/// Counts the events of one key and takes samples of how late they come.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Watch {
    count: u64,
}

/// The slots of a cluster if nobody says otherwise.
const SLOTS: usize = 1024;

impl Pe for Watch {
    type In = Due;
    type Out = ();

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, ()>) {
        if reason == Removal::Moved {
            return; // It goes on elsewhere.
        }
        if let Some(key) = ctx.key().and_then(|key| key.unsigned(0)) {
            ledger::answer(digest(key.hash(), self.count), ctx.now());
        }
        ledger::hand_in();
    }
}

impl On<Due> for Watch {
    fn on(&mut self, due: DueRef, _: &mut Ctx<'_, ()>) {
        self.count += 1;
        let slot = Slot::of(due.key.hash(), SLOTS).0;
        ledger::sample(slot, Duration::from_nanos(due.at));
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
