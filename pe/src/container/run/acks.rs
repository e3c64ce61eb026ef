//! The acks of a topology in a container: what its hosts owe goes to the ledgers, and what others say of the
//! trees that were planted here goes into the one here.
//!
//! Acks for trees of this container are applied at once; those for others are folded by tree, and leave when
//! there are many, or with the frames that are flushed. They take nothing from any budget: there are never more
//! of them than of events, and whatever is held back, they get through.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use membership::NodeId;
use routing::{Ack, BatchHeader, BatchKind, ContainerId, Owing, Root, Runs};

use super::super::Desk;
use super::super::edge::EdgeSide;
use super::super::message::{Action, Contents, DeadLetter, Held, Holder, Input, Parcel};
use super::{Run, narrow, partition_report};
use crate::acker::{Fail, Ledger, Pending};
use crate::host::{Closed, Letter};
use crate::layout::Layout;
use crate::report::{TreeReport, TreesReport};
use crate::topology::AckPlan;
use crate::{Failure, PartitionName};

/// So many acks for another container go at once.
const TOGETHER: usize = 1024;
/// So many lots of acks of newer views are counted later.
const EARLY_MAX: usize = 1 << 12;
/// So many of the trees that wait longest are shown.
const SHOWN: usize = 16;

/// What a topology in a container has to do with acks.
pub(super) struct Acks {
    pub(super) ledger: Option<Ledger>,
    /// What is owed for batches that are taken apart here, after they came.
    pub(super) owing: Owing,
    /// Trees within trees that were planted here: what is owed for each, and for whom it stands.
    joints: BTreeMap<u64, (u64, Vec<Ack>)>,
    /// For other containers, by whose they are.
    away: Vec<Away>,
    /// Acks and failures that went to and came from each node, this one included.
    sent: BTreeMap<NodeId, u64>,
    received: BTreeMap<NodeId, u64>,
    /// Those that came from nodes that have a newer view than we; they are counted under that view.
    early: Vec<(NodeId, u64, u64)>,
    bytes: u64,
    /// Whether what hosts owe waits until what they did is committed.
    pub(super) is_holding: bool,
    /// What waits for the next commit, in order, beside what waits for checkpoints that hosts have of their own; and how
    /// much waits for those before.
    pub(super) held: Vec<Ack>,
    pub(super) withheld: u64,
}

/// For another container.
struct Away {
    /// What the trees are named by: see [`Root`].
    owner: u64,
    acks: Vec<Ack>,
    fails: Vec<Fail>,
}

impl Acks {
    pub(super) fn new(plan: Option<AckPlan>, seed: u64) -> Self {
        Self {
            ledger: plan.map(Ledger::new),
            owing: Owing::new(seed),
            joints: BTreeMap::new(),
            away: Vec::new(),
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            early: Vec::new(),
            bytes: 0,
            is_holding: false,
            held: Vec::new(),
            withheld: 0,
        }
    }

    /// Takes acks in their order.
    pub(super) fn take(&mut self, acks: &mut Vec<Ack>) {
        let Some(ledger) = &mut self.ledger else { return acks.clear() };
        let mut last = 0;
        let mut complete = Vec::new();
        for ack in acks.drain(..) {
            if ledger.owns(ack.root) {
                if ack.root & Root::JOINT == 0 {
                    ledger.apply(ack);
                } else {
                    complete.extend(pay(&mut self.joints, ack));
                }
                continue;
            }
            let owner = ack.root >> Root::OWNER_SHIFT;
            if self.away.get(last).is_none_or(|away| away.owner != owner) {
                last = place(&mut self.away, owner);
            }
            let of = &mut self.away[last].acks;
            match of.last_mut() {
                Some(before) if before.root == ack.root => before.edges ^= ack.edges,
                _ => of.push(ack),
            }
        }
        if !complete.is_empty() {
            self.take(&mut complete);
        }
    }

    /// As events are: under the view by which they were sent, between the same members.
    fn count_received(&mut self, (node, epoch): (NodeId, u64), count: u64, layout: &Layout) {
        if epoch > layout.epoch.0 {
            // A node that names views without end is not counted with: it only keeps a topology from its end.
            if self.early.len() < EARLY_MAX {
                self.early.push((node, epoch, count));
            }
        } else if layout.counts(node, epoch) {
            *self.received.entry(node).or_default() += count;
        }
    }

    pub(super) fn give_up(&mut self, fails: &mut Vec<Fail>) {
        let Some(ledger) = &mut self.ledger else { return fails.clear() };
        let mut given_up = Vec::new();
        for fail in fails.drain(..) {
            if ledger.owns(fail.root) {
                if fail.root & Root::JOINT == 0 {
                    ledger.fail(fail.root, fail.why);
                } else if let Some((_, parents)) = self.joints.remove(&fail.root) {
                    let why = fail.why;
                    given_up.extend(parents.iter().map(|of| Fail { root: of.root, why }));
                }
                continue;
            }
            let at = place(&mut self.away, fail.root >> Root::OWNER_SHIFT);
            self.away[at].fails.push(fail);
        }
        if !given_up.is_empty() {
            self.give_up(&mut given_up);
        }
    }

    /// Gives up all trees within trees, and those for which they stand.
    fn give_up_joints(&mut self, why: Failure) {
        let all = std::mem::take(&mut self.joints);
        let parents = all.into_values().flat_map(|(_, parents)| parents);
        let mut fails: Vec<_> = parents.map(|of| Fail { root: of.root, why }).collect();
        self.give_up(&mut fails);
    }
}

/// Takes what is said of a joint; gives what follows for those for whom it stands, once it is complete.
fn pay(joints: &mut BTreeMap<u64, (u64, Vec<Ack>)>, ack: Ack) -> Vec<Ack> {
    let Some((owed, _)) = joints.get_mut(&ack.root) else { return Vec::new() };
    *owed ^= ack.edges;
    if *owed != 0 {
        // What is still alive keeps those alive for whom it stands.
        let parents = joints.get(&ack.root).filter(|_| ack.edges == 0).map(|(_, parents)| parents);
        let alive = parents.into_iter().flatten().map(|of| Ack { root: of.root, edges: 0 });
        return alive.collect();
    }
    joints.remove(&ack.root).map(|(_, parents)| parents).unwrap_or_default()
}

/// Holds what a host owes until what the host did is committed.
fn hold(acks: &mut Vec<Ack>, held: &mut Vec<Ack>) {
    for ack in acks.drain(..) {
        match held.last_mut() {
            Some(before) if before.root == ack.root => before.edges ^= ack.edges,
            _ => held.push(ack),
        }
    }
}

fn place(away: &mut Vec<Away>, owner: u64) -> usize {
    away.iter().position(|known| known.owner == owner).unwrap_or_else(|| {
        away.push(Away { owner, acks: Vec::new(), fails: Vec::new() });
        away.len() - 1
    })
}

impl Run {
    /// Turns acks on in everything that emits or handles events.
    pub(super) fn track(&mut self, me: ContainerId) {
        if self.acks.ledger.is_none() {
            return;
        }
        let mut seed = seed(me, self.topology, self.plan.hash);
        let mut fresh = || {
            seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            seed
        };
        for slot in &mut self.hosts {
            slot.host.tracker().turn_on(fresh());
            slot.host.outlets(&mut |_, outlet| outlet.track(fresh()));
        }
        self.edges.iter_mut().for_each(|edge| edge.is_tracked = true);
    }

    /// Takes what a host owes, after it has handled or emitted something.
    pub(super) fn collect_acks(&mut self, host: usize, desk: &mut Desk, out: &mut Vec<Action>) {
        let is_held = self.acks.is_holding && self.is_replicated(host);
        let Self { acks, hosts, .. } = self;
        if acks.ledger.is_none() {
            return;
        }
        let slot = &mut hosts[host];
        for (of, parents) in slot.host.tracker().joints.drain(..) {
            // One that was named before a view gave us another name is found by nobody.
            if acks.ledger.as_ref().is_some_and(|ledger| ledger.owns(of.root)) {
                acks.joints.insert(of.root, (of.edges, parents));
            }
        }
        // What is said of batches that are taken apart waits for nothing: held, it would come behind the ack of the whole,
        // and the ledger would find zero in between.
        slot.host.outlets(&mut |_, outlet| acks.take(&mut outlet.owing().acks));
        let tracker = slot.host.tracker();
        // What is given up is said before the ack of its run, which may wait for a commit.
        acks.give_up(&mut tracker.fails);
        match &mut slot.own {
            _ if !is_held => acks.take(&mut tracker.acks),
            Some(own) => hold(&mut tracker.acks, &mut own.held),
            None => hold(&mut tracker.acks, &mut acks.held),
        }
        if acks.away.iter().any(|away| away.acks.len() >= TOGETHER) {
            self.send_acks(desk, out);
        }
    }

    /// Takes what is owed for batches that were taken apart.
    pub(super) fn collect_owed(&mut self) {
        let mut acks = std::mem::take(&mut self.acks.owing.acks);
        self.acks.take(&mut acks);
        self.acks.owing.acks = acks;
    }

    /// Gives up the trees of a batch that is dropped.
    pub(super) fn fail_batch(&mut self, edge: usize, batch: &(dyn std::any::Any + Send)) {
        let runs = self.edges[edge].event.batches.runs(batch);
        let of_trees = runs.iter().map(|run| run.root).filter(|root| *root != 0);
        self.give_up_trees(of_trees.collect());
    }

    /// Gives up trees of which something is dropped.
    pub(super) fn give_up_trees(&mut self, roots: Vec<u64>) {
        let why = Failure::Dropped;
        let mut fails: Vec<_> = roots.into_iter().map(|root| Fail { root, why }).collect();
        self.acks.give_up(&mut fails);
    }

    /// Sends what other ledgers are to know.
    pub(in crate::container) fn send_acks(&mut self, desk: &mut Desk, out: &mut Vec<Action>) {
        for mut away in std::mem::take(&mut self.acks.away) {
            if away.acks.is_empty() && away.fails.is_empty() {
                continue;
            }
            let Root { member, container, .. } = Root::unpack(away.owner << Root::OWNER_SHIFT);
            // Of a member that is gone, nobody asks any more.
            let Some(node) = desk.layout.node_of(member) else { continue };
            let (acks, fails) = (std::mem::take(&mut away.acks), away.fails);
            let count = (acks.len() + fails.len()) as u64;
            *self.acks.sent.entry(node).or_default() += count;
            self.acks.bytes += (acks.len() * Ack::LEN + fails.len() * Fail::LEN) as u64;
            let topology = self.topology;
            if node == desk.me.node {
                // What is given up goes before the ack of its run, which would make the tree complete.
                if !fails.is_empty() {
                    let trees = fails.iter().map(|fail| (fail.root, fail.why)).collect();
                    out.push(Action::Post(container, Input::Failed { topology, trees }));
                }
                if !acks.is_empty() {
                    out.push(Action::Post(container, Input::Acked { topology, acks }));
                }
                continue;
            }
            let header = |kind, rows: usize| BatchHeader {
                topology,
                from: desk.me.container,
                to: container,
                rows: u32::try_from(rows).expect("no more than fit a frame"),
                epoch: desk.layout.epoch.0,
                layout: desk.layout.digest,
                kind,
                ..BatchHeader::default()
            };
            let (of_acks, of_fails) =
                (header(BatchKind::Acks, acks.len()), header(BatchKind::Fails, fails.len()));
            if !fails.is_empty() {
                let write = |bytes: &mut Vec<u8>| fails.iter().for_each(|fail| fail.write(bytes));
                desk.add(node, of_fails, write, out);
            }
            if !acks.is_empty() {
                let write = |bytes: &mut Vec<u8>| acks.iter().for_each(|ack| ack.write(bytes));
                desk.add(node, of_acks, write, out);
            }
        }
    }

    /// Takes acks or failures from another node; of a node that lies, nothing but what it could say as well.
    pub(super) fn acks_arrived(
        &mut self,
        node: NodeId,
        header: &BatchHeader,
        body: &Bytes,
        desk: &mut Desk,
        out: &mut Vec<Action>,
    ) {
        if header.kind == BatchKind::Acks {
            let Some(acks) = Ack::read_all(body) else {
                tracing::warn!(from = %node, "acks that are none");
                return;
            };
            let acks: Vec<_> = acks.collect();
            self.acked((node, header.epoch), &acks, desk, out);
        } else {
            let Some(trees) = Fail::read_all(body) else {
                tracing::warn!(from = %node, "failures that are none");
                return;
            };
            self.failed((node, header.epoch), &trees, desk, out);
        }
    }

    /// Takes acks for trees that were planted here.
    pub(in crate::container) fn acked(
        &mut self,
        from: (NodeId, u64),
        acks: &[Ack],
        desk: &Desk,
        out: &mut Vec<Action>,
    ) {
        self.acks.count_received(from, acks.len() as u64, &desk.layout);
        let is_ours =
            |ack: &&Ack| self.acks.ledger.as_ref().is_some_and(|ours| ours.owns(ack.root));
        let mut ours: Vec<_> = acks.iter().filter(is_ours).copied().collect();
        self.acks.take(&mut ours);
        self.keep_books(out);
    }

    /// Takes failures of trees that were planted here.
    pub(in crate::container) fn failed(
        &mut self,
        from: (NodeId, u64),
        trees: &[(u64, Failure)],
        desk: &Desk,
        out: &mut Vec<Action>,
    ) {
        self.acks.count_received(from, trees.len() as u64, &desk.layout);
        let Some(ledger) = &mut self.acks.ledger else { return };
        ledger.set_now(desk.now);
        let ours = trees.iter().filter(|(root, _)| ledger.owns(*root));
        let mut ours: Vec<_> = ours.map(|&(root, why)| Fail { root, why }).collect();
        self.acks.give_up(&mut ours);
        self.keep_books(out);
    }

    /// Nothing is on its way any more.
    pub(in crate::container) fn quiet(&mut self, desk: &Desk) {
        if let Some(ledger) = &mut self.acks.ledger {
            ledger.set_now(desk.now);
            ledger.nothing_is_on_its_way();
            self.acks.give_up_joints(Failure::Vanished);
        }
    }

    /// Learns by what name trees are planted here, and whether some of them may be lost.
    pub(super) fn lay_acks(&mut self, has_lost: bool, desk: &Desk) {
        let Some(ledger) = &mut self.acks.ledger else { return };
        ledger.set_now(desk.now);
        if has_lost {
            ledger.fail_all(Failure::NodeLost);
        }
        let (member, container) = (desk.layout.my_number(), desk.me.container);
        if ledger.name(member, container) || has_lost {
            self.acks.give_up_joints(Failure::NodeLost);
        }
        for (at, slot) in self.hosts.iter_mut().enumerate() {
            slot.host.tracker().name_joints(member, container, narrow(at));
        }
        for (node, epoch, count) in std::mem::take(&mut self.acks.early) {
            self.acks.count_received((node, epoch), count, &desk.layout);
        }
    }

    /// Forgets what was counted with nodes that are gone, or live again.
    pub(super) fn forget_acks(&mut self, is_same: impl Fn(NodeId) -> bool) {
        self.acks.sent.retain(|&node, _| is_same(node));
        self.acks.received.retain(|&node, _| is_same(node));
    }

    /// What follows from the ledger: what is complete is forgotten, what is due is read again, partitions of
    /// which nothing is pending are closed, letters go to their place.
    pub(in crate::container) fn keep_books(&mut self, out: &mut Vec<Action>) {
        let Self { acks, hosts, plan, topology, .. } = self;
        let Some(ledger) = &mut acks.ledger else { return };
        ledger.trim();
        while let Some(replay) = ledger.replay() {
            let spout = ledger.spout_of(replay.reading).expect("what is pending is read here");
            let source = hosts[usize::from(spout)].host.as_source().expect("a spout is one");
            source.again(replay);
        }
        for (at, slot) in hosts.iter_mut().enumerate() {
            let Some(source) = slot.host.as_source() else { continue };
            for state in source.settled(ledger) {
                let (topology, prototype) = (*topology, narrow(at));
                let name = state.name.clone();
                let state = Some(partition_report(state));
                out.push(Action::Closed { topology, prototype, name, state });
            }
            let spout = &plan.prototypes[at].name;
            let letters = source.letters();
            out.extend(letters.into_iter().map(|letter| bury(&plan.name, spout, letter)));
        }
    }

    /// Trees age, and what is due is read again.
    pub(super) fn tick_acks(&mut self, desk: &Desk, out: &mut Vec<Action>) {
        let is_held = self
            .plan
            .prototypes
            .iter()
            .zip(&self.hosts)
            .any(|(prototype, slot)| prototype.is_spout && slot.is_held_back());
        let Some(ledger) = &mut self.acks.ledger else { return };
        ledger.set_now(desk.now);
        ledger.tick(is_held || desk.is_degraded);
        if self.next_touch <= desk.now {
            // Often enough that nobody gives them up meanwhile.
            self.next_touch =
                desk.now + self.plan.acks.map_or(Duration::MAX, |acks| acks.timeout / 4);
            self.touch();
        }
        self.keep_books(out);
    }

    /// Whether a spout may emit something new.
    pub(super) fn may_plant(&self) -> bool {
        self.acks.ledger.as_ref().is_none_or(Ledger::may_plant)
    }

    /// A partition is another's from now on.
    pub(in crate::container) fn close(
        &mut self,
        prototype: u16,
        name: PartitionName,
        out: &mut Vec<Action>,
    ) {
        let topology = self.topology;
        let ledger = self.acks.ledger.as_mut();
        let source = self.hosts.get_mut(usize::from(prototype));
        let source = source.and_then(|slot| slot.host.as_source());
        let state = match source.map(|source| source.close(&name, ledger)) {
            Some(Closed::Later) => return,
            Some(Closed::Now(state)) => Some(partition_report(state)),
            Some(Closed::NotHere) | None => None,
        };
        out.push(Action::Closed { topology, prototype, name, state });
    }

    /// Acks and failures on their way, and anchors that are held: as many are sent and not received.
    pub(super) fn count_acks(
        &mut self,
        live: impl Fn(&BTreeMap<NodeId, u64>) -> u64,
    ) -> (u64, u64) {
        if self.acks.ledger.is_none() {
            return (0, 0);
        }
        let waiting: usize =
            self.acks.away.iter().map(|away| away.acks.len() + away.fails.len()).sum();
        let (mut sent, mut received) = (live(&self.acks.sent), live(&self.acks.received));
        sent += (waiting + self.held_acks()) as u64 + self.acks.withheld;
        for slot in &mut self.hosts {
            let held = slot.host.tracker().held;
            sent += held.max(0).unsigned_abs();
            received += held.min(0).unsigned_abs();
        }
        (sent, received)
    }

    /// What here has events of a tree.
    pub(in crate::container) fn explain(&mut self, root: u64, holders: &mut Vec<Holder>) {
        if self.acks.ledger.is_none() {
            return;
        }
        let topology = self.topology;
        let mut found: BTreeMap<(usize, u8), (Held, u64)> = BTreeMap::new();
        let mut note = |host: usize, how: Held, count: u64| {
            if count > 0 {
                found.entry((host, how as u8)).or_insert((how, 0)).1 += count;
            }
        };
        let count = |edges: &[EdgeSide], parcel: &Parcel| match &parcel.contents {
            Contents::Batch(batch) | Contents::Kept(batch) => {
                edges[usize::from(parcel.header.edge)].event.batches.rows_of(&**batch, root)
            }
            Contents::Bytes(bytes) => {
                let rows = parcel.header.rows;
                Runs::of_wire(rows, bytes).map_or(0, |runs| runs.rows_of(root, rows))
            }
            Contents::Mark(_) => 0,
        };
        for parcel in &self.early {
            let host = self.plan.edges[usize::from(parcel.header.edge)].to;
            note(host, Held::Kept, count(&self.edges, parcel));
        }
        for (host, parcel) in self.gate.kept() {
            note(host, Held::Kept, count(&self.edges, parcel));
        }
        for (edge, side) in self.plan.edges.iter().zip(&self.edges) {
            let spilled = side.spill.as_ref().map_or(0, |spill| spill.batches_of(root));
            note(edge.to, Held::Spilled, spilled);
        }
        for (at, slot) in self.hosts.iter_mut().enumerate() {
            slot.queue.iter().for_each(|parcel| note(at, Held::Queued, count(&self.edges, parcel)));
            slot.host.outlets(&mut |_, outlet| note(at, Held::Open, outlet.waiting(root)));
            note(at, Held::Anchored, slot.host.tracker().held.max(0).unsigned_abs());
        }
        holders.extend(found.into_iter().map(|((host, _), (how, count))| Holder {
            topology,
            prototype: narrow(host),
            how,
            count,
        }));
    }

    /// What became of trees.
    pub(super) fn report_trees(&mut self) -> TreesReport {
        let Self { acks, hosts, .. } = self;
        let Some(ledger) = &mut acks.ledger else { return TreesReport::default() };
        ledger.asked();
        let tally = ledger.tally;
        let failed = Failure::ALL.into_iter().zip(tally.failed).filter(|(_, count)| *count > 0);
        let oldest = ledger.oldest(SHOWN).into_iter().filter_map(|tree| {
            let Pending { root, reading, offset, attempts, why, age } = tree;
            let prototype = ledger.spout_of(reading)?;
            let source = hosts[usize::from(prototype)].host.as_source()?;
            Some(TreeReport {
                root,
                prototype,
                partition: source.name_of(reading)?.to_owned(),
                position: offset.position,
                skip: offset.skip,
                attempts,
                why,
                idle_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX),
            })
        });
        TreesReport {
            completed: tally.completed,
            pending: ledger.open(),
            pending_peak: tally.peak,
            replays: tally.replays,
            failed: failed.map(|(why, count)| (why.as_str().to_owned(), count)).collect(),
            ack_bytes: acks.bytes,
            ledger_bytes_peak: tally.bytes_peak,
            oldest: oldest.collect(),
        }
    }
}

fn bury(topology: &str, spout: &str, letter: Letter) -> Action {
    let Letter { partition, offset, event, why, attempts } = letter;
    let (event, json) = event.unzip();
    Action::Bury(DeadLetter {
        topology: topology.to_owned(),
        spout: spout.to_owned(),
        partition,
        position: offset.position,
        skip: offset.skip,
        event: event.map(str::to_owned),
        json: json.map_or_else(String::new, |json| String::from_utf8_lossy(&json).into_owned()),
        why,
        attempts,
    })
}

/// Where the edge ids of a container begin.
pub(super) fn seed(me: ContainerId, topology: u16, plan: u64) -> u64 {
    let place = u64::from(me.container) << 16 | u64::from(topology);
    (me.node.0 ^ plan).wrapping_mul(0xd6e8_feb8_6659_fd93) ^ place.rotate_left(40)
}
