//! The side of a handoff that takes: it asks, until all is here and the view has made it the owner.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use membership::view_log::{LogId, Seat, Seats};
use membership::{Epoch, NodeId, Time};
use pe::{ChunkKind, Unit};

use super::super::{Event, Set};
use super::{Action, Cause, Handoff, HandoffMessage, Outcome, Pull, REPLICAS, StreamId, View};

/// After this, a question is asked again.
const RETRY: Duration = Duration::from_millis(200);

/// After this, a taking whose chunks could not be read begins anew.
const ANEW: Duration = Duration::from_secs(2);

/// How long units may stand still before their old owner is let go on with them, and the taking begins anew: what is kept for
/// them meanwhile is bounded, and what holds senders back might hold up the very seal that is waited for.
const SEAL_LIMIT: Duration = Duration::from_secs(15);

/// Chunks that are asked for at a time.
const PULLS_MAX: usize = 8;

/// What is copied ahead at most, in bytes a second: above it, events have less of the network and of the
/// processors. What follows the seal is not held up.
const RATE: f64 = 128.0 * 1024.0 * 1024.0;

/// The units that come from one node by one view.
#[derive(Debug)]
pub(super) struct Taking {
    from: NodeId,
    streams: Vec<Stream>,
    /// Whether nobody else is to have a replica, so all is done when all is here.
    is_alone: bool,
    is_sealing: bool,
    /// When the first seal was asked for.
    sealed: Option<Time>,
    /// Whether all is here and the view log has been told.
    is_whole: bool,
    /// When it begins anew, after a chunk that could not be read.
    anew: Option<Time>,
}

/// From one container there to one here.
#[derive(Debug)]
struct Stream {
    number: u64,
    /// The container there, and the one here.
    ends: (u16, u16),
    units: Vec<Unit>,
    /// The chunk that comes next, and what is here of it.
    chunk: u32,
    part: Vec<u8>,
    is_known: bool,
    state: Progress,
    /// Units that all have who are to have replicas of them.
    secured: BTreeSet<Unit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// May ask for the next chunk.
    Idle,
    /// Has asked; asks again then.
    Asked(Time),
    /// A container reads a chunk of that kind.
    Staging(ChunkKind),
    /// All that could be copied ahead is here.
    Ahead,
    /// All is here.
    Done,
}

impl Taking {
    pub(super) fn units(&self) -> usize {
        self.streams.iter().map(|stream| stream.units.len()).sum()
    }

    #[cfg(test)]
    pub(super) fn described(&self, now: Time) -> String {
        let Self { from, is_sealing, is_whole, anew, streams, sealed, is_alone: _ } = self;
        let streams = streams.iter().map(|stream| {
            let Stream { number, ends, units, chunk, part, is_known, state, secured: _ } = stream;
            let state = match state {
                Progress::Asked(until) => format!("asked {}", *until > now),
                Progress::Idle | Progress::Staging(_) | Progress::Ahead | Progress::Done => {
                    format!("{state:?}")
                }
            };
            let part = part.len();
            format!("{number} {ends:?} {units:?} {chunk} {part} {is_known} {state}")
        });
        let streams: Vec<_> = streams.collect();
        let is_overdue = sealed.map(|at| at + SEAL_LIMIT <= now);
        let is_waiting = anew.map(|at| at > now);
        format!("{from} {is_sealing} {is_whole} {is_overdue:?} {is_waiting:?} {streams:?}")
    }

    fn all_units(&self) -> BTreeSet<Unit> {
        self.streams.iter().flat_map(|stream| stream.units.iter().copied()).collect()
    }

    /// When it has stood still for too long, if it stands still.
    fn overdue(&self) -> Option<Time> {
        self.sealed.filter(|_| !self.is_whole).map(|sealed| sealed + SEAL_LIMIT)
    }

    fn is_at(&self, is: impl Fn(Progress) -> bool) -> bool {
        self.streams.iter().all(|stream| is(stream.state))
    }

    /// How far each stream is, and whether it may seal.
    fn streams_of(taking: &Self) -> impl Iterator<Item = (bool, Progress)> {
        taking.streams.iter().map(|stream| (taking.is_sealing, stream.state))
    }

    /// Takes out of the containers what must not be served.
    fn discard(&self, is_junk: impl Fn(Unit) -> bool, out: &mut Vec<Action>) {
        for stream in &self.streams {
            let junk: Vec<_> = stream.units.iter().copied().filter(|&unit| is_junk(unit)).collect();
            if !junk.is_empty() {
                out.push(Action::Give(stream.ends.1, pe::Input::Discard(junk)));
            }
        }
    }
}

impl Handoff {
    /// Before the containers have a new layout: a unit that we had, that a view which we slept through gave to
    /// another, and that was lost with it, is ours again and begins empty. What we still have of it is from before.
    pub(in super::super) fn begin_anew_what_was_lost(
        &self,
        before: &View,
        view: &View,
        out: &mut Vec<Action>,
    ) {
        let mut lost: BTreeMap<u16, Vec<Unit>> = BTreeMap::new();
        for ((unit, was), (_, is)) in before.body.shares().zip(view.body.shares()) {
            let is_ours = was.active.owner() == self.log && is.active.owner() == self.log;
            let has_followed = was.active == is.active || was.next.as_ref() == Some(&is.active);
            if is_ours && !has_followed {
                lost.entry(was.active.container).or_default().push(unit);
            }
        }
        for (container, units) in lost {
            out.push(Action::Give(container, pe::Input::Discard(units)));
        }
    }

    /// Before the containers have a new layout: what came for nothing goes, or they would serve it.
    pub(in super::super) fn give_up(&mut self, now: Time, view: &View, out: &mut Vec<Action>) {
        let wanted = self.wanted(view);
        let log = self.log;
        self.taking.retain(|key, taking| {
            let units = taking.all_units();
            let is_wanted = wanted.get(key).is_some_and(|(_, ends)| {
                ends.values().flatten().copied().collect::<BTreeSet<_>>() == units
            });
            if !is_wanted {
                // One that is ours since nobody is left who had it begins empty, whatever came before.
                let is_ours = |unit: Unit| {
                    let active = view.body.share(unit).map(|share| &share.active);
                    active.is_some_and(|active| (active.owner(), active.epoch) == (log, key.1))
                };
                taking.discard(|unit| !(taking.is_whole && is_ours(unit)), out);
                let taken = units.iter().filter(|&&unit| is_ours(unit)).count();
                if taking.is_whole && taken > 0 {
                    let pause = taking.sealed.map_or(Duration::ZERO, |sealed| now - sealed);
                    self.counts.units += taken as u64;
                    self.counts.paused(pause, taken);
                    out.push(Action::Tell(Event::TookOver(taking.from, taken, pause)));
                }
            }
            is_wanted
        });
    }

    /// After that: begins to take what the view says.
    pub(in super::super) fn take(
        &mut self,
        view: &View,
        out: &mut Vec<Action>,
        outcome: &mut Outcome,
    ) {
        let (mut called_back, seats) =
            (BTreeMap::<Epoch, Vec<Unit>>::new(), Seats::new(&view.head));
        for (unit, share) in view.body.shares() {
            let Some(next) = share.next.as_ref().filter(|next| next.owner() == self.log) else {
                continue;
            };
            // With replicas, the container says when they are there.
            let is_here =
                share.active.owner() == self.log && share.active.container == next.container;
            let is_served = !share.is_waiting(&seats);
            if is_here && is_served && next.others().is_empty() && !view.body.is_durable {
                called_back.entry(next.epoch).or_default().push(unit);
            }
        }
        let back = called_back.into_iter();
        outcome.causes.extend(back.map(|(epoch, units)| Cause::Installed(epoch, units)));
        for (key, (from, ends)) in self.wanted(view) {
            if self.taking.contains_key(&key) {
                continue;
            }
            let next = |&unit: &Unit| view.body.share(unit).and_then(|share| share.next.as_ref());
            let others = ends.values().flatten().filter_map(next).flat_map(Set::others);
            let is_alone = others.count() == 0 && !view.body.is_durable;
            let streams = ends.into_iter().map(|(ends, units)| self.stream(ends, units));
            let streams = streams.collect();
            let taking = Taking {
                from,
                streams,
                is_alone,
                is_sealing: false,
                sealed: None,
                is_whole: false,
                anew: None,
            };
            // Where we were taken off and go on from what is on disk, containers may have what came after that.
            taking.discard(|unit| view.body.is_owner(unit, self.log), out);
            self.taking.insert(key, taking);
        }
    }

    fn stream(&mut self, ends: (u16, u16), units: Vec<Unit>) -> Stream {
        let number = self.number();
        Stream {
            number,
            ends,
            units,
            chunk: 0,
            part: Vec::new(),
            is_known: false,
            state: Progress::Idle,
            secured: BTreeSet::new(),
        }
    }

    /// What the view says is to come here: by who gives it and since when, from which container to which.
    fn wanted(&self, view: &View) -> Wanted {
        let (mut wanted, seats) = (Wanted::new(), Seats::new(&view.head));
        for (unit, share) in view.body.shares() {
            let Some(next) = share.next.as_ref().filter(|next| next.owner() == self.log) else {
                continue;
            };
            let mut ends = (share.active.container, next.container);
            let mut giver = share.active.owner();
            let is_waiting = share.is_waiting(&seats);
            if giver == self.log && ends.0 == ends.1 && !is_waiting {
                continue;
            }
            if is_waiting {
                // From our own replica, if we have one.
                let left = view.body.copies(&seats).of(share);
                let Some(first) = left.first() else { continue };
                giver = left.iter().find(|seat| seat.log == self.log).unwrap_or(first).log;
                ends.0 = REPLICAS;
            }
            let Some(from) = seats.of(giver).map(Seat::node) else { continue };
            let of_giver = wanted.entry((giver, next.epoch)).or_insert((from, BTreeMap::new()));
            of_giver.1.entry(ends).or_default().push(unit);
        }
        wanted
    }

    /// Asks for what may be asked for.
    pub(in super::super) fn ask(
        &mut self,
        now: Time,
        out: &mut Vec<Action>,
        outcome: &mut Outcome,
    ) {
        self.begin_anew(now, out);
        let mut asking = 0;
        for stream in self.taking.values_mut().flat_map(|taking| &mut taking.streams) {
            match stream.state {
                // Others may be served first, so it is one of those that wait for room.
                Progress::Asked(until) if until <= now => stream.state = Progress::Idle,
                Progress::Asked(_) => asking += 1,
                Progress::Idle | Progress::Staging(_) | Progress::Ahead | Progress::Done => {}
            }
        }
        for (&(_, epoch), taking) in &mut self.taking {
            for stream in &mut taking.streams {
                let is_due = match stream.state {
                    Progress::Idle => taking.is_sealing || self.next_pull <= now,
                    Progress::Ahead => taking.is_sealing,
                    Progress::Asked(_) | Progress::Staging(_) | Progress::Done => false,
                };
                if !is_due || asking >= PULLS_MAX || taking.anew.is_some() {
                    continue;
                }
                asking += 1;
                if taking.is_sealing {
                    taking.sealed.get_or_insert(now);
                }
                stream.state = Progress::Asked(now + RETRY);
                let units = if stream.is_known { Vec::new() } else { stream.units.clone() };
                let pull = Pull {
                    stream: StreamId { run: self.run, number: stream.number },
                    chunk: stream.chunk,
                    offset: u32::try_from(stream.part.len()).expect("at most CHUNK_MAX"),
                    seal: taking.is_sealing,
                    epoch,
                    container: stream.ends.0,
                    units,
                };
                outcome.messages.push((taking.from, HandoffMessage::Pull(pull)));
            }
        }
    }

    /// When [`Handoff::ask`] is due.
    pub(in super::super) fn deadline(&self) -> Option<Time> {
        let under_way = self.taking.values().filter(|taking| taking.anew.is_none());
        let streams = || {
            let of = |taking| Taking::streams_of(taking);
            under_way.clone().flat_map(of)
        };
        let asked = streams().filter(|(_, state)| matches!(state, Progress::Asked(_))).count();
        // Those that wait for room are looked at when something arrives.
        let has_room = asked < PULLS_MAX;
        let due = streams().filter_map(|(is_sealing, state)| match state {
            Progress::Idle if is_sealing => has_room.then_some(Time::default()),
            Progress::Idle => has_room.then_some(self.next_pull),
            Progress::Asked(until) => Some(until),
            Progress::Ahead | Progress::Staging(_) | Progress::Done => None,
        });
        let anew = self.taking.values().filter_map(|taking| taking.anew.or(taking.overdue()));
        due.chain(anew).min()
    }

    fn begin_anew(&mut self, now: Time, out: &mut Vec<Action>) {
        let mut numbers = self.numbers;
        for taking in self.taking.values_mut() {
            if taking.overdue().is_some_and(|at| at <= now) && taking.anew.is_none() {
                taking.anew = Some(now);
                let why = "its units were not all sealed in time".to_owned();
                out.push(Action::Tell(Event::HandoffFailed(taking.from, why)));
            }
        }
        for taking in self.taking.values_mut().filter(|t| t.anew.is_some_and(|at| at <= now)) {
            taking.discard(|_| true, out);
            (taking.anew, taking.is_sealing, taking.sealed) = (None, false, None);
            for stream in &mut taking.streams {
                numbers += 1;
                (stream.number, stream.chunk) = (numbers, 0);
                stream.part.clear();
                stream.secured.clear();
                (stream.is_known, stream.state) = (false, Progress::Idle);
            }
        }
        self.numbers = numbers;
    }

    pub(super) fn unknown(&mut self, from: NodeId, id: StreamId, _: &mut Outcome) {
        // It has lost its memory of it, and what came of it must not be mixed with what comes now. If all is
        // here already, somebody asked late: what is here may be served by a view that is on its way.
        if let Some((taking, at)) = self.find(from, id)
            && matches!(taking.streams[at].state, Progress::Asked(_))
        {
            taking.anew.get_or_insert(Time::default());
        }
    }

    fn find(&mut self, from: NodeId, id: StreamId) -> Option<(&mut Taking, usize)> {
        if id.run != self.run {
            return None;
        }
        let from = |taking: &&mut Taking| taking.from == from;
        let mut taking = self.taking.values_mut().filter(from);
        taking.find_map(|taking| {
            let at = taking.streams.iter().position(|stream| stream.number == id.number)?;
            Some((taking, at))
        })
    }

    pub(super) fn piece(
        &mut self,
        now: Time,
        (from, id): (NodeId, StreamId),
        piece: Piece,
        out: &mut Vec<Action>,
        outcome: &mut Outcome,
    ) {
        let Piece { chunk, kind, offset, len, bytes } = piece;
        let Some((taking, at)) = self.find(from, id) else { return };
        let stream = &mut taking.streams[at];
        let is_next = (chunk, offset as usize) == (stream.chunk, stream.part.len());
        let end = stream.part.len() + bytes.len();
        let fits = end <= len as usize && len <= CHUNK_MAX && (!bytes.is_empty() || len == 0);
        if !is_next || !fits || !matches!(stream.state, Progress::Asked(_)) {
            return;
        }
        stream.part.extend_from_slice(&bytes);
        if end < len as usize {
            stream.state = Progress::Idle;
            return self.ask(now, out, outcome);
        }
        let bytes = std::mem::take(&mut stream.part);
        let size = bytes.len() as u64;
        stream.is_known = true;
        stream.chunk += 1;
        stream.state = Progress::Staging(kind);
        let (number, to) = (stream.number, stream.ends.1);
        let is_replica = stream.ends.0 == REPLICAS;
        let stage = pe::Input::Stage { handoff: number, bytes: bytes.into(), is_replica };
        out.push(Action::Give(to, stage));
        self.counts.bytes += size;
        if matches!(kind, ChunkKind::Ahead | ChunkKind::AheadEnd) {
            let spent = Duration::from_secs_f64(size as f64 / RATE);
            self.next_pull = self.next_pull.max(now) + spent;
        }
        self.ask(now, out, outcome);
    }

    /// A container has read a chunk.
    pub(in super::super) fn staged(
        &mut self,
        now: Time,
        number: u64,
        outcome_there: Result<(), String>,
        out: &mut Vec<Action>,
        outcome: &mut Outcome,
    ) {
        let place = |stream: &Stream| stream.number == number;
        let found = self.taking.iter_mut().find_map(|((_, epoch), taking)| {
            let at = taking.streams.iter().position(place)?;
            Some((*epoch, taking, at))
        });
        let Some((epoch, taking, at)) = found else { return };
        if let Err(why) = outcome_there {
            out.push(Action::Tell(Event::HandoffFailed(taking.from, why)));
            taking.anew = Some(now + ANEW);
            return;
        }
        let stream = &mut taking.streams[at];
        if let Progress::Staging(kind) = stream.state {
            stream.state = match kind {
                ChunkKind::Ahead | ChunkKind::Rest => Progress::Idle,
                ChunkKind::AheadEnd => Progress::Ahead,
                ChunkKind::End => Progress::Done,
            };
        }
        let is_ahead = |state| matches!(state, Progress::Ahead | Progress::Done);
        taking.is_sealing |= taking.is_at(is_ahead);
        if taking.is_at(|state| state == Progress::Done) && !taking.is_whole {
            taking.is_whole = true;
            if taking.is_alone {
                let units = taking.all_units().into_iter().collect();
                outcome.causes.push(Cause::Installed(epoch, units));
            } else {
                for stream in &taking.streams {
                    let (handoff, units) = (stream.number, stream.units.clone());
                    let whole = pe::Input::Whole { handoff, units };
                    out.push(Action::Give(stream.ends.1, whole));
                }
            }
        }
        self.ask(now, out, outcome);
    }
}

impl Handoff {
    /// All have replicas of some units who are to have them. When that holds of all units of a taking they are
    /// installed: all of them or none, since who gives them serves all of them or none.
    pub(in super::super) fn secured(&mut self, number: u64, units: &[Unit], outcome: &mut Outcome) {
        for ((_, epoch), taking) in &mut self.taking {
            let stream = taking.streams.iter_mut().find(|stream| stream.number == number);
            let Some(stream) = stream else { continue };
            stream.secured.extend(units);
            let is_secured = |stream: &Stream| stream.secured.len() == stream.units.len();
            if taking.is_whole && taking.streams.iter().all(is_secured) {
                let units = taking.all_units().into_iter().collect();
                outcome.causes.push(Cause::Installed(*epoch, units));
            }
        }
    }
}

/// A piece of a chunk, as it came.
pub(super) struct Piece {
    pub(super) chunk: u32,
    pub(super) kind: ChunkKind,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) bytes: Vec<u8>,
}

/// The most bytes of a chunk that are believed: the largest instance, and what stands around it.
const CHUNK_MAX: u32 = 17 << 20;

type Wanted = BTreeMap<(LogId, Epoch), (NodeId, BTreeMap<(u16, u16), Vec<Unit>>)>;
