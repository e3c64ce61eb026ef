//! A container: the hosts of one thread, and the batches between them.
//!
//! It is a core like any other: `step` takes an input and says what is to be done, and nothing in here
//! waits. Batches for its own hosts never leave it; they are handled in the same step, so a chain of
//! prototypes works on data that is still in the cache.
//!
//! What is held back: a host runs only while no lane that it feeds is over its budget. Its batches wait
//! in a queue meanwhile, their credits with them, so whatever feeds it is held back next, up to the
//! spouts. The last hosts feed nothing and always run; so, since each cycle of a topology has an edge that
//! holds nobody back, all drain.

mod activity;
mod edge;
mod handoffs;
mod mark;
mod message;
mod replication;
mod run;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use membership::{Epoch, NodeId, Time};
use routing::{BatchHeader, BatchKind, ContainerId, FrameBuilder};

pub use activity::{Activity, Call};
use handoffs::Handoffs;
pub use message::{
    Action, ChunkKind, Credit, DeadLetter, Held, Holder, Input, Parcel, Returned, SpillId,
};
use replication::Replication;
use run::Run;

use crate::acker::Offset;
use crate::event_type::AnyBatch;
use crate::host::Opened;
use crate::layout::{Layout, Phase};
use crate::report::Report;
use crate::topology::Plan;
use crate::{Registry, Removal, Seen, Sought, Waker};

/// A frame is closed when it has this many bytes. Smaller costs a checksum, a write and a read more
/// often; larger delays its first batch.
const FRAME_TARGET: usize = 128 << 10;

/// How long an event may wait for company while there is other work. Longer makes better batches of
/// slow streams, and all of them late.
const FLUSH_AFTER: Duration = Duration::from_millis(2);

/// The most bytes of events that may be kept while they cannot be handled, before those who send them are
/// held back. Less, and a handoff of some tens of milliseconds stops the spouts.
const KEPT_MAX: usize = 16 << 20;

/// The most inputs of spouts in one step: the driver looks at other inputs in between.
const POLLS: usize = 4;

/// The hosts of one thread.
pub struct Container {
    desk: Desk,
    runs: Vec<Run>,
    replication: Replication,
    /// Whether its instances were removed since the node leaves. If it leaves since it seems to be alone, others
    /// may come back, and send on: what they send is neither handled nor confirmed, for who handled it would begin
    /// anew in the middle of what it was.
    is_stopped: bool,
}

/// What all runs of a container share.
struct Desk {
    me: ContainerId,
    layout: Arc<Layout>,
    now: Time,
    frames: BTreeMap<NodeId, FrameBuilder>,
    credits: BTreeMap<(NodeId, Credit), Amount>,
    last_flush: Time,
    waker: Waker,
    handoffs: Handoffs,
    /// The view whose layout was laid last.
    laid: Epoch,
    /// Whether too few voters are there.
    is_degraded: bool,
    activity: Activity,
}

/// What a credit is worth.
#[derive(Clone, Copy, Debug, Default)]
struct Amount {
    rows: u64,
    weight: u32,
}

impl std::fmt::Debug for Container {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Container").field("me", &self.desk.me).finish_non_exhaustive()
    }
}

impl Container {
    /// A container of a node, with hosts for all prototypes of some plans; nothing runs before the
    /// layout says so. `waker` wakes the spouts here: it brings [`Input::Woken`].
    ///
    /// The plans were made with the catalog of `registry`.
    pub fn new(
        number: u16,
        layout: Arc<Layout>,
        registry: &Registry,
        plans: &[Arc<Plan>],
        waker: Waker,
    ) -> Self {
        let me = ContainerId { node: layout.me, container: number };
        let runs = (0..).zip(plans).map(|(at, plan)| Run::new(at, plan, registry, me)).collect();
        let mut container = Self {
            desk: Desk {
                me,
                layout: Arc::clone(&layout),
                now: Time::default(),
                frames: BTreeMap::new(),
                credits: BTreeMap::new(),
                last_flush: Time::default(),
                waker,
                handoffs: Handoffs::default(),
                laid: Epoch(0),
                is_degraded: false,
                activity: Activity::default(),
            },
            runs,
            replication: Replication::default(),
            is_stopped: false,
        };
        container.lay(layout, &mut Vec::new());
        container
    }

    /// From now on, whose code is called here is to be seen there.
    pub fn show_activity(&mut self, activity: Activity) {
        self.desk.activity = activity;
    }

    /// Takes an input and says what is to be done about it.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Vec<Action>) {
        self.desk.now = now;
        match input {
            Input::Parcel(parcel) => {
                if let Some(run) = self.runs.get_mut(usize::from(parcel.header.topology)) {
                    run.take(parcel, &mut self.desk, out);
                }
            }
            Input::Arrived(..) if self.is_stopped => {}
            Input::Arrived(from, header, body) => self.arrived(from, header, body, out),
            Input::Returned(returned) => {
                let run = &mut self.runs[usize::from(returned.credit.topology)];
                run.returned(returned, &mut self.desk, out);
            }
            Input::Credited { node, credit, rows, weight } => {
                if let Some(run) = self.runs.get_mut(usize::from(credit.topology)) {
                    run.credited(node, credit, rows, weight, &mut self.desk, out);
                }
            }
            Input::Laid(layout) => self.lay(layout, out),
            Input::Degraded(is_degraded) => self.desk.is_degraded = is_degraded,
            Input::Copy { handoff, units } => self.copy(handoff, units, out),
            Input::Pull(handoff) => self.pull(handoff, out),
            Input::Seal(handoff) => self.seal(handoff, out),
            Input::Release(handoff) => self.release(handoff, out),
            Input::Stage { handoff, bytes, is_replica } => {
                self.stage(handoff, &bytes, is_replica, out);
            }
            Input::Whole { handoff, units } => self.staged_whole(handoff, units, out),
            Input::Replicated(body) => self.replicated(self.desk.me.node, &body, out),
            Input::Discard(units) => {
                self.forget_replicas(&units);
                self.discard(units);
            }
            Input::Acked { topology, acks } => {
                if let Some(run) = self.runs.get_mut(usize::from(topology)) {
                    let from = (self.desk.me.node, self.desk.layout.epoch.0);
                    run.acked(from, &acks, &self.desk, out);
                }
            }
            Input::Failed { topology, trees } => {
                if let Some(run) = self.runs.get_mut(usize::from(topology)) {
                    let from = (self.desk.me.node, self.desk.layout.epoch.0);
                    run.failed(from, &trees, &self.desk, out);
                }
            }
            Input::Explain { question, root } => {
                let mut holders = Vec::new();
                self.runs.iter_mut().for_each(|run| run.explain(root, &mut holders));
                out.push(Action::Explained { question, holders });
            }
            Input::Look { question, sought } => {
                let seen = self.look(&sought);
                out.push(Action::Looked { question, seen });
            }
            Input::LookAtCopy { question, topology, prototype, state } => {
                let run = self.runs.get(usize::from(topology));
                let seen = run.map_or(Seen::Absent, |run| run.look_at_copy(prototype, &state));
                out.push(Action::Looked { question, seen });
            }
            Input::Resend { topology, prototype, name, position, skip } => {
                let (offset, waker) = (Offset { position, skip }, self.desk.waker.clone());
                if let Some(run) = self.runs.get_mut(usize::from(topology)) {
                    let is_resent = true;
                    run.open(Opened { prototype, name, offset, now, waker, is_resent });
                }
            }
            Input::Quiet(topology) => {
                if let Some(run) = self.runs.get_mut(usize::from(topology)) {
                    run.quiet(&self.desk);
                }
            }
            Input::Open { topology, prototype, name, position, skip } => {
                let (offset, waker) = (Offset { position, skip }, self.desk.waker.clone());
                if let Some(run) = self.runs.get_mut(usize::from(topology)) {
                    let is_resent = false;
                    run.open(Opened { prototype, name, offset, now, waker, is_resent });
                }
            }
            Input::Close { topology, prototype, name } => {
                match self.runs.get_mut(usize::from(topology)) {
                    Some(run) => run.close(prototype, name, out),
                    None => {
                        let state = None;
                        out.push(Action::Closed { topology, prototype, name, state });
                    }
                }
            }
            Input::Unspilled(SpillId { topology, edge }, bytes) => {
                if let Some(run) = self.runs.get_mut(usize::from(topology)) {
                    run.unspilled(usize::from(edge), bytes, &mut self.desk, out);
                }
            }
            Input::Woken => {
                self.runs.iter_mut().for_each(Run::wake);
            }
            Input::Asked(round) => {
                self.flush(out);
                let report = self.report(round);
                out.push(Action::Report(report));
            }
            Input::Stopped => self.stop(out),
            Input::Drained => self.drained(out),
        }
        if self.desk.handoffs.may_seal {
            self.seal_what_may_be(out);
        }
    }

    /// When [`Input::Drained`] is due though nothing arrives.
    pub fn deadline(&self) -> Option<Time> {
        let hosts = self.runs.iter().filter_map(|run| run.deadline(&self.desk));
        let is_open = self.runs.iter().any(Run::is_open);
        let flush = is_open.then(|| self.desk.last_flush + FLUSH_AFTER);
        hosts.chain(flush).chain(self.replication_deadline()).min()
    }

    /// Whether [`Input::Drained`] finds work right now.
    pub fn wants_turn(&self) -> bool {
        let are_waiting = self.desk.handoffs.are_to_be_removed();
        are_waiting
            || self.wants_to_replicate()
            || self.runs.iter().any(|run| run.wants_turn(&self.desk))
    }

    /// The layout that this container has.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.desk.layout
    }

    fn arrived(&mut self, from: NodeId, header: BatchHeader, body: Bytes, out: &mut Vec<Action>) {
        if header.kind == BatchKind::Replicated {
            return self.replicated(from, &body, out);
        }
        let Some(run) = self.runs.get_mut(usize::from(header.topology)) else {
            tracing::warn!(%from, topology = header.topology, "a batch of no topology we have");
            return;
        };
        run.arrived(from, header, body, &mut self.desk, out);
    }

    /// There is no other input: spouts may emit, and what waits for company goes if they do not.
    fn drained(&mut self, out: &mut Vec<Action>) {
        let mut has_emitted = false;
        for run in &mut self.runs {
            run.tick(&mut self.desk, out);
            for _ in 0..POLLS {
                if !run.poll(&mut self.desk, out) {
                    break;
                }
                has_emitted = true;
            }
        }
        // A spout may be asked a little before its time: then nothing came, and company may be far.
        if !has_emitted || !self.wants_turn() || self.desk.now - self.desk.last_flush >= FLUSH_AFTER
        {
            self.flush(out);
            for run in &mut self.runs {
                run.idle(&mut self.desk, out);
            }
            self.desk.send_frames(out);
        }
        self.sweep(out);
        self.replicate(!has_emitted, out);
        self.desk.send_credits(out);
    }

    /// Moves everything out that waits for company.
    fn flush(&mut self, out: &mut Vec<Action>) {
        for run in &mut self.runs {
            run.flush(&mut self.desk, out);
        }
        self.desk.last_flush = self.desk.now;
        self.desk.send_frames(out);
        self.desk.send_credits(out);
    }

    fn lay(&mut self, layout: Arc<Layout>, out: &mut Vec<Action>) {
        // By the new layout, what has gone might be here again.
        self.sweep_all(out);
        let former = std::mem::replace(&mut self.desk.laid, layout.epoch);
        let before = std::mem::replace(&mut self.desk.layout, layout);
        let laying = self.desk.handoffs.lay(&self.desk.layout, self.desk.me);
        self.depart(&before);
        // What is collected for a node that is gone still goes out: if it lives, it passes that on.
        for run in &mut self.runs {
            run.lay((&before, former), &laying, &mut self.desk, out);
        }
        self.narrow(&laying);
        self.lay_replication(&before, &laying, out);
    }

    /// What an instance is. That of a unit which is given away is still here; of one that nobody serves, some may be.
    fn look(&mut self, sought: &Sought) -> Seen {
        let Desk { layout, me, handoffs, .. } = &self.desk;
        let unit = sought.unit(layout.slot_count());
        if layout.home(unit) != Some(*me) || handoffs.is_waiting(unit) || self.is_stopped {
            return Seen::Elsewhere;
        }
        let run = self.runs.get_mut(usize::from(sought.topology));
        run.map_or(Seen::Absent, |run| run.look(sought))
    }

    fn report(&mut self, round: u64) -> Report {
        let layout = Arc::clone(&self.desk.layout);
        let mut runs: Vec<_> = self.runs.iter_mut().map(|run| run.report(&layout)).collect();
        if self.desk.handoffs.are_to_be_removed() {
            // They may emit when they go, so what they feed is not at its end.
            runs.iter_mut().for_each(|run| run.sent += 1);
        }
        Report { round, container: self.desk.me.container, layout: layout.digest, runs }
    }

    /// Removes every instance; what they emit is sent on.
    fn stop(&mut self, out: &mut Vec<Action>) {
        self.sweep_all(out);
        for run in &mut self.runs {
            run.remove_all(Removal::Shutdown, &mut self.desk, out);
        }
        self.flush(out);
        self.is_stopped = true;
        out.push(Action::Stopped);
    }
}

impl Desk {
    /// Adds a batch to the frame for a node.
    fn add(
        &mut self,
        to: NodeId,
        header: BatchHeader,
        body: impl FnOnce(&mut Vec<u8>),
        out: &mut Vec<Action>,
    ) {
        let frame = self.frames.entry(to).or_default();
        frame.push(header, body);
        if frame.len() >= FRAME_TARGET {
            out.push(Action::Send(to, frame.take()));
        }
    }

    fn send_frames(&mut self, out: &mut Vec<Action>) {
        for (&node, frame) in self.frames.iter_mut().filter(|(_, frame)| !frame.is_empty()) {
            out.push(Action::Send(node, frame.take()));
        }
    }

    /// Gives back what a handled parcel took from its sender's budget, and its memory if it is a
    /// neighbour's.
    fn credit(
        &mut self,
        from: ContainerId,
        header: &BatchHeader,
        batch: Option<AnyBatch>,
        out: &mut Vec<Action>,
    ) {
        let credit = Credit {
            topology: header.topology,
            edge: header.edge,
            from: header.from,
            to: self.me.container,
            task: header.task,
            epoch: header.epoch,
        };
        let (rows, weight) = (u64::from(header.rows), header.weight);
        if from.node == self.me.node {
            let returned = Returned { credit, rows, weight, batch };
            out.push(Action::Post(from.container, Input::Returned(returned)));
        } else if self.layout.counts(from.node, header.epoch) {
            let amount = self.credits.entry((from.node, credit)).or_default();
            amount.rows += rows;
            amount.weight = amount.weight.saturating_add(weight);
        }
    }

    fn send_credits(&mut self, out: &mut Vec<Action>) {
        while let Some(((node, credit), Amount { rows, weight })) = self.credits.pop_first() {
            out.push(Action::Credit { node, credit, rows, weight });
        }
    }

    fn phase(&self, topology: u16) -> Phase {
        self.layout.phases[usize::from(topology)]
    }
}
