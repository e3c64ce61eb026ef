//! What the nodes of a cluster agree on: one numbered view after the other.
//!
//! Gossip is a hint. Two nodes that each believe it may both go on with the same share of the work, and
//! a node that slept may go on with one that is no longer its own. So whatever must be the same for all
//! (the members, and a [`Body`] that is opaque here) stands in a [`View`], and view v + 1 is decided by
//! a majority of the voters of view v. There is no master: each number is a Paxos of its own, which any
//! voter may propose for.
//!
//! Safety comes from one durable [`Record`] a node: its newest view, and a promise and a vote for the
//! next number. Gossip, time and chance decide only *when* something is tried.
//!
//! * **A view is whole.** A node that slept through many is sent the newest. Every message says which
//!   view its sender has, and whoever is behind is sent the other's: that is all of catching up.
//! * **Quorums count disks,** so that a restart of everybody changes nothing, and a node that lost its
//!   disk is another member.
//! * **Nothing is sent before it is on disk.** The core hands out [`Action::Persist`] and holds back
//!   what depends on it until [`Input::Persisted`].
//! * **A new cluster is founded** by a node that is told to, never because nobody answers.
//! * **A lost majority stays lost** until it is back, or until an operator says [`Input::RecoverUnsafe`].
//!
//! With two members there is one voter. If the other dies, the voter goes on alone; if the voter dies,
//! views stand still until it is back. Either may leave by [`Input::Drain`].
//!
//! The log does not know slots, streams or addresses: it names nodes, and the driver finds them.
//!
//! ```
//! use std::collections::BTreeSet;
//! use std::time::Duration;
//!
//! use membership::view_log::{
//!     Action, Body, ClusterId, Config, DiskId, Founding, Head, Input, LogId, Start, State, ViewLog,
//! };
//! use membership::{Member, NodeId, Run, Time};
//! use serde::{Deserialize, Serialize};
//!
//! /// All the names that anybody ever deployed.
//! #[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
//! struct Names(BTreeSet<String>);
//!
//! impl Body for Names {
//!     type Cause = String;
//!
//!     fn wants(&self, _: &Head, name: &String) -> bool {
//!         name.len() <= 64 && !self.0.contains(name)
//!     }
//!     fn next(&self, _: &Head, _: &Head, names: &BTreeSet<String>) -> Self {
//!         Self(self.0.union(names).cloned().collect())
//!     }
//!     fn needs(&self, _: &Head, _: LogId) -> bool {
//!         false
//!     }
//!     fn check(&self, _: &Head) -> Result<(), String> {
//!         Ok(())
//!     }
//!     fn check_next(&self, _: &Head, next: &Self, _: &Head) -> Result<(), String> {
//!         if self.0.is_subset(&next.0) { Ok(()) } else { Err("a name is missing".to_owned()) }
//!     }
//! }
//!
//! let (member, disk) = (
//! #   Member {
//! #       node: NodeId(1),
//! #       run: Run(1),
//! #       peer: Vec::new(),
//! #       control: ([10, 0, 0, 1], 7000).into(),
//! #       data: ([10, 0, 0, 1], 7001).into(),
//! #       http: None,
//! #       containers: 4,
//! #   },
//! #   /*
//!     Member { node: NodeId(1), run: Run(1), /* ... */ },
//! #   */
//!     DiskId(0xd15c),
//! );
//! let founding = Founding { cluster: ClusterId(7), body: Names::default(), nodes: Vec::new() };
//! let start = Start {
//!     member,
//!     log: LogId::synced(disk),
//!     record: None, // Nothing on disk.
//!     founding: Some(founding),
//!     seed: 1,
//! };
//! let mut log = ViewLog::new(start, Config::lan())?;
//!
//! // The driver: its disk is a variable, its clock the deadline, and there is nobody to send to.
//! let mut file = Vec::new();
//! let mut numbers = Vec::new();
//! let mut inputs = vec![Input::Cause("words".to_owned())];
//! while numbers.len() < 2 {
//!     let now = log.deadline().unwrap_or(Time(Duration::ZERO));
//!     let mut actions = Vec::new();
//!     log.step(now, inputs.pop().unwrap_or(Input::Woke), &mut actions);
//!     for action in actions {
//!         match action {
//!             Action::Persist(stamp, record) => {
//!                 file = record.to_bytes();
//!                 inputs.push(Input::Persisted(stamp));
//!             }
//!             Action::Install(view) => numbers.push(view.head.number.0),
//!             Action::Send(..) | Action::Dismissed | Action::Tell(_) => {}
//!         }
//!     }
//! }
//! assert_eq!(numbers, [1, 2]);
//! let view = log.view().ok_or("there is a view")?;
//! assert!(view.body.0.contains("words"));
//! assert_eq!(view.head.seats[0].state, State::Active);
//! assert!(!file.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod body;
mod codec;
mod config;
mod contacts;
mod draft;
mod fingerprint;
mod founding;
mod hear;
mod journal;
mod learn;
mod message;
mod proposer;
mod record;
mod rules;
mod tell;
#[cfg(test)]
mod tests;
mod view;
mod wishes;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub use body::Body;
pub use codec::RecordError;
pub use config::{Config, StartError};
use contacts::Contacts;
pub use founding::Founding;
use founding::Waiting;
use journal::Journal;
pub use message::{Action, Event, Input, Message, Refusal, Stamp, Unrecoverable, Word};
use proposer::{Attempt, Proposer};
pub use record::{Accepted, Ballot, Record};
pub use rules::Unfit;
pub use view::{
    ClusterId, Digest, DiskId, Generation, Head, LogId, SEATS_MAX, Seat, Seats, State, VOTERS_MAX,
    View, ViewId,
};
pub use wishes::Wish;
use wishes::Wishes;

use crate::{Epoch, Member, NodeId, Reason, Run, Time};

/// What a view log starts from.
#[derive(Clone, Debug)]
pub struct Start<B: Body> {
    /// The node, in this run. The run must be on disk before the node is heard of: ballots rest on it. A
    /// node whose disk is replaced and that keeps its name has to go on counting its runs.
    pub member: Member,
    /// Its data directory, and the logs on it.
    pub log: LogId,
    /// What was last persisted on this disk, if anything was.
    pub record: Option<Record<B>>,
    /// How to begin a new cluster, if this node is to; nothing if its disk belongs to one.
    pub founding: Option<Founding<B>>,
    /// Decides whom to tell and how long to wait for rivals; must differ between nodes.
    pub seed: u64,
}

/// The view log of one node.
pub struct ViewLog<B: Body> {
    me: Member,
    log: LogId,
    config: Config,
    rng: StdRng,
    /// When the last step was.
    now: Time,
    record: Record<B>,
    /// The change that brought the newest view.
    view_change: Stamp,
    /// The newest view that the driver was given.
    installed: Option<Arc<View<B>>>,
    journal: Journal<B>,
    proposer: Proposer<B>,
    contacts: Contacts,
    wishes: Wishes<B>,
    /// The founding that is asked for, until the first step.
    founding: Option<Founding<B>>,
    /// The founding that is under way.
    waiting: Option<Waiting<B>>,
    chores: Chores,
    is: Flags,
}

/// What is due later.
#[derive(Debug, Default)]
struct Chores {
    /// Since when there are causes for another view.
    cause_since: Option<Time>,
    /// When the voters are told again what we want, and how long to wait after that.
    wish: Option<(Time, Duration)>,
    /// When somebody is told where we stand.
    spread_at: Time,
    /// When those that have to know that we leave are asked again.
    poll_at: Option<Time>,
}

/// What has happened once and for all, or is so at the moment.
#[derive(Debug, Default)]
struct Flags {
    started: bool,
    dismissed: bool,
    without_quorum: bool,
    over: bool,
}

impl<B: Body> ViewLog<B> {
    /// A view log with what its disk holds.
    ///
    /// # Errors
    /// The config, the node or the record cannot be worked with. Nothing was started.
    pub fn new(start: Start<B>, config: Config) -> Result<Self, StartError> {
        let config = config.check()?;
        let me = start.member.portable();
        if me.peer.len() > Member::PEER_BYTES_MAX || start.log.run > me.run {
            return Err(StartError::Myself);
        }
        let record = start.record.unwrap_or_else(|| Record::blank(start.log.disk));
        if record.disk != start.log.disk {
            return Err(StartError::OtherDisk);
        }
        record.view.as_ref().map_or(Ok(()), |view| view.check()).map_err(StartError::Unfit)?;
        let founding = start.founding;
        if let Some(founding) = &founding {
            founding.first(&me, start.log).check().map_err(StartError::Unfit)?;
        }
        let causes = Vec::new();
        let own =
            Wish { count: 0, member: me.clone(), log: start.log, state: State::Joining, causes };
        Ok(Self {
            wishes: Wishes::new(me.node, own),
            me,
            log: start.log,
            config,
            rng: StdRng::seed_from_u64(start.seed),
            now: Time::default(),
            record,
            view_change: Stamp::default(),
            installed: None,
            journal: Journal::new(),
            proposer: Proposer::new(),
            contacts: Contacts::default(),
            founding,
            waiting: None,
            chores: Chores::default(),
            is: Flags::default(),
        })
    }

    /// Takes one input and appends to `out` what is to be done about it.
    pub fn step(&mut self, now: Time, input: Input<B>, out: &mut Vec<Action<B>>) {
        if self.is.over {
            return;
        }
        self.now = now;
        if !self.is.started {
            self.start(now, out);
        }
        match input {
            Input::Woke => {}
            Input::Up(member) => self.up(member.node, member.run),
            Input::Down(node, reason) => self.down(now, node, reason),
            Input::Received(from, message) if from != self.me.node => {
                self.hear(now, from, message, out);
            }
            Input::Received(from, _) => self.refuse(from, Refusal::Nonsense, out),
            Input::Persisted(stamp) => self.journal.persisted(stamp),
            Input::Cause(cause) => self.want(cause, out),
            Input::Ready => self.wish(State::Active),
            Input::Drain => self.wish(State::Draining),
            Input::RecoverUnsafe => self.recover(now, out),
        }
        self.settle(now, out);
    }

    /// When [`Input::Woke`] is due next. At once after the start; never when all is over.
    pub fn deadline(&self) -> Option<Time> {
        if self.is.over {
            return None;
        }
        if !self.is.started {
            return Some(Time::default());
        }
        let Chores { wish, spread_at, poll_at, .. } = &self.chores;
        let all = [
            self.propose_at(),
            self.proposer.retry_at(),
            wish.map(|(at, _)| at),
            Some(*spread_at),
            *poll_at,
            self.waiting.as_ref().map(|waiting| waiting.ask_at),
            self.contacts.next_death(self.now),
            self.next_welcome(),
        ];
        all.into_iter().flatten().min()
    }

    /// The newest view that was installed.
    pub fn view(&self) -> Option<&Arc<View<B>>> {
        self.installed.as_ref()
    }

    /// The cluster that the disk belongs to, for the handshake with others; known after the first step.
    pub fn cluster(&self) -> Option<ClusterId> {
        self.installed.as_ref().map(|view| view.head.cluster)
    }

    /// Our own seat in the installed view; nothing for a node that is no member.
    pub fn seat(&self) -> Option<&Seat> {
        self.installed.as_ref().and_then(|view| view.head.seat_of(self.log.disk))
    }

    /// Of the voters of the newest view, how many may be there and how many it takes.
    pub fn quorum(&self) -> Option<(usize, usize)> {
        let head = &self.record.view.as_ref()?.head;
        Some((self.live_voters(head).count(), head.majority()))
    }

    fn start(&mut self, now: Time, out: &mut Vec<Action<B>>) {
        self.is.started = true;
        self.contacts.up(self.me.node, self.me.run);
        self.chores.spread_at = now + self.config.spread;
        if let Some(view) = self.record.view.clone() {
            self.contacts.follow(now, None, &view.head, &self.config);
            if self.founding.take().is_some() {
                out.push(Action::Tell(Event::AlreadyFounded(view.head.cluster)));
            }
        }
        let founding = self.founding.take();
        self.waiting = founding.and_then(|founding| founding.begun(&self.me, now));
    }

    fn up(&mut self, node: NodeId, run: Run) {
        if node != self.me.node {
            self.contacts.up(node, run);
            self.tell_where_we_stand(node);
        }
    }

    fn down(&mut self, now: Time, node: NodeId, reason: Reason) {
        if node == self.me.node {
            return;
        }
        let grace = match reason {
            Reason::Left => Duration::ZERO,
            Reason::Failed | Reason::Restarted => self.config.stable_after,
        };
        let view = self.record.view.as_ref();
        let is_member = view.is_some_and(|view| view.head.seat(node).is_some());
        self.contacts.down(node, now + grace, is_member);
    }

    fn want(&mut self, cause: B::Cause, out: &mut Vec<Action<B>>) {
        let view = self.record.view.as_ref();
        let is_wanted = view.is_none_or(|view| view.body.wants(&view.head, &cause));
        let own = self.wishes.of(self.me.node);
        let is_known = own.is_some_and(|own| own.causes.contains(&cause));
        if is_known || !is_wanted {
            return;
        }
        if own.is_some_and(|own| own.causes.len() >= self.config.causes_max) {
            return self.refuse(self.me.node, Refusal::Full, out);
        }
        self.wishes.change(self.me.node, |own| own.causes.push(cause));
        self.chores.wish = None; // Said at once.
    }

    fn wish(&mut self, state: State) {
        let is_leaving =
            self.wishes.of(self.me.node).is_some_and(|own| own.state == State::Draining);
        if !is_leaving {
            self.wishes.change(self.me.node, |own| own.state = state);
            self.chores.wish = None; // Said at once.
        }
    }

    /// Does what is due, lets go of what is on disk, and hears what it says to itself, until all is done.
    fn settle(&mut self, now: Time, out: &mut Vec<Action<B>>) {
        loop {
            self.review(now, out);
            self.do_chores(now, out);
            if let Some(stamp) = self.journal.write() {
                out.push(Action::Persist(stamp, self.record.clone()));
            }
            self.publish(out);
            if self.is.over {
                break;
            }
            let released = self.journal.release();
            if released.is_empty() {
                break;
            }
            for (to, message) in released {
                if to == self.me.node {
                    self.hear(now, to, message, out);
                } else {
                    out.push(Action::Send(to, message));
                }
            }
        }
    }

    fn do_chores(&mut self, now: Time, out: &mut Vec<Action<B>>) {
        self.found_if_due(now, out);
        if self.propose_at().is_some_and(|at| at <= now) {
            let Record { promised, disk, .. } = self.record;
            let ballot = Ballot { round: 0, run: self.me.run, disk };
            self.proposer.begin(now, promised, ballot, &self.config);
            self.ask_voters();
        } else if self.proposer.is_retry_due(now, &self.config) {
            self.ask_voters();
        }
        if self.chores.wish.is_some_and(|(at, _)| at <= now) {
            self.tell_wish(now);
        }
        if self.chores.spread_at <= now {
            self.chores.spread_at = now + self.config.spread;
            self.spread();
        }
        self.leave_if_allowed(now, out);
    }

    fn refuse(&self, from: NodeId, why: Refusal, out: &mut Vec<Action<B>>) {
        out.push(Action::Tell(Event::Refused(from, why)));
    }

    fn chance(&mut self) -> f64 {
        self.rng.random()
    }
}

impl<B: Body> fmt::Debug for ViewLog<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |view: &Option<Arc<View<B>>>| view.as_ref().map(|view| view.head.number);
        f.debug_struct("ViewLog")
            .field("node", &self.me.node)
            .field("disk", &self.log.disk)
            .field("view", &number(&self.record.view))
            .field("installed", &number(&self.installed))
            .field("promised", &self.record.promised)
            .field("attempt", &self.proposer.attempt)
            .finish_non_exhaustive()
    }
}
