//! Spouts: the partitions of a source that this container reads.
//!
//! Under at-least-once each partition has a place in the ledger, too: what it emits makes trees, it is not
//! read on while too many of them are pending, and trees that were given up are read again by another reader,
//! opened where their portion began. A partition is closed, or at its end, only when nothing of it is pending.

use std::collections::VecDeque;

use membership::Time;
use routing::AnyOutlet;

use super::{AnyHost, Blueprint, Delivery, Desk, Here, Panic, Tally, contain};
use crate::acker::{Buried, Growing, Ledger, Offset, Planting, Replay, Tracker};
use crate::ctx::Discarded;
use crate::units::Scope;
use crate::{Ctx, Failure, Next, Opening, Outputs, PartitionName, Position, Removal, Spout, Waker};

/// What a container does with the partitions of a spout. The ledger is there under at-least-once.
pub(crate) trait Source {
    /// Opens a partition here.
    fn open(&mut self, opened: Opened, ledger: Option<&mut Ledger>);
    /// Closes a partition; gives where it stands, or `None` if it is not here. One of which something is
    /// pending is closed later: see [`Source::settled`].
    fn close(&mut self, name: &PartitionName, ledger: Option<&mut Ledger>) -> Closed;
    /// The partitions that are closed now.
    fn settled(&mut self, ledger: &mut Ledger) -> Vec<PartitionState>;
    /// A partition may have something again.
    fn wake(&mut self);
    /// Lets one partition emit.
    fn poll(&mut self, now: Time, ledger: Option<&mut Ledger>);
    /// Trees are to be read again.
    fn again(&mut self, replay: Replay);
    /// Closes all partitions where they stand, whatever is pending.
    fn stop(&mut self, ledger: Option<&Ledger>);
    /// Where the partitions stand.
    fn partitions(&self, ledger: Option<&Ledger>) -> Vec<PartitionState>;
    /// The name of a partition, by its place in the ledger.
    fn name_of(&self, reading: u32) -> Option<&str>;
    /// Events that were tried often enough, since the last call.
    fn letters(&mut self) -> Vec<Letter>;
}

/// What a partition is opened with.
pub(crate) struct Opened {
    pub(crate) prototype: u16,
    pub(crate) name: PartitionName,
    pub(crate) offset: Offset,
    pub(crate) now: Time,
    pub(crate) waker: Waker,
    /// Whether it is for one tree only, which was a dead letter.
    pub(crate) is_resent: bool,
}

/// What became of a partition that was to be closed.
pub(crate) enum Closed {
    Now(PartitionState),
    Later,
    NotHere,
}

/// An event of a spout that was tried often enough.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Letter {
    pub(crate) partition: String,
    pub(crate) offset: Offset,
    /// The name of its type, and what it is; none if it could not be read again.
    pub(crate) event: Option<(&'static str, Vec<u8>)>,
    pub(crate) why: Failure,
    pub(crate) attempts: u32,
}

/// Where a partition stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionState {
    /// Which.
    pub(crate) name: PartitionName,
    /// Where another would go on.
    pub(crate) offset: Offset,
    /// Whether it has nothing more, ever.
    pub(crate) is_exhausted: bool,
    /// Why it has nothing more, if that is not its end.
    pub(crate) failure: Option<String>,
}

/// The host of a spout.
pub(crate) struct SourceHost<S: Spout> {
    /// Those that have more or may have it later, or of which something is pending; the first is polled next.
    open: VecDeque<Partition<S>>,
    /// Those that are exhausted.
    done: Vec<PartitionState>,
    /// What is to be read again; the first is under way.
    again: VecDeque<Again<S>>,
    letters: Vec<Letter>,
    waker: Option<Waker>,
    desk: Desk<S::Out>,
}

struct Partition<S> {
    name: PartitionName,
    spout: S,
    /// Behind its last event.
    position: Position,
    /// So many events behind the position that it was opened at are left out, until they have gone by.
    opened: Offset,
    /// So many events behind that position it is over, if it is read for one tree only.
    until: Option<u64>,
    /// Not before this time; never by itself if none.
    ready: Option<Time>,
    /// Its place in the ledger.
    reading: u32,
    /// Whether it has nothing more; and why, if that is not its end.
    is_over: bool,
    failure: Option<String>,
    /// Whether it is another's as soon as nothing of it is pending.
    is_closing: bool,
}

/// Trees that are read again.
struct Again<S> {
    replay: Replay,
    /// Once it is under way: who reads, and when there may be more.
    reader: Option<(S, Option<Time>)>,
    /// How many events came by, and the tree that grows.
    seen: (u64, Option<Growing>),
    buried: Vec<Buried>,
}

impl<S: Spout> SourceHost<S> {
    pub(crate) fn new(plan: Blueprint) -> Self {
        Self {
            open: VecDeque::new(),
            done: Vec::new(),
            again: VecDeque::new(),
            letters: Vec::new(),
            waker: None,
            desk: Desk::new(plan),
        }
    }

    fn exhausted(&mut self, name: PartitionName, offset: Offset, failure: Option<String>) {
        if let Some(failure) = &failure {
            tracing::error!(spout = %self.desk.plan.name, partition = name.as_str(), "{failure}");
        }
        self.done.push(PartitionState { name, offset, is_exhausted: true, failure });
    }

    /// Closes a reader that was polled.
    fn close_reader(&mut self, mut partition: Partition<S>) {
        if let Err(cause) = contain(|| partition.spout.deactivate()) {
            self.desk.bury("deactivate", &cause);
        }
        self.discard(partition);
    }

    /// Drops what is the application's.
    fn discard<T>(&mut self, spout: T) {
        if let Err(cause) = contain(|| drop(spout)) {
            self.desk.bury("drop", &cause);
        }
    }

    fn state(partition: &Partition<S>, ledger: Option<&Ledger>) -> PartitionState {
        let name = partition.name.clone();
        let offset = match ledger {
            // What is left out at the start has been committed, and more cannot be while it goes by.
            _ if partition.opened.skip > 0 => partition.opened,
            Some(ledger) => ledger.committed(partition.reading),
            None => Offset { position: partition.position, skip: 0 },
        };
        PartitionState { name, offset, is_exhausted: false, failure: None }
    }

    fn open_states(&self, ledger: Option<&Ledger>) -> impl Iterator<Item = PartitionState> {
        let own = self.open.iter().filter(|partition| partition.until.is_none());
        own.map(move |partition| Self::state(partition, ledger))
    }

    /// Lets one partition read on.
    fn poll_fresh(&mut self, now: Time, mut ledger: Option<&mut Ledger>) {
        let is_ready = |partition: &Partition<S>| partition.is_ready(now);
        let Some(at) = self.open.iter().position(is_ready) else { return };
        // The one behind it is first next time, so that all have their turn.
        self.open.rotate_left(at);
        let Some(mut partition) = self.open.pop_front() else { return };
        let next = match &mut ledger {
            None => {
                let mut ctx = self.desk.ctx(now);
                contain(|| {
                    let next = partition.spout.poll(&mut ctx)?;
                    partition.position = partition.spout.position();
                    Ok(next)
                })
            }
            Some(ledger) => {
                let offset = match partition.opened {
                    opened if opened.skip > 0 => opened,
                    _ => Offset { position: partition.position, skip: 0 },
                };
                let until = partition.until;
                let mut planting = Planting::fresh(ledger, partition.reading, offset, until);
                let mut ctx = self.desk.ctx(now).planting(&mut planting);
                let next = contain(|| {
                    let next = partition.spout.poll(&mut ctx)?;
                    partition.position = partition.spout.position();
                    Ok(next)
                });
                let has_more = matches!(next, Ok(Ok(Next::More)));
                let events = planting.end(partition.position, has_more);
                if events >= partition.opened.skip {
                    partition.opened.skip = 0;
                }
                partition.is_over |= until.is_some_and(|until| events >= until);
                let committed = Self::state(&partition, Some(ledger)).offset.position;
                contain(|| partition.spout.committed(committed)).and(next)
            }
        };
        let next = next.unwrap_or_else(|cause| {
            self.desk.bury("poll", &cause);
            cause.refuse()
        });
        match next {
            Ok(Next::More) => partition.ready = Some(now),
            Ok(Next::Idle) => partition.ready = None,
            Ok(Next::Until(at)) => partition.ready = Some(at),
            Ok(Next::Exhausted) => partition.is_over = true,
            Err(error) => (partition.is_over, partition.failure) = (true, Some(error.to_string())),
        }
        if !partition.is_over || ledger.is_some() {
            return self.open.push_back(partition);
        }
        let (name, position) = (partition.name.clone(), partition.position);
        let failure = partition.failure.take();
        self.close_reader(partition);
        self.exhausted(name, Offset { position, skip: 0 }, failure);
    }

    /// Reads on what is read again; whether there was anything to do.
    fn poll_again(&mut self, now: Time, ledger: &mut Ledger) -> bool {
        let is_ready = self.again.front().is_some_and(|again| again.is_ready(now));
        let Some(mut again) = is_ready.then(|| self.again.pop_front()).flatten() else {
            return false;
        };
        let Some(at) = self.open.iter().position(|known| known.reading == again.replay.reading)
        else {
            return true; // It was closed, and what was pending of it forgotten.
        };
        if again.reader.is_none() {
            let (partition, waker) = (&mut self.open[at], self.waker.clone());
            let waker = waker.expect("it was there when the partition was opened");
            let (position, params) = (again.replay.start, &*self.desk.plan.params);
            let opening = Opening { name: &partition.name, position, params, now, waker };
            for &(tree, _) in &again.replay.trees {
                let events = ledger.granularity();
                let skip = u64::from(tree) * events;
                let events = events.min(again.replay.events.saturating_sub(skip));
                if let Err(cause) = contain(|| partition.spout.failed(position, skip, events)) {
                    self.desk.tally.panics += 1;
                    tracing::error!(spout = %self.desk.plan.name, "`failed` panicked: {}", cause.text());
                }
            }
            match contain(|| partition.spout.reopen(opening)).unwrap_or_else(Panic::refuse) {
                Ok(reader) => again.reader = Some((reader, Some(now))),
                Err(error) => {
                    self.end_again(at, again, Some(&error.to_string()), ledger);
                    return true;
                }
            }
        }
        let Again { replay, reader, seen, buried } = &mut again;
        let (reader, ready) = reader.as_mut().expect("opened above");
        // What is given up on the way was counted the first time.
        let mut discarded = Discarded::new();
        let mut planting = Planting::again(ledger, replay, *seen, buried);
        let Desk { outlets, tracker, .. } = &mut self.desk;
        let mut ctx =
            Ctx::<S::Out>::new(outlets, &mut discarded, tracker, now).planting(&mut planting);
        let next = contain(|| reader.poll(&mut ctx)).unwrap_or_else(Panic::refuse);
        let more = if matches!(next, Ok(Next::Exhausted) | Err(_)) { 0 } else { replay.events };
        *seen = planting.end_again(more);
        let is_over = seen.0 >= replay.events;
        *ready = match next {
            Ok(Next::More) => Some(now),
            Ok(Next::Until(at)) => Some(at),
            Ok(Next::Idle) => None,
            Ok(Next::Exhausted) => {
                let why = (!is_over).then_some("it is shorter than it was");
                self.end_again(at, again, why, ledger);
                return true;
            }
            Err(error) => {
                self.end_again(at, again, Some(&error.to_string()), ledger);
                return true;
            }
        };
        if is_over {
            self.end_again(at, again, None, ledger);
        } else {
            self.again.push_front(again);
        }
        true
    }

    /// Trees have been read again, or cannot be.
    fn end_again(&mut self, at: usize, again: Again<S>, why: Option<&str>, ledger: &mut Ledger) {
        let Again { replay, reader, seen: (seen, _), buried } = again;
        let granularity = ledger.granularity();
        let partition = self.open[at].name.as_str().to_owned();
        let offset =
            |tree: u16| Offset { position: replay.start, skip: u64::from(tree) * granularity };
        let mut lost = Vec::new();
        for &(tree, dead) in &replay.trees {
            let is_unseen = u64::from(tree) * granularity >= seen;
            if dead.is_none() && !(is_unseen && why.is_some()) {
                continue;
            }
            lost.push(tree);
            let of_tree: Vec<_> = buried.iter().filter(|known| known.tree == tree).collect();
            if of_tree.is_empty() {
                let (why, attempts) = dead.unwrap_or((Failure::Dropped, 0));
                let partition = partition.clone();
                let letter = Letter { partition, offset: offset(tree), event: None, why, attempts };
                self.letters.push(letter);
            }
            for known in of_tree {
                self.letters.push(Letter {
                    partition: partition.clone(),
                    offset: offset(tree),
                    event: Some((known.event, known.json.clone())),
                    why: known.why,
                    attempts: known.attempts,
                });
            }
        }
        if let Some(why) = why {
            tracing::error!(spout = %self.desk.plan.name, %partition, trees = lost.len(),
                "what was given up cannot be read again: {why}");
        }
        self.desk.tally.dead_letters += lost.len() as u64;
        ledger.bury(replay.portion, lost.into_iter());
        if let Some((reader, _)) = reader {
            self.discard(reader);
        }
    }
}

impl<S> Partition<S> {
    fn is_ready(&self, now: Time) -> bool {
        !self.is_over && !self.is_closing && self.ready.is_some_and(|at| at <= now)
    }
}

impl<S> Again<S> {
    /// When it may have more.
    fn ready(&self) -> Option<Time> {
        self.reader.as_ref().map_or(Some(Time::default()), |(_, ready)| *ready)
    }

    fn is_ready(&self, now: Time) -> bool {
        self.ready().is_some_and(|at| at <= now)
    }
}

impl<S: Spout> Source for SourceHost<S> {
    fn open(&mut self, opened: Opened, mut ledger: Option<&mut Ledger>) {
        let Opened { prototype, name, offset, now, waker, is_resent } = opened;
        if is_resent && ledger.is_none() {
            return; // There are no dead letters without acks.
        }
        let until = ledger.as_ref().filter(|_| is_resent);
        let until = until.map(|ledger| offset.skip + ledger.granularity());
        let is_closing = |known: &Partition<S>| known.name == name && known.is_closing;
        if let Some(at) = self.open.iter().position(is_closing).filter(|_| !is_resent)
            && let Some(ledger) = &mut ledger
        {
            // It was another's, and is ours again before it was closed: what is pending of it here is nobody's.
            let former = self.open.remove(at).expect("just found");
            self.again.retain(|again| again.replay.reading != former.reading);
            ledger.close_reading(former.reading);
            self.close_reader(former);
        }
        if !is_resent && self.partitions(None).iter().any(|known| known.name == name) {
            return; // There is one token, but it may be shown twice.
        }
        self.waker = Some(waker.clone());
        let params = &*self.desk.plan.params;
        let opening = Opening { name: &name, position: offset.position, params, now, waker };
        let opened = contain(|| {
            let mut spout = S::open(opening)?;
            spout.activate();
            let position = spout.position();
            Ok((spout, position))
        });
        match opened.unwrap_or_else(Panic::refuse) {
            Ok((spout, position)) => {
                let reading = ledger.map_or(0, |ledger| ledger.open_reading(prototype, position));
                self.open.push_back(Partition {
                    name,
                    spout,
                    position,
                    opened: Offset { position, skip: offset.skip },
                    until,
                    ready: Some(now),
                    reading,
                    is_over: false,
                    failure: None,
                    is_closing: false,
                });
            }
            Err(error) if is_resent => {
                tracing::error!(partition = name.as_str(), "a dead letter cannot be read: {error}");
            }
            Err(error) => self.exhausted(name, offset, Some(error.to_string())),
        }
    }

    fn close(&mut self, name: &PartitionName, ledger: Option<&mut Ledger>) -> Closed {
        if let Some(at) = self.done.iter().position(|state| state.name == *name) {
            return Closed::Now(self.done.swap_remove(at));
        }
        let is_meant = |known: &Partition<S>| known.name == *name && known.until.is_none();
        let Some(at) = self.open.iter().position(is_meant) else {
            return Closed::NotHere;
        };
        if let Some(ledger) = ledger {
            self.open[at].is_closing = true;
            ledger.end_reading(self.open[at].reading);
            return Closed::Later;
        }
        let closed = self.open.remove(at).expect("just found");
        let state = Self::state(&closed, None);
        self.close_reader(closed);
        Closed::Now(state)
    }

    fn settled(&mut self, ledger: &mut Ledger) -> Vec<PartitionState> {
        let mut closed = Vec::new();
        let mut at = 0;
        while let Some(partition) = self.open.get(at) {
            let is_wanted = partition.is_over || partition.is_closing;
            if !is_wanted || !ledger.is_settled(partition.reading) {
                at += 1;
                continue;
            }
            let mut partition = self.open.remove(at).expect("just seen");
            let mut state = Self::state(&partition, Some(ledger));
            ledger.close_reading(partition.reading);
            let position = state.offset.position;
            if let Err(cause) = contain(|| partition.spout.committed(position)) {
                self.desk.bury("committed", &cause);
            }
            let (is_over, is_closing) = (partition.is_over, partition.is_closing);
            let (name, failure) = (partition.name.clone(), partition.failure.take());
            let is_resent = partition.until.is_some();
            self.close_reader(partition);
            if is_resent {
                continue;
            }
            if is_over {
                self.exhausted(name, state.offset, failure);
                state = self.done.last().expect("just pushed").clone();
            }
            if is_closing {
                self.done.retain(|known| known.name != state.name);
                closed.push(state);
            }
        }
        closed
    }

    fn wake(&mut self) {
        self.open.iter_mut().for_each(|partition| partition.ready = Some(Time::default()));
        let readers = self.again.iter_mut().filter_map(|again| again.reader.as_mut());
        readers.for_each(|(_, ready)| *ready = Some(Time::default()));
    }

    fn poll(&mut self, now: Time, ledger: Option<&mut Ledger>) {
        match ledger {
            None => self.poll_fresh(now, None),
            Some(ledger) => {
                if !self.poll_again(now, ledger) && ledger.may_plant() {
                    self.poll_fresh(now, Some(ledger));
                }
            }
        }
    }

    fn again(&mut self, replay: Replay) {
        self.again.push_back(Again { replay, reader: None, seen: (0, None), buried: Vec::new() });
    }

    fn stop(&mut self, ledger: Option<&Ledger>) {
        let states: Vec<_> = self.open_states(ledger).collect();
        self.done.extend(states);
        self.again.clear();
        while let Some(partition) = self.open.pop_front() {
            self.close_reader(partition);
        }
    }

    fn partitions(&self, ledger: Option<&Ledger>) -> Vec<PartitionState> {
        self.open_states(ledger).chain(self.done.iter().cloned()).collect()
    }

    fn name_of(&self, reading: u32) -> Option<&str> {
        let known = self.open.iter().find(|partition| partition.reading == reading)?;
        Some(known.name.as_str())
    }

    fn letters(&mut self) -> Vec<Letter> {
        std::mem::take(&mut self.letters)
    }
}

impl<S: Spout> AnyHost for SourceHost<S> {
    fn deliver(&mut self, _: Delivery<'_>) {
        unreachable!("the plan gives spouts no inputs");
    }

    fn outlets(&mut self, each: &mut dyn FnMut(usize, &mut dyn AnyOutlet)) {
        S::Out::each(&mut self.desk.outlets, each);
    }

    fn is_over_budget(&self) -> bool {
        S::Out::any(&self.desk.outlets, |outlet| outlet.is_over_budget())
    }

    fn is_open(&self) -> bool {
        S::Out::any(&self.desk.outlets, |outlet| outlet.is_open())
    }

    fn tick(&mut self, _: Time, _: Scope<'_>) {}

    fn deadline(&self, _: Scope<'_>) -> Option<Time> {
        let fresh = self.open.iter().filter(|known| !known.is_over && !known.is_closing);
        let fresh = fresh.filter_map(|partition| partition.ready);
        fresh.chain(self.again.front().and_then(Again::ready)).min()
    }

    fn settle(&mut self, _: Time, _: &Here<'_>) {}

    /// The run closes partitions itself: it knows the ledger.
    fn remove_all(&mut self, _: Time, _: Removal) {}

    fn instances(&self) -> usize {
        self.open.len() + self.done.len()
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.desk.tally
    }

    fn tracker(&mut self) -> &mut Tracker {
        &mut self.desk.tracker
    }

    fn is_ready_source(&self, now: Time, may_plant: bool) -> bool {
        self.again.front().is_some_and(|again| again.is_ready(now))
            || may_plant && self.open.iter().any(|partition| partition.is_ready(now))
    }

    fn as_source(&mut self) -> Option<&mut dyn Source> {
        Some(self)
    }
}
