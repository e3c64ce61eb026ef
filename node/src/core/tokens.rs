//! The partitions of spouts, as tokens that nodes hold and pass on.
//!
//! There is one token per partition, made once when its topology starts. Who holds it reads it; when the
//! layout names another reader, the holder closes the partition, sends the token with its position, and
//! keeps it until the other has said that it arrived. So a partition is never read by two nodes, and is
//! always held by somebody who counts it. A token dies with the node that holds it.

use std::collections::BTreeMap;
use std::sync::Arc;

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
}

/// The tokens that a node holds.
#[derive(Debug)]
pub(super) struct Tokens {
    me: NodeId,
    held: BTreeMap<TokenId, Held>,
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
    /// It is on its way, or arrived without our having heard of it.
    Passing(NodeId),
}

impl Tokens {
    pub(super) fn new(me: NodeId) -> Self {
        Self { me, held: BTreeMap::new() }
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
            let token = Token { id, name, position: Position::default(), is_exhausted: false };
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
        // Said again, since our answer was lost.
        if self.held.get(&token.id).is_some_and(|held| !matches!(held.state, State::Passing(_))) {
            return;
        }
        let meant = Readers::new(layout, plans, self.me).of(&token);
        // By an older layout than ours: it is read here until the next one.
        let here = ContainerId { node: self.me, container: 0 };
        self.give(token, if meant.node == self.me { meant } else { here }, out);
    }

    /// Another node has a token.
    pub(super) fn taken(&mut self, by: NodeId, id: TokenId) {
        if self.held.get(&id).is_some_and(|held| held.state == State::Passing(by)) {
            self.held.remove(&id);
        }
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
                State::Here(_) | State::Passing(_) => {}
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
            if let State::Passing(to) = held.state
                && let Some(member) = live.get(&to)
            {
                out.push(Action::Send(member.clone(), Message::Token(held.token.clone())));
            }
        }
    }

    /// Tokens on their way to a node that is gone are gone: it may have read of them.
    pub(super) fn taker_is_gone(&mut self, node: NodeId) -> Vec<PartitionName> {
        let is_lost = |_: &TokenId, held: &mut Held| held.state == State::Passing(node);
        self.held.extract_if(.., is_lost).map(|(_, held)| held.token.name).collect()
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

    fn give(&mut self, token: Token, to: ContainerId, out: &mut Vec<Action>) {
        let id = token.id;
        let state = if to.node == self.me {
            let TokenId { topology, prototype, .. } = id;
            let (container, name, position) = (to.container, token.name.clone(), token.position);
            if !token.is_exhausted {
                out.push(Action::Open { container, topology, prototype, name, position });
            }
            State::Here(to.container)
        } else {
            // Said until it is taken: see `say`.
            State::Passing(to.node)
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
