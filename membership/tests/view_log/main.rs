//! The view log under faults: first safety while everything breaks, then liveness once it stops.
//!
//! The [`world`] breaks things by a seed and the [`referee`] watches. A failure names its seed, and the
//! seed replays it.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod cases;
mod host;
mod referee;
mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use host::{Host, Notes, ms};
use membership::view_log::{Input, ViewLog};
use rand::RngExt;
use world::{Weather, World};

/// What the faults of a run came to.
#[derive(Debug, Default)]
struct Tally {
    crashes: u32,
    splits: u32,
    lost_disks: u32,
    leaves: u32,
    views: usize,
    duels: u64,
    adopted: u64,
    /// How long the slowest took to agree in fair weather.
    healed_after: Duration,
}

/// Ten to forty faults, then fair weather and a demand.
fn storm(seed: u64) -> (World, Tally) {
    let size = [2, 3, 4, 5, 7][usize::try_from(seed % 5).unwrap()];
    let mut world = World::settled(seed, size);
    world.weather = Weather {
        loss: world.rng.random_range(0..25),
        doubled: world.rng.random_range(0..20),
        late: world.rng.random_range(0..10),
        mistaken: world.rng.random_range(0..3),
    };
    let mut tally = Tally::default();
    for step in 0..world.rng.random_range(10..40) {
        mishap(&mut world, size, step, &mut tally);
        let pause = world.rng.random_range(20..1_500);
        world.run(ms(pause));
        end_the_dismissed(&mut world);
    }
    tally.healed_after = heal(&mut world, size);
    tally.views = world.referee.decided.len();
    (tally.duels, tally.adopted) = (world.referee.duels, world.referee.adopted);
    (world, tally)
}

fn mishap(world: &mut World, size: u64, step: u64, tally: &mut Tally) {
    let node = world.rng.random_range(1..=size);
    let is_running = world.running().any(|(running, _)| running == node);
    match world.rng.random_range(0..12) {
        0..3 if is_running => {
            tally.crashes += 1;
            world.crash(node);
        }
        0..5 if !is_running => world.start(node),
        5 if is_running && may_lose(world, node) => {
            tally.lost_disks += 1;
            world.lose_disk(node);
        }
        6 => {
            tally.splits += 1;
            let here = (1..=size).filter(|_| world.rng.random_ratio(1, 2)).collect();
            world.split(&here);
        }
        7 => {
            let to = world.rng.random_range(1..=size);
            world.cuts.insert((node, to));
        }
        8 => world.cuts.clear(),
        9 if is_running && world.running().count() > 2 => {
            tally.leaves += 1;
            world.input(node, Input::Drain);
        }
        _ => world.input(node, Input::Cause(step * 10 + node)),
    }
}

/// Whether the cluster can live without a disk: what is decided must be left on enough others, and
/// nothing under way that counts on it.
fn may_lose(world: &World, node: u64) -> bool {
    let newest = world.referee.newest(77).unwrap();
    let kept: BTreeSet<_> = world
        .hosts
        .iter()
        .filter(|(other, _)| **other != node)
        .map(|(_, host)| host.disk)
        .collect();
    let holds = |host: &Host| {
        host.log.as_ref().is_some_and(|log| log.view().is_some_and(|view| view == newest))
    };
    let holders: BTreeSet<_> = world
        .hosts
        .iter()
        .filter(|(other, host)| **other != node && holds(host))
        .map(|(_, host)| host.disk)
        .collect();
    let voters: BTreeSet<_> = newest.head.voters.iter().copied().collect();
    let majority = voters.len() / 2 + 1;
    let is_quiet = world.hosts.values().all(|host| host.voted().is_none());
    is_quiet
        && voters.intersection(&kept).count() >= majority
        && voters.intersection(&holders).count() >= majority
}

/// A node that may leave ends, and its disk goes with it; another takes its name. The last member ends
/// too, but its disk is the cluster.
fn end_the_dismissed(world: &mut World) {
    let dismissed = world.running().filter(|(node, _)| world.hosts[node].is_dismissed);
    let gone: Vec<_> = dismissed.map(|(node, log)| (node, log.seat().is_some())).collect();
    for (node, is_last) in gone {
        if is_last {
            world.crash(node);
        } else {
            world.lose_disk(node);
        }
    }
}

/// Everybody is back and hears everybody: then all are members of one view, and it heeds everybody.
fn heal(world: &mut World, size: u64) -> Duration {
    world.cuts.clear();
    world.weather = Weather::fair();
    end_the_dismissed(world);
    for node in 1..=size {
        // Those that wanted to leave stay, in another run.
        if world.hosts.get(&node).is_none_or(|host| host.is_leaving || host.log.is_none()) {
            world.crash(node);
            world.start(node);
        }
    }
    let nodes: BTreeSet<_> = (1..=size).collect();
    let healed_after = world.run_until(ms(40_000), |world| world.agrees(&nodes));
    for node in 1..=size {
        world.input(node, Input::Cause(1_000_000 + node));
    }
    world.run_until(ms(5_000), |world| {
        let has_all = |log: &ViewLog<Notes>| {
            let notes = &log.view().unwrap().body.0;
            (1..=size).all(|node| notes.contains(&(1_000_000 + node)))
        };
        world.running().all(|(_, log)| has_all(log))
    });
    assert_eq!(world.referee.generations(), 1, "seed {}: nobody recovered", world.seed);
    healed_after
}

#[test]
fn storms_break_nothing_and_end_in_agreement() {
    let mut sum = Tally::default();
    for seed in 0..60 {
        let (_, tally) = storm(seed);
        sum.crashes += tally.crashes;
        sum.splits += tally.splits;
        sum.lost_disks += tally.lost_disks;
        sum.leaves += tally.leaves;
        sum.views += tally.views;
        sum.duels += tally.duels;
        sum.adopted += tally.adopted;
        sum.healed_after = sum.healed_after.max(tally.healed_after);
    }
    let is_vacuous = sum.crashes.min(sum.splits).min(sum.lost_disks).min(sum.leaves) == 0
        || sum.duels.min(sum.adopted) == 0;
    assert!(!is_vacuous, "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = |seed| {
        let (world, _) = storm(seed);
        (world.trace, world.sent)
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8), "the seed should matter");
}
