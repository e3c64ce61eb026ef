//! Spouts: the partitions of a source that this container reads.

use std::collections::VecDeque;

use membership::Time;
use routing::AnyOutlet;

use super::{AnyHost, Blueprint, Delivery, Desk, Here, Panic, Tally, contain};
use crate::units::Scope;
use crate::{Next, Opening, Outputs, PartitionName, Position, Removal, Spout, Waker};

/// What a container does with the partitions of a spout.
pub(crate) trait Source {
    /// Opens a partition here.
    fn open(&mut self, name: PartitionName, position: Position, now: Time, waker: Waker);
    /// Closes a partition; gives where it stands, or `None` if it is not here.
    fn close(&mut self, name: &PartitionName) -> Option<PartitionState>;
    /// A partition may have something again.
    fn wake(&mut self);
    /// Lets one partition emit.
    fn poll(&mut self, now: Time);
    /// Where the partitions stand.
    fn partitions(&self) -> Vec<PartitionState>;
}

/// Where a partition stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionState {
    /// Which.
    pub(crate) name: PartitionName,
    /// Behind its last event.
    pub(crate) position: Position,
    /// Whether it has nothing more, ever.
    pub(crate) is_exhausted: bool,
    /// Why it has nothing more, if that is not its end.
    pub(crate) failure: Option<String>,
}

/// The host of a spout.
pub(crate) struct SourceHost<S: Spout> {
    /// Those that have more or may have it later; the first is polled next.
    open: VecDeque<Partition<S>>,
    /// Those that are exhausted.
    done: Vec<PartitionState>,
    desk: Desk<S::Out>,
}

struct Partition<S> {
    name: PartitionName,
    spout: S,
    /// Behind its last event.
    position: Position,
    /// Not before this time; never by itself if none.
    ready: Option<Time>,
}

impl<S: Spout> SourceHost<S> {
    pub(crate) fn new(plan: Blueprint) -> Self {
        Self { open: VecDeque::new(), done: Vec::new(), desk: Desk::new(plan) }
    }

    fn exhausted(&mut self, name: PartitionName, position: Position, failure: Option<String>) {
        if let Some(failure) = &failure {
            tracing::error!(spout = %self.desk.plan.name, partition = name.as_str(), "{failure}");
        }
        self.done.push(PartitionState { name, position, is_exhausted: true, failure });
    }

    /// Drops what is the application's.
    fn discard<T>(&mut self, spout: T) {
        if let Err(cause) = contain(|| drop(spout)) {
            self.desk.bury("drop", &cause);
        }
    }

    fn open_states(&self) -> impl Iterator<Item = PartitionState> {
        self.open.iter().map(|partition| PartitionState {
            name: partition.name.clone(),
            position: partition.position,
            is_exhausted: false,
            failure: None,
        })
    }
}

impl<S: Spout> Source for SourceHost<S> {
    fn open(&mut self, name: PartitionName, position: Position, now: Time, waker: Waker) {
        if self.partitions().iter().any(|known| known.name == name) {
            return; // There is one token, but it may be shown twice.
        }
        let params = &*self.desk.plan.params;
        let opening = Opening { name: &name, position, params, now, waker };
        let opened = contain(|| {
            let spout = S::open(opening)?;
            let position = spout.position();
            Ok((spout, position))
        });
        match opened.unwrap_or_else(Panic::refuse) {
            Ok((spout, position)) => {
                self.open.push_back(Partition { name, spout, position, ready: Some(now) });
            }
            Err(error) => self.exhausted(name, position, Some(error.to_string())),
        }
    }

    fn close(&mut self, name: &PartitionName) -> Option<PartitionState> {
        if let Some(at) = self.done.iter().position(|state| state.name == *name) {
            return Some(self.done.swap_remove(at));
        }
        let at = self.open.iter().position(|partition| partition.name == *name)?;
        let state = self.open_states().nth(at);
        let closed = self.open.remove(at);
        self.discard(closed);
        state
    }

    fn wake(&mut self) {
        self.open.iter_mut().for_each(|partition| partition.ready = Some(Time::default()));
    }

    fn poll(&mut self, now: Time) {
        let is_ready = |partition: &Partition<S>| partition.ready.is_some_and(|at| at <= now);
        let Some(at) = self.open.iter().position(is_ready) else { return };
        // The one behind it is first next time, so that all have their turn.
        self.open.rotate_left(at);
        let Some(mut partition) = self.open.pop_front() else { return };
        let mut ctx = self.desk.ctx(now);
        let next = contain(|| {
            let next = partition.spout.poll(&mut ctx)?;
            partition.position = partition.spout.position();
            Ok(next)
        });
        let next = next.unwrap_or_else(|cause| {
            self.desk.bury("poll", &cause);
            cause.refuse()
        });
        let failure = match next {
            Ok(Next::More) => {
                partition.ready = Some(now);
                return self.open.push_back(partition);
            }
            Ok(Next::Idle) => {
                partition.ready = None;
                return self.open.push_back(partition);
            }
            Ok(Next::Until(at)) => {
                partition.ready = Some(at);
                return self.open.push_back(partition);
            }
            Ok(Next::Exhausted) => None,
            Err(error) => Some(error.to_string()),
        };
        let Partition { name, spout, position, .. } = partition;
        self.discard(spout);
        self.exhausted(name, position, failure);
    }

    fn partitions(&self) -> Vec<PartitionState> {
        self.open_states().chain(self.done.iter().cloned()).collect()
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
        self.open.iter().filter_map(|partition| partition.ready).min()
    }

    fn settle(&mut self, _: Time, _: &Here<'_>) {}

    fn remove_all(&mut self, _: Time, _: Removal) {
        let states: Vec<_> = self.open_states().collect();
        self.done.extend(states);
        while let Some(partition) = self.open.pop_front() {
            self.discard(partition);
        }
    }

    fn instances(&self) -> usize {
        self.open.len() + self.done.len()
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.desk.tally
    }

    fn is_ready_source(&self, now: Time) -> bool {
        self.open.iter().any(|partition| partition.ready.is_some_and(|at| at <= now))
    }

    fn as_source(&mut self) -> Option<&mut dyn Source> {
        Some(self)
    }
}
