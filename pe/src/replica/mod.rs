//! Replicas: what a node keeps for others, so that it can go on with their units when they are gone.
//!
//! A unit has a set of nodes, its owner first (see `assignment` in the crate `node`). The owner writes what its
//! instances have come to, commit by commit, and each of the others keeps that as bytes: it runs no handler and
//! needs not know the types. Nothing that rests on a commit is said to anybody before *all* of the set have it (write
//! quorum n, seal quorum 1), so any one of them can go on alone.
//!
//! **Fences.** A replica belongs to the set of an epoch and to the container that writes it. When another set is to
//! take over, the replica is sealed: it has promised a later epoch, and takes nothing more from its former owner, who can
//! therefore commit nothing more, however long it has slept.

mod log;
mod message;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use membership::{Epoch, NodeId};
use routing::{BatchHeader, BatchKind, FrameBuilder, Key, Packed, Slot};

use self::log::UnitLog;
pub(crate) use self::message::{FromReplica, MESSAGE_MAX, SEQUENCE_BITS, ToReplica};
use crate::Unit;
use crate::chunk::{Copied, Record, checked, of_records, records};
use crate::container::ChunkKind;
use crate::layout::Layout;

/// A chunk that is given is closed when it has this many bytes.
const CHUNK_TARGET: usize = 64 << 10;

/// The most bytes of a chunk that comes in parts: the largest instance, and what stands around it.
const PARTS_MAX: usize = 17 << 20;

/// The most bytes of all such chunks that are not all there.
const PARTS_MAX_ALL: usize = 16 * PARTS_MAX;

/// What can happen to the replicas of a node.
#[derive(Debug)]
pub enum ReplicaInput {
    /// There is a new view.
    Laid(Arc<Layout>),
    /// A container of a node says something of its units.
    Arrived {
        /// The node.
        node: NodeId,
        /// Its container.
        container: u16,
        /// What it says.
        body: Bytes,
    },
    /// Seal units, and give what is here of them when asked for.
    Copy {
        /// What that is called from now on.
        handoff: u64,
        /// Which.
        units: Vec<Unit>,
        /// The epoch of the set that is to have them.
        epoch: Epoch,
    },
    /// Give the next chunk of that.
    Pull(u64),
    /// That is over.
    Release(u64),
}

/// What the replicas of a node want done.
#[derive(Debug)]
pub enum ReplicaAction {
    /// A frame for a node, not yet numbered, to be sent in order.
    Send(NodeId, Vec<u8>),
    /// The answer to [`ReplicaInput::Pull`].
    Chunk {
        /// Of what.
        handoff: u64,
        /// Instances.
        bytes: Vec<u8>,
        /// What follows.
        kind: ChunkKind,
    },
}

/// The replicas that a node keeps.
#[derive(Debug)]
pub struct ReplicaStore {
    layout: Arc<Layout>,
    slots: Vec<Kept>,
    tasks: BTreeMap<Unit, Kept>,
    /// The last message of each owner. A link that could not be repaired leaves a gap: nothing is taken in behind it
    /// until both are members anew.
    last: BTreeMap<Owner, u64>,
    /// Chunks of which not all parts are there.
    parts: BTreeMap<Owner, Vec<u8>>,
    giving: BTreeMap<u64, Giving>,
}

/// Who writes a replica.
type Owner = (NodeId, u16);

/// What is kept of a unit.
#[derive(Debug, Default)]
struct Kept {
    /// Nothing is taken in that is of an earlier set.
    promised: Epoch,
    /// All of it.
    whole: Option<Replica>,
    /// What is on its way in its place.
    incoming: Option<Replica>,
}

#[derive(Debug)]
struct Replica {
    epoch: Epoch,
    owner: Owner,
    log: UnitLog,
}

/// What is given away.
#[derive(Debug)]
struct Giving {
    units: Vec<Unit>,
    /// Which of them comes next, and where in it.
    next: usize,
    at: usize,
}

impl Kept {
    fn begin(&mut self, epoch: Epoch, owner: Owner) -> bool {
        if epoch < self.promised {
            return false;
        }
        self.incoming = Some(Replica { epoch, owner, log: UnitLog::default() });
        true
    }

    fn go_on(&mut self, epoch: Epoch, owner: Owner) -> bool {
        let is_open = self.promised <= epoch;
        let replica = self.incoming.as_mut().or(self.whole.as_mut());
        let Some(replica) = replica.filter(|replica| is_open && replica.owner == owner) else {
            return false;
        };
        replica.epoch = epoch;
        if self.incoming.is_none() {
            self.promised = epoch;
        }
        true
    }

    /// Where a record of an owner goes.
    fn open(&mut self, owner: Owner) -> Option<&mut UnitLog> {
        let promised = self.promised;
        let is_open = |replica: &&mut Replica| replica.owner == owner && replica.epoch >= promised;
        if self.incoming.as_ref().is_some_and(|replica| replica.owner == owner) {
            return self.incoming.as_mut().filter(is_open).map(|replica| &mut replica.log);
        }
        self.whole.as_mut().filter(is_open).map(|replica| &mut replica.log)
    }

    fn complete(&mut self, owner: Owner) -> bool {
        let promised = self.promised;
        let is_meant = |replica: &mut Replica| replica.owner == owner && replica.epoch >= promised;
        let Some(replica) = self.incoming.take_if(is_meant) else { return false };
        self.promised = replica.epoch;
        self.whole = Some(replica);
        true
    }
}

impl ReplicaStore {
    /// Nothing is kept yet.
    pub fn new(layout: Arc<Layout>) -> Self {
        let slots = std::iter::repeat_with(Kept::default).take(layout.slot_count());
        Self {
            slots: slots.collect(),
            layout,
            tasks: BTreeMap::new(),
            last: BTreeMap::new(),
            parts: BTreeMap::new(),
            giving: BTreeMap::new(),
        }
    }

    /// Takes an input and says what is to be done about it.
    pub fn step(&mut self, input: ReplicaInput, out: &mut Vec<ReplicaAction>) {
        match input {
            ReplicaInput::Laid(layout) => self.lay(layout),
            ReplicaInput::Arrived { node, container, body } => {
                self.arrived((node, container), &body, out);
            }
            ReplicaInput::Copy { handoff, units, epoch } => {
                for &unit in &units {
                    if let Some(kept) = self.kept(unit) {
                        kept.promised = kept.promised.max(epoch);
                    }
                }
                self.giving.insert(handoff, Giving { units, next: 0, at: 0 });
            }
            ReplicaInput::Pull(handoff) => self.give(handoff, out),
            ReplicaInput::Release(handoff) => {
                self.giving.remove(&handoff);
            }
        }
    }

    /// How many units are kept whole, and about how many bytes they take.
    pub fn size(&self) -> (usize, usize) {
        let kept = self.slots.iter().chain(self.tasks.values());
        let (mut units, mut bytes) = (0, 0);
        for kept in kept {
            units += usize::from(kept.whole.is_some());
            let all = kept.whole.iter().chain(&kept.incoming);
            bytes += all.map(|replica| replica.log.capacity()).sum::<usize>();
        }
        (units, bytes)
    }

    fn kept(&mut self, unit: Unit) -> Option<&mut Kept> {
        match unit {
            Unit::Slot(slot) => self.slots.get_mut(usize::from(slot)),
            Unit::Task { .. } => self.tasks.get_mut(&unit),
        }
    }

    /// Forgets what no set names with this node any more. What is of a later view stays: its owner has heard of
    /// that before us.
    fn lay(&mut self, layout: Arc<Layout>) {
        let is_named = |unit: Unit, kept: &Kept| {
            let latest = kept.incoming.iter().chain(&kept.whole).map(|replica| replica.epoch);
            layout.keeps_replica(unit) || latest.max() > Some(layout.epoch)
        };
        for (slot, kept) in (0..).zip(&mut self.slots) {
            if !is_named(Unit::Slot(slot), kept) {
                let promised = kept.promised;
                *kept = Kept { promised, ..Kept::default() };
            }
        }
        self.tasks.retain(|&unit, kept| is_named(unit, kept));
        // Who is a member no more, or another one, does not finish what it has begun.
        self.parts.retain(|(node, _), _| layout.since(*node).is_some());
        self.last.retain(|(node, _), last| {
            layout.since(*node).is_some() || *last >> SEQUENCE_BITS > layout.epoch.0
        });
        self.layout = layout;
    }

    fn arrived(&mut self, owner: Owner, body: &[u8], out: &mut Vec<ReplicaAction>) {
        let (sequence, message) = match ToReplica::read(body) {
            Ok(read) => read,
            Err(error) => return tracing::warn!(from = %owner.0, "{error}"),
        };
        let last = self.last.get(&owner).copied().unwrap_or_default();
        let is_first = sequence % (1 << SEQUENCE_BITS) == 1 && sequence > last;
        if !is_first && last.checked_add(1) != Some(sequence) {
            return tracing::warn!(from = %owner.0, "what was said to a replica has a gap");
        }
        if is_first {
            self.parts.remove(&owner);
        }
        let Some(mut refused) = self.heed(owner, message) else {
            // As behind a gap: an answer to anything later would stand for this as well.
            self.last.remove(&owner);
            return tracing::warn!(from = %owner.0, "a chunk for a replica is damaged, or too large");
        };
        self.last.insert(owner, sequence);
        refused.dedup();
        let header =
            BatchHeader { to: owner.1, kind: BatchKind::Replicated, ..BatchHeader::default() };
        let mut frame = FrameBuilder::default();
        frame.push(header, |body| FromReplica { sequence, refused }.write(body));
        out.push(ReplicaAction::Send(owner.0, frame.take()));
    }

    /// Takes in what an owner says; gives what is refused, or nothing if it cannot be taken in.
    fn heed(&mut self, owner: Owner, message: ToReplica<'_>) -> Option<Vec<Unit>> {
        let mut refused = Vec::new();
        match message {
            ToReplica::Begin(units) => {
                self.each(&units, &mut refused, |kept, epoch| kept.begin(epoch, owner));
            }
            ToReplica::Continue(units) => {
                self.each(&units, &mut refused, |kept, epoch| kept.go_on(epoch, owner));
            }
            ToReplica::Whole(units) => {
                for unit in units {
                    if !self.kept(unit).is_some_and(|kept| kept.complete(owner)) {
                        refused.push(unit);
                    }
                }
            }
            ToReplica::Part(part) => {
                let all: usize = self.parts.values().map(Vec::len).sum();
                let parts = self.parts.entry(owner).or_default();
                if parts.len() + part.len() > PARTS_MAX || all + part.len() > PARTS_MAX_ALL {
                    self.parts.remove(&owner);
                    return None;
                }
                parts.extend_from_slice(part);
            }
            ToReplica::Records(last) => match self.parts.remove(&owner) {
                Some(mut chunk) => {
                    chunk.extend_from_slice(last);
                    self.take(owner, &chunk, &mut refused)?;
                }
                None => self.take(owner, last, &mut refused)?,
            },
        }
        Some(refused)
    }

    fn each(
        &mut self,
        units: &[(Unit, Epoch)],
        refused: &mut Vec<Unit>,
        mut with: impl FnMut(&mut Kept, Epoch) -> bool,
    ) {
        for &(unit, epoch) in units {
            if !self.is_current(unit, epoch) {
                refused.push(unit);
                continue;
            }
            let kept = match unit {
                Unit::Slot(slot) => self.slots.get_mut(usize::from(slot)),
                Unit::Task { .. } => Some(self.tasks.entry(unit).or_default()),
            };
            if !kept.is_some_and(|kept| with(kept, epoch)) {
                refused.push(unit);
            }
        }
    }

    /// Whether the set of an epoch may have replicas: it is one that the view names, or of a later view than ours.
    fn is_current(&self, unit: Unit, epoch: Epoch) -> bool {
        let layout = &self.layout;
        let is_unit = layout.home(unit).is_some();
        is_unit && (epoch > layout.epoch || layout.keeps_replica_for(unit, epoch))
    }

    /// Takes in records; nothing of them if the chunk is damaged.
    fn take(&mut self, owner: Owner, chunk: &[u8], refused: &mut Vec<Unit>) -> Option<()> {
        let bytes = checked(chunk)?;
        let slots = self.slots.len();
        for (start, end, Record { topology, prototype, copied }) in records(bytes) {
            let of_hash = |hash| Unit::Slot(Slot::of(hash, slots).0);
            let unit = match copied {
                Copied::Keyed { key, .. } => of_hash(Packed::new(key, 0).hash()),
                Copied::KeyGone(hash) => of_hash(hash),
                Copied::Task { task, .. } | Copied::TaskGone(task) => {
                    Unit::Task { topology, prototype, task }
                }
                Copied::Unwritable => continue,
            };
            match self.kept(unit).and_then(|kept| kept.open(owner)) {
                Some(log) => log.push(&bytes[start..end]),
                None => refused.push(unit),
            }
        }
        Some(())
    }

    /// Gives the next chunk.
    fn give(&mut self, handoff: u64, out: &mut Vec<ReplicaAction>) {
        let Some(mut giving) = self.giving.remove(&handoff) else { return };
        let mut chunk = Vec::new();
        while let Some(&unit) = giving.units.get(giving.next) {
            let log = self.kept(unit).and_then(|kept| kept.whole.as_mut());
            // Nothing more is taken in, so it lies still.
            let all = log.map_or(&[][..], |whole| match giving.at {
                0 => whole.log.compacted(),
                _ => whole.log.bytes(),
            });
            for (start, end, _) in records(&all[giving.at..]) {
                chunk.extend_from_slice(&all[giving.at + start..giving.at + end]);
                if chunk.len() >= CHUNK_TARGET {
                    giving.at += end;
                    break;
                }
            }
            if chunk.len() >= CHUNK_TARGET {
                break;
            }
            (giving.next, giving.at) = (giving.next + 1, 0);
        }
        let is_end = giving.next >= giving.units.len();
        let kind = if is_end { ChunkKind::End } else { ChunkKind::Rest };
        self.giving.insert(handoff, giving);
        out.push(ReplicaAction::Chunk { handoff, bytes: of_records(&chunk), kind });
    }
}
