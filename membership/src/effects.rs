//! Collects what foca wants done.
//!
//! foca calls back in the middle of its work; we want an answer at the end. So its callbacks only
//! take notes, and [`crate::Membership`] reads them when foca has returned.

use std::time::Duration;

use foca::{Notification, Runtime, Timer};

use crate::identity::Identity;

/// Foca's notes, empty between two calls of `step`.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) packets: Vec<(Identity, Vec<u8>)>,
    pub(crate) timers: Vec<(Timer<Identity>, Duration)>,
    /// The list of members may have changed. What has is read from the list itself: foca's
    /// notifications leave out the cases that it thinks are no change, such as a restart.
    pub(crate) has_changed: bool,
    /// Came back under a new identity after being declared down.
    pub(crate) has_renewed: bool,
    /// Was declared down and could not come back.
    pub(crate) is_spent: bool,
    /// Whether foca takes part: it does when somebody has answered it as who it is now. The one
    /// note that outlives a step.
    pub(crate) is_connected: bool,
}

impl Runtime<Identity> for Effects {
    fn notify(&mut self, notification: Notification<'_, Identity>) {
        match notification {
            Notification::MemberUp(_)
            | Notification::MemberDown(_)
            | Notification::Rename(_, _) => self.has_changed = true,
            Notification::Active => self.is_connected = true,
            Notification::Idle => self.is_connected = false,
            Notification::Defunct => {
                self.is_spent = true;
                self.is_connected = false;
            }
            Notification::Rejoin(_) => {
                self.has_renewed = true;
                self.is_connected = false;
            }
        }
    }

    fn send_to(&mut self, to: Identity, data: &[u8]) {
        self.packets.push((to, data.to_vec()));
    }

    fn submit_after(&mut self, event: Timer<Identity>, after: Duration) {
        self.timers.push((event, after));
    }
}
