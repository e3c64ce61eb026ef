//! A view, worked out for the containers of a node.

use std::sync::Arc;

use membership::NodeId;
use membership::view_log::{LogId, Seat, Seats};
use pe::topology::Plan;
use pe::{Duty, Home, Layout, Place, Sets};
use routing::ContainerId;

use super::{Assignment, Setup, Share, View, is_active};

/// Where everything lives under a view.
pub(in super::super) fn layout(
    view: &View,
    me: NodeId,
    store: Option<LogId>,
    plans: &[Arc<Plan>],
) -> Layout {
    let (head, body) = (&view.head, &view.body);
    let places = head.seats.iter().map(|seat| Place {
        node: seat.node(),
        since: body.since(seat),
        containers: seat.member.containers,
        number: body.numbers.get(&seat.log).copied().unwrap_or(0),
        is_drained: body.drained.contains(&seat.log),
        is_active: is_active(seat),
    });
    let seats = Seats::new(head);
    let node_of = |log: LogId| seats.of_disk(log.disk).map(Seat::node);
    let place = |share: &Share| {
        let (log, container) = share.home(&seats).expect("a view that stands was checked");
        ContainerId { node: node_of(log).expect("it has a seat"), container }
    };
    let slot = |share: &Share| Home {
        at: place(share).node,
        came: share.came.map(|came| (came.from.node, came.at)),
    };
    let task = |share: &Share| Home {
        at: place(share),
        came: share.came.map(|came| (came.from, came.at)),
    };
    let tasks = body.topologies.iter().zip(plans).map(|(topology, plan)| {
        let of = |prototype: u16| topology.tasks.get(&prototype).into_iter().flatten();
        let prototypes = (0..).zip(&plan.prototypes);
        prototypes.map(|(at, _)| of(at).map(task).collect()).collect()
    });
    Layout::new(
        head.number,
        me,
        places.collect(),
        body.slots.iter().map(slot).collect(),
        tasks.collect(),
        plans,
        body.topologies.iter().map(|topology| topology.phase).collect(),
    )
    .with_sets(sets(view, me, store, &seats))
}

/// What a node has to do with replicas. With a store on its disk, it keeps what that was given since one of its lives,
/// also while it is no member, and is one of those who keep what it owns.
fn sets(view: &View, me: NodeId, store: Option<LogId>, seats: &Seats<'_>) -> Sets {
    let mut sets = Sets::default();
    let mine = view.head.seat(me).map(|seat| seat.log);
    let is_stored =
        |log: &LogId| store.is_some_and(|store| store.disk == log.disk && store.run <= log.run);
    for (unit, share) in view.body.shares() {
        if share.is_waiting(seats) {
            sets.waiting.insert(unit);
        }
        let all = std::iter::once((true, &share.active));
        for (is_active, set) in all.chain(share.next.iter().map(|next| (false, next))) {
            let is_mine = |log| set.logs.contains(&log) && set.seat(log, seats).is_some();
            let is_mine = mine.is_some_and(is_mine);
            if is_mine || set.logs.iter().any(is_stored) {
                sets.kept.entry(unit).or_default().push(set.epoch);
            }
            if is_mine && mine == Some(set.owner()) {
                // Of one that is gone nothing is known but its disk, and nobody waits for long: a view without it
                // is on its way. Until then it is waited for under no name.
                let others = set.others().iter();
                let node = |log: &LogId| set.seat(*log, seats).map_or(NodeId(0), Seat::node);
                let own = view.body.is_durable.then_some(me);
                sets.duties.push(Duty {
                    unit,
                    container: set.container,
                    is_active,
                    epoch: set.epoch,
                    replicas: own.into_iter().chain(others.map(node)).collect(),
                });
            }
        }
    }
    sets
}

impl Assignment {
    /// Whether this node runs just what the view names.
    ///
    /// # Errors
    /// What differs, for people.
    pub(in super::super) fn fits(&self, setup: &Setup) -> Result<(), String> {
        let Setup { plans, slots, is_durable, .. } = setup;
        if self.slots.len() != *slots as usize {
            return Err(format!("the cluster has {} slots, this node {slots}", self.slots.len()));
        }
        if self.is_durable != *is_durable {
            let show = |is_durable| if is_durable { "fsync" } else { "memory" };
            let (theirs, ours) = (show(self.is_durable), show(*is_durable));
            return Err(format!("the cluster has the durability {theirs}, this node {ours}"));
        }
        let theirs: Vec<_> = self.topologies.iter().map(|t| (t.name.as_str(), t.hash)).collect();
        let ours: Vec<_> = plans.iter().map(|plan| (plan.name.as_str(), plan.hash)).collect();
        if theirs == ours {
            return Ok(());
        }
        let show = |all: &[(&str, u64)]| {
            let each: Vec<_> =
                all.iter().map(|(name, hash)| format!("{name} ({hash:016x})")).collect();
            if each.is_empty() { "none".to_owned() } else { each.join(", ") }
        };
        Err(format!("the cluster has the topologies {}, this node {}", show(&theirs), show(&ours)))
    }
}
