//! The driver of a node's core: one task that feeds it and does what it wants done.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix::prelude::{Addr, SendError};
use libp2p::PeerId;
use membership::view_log::{self, Record, Stamp};
use membership::{Member, NodeId, Reason, Time};
use pe::topology::{Plan, Prototype};
use pe::{DeadLetter, Held, Holder, PartitionName, Registry, Seen};
use routing::{FrameHeader, FrameKind};
use tokio::sync::{mpsc, oneshot};

use super::actor::{ContainerActor, Deliver};
use super::clock::Clock;
use super::dead_letters::DeadLetters;
use super::http::TreeHolder;
use super::identity::{self, node_of};
use super::links::{GreetingError, Shared};
use super::look::{Look, LookAnswer, LookRequest};
use super::net::{Command, NetEvent, Side};
use super::room;
use super::watch::Watch;
use super::{Exit, RunError};
use crate::core::{
    Action, Assignment, Ending, Event, Input, NodeCore, Offsets, Status, StuckStatus,
};

/// Between two attempts to reach the same address.
const DIAL_AGAIN: Duration = Duration::from_millis(500);

/// Something for the driver.
pub(super) enum Notice {
    /// An input for the core.
    Core(Input),
    /// We have a control link to a member.
    Greeted(Member),
    /// We have none.
    NotGreeted(NodeId, GreetingError),
    /// We have it no more.
    ControlEnded(NodeId),
    /// An event of a spout was tried often enough.
    Bury(DeadLetter),
    /// Somebody wants to know who has events of a tree.
    Explain(u64, oneshot::Sender<Vec<TreeHolder>>),
    /// A container answers that.
    Explained(u64, Vec<Holder>),
    /// Somebody wants to know what an instance is.
    Look(LookRequest, oneshot::Sender<LookAnswer>),
    /// A container answers that.
    Looked(u64, Seen),
    /// A replica answers that: the state, if there is such an instance, and if there is a replica.
    FoundCopy(u64, Option<Option<Vec<u8>>>),
    /// A dead letter is to be handled once more.
    Resend(DeadLetter),
    /// Something that has to be on disk could not be written.
    DiskFailed(RunError),
    /// SIGTERM or its like; the second time it is meant.
    Stop,
}

/// A question that containers are asked.
pub(super) struct Question {
    /// How many have yet to answer.
    open: usize,
    /// Who cannot.
    stuck: Vec<StuckStatus>,
    holders: Vec<Holder>,
    asker: oneshot::Sender<Vec<TreeHolder>>,
}

/// So many questions are open at a time.
pub(super) const QUESTIONS_MAX: usize = 64;

/// Who wants to know how the node is.
pub(super) type StatusAsker = oneshot::Sender<Status>;

pub(super) struct Driver {
    pub(super) core: NodeCore,
    /// Where this node listens for control connections; others may know another address.
    pub(super) listens: SocketAddr,
    pub(super) clock: Clock,
    pub(super) shared: Shared,
    pub(super) registry: Arc<Registry>,
    pub(super) plans: Vec<Arc<Plan>>,
    pub(super) control_swarm: mpsc::Sender<Command>,
    pub(super) containers: Arc<[Addr<ContainerActor>]>,
    pub(super) seeds: Vec<String>,
    /// Members that we want links to.
    pub(super) wanted: BTreeMap<NodeId, Member>,
    /// Peers that we have a control connection to.
    pub(super) connected: BTreeSet<PeerId>,
    /// When an address was dialled last.
    pub(super) dialled: BTreeMap<SocketAddr, Time>,
    /// Who answered at an address when it was dialled last.
    pub(super) at: BTreeMap<SocketAddr, PeerId>,
    pub(super) failed_handshakes: u64,
    /// When it may be said again that handshakes fail.
    pub(super) tell_handshakes: Time,
    /// How often a peer was there that is not allowed.
    pub(super) rejected: u64,
    /// From when on such are told again.
    pub(super) tell_rejected: Time,
    pub(super) next_seeds: Time,
    pub(super) seed_rounds: u32,
    /// Attempts to reach a seed that failed before there was a view.
    pub(super) failed_dials: u32,
    pub(super) is_stopping: bool,
    /// Where the record of the view log is kept.
    pub(super) record_file: PathBuf,
    pub(super) data_dir: PathBuf,
    /// Questions of people that not all containers have answered.
    pub(super) questions: BTreeMap<u64, Question>,
    pub(super) next_question: u64,
    /// Instances that people want to see.
    pub(super) looks: BTreeMap<u64, Look>,
    /// Where dead letters go.
    pub(super) letters: Arc<DeadLetters>,
    pub(super) watch: Watch,
    pub(super) outcome: Option<Result<Exit, RunError>>,
}

/// Where inputs come from.
pub(super) struct Inbox {
    pub(super) notices: mpsc::Receiver<Notice>,
    pub(super) net: mpsc::Receiver<(Side, NetEvent)>,
    pub(super) askers: mpsc::Receiver<StatusAsker>,
}

impl Driver {
    /// Runs the core until it is done, or cannot be.
    pub(super) async fn run(mut self, mut inbox: Inbox) -> Result<Exit, RunError> {
        self.step(Input::Started).await;
        loop {
            if let Some(outcome) = self.outcome.take() {
                self.shared.links.close().await;
                return outcome;
            }
            self.dial_seeds().await;
            self.watch.look(self.clock.now());
            let deadline = self.core.deadline().unwrap_or(self.next_seeds).min(self.next_seeds);
            let deadline = deadline.min(self.watch.deadline());
            let woke = tokio::time::sleep_until(self.clock.instant(deadline).into());
            tokio::select! {
                Some(notice) = inbox.notices.recv() => self.notice(notice).await,
                Some((side, event)) = inbox.net.recv() => self.net(side, event).await,
                Some(asker) = inbox.askers.recv() => {
                    let mut status = self.core.status();
                    let uptime = self.clock.now().0.as_millis();
                    status.uptime_ms = u64::try_from(uptime).unwrap_or(u64::MAX);
                    status.data_dir = self.data_dir.display().to_string();
                    status.stuck = self.stuck();
                    (status.replicas_kept, status.replica_bytes) = self.shared.replicas.figures();
                    // Whoever asked may have gone.
                    let _ = asker.send(status);
                }
                () = woke => self.step(Input::Woke).await,
            }
        }
    }

    async fn step(&mut self, input: Input) {
        let mut actions = Vec::new();
        self.core.step(self.clock.now(), input, &mut actions);
        *self.shared.hello.write().expect("nobody panics with it") = self.core.hello();
        for action in actions {
            self.act(action).await;
        }
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Send(to, message) => {
                if !self.shared.links.send(to.node, message) {
                    self.dial(&to).await;
                }
            }
            Action::Connect(member) => {
                if !self.shared.links.has_control(member.node) {
                    self.dial(&member).await;
                }
                let known = self.wanted.insert(member.node, member.clone());
                if known.as_ref() != Some(&member) {
                    self.shared.start_data_link(member);
                }
            }
            Action::Disconnect(node, _) => {
                self.wanted.remove(&node);
                self.shared.links.drop_links(node);
            }
            Action::Persist(stamp, record) => self.persist(stamp, record),
            Action::Give(container, input) => self.container(container, input),
            Action::Lay(layout) => {
                self.shared.replicas.order(pe::ReplicaInput::Laid(Arc::clone(&layout)));
                self.all(|| pe::Input::Laid(Arc::clone(&layout)));
            }
            Action::Replicas(input) => self.shared.replicas.order(input),
            Action::Degraded(is_degraded) => self.all(|| pe::Input::Degraded(is_degraded)),
            Action::Ask(round) => self.all(|| pe::Input::Asked(round)),
            Action::Stop => self.all(|| pe::Input::Stopped),
            Action::Flush => {
                let shared = self.shared.clone();
                tokio::spawn(async move {
                    shared.links.flush().await;
                    shared.notify(Notice::Core(Input::Flushed)).await;
                });
            }
            Action::List { topology, prototype } => self.list(topology, prototype),
            Action::Keep(offsets) => self.keep(offsets),
            Action::Open { container, topology, prototype, name, position, skip } => {
                let open = pe::Input::Open { topology, prototype, name, position, skip };
                self.container(container, open);
            }
            Action::Close { container, topology, prototype, name } => {
                self.container(container, pe::Input::Close { topology, prototype, name });
            }
            Action::Farewell(node) => {
                // It may be gone, and wait for nothing any more.
                let _ = self.shared.links.send_frame(
                    node,
                    FrameKind::Farewell,
                    vec![0; FrameHeader::LEN],
                );
            }
            Action::Tell(event) => tell(&event),
            Action::Exit(ending) => {
                self.outcome = Some(match ending {
                    Ending::Left => Ok(Exit::Left),
                    Ending::LeftAlone => Err(RunError::LeftAlone),
                    Ending::DrainLimit(events) => Err(RunError::DrainLimit(events)),
                    Ending::Superseded => Err(RunError::Superseded),
                    Ending::Unfit(why) => Err(RunError::Unfit(why)),
                });
            }
        }
    }

    fn all(&self, input: impl Fn() -> pe::Input) {
        for container in self.containers.iter() {
            give(container, input());
        }
    }

    pub(super) fn container(&self, number: u16, input: pe::Input) {
        if let Some(container) = self.containers.get(usize::from(number)) {
            give(container, input);
        }
    }

    /// What the view log has to have on disk.
    fn persist(&self, stamp: Stamp, record: Box<Record<Assignment>>) {
        self.write(self.record_file.clone(), Input::Persisted(stamp), move || record.to_bytes());
    }

    /// The same for where partitions have come to.
    fn keep(&self, offsets: Box<Offsets>) {
        let path = identity::offsets_file(&self.data_dir);
        self.write(path, Input::Kept, move || identity::offsets_bytes(&offsets));
    }

    /// A sync takes milliseconds, so it is done aside; nothing that depends on it goes out before.
    fn write(&self, path: PathBuf, done: Input, bytes: impl FnOnce() -> Vec<u8> + Send + 'static) {
        let notices = self.shared.notices.clone();
        tokio::task::spawn_blocking(move || {
            let bytes = bytes();
            let is_over = || notices.is_closed();
            let written = room::write(&path, is_over, || identity::replace(&path, &bytes));
            let Some(written) = written else { return };
            // An error says that the node ends.
            let _ = notices.blocking_send(match written {
                Ok(()) => Notice::Core(done),
                Err(error) => Notice::DiskFailed(error),
            });
        });
    }

    /// Writes a dead letter down; what was written is synced with the next that is, or by the system.
    fn bury(&self, letter: DeadLetter) {
        let (letters, notices) = (Arc::clone(&self.letters), self.shared.notices.clone());
        tokio::task::spawn_blocking(move || {
            if let Err(error) = letters.append(letter) {
                // An error says that the node ends.
                let _ = notices.blocking_send(Notice::DiskFailed(error));
            }
        });
    }

    /// A container has answered; with the last of them, the asker is told.
    fn explained(&mut self, question: u64, holders: Vec<Holder>) {
        let Some(known) = self.questions.get_mut(&question) else { return };
        known.holders.extend(holders);
        known.open -= 1;
        if known.open > 0 {
            return;
        }
        if let Some(known) = self.questions.remove(&question) {
            self.answer(known);
        }
    }

    /// The containers that do not come back from a call.
    fn stuck(&self) -> Vec<StuckStatus> {
        let stuck = self.watch.stuck(self.clock.now());
        let shown = stuck.filter_map(|(container, call, span)| {
            let plan = self.plans.get(usize::from(call.topology))?;
            let pe = plan.prototypes.get(usize::from(call.prototype))?.name.clone();
            let for_ms = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
            Some(StuckStatus { container, topology: plan.name.clone(), pe, for_ms })
        });
        shown.collect()
    }

    fn answer(&self, known: Question) {
        let in_calls = known.stuck.into_iter().map(|stuck| TreeHolder {
            how: format!("its code has not returned for {}, of whichever trees", stuck.span()),
            topology: stuck.topology,
            pe: stuck.pe,
            count: 1,
        });
        let shown = known.holders.into_iter().map(|holder| {
            let plan = &self.plans[usize::from(holder.topology)];
            TreeHolder {
                topology: plan.name.clone(),
                pe: plan.prototypes[usize::from(holder.prototype)].name.clone(),
                how: match holder.how {
                    Held::Queued => "queued",
                    Held::Kept => "kept for a handoff",
                    Held::Spilled => "on disk, since it is behind",
                    Held::Open => "emitted, and waits for company",
                    Held::Anchored => "anchors held, of whichever trees",
                }
                .to_owned(),
                count: holder.count,
            }
        });
        // Whoever asked may have gone.
        let _ = known.asker.send(shown.chain(in_calls).collect());
    }

    /// A container reads a dead letter again, as if it were the first time.
    fn resend(&self, letter: &DeadLetter) {
        let found = self.plans.iter().position(|plan| plan.name == letter.topology);
        let Some(topology) = found else { return };
        let prototypes = &self.plans[topology].prototypes;
        let is_meant = |known: &Prototype| known.is_spout && known.name == letter.spout;
        let Some(prototype) = prototypes.iter().position(is_meant) else { return };
        let id = |at: usize| u16::try_from(at).expect("bounded by the planner");
        let name = PartitionName::new(letter.partition.clone());
        let (topology, prototype) = (id(topology), id(prototype));
        let (position, skip) = (letter.position, letter.skip);
        self.container(0, pe::Input::Resend { topology, prototype, name, position, skip });
    }

    /// Finding partitions looks at the disk, so it is done aside.
    fn list(&self, topology: u16, prototype: u16) {
        let (registry, notices) = (Arc::clone(&self.registry), self.shared.notices.clone());
        let plan = Arc::clone(&self.plans[usize::from(topology)]);
        tokio::task::spawn_blocking(move || {
            let spout = &plan.prototypes[usize::from(prototype)];
            let partitions = registry.partitions(spout).map_err(|error| error.to_string());
            let listed = Input::Listed { topology, prototype, partitions };
            // An error says that the node ends.
            let _ = notices.blocking_send(Notice::Core(listed));
        });
    }

    async fn notice(&mut self, notice: Notice) {
        match notice {
            Notice::Core(input) => self.step(input).await,
            Notice::Greeted(member) => self.step(Input::Met(member)).await,
            Notice::NotGreeted(node, error) => {
                let is_final = match &error {
                    GreetingError::Refused(_) => true,
                    GreetingError::Wire(error) => {
                        matches!(error, super::wire::WireError::Version(_))
                    }
                };
                if is_final {
                    tracing::warn!(%node, "no greeting: {error}");
                } else {
                    tracing::debug!(%node, "no greeting: {error}");
                }
                if is_final && self.core.view().is_none() {
                    self.outcome = Some(Err(RunError::Refused(node, error.to_string())));
                }
            }
            Notice::ControlEnded(node) => {
                if let Some(member) = self.wanted.get(&node).cloned() {
                    self.dialled.remove(&member.control);
                    self.dial(&member).await;
                }
            }
            Notice::Bury(letter) => self.bury(letter),
            Notice::Explain(root, asker) => {
                // Whoever asked long ago has gone.
                while self.questions.len() >= QUESTIONS_MAX {
                    self.questions.pop_first();
                }
                self.next_question += 1;
                let (question, stuck) = (self.next_question, self.stuck());
                let open = self.containers.len() - stuck.len();
                let is_stuck = |container| stuck.iter().any(|known| known.container == container);
                let free =
                    (0..).take(self.containers.len()).filter(|&container| !is_stuck(container));
                free.for_each(|container| {
                    self.container(container, pe::Input::Explain { question, root });
                });
                let asked = Question { open, stuck, holders: Vec::new(), asker };
                if open == 0 {
                    return self.answer(asked);
                }
                self.questions.insert(question, asked);
            }
            Notice::Explained(question, holders) => self.explained(question, holders),
            Notice::Look(request, asker) => self.look(request, asker),
            Notice::Looked(question, seen) => self.looked(question, seen),
            Notice::FoundCopy(question, found) => self.found_copy(question, found),
            Notice::Resend(letter) => self.resend(&letter),
            Notice::DiskFailed(error) => self.outcome = Some(Err(error)),
            Notice::Stop if self.is_stopping => {
                self.outcome = Some(Err(RunError::Forced));
            }
            Notice::Stop => {
                self.is_stopping = true;
                self.step(Input::Leave).await;
            }
        }
    }

    async fn net(&mut self, side: Side, event: NetEvent) {
        match (side, event) {
            (Side::Control, NetEvent::Connected(peer, dialled)) => {
                self.connected.insert(peer);
                self.at.extend(dialled.map(|address| (address, peer)));
                self.greet(peer);
            }
            (Side::Control, NetEvent::Disconnected(peer)) => {
                self.connected.remove(&peer);
            }
            (Side::Control, NetEvent::Itself(address)) if self.core.view().is_none() => {
                let me = self.core.hello().member;
                // A list of seeds may well have all nodes in it.
                if address != me.control && !is_own(address, self.listens) {
                    let why = format!(
                        "the node at {address} has the identity of this node, at {} (a copied data \
                         directory?)",
                        me.control
                    );
                    self.outcome = Some(Err(RunError::Refused(me.node, why)));
                }
            }
            (Side::Control, NetEvent::DialFailed { peer: Some(peer), is_refused: true, .. }) => {
                // It was there, and its port is closed now.
                let node = node_of(&peer);
                if self.wanted.contains_key(&node) {
                    self.step(Input::Lost(node)).await;
                }
            }
            (Side::Control, NetEvent::DialFailed { text, .. }) if self.core.view().is_none() => {
                // By their own number: an attempt may take longer than a round of them.
                self.failed_dials += 1;
                if self.failed_dials.is_power_of_two() {
                    tracing::warn!("a seed cannot be reached: {text}");
                }
            }
            (_, NetEvent::HandshakeFailed { from, text }) => {
                self.failed_handshakes += 1;
                let now = self.clock.now();
                // Anybody can make any number of them.
                if now >= self.tell_handshakes {
                    self.tell_handshakes = now + 2 * DIAL_AGAIN;
                    let so_far = self.failed_handshakes;
                    tracing::warn!(
                        %from, so_far,
                        "a handshake failed (wrong cluster key, or no node?): {text}"
                    );
                }
            }
            (_, NetEvent::NotAllowed(peer)) => {
                self.rejected += 1;
                let now = self.clock.now();
                if now >= self.tell_rejected {
                    self.tell_rejected = now + 2 * DIAL_AGAIN;
                    tracing::warn!(so_far = self.rejected, "rejected: {peer} not allowed");
                }
            }
            (side, event) => tracing::debug!(?side, ?event, "network"),
        }
    }

    /// Makes a control link of a connection.
    fn greet(&self, peer: PeerId) {
        if !self.shared.links.has_control(node_of(&peer)) {
            let shared = self.shared.clone();
            tokio::spawn(async move { shared.control_link(peer).await });
        }
    }

    async fn dial(&mut self, member: &Member) {
        let now = self.clock.now();
        let last = self.dialled.get(&member.control);
        if last.is_some_and(|last| now - *last < DIAL_AGAIN) {
            return;
        }
        if let Ok(peer) = PeerId::from_bytes(&member.peer) {
            self.dialled.retain(|_, last| now - *last < DIAL_AGAIN);
            self.dialled.insert(member.control, now);
            if self.connected.contains(&peer) {
                return self.greet(peer);
            }
            // An error says that the node ends.
            let _ = self.control_swarm.send(Command::Dial(member.control, Some(peer))).await;
        }
    }

    /// While we know of nobody, knock at the members of our view and at all seeds, again and again.
    async fn dial_seeds(&mut self) {
        let now = self.clock.now();
        if self.next_seeds > now {
            return;
        }
        self.next_seeds = now + 2 * DIAL_AGAIN;
        if !self.core.is_lonely() {
            return;
        }
        // The members of the last view are where they were, as a rule.
        let seats = self.core.view().map(|view| view.head.seats.clone()).unwrap_or_default();
        let me = self.core.hello().member.node;
        for seat in seats.iter().filter(|seat| seat.node() != me) {
            self.dial(&seat.member).await;
        }
        if self.seeds.is_empty() {
            return;
        }
        self.seed_rounds += 1;
        if self.seed_rounds > 1 && self.seed_rounds.is_power_of_two() {
            tracing::warn!("waiting for a member at {}", self.seeds.join(", "));
        }
        let (seeds, swarm) = (self.seeds.clone(), self.control_swarm.clone());
        // Who is connected is greeted again and not dialled again, which takes that it is known who it is.
        self.at.retain(|_, peer| self.connected.contains(peer));
        let known = self.at.clone();
        known.values().for_each(|peer| self.greet(*peer));
        tokio::spawn(async move {
            for seed in seeds {
                match tokio::net::lookup_host(&seed).await {
                    Ok(addresses) => {
                        for address in addresses {
                            // An error says that the node ends.
                            let peer = known.get(&address).copied();
                            let _ = swarm.send(Command::Dial(address, peer)).await;
                        }
                    }
                    Err(error) => tracing::warn!(seed, "no address for a seed: {error}"),
                }
            }
        });
    }
}

/// Whether an address is the one where this node listens.
fn is_own(address: SocketAddr, own: SocketAddr) -> bool {
    // Only what is an address of this machine can be bound.
    let is_here = || std::net::UdpSocket::bind((address.ip(), 0)).is_ok();
    address.port() == own.port()
        && (address.ip() == own.ip() || (own.ip().is_unspecified() && is_here()))
}

/// Gives an input to a container without waiting for it: a container may be busy for seconds, and this
/// node has to answer the others meanwhile.
fn give(container: &Addr<ContainerActor>, input: pe::Input) {
    if let Err(SendError::Full(_)) = container.try_send(Deliver(input)) {
        tracing::error!("a mailbox is full in spite of credits; an instruction is lost");
    }
}

/// One line for each thing that people want to know.
fn tell(event: &Event) {
    match event {
        Event::Up(member) => {
            tracing::info!(node = %member.node, run = member.run.0, at = %member.control, "member up");
        }
        Event::Down(member, reason) => {
            let why = match reason {
                Reason::Left => "left",
                Reason::Failed => "does not answer",
                Reason::Restarted => "started again",
            };
            tracing::info!(node = %member.node, run = member.run.0, why, "member down");
        }
        Event::View { epoch, members, moved, moving, took } => {
            let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(epoch = epoch.0, members, slots_moved = moved, moving, ms, "new view");
        }
        Event::Phase(topology, phase) => tracing::info!(topology, ?phase, "topology"),
        Event::Log(event) => tell_of_log(event),
        Event::TookOver(node, units, pause) => {
            let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX);
            tracing::info!(from = %node, units, pause_ms, "took over");
        }
        Event::StateLost(units) => {
            tracing::error!(
                units,
                "nobody is left who had the state of some units: they begin empty"
            );
        }
        Event::Unavailable(0) => tracing::info!("all units are served again, or will be soon"),
        Event::Unavailable(units) => tracing::error!(
            units,
            "UNAVAILABLE: all who have the state of some units are gone; their events wait until one is back"
        ),
        Event::HandoffFailed(node, why) => {
            tracing::error!(%node, "units cannot be taken over, it is tried again: {why}");
        }
        Event::RefusedGossip(why) => tracing::warn!("gossip refused: {why}"),
        Event::NothingToRead(spout, why) => tracing::error!(spout, "nothing to read: {why}"),
        Event::PartitionLost(name) => {
            tracing::warn!(
                partition = name.as_str(),
                "a partition is lost with the node it went to"
            );
        }
        Event::Leaving => tracing::info!("leaving"),
    }
}

fn tell_of_log(event: &view_log::Event) {
    use view_log::Event;
    match event {
        Event::Founded(cluster) => tracing::info!(%cluster, "founded a cluster"),
        Event::AlreadyFounded(cluster) => {
            tracing::info!(%cluster, "the data directory belongs to a cluster; this node goes on in it");
        }
        Event::Fenced => tracing::warn!(
            "fenced: the others went on without this node, and what it held is lost; it joins again"
        ),
        Event::Superseded => tracing::error!("a later start of this node is in the cluster"),
        Event::QuorumLost { live, needed } => tracing::warn!(
            live,
            needed,
            "degraded: too few voters are there; nothing moves and nobody joins until they are back"
        ),
        Event::QuorumBack => tracing::info!("enough voters are there again"),
        Event::Damped(node, ms) => {
            tracing::warn!(%node, ms, "a node that comes and goes has to wait before it is let in");
        }
        Event::Recovered { number, lost } => {
            let lost: Vec<_> = lost.iter().map(ToString::to_string).collect();
            tracing::error!(
                epoch = number.0,
                lost = lost.join(" "),
                "UNSAFE RECOVERY: the cluster goes on without a majority; what only these knew is lost"
            );
        }
        Event::NotRecovered(why) => tracing::error!("nothing was recovered: {why}"),
        Event::Unfit(why) => tracing::error!("a view that cannot be was not proposed: {why}"),
        Event::Refused(node, why) => tracing::warn!(%node, "refused: {why}"),
        event => tracing::info!(?event, "view log"),
    }
}
