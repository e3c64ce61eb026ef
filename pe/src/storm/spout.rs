//! Spouts in Storm's words.

use super::TaskContext;
use crate::topology::{Param, Params};
use crate::{Ctx, Emits, EventRef, Next, Opening, Outputs, PartitionName, Position, SpoutError};

/// So many calls of `next_tuple` go together; other spouts and bolts wait meanwhile.
const TOGETHER: usize = 1000;

/// A spout that is asked for one tuple after the other; the value is one task.
///
/// A tuple's message id is its number in its task, from zero. Other than in Storm, the engine and not the spout
/// reads again what failed: it opens the task once more, beside the one that goes on, where the tuple was. So a task
/// must give the same tuples again when it is opened at the same number. What cannot do that, as a queue that
/// forgets what it gave, is a [`Spout`](crate::Spout) with a `reopen` of its own.
///
/// ```
/// # use pe as starling;
/// use starling::{Event, Next, Params, SpoutError};
/// use starling::storm::{self, SpoutCollector, TaskContext};
///
/// #[derive(Event)]
/// struct Sentence { text: String }
///
/// const SENTENCES: [&str; 3] = ["the cow jumped over the moon", "four score and seven years ago", "snow white"];
///
/// /// The spout of Storm's first example, with an end.
/// struct Sentences { next: u64 }
///
/// impl storm::Spout for Sentences {
///     type Out = Sentence;
///
///     fn open(_: &Params, _: TaskContext, first: u64) -> Result<Self, SpoutError> {
///         Ok(Self { next: first })
///     }
///
///     fn next_tuple(&mut self, collector: &mut SpoutCollector<'_, '_, Sentence>) -> Result<Next, SpoutError> {
///         if self.next == 1000 {
///             return Ok(Next::Exhausted);
///         }
///         collector.emit(SentenceRef { text: SENTENCES[self.next as usize % SENTENCES.len()] });
///         self.next += 1;
///         Ok(Next::More)
///     }
/// }
///
/// let registry = starling::Registry::new().storm_spout::<Sentences>("sentences");
/// ```
pub trait Spout: Send + Sized + 'static {
    /// The tuples it gives: one event type or a tuple of up to six.
    type Out: Outputs;
    /// The parameters that a topology may give it.
    const PARAMS: &'static [Param] = &[];

    /// How many tasks there are: the parallelism of the spout. Asked once, by the node that starts the topology.
    fn tasks(params: &Params) -> u32 {
        let _ = params;
        1
    }

    /// Makes a task of which `first` is the number of the tuple to give first: zero, or where it is to go on, on
    /// this node or another.
    ///
    /// # Errors
    /// It cannot be read here; the task then counts as exhausted, and says why.
    fn open(params: &Params, context: TaskContext, first: u64) -> Result<Self, SpoutError>;

    /// Emits the next tuple, or none. Must not block; what has to wait says `Idle`, and will not be asked
    /// again before something wakes it, or `Until`.
    ///
    /// # Errors
    /// It cannot be read any further; the task then counts as exhausted, and says why.
    fn next_tuple(
        &mut self,
        collector: &mut SpoutCollector<'_, '_, Self::Out>,
    ) -> Result<Next, SpoutError>;

    /// A tuple is done with, and all before it. Said in order, once for each, under at-least-once.
    fn ack(&mut self, tuple: u64) {
        let _ = tuple;
    }

    /// A tuple failed and is read again. Nothing need be done.
    fn fail(&mut self, tuple: u64) {
        let _ = tuple;
    }

    /// It is about to be asked for the first time.
    fn activate(&mut self) {}

    /// It is asked no more: it goes to another container, or the node stops.
    fn deactivate(&mut self) {}
}

/// Where a spout emits.
pub struct SpoutCollector<'c, 'o, Out: Outputs> {
    ctx: &'c mut Ctx<'o, Out>,
    emitted: u64,
}

impl<Out: Outputs> std::fmt::Debug for SpoutCollector<'_, '_, Out> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpoutCollector").field("emitted", &self.emitted).finish_non_exhaustive()
    }
}

impl<Out: Outputs> SpoutCollector<'_, '_, Out> {
    /// Emits a tuple to the stream of its type; its message id is the next number.
    pub fn emit<'e, R: EventRef<'e>, At>(&mut self, event: R)
    where
        Out: Emits<R::Event, At>,
    {
        self.ctx.emit(event);
        self.emitted += 1;
    }
}

/// The engine's spout that a [`Spout`] is.
#[derive(Debug)]
pub(crate) struct Spouts<S> {
    spout: S,
    /// The number of the next tuple, and of the first that is not acked.
    next: u64,
    acked: u64,
}

impl<S: Spout> crate::Spout for Spouts<S> {
    type Out = S::Out;
    const PARAMS: &'static [Param] = S::PARAMS;

    fn partitions(params: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        Ok((0..S::tasks(params)).map(|task| PartitionName::new(task.to_string())).collect())
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let name = opening.name.as_str();
        let task = name.parse().map_err(|_| SpoutError::new(format!("{name} is no task")))?;
        let context = TaskContext { task, tasks: S::tasks(opening.params) };
        let next = opening.position.offset;
        let spout = S::open(opening.params, context, next)?;
        Ok(Self { spout, next, acked: next })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, S::Out>) -> Result<Next, SpoutError> {
        for _ in 0..TOGETHER {
            let mut collector = SpoutCollector { ctx, emitted: 0 };
            let next = self.spout.next_tuple(&mut collector);
            self.next += collector.emitted;
            match next? {
                Next::More => {}
                wait @ (Next::Idle | Next::Until(_) | Next::Exhausted) => return Ok(wait),
            }
        }
        Ok(Next::More)
    }

    fn position(&self) -> Position {
        Position { offset: self.next, plays: 0 }
    }

    fn failed(&mut self, position: Position, skip: u64, events: u64) {
        let first = position.offset + skip;
        (first..first + events).for_each(|tuple| self.spout.fail(tuple));
    }

    fn activate(&mut self) {
        self.spout.activate();
    }

    fn deactivate(&mut self) {
        self.spout.deactivate();
    }

    fn committed(&mut self, position: Position) {
        (self.acked..position.offset).for_each(|tuple| self.spout.ack(tuple));
        self.acked = self.acked.max(position.offset);
    }
}
