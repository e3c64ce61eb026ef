//! Watches what the containers of a node are doing, from outside.
//!
//! Whoever calls code that does not return cannot say so. The driver looks at every container now and then; one
//! that was found in the same call for a second or more is stuck, for as long as it is known to have been.

use std::time::Duration;

use membership::Time;
use pe::{Activity, Call};

/// Shorter calls are nothing to be told of.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// How often it has to be looked, so that it is known since when.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The containers of a node.
#[derive(Debug)]
pub(super) struct Watch {
    seen: Vec<(Activity, Option<(Call, Time)>)>,
    next_look: Time,
}

impl Watch {
    pub(super) fn new(activities: Vec<Activity>) -> Self {
        let seen = activities.into_iter().map(|activity| (activity, None)).collect();
        Self { seen, next_look: Time::default() }
    }

    /// Looks, if it is time.
    pub(super) fn look(&mut self, now: Time) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_EVERY;
        for (activity, seen) in &mut self.seen {
            let call = activity.call();
            if seen.map(|(call, _)| call) != call {
                *seen = call.map(|call| (call, now));
            }
        }
    }

    /// When it is time.
    pub(super) fn deadline(&self) -> Time {
        self.next_look
    }

    /// The containers that are stuck, in which call, and for how long.
    pub(super) fn stuck(&self, now: Time) -> impl Iterator<Item = (u16, Call, Duration)> {
        (0..).zip(&self.seen).filter_map(move |(container, (activity, seen))| {
            let (call, since) = (*seen)?;
            let is_stuck = activity.call() == Some(call) && now - since >= STUCK_AFTER;
            is_stuck.then(|| (container, call, now - since))
        })
    }
}
