//! Which assignment may stand, and which may follow which.
//!
//! Proposers propose only what is valid; acceptors and learners check it all the same. What cannot be
//! checked here is whether a set has really installed: that is known to its owner alone.

use std::collections::BTreeSet;

use membership::Epoch;
use membership::view_log::{Head, Seats};
use pe::{CONTAINERS_MAX, Phase};

use super::{Assignment, Copies, Set, Share, TopologyState, may_own};

/// The most copies of a unit.
const COPIES_MAX: usize = 7;

/// The most numbered instances of all topologies, so that a view stays far below what may be sent.
pub(super) const TASKS_MAX: usize = 1 << 16;

/// Whether an assignment can stand under a head.
pub(super) fn check(body: &Assignment, head: &Head) -> Result<(), &'static str> {
    let containers = head.seats.iter().map(|seat| usize::from(seat.member.containers));
    if head.seats.iter().any(|seat| seat.member.containers == 0)
        || containers.sum::<usize>() > CONTAINERS_MAX
    {
        return Err("it has a member without containers, or too many");
    }
    if !body.slots.len().is_power_of_two() || body.slots.len() > 1 << 16 {
        return Err("its slots are not a power of two");
    }
    let tasks = body.topologies.iter().flat_map(|topology| topology.tasks.values());
    if tasks.map(Vec::len).sum::<usize>() > TASKS_MAX {
        return Err("it has too many numbered instances");
    }
    let distinct: BTreeSet<_> = body.numbers.values().collect();
    let is_numbered = head.seats.iter().all(|seat| body.numbers.contains_key(&seat.log));
    if !is_numbered || distinct.len() != head.seats.len() || body.numbers.len() != distinct.len() {
        return Err("its members are not numbered");
    }
    if distinct.contains(&0) {
        return Err("a member has the number zero");
    }
    let seats = Seats::new(head);
    for (_, share) in body.shares() {
        check_set(&share.active, head, &seats)?;
        share.next.as_ref().map_or(Ok(()), |next| check_set(next, head, &seats))?;
        if share.home(&seats).is_none() {
            return Err("a unit belongs to nobody");
        }
        if share.next.as_ref().is_some_and(|next| next.epoch <= share.active.epoch) {
            return Err("a unit has a next set older than its active one");
        }
        if share.came.is_some_and(|came| came.at > head.number) {
            return Err("a unit came in a later view");
        }
    }
    Ok(())
}

fn check_set(set: &Set, head: &Head, seats: &Seats<'_>) -> Result<(), &'static str> {
    let is_repeated = || set.logs.iter().enumerate().any(|(at, log)| set.logs[..at].contains(log));
    if set.logs.is_empty() || set.logs.len() > COPIES_MAX || is_repeated() {
        return Err("a set has no copies, too many, or one twice");
    }
    if set.epoch == Epoch(0) || set.epoch > head.number {
        return Err("a set is of a view that there was not");
    }
    match seats.of(set.owner()) {
        Some(seat) if set.container < seat.member.containers => Ok(()),
        Some(_) => Err("a unit is in a container that its owner does not have"),
        None => Ok(()),
    }
}

/// Whether an assignment may follow another.
pub(super) fn check_next(
    before: &Assignment,
    after: &Assignment,
    head: &Head,
) -> Result<(), &'static str> {
    if after.slots.len() != before.slots.len()
        || after.expected_nodes != before.expected_nodes
        || after.replicas != before.replicas
        || after.is_durable != before.is_durable
    {
        return Err("it has other settings of the cluster");
    }
    let kept = before.numbers.iter().filter_map(|(log, one)| Some((one, after.numbers.get(log)?)));
    if kept.into_iter().any(|(one, two)| one != two) {
        return Err("a member has another number than before");
    }
    let seats = Seats::new(head);
    let is_begun_anew = before.holders.iter().all(|&log| seats.of(log).is_none());
    if after.topologies.len() != before.topologies.len()
        || !before
            .topologies
            .iter()
            .zip(&after.topologies)
            .all(|(one, two)| follows(one, two, is_begun_anew))
    {
        return Err("it has other topologies, or one that went back");
    }
    let changed = before.shares().zip(after.shares()).filter(|(one, two)| one != two);
    let copies = before.copies(&seats);
    let may_begin_empty = !before.is_durable || after.given_up == head.number;
    for ((unit, share), (other, next)) in changed {
        if unit != other || !may_follow(share, next, head, &copies, may_begin_empty) {
            return Err("a unit changed in a way that it may not");
        }
    }
    Ok(())
}

fn follows(before: &TopologyState, after: &TopologyState, is_begun_anew: bool) -> bool {
    let is_same =
        (&before.name, before.hash, before.stages) == (&after.name, after.hash, after.stages);
    let is_step = before.phase == after.phase
        || before.may_go_on_to(after.phase)
        || (before.phase, after.phase) == (Phase::Waiting, Phase::Running);
    let spouts = before.spouts.iter().zip(&after.spouts);
    let tasks = before.tasks.iter().zip(&after.tasks);
    is_same
        && is_step
        && before.partitions.is_some() == after.partitions.is_some()
        && before.spouts.len() == after.spouts.len()
        && before.tasks.len() == after.tasks.len()
        && spouts.into_iter().all(|(one, two)| {
            let is_kept = one.1.is_none_or(|by| *two.1 == Some(by));
            one.0 == two.0 && (is_kept || is_begun_anew && two.1.is_none())
        })
        && tasks.into_iter().all(|(one, two)| one.0 == two.0 && one.1.len() == two.1.len())
}

/// The changes of a unit: a next set is named, or named anew; a next set becomes active; or the unit
/// begins empty, since no member has a copy, and none can come back or an operator has given it up.
fn may_follow(
    before: &Share,
    after: &Share,
    head: &Head,
    copies: &Copies<'_>,
    may_begin_empty: bool,
) -> bool {
    let seats = copies.seats;
    // Whoever leaves keeps what it has until it has given it away, also under a set without those that are gone.
    let stays = |set: &Set| set.has((before.active.owner(), before.active.container));
    let is_new = |set: &Set| {
        let owner = seats.of(set.owner());
        set.epoch == head.number && owner.is_some_and(|seat| stays(set) || may_own(head, seat))
    };
    let may_be_next = |next: &Option<Set>| {
        next.as_ref().is_none_or(|next| before.next.as_ref() == Some(next) || is_new(next))
    };
    if after.active == before.active {
        // Never just taken back: who seals for it must be told by a later epoch.
        let is_kept = before.next.is_none() || after.next.is_some();
        return is_kept && after.came == before.came && may_be_next(&after.next);
    }
    if before.next.as_ref() == Some(&after.active) {
        let came = |came: &super::Came| came.at == head.number;
        let is_marked = after.came == before.came || after.came.as_ref().is_none_or(came);
        return is_marked && after.next.as_ref().is_none_or(is_new);
    }
    let is_lost = may_begin_empty && copies.of(before).is_empty();
    is_lost && is_new(&after.active) && after.next.is_none() && after.came.is_none()
}
