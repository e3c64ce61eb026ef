//! The world of a simulation: machines, network and time.
//!
//! What happens next is the first entry of a queue; nobody is looked at before something is due. A machine
//! has one entry there for its process, which is moved forward when a step brings an earlier deadline.

mod faults;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use membership::view_log::{self, ClusterId, DiskId, Founding, LogId, Start, ViewLog};
use membership::{Config, Epoch, Member, Membership, NodeId, Run, Time};
use node::{Assignment, Event, Input, NodeCore, Setup, Status};
use pe::topology::Plan;
use pe::{
    Home, Layout, Phase, Place, Registry, ReplicaAction, ReplicaStore, active_containers,
    spread_tasks,
};

use crate::Chance;
use crate::disk::Disk;
use crate::flaw::Flaw;
use crate::journal::{CLEAN_AFTER, Lie};
use crate::ledger::Ledger;
use crate::machine::{Machine, Missed};
use crate::network::{Letter, Network, Rule};
use crate::process::{Outbox, Process, Program, Step};
use crate::referee::{Referee, nothing_is_sent_before_it_is_on_disk};
use crate::violation::{Violation, holds};

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(1);

/// How much may be done at one time.
const AT_ONCE: u32 = 100_000;

/// After this, a disk that has no room is tried again.
const FULL_AGAIN: Duration = Duration::from_millis(100);

/// The lines of the trace that are kept.
const TRACE: usize = 20_000;

/// How long it takes until a process that ended without having given away what it had is started again.
const BACK: Duration = Duration::from_secs(3);

/// What a world is made of.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) seed: u64,
    pub(crate) slots: u32,
    pub(crate) expected_nodes: u32,
    pub(crate) replicas: u32,
    /// Whether they are on disk before anything is acknowledged.
    pub(crate) is_durable: bool,
    pub(crate) gossip: Config,
    pub(crate) views: view_log::Config,
    pub(crate) registry: Arc<Registry>,
    pub(crate) plans: Vec<Arc<Plan>>,
    /// The prototype with numbered instances that the ledger hears of.
    pub(crate) numbered: u16,
    pub(crate) flaw: Option<Flaw>,
    /// Whether what is lost is read again.
    pub(crate) has_acks: bool,
    /// Whether the trace has every letter.
    pub(crate) is_detailed: bool,
}

/// What is due.
enum Due {
    /// From a machine to one in that life of it.
    Letter(usize, (usize, u64), Letter),
    /// The process of a machine.
    Wake(usize),
    /// A write in that life of a machine.
    Synced(usize, u64),
    /// The same of where partitions have come to.
    Kept(usize, u64),
    /// The same of replicas.
    Journaled(usize, u64),
    Undo(Undo),
}

/// The end of a fault.
#[derive(Clone, Copy, Debug)]
enum Undo {
    Start(usize),
    Resume(usize),
    Lift(u64),
    Disk(usize),
    Full(usize),
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) crashes: u64,
    pub(crate) restarts: u64,
    /// Faults that had somebody to befall.
    pub(crate) faults: u64,
    /// Units handed over that had handled something.
    pub(crate) live_handoffs: u64,
    /// Machines that left with units, since they saw nobody for too long: what they had is lost, as if they had died, but for what is on disk.
    pub(crate) abandoned: u64,
    pub(crate) due: u64,
}

/// A simulated cluster.
pub struct World {
    pub(crate) now: Time,
    terms: Terms,
    program: Arc<Program>,
    names: Chance,
    delays: Chance,
    turns: Chance,
    disks: Chance,
    pub(crate) machines: Vec<Machine>,
    by_node: BTreeMap<NodeId, usize>,
    pub(crate) network: Network,
    queue: BTreeMap<(Time, u64), Due>,
    queued: u64,
    pub(crate) referee: Referee,
    pub(crate) ledger: Box<Ledger>,
    pub(crate) counts: Counts,
    trace: VecDeque<String>,
    /// Of everything that arrived, in order.
    fingerprint: u64,
    /// What was done since when at that very time.
    at_once: (Time, u32),
    violation: Option<Violation>,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("now", &self.now).finish_non_exhaustive()
    }
}

impl World {
    /// A world without nodes; all that start in it run the same program and topologies.
    pub fn new(seed: u64, registry: Arc<Registry>, plans: &[Arc<Plan>]) -> Self {
        Self::with(Terms {
            seed,
            slots: 64,
            expected_nodes: 1,
            replicas: 1,
            is_durable: false,
            gossip: Config::local(),
            views: view_log::Config::lan(),
            registry,
            plans: plans.to_vec(),
            numbered: 0,
            flaw: None,
            has_acks: false,
            is_detailed: false,
        })
    }

    pub(crate) fn with(terms: Terms) -> Self {
        let seed = terms.seed;
        let purpose = |purpose| Chance::for_purpose(seed, purpose);
        let (registry, plans) = (Arc::clone(&terms.registry), terms.plans.clone());
        Self {
            now: Time::default(),
            program: Arc::new(Program { registry, plans }),
            names: purpose(2),
            delays: purpose(3),
            turns: purpose(4),
            disks: purpose(5),
            machines: Vec::new(),
            by_node: BTreeMap::new(),
            network: Network::default(),
            queue: BTreeMap::new(),
            queued: 0,
            referee: Referee::default(),
            ledger: Box::new(Ledger::new(terms.slots as usize, terms.numbered, terms.has_acks)),
            counts: Counts::default(),
            trace: VecDeque::new(),
            fingerprint: 0,
            at_once: (Time::default(), 0),
            violation: None,
            terms,
        }
    }

    /// Spouts read once there are so many members; for nodes that start from now on.
    pub fn expect(&mut self, nodes: u32) {
        self.terms.expected_nodes = nodes;
    }

    /// Starts a node: one that founds a cluster, or one that joins by the n-th node started.
    pub fn start(&mut self, containers: u16, join: Option<usize>) -> NodeId {
        let seeds = join.map(|seed| self.machines[seed].node).into_iter().collect();
        let machine = self.add(containers, seeds);
        self.boot(machine, join.is_none());
        self.machines[machine].node
    }

    /// Adds a machine that joins by some nodes.
    pub(crate) fn add(&mut self, containers: u16, seeds: Vec<NodeId>) -> usize {
        let machine = self.machines.len();
        let number = u16::try_from(machine + 1).expect("few machines");
        let (node, disk) = (NodeId(self.names.number()), DiskId(self.names.number()));
        let disk = Disk::blank(disk, self.terms.flaw == Some(Flaw::Fsync));
        self.machines.push(Machine::new(node, number, containers, disk));
        self.machines[machine].seeds = seeds;
        self.by_node.insert(node, machine);
        machine
    }

    /// Starts the process of a machine from its disk.
    pub(crate) fn boot(&mut self, machine: usize, founds: bool) {
        let at = &mut self.machines[machine];
        let me = at.next_life();
        at.backlog = None;
        (at.is_due, at.is_leaving) = (false, false);
        let record = at.disk.read();
        let read = self.referee.read(self.now, at.disk.id, record.as_ref());
        let log_id = LogId::unsynced(at.disk.id, me.run);
        let setup = Setup {
            cluster: "sim".to_owned(),
            slots: self.terms.slots,
            expected_nodes: self.terms.expected_nodes,
            replicas: self.terms.replicas,
            is_durable: self.terms.is_durable,
            plans: self.program.plans.clone(),
        };
        let membership =
            Membership::new(me.clone(), self.terms.gossip.clone(), self.names.number());
        let founding = founds.then(|| Founding {
            cluster: ClusterId(self.names.number()),
            body: Assignment::first(&setup, &me, log_id),
            nodes: Vec::new(),
        });
        let seed = self.names.number();
        let start = Start { member: me.clone(), log: log_id, record, founding, seed };
        let log = ViewLog::new(start, self.terms.views.clone()).expect("what was written fits");
        let membership = membership.expect("the preset is valid");
        let mut core = NodeCore::new(setup, membership, log, log_id);
        if let Some(offsets) = self.machines[machine].disk.offsets() {
            assert!(core.restore(offsets), "the topologies are the same");
        }
        let first = Arc::new(self.first_layout(&me));
        let mut actions = Vec::new();
        let store = match self.store(machine, me.run, &first, &mut actions) {
            Some((store, since)) => {
                core.stored(since);
                store
            }
            None => ReplicaStore::new(Arc::clone(&first)),
        };
        let (program, flaw) = (Arc::clone(&self.program), self.terms.flaw);
        let seeds = self.machines[machine].seeds.clone();
        let store = (store, self.terms.is_durable);
        let process = Process::new(core, (me, log_id), &first, program, seeds, store, flaw);
        self.machines[machine].process = Some(process);
        self.note(machine, "starts");
        self.judge(read);
        self.step(machine, |process, step, out| {
            process.do_all(step.now, actions, out);
            process.step(step, Input::Started, out);
        });
    }

    /// What a machine has of replicas on its disk, and since which of its lives, if they are to be there.
    fn store(
        &mut self,
        machine: usize,
        run: Run,
        first: &Arc<Layout>,
        actions: &mut Vec<ReplicaAction>,
    ) -> Option<(ReplicaStore, Run)> {
        if !self.terms.is_durable {
            return None;
        }
        let lie = match self.terms.flaw {
            Some(Flaw::SkipSync) => Some(Lie::SkipsSync),
            Some(Flaw::DiscardEarly) => Some(Lie::DiscardsEarly),
            _ => None,
        };
        let journal = &mut self.machines[machine].disk.journal;
        journal.lie = lie;
        if journal.segments().next().is_some() {
            match ReplicaStore::recover(Arc::clone(first), CLEAN_AFTER, journal.segments()) {
                Ok((store, recovered)) => {
                    let is_whole = !journal.has_rotted;
                    journal.go_on(&recovered);
                    let judged = holds("damage_is_found", self.now, is_whole, || {
                        format!("n{machine} reads its journal though a bit is another")
                    });
                    self.judge(judged);
                    return Some((store, Run(recovered.made)));
                }
                Err(error) => {
                    let is_right =
                        journal.has_rotted || matches!(error, pe::JournalError::NeverBegun);
                    let judged = holds("what_is_synced_can_be_read", self.now, is_right, || {
                        format!("n{machine} cannot read its journal: {error}")
                    });
                    journal.give_up();
                    self.judge(judged);
                    self.note(machine, &format!("has lost its replicas: {error}"));
                }
            }
        }
        let store = ReplicaStore::with_journal(Arc::clone(first), CLEAN_AFTER, run.0, actions);
        Some((store, run))
    }

    /// Ends a node without a word; the others see their connections close.
    pub fn kill(&mut self, node: NodeId) {
        self.crash(self.by_node[&node], false);
    }

    /// Ends a process without a word. Those who have a connection see it close, unless the machine is gone
    /// with it.
    pub(crate) fn crash(&mut self, machine: usize, is_quiet: bool) {
        let at = &mut self.machines[machine];
        if at.process.take().is_none() {
            return;
        }
        at.backlog = None;
        let before = at.disk.synced().cloned();
        at.disk.crash(&mut self.disks);
        let after = at.disk.synced().filter(|after| before.as_ref() != Some(after)).cloned();
        self.ledger.ended(machine);
        self.counts.crashes += 1;
        self.note(machine, if is_quiet { "crashes unseen" } else { "crashes" });
        if let Some(record) = after {
            self.written(&record);
        }
        for other in 0..self.machines.len() {
            if !is_quiet && other != machine {
                self.post(machine, other, Letter::Closed);
            }
        }
    }

    /// Breaks the data link from one node to another: what is under way on it is lost, and the writer
    /// notices. How many frames with events were lost.
    pub fn break_link(&mut self, from: NodeId, to: NodeId) -> usize {
        let (writer, reader) = (self.by_node[&from], self.by_node[&to]);
        let is_lost = |due: &Due| {
            matches!(due, Due::Letter(from, (to, _), letter)
                if (*from, *to) == (writer, reader) && letter.has_events())
        };
        let lost = self.queue.values().filter(|due| is_lost(due)).count();
        self.network.break_stream(writer, reader);
        if lost > 0 {
            self.note(writer, &format!("has to send {lost} frames to n{reader} again"));
        }
        self.step(writer, |process, step, out| process.reopen(step.now, to, out));
        lost
    }

    /// Lets a node forget what it has read of another's data link, as if it had taken it for dead.
    pub fn forget_link(&mut self, node: NodeId, of: NodeId) {
        let machine = self.by_node[&node];
        self.note(machine, &format!("forgets what it read from n{}", self.by_node[&of]));
        self.step(machine, |process, _, out| process.forget(of, out));
    }

    /// Tells a node to leave.
    pub fn leave(&mut self, node: NodeId) {
        self.dismiss(self.by_node[&node]);
    }

    pub(crate) fn dismiss(&mut self, machine: usize) {
        self.note(machine, "is told to leave");
        self.machines[machine].is_leaving = true;
        self.step(machine, |process, step, out| process.step(step, Input::Leave, out));
    }

    /// Lets time pass until a condition holds, or for at most `limit`, or until an invariant is broken;
    /// whether the condition holds.
    pub fn run_until(&mut self, limit: Duration, is_met: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + limit;
        while self.now < end && self.violation.is_none() {
            if is_met(self) {
                return true;
            }
            let next = self.queue.first_key_value().map_or(end, |((at, _), _)| *at);
            self.run_to(end.min(next.max(self.now + LOOK)));
        }
        self.violation.is_none() && is_met(self)
    }

    /// Lets time come to `until`, or to where an invariant is broken.
    pub(crate) fn run_to(&mut self, until: Time) {
        while self.violation.is_none()
            && let Some(entry) = self.queue.first_entry()
            && entry.key().0 <= until
        {
            let ((at, _), due) = entry.remove_entry();
            self.now = at.max(self.now);
            self.counts.due += 1;
            self.time_goes_on(&due);
            self.happen(due);
        }
        if self.violation.is_none() {
            self.now = until.max(self.now);
        }
    }

    /// What a node shows of itself; a node that is gone shows nothing, and asking for it is a mistake.
    pub fn status(&self, node: NodeId) -> Status {
        let process = self.machines[self.by_node[&node]].process.as_ref();
        process.expect("the node is there").core.status()
    }

    /// Whether a node is there.
    pub fn has(&self, node: NodeId) -> bool {
        self.machines[self.by_node[&node]].is_up()
    }

    /// What has happened, one line each, and what of it may not have.
    pub fn trace(&self) -> String {
        let mut all: String = self.trace.iter().map(String::as_str).collect();
        if let Some(violation) = &self.violation {
            writeln!(all, "{violation}").expect("writing to a string");
        }
        all
    }

    /// The invariant that was broken, if one was.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// A number that differs if anything arrived otherwise.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn first_layout(&self, me: &Member) -> Layout {
        let place = Place {
            node: me.node,
            since: Epoch(0),
            containers: me.containers,
            number: 1,
            is_drained: false,
            is_active: true,
        };
        let slots = vec![Home::first(me.node); self.terms.slots as usize];
        let places = vec![place];
        let plans = &self.program.plans;
        let tasks = spread_tasks(plans, &active_containers(&places));
        let phases = vec![Phase::Waiting; plans.len()];
        Layout::new(Epoch(0), me.node, places, slots, tasks, plans, phases)
    }

    /// Nobody is woken again and again and has nothing to do.
    fn time_goes_on(&mut self, due: &Due) {
        let (since, count) = &mut self.at_once;
        if *since < self.now {
            (*since, *count) = (self.now, 0);
        }
        *count += 1;
        let Due::Wake(machine) = due else { return };
        let judged = holds("time_goes_on", self.now, *count < AT_ONCE, || {
            format!("n{machine} is woken again and again")
        });
        self.judge(judged);
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Letter(from, (to, life), letter) => self.deliver(from, (to, life), letter),
            Due::Wake(machine) => {
                // One that was moved forward has been here already.
                if self.machines[machine].scheduled == Some(self.now) {
                    self.machines[machine].scheduled = None;
                    self.step(machine, Process::wake);
                }
            }
            Due::Synced(machine, life) => self.synced(machine, life),
            Due::Kept(machine, life) => self.kept(machine, life),
            Due::Journaled(machine, life) => self.journaled(machine, life),
            Due::Undo(undo) => self.undo(undo),
        }
    }

    fn deliver(&mut self, from: usize, (to, life): (usize, u64), letter: Letter) {
        let at = &mut self.machines[to];
        if at.run != life || at.process.is_none() || self.network.is_lost(from, to, &letter) {
            return;
        }
        let sender = self.machines[from].node;
        if let Some(backlog) = &mut self.machines[to].backlog {
            return backlog.push(Missed::Letter(sender, letter));
        }
        self.mark(from, to, &letter);
        if self.terms.is_detailed {
            self.note(to, &format!("hears {} of n{from}", letter.kind()));
        }
        self.step(to, |process, step, out| process.receive(step, sender, letter, out));
    }

    fn mark(&mut self, from: usize, to: usize, letter: &Letter) {
        let time = u64::try_from(self.now.0.as_nanos()).unwrap_or(u64::MAX);
        for word in [time, from as u64, to as u64, letter.kind().len() as u64] {
            self.fingerprint = (self.fingerprint ^ word).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn synced(&mut self, machine: usize, life: u64) {
        let at = &mut self.machines[machine];
        if at.run != life || at.process.is_none() {
            return;
        }
        let Some(stamp) = at.disk.sync() else { return };
        if !at.disk.lies {
            let record = at.disk.synced().cloned().expect("it has just been written");
            self.written(&record);
        }
        if let Some(backlog) = &mut self.machines[machine].backlog {
            return backlog.push(Missed::Synced(stamp));
        }
        self.persisted(machine, stamp);
    }

    fn kept(&mut self, machine: usize, life: u64) {
        let at = &mut self.machines[machine];
        if at.run != life || at.process.is_none() || !at.disk.kept() {
            return;
        }
        if let Some(backlog) = &mut at.backlog {
            return backlog.push(Missed::Kept);
        }
        self.step(machine, |process, step, out| process.step(step, Input::Kept, out));
    }

    fn journaled(&mut self, machine: usize, life: u64) {
        let at = &mut self.machines[machine];
        if at.run != life || at.process.is_none() {
            return;
        }
        if at.disk.is_full {
            return self.queue(self.now + FULL_AGAIN, Due::Journaled(machine, life));
        }
        at.disk.journal.sync();
        if let Some(backlog) = &mut at.backlog {
            return backlog.push(Missed::Journaled);
        }
        self.step(machine, Process::journaled);
    }

    fn persisted(&mut self, machine: usize, stamp: view_log::Stamp) {
        self.step(machine, |process, step, out| {
            process.step(step, Input::Persisted(stamp), out);
        });
    }

    /// A record is on a disk.
    fn written(&mut self, record: &crate::disk::NodeRecord) {
        let news = self.referee.written(self.now, record);
        let view = match news {
            Ok(Some(view)) => view,
            Ok(None) => return,
            Err(violation) => return self.judge(Err(violation)),
        };
        let (head, moving) = (&view.head, view.body.moving());
        let states = head.seats.iter().map(|seat| {
            let machine = self.by_node[&seat.node()];
            format!("n{machine}{}", if seat.state == view_log::State::Active { "" } else { "*" })
        });
        let states: Vec<_> = states.collect();
        let line = format!("view {}: {}, {moving} units move", head.number, states.join(" "));
        self.line(&line);
        let has_makers =
            view.body.topologies.iter().any(|state| state.spouts.values().any(Option::is_some));
        let is_over = view.body.topologies.iter().any(|state| state.phase > Phase::Running);
        self.ledger.learn_topology(has_makers, is_over);
        match self.ledger.deeds.learn(self.now, &view) {
            Ok(moved) => {
                let live = moved.iter().filter(|unit| self.ledger.used.contains(unit)).count();
                if self.counts.faults > 0 {
                    self.counts.live_handoffs += live as u64;
                }
            }
            Err(violation) => self.judge(Err(violation)),
        }
    }

    /// Steps a process, if there is one and its machine does not stand still, and does what it wants done.
    fn step(
        &mut self,
        machine: usize,
        step: impl FnOnce(&mut Process, &mut Step<'_>, &mut Outbox),
    ) {
        let mut out = Outbox::default();
        let at = &mut self.machines[machine];
        let Some(process) = at.process.as_mut().filter(|_| at.backlog.is_none()) else { return };
        let (chance, ledger, now) = (&mut self.turns, &mut self.ledger, self.now);
        let is_detailed = self.terms.is_detailed;
        step(process, &mut Step { now, chance, ledger, machine, is_detailed }, &mut out);
        let view = process.core.view().map_or(0, |view| view.head.number.0);
        let is_new = process.goes_by.0 != view;
        if is_new {
            process.goes_by = (view, now);
        }
        let ending = process.ending.take();
        if let Some((stamp, record)) = out.persist.take() {
            let wait = at.disk.write(stamp, record);
            let life = at.run;
            self.queue(now + wait, Due::Synced(machine, life));
        }
        if let Some(offsets) = out.keep.take() {
            let at = &mut self.machines[machine];
            let (wait, life) = (at.disk.keep(offsets), at.run);
            self.queue(now + wait, Due::Kept(machine, life));
        }
        if let Some(steps) = out.journal.take() {
            let at = &mut self.machines[machine];
            at.disk.journal.write(steps);
            let (wait, life) = (at.disk.journal_wait(), at.run);
            self.queue(now + wait, Due::Journaled(machine, life));
        }
        if is_new {
            self.note(machine, &format!("goes by view {view}"));
        }
        for detail in std::mem::take(&mut out.details) {
            self.note(machine, &detail);
        }
        for event in std::mem::take(&mut out.events) {
            self.tell(machine, &event);
        }
        self.judge(out.broken.take().map_or(Ok(()), Err));
        if let Some(violation) = self.ledger.violation.take() {
            self.judge(Err(violation));
        }
        for (to, letter) in std::mem::take(&mut out.letters) {
            if let Some(&to) = self.by_node.get(&to) {
                self.post(machine, to, letter);
            }
        }
        match ending {
            Some(ending) => self.end(machine, &ending),
            None => self.schedule(machine),
        }
    }

    fn end(&mut self, machine: usize, ending: &node::Ending) {
        self.note(machine, &format!("ends: {ending:?}"));
        self.ledger.ended(machine);
        let at = &mut self.machines[machine];
        let has_units = |process: &Process| {
            let shares = process.core.view().into_iter().flat_map(|view| view.body.shares());
            shares.into_iter().any(|(_, share)| share.active.owner() == process.log)
        };
        self.counts.abandoned += u64::from(at.process.as_ref().is_some_and(has_units));
        at.process = None;
        // What only its disk has is there again when it is started again, as whoever reads how it ended would do.
        let is_back = self.terms.is_durable && *ending != node::Ending::Left;
        (at.has_left, at.is_due) = (!is_back, is_back);
        if is_back {
            self.queue(self.now + BACK, Due::Undo(Undo::Start(machine)));
        }
        let at = &self.machines[machine];
        let is_told = at.is_leaving;
        let what = || format!("n{machine} ended by {ending:?}");
        let invariant = "a_process_ends_when_it_is_told_to";
        if !is_told {
            self.judge(Err(Violation { invariant, at: self.now, what: what() }));
        }
    }

    /// Sees to it that a process is woken when it is due.
    fn schedule(&mut self, machine: usize) {
        let at = &self.machines[machine];
        let Some(due) = at.process.as_ref().and_then(|process| process.deadline(self.now)) else {
            return;
        };
        let due = due.max(self.now);
        if at.scheduled.is_none_or(|scheduled| due < scheduled) {
            self.machines[machine].scheduled = Some(due);
            self.queue(due, Due::Wake(machine));
        }
    }

    fn post(&mut self, from: usize, to: usize, letter: Letter) {
        // The word that a connection has closed is that of the system.
        if self.machines[from].is_up() && self.terms.flaw != Some(Flaw::Quorum) {
            let record = self.machines[from].disk.synced();
            let sent = nothing_is_sent_before_it_is_on_disk(self.now, record, &letter);
            self.judge(sent);
        }
        let life = self.machines[to].run;
        let arrivals = self.network.send(self.now, &mut self.delays, (from, to), letter);
        for (at, letter) in arrivals.into_iter().flatten() {
            self.queue(at, Due::Letter(from, (to, life), letter));
        }
    }

    fn queue(&mut self, at: Time, due: Due) {
        self.queued += 1;
        self.queue.insert((at, self.queued), due);
    }

    pub(crate) fn judge(&mut self, judged: Result<(), Violation>) {
        if let Err(violation) = judged {
            self.violation.get_or_insert(violation);
        }
    }

    fn tell(&mut self, machine: usize, event: &Event) {
        match event {
            Event::Down(member, reason) => {
                let whom = self.by_node.get(&member.node).copied().unwrap_or_default();
                self.note(machine, &format!("takes n{whom} for gone: {reason:?}"));
            }
            Event::Log(event) => self.note(machine, &format!("says {event:?}")),
            Event::PartitionLost(name) => {
                self.note(machine, &format!("says that partition {} is lost", name.as_str()));
            }
            Event::TookOver(whom, units, pause) => {
                let whom = self.by_node.get(whom).copied().unwrap_or_default();
                self.note(machine, &format!("took {units} units of n{whom} within {pause:?}"));
            }
            Event::StateLost(units) => {
                self.note(machine, &format!("says that {units} units begin empty"));
            }
            Event::Unavailable(units) => {
                self.note(machine, &format!("says that {units} units are unavailable"));
            }
            Event::HandoffFailed(_, why) => self.note(machine, &format!("cannot take: {why}")),
            Event::NothingToRead(..) | Event::Leaving => {}
            Event::Up(_) | Event::View { .. } | Event::Phase(..) | Event::RefusedGossip(_) => {}
        }
    }

    fn note(&mut self, machine: usize, what: &str) {
        self.line(&format!("n{machine} {what}"));
    }

    pub(crate) fn line(&mut self, what: &str) {
        if self.trace.len() >= TRACE {
            self.trace.pop_front();
        }
        let at = self.now.0.as_secs_f64();
        self.trace.push_back(format!("{at:>10.6} {what}\n"));
    }
}
