//! Whom to believe, and what.
//!
//! Whoever holds the key of the cluster can say anything about anybody, and one node with a broken
//! disk or an old version is enough. foca would take the larger number; so what it gets to hear is
//! decided here, node by node, against what is known already.

use foca::{Message, State};

use super::{Membership, note};
use crate::codec::{Packet, Update};
use crate::identity::Identity;
use crate::roster::check_limits;
use crate::{Action, Refusal, Time};

impl Membership {
    pub(super) fn receive(&mut self, now: Time, bytes: &[u8], out: &mut Vec<Action>) {
        let packet = match self.admit(bytes) {
            Ok(packet) => packet,
            Err(refusal) => return out.push(Action::Refused(refusal)),
        };
        let is_turned_undead = packet.header.message == Message::TurnUndead;
        if is_turned_undead && now < self.renews_from {
            return;
        }
        let mut outbid = None;
        let mut keep = Vec::new();
        for update in packet.updates() {
            let verdict = if update.id().node() == self.me.node {
                self.hear_of_myself(now, update, &mut outbid)
            } else {
                self.hear_of_other(update)
            };
            keep.push(matches!(verdict, Heard::News));
            if let Heard::Wrong(refusal) = verdict {
                out.push(Action::Refused(refusal));
            }
        }
        let bytes = packet.stripped(&keep);
        note(self.foca.handle_data(&bytes, &mut self.effects));
        if let Some(id) = outbid.and_then(|renewal| self.foca.identity().after(renewal)) {
            note(self.foca.change_identity(id, &mut self.effects));
            self.effects.has_renewed = true;
            self.effects.is_connected = false;
        }
        if packet.header.message == Message::Feed && packet.header.dst == *self.foca.identity() {
            self.agenda.cancel_announces(packet.header.src.node());
        }
        if is_turned_undead && self.effects.has_renewed {
            // Whoever told us does not count us among the living, so gossip would pass it by.
            note(self.foca.announce(packet.header.src, &mut self.effects));
        }
    }

    /// Reads a packet and decides whether to listen to its sender.
    fn admit<'a>(&self, bytes: &'a [u8]) -> Result<Packet<'a>, Refusal> {
        if bytes.len() > self.config.packet_bytes_max {
            return Err(Refusal::TooLong(bytes.len()));
        }
        let packet = Packet::read(bytes)?;
        let subject = packet.subject();
        let is_about_me = subject.is_some_and(|id| id.node() == self.me.node);
        let to = &packet.header.dst;
        if to.node() != self.me.node || is_about_me {
            return Err(Refusal::Misaddressed);
        }
        if self.me.run < to.member.run {
            return Err(Refusal::Superseded(to.node(), to.member.run));
        }
        if packet.header.src.node() == self.me.node {
            return Err(Refusal::FromMyself);
        }
        self.check(&packet.header.src)?;
        subject.map_or(Ok(()), check_limits)?;
        Ok(packet)
    }

    /// Whether what is said of another node can be true, and there is room for it.
    pub(super) fn check(&self, id: &Identity) -> Result<(), Refusal> {
        self.roster.check(id)?;
        let mut known = self.foca.iter_membership_state();
        let is_full = known.len() >= self.config.members_max;
        if is_full && known.all(|other| other.id().node() != id.node()) {
            return Err(Refusal::Full(id.node(), id.member.run));
        }
        Ok(())
    }

    fn hear_of_other(&self, update: &Update) -> Heard {
        match self.check(update.id()) {
            Ok(()) if update.incarnation() == foca::Incarnation::MAX => {
                // No higher one could ever object to it.
                Heard::Wrong(Refusal::Incarnation(update.id().node(), update.id().member.run))
            }
            Ok(()) => Heard::News,
            // Talk about a former run goes on for a while after a restart.
            Err(Refusal::OlderRun(..)) => Heard::Stale,
            Err(refusal) => Heard::Wrong(refusal),
        }
    }

    /// Decides about what others say of us. Only we raise our run and renewal, so whatever is
    /// higher is made up; it would count, though, so we have to go beyond it.
    fn hear_of_myself(&self, now: Time, update: &Update, outbid: &mut Option<u16>) -> Heard {
        let (id, mine) = (update.id(), self.foca.identity());
        if let Err(refusal) = check_limits(id) {
            return Heard::Wrong(refusal);
        }
        if id.member.run < self.me.run {
            return Heard::Stale;
        }
        match self.roster.check(id) {
            Ok(()) if id.member.run > self.me.run => {
                return Heard::Wrong(Refusal::Superseded(id.node(), id.member.run));
            }
            Ok(()) => (),
            Err(refusal) => return Heard::Wrong(refusal),
        }
        if id == mine {
            let is_too_soon = update.state() == State::Down && now < self.renews_from;
            return if is_too_soon { Heard::Stale } else { Heard::News };
        }
        if id.renewal < mine.renewal {
            return Heard::Stale;
        }
        *outbid = (*outbid).max(Some(id.renewal));
        Heard::Wrong(Refusal::Incarnation(id.node(), id.member.run))
    }
}

/// What becomes of one update in a packet.
enum Heard {
    News,
    /// Once true; of no use now, and nobody's fault.
    Stale,
    Wrong(Refusal),
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::time::Duration;

    use bytes::BufMut;
    use foca::{Codec as _, Header, Incarnation};

    use crate::codec::Codec;
    use crate::{Config, Input, Member, NodeId, Reason, Run};

    pub(crate) const START: Time = Time(Duration::ZERO);

    pub(crate) fn id(node: u64, run: u64, renewal: u16) -> Identity {
        let addr = SocketAddr::from(([10, 0, 0, 1], 7000));
        let member = Member {
            node: NodeId(node),
            run: Run(run),
            peer: vec![1],
            control: addr,
            data: addr,
            http: None,
            containers: 1,
        };
        Identity { member, renewal, has_left: false }
    }

    pub(crate) fn said(id: Identity, state: State) -> Update {
        foca::Member::new(id, 0, state)
    }

    pub(crate) fn said_of(node: u64) -> Update {
        said(id(node, 1, 0), State::Alive)
    }

    fn packet(src: Identity, dst: Identity, message: Message<Identity>, said: &[Update]) -> Input {
        let header = Header { src, src_incarnation: 0, dst, message };
        let mut bytes = Vec::new();
        Codec.encode_header(&header, &mut bytes).unwrap();
        if !matches!(header.message, Message::Announce | Message::TurnUndead) {
            bytes.put_u16(u16::try_from(said.len()).unwrap());
        }
        for update in said {
            Codec.encode_member(update, &mut bytes).unwrap();
        }
        Input::Received(bytes)
    }

    /// Node 1, run 5, which knows node 2.
    pub(crate) fn node() -> Membership {
        let mut node = Membership::new(id(1, 5, 0).member, Config::lan(), 1).unwrap();
        gossip(&mut node, START, &[]);
        node
    }

    /// Has node 2 say something, and gives the actions but the sending.
    pub(crate) fn gossip(node: &mut Membership, now: Time, said: &[Update]) -> Vec<Action> {
        let me = node.foca.identity().clone();
        act(node, now, packet(id(2, 1, 0), me, Message::Gossip, said))
    }

    pub(crate) fn act(node: &mut Membership, now: Time, input: Input) -> Vec<Action> {
        let mut out = Vec::new();
        node.step(now, input, &mut out);
        out.retain(|action| !matches!(action, Action::Send(..)));
        out
    }

    #[test]
    fn what_is_wrong_about_one_node_is_cut_out_and_the_rest_believed() {
        let mut node = node();
        let other = Member { peer: vec![2], ..id(2, 1, 0).member };
        let wrong = [
            (id(3, u64::MAX, 0), Refusal::Incarnation(NodeId(3), Run(u64::MAX))),
            (id(3, 1, u16::MAX), Refusal::Incarnation(NodeId(3), Run(1))),
            (id(2, 1, 2000), Refusal::Incarnation(NodeId(2), Run(1))),
            (Identity::new(other), Refusal::Conflict(NodeId(2), Run(1))),
        ];
        for (id, refusal) in wrong {
            let said = [said(id, State::Alive), said_of(4)];
            let expected = [Action::Refused(refusal)];
            let actions = gossip(&mut node, START, &said);
            assert_eq!(actions[..1], expected);
        }
        assert!(node.members().any(|member| member.node == NodeId(4)));
        let limit = foca::Member::new(id(4, 1, 0), Incarnation::MAX, State::Suspect);
        let expected = [Action::Refused(Refusal::Incarnation(NodeId(4), Run(1)))];
        assert_eq!(gossip(&mut node, START, &[limit]), expected);
    }

    #[test]
    fn a_node_that_is_full_refuses_new_ones_and_keeps_the_old() {
        let config = Config { members_max: 2, ..Config::lan() };
        let mut node = Membership::new(id(1, 5, 0).member, config, 1).unwrap();
        let full = || Action::Refused(Refusal::Full(NodeId(4), Run(1)));
        gossip(&mut node, START, &[said_of(3)]);
        assert_eq!(gossip(&mut node, START, &[said_of(4)]), [full()]);
        assert_eq!(act(&mut node, START, Input::Met(id(4, 1, 0).member)), [full()]);
        let restarted =
            [Action::Down(id(3, 1, 0).member, Reason::Restarted), Action::Up(id(3, 2, 0).member)];
        assert_eq!(gossip(&mut node, START, &[said(id(3, 2, 0), State::Alive)]), restarted);
    }

    #[test]
    fn a_renewal_is_no_change_to_others_and_a_death_in_a_later_run_is_one() {
        let mut node = node();
        gossip(&mut node, START, &[said_of(3)]);
        assert_eq!(gossip(&mut node, START, &[said(id(3, 1, 1), State::Alive)]), []);
        let gone = [Action::Down(id(3, 1, 0).member, Reason::Restarted)];
        assert_eq!(gossip(&mut node, START, &[said(id(3, 2, 0), State::Down)]), gone);
        // And nobody is there to be down once more.
        assert_eq!(gossip(&mut node, START, &[said(id(3, 3, 0), State::Down)]), []);
    }

    #[test]
    fn a_node_comes_back_from_being_down_but_not_twice_in_a_moment() {
        let mut node = node();
        let down = |renewal| [said(id(1, 5, renewal), State::Down)];
        assert_eq!(gossip(&mut node, START, &down(0)), [Action::Fenced]);
        assert_eq!(node.foca.identity().renewal, 1);
        assert_eq!(gossip(&mut node, START, &down(1)), []);
        let undead = || packet(id(2, 1, 0), id(1, 5, 1), Message::TurnUndead, &[]);
        assert_eq!(act(&mut node, START, undead()), []);
        let later = START + Config::lan().probe_period;
        assert_eq!(act(&mut node, later, undead()), [Action::Fenced]);
        // What is said of a former self is of no interest.
        assert_eq!(gossip(&mut node, later, &down(0)), []);
        assert_eq!((node.foca.identity().renewal, node.me()), (2, &id(1, 5, 0).member));
    }

    #[test]
    fn a_request_to_probe_ourselves_is_refused() {
        let ping = Message::PingReq { target: id(1, 5, 0), probe_number: 1 };
        let actions = act(&mut node(), START, packet(id(2, 1, 0), id(1, 5, 0), ping, &[]));
        assert_eq!(actions, [Action::Refused(Refusal::Misaddressed)]);
    }

    #[test]
    fn a_forged_self_is_outbid_and_a_later_run_is_reported() {
        let mut node = node();
        let refused = Action::Refused(Refusal::Incarnation(NodeId(1), Run(5)));
        let forged = Identity { has_left: true, ..id(1, 5, 9) };
        let actions = gossip(&mut node, START, &[said(forged, State::Down)]);
        assert_eq!(actions, [refused.clone(), Action::Fenced]);
        assert_eq!(node.foca.identity().renewal, 10);
        assert_eq!(gossip(&mut node, START, &[said(id(1, 5, 5000), State::Alive)]), [refused]);
        assert_eq!(node.foca.identity().renewal, 10);

        let superseded = [Action::Refused(Refusal::Superseded(NodeId(1), Run(6)))];
        assert_eq!(gossip(&mut node, START, &[said(id(1, 6, 0), State::Alive)]), superseded);
        let astray = packet(id(2, 1, 0), id(1, 6, 0), Message::Announce, &[]);
        assert_eq!(act(&mut node, START, astray), superseded);
        assert_eq!(gossip(&mut node, START, &[said(id(1, 4, 0), State::Alive)]), []);
    }
}
