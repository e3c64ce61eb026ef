//! Storm's words, for who comes from there: bolts on the one concept of a PE.
//!
//! A bolt is a PE with a fixed number of instances, its tasks: the topology file says `parallelism` and a
//! grouping. Nothing here is another engine; [`Bolts`] turns each call of a PE into the one that Storm has
//! for it, and a [`Spout`] of here is one of the engine's.

mod spout;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(crate) use self::spout::Spouts;
pub use self::spout::{Spout, SpoutCollector};
use crate::topology::{Param, Params};
use crate::{Anchor, Ctx, Emits, Event, EventRef, Inputs, KeyRef, On, Outputs, Pe, Removal};

/// A bolt: what it does to tuples is an [`Execute`] for each type of them.
///
/// A tuple is acked when `execute` returns, and what was emitted meanwhile is anchored to it, as with Storm's
/// `BaseBasicBolt`. A bolt that acks later keeps [`Collector::anchor`], as a `BaseRichBolt` would keep the tuple.
///
/// ```
/// # use pe as starling;
/// use serde::{Deserialize, Serialize};
/// use starling::Event;
/// use starling::storm::{Bolt, Collector, Execute};
///
/// #[derive(Event)]
/// struct Word { text: String }
///
/// /// The bolt of Storm's first example.
/// #[derive(Default, Serialize, Deserialize)]
/// struct Exclaim;
///
/// impl Bolt for Exclaim {
///     type In = Word;
///     type Out = Word;
/// }
///
/// impl Execute<Word> for Exclaim {
///     fn execute(&mut self, word: WordRef<'_>, collector: &mut Collector<'_, '_, Word>) {
///         let text = format!("{}!!!", word.text);
///         collector.emit(WordRef { text: &text });
///     }
/// }
///
/// let registry = starling::Registry::new().bolt::<Exclaim>("exclaim");
/// ```
pub trait Bolt: Default + Serialize + DeserializeOwned + Send + 'static {
    /// The tuples it takes: one event type or a tuple of up to six; each needs an [`Execute`].
    type In: Inputs<Bolts<Self>>;
    /// The tuples it gives: `()`, one event type or a tuple of up to six; the topology file names their streams.
    type Out: Outputs;
    /// The parameters that a topology may give it.
    const PARAMS: &'static [Param] = &[];

    /// Called once before the first tuple.
    fn prepare(&mut self, params: &Params, context: TaskContext) {
        let _ = (params, context);
    }

    /// A tick tuple: called every `timer`, if the topology sets one (`topology.tick.tuple.freq.secs`).
    fn tick(&mut self, collector: &mut Collector<'_, '_, Self::Out>) {
        let _ = collector;
    }

    /// The task is about to go. Other than in Storm it is called whenever a task goes, and never after a crash.
    fn cleanup(&mut self, collector: &mut Collector<'_, '_, Self::Out>) {
        let _ = collector;
    }
}

/// How a bolt takes one type of tuple.
pub trait Execute<E: Event>: Bolt {
    /// Handles a tuple.
    fn execute(&mut self, tuple: E::Ref<'_>, collector: &mut Collector<'_, '_, Self::Out>);
}

/// Which task this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskContext {
    /// Its number, from zero.
    pub task: u32,
    /// How many there are.
    pub tasks: u32,
}

/// Where a bolt emits, acks and fails.
pub struct Collector<'c, 'o, Out: Outputs> {
    ctx: &'c mut Ctx<'o, Out>,
    context: TaskContext,
}

impl<Out: Outputs> std::fmt::Debug for Collector<'_, '_, Out> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Collector").field("context", &self.context).finish_non_exhaustive()
    }
}

impl<Out: Outputs> Collector<'_, '_, Out> {
    /// Emits a tuple to the stream of its type, anchored to the tuple that is being executed, if one is.
    pub fn emit<'e, R: EventRef<'e>, At>(&mut self, event: R)
    where
        Out: Emits<R::Event, At>,
    {
        self.ctx.emit(event);
    }

    /// Emits a tuple anchored to one or several others.
    pub fn emit_anchored<'e, R: EventRef<'e>, At>(&mut self, to: &mut [&mut Anchor], event: R)
    where
        Out: Emits<R::Event, At>,
    {
        match to {
            [only] => self.ctx.emit_anchored(only, event),
            several => self.ctx.emit_joined(several, event),
        }
    }

    /// Emits a tuple of which nobody is told whether it arrives.
    pub fn emit_unanchored<'e, R: EventRef<'e>, At>(&mut self, event: R)
    where
        Out: Emits<R::Event, At>,
    {
        self.ctx.emit_unanchored(event);
    }

    /// Holds back the ack of the tuple that is being executed: it is for [`Collector::ack`] or
    /// [`Collector::fail_anchor`], now or in a later call. Without it the tuple is acked when `execute` returns.
    pub fn anchor(&mut self) -> Anchor {
        self.ctx.hold()
    }

    /// Gives up the tuple that is being executed: its spout reads the whole tree again.
    pub fn fail(&mut self) {
        self.ctx.fail();
    }

    /// A tuple has been dealt with.
    pub fn ack(&mut self, anchor: Anchor) {
        self.ctx.ack(anchor);
    }

    /// A tuple is given up: its spout reads the whole tree again.
    pub fn fail_anchor(&mut self, anchor: Anchor) {
        self.ctx.fail_anchor(anchor);
    }

    /// Gives up the record at hand for good, and counts it under a reason; the tuple is acked all the same.
    pub fn discard(&mut self, reason: &'static str) {
        self.ctx.discard(reason);
    }

    /// Which task this is, of how many.
    pub fn task(&self) -> TaskContext {
        self.context
    }
}

/// The PE that a [`Bolt`] is.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(bound = "")]
pub struct Bolts<B: Bolt> {
    bolt: B,
    context: TaskContext,
}

impl<B: Bolt> Pe for Bolts<B> {
    type In = B::In;
    type Out = B::Out;
    const PARAMS: &'static [Param] = B::PARAMS;

    fn create(key: KeyRef<'_>, params: &Params) -> Self {
        let (task, tasks) = key.task().unwrap_or((0, 1));
        let (mut bolt, context) = (B::default(), TaskContext { task, tasks });
        bolt.prepare(params, context);
        Self { bolt, context }
    }

    fn on_time(&mut self, ctx: &mut Ctx<'_, B::Out>) {
        self.bolt.tick(&mut Collector { ctx, context: self.context });
    }

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, B::Out>) {
        if reason != Removal::Moved {
            self.bolt.cleanup(&mut Collector { ctx, context: self.context });
        }
    }
}

impl<E: Event, B: Execute<E>> On<E> for Bolts<B> {
    fn on(&mut self, event: E::Ref<'_>, ctx: &mut Ctx<'_, B::Out>) {
        self.bolt.execute(event, &mut Collector { ctx, context: self.context });
    }
}
