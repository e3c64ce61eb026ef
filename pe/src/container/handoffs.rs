//! Handoffs: units leave with their state, and come with it.
//!
//! A unit leaves in three steps. Its instances are *copied ahead* while events go on changing them, a
//! chunk whenever somebody pulls. Then it is *sealed*: its events are kept and its timers stand still, so
//! that what has changed since is little and can be given away. At last a layout says that it lives
//! elsewhere, and what was kept is passed on. At the other side the instances are *staged*: they are
//! filed like all others and stand still until a layout says that they live here.
//!
//! Nothing here decides that a unit moves, or when; it does what it is told, and what a layout says holds
//! whether or not a handoff went before. A unit that moves without one begins anew where it comes.

use std::collections::BTreeMap;
use std::sync::Arc;

use routing::{ContainerId, Key, Packed};

use super::message::{Action, ChunkKind};
use super::{Container, Desk, Run};
use crate::Unit;
use crate::chunk::{self, ChunkWriter, Copied, Record};
use crate::host::Pass;
use crate::layout::Layout;
use crate::topology::InstancePlan;
use crate::units::{Scope, Units};

/// The handoffs of a container.
#[derive(Debug, Default)]
pub(super) struct Handoffs {
    outgoing: BTreeMap<u64, Outgoing>,
    /// Units that live here and are sealed.
    pub(super) sealed: Units,
    /// Those of them that nobody serves, since somebody is getting ready, or has nothing to serve.
    waiting: Units,
    /// Units that live elsewhere and are staged here; where they lived when they were.
    pub(super) staged: Units,
    homes: BTreeMap<Unit, ContainerId>,
    /// Slots that live elsewhere now and whose instances are not all removed.
    departed: Units,
    /// The next host that removes them, counted over all topologies.
    next_swept: usize,
    /// All of these: their timers stand still.
    pub(super) still: Units,
    /// About how many bytes of events are kept.
    pub(super) kept_bytes: usize,
    /// Whether something may be sealed now that could not be before.
    pub(super) may_seal: bool,
}

/// A handoff to another container.
#[derive(Debug)]
struct Outgoing {
    units: Arc<Units>,
    pass: Pass,
    /// The next host to be asked, counted over all topologies.
    next: usize,
    /// Whether the last of what is to be written for now was given.
    is_through: bool,
    is_sealing: bool,
    is_sealed: bool,
    /// Chunks that were asked for and not given.
    pulls: usize,
}

/// What a layout does to handoffs.
#[derive(Debug, Default)]
pub(super) struct Laying {
    /// Units that were sealed and live elsewhere.
    pub(super) gone: Units,
    /// Units that were staged and went to somebody else.
    pub(super) discarded: Units,
    /// Handoffs of which less is left, and how much.
    less: Vec<(u64, Arc<Units>)>,
}

impl Handoffs {
    fn find_still(&mut self, slots: usize) {
        self.still = self.sealed.clone();
        let others = self.staged.iter().chain(self.departed.iter());
        others.for_each(|unit| self.still.insert(unit, slots));
    }

    /// The slots that have gone, for a host.
    pub(super) fn departed(&self, place: (u16, usize)) -> Scope<'_> {
        self.departed.of(place)
    }

    /// Whether there are instances that have gone with their slots and are not removed.
    pub(super) fn are_to_be_removed(&self) -> bool {
        !self.departed.is_empty()
    }

    /// Whether a unit is here by the layout, and nobody serves it.
    pub(super) fn is_waiting(&self, unit: Unit) -> bool {
        self.waiting.has(unit)
    }

    /// Finds out which units are to be here and are served by nobody yet: they are sealed.
    fn wait(&mut self, layout: &Layout, me: ContainerId) {
        let slots = layout.slot_count();
        for unit in self.waiting.iter().collect::<Vec<_>>() {
            let is_served = layout.home(unit) == Some(me) && !layout.waiting().contains(&unit);
            if is_served {
                self.sealed.remove(unit);
            }
            self.waiting.remove(unit);
        }
        for &unit in layout.waiting().iter().filter(|&&unit| layout.home(unit) == Some(me)) {
            self.waiting.insert(unit, slots);
            self.sealed.insert(unit, slots);
        }
    }

    /// Takes in a new layout.
    pub(super) fn lay(&mut self, layout: &Layout, me: ContainerId) -> Laying {
        let mut laying = Laying::default();
        let slots = layout.slot_count();
        self.wait(layout, me);
        if self.outgoing.is_empty() && self.sealed.is_empty() && self.staged.is_empty() {
            self.find_still(slots);
            return laying;
        }
        for unit in self.sealed.iter().collect::<Vec<_>>() {
            if layout.home(unit) != Some(me) {
                self.sealed.remove(unit);
                laying.gone.insert(unit, slots);
            }
        }
        for unit in self.staged.iter().collect::<Vec<_>>() {
            let (now, before) = (layout.home(unit), self.homes.get(&unit).copied());
            if now == before {
                continue;
            }
            self.staged.remove(unit);
            self.homes.remove(&unit);
            if now != Some(me) {
                laying.discarded.insert(unit, slots);
            }
        }
        self.outgoing.retain(|&handoff, outgoing| {
            let all = outgoing.units.iter();
            let left = all.filter(|&unit| layout.home(unit) == Some(me)).collect::<Vec<_>>();
            if left.len() < outgoing.units.len() {
                let mut units = Units::default();
                left.into_iter().for_each(|unit| units.insert(unit, slots));
                outgoing.units = Arc::new(units);
                laying.less.push((handoff, Arc::clone(&outgoing.units)));
            }
            !outgoing.units.is_empty()
        });
        self.find_still(slots);
        laying
    }
}

impl Container {
    /// Notes which slots have gone by a new layout. Their instances are removed a few at a time, by
    /// [`Container::sweep`].
    pub(super) fn depart(&mut self, before: &Layout) {
        let Desk { layout, me, handoffs, .. } = &mut self.desk;
        let slots = layout.slot_count();
        for slot in (0..).take(before.slot_count()).map(Unit::Slot) {
            if before.home(slot) == Some(*me) && layout.home(slot) != Some(*me) {
                handoffs.departed.insert(slot, slots);
            }
        }
        if handoffs.are_to_be_removed() {
            handoffs.next_swept = 0;
            handoffs.find_still(slots);
        }
    }

    /// Removes some of the instances that have gone with their slots, if there are any.
    pub(super) fn sweep(&mut self, out: &mut Vec<Action>) {
        if !self.desk.handoffs.are_to_be_removed() {
            return;
        }
        let mut skipped = 0;
        for run in &mut self.runs {
            let next = self.desk.handoffs.next_swept;
            if let Some(host) = next.checked_sub(skipped).filter(|host| *host < run.host_count()) {
                let is_done = run.sweep(host, &mut self.desk, out);
                self.desk.handoffs.next_swept += usize::from(is_done);
                return;
            }
            skipped += run.host_count();
        }
        let slots = self.desk.layout.slot_count();
        self.desk.handoffs.departed = Units::default();
        self.desk.handoffs.find_still(slots);
        self.runs.iter_mut().for_each(Run::wake_timers);
    }

    /// Removes all of them: before somebody might take them for instances that are here.
    pub(super) fn sweep_all(&mut self, out: &mut Vec<Action>) {
        while self.desk.handoffs.are_to_be_removed() {
            self.sweep(out);
        }
    }

    /// Begins to copy units that live here.
    pub(super) fn copy(&mut self, handoff: u64, units: Vec<Unit>, out: &mut Vec<Action>) {
        let Desk { layout, me, .. } = &self.desk;
        let mut here = Units::default();
        for unit in units.into_iter().filter(|&unit| layout.home(unit) == Some(*me)) {
            here.insert(unit, layout.slot_count());
        }
        let shares = |outgoing: &Outgoing| outgoing.units.iter().any(|unit| here.has(unit));
        let others = self.desk.handoffs.outgoing.iter();
        let others = others.filter(|(known, other)| **known == handoff || shares(other));
        for other in others.map(|(&known, _)| known).collect::<Vec<_>>() {
            self.release(other, out);
        }
        let units = Arc::new(here);
        for run in &mut self.runs {
            run.copy(handoff, &units);
        }
        let outgoing = Outgoing {
            units,
            pass: Pass::Ahead,
            next: 0,
            is_through: false,
            is_sealing: false,
            is_sealed: false,
            pulls: 0,
        };
        self.desk.handoffs.outgoing.insert(handoff, outgoing);
    }

    /// Gives a chunk now, or when there is one.
    pub(super) fn pull(&mut self, handoff: u64, out: &mut Vec<Action>) {
        if let Some(outgoing) = self.desk.handoffs.outgoing.get_mut(&handoff) {
            outgoing.pulls += 1;
            self.give(handoff, out);
        }
    }

    /// Gives the chunks that were asked for, as far as there are any.
    fn give(&mut self, handoff: u64, out: &mut Vec<Action>) {
        while let Some(outgoing) = self.desk.handoffs.outgoing.get_mut(&handoff) {
            if outgoing.pulls == 0 || outgoing.is_through && !outgoing.is_sealed {
                return;
            }
            outgoing.pulls -= 1;
            let mut chunk = ChunkWriter::new(self.desk.now);
            let is_last = outgoing.write(handoff, &mut self.runs, &mut chunk);
            let kind = match (outgoing.is_sealed, is_last) {
                (false, false) => ChunkKind::Ahead,
                (false, true) => ChunkKind::AheadEnd,
                (true, false) => ChunkKind::Rest,
                (true, true) => ChunkKind::End,
            };
            outgoing.is_through = is_last;
            out.push(Action::Chunk { handoff, bytes: chunk.finish(), kind });
        }
    }

    /// Seals the units of a handoff, now or when nothing older is awaited for them.
    pub(super) fn seal(&mut self, handoff: u64, out: &mut Vec<Action>) {
        if let Some(outgoing) = self.desk.handoffs.outgoing.get_mut(&handoff) {
            outgoing.is_sealing = true;
            self.seal_what_may_be(out);
        }
    }

    /// Seals what is to be sealed and could not be before.
    pub(super) fn seal_what_may_be(&mut self, out: &mut Vec<Action>) {
        self.desk.handoffs.may_seal = false;
        let waiting = self.desk.handoffs.outgoing.iter().filter(|(_, outgoing)| {
            let awaits = || self.runs.iter().any(|run| run.awaits(&outgoing.units, &self.desk));
            outgoing.is_sealing && !outgoing.is_sealed && !awaits()
        });
        for handoff in waiting.map(|(&handoff, _)| handoff).collect::<Vec<_>>() {
            let slots = self.desk.layout.slot_count();
            let handoffs = &mut self.desk.handoffs;
            let outgoing = handoffs.outgoing.get_mut(&handoff).expect("it was found above");
            outgoing.is_sealed = true;
            (outgoing.pass, outgoing.next, outgoing.is_through) = (Pass::Rest, 0, false);
            outgoing.units.iter().for_each(|unit| handoffs.sealed.insert(unit, slots));
            handoffs.find_still(slots);
            self.runs.iter_mut().for_each(|run| run.refresh(&self.desk));
            self.give(handoff, out);
        }
    }

    /// Ends a handoff; what of it is still here is served again, unless it went elsewhere meanwhile, is to come back
    /// from a replica, and is waited for.
    pub(super) fn release(&mut self, handoff: u64, out: &mut Vec<Action>) {
        let Some(outgoing) = self.desk.handoffs.outgoing.remove(&handoff) else { return };
        self.runs.iter_mut().for_each(|run| run.forget(handoff));
        if !outgoing.is_sealed {
            return;
        }
        let Handoffs { sealed, waiting, .. } = &mut self.desk.handoffs;
        outgoing.units.iter().filter(|unit| !waiting.has(*unit)).for_each(|unit| {
            sealed.remove(unit);
        });
        self.desk.handoffs.find_still(self.desk.layout.slot_count());
        for run in &mut self.runs {
            run.resume(&mut self.desk, out);
        }
    }

    /// Takes in instances that are about to live here.
    pub(super) fn stage(
        &mut self,
        handoff: u64,
        bytes: &[u8],
        is_replica: bool,
        out: &mut Vec<Action>,
    ) {
        let records = chunk::read(bytes).map_err(|error| error.to_string());
        let outcome = records.and_then(|all| {
            all.iter().try_for_each(|record| self.stage_one(record, is_replica, out))
        });
        out.push(Action::Staged { handoff, outcome });
    }

    fn stage_one(
        &mut self,
        record: &Record<'_>,
        is_replica: bool,
        out: &mut Vec<Action>,
    ) -> Result<(), String> {
        let Record { topology, prototype, copied } = *record;
        let slots = self.desk.layout.slot_count();
        let of_hash = |hash| Unit::Slot(routing::Slot::of(hash, slots).0);
        let run = self.runs.get(usize::from(topology));
        let run = run.ok_or_else(|| format!("no topology {topology}"))?;
        let instances = run.instances(prototype);
        let unit = match (copied, instances) {
            (Copied::Keyed { key, .. }, Some(InstancePlan::Keyed)) => {
                of_hash(Packed::new(key, 0).hash())
            }
            (Copied::KeyGone(hash), Some(InstancePlan::Keyed)) => of_hash(hash),
            (Copied::Task { task, .. } | Copied::TaskGone(task), Some(InstancePlan::Tasks(_))) => {
                Unit::Task { topology, prototype, task }
            }
            (Copied::Unwritable, Some(_)) => {
                return Err(format!("an instance of {} cannot be written", run.name(prototype)));
            }
            _ => return Err(format!("prototype {prototype} has no such instances")),
        };
        if self.desk.handoffs.departed.has(unit) {
            self.sweep_all(out); // It comes back.
        }
        let desk = &mut self.desk;
        match desk.layout.home(unit) {
            Some(home) if home != desk.me => {
                desk.handoffs.staged.insert(unit, slots);
                desk.handoffs.still.insert(unit, slots);
                desk.handoffs.homes.entry(unit).or_insert(home);
            }
            Some(_) if desk.handoffs.waiting.has(unit) => {}
            Some(_) => return Err(format!("{unit:?} lives here already")),
            None => return Err(format!("{unit:?} is none")),
        }
        self.runs[usize::from(topology)].stage(prototype, copied, is_replica, desk)
    }

    /// Drops what is here of some units: what was staged, and what lives here and is to begin anew.
    pub(super) fn discard(&mut self, units: Vec<Unit>) {
        let slots = self.desk.layout.slot_count();
        let mut dropped = Units::default();
        for unit in units {
            let was_staged = self.desk.handoffs.staged.remove(unit);
            if was_staged {
                self.desk.handoffs.homes.remove(&unit);
            }
            if was_staged || self.desk.layout.home(unit) == Some(self.desk.me) {
                dropped.insert(unit, slots);
            }
        }
        self.desk.handoffs.find_still(slots);
        self.runs.iter_mut().for_each(|run| run.unstage(&dropped));
    }

    /// Goes on with what a layout left of handoffs.
    pub(super) fn narrow(&mut self, laying: &Laying) {
        for (handoff, units) in &laying.less {
            for run in &mut self.runs {
                if units.is_empty() { run.forget(*handoff) } else { run.copy(*handoff, units) }
            }
        }
    }
}

impl Outgoing {
    /// Writes what comes next; whether that was the last for now.
    fn write(&mut self, handoff: u64, runs: &mut [Run], chunk: &mut ChunkWriter) -> bool {
        loop {
            let mut skipped = 0;
            for run in &mut *runs {
                let hosts = run.host_count();
                while self.next < skipped + hosts {
                    if !run.write(self.next - skipped, handoff, self.pass, chunk) {
                        return false;
                    }
                    self.next += 1;
                }
                skipped += hosts;
            }
            match self.pass {
                Pass::Ahead => (self.pass, self.next) = (Pass::Again, 0),
                Pass::Again | Pass::Rest => return true,
            }
        }
    }
}
