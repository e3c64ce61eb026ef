//! The oracle: hears of every event that is emitted and of every one that is applied, when it happens, and
//! judges at once.
//!
//! Spouts and PEs of the workload tell it by way of the thread that they run on, since what an instance
//! remembers is its state and moves with it. Who is being stepped is said by the world before each step.
//!
//! What it knows of the cluster is what was decided ([`Deeds`]) and what the container has that is being
//! stepped; it knows neither what goes wrong nor what is meant to happen next.

mod rules;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use membership::view_log::LogId;
use membership::{Epoch, NodeId, Run, Time};
use pe::{Layout, Unit};
use routing::{Key, Slot};

use crate::deeds::Deeds;
use crate::violation::Violation;

thread_local! {
    /// The ledger of the world that is stepping a container.
    static CURRENT: RefCell<Option<Box<Ledger>>> = const { RefCell::new(None) };
}

/// Tells the ledger of the world that is stepping a container; nothing without one.
pub(crate) fn with<R>(tell: impl FnOnce(&mut Ledger) -> R) -> Option<R> {
    CURRENT.with_borrow_mut(|current| current.as_deref_mut().map(tell))
}

/// Who is being stepped.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    pub(crate) machine: usize,
    pub(crate) run: Run,
    pub(crate) log: LogId,
    /// Which container.
    pub(crate) at: (NodeId, u16),
    /// The layout that it has.
    pub(crate) layout: Arc<Layout>,
    /// The number of the view that its core has, and since when.
    pub(crate) goes_by: (u64, Time),
    pub(crate) now: Time,
}

/// Which PE of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reader {
    /// The one with an instance per key.
    Keyed,
    /// The one with numbered instances; this is which.
    Numbered(u32),
}

/// What spouts are to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Emit at their pace.
    Load,
    /// Emit nothing.
    Quiet,
    /// Emit an event of each key, once for each of these numbers.
    Probe(u64),
}

/// An event of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Told {
    pub(crate) key: u64,
    pub(crate) partition: u64,
    pub(crate) number: u64,
}

/// The last of something in each epoch.
type ByEpoch = Vec<(Epoch, u64)>;

/// What was emitted and applied, and what follows from it.
#[derive(Debug)]
pub(crate) struct Ledger {
    here: Option<Here>,
    pub(crate) mode: Mode,
    pub(crate) deeds: Deeds,
    slots: usize,
    /// The prototype of the numbered PE.
    numbered: u16,
    partitions: BTreeMap<u64, Partition>,
    /// Numbers applied by each of the two readers, by partition.
    applied: [BTreeMap<u64, Vec<bool>>; 2],
    /// The last number of a key and partition from one reading of it, by reader and by epoch of its unit.
    last: BTreeMap<(bool, u64, u64, u64), ByEpoch>,
    /// What instances have counted, by epoch of their unit; oldest first.
    counts: BTreeMap<(Unit, u64), ByEpoch>,
    /// Units that have handled something.
    pub(crate) used: BTreeSet<Unit>,
    /// Keys applied by both readers since the last probe began.
    pub(crate) probed: [BTreeSet<u64>; 2],
    /// Numbers from which on events are of the probe, by partition.
    probe_from: BTreeMap<u64, u64>,
    pub(crate) emitted: u64,
    /// Events of each key, each once.
    distinct: BTreeMap<u64, u64>,
    pub(crate) taken: [u64; 2],
    pub(crate) violation: Option<Violation>,
    /// Whether somebody has made the tokens of the partitions.
    has_makers: bool,
    /// Whether all who held them were lost, and the topology has begun anew or is over: what is emitted then was
    /// emitted before, instances are removed, and neither is judged.
    pub(crate) is_anew: bool,
    /// Whether what is lost is read again: then an event may be emitted and applied more than once, and all that is
    /// committed has been applied.
    pub(crate) has_acks: bool,
}

#[derive(Debug, Default)]
struct Partition {
    /// The next number.
    next: u64,
    holder: Option<(usize, Run, u16)>,
    /// The logs of whoever holds it, and since when they were of a member when it was opened.
    held_by: Option<(LogId, Option<Epoch>)>,
    /// How often it was opened.
    readings: u64,
    /// How its events were emitted, by the first number of each manner.
    manners: Vec<(u64, Manner)>,
}

/// By which view an event was emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Manner {
    /// Which reading of the partition it was.
    reading: u64,
    view: Epoch,
    /// The node, and since when it was a member.
    node: NodeId,
    since: Option<Epoch>,
}

impl Partition {
    fn manner(&self, number: u64) -> Option<Manner> {
        let at = self.manners.partition_point(|(first, _)| *first <= number);
        Some(self.manners[at.checked_sub(1)?].1)
    }
}

impl Ledger {
    /// A ledger for a cluster with so many slots; `numbered` is the prototype of the numbered PE.
    pub(crate) fn new(slots: usize, numbered: u16, has_acks: bool) -> Self {
        Self {
            here: None,
            mode: Mode::Load,
            deeds: Deeds::default(),
            slots,
            numbered,
            partitions: BTreeMap::new(),
            applied: Default::default(),
            last: BTreeMap::new(),
            counts: BTreeMap::new(),
            used: BTreeSet::new(),
            probed: Default::default(),
            probe_from: BTreeMap::new(),
            emitted: 0,
            distinct: BTreeMap::new(),
            taken: [0; 2],
            violation: None,
            has_makers: false,
            is_anew: false,
            has_acks,
        }
    }

    /// A view says whether somebody has made the tokens of the partitions, and whether the topology is over: it
    /// ends when all who read partitions are lost, for those that are left.
    pub(crate) fn learn_topology(&mut self, has_makers: bool, is_over: bool) {
        self.is_anew |= is_over || self.has_makers && !has_makers;
        self.has_makers = has_makers;
    }

    /// Steps a container, whose spouts and PEs may tell this ledger meanwhile.
    pub(crate) fn during(self: &mut Box<Self>, here: Here, step: impl FnOnce()) {
        let mut lent = std::mem::replace(self, Box::new(Self::new(1, 0, false)));
        lent.here = Some(here);
        CURRENT.set(Some(lent));
        step();
        *self = CURRENT.take().expect("it was lent a moment ago");
    }

    /// A process has ended, and with it what it held.
    pub(crate) fn ended(&mut self, machine: usize) {
        let held = self.partitions.values_mut();
        held.filter(|partition| partition.holder.is_some_and(|holder| holder.0 == machine))
            .for_each(|partition| partition.holder = None);
    }

    /// How many partitions are read by somebody.
    pub(crate) fn partitions_held(&self) -> usize {
        self.partitions.values().filter(|partition| partition.holder.is_some()).count()
    }

    /// How many events of a partition were emitted, by whomever.
    pub(crate) fn emitted_of(&self, name: u64) -> u64 {
        self.partitions.get(&name).map_or(0, |partition| partition.next)
    }

    /// Begins to probe: from now on each key is to be seen again.
    pub(crate) fn probe(&mut self, number: u64) {
        self.mode = Mode::Probe(number);
        self.probed = Default::default();
        self.probe_from =
            self.partitions.iter().map(|(&name, partition)| (name, partition.next)).collect();
    }

    /// A partition is read here from now on.
    pub(crate) fn opened(&mut self, name: u64) {
        let Some(here) = &self.here else { return };
        let place = (here.machine, here.run, here.at.1);
        let by = (here.log, here.layout.since(here.at.0));
        let now = here.now;
        // Whoever was given up, and does not know, may read on, or take what was said to it before: nothing of that counts.
        let seated = |log: &LogId| self.deeds.seated.get(log).copied();
        let is_given_up = self.has_acks && seated(&by.0) != by.1;
        let partition = self.partitions.entry(name).or_default();
        partition.readings += 1;
        if is_given_up {
            return;
        }
        let is_member = partition.held_by.is_some_and(|(log, since)| seated(&log) == since);
        let holder = partition.holder.filter(|_| is_member || !self.has_acks);
        let judged = rules::a_partition_has_one_reader(now, name, holder, place);
        (partition.holder, partition.held_by) = (Some(place), Some(by));
        self.judge(judged);
    }

    /// A partition is not read here any more.
    pub(crate) fn closed(&mut self, name: u64) {
        let Some(here) = &self.here else { return };
        let place = (here.machine, here.run, here.at.1);
        if let Some(partition) = self.partitions.get_mut(&name)
            && partition.holder == Some(place)
        {
            partition.holder = None;
        }
    }

    /// A partition emits an event.
    pub(crate) fn emitted(&mut self, told: Told) {
        let Some(here) = &self.here else { return };
        let now = here.now;
        self.emitted += 1;
        let partition = self.partitions.entry(told.partition).or_default();
        let judged = if self.has_acks {
            rules::no_number_is_left_out(now, told, partition.next)
        } else {
            rules::a_number_is_emitted_once(now, told, partition.next)
        };
        let node = here.at.0;
        let (view, since) = (here.layout.epoch, here.layout.since(node));
        let manner = Manner { reading: partition.readings, view, node, since };
        if partition.manners.last().is_none_or(|(_, last)| *last != manner) {
            partition.manners.push((told.number, manner));
        }
        if partition.next <= told.number {
            *self.distinct.entry(told.key).or_default() += 1;
        }
        partition.next = partition.next.max(told.number + 1);
        self.judge(judged);
    }

    /// An instance has applied an event, and has counted so many.
    pub(crate) fn applied(&mut self, reader: Reader, told: Told, count: u64) {
        let Some(here) = self.here.take() else { return };
        let judged = self.judge_application(&here, reader, told, count);
        self.here = Some(here);
        self.judge(judged);
    }

    fn judge_application(
        &mut self,
        here: &Here,
        reader: Reader,
        told: Told,
        count: u64,
    ) -> Result<(), Violation> {
        let (unit, instance, which) = match reader {
            Reader::Keyed => (Unit::Slot(Slot::of(told.key.hash(), self.slots).0), told.key, 0),
            Reader::Numbered(task) => {
                (Unit::Task { topology: 0, prototype: self.numbered, task }, 0, 1)
            }
        };
        self.taken[which] += 1;
        self.used.insert(unit);
        if self.probe_from.get(&told.partition).is_some_and(|&from| told.number >= from) {
            self.probed[which].insert(told.key);
        }
        let partition = self.partitions.get(&told.partition);
        rules::an_event_was_emitted(here.now, told, partition)?;
        let manner = partition.and_then(|partition| partition.manner(told.number));
        let seen = self.applied[which].entry(told.partition).or_default();
        let judged = rules::an_event_is_applied_once(here.now, reader, told, seen);
        if !self.has_acks {
            judged?;
        }
        rules::who_applies_goes_by_the_view(here, unit)?;
        let deed = *rules::who_applies_has_the_unit(here, unit, &self.deeds)?;
        if let Some(manner) = manner.filter(|_| !self.has_acks)
            && rules::is_in_order(here, unit, manner, &self.deeds, deed)
        {
            let key = (which == 1, told.key, told.partition, manner.reading);
            let last = self.last.entry(key).or_default();
            let who = (reader, unit);
            rules::numbers_of_a_key_grow(here, who, told, &self.deeds, deed, last)?;
        }
        let counts = self.counts.entry((unit, instance)).or_default();
        rules::state_goes_with_its_unit(here, unit, instance, &self.deeds, deed, counts, count)
    }

    fn judge(&mut self, judged: Result<(), Violation>) {
        if let Err(violation) = judged
            && !self.is_anew
        {
            self.violation.get_or_insert(violation);
        }
    }

    /// A disk is to say that all before a number need not be read again.
    pub(crate) fn committed(&self, now: Time, name: &str, number: u64) -> Result<(), Violation> {
        let partition = name.parse().expect("the workload numbers its partitions");
        for seen in &self.applied {
            let seen = seen.get(&partition).map_or(&[][..], Vec::as_slice);
            let first = (0..number).find(|&at| {
                !usize::try_from(at).ok().and_then(|at| seen.get(at)).is_some_and(|seen| *seen)
            });
            rules::what_is_committed_was_applied(now, partition, number, first)?;
        }
        Ok(())
    }

    /// Whether all that was emitted is in the state of somebody, of each key and of all, as far as no unit has begun
    /// empty; at rest, after a probe, when each instance has counted under its present owner.
    pub(crate) fn all_is_in_state(&self, now: Time) -> Result<(), Violation> {
        let count = |unit: Unit, instance: u64| {
            let counts = self.counts.get(&(unit, instance))?;
            counts.iter().max_by_key(|(epoch, _)| *epoch).map(|(_, count)| *count)
        };
        for (&key, &events) in &self.distinct {
            let unit = Unit::Slot(Slot::of(key.hash(), self.slots).0);
            if !self.deeds.lost.contains(&unit) {
                rules::what_is_done_with_is_in_state(now, unit, key, events, count(unit, key))?;
            }
        }
        let tasks = self.counts.keys().map(|(unit, _)| *unit);
        let tasks: BTreeSet<_> = tasks.filter(|unit| matches!(unit, Unit::Task { .. })).collect();
        if tasks.is_disjoint(&self.deeds.lost) {
            let events = self.distinct.values().sum();
            let counted = tasks.iter().filter_map(|&unit| count(unit, 0)).sum();
            let any = tasks.first().copied().unwrap_or(Unit::Slot(0));
            rules::what_is_done_with_is_in_state(now, any, 0, events, Some(counted))?;
        }
        Ok(())
    }

    /// How many events one of the readers has not applied, by partition, of all but some.
    pub(crate) fn missing_but(&self, away: &[u64]) -> BTreeMap<u64, u64> {
        let mut missing = BTreeMap::new();
        for seen in &self.applied {
            let here = self.partitions.iter().filter(|(name, _)| !away.contains(name));
            for (&name, partition) in here {
                let seen = seen.get(&name).map_or(0, |seen| seen.iter().filter(|s| **s).count());
                let lacks = partition.next.saturating_sub(seen as u64);
                let most = missing.entry(name).or_insert(0);
                *most = lacks.max(*most);
            }
        }
        missing.retain(|_, lacks| *lacks > 0);
        missing
    }

    /// Events that one of the readers has not applied.
    pub(crate) fn missing(&self) -> u64 {
        self.taken.iter().map(|taken| self.emitted.saturating_sub(*taken)).max().unwrap_or(0)
    }
}
