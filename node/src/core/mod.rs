//! The composed core of a node.
//!
//! One file a concern: [`record`] is the view and its rules, [`tokens`] the partitions of spouts that
//! move with it, [`rounds`] the counts by which the end of a topology is known, [`status`] what people
//! see of all that, [`leave`] the way out. This file passes inputs to them and is the only one that
//! knows them all.

mod hello;
mod leave;
pub mod link;
mod message;
mod record;
mod rounds;
mod status;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use membership::{Epoch, Member, Membership, NodeId, Reason, Run, Time};
use pe::topology::Plan;
use pe::{Layout, PartitionName, Phase, Report, RunReport};

pub use hello::{Hello, Refused};
use leave::{Leave, LeaveStage};
pub use message::{Action, Event, Input, Message, Setup};
use record::Wanted;
pub use record::{Record, Seat};

use rounds::Rounds;
pub use rounds::Totals;
pub use status::{MemberStatus, PartitionStatus, PeStatus, SpoutStatus, Status, TopologyStatus};
use tokens::{PARTITIONS_MAX, Tokens};
pub use tokens::{Token, TokenId};

/// How long causes for a new view are gathered: what happens together makes one view.
const GATHER: Duration = Duration::from_millis(20);

/// How often a node looks at its own containers, and how often what may have been lost is said again.
const TICK: Duration = Duration::from_millis(250);

/// How long a member of a view may stay unheard of: gossip about it is usually a moment behind the view.
const UNHEARD: Duration = Duration::from_secs(5);

/// How long after a link broke the node behind it may still turn out to be gone, which explains it.
const BROKEN: Duration = Duration::from_secs(1);

/// A node without sockets, threads, disk or clock.
#[derive(Debug)]
pub struct NodeCore {
    setup: Setup,
    membership: Membership,
    /// Who gossip says is there, by node; ourselves included.
    live: BTreeMap<NodeId, Member>,
    record: Option<Record>,
    layout: Option<Arc<Layout>>,
    tokens: Tokens,
    rounds: Rounds,
    /// What the containers said last, by container.
    reports: BTreeMap<u16, Report>,
    /// Nodes that said that they leave, in this life.
    leaving: BTreeSet<(NodeId, Run)>,
    /// Members of the view that gossip has taken off, or has not heard of until this time.
    doubted: BTreeMap<(NodeId, Run), Time>,
    leave: Option<Leave>,
    /// Links that broke, by the node behind them: when, and since when that node was a member.
    broken: BTreeMap<NodeId, (Time, Epoch)>,
    /// Since when there are causes for a new view.
    cause: Option<Time>,
    /// Whether it was on us to make views when we last looked.
    is_coordinator: bool,
    next_tick: Time,
    next_ask: u64,
    /// Nodes to be told that nothing more comes, once the containers have a layout without them.
    farewells: BTreeMap<NodeId, u64>,
}

impl NodeCore {
    /// A node that has just started. A node that founds a cluster has a view at its first step.
    pub fn new(setup: Setup, membership: Membership) -> Self {
        let me = membership.me().clone();
        Self {
            tokens: Tokens::new(me.node),
            rounds: Rounds::default(),
            live: BTreeMap::from([(me.node, me)]),
            setup,
            membership,
            record: None,
            layout: None,
            reports: BTreeMap::new(),
            leaving: BTreeSet::new(),
            doubted: BTreeMap::new(),
            leave: None,
            broken: BTreeMap::new(),
            cause: None,
            is_coordinator: false,
            next_tick: Time::default(),
            next_ask: 0,
            farewells: BTreeMap::new(),
        }
    }

    /// Takes an input and says what is to be done about it.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Vec<Action>) {
        match input {
            Input::Started => self.start(now, out),
            Input::Met(member) => self.gossip(now, membership::Input::Met(member), out),
            Input::Lost(node) => self.gossip(now, membership::Input::Lost(node), out),
            Input::Broken(node) => self.link_broke(now, node),
            Input::Received(from, message) => self.receive(now, from, message, out),
            Input::Reported(report) => self.reported(now, report, out),
            Input::Listed { topology, prototype, partitions } => {
                self.listed(topology, prototype, partitions, out);
            }
            Input::Closed { topology, prototype, name, state } => {
                self.tokens.closed((topology, prototype), &name, state, out);
                self.tokens.say(&self.live, out);
            }
            Input::Finished(node) => self.finished(node),
            Input::Stopped(container) => {
                if let Some(leave) = &mut self.leave {
                    leave.has_stopped.insert(container);
                }
            }
            Input::Flushed => self.flushed(),
            Input::Leave => self.begin_leave(now, out),
            Input::Woke => {}
        }
        self.wake(now, out);
    }

    /// When [`Input::Woke`] is due.
    pub fn deadline(&self) -> Option<Time> {
        // Due or not, both are looked at by the coordinator only; the others wake in vain, rarely.
        let is_first = self.is_coordinator;
        let gather = self.cause.map(|since| since + GATHER).filter(|_| is_first);
        let round = self.rounds.deadline().filter(|_| is_first);
        let all = [self.membership.deadline(), gather, round, Some(self.next_tick)];
        all.into_iter().flatten().min()
    }

    /// What this node says of itself when it meets another.
    pub fn hello(&self) -> Hello {
        Hello::new(&self.setup, self.membership.me(), self.record.as_ref())
    }

    /// The view, if there is one.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// What this node shows of itself.
    pub fn status(&self, now: Time) -> Status {
        status::of(self, now)
    }

    fn me(&self) -> NodeId {
        self.membership.me().node
    }

    fn start(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.setup.is_founder {
            let me = self.membership.me().clone();
            let record = Record::first(&self.setup, me);
            self.cause = Some(now);
            self.install(now, record, out);
        }
    }

    fn gossip(&mut self, now: Time, input: membership::Input, out: &mut Vec<Action>) {
        let mut actions = Vec::new();
        self.membership.step(now, input, &mut actions);
        for action in actions {
            match action {
                membership::Action::Send(to, bytes) => {
                    out.push(Action::Send(to, Message::Gossip(bytes)));
                }
                membership::Action::Up(member) => {
                    out.push(Action::Connect(member.clone()));
                    out.push(Action::Tell(Event::Up(member.clone())));
                    self.doubted.remove(&(member.node, member.run));
                    self.live.insert(member.node, member);
                }
                membership::Action::Down(member, reason) => self.down(now, &member, reason, out),
                membership::Action::Fenced => out.push(Action::Tell(Event::Fenced)),
                membership::Action::Refused(refusal) => {
                    out.push(Action::Tell(Event::RefusedGossip(refusal.to_string())));
                }
            }
            self.look_for_causes(now);
        }
    }

    /// What was lost with a link can not be found out: neither side knows how far the other had read.
    /// So the node behind it becomes a member anew, and all that was on its way to or from it counts as
    /// in doubt, on both sides.
    fn link_broke(&mut self, now: Time, node: NodeId) {
        let since = self.record.as_ref().and_then(|record| record.since(node));
        if let Some(since) = since {
            self.broken.entry(node).or_insert((now, since));
        }
    }

    /// Says of broken links to who makes the views, until a view heeds it.
    fn mend(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(record) = &self.record else { return };
        self.broken.retain(|node, (_, since)| record.since(*node) == Some(*since));
        let Some(coordinator) = self.coordinator(now) else { return };
        let ripe = self.broken.iter().filter(|(_, (at, _))| *at + BROKEN <= now);
        let ripe: Vec<_> = ripe.map(|(&node, &(_, since))| (node, since)).collect();
        if coordinator != self.me() {
            for (node, since) in ripe {
                self.send(coordinator, Message::Broken(node, since), out);
            }
        } else if !ripe.is_empty() {
            let nodes: Vec<_> = ripe.into_iter().map(|(node, _)| node).collect();
            let next = record.with_anew(&nodes, self.me());
            self.publish(now, next, out);
        }
    }

    fn down(&mut self, now: Time, member: &Member, reason: Reason, out: &mut Vec<Action>) {
        self.live.remove(&member.node);
        self.broken.remove(&member.node);
        self.doubted.insert((member.node, member.run), now);
        self.leaving.remove(&(member.node, member.run));
        self.farewells.remove(&member.node);
        if let Some(leave) = &mut self.leave {
            leave.waits_for.remove(&member.node);
        }
        out.push(Action::Disconnect(member.node, reason));
        out.push(Action::Tell(Event::Down(member.clone(), reason)));
        for lost in self.tokens.taker_is_gone(member.node) {
            out.push(Action::Tell(Event::PartitionLost(lost)));
        }
    }

    /// Notes since when the view differs from what gossip says.
    fn look_for_causes(&mut self, now: Time) {
        let Some(record) = &self.record else { return };
        match (self.wanted_members(now) == record.members(), self.cause) {
            (true, _) => self.cause = None,
            (false, None) => self.cause = Some(now),
            (false, Some(_)) => {}
        }
    }

    /// Those who should be members: who is alive. A member of the view counts as alive until gossip says
    /// otherwise: whoever made the view has heard of it.
    fn wanted_members(&self, now: Time) -> Vec<Wanted> {
        let seats = self.record.iter().flat_map(|record| &record.seats).map(|seat| &seat.member);
        let trusted = seats.filter(|member| self.is_trusted(now, member));
        let mut wanted: BTreeMap<_, _> = trusted.map(|member| (member.node, member)).collect();
        wanted.extend(self.live.iter().map(|(&node, member)| (node, member)));
        let wanted = wanted.into_values();
        let is_draining = |member: &Member| self.is_leaving(member);
        let wanted = wanted
            .map(|member| Wanted { member: member.clone(), is_draining: is_draining(member) });
        wanted.collect()
    }

    /// Whether a node said that it leaves, to us or to who made the view.
    fn is_leaving(&self, member: &Member) -> bool {
        self.leaving.contains(&(member.node, member.run))
            || self.record.as_ref().is_some_and(|record| {
                let mut seats = record.seats.iter();
                seats.any(|seat| seat.member == *member && seat.is_draining)
            })
    }

    /// Whether gossip has nothing against a member of the view.
    fn is_trusted(&self, now: Time, member: &Member) -> bool {
        self.doubted.get(&(member.node, member.run)).is_none_or(|since| *since > now)
    }

    /// Whether it is on us to make the next view: on the founder of the cluster while it is alive, else
    /// on the first member that is.
    fn am_coordinator(&self, now: Time) -> bool {
        self.coordinator(now) == Some(self.me())
    }

    fn coordinator(&self, now: Time) -> Option<NodeId> {
        let record = self.record.as_ref()?;
        let may = |member: &&Member| self.is_trusted(now, member) && !self.is_leaving(member);
        let members = || record.seats.iter().map(|seat| &seat.member).filter(may);
        let founder = members().find(|member| member.node == record.founder);
        founder.or_else(|| members().next()).map(|member| member.node)
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Vec<Action>) {
        match message {
            Message::Gossip(bytes) => self.gossip(now, membership::Input::Received(bytes), out),
            Message::View(record) => self.learn(now, from, record, out),
            Message::Ask { epoch, round } => self.asked(from, epoch, round, out),
            Message::Answer { epoch, round, totals } => {
                let Some(record) = &self.record else { return };
                // Not by a view that another life of it is in, or none: it would take its own away.
                let is_seated = record.seats.iter().any(|seat| {
                    let live = self.live.get(&from);
                    seat.member.node == from && live.is_none_or(|live| *live == seat.member)
                });
                if epoch < record.epoch && is_seated {
                    // Whoever is behind is sent the record: views are told once and may be lost.
                    self.send(from, Message::View(record.clone()), out);
                } else if self.is_coordinator {
                    self.rounds.answered(from, epoch, round, totals);
                }
            }
            Message::Token(token) => {
                let Some(layout) = self.layout.clone() else { return };
                if self.is_known_spout(token.id) {
                    self.send(from, Message::Taken(token.id), out);
                    self.tokens.take(token, &layout, &self.setup.plans, out);
                }
            }
            Message::Taken(id) => self.tokens.taken(from, id),
            Message::Broken(node, since) => {
                if self.record.as_ref().is_some_and(|record| record.since(node) == Some(since)) {
                    self.broken.entry(node).or_insert((now, since));
                }
            }
            Message::Leaving(run) => {
                self.leaving.insert((from, run));
                self.look_for_causes(now);
            }
        }
    }

    /// A peer can name any spout; only those of our plans are believed.
    fn is_known_spout(&self, id: TokenId) -> bool {
        let plan = self.setup.plans.get(usize::from(id.topology));
        let spout = plan.and_then(|plan| plan.prototypes.get(usize::from(id.prototype)));
        let is_possible = id.index < id.count && id.count <= PARTITIONS_MAX;
        spout.is_some_and(|spout| spout.is_spout) && is_possible
    }

    fn learn(&mut self, now: Time, from: NodeId, record: Record, out: &mut Vec<Action>) {
        if let Err(why) = record.check(&self.setup) {
            out.push(Action::Tell(Event::RefusedView(from, why)));
            return;
        }
        let mine = self.record.as_ref();
        if mine.is_some_and(|mine| mine.cluster_id != record.cluster_id) {
            out.push(Action::Tell(Event::RefusedView(from, "it is another cluster's")));
            return;
        }
        let is_newer = mine.is_none_or(|mine| record.supersedes(mine));
        if is_newer {
            self.install(now, record, out);
        }
    }

    /// Takes a view: works it out, tells the containers, and moves the tokens.
    fn install(&mut self, now: Time, record: Record, out: &mut Vec<Action>) {
        let me = self.me();
        let layout = Arc::new(record.layout(me, &self.setup.plans));
        let moved =
            self.record.as_ref().map_or(0, |old| record.table.moves_since(&old.table).moved);
        out.push(Action::Tell(Event::View {
            epoch: record.epoch,
            members: record.seats.len(),
            moved,
            took: self.cause.map_or(Duration::ZERO, |since| now - since),
        }));
        for (topology, plan) in self.setup.plans.clone().iter().enumerate() {
            let phase = &record.phases[topology];
            let before = self.record.as_ref().map_or(Phase::Waiting, |old| old.phases[topology]);
            if before != *phase {
                out.push(Action::Tell(Event::Phase(plan.name.clone(), *phase)));
            }
            if before == Phase::Waiting && *phase == Phase::Running && record.author == me {
                self.list(topology, plan, out);
            }
        }
        for node in record.seats.iter().filter(|seat| seat.is_draining).map(|seat| seat.member.node)
        {
            let was_draining = self.record.as_ref().is_some_and(|old| old.is_draining(node));
            if node != me && !was_draining {
                self.farewells.insert(node, layout.digest);
            }
        }
        if let Some(leave) = self.leave.as_mut().filter(|leave| leave.stage == LeaveStage::Asking)
            && record.is_draining(me)
        {
            leave.stage = LeaveStage::Draining;
        }
        let is_unheard = |member: &Member| self.live.get(&member.node) != Some(member);
        let seats = || record.seats.iter().map(|seat| &seat.member);
        self.doubted.retain(|key, _| seats().any(|member| (member.node, member.run) == *key));
        for member in seats().filter(|member| is_unheard(member)) {
            self.doubted.entry((member.node, member.run)).or_insert(now + UNHEARD);
            // Events may go to it from now on.
            out.push(Action::Connect(member.clone()));
        }
        out.push(Action::Lay(Arc::clone(&layout)));
        self.tokens.lay(&layout, &self.setup.plans, out);
        self.layout = Some(layout);
        self.record = Some(record);
        self.rounds.forget();
        self.cause = None;
        self.look_for_causes(now);
    }

    fn list(&mut self, topology: usize, plan: &Plan, out: &mut Vec<Action>) {
        for (prototype, _) in plan.prototypes.iter().enumerate().filter(|(_, p)| p.is_spout) {
            let (topology, prototype) = (id16(topology), id16(prototype));
            self.tokens.list((topology, prototype));
            out.push(Action::List { topology, prototype });
        }
    }

    fn listed(
        &mut self,
        topology: u16,
        prototype: u16,
        partitions: Result<Vec<PartitionName>, String>,
        out: &mut Vec<Action>,
    ) {
        self.tokens.listed((topology, prototype));
        let plan = &self.setup.plans[usize::from(topology)];
        let partitions = partitions.and_then(|names| match names.len() {
            len if len > PARTITIONS_MAX as usize => Err(format!("{len} partitions are too many")),
            _ => Ok(names),
        });
        match (partitions, self.layout.clone()) {
            (Ok(names), Some(layout)) => {
                let spout = (topology, prototype);
                self.tokens.create(spout, names, &layout, &self.setup.plans, out);
                self.tokens.say(&self.live, out);
            }
            (Err(why), _) => {
                let name = plan.prototypes[usize::from(prototype)].name.clone();
                out.push(Action::Tell(Event::NothingToRead(name, why)));
            }
            (Ok(_), None) => unreachable!("partitions are listed for a view"),
        }
    }

    /// What is due by time or by what has just happened.
    fn wake(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.membership.deadline().is_some_and(|due| due <= now) {
            self.gossip(now, membership::Input::Woke, out);
        }
        if self.next_tick <= now {
            self.next_tick = now + TICK;
            self.ask_containers(None, out);
            self.tokens.say(&self.live, out);
            self.press_leave(out);
            self.look_for_causes(now);
            self.mend(now, out);
            self.ask_for_a_view(out);
        }
        self.is_coordinator = self.am_coordinator(now);
        if self.is_coordinator {
            if self.cause.is_some_and(|since| since + GATHER <= now) {
                self.publish_members(now, out);
            }
            self.run_rounds(now, out);
        }
        self.go_on_leaving(now, out);
    }

    /// A view is told once, and may be lost on the way to a node that has none yet. That node may be the very
    /// one that asks around: a founder that starts again is the coordinator once it is a member.
    fn ask_for_a_view(&self, out: &mut Vec<Action>) {
        if self.record.is_some() {
            return;
        }
        let others = self.live.values().filter(|member| member.node != self.me());
        // An answer of an old epoch brings the record.
        let none = || Message::Answer { epoch: Epoch(0), round: 0, totals: Vec::new() };
        out.extend(others.map(|member| Action::Send(member.clone(), none())));
    }

    fn publish_members(&mut self, now: Time, out: &mut Vec<Action>) {
        let members = self.wanted_members(now);
        let Some(record) = &self.record else { return };
        if members.iter().all(|wanted| wanted.is_draining) {
            return;
        }
        if record.members() != members {
            let next = record.with_members(members, self.me(), &self.setup);
            self.publish(now, next, out);
        }
    }

    fn publish(&mut self, now: Time, record: Record, out: &mut Vec<Action>) {
        for node in self.live.keys().copied().filter(|node| *node != self.me()) {
            self.send(node, Message::View(record.clone()), out);
        }
        self.install(now, record, out);
    }

    fn send(&self, to: NodeId, message: Message, out: &mut Vec<Action>) {
        let seats = self.record.iter().flat_map(|record| &record.seats).map(|seat| &seat.member);
        let member = self.live.get(&to).or_else(|| seats.into_iter().find(|m| m.node == to));
        if let Some(member) = member {
            out.push(Action::Send(member.clone(), message));
        }
    }

    /// Asks all containers how things are, for somebody or for ourselves.
    fn ask_containers(&mut self, asker: Option<(NodeId, u64)>, out: &mut Vec<Action>) {
        if self.layout.is_none() {
            return;
        }
        self.next_ask += 1;
        if let Some(asker) = asker {
            self.rounds.owe(self.next_ask, asker);
        }
        out.push(Action::Ask(self.next_ask));
    }

    fn asked(&mut self, from: NodeId, epoch: Epoch, round: u64, out: &mut Vec<Action>) {
        let mine = self.record.as_ref().map_or(Epoch(0), |record| record.epoch);
        if epoch < mine {
            let record = self.record.clone().expect("it has an epoch");
            self.send(from, Message::View(record), out);
        } else if epoch > mine {
            // An answer of an old epoch brings the record.
            let totals = Vec::new();
            self.send(from, Message::Answer { epoch: mine, round, totals }, out);
        } else {
            self.ask_containers(Some((from, round)), out);
        }
    }

    fn reported(&mut self, now: Time, report: Report, out: &mut Vec<Action>) {
        let Some(record) = &self.record else { return };
        let epoch = record.epoch;
        let (ask, digest) = (report.round, report.layout);
        self.tokens.reported(&report);
        self.reports.insert(report.container, report);
        let containers = usize::from(self.membership.me().containers);
        let current = self.reports.values().filter(|r| r.round >= ask && r.layout == digest);
        if current.count() < containers {
            return;
        }
        let said: Vec<_> = self.farewells.extract_if(.., |_, wanted| *wanted == digest).collect();
        for (node, _) in said {
            out.push(Action::Farewell(node));
        }
        if self.layout.as_ref().is_none_or(|layout| layout.digest != digest) {
            return;
        }
        let totals = self.totals();
        for (asker, round) in self.rounds.owed(ask) {
            if asker == self.me() {
                self.rounds.answered(asker, epoch, round, totals.clone());
            } else {
                let totals = totals.clone();
                self.send(asker, Message::Answer { epoch, round, totals }, out);
            }
        }
        if self.is_coordinator {
            self.run_rounds(now, out);
        }
    }

    /// The figures of this node, by topology.
    fn run_reports(&self) -> Vec<RunReport> {
        let mut runs: Vec<RunReport> = Vec::new();
        for report in self.reports.values() {
            runs.resize_with(runs.len().max(report.runs.len()), RunReport::default);
            runs.iter_mut().zip(&report.runs).for_each(|(sum, run)| sum.add(run));
        }
        runs
    }

    fn totals(&self) -> Vec<Totals> {
        let removed = |topology: usize| {
            let stages = self.reports.values().filter_map(|report| report.runs.get(topology));
            stages.map(|run| run.stages_removed).min().unwrap_or(0)
        };
        let runs = self.run_reports().into_iter().enumerate();
        runs.map(|(topology, run)| Totals {
            sent: run.sent,
            received: run.received,
            open_partitions: self.tokens.open(id16(topology)),
            stages_removed: removed(topology),
        })
        .collect()
    }

    fn run_rounds(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(record) = &self.record else { return };
        if let Some(phases) = self.rounds.verdict(record, &self.setup) {
            let next = record.with_phases(phases, self.me());
            self.publish(now, next, out);
            return;
        }
        let Some(record) = &self.record else { return };
        if let Some(round) = self.rounds.next(now, record) {
            let epoch = record.epoch;
            let others: Vec<_> = record.seats.iter().map(|seat| seat.member.node).collect();
            for node in others.into_iter().filter(|node| *node != self.me()) {
                self.send(node, Message::Ask { epoch, round }, out);
            }
            self.ask_containers(Some((self.me(), round)), out);
        }
    }
}

/// Topologies and prototypes are counted in 16 bits; the planner bounds them far below.
fn id16(at: usize) -> u16 {
    u16::try_from(at).expect("bounded by the planner")
}
