//! Each rule of the view log, with the message or the crash that would break it.
//!
//! Here is what the tests share: a body, a view of three voters, and a [`Desk`] with one node on it.

mod deciding;
mod junk;
mod members;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::*;
use crate::Run;

/// Notes that are only ever added to.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Notes(pub(super) BTreeSet<u32>);

impl Body for Notes {
    type Cause = u32;

    fn wants(&self, _: &Head, note: &u32) -> bool {
        *note < 100 && !self.0.contains(note)
    }

    fn next(&self, _: &Head, _: &Head, notes: &BTreeSet<u32>) -> Self {
        Self(self.0.union(notes).copied().collect())
    }

    /// Note 50 says that nobody may go.
    fn needs(&self, _: &Head, _: LogId) -> bool {
        self.0.contains(&50)
    }

    /// Note 60 says that nobody may stay away.
    fn wants_back(&self, _: &Head, _: LogId) -> bool {
        self.0.contains(&60)
    }

    fn check(&self, _: &Head) -> Result<(), String> {
        let is_small = self.0.iter().all(|note| *note < 100);
        is_small.then_some(()).ok_or_else(|| "too large a note".to_owned())
    }

    fn check_next(&self, _: &Head, next: &Self, _: &Head) -> Result<(), String> {
        let is_kept = self.0.is_subset(&next.0);
        is_kept.then_some(()).ok_or_else(|| "a note is missing".to_owned())
    }

    fn admits(&self, _: &Head, member: &Member) -> bool {
        member.containers < 100
    }
}

pub(super) fn member(node: u64) -> Member {
    let addr = SocketAddr::from(([10, 0, 0, 1], 7000));
    Member {
        node: NodeId(node),
        run: Run(1),
        peer: Vec::new(),
        control: addr,
        data: addr,
        http: None,
        containers: 1,
    }
}

/// A seat of the first view, on a disk numbered like the node.
pub(super) fn seat(node: u64, state: State) -> Seat {
    let log = LogId::synced(DiskId(node));
    Seat { member: member(node), log, state, since: Epoch(1) }
}

/// View 7 of a cluster of nodes 1 to 3 with note 1; with 2 instead of 3, view 6 of nodes 1 and 3.
pub(super) fn view(size: u64) -> Arc<View<Notes>> {
    let nodes = if size == 2 { &[1, 3][..] } else { &[1, 2, 3] };
    let seats: Vec<_> = nodes.iter().map(|&node| seat(node, State::Active)).collect();
    let head = Head {
        cluster: ClusterId(5),
        generation: Generation { count: 0, author: DiskId(1) },
        number: Epoch(4 + size),
        parent: Digest(0),
        voters: view::voters(&[], &seats, &BTreeSet::new()),
        seats,
        lost: Vec::new(),
    };
    Arc::new(View { head, body: Notes([1].into()) })
}

const START: Time = Time(Duration::ZERO);

fn ballot(round: u64, disk: u64) -> Ballot {
    Ballot { round, run: Run(1), disk: DiskId(disk) }
}

/// What follows `view(3)` with one more note.
fn next(note: u32) -> Arc<View<Notes>> {
    let before = view(3);
    let mut next = View { head: before.head.clone(), body: before.body.clone() };
    next.head.number.0 += 1;
    next.head.parent = before.digest();
    next.body.0.insert(note);
    Arc::new(next)
}

/// A node and its disk.
struct Desk {
    log: ViewLog<Notes>,
    file: Record<Notes>,
    now: Time,
    /// The write that is under way.
    stamp: Option<Stamp>,
}

impl Desk {
    /// A node with that on its disk, which is numbered like the node.
    fn with(node: u64, run: u64, file: Record<Notes>) -> Self {
        let member = Member { run: Run(run), ..member(node) };
        let log = LogId::synced(file.disk);
        let record = Some(file.clone());
        let start = Start { member, log, record, founding: None, seed: 1 };
        let log = ViewLog::new(start, Config::lan()).unwrap();
        Self { log, file, now: START, stamp: None }
    }

    /// A voter of `view(3)`, who hears of nobody else.
    fn voter(node: u64) -> Self {
        let disk = DiskId(node);
        let mut desk = Self::with(node, 1, Record { view: Some(view(3)), ..Record::blank(disk) });
        let installed = desk.give(Input::Ready);
        assert_eq!(installed, [Action::Install(view(3))]);
        desk
    }

    /// The same node in its next run, with what it has on disk.
    fn restarted(self) -> Self {
        let mut desk = Self::with(self.log.me.node.0, self.log.me.run.0 + 1, self.file);
        desk.give(Input::Ready);
        desk
    }

    /// One input; writes stay under way.
    fn give(&mut self, input: Input<Notes>) -> Vec<Action<Notes>> {
        let mut out = Vec::new();
        self.log.step(self.now, input, &mut out);
        out.retain(|action| {
            let Action::Persist(stamp, record) = action else { return true };
            assert!(self.stamp.is_none(), "two writes at a time");
            (self.stamp, self.file) = (Some(*stamp), record.clone());
            false
        });
        out
    }

    /// Lets the disk finish, and whatever follows from that.
    fn sync(&mut self) -> Vec<Action<Notes>> {
        let mut out = Vec::new();
        while let Some(stamp) = self.stamp.take() {
            out.extend(self.give(Input::Persisted(stamp)));
        }
        out
    }

    /// One message from a node that holds `view(3)`, and what comes of it once it is on disk.
    fn hear(&mut self, from: u64, word: Word<Notes>) -> Vec<Action<Notes>> {
        let mut out = self.give(said(from, from, word));
        out.extend(self.sync());
        out
    }

    /// Lets time pass.
    fn wait(&mut self, millis: u64) -> Vec<Action<Notes>> {
        self.now = self.now + Duration::from_millis(millis);
        let mut out = self.give(Input::Woke);
        out.extend(self.sync());
        out
    }

    /// Begins an attempt for a note, and says under which ballot.
    fn propose(&mut self, note: u32) -> Ballot {
        self.give(Input::Cause(note));
        self.now = self.now + Duration::from_secs(2);
        let out = self.give(Input::Woke);
        let asked = out.iter().find_map(|action| {
            let Action::Send(_, Message { word: Word::Prepare(ballot), .. }) = action else {
                return None;
            };
            Some(*ballot)
        });
        asked.unwrap()
    }
}

/// A message from a node that holds `view(3)`.
fn said(from: u64, disk: u64, word: Word<Notes>) -> Input<Notes> {
    said_at(&view(3), from, disk, word)
}

fn said_at(at: &View<Notes>, from: u64, disk: u64, word: Word<Notes>) -> Input<Notes> {
    let at = Some((at.head.cluster, at.id()));
    Input::Received(NodeId(from), Message { disk: DiskId(disk), at, word })
}

/// What is said to one node, by kind of message.
fn words(out: &[Action<Notes>], to: u64) -> Vec<&Word<Notes>> {
    out.iter()
        .filter_map(|action| {
            let Action::Send(node, Message { word, .. }) = action else { return None };
            (*node == NodeId(to)).then_some(word)
        })
        .collect()
}

/// The values that are put to the vote.
fn proposals(out: &[Action<Notes>]) -> BTreeSet<BTreeSet<u32>> {
    let proposed = |action: &Action<Notes>| {
        let Action::Send(_, Message { word: Word::Accept(_, value), .. }) = action else {
            return None;
        };
        Some(value.body.0.clone())
    };
    out.iter().filter_map(proposed).collect()
}

fn refused(out: &[Action<Notes>]) -> Vec<&Refusal> {
    out.iter()
        .filter_map(|action| {
            let Action::Tell(Event::Refused(_, why)) = action else { return None };
            Some(why)
        })
        .collect()
}

fn installed(out: &[Action<Notes>]) -> Vec<u64> {
    out.iter()
        .filter_map(|action: &Action<Notes>| {
            let Action::Install(view) = action else { return None };
            Some(view.head.number.0)
        })
        .collect()
}
