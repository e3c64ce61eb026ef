//! What a node says of its own accord.
//!
//! Messages are lost, so all of it is said again: to the voters of an attempt, what we want to those who
//! decide, and to somebody now and then, where we stand.

use std::sync::Arc;

use rand::RngExt;

use super::{Attempt, Body, ClusterId, Message, Seat, ViewId, ViewLog, Word};
use crate::{NodeId, Time};

impl<B: Body> ViewLog<B> {
    /// Asks those voters that have not answered in this attempt.
    pub(super) fn ask_voters(&mut self) {
        let Some(view) = &self.record.view else { return };
        for node in view.head.voter_nodes().collect::<Vec<_>>() {
            self.ask_voter(node);
        }
    }

    pub(super) fn ask_voter(&mut self, node: NodeId) {
        let Some(view) = &self.record.view else { return };
        let disk = view.head.seat(node).map(Seat::disk);
        let Some(disk) = disk.filter(|&disk| view.head.is_voter(disk)) else { return };
        let word = match &self.proposer.attempt {
            Attempt::Preparing(ballot, promises) if !promises.contains_key(&disk) => {
                Word::Prepare(*ballot)
            }
            Attempt::Accepting(ballot, value, votes) if !votes.contains(&disk) => {
                Word::Accept(*ballot, Arc::clone(value))
            }
            Attempt::None | Attempt::Preparing(..) | Attempt::Accepting(..) => return,
        };
        self.send(node, word);
    }

    pub(super) fn tell_wish(&mut self, now: Time) {
        let wait = self.chores.wish.map_or(self.config.retry, |(_, wait)| wait);
        self.chores.wish = Some((now + wait, (wait * 2).min(self.config.retry_max)));
        let Some(view) = &self.record.view else { return };
        let Some(own) = self.wishes.of(self.me.node).cloned() else { return };
        for node in view.head.voter_nodes().collect::<Vec<_>>() {
            if node != self.me.node {
                self.send(node, Word::Wish(own.clone()));
            }
        }
    }

    /// Tells one other node where we stand: whoever of the two is behind is helped.
    pub(super) fn spread(&mut self) {
        let me = self.me.node;
        let seats = self.record.view.iter().flat_map(|view| &view.head.seats).map(Seat::node);
        let mut others: Vec<_> = seats.chain(self.contacts.live()).collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|&node| node != me);
        if !others.is_empty() {
            let at = self.rng.random_range(0..others.len());
            self.tell_where_we_stand(others[at]);
        }
    }

    pub(super) fn tell_where_we_stand(&mut self, node: NodeId) {
        let word = if self.record.view.is_some() { Word::Here } else { Word::Ask };
        self.send(node, word);
    }

    pub(super) fn send(&mut self, to: NodeId, word: Word<B>) {
        let (disk, at) = (self.log.disk, self.at());
        self.journal.send(to, Message { disk, at, word });
    }

    /// Sends a node the newest view, unless that was done a moment ago.
    pub(super) fn send_view(&mut self, now: Time, to: NodeId) {
        let Some(view) = self.record.view.clone() else { return };
        if self.contacts.is_untold(now, to, view.id(), self.config.retry) {
            self.send(to, Word::Decided(view));
        }
    }

    /// Our cluster and the newest view.
    pub(super) fn at(&self) -> Option<(ClusterId, ViewId)> {
        self.record.view.as_ref().map(|view| (view.head.cluster, view.id()))
    }

    pub(super) fn id(&self) -> Option<ViewId> {
        self.record.view.as_ref().map(|view| view.id())
    }
}
