//! Where the trigger of an instance stands.
//!
//! Only prototypes whose topology sets a trigger, or a window that slides by time, pay for it: the
//! others keep `()`, which takes no room and is compiled away.

use membership::Time;

use crate::topology::Trigger;

/// The trigger of one instance.
pub(crate) trait Pulse: Default + Send + 'static {
    /// Whether there is a trigger.
    const BEATS: bool;
    /// Takes one event; `wake` is when the instance, if it is windowed, wants to be called.
    fn event(&mut self, now: Time, trigger: Trigger, wake: Option<Time>) -> Beat;
    /// Whether the trigger is due at a time for which it was armed.
    fn is_due(&self, at: Time) -> bool;
    /// How many events there were since it fired.
    fn events(&self) -> u32;
    /// The trigger of an instance that comes from elsewhere after so many events: its time begins anew,
    /// but that of a window goes on. With the time for which it is armed.
    fn arrived(
        events: u32,
        now: Time,
        trigger: Trigger,
        wake: Option<Time>,
    ) -> (Self, Option<Time>);
    /// Whether a window has ended by now and was not told.
    fn is_late(&self, _now: Time) -> bool {
        false
    }
    /// The trigger of an instance that was called when it was due.
    fn called(&mut self, wake: Option<Time>) -> Option<Time> {
        let _ = wake;
        None
    }
}

/// What an event did to a trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    /// Nothing yet.
    Wait,
    /// The trigger is due at this time, unless it fires before.
    Armed(Time),
    /// It fires now.
    Fire,
}

impl Pulse for () {
    const BEATS: bool = false;

    #[inline(always)]
    fn event(&mut self, _: Time, _: Trigger, _: Option<Time>) -> Beat {
        Beat::Wait
    }

    fn is_due(&self, _: Time) -> bool {
        false
    }

    fn events(&self) -> u32 {
        0
    }

    fn arrived(_: u32, _: Time, _: Trigger, _: Option<Time>) -> (Self, Option<Time>) {
        ((), None)
    }
}

/// The end of the window of an instance that has one.
#[derive(Debug, Default)]
pub(crate) struct Waking {
    due: Option<Time>,
}

impl Pulse for Waking {
    const BEATS: bool = true;

    #[inline]
    fn event(&mut self, _: Time, _: Trigger, wake: Option<Time>) -> Beat {
        self.called(wake).map_or(Beat::Wait, Beat::Armed)
    }

    fn is_due(&self, at: Time) -> bool {
        self.due == Some(at)
    }

    fn events(&self) -> u32 {
        0
    }

    fn arrived(_: u32, _: Time, _: Trigger, wake: Option<Time>) -> (Self, Option<Time>) {
        (Self { due: wake }, wake)
    }

    fn is_late(&self, now: Time) -> bool {
        self.due.is_some_and(|at| at <= now)
    }

    fn called(&mut self, wake: Option<Time>) -> Option<Time> {
        let before = std::mem::replace(&mut self.due, wake);
        wake.filter(|_| wake != before)
    }
}

/// The trigger of an instance that has one.
#[derive(Debug, Default)]
pub(crate) struct Beating {
    events: u32,
    due: Time,
}

impl Beating {
    /// Back to the start, after it fired; the time stays, so that it is armed once for one time.
    pub(crate) fn reset(&mut self) {
        self.events = 0;
    }
}

impl Pulse for Beating {
    const BEATS: bool = true;

    #[inline]
    fn event(&mut self, now: Time, trigger: Trigger, _: Option<Time>) -> Beat {
        self.events += 1;
        if trigger.events.is_some_and(|events| self.events >= events) {
            self.reset();
            return Beat::Fire;
        }
        match trigger.after {
            Some(after) if self.events == 1 && self.due != now + after => {
                self.due = now + after;
                Beat::Armed(self.due)
            }
            _ => Beat::Wait,
        }
    }

    fn is_due(&self, at: Time) -> bool {
        self.events > 0 && self.due == at
    }

    fn events(&self) -> u32 {
        self.events
    }

    fn arrived(events: u32, now: Time, trigger: Trigger, _: Option<Time>) -> (Self, Option<Time>) {
        // A peer may say anything, and one event more is to fit.
        let events = events.min(trigger.events.unwrap_or(u32::MAX).saturating_sub(1));
        let due = trigger.after.filter(|_| events > 0).map(|after| now + after);
        (Self { events, due: due.unwrap_or_default() }, due)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn fires_after_so_many_events_or_so_long_after_the_first() {
        let at = |millis| Time(Duration::from_millis(millis));
        let trigger = Trigger { events: Some(3), after: Some(Duration::from_millis(10)) };
        let mut pulse = Beating::default();
        assert_eq!(pulse.event(at(1), trigger, None), Beat::Armed(at(11)));
        assert_eq!(pulse.event(at(2), trigger, None), Beat::Wait);
        assert!(pulse.is_due(at(11)));
        assert_eq!(pulse.event(at(3), trigger, None), Beat::Fire);
        assert!(!pulse.is_due(at(11)), "it fired before it was due");
        assert_eq!(pulse.event(at(5), trigger, None), Beat::Armed(at(15)));
        assert!(!pulse.is_due(at(11)) && pulse.is_due(at(15)));
    }
}
