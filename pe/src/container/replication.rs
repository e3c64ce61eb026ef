//! The owner's side of replicas: commits, what waits for them, and who has what.
//!
//! What the instances of a container have come to is *committed* every few milliseconds: each that was touched is
//! written once, for all who keep a replica of its unit. The acks of what was handled wait until each of them has the
//! commit. So what is acknowledged outlives this node, and what a replica is behind is what is not yet acknowledged.
//!
//! One who is to have a replica and has none gets all instances of its units as they lie, a chunk at a time, with
//! commits in between: on one link, in order, so a later record of an instance is always the newer. When the last
//! chunk has been taken in, the replica is whole.
//!
//! Who nobody waits for costs nothing: without replicas no change is noted and no ack is held.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use membership::{Epoch, NodeId, Time};
use routing::{Ack, BatchHeader, BatchKind};

use super::handoffs::Laying;
use super::message::Action;
use super::{Container, Desk, Run};
use crate::Unit;
use crate::chunk::{ChunkWriter, CommitWriter, ReplicaRoutes};
use crate::host::Reached;
use crate::layout::Layout;
use crate::replica::{FromReplica, MESSAGE_MAX, SEQUENCE_BITS, ToReplica};
use crate::units::Units;

/// Between two commits while there is other work. Shorter, and an instance that is touched often is written often;
/// longer, and trees are open longer.
const COMMIT_AFTER: Duration = Duration::from_millis(10);
/// The same when there is nothing else to do.
const COMMIT_IDLE: Duration = Duration::from_millis(1);
/// The same where nobody waits for it, since nothing is acknowledged.
const COMMIT_UNASKED: Duration = Duration::from_millis(250);
/// So many changed instances are committed at once: to write them takes some milliseconds.
const CHANGED_MAX: usize = 16 << 10;
/// Commits that nobody has confirmed; while there are so many, the next one grows.
const COMMITS_MAX: usize = 2;
/// Messages of a first copy that are under way to a replica.
const WINDOW: u64 = 8;
/// Chunks of it that are written between two inputs.
const CHUNKS: usize = 2;
/// What is copied at most, in bytes a second: above it, events have less of the network and the processors.
const RATE: f64 = 128.0 * 1024.0 * 1024.0;
/// After this, a replica that has refused something is tried again, if no view has come that says otherwise.
const AGAIN: Duration = Duration::from_secs(1);

/// How often ledgers are told that trees wait for a commit, while replicas are slow to confirm.
const TOUCH: Duration = Duration::from_secs(1);

/// What a container has to do with replicas of its units.
#[derive(Debug, Default)]
pub(super) struct Replication {
    /// The others of the active sets of units that are here.
    active: BTreeMap<Unit, Others>,
    /// Of the next sets that this container is to own.
    next: BTreeMap<Unit, Others>,
    /// Units that have been staged here as a whole, and by which handoff.
    whole: BTreeMap<Unit, u64>,
    /// Which next sets have been said to have all.
    secured: BTreeSet<(Unit, Epoch)>,
    replicas: BTreeMap<NodeId, Follower>,
    commits: VecDeque<Commit>,
    routes: Option<ReplicaRoutes>,
    last_commit: Time,
    last_unasked: Time,
    last_touch: Time,
    /// When the next chunk of a first copy may be written, by the limit on the rate.
    next_chunk: Time,
    /// When it is looked again who should have what.
    look_again: Option<Time>,
    is_on: bool,
}

/// The others of a set.
#[derive(Debug)]
struct Others {
    epoch: Epoch,
    nodes: Vec<NodeId>,
}

/// A node that keeps replicas.
#[derive(Debug)]
struct Follower {
    /// Since when it is a member.
    since: Epoch,
    /// Messages that went to it, and that it has confirmed.
    sent: u64,
    confirmed: u64,
    /// The last message on which something rests that has been acknowledged.
    relied_on: u64,
    copies: BTreeMap<Unit, Copy>,
    /// What it is to have and has nothing of.
    todo: BTreeMap<Unit, Epoch>,
    pass: Option<Pass>,
}

/// What a node has of a unit.
#[derive(Debug)]
struct Copy {
    epoch: Epoch,
    /// The message that makes it whole under this epoch, once there is one.
    ready: Option<u64>,
}

/// A first copy under way.
#[derive(Debug)]
struct Pass {
    units: Units,
    run: usize,
    host: usize,
    reached: Reached,
}

/// What waits until replicas have it.
#[derive(Debug)]
struct Commit {
    /// By topology.
    acks: Vec<(usize, Vec<Ack>)>,
    units: BTreeSet<Unit>,
    /// By node, the message that it ends with.
    sent: BTreeMap<NodeId, u64>,
}

/// What is to be committed of some runs.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    /// What has no checkpoints of its own.
    common: bool,
    /// What has, as far as these are due.
    own: bool,
}

impl Due {
    fn is_any(self) -> bool {
        self.common || self.own
    }
}

impl Follower {
    /// One that has been a member since a view, of ours that has been one since `mine`. What was said before is told
    /// apart from what is said now by the numbers.
    fn new(since: Epoch, mine: Epoch) -> Self {
        let first = since.max(mine).0 << SEQUENCE_BITS;
        Self {
            since,
            sent: first,
            confirmed: first,
            relied_on: first,
            copies: BTreeMap::new(),
            todo: BTreeMap::new(),
            pass: None,
        }
    }

    /// Whether it has all of a unit under a set at least as late.
    fn has(&self, unit: Unit, epoch: Epoch) -> bool {
        let copy = self.copies.get(&unit).filter(|copy| copy.epoch >= epoch);
        copy.and_then(|copy| copy.ready).is_some_and(|ready| ready <= self.confirmed)
    }

    fn is_copying(&self) -> bool {
        self.pass.is_some() || !self.todo.is_empty()
    }

    fn say(
        &mut self,
        node: NodeId,
        message: &ToReplica<'_>,
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        self.sent += 1;
        if node == desk.me.node {
            let mut body = Vec::new();
            message.write(self.sent, &mut body);
            return out.push(Action::Replicate(body));
        }
        let header = BatchHeader {
            from: desk.me.container,
            epoch: desk.layout.epoch.0,
            kind: BatchKind::Replicate,
            ..BatchHeader::default()
        };
        let sequence = self.sent;
        desk.add(node, header, |bytes| message.write(sequence, bytes), out);
    }

    /// Sends a chunk, in parts if it is large.
    fn send(&mut self, node: NodeId, chunk: &[u8], desk: &mut Desk, out: &mut Vec<Action>) {
        let mut parts = chunk.chunks(MESSAGE_MAX).peekable();
        while let Some(part) = parts.next() {
            let is_last = parts.peek().is_none();
            let message = if is_last { ToReplica::Records(part) } else { ToReplica::Part(part) };
            self.say(node, &message, desk, out);
        }
    }
}

impl Replication {
    /// What each node is to have, and under which set.
    fn wanted(&self) -> BTreeMap<NodeId, BTreeMap<Unit, Epoch>> {
        let mut wanted: BTreeMap<NodeId, BTreeMap<Unit, Epoch>> = BTreeMap::new();
        let is_here = |unit: &Unit| self.active.contains_key(unit) || self.whole.contains_key(unit);
        let next = self.next.iter().filter(|(unit, _)| is_here(unit));
        for (&unit, others) in self.active.iter().chain(next) {
            for &node in &others.nodes {
                let epoch = wanted.entry(node).or_default().entry(unit).or_insert(others.epoch);
                *epoch = others.epoch.max(*epoch);
            }
        }
        wanted
    }

    /// Whether all who have to have a commit have it.
    fn is_safe(&self, commit: &Commit) -> bool {
        let has_come = |node: &NodeId, follower: &Follower| {
            commit.sent.get(node).is_none_or(|sent| *sent <= follower.confirmed)
        };
        let have_it = |unit: Unit, others: &Others| {
            others.nodes.iter().all(|node| {
                let follower = self.replicas.get(node);
                follower.is_some_and(|f| f.has(unit, others.epoch) && has_come(node, f))
            })
        };
        commit.units.iter().all(|&unit| {
            let next = self.next.get(&unit);
            let next = next.filter(|next| self.secured.contains(&(unit, next.epoch)));
            let active = self.active.get(&unit);
            active.into_iter().chain(next).all(|others| have_it(unit, others))
        })
    }

    /// For whom commits are written; worked out again when that may have changed.
    fn routes(&mut self, slots: usize) -> ReplicaRoutes {
        let Self { active, next, replicas, routes, .. } = self;
        let make = || {
            let mut made = ReplicaRoutes::new(slots);
            for &unit in active.keys().chain(next.keys()) {
                let with = (0..).zip(replicas.values());
                let with = with.filter(|(_, follower)| follower.copies.contains_key(&unit));
                let with: Vec<_> = with.map(|(at, _)| at).collect();
                // Who has nothing yet is waited for all the same.
                if !with.is_empty() || active.get(&unit).is_some_and(|of| !of.nodes.is_empty()) {
                    made.add(unit, with);
                }
            }
            made
        };
        routes.get_or_insert_with(make).clone()
    }

    fn may_copy(&self, now: Time) -> bool {
        self.next_chunk <= now
            && self.replicas.values().any(|f| f.is_copying() && f.sent - f.confirmed < WINDOW)
    }
}

impl Container {
    /// Learns from a new layout who is to have replicas, and what has become of what waits.
    pub(super) fn lay_replication(
        &mut self,
        before: &Layout,
        laying: &Laying,
        out: &mut Vec<Action>,
    ) {
        let Self { desk, replication, runs, .. } = self;
        let (layout, me) = (Arc::clone(&desk.layout), desk.me);
        let is_other = layout.since(me.node) != before.since(me.node);
        let is_same = |node: NodeId, follower: &Follower| {
            !is_other && layout.since(node) == Some(follower.since)
        };
        replication.replicas.retain(|&node, follower| is_same(node, follower));
        let others = |is_active: bool| {
            let duties = layout.duties(me.container).filter(|duty| duty.is_active == is_active);
            let others = duties.map(|duty| {
                (duty.unit, Others { epoch: duty.epoch, nodes: duty.replicas.clone() })
            });
            others.collect::<BTreeMap<_, _>>()
        };
        let former = std::mem::replace(&mut replication.active, others(true));
        replication.next = others(false);
        let Replication { active, next, whole, secured, commits, .. } = replication;
        whole.retain(|unit, _| next.contains_key(unit) && !active.contains_key(unit));
        secured.retain(|(unit, epoch)| next.get(unit).is_some_and(|of| of.epoch == *epoch));
        // What went by a handoff is whole where it is now. What others took over without us may lack what waits.
        let has_gone_whole = |unit: Unit| {
            laying.gone.has(unit) && layout.origin_of(unit).is_some_and(|from| from.from == me)
        };
        let is_lost = |unit: &Unit| !active.contains_key(unit) && !has_gone_whole(*unit);
        if former.keys().any(is_lost) {
            // Nor can it be told which of what waits for its commit was done there.
            runs.iter_mut().for_each(Run::forfeit_held);
        }
        for commit in commits.iter_mut() {
            let gone = commit.units.extract_if(.., |unit| !active.contains_key(unit));
            if gone.filter(|&unit| !has_gone_whole(unit)).count() > 0 {
                for (run, acks) in std::mem::take(&mut commit.acks) {
                    runs[run].forfeit(acks);
                }
            }
        }
        let has_others = |of: &BTreeMap<Unit, Others>| of.values().any(|of| !of.nodes.is_empty());
        replication.is_on = has_others(active) || has_others(next);
        let is_on = replication.is_on;
        runs.iter_mut().for_each(|run| run.watch(is_on));
        self.go_on_replicating(out);
    }

    /// All of some units has been staged here.
    pub(super) fn staged_whole(&mut self, handoff: u64, units: Vec<Unit>, out: &mut Vec<Action>) {
        let Replication { next, whole, .. } = &mut self.replication;
        let units = units.into_iter().filter(|unit| next.contains_key(unit));
        whole.extend(units.map(|unit| (unit, handoff)));
        self.go_on_replicating(out);
    }

    /// Does what follows from who is to have what.
    fn go_on_replicating(&mut self, out: &mut Vec<Action>) {
        self.see_to_replicas(out);
        self.settle_commits(out);
        self.copy_to_replicas(out);
        self.desk.send_frames(out);
    }

    /// What is here of units is dropped, so what others have of it is nothing.
    pub(super) fn forget_replicas(&mut self, units: &[Unit]) {
        let Replication { whole, secured, replicas, routes, .. } = &mut self.replication;
        for unit in units {
            whole.remove(unit);
            secured.retain(|(known, _)| known != unit);
            for follower in replicas.values_mut() {
                follower.todo.remove(unit);
                follower.copies.remove(unit);
            }
        }
        *routes = None;
        self.replication.look_again.get_or_insert(self.desk.now + AGAIN);
    }

    /// Finds out who is to have what and has it not.
    fn see_to_replicas(&mut self, out: &mut Vec<Action>) {
        let Self { desk, replication, .. } = self;
        (replication.routes, replication.look_again) = (None, None);
        let mut wanted = replication.wanted();
        for (&node, of) in &wanted {
            if let Some(since) = desk.layout.since(node).filter(|_| !of.is_empty()) {
                let mine = desk.layout.since(desk.me.node).unwrap_or(since);
                let follower = || Follower::new(since, mine);
                replication.replicas.entry(node).or_insert_with(follower);
            }
        }
        // One that is to have nothing is remembered all the same, since what is said to it goes on to be counted.
        for (&node, follower) in &mut replication.replicas {
            let wanted = wanted.remove(&node).unwrap_or_default();
            follower.copies.retain(|unit, _| wanted.contains_key(unit));
            follower.todo.clear();
            let mut go_on = Vec::new();
            for (&unit, &epoch) in &wanted {
                match follower.copies.get_mut(&unit) {
                    Some(copy) if copy.epoch < epoch => {
                        copy.epoch = epoch;
                        go_on.push((unit, epoch));
                    }
                    Some(_) => {}
                    None => {
                        follower.todo.insert(unit, epoch);
                    }
                }
            }
            if !go_on.is_empty() {
                follower.say(node, &ToReplica::Continue(go_on.clone()), desk, out);
                for (unit, _) in go_on {
                    let copy = follower.copies.get_mut(&unit).expect("it was just there");
                    copy.ready = copy.ready.map(|_| follower.sent);
                }
            }
        }
    }

    /// Word from a node that keeps replicas.
    pub(super) fn replicated(&mut self, node: NodeId, body: &[u8], out: &mut Vec<Action>) {
        let Some(FromReplica { sequence, refused }) = FromReplica::read(body) else {
            return tracing::warn!(from = %node, "an answer about replicas that is none");
        };
        let Self { desk, replication, .. } = self;
        let Some(follower) = replication.replicas.get_mut(&node) else { return };
        if sequence > follower.sent {
            return tracing::warn!(from = %node, "a replica confirms what was not sent");
        }
        follower.confirmed = follower.confirmed.max(sequence);
        for unit in refused {
            // Promised to a later set, of which we have not heard; or lost, then it is sent anew.
            if follower.copies.remove(&unit).is_some() {
                replication.look_again = Some(desk.now + AGAIN);
                replication.routes = None;
            }
        }
        self.settle_commits(out);
        // Not only when there is nothing else to do: a container may be busy for long.
        self.copy_to_replicas(out);
        self.desk.send_frames(out);
    }

    /// Lets go what has become safe, and says which sets have all.
    fn settle_commits(&mut self, out: &mut Vec<Action>) {
        let Self { desk, replication, runs, .. } = self;
        let mut has_released = false;
        while let Some(commit) = replication.commits.front() {
            if !replication.is_safe(commit) {
                break;
            }
            let commit = replication.commits.pop_front().expect("just looked at");
            for (node, sent) in commit.sent {
                if let Some(follower) = replication.replicas.get_mut(&node) {
                    follower.relied_on = follower.relied_on.max(sent);
                }
            }
            for (run, acks) in commit.acks {
                runs[run].release(acks);
                has_released = true;
            }
        }
        if !replication.is_on && replication.commits.is_empty() {
            has_released |= runs.iter_mut().fold(false, |any, run| run.release_held() | any);
        }
        if has_released {
            for run in runs.iter_mut() {
                run.send_acks(desk, out);
                run.keep_books(out);
            }
        }
        let mut together: BTreeMap<(u64, Epoch), Vec<Unit>> = BTreeMap::new();
        for (&unit, of) in &replication.next {
            let staged = replication.whole.get(&unit).copied();
            let here = replication.active.contains_key(&unit).then_some(0).or(staged);
            let Some(handoff) = here else { continue };
            let have_all = || {
                of.nodes.iter().all(|node| {
                    replication.replicas.get(node).is_some_and(|follower| {
                        follower.has(unit, of.epoch) && follower.relied_on <= follower.confirmed
                    })
                })
            };
            if !replication.secured.contains(&(unit, of.epoch)) && have_all() {
                together.entry((handoff, of.epoch)).or_default().push(unit);
            }
        }
        for ((handoff, epoch), units) in together {
            replication.secured.extend(units.iter().map(|&unit| (unit, epoch)));
            out.push(Action::Secured { handoff, epoch, units });
        }
    }

    /// Commits what is due, and copies what is to be copied.
    pub(super) fn replicate(&mut self, is_idle: bool, out: &mut Vec<Action>) {
        if !self.replication.is_on {
            return;
        }
        let now = self.desk.now;
        if self.replication.look_again.is_some_and(|at| at <= now) {
            self.see_to_replicas(out);
        }
        self.copy_to_replicas(out);
        if self.touch_deadline().is_some_and(|at| at <= now) {
            self.replication.last_touch = now;
            for (at, run) in self.runs.iter_mut().enumerate() {
                let made = self.replication.commits.iter().flat_map(|commit| &commit.acks);
                let made = made.filter(|(run, _)| *run == at);
                run.touch_waiting(made.flat_map(|(_, acks)| acks));
            }
        }
        let after = if is_idle { COMMIT_IDLE } else { COMMIT_AFTER };
        let is_much = self.uncommitted(true) >= CHANGED_MAX;
        let asked = self.due(true, is_much || self.replication.last_commit + after <= now);
        let unasked = self.due(false, self.replication.last_unasked + COMMIT_UNASKED <= now);
        if asked.is_any() || unasked.is_any() {
            self.begin_anew_what_overran(out);
            self.commit(asked, unasked, out);
            // One that nobody has to have is safe at once; others are looked at when somebody confirms something.
            self.settle_commits(out);
        }
        self.desk.send_frames(out);
    }

    /// About how much waits for the next commit of runs that are tracked, for which somebody waits, or of those that are
    /// not.
    fn uncommitted(&self, is_tracked: bool) -> usize {
        let runs = self.runs.iter().filter(|run| run.is_tracked() == is_tracked);
        runs.map(Run::uncommitted).sum()
    }

    /// What of them is to be committed now; `is_time` says whether it is so long since the last commit.
    fn due(&mut self, is_tracked: bool, is_time: bool) -> Due {
        if !self.may_commit(is_tracked) {
            return Due::default();
        }
        let (now, has_any) = (self.desk.now, self.uncommitted(is_tracked) > 0);
        let runs = self.runs.iter_mut().filter(|run| run.is_tracked() == is_tracked);
        let mut due = Due { common: has_any && is_time, own: false };
        for run in runs {
            due.common |= has_any && run.is_commit_wanted();
            due.own |= run.has_own_due(now);
        }
        due
    }

    /// Whether another commit may be made now of runs that are tracked, or of those that are not.
    fn may_commit(&self, is_tracked: bool) -> bool {
        let Replication { commits, replicas, .. } = &self.replication;
        if is_tracked {
            commits.len() < COMMITS_MAX
        } else {
            replicas.values().all(|follower| follower.sent - follower.confirmed < WINDOW)
        }
    }

    /// When ledgers are told that trees wait.
    fn touch_deadline(&self) -> Option<Time> {
        let Replication { last_commit, last_touch, .. } = &self.replication;
        let is_stalled = !self.may_commit(true);
        let since = if is_stalled { last_commit.max(last_touch) } else { last_touch };
        let waits = is_stalled || self.runs.iter().any(Run::holds_for_own);
        waits.then(|| *since + TOUCH)
    }

    /// When [`Container::replicate`] is due.
    pub(super) fn replication_deadline(&self) -> Option<Time> {
        let replication = &self.replication;
        if !replication.is_on {
            return None;
        }
        let asked = self.may_commit(true) && self.uncommitted(true) > 0;
        let asked = asked.then(|| replication.last_commit + COMMIT_IDLE);
        // While replicas are behind, their answers wake the container.
        let unasked = self.may_commit(false) && self.uncommitted(false) > 0;
        let unasked = unasked.then(|| replication.last_unasked + COMMIT_UNASKED);
        let own = self.runs.iter().filter(|run| self.may_commit(run.is_tracked()));
        let own = own.filter_map(Run::own_deadline).min();
        let copies = replication.replicas.values();
        let copies = copies.filter(|f| f.is_copying() && f.sent - f.confirmed < WINDOW);
        let copies = (copies.count() > 0).then_some(replication.next_chunk);
        let touch = self.touch_deadline();
        let all = [asked, unasked, own, copies, touch, replication.look_again];
        all.into_iter().flatten().min()
    }

    /// Whether something is to be copied right now.
    pub(super) fn wants_to_replicate(&self) -> bool {
        self.replication.is_on && self.replication.may_copy(self.desk.now)
    }

    /// Where more has been removed than is remembered, all replicas get all anew.
    fn begin_anew_what_overran(&mut self, out: &mut Vec<Action>) {
        let overran = self.runs.iter_mut().fold(false, |any, run| run.has_overrun() | any);
        if overran {
            let replicas = self.replication.replicas.values_mut();
            replicas
                .for_each(|follower| (follower.pass, follower.copies) = (None, BTreeMap::new()));
            self.see_to_replicas(out);
        }
    }

    /// Commits what is due of runs that are tracked, and of those that are not.
    fn commit(&mut self, asked: Due, unasked: Due, out: &mut Vec<Action>) {
        let Self { desk, replication, runs, .. } = self;
        let now = desk.now;
        let routes = replication.routes(desk.layout.slot_count());
        let mut writer = CommitWriter::new(now, replication.replicas.len(), routes);
        let mut acks = Vec::new();
        for (at, run) in runs.iter_mut().enumerate() {
            let due = if run.is_tracked() { asked } else { unasked };
            if due.is_any() {
                let held = run.commit(&mut writer, due.common, now);
                if !held.is_empty() {
                    acks.push((at, held));
                }
            }
        }
        let (chunks, units) = writer.finish();
        let mut sent = BTreeMap::new();
        for ((&node, follower), chunks) in replication.replicas.iter_mut().zip(chunks) {
            chunks.iter().for_each(|chunk| follower.send(node, chunk, desk, out));
            sent.insert(node, follower.sent);
        }
        if asked.is_any() {
            replication.commits.push_back(Commit { acks, units, sent });
        }
        if asked.common {
            replication.last_commit = now;
        }
        if unasked.common {
            replication.last_unasked = now;
        }
    }

    /// Goes on with first copies.
    fn copy_to_replicas(&mut self, out: &mut Vec<Action>) {
        let Self { desk, replication, runs, .. } = self;
        let slots = desk.layout.slot_count();
        let mut chunks = 0;
        for (&node, follower) in &mut replication.replicas {
            while follower.is_copying()
                && follower.sent - follower.confirmed < WINDOW
                && replication.next_chunk <= desk.now
                && chunks < CHUNKS
            {
                chunks += 1;
                let mut pass = follower.pass.take().unwrap_or_else(|| {
                    let todo = std::mem::take(&mut follower.todo);
                    let mut units = Units::default();
                    todo.keys().for_each(|&unit| units.insert(unit, slots));
                    let begin = todo.iter().map(|(&unit, &epoch)| (unit, epoch)).collect();
                    follower.say(node, &ToReplica::Begin(begin), desk, out);
                    let copy = |epoch| Copy { epoch, ready: None };
                    let copies = todo.into_iter().map(|(unit, epoch)| (unit, copy(epoch)));
                    follower.copies.extend(copies);
                    replication.routes = None;
                    Pass { units, run: 0, host: 0, reached: Reached::default() }
                });
                let mut chunk = ChunkWriter::new(desk.now);
                let is_done = pass.write(runs, &mut chunk);
                if chunk.len() > 0 {
                    let spent = Duration::from_secs_f64(chunk.len() as f64 / RATE);
                    replication.next_chunk = replication.next_chunk.max(desk.now) + spent;
                    follower.send(node, &chunk.finish(), desk, out);
                }
                if !is_done {
                    follower.pass = Some(pass);
                    continue;
                }
                let is_meant = |unit: &Unit| {
                    follower.copies.get(unit).is_some_and(|copy| copy.ready.is_none())
                };
                let whole: Vec<_> = pass.units.iter().filter(is_meant).collect();
                follower.say(node, &ToReplica::Whole(whole.clone()), desk, out);
                for unit in whole {
                    let copy = follower.copies.get_mut(&unit).expect("it was just there");
                    copy.ready = Some(follower.sent);
                }
            }
        }
    }
}

impl Pass {
    /// Writes what comes next; whether that was all.
    fn write(&mut self, runs: &mut [Run], chunk: &mut ChunkWriter) -> bool {
        while let Some(run) = runs.get_mut(self.run) {
            while self.host < run.host_count() {
                match run.write_from(self.host, self.reached, &self.units, chunk) {
                    Some(reached) => {
                        self.reached = reached;
                        return false;
                    }
                    None => (self.host, self.reached) = (self.host + 1, Reached::default()),
                }
            }
            (self.run, self.host) = (self.run + 1, 0);
        }
        true
    }
}
