//! A node of the model: the composed core, its disk, and its one container.
//!
//! Gossip is left out, for the model itself says who seems to be there; so are the counts by which the
//! end of a topology is known, and topologies. A node's clock stands still but for [`Event::Wake`],
//! which lets all that is due at some time be due at once: then any order of deadlines is an order of
//! wakes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use membership::view_log::{self, DiskId, Record, Stamp, Start, ViewLog};
use membership::{Member, Membership, NodeId, Reason, Run, Time};
use pe::Layout;
use routing::{ContainerId, Slot};

use super::super::{Action, Assignment, Cause, Input, Message, NodeCore, Setup, View};
use super::cell::Cell;
use super::{Bounds, Flaw, LogId, NODES, SLOTS};

/// What happens to a node.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A message arrives.
    Deliver(NodeId, Message),
    /// Time passes.
    Wake,
    /// The write that is under way is on disk.
    Sync,
    /// The process ends and starts again; the write that is under way is on disk, or never was.
    Crash { is_kept: bool },
    /// Gossip gives a node up.
    Suspect(NodeId),
    /// The link to a node cannot be repaired.
    Break(NodeId),
    /// An event for a unit.
    Write(u16),
}

/// A node of the model.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) core: NodeCore,
    pub(super) cell: Cell,
    pub(super) disk: Record<Assignment>,
    /// The write that is under way.
    writing: Option<(Stamp, Record<Assignment>)>,
    run: Run,
    now: Time,
    bounds: Bounds,
}

/// Longer than anything that a core waits for.
const LEAP: Duration = Duration::from_secs(3600);

pub(super) fn member(node: NodeId, run: Run) -> Member {
    let nowhere = ([10, 0, 0, 1], 1).into();
    let (control, data) = (nowhere, nowhere);
    Member { node, run, peer: Vec::new(), control, data, http: None, containers: 1 }
}

pub(super) fn log_of(node: NodeId, run: Run) -> LogId {
    LogId::unsynced(DiskId(node.0), run)
}

pub(super) fn setup() -> Setup {
    let slots = u32::from(SLOTS);
    Setup {
        cluster: "model".to_owned(),
        slots,
        expected_nodes: 1,
        replicas: 1,
        is_durable: false,
        plans: Vec::new(),
    }
}

/// The core of a node that starts with that on its disk.
fn core(node: NodeId, run: Run, disk: &Record<Assignment>) -> NodeCore {
    let (member, log) = (member(node, run), LogId::unsynced(disk.disk, run));
    let start = Start {
        member: member.clone(),
        log,
        record: Some(disk.clone()),
        founding: None,
        seed: node.0,
    };
    // Chance would choose whom to tell, so nobody is told by chance.
    let spread = LEAP * 24 * 365;
    let config = view_log::Config { spread, ..view_log::Config::lan() };
    let view_log = ViewLog::new(start, config).unwrap();
    let gossip = Membership::new(member, membership::Config::local(), node.0).unwrap();
    NodeCore::new(setup(), gossip, view_log, log)
}

impl Host {
    /// A node that starts, and what it says.
    pub(super) fn new(
        node: NodeId,
        disk: Record<Assignment>,
        bounds: Bounds,
    ) -> (Self, Vec<(NodeId, Message)>) {
        let run = Run(1);
        let cell = Cell::new(bounds.flaw == Some(Flaw::GivenUnsealed));
        let core = core(node, run, &disk);
        let writing = None;
        let mut host = Self { core, cell, disk, writing, run, now: Time(LEAP), bounds };
        let said = host.start();
        (host, said)
    }

    pub(super) fn log(&self) -> LogId {
        self.core.log_id
    }

    pub(super) fn view(&self) -> Option<&Arc<View>> {
        self.core.view()
    }

    /// Whether a write is under way.
    pub(super) fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    /// What this node does about an event: the messages that it sends.
    pub(super) fn step(&mut self, event: Event) -> Vec<(NodeId, Message)> {
        let mut out = Vec::new();
        match event {
            Event::Deliver(from, message) => return self.give(Input::Received(from, message)),
            Event::Wake => {
                self.now = self.now + LEAP;
                return self.give(Input::Woke);
            }
            Event::Sync => {
                let Some((stamp, record)) = self.writing.take() else { return Vec::new() };
                self.disk = record;
                return self.give(Input::Persisted(stamp));
            }
            Event::Crash { is_kept } => return self.crash(is_kept),
            Event::Suspect(node) => {
                let gone = member(node, Run(1));
                self.core.down(self.now, &gone, Reason::Failed, &mut out);
            }
            Event::Break(node) => {
                let view = self.core.view().cloned();
                let since = view.and_then(|view| Some(view.body.since(view.head.seat(node)?)));
                self.core.causes.extend(since.map(|since| Cause::Broken(node, since)));
                return self.give(Input::Woke);
            }
            Event::Write(slot) => {
                self.cell.write(slot);
            }
        }
        self.act(out)
    }

    fn crash(&mut self, is_kept: bool) -> Vec<(NodeId, Message)> {
        let written = self.writing.take().filter(|_| is_kept);
        self.disk = written.map_or_else(|| self.disk.clone(), |(_, record)| record);
        if self.bounds.flaw == Some(Flaw::PromiseForgotten) {
            (self.disk.promised, self.disk.accepted) = (None, None);
        }
        self.run.0 += 1;
        self.core = core(self.core.me(), self.run, &self.disk);
        self.cell = Cell::new(self.bounds.flaw == Some(Flaw::GivenUnsealed));
        self.start()
    }

    /// The first input, and gossip that has everybody.
    fn start(&mut self) -> Vec<(NodeId, Message)> {
        let mut said = self.give(Input::Started);
        let me = self.core.me();
        for node in (1..=NODES).map(NodeId).filter(|&node| node != me) {
            said.extend(self.meet(node));
            said.extend(self.greeting(node).into_iter().flat_map(|here| self.give(here)));
        }
        said
    }

    /// Gossip has a node.
    pub(super) fn meet(&mut self, node: NodeId) -> Vec<(NodeId, Message)> {
        let there = member(node, Run(1));
        let mut out = Vec::new();
        self.core.live.insert(node, there.clone());
        self.core.log_step(self.now, view_log::Input::Up(there), &mut out);
        self.act(out)
    }

    /// What a node says that stands where we do: who it is that stands there makes no difference.
    fn greeting(&self, node: NodeId) -> Option<Input> {
        let view = self.disk.view.as_ref()?;
        let at = Some((view.head.cluster, view.id()));
        let here = view_log::Message { disk: DiskId(node.0), at, word: view_log::Word::Here };
        Some(Input::Received(node, Message::Log(Box::new(here))))
    }

    fn give(&mut self, input: Input) -> Vec<(NodeId, Message)> {
        let mut out = Vec::new();
        self.core.step(self.now, input, &mut out);
        self.act(out)
    }

    /// Does what the core wants done, until it wants nothing more.
    fn act(&mut self, out: Vec<Action>) -> Vec<(NodeId, Message)> {
        let mut actions = VecDeque::from(out);
        let mut said = Vec::new();
        while let Some(action) = actions.pop_front() {
            let answer = match action {
                Action::Send(to, message) if self.bounds.has(to.node, &message) => {
                    said.push((to.node, message));
                    None
                }
                Action::Persist(stamp, record) => self.persist(stamp, *record),
                Action::Lay(layout) => {
                    self.lay(&layout);
                    None
                }
                Action::Give(_, input) => {
                    let view = self.core.view().expect("it knows units by a view");
                    self.cell.take(input, view, self.core.log_id)
                }
                _ => None,
            };
            if let Some(answer) = answer {
                let mut out = Vec::new();
                self.core.step(self.now, answer, &mut out);
                actions.extend(out);
            }
        }
        said
    }

    fn persist(&mut self, stamp: Stamp, record: Record<Assignment>) -> Option<Input> {
        if self.bounds.is_slow {
            self.writing = Some((stamp, record));
            return None;
        }
        self.disk = record;
        Some(Input::Persisted(stamp))
    }

    fn lay(&mut self, layout: &Layout) {
        let view = self.core.view().expect("a layout is made from a view").clone();
        let here = ContainerId { node: self.core.me(), container: 0 };
        self.cell.lay(&view, |slot| layout.has_key(hash_in(slot), here));
        let log = self.core.log_id;
        if self.bounds.flaw == Some(Flaw::ActiveTooEarly) {
            let next = view.body.shares().filter_map(|(unit, share)| {
                let next = share.next.as_ref().filter(|next| next.owner() == log)?;
                Some(Cause::Installed(next.epoch, vec![unit]))
            });
            self.core.causes.extend(next);
        }
    }

    /// Equal for two nodes that do the same from now on.
    pub(super) fn fingerprint(&self) -> u128 {
        let Self { core, cell, disk, writing, run, .. } = self;
        let handoff = core.handoff.described(self.now);
        let text = format!(
            "{} {:?} {handoff} {cell:?} {disk:?} {writing:?} {run:?}",
            core.log.fingerprint(),
            core.live.keys(),
            writing = writing.as_ref().map(|(_, record)| record),
        );
        xxhash_rust::xxh3::xxh3_128(text.as_bytes())
    }
}

/// A hash of a key in a slot.
fn hash_in(slot: u16) -> u64 {
    let mut hashes = (0u64..).map(|n| n << 32);
    let found = hashes.find(|&hash| Slot::of(hash, usize::from(SLOTS)) == Slot(slot));
    found.expect("each slot has keys")
}
