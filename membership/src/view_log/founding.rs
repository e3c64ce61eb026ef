//! How a cluster begins.
//!
//! A node that nobody answers must not found a cluster of its own: when the network heals there are
//! two. So one node is told to found one. Where all nodes get the same list, the first on it does, but
//! only after all others have said that they hold no view: if it lost its disk, they remember the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Action, Body, ClusterId, Event, LogId, View, ViewLog, Word};
use crate::{Member, NodeId, Time};

/// How to begin a new cluster.
#[derive(Clone, Debug)]
pub struct Founding<B> {
    /// A random number, the cluster's from then on.
    pub cluster: ClusterId,
    /// The body of the first view, whose one member is the node that founds it.
    pub body: B,
    /// The nodes that found it together, the same list on each: the first of them does it when all
    /// others have said that they belong to no cluster, and the others join. Without a list, this node
    /// founds it at once.
    pub nodes: Vec<NodeId>,
}

impl<B: Body> Founding<B> {
    /// The view that a node would found a cluster with.
    pub(super) fn first(&self, me: &Member, log: LogId) -> Arc<View<B>> {
        View::first(self.cluster, me.clone(), log, self.body.clone())
    }

    /// The part of this node, if it has one: to ask those that are left in the list.
    pub(super) fn begun(mut self, me: &Member, now: Time) -> Option<Waiting<B>> {
        let is_mine = self.nodes.first().is_none_or(|&first| first == me.node);
        let nodes: BTreeSet<_> = self.nodes.drain(..).filter(|&node| node != me.node).collect();
        is_mine.then_some(Waiting { founding: self, unheard: nodes, ask_at: now })
    }
}

/// A founding that is under way.
#[derive(Debug)]
pub(super) struct Waiting<B> {
    founding: Founding<B>,
    /// Who has not said yet that it holds no view.
    unheard: BTreeSet<NodeId>,
    pub(super) ask_at: Time,
}

impl<B: Body> Waiting<B> {
    /// A node said that it holds no view.
    pub(super) fn heard_of_none(&mut self, from: NodeId) {
        self.unheard.remove(&from);
    }
}

impl<B: Body> ViewLog<B> {
    pub(super) fn found_if_due(&mut self, now: Time, out: &mut Vec<Action<B>>) {
        let Some(waiting) = &mut self.waiting else { return };
        if waiting.unheard.is_empty() {
            let view = waiting.founding.first(&self.me, self.log);
            out.push(Action::Tell(Event::Founded(view.head.cluster)));
            self.learn(now, view);
        } else if waiting.ask_at <= now {
            waiting.ask_at = now + self.config.retry;
            for node in waiting.unheard.clone() {
                self.send(node, Word::Ask);
            }
        }
    }
}
