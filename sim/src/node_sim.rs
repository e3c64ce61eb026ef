//! A node of a simulation: the core and the containers, and the short way between them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use membership::view_log::{Record, Stamp};
use membership::{NodeId, Time};
use node::link::credits_of;
use node::{Action, Assignment, Input, NodeCore};
use pe::topology::Plan;
use pe::{Container, Registry, Waker};
use routing::{Frame, FrameHeader, FrameKind};

use crate::links::SimLinks;
use crate::network::Letter;

/// How long a disk takes to sync.
const SYNC: Duration = Duration::from_millis(2);

/// One node.
pub(crate) struct SimNode {
    pub(crate) core: NodeCore,
    containers: Vec<Sleeper>,
    registry: Arc<Registry>,
    plans: Vec<Arc<Plan>>,
    /// Inputs for containers, in order.
    posts: VecDeque<(usize, pe::Input)>,
    inputs: VecDeque<Input>,
    /// What is being written, and when it will be on disk.
    writing: Option<(Time, Stamp, Box<Record<Assignment>>)>,
    /// What is on disk.
    pub(crate) disk: Option<Box<Record<Assignment>>>,
    links: SimLinks,
    is_flushing: bool,
    pub(crate) has_left: bool,
}

/// A container and what may have woken it.
struct Sleeper {
    container: Container,
    is_woken: Arc<AtomicBool>,
    is_drained: bool,
}

/// What a node gives to the network.
pub(crate) type Outbox = Vec<(NodeId, Letter)>;

impl SimNode {
    pub(crate) fn new(
        core: NodeCore,
        first: &Arc<pe::Layout>,
        containers: u16,
        registry: Arc<Registry>,
        plans: Vec<Arc<Plan>>,
    ) -> Self {
        let containers = (0..containers)
            .map(|number| {
                let is_woken = Arc::new(AtomicBool::new(false));
                let flag = Arc::clone(&is_woken);
                let waker = Waker::new(move || flag.store(true, Ordering::Relaxed));
                let container = Container::new(number, Arc::clone(first), &registry, &plans, waker);
                Sleeper { container, is_woken, is_drained: false }
            })
            .collect();
        let (posts, inputs, links) = Default::default();
        let (writing, disk, is_flushing, has_left) = (None, None, false, false);
        Self {
            core,
            containers,
            registry,
            plans,
            posts,
            inputs,
            writing,
            disk,
            links,
            is_flushing,
            has_left,
        }
    }

    /// Takes an input of the core and does all that follows from it here and now.
    pub(crate) fn step(&mut self, now: Time, input: Input, out: &mut Outbox) {
        self.inputs.push_back(input);
        self.settle(now, out);
    }

    /// Takes a letter.
    pub(crate) fn receive(&mut self, now: Time, from: NodeId, letter: Letter, out: &mut Outbox) {
        match letter {
            Letter::Hello(theirs) => {
                let ours = self.core.hello();
                if ours.check(&theirs).is_ok() {
                    out.push((from, Letter::Welcome(Box::new(ours))));
                    self.inputs.push_back(Input::Met(theirs.member));
                }
            }
            Letter::Welcome(theirs) => {
                if self.core.hello().check(&theirs).is_ok() {
                    self.inputs.push_back(Input::Met(theirs.member));
                }
            }
            Letter::Control(message) => self.inputs.push_back(Input::Received(from, message)),
            Letter::Open(hello) => self.links.read(from, hello, out),
            Letter::Opened(stream, answer) => {
                if self.links.opened(from, stream, answer, out).is_err() {
                    self.inputs.push_back(Input::Broken(from));
                }
            }
            Letter::Frame(stream, bytes) => {
                if self.links.frame(from, stream, &bytes, out) {
                    self.frame(from, &bytes);
                }
            }
            Letter::Confirmed(stream, watermark) => {
                self.links.confirmed(from, stream, watermark);
            }
            Letter::Ended(stream) => self.links.ended(from, stream, out),
            Letter::Closed => self.inputs.push_back(Input::Lost(from)),
        }
        self.settle(now, out);
    }

    /// The stream to a node broke.
    pub(crate) fn reopen(&mut self, now: Time, to: NodeId, out: &mut Outbox) {
        self.links.reopen(to, out);
        self.settle(now, out);
    }

    /// Forgets what was read from a node.
    pub(crate) fn forget(&mut self, from: NodeId, out: &mut Outbox) {
        self.links.forget(from, out);
    }

    fn frame(&mut self, from: NodeId, bytes: &Bytes) {
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
                    self.posts.push_back((usize::from(credit.from), input));
                }
            }
            FrameKind::Batches => {
                for batch in frame {
                    let (header, body) = batch.expect("nor what a frame holds");
                    let input = pe::Input::Arrived(from, header, body);
                    self.posts.push_back((usize::from(header.to), input));
                }
            }
        }
    }

    /// Lets time come to `now`.
    pub(crate) fn wake(&mut self, now: Time, out: &mut Outbox) {
        if let Some((_, stamp, record)) = self.writing.take_if(|(due, ..)| *due <= now) {
            self.disk = Some(record);
            self.inputs.push_back(Input::Persisted(stamp));
        }
        if self.core.deadline().is_some_and(|due| due <= now) {
            self.inputs.push_back(Input::Woke);
        }
        for sleeper in &mut self.containers {
            sleeper.is_drained &= sleeper.container.deadline().is_none_or(|due| due > now);
        }
        self.settle(now, out);
    }

    /// When [`SimNode::wake`] is due: at once while a spout has more.
    pub(crate) fn deadline(&self, now: Time) -> Option<Time> {
        let is_busy = |sleeper: &Sleeper| !sleeper.is_drained || sleeper.container.wants_turn();
        if self.containers.iter().any(is_busy) {
            return Some(now);
        }
        let containers = self.containers.iter().filter_map(|sleeper| sleeper.container.deadline());
        let writing = self.writing.as_ref().map(|(due, ..)| *due);
        containers.chain(self.core.deadline()).chain(writing).min()
    }

    /// Lets each container that wants it have one turn.
    pub(crate) fn turn(&mut self, now: Time, out: &mut Outbox) {
        for number in 0..self.containers.len() {
            let sleeper = &mut self.containers[number];
            if sleeper.is_woken.swap(false, Ordering::Relaxed) {
                self.posts.push_back((number, pe::Input::Woken));
                self.settle(now, out);
            }
            let sleeper = &mut self.containers[number];
            if !sleeper.is_drained || sleeper.container.wants_turn() {
                sleeper.is_drained = true;
                self.container(now, number, pe::Input::Drained, out);
                self.settle(now, out);
            }
        }
    }

    fn settle(&mut self, now: Time, out: &mut Outbox) {
        loop {
            if let Some(input) = self.inputs.pop_front() {
                let mut actions = Vec::new();
                self.core.step(now, input, &mut actions);
                actions.into_iter().for_each(|action| self.act(now, action, out));
            } else if let Some((number, input)) = self.posts.pop_front() {
                if let Some(sleeper) = self.containers.get_mut(number) {
                    sleeper.is_drained = false;
                    self.container(now, number, input, out);
                }
            } else if self.is_flushing && self.links.are_settled() {
                self.is_flushing = false;
                self.inputs.push_back(Input::Flushed);
            } else {
                return;
            }
        }
    }

    fn container(&mut self, now: Time, number: usize, input: pe::Input, out: &mut Outbox) {
        let mut actions = Vec::new();
        self.containers[number].container.step(now, input, &mut actions);
        for action in actions {
            match action {
                pe::Action::Post(to, input) => self.posts.push_back((usize::from(to), input)),
                pe::Action::Send(to, frame) => {
                    self.links.send(to, FrameKind::Batches, frame, out);
                }
                pe::Action::Credit { node, credit, rows, weight } => {
                    self.links.credit(node, (credit, rows, weight), out);
                }
                pe::Action::Report(report) => self.inputs.push_back(Input::Reported(report)),
                pe::Action::Closed { topology, prototype, name, state } => {
                    self.inputs.push_back(Input::Closed { topology, prototype, name, state });
                }
                pe::Action::Chunk { handoff, kind, bytes } => {
                    self.inputs.push_back(Input::Chunk { handoff, kind, bytes });
                }
                pe::Action::Staged { handoff, outcome } => {
                    self.inputs.push_back(Input::Staged { handoff, outcome });
                }
                pe::Action::Stopped => {
                    let number = u16::try_from(number).expect("containers are counted in 16 bits");
                    self.inputs.push_back(Input::Stopped(number));
                }
            }
        }
    }

    fn act(&mut self, now: Time, action: Action, out: &mut Outbox) {
        let mut all = |input: &dyn Fn() -> pe::Input| {
            (0..self.containers.len()).for_each(|number| self.posts.push_back((number, input())));
        };
        match action {
            Action::Send(to, message) => out.push((to.node, Letter::Control(message))),
            Action::Persist(stamp, record) => self.writing = Some((now + SYNC, stamp, record)),
            Action::Give(container, input) => self.posts.push_back((usize::from(container), input)),
            Action::Lay(layout) => all(&|| pe::Input::Laid(Arc::clone(&layout))),
            Action::Ask(round) => all(&|| pe::Input::Asked(round)),
            Action::Stop => all(&|| pe::Input::Stopped),
            Action::List { topology, prototype } => {
                let plan = &self.plans[usize::from(topology)];
                let spout = &plan.prototypes[usize::from(prototype)];
                let partitions = self.registry.partitions(spout).map_err(|error| error.to_string());
                self.inputs.push_back(Input::Listed { topology, prototype, partitions });
            }
            Action::Open { container, topology, prototype, name, position } => {
                let open = pe::Input::Open { topology, prototype, name, position };
                self.posts.push_back((usize::from(container), open));
            }
            Action::Close { container, topology, prototype, name } => {
                let close = pe::Input::Close { topology, prototype, name };
                self.posts.push_back((usize::from(container), close));
            }
            Action::Farewell(node) => {
                self.links.send(node, FrameKind::Farewell, vec![0; FrameHeader::LEN], out);
            }
            Action::Flush => self.is_flushing = true,
            Action::Exit(_) => self.has_left = true,
            Action::Disconnect(node, _) => self.links.drop_links(node, out),
            // Links are made when they are needed, and nobody reads a log here.
            Action::Connect(_) | Action::Tell(_) => {}
        }
    }
}
