//! What an operator gives up: a majority that is lost, and the state that nobody has any more.
//!
//! What may come back with whoever is gone is never given up without one.

use membership::Time;
use membership::view_log;

use super::{Action, Cause, NodeCore};

impl NodeCore {
    /// An operator has decided not to wait for who is gone: neither for a majority, nor for who had what nobody has.
    pub(super) fn recover(&mut self, now: Time, out: &mut Vec<Action>) {
        self.is_giving_up = true;
        let view = self.view.as_ref().filter(|_| !self.is_degraded);
        if view.is_none_or(|view| view.body.unavailable(&view.head) == 0) {
            self.log_step(now, view_log::Input::RecoverUnsafe, out);
        }
        self.give_up();
    }

    /// Once enough voters are there, or nobody asks whether they are, gives up what nobody has, if that was said.
    pub(super) fn give_up(&mut self) {
        let Some(view) = self.view.as_ref().filter(|_| self.is_giving_up) else { return };
        if self.log.quorum().is_some_and(|(live, needed)| live < needed) {
            return;
        }
        self.is_giving_up = view.body.unavailable(&view.head) > 0;
        if self.is_giving_up {
            self.causes.push(Cause::GivenUp(view.head.number));
        }
    }
}
