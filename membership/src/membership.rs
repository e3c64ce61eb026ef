//! The state machine: what comes in, what goes out, and foca in between.
//!
//! foca knows SWIM. What it leaves to its user is here: when its timers are due, whom to believe,
//! asking again when a packet was lost on joining, evidence from outside, and what to do when nobody
//! answers at all.

mod hearsay;

use std::fmt;
use std::time::Duration;

use foca::{Foca, NoCustomBroadcast, State, Timer};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::agenda::{Agenda, Alarm};
use crate::codec::Codec;
use crate::effects::Effects;
use crate::identity::Identity;
use crate::roster::{Roster, is_credible};
use crate::{Action, Config, ConfigError, Input, Member, NodeId, Refusal, Time};

/// What one node believes about who is there.
pub struct Membership {
    me: Member,
    config: Config,
    foca: Foca<Identity, Codec, StdRng, NoCustomBroadcast>,
    effects: Effects,
    agenda: Agenda,
    roster: Roster,
    /// Until then we do not come back from being down again. Without a pause, a node that nobody
    /// believes would spend its renewals as fast as packets travel.
    renews_from: Time,
    /// Whom to knock at next; see [`Alarm::Knock`].
    knocks: usize,
    /// We have left, or cannot come back.
    is_over: bool,
}

impl Membership {
    /// A node that knows of itself only.
    ///
    /// `seed` decides whom it probes and tells, and must differ between nodes. IPv6 scopes are
    /// taken off the addresses of `me`.
    pub fn new(me: Member, config: Config, seed: u64) -> Result<Self, ConfigError> {
        let config = config.check()?;
        if me.peer.len() > Member::PEER_BYTES_MAX {
            return Err(ConfigError::PeerTooLong);
        }
        if !is_credible(me.run) {
            return Err(ConfigError::RunTooLarge);
        }
        let me = me.portable();
        let id = Identity::new(me.clone());
        let rng = StdRng::seed_from_u64(seed);
        Ok(Self {
            foca: Foca::new(id.clone(), config.foca(), rng, Codec),
            roster: Roster::new(id, config.members_max),
            me,
            config,
            effects: Effects::default(),
            agenda: Agenda::default(),
            renews_from: Time::default(),
            knocks: 0,
            is_over: false,
        })
    }

    /// Takes one input and appends to `out` what is to be done about it.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Vec<Action>) {
        if self.is_over {
            return;
        }
        self.forgive_ourselves(now);
        match input {
            Input::Received(bytes) => self.receive(now, &bytes, out),
            Input::Woke => {
                while let Some(alarm) = self.agenda.pop(now) {
                    self.ring(now, alarm);
                    self.settle(now, out);
                }
            }
            Input::Met(member) => self.meet(now, member, out),
            Input::Lost(node) => self.lose(now, node),
            Input::Leave => self.leave(),
        }
        self.settle(now, out);
    }

    /// When [`Input::Woke`] is due next; never while nobody else is known or was met.
    pub fn deadline(&self) -> Option<Time> {
        self.agenda.next()
    }

    /// What we tell the others of ourselves.
    pub fn me(&self) -> &Member {
        &self.me
    }

    /// The members believed to be alive, ourselves included, ordered by [`NodeId`].
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.roster.members()
    }

    /// If we were woken late, it was we who did not answer.
    ///
    /// A stopped process, or a machine that was asleep, would otherwise find the time of every
    /// probe run out before it has read a single answer. This is the part of Lifeguard's local
    /// health that foca lacks and that matters most.
    fn forgive_ourselves(&mut self, now: Time) {
        let late = self.deadline().map_or(Duration::ZERO, |deadline| now - deadline);
        if late > self.config.probe_period {
            tracing::warn!(?late, "woken late, putting off all judgements");
            self.agenda.postpone(late);
        }
    }

    fn meet(&mut self, now: Time, member: Member, out: &mut Vec<Action>) {
        let member = member.portable();
        let refusal = if member.node == self.me.node {
            Some(Refusal::FromMyself)
        } else if self.agenda.announces() >= self.config.members_max {
            Some(Refusal::Full(member.node, member.run))
        } else {
            self.check(&Identity::new(member.clone())).err()
        };
        if let Some(refusal) = refusal {
            return out.push(Action::Refused(refusal));
        }
        self.agenda.cancel_judgement(member.node);
        self.agenda.cancel_announces(member.node);
        self.announce(now, member, self.config.announce_wait);
    }

    /// Asks to join through `to`, and again later, until it has answered with its list. That it is
    /// up would not do: gossip may have said so while the list was lost.
    fn announce(&mut self, now: Time, to: Member, wait: Duration) {
        note(self.foca.announce(Identity::new(to.clone()), &mut self.effects));
        let longer = (wait * 2).min(self.config.announce_wait_max);
        self.agenda.set(now + wait, Alarm::Announce(to, longer));
    }

    /// Suspicion with a short time to object, and not down at once: the evidence is ours alone. If
    /// only our link to the node is broken, to declare it down would take it from everybody and
    /// bring it back a moment later, while this way it objects and nobody notices.
    fn lose(&mut self, now: Time, node: NodeId) {
        self.agenda.cancel_announces(node);
        let Some(lost) = self.foca.iter_members().find(|known| known.id().node() == node) else {
            return;
        };
        let (id, incarnation) = (lost.id().clone(), lost.incarnation());
        if self.agenda.has(|alarm| matches!(alarm, Alarm::Judge(judged, _) if *judged == id)) {
            return;
        }
        self.declare(id.clone(), incarnation, State::Suspect);
        note(self.foca.gossip(&mut self.effects));
        self.agenda.set(now + self.config.evidence_wait, Alarm::Judge(id, incarnation));
    }

    fn declare(&mut self, id: Identity, incarnation: foca::Incarnation, state: State) {
        let update = foca::Member::new(id, incarnation, state);
        note(self.foca.apply_many([update].into_iter(), true, &mut self.effects));
    }

    fn leave(&mut self) {
        // The new identity spreads in place of a bare down, which would look like a failure. Three
        // rounds, since we are not there to repeat what gets lost.
        let left = self.foca.identity().leave();
        note(self.foca.change_identity(left, &mut self.effects));
        note(self.foca.gossip(&mut self.effects));
        note(self.foca.leave_cluster(&mut self.effects));
        self.is_over = true;
    }

    fn ring(&mut self, now: Time, alarm: Alarm) {
        match alarm {
            // foca 2.0 tells a member that has objected in time that it is down all the same, and
            // the member believes it.
            Alarm::Foca(Timer::ChangeSuspectToDown { ref member_id, incarnation, .. })
                if !self.is_suspect(member_id, incarnation) => {}
            Alarm::Foca(timer) => note(self.foca.handle_timer(timer, &mut self.effects)),
            Alarm::Announce(to, _) if self.roster.has_departed(&to) => {}
            Alarm::Announce(to, wait) => self.announce(now, to, wait),
            Alarm::Knock(wait) => self.knock(now, wait),
            Alarm::Judge(id, incarnation) => {
                if self.is_suspect(&id, incarnation) {
                    self.declare(id, incarnation, State::Down);
                }
            }
        }
    }

    /// Whether the member has not objected since it was suspected at this incarnation.
    fn is_suspect(&self, id: &Identity, incarnation: foca::Incarnation) -> bool {
        self.foca.iter_members().any(|known| {
            known.id() == id
                && known.incarnation() == incarnation
                && known.state() == State::Suspect
        })
    }

    /// Announces us to some of those we know or knew.
    ///
    /// foca goes quiet when everybody is down, and waits when it has changed its identity until
    /// somebody answers; two halves of a split cluster would never find back.
    fn knock(&mut self, now: Time, wait: Duration) {
        let mut known: Vec<_> = self.foca.iter_membership_state().map(|m| m.id().clone()).collect();
        known.retain(|id| id.node() != self.me.node && !id.has_left);
        known.sort_by_key(Identity::node);
        if self.effects.is_connected || known.is_empty() {
            return;
        }
        for _ in 0..self.config.fanout.get().min(known.len()) {
            let to = known[self.knocks % known.len()].clone();
            self.knocks = self.knocks.wrapping_add(1);
            note(self.foca.announce(to, &mut self.effects));
        }
        let longer = (wait * 2).min(self.config.announce_wait_max);
        self.agenda.set(now + wait, Alarm::Knock(longer));
    }

    /// Turns what foca wants done into actions and alarms.
    fn settle(&mut self, now: Time, out: &mut Vec<Action>) {
        if std::mem::take(&mut self.effects.has_renewed) {
            self.renews_from = now + self.config.probe_period;
            self.roster.renew(self.foca.identity().clone());
            out.push(Action::Fenced);
        }
        if std::mem::take(&mut self.effects.is_spent) && !self.is_over {
            self.is_over = true;
            out.push(Action::Refused(Refusal::RenewalsSpent));
        }
        if std::mem::take(&mut self.effects.has_changed) {
            let before = out.len();
            self.roster.reconcile(self.foca.iter_membership_state(), out);
            // Bad news travels at once and not with the next round: slots wait for it.
            if out[before..].iter().any(|action| matches!(action, Action::Down(..))) {
                note(self.foca.gossip(&mut self.effects));
            }
        }
        for (timer, after) in self.effects.timers.drain(..) {
            self.agenda.set(now + after, Alarm::Foca(timer));
        }
        // foca calls on the dead now and then; those that have left are not coming back.
        let packets = self.effects.packets.drain(..).filter(|(to, _)| !to.has_left);
        out.extend(packets.map(|(to, bytes)| Action::Send(to.member, bytes)));

        if self.is_over {
            self.agenda.clear();
        } else if !self.effects.is_connected
            && self.foca.iter_membership_state().len() > 0
            && !self.agenda.has(|alarm| matches!(alarm, Alarm::Knock(_)))
        {
            self.agenda
                .set(now + self.config.announce_wait, Alarm::Knock(self.config.announce_wait));
        }
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Membership")
            .field("identity", self.foca.identity())
            .field("roster", &self.roster)
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}

/// Packets are checked before foca sees them, and whatever is left of its errors it recovers from by
/// itself: a probe cut short, or a timer of before an identity was changed.
fn note(result: Result<(), foca::Error>) {
    if let Err(error) = result {
        tracing::debug!(%error, "foca");
    }
}

#[cfg(test)]
mod tests {
    use super::hearsay::tests::{START, act, gossip, id, node, said, said_of};
    use super::*;
    use crate::{Reason, Run};

    #[test]
    fn changes_come_in_order_of_nodes_and_losses_first() {
        let mut node = node();
        let ups = [9, 3, 7].map(said_of);
        let up = |node| Action::Up(id(node, 1, 0).member);
        assert_eq!(gossip(&mut node, START, &ups), [up(3), up(7), up(9)]);
        let downs = [9, 7].map(|node| said(id(node, 1, 0), State::Down));
        let down = |node| Action::Down(id(node, 1, 0).member, Reason::Failed);
        let actions = gossip(&mut node, START, &[&downs[..], &[said_of(5)]].concat());
        assert_eq!(actions, [down(7), down(9), up(5)]);
        assert!(node.members().map(|member| member.node.0).eq([1, 2, 3, 5]));
    }

    #[test]
    fn a_node_out_of_renewals_says_so_once_and_goes_quiet() {
        let mut node = node();
        let last = Identity::RENEWAL_MAX - 1;
        note(node.foca.change_identity(id(1, 5, last), &mut node.effects));
        node.roster.renew(id(1, 5, last));
        let down = [said(id(1, 5, last), State::Down)];
        let spent = [Action::Refused(Refusal::RenewalsSpent)];
        assert_eq!(gossip(&mut node, START, &down), spent);
        assert_eq!((gossip(&mut node, START, &down), node.deadline()), (vec![], None));
    }

    #[test]
    fn evidence_is_dropped_when_the_node_is_met_again() {
        let mut node = node();
        let later = START + Config::lan().evidence_wait;
        act(&mut node, START, Input::Lost(NodeId(2)));
        act(&mut node, START, Input::Met(id(2, 1, 0).member));
        assert_eq!(act(&mut node, later, Input::Woke), []);
        act(&mut node, later, Input::Lost(NodeId(2)));
        let down = [Action::Down(id(2, 1, 0).member, Reason::Failed)];
        let late = later + Config::lan().evidence_wait;
        let mut out = Vec::new();
        while node.deadline().is_some_and(|deadline| deadline <= late) {
            let deadline = node.deadline().unwrap();
            out.extend(act(&mut node, deadline, Input::Woke));
        }
        assert_eq!(out, down);
    }

    #[test]
    fn who_slept_hears_the_objection_before_judging() {
        let mut node = node();
        act(&mut node, START, Input::Lost(NodeId(2)));
        let woken = START + Duration::from_secs(60);
        assert_eq!(act(&mut node, woken, Input::Woke), []);
        let objection = foca::Member::new(id(2, 1, 0), 1, State::Alive);
        assert_eq!(gossip(&mut node, woken, &[objection]), []);
        let later = woken + Config::lan().evidence_wait;
        act(&mut node, later, Input::Woke);
        assert!(node.members().any(|member| member.node == NodeId(2)));
    }

    #[test]
    fn who_has_departed_is_not_asked_again() {
        for departed in [Identity { has_left: true, ..id(3, 1, 1) }, id(3, 2, 0)] {
            let mut node = node();
            gossip(&mut node, START, &[said_of(3)]);
            act(&mut node, START, Input::Met(id(3, 1, 0).member));
            assert_eq!(node.agenda.announces(), 1);
            gossip(&mut node, START, &[said(departed, State::Down)]);
            act(&mut node, START + Config::lan().announce_wait, Input::Woke);
            assert_eq!(node.agenda.announces(), 0);
        }
    }

    #[test]
    fn no_more_are_asked_than_may_be_known() {
        let config = Config { members_max: 1, ..Config::lan() };
        let mut node = Membership::new(id(1, 5, 0).member, config, 1).unwrap();
        assert_eq!(act(&mut node, START, Input::Met(id(3, 1, 0).member)), []);
        let full = [Action::Refused(Refusal::Full(NodeId(4), Run(1)))];
        assert_eq!(act(&mut node, START, Input::Met(id(4, 1, 0).member)), full);
    }

    #[test]
    fn refuses_a_self_that_the_others_would_refuse() {
        let new = |member| Membership::new(member, Config::lan(), 1).map(|_| ()).unwrap_err();
        assert_eq!(new(id(1, u64::MAX, 0).member), ConfigError::RunTooLarge);
        let long = Member { peer: vec![0; 129], ..id(1, 1, 0).member };
        assert_eq!(new(long.clone()), ConfigError::PeerTooLong);
        let refused = [Action::Refused(Refusal::PeerTooLong(NodeId(3)))];
        let met = Input::Met(Member { node: NodeId(3), ..long });
        assert_eq!(act(&mut node(), START, met), refused);
    }
}
