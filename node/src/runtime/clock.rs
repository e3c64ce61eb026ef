//! The one clock of a process.

use std::time::Instant;

use membership::Time;

/// Counts from the start of the node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is where time enters a node")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(&self) -> Time {
        Time(self.0.elapsed())
    }

    /// When a time will be, for timers.
    pub(super) fn instant(&self, time: Time) -> Instant {
        self.0 + time.0
    }
}
