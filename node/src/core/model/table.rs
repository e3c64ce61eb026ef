//! What nodes do, worked out once.
//!
//! A core cannot be copied, so a state of the model cannot hold one; but what a node does depends on
//! what happened to it and on nothing else. So the states of nodes and the messages are numbered as they
//! are met, a step of a node is looked up by its state and what happens, and only a step that nobody has
//! taken before is run: on the core that was left there, or on one to which everything has happened
//! again. States of the cluster are then a few numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use membership::view_log::{Ballot, Digest, DiskId, Record, Word};
use membership::{Epoch, NodeId};

use super::super::{Assignment, Message, View};
use super::cell::Cell;
use super::host::{Event, Host};
use super::{Bounds, Flaw, LogId};

/// A state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HostId(usize);

/// A message on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LetterId(usize);

/// An event, without the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum What {
    Deliver(LetterId),
    Wake,
    Sync,
    Crash {
        is_kept: bool,
    },
    Suspect(NodeId),
    Break(NodeId),
    Write(u16),
    /// Nothing happens to it any more.
    Die,
}

/// What is to be seen of a node.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) log: LogId,
    pub(super) view: Option<Arc<View>>,
    pub(super) cell: Cell,
    pub(super) is_writing: bool,
}

/// A message, its ends, and the choice that it tells of.
#[derive(Debug)]
pub(super) struct Letter {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    message: Message,
    pub(super) choice: Option<((Epoch, Ballot), Digest)>,
}

#[derive(Debug)]
struct Known {
    start: NodeId,
    history: Vec<What>,
    seen: Seen,
    /// The node itself, until it is needed.
    spare: Option<Box<Host>>,
}

/// All that was worked out.
#[derive(Debug)]
pub(super) struct Table {
    bounds: Bounds,
    first: BTreeMap<NodeId, Record<Assignment>>,
    hosts: Vec<Known>,
    host_ids: BTreeMap<u128, HostId>,
    letters: Vec<Letter>,
    letter_ids: BTreeMap<String, LetterId>,
    steps: BTreeMap<(HostId, What), (HostId, Vec<LetterId>)>,
}

impl Table {
    pub(super) fn new(bounds: Bounds, first: BTreeMap<NodeId, Record<Assignment>>) -> Self {
        Self {
            bounds,
            first,
            hosts: Vec::new(),
            host_ids: BTreeMap::new(),
            letters: Vec::new(),
            letter_ids: BTreeMap::new(),
            steps: BTreeMap::new(),
        }
    }

    /// How many steps of nodes were run.
    pub(super) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// A node that has just started, and what it says.
    pub(super) fn start(&mut self, node: NodeId) -> (HostId, Vec<LetterId>) {
        let (host, said) = self.fresh(node);
        let said = self.number(node, said);
        (self.keep(node, Vec::new(), host), said)
    }

    /// What happens to a node makes of it, and what it says.
    pub(super) fn step(&mut self, at: HostId, what: What) -> (HostId, Vec<LetterId>) {
        if let Some(known) = self.steps.get(&(at, what)) {
            return known.clone();
        }
        let node = self.hosts[at.0].start;
        let mut host = self.take(at);
        let said = host.step(self.event(what));
        let said = self.number(node, said);
        let history = self.hosts[at.0].history.iter().copied().chain([what]).collect();
        let after = (self.keep(node, history, host), said);
        self.steps.insert((at, what), after.clone());
        after
    }

    pub(super) fn seen(&self, at: HostId) -> &Seen {
        &self.hosts[at.0].seen
    }

    pub(super) fn letter(&self, at: LetterId) -> &Letter {
        &self.letters[at.0]
    }

    /// What happens, in words.
    pub(super) fn told(&self, what: What) -> String {
        match what {
            What::Deliver(letter) => {
                let Letter { from, message, .. } = self.letter(letter);
                format!("from {from}: {}", short(message))
            }
            other => format!("{other:?}"),
        }
    }

    fn fresh(&self, node: NodeId) -> (Box<Host>, Vec<(NodeId, Message)>) {
        let (host, said) = Host::new(node, self.first[&node].clone(), self.bounds);
        (Box::new(host), said)
    }

    fn take(&mut self, at: HostId) -> Box<Host> {
        if let Some(host) = self.hosts[at.0].spare.take() {
            return host;
        }
        let Known { start, history, .. } = &self.hosts[at.0];
        let (mut host, _) = self.fresh(*start);
        for &what in history {
            host.step(self.event(what));
        }
        host
    }

    fn event(&self, what: What) -> Event {
        match what {
            What::Deliver(letter) => {
                let Letter { from, message, .. } = self.letter(letter);
                Event::Deliver(*from, message.clone())
            }
            What::Wake => Event::Wake,
            What::Sync => Event::Sync,
            What::Crash { is_kept } => Event::Crash { is_kept },
            What::Suspect(node) => Event::Suspect(node),
            What::Break(node) => Event::Break(node),
            What::Write(slot) => Event::Write(slot),
            What::Die => unreachable!("a dead node takes no step"),
        }
    }

    fn keep(&mut self, start: NodeId, history: Vec<What>, host: Box<Host>) -> HostId {
        let print = host.fingerprint();
        let next = HostId(self.hosts.len());
        let id = *self.host_ids.entry(print).or_insert(next);
        if id == next {
            let seen = Seen {
                log: host.log(),
                view: host.view().cloned(),
                cell: host.cell.clone(),
                is_writing: host.is_writing(),
            };
            self.hosts.push(Known { start, history, seen, spare: Some(host) });
        }
        id
    }

    fn number(&mut self, from: NodeId, said: Vec<(NodeId, Message)>) -> Vec<LetterId> {
        let all = said.into_iter().flat_map(|(to, message)| {
            let forged =
                forged(&message, from, to).filter(|_| self.bounds.flaw == Some(Flaw::VotesForged));
            [Some((from, to, message)), forged]
        });
        let all: Vec<_> = all.flatten().collect();
        all.into_iter()
            .map(|(from, to, message)| {
                let key = format!("{from} {to} {message:?}");
                let next = LetterId(self.letters.len());
                let id = *self.letter_ids.entry(key).or_insert(next);
                if id == next {
                    let choice = choice(&message);
                    self.letters.push(Letter { from, to, message, choice });
                }
                id
            })
            .collect()
    }
}

/// A vote that nobody gave, for what a message asks a vote for.
fn forged(message: &Message, from: NodeId, to: NodeId) -> Option<(NodeId, NodeId, Message)> {
    let Message::Log(asked) = message else { return None };
    let Word::Accept(ballot, _) = asked.word else { return None };
    let mut vote = asked.clone();
    (vote.disk, vote.word) = (DiskId(to.0), Word::Accepted(ballot));
    Some((to, from, Message::Log(vote)))
}

fn choice(message: &Message) -> Option<((Epoch, Ballot), Digest)> {
    let Message::Log(message) = message else { return None };
    let Word::Accept(ballot, value) = &message.word else { return None };
    Some(((value.head.number, *ballot), value.digest()))
}

/// A message without the views in it.
fn short(message: &Message) -> String {
    let Message::Log(message) = message else { return format!("{message:?}") };
    let number = message.at.map_or(0, |(_, id)| id.number.0);
    let word = match &message.word {
        Word::Decided(view) => format!("Decided({} {})", view.head.number, view.digest()),
        Word::Accept(ballot, view) => format!("Accept({ballot:?}, {})", view.digest()),
        Word::Promise(ballot, accepted) => {
            let accepted = accepted.as_ref().map(|(ballot, view)| (ballot, view.digest()));
            format!("Promise({ballot:?}, {accepted:?})")
        }
        other => format!("{other:?}"),
    };
    format!("at {number}: {word}")
}
