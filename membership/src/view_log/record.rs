//! What a node keeps of the view log on disk, and the acceptor's rules on it.
//!
//! One record is all: the newest view, and a promise and an accepted value for the number after it.
//! Each number is decided by single-decree Paxos, and a node votes on one number only, so learning a
//! view clears the other two. That is the whole of garbage collection.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Body, DiskId, View};
use crate::Run;

/// The name of one attempt to decide a number; attempts with a larger one win.
///
/// It holds the run, so that a node that restarts and has forgotten what it proposed never proposes
/// something else under the same ballot.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Ballot {
    /// Grows with each attempt that was beaten.
    pub round: u64,
    /// The run of the proposer.
    pub run: Run,
    /// The disk of the proposer.
    pub disk: DiskId,
}

/// A value and the ballot under which it was accepted.
pub type Accepted<B> = (Ballot, Arc<View<B>>);

/// The durable state of a node in the view log.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(bound = "B: Body")]
pub struct Record<B> {
    /// The disk it was written for; a record that was copied elsewhere is refused.
    pub disk: DiskId,
    /// The newest view, if there is one yet.
    pub view: Option<Arc<View<B>>>,
    /// No attempt below this one gets a vote on the next number.
    pub promised: Option<Ballot>,
    /// The vote that was last given on the next number.
    pub accepted: Option<Accepted<B>>,
}

/// What an acceptor has to say.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Verdict {
    /// Yes, and the record has changed.
    New,
    /// Yes, as before.
    Again,
    /// No: this was promised.
    Beaten(Ballot),
    /// No: another value has this ballot. Its proposer is broken.
    Reused,
}

impl<B: Body> Record<B> {
    /// A disk that knows of no cluster.
    pub fn blank(disk: DiskId) -> Self {
        Self { disk, view: None, promised: None, accepted: None }
    }

    /// Promises to take part in no attempt below `ballot`.
    pub(super) fn prepare(&mut self, ballot: Ballot) -> Verdict {
        match self.promised {
            Some(promised) if promised > ballot => Verdict::Beaten(promised),
            Some(promised) if promised == ballot => Verdict::Again,
            Some(_) | None => {
                self.promised = Some(ballot);
                Verdict::New
            }
        }
    }

    /// Votes for a value; the caller has checked that it may follow the view.
    pub(super) fn accept(&mut self, ballot: Ballot, value: Arc<View<B>>) -> Verdict {
        if let Some(promised) = self.promised.filter(|promised| *promised > ballot) {
            return Verdict::Beaten(promised);
        }
        if let Some((_, voted)) = self.accepted.as_ref().filter(|(before, _)| *before == ballot) {
            return if *voted == value { Verdict::Again } else { Verdict::Reused };
        }
        self.promised = Some(ballot);
        self.accepted = Some((ballot, value));
        Verdict::New
    }

    /// Takes a view that is decided, and with it another number to vote on.
    pub(super) fn learn(&mut self, view: Arc<View<B>>) {
        self.view = Some(view);
        self.promised = None;
        self.accepted = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view_log::tests::{Notes, view};

    fn ballot(round: u64, run: u64, disk: u64) -> Ballot {
        Ballot { round, run: Run(run), disk: DiskId(disk) }
    }

    #[test]
    fn a_promise_binds_until_a_view_is_learnt() {
        let mut record = Record::<Notes>::blank(DiskId(1));
        let (low, high) = (ballot(1, 9, 9), ballot(2, 1, 1));
        assert_eq!(record.prepare(high), Verdict::New);
        assert_eq!(record.prepare(high), Verdict::Again);
        assert_eq!(record.prepare(low), Verdict::Beaten(high));
        assert_eq!(record.accept(low, view(1)), Verdict::Beaten(high));
        assert_eq!(record.accepted, None);
        assert_eq!(record.accept(high, view(1)), Verdict::New);
        assert_eq!(record.accept(high, view(1)), Verdict::Again);
        assert_eq!(record.accept(high, view(2)), Verdict::Reused, "a ballot has one value");

        record.learn(view(2));
        assert_eq!((record.promised, &record.accepted), (None, &None));
        assert_eq!(record.prepare(low), Verdict::New);
    }

    #[test]
    fn a_vote_is_a_promise_too() {
        let mut record = Record::<Notes>::blank(DiskId(1));
        let (low, high) = (ballot(1, 1, 1), ballot(1, 1, 2));
        assert_eq!(record.accept(high, view(1)), Verdict::New);
        assert_eq!(record.prepare(low), Verdict::Beaten(high));
        assert_eq!(record.accept(low, view(2)), Verdict::Beaten(high));
        assert_eq!(record.accepted, Some((high, view(1))));
    }

    #[test]
    fn ballots_are_ordered_by_round_and_differ_between_runs_and_disks() {
        let ordered = [ballot(1, 1, 2), ballot(1, 2, 1), ballot(1, 2, 2), ballot(2, 1, 1)];
        assert!(ordered.is_sorted_by(|one, two| one < two));
    }
}
