//! The cluster of the model: its nodes, what is on its way, and what has been seen so far.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

use membership::view_log::{ClusterId, Digest, DiskId, Generation, Head, Record, Seat, State};
use membership::{Epoch, NodeId, Run};
use stateright::{Model, Property};

use super::super::{Assignment, View};
use super::history::{History, Rule};
use super::host::{log_of, member, setup};
use super::table::{HostId, LetterId, Table, What};
use super::{Bounds, COUNT, NODES, place};

/// The model.
#[derive(Debug)]
pub(super) struct World {
    bounds: Bounds,
    table: Mutex<Table>,
}

/// A state of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cluster {
    /// The nodes; none for the dead.
    hosts: Vec<Option<HostId>>,
    /// All that was ever sent.
    letters: BTreeSet<LetterId>,
    left: Left,
    seen: History,
}

/// What may still happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Left {
    wakes: [u8; COUNT],
    crashes: u8,
    deaths: u8,
    suspicions: u8,
    breaks: [u8; COUNT],
    writes: u8,
}

/// The property that a rule is kept; a function cannot know which but by its type.
fn always<const RULE: usize>() -> Property<World> {
    Property::always(Rule::ALL[RULE].name(), |_, state: &Cluster| {
        state.seen.fault != Some(Rule::ALL[RULE])
    })
}

impl World {
    pub(super) fn new(bounds: Bounds) -> Self {
        let nodes = (1..=NODES).map(NodeId);
        let first = Arc::new(first_view());
        let record = |node: NodeId| {
            let disk = DiskId(node.0);
            Record { view: Some(Arc::clone(&first)), ..Record::blank(disk) }
        };
        let records = nodes.map(|node| (node, record(node))).collect();
        Self { bounds, table: Mutex::new(Table::new(bounds, records)) }
    }

    /// How many steps of nodes were run.
    pub(super) fn steps(&self) -> usize {
        self.table().steps()
    }

    /// A path in words.
    pub(super) fn told(&self, path: &[(NodeId, What)]) -> String {
        let table = self.table();
        let lines = path.iter().map(|(node, what)| format!("{node}: {}\n", table.told(*what)));
        lines.collect()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap()
    }
}

/// Three members that vote, and all slots on the first.
pub(super) fn first_view() -> View {
    let nodes = || (1..=NODES).map(NodeId);
    let seats = nodes().map(|node| Seat {
        member: member(node, Run(1)),
        log: log_of(node, Run(1)),
        state: State::Active,
        since: Epoch(1),
    });
    let head = Head {
        cluster: ClusterId(1),
        generation: Generation { count: 0, author: DiskId(1) },
        number: Epoch(1),
        parent: Digest(0),
        seats: seats.collect(),
        voters: nodes().map(|node| DiskId(node.0)).collect(),
        lost: Vec::new(),
    };
    let founder = (member(NodeId(1), Run(1)), log_of(NodeId(1), Run(1)));
    let mut body = Assignment::first(&setup(), &founder.0, founder.1);
    body.numbers = head.seats.iter().map(|seat| seat.log).zip(1..).collect();
    body.last_number = u16::try_from(NODES).expect("there are few");
    View { head, body }
}

impl Model for World {
    type State = Cluster;
    type Action = (NodeId, What);

    fn init_states(&self) -> Vec<Cluster> {
        let mut table = self.table();
        let mut letters = BTreeSet::new();
        let hosts = (1..=NODES).map(|node| {
            let (host, said) = table.start(NodeId(node));
            letters.extend(said);
            Some(host)
        });
        let hosts: Vec<_> = hosts.collect();
        let Bounds { wakes, crashes, deaths, suspicions, breaks, writes, .. } = self.bounds;
        let left = Left { wakes, crashes, deaths, suspicions, breaks, writes };
        let mut seen = History::default();
        hosts.iter().flatten().for_each(|host| seen.look(&table, *host));
        vec![Cluster { hosts, letters, left, seen }]
    }

    fn actions(&self, state: &Cluster, actions: &mut Vec<(NodeId, What)>) {
        let table = self.table();
        let lives = |node: NodeId| state.hosts[place(node)].is_some();
        for &letter in &state.letters {
            let to = table.letter(letter).to;
            actions.extend(lives(to).then_some((to, What::Deliver(letter))));
        }
        let left = &state.left;
        for node in (1..=NODES).map(NodeId) {
            let Some(host) = state.hosts[place(node)] else { continue };
            let seen = table.seen(host);
            let others = (1..=NODES).map(NodeId).filter(|&other| other != node);
            let mut may = |is_possible: bool, what| {
                actions.extend(is_possible.then_some((node, what)));
            };
            may(seen.is_writing, What::Sync);
            may(left.wakes[place(node)] > 0, What::Wake);
            may(left.crashes > 0, What::Crash { is_kept: false });
            may(left.crashes > 0 && seen.is_writing, What::Crash { is_kept: true });
            for &slot in seen.cell.serves.keys() {
                may(left.writes > 0, What::Write(slot));
            }
            for other in others {
                may(left.suspicions > 0, What::Suspect(other));
            }
            may(left.breaks[place(node)] > 0, What::Break(NodeId(node.0 % NODES + 1)));
        }
        if left.deaths > 0 {
            let living = (1..=NODES).map(NodeId).filter(|&node| lives(node));
            actions.extend(living.map(|node| (node, What::Die)));
        }
    }

    fn next_state(&self, last: &Cluster, (node, what): (NodeId, What)) -> Option<Cluster> {
        let mut table = self.table();
        let before = last.hosts[place(node)]?;
        if what == What::Die {
            let mut next = last.clone();
            next.left.pay(node, what);
            next.seen.end(table.seen(before).log);
            next.seen.dead.insert(node);
            next.hosts[place(node)] = None;
            return Some(next);
        }
        let (after, said) = table.step(before, what);
        if after == before && said.iter().all(|letter| last.letters.contains(letter)) {
            return None;
        }
        let mut next = last.clone();
        next.left.pay(node, what);
        if matches!(what, What::Crash { .. }) {
            next.seen.end(table.seen(before).log);
        }
        next.hosts[place(node)] = Some(after);
        for letter in said {
            next.send(&table, letter);
        }
        next.seen.look(&table, after);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = vec![
            always::<0>(),
            always::<1>(),
            always::<2>(),
            always::<3>(),
            always::<4>(),
            always::<5>(),
        ];
        if self.bounds.writes > 0 && self.bounds.last > Epoch(2) {
            let moved = |_: &Self, state: &Cluster| state.seen.has_moved;
            all.push(Property::sometimes("a unit moves after a write", moved));
        }
        if self.bounds.deaths > 0 {
            let is_rid = |_: &Self, state: &Cluster| state.seen.is_rid;
            all.push(Property::sometimes("a view is without the dead", is_rid));
        }
        all
    }

    fn within_boundary(&self, state: &Cluster) -> bool {
        state.seen.views.keys().all(|&number| number <= self.bounds.last)
    }
}

impl Left {
    fn pay(&mut self, node: NodeId, what: What) {
        match what {
            What::Deliver(_) | What::Sync => {}
            What::Wake => self.wakes[place(node)] -= 1,
            What::Crash { .. } => self.crashes -= 1,
            What::Suspect(_) => self.suspicions -= 1,
            What::Break(_) => self.breaks[place(node)] -= 1,
            What::Write(_) => self.writes -= 1,
            What::Die => self.deaths -= 1,
        }
    }
}

impl Cluster {
    fn send(&mut self, table: &Table, letter: LetterId) {
        let choice = table.letter(letter).choice;
        let others = || self.letters.iter().filter_map(|&other| table.letter(other).choice);
        if let Some((ballot, value)) = choice
            && others().any(|(other, chosen)| other == ballot && chosen != value)
        {
            self.seen.blame(Rule::OneChoicePerBallot);
        }
        self.letters.insert(letter);
    }
}
