//! Whole clusters in virtual time.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

extern crate pe as starling;

mod support;

use std::sync::Arc;
use std::time::Duration;

use membership::NodeId;
use sim::World;
use support::{Table, plain, plan, ranking, registry};

const MINUTE: Duration = Duration::from_secs(60);

fn texts() -> Vec<&'static str> {
    const ONE: &str = include_str!("../../corpus/speeches-01.txt");
    let cut = |from: usize| &ONE[from..from + 20_000];
    let starts = (0..6).map(|part| part * 10_000);
    starts
        .filter(|&at| ONE.is_char_boundary(at) && ONE.is_char_boundary(at + 20_000))
        .map(cut)
        .collect()
}

fn world(seed: u64, table: &Table) -> World {
    long_world(seed, table, 1)
}

/// A world in which all texts are played several times.
fn long_world(seed: u64, table: &Table, plays: usize) -> World {
    let registry = Arc::new(registry(table));
    let plan = plan(&registry, &texts(), plays);
    World::new(seed, registry, &[plan])
}

fn phase(world: &World, node: NodeId) -> String {
    world.status(node).topologies[0].phase.clone()
}

#[test]
fn one_node_counts_and_ends() {
    let table = Table::default();
    let mut world = world(1, &table);
    let node = world.start(2, None);
    assert!(world.run_until(MINUTE, |world| phase(world, node) == "ended"), "{}", world.trace());
    assert_eq!(ranking(&table), plain(&texts()));
}

#[test]
fn three_nodes_wait_for_each_other_and_count_together() {
    for seed in 0..10 {
        let table = Table::default();
        let mut world = world(seed, &table);
        world.expect(3);
        let nodes = [world.start(2, None), world.start(2, Some(0)), world.start(1, Some(1))];
        let is_over = |world: &World| nodes.iter().all(|&node| phase(world, node) == "ended");
        assert!(world.run_until(MINUTE, is_over), "seed {seed}\n{}", world.trace());
        assert_eq!(ranking(&table), plain(&texts()), "seed {seed}");
        for node in nodes {
            let status = world.status(node);
            assert_eq!(status.members.len(), 3, "seed {seed}\n{}", world.trace());
            assert!(status.topologies[0].applied > 0, "seed {seed}: a node did nothing");
            assert!(status.topologies[0].dropped.is_empty(), "seed {seed}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = |seed| {
        let mut world = world(seed, &Table::default());
        world.expect(2);
        let nodes = [world.start(2, None), world.start(2, Some(0))];
        world.run_until(MINUTE, |world| nodes.iter().all(|&node| phase(world, node) == "ended"));
        world.trace().to_owned()
    };
    assert_eq!(trace(5), trace(5));
    assert_ne!(trace(5), trace(6));
}

/// Runs until some events have been handled on each node.
fn warm(world: &mut World, nodes: &[NodeId]) {
    let is_warm =
        |world: &World| nodes.iter().all(|&node| world.status(node).topologies[0].applied > 1_000);
    assert!(world.run_until(MINUTE, is_warm), "{}", world.trace());
}

#[test]
fn a_killed_node_is_noticed_and_the_others_go_on_to_the_end() {
    for (seed, which) in (0..10).zip([0, 1, 2].into_iter().cycle()) {
        let mut world = world(seed, &Table::default());
        world.expect(3);
        let nodes = [world.start(2, None), world.start(1, Some(0)), world.start(2, Some(0))];
        warm(&mut world, &nodes);
        // Of the three, each is the founder, or the first, or neither in some seed.
        let killed = nodes[which];
        world.kill(killed);
        let left: Vec<_> = nodes.into_iter().filter(|&node| node != killed).collect();
        let is_over = |world: &World| left.iter().all(|&node| phase(world, node) == "ended");
        assert!(world.run_until(MINUTE, is_over), "seed {seed}\n{}", world.trace());
        for &node in &left {
            let status = world.status(node);
            assert_eq!(status.members.iter().map(|member| member.slots).sum::<usize>(), 64);
            assert!(status.members.iter().all(|member| member.node != killed.to_string()));
        }
    }
}

#[test]
fn a_node_that_leaves_gives_away_all_it_has() {
    for (seed, which) in (0..10).zip([0, 1, 2].into_iter().cycle()) {
        let mut world = world(seed, &Table::default());
        world.expect(3);
        let nodes = [world.start(2, None), world.start(1, Some(0)), world.start(2, Some(0))];
        warm(&mut world, &nodes);
        let leaver = nodes[which];
        world.leave(leaver);
        assert!(
            world.run_until(MINUTE, |world| !world.has(leaver)),
            "seed {seed}\n{}",
            world.trace()
        );
        let left: Vec<_> = nodes.into_iter().filter(|&node| node != leaver).collect();
        let is_over = |world: &World| left.iter().all(|&node| phase(world, node) == "ended");
        assert!(world.run_until(MINUTE, is_over), "seed {seed}\n{}", world.trace());
        // Every partition was read to its end by somebody, and nothing was given to nobody.
        let statuses: Vec<_> = left.iter().map(|&node| world.status(node)).collect();
        let spouts = || statuses.iter().flat_map(|status| &status.topologies[0].spouts);
        let partitions: Vec<_> = spouts().flat_map(|spout| &spout.partitions).collect();
        assert_eq!(partitions.len(), texts().len(), "seed {seed}");
        assert!(partitions.iter().all(|partition| partition.exhausted), "seed {seed}");
        for status in &statuses {
            assert_eq!(status.topologies[0].in_doubt, 0, "seed {seed}\n{}", world.trace());
            assert!(status.topologies[0].dropped.is_empty(), "seed {seed}");
        }
    }
}

#[test]
fn a_node_that_joins_takes_its_share_of_slots_and_partitions() {
    for seed in 0..4 {
        // Enough that the second comes long before the end.
        let mut world = long_world(seed, &Table::default(), 30);
        let first = world.start(1, None);
        warm(&mut world, &[first]);
        let second = world.start(1, Some(0));
        let nodes = [first, second];
        let is_shared = |world: &World| world.status(second).topologies[0].applied > 0;
        assert!(world.run_until(MINUTE, is_shared), "seed {seed}\n{}", world.trace());
        assert!(world.status(first).members.iter().all(|member| member.slots == 32));
        let is_over = |world: &World| nodes.iter().all(|&node| phase(world, node) == "ended");
        assert!(world.run_until(MINUTE, is_over), "seed {seed}\n{}", world.trace());
        let held = |node| world.status(node).topologies[0].spouts[0].partitions.len();
        assert_eq!(held(first) + held(second), texts().len());
        assert!(held(second) > 0, "seed {seed}: no partition was passed on");
    }
}

#[test]
fn links_that_break_again_and_again_lose_and_double_nothing() {
    for seed in 0..6 {
        let table = Table::default();
        let mut world = long_world(seed, &table, 3);
        world.expect(3);
        let nodes = [world.start(1, None), world.start(1, Some(0)), world.start(2, Some(0))];
        let is_over = |world: &World| nodes.iter().all(|&node| phase(world, node) == "ended");
        let mut lost = 0;
        // Each pair in turn, every millisecond: that is about how long a frame is under way.
        for which in 0..20_000 {
            if world.run_until(Duration::from_millis(1), is_over) {
                break;
            }
            // Then it is left alone, so that an end can come.
            if which < 2_000 {
                lost += world.break_link(nodes[which % 3], nodes[(which + 1 + which / 3 % 2) % 3]);
            }
        }
        assert!(is_over(&world), "seed {seed}\n{}", world.trace());
        assert!(lost > 0, "seed {seed}: nothing was ever under way");
        let played: Vec<_> = texts().into_iter().cycle().take(3 * texts().len()).collect();
        assert_eq!(ranking(&table), plain(&played), "seed {seed}");
        for node in nodes {
            let part = &world.status(node).topologies[0];
            assert_eq!(part.in_doubt, 0, "seed {seed}\n{}", world.trace());
            assert!(part.dropped.is_empty(), "seed {seed}: {:?}", part.dropped);
        }
    }
}

/// Others wait for the credits of who leaves, until they hear that it is gone.
#[test]
fn a_node_whose_links_break_while_it_leaves_goes_when_its_last_credits_have_arrived() {
    for seed in 0..6 {
        let mut world = long_world(seed, &Table::default(), 3);
        world.expect(3);
        let nodes = [world.start(2, None), world.start(1, Some(0)), world.start(2, Some(0))];
        warm(&mut world, &nodes);
        let leaver = nodes[1];
        world.leave(leaver);
        for moment in 0..10_000 {
            if world.run_until(Duration::from_millis(1), |world| !world.has(leaver)) {
                break;
            }
            world.break_link(leaver, nodes[moment % 2 * 2]);
        }
        assert!(!world.has(leaver), "seed {seed}\n{}", world.trace());
        let is_two = |world: &World| world.status(nodes[0]).members.len() == 2;
        assert!(world.run_until(MINUTE, is_two), "seed {seed}\n{}", world.trace());
        for node in [nodes[0], nodes[2]] {
            let in_doubt = world.status(node).topologies[0].in_doubt;
            assert_eq!(in_doubt, 0, "seed {seed}\n{}", world.trace());
        }
    }
}

#[test]
fn frames_of_a_link_that_was_forgotten_are_in_doubt_and_the_end_still_comes() {
    for (seed, which) in (0..3).zip([0, 1, 2]) {
        let mut world = long_world(seed, &Table::default(), 12);
        world.expect(3);
        let nodes = [world.start(1, None), world.start(1, Some(0)), world.start(2, Some(0))];
        let (from, to) = (nodes[which], nodes[(which + 1) % 3]);
        // As soon as something is under way.
        let moment = Duration::from_millis(1);
        let mut tries = 0..10_000;
        while world.break_link(from, to) == 0 {
            assert!(tries.next().is_some(), "seed {seed}: nothing was ever under way");
            world.run_until(moment, |_| false);
        }
        world.forget_link(to, from);
        let is_over = |world: &World| nodes.iter().all(|&node| phase(world, node) == "ended");
        assert!(world.run_until(MINUTE, is_over), "seed {seed}\n{}", world.trace());
        let in_doubt = |node: &NodeId| world.status(*node).topologies[0].in_doubt;
        let in_doubt: u64 = nodes.iter().map(in_doubt).sum();
        assert!(in_doubt > 0, "seed {seed}: lost without a word\n{}", world.trace());
        assert_eq!(world.status(from).members.len(), 3, "nobody was taken off");
    }
}

/// Whether these nodes are the members, and all have what is theirs.
fn is_at_rest(world: &World, nodes: &[NodeId]) -> bool {
    nodes.iter().all(|&node| {
        let status = world.status(node);
        status.members.len() == nodes.len()
            && status.moving == 0
            && status.members.iter().all(|member| member.state == "active")
    })
}

/// Each that comes is let in, gets its share and serves it; each that goes gives away what it has, says
/// so and is gone: at most eight views for each, and fewer for what happens at once.
#[test]
fn five_joins_and_three_leaves_within_ten_seconds_make_few_views() {
    for seed in 0..10 {
        let mut world = World::new(seed, Arc::new(starling::Registry::new()), &[]);
        let mut nodes = vec![world.start(1, None)];
        nodes.extend([world.start(1, Some(0)), world.start(1, Some(0))]);
        let is_calm = |world: &World| is_at_rest(world, &nodes);
        assert!(world.run_until(MINUTE, is_calm), "seed {seed}\n{}", world.trace());
        let before = world.status(nodes[1]).epoch;
        for step in 0..8 {
            // The founder is among those that leave.
            if step % 3 == 2 || step == 7 {
                world.leave(nodes.remove(0));
            } else {
                nodes.push(world.start(1, Some(2)));
            }
            world.run_until(Duration::from_millis(1_200), |_| false);
        }
        assert_eq!(nodes.len(), 5);
        let is_calm = |world: &World| is_at_rest(world, &nodes);
        assert!(world.run_until(MINUTE, is_calm), "seed {seed}\n{}", world.trace());
        let views = world.status(nodes[0]).epoch - before;
        assert!((16..=64).contains(&views), "seed {seed}: {views} views\n{}", world.trace());
    }
}
