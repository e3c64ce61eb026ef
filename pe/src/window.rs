//! Windows: an application that is given many events at a time.
//!
//! Storm's `BaseWindowedBolt` as a PE. What an application keeps of an event, and what it does with
//! a window, is its own ([`Windowed`], [`Takes`]); when windows fire and what is in them is decided
//! by [`Panes`]; [`Windows`] makes a PE of the two. Its host calls it at its deadline as it calls a
//! trigger, and before any event that comes later than that, so a window has ended for its
//! application before the next begins.
//!
//! Time is the time of the node at which an event was handled, as in Storm without timestamp
//! fields. There are no watermarks and no late events.

mod panes;
mod spec;

use membership::Time;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use self::panes::{Items, Panes, WindowFull, WindowRef};
pub use self::spec::{COUNT_MAX, Extent, MOST, OVERLAP_MAX, WindowError, WindowSpec};

use crate::topology::{Param, Params};
use crate::{Ctx, Event, Inputs, KeyRef, On, Outputs, Pe, Removal};

/// What an application does with windows of events; [`Windows`] makes a PE of it.
///
/// The topology says how long windows are and when they fire:
///
/// ```toml
/// window = { length = 100 }                        # tumbling: every 100 events, with these
/// window = { length = 100, slide = 10 }            # every 10 events, with the last 100
/// window = { length = "10s" }                      # tumbling: every 10 s
/// window = { length = "10s", slide = "1s" }        # every second, with the last 10 s
/// window = { length = 100, slide = "1s" }          # every second, with the last 100 events
/// window = { length = "10s", slide = 100 }         # every 100 events, with the last 10 s
/// window = { length = "10s", most = 5_000 }        # an instance holds 5,000 events, not a million
/// ```
///
/// Each instance has its own: a keyed one has the events of its key, a numbered one those that it
/// is given.
///
/// **When it fires.** A slide of events fires directly after every so many events of the instance.
/// A slide of time fires at multiples of the slide after the instance's *first event*. Windows are
/// half-open: an event that comes exactly at a boundary is in the window that begins there. A
/// boundary may be attended to late, when the container is busy or what the instance feeds is
/// behind ([`WindowRef::late`] says by how much), but what is in the window does not depend on
/// that, and no boundary is left out. Directly after an event, a window of a length of time has
/// what came less than the length ago.
///
/// **When it does not.** Where nothing is in a window and nothing has expired, it does not fire,
/// and an instance costs no time; so a last call with an empty window, which says what has expired,
/// is the place to [`close`](Ctx::close) an instance that nobody needs any more. A length of events
/// with a slide of time fires only if something has come since: Storm shows the same events again.
///
/// **What it costs.** An instance holds what it took of all events of the last window and of those
/// that came since. A length of time holds at most `most` events; those beyond are discarded and
/// counted as `window full`. When the instance moves, all of it moves, with the age of each event:
/// on the way its time stands still. A state of more than [`STATE_MAX`](crate::STATE_MAX) bytes
/// does not travel.
///
/// ```
/// # use pe as starling;
/// use serde::{Deserialize, Serialize};
/// use starling::{Ctx, Event, KeyRef, Params, Removal, Takes, WindowRef, Windowed};
///
/// #[derive(Event)]
/// struct Reading { sensor: String, celsius: f64 }
///
/// #[derive(Event)]
/// struct Mean { sensor: String, readings: u64, celsius: f64 }
///
/// /// The mean of one sensor over each window.
/// #[derive(Default, Serialize, Deserialize)]
/// struct MeanOf { sensor: String }
///
/// impl MeanOf {
///     fn say(&self, window: &WindowRef<'_, f64>, ctx: &mut Ctx<'_, Mean>) {
///         let readings = window.len() as u64;
///         let celsius = window.items().sum::<f64>() / readings as f64;
///         ctx.emit(MeanRef { sensor: &self.sensor, readings, celsius });
///     }
/// }
///
/// impl Windowed for MeanOf {
///     type In = Reading;
///     type Out = Mean;
///     /// Events are borrowed, so a window holds what is made of them.
///     type Item = f64;
///
///     fn create(key: KeyRef<'_>, _: &Params) -> Self {
///         MeanOf { sensor: key.text(0).unwrap_or_default().to_owned() }
///     }
///
///     fn on_window(&mut self, window: &WindowRef<'_, f64>, ctx: &mut Ctx<'_, Mean>) {
///         if window.is_empty() {
///             ctx.close(); // Silent for a whole window: the next reading makes a new instance.
///         } else {
///             self.say(window, ctx);
///         }
///     }
///
///     fn on_remove(&mut self, reason: Removal, rest: &WindowRef<'_, f64>, ctx: &mut Ctx<'_, Mean>) {
///         if reason == Removal::Ended && rest.fresh().len() > 0 {
///             self.say(rest, ctx); // The last window, which is not full.
///         }
///     }
/// }
///
/// impl Takes<Reading> for MeanOf {
///     fn take(&mut self, reading: ReadingRef<'_>, ctx: &mut Ctx<'_, Mean>) -> Option<f64> {
///         if reading.celsius.is_nan() {
///             ctx.discard("not a number");
///             return None;
///         }
///         Some(reading.celsius)
///     }
/// }
///
/// let registry = starling::Registry::new().windowed::<MeanOf>("mean");
/// # use starling::topology::Topology;
/// let topology = Topology::parse(r#"
///     name = "sensors"
///     spout.readings = { type = "readings", emits = "readings" }
///
///     [pe.mean]
///     type = "mean"
///     input = [{ stream = "readings", key = ["sensor"] }]
///     emits = "means"
///     window = { length = "10s", slide = "1s" }
/// "#).unwrap();
/// # struct Readings;
/// # impl starling::Spout for Readings {
/// #     type Out = Reading;
/// #     fn partitions(_: &Params) -> Result<Vec<starling::PartitionName>, starling::SpoutError> { Ok(vec![]) }
/// #     fn open(_: starling::Opening<'_>) -> Result<Self, starling::SpoutError> { Ok(Readings) }
/// #     fn poll(&mut self, _: &mut Ctx<'_, Reading>) -> Result<starling::Next, starling::SpoutError> { Ok(starling::Next::Idle) }
/// #     fn position(&self) -> starling::Position { starling::Position::default() }
/// # }
/// # let registry = registry.spout::<Readings>("readings");
/// let plan = topology.plan(&registry.catalog()).unwrap();
/// assert!(plan.prototypes[1].window.is_some());
/// ```
///
/// A windowed PE of several event types joins them: `type In = (Click, Impression)`, a [`Takes`]
/// for each, and an `Item` that tells them apart.
///
/// **Tick tuples** of Storm are our `timer`: with `timer = "1s"` in the topology,
/// [`Windowed::on_time`] is called every second for each instance, as [`Pe::on_time`] is for any
/// other PE. It is not an event, takes no place in a window and fires none. There is no `trigger`
/// beside a window, for its slide is one.
pub trait Windowed: Default + Serialize + DeserializeOwned + Send + 'static {
    /// The events it takes: one event type or a tuple of up to six; each needs a [`Takes`].
    type In: Inputs<Windows<Self>>;
    /// The events it gives: `()`, one event type or a tuple of up to six.
    type Out: Outputs;
    /// What it keeps of an event as long as that is in the window.
    type Item: Serialize + DeserializeOwned + Send + 'static;
    /// The parameters that a topology may give it; any other is refused when the topology is
    /// checked.
    const PARAMS: &'static [Param] = &[];

    /// As [`Pe::create`].
    fn create(key: KeyRef<'_>, params: &Params) -> Self {
        let _ = (key, params);
        Self::default()
    }

    /// A window fires. One that a slide of events fires is called from [`On::on`], where
    /// [`Ctx::key`] is not known: what is needed of the key is kept by [`Windowed::create`].
    fn on_window(&mut self, window: &WindowRef<'_, Self::Item>, ctx: &mut Ctx<'_, Self::Out>);

    /// As [`Pe::on_time`].
    fn on_time(&mut self, ctx: &mut Ctx<'_, Self::Out>) {
        let _ = ctx;
    }

    /// As [`Pe::on_remove`], with what the next window has so far. Windows that have ended were
    /// told before, unless the instance has [moved](Removal::Moved): there they are told where it
    /// is now.
    fn on_remove(
        &mut self,
        reason: Removal,
        rest: &WindowRef<'_, Self::Item>,
        ctx: &mut Ctx<'_, Self::Out>,
    ) {
        let _ = (reason, rest, ctx);
    }
}

/// What a windowed PE keeps of one type of event.
pub trait Takes<E: Event>: Windowed {
    /// What the window holds of an event; nothing if it is not to be in the window, nor to count.
    ///
    /// A panic here drops the instance with its window, as in [`On::on`].
    fn take(&mut self, event: E::Ref<'_>, ctx: &mut Ctx<'_, Self::Out>) -> Option<Self::Item>;
}

/// The PE that a [`Windowed`] is: register it with
/// [`Registry::windowed`](crate::Registry::windowed), or by its full name where a PE is asked for.
#[derive(Deserialize, Serialize)]
#[serde(bound = "")]
pub struct Windows<W: Windowed> {
    panes: Panes<W::Item>,
    of: W,
}

/// What is given up because there is no more room for it.
const WINDOW_FULL: &str = "window full";

impl<W: Windowed> Windows<W> {
    /// Tells what has ended by now, unless the instance has enough.
    fn tell(&mut self, ctx: &mut Ctx<'_, W::Out>) {
        while let Some(window) = self.panes.advance(ctx.now()) {
            self.of.on_window(&window, ctx);
            if ctx.is_closing {
                return;
            }
        }
    }
}

impl<W: Windowed> Default for Windows<W> {
    fn default() -> Self {
        Self { panes: Panes::default(), of: W::default() }
    }
}

impl<W: Windowed> std::fmt::Debug for Windows<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Windows").finish_non_exhaustive()
    }
}

impl<W: Windowed> Pe for Windows<W> {
    type In = W::In;
    type Out = W::Out;
    const PARAMS: &'static [Param] = W::PARAMS;
    const IS_WINDOWED: bool = true;

    fn create(key: KeyRef<'_>, params: &Params) -> Self {
        let spec = params.window().expect("a windowed type is planned with a window");
        let panes = Panes::new(spec).expect("the window of a plan is checked");
        Self { panes, of: W::create(key, params) }
    }

    fn on_time(&mut self, ctx: &mut Ctx<'_, W::Out>) {
        self.of.on_time(ctx);
    }

    /// There is no trigger beside a window: the host calls this at [`Pe::window_deadline`].
    fn on_trigger(&mut self, ctx: &mut Ctx<'_, W::Out>) {
        self.tell(ctx);
    }

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, W::Out>) {
        match reason {
            Removal::Ended | Removal::Shutdown | Removal::Full | Removal::Idle => self.tell(ctx),
            // It has had enough, or says it where it is now.
            Removal::Closed | Removal::Moved => {}
        }
        let rest = self.panes.rest(ctx.now());
        self.of.on_remove(reason, &rest, ctx);
    }

    fn window_deadline(&self) -> Option<Time> {
        self.panes.deadline()
    }

    fn window_clock(&mut self, now: Time) {
        self.panes.touch(now);
    }
}

impl<E: Event, W: Takes<E>> On<E> for Windows<W> {
    fn on(&mut self, event: E::Ref<'_>, ctx: &mut Ctx<'_, W::Out>) {
        let Some(item) = self.of.take(event, ctx) else { return };
        match self.panes.push(ctx.now(), item) {
            Ok(Some(window)) => self.of.on_window(&window, ctx),
            Ok(None) => {}
            Err(WindowFull) => ctx.discard(WINDOW_FULL),
        }
    }
}
