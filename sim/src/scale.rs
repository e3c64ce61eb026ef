//! What it costs to be many: a cluster without events, from its founding to a join, a leave and a lossy
//! network.
//!
//! What is counted is what nodes say to each other, and virtual time; how long the simulation itself takes is
//! for whoever runs it to measure.

use std::sync::Arc;
use std::time::Duration;

use membership::{Config, view_log};
use pe::Registry;

use crate::network::Rule;
use crate::rest::unrest;
use crate::world::{Terms, World};

/// How long a cluster may take for anything.
const LIMIT: Duration = Duration::from_secs(600);

/// How long it is watched while nothing happens, and while messages are lost.
const WATCH: Duration = Duration::from_secs(10);

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What a cluster is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// How many nodes.
    pub nodes: usize,
    /// How many slots.
    pub slots: u32,
    /// From which chance follows.
    pub seed: u64,
}

/// A part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// What happened.
    pub name: &'static str,
    /// Until all members went by one view in which nothing moves; none if that took too long.
    pub took: Option<Duration>,
    /// Views that were decided.
    pub views: u64,
    /// Slots that went to another node or container.
    pub moved: u64,
    /// Members that were taken off.
    pub fenced: u64,
    /// Messages on control links, by node and second.
    pub messages: f64,
    /// Bytes of them, by node and second.
    pub bytes: f64,
}

impl Scale {
    /// Runs it, and tells of each part when it is over.
    pub fn run(&self, mut tell: impl FnMut(Stage)) {
        let mut world = World::with(Terms {
            seed: self.seed,
            slots: self.slots,
            expected_nodes: 1,
            replicas: 1,
            is_durable: false,
            gossip: Config::lan(),
            views: view_log::Config {
                stable_after: Duration::from_millis(400),
                ..view_log::Config::lan()
            },
            registry: Arc::new(Registry::new()),
            plans: Vec::new(),
            numbered: 0,
            flaw: None,
            has_acks: false,
            is_detailed: false,
        });
        tell(stage(&mut world, "all join", |world| {
            for node in 0..self.nodes {
                join(world, node == 0);
                world.run_to(world.now + Duration::from_millis(10));
            }
        }));
        tell(stage(&mut world, "nothing happens", |world| world.run_to(world.now + WATCH)));
        tell(stage(&mut world, "one joins", |world| join(world, false)));
        tell(stage(&mut world, "one leaves", |world| world.dismiss(1)));
        tell(stage(&mut world, "1 % of messages lost", |world| {
            let rule = world.network.rule(Rule::Loss(1));
            world.run_to(world.now + WATCH);
            world.network.lift(rule);
        }));
    }
}

fn stage(world: &mut World, name: &'static str, happen: impl FnOnce(&mut World)) -> Stage {
    let (begin, control) = (world.now, world.network.control);
    let (views, fenced) = (world.referee.views, world.referee.fences);
    let moved = world.ledger.deeds.handoffs;
    happen(world);
    let end = world.now + LIMIT;
    while unrest(world).is_some() && world.now < end && world.violation().is_none() {
        world.run_to(world.now + LOOK);
    }
    let took = unrest(world).is_none().then(|| world.now - begin);
    let nodes = world.machines.iter().filter(|machine| machine.is_up()).count();
    let share = nodes as f64 * (world.now - begin).as_secs_f64();
    let sent = world.network.control;
    Stage {
        name,
        took,
        views: world.referee.views - views,
        moved: world.ledger.deeds.handoffs - moved,
        fenced: world.referee.fences - fenced,
        messages: (sent.messages - control.messages) as f64 / share,
        bytes: (sent.bytes - control.bytes) as f64 / share,
    }
}

/// Another node, that asks some of those that are there.
fn join(world: &mut World, founds: bool) {
    let nodes: Vec<_> = world.machines.iter().map(|machine| machine.node).collect();
    let first = nodes.len().saturating_sub(3);
    let machine = world.add(1, nodes[first..].to_vec());
    world.boot(machine, founds);
}
