//! What a hook can do beside changing its own state.

use std::collections::BTreeMap;

use membership::Time;
use routing::EventRef;

use crate::{Emits, KeyRef, Outputs};

/// Handed to every hook; `Out` is what it may emit.
pub struct Ctx<'a, Out: Outputs> {
    outlets: &'a mut Out::Outlets,
    discarded: &'a mut Discarded,
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
        now: Time,
    ) -> Self {
        Self { outlets, discarded, key: None, now, is_closing: false }
    }

    /// The same for a hook that has no event to learn its key from.
    pub(crate) fn keyed<'b>(&'b mut self, key: KeyRef<'b>) -> Ctx<'b, Out> {
        let (now, is_closing) = (self.now, false);
        Ctx { outlets: self.outlets, discarded: self.discarded, key: Some(key), now, is_closing }
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
        Out::outlet(self.outlets).push(event);
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

    /// Gives up the event or record at hand, and counts it under a reason.
    pub fn discard(&mut self, reason: &'static str) {
        *self.discarded.entry(reason).or_default() += 1;
    }
}
