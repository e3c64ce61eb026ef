//! An edge at the side of its producer: its lanes, and how rows come to them.

use super::order::Order;
use super::{Lane, ROWS_MAX, Ready, Spread};
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
    /// The rows of the batch being sealed.
    order: Order,
    /// Events that have left, not counting those that were passed on.
    left: u64,
}

pub(super) struct OpenLane<E: Event> {
    pub(super) lane: Lane,
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
    pub(super) is_forwarded: bool,
    pub(super) ready: &'o mut Vec<Ready>,
    pub(super) spare: &'o mut Vec<Box<Batch<E>>>,
    pub(super) owing: &'o mut Owing,
}

impl<E: Event> Exit<'_, E> {
    pub(super) fn send(&mut self, to: &mut OpenLane<E>, batch: Box<Batch<E>>) {
        let rows = narrow(batch.len());
        let weight = if to.is_near { 1 } else { narrow(batch.columns.bytes() / 1024 + 1) };
        to.out = to.out.saturating_add(weight);
        to.unconfirmed += u64::from(rows);
        let (route, lane, is_forwarded) = (self.route, to.lane, self.is_forwarded);
        self.ready.push(Ready { route, lane, batch, rows, weight, is_forwarded });
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
            order: Order::default(),
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

    /// Copies an event into the open batch of its lane; gives the lane if that is full now.
    #[inline(always)]
    pub(super) fn push(
        &mut self,
        event: E::Ref<'_>,
        (field, key): (usize, Packed),
        spare: &mut Vec<Box<Batch<E>>>,
    ) -> Option<usize> {
        let (place, batch) = self.copy(event, (field, key), spare);
        batch.is_full().then_some(place)
    }

    /// The same for an event of a tree; gives the id that is owed to it from now on, too.
    #[inline(always)]
    pub(super) fn push_tracked(
        &mut self,
        event: E::Ref<'_>,
        key: (usize, Packed),
        root: u64,
        spare: &mut Vec<Box<Batch<E>>>,
        owing: &mut Owing,
    ) -> (u64, Option<usize>) {
        let (place, batch) = self.copy(event, key, spare);
        (batch.plant(root, &mut owing.ids), batch.is_full().then_some(place))
    }

    #[inline(always)]
    fn copy(
        &mut self,
        event: E::Ref<'_>,
        (field, key): (usize, Packed),
        spare: &mut Vec<Box<Batch<E>>>,
    ) -> (usize, &mut Batch<E>) {
        let hash = key.hash();
        let place = match &self.spread {
            Spread::Slots(table) => in_table(table, hash),
            Spread::Hash | Spread::Only | Spread::Rotate => even(self.lanes.len(), hash),
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
            Spread::Slots(_) | Spread::Hash => (self.lanes.len() == 1).then_some(0),
        };
        if let Some(lane) = whole {
            self.leave(lane, batch, exit);
            return;
        }
        self.choose(&batch.hashes);
        for lane in 0..self.lanes.len() {
            let rows = self.order.of(lane);
            if rows.is_empty() || lane == self.here {
                continue;
            }
            // What is passed on goes alone: its company would pass as passed on, too.
            let waiting = if exit.is_forwarded { None } else { self.lanes[lane].open.take() };
            let mut filled = waiting.unwrap_or_else(|| exit.spare.pop().unwrap_or_default());
            filled.extend_owed(&batch, rows, exit.owing);
            if exit.is_forwarded
                || filled.columns.rows() * 2 > ROWS_MAX
                || filled.columns.is_heavy()
            {
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

    /// Orders the rows by lane.
    fn choose(&mut self, hashes: &[u64]) {
        let lanes = self.lanes.len();
        match &self.spread {
            Spread::Slots(table) => self.order.sort(hashes, lanes, |hash| in_table(table, hash)),
            Spread::Hash | Spread::Only | Spread::Rotate => {
                self.order.sort(hashes, lanes, |hash| even(lanes, hash));
            }
        }
    }

    /// A batch leaves by a lane.
    pub(super) fn leave(&mut self, lane: usize, batch: Box<Batch<E>>, exit: &mut Exit<'_, E>) {
        self.left += if exit.is_forwarded { 0 } else { batch.len() as u64 };
        let to = &mut self.lanes[lane];
        let was_over = to.out >= to.budget;
        exit.send(to, batch);
        self.over += usize::from(!was_over && to.out >= to.budget);
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

/// The lane of a slot.
#[inline(always)]
fn in_table(table: &[u16], hash: u64) -> usize {
    usize::from(table[(hash >> 32) as usize & (table.len() - 1)])
}

/// The upper half of a hash, scaled to the number of lanes.
#[inline(always)]
fn even(lanes: usize, hash: u64) -> usize {
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
        Self { lane, is_near: false, is_past: false, open: None, out: 0, budget: 0, unconfirmed: 0 }
    }
}
