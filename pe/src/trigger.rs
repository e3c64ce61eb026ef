//! Where the trigger of an instance stands.
//!
//! Only prototypes whose topology sets a trigger pay for it: the others keep `()`, which takes no room
//! and is compiled away.

use membership::Time;

use crate::topology::Trigger;

/// The trigger of one instance.
pub(crate) trait Pulse: Default + Send + 'static {
    /// Whether there is a trigger.
    const BEATS: bool;
    /// Takes one event.
    fn event(&mut self, now: Time, trigger: Trigger) -> Beat;
    /// Whether the trigger is due at a time for which it was armed.
    fn is_due(&self, at: Time) -> bool;
    /// How many events there were since it fired.
    fn events(&self) -> u32;
    /// The trigger of an instance that comes from elsewhere after so many events: its time begins anew.
    /// With the time for which it is armed.
    fn arrived(events: u32, now: Time, trigger: Trigger) -> (Self, Option<Time>);
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
    fn event(&mut self, _: Time, _: Trigger) -> Beat {
        Beat::Wait
    }

    fn is_due(&self, _: Time) -> bool {
        false
    }

    fn events(&self) -> u32 {
        0
    }

    fn arrived(_: u32, _: Time, _: Trigger) -> (Self, Option<Time>) {
        ((), None)
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
    fn event(&mut self, now: Time, trigger: Trigger) -> Beat {
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

    fn arrived(events: u32, now: Time, trigger: Trigger) -> (Self, Option<Time>) {
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
        assert_eq!(pulse.event(at(1), trigger), Beat::Armed(at(11)));
        assert_eq!(pulse.event(at(2), trigger), Beat::Wait);
        assert!(pulse.is_due(at(11)));
        assert_eq!(pulse.event(at(3), trigger), Beat::Fire);
        assert!(!pulse.is_due(at(11)), "it fired before it was due");
        assert_eq!(pulse.event(at(5), trigger), Beat::Armed(at(15)));
        assert!(!pulse.is_due(at(11)) && pulse.is_due(at(15)));
    }
}
