//! Fences: how events of a key stay in order while its instance moves.
//!
//! Three containers have a part in it, and one may have several. A *producer* that lays a layout by which
//! units have moved sends a fence on each edge to their former home. What it had waiting for that lane is
//! routed anew, so it goes to the new home and not before the fence: the new home keeps it, and all that
//! was given to the former home is older. The *former home* handles the fence in its turn, when everything
//! before it has been handled or passed on, and says flushed to the new home by the same way. The *new
//! home* keeps what comes directly from a producer until then. Producers are all that were members before
//! the move, whether they sent anything or not; a member that goes, or is another one since, is no longer
//! awaited: what it had under way is in doubt.
//!
//! **Why nobody waits for ever.** A fence is sent when a layout is laid, whatever is over its budget. It
//! waits in the queue of a host of the former home, which is held back only by hosts of later stages. Hosts
//! of the last stage are never held back, so they come to their fences, what is kept for them is set free,
//! and its weight goes back to hosts of the stage before, which then come to theirs, and so on. What is
//! kept never stands in a queue, so nothing waits behind it; and a former home passes events on at once,
//! which are handled at once where they come.

use std::collections::BTreeSet;

use membership::Epoch;
use routing::{BatchHeader, ContainerId};

use super::super::Desk;
use super::super::mark::Mark;
use super::super::message::{Action, Contents, Input, Parcel};
use super::Run;
use crate::Unit;
use crate::units::Units;

impl Run {
    /// After a new layout: sends the fences that others await, and finds out which to await.
    pub(super) fn fence(&mut self, former: Epoch, desk: &mut Desk, out: &mut Vec<Action>) {
        let (layout, me) = (std::sync::Arc::clone(&desk.layout), desk.me);
        for at in 0..self.edges.len() {
            let consumer = (usize::from(self.topology), self.plan.edges[at].to);
            let moves = layout.moves(&self.plan, consumer);
            let news = moves.iter().filter(|moved| moved.origin.at > former);
            let is_awaited =
                |at: Epoch, node| layout.since(node).is_some_and(|since: Epoch| since < at);
            let homes: BTreeSet<_> = news
                .clone()
                .filter(|moved| is_awaited(moved.origin.at, me.node))
                .map(|moved| moved.origin.from)
                .collect();
            for home in homes {
                self.send_mark(home, at, Mark::Fence { former }, desk, out);
            }
            let is_here: BTreeSet<_> =
                moves.iter().filter(|moved| moved.to == me).map(|moved| moved.origin).collect();
            self.gate.awaited.retain(|(edge, origin), producers| {
                producers.retain(|producer| is_awaited(origin.at, producer.node));
                *edge != at || is_here.contains(origin) && !producers.is_empty()
            });
            for moved in news.filter(|moved| moved.to == me) {
                let producers: BTreeSet<_> = layout.members_before(moved.origin.at).collect();
                self.gate.awaited.insert((at, moved.origin), producers);
            }
        }
        desk.handoffs.may_seal = true;
    }

    /// Takes a mark that came in its turn.
    pub(super) fn marked(
        &mut self,
        from: ContainerId,
        header: &BatchHeader,
        mark: Mark,
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        let edge = usize::from(header.edge);
        match mark {
            Mark::Fence { former } => {
                let consumer = (usize::from(self.topology), self.plan.edges[edge].to);
                let moves = desk.layout.moves(&self.plan, consumer);
                let is_meant = |at: Epoch| former < at && at.0 <= header.epoch;
                let homes: BTreeSet<_> = moves
                    .iter()
                    .filter(|moved| moved.origin.from == desk.me && is_meant(moved.origin.at))
                    .map(|moved| moved.to)
                    .collect();
                let flushed = Mark::Flushed { producer: from, epoch: Epoch(header.epoch) };
                for home in homes {
                    self.send_mark(home, edge, flushed, desk, out);
                }
            }
            Mark::Flushed { producer, epoch } => self.flushed(edge, from, producer, epoch, desk),
        }
    }

    /// Nothing older comes from a producer by way of a former home.
    fn flushed(
        &mut self,
        edge: usize,
        home: ContainerId,
        producer: ContainerId,
        epoch: Epoch,
        desk: &mut Desk,
    ) {
        let mut is_over = BTreeSet::new();
        self.gate.awaited.retain(|(known, origin), producers| {
            if *known == edge && origin.from == home && origin.at <= epoch {
                producers.remove(&producer);
                is_over.insert(*origin);
            }
            !producers.is_empty()
        });
        let is_meant = |header: &BatchHeader, from, origin: Option<_>| {
            usize::from(header.edge) == edge
                && from == producer
                && origin.is_some_and(|origin| is_over.contains(&origin))
        };
        self.unkeep(is_meant, desk);
        self.refresh(desk);
        desk.handoffs.may_seal = true;
    }

    /// Whether something older may come yet for one of some units.
    pub(in crate::container) fn awaits(&self, units: &Units, desk: &Desk) -> bool {
        self.gate.awaited.keys().any(|&(edge, origin)| {
            let is_fed = |unit| match unit {
                Unit::Slot(_) => self.edges[edge].is_keyed,
                Unit::Task { topology, prototype, .. } => {
                    topology == self.topology && usize::from(prototype) == self.plan.edges[edge].to
                }
            };
            units.iter().any(|unit| is_fed(unit) && desk.layout.origin_of(unit) == Some(origin))
        })
    }

    /// Sends a mark behind all that went to a container before.
    fn send_mark(
        &mut self,
        to: ContainerId,
        edge: usize,
        mark: Mark,
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        let header = BatchHeader {
            topology: self.topology,
            edge: u16::try_from(edge).expect("a plan has at most 1,024 edges"),
            from: desk.me.container,
            to: to.container,
            task: BatchHeader::NO_TASK,
            epoch: desk.layout.epoch.0,
            layout: desk.layout.digest,
            kind: mark.kind(),
            ..BatchHeader::default()
        };
        if to.node != desk.me.node {
            return desk.add(to.node, header, |bytes| mark.write(bytes), out);
        }
        let parcel = Parcel { from: desk.me, header, contents: Contents::Mark(mark) };
        if to == desk.me {
            let host = self.plan.edges[edge].to;
            self.hosts[host].queue.push_back(parcel);
            self.work.push(host);
        } else {
            out.push(Action::Post(to.container, Input::Parcel(parcel)));
        }
    }
}
