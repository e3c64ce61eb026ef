//! What views may follow which, and that any history ends with units spread evenly.

use std::collections::BTreeSet;

use membership::view_log::{ClusterId, Digest, DiskId, Generation, Head, LogId, Seat, State};
use membership::{Member, NodeId, Run};
use proptest::prelude::*;

use super::*;

const CONTAINERS: u16 = 2;
const SLOTS: u16 = 64;
const TASKS: u32 = 5;

fn member(node: u64, run: u64) -> Member {
    Member {
        node: NodeId(node),
        run: Run(run),
        peer: Vec::new(),
        control: ([10, 0, 0, 1], 1).into(),
        data: ([10, 0, 0, 1], 2).into(),
        http: None,
        containers: CONTAINERS,
    }
}

fn log(node: u64, run: u64) -> LogId {
    LogId::unsynced(DiskId(node), Run(run))
}

/// A head with these members: node, run and state.
fn head(number: u64, seats: &[(u64, u64, State)]) -> Head {
    let seats = seats.iter().map(|&(node, run, state)| Seat {
        member: member(node, run),
        log: log(node, run),
        state,
        since: Epoch(1),
    });
    let seats: Vec<_> = seats.collect();
    Head {
        cluster: ClusterId(1),
        generation: Generation { count: 0, author: DiskId(1) },
        number: Epoch(number),
        parent: Digest(0),
        voters: vec![seats[0].disk()],
        seats,
        lost: Vec::new(),
    }
}

fn share() -> Share {
    let active = Set { epoch: Epoch(1), logs: vec![log(1, 1)], container: 0 };
    Share { active, next: None, came: None }
}

/// What node 1 founds: slots, and a topology with numbered instances.
fn first() -> (Head, Assignment) {
    let mut slots = vec![share(); usize::from(SLOTS)];
    for (slot, share) in (0..).zip(&mut slots) {
        share.active.container = Slot(slot).container(CONTAINERS);
    }
    let topology = TopologyState {
        name: "t".to_owned(),
        hash: 7,
        stages: 2,
        phase: Phase::Waiting,
        tasks: BTreeMap::from([(3, vec![share(); TASKS as usize])]),
        spouts: BTreeMap::from([(0, None)]),
        partitions: None,
    };
    let mut body = Assignment {
        expected_nodes: 2,
        replicas: 1,
        is_durable: false,
        stores: BTreeMap::new(),
        given_up: Epoch(0),
        slots,
        topologies: vec![topology],
        anew: BTreeMap::new(),
        holders: BTreeSet::new(),
        books: BTreeSet::new(),
        drained: BTreeSet::new(),
        orphans: BTreeMap::new(),
        heirs: BTreeMap::new(),
        numbers: BTreeMap::from([(log(1, 1), 1)]),
        last_number: 1,
    };
    body.place_first_tasks(&member(1, 1), log(1, 1));
    (head(1, &[(1, 1, State::Active)]), body)
}

/// The next view, checked as acceptors check it.
#[track_caller]
fn follow(before: &(Head, Assignment), next: Head, causes: &[Cause]) -> (Head, Assignment) {
    let wanted = causes.iter().filter(|cause| before.1.wants(&before.0, cause)).cloned();
    let body = before.1.next(&before.0, &next, &wanted.collect());
    assert_eq!(body.check(&next), Ok(()));
    assert_eq!(before.1.check_next(&before.0, &body, &next), Ok(()));
    (next, body)
}

/// That all that is on its way to a node has installed there.
fn installed(body: &Assignment, to: LogId) -> Vec<Cause> {
    let mut by_epoch: BTreeMap<Epoch, Vec<Unit>> = BTreeMap::new();
    for (unit, share) in body.shares() {
        if let Some(next) = share.next.as_ref().filter(|next| next.owner() == to) {
            by_epoch.entry(next.epoch).or_default().push(unit);
        }
    }
    by_epoch.into_iter().map(|(epoch, units)| Cause::Installed(epoch, units)).collect()
}

fn owners(body: &Assignment) -> BTreeMap<LogId, usize> {
    let mut counts = BTreeMap::new();
    body.slots.iter().for_each(|share| *counts.entry(share.active.owner()).or_default() += 1);
    counts
}

const ACTIVE: State = State::Active;

#[test]
fn a_join_moves_a_share_by_two_views_and_then_the_topology_runs() {
    let one = first();
    let joining = follow(&one, head(2, &[(1, 1, ACTIVE), (2, 1, State::Joining)]), &[]);
    assert_eq!(joining.1.moving(), 0, "who joins has nothing yet");
    let two = follow(&joining, head(3, &[(1, 1, ACTIVE), (2, 1, ACTIVE)]), &[]);
    let moving = two.1.slots.iter().filter(|share| share.next.is_some()).count();
    assert_eq!(moving, usize::from(SLOTS) / 2);
    assert_eq!(owners(&two.1), BTreeMap::from([(log(1, 1), 64)]), "nothing is active there yet");
    assert_eq!(two.1.topologies[0].phase, Phase::Waiting);
    let causes = installed(&two.1, log(2, 1));
    let three = follow(&two, head(4, &[(1, 1, ACTIVE), (2, 1, ACTIVE)]), &causes);
    assert_eq!(owners(&three.1), BTreeMap::from([(log(1, 1), 32), (log(2, 1), 32)]));
    assert_eq!((three.1.moving(), three.1.topologies[0].phase), (0, Phase::Running));
    let came = three.1.shares().filter_map(|(_, share)| share.came).collect::<Vec<_>>();
    assert!(came.iter().all(|came| came.from.node == NodeId(1) && came.at == Epoch(4)));
    assert_eq!(came.len(), two.1.moving());
    for cause in &causes {
        assert!(!three.1.wants(&three.0, cause), "what was heeded is not wanted again");
    }
}

fn two_nodes() -> (Head, Assignment) {
    let two = follow(&first(), head(2, &[(1, 1, ACTIVE), (2, 1, State::Joining)]), &[]);
    let two = follow(&two, head(3, &[(1, 1, ACTIVE), (2, 1, ACTIVE)]), &[]);
    let causes = installed(&two.1, log(2, 1));
    follow(&two, head(4, &[(1, 1, ACTIVE), (2, 1, ACTIVE)]), &causes)
}

#[test]
fn what_a_dead_node_had_begins_empty_on_the_others_at_once() {
    let alone = follow(&two_nodes(), head(5, &[(2, 1, ACTIVE)]), &[]);
    assert_eq!(owners(&alone.1), BTreeMap::from([(log(2, 1), 64)]));
    let shares = alone.1.shares().map(|(_, share)| share);
    let lost: Vec<_> = shares.filter(|share| share.active.epoch == Epoch(5)).collect();
    assert!(lost.len() >= 32 && lost.iter().all(|share| share.came.is_none()));
}

#[test]
fn who_starts_again_keeps_its_slots_though_they_are_empty() {
    let two = two_nodes();
    let again = follow(&two, head(5, &[(1, 1, ACTIVE), (2, 2, ACTIVE)]), &[]);
    assert_eq!(owners(&again.1), BTreeMap::from([(log(1, 1), 32), (log(2, 2), 32)]));
    assert_eq!(again.1.moving(), 0);
}

#[test]
fn who_leaves_is_needed_until_all_is_taken_and_it_has_said_so() {
    let seats = [(1, 1, ACTIVE), (2, 1, State::Draining)];
    let leaving = follow(&two_nodes(), head(5, &seats), &[]);
    assert!(leaving.1.needs(&leaving.0, log(2, 1)));
    assert!(!leaving.1.wants(&leaving.0, &Cause::Drained(log(2, 1))), "it still has slots");
    let taken = follow(&leaving, head(6, &seats), &installed(&leaving.1, log(1, 1)));
    assert!(taken.1.needs(&taken.0, log(2, 1)), "others may still send to it");
    let drained = follow(&taken, head(7, &seats), &[Cause::Drained(log(2, 1))]);
    assert!(!drained.1.needs(&drained.0, log(2, 1)));
    let gone = follow(&drained, head(8, &[(1, 1, ACTIVE)]), &[]);
    assert!(gone.1.drained.is_empty());
}

#[test]
fn who_leaves_comes_back_if_it_has_what_nobody_else_has() {
    let at = two_on_disk();
    let number = at.0.number.0;
    let others = [(3, 1, ACTIVE)];
    assert!(!at.1.wants_back(&at.0, log(2, 1)), "it is a member");
    let off = follow(&at, head(number + 1, &[(2, 1, ACTIVE)]), &[]);
    assert!(!off.1.wants_back(&off.0, log(1, 1)), "the other has all");
    let off = follow(&at, head(number + 1, &others), &[]);
    assert!(off.1.wants_back(&off.0, log(2, 1)) && !off.1.wants_back(&off.0, log(4, 1)));
    // Its process is another than the one that had them.
    let both = [(2, 2, State::Draining), (3, 1, ACTIVE)];
    let stored = Cause::Stored(log(2, 2), Run(1));
    let back = follow(&off, head(number + 2, &both), &[]);
    let back = follow(&back, head(number + 3, &both), &[stored]);
    assert!(!back.1.names(log(2, 2)) && back.1.needs(&back.0, log(2, 2)));
    assert!(!back.1.wants(&back.0, &Cause::Drained(log(2, 2))));
}

#[test]
fn what_is_on_its_way_to_a_dead_node_is_called_back_by_a_later_view() {
    let one = follow(&first(), head(2, &[(1, 1, ACTIVE), (2, 1, ACTIVE)]), &[]);
    let back = follow(&one, head(3, &[(1, 1, ACTIVE)]), &[]);
    let next: Vec<_> = back.1.slots.iter().filter_map(|share| share.next.as_ref()).collect();
    assert_eq!(next.len(), 32);
    assert!(next.iter().all(|set| set.epoch == Epoch(3) && set.owner() == log(1, 1)));
    let done = follow(&back, head(4, &[(1, 1, ACTIVE)]), &installed(&back.1, log(1, 1)));
    assert_eq!(done.1.moving(), 0);
    assert!(done.1.shares().all(|(_, share)| share.came.is_none()), "it never went");
}

#[test]
fn phases_go_forward_only_and_not_while_something_moves() {
    let two = two_nodes();
    let end = Cause::Advance(0, Phase::Ending(0));
    assert!(two.1.wants(&two.0, &end));
    assert!(!two.1.wants(&two.0, &Cause::Advance(0, Phase::Ended)));
    assert!(!two.1.wants(&two.0, &Cause::Advance(9, Phase::Ending(0))));
    let moving = follow(&two, head(5, &[(1, 1, ACTIVE), (2, 1, ACTIVE), (3, 1, ACTIVE)]), &[]);
    assert!(!moving.1.wants(&moving.0, &end));
    let same = |number| head(number, &[(1, 1, ACTIVE), (2, 1, ACTIVE)]);
    let ending = follow(&two, same(5), std::slice::from_ref(&end));
    assert!(!ending.1.wants(&ending.0, &end));
    let second = follow(&ending, same(6), &[Cause::Advance(0, Phase::Ending(1))]);
    let ended = follow(&second, same(7), &[Cause::Advance(0, Phase::Ended)]);
    assert_eq!(ended.1.topologies[0].phase, Phase::Ended);
    let mut back = ended.1.clone();
    back.topologies[0].phase = Phase::Running;
    assert!(ended.1.check_next(&ended.0, &back, &same(8)).is_err());
}

#[test]
fn partitions_are_listed_once() {
    let two = two_nodes();
    let by = |node| Cause::Listed { topology: 0, prototype: 0, by: log(node, 1), count: 4 };
    let listed = follow(&two, head(5, &[(1, 1, ACTIVE), (2, 1, ACTIVE)]), &[by(1), by(2)]);
    assert!(listed.1.topologies[0].spouts[&0].is_some());
    assert!(!listed.1.wants(&listed.0, &by(1)) && !listed.1.wants(&listed.0, &by(2)));
    let odd = Cause::Listed { topology: 0, prototype: 9, by: log(1, 1), count: 4 };
    assert!(!two.1.wants(&two.0, &odd));
}

#[test]
fn when_every_process_is_gone_a_topology_begins_anew() {
    let maker = |at: &(Head, Assignment)| at.1.topologies[0].spouts[&0];
    let by = Cause::Listed { topology: 0, prototype: 0, by: log(1, 1), count: 4 };
    let seats = |one, two| [(1, one, ACTIVE), (2, two, ACTIVE)];
    let listed = follow(&two_nodes(), head(5, &seats(1, 1)), &[by]);
    let one = follow(&listed, head(6, &seats(2, 1)), &[]);
    assert!(maker(&one).is_some(), "the other may have its tokens");
    let fresh = follow(&one, head(7, &seats(2, 2)), &[]);
    assert_eq!((maker(&fresh), fresh.1.topologies[0].phase), (None, Phase::Running));
    let at_once = follow(&listed, head(6, &seats(2, 2)), &[]);
    assert_eq!(maker(&at_once), None);
    // One that has come back and taken tokens over keeps them when the other goes too.
    let holds = Cause::Holds(log(1, 2));
    assert!(one.1.wants(&one.0, &holds));
    let held = follow(&one, head(7, &seats(2, 1)), std::slice::from_ref(&holds));
    assert!(!held.1.wants(&held.0, &holds));
    let kept = follow(&held, head(8, &seats(2, 2)), &[]);
    assert!(maker(&kept).is_some());
}

#[test]
fn a_link_that_cannot_be_repaired_makes_a_member_anew() {
    let two = two_nodes();
    let since = |at: &(Head, Assignment)| at.1.since(at.0.seat(NodeId(2)).unwrap());
    let broken = Cause::Broken(NodeId(2), since(&two));
    let after =
        follow(&two, head(5, &[(1, 1, ACTIVE), (2, 1, ACTIVE)]), std::slice::from_ref(&broken));
    assert_eq!(since(&after), Epoch(5));
    assert!(!after.1.wants(&after.0, &broken));
    assert_eq!(owners(&after.1), owners(&two.1), "nothing moves");
}

/// Changes that no honest proposer makes.
#[test]
fn what_may_not_follow_is_refused() {
    let two = two_nodes();
    let next = head(5, &[(1, 1, ACTIVE), (2, 1, ACTIVE)]);
    let refused = |change: &dyn Fn(&mut Assignment)| {
        let mut after = two.1.clone();
        change(&mut after);
        after.check(&next).is_err() || two.1.check_next(&two.0, &after, &next).is_err()
    };
    assert!(!refused(&|_| ()));
    let to = |epoch| Set { epoch: Epoch(epoch), logs: vec![log(2, 1)], container: 0 };
    let foreign = two.1.slots.iter().position(|share| share.active.owner() == log(1, 1)).unwrap();
    assert!(!refused(&|body| body.slots[foreign].next = Some(to(5))));
    assert!(refused(&|body| body.slots[foreign].next = Some(to(4))), "of an older view");
    assert!(refused(&|body| body.slots[foreign].next = Some(to(6))), "of a later one");
    assert!(refused(&|body| body.slots[foreign].active = to(5)), "its owner lives");
    assert!(refused(&|body| body.slots[foreign].active.container = 9));
    assert!(refused(&|body| body.slots[foreign].active.logs.clear()));
    assert!(refused(&|body| body.slots.truncate(32)));
    assert!(refused(&|body| body.expected_nodes = 9));
    assert!(refused(&|body| body.topologies.clear()));
    assert!(refused(&|body| body.topologies[0].hash = 8));
    assert!(refused(&|body| body.topologies[0].tasks.clear()));
    let mut pending = two.clone();
    pending.1.slots[foreign].next = Some(to(4));
    let mut taken_back = pending.1.clone();
    taken_back.slots[foreign].next = None;
    assert!(pending.1.check_next(&pending.0, &taken_back, &next).is_err(), "there is no unseal");
}

/// The slots whose set is of these nodes, the owner first.
fn of_sets(body: &Assignment, nodes: &[u64]) -> Vec<u16> {
    let logs: Vec<_> = nodes.iter().map(|&node| log(node, 1)).collect();
    let slots = (0..).zip(&body.slots).filter(|(_, share)| share.active.logs == logs);
    slots.map(|(slot, _)| slot).collect()
}

/// All that is on its way has installed, view after view, until nothing is.
fn settle(mut at: (Head, Assignment), seats: &[(u64, u64, State)]) -> (Head, Assignment) {
    for _ in 0..8 {
        let causes = seats.iter().flat_map(|&(node, run, _)| installed(&at.1, log(node, run)));
        let causes: Vec<_> = causes.collect();
        let number = at.0.number.0 + 1;
        at = follow(&at, head(number, seats), &causes);
    }
    assert_eq!(at.1.moving(), 0);
    at
}

#[test]
fn whoever_is_left_of_a_set_goes_on_alone_and_then_the_set_grows() {
    let three = [(1, 1, ACTIVE), (2, 1, ACTIVE), (3, 1, ACTIVE)];
    let mut one = first();
    one.1.replicas = 2;
    let at = settle(one, &three);
    assert_eq!(at.1.thin(&at.0), 0);
    let two = [(1, 1, ACTIVE), (3, 1, ACTIVE)];
    let (orphans, shrunk) = (of_sets(&at.1, &[2, 3]), of_sets(&at.1, &[1, 2]));
    assert!(!orphans.is_empty() && !shrunk.is_empty());
    let gone = follow(&at, head(at.0.number.0 + 1, &two), &[]);
    let seats = Seats::new(&gone.0);
    for slot in orphans {
        let share = &gone.1.slots[usize::from(slot)];
        assert!(share.is_waiting(&seats), "it is not served before a view says so");
        let next = share.next.as_ref().unwrap();
        assert_eq!(
            next.logs,
            [log(3, 1)],
            "who has a replica goes on, and nobody is copied to first"
        );
        assert_eq!(share.home(&seats).unwrap().0, log(3, 1), "events wait there");
    }
    for slot in shrunk {
        let share = &gone.1.slots[usize::from(slot)];
        assert_eq!(share.next.as_ref().unwrap().logs, [log(1, 1)]);
        assert!(!share.is_waiting(&seats), "its owner serves it all the while");
    }
    assert!(gone.1.thin(&gone.0) > 0);
    let rest = settle(gone, &two);
    assert_eq!(owners(&rest.1).into_values().collect::<Vec<_>>(), [32, 32]);
    assert_eq!((rest.1.thin(&rest.0), begun_empty_in(&at, &rest)), (0, 0));
}

/// Whoever leaves still serves what it has not given away, also when a replica of that is lost meanwhile.
#[test]
fn a_set_shrinks_to_one_that_leaves() {
    let three = [(1, 1, ACTIVE), (2, 1, ACTIVE), (3, 1, ACTIVE)];
    let mut one = first();
    one.1.replicas = 2;
    let at = settle(one, &three);
    let number = at.0.number.0;
    let leaves = [(1, 1, ACTIVE), (2, 1, State::Draining), (3, 1, ACTIVE)];
    let leaving = follow(&at, head(number + 1, &leaves), &[]);
    let shrunk = follow(&leaving, head(number + 2, &leaves[..2]), &[]);
    let alone: Vec<_> = of_sets(&at.1, &[2, 3]);
    assert!(!alone.is_empty());
    for slot in alone {
        let next = shrunk.1.slots[usize::from(slot)].next.as_ref().unwrap();
        assert_eq!(next.logs, [log(2, 1)]);
    }
    assert_eq!(begun_empty_in(&leaving, &shrunk), 0);
    let rest = settle(shrunk, &leaves[..2]);
    assert_eq!(owners(&rest.1).into_keys().collect::<Vec<_>>(), [log(1, 1)]);
}

/// How many slots have come to an owner that had no replica of them.
fn begun_empty_in(before: &(Head, Assignment), after: &(Head, Assignment)) -> usize {
    let slots = before.1.slots.iter().zip(&after.1.slots);
    let is_lost =
        |was: &Share, is: &Share| !was.active.logs.iter().any(|log| is.active.logs.contains(log));
    slots.filter(|(was, is)| is_lost(was, is)).count()
}

#[test]
fn who_was_taken_off_and_is_back_has_no_replica_any_more() {
    let two = [(1, 1, ACTIVE), (2, 1, ACTIVE)];
    let mut one = first();
    one.1.replicas = 2;
    let at = settle(one, &two);
    let owned = of_sets(&at.1, &[2, 1]);
    let gone = follow(&at, head(at.0.number.0 + 1, &two[..1]), &[]);
    let mut back = head(at.0.number.0 + 2, &two);
    back.seats[1].since = back.number;
    let back = follow(&gone, back, &[]);
    let seats = Seats::new(&back.0);
    for slot in owned {
        let share = &back.1.slots[usize::from(slot)];
        assert!(share.is_waiting(&seats), "it has dropped what it had");
        let left: Vec<_> = back.1.copies(&seats).of(share).iter().map(|seat| seat.log).collect();
        assert_eq!(left, [log(1, 1)]);
    }
}

/// Two nodes that keep replicas on their disks, since their first lives.
fn two_on_disk() -> (Head, Assignment) {
    let two = [(1, 1, ACTIVE), (2, 1, ACTIVE)];
    let mut one = first();
    (one.1.replicas, one.1.is_durable) = (2, true);
    let at = settle(one, &two);
    let stored = [1, 2].map(|node| Cause::Stored(log(node, 1), Run(1)));
    follow(&at, head(at.0.number.0 + 1, &two), &stored)
}

#[test]
fn where_copies_are_on_disk_units_wait_for_them_and_never_begin_empty() {
    let at = two_on_disk();
    let number = at.0.number.0;
    // Both processes have ended, and one is back; what its disk has is not known yet.
    let back = follow(&at, head(number + 1, &[(1, 2, ACTIVE)]), &[]);
    let all = usize::from(SLOTS) + TASKS as usize;
    assert_eq!(back.1.unavailable(&back.0), all);
    let seats = Seats::new(&back.0);
    assert!(back.1.shares().all(|(_, share)| share.is_waiting(&seats)));
    let installed = installed(&back.1, log(1, 2));
    assert!(back.1.shares().zip(at.1.shares()).all(|(is, was)| is.1.active == was.1.active));
    // It says what it has, and goes on with that.
    let stored = Cause::Stored(log(1, 2), Run(1));
    let known = follow(&back, head(number + 2, &[(1, 2, ACTIVE)]), std::slice::from_ref(&stored));
    assert!(!known.1.wants(&known.0, &stored), "once");
    assert_eq!(known.1.unavailable(&known.0), 0);
    let served = follow(&known, head(number + 3, &[(1, 2, ACTIVE)]), &installed);
    let seats = Seats::new(&served.0);
    assert!(served.1.shares().all(|(_, share)| !share.is_waiting(&seats)));
    // With the other one back, all goes on as it was.
    let rest = settle(served, &[(1, 2, ACTIVE), (2, 2, ACTIVE)]);
    assert_eq!((rest.1.thin(&rest.0), rest.1.unavailable(&rest.0)), (0, 0));
}

#[test]
fn a_disk_that_has_lost_what_it_had_is_nobody_to_go_on_from() {
    let at = two_on_disk();
    let number = at.0.number.0;
    let both = [(1, 2, ACTIVE), (2, 2, ACTIVE)];
    let back = follow(&at, head(number + 1, &both), &[]);
    // The first has found its journal damaged, and made another in this life.
    let stored = [Cause::Stored(log(1, 2), Run(2)), Cause::Stored(log(2, 2), Run(1))];
    let known = follow(&back, head(number + 2, &both), &stored);
    let seats = Seats::new(&known.0);
    for (_, share) in known.1.shares() {
        let left = known.1.copies(&seats).of(share);
        let left: Vec<_> = left.iter().map(|seat| seat.log).collect();
        let had_it = share.active.logs.contains(&log(2, 1));
        assert_eq!(left, if had_it { vec![log(2, 2)] } else { vec![] });
        let next = share.next.as_ref().expect("somebody is to have it");
        assert!(!had_it || next.owner() == log(2, 2));
    }
}

#[test]
fn what_nobody_has_begins_empty_once_an_operator_says_so() {
    let at = two_on_disk();
    let number = at.0.number.0;
    let alone = follow(&at, head(number + 1, &[(3, 1, ACTIVE)]), &[]);
    let units = alone.1.unavailable(&alone.0);
    assert!(units > 0 && units == alone.1.shares().count());
    let waits = follow(&alone, head(number + 2, &[(3, 1, ACTIVE)]), &[]);
    assert_eq!(waits.1.unavailable(&waits.0), units, "not by itself");
    let late = Cause::GivenUp(alone.0.number);
    assert!(!waits.1.wants(&waits.0, &late), "what was unavailable then may be another");
    let given_up =
        follow(&waits, head(number + 3, &[(3, 1, ACTIVE)]), &[Cause::GivenUp(waits.0.number)]);
    assert_eq!(given_up.1.unavailable(&given_up.0), 0);
    assert_eq!(given_up.1.given_up, given_up.0.number);
    assert!(!given_up.1.wants(&given_up.0, &Cause::GivenUp(given_up.0.number)));
    let is_new = |share: &Share| share.active.logs == [log(3, 1)] && share.came.is_none();
    assert!(given_up.1.shares().all(|(_, share)| is_new(share)));
}

#[test]
fn what_a_disk_had_is_inherited_once_and_by_nobody_if_it_comes_back() {
    let two = [(1, 1, ACTIVE), (2, 1, ACTIVE)];
    let mut one = first();
    one.1.replicas = 2;
    one.1.topologies[0].partitions = Some(BTreeMap::new());
    let mut at = settle(one, &two);
    at.1.books.extend([DiskId(1), DiskId(2)]);
    let number = at.0.number.0;
    let gone = follow(&at, head(number + 1, &two[..1]), &[]);
    assert_eq!(gone.1.orphans, BTreeMap::from([(DiskId(2), gone.0.number)]));
    let by = |node| Cause::Inherited(DiskId(2), gone.0.number, log(node, 1));
    let back = follow(&gone, head(number + 2, &two), &[]);
    assert!(back.1.orphans.is_empty() && !back.1.wants(&back.0, &by(1)), "it goes on itself");
    let again = follow(&back, head(number + 3, &two[..1]), &[]);
    assert!(!again.1.wants(&again.0, &by(1)), "it has gone on meanwhile");
    let heired = follow(&gone, head(number + 2, &two[..1]), &[by(1)]);
    let heirs: Vec<_> = heired.1.heirs.iter().map(|(&disk, heir)| (disk, heir.log)).collect();
    assert_eq!(heirs, [(DiskId(2), log(1, 1))]);
    assert!(!heired.1.wants(&heired.0, &by(1)), "once");
    let late = follow(&heired, head(number + 3, &two), &[]);
    assert_eq!(late.1.heirs.len(), 1, "it has to forget what it had");
    let forgot = follow(&late, head(number + 4, &two), &[Cause::Forgot(DiskId(2))]);
    assert_eq!(forgot.1.heirs.len(), 1, "and the other may not know yet that it is to have it");
    assert!(!forgot.1.wants(&forgot.0, &Cause::Forgot(DiskId(2))));
    let merged = Cause::Merged(DiskId(2), gone.0.number);
    let settled = follow(&forgot, head(number + 5, &two), std::slice::from_ref(&merged));
    assert!(settled.1.heirs.is_empty() && !settled.1.wants(&settled.0, &merged));
}

#[test]
fn what_an_heir_had_inherited_goes_with_what_it_had_itself() {
    let all = [(1, 1, ACTIVE), (2, 1, ACTIVE), (3, 1, ACTIVE)];
    let mut one = first();
    one.1.replicas = 2;
    one.1.topologies[0].partitions = Some(BTreeMap::new());
    let mut at = settle(one, &all);
    at.1.holders.extend(all.map(|(node, run, _)| log(node, run)));
    at.1.books.extend(all.map(|(node, ..)| DiskId(node)));
    let number = at.0.number.0;
    let gone = follow(&at, head(number + 1, &[all[0], all[1]]), &[]);
    let by_2 = Cause::Inherited(DiskId(3), Epoch(number + 1), log(2, 1));
    let heired = follow(&gone, head(number + 2, &[all[0], all[1]]), &[by_2]);
    let merged = Cause::Merged(DiskId(3), Epoch(number + 1));
    // The heir goes as well, and is back and has forgotten when another has all of it.
    let gone = follow(&heired, head(number + 3, &all[..1]), &[merged]);
    let by_1 = Cause::Inherited(DiskId(2), Epoch(number + 3), log(1, 1));
    let heired = follow(&gone, head(number + 4, &all[..1]), &[by_1]);
    let back = follow(&heired, head(number + 5, &all[..2]), &[]);
    let again = follow(&back, head(number + 6, &all[..1]), &[]);
    assert!(again.1.orphans.is_empty(), "what it has on its disk is another's");
    let back = follow(&again, head(number + 7, &all[..2]), &[]);
    let both = [Cause::Forgot(DiskId(2)), Cause::Merged(DiskId(2), Epoch(number + 3))];
    let settled = follow(&back, head(number + 8, &all[..2]), &both);
    let heirs: Vec<_> = settled.1.heirs.iter().map(|(&disk, heir)| (disk, heir.log)).collect();
    assert_eq!(heirs, [(DiskId(3), log(1, 1))]);
}

/// The others came in before there were tokens, and were noted as who may have some; the maker was not, and nobody
/// inherited the partitions that it had kept for itself.
#[test]
fn who_makes_tokens_is_inherited_from_like_who_takes_them() {
    let two = [(1, 1, ACTIVE), (2, 1, ACTIVE)];
    let mut one = first();
    one.1.replicas = 2;
    one.1.topologies[0].partitions = Some(BTreeMap::new());
    let joining = follow(&one, head(2, &[(1, 1, ACTIVE), (2, 1, State::Joining)]), &[]);
    let at = settle(follow(&joining, head(3, &two), &[]), &two);
    assert_eq!(at.1.holders, BTreeSet::from([log(2, 1)]));
    let listed = Cause::Listed { topology: 0, prototype: 0, by: log(1, 1), count: 8 };
    let at = follow(&at, head(at.0.number.0 + 1, &two), &[listed]);
    let gone = follow(&at, head(at.0.number.0 + 1, &two[1..]), &[]);
    assert_eq!(gone.1.orphans.keys().collect::<Vec<_>>(), [&DiskId(1)]);
    let inherited = Cause::Inherited(DiskId(1), gone.0.number, log(2, 1));
    let heired = follow(&gone, head(gone.0.number.0 + 1, &two[1..]), &[inherited]);
    assert_eq!(heired.1.holders, BTreeSet::from([log(2, 1)]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes and goes, each view may follow the one before; when all has installed, units are
    /// spread evenly over active members, and nothing that could stay has moved.
    #[test]
    fn any_history_is_valid_and_ends_even(
        steps in prop::collection::vec((0u8..5, 1u64..7, any::<bool>()), 1..24),
        replicas in 1u32..4,
    ) {
        let mut seats = BTreeMap::from([(1u64, (1u64, ACTIVE))]);
        let mut at = first();
        at.1.replicas = replicas;
        for (what, node, installs) in steps {
            let known = seats.get(&node).copied();
            match (what, known) {
                (0, None) => { seats.insert(node, (1, State::Joining)); }
                (1, Some((run, State::Joining))) => { seats.insert(node, (run, ACTIVE)); }
                (2, Some((run, ACTIVE))) => { seats.insert(node, (run, State::Draining)); }
                (3, Some((run, state))) => { seats.insert(node, (run + 1, state)); }
                (4, Some(_)) if seats.len() > 1 => { seats.remove(&node); }
                _ => continue,
            }
            if !seats.values().any(|(_, state)| *state != State::Joining) {
                let any = *seats.keys().next().unwrap();
                seats.get_mut(&any).unwrap().1 = ACTIVE;
            }
            let list: Vec<_> = seats.iter().map(|(&node, &(run, state))| (node, run, state)).collect();
            let number = at.0.number.0 + 1;
            let mut causes = Vec::new();
            if installs {
                list.iter().for_each(|&(node, run, _)| causes.extend(installed(&at.1, log(node, run))));
            }
            let mut next = head(number, &list);
            next.voters = vec![next.seats.iter().find(|s| s.state != State::Joining).unwrap().disk()];
            at = follow(&at, next, &causes);
        }
        // What is left of a set takes over, moves to where it belongs, and grows.
        for _ in 0..5 {
            let list: Vec<_> = seats.iter().map(|(&node, &(run, state))| (node, run, state)).collect();
            let causes: Vec<_> = list.iter().flat_map(|&(node, run, _)| installed(&at.1, log(node, run))).collect();
            let mut next = head(at.0.number.0 + 1, &list);
            next.voters = at.0.voters.clone();
            at = follow(&at, next, &causes);
        }
        prop_assert_eq!(at.1.moving(), 0, "{:?}", seats);
        let active: Vec<_> = seats.iter().filter(|(_, (_, state))| *state == ACTIVE).collect();
        if !active.is_empty() {
            let copies = active.len().min(replicas as usize);
            prop_assert!(at.1.shares().all(|(_, share)| share.active.logs.len() == copies), "{at:?}");
        }
        if !active.is_empty() {
            let counts = owners(&at.1);
            let most = usize::from(SLOTS).div_ceil(active.len());
            for &(&node, &(run, _)) in &active {
                let count = counts.get(&log(node, run)).copied().unwrap_or(0);
                prop_assert!(count <= most && count + 1 >= usize::from(SLOTS) / active.len(), "{counts:?}");
            }
            let tasks = &at.1.topologies[0].tasks[&3];
            let each = (TASKS as usize).div_ceil(active.len() * usize::from(CONTAINERS));
            let mut by_container = BTreeMap::<_, usize>::new();
            tasks.iter().for_each(|t| *by_container.entry((t.active.owner(), t.active.container)).or_default() += 1);
            prop_assert!(by_container.values().all(|&count| count <= each), "{by_container:?}");
        }
    }
}
