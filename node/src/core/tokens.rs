//! The partitions of spouts, as tokens that nodes hold and pass on.
//!
//! There is one token per partition, made once when its topology starts. Who holds it reads it; when the
//! layout names another reader, the holder closes the partition, sends the token with its position, and
//! keeps it until the other has said that it arrived. So a partition is never read by two nodes, and is
//! always held by somebody who counts it. A token dies with the node that holds it.
//!
//! Under at-least-once a token outlives its node, on the disk of whoever holds it: where a partition is to be read
//! on, and whether it is on its way to another disk. Nothing is said of a token to others before that is
//! synced: not that it comes, for whoever crashed would read on as well; not that it arrived, for the sender
//! would forget it. A life that begins on the disk goes on with what it finds.
//!
//! Where state has replicas, so has what is on the disk: it is with some other members before anything is said that
//! rests on it (see [`books`](super::books)), and one of the members that are left inherits the tokens of one that is
//! gone, by a view.
//!
//! Messages may be lost, doubled and late. So a token counts how often it was passed on, a node that has had
//! it once does not take it a second time, and it is passed to one life of a node: a later one knows not
//! whether the earlier had it, and passed it on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use membership::view_log::{DiskId, Head, LogId};
use membership::{Epoch, Member, NodeId, Time};
use pe::topology::Plan;
use pe::{Layout, PartitionName, PartitionReport, Position, Report};
use routing::ContainerId;
use serde::{Deserialize, Serialize};

use super::assignment::{Cause, Heir};
use super::message::{Action, Message};

/// Which partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TokenId {
    /// The topology.
    pub topology: u16,
    /// The spout.
    pub prototype: u16,
    /// Which of its partitions.
    pub index: u32,
    /// How many there are.
    pub count: u32,
}

/// A partition on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Which.
    pub id: TokenId,
    /// Its name.
    pub name: PartitionName,
    /// Where it stands.
    pub position: Position,
    /// So many events behind it are done with, too.
    pub skip: u64,
    /// Whether it has nothing more.
    pub is_exhausted: bool,
    /// How often it was passed from one node to another.
    pub hops: u64,
}

/// The tokens that a node holds.
#[derive(Debug)]
pub(super) struct Tokens {
    me: NodeId,
    held: BTreeMap<TokenId, Held>,
    /// How often those that were ever held here had been passed on by then.
    had: BTreeMap<TokenId, u64>,
    /// The present lives of the members.
    lives: BTreeMap<NodeId, LogId>,
    /// The hashes of the topologies, and which of them outlive their nodes.
    plans: Vec<(u64, bool)>,
    /// Spouts whose tokens were made on this disk, of those topologies.
    made: BTreeSet<(u16, u16)>,
    /// Counts the changes of what is on the disk: how many there were, how many are there, and how many are
    /// being written.
    changes: u64,
    kept: u64,
    writing: Option<u64>,
    synced: u64,
    /// What was written last, and which members have it as far as which change.
    book: Option<Arc<Offsets>>,
    keepers: BTreeMap<LogId, u64>,
    next_keep: Time,
    has_moved_on: bool,
    /// What disks had that are gone since a view: to be inherited once another says so.
    bequests: BTreeMap<DiskId, (Epoch, Estate)>,
    /// Who has inherited from which disks.
    heirs: BTreeMap<DiskId, Heir>,
    /// Whether another has inherited what was here, and it has been dropped for that.
    is_disowned: bool,
    /// Who is to be told that a token arrived, once so many changes are on the disk.
    owed: Vec<(u64, NodeId, TokenId, u64)>,
}

/// What of tokens is on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offsets {
    /// The topologies that this is of, by their hashes.
    plans: Vec<u64>,
    own: Estate,
    /// What other disks had that are gone. It is this one's from the view on that says so. Those of others are
    /// beside theirs and not within: a peer could nest them without end.
    bequests: Vec<(DiskId, Epoch, Estate)>,
}

/// What a disk has of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Estate {
    /// What is held, and to which life it is on its way.
    held: Vec<(Token, Option<(NodeId, LogId)>)>,
    had: Vec<(TokenId, u64)>,
    made: Vec<(u16, u16)>,
}

impl Estate {
    fn entries(&self) -> usize {
        self.held.len() + self.had.len()
    }
}

impl Offsets {
    fn entries(&self) -> usize {
        let bequests = self.bequests.iter().map(|(.., of)| of.entries());
        self.own.entries() + bequests.sum::<usize>()
    }

    fn is_of(&self, plans: &[(u64, bool)]) -> bool {
        self.plans.iter().eq(plans.iter().map(|(hash, _)| hash))
    }

    /// The partitions, and how many of the events of each need not be read again, as far as one position tells.
    pub fn committed(&self) -> impl Iterator<Item = (&PartitionName, Position, u64)> {
        self.own.held.iter().map(|(token, _)| (&token.name, token.position, token.skip))
    }
}

/// How often it is written where partitions have come to, at most.
const KEEP: Duration = Duration::from_millis(250);

/// The most that a book has so that others keep it: a message holds no more. Above it, partitions are on the disk of
/// their reader only.
const BOOK_MAX: usize = 1 << 14;

/// The most partitions of a spout.
pub(super) const PARTITIONS_MAX: u32 = 1 << 16;

#[derive(Debug)]
struct Held {
    token: Token,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A container of ours has it.
    Here(u16),
    /// A container of ours was asked to close it, for somebody else.
    Closing(ContainerId),
    /// It is on its way to a life of a node, or arrived without our having heard of it. Said once so many changes
    /// are on the disk.
    Passing(NodeId, LogId, u64),
    /// It was found on the disk, and nobody reads it yet.
    Found,
}

impl Tokens {
    pub(super) fn new(me: NodeId, plans: &[Arc<Plan>]) -> Self {
        Self {
            me,
            held: BTreeMap::new(),
            had: BTreeMap::new(),
            lives: BTreeMap::new(),
            plans: plans.iter().map(|plan| (plan.hash, plan.acks.is_some())).collect(),
            made: BTreeSet::new(),
            changes: 0,
            kept: 0,
            writing: None,
            synced: 0,
            book: None,
            keepers: BTreeMap::new(),
            bequests: BTreeMap::new(),
            heirs: BTreeMap::new(),
            is_disowned: false,
            next_keep: Time::default(),
            has_moved_on: false,
            owed: Vec::new(),
        }
    }

    /// Goes on with what an earlier life left on the disk; `false` if that was of other topologies.
    pub(super) fn restore(&mut self, found: Offsets) -> bool {
        if !found.is_of(&self.plans) {
            return false;
        }
        let bequests = found.bequests.into_iter();
        self.bequests = bequests.map(|(disk, gone, of)| (disk, (gone, of))).collect();
        let found = found.own;
        self.had = found.had.into_iter().collect();
        self.made = found.made.into_iter().collect();
        let held = found.held.into_iter().map(|(token, to)| {
            let state = to.map_or(State::Found, |(node, life)| State::Passing(node, life, 0));
            (token.id, Held { token, state })
        });
        self.held = held.collect();
        true
    }

    fn is_durable(&self, topology: u16) -> bool {
        self.plans.get(usize::from(topology)).is_some_and(|(_, is_durable)| *is_durable)
    }

    /// Whether the tokens of a spout were made on this disk, and are found by the next life.
    pub(super) fn has_made(&self, spout: (u16, u16)) -> bool {
        self.made.contains(&spout)
    }

    /// Has written what has to be on the disk, if something is to be written; whether it is.
    pub(super) fn keep(&mut self, now: Time, out: &mut Vec<Action>) -> bool {
        let is_due = self.has_moved_on && self.next_keep <= now;
        if self.writing.is_some() || self.changes == self.synced && !is_due {
            return false;
        }
        if self.changes == self.synced {
            self.changes += 1;
        }
        (self.has_moved_on, self.next_keep) = (false, now + KEEP);
        let is_kept = |id: &TokenId| self.is_durable(id.topology);
        let held = self.held.iter().filter(|(id, _)| is_kept(id)).map(|(_, held)| {
            let to = match held.state {
                State::Passing(node, life, _) => Some((node, life)),
                State::Here(_) | State::Closing(_) | State::Found => None,
            };
            (held.token.clone(), to)
        });
        let own = Estate {
            held: held.collect(),
            had: self.had.iter().filter(|(id, _)| is_kept(id)).map(|(&id, &n)| (id, n)).collect(),
            made: self.made.iter().copied().collect(),
        };
        let bequests = self.bequests.iter();
        let offsets = Offsets {
            plans: self.plans.iter().map(|(hash, _)| *hash).collect(),
            own,
            bequests: bequests.map(|(&disk, (gone, of))| (disk, *gone, of.clone())).collect(),
        };
        self.writing = Some(self.changes);
        self.book = Some(Arc::new(offsets.clone()));
        out.push(Action::Keep(Box::new(offsets)));
        true
    }

    /// What was to be written is on the disk, synced.
    pub(super) fn synced(&mut self) {
        self.synced = self.writing.take().unwrap_or(self.synced);
    }

    /// A member has what was written, as far as a change.
    pub(super) fn copied(&mut self, by: LogId, change: u64) {
        if let Some(known) = self.keepers.get_mut(&by) {
            *known = change.max(*known);
        }
    }

    /// Who is to have what is written, from now on.
    pub(super) fn keep_with(&mut self, keepers: impl Iterator<Item = LogId>) {
        let known = |log| (log, self.keepers.get(&log).copied().unwrap_or(0));
        self.keepers = keepers.map(known).collect();
    }

    /// What was written last, for those who are to have it and have not said so.
    pub(super) fn book(&self) -> Option<(u64, &Arc<Offsets>, Vec<LogId>)> {
        let change = self.writing.unwrap_or(self.synced);
        if self.is_alone() {
            return None;
        }
        let lacking = self.keepers.iter().filter(|(_, has)| **has < change);
        Some((change, self.book.as_ref()?, lacking.map(|(&log, _)| log).collect()))
    }

    /// Whether nobody keeps what is written here: it is too large.
    fn is_alone(&self) -> bool {
        self.book.as_ref().is_some_and(|book| book.entries() > BOOK_MAX)
    }

    /// As of which change it is where it has to be.
    fn written(&self) -> u64 {
        let keepers = self.keepers.values().copied().filter(|_| !self.is_alone());
        keepers.fold(self.synced, u64::min)
    }

    /// What can be said now that more is on disks; gives who is to be told of what.
    pub(super) fn owed(&mut self) -> Vec<(NodeId, TokenId, u64)> {
        self.kept = self.written();
        let kept = self.kept;
        let owed = self.owed.extract_if(.., |(change, ..)| *change <= kept);
        owed.map(|(_, node, id, hops)| (node, id, hops)).collect()
    }

    /// Something has changed that has to be on the disk.
    fn change(&mut self, topology: u16) -> u64 {
        if !self.is_durable(topology) {
            return 0;
        }
        self.changes += 1;
        self.changes
    }

    /// What a disk had that is gone since a view is kept here from now on, until a view says whose it is.
    pub(super) fn bequeathed(&mut self, disk: DiskId, gone: Epoch, of: Offsets) {
        if !of.is_of(&self.plans) {
            return;
        }
        // What it had inherited itself, and not made its own yet.
        let is_its = |(known, gone, _): &(DiskId, Epoch, Estate)| {
            let heir = self.heirs.get(known);
            heir.is_some_and(|heir| heir.log.disk == disk && heir.gone == *gone)
        };
        let its = of.bequests.into_iter().filter(is_its).collect::<Vec<_>>();
        for (disk, gone, of) in its.into_iter().chain([(disk, gone, of.own)]) {
            self.bequests.insert(disk, (gone, of));
        }
        self.changes += 1;
    }

    /// Whether what a disk had is kept here, and by all who have to have what is written here.
    pub(super) fn has_bequest(&self, disk: DiskId) -> bool {
        let is_in = |book: &Arc<Offsets>| book.bequests.iter().any(|(known, ..)| *known == disk);
        self.is_written() && self.book.as_ref().is_some_and(is_in)
    }

    /// Whether all that is here is where it has to be.
    fn is_written(&self) -> bool {
        self.writing.is_none() && self.written() >= self.changes
    }

    /// Whether it is kept here at all.
    pub(super) fn knows_bequest(&self, disk: DiskId) -> bool {
        self.bequests.contains_key(&disk)
    }

    /// Learns who has inherited, and of whom it is not known yet; takes what is this disk's by that, and drops what is
    /// another's.
    pub(super) fn inherit(
        &mut self,
        me: LogId,
        heirs: &BTreeMap<DiskId, Heir>,
        orphans: &BTreeMap<DiskId, Epoch>,
        out: &mut Vec<Action>,
    ) {
        self.heirs = heirs.clone();
        for (disk, (gone, of)) in std::mem::take(&mut self.bequests) {
            let heir = heirs.get(&disk).filter(|heir| heir.gone == gone);
            let whose = self.heir(disk);
            if heir.is_some_and(|heir| whose == me.disk && !heir.has_merged) {
                self.merge(disk, of);
                continue;
            }
            let is_open = match heir {
                // Of one whose heir is gone, too, the next one may have it.
                Some(heir) => !heir.has_merged && orphans.contains_key(&whose),
                None => orphans.get(&disk) == Some(&gone),
            };
            if is_open {
                self.bequests.insert(disk, (gone, of));
            } else {
                // It came back and went on, or somebody else has it.
                self.changes += 1;
            }
        }
        let is_disowned = heirs.get(&me.disk).is_some_and(|heir| !heir.is_forgotten);
        if is_disowned && !self.is_disowned {
            self.disown(out);
        }
        self.is_disowned = is_disowned;
    }

    /// Whether another has inherited what this disk had, and it has not been agreed yet that it was dropped here. Until then
    /// it takes nothing: a later life could not tell that from what it had.
    pub(super) fn is_disowned(&self) -> bool {
        self.is_disowned
    }

    /// What is to be said of inheritances that this disk has acted on.
    pub(super) fn settled(&self, me: DiskId) -> Vec<Cause> {
        if !self.is_written() {
            return Vec::new();
        }
        let is_merged = |(disk, heir): &(&DiskId, &Heir)| {
            let is_beside = self.bequests.get(disk).is_some_and(|(gone, _)| *gone == heir.gone);
            !heir.has_merged && self.heir(**disk) == me && !is_beside
        };
        let merged = self.heirs.iter().filter(is_merged);
        let merged = merged.map(|(&disk, heir)| Cause::Merged(disk, heir.gone));
        merged.chain(self.is_disowned.then_some(Cause::Forgot(me))).collect()
    }

    /// Drops what another has inherited. What was passed on by then is not taken a second time: that is remembered.
    fn disown(&mut self, out: &mut Vec<Action>) {
        let plans = &self.plans;
        let is_durable = |id: &TokenId| plans.get(usize::from(id.topology)).is_some_and(|p| p.1);
        for (id, held) in self.held.extract_if(.., |id, _| is_durable(id)) {
            if let State::Here(container) = held.state {
                let TokenId { topology, prototype, .. } = id;
                let name = held.token.name;
                out.push(Action::Close { container, topology, prototype, name });
            }
        }
        self.changes += 1;
    }

    /// Takes what a disk had.
    fn merge(&mut self, disk: DiskId, of: Estate) {
        self.changes += 1;
        let had = self.had.clone();
        for (id, hops) in of.had {
            let known = self.had.entry(id).or_insert(hops);
            *known = hops.max(*known);
        }
        self.made.extend(of.made);
        let theirs: BTreeSet<_> = of.held.iter().map(|(token, _)| token.id).collect();
        for (mut token, to) in of.held {
            let id = token.id;
            let is_later = match self.held.get(&id) {
                Some(mine) if mine.token.hops == token.hops => {
                    matches!(mine.state, State::Passing(..))
                }
                Some(mine) => mine.token.hops < token.hops,
                // What we have had and passed on is elsewhere.
                None => had.get(&id).is_none_or(|had| *had < token.hops),
            };
            if is_later {
                let state = match to.filter(|(node, _)| *node != self.me) {
                    Some((to, life)) => State::Passing(to, life, self.changes),
                    // It was passed on, by a view. Else that disk, if it inherits in turn, took it for what it once had.
                    None => {
                        token.hops += 1;
                        self.had.insert(id, token.hops);
                        State::Found
                    }
                };
                self.held.insert(id, Held { token, state });
            }
        }
        // What was on its way to that disk: it had it, and gave it away, or it is ours still.
        let is_to_it =
            |held: &Held| matches!(held.state, State::Passing(_, life, _) if life.disk == disk);
        let mine = self.held.extract_if(.., |id, held| is_to_it(held) && !theirs.contains(id));
        for (id, held) in mine.collect::<Vec<_>>() {
            if self.had.get(&id).is_none_or(|had| *had < held.token.hops) {
                self.held.insert(id, Held { state: State::Found, ..held });
            }
        }
    }

    /// The disk that has what a disk had: that one, or that of its heir.
    fn heir(&self, mut disk: DiskId) -> DiskId {
        // At most as far as there are heirs: nobody inherits from itself, but a peer might say so.
        for _ in 0..=self.heirs.len() {
            match self.heirs.get(&disk) {
                Some(heir) => disk = heir.log.disk,
                None => break,
            }
        }
        disk
    }

    /// The life that has what a disk had.
    fn successor(&self, disk: DiskId) -> Option<(NodeId, LogId)> {
        let disk = self.heir(disk);
        self.lives.iter().find(|(_, life)| life.disk == disk).map(|(&node, &life)| (node, life))
    }

    /// Makes the tokens of a spout, and gives them to their readers.
    pub(super) fn create(
        &mut self,
        (topology, prototype): (u16, u16),
        names: Vec<PartitionName>,
        layout: &Layout,
        plans: &[Arc<Plan>],
        out: &mut Vec<Action>,
    ) {
        if self.is_durable(topology) {
            self.made.insert((topology, prototype));
            self.change(topology);
        }
        let count = u32::try_from(names.len()).expect("fewer partitions than 2^32");
        let mut readers = Readers::new(layout, plans, self.me);
        for (index, name) in (0..).zip(names) {
            let id = TokenId { topology, prototype, index, count };
            let position = Position::default();
            let token = Token { id, name, position, skip: 0, is_exhausted: false, hops: 0 };
            let to = readers.of(&token);
            self.give(token, to, out);
        }
    }

    /// A token arrived from another node; whether that may be said already.
    pub(super) fn take(
        &mut self,
        from: NodeId,
        token: Token,
        layout: &Layout,
        plans: &[Arc<Plan>],
        out: &mut Vec<Action>,
    ) -> bool {
        let (id, hops) = (token.id, token.hops);
        // Said again, since our answer was lost; by now it may be elsewhere.
        if self.had.get(&id).is_some_and(|&had| had >= hops) {
            return !self.owed.iter().any(|owed| (owed.1, owed.2, owed.3) == (from, id, hops));
        }
        self.had.insert(id, hops);
        let change = self.change(id.topology);
        if change > 0 {
            self.owed.push((change, from, id, hops));
        }
        let meant = Readers::new(layout, plans, self.me).of(&token);
        // By an older layout than ours: it is read here until the next one, or passed on if we leave.
        let here = ContainerId { node: self.me, container: 0 };
        let stays = meant.node != self.me && layout.is_active(self.me);
        self.give(token, if stays { here } else { meant }, out);
        change == 0
    }

    /// Whether a token is on its way to a node, as far as we have heard.
    pub(super) fn is_passing_to(&self, node: NodeId) -> bool {
        let is_to_it = |held: &Held| matches!(held.state, State::Passing(to, ..) if to == node);
        self.held.values().any(is_to_it)
    }

    /// Another node has a token.
    pub(super) fn taken(&mut self, by: NodeId, id: TokenId, hops: u64) {
        let is_meant = |held: &Held| {
            matches!(held.state, State::Passing(to, ..) if to == by) && held.token.hops == hops
        };
        if self.held.get(&id).is_some_and(is_meant) {
            self.held.remove(&id);
            self.change(id.topology);
        }
    }

    /// Learns of the members; tokens on their way to a life that is over are gone with it, since it may have
    /// read of them.
    pub(super) fn know(&mut self, head: &Head) -> Vec<PartitionName> {
        self.lives = head.seats.iter().map(|seat| (seat.node(), seat.log)).collect();
        let mut lost = Vec::new();
        for (id, held) in std::mem::take(&mut self.held) {
            let State::Passing(to, life, _) = held.state else {
                self.held.insert(id, held);
                continue;
            };
            if self.lives.get(&to) == Some(&life) {
                self.held.insert(id, held);
                continue;
            }
            match self.successor(life.disk) {
                _ if !self.is_durable(id.topology) => lost.push(held.token.name),
                // Who has what that life had knows whether it had it.
                Some((node, now)) if node != self.me => {
                    let state = State::Passing(node, now, self.change(id.topology));
                    self.held.insert(id, Held { state, ..held });
                }
                // Only that disk knows, and it may come back, or somebody may inherit.
                _ => {
                    self.held.insert(id, held);
                }
            }
        }
        lost
    }

    /// A container closed a partition: now it can go.
    pub(super) fn closed(
        &mut self,
        (topology, prototype): (u16, u16),
        name: &PartitionName,
        state: Option<PartitionReport>,
        out: &mut Vec<Action>,
    ) {
        let found = self.held.iter().find(|(id, held)| {
            (id.topology, id.prototype) == (topology, prototype) && held.token.name == *name
        });
        let Some((&id, &Held { state: State::Closing(to), .. })) = found else { return };
        let mut held = self.held.remove(&id).expect("just found");
        if let Some(state) = state {
            held.token.position = state.position;
            held.token.skip = state.skip;
            held.token.is_exhausted = state.is_exhausted;
        }
        self.change(topology);
        self.give(held.token, to, out);
    }

    /// Moves the tokens to the readers of a new layout.
    pub(super) fn lay(&mut self, layout: &Layout, plans: &[Arc<Plan>], out: &mut Vec<Action>) {
        let me = self.me;
        let am_active = layout.is_active(me);
        let mut readers = Readers::new(layout, plans, me);
        let found = self.held.extract_if(.., |_, held| held.state == State::Found);
        for (_, held) in found.collect::<Vec<_>>() {
            let to = readers.of(&held.token);
            let is_here = held.token.is_exhausted && am_active;
            let here = ContainerId { node: me, container: 0 };
            self.give(held.token, if is_here { here } else { to }, out);
        }
        for held in self.held.values_mut() {
            if held.token.is_exhausted && am_active {
                continue;
            }
            let to = readers.of(&held.token);
            match held.state {
                State::Here(container) if to != (ContainerId { node: me, container }) => {
                    held.state = State::Closing(to);
                    let TokenId { topology, prototype, .. } = held.token.id;
                    let name = held.token.name.clone();
                    out.push(Action::Close { container, topology, prototype, name });
                }
                State::Closing(_) => held.state = State::Closing(to),
                // Who gets it passes it on.
                State::Here(_) | State::Passing(..) | State::Found => {}
            }
        }
    }

    /// Takes over what a container says of its partitions.
    pub(super) fn reported(&mut self, report: &Report) {
        for held in
            self.held.values_mut().filter(|held| held.state == State::Here(report.container))
        {
            let id = held.token.id;
            let run = report.runs.get(usize::from(id.topology));
            let host = run.and_then(|run| run.hosts.get(usize::from(id.prototype)));
            let mut partitions = host.into_iter().flat_map(|host| &host.partitions);
            if let Some(state) = partitions.find(|state| state.name == held.token.name) {
                let token = &mut held.token;
                let before = (token.position, token.skip, token.is_exhausted);
                token.position = state.position;
                token.skip = state.skip;
                token.is_exhausted = state.is_exhausted;
                let is_durable = self.plans.get(usize::from(id.topology)).is_some_and(|p| p.1);
                let has_moved = before != (token.position, token.skip, token.is_exhausted);
                self.has_moved_on |= is_durable && has_moved;
            }
        }
    }

    /// Sends what is on its way, and may have been lost on it.
    pub(super) fn say(&self, live: &BTreeMap<NodeId, Member>, out: &mut Vec<Action>) {
        for held in self.held.values() {
            if let State::Passing(node, to, change) = held.state
                && change <= self.kept
                && let Some(member) = live.get(&node)
            {
                let token = held.token.clone();
                out.push(Action::Send(member.clone(), Message::Token { token, to }));
            }
        }
    }

    /// How many partitions of a topology are held here and not exhausted.
    pub(super) fn open(&self, topology: u16) -> u64 {
        let of_topology = self.held.values().filter(|held| held.token.id.topology == topology);
        of_topology.filter(|held| !held.token.is_exhausted).count() as u64
    }

    /// How many partitions of a topology are held here and exhausted.
    pub(super) fn exhausted(&self, topology: u16) -> u64 {
        let of_topology = self.held.values().filter(|held| held.token.id.topology == topology);
        of_topology.filter(|held| held.token.is_exhausted).count() as u64
    }

    /// Whether no token is left that another node could read.
    pub(super) fn is_given_away(&self) -> bool {
        self.held.values().all(|held| held.token.name.is_pinned())
    }

    /// What is held here of a spout.
    pub(super) fn of(&self, topology: u16, prototype: u16) -> impl Iterator<Item = &Token> {
        let is_of = move |id: &TokenId| (id.topology, id.prototype) == (topology, prototype);
        self.held.iter().filter(move |(id, _)| is_of(id)).map(|(_, held)| &held.token)
    }

    fn give(&mut self, mut token: Token, to: ContainerId, out: &mut Vec<Action>) {
        let id = token.id;
        let state = if to.node == self.me {
            let TokenId { topology, prototype, .. } = id;
            let (container, name) = (to.container, token.name.clone());
            let (position, skip) = (token.position, token.skip);
            if !token.is_exhausted {
                out.push(Action::Open { container, topology, prototype, name, position, skip });
            }
            State::Here(to.container)
        } else {
            token.hops += 1;
            // Said until it is taken: see `say`.
            State::Passing(to.node, self.lives[&to.node], self.change(id.topology))
        };
        self.held.insert(id, Held { token, state });
    }
}

/// Who reads which partition under a layout; worked out once per spout.
struct Readers<'l> {
    layout: &'l Layout,
    plans: &'l [Arc<Plan>],
    me: NodeId,
    by_spout: BTreeMap<(u16, u16, u32), Vec<ContainerId>>,
}

impl<'l> Readers<'l> {
    fn new(layout: &'l Layout, plans: &'l [Arc<Plan>], me: NodeId) -> Self {
        Self { layout, plans, me, by_spout: BTreeMap::new() }
    }

    fn of(&mut self, token: &Token) -> ContainerId {
        if token.name.is_pinned() {
            return ContainerId { node: self.me, container: 0 };
        }
        let TokenId { topology, prototype, index, count } = token.id;
        let readers = self.by_spout.entry((topology, prototype, count)).or_insert_with(|| {
            let plan = &self.plans[usize::from(topology)];
            self.layout.readers(plan, usize::from(prototype), count as usize)
        });
        readers[index as usize]
    }
}
