//! What a hook can do beside changing its own state.

use std::collections::BTreeMap;

use membership::Time;
use routing::{Columns, Event, EventRef, Outlet, Run};

use crate::acker::{Fate, Plant, Tracker};
use crate::{Anchor, Emits, Failure, KeyRef, Outputs};

/// Handed to every hook; `Out` is what it may emit.
pub struct Ctx<'a, Out: Outputs> {
    outlets: &'a mut Out::Outlets,
    discarded: &'a mut Discarded,
    tracker: &'a mut Tracker,
    /// Of a spout under at-least-once.
    plant: Option<&'a mut dyn Plant>,
    key: Option<KeyRef<'a>>,
    now: Time,
    pub(crate) is_closing: bool,
}

/// Events given up by application code, by reason.
pub(crate) type Discarded = BTreeMap<&'static str, u64>;

impl<Out: Outputs> std::fmt::Debug for Ctx<'_, Out> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ctx").field("now", &self.now).finish_non_exhaustive()
    }
}

impl<'a, Out: Outputs> Ctx<'a, Out> {
    pub(crate) fn new(
        outlets: &'a mut Out::Outlets,
        discarded: &'a mut Discarded,
        tracker: &'a mut Tracker,
        now: Time,
    ) -> Self {
        let (plant, key, is_closing) = (None, None, false);
        Self { outlets, discarded, tracker, plant, key, now, is_closing }
    }

    /// The same for a spout whose events make trees.
    pub(crate) fn planting(self, plant: &'a mut dyn Plant) -> Self {
        Self { plant: Some(plant), ..self }
    }

    /// The same for a hook that has no event to learn its key from.
    pub(crate) fn keyed<'b>(&'b mut self, key: KeyRef<'b>) -> Ctx<'b, Out> {
        let (now, is_closing) = (self.now, false);
        let Self { outlets, discarded, tracker, .. } = self;
        Ctx { outlets, discarded, tracker, plant: None, key: Some(key), now, is_closing }
    }

    /// The event at a position is about to be handled.
    #[inline(always)]
    pub(crate) fn follow(&mut self, position: usize, runs: &[Run]) {
        self.tracker.follow(position, runs);
    }

    /// Emits an event to the stream that the topology gave to its type.
    ///
    /// The event is copied into a batch and sent when that is full or nothing else is to be done. It
    /// never waits: if the stream's consumers are behind, what feeds this instance is held back. An
    /// event of more than [`routing::EVENT_MAX`] bytes is dropped and counted.
    ///
    /// `At` is inferred: it is the position of the event type in `Out`.
    #[inline(always)]
    pub fn emit<'e, R: EventRef<'e>, At>(&mut self, event: R)
    where
        Out: Emits<R::Event, At>,
    {
        let outlet = Out::outlet(self.outlets);
        if let Some(plant) = &mut self.plant {
            return plant_event(outlet, event, &mut **plant);
        }
        let root = self.tracker.root_of_event();
        let edge = outlet.push_of(event, root);
        if root.is_some() {
            self.tracker.owed ^= edge;
        }
    }

    /// Emits an event that belongs to the tree of an anchor, and not to that of the event at hand: Storm's
    /// anchoring, for an event that was put off.
    pub fn emit_anchored<'e, R: EventRef<'e>, At>(&mut self, anchor: &mut Anchor, event: R)
    where
        Out: Emits<R::Event, At>,
    {
        let outlet = Out::outlet(self.outlets);
        let root = self.tracker.is_on().then_some(anchor.root);
        anchor.owed ^= outlet.push_of(event, root);
    }

    /// Emits an event that belongs to the trees of several anchors, as of the events of a join: each of them is
    /// complete only when this has been handled, and if it is given up, so are all.
    pub fn emit_joined<'e, R: EventRef<'e>, At>(&mut self, anchors: &mut [&mut Anchor], event: R)
    where
        Out: Emits<R::Event, At>,
    {
        let mut joint = self.tracker.join(anchors);
        self.emit_anchored(&mut joint, event);
        self.tracker.leave(joint);
    }

    /// Emits an event that belongs to no tree: nobody is told whether it arrives.
    pub fn emit_unanchored<'e, R: EventRef<'e>, At>(&mut self, event: R)
    where
        Out: Emits<R::Event, At>,
    {
        let outlet = Out::outlet(self.outlets);
        outlet.push_of(event, self.tracker.is_on().then_some(0));
    }

    /// Holds back the ack of the event at hand: its tree waits until the anchor is given to [`Ctx::ack`] or
    /// [`Ctx::fail_anchor`]. Without it, an event is acked when its handler returns.
    ///
    /// Under at-most-once, and in hooks that handle no event, the anchor is of no tree, and nobody waits.
    pub fn hold(&mut self) -> Anchor {
        self.tracker.hold()
    }

    /// The event of an anchor has been dealt with.
    pub fn ack(&mut self, anchor: Anchor) {
        self.tracker.release(anchor);
    }

    /// The event of an anchor is given up: its spout reads it again, after a while.
    pub fn fail_anchor(&mut self, anchor: Anchor) {
        self.tracker.reject(anchor, Failure::Failed);
    }

    /// Gives up the event at hand: its spout reads the whole tree again, after a while. What has been emitted
    /// for it may be handled all the same. When it was tried `ack.attempts` times, it becomes a dead letter.
    ///
    /// Under at-most-once it changes nothing; see [`Ctx::discard`].
    pub fn fail(&mut self) {
        self.tracker.fail(Failure::Failed);
    }

    /// The instance of the event at hand is there and cannot be read.
    pub(crate) fn unread(&mut self) {
        self.tracker.fail(Failure::Unreadable);
    }

    /// Whether what is lost is read again: at-least-once.
    pub fn is_tracked(&self) -> bool {
        self.tracker.is_on()
    }

    /// The time of the node when the batch, or the hook, began; from an arbitrary start.
    pub fn now(&self) -> Time {
        self.now
    }

    /// The key of the instance, in every hook but [`On::on`](crate::On::on): there the event has it.
    pub fn key(&self) -> Option<KeyRef<'_>> {
        self.key
    }

    /// Removes this instance when the hook returns, after its `on_remove`; the next event of its key
    /// makes a new one. In `on_remove` itself, and in a spout, it changes nothing.
    pub fn close(&mut self) {
        self.is_closing = true;
    }

    /// Has what the instances of this PE in this container have come to written to their replicas as soon as the hook
    /// has returned, whatever the `checkpoint` of the topology says: S4's manual checkpoint. It is safe once all who keep
    /// replicas have it, and the acks that wait for it go then. Where nobody keeps replicas, it changes nothing.
    pub fn checkpoint(&mut self) {
        self.tracker.wants_checkpoint = true;
    }

    /// Gives up the event or record at hand, and counts it under a reason.
    pub fn discard(&mut self, reason: &'static str) {
        *self.discarded.entry(reason).or_default() += 1;
    }
}

/// Emits an event of a spout, and notes what is owed for it.
#[inline(never)]
fn plant_event<E: Event>(outlet: &mut Outlet<E>, event: E::Ref<'_>, plant: &mut dyn Plant) {
    match plant.next() {
        Fate::LeftOut => {}
        Fate::Planted(root) => plant.owe(outlet.push_of(event, Some(root))),
        Fate::Dead => {
            let (mut alone, mut json) = (E::Columns::default(), Vec::new());
            alone.push(event);
            alone.write_json(0, &mut json);
            plant.bury(E::SCHEMA.name, json);
        }
    }
}
