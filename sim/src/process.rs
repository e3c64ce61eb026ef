//! A process of a simulation: the core of a node and its containers, and the short way between them.
//!
//! The core answers at once. Containers have a mailbox each, as actors do, and take their turns one after
//! the other in virtual time: so a container may be behind the core, and two containers behind each
//! other, as on a real machine.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use membership::view_log::{LogId, Message as LogMessage, Stamp, Word};
use membership::{Member, NodeId, Time};
use node::link::credits_of;
use node::{Action, Ending, Event, Input, Message, NodeCore, Offsets};
use pe::topology::Plan;
use pe::{Container, Registry, ReplicaAction, ReplicaInput, ReplicaStore, SpillId, Waker};
use routing::{
    Ack, BatchHeader, BatchKind, Frame, FrameBuilder, FrameHeader, FrameKind, Runs, seal,
};

use crate::Chance;
use crate::disk::NodeRecord;
use crate::flaw::Flaw;
use crate::journal::Write;
use crate::ledger::{Here, Ledger};
use crate::links::SimLinks;
use crate::network::Letter;
use crate::violation::Violation;

/// The most inputs that a container takes in one turn.
const INPUTS: usize = 64;

/// How long a turn takes at least, and how much chance may add, in microseconds: without it, a spout that
/// always has more would stop time.
const TURN: (u64, u64) = (20, 100);

/// How long events are held up with the flaw by which they are overtaken.
const LATE: Duration = Duration::from_millis(100);

/// Between two rounds of knocking at seeds.
const SEEDS: Duration = Duration::from_secs(1);

/// What all processes of a world run.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) registry: Arc<Registry>,
    pub(crate) plans: Vec<Arc<Plan>>,
}

/// One process.
pub(crate) struct Process {
    pub(crate) core: NodeCore,
    me: Member,
    pub(crate) log: LogId,
    containers: Vec<Sleeper>,
    store: ReplicaStore,
    journal: Option<Journaling>,
    program: Arc<Program>,
    inputs: VecDeque<Input>,
    links: SimLinks,
    is_flushing: bool,
    pub(crate) ending: Option<Ending>,
    /// Who is asked for the way in.
    seeds: Vec<NodeId>,
    next_seeds: Time,
    /// The number of the view that the core goes by, and since when.
    pub(crate) goes_by: (u64, Time),
    flaw: Option<Flaw>,
    /// Whether its containers hear of no view any more, with that flaw.
    is_stuck: bool,
    /// What is overtaken, with that flaw.
    late: VecDeque<(Time, u16, pe::Input)>,
}

/// What is done with a journal.
#[derive(Debug, Default)]
struct Journaling {
    /// What is to be written next, and what waits for that.
    waiting: Vec<Write>,
    held: Vec<ReplicaAction>,
    /// What waits for what is being written, if something is.
    writing: Option<Vec<ReplicaAction>>,
}

/// A container, its mailbox, and what may have woken it.
struct Sleeper {
    container: Container,
    mailbox: VecDeque<pe::Input>,
    is_woken: Arc<AtomicBool>,
    is_drained: bool,
    free_at: Time,
    /// What waits on its disk.
    spilled: BTreeMap<SpillId, VecDeque<Vec<u8>>>,
}

impl Sleeper {
    fn keep(&mut self, id: SpillId, bytes: Vec<u8>) {
        self.spilled.entry(id).or_default().push_back(bytes);
    }

    fn give(&mut self, id: SpillId) {
        let bytes = self.spilled.get_mut(&id).and_then(VecDeque::pop_front);
        self.mailbox.push_back(pe::Input::Unspilled(id, bytes.map(Bytes::from)));
    }
}

/// What a process gives to the world.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pub(crate) letters: Vec<(NodeId, Letter)>,
    pub(crate) persist: Option<(Stamp, Box<NodeRecord>)>,
    /// For the journal of replicas.
    pub(crate) journal: Option<Vec<Write>>,
    /// Where partitions have come to, for the disk.
    pub(crate) keep: Option<Box<Offsets>>,
    pub(crate) events: Vec<Event>,
    /// Lines for a trace that has everything.
    pub(crate) details: Vec<String>,
    pub(crate) broken: Option<Violation>,
}

/// What a step may use of the world.
pub(crate) struct Step<'w> {
    pub(crate) now: Time,
    pub(crate) chance: &'w mut Chance,
    pub(crate) ledger: &'w mut Box<Ledger>,
    pub(crate) machine: usize,
    pub(crate) is_detailed: bool,
}

impl Process {
    pub(crate) fn new(
        core: NodeCore,
        (me, log): (Member, LogId),
        first: &Arc<pe::Layout>,
        program: Arc<Program>,
        seeds: Vec<NodeId>,
        (store, is_durable): (ReplicaStore, bool),
        flaw: Option<Flaw>,
    ) -> Self {
        let containers = (0..me.containers).map(|number| {
            let is_woken = Arc::new(AtomicBool::new(false));
            let flag = Arc::clone(&is_woken);
            let waker = Waker::new(move || flag.store(true, Ordering::Relaxed));
            let (registry, plans) = (&program.registry, &program.plans);
            Sleeper {
                container: Container::new(number, Arc::clone(first), registry, plans, waker),
                mailbox: VecDeque::new(),
                is_woken,
                is_drained: false,
                free_at: Time::default(),
                spilled: BTreeMap::new(),
            }
        });
        let containers = containers.collect();
        let links = SimLinks::new(me.run, flaw == Some(Flaw::Resend));
        Self {
            core,
            me,
            log,
            containers,
            store,
            journal: is_durable.then(Journaling::default),
            program,
            inputs: VecDeque::new(),
            links,
            is_flushing: false,
            ending: None,
            seeds,
            next_seeds: Time::default(),
            goes_by: (0, Time::default()),
            flaw,
            is_stuck: false,
            late: VecDeque::new(),
        }
    }

    pub(crate) fn log(&self) -> LogId {
        self.log
    }

    /// Takes an input of the core and does all that follows from it here and now.
    pub(crate) fn step(&mut self, step: &mut Step<'_>, input: Input, out: &mut Outbox) {
        self.inputs.push_back(input);
        self.settle(step, out);
    }

    /// Takes a letter.
    pub(crate) fn receive(
        &mut self,
        step: &mut Step<'_>,
        from: NodeId,
        letter: Letter,
        out: &mut Outbox,
    ) {
        let now = step.now;
        match letter {
            Letter::Hello(theirs) => {
                let ours = self.core.hello();
                if ours.check(&theirs).is_ok() {
                    out.letters.push((from, Letter::Welcome(Box::new(ours))));
                    self.inputs.push_back(Input::Met(theirs.member));
                }
            }
            Letter::Welcome(theirs) => {
                if self.core.hello().check(&theirs).is_ok() {
                    self.inputs.push_back(Input::Met(theirs.member));
                }
            }
            Letter::Control(message) => {
                if !self.agrees_to_all(from, &message, out) {
                    self.inputs.push_back(Input::Received(from, message));
                }
            }
            Letter::Open(stream, hello) => self.links.read(from, stream, hello, out),
            Letter::Opened(stream, answer) => {
                if self.links.opened(now, from, stream, answer, out).is_err() {
                    self.inputs.push_back(Input::Broken(from));
                }
            }
            Letter::Frame(stream, bytes) => {
                match self.links.frame(now, from, stream, &bytes, out) {
                    Ok(true) => self.frame(now, from, &bytes, out),
                    Ok(false) => {}
                    Err(gap) => {
                        let what = format!("{} reads from {from}: {gap}", self.me.node);
                        let invariant = "a_link_has_no_gap";
                        out.broken = Some(Violation { invariant, at: now, what });
                    }
                }
            }
            Letter::Confirmed(stream, watermark) => {
                if let Err(lost) = self.links.confirmed(now, from, stream, watermark) {
                    let what = format!(
                        "{} wrote to {from}, of stream {stream} came {watermark}: {lost}",
                        self.me.node
                    );
                    let invariant = "nobody_confirms_what_was_not_sent";
                    out.broken = Some(Violation { invariant, at: now, what });
                }
            }
            Letter::Ended(stream) => self.links.ended(now, from, stream),
            Letter::Closed => {
                self.links.closed(now, from);
                self.inputs.push_back(Input::Lost(from));
            }
        }
        self.settle(step, out);
    }

    /// A voter with that flaw answers whatever it is asked, and forgets it.
    fn agrees_to_all(&self, from: NodeId, message: &Message, out: &mut Outbox) -> bool {
        let Message::Log(message) = message else { return false };
        if self.flaw != Some(Flaw::Quorum) || self.core.view().is_none() {
            return false;
        }
        let word = match &message.word {
            Word::Prepare(ballot) => Word::Promise(*ballot, None),
            Word::Accept(ballot, _) => Word::Accepted(*ballot),
            Word::Decided(_)
            | Word::Here
            | Word::Ask
            | Word::Promise(..)
            | Word::Accepted(_)
            | Word::Beaten(..)
            | Word::Wish(_) => return false,
        };
        let answer = LogMessage { disk: self.log.disk, at: message.at, word };
        out.letters.push((from, Letter::Control(Message::Log(Box::new(answer)))));
        true
    }

    /// The stream to a node broke.
    pub(crate) fn reopen(&mut self, now: Time, to: NodeId, out: &mut Outbox) {
        self.links.reopen(now, to, out);
    }

    /// Forgets what was read from a node.
    pub(crate) fn forget(&mut self, from: NodeId, out: &mut Outbox) {
        self.links.forget(from, out);
    }

    fn frame(&mut self, now: Time, from: NodeId, bytes: &Bytes, out: &mut Outbox) {
        let header = bytes.first_chunk().expect("a frame has a header");
        let header = FrameHeader::parse(header).expect("a link does not change bytes");
        let frame = Frame::new(header, bytes.slice(FrameHeader::LEN..));
        let frame = frame.expect("a link does not change bytes");
        match header.kind {
            FrameKind::Farewell => self.inputs.push_back(Input::Finished(from)),
            FrameKind::Credits => {
                let credits = credits_of(&frame.into_payload()).expect("nor what a frame holds");
                for (credit, rows, weight) in credits {
                    let input = pe::Input::Credited { node: from, credit, rows, weight };
                    self.post(credit.from, input);
                }
            }
            FrameKind::Batches => {
                for batch in frame {
                    let (header, body) = batch.expect("nor what a frame holds");
                    if header.kind == BatchKind::Replicate {
                        let container = header.from;
                        let body =
                            if self.flaw == Some(Flaw::HalfCopy) { halved(body) } else { body };
                        let arrived = ReplicaInput::Arrived { node: from, container, body };
                        self.keep_replicas(now, arrived, out);
                        continue;
                    }
                    let (to, is_fence) = (header.to, header.kind == BatchKind::Fence);
                    if self.flaw == Some(Flaw::AckTwice) && header.kind == BatchKind::Acks {
                        self.post(to, pe::Input::Arrived(from, header, body.clone()));
                    }
                    let input = pe::Input::Arrived(from, header, body);
                    if self.flaw == Some(Flaw::Order) && !is_fence {
                        self.late.push_back((now + LATE, to, input));
                    } else {
                        self.post(to, input);
                    }
                }
            }
        }
    }

    /// Gives an input to the replicas that are kept here.
    fn keep_replicas(&mut self, now: Time, input: ReplicaInput, out: &mut Outbox) {
        let mut actions = Vec::new();
        self.store.step(input, &mut actions);
        self.do_all(now, actions, out);
    }

    /// Does what the replicas want done: what is for the journal first, and what follows from it once that is synced.
    pub(crate) fn do_all(&mut self, now: Time, actions: Vec<ReplicaAction>, out: &mut Outbox) {
        let Some(journal) = &mut self.journal else {
            return actions.into_iter().for_each(|action| self.do_one(now, action, out));
        };
        for action in actions {
            match action {
                ReplicaAction::Log(bytes) => journal.waiting.push(Write::Append(bytes)),
                ReplicaAction::Segment(number, start) => {
                    journal.waiting.push(Write::Begin(number, start));
                }
                ReplicaAction::Discard(below) => journal.waiting.push(Write::Discard(below)),
                ReplicaAction::Send(..)
                | ReplicaAction::Tell(..)
                | ReplicaAction::Chunk { .. }
                | ReplicaAction::Looked { .. } => journal.held.push(action),
            }
        }
        self.write_journal(out);
    }

    fn write_journal(&mut self, out: &mut Outbox) {
        let Some(journal) = &mut self.journal else { return };
        let has_more = !journal.waiting.is_empty() || !journal.held.is_empty();
        if has_more && journal.writing.is_none() {
            journal.writing = Some(std::mem::take(&mut journal.held));
            out.journal = Some(std::mem::take(&mut journal.waiting));
        }
    }

    /// What was written to the journal is synced.
    pub(crate) fn journaled(&mut self, step: &mut Step<'_>, out: &mut Outbox) {
        let written = self.journal.as_mut().and_then(|journal| journal.writing.take());
        written.into_iter().flatten().for_each(|action| self.do_one(step.now, action, out));
        self.write_journal(out);
        self.settle(step, out);
    }

    fn do_one(&mut self, now: Time, action: ReplicaAction, out: &mut Outbox) {
        match action {
            ReplicaAction::Send(node, frame) => {
                self.links.send(now, node, FrameKind::Batches, frame, out);
            }
            ReplicaAction::Tell(container, body) => {
                self.post(container, pe::Input::Replicated(body));
            }
            ReplicaAction::Chunk { handoff, bytes, kind } => {
                self.inputs.push_back(Input::Chunk { handoff, kind, bytes });
            }
            ReplicaAction::Log(_)
            | ReplicaAction::Segment(..)
            | ReplicaAction::Discard(_)
            | ReplicaAction::Looked { .. } => {}
        }
    }

    fn post(&mut self, container: u16, input: pe::Input) {
        if let Some(sleeper) = self.containers.get_mut(usize::from(container)) {
            sleeper.mailbox.push_back(input);
        }
    }

    /// Does what is due by now.
    pub(crate) fn wake(&mut self, step: &mut Step<'_>, out: &mut Outbox) {
        let now = step.now;
        self.links.wake(now, out);
        while self.late.front().is_some_and(|(at, ..)| *at <= now)
            && let Some((_, to, input)) = self.late.pop_front()
        {
            self.post(to, input);
        }
        if self.next_seeds <= now {
            self.next_seeds = now + SEEDS;
            self.dial_seeds(step, out);
        }
        if self.core.deadline().is_some_and(|due| due <= now) {
            self.inputs.push_back(Input::Woke);
        }
        self.settle(step, out);
        for number in 0..self.containers.len() {
            if self.containers[number].due(now).is_some_and(|due| due <= now) {
                self.turn(step, number, out);
                self.settle(step, out);
            }
        }
    }

    /// When [`Process::wake`] is due.
    pub(crate) fn deadline(&self, now: Time) -> Option<Time> {
        let containers = self.containers.iter().filter_map(|sleeper| sleeper.due(now));
        let late = self.late.front().map(|(at, ..)| *at);
        let own = [self.core.deadline(), self.links.deadline(), Some(self.next_seeds), late];
        containers.chain(own.into_iter().flatten()).min()
    }

    /// While we know of nobody, knock at all seeds, again and again.
    fn dial_seeds(&self, step: &mut Step<'_>, out: &mut Outbox) {
        const AT_ONCE: u64 = 5;
        let count = self.seeds.len() as u64;
        if !self.core.is_lonely() || count == 0 {
            return;
        }
        let first = if count > AT_ONCE { step.chance.below(count) } else { 0 };
        let hello = Box::new(self.core.hello());
        for which in first..first + count.min(AT_ONCE) {
            let at = usize::try_from(which % count).expect("an index is one");
            out.letters.push((self.seeds[at], Letter::Hello(hello.clone())));
        }
    }

    /// Lets a container have one turn.
    fn turn(&mut self, step: &mut Step<'_>, number: usize, out: &mut Outbox) {
        for _ in 0..INPUTS {
            let Some(input) = self.containers[number].mailbox.pop_front() else { break };
            self.containers[number].is_drained = false;
            self.container(step, number, input, out);
        }
        let sleeper = &mut self.containers[number];
        if sleeper.mailbox.is_empty() {
            if sleeper.is_woken.swap(false, Ordering::Relaxed) {
                self.container(step, number, pe::Input::Woken, out);
            }
            self.containers[number].is_drained = true;
            self.container(step, number, pe::Input::Drained, out);
        }
        let (least, more) = TURN;
        let cost = Duration::from_micros(least + step.chance.below(more));
        self.containers[number].free_at = step.now + cost;
    }

    fn settle(&mut self, step: &mut Step<'_>, out: &mut Outbox) {
        loop {
            while let Some(input) = self.inputs.pop_front() {
                let mut actions = Vec::new();
                self.core.step(step.now, input, &mut actions);
                actions.into_iter().for_each(|action| self.act(step, action, out));
            }
            if !(self.is_flushing && self.links.are_settled()) {
                return;
            }
            self.is_flushing = false;
            self.inputs.push_back(Input::Flushed);
        }
    }

    fn container(
        &mut self,
        step: &mut Step<'_>,
        number: usize,
        input: pe::Input,
        out: &mut Outbox,
    ) {
        let now = step.now;
        let own = u16::try_from(number).expect("containers are counted in 16 bits");
        let sleeper = &mut self.containers[number];
        if self.flaw == Some(Flaw::Stage)
            && let pe::Input::Stage { handoff, .. } = input
        {
            let outcome = Ok(());
            return self.inputs.push_back(Input::Staged { handoff, outcome });
        }
        // A new layout holds for all that comes of it.
        let layout =
            if let pe::Input::Laid(layout) = &input { layout } else { sleeper.container.layout() };
        let here = Here {
            machine: step.machine,
            run: self.me.run,
            log: self.log,
            at: (self.me.node, own),
            layout: Arc::clone(layout),
            goes_by: self.goes_by,
            now,
        };
        let mut actions = Vec::new();
        step.ledger.during(here, || sleeper.container.step(now, input, &mut actions));
        for action in actions {
            match action {
                pe::Action::Post(to, input) => self.post(to, input),
                pe::Action::Send(to, mut frame) => {
                    if self.flaw == Some(Flaw::AckEarly) {
                        frame = self.ack_early(own, frame);
                    }
                    if self.flaw == Some(Flaw::ConfirmEarly) {
                        frame = self.confirm_early((to, own), frame);
                    }
                    self.links.send(now, to, FrameKind::Batches, frame, out);
                }
                pe::Action::Credit { node, credit, rows, weight } => {
                    self.links.credit(now, node, (credit, rows, weight), out);
                }
                pe::Action::Report(mut report) => {
                    if self.flaw == Some(Flaw::CommitEarly) {
                        commit_early(&mut report, step.ledger);
                    }
                    self.inputs.push_back(Input::Reported(report));
                }
                pe::Action::Closed { topology, prototype, name, state } => {
                    self.inputs.push_back(Input::Closed { topology, prototype, name, state });
                }
                pe::Action::Chunk { handoff, kind, bytes } => {
                    if step.is_detailed {
                        let len = bytes.len();
                        out.details.push(format!("chunk of {handoff}: {kind:?}, {len} bytes"));
                    }
                    self.inputs.push_back(Input::Chunk { handoff, kind, bytes });
                }
                pe::Action::Staged { handoff, outcome } => {
                    self.inputs.push_back(Input::Staged { handoff, outcome });
                }
                pe::Action::Secured { handoff, epoch, units } => {
                    self.inputs.push_back(Input::Secured { handoff, epoch, units });
                }
                pe::Action::Replicate(body) => {
                    let body = Bytes::from(body);
                    self.keep_replicas(now, ReplicaInput::Own { container: own, body }, out);
                }
                // Nobody asks.
                pe::Action::Explained { .. } | pe::Action::Looked { .. } => {}
                pe::Action::Bury(letter) => {
                    let what = format!("{letter:?}");
                    let invariant = "no_tree_is_given_up_for_good";
                    out.broken = Some(Violation { invariant, at: now, what });
                }
                pe::Action::Spill(id, bytes) => self.containers[number].keep(id, bytes),
                pe::Action::Unspill(id) => self.containers[number].give(id),
                pe::Action::Stopped => self.inputs.push_back(Input::Stopped(own)),
            }
        }
    }

    /// With that flaw, the trees planted in a container need not wait for what leaves it: the ids of a frame are acked
    /// here and now, and whoever handles it has none to ack.
    fn ack_early(&mut self, own: u16, frame: Vec<u8>) -> Vec<u8> {
        // On the wire: how many runs, and of each its tree, its id and its first row.
        const RUNS: usize = 4;
        const RUN: usize = 20;
        const EDGE: std::ops::Range<usize> = 8..16;
        let mut builder = FrameBuilder::default();
        for (header, body) in batches(frame) {
            let mut body = body.to_vec();
            if matches!(header.kind, BatchKind::Direct | BatchKind::Forwarded) {
                let runs = Runs::of_wire(header.rows, &body).expect("they come first");
                let mut acks = Vec::new();
                for (at, run) in runs.as_slice().iter().enumerate() {
                    acks.push(Ack { root: run.root, edges: run.edge });
                    body[RUNS + at * RUN..][EDGE].fill(0);
                }
                self.post(own, pe::Input::Acked { topology: header.topology, acks });
            }
            builder.push(header, |out| out.extend_from_slice(&body));
        }
        builder.take()
    }

    /// With that flaw, a container hears that a replica has what was just sent to it.
    fn confirm_early(&mut self, (to, own): (NodeId, u16), frame: Vec<u8>) -> Vec<u8> {
        let mut builder = FrameBuilder::default();
        for (header, body) in batches(frame) {
            if header.kind == BatchKind::Replicate {
                // The number of the message, and no unit that is refused.
                let body = [&body[..8], &[0; 8]].concat();
                let answer = BatchHeader { kind: BatchKind::Replicated, to: own, ..header };
                self.post(own, pe::Input::Arrived(to, answer, Bytes::from(body)));
            }
            builder.push(header, |out| out.extend_from_slice(&body));
        }
        builder.take()
    }

    fn all(&mut self, input: impl Fn() -> pe::Input) {
        for sleeper in &mut self.containers {
            sleeper.mailbox.push_back(input());
        }
    }

    fn act(&mut self, step: &mut Step<'_>, action: Action, out: &mut Outbox) {
        let now = step.now;
        match action {
            Action::Send(to, message) => out.letters.push((to.node, Letter::Control(message))),
            Action::Persist(stamp, record) => out.persist = Some((stamp, record)),
            Action::Give(container, input) => {
                if step.is_detailed {
                    out.details.push(format!("container {container}: {}", brief(&input)));
                }
                if !self.swallows(&input) {
                    self.post(container, input);
                }
            }
            Action::Lay(layout) => {
                self.is_stuck |=
                    self.flaw == Some(Flaw::Fence) && layout.since(self.me.node).is_none();
                if self.flaw == Some(Flaw::Forget) {
                    self.store = ReplicaStore::new(Arc::clone(&layout));
                }
                if !self.is_stuck {
                    self.keep_replicas(now, ReplicaInput::Laid(Arc::clone(&layout)), out);
                    self.all(|| pe::Input::Laid(Arc::clone(&layout)));
                }
            }
            Action::Replicas(input) => self.keep_replicas(now, input, out),
            Action::Degraded(is_degraded) => self.all(|| pe::Input::Degraded(is_degraded)),
            Action::Ask(round) => self.all(|| pe::Input::Asked(round)),
            Action::Stop => self.all(|| pe::Input::Stopped),
            Action::List { topology, prototype } => {
                let plan = &self.program.plans[usize::from(topology)];
                let spout = &plan.prototypes[usize::from(prototype)];
                let partitions = self.program.registry.partitions(spout);
                let partitions = partitions.map_err(|error| error.to_string());
                self.inputs.push_back(Input::Listed { topology, prototype, partitions });
            }
            Action::Keep(offsets) => {
                for (name, position, skip) in offsets.committed() {
                    let number = position.offset + skip;
                    if let Err(violation) = step.ledger.committed(now, name.as_str(), number) {
                        out.broken = Some(violation);
                    }
                }
                out.keep = Some(offsets);
            }
            Action::Open { container, topology, prototype, name, position, mut skip } => {
                if self.flaw == Some(Flaw::Skip) {
                    skip *= 2;
                }
                let open = pe::Input::Open { topology, prototype, name, position, skip };
                self.post(container, open);
            }
            Action::Close { topology, prototype, name, .. }
                if self.flaw == Some(Flaw::DoubleToken) =>
            {
                let state = None;
                self.inputs.push_back(Input::Closed { topology, prototype, name, state });
            }
            Action::Close { container, topology, prototype, name } => {
                self.post(container, pe::Input::Close { topology, prototype, name });
            }
            Action::Farewell(node) => {
                self.links.send(now, node, FrameKind::Farewell, vec![0; FrameHeader::LEN], out);
            }
            Action::Flush => self.is_flushing = true,
            Action::Exit(ending) => self.ending = Some(ending),
            Action::Connect(member) => self.links.connect(now, member, out),
            Action::Disconnect(node, _) => self.links.drop_links(node, out),
            Action::Tell(event) => out.events.push(event),
        }
    }

    /// Whether the flaw of this process is not to give such an input.
    fn swallows(&self, input: &pe::Input) -> bool {
        match self.flaw {
            Some(Flaw::Seal) => matches!(input, pe::Input::Seal(_)),
            Some(Flaw::Fence) => matches!(input, pe::Input::Discard(_)),
            Some(
                Flaw::Fsync
                | Flaw::Resend
                | Flaw::Stage
                | Flaw::Order
                | Flaw::Quorum
                | Flaw::DoubleToken
                | Flaw::AckEarly
                | Flaw::AckTwice
                | Flaw::CommitEarly
                | Flaw::Skip
                | Flaw::ConfirmEarly
                | Flaw::HalfCopy
                | Flaw::Forget
                | Flaw::SkipSync
                | Flaw::DiscardEarly,
            )
            | None => false,
        }
    }
}

/// The batches of a frame that a container gives.
fn batches(mut frame: Vec<u8>) -> impl Iterator<Item = (BatchHeader, Bytes)> {
    seal(&mut frame, FrameKind::Batches, 0);
    let header = frame.first_chunk().expect("a frame has a header");
    let header = FrameHeader::parse(header).expect("it was just sealed");
    let batches = Frame::new(header, Bytes::from(frame).slice(FrameHeader::LEN..));
    let batches = batches.expect("it was just sealed");
    batches.map(|batch| batch.expect("a container does not make others"))
}

/// With that flaw, every second message with records has none.
fn halved(body: Bytes) -> Bytes {
    const KIND: usize = 8;
    const RECORDS: u8 = 3;
    if body[KIND] != RECORDS || body[0].is_multiple_of(2) {
        return body;
    }
    // A chunk of nothing is the checksum of nothing.
    let nothing = xxhash_rust::xxh3::xxh3_64(&[]).to_le_bytes();
    Bytes::from([&body[..=KIND], &nothing[..]].concat())
}

/// With that flaw, a container says that all its spouts have read is done with.
fn commit_early(report: &mut pe::Report, ledger: &Ledger) {
    let hosts = report.runs.iter_mut().flat_map(|run| &mut run.hosts);
    for partition in hosts.flat_map(|host| &mut host.partitions) {
        let name = partition.name.as_str().parse().expect("the workload numbers its partitions");
        (partition.position.offset, partition.skip) = (ledger.emitted_of(name), 0);
    }
}

/// An input of a handoff, in a line.
fn brief(input: &pe::Input) -> String {
    if let pe::Input::Stage { handoff, bytes, .. } = input {
        return format!("stage {handoff}, {} bytes", bytes.len());
    }
    format!("{input:?}")
}

impl Sleeper {
    /// When it has its next turn.
    fn due(&self, now: Time) -> Option<Time> {
        let is_busy = !self.mailbox.is_empty()
            || !self.is_drained
            || self.is_woken.load(Ordering::Relaxed)
            || self.container.wants_turn();
        let at = if is_busy { Some(now) } else { self.container.deadline() };
        at.map(|at| at.max(self.free_at))
    }
}
