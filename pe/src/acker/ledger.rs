//! The ledger of a container: the trees of one topology that were planted here and are not complete.
//!
//! Trees are numbered in the order in which they are planted, so the ledger is a window of numbers and no
//! map: sixteen bytes a tree. An attempt has a number of its own, so what is said of a former one finds
//! nothing.
//!
//! **Given up on evidence.** A tree is read again when a handler gave it up or panicked, when a node is
//! gone that may have had a part of it, when a link is lost, or when nothing is on its way any more in the
//! whole cluster. The clock is the last resort: a tree ages only while its spout is free to go on *and*
//! younger trees are completed, for then nothing before it is slow. A slow consumer ages nobody, since
//! then nothing younger is completed or the spout is held back.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use membership::Time;
use routing::{Ack, Root};

use super::planting::Growing;
use super::portion::{Portion, Reading, Retry};
use super::{Failure, Offset};
use crate::Position;
use crate::topology::AckPlan;

/// How often trees age.
const TICK: Duration = Duration::from_millis(250);
/// Before a tree is read again for the first time, and at most.
const BACK_OFF: Duration = Duration::from_millis(100);
const BACK_OFF_MAX: Duration = Duration::from_secs(10);
/// A window of so many numbers takes no more: some tree near its start is stuck, and all behind are kept.
const WINDOW_MAX: usize = 1 << 20;
/// A portion takes no more trees: so many are left out, at most, when one of them is read again.
const TREES_MAX: u64 = 1024;
/// The last number of a tree in its portion; events behind it are of that tree, too.
pub(super) const LAST_TREE: u16 = u16::MAX;
/// The portion of a tree that was given up.
const GONE: u32 = u32::MAX;
/// Keeps a tree from being complete while it grows.
const GROWING: u64 = 0x5bd1_e995_9d1b_8f4b;

/// A tree.
#[derive(Clone, Copy, Debug)]
struct Tree {
    /// What is owed, `XORed`; zero when it is complete.
    owed: u64,
    portion: u32,
    /// Its place in the portion.
    tree: u16,
    /// Ticks without progress.
    age: u16,
}

/// The trees of one topology that were planted in one container.
#[derive(Debug)]
pub(crate) struct Ledger {
    plan: AckPlan,
    /// What all names of trees begin with.
    owner: Root,
    /// The number of the first of the window.
    first: u64,
    window: VecDeque<Tree>,
    /// Trees that are not complete, and were not given up.
    pending: usize,
    readings: Vec<Option<Reading>>,
    portions: Vec<Portion>,
    free: Vec<u32>,
    /// Portions with trees that are due.
    due: BTreeSet<(Time, u32)>,
    now: Time,
    next_tick: Time,
    /// Whether the spouts were held back since the last tick.
    was_held: bool,
    /// The youngest tree that was completed since then.
    youngest: Option<u64>,
    /// Numbers below were planted before the last, and the one before it, that somebody asked.
    asked: [u64; 2],
    pub(crate) tally: AckTally,
}

/// What a ledger counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AckTally {
    pub(crate) completed: u64,
    pub(crate) replays: u64,
    pub(crate) peak: u64,
    pub(crate) bytes_peak: u64,
    pub(crate) failed: [u64; Failure::ALL.len()],
}

/// Trees to be read again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replay {
    pub(crate) portion: u32,
    pub(crate) reading: u32,
    /// Where to open the spout.
    pub(crate) start: Position,
    /// How many events there are from there on.
    pub(crate) events: u64,
    /// Which of its trees, in order; of those that were tried often enough, why they failed and how often.
    pub(crate) trees: Vec<(u16, Option<(Failure, u32)>)>,
}

/// A tree that is not complete, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) root: u64,
    pub(crate) reading: u32,
    pub(crate) offset: Offset,
    pub(crate) attempts: u32,
    pub(crate) why: Option<Failure>,
    pub(crate) age: Duration,
}

impl Ledger {
    pub(crate) fn new(plan: AckPlan) -> Self {
        Self {
            plan,
            owner: Root { member: 0, container: 0, sequence: 0 },
            first: 0,
            window: VecDeque::new(),
            pending: 0,
            readings: Vec::new(),
            portions: Vec::new(),
            free: Vec::new(),
            due: BTreeSet::new(),
            now: Time::default(),
            next_tick: Time::default(),
            was_held: false,
            youngest: None,
            asked: [0; 2],
            tally: AckTally::default(),
        }
    }

    /// How many events of a spout make a tree.
    pub(crate) fn granularity(&self) -> u64 {
        u64::from(self.plan.granularity)
    }

    /// The time from now on.
    pub(crate) fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// What the trees of this container are named by from now on; whether that is another name. Those with the
    /// old one are given up: nobody would find us by it.
    pub(crate) fn name(&mut self, member: u16, container: u16) -> bool {
        let owner = Root { member, container, sequence: 0 };
        let is_new = self.owner != owner;
        if is_new {
            self.fail_all(Failure::NodeLost);
            self.owner = owner;
        }
        is_new
    }

    /// What all names of trees planted here begin with.
    pub(crate) fn owner(&self) -> u64 {
        self.owner.pack() >> Root::OWNER_SHIFT
    }

    /// Whether a tree was planted here.
    #[inline(always)]
    pub(crate) fn owns(&self, root: u64) -> bool {
        root >> Root::OWNER_SHIFT == self.owner()
    }

    /// Whether another tree may be planted, other than one that was given up.
    pub(crate) fn may_plant(&self) -> bool {
        self.pending < self.plan.max_pending as usize && self.window.len() < WINDOW_MAX
    }

    /// How many trees are not complete; those that wait to be read again included.
    pub(crate) fn open(&self) -> u64 {
        self.portions.iter().map(|portion| u64::from(portion.open)).sum()
    }

    /// Bytes of what is kept of trees.
    pub(crate) fn bytes(&self) -> usize {
        self.window.capacity() * size_of::<Tree>()
            + self.portions.capacity() * size_of::<Portion>()
            + self.free.capacity() * size_of::<u32>()
    }

    /// A partition is read here from now on.
    pub(crate) fn open_reading(&mut self, spout: u16, end: Position) -> u32 {
        let reading = Reading { spout, portions: VecDeque::new(), end };
        let at = self.readings.iter().position(Option::is_none).unwrap_or_else(|| {
            self.readings.push(None);
            self.readings.len() - 1
        });
        self.readings[at] = Some(reading);
        u32::try_from(at).expect("fewer partitions than 2^32")
    }

    /// Which spout a partition is of.
    pub(crate) fn spout_of(&self, reading: u32) -> Option<u16> {
        Some(self.readings.get(reading as usize)?.as_ref()?.spout)
    }

    /// A partition is read no more; what is pending of it is forgotten.
    pub(crate) fn close_reading(&mut self, reading: u32) {
        let Some(closed) = self.readings[reading as usize].take() else { return };
        for portion in closed.portions {
            for tree in self.window.iter_mut().filter(|tree| tree.portion == portion) {
                self.pending -= usize::from(tree.owed != 0);
                (tree.portion, tree.owed) = (GONE, 0);
            }
            self.due.retain(|(_, due)| *due != portion);
            self.portions[portion as usize] = Portion::default();
            self.free.push(portion);
        }
        self.trim();
    }

    /// The portion that a partition is read into next; it begins at `start` unless the last may grow.
    pub(super) fn portion(&mut self, reading: u32, start: Position) -> u32 {
        let known = self.readings[reading as usize].as_mut().expect("it is read here");
        if let Some(&last) = known.portions.back()
            && self.portions[last as usize].is_growing
        {
            return last;
        }
        let portion = Portion { reading, start, is_growing: true, ..Portion::default() };
        let at = self.free.pop().unwrap_or_else(|| {
            self.portions.push(Portion::default());
            u32::try_from(self.portions.len() - 1).expect("no more than trees")
        });
        self.portions[at as usize] = portion;
        known.portions.push_back(at);
        at
    }

    pub(super) fn portion_mut(&mut self, portion: u32) -> &mut Portion {
        &mut self.portions[portion as usize]
    }

    /// A poll has ended.
    pub(super) fn end_portion(&mut self, portion: u32, end: Position, may_grow: bool) {
        let granularity = self.granularity();
        let of = &mut self.portions[portion as usize];
        let planted = u64::from(of.trees).saturating_sub(of.from / granularity);
        let is_open = of.events < of.from || of.growing.is_some();
        of.is_growing = is_open || may_grow && planted < TREES_MAX;
        let (reading, is_done) = (of.reading, of.open == 0 && !of.is_growing);
        self.readings[reading as usize].as_mut().expect("it is read here").end = end;
        if is_done {
            self.retire(reading);
        }
        self.tally.bytes_peak = self.tally.bytes_peak.max(self.bytes() as u64);
    }

    /// A partition is read on by nobody here: its last tree is whole.
    pub(crate) fn end_reading(&mut self, reading: u32) {
        let Some(Some(of)) = self.readings.get(reading as usize) else { return };
        let Some(&last) = of.portions.back() else { return };
        let portion = &mut self.portions[last as usize];
        portion.is_growing = false;
        if let Some((_, number)) = portion.growing.take() {
            self.close_tree(number);
        }
        self.retire(reading);
        self.trim();
    }

    /// Plants a tree; it grows until [`Ledger::close_tree`]. Gives its number.
    #[inline]
    pub(super) fn plant(&mut self, portion: u32, tree: u16) -> u64 {
        if self.window.len() == self.window.capacity() {
            self.widen();
        }
        self.window.push_back(Tree { owed: GROWING, portion, tree, age: 0 });
        self.pending += 1;
        self.tally.peak = self.tally.peak.max(self.pending as u64);
        self.first + self.window.len() as u64 - 1
    }

    /// Makes room for more trees: a quarter more at a time, since what stands empty counts as bytes a tree.
    #[cold]
    fn widen(&mut self) {
        self.window.reserve_exact((self.window.len() / 4).max(64));
    }

    /// The name of a tree.
    #[inline(always)]
    pub(super) fn root(&self, number: u64) -> u64 {
        self.owner.pack() | number & (Root::SEQUENCES - 1)
    }

    /// Whether a tree that was growing still is: it may have been given up.
    pub(super) fn is_growing(&self, portion: u32, (tree, number): Growing) -> bool {
        let at = number.checked_sub(self.first).and_then(|at| usize::try_from(at).ok());
        let known = at.and_then(|at| self.window.get(at));
        known.is_some_and(|known| (known.portion, known.tree) == (portion, tree))
    }

    /// More is owed to a tree that grows.
    #[inline(always)]
    pub(super) fn owe(&mut self, number: u64, edge: u64) {
        let at = usize::try_from(number - self.first).expect("a window is in memory");
        self.window[at].owed ^= edge;
    }

    /// A tree is whole.
    #[inline(always)]
    pub(super) fn close_tree(&mut self, number: u64) {
        self.pay(number, GROWING);
    }

    /// Takes what others say of trees; of those that are complete or given up already, nothing.
    pub(crate) fn apply(&mut self, ack: Ack) {
        let low = ack.root & (Root::SEQUENCES - 1);
        let distance = low.wrapping_sub(self.first) & (Root::SEQUENCES - 1);
        if distance < self.window.len() as u64 {
            self.pay(self.first + distance, ack.edges);
        }
    }

    fn pay(&mut self, number: u64, edges: u64) {
        let at = usize::try_from(number - self.first).expect("a window is in memory");
        let tree = &mut self.window[at];
        if tree.owed == 0 || tree.portion == GONE {
            return;
        }
        tree.owed ^= edges;
        tree.age = 0;
        if tree.owed == 0 {
            self.pending -= 1;
            self.youngest = self.youngest.max(Some(number));
        }
    }

    /// Takes what is complete off the front of the window.
    pub(crate) fn trim(&mut self) {
        while let Some(&Tree { owed: 0, portion, tree, .. }) = self.window.front() {
            self.window.pop_front();
            self.first += 1;
            if portion != GONE {
                self.complete(portion, tree);
            }
        }
        if self.window.is_empty() && self.window.capacity() > 1 << 12 {
            self.window.shrink_to(1 << 12);
        }
    }

    fn complete(&mut self, at: u32, tree: u16) {
        self.tally.completed += 1;
        let portion = &mut self.portions[at as usize];
        portion.open -= 1;
        if !portion.retries.is_empty() {
            portion.retries.remove(&tree);
        }
        if portion.done == u32::from(tree) {
            portion.done += 1;
        }
        if portion.open == 0 && !portion.is_growing {
            let reading = portion.reading;
            self.retire(reading);
        }
    }

    /// Forgets the portions at the front of a partition that are complete.
    fn retire(&mut self, reading: u32) {
        let Some(Some(of)) = self.readings.get_mut(reading as usize) else { return };
        while let Some(&first) = of.portions.front() {
            let portion = &mut self.portions[first as usize];
            if portion.open > 0 || portion.is_growing {
                return;
            }
            *portion = Portion::default();
            of.portions.pop_front();
            self.free.push(first);
        }
    }

    /// Gives a tree up: it is read again after a while.
    pub(crate) fn fail(&mut self, root: u64, why: Failure) {
        let low = root & (Root::SEQUENCES - 1);
        let distance = low.wrapping_sub(self.first) & (Root::SEQUENCES - 1);
        if self.owns(root) && distance < self.window.len() as u64 {
            self.give_up(usize::try_from(distance).expect("a window is in memory"), why);
            self.trim();
        }
    }

    /// Gives up all trees: a part of any may be lost.
    pub(crate) fn fail_all(&mut self, why: Failure) {
        (0..self.window.len()).for_each(|at| self.give_up(at, why));
        self.trim();
    }

    /// Nothing is on its way any more: what was planted before the last question but one, and is not
    /// complete, has lost something.
    pub(crate) fn nothing_is_on_its_way(&mut self) {
        let old = usize::try_from(self.asked[0].saturating_sub(self.first)).unwrap_or(usize::MAX);
        (0..old.min(self.window.len())).for_each(|at| self.give_up(at, Failure::Vanished));
        self.trim();
    }

    /// Somebody asks how things are.
    pub(crate) fn asked(&mut self) {
        self.asked = [self.asked[1], self.first + self.window.len() as u64];
    }

    fn give_up(&mut self, at: usize, why: Failure) {
        let Tree { owed, portion, tree, .. } = self.window[at];
        if owed == 0 || portion == GONE {
            return;
        }
        self.window[at] = Tree { owed: 0, portion: GONE, tree, age: 0 };
        self.pending -= 1;
        self.tally.failed[usize::from(why.number())] += 1;
        let of = &mut self.portions[portion as usize];
        of.is_growing = false;
        let growing = of.growing.take().filter(|(growing, _)| *growing != tree);
        let retry = of.retries.entry(tree).or_insert(Retry { attempts: 0, why, due: None });
        retry.why = why;
        let wait = if why.counts() {
            retry.attempts += 1;
            BACK_OFF_MAX.min(BACK_OFF * 2_u32.saturating_pow(retry.attempts - 1))
        } else {
            Duration::ZERO
        };
        let due = self.now + wait;
        retry.due = Some(due);
        self.due.insert((due, portion));
        // What follows is of another portion, so nothing more is added to the last of this one.
        if let Some((_, number)) = growing {
            self.close_tree(number);
        }
    }

    /// Trees of a portion that are to be read again now.
    pub(crate) fn replay(&mut self) -> Option<Replay> {
        let (now, most) = (self.now, self.plan.attempts);
        let mut trees = Vec::new();
        let mut portion = 0;
        // Of what was due since, all may have been given with the portion before.
        while trees.is_empty() {
            let &(at, next) = self.due.first().filter(|(at, _)| *at <= now)?;
            self.due.remove(&(at, next));
            portion = next;
            for (&tree, retry) in &mut self.portions[portion as usize].retries {
                if retry.due.take_if(|due| *due <= now).is_some() {
                    let is_last = retry.attempts >= most;
                    trees.push((tree, is_last.then_some((retry.why, retry.attempts))));
                }
            }
        }
        let of = &self.portions[portion as usize];
        if let Some(next) = of.retries.values().filter_map(|retry| retry.due).min() {
            self.due.insert((next, portion));
        }
        self.tally.replays += trees.iter().filter(|(_, dead)| dead.is_none()).count() as u64;
        let (reading, start, events) = (of.reading, of.start, of.events);
        Some(Replay { portion, reading, start, events, trees })
    }

    /// Trees were not read again, since they cannot be: they are done with.
    pub(crate) fn bury(&mut self, portion: u32, trees: impl Iterator<Item = u16>) {
        for tree in trees {
            self.complete(portion, tree);
            self.tally.completed -= 1;
        }
    }

    /// Where a partition is to be read on if all that is not complete was lost.
    pub(crate) fn committed(&self, reading: u32) -> Offset {
        let Some(Some(of)) = self.readings.get(reading as usize) else { return Offset::default() };
        let first = of.portions.iter().map(|&at| &self.portions[at as usize]);
        match first.clone().find(|portion| portion.open > 0) {
            Some(portion) => {
                let skip = u64::from(portion.done) * self.granularity();
                Offset { position: portion.start, skip }
            }
            None => Offset { position: of.end, skip: 0 },
        }
    }

    /// Whether all that was read of a partition is complete.
    pub(crate) fn is_settled(&self, reading: u32) -> bool {
        let Some(Some(of)) = self.readings.get(reading as usize) else { return true };
        of.portions.iter().all(|&at| self.portions[at as usize].open == 0)
    }

    /// Trees age; those that are too old are given up.
    pub(crate) fn tick(&mut self, is_held: bool) {
        self.was_held |= is_held || !self.may_plant();
        if self.now < self.next_tick {
            return;
        }
        self.next_tick = self.now + TICK;
        let was_held = std::mem::take(&mut self.was_held);
        let Some(youngest) = self.youngest.take().filter(|_| !was_held) else { return };
        let younger = usize::try_from(youngest.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let limit = self.plan.timeout.as_millis() / TICK.as_millis();
        let mut too_old = Vec::new();
        for (at, tree) in self.window.iter_mut().enumerate().take(younger) {
            tree.age = tree.age.saturating_add(1);
            if tree.owed != 0 && u128::from(tree.age) > limit {
                too_old.push(at);
            }
        }
        too_old.into_iter().for_each(|at| self.give_up(at, Failure::NoProgress));
        self.trim();
    }

    /// When [`Ledger::tick`] or [`Ledger::replay`] is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let tick = (self.pending > 0).then_some(self.next_tick);
        self.due.first().map(|(at, _)| *at).into_iter().chain(tick).min()
    }

    /// The trees that wait longest, for people.
    pub(crate) fn oldest(&self, most: usize) -> Vec<Pending> {
        let live = self.window.iter().enumerate().filter(|(_, tree)| tree.owed != 0);
        let shown = live.take(most).map(|(at, tree)| {
            let portion = &self.portions[tree.portion as usize];
            let retry = portion.retries.get(&tree.tree);
            Pending {
                root: self.root(self.first + at as u64),
                reading: portion.reading,
                offset: Offset {
                    position: portion.start,
                    skip: u64::from(tree.tree) * self.granularity(),
                },
                attempts: retry.map_or(0, |retry| retry.attempts),
                why: retry.map(|retry| retry.why),
                age: TICK * u32::from(tree.age),
            }
        });
        shown.collect()
    }
}

#[cfg(test)]
mod tests;
