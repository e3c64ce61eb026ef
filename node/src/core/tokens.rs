//! The partitions of spouts, as tokens that nodes hold and pass on.
//!
//! There is one token per partition, made once when its topology starts. Who holds it reads it; when the
//! layout names another reader, the holder closes the partition, sends the token with its position, and
//! keeps it until the other has said that it arrived. So a partition is never read by two nodes, and is
//! always held by somebody who counts it. A token dies with the node that holds it.
//!
//! Messages may be lost, doubled and late. So a token counts how often it was passed on, a node that has had
//! it once does not take it a second time, and it is passed to one life of a node: a later one knows not
//! whether the earlier had it, and passed it on.

use std::collections::BTreeMap;
use std::sync::Arc;

use membership::view_log::{Head, LogId};
use membership::{Member, NodeId};
use pe::topology::Plan;
use pe::{Layout, PartitionName, PartitionReport, Position, Report};
use routing::ContainerId;
use serde::{Deserialize, Serialize};

use super::message::{Action, Message};

/// Which partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TokenId {
    /// The topology.
    pub topology: u16,
    /// The spout.
    pub prototype: u16,
    /// Which of its partitions.
    pub index: u32,
    /// How many there are.
    pub count: u32,
}

/// A partition on its way.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Token {
    /// Which.
    pub id: TokenId,
    /// Its name.
    pub name: PartitionName,
    /// Where it stands.
    pub position: Position,
    /// Whether it has nothing more.
    pub is_exhausted: bool,
    /// How often it was passed from one node to another.
    pub hops: u64,
}

/// The tokens that a node holds.
#[derive(Debug)]
pub(super) struct Tokens {
    me: NodeId,
    held: BTreeMap<TokenId, Held>,
    /// How often those that were ever held here had been passed on by then.
    had: BTreeMap<TokenId, u64>,
    /// The present lives of the members.
    lives: BTreeMap<NodeId, LogId>,
}

/// The most partitions of a spout.
pub(super) const PARTITIONS_MAX: u32 = 1 << 16;

#[derive(Debug)]
struct Held {
    token: Token,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A container of ours has it.
    Here(u16),
    /// A container of ours was asked to close it, for somebody else.
    Closing(ContainerId),
    /// It is on its way to a life of a node, or arrived without our having heard of it.
    Passing(NodeId, LogId),
}

impl Tokens {
    pub(super) fn new(me: NodeId) -> Self {
        Self { me, held: BTreeMap::new(), had: BTreeMap::new(), lives: BTreeMap::new() }
    }

    /// Makes the tokens of a spout, and gives them to their readers.
    pub(super) fn create(
        &mut self,
        (topology, prototype): (u16, u16),
        names: Vec<PartitionName>,
        layout: &Layout,
        plans: &[Arc<Plan>],
        out: &mut Vec<Action>,
    ) {
        let count = u32::try_from(names.len()).expect("fewer partitions than 2^32");
        let mut readers = Readers::new(layout, plans, self.me);
        for (index, name) in (0..).zip(names) {
            let id = TokenId { topology, prototype, index, count };
            let position = Position::default();
            let token = Token { id, name, position, is_exhausted: false, hops: 0 };
            let to = readers.of(&token);
            self.give(token, to, out);
        }
    }

    /// A token arrived from another node.
    pub(super) fn take(
        &mut self,
        token: Token,
        layout: &Layout,
        plans: &[Arc<Plan>],
        out: &mut Vec<Action>,
    ) {
        // Said again, since our answer was lost; by now it may be elsewhere.
        if self.had.get(&token.id).is_some_and(|&hops| hops >= token.hops) {
            return;
        }
        self.had.insert(token.id, token.hops);
        let meant = Readers::new(layout, plans, self.me).of(&token);
        // By an older layout than ours: it is read here until the next one.
        let here = ContainerId { node: self.me, container: 0 };
        self.give(token, if meant.node == self.me { meant } else { here }, out);
    }

    /// Another node has a token.
    pub(super) fn taken(&mut self, by: NodeId, id: TokenId, hops: u64) {
        let is_meant = |held: &Held| {
            matches!(held.state, State::Passing(to, _) if to == by) && held.token.hops == hops
        };
        if self.held.get(&id).is_some_and(is_meant) {
            self.held.remove(&id);
        }
    }

    /// Learns of the members; tokens on their way to a life that is over are gone with it, since it may have
    /// read of them.
    pub(super) fn know(&mut self, head: &Head) -> Vec<PartitionName> {
        self.lives = head.seats.iter().map(|seat| (seat.node(), seat.log)).collect();
        let lives = &self.lives;
        let is_lost = |_: &TokenId, held: &mut Held| matches!(held.state, State::Passing(to, life) if lives.get(&to) != Some(&life));
        self.held.extract_if(.., is_lost).map(|(_, held)| held.token.name).collect()
    }

    /// A container closed a partition: now it can go.
    pub(super) fn closed(
        &mut self,
        (topology, prototype): (u16, u16),
        name: &PartitionName,
        state: Option<PartitionReport>,
        out: &mut Vec<Action>,
    ) {
        let found = self.held.iter().find(|(id, held)| {
            (id.topology, id.prototype) == (topology, prototype) && held.token.name == *name
        });
        let Some((&id, &Held { state: State::Closing(to), .. })) = found else { return };
        let mut held = self.held.remove(&id).expect("just found");
        if let Some(state) = state {
            held.token.position = state.position;
            held.token.is_exhausted = state.is_exhausted;
        }
        self.give(held.token, to, out);
    }

    /// Moves the tokens to the readers of a new layout.
    pub(super) fn lay(&mut self, layout: &Layout, plans: &[Arc<Plan>], out: &mut Vec<Action>) {
        let me = self.me;
        let am_active = layout.is_active(me);
        let mut readers = Readers::new(layout, plans, me);
        for held in self.held.values_mut() {
            if held.token.is_exhausted && am_active {
                continue;
            }
            let to = readers.of(&held.token);
            match held.state {
                State::Here(container) if to != (ContainerId { node: me, container }) => {
                    held.state = State::Closing(to);
                    let TokenId { topology, prototype, .. } = held.token.id;
                    let name = held.token.name.clone();
                    out.push(Action::Close { container, topology, prototype, name });
                }
                State::Closing(_) => held.state = State::Closing(to),
                // Who gets it passes it on.
                State::Here(_) | State::Passing(..) => {}
            }
        }
    }

    /// Takes over what a container says of its partitions.
    pub(super) fn reported(&mut self, report: &Report) {
        for held in
            self.held.values_mut().filter(|held| held.state == State::Here(report.container))
        {
            let id = held.token.id;
            let run = report.runs.get(usize::from(id.topology));
            let host = run.and_then(|run| run.hosts.get(usize::from(id.prototype)));
            let mut partitions = host.into_iter().flat_map(|host| &host.partitions);
            if let Some(state) = partitions.find(|state| state.name == held.token.name) {
                held.token.position = state.position;
                held.token.is_exhausted = state.is_exhausted;
            }
        }
    }

    /// Sends what is on its way, and may have been lost on it.
    pub(super) fn say(&self, live: &BTreeMap<NodeId, Member>, out: &mut Vec<Action>) {
        for held in self.held.values() {
            if let State::Passing(node, to) = held.state
                && let Some(member) = live.get(&node)
            {
                let token = held.token.clone();
                out.push(Action::Send(member.clone(), Message::Token { token, to }));
            }
        }
    }

    /// How many partitions of a topology are held here and not exhausted.
    pub(super) fn open(&self, topology: u16) -> u64 {
        let of_topology = self.held.values().filter(|held| held.token.id.topology == topology);
        of_topology.filter(|held| !held.token.is_exhausted).count() as u64
    }

    /// Whether no token is left that another node could read.
    pub(super) fn is_given_away(&self) -> bool {
        self.held.values().all(|held| held.token.name.is_pinned())
    }

    /// What is held here of a spout.
    pub(super) fn of(&self, topology: u16, prototype: u16) -> impl Iterator<Item = &Token> {
        let is_of = move |id: &TokenId| (id.topology, id.prototype) == (topology, prototype);
        self.held.iter().filter(move |(id, _)| is_of(id)).map(|(_, held)| &held.token)
    }

    fn give(&mut self, mut token: Token, to: ContainerId, out: &mut Vec<Action>) {
        let id = token.id;
        let state = if to.node == self.me {
            let TokenId { topology, prototype, .. } = id;
            let (container, name, position) = (to.container, token.name.clone(), token.position);
            if !token.is_exhausted {
                out.push(Action::Open { container, topology, prototype, name, position });
            }
            State::Here(to.container)
        } else {
            token.hops += 1;
            // Said until it is taken: see `say`.
            State::Passing(to.node, self.lives[&to.node])
        };
        self.held.insert(id, Held { token, state });
    }
}

/// Who reads which partition under a layout; worked out once per spout.
struct Readers<'l> {
    layout: &'l Layout,
    plans: &'l [Arc<Plan>],
    me: NodeId,
    by_spout: BTreeMap<(u16, u16, u32), Vec<ContainerId>>,
}

impl<'l> Readers<'l> {
    fn new(layout: &'l Layout, plans: &'l [Arc<Plan>], me: NodeId) -> Self {
        Self { layout, plans, me, by_spout: BTreeMap::new() }
    }

    fn of(&mut self, token: &Token) -> ContainerId {
        if token.name.is_pinned() {
            return ContainerId { node: self.me, container: 0 };
        }
        let TokenId { topology, prototype, index, count } = token.id;
        let readers = self.by_spout.entry((topology, prototype, count)).or_insert_with(|| {
            let plan = &self.plans[usize::from(topology)];
            self.layout.readers(plan, usize::from(prototype), count as usize)
        });
        readers[index as usize]
    }
}
