//! When two view logs are alike.
//!
//! Whoever tries all orders of events has to know where it has been before. A view log holds moments
//! and a source of chance, and by those no two are ever equal; but of a moment only one thing decides
//! what the next input does, namely whether it has passed, and chance decides only how long rivals
//! wait. So those are left out.

use std::fmt::Write as _;

use xxhash_rust::xxh3::xxh3_128;

use super::{Body, ViewLog};
use crate::Time;

impl<B: Body> ViewLog<B> {
    /// Equal for two logs that do the same about each input from now on, but for how long they wait.
    ///
    /// It is slow, and for checkers that explore many runs side by side.
    pub fn fingerprint(&self) -> u128 {
        let is_later = |at: Time| at > self.now;
        let Self { me, log, record, installed, proposer, wishes, is, .. } = self;
        let mut text = String::new();
        let parts = [
            format!("{me:?} {log:?} {record:?} {is:?} {wishes:?}"),
            format!("{:?}", installed.as_ref().map(|view| view.id())),
            format!("{} {}", self.journal.is_written(self.view_change), self.journal.described()),
            format!("{:?} {}", proposer.attempt, proposer.rounds_heard()),
            format!("{} {:?}", is_later(proposer.not_before), proposer.retry_at().map(is_later)),
            self.contacts.described(self.now, self.config.retry),
            format!("{:?}", self.chores.cause_since.map(is_later)),
            format!("{:?}", self.chores.wish.map(|(at, _)| is_later(at))),
            format!("{:?}", self.chores.poll_at.map(is_later)),
            format!("{} {:?}", is_later(self.chores.spread_at), self.propose_at().map(is_later)),
            format!("{:?}", self.waiting.as_ref().map(|waiting| is_later(waiting.ask_at))),
        ];
        parts.iter().for_each(|part| {
            let _ = writeln!(text, "{part}"); // A string takes all.
        });
        xxh3_128(text.as_bytes())
    }
}
