//! Who is believed to be alive, who used to be, and what may be said about them.
//!
//! foca keeps a list of its own, but it believes whoever has the larger number, and forgets. The
//! roster decides what foca gets to hear, and turns changes of foca's list into actions.

use std::collections::BTreeMap;

use crate::codec::Update;
use crate::identity::Identity;
use crate::{Action, Member, NodeId, Reason, Refusal, Run};

/// A run grows by one at a start: nobody starts four thousand million times unnoticed.
const RUN_JUMP_MAX: u64 = 1 << 32;

/// A renewal takes at least a period of probes; we cannot have missed that many.
const RENEWAL_JUMP_MAX: u16 = 1 << 10;

#[derive(Debug)]
pub(crate) struct Roster {
    me: NodeId,
    /// Ourselves included. Ordered, so that a seed replays.
    alive: BTreeMap<NodeId, Identity>,
    /// The last that was known of nodes that are gone, and a number that says since when.
    graves: BTreeMap<NodeId, (u64, Identity)>,
    graves_max: usize,
    buried: u64,
}

impl Roster {
    pub(crate) fn new(me: Identity, graves_max: usize) -> Self {
        let node = me.node();
        Self {
            me: node,
            alive: [(node, me)].into(),
            graves: BTreeMap::new(),
            graves_max,
            buried: 0,
        }
    }

    /// Takes over foca's list, and says what has changed: first who is gone, then who is there,
    /// each ordered by node.
    pub(crate) fn reconcile<'a>(
        &mut self,
        list: impl Iterator<Item = &'a Update>,
        out: &mut Vec<Action>,
    ) {
        let list: BTreeMap<_, _> = list.map(|update| (update.id().node(), update)).collect();
        let others = self.alive.values().filter(|id| id.node() != self.me);
        let gone: Vec<_> = others
            .filter_map(|id| Some((id.node(), departure(id, list.get(&id.node()).copied())?)))
            .collect();
        for (node, reason) in gone {
            let id = self.alive.remove(&node).expect("it was found among the living");
            // The last that is known may be of a run that we never saw alive.
            self.bury(list.get(&node).map_or(&id, |update| update.id()).clone());
            out.push(Action::Down(id.member, reason));
        }
        for update in list.into_values().filter(|update| is_up(update)) {
            let (node, id) = (update.id().node(), update.id().clone());
            if node != self.me && self.alive.insert(node, id).is_none() {
                self.graves.remove(&node);
                out.push(Action::Up(update.id().member.clone()));
            }
        }
    }

    /// We have come back under a new renewal.
    pub(crate) fn renew(&mut self, me: Identity) {
        self.alive.insert(self.me, me);
    }

    /// Whether what a peer says of a node can be true.
    pub(crate) fn check(&self, id: &Identity) -> Result<(), Refusal> {
        let member = &id.member;
        check_limits(id)?;
        let last = self.last(member.node);
        let run = last.map_or(Run(0), |last| last.member.run);
        if member.run.0.saturating_sub(run.0) > RUN_JUMP_MAX {
            return Err(Refusal::Incarnation(id.node(), id.member.run));
        }
        let Some(last) = last else { return Ok(()) };
        if member.run < run {
            return Err(Refusal::OlderRun(id.node(), id.member.run));
        }
        if member.run == run && *member != last.member {
            return Err(Refusal::Conflict(id.node(), id.member.run));
        }
        if member.run == run && id.renewal.saturating_sub(last.renewal) > RENEWAL_JUMP_MAX {
            return Err(Refusal::Incarnation(id.node(), id.member.run));
        }
        Ok(())
    }

    /// What is known of a node that is or was there.
    fn last(&self, node: NodeId) -> Option<&Identity> {
        self.alive.get(&node).or_else(|| self.graves.get(&node).map(|(_, id)| id))
    }

    /// Whether this member will never answer again: it has left, or another run came after it.
    pub(crate) fn has_departed(&self, member: &Member) -> bool {
        self.last(member.node).is_some_and(|last| {
            member.run < last.member.run || (member.run == last.member.run && last.has_left)
        })
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.alive.values().map(|id| &id.member)
    }

    fn bury(&mut self, id: Identity) {
        self.buried += 1;
        self.graves.insert(id.node(), (self.buried, id));
        if self.graves.len() > self.graves_max {
            let oldest = self.graves.iter().min_by_key(|(_, (buried, _))| *buried);
            if let Some(node) = oldest.map(|(&node, _)| node) {
                self.graves.remove(&node);
            }
        }
    }
}

/// Whether the numbers and lengths are ones that a node could honestly have.
pub(crate) fn check_limits(id: &Identity) -> Result<(), Refusal> {
    if id.member.peer.len() > Member::PEER_BYTES_MAX {
        return Err(Refusal::PeerTooLong(id.node()));
    }
    if id.member.run == Run(u64::MAX) || id.renewal > Identity::RENEWAL_MAX {
        return Err(Refusal::Incarnation(id.node(), id.member.run));
    }
    Ok(())
}

/// Whether our own run is one that others, who do not know us yet, will believe.
pub(crate) fn is_credible(run: Run) -> bool {
    run.0 <= RUN_JUMP_MAX
}

fn is_up(update: &Update) -> bool {
    update.state() != foca::State::Down && !update.id().has_left
}

/// Why a node that was up no longer is what it was; nothing if it still is.
fn departure(id: &Identity, update: Option<&Update>) -> Option<Reason> {
    let Some(update) = update else { return Some(Reason::Failed) };
    if id.member.run < update.id().member.run {
        Some(Reason::Restarted)
    } else if update.id().has_left {
        Some(Reason::Left)
    } else if is_up(update) {
        None
    } else {
        Some(Reason::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    use foca::State;

    fn id(node: u64, run: u64) -> Identity {
        let addr = SocketAddr::from(([10, 0, 0, 1], 7000));
        Identity::new(Member {
            node: NodeId(node),
            run: Run(run),
            peer: Vec::new(),
            control: addr,
            data: addr,
            http: None,
            containers: 1,
        })
    }

    #[test]
    fn a_dead_node_is_remembered_after_foca_has_forgotten_but_not_without_limit() {
        let mut roster = Roster::new(id(1, 1), 2);
        for node in 2..=4 {
            let up = foca::Member::new(id(node, 7), 0, State::Alive);
            roster.reconcile([up].iter(), &mut Vec::new());
            roster.reconcile([].iter(), &mut Vec::new());
        }
        for node in [3, 4] {
            let older = roster.check(&id(node, 6));
            assert_eq!(older, Err(Refusal::OlderRun(NodeId(node), Run(6))));
            assert_eq!(roster.check(&id(node, 7)), Ok(()));
            assert_eq!(roster.check(&id(node, 8)), Ok(()));
        }
        assert_eq!(roster.check(&id(2, 6)), Ok(()), "the oldest grave makes room");
    }

    #[test]
    fn a_jump_is_measured_from_what_is_known() {
        let mut roster = Roster::new(id(1, 1), 2);
        let refused = |node, run| Err(Refusal::Incarnation(NodeId(node), Run(run)));
        assert_eq!(roster.check(&id(2, RUN_JUMP_MAX)), Ok(()));
        assert_eq!(roster.check(&id(2, RUN_JUMP_MAX + 1)), refused(2, RUN_JUMP_MAX + 1));
        let up = foca::Member::new(id(2, RUN_JUMP_MAX), 0, State::Alive);
        roster.reconcile([up].iter(), &mut Vec::new());
        assert_eq!(roster.check(&id(2, RUN_JUMP_MAX + 1)), Ok(()));
        assert_eq!(roster.check(&id(2, 2 * RUN_JUMP_MAX + 1)), refused(2, 2 * RUN_JUMP_MAX + 1));
    }
}
