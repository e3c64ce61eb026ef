//! The events of one window, and when it fires.
//!
//! A window that is computed when a timer comes is wrong by as much as the timer is late. So nothing
//! here depends on when it is called: each event is kept with the time at which it came, and a boundary
//! that has passed gives the window that ended *there*, whoever noticed it and when. Boundaries and
//! events are counted from the first event of the instance, which is time zero of a clock of its own:
//! nodes cannot compare their clocks, but an age can be written down, read elsewhere, and go on.
//!
//! Every window is half-open: it has the events from its start on and none of its end. What is in it,
//! what has come and what has gone follows from these alone:
//!
//! * it ends at a multiple of a slide of time, or directly behind the event that a slide of events
//!   waited for;
//! * it starts a length of time before its end, or at the last but so many events before its end;
//! * *fresh* is what is in it and was not in the one before, *expired* the reverse. What came and went
//!   between two of them is in neither.
//!
//! Events are never looked at, and nothing is sent from here.

use std::collections::{VecDeque, vec_deque};
use std::time::Duration;

use membership::Time;
use serde::{Deserialize, Serialize};

use super::spec::{Extent, WindowError, WindowSpec};

/// The events of the window of one instance.
///
/// ```
/// use std::time::Duration;
/// use membership::Time;
/// use pe::{Extent, Panes, WindowSpec};
///
/// let at = |millis| Time(Duration::from_millis(millis));
/// let second = Extent::Time(Duration::from_secs(1));
/// let mut panes = Panes::new(WindowSpec::tumbling(second)).unwrap();
/// // The first event comes at 400 ms: windows end at 1,400 ms, 2,400 ms and so on.
/// assert!(panes.push(at(400), 'a').unwrap().is_none());
/// assert!(panes.push(at(900), 'b').unwrap().is_none());
/// assert_eq!(panes.deadline(), Some(at(1_400)));
/// let window = panes.advance(at(1_450)).unwrap();
/// assert!(window.items().eq(&['a', 'b']));
/// assert_eq!(window.late(), Duration::from_millis(50));
/// ```
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(try_from = "Written<T>", bound(deserialize = "T: Deserialize<'de>"))]
pub struct Panes<T> {
    spec: WindowSpec,
    /// What the last window had.
    shown: VecDeque<Held<T>>,
    /// What has come since, without what has gone again.
    fresh: VecDeque<Held<T>>,
    /// How many have come since, if the slide is of events.
    come: u32,
    /// The first multiple of a slide of time that may have to be told.
    next: u64,
    /// How old the instance was at `since`.
    age: u64,
    /// When it was last touched; nothing before its first event, and where it has just arrived.
    #[serde(skip)]
    since: Option<Time>,
    /// How many of those at the front of `shown` are not in the window that comes.
    #[serde(skip)]
    gone: usize,
}

/// What a peer says that the panes of an instance are.
#[derive(Deserialize)]
struct Written<T> {
    spec: WindowSpec,
    shown: VecDeque<Held<T>>,
    fresh: VecDeque<Held<T>>,
    come: u32,
    next: u64,
    age: u64,
}

/// An event in a window. What has to be kept with it until it expires, such as the tree that it
/// belongs to, has its place here.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Held<T> {
    /// Nanoseconds after the first event.
    at: u64,
    item: T,
}

/// The window holds as many events as it may; this one is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the window is full")]
pub struct WindowFull;

/// Where a window starts.
enum Start {
    /// With the first event of this age.
    At(u64),
    /// So many events before its end.
    Last(usize),
}

/// No instance lives so long; below, sums of two ages do not overflow.
const AGE_MAX: u64 = u64::MAX / 4;

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(AGE_MAX).min(AGE_MAX)
}

fn size(count: u32) -> usize {
    count as usize
}

impl<T> Panes<T> {
    /// An empty window; its time begins with its first event.
    ///
    /// # Errors
    /// There can be no such window.
    pub fn new(spec: WindowSpec) -> Result<Self, WindowError> {
        Ok(Self {
            spec: spec.check()?,
            shown: VecDeque::new(),
            fresh: VecDeque::new(),
            come: 0,
            next: 0,
            age: 0,
            since: None,
            gone: 0,
        })
    }

    /// Takes in an event that comes now; gives the window that it fires, if the slide is of events.
    ///
    /// [`Panes::advance`] has to have said that there is no more to tell at this time.
    ///
    /// # Errors
    /// The window is full; nothing has changed, but what is too old for it has gone.
    pub fn push(&mut self, now: Time, item: T) -> Result<Option<WindowRef<'_, T>>, WindowFull> {
        self.run(now);
        if let Extent::Time(slide) = self.spec.slide {
            assert!(!self.is_waiting() || self.next > self.age, "what has ended is told first");
            self.skip_to_now(slide);
        }
        let end = self.end_of_next();
        let start = self.start_of(end);
        self.expire(&start);
        let held = self.shown.len() - self.gone + self.fresh.len();
        if matches!(self.spec.length, Extent::Time(_)) && held >= size(self.spec.most) {
            return Err(WindowFull);
        }
        self.fresh.push_back(Held { at: self.age, item });
        match self.spec.slide {
            Extent::Count(slide) if self.come + 1 >= slide => Ok(Some(self.fire(end))),
            Extent::Count(_) => {
                self.come += 1;
                Ok(None)
            }
            Extent::Time(_) => {
                // Of a length of events, what is pushed out before it was told is not kept until then.
                self.expire(&start);
                Ok(None)
            }
        }
    }

    /// The next window that has ended by now and was not told, if the slide is of time. To be called
    /// until there is none: after a gap there may be several.
    ///
    /// A window is told if something is in it or has expired; of a length of events, if something is
    /// fresh in it.
    pub fn advance(&mut self, now: Time) -> Option<WindowRef<'_, T>> {
        self.touch(now);
        let Extent::Time(slide) = self.spec.slide else { return None };
        if self.next > self.age || !self.is_waiting() {
            return None;
        }
        let end = self.next;
        self.next += nanos(slide);
        Some(self.fire(end))
    }

    /// What would be in the window that fires next, had it to end now: for an instance that goes.
    pub fn rest(&mut self, now: Time) -> WindowRef<'_, T> {
        self.touch(now);
        if let (Extent::Time(slide), true) = (self.spec.slide, self.has_begun()) {
            self.skip_to_now(slide);
        }
        let end = self.end_of_next();
        let start = match (self.start_of(end), self.spec.slide) {
            // Those that do not come any more would have pushed out as many.
            (Start::Last(length), Extent::Count(slide)) => {
                Start::Last(length - size(slide) + size(self.come))
            }
            (start, _) => start,
        };
        self.fire_from(&start, end)
    }

    /// Says what the time is. Where an instance arrives its clock goes on from here; what is written
    /// is as old as it was when this was last called.
    pub fn touch(&mut self, now: Time) {
        if self.has_begun() {
            self.run(now);
        }
    }

    /// When [`Panes::advance`] has something to tell, if nothing else comes.
    pub fn deadline(&self) -> Option<Time> {
        match self.spec.slide {
            Extent::Time(_) if self.is_waiting() => {
                let left = Duration::from_nanos(self.next.saturating_sub(self.age));
                self.since.map(|since| since + left)
            }
            Extent::Time(_) | Extent::Count(_) => None,
        }
    }

    /// Whether its time has begun; a slide of events does not ask when.
    fn has_begun(&self) -> bool {
        matches!(self.spec.slide, Extent::Count(_)) || self.next > 0
    }

    fn run(&mut self, now: Time) {
        let since = *self.since.get_or_insert(now);
        self.age = self.age.saturating_add(nanos(now - since)).min(AGE_MAX);
        self.since = Some(since.max(now));
    }

    /// Whether the next end of a window is to be told.
    fn is_waiting(&self) -> bool {
        match self.spec.length {
            Extent::Time(_) => !self.shown.is_empty() || !self.fresh.is_empty(),
            Extent::Count(_) => !self.fresh.is_empty(),
        }
    }

    /// Leaves out the ends of windows that nobody waited for.
    fn skip_to_now(&mut self, slide: Duration) {
        if self.next <= self.age {
            self.next = (self.age / nanos(slide) + 1) * nanos(slide);
        }
    }

    /// The end of the window that comes; of a slide of events, as if it fired now.
    fn end_of_next(&self) -> u64 {
        match self.spec.slide {
            Extent::Time(_) => self.next,
            Extent::Count(_) => self.age + 1,
        }
    }

    fn start_of(&self, end: u64) -> Start {
        match self.spec.length {
            Extent::Time(length) => Start::At(end.saturating_sub(nanos(length))),
            Extent::Count(length) => Start::Last(size(length)),
        }
    }

    /// Finds what is not in a window any more; of that, drops what was in none.
    fn expire(&mut self, start: &Start) {
        match *start {
            Start::At(start) => {
                let rest = self.shown.iter().skip(self.gone);
                self.gone += rest.take_while(|held| held.at < start).count();
                while self.fresh.front().is_some_and(|held| held.at < start) {
                    self.fresh.pop_front();
                }
            }
            Start::Last(length) => {
                let excess = self.fresh.len().saturating_sub(length);
                self.fresh.drain(..excess);
                let excess = (self.shown.len() + self.fresh.len()).saturating_sub(length);
                self.gone = excess.min(self.shown.len());
            }
        }
    }

    fn fire(&mut self, end: u64) -> WindowRef<'_, T> {
        self.fire_from(&self.start_of(end), end)
    }

    fn fire_from(&mut self, start: &Start, end: u64) -> WindowRef<'_, T> {
        self.expire(start);
        let gone = std::mem::take(&mut self.gone);
        let expired = if gone == self.shown.len() {
            std::mem::take(&mut self.shown)
        } else {
            self.shown.drain(..gone).collect()
        };
        self.come = 0;
        let fresh_from = self.shown.len();
        if fresh_from == 0 {
            self.shown = std::mem::take(&mut self.fresh);
        } else {
            self.shown.append(&mut self.fresh);
        }
        let late = Duration::from_nanos(self.age.saturating_sub(end));
        WindowRef { expired, items: &self.shown, fresh_from, late }
    }
}

/// A window of one event that slides by one; where an instance is made otherwise than by `create`.
impl<T> Default for Panes<T> {
    fn default() -> Self {
        Self::new(WindowSpec::tumbling(Extent::Count(1))).expect("one is enough")
    }
}

impl<T> TryFrom<Written<T>> for Panes<T> {
    type Error = &'static str;

    /// What comes from another node is what panes can be, or nothing: an end that lies far back would
    /// fire for years.
    fn try_from(written: Written<T>) -> Result<Self, Self::Error> {
        let Written { spec, shown, fresh, come, next, age } = written;
        spec.check().map_err(|_| "a window that there cannot be")?;
        let ages = || shown.iter().chain(&fresh).map(|held| held.at);
        if age > AGE_MAX || !ages().is_sorted() || ages().any(|at| at > age) {
            return Err("a window of another order than its events");
        }
        let is_on_time = match spec.slide {
            Extent::Time(slide) => {
                next.is_multiple_of(nanos(slide))
                    && next <= age + nanos(slide)
                    && ages().all(|at| at < next)
            }
            Extent::Count(slide) => come < slide && next == 0,
        };
        let most = match spec.length {
            Extent::Time(_) => spec.most,
            Extent::Count(length) => length,
        };
        let is_small = shown.len() <= size(most) && fresh.len() <= size(most);
        if !is_on_time || !is_small {
            return Err("a window that was never one");
        }
        Ok(Self { spec, shown, fresh, come, next, age, since: None, gone: 0 })
    }
}

/// A window that fires, or what there is of one.
pub struct WindowRef<'p, T> {
    expired: VecDeque<Held<T>>,
    items: &'p VecDeque<Held<T>>,
    fresh_from: usize,
    late: Duration,
}

impl<T: std::fmt::Debug> std::fmt::Debug for WindowRef<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowRef")
            .field("items", &self.items().collect::<Vec<_>>())
            .field("fresh", &self.fresh().len())
            .field("expired", &self.expired().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

impl<T> WindowRef<'_, T> {
    /// All that is in it, in the order in which it came.
    pub fn items(&self) -> Items<'_, T> {
        Items(self.items.range(..))
    }

    /// The last of [`WindowRef::items`]: those that the window before did not have.
    pub fn fresh(&self) -> Items<'_, T> {
        Items(self.items.range(self.fresh_from..))
    }

    /// What the window before had and this one has not, in the order in which it came.
    pub fn expired(&self) -> Items<'_, T> {
        Items(self.expired.range(..))
    }

    /// How many are in it.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing is in it: then something has expired, and if nothing comes it fires no more.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// How long before [`Ctx::now`](crate::Ctx::now) it has ended: as long as nobody could attend to it.
    pub fn late(&self) -> Duration {
        self.late
    }
}

/// Events of a window.
#[derive(Debug)]
pub struct Items<'w, T>(vec_deque::Iter<'w, Held<T>>);

impl<T> Clone for Items<'_, T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<'w, T> Iterator for Items<'w, T> {
    type Item = &'w T;

    fn next(&mut self) -> Option<&'w T> {
        self.0.next().map(|held| &held.item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<T> DoubleEndedIterator for Items<'_, T> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.0.next_back().map(|held| &held.item)
    }
}

impl<T> ExactSizeIterator for Items<'_, T> {}

#[cfg(test)]
mod tests;
