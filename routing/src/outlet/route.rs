//! An edge at the side of its producer: its lanes, and how rows come to them.

use super::order::Order;
use super::picks::Picks;
use super::{Dropped, Excess, Lane, Passage, ROWS_MAX, Ready, Spread};
use crate::column::narrow;
use crate::{Batch, Columns, Event, Key, KeyFields, Owing, Packed};

/// An edge, at the side of its producer.
pub(super) struct Route<E: Event> {
    pub(super) key: KeyFields,
    pub(super) lanes: Vec<OpenLane<E>>,
    /// Lanes of former views that have yet to confirm what was sent to them.
    pub(super) past: Vec<OpenLane<E>>,
    pub(super) spread: Spread,
    /// The lane of the container that we are in, if there is one.
    pub(super) here: usize,
    next: usize,
    pub(super) over: usize,
    pub(super) excess: Excess,
    pub(super) dropped: Dropped,
    /// The rows of the batch being sealed.
    order: Order,
    picks: Picks,
    /// Memory for the numbers of all rows of a batch.
    whole: Vec<u32>,
    /// Events that have left, not counting those that were passed on.
    left: u64,
}

pub(super) struct OpenLane<E: Event> {
    pub(super) lane: Lane,
    /// Whether it leads to the container that we are in; whether to our node.
    pub(super) is_here: bool,
    pub(super) is_near: bool,
    /// Whether the present view does without it.
    pub(super) is_past: bool,
    pub(super) open: Option<Box<Batch<E>>>,
    /// Weight on its way, and how much may be.
    pub(super) out: u32,
    pub(super) budget: u32,
    /// Events on their way, or handled without our having heard of it.
    pub(super) unconfirmed: u64,
}

/// Where batches leave an outlet.
pub(super) struct Exit<'o, E: Event> {
    pub(super) route: usize,
    pub(super) passage: Passage,
    pub(super) ready: &'o mut Vec<Ready>,
    pub(super) spare: &'o mut Vec<Box<Batch<E>>>,
    pub(super) owing: &'o mut Owing,
}

impl<E: Event> Exit<'_, E> {
    pub(super) fn send(&mut self, to: &mut OpenLane<E>, batch: Box<Batch<E>>) {
        let rows = narrow(batch.len());
        let weight = if to.is_near { 1 } else { narrow(batch.columns.bytes() / 1024 + 1) };
        let is_over = to.out >= to.budget;
        to.out = to.out.saturating_add(weight);
        to.unconfirmed += u64::from(rows);
        let (route, lane, passage) = (self.route, to.lane, self.passage);
        self.ready.push(Ready { route, lane, batch, rows, weight, passage, is_over });
    }

    /// How many of some events leave for the first time.
    fn first(&self, events: u64) -> u64 {
        if self.passage == Passage::Emitted { events } else { 0 }
    }
}

impl<E: Event> Route<E> {
    pub(super) fn new(key: KeyFields) -> Self {
        Self {
            key,
            lanes: Vec::new(),
            past: Vec::new(),
            spread: Spread::Only,
            here: usize::MAX,
            next: 0,
            over: 0,
            excess: Excess::Blocks,
            dropped: Dropped::default(),
            order: Order::default(),
            picks: Picks::default(),
            whole: Vec::new(),
            left: 0,
        }
    }

    /// The field that decides alone where an event goes, if there is one and its reader is keyed. A numbered
    /// instance has events of many keys in order: those whose keys are too long to be packed, and so wait in
    /// the open batch, would come late.
    pub(super) fn only_field(&self) -> Option<usize> {
        let is_by_key = matches!(self.spread, Spread::Slots(_));
        match self.key.0[..] {
            [field] if is_by_key => Some(field),
            _ => None,
        }
    }

    /// Copies an event into the open batch of its lane; gives the lane and the batch.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        event: E::Ref<'_>,
        (field, key): (usize, Packed),
        spare: &mut Vec<Box<Batch<E>>>,
    ) -> (usize, &mut Batch<E>) {
        let hash = key.hash();
        let place = match &self.spread {
            Spread::Slots(table) => in_table(table, hash),
            Spread::Hash
            | Spread::Only
            | Spread::Rotate
            | Spread::TwoChoices
            | Spread::All
            | Spread::Numbered
            | Spread::LeastLoaded
            | Spread::Custom(_) => even(self.lanes.len(), hash),
        };
        let open = &mut self.lanes[place].open;
        let batch = match open {
            Some(batch) => batch,
            None => fresh(open, spare),
        };
        batch.push(event, field, key, hash);
        (place, batch)
    }

    /// Events that came here and were not passed on.
    pub(super) fn emitted(&self) -> u64 {
        let open = self.lanes.iter().filter_map(|lane| lane.open.as_ref());
        self.left + open.map(|batch| batch.columns.rows() as u64).sum::<u64>()
    }

    pub(super) fn send(&mut self, mut batch: Box<Batch<E>>, exit: &mut Exit<'_, E>) {
        if !self.key.is_empty() {
            batch.hash(&self.key);
        }
        let whole = match self.spread {
            Spread::Only => Some(0),
            Spread::Rotate => {
                self.next = (self.next + 1) % self.lanes.len();
                Some(self.next)
            }
            Spread::LeastLoaded => {
                self.next = self.least_loaded();
                Some(self.next)
            }
            Spread::Slots(_) | Spread::Hash | Spread::TwoChoices => {
                (self.lanes.len() == 1).then_some(0)
            }
            Spread::All => return self.send_to_all(batch, exit),
            Spread::Numbered | Spread::Custom(_) => None,
        };
        if let Some(lane) = whole {
            self.leave(lane, batch, exit);
            return;
        }
        let lost = self.choose(&mut batch);
        self.dropped.no_such_task += lost;
        self.left += exit.first(lost);
        for lane in 0..self.lanes.len() {
            let rows = self.order.of(lane);
            if rows.is_empty() || lane == self.here {
                continue;
            }
            // What is sent on goes alone: its company would pass as sent on, too.
            let is_alone = exit.passage != Passage::Emitted;
            let waiting = if is_alone { None } else { self.lanes[lane].open.take() };
            let mut filled = waiting.unwrap_or_else(|| exit.spare.pop().unwrap_or_default());
            filled.extend_owed(&batch, rows, exit.owing);
            if is_alone || filled.columns.rows() * 2 > ROWS_MAX || filled.columns.is_heavy() {
                self.leave(lane, filled, exit);
            } else {
                self.lanes[lane].open = Some(filled);
            }
        }
        match self.here {
            here if here < self.lanes.len() => {
                let rows = self.order.of(here);
                if rows.is_empty() {
                    batch.retire(exit.owing);
                    batch.clear();
                    exit.spare.push(batch);
                    return;
                }
                batch.narrow_to(rows, exit.owing);
                self.leave(here, batch, exit);
            }
            _ => {
                batch.retire(exit.owing);
                batch.clear();
                exit.spare.push(batch);
            }
        }
    }

    /// A batch leaves by every lane: by the last itself, by the others as a copy.
    fn send_to_all(&mut self, mut batch: Box<Batch<E>>, exit: &mut Exit<'_, E>) {
        self.left += exit.first(batch.len() as u64);
        let last = self.lanes.len() - 1;
        let mut rows = std::mem::take(&mut self.whole);
        rows.clear();
        rows.extend(0..narrow(batch.columns.rows()));
        for lane in 0..last {
            if self.is_shed(lane, exit) {
                self.dropped.shed += batch.len() as u64;
                continue;
            }
            let copied = copy(&batch, &rows, exit.spare, exit.owing);
            self.depart(lane, copied, exit);
        }
        self.whole = rows;
        if last > 0 {
            batch.renew(exit.owing);
        }
        self.depart(last, batch, exit);
    }

    /// The lane with the least on its way for its budget; of equal ones the nearest; of those the next.
    fn least_loaded(&self) -> usize {
        let lanes = self.lanes.len();
        let all = (1..=lanes).map(|step| (self.next + step) % lanes);
        let best = all.reduce(|best, lane| {
            if self.lanes[lane].is_better_than(&self.lanes[best]) { lane } else { best }
        });
        best.expect("an edge leads somewhere")
    }

    /// Orders the rows by lane; says how many have none.
    fn choose(&mut self, batch: &mut Batch<E>) -> u64 {
        let Self { spread, key, order, picks, lanes, .. } = self;
        let lanes = lanes.len();
        match spread {
            Spread::Slots(table) => {
                order.sort(&batch.hashes, lanes, |hash| in_table(table, hash));
                return 0;
            }
            Spread::Only | Spread::Hash | Spread::Rotate | Spread::All | Spread::LeastLoaded => {
                order.sort(&batch.hashes, lanes, |hash| even(lanes, hash));
                return 0;
            }
            Spread::TwoChoices => picks.by_two_choices(&batch.hashes, lanes),
            Spread::Numbered => picks.by_number(batch.columns.column(key.0[0]), lanes),
            Spread::Custom(choice) => picks.by_choice(batch, key, choice, lanes),
        }
        order.sort(&picks.lanes, lanes + 1, |lane| usize::try_from(lane).unwrap_or(lanes));
        order.of(lanes).len() as u64
    }

    /// A batch leaves by a lane.
    pub(super) fn leave(&mut self, lane: usize, batch: Box<Batch<E>>, exit: &mut Exit<'_, E>) {
        self.left += exit.first(batch.len() as u64);
        self.depart(lane, batch, exit);
    }

    fn depart(&mut self, lane: usize, mut batch: Box<Batch<E>>, exit: &mut Exit<'_, E>) {
        if self.is_shed(lane, exit) {
            self.dropped.shed += batch.len() as u64;
            // On purpose, so nobody is to read it again.
            batch.retire(exit.owing);
            batch.clear();
            exit.spare.push(batch);
            return;
        }
        let to = &mut self.lanes[lane];
        let was_over = to.out >= to.budget;
        exit.send(to, batch);
        self.over += usize::from(!was_over && to.out >= to.budget);
    }

    /// Whether a batch for a lane is dropped. What is passed on is not: it is bounded by what was on its way.
    fn is_shed(&self, lane: usize, exit: &Exit<'_, E>) -> bool {
        let to = &self.lanes[lane];
        let is_new = exit.passage == Passage::Emitted;
        self.excess == Excess::IsShed && is_new && to.out >= to.budget
    }

    /// Whether somebody is held back.
    pub(super) fn is_over_budget(&self) -> bool {
        self.over > 0 && self.excess == Excess::Blocks
    }

    /// Takes the rows that wait for company out of the lanes of a former view.
    pub(super) fn take_waiting(&mut self) -> Vec<(Lane, Box<Batch<E>>)> {
        let lanes = self.lanes.iter_mut();
        lanes.filter_map(|lane| Some((lane.lane, lane.open.take()?))).collect()
    }

    /// The lane of a task, under a view in which each task has one.
    pub(super) fn lane_of_task(&mut self, task: u32) -> Option<&mut OpenLane<E>> {
        self.lanes.get_mut(task as usize).filter(|lane| lane.lane.task == task)
    }

    pub(super) fn count_over(&mut self) {
        self.over = self.lanes.iter().filter(|lane| lane.out >= lane.budget).count();
    }

    pub(super) fn flush(&mut self, exit: &mut Exit<'_, E>) {
        for lane in 0..self.lanes.len() {
            if let Some(batch) = self.lanes[lane].open.take() {
                self.leave(lane, batch, exit);
            }
        }
    }
}

/// A copy of some rows of a batch, for one of several who get them. This is the only place that doubles rows;
/// elsewhere they move.
pub(super) fn copy<E: Event>(
    batch: &Batch<E>,
    rows: &[u32],
    spare: &mut Vec<Box<Batch<E>>>,
    owing: &mut Owing,
) -> Box<Batch<E>> {
    let mut copied = spare.pop().unwrap_or_default();
    copied.extend_owed(batch, rows, owing);
    copied
}

/// The lane of a slot.
#[inline(always)]
fn in_table(table: &[u16], hash: u64) -> usize {
    usize::from(table[(hash >> 32) as usize & (table.len() - 1)])
}

/// The upper half of a hash, scaled to the number of lanes.
#[inline(always)]
pub(super) fn even(lanes: usize, hash: u64) -> usize {
    (((hash >> 32) * lanes as u64) >> 32) as usize
}

#[cold]
fn fresh<'b, E: Event>(
    open: &'b mut Option<Box<Batch<E>>>,
    spare: &mut Vec<Box<Batch<E>>>,
) -> &'b mut Box<Batch<E>> {
    open.insert(spare.pop().unwrap_or_default())
}

impl<E: Event> OpenLane<E> {
    pub(super) fn new(lane: Lane) -> Self {
        Self {
            lane,
            is_here: false,
            is_near: false,
            is_past: false,
            open: None,
            out: 0,
            budget: 0,
            unconfirmed: 0,
        }
    }

    /// Whether less is on its way here, for the budget, than to another; or as much, and it is nearer.
    fn is_better_than(&self, other: &Self) -> bool {
        let ours = u64::from(self.out) * u64::from(other.budget);
        let theirs = u64::from(other.out) * u64::from(self.budget);
        let is_nearer = (self.is_here, self.is_near) > (other.is_here, other.is_near);
        ours < theirs || ours == theirs && is_nearer
    }
}
