//! A view, worked out for the containers of a node.

use std::sync::Arc;

use membership::NodeId;
use membership::view_log::{LogId, Seat, Seats};
use pe::topology::Plan;
use pe::{Home, Layout, Place};
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
    let node =
        |share: &Share| node_of(share.active.owner()).expect("a view that stands was checked");
    let slot = |share: &Share| Home {
        at: node(share),
        came: share.came.map(|came| (came.from.node, came.at)),
    };
    let task = |share: &Share| Home {
        at: ContainerId { node: node(share), container: share.active.container },
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
