//! Runs of a workload on a cluster in which things go wrong, one for each seed.
//!
//! A run has four parts: a cluster comes up while events flow already; faults befall it; all is healed, and
//! the cluster must agree on who is there and come to rest; then every key gets an event more, and what
//! was emitted is held against what was applied.
//!
//! A run that shows nothing fails too: one in which no fault was applied, no event was, or no unit that had
//! handled something was handed over.

mod shrink;

use std::time::Duration;

use membership::{Config, Time, view_log};

use crate::fault::{Fault, FaultKind, script};
use crate::flaw::Flaw;
use crate::ledger::Mode;
use crate::rest;
use crate::violation::{Violation, holds};
use crate::workload::{self, Size};
use crate::world::{Terms, World};

/// When faults end.
const FAULTS: Duration = Duration::from_secs(60);

/// How long a cluster may take to come to rest once all is healed. Who was taken off again and again
/// waits to be let in, eight seconds at most; who leaves takes thirty.
pub(crate) const HEALING: Duration = Duration::from_secs(90);

/// How long it has to be at rest.
pub(crate) const REST: Duration = Duration::from_secs(4);

/// How long an event may take then.
pub(crate) const ARRIVAL: Duration = Duration::from_secs(5);

/// How many keys the workload has.
pub(crate) const KEYS: usize = 40;

/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// What the runs are like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Campaign {
    /// How many machines there are at first.
    pub nodes: usize,
    /// How many slots.
    pub slots: u32,
    /// Which faults befall them.
    pub faults: Vec<FaultKind>,
    /// A bug that is planted.
    pub flaw: Option<Flaw>,
    /// Whether what is lost is read again: at-least-once.
    pub has_acks: bool,
    /// Whether replicas are on disk before anything is acknowledged.
    pub is_durable: bool,
}

impl Default for Campaign {
    fn default() -> Self {
        let faults = FaultKind::ALL.into_iter().filter(|kind| !kind.needs_disks()).collect();
        Self { nodes: 5, slots: 64, faults, flaw: None, has_acks: false, is_durable: false }
    }
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// What was to go wrong.
    pub faults: Vec<Fault>,
    /// The invariant that did not hold, if one did not.
    pub violation: Option<Violation>,
    /// What happened.
    pub totals: Totals,
    /// What happened, one line each; the last lines.
    pub trace: String,
    /// A number that differs if anything arrived otherwise.
    pub fingerprint: u64,
}

/// What happened in one run or several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs.
    pub seeds: u64,
    /// Virtual time.
    pub time: Duration,
    /// Things that were due and done.
    pub steps: u64,
    /// Events emitted by spouts.
    pub emitted: u64,
    /// Events applied, by all readers.
    pub applied: u64,
    /// Faults that had somebody to befall.
    pub faults: u64,
    /// Processes that crashed.
    pub crashes: u64,
    /// Processes that were started again.
    pub restarts: u64,
    /// Units that went to another container with what they held.
    pub handoffs: u64,
    /// Units that had to begin empty.
    pub losses: u64,
    /// Views that were decided.
    pub views: u64,
    /// Messages on control links, and bytes.
    pub messages: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Letters on data links.
    pub frames: u64,
    /// Bytes of them.
    pub frame_bytes: u64,
    /// Runs at whose end nobody held a partition, so that no event could be awaited.
    pub barren: u64,
}

impl Totals {
    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.time += other.time;
        self.steps += other.steps;
        self.emitted += other.emitted;
        self.applied += other.applied;
        self.faults += other.faults;
        self.crashes += other.crashes;
        self.restarts += other.restarts;
        self.handoffs += other.handoffs;
        self.losses += other.losses;
        self.views += other.views;
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.frames += other.frames;
        self.frame_bytes += other.frame_bytes;
        self.barren += other.barren;
    }
}

impl Campaign {
    /// The run of a seed.
    pub fn run(&self, seed: u64) -> Run {
        self.play(seed, &self.script(seed), false)
    }

    /// What goes wrong in the run of a seed.
    pub fn script(&self, seed: u64) -> Vec<Fault> {
        script(seed, self.nodes, &self.faults)
    }

    /// The run of a seed with other faults than follow from it.
    pub fn play(&self, seed: u64, faults: &[Fault], is_detailed: bool) -> Run {
        let mut world = World::with(self.terms(seed, is_detailed));
        let mut barren = 0;
        let judged = self.stage(&mut world, faults, &mut barren);
        let violation = world.violation().cloned().or(judged.err());
        let (counts, network) = (world.counts, &world.network);
        let totals = Totals {
            seeds: 1,
            time: world.now.0,
            steps: counts.due,
            emitted: world.ledger.emitted,
            applied: world.ledger.taken.iter().sum(),
            faults: counts.faults,
            crashes: counts.crashes,
            restarts: counts.restarts,
            handoffs: world.ledger.deeds.handoffs,
            losses: world.ledger.deeds.losses,
            views: world.referee.views,
            messages: network.control.messages,
            bytes: network.control.bytes,
            frames: network.data.messages,
            frame_bytes: network.data.bytes,
            barren,
        };
        let (trace, fingerprint) = (world.trace(), world.fingerprint());
        Run { seed, faults: faults.to_vec(), violation, totals, trace, fingerprint }
    }

    fn terms(&self, seed: u64, is_detailed: bool) -> Terms {
        let keys = u32::try_from(KEYS).expect("they are few");
        let size = Size { partitions: 16, keys, tasks: 4, has_acks: self.has_acks };
        let (registry, plan, numbered) = workload::build(size);
        Terms {
            seed,
            slots: self.slots,
            // Before all are there, so that events flow while they come.
            expected_nodes: u32::try_from(self.nodes.min(2)).expect("two at most"),
            replicas: 2,
            is_durable: self.is_durable,
            gossip: Config::lan(),
            views: view_log::Config {
                stable_after: Duration::from_millis(400),
                return_wait_max: Duration::from_secs(8),
                ..view_log::Config::lan()
            },
            registry,
            plans: vec![plan],
            numbered,
            flaw: self.flaw,
            has_acks: self.has_acks,
            is_detailed,
        }
    }

    fn stage(
        &self,
        world: &mut World,
        faults: &[Fault],
        barren: &mut u64,
    ) -> Result<(), Violation> {
        self.begin(world);
        for fault in faults {
            world.run_to(Time(fault.at));
            if world.violation().is_none() {
                world.befall(fault);
            }
        }
        world.run_to(Time(FAULTS));
        if world.violation().is_some() {
            return Ok(()); // It has been found.
        }
        world.heal();
        rest::the_cluster_comes_to_rest(world)?;
        rest::new_events_are_applied(world, barren)?;
        if self.has_acks {
            rest::all_trees_are_complete(world)?;
        } else {
            rest::nothing_is_lost_without_a_fault(world)?;
        }
        if world.violation().is_none() {
            self.something_was_shown(world, *barren > 0)?;
        }
        Ok(())
    }

    /// Starts the machines one after the other.
    fn begin(&self, world: &mut World) {
        for machine in 0..self.nodes {
            let seeds = world.machines.iter().map(|machine| machine.node).collect();
            let machine_at = world.add(2, seeds);
            world.boot(machine_at, machine == 0);
            let wait = Duration::from_millis(if machine < 2 { 50 } else { 700 });
            world.run_to(world.now + wait);
        }
        let nodes: Vec<_> = world.machines.iter().map(|machine| machine.node).collect();
        for machine in &mut world.machines {
            let own = machine.node;
            machine.seeds = nodes.iter().copied().filter(|node| *node != own).collect();
        }
    }

    fn something_was_shown(&self, world: &World, is_barren: bool) -> Result<(), Violation> {
        let (counts, ledger) = (world.counts, &world.ledger);
        let has_fault = self.faults.is_empty() || counts.faults > 0;
        let has_handoff = self.nodes < 2 || ledger.deeds.handoffs > 0;
        let is_shown = has_fault && has_handoff && ledger.taken.iter().all(|taken| *taken > 0);
        holds("something_was_shown", world.now, is_shown || is_barren, || {
            let handoffs = ledger.deeds.handoffs;
            format!("{} faults, {handoffs} handoffs, {:?} applied", counts.faults, ledger.taken)
        })
    }
}

/// Lets time pass until something holds; whether it does within the limit.
pub(crate) fn wait(world: &mut World, limit: Duration, is_met: impl Fn(&World) -> bool) -> bool {
    let end = world.now + limit;
    while world.now < end && world.violation().is_none() {
        if is_met(world) {
            return true;
        }
        world.run_to(world.now + LOOK);
    }
    is_met(world)
}

/// The cluster is to do nothing from now on.
pub(crate) fn silence(world: &mut World) {
    world.ledger.mode = Mode::Quiet;
}
