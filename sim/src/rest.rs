//! What must come about once all is healed, and in what time.

use std::collections::BTreeMap;

use membership::NodeId;
use membership::view_log::{Seat, State};
use node::View;

use crate::campaign::{ARRIVAL, HEALING, KEYS, REST, silence, wait};
use crate::violation::{Violation, holds};
use crate::world::World;

/// All who live are members, units are where they belong and move no more, and views stop changing.
pub(crate) fn the_cluster_comes_to_rest(world: &mut World) -> Result<(), Violation> {
    let end = world.now + HEALING;
    loop {
        let limit = end - world.now;
        let is_met = wait(world, limit, |world| unrest(world).is_none());
        let why = unrest(world);
        holds(
            "the_cluster_comes_to_rest",
            world.now,
            is_met || world.violation().is_some(),
            || format!("{} s after it was healed: {}", HEALING.as_secs(), why.unwrap_or_default()),
        )?;
        let number = |world: &World| world.referee.newest().map(|view| view.head.number);
        let before = number(world);
        world.run_to(world.now + REST);
        if world.violation().is_some() || (number(world) == before && unrest(world).is_none()) {
            return Ok(());
        }
    }
}

/// Why the cluster is not at rest.
pub(crate) fn unrest(world: &World) -> Option<String> {
    let Some(view) = world.referee.newest() else { return Some("there is no view".to_owned()) };
    let mut alive = BTreeMap::new();
    for (number, machine) in world.machines.iter().enumerate() {
        let Some(process) = &machine.process else { continue };
        if machine.is_leaving {
            return Some(format!("n{number} has not left"));
        }
        if process.core.view().map(|view| view.id()) != Some(view.id()) {
            return Some(format!("n{number} goes by another view than {}", view.head.number));
        }
        alive.insert(machine.node, (number, process.log()));
    }
    for seat in &view.head.seats {
        let is_here = alive.get(&seat.node()).is_some_and(|(_, log)| *log == seat.log);
        if !is_here || seat.state != State::Active {
            return Some(format!(
                "{} is a member as {:?}, alive: {is_here}",
                seat.node(),
                seat.state
            ));
        }
    }
    if view.head.seats.len() != alive.len() {
        let outside = alive.iter().filter(|(node, _)| view.head.seat(**node).is_none());
        let outside: Vec<_> = outside.map(|(_, (number, _))| format!("n{number}")).collect();
        return Some(format!("{} are no members", outside.join(" ")));
    }
    if view.body.moving() > 0 {
        let moving = view.body.shares().find(|(_, share)| share.next.is_some());
        return Some(format!("{} units move, as {moving:?}", view.body.moving()));
    }
    imbalance(view)
}

/// Nobody has more slots than max(1.05 shares, a share rounded up), and the same for numbered instances.
fn imbalance(view: &View) -> Option<String> {
    let mut loads: BTreeMap<NodeId, usize> =
        view.head.seats.iter().map(|seat| (seat.node(), 0)).collect();
    for share in &view.body.slots {
        let log = share.active.owner();
        let seat = view.head.seat_of(log.disk).filter(|seat| seat.log == log);
        let Some(node) = seat.map(Seat::node) else {
            return Some("a slot is of somebody who is no member".to_owned());
        };
        *loads.entry(node).or_default() += 1;
    }
    let (slots, nodes) = (view.body.slots.len(), loads.len());
    let most = slots.div_ceil(nodes).max(slots * 105 / (nodes * 100));
    let fullest = loads.into_iter().max_by_key(|(_, load)| *load)?;
    (fullest.1 > most).then(|| format!("{} has {} slots of {slots}", fullest.0, fullest.1))
}

/// Each key gets an event more from every partition that is left, and both readers see it soon.
pub(crate) fn new_events_are_applied(world: &mut World, barren: &mut u64) -> Result<(), Violation> {
    if world.violation().is_some() {
        return Ok(());
    }
    world.ledger.probe(1);
    if world.ledger.partitions_held() == 0 || world.ledger.is_anew {
        // A partition dies with the node that reads it, in this version.
        *barren += 1;
        return Ok(());
    }
    let seen = |world: &World| world.ledger.probed.iter().all(|keys| keys.len() == KEYS);
    let is_met = wait(world, ARRIVAL, seen);
    holds("new_events_are_applied", world.now, is_met || world.violation().is_some(), || {
        let seen: Vec<_> = world.ledger.probed.iter().map(|keys| keys.len()).collect();
        format!("of {} keys {seen:?} were seen within {} s", KEYS, ARRIVAL.as_secs())
    })
}

/// As long as nobody died or was taken off and no link was lost, what was emitted was applied.
pub(crate) fn nothing_is_lost_without_a_fault(world: &mut World) -> Result<(), Violation> {
    silence(world);
    world.run_to(world.now + REST);
    let is_clean = world.counts.crashes + world.counts.abandoned == 0
        && world.referee.fences == 0
        && !world.ledger.is_anew;
    if !is_clean || world.violation().is_some() {
        return Ok(());
    }
    let missing = world.ledger.missing();
    let statuses = world.machines.iter().filter_map(|machine| machine.process.as_ref());
    let statuses: Vec<_> = statuses.map(|process| process.core.status()).collect();
    let topologies = || statuses.iter().flat_map(|status| &status.topologies);
    let dropped: u64 = topologies().flat_map(|topology| topology.dropped.values()).sum();
    let in_doubt: u64 = topologies().map(|topology| topology.in_doubt).sum();
    holds("nothing_is_lost_without_a_fault", world.now, missing + dropped + in_doubt == 0, || {
        format!("{missing} events missing, {dropped} dropped, {in_doubt} in doubt")
    })
}

/// Under at-least-once: all partitions are read by somebody whose disk is there, all that was emitted was applied,
/// no tree is pending, and all is committed.
pub(crate) fn all_trees_are_complete(world: &mut World) -> Result<(), Violation> {
    silence(world);
    let is_met = wait(world, SETTLING, |world| incomplete(world).is_none());
    let why = incomplete(world);
    holds("all_trees_are_complete", world.now, is_met || world.violation().is_some(), || {
        format!("{} s after the last event: {}", SETTLING.as_secs(), why.unwrap_or_default())
    })?;
    // Where the last reader of a partition is away, not each instance has been probed.
    let all_are_read = world.machines.iter().all(|machine| machine.process.is_some());
    if !all_are_read || world.ledger.is_anew || world.violation().is_some() {
        return Ok(());
    }
    world.ledger.all_is_in_state(world.now)
}

/// How long it may take until what was lost has been read again.
const SETTLING: std::time::Duration = std::time::Duration::from_secs(20);

fn incomplete(world: &World) -> Option<String> {
    // Of a node that left alone, and is not back, only its disk knows how far its partitions were read.
    let gone = world.machines.iter().filter(|machine| machine.process.is_none());
    let gone: Vec<_> = gone.filter_map(|machine| machine.disk.offsets()).collect();
    let away: Vec<u64> = gone
        .iter()
        .flat_map(|offsets| offsets.committed())
        .map(|(name, ..)| name.as_str().parse().expect("the workload numbers its partitions"))
        .collect();
    let missing = world.ledger.missing_but(&away);
    let processes = world.machines.iter().filter_map(|machine| machine.process.as_ref());
    let statuses: Vec<_> = processes.map(|process| process.core.status()).collect();
    if !missing.is_empty() {
        let topologies = statuses.iter().flat_map(|status| &status.topologies);
        let spouts = topologies.flat_map(|topology| &topology.spouts);
        let held = spouts.flat_map(|spout| &spout.partitions);
        let held: Vec<_> =
            held.map(|held| format!("{} {}", held.partition, held.position)).collect();
        return Some(format!(
            "events are missing, by partition: {missing:?}; partitions held: {}",
            held.join(", ")
        ));
    }
    let topologies = statuses.iter().flat_map(|status| &status.topologies);
    let pending: u64 = topologies.map(|topology| topology.trees_pending).sum();
    (pending > 0).then(|| format!("{pending} trees are pending"))
}
