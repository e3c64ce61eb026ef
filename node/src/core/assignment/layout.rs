//! A view, worked out for the containers of a node.

use std::sync::Arc;

use membership::NodeId;
use membership::view_log::{LogId, Seat, Seats};
use pe::topology::Plan;
use pe::{Duty, Home, Layout, Place, Sets};
use routing::ContainerId;

use super::{Assignment, Share, View, is_active};

/// Where everything lives under a view.
pub(in super::super) fn layout(view: &View, me: NodeId, plans: &[Arc<Plan>]) -> Layout {
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
    .with_sets(sets(view, me, &seats))
}

/// What a node has to do with replicas.
fn sets(view: &View, me: NodeId, seats: &Seats<'_>) -> Sets {
    let mut sets = Sets::default();
    let mine = view.head.seat(me).map(|seat| seat.log);
    for (unit, share) in view.body.shares() {
        if share.is_waiting(seats) {
            sets.waiting.insert(unit);
        }
        let all = std::iter::once((true, &share.active));
        for (is_active, set) in all.chain(share.next.iter().map(|next| (false, next))) {
            let is_mine = |log| set.logs.contains(&log) && set.seat(log, seats).is_some();
            if !mine.is_some_and(is_mine) {
                continue;
            }
            sets.kept.entry(unit).or_default().push(set.epoch);
            if mine == Some(set.owner()) {
                // Of one that is gone nothing is known but its disk, and nobody waits for long: a view without it
                // is on its way. Until then it is waited for under no name.
                let others = set.others().iter();
                let node = |log: &LogId| set.seat(*log, seats).map_or(NodeId(0), Seat::node);
                sets.duties.push(Duty {
                    unit,
                    container: set.container,
                    is_active,
                    epoch: set.epoch,
                    replicas: others.map(node).collect(),
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
    pub(in super::super) fn fits(&self, plans: &[Arc<Plan>], slots: u32) -> Result<(), String> {
        if self.slots.len() != slots as usize {
            return Err(format!("the cluster has {} slots, this node {slots}", self.slots.len()));
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
