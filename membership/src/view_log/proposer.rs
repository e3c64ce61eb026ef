//! The proposer's side of Paxos: one attempt at a time to have the next view decided.
//!
//! An attempt asks the voters of the *present* view for promises, then for votes. What matters is what
//! it may propose: if any voter of the majority has voted already, the value of the highest such ballot,
//! for it may be decided. And once per ballot: a second value under it might be decided beside the
//! first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::record::{Accepted, Ballot};
use super::{Body, Config, DiskId, Head, View};
use crate::Time;

/// How far an attempt has come.
#[derive(Debug)]
pub(super) enum Attempt<B> {
    /// There is none.
    None,
    /// Asking for promises.
    Preparing(Ballot, BTreeMap<DiskId, Option<Accepted<B>>>),
    /// Asking for votes.
    Accepting(Ballot, Arc<View<B>>, BTreeSet<DiskId>),
}

/// The attempts of this node at one number.
#[derive(Debug)]
pub(super) struct Proposer<B> {
    pub(super) attempt: Attempt<B>,
    /// The highest round that was heard of.
    round: u64,
    /// When to ask again those who have not answered, and how long to wait after that.
    retry: (Time, Duration),
    /// No new attempt before.
    pub(super) not_before: Time,
    /// How often an attempt was beaten.
    setbacks: u32,
}

/// Rivals wait at most so many doublings of the delay.
const SETBACKS_MAX: u32 = 4;

impl<B: Body> Proposer<B> {
    pub(super) fn new() -> Self {
        Self {
            attempt: Attempt::None,
            round: 0,
            retry: (Time::default(), Duration::ZERO),
            not_before: Time::default(),
            setbacks: 0,
        }
    }

    /// Begins an attempt above all rounds that were heard of; the caller asks the voters.
    pub(super) fn begin(
        &mut self,
        now: Time,
        promised: Option<Ballot>,
        ballot: Ballot,
        config: &Config,
    ) {
        let heard = promised.map_or(0, |promised| promised.round).max(self.round);
        self.round = heard + 1;
        let ballot = Ballot { round: self.round, ..ballot };
        self.attempt = Attempt::Preparing(ballot, BTreeMap::new());
        self.retry = (now + config.retry, config.retry);
    }

    /// Notes a promise; whether a value is now to be chosen.
    pub(super) fn promised(
        &mut self,
        head: &Head,
        disk: DiskId,
        ballot: Ballot,
        accepted: Option<Accepted<B>>,
    ) -> bool {
        let Attempt::Preparing(mine, promises) = &mut self.attempt else { return false };
        if *mine == ballot && head.is_voter(disk) {
            promises.insert(disk, accepted);
        }
        promises.len() >= head.majority()
    }

    /// The value that may already be decided, and so has to be proposed.
    pub(super) fn bound(&self) -> Option<Arc<View<B>>> {
        let Attempt::Preparing(_, promises) = &self.attempt else { return None };
        let voted = promises.values().flatten().max_by_key(|(ballot, _)| *ballot);
        voted.map(|(_, value)| Arc::clone(value))
    }

    /// Who has promised in this attempt, and so was there a moment ago.
    pub(super) fn answered(&self) -> BTreeSet<DiskId> {
        match &self.attempt {
            Attempt::Preparing(_, promises) => promises.keys().copied().collect(),
            Attempt::None | Attempt::Accepting(..) => BTreeSet::new(),
        }
    }

    /// Settles what this ballot is for; the caller asks the voters.
    pub(super) fn choose(&mut self, now: Time, value: Arc<View<B>>, config: &Config) {
        if let Attempt::Preparing(ballot, _) = self.attempt {
            self.attempt = Attempt::Accepting(ballot, value, BTreeSet::new());
            self.retry = (now + config.retry, config.retry);
        }
    }

    /// Notes a vote; the value once it is decided.
    pub(super) fn voted(
        &mut self,
        head: &Head,
        disk: DiskId,
        ballot: Ballot,
    ) -> Option<Arc<View<B>>> {
        let Attempt::Accepting(mine, value, votes) = &mut self.attempt else { return None };
        if *mine == ballot && head.is_voter(disk) {
            votes.insert(disk);
        }
        (votes.len() >= head.majority()).then(|| Arc::clone(value))
    }

    /// A voter has promised a higher ballot. We wait for about a turn and then outbid it; by chance, as
    /// two rivals that waited alike would meet again.
    pub(super) fn beaten(&mut self, now: Time, by: Ballot, config: &Config, chance: f64) {
        self.round = self.round.max(by.round);
        self.attempt = Attempt::None;
        let longest = config.rank_delay * (1 << self.setbacks);
        self.setbacks = (self.setbacks + 1).min(SETBACKS_MAX);
        self.not_before =
            self.not_before.max(now + config.rank_delay / 2 + longest.mul_f64(chance));
    }

    /// Another node has begun an attempt, which we leave it some time for.
    pub(super) fn give_way(&mut self, now: Time, to: Ballot, config: &Config) {
        let is_beaten = self.ballot().is_some_and(|mine| mine < to);
        if is_beaten || self.is_idle() {
            self.attempt = Attempt::None;
            self.round = self.round.max(to.round);
            self.not_before = self.not_before.max(now + config.rank_delay);
        }
    }

    /// Whether those who have not answered are to be asked again.
    pub(super) fn is_retry_due(&mut self, now: Time, config: &Config) -> bool {
        let (at, wait) = self.retry;
        let is_due = !self.is_idle() && at <= now;
        if is_due {
            let longer = (wait * 2).min(config.retry_max);
            self.retry = (now + longer, longer);
        }
        is_due
    }

    pub(super) fn retry_at(&self) -> Option<Time> {
        (!self.is_idle()).then_some(self.retry.0)
    }

    /// The highest round that was heard of.
    pub(super) fn rounds_heard(&self) -> u64 {
        self.round
    }

    pub(super) fn is_idle(&self) -> bool {
        matches!(self.attempt, Attempt::None)
    }

    fn ballot(&self) -> Option<Ballot> {
        match &self.attempt {
            Attempt::None => None,
            Attempt::Preparing(ballot, _) | Attempt::Accepting(ballot, ..) => Some(*ballot),
        }
    }

    /// Whether this ballot is the one under way.
    pub(super) fn is_mine(&self, ballot: Ballot) -> bool {
        self.ballot() == Some(ballot)
    }
}
