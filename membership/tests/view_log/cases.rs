//! The cases that people ask about, each on its own.

use std::collections::BTreeSet;
use std::time::Duration;

use membership::view_log::{ClusterId, Founding, Input, State};

use crate::host::{Notes, ms};
use crate::world::World;

fn nodes(of: impl IntoIterator<Item = u64>) -> BTreeSet<u64> {
    of.into_iter().collect()
}

/// Makes a view by a cause, and waits until all that run have it.
fn make_a_view(world: &mut World, node: u64, note: u64) {
    world.input(node, Input::Cause(note));
    world.run_until(ms(10_000), |world| {
        let has_it = |notes: &Notes| notes.0.contains(&note);
        world.running().all(|(_, log)| log.view().is_some_and(|view| has_it(&view.body)))
    });
}

#[test]
fn after_a_cold_restart_the_old_view_goes_on() {
    for seed in 0..10 {
        let mut world = World::new(seed);
        world.found(1, 77);
        [3, 5, 7].into_iter().for_each(|node| world.start(node));
        world.run_until(ms(10_000), |world| world.agrees(&nodes([1, 3, 5, 7])));
        world.run(ms(3_000));
        let before = world.number();
        [1, 3, 5, 7].into_iter().for_each(|node| world.crash(node));
        world.run(ms(60_000));
        for node in [1, 3, 5, 7] {
            world.start(node);
            world.run(ms(700));
        }
        world.run(ms(20_000));
        assert_eq!(world.number(), before, "seed {seed}\n{world}");
        assert!(world.agrees(&nodes([1, 3, 5, 7])), "seed {seed}\n{world}");
        make_a_view(&mut world, 5, 9);
    }
}

#[test]
fn after_a_cold_restart_those_that_forgot_their_logs_are_there_anew() {
    for seed in 0..5 {
        let mut world = World::settled(seed, 4);
        let before = world.number();
        (1..=4).for_each(|node| world.crash(node));
        (1..=4).for_each(|node| world.start(node));
        world.run(ms(10_000));
        assert!(world.agrees(&nodes(1..=4)), "seed {seed}\n{world}");
        assert!(world.number() <= before + 4, "seed {seed}\n{world}");
        let newest = world.referee.newest(77).unwrap();
        for seat in &newest.head.seats {
            let has_forgotten = seat.member.node.0 % 2 == 0;
            assert_eq!(seat.since.0 > before, has_forgotten, "seed {seed}: {seat:?}\n{world}");
        }
    }
}

#[test]
fn who_slept_through_many_views_needs_the_newest() {
    for seed in 0..5 {
        let mut world = World::settled(seed, 5);
        world.crash(5);
        world.run(ms(6_000));
        (0..30).for_each(|note| make_a_view(&mut world, 1 + note % 4, note));
        let before = world.trace.len();
        world.start(5);
        world.run_until(ms(10_000), |world| world.agrees(&nodes(1..=5)));
        let seen = world.trace[before..].iter().filter(|line| line.contains("node 5 has view"));
        // The one on its disk, the newest, and those that let it in.
        assert!(seen.count() <= 5, "seed {seed}\n{world}");
        assert!(world.was_told(5, "Fenced"), "seed {seed}\n{world}");
    }
}

#[test]
fn of_two_nodes_the_voter_goes_on_alone_and_the_other_does_not() {
    for seed in 0..10 {
        let mut world = World::settled(seed, 2);
        world.crash(2);
        world.run_until(ms(6_000), |world| world.agrees(&nodes([1])));
        make_a_view(&mut world, 1, 5);
        world.start(2);
        world.run_until(ms(10_000), |world| world.agrees(&nodes([1, 2])));

        let before = world.number();
        world.crash(1);
        world.input(2, Input::Cause(6));
        world.run(ms(60_000));
        assert_eq!(world.number(), before, "seed {seed}\n{world}");
        assert!(world.was_told(2, "QuorumLost { live: 0, needed: 1 }"), "seed {seed}\n{world}");
        world.start(1);
        world.run_until(ms(10_000), |world| world.agrees(&nodes([1, 2])));
        world.run_until(ms(3_000), |world| world.was_told(2, "QuorumBack"));
        make_a_view(&mut world, 2, 7);
    }
}

#[test]
fn of_two_nodes_either_may_leave() {
    for (leaver, other) in [(1, 2), (2, 1)] {
        for seed in 0..5 {
            let mut world = World::settled(seed, 2);
            world.input(leaver, Input::Drain);
            world.run_until(ms(3_000), |world| world.hosts[&leaver].is_dismissed);
            world.lose_disk(leaver);
            world.run_until(ms(3_000), |world| world.agrees(&nodes([other])));
            make_a_view(&mut world, other, 5);
        }
    }
}

#[test]
fn the_last_member_may_leave_and_is_the_cluster() {
    let mut world = World::settled(1, 1);
    world.input(1, Input::Drain);
    assert!(world.hosts[&1].is_dismissed);
    world.crash(1);
    world.start(1);
    world.run(ms(100));
    make_a_view(&mut world, 1, 5);
}

#[test]
fn a_minority_decides_nothing_and_comes_back() {
    for seed in 0..10 {
        let mut world = World::settled(seed, 5);
        let lost = nodes([seed % 5 + 1, (seed + 2) % 5 + 1]);
        world.split(&lost);
        let stay: BTreeSet<_> = (1..=5).filter(|node| !lost.contains(node)).collect();
        lost.iter().for_each(|&node| world.input(node, Input::Cause(1000 + node)));
        world.run(ms(30_000));
        let newest = world.referee.newest(77).unwrap().clone();
        let seats: BTreeSet<_> = newest.head.seats.iter().map(|seat| seat.member.node.0).collect();
        assert_eq!(seats, stay, "seed {seed}\n{world}");
        for &node in &lost {
            assert!(world.was_told(node, "QuorumLost"), "seed {seed}\n{world}");
        }
        world.cuts.clear();
        world.run_until(ms(10_000), |world| world.agrees(&nodes(1..=5)));
        assert!(lost.iter().all(|&node| world.was_told(node, "Fenced")), "seed {seed}\n{world}");
    }
}

#[test]
fn halves_stand_still_until_they_meet() {
    for seed in 0..5 {
        let mut world = World::settled(seed, 5);
        world.crash(5);
        // Four voters of five are left, two on each side.
        world.split(&nodes([1, 2]));
        world.input(1, Input::Cause(9));
        world.run(ms(30_000));
        let before = world.number();
        world.run(ms(30_000));
        assert_eq!(world.number(), before, "seed {seed}\n{world}");
        world.cuts.clear();
        world.run_until(ms(10_000), |world| world.agrees(&nodes(1..=4)));
    }
}

#[test]
fn a_lost_majority_is_given_up_by_order_only() {
    for seed in 0..5 {
        let mut world = World::settled(seed, 5);
        world.input(1, Input::RecoverUnsafe);
        assert!(world.was_told(1, "NotRecovered(NotLost)"), "seed {seed}\n{world}");
        let before = world.number();
        [3, 4].into_iter().for_each(|node| world.lose_disk(node));
        world.crash(5);
        world.run(ms(60_000));
        assert_eq!(
            (world.number(), world.referee.generations()),
            (before, 1),
            "seed {seed}\n{world}"
        );

        world.input(2, Input::RecoverUnsafe);
        world.run_until(ms(3_000), |world| world.agrees(&nodes([1, 2])));
        let told = world.trace.iter().filter(|line| line.contains("Recovered {")).count();
        assert_eq!(told, 2, "seed {seed}: it is loud on both\n{world}");
        make_a_view(&mut world, 1, 5);
        // One of the lost was not.
        world.start(5);
        world.run_until(ms(10_000), |world| world.agrees(&nodes([1, 2, 5])));
        assert!(world.was_told(5, "Fenced"), "seed {seed}\n{world}");
        assert_eq!(world.referee.generations(), 2);
    }
}

#[test]
fn two_recoveries_of_two_sides_end_in_one_of_them() {
    for seed in 0..5 {
        let mut world = World::settled(seed, 5);
        world.crash(5);
        world.split(&nodes([1, 2]));
        world.run(ms(10_000));
        world.input(1, Input::RecoverUnsafe);
        world.input(3, Input::RecoverUnsafe);
        world.run(ms(5_000));
        make_views_apart(&mut world);
        world.cuts.clear();
        world.run_until(ms(20_000), |world| world.agrees(&nodes(1..=4)));
        assert_eq!(world.referee.generations(), 3, "seed {seed}\n{world}");
    }
}

fn make_views_apart(world: &mut World) {
    world.input(1, Input::Cause(1));
    world.input(3, Input::Cause(3));
    world.run(ms(3_000));
}

fn listed(world: &mut World, node: u64) {
    let list = [1, 2, 3].map(membership::NodeId).to_vec();
    let body = Notes::default();
    world.start_with(node, Some(Founding { cluster: ClusterId(77), body, nodes: list }));
}

#[test]
fn the_first_of_a_list_founds_when_all_others_hold_no_view() {
    for seed in 0..10 {
        let mut world = World::new(seed);
        [1, 2].into_iter().for_each(|node| listed(&mut world, node));
        world.run(ms(60_000));
        assert_eq!(world.number(), 0, "seed {seed}: the third was not asked yet\n{world}");
        listed(&mut world, 3);
        world.run_until(ms(10_000), |world| world.agrees(&nodes(1..=3)));
        // The first loses its disk and begins as it did; the others remember.
        world.run(ms(3_000));
        world.lose_disk(1);
        listed(&mut world, 1);
        world.run_until(ms(10_000), |world| world.agrees(&nodes(1..=3)));
        let founded = world.trace.iter().filter(|line| line.contains("Founded")).count();
        assert_eq!(founded, 1, "seed {seed}\n{world}");
    }
}

#[test]
fn a_founder_that_starts_again_founds_nothing() {
    let mut world = World::settled(3, 3);
    world.crash(1);
    world.found(1, 78);
    world.run_until(ms(10_000), |world| world.agrees(&nodes(1..=3)));
    assert!(world.was_told(1, "AlreadyFounded(ClusterId(77))"), "{world}");
}

#[test]
fn clusters_that_meet_stay_apart() {
    for seed in 0..5 {
        let mut world = World::settled(seed, 3);
        let before = world.number();
        // A node that is told to found one by mistake.
        world.found(4, 78);
        world.run(ms(20_000));
        assert_eq!(world.number(), before, "seed {seed}\n{world}");
        let foreign = world.hosts[&4].log.as_ref().unwrap().cluster();
        assert_eq!(foreign, Some(ClusterId(78)), "seed {seed}\n{world}");
        for (node, other) in [(1, 78), (4, 77)] {
            let refused = format!("Foreign(ClusterId({other}))");
            let told = world.trace.iter().filter(|line| line.contains(&format!("node {node}:")));
            assert!(told.into_iter().any(|line| line.contains(&refused)), "seed {seed}\n{world}");
        }
    }
}

/// Three seconds there and five away for five minutes: gossip notices each time.
#[test]
fn a_flapping_node_makes_a_bounded_number_of_views() {
    for seed in 0..3 {
        let mut world = World::settled(seed, 5);
        world.config.return_wait_max = Duration::from_secs(60);
        // The config is read at the start.
        (1..=5).for_each(|node| world.crash(node));
        (1..=5).for_each(|node| world.start(node));
        world.run_until(ms(20_000), |world| world.agrees(&nodes(1..=5)));
        let before = world.number();
        for _ in 0..38 {
            world.split(&nodes([3]));
            world.run(ms(5_000));
            world.cuts.clear();
            world.run(ms(3_000));
        }
        // Off, in and ready are three. After four or five times the waits are longer than a turn, and those
        // of 8, 16, 32 and three of 60 seconds fit. Undamped it would be 38 times.
        let views = world.number() - before;
        assert!((9..=40).contains(&views), "seed {seed}: {views} views\n{world}");
        assert!((1..=5).any(|node| world.was_told(node, "Damped")), "seed {seed}\n{world}");
        world.run_until(ms(70_000), |world| world.agrees(&nodes(1..=5)));
    }
}

#[test]
fn many_come_and_go_at_once() {
    for seed in 0..5 {
        let mut world = World::settled(seed, 5);
        let before = world.number();
        (6..=10).for_each(|node| world.start(node));
        (2..=4).for_each(|node| world.input(node, Input::Drain));
        world.run_until(ms(10_000), |world| (2..=4).all(|node| world.hosts[&node].is_dismissed));
        (2..=4).for_each(|node| world.lose_disk(node));
        world.run_until(ms(10_000), |world| world.agrees(&nodes([1, 5, 6, 7, 8, 9, 10])));
        let views = world.number() - before;
        assert!(views <= 16, "seed {seed}: {views} views for eight nodes\n{world}");
        assert_eq!(world.referee.newest(77).unwrap().head.voters.len(), 7);
    }
}

#[test]
fn a_node_that_is_not_ready_stays_joining() {
    let mut world = World::settled(1, 3);
    world.is_ready = false;
    world.start(4);
    world.run(ms(10_000));
    let seat = |world: &World| world.hosts[&4].log.as_ref().unwrap().seat().map(|seat| seat.state);
    assert_eq!(seat(&world), Some(State::Joining), "{world}");
    world.input(4, Input::Ready);
    world.run_until(ms(3_000), |world| world.agrees(&nodes(1..=4)));
}
