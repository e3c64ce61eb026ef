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
//!
//! **On disk.** Where replicas are to outlive their processes, each node keeps one of its own units too, and whatever
//! changes what is kept goes to the [`journal`] before anybody hears of it.

mod journal;
mod log;
mod message;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use membership::{Epoch, NodeId};
use routing::{BatchHeader, BatchKind, FrameBuilder, Key, Packed, Slot};

pub use self::journal::JournalError;
use self::journal::{Entry, Image};
use self::log::UnitLog;
pub(crate) use self::message::{FromReplica, MESSAGE_MAX, SEQUENCE_BITS, ToReplica};
use crate::chunk::{Copied, Record, checked, of_records, records};
use crate::container::ChunkKind;
use crate::layout::Layout;
use crate::{Sought, Unit};

/// A chunk that is given is closed when it has this many bytes.
const CHUNK_TARGET: usize = 64 << 10;

/// The most bytes of a chunk that comes in parts: the largest instance, and what stands around it.
const PARTS_MAX: usize = 17 << 20;

/// The most bytes of all such chunks that are not all there.
const PARTS_MAX_ALL: usize = 16 * PARTS_MAX;

/// While it is cleaned, so many bytes of units are written for each byte of what comes: it is through before as much
/// has come as is kept, and what comes waits for a few units at a time.
const CLEAN_PACE: u64 = 2;

/// What a unit counts for at least, by that measure: to look at it costs something too.
const CLEAN_LEAST: u64 = 1 << 10;

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
    /// The same from a container of this node.
    Own {
        /// The container.
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
    /// What is known of an instance?
    Look {
        /// What the answer is called.
        question: u64,
        /// Which.
        sought: Sought,
    },
}

/// What the replicas of a node want done.
#[derive(Debug)]
pub enum ReplicaAction {
    /// A frame for a node, not yet numbered, to be sent in order.
    Send(NodeId, Vec<u8>),
    /// Word for a container of this node, as [`crate::Input::Replicated`].
    Tell(u16, Vec<u8>),
    /// The answer to [`ReplicaInput::Pull`].
    Chunk {
        /// Of what.
        handoff: u64,
        /// Instances.
        bytes: Vec<u8>,
        /// What follows.
        kind: ChunkKind,
    },
    /// The answer to [`ReplicaInput::Look`].
    Looked {
        /// What was asked.
        question: u64,
        /// Its state, if there is such an instance, by a replica, if there is one that is whole.
        found: Option<Option<Vec<u8>>>,
    },
    /// Bytes for the end of the newest segment of the journal. What follows this waits until they are synced.
    Log(Vec<u8>),
    /// A new segment of the journal, and what it begins with; the same holds of it.
    Segment(u64, Vec<u8>),
    /// Segments below this one are needed no more, once all that went before is synced.
    Discard(u64),
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
    journal: Option<Journal>,
}

/// What is known of the journal.
#[derive(Debug)]
struct Journal {
    /// The life that made it.
    made: u64,
    /// The segment that is written.
    segment: u64,
    /// Bytes since it was cleaned, or since it began; and at how many it is looked whether it should be cleaned.
    logged: u64,
    limit: u64,
    clean_after: u64,
    /// The next unit to be written, while it is cleaned; and how many bytes may be. It is named, since units come and go
    /// meanwhile.
    cleaning: Option<(Unit, u64)>,
    /// What is to be written.
    out: Vec<u8>,
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

/// What a journal that was gone on with is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The life of the node that made it.
    pub made: u64,
    /// The segment that is written next, and how long it is. What follows there is to be cut off; what is of later
    /// segments, too.
    pub segment: u64,
    /// Bytes of that segment.
    pub len: u64,
    /// The first segment that is needed.
    pub first: u64,
}

impl Journal {
    fn new(made: u64, segment: u64, clean_after: u64) -> Self {
        let (limit, out) = (clean_after, Vec::new());
        Self { made, segment, logged: 0, limit, clean_after, cleaning: None, out }
    }

    fn add(&mut self, entry: &Entry<'_>) {
        journal::append(entry, &mut self.out);
    }
}

impl Replica {
    fn image(&mut self) -> (Epoch, Owner, &[u8]) {
        (self.epoch, self.owner, self.log.compacted())
    }
}

impl Kept {
    fn of(image: &Image<'_>) -> Self {
        let of = |replica: Option<(Epoch, Owner, &[u8])>| {
            replica.map(|(epoch, owner, bytes)| Replica { epoch, owner, log: UnitLog::of(bytes) })
        };
        Self { promised: image.promised, whole: of(image.whole), incoming: of(image.incoming) }
    }

    fn image(&mut self, unit: Unit) -> Image<'_> {
        let Self { promised, whole, incoming } = self;
        let (whole, incoming) = (whole.as_mut(), incoming.as_mut());
        let (whole, incoming) = (whole.map(Replica::image), incoming.map(Replica::image));
        Image { unit, promised: *promised, whole, incoming }
    }

    /// Forgets all but what was promised; whether there was anything.
    fn forget(&mut self) -> bool {
        let had = self.whole.is_some() || self.incoming.is_some();
        (self.whole, self.incoming) = (None, None);
        had
    }

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
            journal: None,
        }
    }

    /// The same, and whatever is kept goes to a journal, which is made in this life of the node.
    /// It is cleaned when `clean_after` bytes have come since it was, or twice what is kept.
    pub fn with_journal(
        layout: Arc<Layout>,
        clean_after: u64,
        made: u64,
        out: &mut Vec<ReplicaAction>,
    ) -> Self {
        out.push(ReplicaAction::Segment(1, journal::begin(1, made)));
        Self { journal: Some(Journal::new(made, 1, clean_after)), ..Self::new(layout) }
    }

    /// Goes on with the segments of a journal, by number, the first one first.
    ///
    /// # Errors
    /// It cannot be relied on: nobody knows what of it is missing.
    pub fn recover<R: Read>(
        layout: Arc<Layout>,
        clean_after: u64,
        segments: impl IntoIterator<Item = (u64, R)>,
    ) -> Result<(Self, Recovered), JournalError> {
        let mut store = Self::new(layout);
        let (mut first, mut needed, mut last) = (None, 1, None::<journal::Segment>);
        let mut logged = 0;
        let mut segments = segments.into_iter().peekable();
        while let Some((number, mut source)) = segments.next() {
            first.get_or_insert(number);
            if last.is_some_and(|last| last.number + 1 != number) {
                return Err(JournalError::Missing { first: number, needed: number - 1 });
            }
            let is_last = segments.peek().is_none();
            let read = journal::replay(&mut source, number, is_last, |entry| {
                if let Entry::Cleaned(below) = entry {
                    needed = below;
                }
                store.take_entry(entry);
            })?;
            match read {
                Some(read) if last.is_none_or(|last| last.made == read.made) => {
                    logged += read.len;
                    last = Some(read);
                }
                Some(_) => {
                    let what = "it is of another journal";
                    return Err(JournalError::Damaged { segment: number, at: 0, what });
                }
                None => {}
            }
        }
        let first = first.unwrap_or(0);
        if first == 1 && last.is_none() {
            return Err(JournalError::NeverBegun);
        }
        let Some(last) = last.filter(|_| first <= needed) else {
            return Err(JournalError::Missing { first, needed });
        };
        store.journal =
            Some(Journal { logged, ..Journal::new(last.made, last.number, clean_after) });
        let recovered =
            Recovered { made: last.made, segment: last.number, len: last.len, first: needed };
        Ok((store, recovered))
    }

    /// Takes an input and says what is to be done about it.
    pub fn step(&mut self, input: ReplicaInput, out: &mut Vec<ReplicaAction>) {
        let before = out.len();
        self.heed_input(input, out);
        let Some(journal) = &mut self.journal else { return };
        if !journal.out.is_empty() {
            journal.logged += journal.out.len() as u64;
            if let Some((_, budget)) = &mut journal.cleaning {
                *budget += CLEAN_PACE * journal.out.len() as u64;
            }
            let log = std::mem::take(&mut journal.out);
            out.insert(before, ReplicaAction::Log(log));
            self.clean(out);
        }
    }

    fn heed_input(&mut self, input: ReplicaInput, out: &mut Vec<ReplicaAction>) {
        match input {
            ReplicaInput::Laid(layout) => self.lay(layout),
            ReplicaInput::Arrived { node, container, body } => {
                self.arrived((node, container), &body, out);
            }
            ReplicaInput::Own { container, body } => {
                self.arrived((self.layout.me, container), &body, out);
            }
            ReplicaInput::Copy { handoff, units, epoch } => {
                self.seal(&units, epoch);
                if let Some(journal) = &mut self.journal {
                    journal.add(&Entry::Sealed(units.clone(), epoch));
                }
                self.giving.insert(handoff, Giving { units, next: 0, at: 0 });
            }
            ReplicaInput::Pull(handoff) => self.give(handoff, out),
            ReplicaInput::Release(handoff) => {
                self.giving.remove(&handoff);
            }
            ReplicaInput::Look { question, sought } => {
                let unit = sought.unit(self.slots.len());
                let whole = self.kept(unit).and_then(|kept| kept.whole.as_ref());
                let found = whole.map(|whole| whole.log.last(&sought));
                out.push(ReplicaAction::Looked { question, found });
            }
        }
    }

    fn seal(&mut self, units: &[Unit], epoch: Epoch) {
        for &unit in units {
            if let Some(kept) = self.kept(unit) {
                kept.promised = kept.promised.max(epoch);
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
            match (layout.keeps_replica(unit), latest.max()) {
                // What is of a set before those that name it is of a unit that began anew.
                (Some(since), Some(latest)) => latest >= since,
                (Some(_), None) => true,
                (None, latest) => latest > Some(layout.epoch),
            }
        };
        let mut dropped = Vec::new();
        for (slot, kept) in (0..).zip(&mut self.slots) {
            if !is_named(Unit::Slot(slot), kept) && kept.forget() {
                dropped.push(Unit::Slot(slot));
            }
        }
        let gone = self.tasks.extract_if(.., |&unit, kept| !is_named(unit, kept));
        dropped.extend(gone.map(|(unit, _)| unit));
        if let Some(journal) = self.journal.as_mut().filter(|_| !dropped.is_empty()) {
            journal.add(&Entry::Dropped(dropped));
        }
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
        if owner.0 == self.layout.me {
            let mut body = Vec::new();
            FromReplica { sequence, refused }.write(&mut body);
            return out.push(ReplicaAction::Tell(owner.1, body));
        }
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
            ToReplica::Begin(mut units) => {
                self.refuse(&mut units, &mut refused);
                self.begin(owner, &units, &mut refused);
                self.note(owner, &ToReplica::Begin(units));
            }
            ToReplica::Continue(mut units) => {
                self.refuse(&mut units, &mut refused);
                self.go_on(owner, &units, &mut refused);
                self.note(owner, &ToReplica::Continue(units));
            }
            ToReplica::Whole(units) => {
                self.complete(owner, &units, &mut refused);
                self.note(owner, &ToReplica::Whole(units));
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
            ToReplica::Records(last) => {
                let parts = self.parts.remove(&owner).map(|mut parts| {
                    parts.extend_from_slice(last);
                    parts
                });
                let chunk = parts.as_deref().unwrap_or(last);
                self.take(owner, chunk, &mut refused)?;
                self.note(owner, &ToReplica::Records(chunk));
            }
        }
        Some(refused)
    }

    /// Whatever was taken in goes to the journal. What was refused is refused again when that is read: it depends on
    /// nothing but what was taken in.
    fn note(&mut self, owner: Owner, message: &ToReplica<'_>) {
        if let Some(journal) = &mut self.journal {
            journal.add(&Entry::Message(owner, message.clone()));
        }
    }

    /// Takes in what the journal says.
    fn take_entry(&mut self, entry: Entry<'_>) {
        let mut refused = Vec::new();
        match entry {
            Entry::Message(owner, ToReplica::Begin(units)) => {
                self.begin(owner, &units, &mut refused);
            }
            Entry::Message(owner, ToReplica::Continue(units)) => {
                self.go_on(owner, &units, &mut refused);
            }
            Entry::Message(owner, ToReplica::Whole(units)) => {
                self.complete(owner, &units, &mut refused);
            }
            Entry::Message(owner, ToReplica::Records(chunk)) => {
                let _ = self.take(owner, chunk, &mut refused);
            }
            Entry::Message(_, ToReplica::Part(_)) | Entry::Cleaned(_) => {}
            Entry::Sealed(units, epoch) => self.seal(&units, epoch),
            Entry::Dropped(units) => {
                for unit in units {
                    match unit {
                        Unit::Slot(_) => drop(self.kept(unit).map(Kept::forget)),
                        Unit::Task { .. } => drop(self.tasks.remove(&unit)),
                    }
                }
            }
            Entry::Unit(image) => {
                if let Some(kept) = self.kept_or_new(image.unit) {
                    *kept = Kept::of(&image);
                }
            }
        }
    }

    /// Takes out of a list what is of sets that have no replicas here.
    fn refuse(&self, units: &mut Vec<(Unit, Epoch)>, refused: &mut Vec<Unit>) {
        let out = units.extract_if(.., |(unit, epoch)| !self.is_current(*unit, *epoch));
        refused.extend(out.map(|(unit, _)| unit));
    }

    fn begin(&mut self, owner: Owner, units: &[(Unit, Epoch)], refused: &mut Vec<Unit>) {
        for &(unit, epoch) in units {
            if !self.kept_or_new(unit).is_some_and(|kept| kept.begin(epoch, owner)) {
                refused.push(unit);
            }
        }
    }

    fn go_on(&mut self, owner: Owner, units: &[(Unit, Epoch)], refused: &mut Vec<Unit>) {
        for &(unit, epoch) in units {
            if !self.kept(unit).is_some_and(|kept| kept.go_on(epoch, owner)) {
                refused.push(unit);
            }
        }
    }

    fn complete(&mut self, owner: Owner, units: &[Unit], refused: &mut Vec<Unit>) {
        for &unit in units {
            if !self.kept(unit).is_some_and(|kept| kept.complete(owner)) {
                refused.push(unit);
            }
        }
    }

    fn kept_or_new(&mut self, unit: Unit) -> Option<&mut Kept> {
        match unit {
            Unit::Slot(slot) => self.slots.get_mut(usize::from(slot)),
            Unit::Task { .. } => Some(self.tasks.entry(unit).or_default()),
        }
    }

    /// Goes on with cleaning the journal, and begins if it has grown to twice what is kept.
    fn clean(&mut self, out: &mut Vec<ReplicaAction>) {
        let live = match &self.journal {
            Some(journal) if journal.cleaning.is_none() && journal.logged > journal.limit => {
                Some(self.size().1 as u64)
            }
            _ => None,
        };
        let Some(journal) = &mut self.journal else { return };
        if let Some(live) = live {
            journal.limit = journal.clean_after.max(2 * live);
            if journal.logged > journal.limit {
                journal.segment += 1;
                journal.cleaning = Some((Unit::Slot(0), 0));
                let start = journal::begin(journal.segment, journal.made);
                out.push(ReplicaAction::Segment(journal.segment, start));
            }
        }
        let Some((from, mut budget)) = journal.cleaning.take() else { return };
        let mut images = Vec::new();
        let slots = (0..).map(Unit::Slot).zip(&mut self.slots);
        let tasks = self.tasks.range_mut(from..).map(|(&unit, kept)| (unit, kept));
        let mut next = None;
        for (unit, kept) in slots.skip_while(|(unit, _)| *unit < from).chain(tasks) {
            if budget == 0 {
                next = Some(unit);
                break;
            }
            let mut written = 0;
            let is_empty = kept.promised == Epoch(0) && kept.whole.is_none();
            if !is_empty || kept.incoming.is_some() {
                written = journal::append(&Entry::Unit(kept.image(unit)), &mut images) as u64;
            }
            budget = budget.saturating_sub(written.max(CLEAN_LEAST));
        }
        journal.cleaning = next.map(|unit| (unit, budget));
        if next.is_none() {
            journal::append(&Entry::Cleaned(journal.segment), &mut images);
            journal.logged = images.len() as u64;
        }
        if !images.is_empty() {
            out.push(ReplicaAction::Log(images));
        }
        if next.is_none() {
            out.push(ReplicaAction::Discard(journal.segment));
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
