//! Partitions of numbered events that are read into a ledger, held against the list of what nobody has
//! handled yet.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;
use proptest::sample::Index;
use routing::EdgeIds;

use super::super::planting::{Buried, Fate, Growing, Plant, Planting};
use super::*;

const MEMBER: u16 = 3;
const CONTAINER: u16 = 2;
const HOUR: Duration = Duration::from_secs(3600);

fn plan(granularity: u32) -> AckPlan {
    AckPlan { granularity, max_pending: 1 << 20, ..AckPlan::default() }
}

/// How many events of a partition need not be read again: its positions count events.
fn number_of(offset: Offset) -> u64 {
    offset.position.offset + offset.skip
}

fn at(offset: u64) -> Position {
    Position { offset, plays: 0 }
}

/// A partition, and the ledger that it is read into.
struct Field {
    ledger: Ledger,
    reading: u32,
    /// How many events were read.
    read: u64,
    ids: EdgeIds,
    now: Time,
}

impl Field {
    fn new(plan: AckPlan) -> Self {
        let mut ledger = Ledger::new(plan);
        ledger.name(MEMBER, CONTAINER);
        let reading = ledger.open_reading(0, at(0));
        Self { ledger, reading, read: 0, ids: EdgeIds::new(7), now: Time::default() }
    }

    /// Reads events, of each of which an edge is owed; the acks that pay for them.
    fn poll(&mut self, events: u64, has_more: bool) -> Vec<Ack> {
        let offset = Offset { position: at(self.read), skip: 0 };
        let mut planting = Planting::fresh(&mut self.ledger, self.reading, offset, None);
        let mut acks = Vec::new();
        for _ in 0..events {
            let Fate::Planted(root) = planting.next() else { panic!("it is meant") };
            let edges = self.ids.draw();
            planting.owe(edges);
            acks.push(Ack { root, edges });
        }
        self.read += events;
        planting.end(at(self.read), has_more);
        acks
    }

    /// Reads trees again, in one go; what becomes of each event, and the acks that pay for them.
    fn again(&mut self, replay: &Replay) -> (Vec<Fate>, Vec<Ack>, Vec<Buried>) {
        let (mut fates, mut acks, mut buried) = (Vec::new(), Vec::new(), Vec::new());
        let mut planting = Planting::again(&mut self.ledger, replay, (0, None), &mut buried);
        for _ in 0..replay.events {
            let fate = planting.next();
            match fate {
                Fate::Planted(root) => {
                    let edges = self.ids.draw();
                    planting.owe(edges);
                    acks.push(Ack { root, edges });
                }
                Fate::Dead => planting.bury("event", Vec::new()),
                Fate::LeftOut => {}
            }
            fates.push(fate);
        }
        planting.end_again(replay.events);
        (fates, acks, buried)
    }

    /// Reads again what is due, which is one tree that was not tried too often.
    fn replayed(&mut self) -> Ack {
        let replay = self.ledger.replay().expect("something is due");
        let (_, acks, _) = self.again(&replay);
        let [ack] = acks[..] else { panic!("it is one event: {acks:?}") };
        ack
    }

    fn apply(&mut self, acks: &[Ack]) {
        acks.iter().for_each(|&ack| self.ledger.apply(ack));
        self.ledger.trim();
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now + span;
        self.ledger.set_now(self.now);
    }

    /// Lets a tick pass.
    fn tick(&mut self, is_held: bool) {
        self.pass(TICK);
        self.ledger.tick(is_held);
    }

    fn committed(&self) -> u64 {
        number_of(self.ledger.committed(self.reading))
    }

    /// The trees that are not complete, and were not given up.
    fn pending(&self) -> BTreeSet<u64> {
        let all: BTreeSet<_> =
            self.ledger.oldest(usize::MAX).into_iter().map(|tree| tree.root).collect();
        assert_eq!(all.len(), self.ledger.pending);
        all
    }

    /// How many trees were given up for a reason.
    fn failed(&self, why: Failure) -> u64 {
        self.ledger.tally.failed[usize::from(why.number())]
    }

    /// When something is to be read again.
    fn next_due(&self) -> Option<Time> {
        self.ledger.due.first().map(|(at, _)| *at)
    }

    /// Everything.
    fn state(&self) -> String {
        format!("{:?}", self.ledger)
    }

    /// All that was read is complete, and nothing is left of it.
    fn assert_is_over(&self) {
        assert_eq!(self.pending(), BTreeSet::new());
        assert_eq!((self.ledger.open(), self.committed()), (0, self.read));
        assert!(self.ledger.is_settled(self.reading));
        assert!(self.ledger.window.is_empty() && self.ledger.due.is_empty());
        assert_eq!(self.ledger.deadline(), None);
    }
}

/// Of an event: for each edge the one that it comes of, among those before it; itself if the spout made it.
type Shape = Vec<Index>;

fn shape() -> impl Strategy<Value = Shape> {
    prop::collection::vec(any::<Index>(), 0..5)
}

/// What readers say of an event: of each edge, that it was handled and what came of it. The second is what the spout
/// says.
fn sayings(shape: &Shape, root: u64, ids: &mut EdgeIds) -> (Vec<Ack>, u64) {
    let edges: Vec<u64> = shape.iter().map(|_| ids.draw()).collect();
    let mut acks: Vec<_> = edges.iter().map(|&edges| Ack { root, edges }).collect();
    let mut owed = 0;
    for (edge, parent) in shape.iter().enumerate() {
        match parent.index(edge + 1) {
            own if own == edge => owed ^= edges[edge],
            parent => acks[parent].edges ^= edges[edge],
        }
    }
    (acks, owed)
}

/// A tree as it was read.
#[derive(Debug)]
struct Told {
    /// Its first event.
    first: u64,
    root: u64,
    events: u64,
    /// What has not been said of it yet.
    unsaid: usize,
}

/// Trees of any shape are read in polls of any length, and what is said of them comes in any order: also of an edge
/// that was not heard of, and of a tree that still grows. None is complete too early, and what is committed ends just
/// before the first that is not.
fn check_completion(
    granularity: u32,
    polls: &[(Vec<Shape>, bool, u8)],
    seed: u64,
) -> Result<(), TestCaseError> {
    let mut field = Field::new(plan(granularity));
    let (mut chance, mut told) = (EdgeIds::new(seed), Vec::<Told>::new());
    let (mut unsaid, mut grew) = (Vec::<Ack>::new(), None);
    let check = |field: &Field, told: &[Told], grows: Option<u64>| {
        let is_open = |tree: &&Told| tree.unsaid > 0 || grows == Some(tree.root);
        let open = || told.iter().filter(is_open);
        prop_assert_eq!(field.pending(), open().map(|tree| tree.root).collect::<BTreeSet<_>>());
        prop_assert_eq!(field.ledger.is_settled(field.reading), open().next().is_none());
        prop_assert_eq!(field.committed(), open().next().map_or(field.read, |tree| tree.first));
        Ok(())
    };
    let mut say = |field: &mut Field, told: &mut Vec<Told>, unsaid: &mut Vec<Ack>| {
        let at = chance.draw() % unsaid.len() as u64;
        let ack = unsaid.swap_remove(usize::try_from(at).unwrap());
        field.apply(&[ack]);
        told.iter_mut().find(|tree| tree.root == ack.root).unwrap().unsaid -= 1;
    };
    for (shapes, has_more, said) in polls {
        let offset = Offset { position: at(field.read), skip: 0 };
        let mut planting = Planting::fresh(&mut field.ledger, field.reading, offset, None);
        for shape in shapes {
            let Fate::Planted(root) = planting.next() else { panic!("it is meant") };
            let (acks, owed) = sayings(shape, root, &mut field.ids);
            planting.owe(owed);
            if told.last().is_none_or(|tree| tree.root != root) {
                told.push(Told { first: field.read, root, events: 0, unsaid: 0 });
            }
            let tree = told.last_mut().unwrap();
            (tree.events, tree.unsaid) = (tree.events + 1, tree.unsaid + acks.len());
            unsaid.extend(acks);
            field.read += 1;
        }
        planting.end(at(field.read), *has_more);
        let is_short = |tree: &&Told| tree.events < u64::from(granularity);
        // One that was cut does not grow again.
        let may_grow = |tree: &&Told| *has_more && (!shapes.is_empty() || grew == Some(tree.root));
        let grows = told.last().filter(is_short).filter(may_grow).map(|tree| tree.root);
        grew = grows;
        check(&field, &told, grows)?;
        for _ in 0..unsaid.len().min(usize::from(*said)) {
            say(&mut field, &mut told, &mut unsaid);
            check(&field, &told, grows)?;
        }
    }
    field.ledger.end_reading(field.reading);
    while !unsaid.is_empty() {
        check(&field, &told, None)?;
        say(&mut field, &mut told, &mut unsaid);
    }
    field.assert_is_over();
    prop_assert_eq!(field.ledger.tally.completed, told.len() as u64);
    Ok(())
}

/// What happens to a partition.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// So many events are read, and perhaps there are more.
    Poll(u64, bool),
    /// So much is said of trees.
    Say(u64),
    /// So much is said of attempts that were given up.
    SayLate(u64),
    /// A tree is given up; if none, all.
    Fail(Option<Index>, Failure),
    /// Time passes, in milliseconds.
    Pass(u64),
    /// So many events are read again.
    Again(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let why = || prop::sample::select(&Failure::ALL[..]);
    prop_oneof![
        3 => (0..12_u64, any::<bool>()).prop_map(|(events, more)| Step::Poll(events, more)),
        4 => (1..12_u64).prop_map(Step::Say),
        1 => (1..12_u64).prop_map(Step::SayLate),
        3 => (any::<Index>(), why()).prop_map(|(tree, why)| Step::Fail(Some(tree), why)),
        1 => why().prop_map(|why| Step::Fail(None, why)),
        2 => (0..500_u64).prop_map(Step::Pass),
        4 => (1..12_u64).prop_map(Step::Again),
    ]
}

/// A tree, and the attempt at hand.
#[derive(Debug, Default)]
struct Tried {
    events: u64,
    root: u64,
    /// Events that were read for this attempt, and what has not been said of them.
    read: u64,
    unsaid: Vec<Ack>,
}

impl Tried {
    fn is_complete(&self) -> bool {
        self.read == self.events && self.unsaid.is_empty()
    }
}

/// A partition of which trees are given up and read again.
struct Trial {
    field: Field,
    chance: EdgeIds,
    /// By their first event.
    trees: BTreeMap<u64, Tried>,
    late: Vec<Ack>,
    again: VecDeque<(Replay, (u64, Option<Growing>))>,
}

impl Trial {
    fn pick(&mut self, count: usize) -> usize {
        usize::try_from(self.chance.draw() % count as u64).unwrap()
    }

    fn note(&mut self, first: u64, ack: Ack) {
        let tree = self.trees.entry(first).or_default();
        tree.root = ack.root;
        tree.read += 1;
        tree.unsaid.push(ack);
    }

    fn poll(&mut self, events: u64, has_more: bool) {
        let first = self.field.read;
        for (number, ack) in (first..).zip(self.field.poll(events, has_more)) {
            let last = self.trees.iter().next_back().filter(|(_, tree)| tree.root == ack.root);
            let first = last.map_or(number, |(&first, _)| first);
            self.note(first, ack);
            self.trees.get_mut(&first).unwrap().events += 1;
        }
    }

    /// Says something of a tree; whether there was anything left to say.
    fn say(&mut self) -> bool {
        let open = self.trees.iter().filter(|(_, tree)| !tree.unsaid.is_empty());
        let open: Vec<u64> = open.map(|(&first, _)| first).collect();
        if open.is_empty() {
            return false;
        }
        let tree = open[self.pick(open.len())];
        let which = self.pick(self.trees[&tree].unsaid.len());
        let ack = self.trees.get_mut(&tree).unwrap().unsaid.swap_remove(which);
        self.field.apply(&[ack]);
        true
    }

    fn say_late(&mut self) {
        if !self.late.is_empty() {
            let (which, before) = (self.pick(self.late.len()), self.field.state());
            let ack = self.late[which];
            self.field.apply(&[ack]);
            assert_eq!(self.field.state(), before);
        }
    }

    /// Trees that were pending have been given up. One that only waited for more has got all of it, if another of
    /// its portion was given up before it.
    fn gave_up(&mut self, pending: &BTreeSet<u64>) {
        let granularity = self.field.ledger.granularity();
        let waits = |first: u64| {
            self.field.ledger.portions.iter().any(|portion| {
                let waits = portion.retries.iter().filter(|(_, retry)| retry.due.is_some());
                let mut starts =
                    waits.map(|(&tree, _)| portion.start.offset + u64::from(tree) * granularity);
                starts.any(|start| start == first)
            })
        };
        for (&first, tree) in &mut self.trees {
            if pending.contains(&tree.root) && (!tree.unsaid.is_empty() || waits(first)) {
                (tree.read, tree.root) = (0, 0);
                self.late.append(&mut tree.unsaid);
            }
        }
    }

    /// Reads again what is due, so many events of it; whether there was anything.
    fn read_again(&mut self, events: u64) -> bool {
        self.again.extend(self.field.ledger.replay().map(|replay| (replay, (0, None))));
        let Some((replay, seen)) = self.again.pop_front() else { return false };
        let mut buried = Vec::new();
        let Field { ledger, ids, .. } = &mut self.field;
        let mut planting = Planting::again(ledger, &replay, seen, &mut buried);
        let mut planted = Vec::new();
        for event in (seen.0..replay.events).take(usize::try_from(events).unwrap()) {
            if let Fate::Planted(root) = planting.next() {
                let edges = ids.draw();
                planting.owe(edges);
                planted.push((replay.start.offset + event, Ack { root, edges }));
            }
        }
        let seen = planting.end_again(replay.events);
        for (number, ack) in planted {
            let (&first, tree) = self.trees.range(..=number).next_back().unwrap();
            assert_eq!(number, first + tree.read, "all of a tree is read again, in order");
            self.note(first, ack);
        }
        if seen.0 < replay.events {
            self.again.push_front((replay, seen));
        }
        true
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Poll(events, has_more) => self.poll(events, has_more),
            Step::Say(count) => {
                let _ = (0..count).all(|_| self.say());
            }
            Step::SayLate(count) => (0..count).for_each(|_| self.say_late()),
            Step::Fail(Some(which), why) if !self.trees.is_empty() => {
                let tree = self.trees.values().nth(which.index(self.trees.len())).unwrap();
                let root = tree.root;
                let pending = self.field.pending().into_iter().filter(|known| *known == root);
                let pending = pending.collect();
                self.field.ledger.fail(root, why);
                self.gave_up(&pending);
            }
            Step::Fail(Some(_), _) => {}
            Step::Fail(None, why) => {
                let pending = self.field.pending();
                self.field.ledger.fail_all(why);
                self.gave_up(&pending);
            }
            Step::Pass(millis) => self.field.pass(Duration::from_millis(millis)),
            Step::Again(events) => {
                self.read_again(events);
            }
        }
    }

    /// No tree is taken for complete that is not.
    fn check(&self, before: u64) -> Result<(), TestCaseError> {
        let (pending, committed) = (self.field.pending(), self.field.committed());
        let tries = self.trees.values().filter(|tree| !tree.unsaid.is_empty());
        for tree in tries {
            prop_assert!(pending.contains(&tree.root), "{:?}", tree);
        }
        if let Some((first, tree)) = self.trees.iter().find(|(_, tree)| !tree.is_complete()) {
            prop_assert!(committed <= *first, "{} of {}: {:?}", committed, first, tree);
            prop_assert!(!self.field.ledger.is_settled(self.field.reading));
        }
        prop_assert!(before <= committed && committed <= self.field.read);
        Ok(())
    }
}

/// Trees are given up and read again, in parts and several times, and what is said of former attempts comes late.
fn check_replays(granularity: u32, steps: &[Step], seed: u64) -> Result<(), TestCaseError> {
    let field = Field::new(AckPlan { attempts: u32::MAX, ..plan(granularity) });
    let (trees, late, again) = Default::default();
    let mut trial = Trial { field, chance: EdgeIds::new(seed), trees, late, again };
    for &step in steps {
        let before = trial.field.committed();
        trial.step(step);
        trial.check(before)?;
    }
    trial.field.ledger.end_reading(trial.field.reading);
    trial.field.pass(BACK_OFF_MAX);
    while trial.read_again(u64::MAX) {}
    while trial.trees.values().any(|tree| !tree.is_complete()) {
        let before = trial.field.committed();
        prop_assert!(trial.say(), "{:?}", trial.trees);
        trial.check(before)?;
    }
    trial.field.assert_is_over();
    prop_assert_eq!(trial.field.ledger.tally.completed, trial.trees.len() as u64);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_tree_is_complete_when_all_was_said_of_it_and_not_before(
        granularity in prop::sample::select(vec![1, 3, 64]),
        polls in prop::collection::vec(
            (prop::collection::vec(shape(), 0..20), any::<bool>(), 0..40_u8), 1..12,
        ),
        seed: u64,
    ) {
        check_completion(granularity, &polls, seed)?;
    }

    #[test]
    fn what_is_given_up_is_read_again_and_not_committed_before(
        granularity in prop::sample::select(vec![1, 3, 64]),
        steps in prop::collection::vec(step(), 1..60),
        seed: u64,
    ) {
        check_replays(granularity, &steps, seed)?;
    }
}

#[test]
fn what_is_said_too_late_or_twice_or_of_no_tree_changes_nothing() {
    let mut field = Field::new(plan(1));
    let acks = field.poll(5, false);
    field.apply(&[acks[0], acks[3]]);
    field.ledger.fail(acks[2].root, Failure::Failed);
    let number = |number: u64| field.ledger.root(number);
    let strange = [
        number(5),
        number(6),
        number(1 << 20),
        number(Root::SEQUENCES - 1),
        number(Root::SEQUENCES / 2),
    ];
    let before = field.state();
    // Complete and off the front, complete behind one that is not, given up, never planted.
    for root in [acks[0].root, acks[3].root, acks[2].root].into_iter().chain(strange) {
        for edges in [acks[0].edges, acks[2].edges, acks[3].edges, 1, GROWING] {
            field.apply(&[Ack { root, edges }]);
            assert_eq!(field.state(), before, "{root:x}");
        }
        field.ledger.fail(root, Failure::Failed);
        assert_eq!(field.state(), before, "{root:x}");
    }
    // Read again, it has another name, and what was said of the first attempt is not said of it.
    field.pass(BACK_OFF);
    let again = field.replayed();
    let before = field.state();
    field.apply(&[acks[2]]);
    field.ledger.fail(acks[2].root, Failure::Failed);
    assert_eq!(field.state(), before);
    field.apply(&[acks[1], acks[4], again]);
    field.assert_is_over();
}

#[test]
fn what_another_container_planted_is_not_failed_here() {
    let mut field = Field::new(plan(1));
    let [ack] = field.poll(1, false)[..] else { panic!("one was read") };
    let before = field.state();
    for (member, container) in [(MEMBER + 1, CONTAINER), (MEMBER, CONTAINER + 1)] {
        let root = Root { member, container, sequence: Root::unpack(ack.root).sequence }.pack();
        assert!(!field.ledger.owns(root));
        field.ledger.fail(root, Failure::Failed);
        assert_eq!(field.state(), before);
    }
    assert!(field.ledger.owns(ack.root));
}

#[test]
fn a_tree_is_read_again_after_a_while_that_doubles_up_to_a_limit() {
    let mut field = Field::new(AckPlan { attempts: 20, ..plan(1) });
    let mut acks = field.poll(3, false);
    let mut waits = Vec::new();
    for attempt in 1..=10 {
        field.ledger.fail(acks[1].root, Failure::Panicked);
        let wait = field.next_due().expect("it is due") - field.now;
        waits.push(wait);
        field.pass(wait - Duration::from_nanos(1));
        assert_eq!(field.ledger.replay(), None);
        field.pass(Duration::from_nanos(1));
        let replay = field.ledger.replay().expect("it is due now");
        assert_eq!((replay.start, replay.events), (at(0), 3));
        assert_eq!(replay.trees, [(1, None)]);
        assert_eq!(field.ledger.replay(), None, "it is read again once");
        let (fates, again, _) = field.again(&replay);
        assert_eq!([&fates[0], &fates[2]], [&Fate::LeftOut; 2]);
        acks[1] = again[0];
        let oldest = field.ledger.oldest(9);
        let shown = oldest.iter().find(|tree| tree.root == acks[1].root).unwrap();
        assert_eq!((shown.attempts, shown.why), (attempt, Some(Failure::Panicked)));
        assert_eq!(number_of(shown.offset), 1);
        assert_eq!(field.committed(), 0);
    }
    let expected = [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000];
    assert_eq!(waits, expected.map(Duration::from_millis));
    assert_eq!((field.failed(Failure::Panicked), field.ledger.tally.replays), (10, 10));
    field.apply(&acks);
    field.assert_is_over();
}

/// Also behind a portion of which all that was due has been given already.
#[test]
fn all_that_is_due_is_given_at_once() {
    let mut field = Field::new(plan(1));
    let first = field.poll(2, false);
    field.ledger.fail(first[0].root, Failure::Failed);
    field.pass(BACK_OFF / 2);
    field.ledger.fail(first[1].root, Failure::Failed);
    // The next event is of another portion.
    let second = field.poll(1, false);
    field.pass(BACK_OFF / 4);
    field.ledger.fail(second[0].root, Failure::Failed);
    assert_eq!(field.ledger.due.len(), 3);
    field.pass(2 * BACK_OFF);
    let all: Vec<_> = std::iter::from_fn(|| field.ledger.replay()).collect();
    let given: Vec<_> =
        all.iter().map(|replay| (replay.start.offset, replay.trees.len())).collect();
    assert_eq!(given, [(0, 2), (2, 1)]);
}

/// A reader that reads again may take several polls for a tree, and what is left of it belongs to nothing once it was
/// given up: else that would be taken for the whole tree.
#[test]
fn a_tree_that_is_given_up_while_it_is_read_again_is_not_begun_in_its_middle() {
    let mut field = Field::new(plan(8));
    field.poll(12, false);
    field.ledger.fail_all(Failure::NodeLost);
    let replay = field.ledger.replay().expect("it is due at once");
    let (mut seen, mut fates, mut acks, mut buried) = ((0, None), vec![], vec![], vec![]);
    for _ in 0..6 {
        let mut planting = Planting::again(&mut field.ledger, &replay, seen, &mut buried);
        for _ in 0..2 {
            fates.push(planting.next());
            if let Some(&Fate::Planted(root)) = fates.last() {
                planting.owe(root + 1);
                acks.push(Ack { root, edges: root + 1 });
            }
        }
        seen = planting.end_again(replay.events);
        if fates.len() == 2 {
            field.ledger.fail(acks[0].root, Failure::NodeLost);
        }
    }
    assert_eq!(fates[2..8], [Fate::LeftOut; 6]);
    assert_eq!(acks.len(), 6, "{fates:?}");
    field.apply(&acks[2..]);
    assert_eq!((field.committed(), field.ledger.open()), (0, 1));
    let replay = field.ledger.replay().expect("it is due at once");
    assert_eq!(replay.trees, [(0, None)]);
    let (_, acks, _) = field.again(&replay);
    assert_eq!(acks.len(), 8);
    field.apply(&acks);
    field.assert_is_over();
}

#[test]
fn a_tree_that_was_tried_often_enough_is_a_dead_letter() {
    let mut field = Field::new(AckPlan { attempts: 3, ..plan(1) });
    let acks = field.poll(2, false);
    let mut root = acks[0].root;
    // A lost node is not the fault of the tree.
    let fails = [
        Failure::NodeLost,
        Failure::Failed,
        Failure::Vanished,
        Failure::Panicked,
        Failure::NodeLost,
        Failure::Vanished,
    ];
    for why in fails {
        field.ledger.fail(root, why);
        if !why.counts() {
            assert_eq!(field.next_due(), Some(field.now), "it need not wait");
        }
        field.pass(BACK_OFF_MAX);
        root = field.replayed().root;
    }
    field.ledger.fail(root, Failure::SinkFailed);
    field.pass(BACK_OFF_MAX);
    let replay = field.ledger.replay().expect("it is due");
    assert_eq!(replay.trees, [(0, Some((Failure::SinkFailed, 3)))]);
    let (fates, acked, buried) = field.again(&replay);
    assert_eq!((fates, acked), (vec![Fate::Dead, Fate::LeftOut], vec![]));
    let [letter] = &buried[..] else { panic!("one is buried") };
    assert_eq!((letter.tree, letter.why, letter.attempts), (0, Failure::SinkFailed, 3));
    assert_eq!(field.ledger.tally.replays, 6);

    // What is committed goes by it once it is buried.
    assert_eq!((field.committed(), field.ledger.open()), (0, 2));
    field.ledger.bury(replay.portion, [0].into_iter());
    assert_eq!((field.committed(), field.ledger.open()), (1, 1));
    field.apply(&acks[1..]);
    field.assert_is_over();
    assert_eq!(field.ledger.tally.completed, 1, "a dead letter is not complete");
}

#[test]
fn without_younger_trees_that_are_completed_nobody_ages() {
    let mut field = Field::new(plan(1));
    let mut acks = field.poll(200, false);
    let stuck = acks.split_off(150);
    for step in 0..HOUR.as_millis() / TICK.as_millis() {
        // Older ones are completed, now and then.
        if step % 60 == 0 && !acks.is_empty() {
            field.apply(&[acks.remove(0)]);
        }
        field.tick(false);
    }
    assert_eq!(field.ledger.tally.failed, [0; Failure::ALL.len()]);
    assert_eq!(field.pending(), stuck.iter().map(|ack| ack.root).collect());
}

#[test]
fn while_the_spout_is_held_back_nobody_ages() {
    let ticks = HOUR.as_millis() / TICK.as_millis();
    let mut field = Field::new(plan(1));
    let stuck = field.poll(1, false);
    for _ in 0..ticks {
        let acks = field.poll(1, false);
        field.apply(&acks);
        field.tick(true);
    }
    // To be held back for a moment between two ticks is enough.
    for _ in 0..ticks {
        let acks = field.poll(1, false);
        field.apply(&acks);
        field.pass(TICK / 2);
        field.ledger.tick(true);
        field.pass(TICK / 2);
        field.ledger.tick(false);
    }
    assert_eq!(field.ledger.tally.failed, [0; Failure::ALL.len()]);
    field.apply(&stuck);
    field.assert_is_over();
}

/// It is held back by what is pending as well.
#[test]
fn while_no_more_may_be_planted_nobody_ages() {
    let mut field = Field::new(AckPlan { max_pending: 2, ..plan(1) });
    let stuck = field.poll(1, false);
    for _ in 0..HOUR.as_millis() / TICK.as_millis() {
        let acks = field.poll(1, false);
        assert!(!field.ledger.may_plant());
        field.ledger.tick(false);
        field.apply(&acks);
        assert!(field.ledger.may_plant());
        field.tick(false);
    }
    assert_eq!(field.ledger.tally.failed, [0; Failure::ALL.len()]);
    field.apply(&stuck);
    field.assert_is_over();
}

/// How long it takes until a tree is given up while younger ones are completed; a half of it is acked after `heard`.
fn time_until_given_up(field: &mut Field, heard: Option<Duration>) -> Duration {
    let (begin, mut heard) = (field.now, heard);
    let [stuck] = field.poll(1, false)[..] else { panic!("one was read") };
    while field.pending().contains(&stuck.root) {
        assert!(field.now - begin < HOUR, "it is never given up");
        let acks = field.poll(3, false);
        field.apply(&acks);
        if heard.take_if(|heard| *heard <= field.now - begin).is_some() {
            field.apply(&[Ack { root: stuck.root, edges: 1 }]);
        }
        field.tick(false);
    }
    field.now - begin
}

#[test]
fn a_tree_by_which_younger_ones_go_is_given_up_in_the_end() {
    for timeout in [Duration::from_secs(1), Duration::from_secs(30), Duration::from_secs(600)] {
        let mut field = Field::new(AckPlan { timeout, ..plan(1) });
        let took = time_until_given_up(&mut field, None);
        assert!(timeout <= took && took <= timeout + 2 * TICK, "{timeout:?}: {took:?}");
        assert_eq!((field.failed(Failure::NoProgress), field.pending().len()), (1, 0));
        assert_eq!(field.committed(), 0);

        // Whatever is heard of it begins its time anew.
        let took = time_until_given_up(&mut field, Some(timeout / 2));
        let expected = timeout + timeout / 2;
        assert!(expected <= took && took <= expected + 3 * TICK, "{timeout:?}: {took:?}");
        assert_eq!(field.failed(Failure::NoProgress), 2);
    }
}

#[test]
fn by_a_new_name_nothing_of_the_old_one_is_found() {
    let mut field = Field::new(plan(3));
    // The last tree still grows.
    let acks = field.poll(8, true);
    let before = field.state();
    assert!(!field.ledger.name(MEMBER, CONTAINER));
    assert_eq!(field.state(), before);

    assert!(field.ledger.name(MEMBER + 1, CONTAINER));
    assert_eq!((field.failed(Failure::NodeLost), field.pending().len()), (3, 0));
    let before = field.state();
    for &ack in &acks {
        assert!(!field.ledger.owns(ack.root));
        field.apply(&[ack]);
        field.ledger.fail(ack.root, Failure::Failed);
    }
    assert_eq!((field.state(), field.committed()), (before, 0));

    let replay = field.ledger.replay().expect("it is due at once");
    assert_eq!(replay.trees, [(0, None), (1, None), (2, None)]);
    let (_, again, _) = field.again(&replay);
    assert!(again.iter().all(|ack| field.ledger.owns(ack.root)));
    let mut before = field.state();
    field.apply(&acks);
    assert_eq!(field.state(), before);
    // Another portion has what follows.
    let more = field.poll(1, false);
    field.apply(&again);
    assert_eq!(field.committed(), 8);
    before = field.state();
    field.apply(&acks);
    assert_eq!(field.state(), before);
    field.apply(&more);
    field.assert_is_over();
}

#[test]
fn a_pending_tree_takes_48_bytes_at_most_and_gives_them_back() {
    /// What is not given back, so that it need not be asked for again and again.
    const KEPT: usize = 80_000;
    let mut field = Field::new(plan(1));
    for floor in [0, KEPT] {
        let mut acks = Vec::new();
        while acks.len() < 100_000 {
            acks.extend(field.poll(20, false));
            let (bytes, trees) = (field.ledger.bytes(), acks.len());
            let most = floor.max(48 * trees);
            assert!(trees < 100 || bytes <= most, "{bytes} bytes of {trees} trees");
        }
        assert_eq!(field.ledger.pending, 100_000);
        assert!(field.ledger.bytes() >= 100_000 * size_of::<Tree>());
        // From the last to the first, so that all lie there to the end.
        let (first, later) = acks.split_first().unwrap();
        later.iter().rev().for_each(|&ack| field.ledger.apply(ack));
        field.apply(&[*first]);
        field.assert_is_over();
        assert!(field.ledger.bytes() <= KEPT, "{}", field.ledger.bytes());
        assert_eq!(field.ledger.readings[0].as_ref().unwrap().portions.len(), 1);
    }
    let tally = field.ledger.tally;
    assert_eq!((tally.completed, tally.peak), (200_000, 100_000));
    assert!(tally.bytes_peak <= 48 * 100_000);
}

#[test]
fn when_nothing_is_on_its_way_only_what_was_there_before_is_given_up() {
    let mut field = Field::new(plan(1));
    let old = field.poll(3, false);
    field.apply(&old[1..2]);
    field.ledger.nothing_is_on_its_way();
    field.ledger.asked();
    let middle = field.poll(2, false);
    // Only one has asked, and what it was told may be older than that.
    field.ledger.nothing_is_on_its_way();
    assert_eq!(field.ledger.tally.failed, [0; Failure::ALL.len()]);
    field.ledger.asked();
    let young = field.poll(2, false);
    field.ledger.nothing_is_on_its_way();
    assert_eq!(field.failed(Failure::Vanished), 2);
    let left: BTreeSet<_> = middle.iter().chain(&young).map(|ack| ack.root).collect();
    assert_eq!(field.pending(), left);
    let replay = field.ledger.replay().expect("it is due at once");
    assert_eq!(replay.trees, [(0, None), (2, None)]);
    let (_, again, _) = field.again(&replay);

    field.ledger.asked();
    field.ledger.nothing_is_on_its_way();
    assert_eq!(field.failed(Failure::Vanished), 4);
    let left: BTreeSet<_> = young.iter().chain(&again).map(|ack| ack.root).collect();
    assert_eq!(field.pending(), left);
}

#[test]
fn of_a_partition_that_is_closed_nothing_is_left() {
    let mut field = Field::new(plan(1));
    let gone = field.poll(5, false);
    let (one, other) = (field.reading, field.ledger.open_reading(1, at(70)));
    (field.reading, field.read) = (other, 70);
    let stays = field.poll(4, false);
    assert_eq!((field.ledger.spout_of(one), field.ledger.spout_of(other)), (Some(0), Some(1)));
    // One is complete behind others, one waits to be read again, one is pending a second time.
    field.apply(&gone[1..2]);
    field.ledger.fail(gone[2].root, Failure::NodeLost);
    let again = field.replayed();
    field.ledger.fail(gone[3].root, Failure::Failed);
    field.apply(&stays[1..2]);
    assert_eq!((field.pending().len(), field.ledger.open()), (6, 9));

    field.ledger.close_reading(one);
    let left = || [&stays[0], &stays[2], &stays[3]].iter().map(|ack| ack.root).collect();
    assert_eq!(field.pending(), left());
    assert_eq!((field.ledger.open(), field.committed()), (4, 70));
    assert_eq!((field.ledger.spout_of(one), field.next_due()), (None, None));
    assert_eq!(field.ledger.committed(one), Offset::default());
    assert!(field.ledger.is_settled(one) && !field.ledger.is_settled(other));
    let before = field.state();
    field.apply(&gone);
    field.apply(&[again]);
    gone.iter().for_each(|ack| field.ledger.fail(ack.root, Failure::Failed));
    field.ledger.close_reading(one);
    field.ledger.end_reading(one);
    assert_eq!(field.state(), before);
    field.pass(BACK_OFF_MAX);
    assert_eq!(field.ledger.replay(), None);
    field.ledger.fail_all(Failure::NodeLost);
    assert_eq!(field.failed(Failure::NodeLost), 4, "one before, and three now");
    let replay = field.ledger.replay().expect("it is due at once");
    assert_eq!((replay.reading, replay.start, replay.trees.len()), (other, at(70), 3));

    // What comes after it takes its place, and nothing else of it.
    let (_, acks, _) = field.again(&replay);
    let third = field.ledger.open_reading(2, at(500));
    (field.reading, field.read) = (third, 500);
    assert_eq!((third, field.committed()), (one, 500));
    let fresh = field.poll(2, false);
    field.apply(&gone);
    field.apply(&acks);
    field.apply(&fresh[..1]);
    assert_eq!((field.committed(), number_of(field.ledger.committed(other))), (501, 74));
    field.apply(&fresh[1..]);
    field.assert_is_over();
}

#[test]
fn what_is_left_out_at_the_start_is_committed_and_not_planted() {
    let mut field = Field::new(plan(3));
    let offset = Offset { position: at(10), skip: 6 };
    let reading = field.ledger.open_reading(0, offset.position);
    let mut acks = Vec::new();
    let mut poll = |ledger: &mut Ledger, events: u64, end: u64| {
        let mut planting = Planting::fresh(ledger, reading, offset, None);
        for _ in 0..events {
            if let Fate::Planted(root) = planting.next() {
                planting.owe(root + 1);
                acks.push(Ack { root, edges: root + 1 });
            }
        }
        planting.end(at(end), false)
    };
    // All of it is of one portion, whatever is read at a time.
    assert_eq!(poll(&mut field.ledger, 4, 14), 4);
    assert_eq!(poll(&mut field.ledger, 9, 23), 13);
    let roots: BTreeSet<_> = acks.iter().map(|ack| ack.root).collect();
    assert_eq!((acks.len(), roots.len()), (7, 3));
    assert_eq!(field.ledger.committed(reading), offset);
    // A tree that is read again begins as many events behind the start.
    field.ledger.fail(acks[0].root, Failure::NodeLost);
    let replay = field.ledger.replay().expect("it is due at once");
    assert_eq!((replay.start, &replay.trees[..]), (at(10), &[(2, None)][..]));
    let (fates, again, _) = field.again(&replay);
    let planted = fates.iter().map(|fate| matches!(fate, Fate::Planted(_)));
    let planted: Vec<_> = (0..).zip(planted).filter(|(_, is)| *is).map(|(at, _)| at).collect();
    assert_eq!(planted, [6, 7, 8]);
    acks.drain(..3);
    acks.extend(again);
    field.apply(&acks);
    assert_eq!(number_of(field.ledger.committed(reading)), 23);
    assert!(field.ledger.is_settled(reading) && field.pending().is_empty());
}
