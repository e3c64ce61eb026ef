//! What must hold of events and of state, at each event.

use std::time::Duration;

use membership::{Epoch, Run, Time};
use pe::Unit;

use super::{Here, Manner, Partition, Reader, Told};
use crate::deeds::{Deed, Deeds};
use crate::violation::{Violation, holds};

/// How long a container may take to hear of the view of its node.
const HEARING: Duration = Duration::from_secs(1);

/// Whether state and order go with a unit that moves.
const STATE_MOVES: bool = true;

/// A place of a partition: machine, run and container.
type Place = (usize, Run, u16);

pub(super) fn a_partition_has_one_reader(
    now: Time,
    name: u64,
    holder: Option<Place>,
    place: Place,
) -> Result<(), Violation> {
    let is_free = holder.is_none();
    holds("a_partition_has_one_reader", now, is_free, || {
        format!("partition {name} is opened at {place:?} and is open at {holder:?}")
    })
}

pub(super) fn a_number_is_emitted_once(now: Time, told: Told, next: u64) -> Result<(), Violation> {
    holds("a_number_is_emitted_once", now, told.number == next, || {
        format!("{told:?} where {next} was to come")
    })
}

pub(super) fn no_number_is_left_out(now: Time, told: Told, next: u64) -> Result<(), Violation> {
    holds("no_number_is_left_out", now, told.number <= next, || {
        format!("{told:?} where {next} was to come")
    })
}

pub(super) fn what_is_committed_was_applied(
    now: Time,
    partition: u64,
    committed: u64,
    first: Option<u64>,
) -> Result<(), Violation> {
    holds("what_is_committed_was_applied", now, first.is_none(), || {
        format!(
            "partition {partition} is committed up to {committed}, and {first:?} was not applied"
        )
    })
}

pub(super) fn what_is_done_with_is_in_state(
    now: Time,
    unit: Unit,
    instance: u64,
    events: u64,
    counted: Option<u64>,
) -> Result<(), Violation> {
    let is_there = counted.is_some_and(|counted| counted >= events);
    holds("what_is_done_with_is_in_state", now, is_there, || {
        format!("instance {instance} of {unit:?} has counted {counted:?} of {events} events")
    })
}

pub(super) fn an_event_was_emitted(
    now: Time,
    told: Told,
    partition: Option<&Partition>,
) -> Result<(), Violation> {
    let was = partition.is_some_and(|partition| told.number < partition.next);
    holds("an_event_was_emitted", now, was, || format!("{told:?} was not"))
}

pub(super) fn an_event_is_applied_once(
    now: Time,
    reader: Reader,
    told: Told,
    seen: &mut Vec<bool>,
) -> Result<(), Violation> {
    let at = usize::try_from(told.number).expect("a simulation is too small for that");
    if seen.len() <= at {
        seen.resize((at + 1).next_power_of_two(), false);
    }
    let was_seen = std::mem::replace(&mut seen[at], true);
    holds("an_event_is_applied_once", now, !was_seen, || format!("{told:?} twice by {reader:?}"))
}

/// Whether the order of emission is kept for an event: its reader was the one to whom it was emitted, or has what
/// that one had, and all who had a hand in it have been the same members ever since. Of what is passed on by
/// somebody who was given up, and of what is in doubt since a link was lost, nobody knows when it comes.
pub(super) fn is_in_order(
    here: &Here,
    unit: Unit,
    manner: Manner,
    deeds: &Deeds,
    deed: Deed,
) -> bool {
    let stays = |node| here.layout.since(node).is_some_and(|since| since <= manner.view);
    let Some(meant) = deeds.under(unit, manner.view).map(|deed| deed.epoch) else { return false };
    let line = || deeds.line(unit, deed.epoch).skip_while(|epoch| *epoch == deed.epoch);
    let mut between = line().take_while(|epoch| *epoch >= meant);
    here.layout.since(manner.node) == manner.since
        && stays(here.at.0)
        && (deed.epoch == meant || line().any(|epoch| epoch == meant))
        && between.all(|epoch| deeds.of(unit, epoch).is_some_and(|deed| stays(deed.node)))
}

/// Per key, partition and reader, the order of emission is kept, also when the reader is handed over, as long as
/// the partition stays where it is.
pub(super) fn numbers_of_a_key_grow(
    here: &Here,
    (reader, unit): (Reader, Unit),
    told: Told,
    deeds: &Deeds,
    deed: Deed,
    last: &mut Vec<(Epoch, u64)>,
) -> Result<(), Violation> {
    if !STATE_MOVES {
        return Ok(());
    }
    let known = |epoch: Epoch| last.iter().find(|(known, _)| *known == epoch);
    let before = deeds.line(unit, deed.epoch).find_map(known).copied();
    note(last, deed.epoch, told.number);
    let is_later = before.is_none_or(|(_, number)| number < told.number);
    holds("numbers_of_a_key_grow", here.now, is_later, || {
        let (machine, at) = (here.machine, here.at.1);
        format!(
            "{told:?} behind {before:?} by {reader:?} in {unit:?} of epoch {} in container {at} of n{machine}",
            deed.epoch
        )
    })
}

/// Notes what is the last in an epoch.
fn note(of: &mut Vec<(Epoch, u64)>, epoch: Epoch, last: u64) {
    match of.iter_mut().rev().find(|(known, _)| *known == epoch) {
        Some(own) => own.1 = last,
        None => of.push((epoch, last)),
    }
}

/// A container may be behind its core by what is in its mailbox, and not by more.
pub(super) fn who_applies_goes_by_the_view(here: &Here, unit: Unit) -> Result<(), Violation> {
    let (view, since) = here.goes_by;
    let is_behind = here.layout.epoch.0 < view && here.now - since > HEARING;
    holds("who_applies_goes_by_the_view", here.now, !is_behind, || {
        format!("{:?} applies for {unit:?} by view {}, not {view}", here.at, here.layout.epoch)
    })
}

pub(super) fn who_applies_has_the_unit<'d>(
    here: &Here,
    unit: Unit,
    deeds: &'d Deeds,
) -> Result<&'d Deed, Violation> {
    let invariant = "who_applies_has_the_unit";
    let epoch = here.layout.epoch;
    let home = here.layout.home(unit).map(|home| (home.node, home.container));
    holds(invariant, here.now, home == Some(here.at), || {
        format!("{:?} applies for {unit:?}, by view {epoch} at {home:?}", here.at)
    })?;
    let deed = deeds.under(unit, epoch).filter(|deed| deed.log == here.log);
    let what = || format!("{:?} applies for {unit:?} without it in view {epoch}", here.at);
    deed.ok_or_else(|| Violation { invariant, at: here.now, what: what() })
}

/// What an instance has counted is one more than what its unit's former owner had, if the unit came by
/// handoff, and one if the unit began empty. Once the next owner has begun, the former has ended.
pub(super) fn state_goes_with_its_unit(
    here: &Here,
    unit: Unit,
    instance: u64,
    deeds: &Deeds,
    deed: Deed,
    counts: &mut Vec<(Epoch, u64)>,
    count: u64,
) -> Result<(), Violation> {
    if !STATE_MOVES {
        return Ok(());
    }
    let (now, epoch) = (here.now, deed.epoch);
    let later = counts.iter().map(|(later, _)| *later).filter(|later| *later > epoch).max();
    // Whoever was given up and does not know goes on, and nothing rests on it.
    let is_over = later.is_some_and(|later| deeds.given(unit, later).any(|line| line == epoch));
    holds("who_gave_a_unit_away_does_not_serve_it", now, !is_over, || {
        format!("{:?} applies for {unit:?} in epoch {epoch} after {later:?}", here.at)
    })?;
    let known = |epoch: Epoch| counts.iter().find(|(known, _)| *known == epoch);
    let before = deeds.line(unit, epoch).find_map(known).copied();
    let is_given = deeds.given(unit, epoch).any(|line| known(line).is_some());
    note(counts, epoch, count);
    let expected = before.map_or(0, |(_, count)| count) + 1;
    // From a replica comes what was committed; what it has to have is known when all is at rest.
    let is_right = count == expected || !is_given && before.is_some() && count < expected;
    holds("state_goes_with_its_unit", now, is_right, || {
        format!(
            "instance {instance} of {unit:?} at n{} {:?} by view {} counts {count} in epoch {epoch}, not {expected}: \
             before it was {before:?}; {deed:?} after {:?}",
            here.machine,
            here.at,
            here.layout.epoch,
            deeds.line(unit, epoch).map(|epoch| deeds.of(unit, epoch)).collect::<Vec<_>>(),
        )
    })
}
