//! Outlets: from `emit` to batches that are ready to go.
//!
//! An emitted event is copied into the one open batch of its outlet and nothing is decided. When that
//! batch is full it is sealed: keys and hashes are computed by column, and each row is given to the lane
//! of its slot. The rows of this container stay where they are; the others are copied into the open
//! batches of their lanes.
//!
//! Where the only edge goes by one field whose key is worth packing alone, an event is copied into the
//! open batch of its lane at once, with its key and hash, and there is nothing left to seal.
//!
//! Every batch that is on its way counts against the budget of its lane until its credit comes back. A
//! lane over its budget still accepts, so nothing ever waits inside a handler; but its outlet says so,
//! and the container then runs no more of what feeds the outlet. Budgets are per edge and lane, never
//! shared between edges: were they shared, one edge could use up what another needs to drain. An edge may
//! shed instead: then what is ready for a lane over its budget is dropped and counted, and nobody waits. Or it
//! spills: then nobody waits, and the container puts what is ready for such a lane elsewhere, to have it
//! [sent](AnyOutlet::send_on) later.

mod order;
mod picks;
mod route;

use std::any::Any;
use std::fmt;
use std::ops::AddAssign;
use std::sync::Arc;

use membership::NodeId;
use serde::{Deserialize, Serialize};

pub use self::picks::Choice;
use self::route::{Exit, OpenLane, Route, copy};
use crate::column::narrow;
use crate::{Batch, Columns, Event, KeyFields, Owing};

/// A container of some node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ContainerId {
    /// The node.
    pub node: NodeId,
    /// Which of its containers.
    pub container: u16,
}

/// One destination of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    /// The container.
    pub to: ContainerId,
    /// The instance there, or [`NO_TASK`](crate::BatchHeader::NO_TASK).
    pub task: u32,
}

/// How the rows of a batch choose their lanes.
#[derive(Clone, Debug)]
pub enum Spread {
    /// All to one lane.
    Only,
    /// By the slot of the key: the lane of each slot.
    Slots(Arc<[u16]>),
    /// By the key hash, evenly over the lanes in their order.
    Hash,
    /// Batch by batch, to one lane after the other.
    Rotate,
    /// By key, to the one of two lanes that its hash names which was given fewer rows so far.
    TwoChoices,
    /// A copy to every lane.
    All,
    /// To the lane whose number is the key, which is one unsigned field; dropped if there is none.
    Numbered,
    /// Batch by batch, to the lane with the least on its way for its budget; of equal ones to the nearest,
    /// and of those to one after the other.
    LeastLoaded,
    /// To the lane that a function of the key names; dropped if there is none.
    Custom(Choice),
}

/// Where the batches of an edge go under one view.
#[derive(Clone, Debug)]
pub struct Lanes {
    /// The destinations; not empty.
    pub lanes: Vec<Lane>,
    /// How rows choose among them.
    pub spread: Spread,
}

/// The budgets of lanes: how much may be on its way before the feeding spouts and hosts wait.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Batches to a container of this node. Too few and a lane waits for the other side's turn; too many
    /// and they fall out of the cache.
    pub batches: u32,
    /// KiB to a container of another node: what it must be ready to hold. Below what the link carries in
    /// a round trip, the link idles.
    pub kibibytes: u32,
}

/// A batch that is ready, its type erased.
#[derive(Debug)]
pub struct Ready {
    /// The place of its edge among the outlet's routes.
    pub route: usize,
    /// Where it goes.
    pub lane: Lane,
    /// A `Box<Batch<E>>`.
    pub batch: Box<dyn Any + Send>,
    /// How many events.
    pub rows: u32,
    /// What it takes from the budget of its lane.
    pub weight: u32,
    /// How it came to leave.
    pub passage: Passage,
    /// Whether its lane had spent its budget before.
    pub is_over: bool,
}

/// How a batch came to leave an outlet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// It was emitted here.
    Emitted,
    /// It came here for somebody who lives elsewhere.
    Forwarded,
    /// It was emitted here, and has waited elsewhere.
    Spilled,
}

/// What an edge does with what is ready for a lane over its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Excess {
    /// It goes, and whoever feeds the edge is held back.
    #[default]
    Blocks,
    /// It is dropped and counted; nobody is held back.
    IsShed,
    /// It goes where the container puts it; nobody is held back.
    Spills,
}

/// Events that an outlet dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Larger than any may be.
    pub oversized: u64,
    /// For a task that there is not.
    pub no_such_task: u64,
    /// Ready for a lane over its budget, on an edge that sheds; once for each that would have got it.
    pub shed: u64,
}

impl AddAssign for Dropped {
    fn add_assign(&mut self, other: Self) {
        let Self { oversized, no_such_task, shed } = other;
        self.oversized += oversized;
        self.no_such_task += no_such_task;
        self.shed += shed;
    }
}

/// What a container needs of an outlet.
pub trait AnyOutlet {
    /// Adds an edge; its place is the number of those before. Its lanes are set by [`Self::lead`].
    fn connect(&mut self, key: KeyFields);
    /// Sets what an edge does with what is ready for a lane over its budget.
    fn set_excess(&mut self, route: usize, excess: Excess);
    /// Sets where an edge leads. What lanes of the old view hold goes to where its keys or tasks are now; what
    /// is on its way to them is still confirmed by them.
    fn lead(&mut self, route: usize, me: ContainerId, lanes: Lanes, budget: Budget);
    /// Gives up what is on its way along an edge to nodes that are gone; returns how many events.
    fn abandon(&mut self, route: usize, is_gone: &dyn Fn(NodeId) -> bool) -> u64;
    /// Seals what is open and moves everything out.
    fn flush(&mut self);
    /// What is ready to go, in order.
    fn ready(&mut self) -> &mut Vec<Ready>;
    /// Takes an emptied batch back.
    fn recycle(&mut self, batch: Box<dyn Any + Send>);
    /// Takes credit back: `rows` were handled or dropped, and `weight` is free again.
    fn credit(&mut self, route: usize, lane: Lane, rows: u64, weight: u32);
    /// Whether a lane that holds back who feeds it has spent its budget.
    fn is_over_budget(&self) -> bool;
    /// Whether a lane of one edge has spent its budget.
    fn has_excess(&self, route: usize) -> bool;
    /// Whether something is waiting for company.
    fn is_open(&self) -> bool;
    /// From now on, events say which tree they belong to; the seed is that of no other outlet.
    fn track(&mut self, seed: u64);
    /// How many events of a tree wait for company here.
    fn waiting(&self, root: u64) -> u64;
    /// What is to be said to ledgers, in order.
    fn owing(&mut self) -> &mut Owing;
    /// Appends a batch as it goes on the wire.
    fn encode(&self, batch: &dyn Any, out: &mut Vec<u8>);
    /// Makes the open batch whole again after a panic in the middle of `push`.
    fn repair(&mut self);
    /// Sends chosen rows of a batch of the same event type on along an edge; not along one that copies
    /// to all, where all others have theirs.
    fn send_on(&mut self, route: usize, passage: Passage, batch: &dyn Any, rows: &[u32]);
    /// The same to a lane of one's choice, whether or not the edge leads there. `is_near` says whether
    /// it is of this node.
    fn send_to(
        &mut self,
        route: usize,
        passage: Passage,
        to: (Lane, bool),
        batch: &dyn Any,
        rows: &[u32],
    );
    /// How many events were emitted here.
    fn emitted(&self) -> u64;
    /// How many events are on their way, or handled without our having heard of it.
    fn unconfirmed(&self) -> u64;
    /// How many events were dropped since the last call.
    fn dropped(&mut self) -> Dropped;
}

/// The open batch of an event type and where it leads.
pub struct Outlet<E: Event> {
    open: Box<Batch<E>>,
    routes: Vec<Route<E>>,
    ready: Vec<Ready>,
    spare: Vec<Box<Batch<E>>>,
    /// The field whose key alone says where an event goes: then it goes there when it is pushed.
    by_key: Option<usize>,
    /// Events that lead nowhere.
    unheard: u64,
    dropped: Dropped,
    scratch: Vec<u32>,
    is_tracked: bool,
    owing: Owing,
}

/// Where a spare list for batches that are given back ends: above what budgets let be on their way.
const SPARE_MAX: usize = 64;

/// Events per batch.
pub const ROWS_MAX: usize = 1024;

/// The most bytes of one event; it must fit a frame with its company.
pub const EVENT_MAX: usize = 4 << 20;

/// The most fields of an event; the derive refuses more.
pub const FIELDS_MAX: usize = 64;

// A batch that leaves: what a lane held (half a batch, no column heavy), what joins it (a batch whose
// columns were not heavy before its last event), and that event. The rest of the frame is other batches.
const _: () = assert!(
    FIELDS_MAX * (2 * crate::HEAVY + 8 * (ROWS_MAX + ROWS_MAX / 2)) + EVENT_MAX
        <= crate::FRAME_MAX - (1 << 20)
);

impl<E: Event> Default for Outlet<E> {
    fn default() -> Self {
        Self {
            open: Box::default(),
            routes: Vec::new(),
            ready: Vec::new(),
            spare: Vec::new(),
            by_key: None,
            unheard: 0,
            dropped: Dropped::default(),
            scratch: Vec::new(),
            is_tracked: false,
            owing: Owing::default(),
        }
    }
}

impl<E: Event> fmt::Debug for Outlet<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.open.columns.rows();
        f.debug_struct("Outlet")
            .field("event", &E::SCHEMA.name)
            .field("open", &rows)
            .finish_non_exhaustive()
    }
}

impl<E: Event> Outlet<E> {
    /// Copies an event into the open batch, or into that of its lane.
    #[inline(always)]
    pub fn push(&mut self, event: E::Ref<'_>) {
        self.push_of(event, None);
    }

    /// The same for an event of a tree, or of none if `root` is zero, where trees are tracked. Gives the id that is
    /// owed to the tree from now on, or zero if nothing new is.
    #[inline(always)]
    pub fn push_of(&mut self, event: E::Ref<'_>, root: Option<u64>) -> u64 {
        let mut edge = 0;
        if let Some(field) = self.by_key
            && let Some(key) = E::Columns::pack_one(event, field)
        {
            let Self { routes, spare, owing, .. } = self;
            let (place, batch) = routes[0].push(event, (field, key), spare);
            if let Some(root) = root {
                edge = batch.plant(root, &mut owing.ids);
            }
            if batch.is_full() {
                self.close_lane(place);
            }
            return edge;
        }
        self.open.columns.push(event);
        if let Some(root) = root {
            edge = self.open.plant(root, &mut self.owing.ids);
        }
        if self.open.is_full() {
            self.close();
        }
        edge
    }

    #[inline(never)]
    fn close(&mut self) {
        self.dropped.oversized += limit(&mut self.open, &mut self.spare, &mut self.owing);
        if self.open.columns.rows() > 0 {
            self.seal();
        }
    }

    /// The batch of a lane leaves.
    #[inline(never)]
    fn close_lane(&mut self, lane: usize) {
        let Some(mut batch) = self.routes[0].lanes[lane].open.take() else { return };
        self.dropped.oversized += limit(&mut batch, &mut self.spare, &mut self.owing);
        if batch.columns.rows() == 0 {
            self.spare.push(batch);
            return;
        }
        let Self { routes, ready, spare, owing, .. } = self;
        let mut exit = Exit { route: 0, passage: Passage::Emitted, ready, spare, owing };
        routes[0].leave(lane, batch, &mut exit);
    }

    fn seal(&mut self) {
        let mut batch = std::mem::replace(&mut self.open, self.spare.pop().unwrap_or_default());
        let Some(last) = self.routes.len().checked_sub(1) else {
            self.unheard += batch.columns.rows() as u64;
            batch.retire(&mut self.owing);
            batch.clear();
            self.spare.push(batch);
            return;
        };
        self.scratch.clear();
        if last > 0 {
            self.scratch.extend(0..narrow(batch.columns.rows()));
        }
        for route in 0..last {
            let copied = copy(&batch, &self.scratch, &mut self.spare, &mut self.owing);
            self.send(route, copied, Passage::Emitted);
        }
        if last > 0 {
            batch.renew(&mut self.owing);
        }
        self.send(last, batch, Passage::Emitted);
    }

    fn send(&mut self, route: usize, batch: Box<Batch<E>>, passage: Passage) {
        let Self { routes, ready, spare, owing, .. } = self;
        routes[route].send(batch, &mut Exit { route, passage, ready, spare, owing });
    }
}

/// Drops the last event of a batch if it is larger than any may be; says how many were.
fn limit<E: Event>(batch: &mut Batch<E>, spare: &mut Vec<Box<Batch<E>>>, owing: &mut Owing) -> u64 {
    if batch.columns.bytes() <= EVENT_MAX {
        return 0;
    }
    // Before the last event the batch was not heavy, so only that one can be too large.
    let last = batch.columns.rows() - 1;
    let mut alone = spare.pop().unwrap_or_default();
    alone.columns.extend_rows(&batch.columns, &[narrow(last)]);
    let is_oversized = alone.columns.bytes() > EVENT_MAX;
    if is_oversized {
        batch.truncate(last, owing);
    }
    alone.clear();
    spare.push(alone);
    u64::from(is_oversized)
}

impl<E: Event> AnyOutlet for Outlet<E> {
    fn connect(&mut self, key: KeyFields) {
        self.routes.push(Route::new(key));
    }

    fn set_excess(&mut self, route: usize, excess: Excess) {
        self.routes[route].excess = excess;
    }

    fn lead(&mut self, route: usize, me: ContainerId, lanes: Lanes, budget: Budget) {
        assert!(!lanes.lanes.is_empty(), "an edge leads somewhere in every view");
        let edge = &mut self.routes[route];
        let waiting = edge.take_waiting();
        let mut past: Vec<_> = edge.lanes.drain(..).chain(edge.past.drain(..)).collect();
        edge.spread = lanes.spread;
        edge.here = usize::MAX;
        for (place, lane) in lanes.lanes.into_iter().enumerate() {
            if lane.to == me && edge.here == usize::MAX && matches!(edge.spread, Spread::Slots(_)) {
                edge.here = place;
            }
            let known = past.iter().position(|past| past.lane == lane);
            let known = known.map(|at| past.swap_remove(at));
            let mut lane = known.unwrap_or_else(|| OpenLane::new(lane));
            lane.is_past = false;
            lane.is_here = lane.lane.to == me;
            lane.is_near = lane.lane.to.node == me.node;
            lane.budget = if lane.is_near { budget.batches } else { budget.kibibytes };
            edge.lanes.push(lane);
        }
        past.retain(|lane| lane.unconfirmed > 0);
        past.iter_mut().for_each(|lane| lane.is_past = true);
        edge.past = past;
        edge.count_over();
        for (lane, batch) in waiting {
            // What waits for a task stays with it: chosen for anew, it might come behind what is younger.
            match self.routes[route].lane_of_task(lane.task) {
                Some(lane) => lane.open = Some(batch),
                None => self.send(route, batch, Passage::Emitted),
            }
        }
        self.by_key = match &self.routes[..] {
            [only] => only.only_field(),
            _ => None,
        };
        if self.by_key.is_some() && self.open.columns.rows() > 0 {
            self.close();
        }
    }

    fn abandon(&mut self, route: usize, is_gone: &dyn Fn(NodeId) -> bool) -> u64 {
        let edge = &mut self.routes[route];
        let mut rows = 0;
        for lane in edge.lanes.iter_mut().chain(&mut edge.past) {
            if is_gone(lane.lane.to.node) {
                lane.out = 0;
                rows += std::mem::take(&mut lane.unconfirmed);
            }
        }
        edge.past.retain(|lane| lane.unconfirmed > 0);
        edge.count_over();
        rows
    }

    fn flush(&mut self) {
        if self.open.columns.rows() > 0 {
            self.close();
        }
        for (place, route) in self.routes.iter_mut().enumerate() {
            let (ready, spare, owing) = (&mut self.ready, &mut self.spare, &mut self.owing);
            let passage = Passage::Emitted;
            route.flush(&mut Exit { route: place, passage, ready, spare, owing });
        }
    }

    fn ready(&mut self) -> &mut Vec<Ready> {
        &mut self.ready
    }

    fn recycle(&mut self, batch: Box<dyn Any + Send>) {
        let mut batch = batch.downcast::<Batch<E>>().expect("it went out of this outlet");
        if self.spare.len() < SPARE_MAX {
            batch.clear();
            self.spare.push(batch);
        }
    }

    fn credit(&mut self, route: usize, lane: Lane, rows: u64, weight: u32) {
        let Some(route) = self.routes.get_mut(route) else { return };
        let mut all = route.lanes.iter_mut().chain(&mut route.past);
        let Some(lane) = all.find(|known| known.lane == lane) else { return };
        let was_over = lane.out >= lane.budget;
        lane.out = lane.out.saturating_sub(weight);
        lane.unconfirmed = lane.unconfirmed.saturating_sub(rows);
        if lane.is_past {
            route.past.retain(|lane| lane.unconfirmed > 0);
        } else {
            route.over -= usize::from(was_over && lane.out < lane.budget);
        }
    }

    fn is_over_budget(&self) -> bool {
        self.routes.iter().any(Route::is_over_budget)
    }

    fn has_excess(&self, route: usize) -> bool {
        self.routes[route].over > 0
    }

    fn is_open(&self) -> bool {
        self.open.columns.rows() > 0
            || self.routes.iter().any(|route| route.lanes.iter().any(|lane| lane.open.is_some()))
    }

    fn encode(&self, batch: &dyn Any, out: &mut Vec<u8>) {
        let batch = batch.downcast_ref::<Batch<E>>().expect("it went out of this outlet");
        assert!(batch.chosen().is_none(), "rows are chosen in place for this container only");
        batch.encode(self.is_tracked, out);
    }

    fn track(&mut self, seed: u64) {
        (self.is_tracked, self.owing) = (true, Owing::new(seed));
    }

    fn waiting(&self, root: u64) -> u64 {
        let lanes = self.routes.iter().flat_map(|route| &route.lanes);
        let waiting = lanes.filter_map(|lane| lane.open.as_ref()).chain([&self.open]);
        waiting.map(|batch| batch.rows_of(root)).sum()
    }

    fn owing(&mut self) -> &mut Owing {
        &mut self.owing
    }

    fn repair(&mut self) {
        let Self { open, routes, owing, .. } = self;
        let lanes = routes.iter_mut().flat_map(|route| &mut route.lanes);
        let all = lanes.filter_map(|lane| lane.open.as_mut()).chain([open]);
        all.for_each(|open| open.truncate(usize::MAX, owing));
    }

    fn send_on(&mut self, route: usize, passage: Passage, batch: &dyn Any, rows: &[u32]) {
        let batch = batch.downcast_ref::<Batch<E>>().expect("both ends of an edge have one type");
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_owed(batch, rows, &mut self.owing);
        self.send(route, copy, passage);
    }

    fn send_to(
        &mut self,
        route: usize,
        passage: Passage,
        (to, is_near): (Lane, bool),
        batch: &dyn Any,
        rows: &[u32],
    ) {
        let batch = batch.downcast_ref::<Batch<E>>().expect("both ends of an edge have one type");
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.extend_owed(batch, rows, &mut self.owing);
        let Self { routes, ready, spare, owing, .. } = self;
        let mut exit = Exit { route, passage, ready, spare, owing };
        let edge = &mut routes[route];
        if let Some(lane) = edge.lanes.iter().position(|known| known.lane == to) {
            return edge.leave(lane, copy, &mut exit);
        }
        let known = edge.past.iter().position(|known| known.lane == to);
        let place = known.unwrap_or_else(|| {
            edge.past.push(OpenLane { is_near, is_past: true, ..OpenLane::new(to) });
            edge.past.len() - 1
        });
        // It holds nobody back: what is passed on is bounded by what was on its way here.
        exit.send(&mut edge.past[place], copy);
    }

    fn emitted(&self) -> u64 {
        let left = self.routes.first().map_or(self.unheard, Route::emitted);
        left + self.open.columns.rows() as u64
    }

    fn unconfirmed(&self) -> u64 {
        let lanes = self.routes.iter().flat_map(|route| route.lanes.iter().chain(&route.past));
        lanes.map(|lane| lane.unconfirmed).sum()
    }

    fn dropped(&mut self) -> Dropped {
        let mut dropped = std::mem::take(&mut self.dropped);
        self.routes.iter_mut().for_each(|route| dropped += std::mem::take(&mut route.dropped));
        dropped
    }
}

#[cfg(test)]
mod tests;
