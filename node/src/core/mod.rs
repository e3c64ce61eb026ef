//! The composed core of a node.
//!
//! One file a concern: [`assignment`] is what the members agree on and its rules, [`handoff`] how units
//! move between nodes, [`tokens`] the partitions of spouts that move with a view, [`rounds`] the counts by
//! which the end of a topology is known, [`status`] and [`place`] what people see of all that, [`leave`] the way out,
//! [`recover`] what an operator gives up.
//! This file passes inputs to them, to gossip and to the view log, and is the only one that knows them
//! all.

mod assignment;
mod books;
mod handoff;
mod hello;
mod leave;
pub mod link;
mod message;
#[cfg(test)]
mod model;
mod place;
mod recover;
mod rounds;
mod status;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use membership::view_log::{self, LogId, Seat, State, ViewLog};
use membership::{Epoch, Member, Membership, NodeId, Reason, Run, Time};
use pe::{Layout, PartitionName, Phase, Report, RunReport, Unit};

use assignment::is_active;
pub use assignment::{Assignment, Came, Cause, Heir, Set, Share, TopologyState, View};
pub use books::BookMessage;
use books::Books;
use handoff::{Handoff, Outcome};
pub use handoff::{HandoffMessage, Pull, StreamId};
pub use hello::{Hello, Refused};
use leave::Leave;
pub use message::{Action, Ending, Event, Input, Message, Setup};
pub use place::UnitPlace;
use rounds::Rounds;
pub use rounds::Totals;
pub use status::{
    MemberStatus, PartitionStatus, PeStatus, SpoutStatus, Status, StuckStatus, TopologyStatus,
    TreeStatus,
};
pub use tokens::{Offsets, Token, TokenId};
use tokens::{PARTITIONS_MAX, Tokens};

/// How often a node looks at its own containers, and how often what may have been lost is said again.
const TICK: Duration = Duration::from_millis(250);

/// How long after a link broke the node behind it may still turn out to be gone, which explains it.
const BROKEN: Duration = Duration::from_secs(1);

/// How long nobody may be heard before a node knocks at others: gossip alone says something each second.
const SILENCE: Duration = Duration::from_secs(5);

/// A spout, by topology and prototype.
type Spout = (u16, u16);

/// A node without sockets, threads, disk or clock.
pub struct NodeCore {
    setup: Setup,
    membership: Membership,
    log: ViewLog<Assignment>,
    log_id: LogId,
    /// Who gossip says is there, by node; ourselves included.
    live: BTreeMap<NodeId, Member>,
    view: Option<Arc<View>>,
    layout: Option<Arc<Layout>>,
    handoff: Handoff,
    tokens: Tokens,
    books: Books,
    /// Since which of its lives this node has kept replicas on its disk, if it does.
    stored_since: Option<Run>,
    /// Units of which all have replicas who are to have them, by the view that named their sets: for the next tick, since
    /// nobody waits for it, and each view costs all nodes something.
    replicated: BTreeMap<Epoch, Vec<Unit>>,
    /// Whether an operator has said that what nobody has is to begin empty.
    is_giving_up: bool,
    /// Units that have begun empty.
    units_lost: u64,
    /// Spouts whose partitions we were asked to list; the list, once it is there.
    listed: BTreeMap<Spout, Option<Vec<PartitionName>>>,
    rounds: Rounds,
    /// What the containers said last, by container.
    reports: BTreeMap<u16, Report>,
    leave: Option<Leave>,
    /// Links that broke, by the node behind them: when, and since when that node was a member.
    broken: BTreeMap<NodeId, (Time, Epoch)>,
    /// What the view log is to be told once this step is done.
    causes: Vec<Cause>,
    /// Since when there are signs that a new view is needed.
    cause_since: Option<Time>,
    /// When the last step was, and when the last message came.
    now: Time,
    heard: Time,
    /// Whether it was on us to ask for counts when we last looked.
    is_coordinator: bool,
    /// Whether containers were told that too few voters are there.
    is_degraded: bool,
    next_tick: Time,
    next_ask: u64,
    /// Who asked for counts last: in which view, and in which round.
    asked: Option<(NodeId, Epoch, u64)>,
    /// Nodes to be told that nothing more comes, once the containers have a layout without them.
    farewells: BTreeMap<NodeId, u64>,
    /// Nodes that were told.
    bidden: BTreeSet<(NodeId, Epoch)>,
}

impl std::fmt::Debug for NodeCore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeCore").field("me", &self.me()).finish_non_exhaustive()
    }
}

impl NodeCore {
    /// A node that has just started, and what the others may say about its logs: `log_id` is that of
    /// `log`.
    pub fn new(
        setup: Setup,
        membership: Membership,
        log: ViewLog<Assignment>,
        log_id: LogId,
    ) -> Self {
        let me = membership.me().clone();
        Self {
            tokens: Tokens::new(me.node, &setup.plans),
            handoff: Handoff::new(log_id, me.run),
            rounds: Rounds::default(),
            books: Books::default(),
            stored_since: None,
            replicated: BTreeMap::new(),
            is_giving_up: false,
            units_lost: 0,
            live: BTreeMap::from([(me.node, me)]),
            setup,
            membership,
            log,
            log_id,
            view: None,
            layout: None,
            listed: BTreeMap::new(),
            reports: BTreeMap::new(),
            leave: None,
            broken: BTreeMap::new(),
            causes: Vec::new(),
            cause_since: None,
            now: Time::default(),
            heard: Time::default(),
            is_coordinator: false,
            is_degraded: false,
            next_tick: Time::default(),
            next_ask: 0,
            asked: None,
            farewells: BTreeMap::new(),
            bidden: BTreeSet::new(),
        }
    }

    /// Goes on with what an earlier life of this node left on its disk of the partitions that it read; before the
    /// first step. Gives `false`, and forgets it, if that was of other topologies.
    pub fn restore(&mut self, found: Offsets) -> bool {
        self.tokens.restore(found)
    }

    /// Says since which life the replicas on the disk of this node are there; before the first step.
    pub fn stored(&mut self, since: Run) {
        self.stored_since = Some(since);
    }

    /// Takes an input and says what is to be done about it.
    pub fn step(&mut self, now: Time, input: Input, out: &mut Vec<Action>) {
        self.now = now;
        let mut outcome = Outcome::default();
        match input {
            Input::Started => {
                self.cause_since = Some(now);
                self.log_step(now, view_log::Input::Ready, out);
            }
            Input::Met(member) => self.gossip(now, membership::Input::Met(member), out),
            Input::Lost(node) => self.gossip(now, membership::Input::Lost(node), out),
            Input::Broken(node) => self.link_broke(now, node),
            Input::Persisted(stamp) => {
                self.log_step(now, view_log::Input::Persisted(stamp), out);
            }
            Input::Kept => {
                self.tokens.synced();
                self.say_what_is_kept(out);
                self.causes.extend(self.tokens.settled(self.log_id.disk));
            }
            Input::RecoverUnsafe => self.recover(now, out),
            Input::Received(from, message) => {
                self.heard = now;
                self.receive(now, from, message, out);
            }
            Input::Reported(report) => self.reported(now, report, out),
            Input::Listed { topology, prototype, partitions } => {
                self.listed(topology, prototype, partitions, out);
            }
            Input::Closed { topology, prototype, name, state } => {
                self.tokens.closed((topology, prototype), &name, state, out);
                self.tokens.say(&self.live, out);
            }
            Input::Chunk { handoff, kind, bytes } => {
                self.handoff.chunk(handoff, kind, bytes, &mut outcome);
            }
            Input::Staged { handoff, outcome: staged } => {
                self.handoff.staged(now, handoff, staged, out, &mut outcome);
            }
            Input::Secured { handoff: 0, epoch, units } => self.replicated(epoch, units),
            Input::Secured { handoff, units, .. } => {
                self.handoff.secured(handoff, &units, &mut outcome);
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
        self.follow(now, outcome, out);
        self.wake(now, out);
    }

    /// When [`Input::Woke`] is due.
    pub fn deadline(&self) -> Option<Time> {
        let round = self.rounds.deadline().filter(|_| self.is_coordinator);
        let all = [
            self.membership.deadline(),
            self.log.deadline(),
            self.handoff.deadline(),
            round,
            Some(self.next_tick),
        ];
        all.into_iter().flatten().min()
    }

    /// What this node says of itself when it meets another.
    pub fn hello(&self) -> Hello {
        Hello::new(&self.setup, self.membership.me(), self.log.cluster())
    }

    /// The view, if there is one.
    pub fn view(&self) -> Option<&Arc<View>> {
        self.view.as_ref()
    }

    /// Whether this node knows of nobody although there should be somebody, or has not heard of anybody for a
    /// while, whatever gossip believes: it has no view, or is one of several in it. So it is with too few voters: some
    /// who have started again on one side of a split know of each other, and of the other side by the view alone.
    pub fn is_lonely(&self) -> bool {
        let seats = self.view.as_ref().map_or(0, |view| view.head.seats.len());
        let hears_nobody = self.live.len() == 1 || self.heard + SILENCE <= self.now;
        seats == 0 || seats > 1 && (hears_nobody || self.is_degraded)
    }

    /// What this node shows of itself.
    pub fn status(&self) -> Status {
        status::of(self)
    }

    fn me(&self) -> NodeId {
        self.membership.me().node
    }

    fn gossip(&mut self, now: Time, input: membership::Input, out: &mut Vec<Action>) {
        let mut actions = Vec::new();
        self.membership.step(now, input, &mut actions);
        for action in actions {
            match action {
                membership::Action::Send(to, bytes) => {
                    out.push(Action::Send(to, Message::Gossip(bytes)));
                }
                membership::Action::Up(member) => self.up(now, member, out),
                membership::Action::Down(member, reason) => self.down(now, &member, reason, out),
                membership::Action::Fenced => {}
                membership::Action::Refused(refusal) => {
                    out.push(Action::Tell(Event::RefusedGossip(refusal.to_string())));
                }
            }
        }
    }

    fn up(&mut self, now: Time, member: Member, out: &mut Vec<Action>) {
        // The link is to the life that the view names, if gossip has not heard of that one yet.
        if self.seat(member.node).is_none_or(|seat| seat.member.run <= member.run) {
            out.push(Action::Connect(member.clone()));
        }
        out.push(Action::Tell(Event::Up(member.clone())));
        self.cause_since.get_or_insert(now);
        self.live.insert(member.node, member.clone());
        self.log_step(now, view_log::Input::Up(member), out);
    }

    fn down(&mut self, now: Time, member: &Member, reason: Reason, out: &mut Vec<Action>) {
        self.live.remove(&member.node);
        self.cause_since.get_or_insert(now);
        out.push(Action::Tell(Event::Down(member.clone(), reason)));
        // What is on its way to a member waits: only a view says that it is none any more.
        if self.seat(member.node).is_none() || self.is_flushing() {
            out.push(Action::Disconnect(member.node, reason));
        }
        self.log_step(now, view_log::Input::Down(member.node, reason), out);
    }

    /// All have replicas of units who are to have them under the next sets. Where that only leaves out who is gone,
    /// commits wait for it.
    fn replicated(&mut self, epoch: Epoch, units: Vec<Unit>) {
        let Some(view) = self.view.clone() else { return };
        let is_urgent = |unit: &Unit| {
            let share = view.body.share(*unit);
            share.and_then(|share| Some((share, share.next.as_ref()?))).is_some_and(
                |(share, next)| next.logs.iter().all(|log| share.active.logs.contains(log)),
            )
        };
        let (urgent, others): (Vec<_>, Vec<_>) = units.into_iter().partition(is_urgent);
        if !urgent.is_empty() {
            self.causes.push(Cause::Replicated(epoch, urgent));
        }
        if !others.is_empty() {
            self.replicated.entry(epoch).or_default().extend(others);
        }
    }

    fn seat(&self, node: NodeId) -> Option<&Seat> {
        self.view.as_ref()?.head.seat(node)
    }

    /// Gives an input to the view log, and does what it wants done.
    fn log_step(&mut self, now: Time, input: view_log::Input<Assignment>, out: &mut Vec<Action>) {
        let mut actions = Vec::new();
        self.log.step(now, input, &mut actions);
        for action in actions {
            match action {
                view_log::Action::Persist(stamp, record) => {
                    out.push(Action::Persist(stamp, Box::new(record)));
                }
                view_log::Action::Send(to, message) => {
                    self.send(to, Message::Log(Box::new(message)), out);
                }
                view_log::Action::Install(view) => self.install(now, view, out),
                view_log::Action::Dismissed => {
                    if let Some(leave) = &mut self.leave {
                        leave.is_dismissed = true;
                    }
                }
                view_log::Action::Tell(event) => {
                    let is_over = event == view_log::Event::Superseded;
                    let is_refused = matches!(event, view_log::Event::NotRecovered(_));
                    self.is_giving_up &= !is_refused;
                    out.push(Action::Tell(Event::Log(event)));
                    if is_over {
                        out.push(Action::Exit(Ending::Superseded));
                    }
                }
            }
        }
    }

    /// Does what came of a handoff: tells the view log and other nodes.
    fn follow(&mut self, now: Time, outcome: Outcome, out: &mut Vec<Action>) {
        self.causes.extend(outcome.causes);
        let mut messages = VecDeque::from(outcome.messages);
        while let Some((to, message)) = messages.pop_front() {
            if to != self.me() {
                self.send(to, Message::Handoff(message), out);
            } else if let Some(view) = self.view.clone() {
                let mut outcome = Outcome::default();
                self.handoff.receive(now, &view, (to, message), out, &mut outcome);
                self.causes.extend(outcome.causes);
                messages.extend(outcome.messages);
            }
        }
        while !self.causes.is_empty() {
            for cause in std::mem::take(&mut self.causes) {
                self.log_step(now, view_log::Input::Cause(cause), out);
            }
        }
    }

    /// What was lost with a link that cannot be repaired can not be found out: neither side knows how far
    /// the other had read. So the node behind it becomes a member anew, and all that was on its way to or
    /// from it counts as in doubt, on both sides.
    fn link_broke(&mut self, now: Time, node: NodeId) {
        let since = self.view.as_ref().zip(self.seat(node));
        if let Some(since) = since.map(|(view, seat)| view.body.since(seat)) {
            let broken = self.broken.entry(node).or_insert((now, since));
            // One that a view has mended since is another.
            if broken.1 != since {
                *broken = (now, since);
            }
        }
    }

    /// Has broken links mended by a view, unless the node behind is gone.
    fn mend(&mut self, now: Time) {
        let Some(view) = &self.view else { return };
        let since = |node| view.head.seat(node).map(|seat| view.body.since(seat));
        self.broken.retain(|node, (_, was)| since(*node) == Some(*was));
        let ripe = self.broken.iter().filter(|(_, (at, _))| *at + BROKEN <= now);
        self.causes.extend(ripe.map(|(&node, &(_, since))| Cause::Broken(node, since)));
    }

    /// Who asks for counts: the first voter that is alive. A hint; two of them do no harm.
    fn coordinator(&self) -> Option<NodeId> {
        let view = self.view.as_ref()?;
        view.head.voter_nodes().find(|node| self.live.contains_key(node))
    }

    fn receive(&mut self, now: Time, from: NodeId, message: Message, out: &mut Vec<Action>) {
        match message {
            Message::Gossip(bytes) => self.gossip(now, membership::Input::Received(bytes), out),
            Message::Log(message) => {
                self.log_step(now, view_log::Input::Received(from, *message), out);
            }
            Message::Handoff(message) => {
                let Some(view) = self.view.clone().filter(|_| !self.has_stopped()) else { return };
                let mut outcome = Outcome::default();
                self.handoff.receive(now, &view, (from, message), out, &mut outcome);
                self.follow(now, outcome, out);
            }
            Message::Ask { epoch, round } => self.asked = Some((from, epoch, round)),
            Message::Answer { epoch, round, totals } => {
                let is_of_now = self.view.as_ref().is_some_and(|view| view.head.number == epoch);
                if is_of_now && self.is_coordinator && self.seat(from).is_some() {
                    self.rounds.answered(from, round, totals);
                }
            }
            // Said again until it is taken: by whoever it is for once a view is without this node.
            Message::Token { .. } if self.has_stopped() || self.tokens.is_disowned() => {}
            Message::Token { token, to } => {
                let Some((view, layout)) = self.view.as_ref().zip(self.layout.clone()) else {
                    return;
                };
                if !view.body.holders.contains(&self.log_id) {
                    // Said again until it is taken.
                    self.causes.push(Cause::Holds(self.log_id));
                } else if to == self.log_id && self.is_known_spout(token.id) {
                    let (id, hops) = (token.id, token.hops);
                    if self.tokens.take(from, token, &layout, &self.setup.plans, out) {
                        self.send(from, Message::Taken(id, hops), out);
                    }
                }
            }
            Message::Taken(id, hops) => self.tokens.taken(from, id, hops),
            Message::Book(message) => {
                if let Some(log) = self.seat(from).map(|seat| seat.log) {
                    self.book_arrived(log, message, out);
                }
            }
            Message::Quiet { epoch, topologies } => {
                let is_of_now = self.view.as_ref().is_some_and(|view| view.head.number == epoch);
                if is_of_now && self.seat(from).is_some() {
                    self.hush(&topologies, out);
                }
            }
        }
    }

    /// Nothing of some topologies is on its way: what is pending has lost something.
    fn hush(&self, topologies: &[u16], out: &mut Vec<Action>) {
        let is_known = |at: &&u16| usize::from(**at) < self.setup.plans.len();
        for &topology in topologies.iter().filter(is_known) {
            for container in 0..self.membership.me().containers {
                out.push(Action::Give(container, pe::Input::Quiet(topology)));
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

    /// Takes a view: works it out, tells the containers, and moves what is to move.
    fn install(&mut self, now: Time, view: Arc<View>, out: &mut Vec<Action>) {
        if let Err(why) = view.body.fits(&self.setup) {
            return out.push(Action::Exit(Ending::Unfit(why)));
        }
        let before = self.view.replace(Arc::clone(&view));
        self.tell_of(now, before.as_deref(), &view, out);
        let lost = before.as_deref().map_or(0, |before| assignment::begun_empty(before, &view));
        if lost > 0 {
            self.units_lost += lost as u64;
            out.push(Action::Tell(Event::StateLost(lost)));
        }
        let unavailable = |view: &View| view.body.unavailable(&view.head);
        let units = unavailable(&view);
        if before.as_deref().map_or(0, unavailable) != units {
            out.push(Action::Tell(Event::Unavailable(units)));
        }
        self.reach(before.as_deref(), &view, out);
        if self.seat(self.me()).is_some_and(|seat| seat.log != self.log_id) {
            // The seat is that of a former life, and so are the units: they are ours when a view gives them
            // to this one. Until then the containers have no layout, and what comes for them waits.
            return;
        }
        if self.gave_up() {
            return;
        }
        if let Some(before) = &before {
            self.handoff.begin_anew_what_was_lost(before, &view, out);
        }
        let store = self.stored_since.map(|run| LogId { run, ..self.log_id });
        let layout = Arc::new(assignment::layout(&view, self.me(), store, &self.setup.plans));
        self.handoff.give_up(now, &view, out);
        out.push(Action::Lay(Arc::clone(&layout)));
        self.handoff.release(&view, out);
        self.lay_books(&view, out);
        for lost in self.tokens.know(&view.head) {
            out.push(Action::Tell(Event::PartitionLost(lost)));
        }
        self.tokens.lay(&layout, &self.setup.plans, out);
        self.bid_farewell(&view, &layout);
        self.layout = Some(layout);
        self.list(&view, out);
        self.rounds.forget();
        self.cause_since = None;
        let mut outcome = Outcome::default();
        if let Some(since) = self.stored_since {
            outcome.causes.push(Cause::Stored(self.log_id, since));
        }
        self.handoff.take(&view, out, &mut outcome);
        self.handoff.ask(now, out, &mut outcome);
        self.follow(now, outcome, out);
    }

    fn tell_of(&self, now: Time, before: Option<&View>, view: &View, out: &mut Vec<Action>) {
        let moved = before.map_or(0, |before| {
            let slots = before.body.slots.iter().zip(&view.body.slots);
            slots.filter(|(then, now)| then.active.owner() != now.active.owner()).count()
        });
        out.push(Action::Tell(Event::View {
            epoch: view.head.number,
            members: view.head.seats.len(),
            moved,
            moving: view.body.moving(),
            took: self.cause_since.map_or(Duration::ZERO, |since| now - since),
        }));
        for (at, topology) in view.body.topologies.iter().enumerate() {
            let was = before.map_or(Phase::Waiting, |before| before.body.topologies[at].phase);
            if was != topology.phase {
                out.push(Action::Tell(Event::Phase(topology.name.clone(), topology.phase)));
            }
        }
    }

    /// Keeps links to all members, and to nobody else that gossip does not know of.
    ///
    /// A node that slept may hear of a restart by a view before gossip does. What it sends from then on is for the
    /// new life: on the link to the former one it would wait, and be dropped without a word once gossip has heard.
    fn reach(&mut self, before: Option<&View>, view: &View, out: &mut Vec<Action>) {
        let gone = before.into_iter().flat_map(|before| &before.head.seats);
        for node in gone.map(Seat::node).filter(|&node| view.head.seat(node).is_none()) {
            self.bidden.retain(|(bidden, _)| *bidden != node);
            if !self.live.contains_key(&node) {
                out.push(Action::Disconnect(node, Reason::Failed));
            }
        }
        let is_known = |seat: &&Seat| {
            self.live.get(&seat.node()).is_some_and(|live| live.run >= seat.member.run)
        };
        let others = view.head.seats.iter().filter(|seat| seat.node() != self.me());
        for seat in others.filter(|seat| !is_known(seat)) {
            // Events may go to it from now on.
            out.push(Action::Connect(seat.member.clone()));
        }
    }

    /// Notes which members that leave are to be told that nothing more comes from us.
    fn bid_farewell(&mut self, view: &View, layout: &Layout) {
        // By a later layout nothing comes either.
        self.farewells.values_mut().for_each(|wanted| *wanted = layout.digest);
        let leaving = view.head.seats.iter().filter(|seat| seat.state == State::Draining);
        for seat in leaving.filter(|seat| !view.body.keeps(&view.head, seat.log)) {
            let key = (seat.node(), view.body.since(seat));
            if seat.node() != self.me() && !self.bidden.contains(&key) {
                self.farewells.insert(seat.node(), layout.digest);
                self.bidden.insert(key);
            }
        }
    }

    /// Finds out the partitions of spouts of which nobody has, if it is on us: the first active member.
    fn list(&mut self, view: &View, out: &mut Vec<Action>) {
        if self.tokens.is_disowned() {
            return;
        }
        let first = view.head.seats.iter().find(|seat| seat.state == State::Active);
        let is_mine = first.is_some_and(|seat| seat.log == self.log_id);
        for (topology, state) in (0..).zip(&view.body.topologies) {
            for (&prototype, maker) in &state.spouts {
                let spout = (topology, prototype);
                match maker {
                    None if is_mine && state.phase == Phase::Running => {
                        if let std::collections::btree_map::Entry::Vacant(entry) =
                            self.listed.entry(spout)
                        {
                            entry.insert(None);
                            out.push(Action::List { topology, prototype });
                        }
                    }
                    None => {}
                    // An earlier life on this disk was to make the tokens, and ended before they were on it.
                    Some(log)
                        if state.partitions.is_some()
                            && log.disk == self.log_id.disk
                            && *log != self.log_id
                            && state.phase == Phase::Running
                            && !self.tokens.has_made(spout)
                            && !self.listed.contains_key(&spout) =>
                    {
                        self.listed.insert(spout, None);
                        out.push(Action::List { topology, prototype });
                    }
                    Some(log) => {
                        let is_ours = *log == self.log_id
                            || state.partitions.is_some()
                                && log.disk == self.log_id.disk
                                && !self.tokens.has_made(spout);
                        if is_ours && self.listed.get(&spout) == Some(&None) {
                            continue; // Under way.
                        }
                        let names = self.listed.remove(&spout).flatten();
                        if let Some(names) = names.filter(|_| is_ours) {
                            let layout = self.layout.clone().expect("it is made from the view");
                            self.tokens.create(spout, names, &layout, &self.setup.plans, out);
                            self.tokens.say(&self.live, out);
                        }
                    }
                }
            }
        }
    }

    fn listed(
        &mut self,
        topology: u16,
        prototype: u16,
        partitions: Result<Vec<PartitionName>, String>,
        out: &mut Vec<Action>,
    ) {
        let partitions = partitions.and_then(|names| match names.len() {
            len if len > PARTITIONS_MAX as usize => Err(format!("{len} partitions are too many")),
            _ => Ok(names),
        });
        let names = partitions.unwrap_or_else(|why| {
            let plan = &self.setup.plans[usize::from(topology)];
            let name = plan.prototypes[usize::from(prototype)].name.clone();
            out.push(Action::Tell(Event::NothingToRead(name, why)));
            Vec::new()
        });
        // The tokens are made when the view says that it is us who make them.
        let count = u32::try_from(names.len()).expect("bounded above");
        self.listed.insert((topology, prototype), Some(names));
        self.causes.push(Cause::Listed { topology, prototype, by: self.log_id, count });
        if let Some(view) = self.view.clone().filter(|_| self.layout.is_some()) {
            self.list(&view, out);
        }
    }

    /// What is due by time or by what has just happened.
    fn wake(&mut self, now: Time, out: &mut Vec<Action>) {
        let is_due = |deadline: Option<Time>| deadline.is_some_and(|due| due <= now);
        if is_due(self.membership.deadline()) {
            self.gossip(now, membership::Input::Woke, out);
        }
        if is_due(self.log.deadline()) {
            self.log_step(now, view_log::Input::Woke, out);
        }
        let mut outcome = Outcome::default();
        if is_due(self.handoff.deadline()) {
            self.handoff.ask(now, out, &mut outcome);
        }
        if self.next_tick <= now {
            self.next_tick = now + TICK;
            self.ask_containers(None, out);
            self.tokens.say(&self.live, out);
            self.mend(now);
            self.see_to_books(out);
            self.give_up();
            let replicated = std::mem::take(&mut self.replicated);
            let causes =
                replicated.into_iter().map(|(epoch, units)| Cause::Replicated(epoch, units));
            self.causes.extend(causes);
        }
        let is_degraded = self.log.quorum().is_some_and(|(live, needed)| live < needed);
        if is_degraded != std::mem::replace(&mut self.is_degraded, is_degraded) {
            out.push(Action::Degraded(is_degraded));
        }
        self.is_coordinator = self.coordinator() == Some(self.me());
        if self.is_coordinator {
            self.run_rounds(now, out);
        }
        self.ask_for_asker(out);
        self.go_on_leaving(now, out);
        self.follow(now, outcome, out);
        if self.tokens.keep(now, out)
            && let Some(view) = self.view.clone()
        {
            self.send_book(&view, out);
        }
    }

    fn send(&self, to: NodeId, message: Message, out: &mut Vec<Action>) {
        let seat = || self.seat(to).map(|seat| &seat.member);
        if let Some(member) = self.live.get(&to).or_else(seat) {
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

    fn reported(&mut self, now: Time, report: Report, out: &mut Vec<Action>) {
        let Some(view) = &self.view else { return };
        let epoch = view.head.number;
        let (ask, digest) = (report.round, report.layout);
        self.tokens.reported(&report);
        self.reports.insert(report.container, report);
        let containers = usize::from(self.membership.me().containers);
        let current = self.reports.values().filter(|r| r.round >= ask && r.layout == digest);
        if current.count() < containers {
            return;
        }
        // A token that is on its way comes as well: who has stopped takes none.
        let is_over = |node: NodeId, wanted| wanted == digest && !self.tokens.is_passing_to(node);
        let said = self.farewells.extract_if(.., |&node, wanted| is_over(node, *wanted));
        let said: Vec<_> = said.collect();
        for (node, _) in said {
            out.push(Action::Farewell(node));
        }
        if self.layout.as_ref().is_none_or(|layout| layout.digest != digest) {
            return;
        }
        let totals = self.totals();
        for (asker, round) in self.rounds.owed(ask) {
            if asker == self.me() {
                self.rounds.answered(asker, round, totals.clone());
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
            exhausted_partitions: self.tokens.exhausted(id16(topology)),
            open_trees: run.trees.pending,
            stages_removed: removed(topology),
        })
        .collect()
    }

    /// Has the containers asked for whoever asked last, once we have the view that it asked in.
    ///
    /// Of another view than ours an answer proves nothing, and the asker may have its view a moment before
    /// us. Nor does what we have prove anything if the view still names the process before this one.
    fn ask_for_asker(&mut self, out: &mut Vec<Action>) {
        let mine = self.view.as_ref().map(|view| view.head.number);
        if let Some((from, _, round)) =
            self.asked.take_if(|asked| mine >= Some(asked.1)).filter(|asked| mine == Some(asked.1))
            && self.is_seated()
        {
            self.ask_containers(Some((from, round)), out);
        }
    }

    /// Whether the view names this very process, and not one before it or none.
    fn is_seated(&self) -> bool {
        self.log.seat().is_some_and(|seat| seat.log == self.log_id)
    }

    fn run_rounds(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(view) = self.view.clone().filter(|_| self.is_seated()) else { return };
        let (phases, quiet) = self.rounds.verdict(&view);
        if !quiet.is_empty() {
            for node in view.head.seats.iter().map(Seat::node).filter(|node| *node != self.me()) {
                let (epoch, topologies) = (view.head.number, quiet.clone());
                self.send(node, Message::Quiet { epoch, topologies }, out);
            }
            self.hush(&quiet, out);
        }
        self.causes.extend(phases.into_iter().map(|(at, phase)| Cause::Advance(at, phase)));
        if let Some(round) = self.rounds.next(now, &view) {
            let epoch = view.head.number;
            for node in view.head.seats.iter().map(Seat::node).filter(|node| *node != self.me()) {
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
