//! The programming model: what an application writes.
//!
//! A PE declares the events it takes and gives as two associated types. That is how the registry learns
//! what it handles (stable Rust cannot ask whether `P: On<E>`), how a missing `On` becomes a compile
//! error, and how `ctx.emit` finds its outlet at compile time, without a look-up per event.

use std::any::Any;

use membership::Time;
use routing::{AnyOutlet, Batch, Event, Outlet};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::topology::{Param, Params};
use crate::{Ctx, EventType, KeyRef};

/// A processing element: the state of one instance, and hooks.
///
/// How many instances there are is said by the topology, not here: one per key, `parallelism = n`, one
/// per node, or exactly one. Hooks run on the thread of the instance's container, one at a time; an
/// instance needs no locks, and must not block.
///
/// An instance may move to another node while events flow. Its state goes there as serde writes it, in
/// bincode, so all that it is to remember has to be in what it serializes, and what cannot travel (an
/// open file) is skipped and made again there; `create` is not called. Types that bincode cannot read
/// back, such as untagged enums, and states of more than [`STATE_MAX`](crate::STATE_MAX) bytes do not
/// travel: the slot of such an instance is not handed over.
///
/// ```
/// # use pe as starling;
/// use serde::{Deserialize, Serialize};
/// use starling::{Ctx, Event, KeyRef, On, Param, Params, Pe, Removal};
///
/// #[derive(Event)]
/// struct Word { text: String }
///
/// #[derive(Event)]
/// struct Count { word: String, n: u64 }
///
/// /// Counts one word, and says so every `step` times and when it goes.
/// #[derive(Default, Serialize, Deserialize)]
/// struct Counter { word: String, n: u64, step: u64 }
///
/// impl Pe for Counter {
///     type In = Word;
///     type Out = Count;
///     const PARAMS: &'static [Param] = &[Param::integer("step", "how often to say it").default(10)];
///
///     fn create(key: KeyRef<'_>, params: &Params) -> Self {
///         let word = key.text(0).unwrap_or_default().to_owned();
///         Counter { word, n: 0, step: params.integer("step").unsigned_abs() }
///     }
///
///     fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, Count>) {
///         if reason != Removal::Moved {
///             ctx.emit(CountRef { word: &self.word, n: self.n });
///         }
///     }
/// }
///
/// impl On<Word> for Counter {
///     fn on(&mut self, word: WordRef<'_>, ctx: &mut Ctx<'_, Count>) {
///         self.n += 1;
///         if self.n.is_multiple_of(self.step) {
///             ctx.emit(CountRef { word: word.text, n: self.n });
///         }
///     }
/// }
/// ```
///
/// An event type that is declared but not handled does not compile:
///
/// ```compile_fail
/// # use pe as starling;
/// use serde::{Deserialize, Serialize};
/// use starling::{Event, Pe};
/// #[derive(Event)]
/// struct Word { text: String }
/// #[derive(Default, Serialize, Deserialize)]
/// struct Counter;
/// impl Pe for Counter { type In = Word; type Out = (); }
/// ```
pub trait Pe: Default + Serialize + DeserializeOwned + Send + 'static {
    /// The events it takes: one event type or a tuple of up to six; each needs an [`On`].
    type In: Inputs<Self>;
    /// The events it gives: `()`, one event type or a tuple of up to six.
    type Out: Outputs;
    /// The parameters that a topology may give it; any other is refused when the topology is checked.
    const PARAMS: &'static [Param] = &[];

    /// Makes an instance for its first event, or at the start for one that is numbered.
    fn create(key: KeyRef<'_>, params: &Params) -> Self {
        let _ = (key, params);
        Self::default()
    }

    /// Called every `timer`, if the topology sets one, for each instance.
    fn on_time(&mut self, ctx: &mut Ctx<'_, Self::Out>) {
        let _ = ctx;
    }

    /// Called by the `trigger`, if the topology sets one: after so many events of this instance, or so
    /// long after the first event since the last call, whichever comes first.
    fn on_trigger(&mut self, ctx: &mut Ctx<'_, Self::Out>) {
        let _ = ctx;
    }

    /// The instance is about to be dropped. What it emits here still arrives, whatever the reason.
    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, Self::Out>) {
        let _ = (reason, ctx);
    }

    /// Whether this is a [`Windows`](crate::Windows): then a topology has to say which.
    #[doc(hidden)]
    const IS_WINDOWED: bool = false;

    /// When a window has ended; its host then calls `on_trigger`, before any event that comes later.
    #[doc(hidden)]
    fn window_deadline(&self) -> Option<Time> {
        None
    }

    /// Says what the time is, before the state is written and where it has arrived.
    #[doc(hidden)]
    fn window_clock(&mut self, now: Time) {
        let _ = now;
    }
}

/// The most bytes of the state of one instance that moves.
pub const STATE_MAX: usize = routing::codec::VALUE_MAX;

/// Why an instance is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Removal {
    /// It asked for it: [`Ctx::close`].
    Closed,
    /// The topology has ended: every event was handled. Instances go stage by stage, so what one emits
    /// here is handled by the instances of later stages before they go.
    Ended,
    /// Its slot, or its number, is another container's from now on. What it serializes has gone there,
    /// or is lost if it could not be handed over; either way this hook cannot change it any more and
    /// should only care for what is bound to this place.
    Moved,
    /// The node shuts down.
    Shutdown,
    /// There were more instances than `memory.max_instances`, and it was not used of late. What it serializes is gone
    /// with it; the next event of its key makes a new one.
    Full,
    /// It had no event for `memory.idle_after`. The same holds.
    Idle,
}

/// How a PE takes one type of event.
pub trait On<E: Event>: Pe {
    /// Handles an event. A panic here drops the instance and the event, and is counted; the next event
    /// of the key makes a new instance.
    fn on(&mut self, event: E::Ref<'_>, ctx: &mut Ctx<'_, Self::Out>);
}

/// Takes a batch whose type has been found out.
#[doc(hidden)]
pub trait Receive<P: Pe> {
    /// Called once per batch.
    fn receive<E: Event>(&mut self, batch: &Batch<E>)
    where
        P: On<E>;
}

/// The events that `P` takes: an event type or a tuple of them.
#[diagnostic::on_unimplemented(
    message = "`{P}` says that it takes `{Self}` but does not handle all of it",
    note = "write an `impl On<..> for {P}` for each event type in `type In`; or an `impl Takes<..>`, where that is `Windows<..>`"
)]
pub trait Inputs<P: Pe> {
    /// In the order written.
    fn types() -> Vec<EventType>;
    /// Finds the type of a batch; `false` if it is none of these.
    #[doc(hidden)]
    fn receive(batch: &dyn Any, receiver: &mut impl Receive<P>) -> bool;
}

/// The events that may be emitted: `()`, an event type or a tuple of them.
pub trait Outputs: 'static {
    /// An outlet for each.
    #[doc(hidden)]
    type Outlets: Send;
    /// In the order written.
    fn types() -> Vec<EventType>;
    /// Outlets that lead nowhere yet.
    #[doc(hidden)]
    fn outlets() -> Self::Outlets;
    /// The outlets as the container sees them, in the order written.
    #[doc(hidden)]
    fn each(outlets: &mut Self::Outlets, each: &mut dyn FnMut(usize, &mut dyn AnyOutlet));
    /// Whether something holds for one of the outlets.
    #[doc(hidden)]
    fn any(outlets: &Self::Outlets, is: fn(&dyn AnyOutlet) -> bool) -> bool;
}

/// Says that `E` is among the outputs, at position `At`.
#[diagnostic::on_unimplemented(
    message = "`{E}` is not among the events that may be emitted here",
    note = "add it to `type Out`"
)]
pub trait Emits<E: Event, At>: Outputs {
    /// Its outlet.
    #[doc(hidden)]
    fn outlet(outlets: &mut Self::Outlets) -> &mut Outlet<E>;
}

/// Position of a lone output.
#[doc(hidden)]
#[derive(Debug)]
pub enum Alone {}

/// Position in a tuple.
#[doc(hidden)]
#[derive(Debug)]
pub enum At<const N: usize> {}

impl Outputs for () {
    type Outlets = ();

    fn types() -> Vec<EventType> {
        Vec::new()
    }

    fn outlets() {}

    fn each((): &mut (), _: &mut dyn FnMut(usize, &mut dyn AnyOutlet)) {}

    fn any((): &(), _: fn(&dyn AnyOutlet) -> bool) -> bool {
        false
    }
}

/// What an event type is beside an event: all that a PE takes, or gives. The derive calls this: since
/// `Event` is another crate's trait, it cannot be said of all of them at once beside the tuples below.
#[doc(hidden)]
#[macro_export]
macro_rules! __alone {
    ($event:ty) => {
        impl<P: $crate::On<$event>> $crate::Inputs<P> for $event {
            fn types() -> ::std::vec::Vec<$crate::EventType> {
                ::std::vec![$crate::EventType::of::<$event>()]
            }

            fn receive(
                batch: &dyn ::std::any::Any,
                receiver: &mut impl $crate::Receive<P>,
            ) -> bool {
                let batch = batch.downcast_ref::<$crate::Batch<$event>>();
                batch.map(|batch| receiver.receive(batch)).is_some()
            }
        }

        impl $crate::Outputs for $event {
            type Outlets = $crate::Outlet<$event>;

            fn types() -> ::std::vec::Vec<$crate::EventType> {
                ::std::vec![$crate::EventType::of::<$event>()]
            }

            fn outlets() -> $crate::Outlet<$event> {
                ::std::default::Default::default()
            }

            fn each(
                outlet: &mut $crate::Outlet<$event>,
                each: &mut dyn FnMut(usize, &mut dyn $crate::AnyOutlet),
            ) {
                each(0, outlet);
            }

            fn any(
                outlet: &$crate::Outlet<$event>,
                is: fn(&dyn $crate::AnyOutlet) -> bool,
            ) -> bool {
                is(outlet)
            }
        }

        impl $crate::Emits<$event, $crate::Alone> for $event {
            #[inline(always)]
            fn outlet(outlet: &mut $crate::Outlet<$event>) -> &mut $crate::Outlet<$event> {
                outlet
            }
        }
    };
}

/// A tuple takes all that its members take, gives all that they give, and emits each at its place.
macro_rules! tuple {
    ($all:tt: $($E:ident $n:tt),+) => {
        impl<P: $(On<$E> +)+, $($E: Event),+> Inputs<P> for ($($E,)+) {
            fn types() -> Vec<EventType> {
                vec![$(EventType::of::<$E>()),+]
            }

            fn receive(batch: &dyn Any, receiver: &mut impl Receive<P>) -> bool {
                $(batch.downcast_ref::<Batch<$E>>().map(|batch| receiver.receive(batch)).is_some())||+
            }
        }

        impl<$($E: Event),+> Outputs for ($($E,)+) {
            type Outlets = ($(Outlet<$E>,)+);

            fn types() -> Vec<EventType> {
                vec![$(EventType::of::<$E>()),+]
            }

            fn outlets() -> Self::Outlets {
                ($(Outlet::<$E>::default(),)+)
            }

            fn each(outlets: &mut Self::Outlets, each: &mut dyn FnMut(usize, &mut dyn AnyOutlet)) {
                $(each($n, &mut outlets.$n);)+
            }

            fn any(outlets: &Self::Outlets, is: fn(&dyn AnyOutlet) -> bool) -> bool {
                $(is(&outlets.$n))||+
            }
        }

        $(tuple! { @emits $all $E $n })+
    };
    (@emits ($($all:ident),+) $E:ident $n:tt) => {
        impl<$($all: Event),+> Emits<$E, At<$n>> for ($($all,)+) {
            #[inline(always)]
            fn outlet(outlets: &mut Self::Outlets) -> &mut Outlet<$E> {
                &mut outlets.$n
            }
        }
    };
}

tuple!((A, B): A 0, B 1);
tuple!((A, B, C): A 0, B 1, C 2);
tuple!((A, B, C, D): A 0, B 1, C 2, D 3);
tuple!((A, B, C, D, E): A 0, B 1, C 2, D 3, E 4);
tuple!((A, B, C, D, E, F): A 0, B 1, C 2, D 3, E 4, F 5);
