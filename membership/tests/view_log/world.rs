//! A cluster of view logs in virtual time, and all that can go wrong with it.
//!
//! Messages are lost, doubled and overtaken; links are cut in either direction; processes end at any
//! moment and lose what was not synced; disks are lost for good; gossip notices late, or sees what is
//! not there. All of it follows from the seed. The world knows nothing of what must hold: it reports
//! every write, message and view to the [`Referee`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use membership::view_log::{
    Action, ClusterId, Config, DiskId, Event, Founding, Input, LogId, Message, Record, Seat, Start,
    State, ViewLog,
};
use membership::{NodeId, Reason, Run, Time};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::host::{Host, Notes, member, ms};
use crate::referee::Referee;

enum Due {
    Letter(u64, u64, Box<Message<Notes>>),
    /// The write of a run is synced.
    Synced(u64, u64),
    Gossip,
}

/// How bad the world is.
#[derive(Clone, Copy)]
pub(crate) struct Weather {
    /// Of a hundred messages, how many are lost, doubled, or a second late.
    pub(crate) loss: u32,
    pub(crate) doubled: u32,
    pub(crate) late: u32,
    /// Of a thousand looks, how often gossip sees what is not there.
    pub(crate) mistaken: u32,
}

impl Weather {
    pub(crate) fn fair() -> Self {
        Self { loss: 1, doubled: 1, late: 0, mistaken: 0 }
    }
}

const GOSSIP: Duration = Duration::from_millis(100);

pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) now: Time,
    pub(crate) rng: StdRng,
    pub(crate) hosts: BTreeMap<u64, Host>,
    /// How often each node was started. Gossip refuses an older run, so whoever replaces a disk has to
    /// go on counting.
    runs: BTreeMap<u64, u64>,
    due: BTreeMap<(Time, u64), Due>,
    count: u64,
    disks: u64,
    /// Links, from and to, that carry nothing.
    pub(crate) cuts: BTreeSet<(u64, u64)>,
    pub(crate) weather: Weather,
    pub(crate) config: Config,
    pub(crate) referee: Referee,
    pub(crate) trace: Vec<String>,
    pub(crate) sent: u64,
    /// Whether nodes are ready for their share when they start.
    pub(crate) is_ready: bool,
}

impl World {
    /// A world without nodes.
    pub(crate) fn new(seed: u64) -> Self {
        let config = Config { return_wait_max: ms(4_000), ..Config::lan() };
        let mut world = Self {
            seed,
            now: Time::default(),
            rng: StdRng::seed_from_u64(seed),
            hosts: BTreeMap::new(),
            runs: BTreeMap::new(),
            due: BTreeMap::new(),
            count: 0,
            disks: 100,
            cuts: BTreeSet::new(),
            weather: Weather::fair(),
            config,
            referee: Referee::new(seed),
            trace: Vec::new(),
            sent: 0,
            is_ready: true,
        };
        world.at(GOSSIP, Due::Gossip);
        world
    }

    /// A cluster in which all are active members.
    pub(crate) fn settled(seed: u64, size: u64) -> Self {
        let mut world = Self::new(seed);
        world.found(1, 77);
        for node in 2..=size {
            world.start(node);
        }
        world.run_until(ms(20_000), |world| world.agrees(&(1..=size).collect()));
        world
    }

    /// How many views are decided in the cluster of [`World::settled`].
    pub(crate) fn number(&self) -> u64 {
        self.referee.newest(77).map_or(0, |view| view.head.number.0)
    }

    /// Whether people were told.
    pub(crate) fn was_told(&self, node: u64, what: &str) -> bool {
        self.trace.iter().any(|line| line.contains(&format!("node {node}: {what}")))
    }

    /// Starts a node that founds a cluster.
    pub(crate) fn found(&mut self, node: u64, cluster: u64) {
        let nodes = Vec::new();
        let body = Notes::default();
        self.start_with(node, Some(Founding { cluster: ClusterId(cluster), body, nodes }));
    }

    /// Starts a node with what is on its disk.
    pub(crate) fn start(&mut self, node: u64) {
        self.start_with(node, None);
    }

    pub(crate) fn start_with(&mut self, node: u64, founding: Option<Founding<Notes>>) {
        self.disks += 1;
        let blank = Host {
            disk: DiskId(self.disks),
            run: 0,
            file: None,
            write: None,
            log: None,
            believed: BTreeMap::new(),
            notices: BTreeMap::new(),
            is_leaving: false,
            is_dismissed: false,
        };
        let host = self.hosts.entry(node).or_insert(blank);
        let run = self.runs.entry(node).or_insert(0);
        *run += 1;
        host.run = *run;
        let record = host.record();
        let seed = self.seed ^ (node << 32) ^ (host.run << 48);
        // Even nodes have logs that end with the process.
        let log = match node % 2 {
            0 => LogId::unsynced(host.disk, Run(host.run)),
            _ => LogId::synced(host.disk),
        };
        let start = Start { member: member(node, host.run), log, record, founding, seed };
        host.log = Some(ViewLog::new(start, self.config.clone()).unwrap());
        (host.is_leaving, host.is_dismissed) = (false, false);
        self.note(format!("node {node} starts"));
        self.input(node, if self.is_ready { Input::Ready } else { Input::Woke });
    }

    /// Ends a process. What was being written is there or not.
    pub(crate) fn crash(&mut self, node: u64) {
        let is_through = self.rng.random_ratio(1, 2);
        let Some(host) = self.hosts.get_mut(&node) else { return };
        let write = host.write.take();
        if let Some((_, bytes)) = write.filter(|_| is_through) {
            self.referee.written(&Record::from_bytes(&bytes).unwrap());
            host.file = Some(bytes);
        }
        (host.log, host.believed, host.notices) = Default::default();
        self.note(format!("node {node} crashes"));
    }

    /// Ends a process and takes its disk.
    pub(crate) fn lose_disk(&mut self, node: u64) {
        self.crash(node);
        self.hosts.remove(&node);
        self.note(format!("node {node} loses its disk"));
    }

    /// Cuts both ways between every one of `here` and every other.
    pub(crate) fn split(&mut self, here: &BTreeSet<u64>) {
        let nodes: Vec<_> = self.hosts.keys().copied().collect();
        for &a in &nodes {
            for &b in nodes.iter().filter(|b| here.contains(b) != here.contains(&a)) {
                self.cuts.insert((a, b));
            }
        }
        self.note(format!("split off {here:?}"));
    }

    pub(crate) fn input(&mut self, node: u64, input: Input<Notes>) {
        let mut out = Vec::new();
        let Some(host) = self.hosts.get_mut(&node) else { return };
        let Some(log) = &mut host.log else { return };
        host.is_leaving |= matches!(input, Input::Drain);
        log.step(self.now, input, &mut out);
        for action in out {
            self.act(node, action);
        }
    }

    fn act(&mut self, node: u64, action: Action<Notes>) {
        match action {
            Action::Persist(stamp, record) => {
                let host = self.hosts.get_mut(&node).unwrap();
                assert!(host.write.is_none(), "seed {}: two writes at a time", self.seed);
                host.write = Some((stamp, record.to_bytes()));
                let run = host.run;
                let slow = self.rng.random_ratio(1, 20);
                let delay = if slow { 200 } else { self.rng.random_range(1..15) };
                self.at(ms(delay), Due::Synced(node, run));
            }
            Action::Send(to, message) => {
                let record = self.hosts[&node].record();
                self.referee.sent(record.as_ref(), &message);
                self.post(node, to.0, message);
            }
            Action::Install(view) => {
                let host = &self.hosts[&node];
                self.referee.installed(host.disk, &view);
                let seats: Vec<_> = view.head.seats.iter().map(|seat| seat.member.node.0).collect();
                let voters = view.head.voters.len();
                let number = view.head.number;
                self.note(format!("node {node} has view {number} of {seats:?}, {voters} voters"));
            }
            Action::Dismissed => {
                self.hosts.get_mut(&node).unwrap().is_dismissed = true;
                self.note(format!("node {node} may leave"));
            }
            Action::Tell(event) => {
                let is_fault = matches!(event, Event::Unfit(_));
                assert!(!is_fault, "seed {}: {event:?}\n{self}", self.seed);
                self.note(format!("node {node}: {event:?}"));
            }
        }
    }

    fn post(&mut self, from: u64, to: u64, message: Message<Notes>) {
        self.sent += 1;
        let Weather { loss, doubled, late, .. } = self.weather;
        let copies = if self.rng.random_ratio(doubled, 100) { 2 } else { 1 };
        for _ in 0..copies {
            let is_late = self.rng.random_ratio(late, 100);
            let longest = if is_late { 1_000_000 } else { 20_000 };
            let delay = Duration::from_micros(self.rng.random_range(200..longest));
            if !self.rng.random_ratio(loss, 100) {
                self.at(delay, Due::Letter(from, to, Box::new(message.clone())));
            }
        }
    }

    fn at(&mut self, delay: Duration, due: Due) {
        self.count += 1;
        self.due.insert((self.now + delay, self.count), due);
    }

    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.advance(end) {}
    }

    /// Runs until `is_reached`, and says how long it took.
    pub(crate) fn run_until(
        &mut self,
        limit: Duration,
        is_reached: impl Fn(&Self) -> bool,
    ) -> Duration {
        let (start, end) = (self.now, self.now + limit);
        while !is_reached(self) {
            assert!(self.advance(end), "seed {}: not within {limit:?}\n{self}", self.seed);
        }
        self.now - start
    }

    /// Lets the next thing happen, unless that is after `end`.
    fn advance(&mut self, end: Time) -> bool {
        let alarms = self
            .hosts
            .iter()
            .filter_map(|(&node, host)| Some((host.log.as_ref()?.deadline()?.max(self.now), node)));
        let (alarm, next) = (alarms.min(), self.due.first_key_value().map(|(&(at, _), _)| at));
        match alarm {
            Some((at, node)) if at <= end && next.is_none_or(|next| at <= next) => {
                self.now = at;
                self.input(node, Input::Woke);
            }
            _ if next.is_some_and(|next| next <= end) => {
                let ((at, _), due) = self.due.pop_first().unwrap();
                self.now = at;
                self.happen(due);
            }
            _ => {
                self.now = end;
                return false;
            }
        }
        true
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Letter(from, to, message) => {
                if !self.cuts.contains(&(from, to)) {
                    self.input(to, Input::Received(NodeId(from), *message));
                }
            }
            Due::Synced(node, run) => {
                let Some(host) = self.hosts.get_mut(&node).filter(|host| host.run == run) else {
                    return;
                };
                let Some((stamp, bytes)) = host.write.take() else { return };
                self.referee.written(&Record::from_bytes(&bytes).unwrap());
                host.file = Some(bytes);
                self.input(node, Input::Persisted(stamp));
            }
            Due::Gossip => {
                self.at(GOSSIP, Due::Gossip);
                self.gossip();
            }
        }
    }

    /// Every node looks at every other, and notices what has changed after a while.
    fn gossip(&mut self) {
        let nodes: Vec<_> = self.hosts.keys().copied().collect();
        for &node in &nodes {
            for &other in nodes.iter().filter(|&&other| other != node) {
                self.look(node, other);
            }
            let gone = self.hosts[&node].believed.keys();
            let gone: Vec<_> = gone.copied().filter(|other| !nodes.contains(other)).collect();
            gone.into_iter().for_each(|other| self.look(node, other));
        }
    }

    fn look(&mut self, node: u64, other: u64) {
        let is_cut = self.cuts.contains(&(node, other)) || self.cuts.contains(&(other, node));
        let there = self.hosts.get(&other).filter(|host| host.log.is_some() && !is_cut);
        let there = there.map(|host| host.run);
        let is_mistaken = self.rng.random_ratio(self.weather.mistaken, 1000);
        let delay = if there.is_some() { 100..400 } else { 800..2_500 };
        let delay = ms(self.rng.random_range(delay));
        let Some(host) = self.hosts.get_mut(&node).filter(|host| host.log.is_some()) else {
            return;
        };
        let believed = host.believed.get(&other).copied();
        if there == believed && !is_mistaken {
            host.notices.remove(&other);
            return;
        }
        let notices = *host.notices.entry(other).or_insert(self.now + delay);
        if notices > self.now && !is_mistaken {
            return;
        }
        host.notices.remove(&other);
        let input = match there.filter(|_| !is_mistaken) {
            Some(run) => {
                host.believed.insert(other, run);
                Input::Up(member(other, run))
            }
            None => {
                host.believed.remove(&other);
                Input::Down(NodeId(other), Reason::Failed)
            }
        };
        self.input(node, input);
    }

    fn note(&mut self, what: String) {
        self.trace.push(format!("{:>9.3}s {what}", self.now.0.as_secs_f64()));
    }

    /// The processes that run.
    pub(crate) fn running(&self) -> impl Iterator<Item = (u64, &ViewLog<Notes>)> {
        self.hosts.iter().filter_map(|(&node, host)| Some((node, host.log.as_ref()?)))
    }

    /// Whether all that run have one view, with these nodes as active members and nobody else.
    pub(crate) fn agrees(&self, nodes: &BTreeSet<u64>) -> bool {
        let mut views = self.running().map(|(_, log)| log.view());
        let Some(Some(first)) = views.next() else { return false };
        let is_active = |seat: &Seat| {
            nodes.contains(&seat.member.node.0)
                && seat.state == State::Active
                && self.hosts.get(&seat.member.node.0).is_some_and(|host| host.disk == seat.disk())
        };
        views.all(|view| view == Some(first))
            && first.head.seats.len() == nodes.len()
            && first.head.seats.iter().all(is_active)
    }
}

impl std::fmt::Display for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (node, log) in self.running() {
            writeln!(f, "{node}: {log:?}, quorum {:?}", log.quorum())?;
        }
        for line in self.trace.iter().rev().take(80).rev() {
            writeln!(f, "{line}")?;
        }
        Ok(())
    }
}
