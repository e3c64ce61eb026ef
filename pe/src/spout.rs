//! Sources of events.
//!
//! A spout is a PE on the ring: it has partitions, each an instance with one owner in the cluster. The
//! node that starts a topology lists the partitions, once; from then on each is a token that is held by
//! one node and passed on, with its position, when the ring says so. A partition is never read twice at
//! the same time because there is one token.

use std::fmt;
use std::sync::Arc;

use membership::Time;
use serde::{Deserialize, Serialize};

use crate::topology::{Param, Params};
use crate::{Ctx, Outputs};

/// A source of events; the value is one open partition.
///
/// ```
/// # use pe as starling;
/// use starling::{Ctx, Event, Next, Opening, Param, Params, PartitionName, Position, Spout, SpoutError};
///
/// #[derive(Event)]
/// struct Number { n: u64 }
///
/// /// Counts from 0 to `until`, in `parts` partitions.
/// struct Numbers { next: u64, until: u64, step: u64 }
///
/// impl Spout for Numbers {
///     type Out = Number;
///     const PARAMS: &'static [Param] = &[
///         Param::integer("until", "the first number that is not emitted").required(),
///         Param::integer("parts", "partitions").default(4),
///     ];
///
///     fn partitions(params: &Params) -> Result<Vec<PartitionName>, SpoutError> {
///         Ok((0..params.integer("parts")).map(|part| PartitionName::new(part.to_string())).collect())
///     }
///
///     fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
///         let part: u64 = opening.name.as_str().parse().map_err(|_| SpoutError::new("no number"))?;
///         let [until, step] = ["until", "parts"].map(|name| opening.params.integer(name).unsigned_abs());
///         Ok(Numbers { next: part.max(opening.position.offset), until, step })
///     }
///
///     fn poll(&mut self, ctx: &mut Ctx<'_, Number>) -> Result<Next, SpoutError> {
///         for _ in 0..1000 {
///             if self.next >= self.until {
///                 return Ok(Next::Exhausted);
///             }
///             ctx.emit(NumberRef { n: self.next });
///             self.next += self.step;
///         }
///         Ok(Next::More)
///     }
///
///     fn position(&self) -> Position {
///         Position { offset: self.next, plays: 0 }
///     }
/// }
/// ```
pub trait Spout: Send + Sized + 'static {
    /// The events it gives.
    type Out: Outputs;
    /// The parameters that a topology may give it.
    const PARAMS: &'static [Param] = &[];

    /// Lists the partitions; called once, by the node that starts the topology.
    ///
    /// # Errors
    /// There is nothing to read; the node says why, and the spout counts as exhausted.
    fn partitions(params: &Params) -> Result<Vec<PartitionName>, SpoutError>;

    /// Opens a partition at a position that [`Spout::position`] gave, perhaps on another node.
    ///
    /// # Errors
    /// It cannot be read here; the partition then counts as exhausted, and says why.
    fn open(opening: Opening<'_>) -> Result<Self, SpoutError>;

    /// Emits some events, at most a few thousand: other partitions and PEs wait meanwhile. Must not
    /// block; what has to wait says [`Next::Idle`].
    ///
    /// # Errors
    /// It cannot be read any further; the partition then counts as exhausted, and says why.
    fn poll(&mut self, ctx: &mut Ctx<'_, Self::Out>) -> Result<Next, SpoutError>;

    /// Behind the last event that was emitted: where another node would go on.
    ///
    /// Under at-least-once, a partition that is opened there has to give the same events again, in the same
    /// order: what was lost is read again.
    fn position(&self) -> Position;

    /// Opens the partition once more, beside this reader, at a position that it has given and that is not
    /// committed: to read again what was lost. Only a source that cannot simply be opened twice needs its
    /// own.
    ///
    /// # Errors
    /// It cannot be read again; what was lost is a dead letter then.
    fn reopen(&mut self, opening: Opening<'_>) -> Result<Self, SpoutError> {
        Self::open(opening)
    }

    /// A tree of what was emitted is read again, beside what goes on: so many events, behind `skip` others behind
    /// a position. For who wants to know; nothing need be done.
    fn failed(&mut self, position: Position, skip: u64, events: u64) {
        let _ = (position, skip, events);
    }

    /// It is about to be polled for the first time.
    fn activate(&mut self) {}

    /// It is polled no more: it goes to another container, or the node stops.
    fn deactivate(&mut self) {}

    /// Nothing before this position is read again; under at-least-once, said after each poll.
    fn committed(&mut self, position: Position) {
        let _ = position;
    }
}

/// What a partition has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More, now.
    More,
    /// Nothing until [`Waker::wake`].
    Idle,
    /// Nothing until then, or [`Waker::wake`]. A node is up to a millisecond late, unless the time is less
    /// than a tenth of that away: then it is waited for by turning.
    Until(Time),
    /// Nothing, ever.
    Exhausted,
}

/// Where a partition stands. What the numbers mean is the spout's business; both only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Within the partition.
    pub offset: u64,
    /// How many times it has been played to its end.
    pub plays: u64,
}

/// The name of a partition: what `open` needs to find it, and what people see.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartitionName {
    name: String,
    is_pinned: bool,
}

impl PartitionName {
    /// A partition that any node can read.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_pinned: false }
    }

    /// A partition that only the node that starts the topology can read, such as its standard input.
    pub fn pinned(name: impl Into<String>) -> Self {
        Self { name: name.into(), is_pinned: true }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// Whether it stays on the node that listed it.
    pub fn is_pinned(&self) -> bool {
        self.is_pinned
    }
}

/// What a partition is opened with.
#[derive(Debug)]
pub struct Opening<'a> {
    /// Which partition.
    pub name: &'a PartitionName,
    /// Where to go on.
    pub position: Position,
    /// The parameters of the topology.
    pub params: &'a Params,
    /// The time of the node.
    pub now: Time,
    /// Wakes the partition after [`Next::Idle`].
    pub waker: Waker,
}

/// Wakes an idle partition from another thread.
#[derive(Clone)]
pub struct Waker(Arc<dyn Fn() + Send + Sync>);

impl Waker {
    /// A waker that calls back; the call must be cheap and must not block.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    /// There is something to read.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waker")
    }
}

/// Why a spout or a sink cannot go on, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpoutError(String);

impl SpoutError {
    /// An error with a text such as `corpus/a.txt: permission denied`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
