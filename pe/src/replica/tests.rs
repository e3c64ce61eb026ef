//! What a replica takes in, and from when on it does not.

use membership::Time;
use proptest::prelude::*;
use routing::{Frame, FrameHeader, FrameKind, seal};

use super::*;
use crate::chunk::ChunkWriter;
use crate::layout::{Home, Place, Sets};

const SLOTS: usize = 16;

/// A key, its slot, and a chunk with its record.
fn record(key: u64, state: u64) -> (Unit, Vec<u8>) {
    let mut writer = ChunkWriter::new(Time::default());
    writer.keyed(&key.to_le_bytes(), 0, &state);
    let hash = Packed::new(&key.to_le_bytes(), 0).hash();
    (Unit::Slot(Slot::of(hash, SLOTS).0), writer.finish())
}

fn node(number: u64) -> NodeId {
    NodeId(number)
}

/// That of a view in which node 9 is alone.
fn layout(epoch: u64, sets: Sets) -> Layout {
    let place = Place {
        node: node(9),
        since: Epoch(0),
        containers: 1,
        number: 1,
        is_drained: false,
        is_active: true,
    };
    let slots = vec![Home::first(node(9)); SLOTS];
    let (none, no_tasks) = (Vec::new(), Vec::new());
    Layout::new(Epoch(epoch), node(9), vec![place], slots, no_tasks, &[], none).with_sets(sets)
}

struct Kept {
    store: ReplicaStore,
    said: BTreeMap<u64, u64>,
}

impl Kept {
    fn new() -> Self {
        let store = ReplicaStore::new(Arc::new(layout(0, Sets::default())));
        Self { store, said: BTreeMap::new() }
    }

    /// An owner says something; gives what is refused, or nothing if there is no answer.
    fn say(&mut self, owner: u64, message: &ToReplica<'_>) -> Option<Vec<Unit>> {
        let sequence = self.said.entry(owner).or_insert(1 << SEQUENCE_BITS);
        *sequence += 1;
        let sequence = *sequence;
        self.say_as(owner, sequence, message)
    }

    fn say_as(&mut self, owner: u64, number: u64, message: &ToReplica<'_>) -> Option<Vec<Unit>> {
        let mut body = Vec::new();
        message.write(number, &mut body);
        let input = ReplicaInput::Arrived { node: node(owner), container: 0, body: body.into() };
        let mut out = Vec::new();
        self.store.step(input, &mut out);
        let ReplicaAction::Send(to, mut frame) = out.pop()? else { panic!("no answer") };
        assert_eq!(to, node(owner));
        seal(&mut frame, FrameKind::Batches, 0);
        let header = FrameHeader::parse(frame.first_chunk().unwrap()).unwrap();
        let mut batches = Frame::new(header, Bytes::from(frame).slice(FrameHeader::LEN..)).unwrap();
        let (_, body) = batches.next().unwrap().unwrap();
        let FromReplica { sequence, refused } = FromReplica::read(&body).unwrap();
        assert_eq!(sequence, number);
        Some(refused)
    }

    /// What it gives of a unit to a set of an epoch, state by state.
    fn give(&mut self, unit: Unit, epoch: u64) -> Vec<u64> {
        let mut out = Vec::new();
        let (handoff, units, epoch) = (7, vec![unit], Epoch(epoch));
        self.store.step(ReplicaInput::Copy { handoff, units, epoch }, &mut out);
        self.store.step(ReplicaInput::Pull(handoff), &mut out);
        let Some(ReplicaAction::Chunk { bytes, kind, .. }) = out.pop() else { panic!("{out:?}") };
        assert_eq!(kind, ChunkKind::End);
        let state = |record: Record<'_>| {
            let Copied::Keyed { state, .. } = record.copied else { panic!("{record:?}") };
            u64::from_le_bytes(state.try_into().unwrap())
        };
        records(checked(&bytes).unwrap()).map(|(_, _, record)| state(record)).collect()
    }
}

#[test]
fn what_was_copied_and_committed_is_given_in_its_last_state() {
    let mut kept = Kept::new();
    let (unit, first) = record(1, 10);
    let (_, later) = record(1, 11);
    let begin = ToReplica::Begin(vec![(unit, Epoch(3))]);
    assert_eq!(kept.say(1, &begin), Some(vec![]));
    assert_eq!(kept.say(1, &ToReplica::Records(&first)), Some(vec![]));
    assert_eq!(kept.give(unit, 3), [0; 0], "what is on its way is nothing yet");
    assert_eq!(kept.say(1, &ToReplica::Whole(vec![unit])), Some(vec![]));
    assert_eq!(kept.say(1, &ToReplica::Records(&later)), Some(vec![]));
    assert_eq!(kept.give(unit, 3), [11]);
    let other = record(2, 1).0;
    assert_eq!(kept.say(1, &ToReplica::Whole(vec![other])), Some(vec![other]), "never begun");
}

#[test]
fn what_is_sealed_takes_nothing_more_from_its_former_owner() {
    let mut kept = Kept::new();
    let (unit, first) = record(1, 10);
    let (_, later) = record(1, 11);
    kept.say(1, &ToReplica::Begin(vec![(unit, Epoch(3))]));
    kept.say(1, &ToReplica::Records(&first));
    kept.say(1, &ToReplica::Whole(vec![unit]));
    assert_eq!(kept.give(unit, 5), [10], "sealed for the set of view 5");
    assert_eq!(kept.say(1, &ToReplica::Records(&later)), Some(vec![unit]));
    assert_eq!(kept.say(1, &ToReplica::Continue(vec![(unit, Epoch(4))])), Some(vec![unit]));
    assert_eq!(kept.say(1, &ToReplica::Begin(vec![(unit, Epoch(4))])), Some(vec![unit]));
    assert_eq!(kept.give(unit, 5), [10]);
    // Its next owner writes it anew; until that is whole, what there was stays.
    assert_eq!(kept.say(2, &ToReplica::Begin(vec![(unit, Epoch(5))])), Some(vec![]));
    assert_eq!(kept.give(unit, 5), [10]);
    kept.say(2, &ToReplica::Records(&later));
    kept.say(2, &ToReplica::Whole(vec![unit]));
    assert_eq!(kept.give(unit, 5), [11]);
    assert_eq!(kept.say(1, &ToReplica::Records(&first)), Some(vec![unit]), "it is another's");
}

#[test]
fn behind_a_gap_nothing_is_taken_in_until_both_are_members_anew() {
    let mut kept = Kept::new();
    let (unit, first) = record(1, 10);
    let (_, later) = record(1, 11);
    let session = |view: u64, number: u64| (view << SEQUENCE_BITS) + number;
    let begin = ToReplica::Begin(vec![(unit, Epoch(3))]);
    kept.say_as(1, session(3, 1), &begin);
    kept.say_as(1, session(3, 2), &ToReplica::Records(&first));
    kept.say_as(1, session(3, 3), &ToReplica::Whole(vec![unit]));
    assert_eq!(kept.say_as(1, session(3, 5), &ToReplica::Records(&later)), None, "4 is missing");
    assert_eq!(kept.say_as(1, session(3, 3), &ToReplica::Records(&later)), None, "3 came");
    assert_eq!(kept.give(unit, 3), [10]);
    assert_eq!(kept.say_as(1, session(4, 1), &begin), Some(vec![]));
}

#[test]
fn a_large_chunk_comes_in_parts() {
    let mut kept = Kept::new();
    let (unit, chunk) = record(1, 10);
    kept.say(1, &ToReplica::Begin(vec![(unit, Epoch(3))]));
    kept.say(1, &ToReplica::Part(&chunk[..5]));
    kept.say(1, &ToReplica::Part(&chunk[5..9]));
    assert_eq!(kept.say(1, &ToReplica::Records(&chunk[9..])), Some(vec![]));
    kept.say(1, &ToReplica::Whole(vec![unit]));
    assert_eq!(kept.give(unit, 3), [10]);
}

#[test]
fn behind_a_damaged_chunk_nothing_is_confirmed() {
    let mut kept = Kept::new();
    let (unit, mut chunk) = record(1, 10);
    kept.say(1, &ToReplica::Begin(vec![(unit, Epoch(3))]));
    let last = chunk.len() - 1;
    chunk[last] ^= 1;
    assert_eq!(kept.say(1, &ToReplica::Records(&chunk)), None);
    assert_eq!(kept.say(1, &ToReplica::Whole(vec![unit])), None);
}

#[test]
fn what_comes_in_parts_is_bounded_and_so_are_units() {
    let mut kept = Kept::new();
    let part = vec![0; MESSAGE_MAX];
    let said = (0..8).map(|_| kept.say(1, &ToReplica::Part(&part)).is_some());
    assert_eq!(said.filter(|is_taken| *is_taken).count(), PARTS_MAX / MESSAGE_MAX);
    assert!(kept.store.parts.is_empty());
    let nowhere = Unit::Task { topology: 7, prototype: 0, task: 0 };
    let begin = ToReplica::Begin(vec![(nowhere, Epoch(3))]);
    assert_eq!(kept.say(2, &begin), Some(vec![nowhere]));
    assert!(kept.store.tasks.is_empty());
}

#[test]
fn bytes_of_a_liar_do_no_harm() {
    let mut kept = Kept::new();
    for bytes in [&b""[..], b"123456789", &[1, 0, 0, 0, 1, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6, 7, 8]] {
        let body = Bytes::copy_from_slice(bytes);
        let input = ReplicaInput::Arrived { node: node(1), container: 0, body };
        kept.store.step(input, &mut Vec::new());
    }
    assert_eq!(kept.store.size().0, 0);
}

/// A store on a disk.
struct OnDisk {
    kept: Kept,
    files: BTreeMap<u64, Vec<u8>>,
    /// How long the newest segment was before the last step.
    before: usize,
}

type State = Vec<(Unit, Epoch, Option<Written>, Option<Written>)>;
type Written = (Epoch, Owner, Vec<u8>);

fn state(store: &mut ReplicaStore) -> State {
    let slots = (0..).map(Unit::Slot).zip(&mut store.slots);
    let owned = |(epoch, owner, bytes): (Epoch, Owner, &[u8])| (epoch, owner, bytes.to_vec());
    let all = slots.map(|(unit, kept)| {
        let Image { unit, promised, whole, incoming } = kept.image(unit);
        (unit, promised, whole.map(owned), incoming.map(owned))
    });
    all.collect()
}

impl OnDisk {
    fn new(clean_after: u64) -> Self {
        let mut kept = Kept::new();
        let mut out = Vec::new();
        let layout = Arc::clone(&kept.store.layout);
        kept.store = ReplicaStore::with_journal(layout, clean_after, 1, &mut out);
        let mut disk = Self { kept, files: BTreeMap::new(), before: 0 };
        disk.act(out);
        disk
    }

    fn act(&mut self, out: Vec<ReplicaAction>) {
        self.before = self.files.last_key_value().map_or(0, |(_, bytes)| bytes.len());
        for action in out {
            match action {
                ReplicaAction::Log(bytes) => {
                    self.files.last_entry().unwrap().get_mut().extend(bytes);
                }
                ReplicaAction::Segment(number, start) => {
                    self.before = 0;
                    self.files.insert(number, start);
                }
                ReplicaAction::Discard(below) => self.files.retain(|number, _| *number >= below),
                ReplicaAction::Send(..)
                | ReplicaAction::Tell(..)
                | ReplicaAction::Chunk { .. }
                | ReplicaAction::Looked { .. } => {}
            }
        }
    }

    fn step(&mut self, input: ReplicaInput) {
        let mut out = Vec::new();
        self.kept.store.step(input, &mut out);
        self.act(out);
    }

    /// An owner does something with a key.
    fn play(&mut self, (what, owner, key, value): (u8, u64, u64, u64)) {
        let (unit, chunk) = record(key, value);
        let epoch = Epoch(1 + value % 8);
        let message = match what {
            0 => ToReplica::Begin(vec![(unit, epoch)]),
            1 => ToReplica::Continue(vec![(unit, epoch)]),
            2 => ToReplica::Whole(vec![unit]),
            3 => {
                let (handoff, units) = (value, vec![unit]);
                return self.step(ReplicaInput::Copy { handoff, units, epoch });
            }
            _ => ToReplica::Records(&chunk),
        };
        let sequence = self.kept.said.entry(owner).or_insert(1 << SEQUENCE_BITS);
        *sequence += 1;
        let mut body = Vec::new();
        message.write(*sequence, &mut body);
        self.step(ReplicaInput::Arrived { node: node(owner), container: 0, body: body.into() });
    }

    fn recover(&self) -> Result<(ReplicaStore, Recovered), JournalError> {
        let layout = Arc::clone(&self.kept.store.layout);
        let files = self.files.iter().map(|(number, bytes)| (*number, &bytes[..]));
        ReplicaStore::recover(layout, 1 << 10, files)
    }
}

fn plays() -> impl Strategy<Value = Vec<(u8, u64, u64, u64)>> {
    prop::collection::vec((0u8..8, 1u64..3, 0u64..6, 0u64..100), 1..120)
}

proptest! {
    /// What is read again is what was there, however often it was cleaned, and goes on as it would have.
    #[test]
    fn a_journal_gives_back_what_was_kept(first in plays(), then in plays()) {
        let mut disk = OnDisk::new(1 << 10);
        first.into_iter().for_each(|play| disk.play(play));
        let (mut store, recovered) = disk.recover().unwrap();
        prop_assert_eq!(state(&mut store), state(&mut disk.kept.store));
        prop_assert_eq!(recovered.made, 1);
        let last = disk.files.last_key_value().unwrap();
        prop_assert_eq!((recovered.segment, recovered.len), (*last.0, last.1.len() as u64));
        // Both go on, on their own disks.
        store.last = disk.kept.store.last.clone();
        let kept = Kept { store, said: disk.kept.said.clone() };
        let mut again = OnDisk { kept, files: disk.files.clone(), before: 0 };
        for play in then {
            disk.play(play);
            again.play(play);
        }
        let (mut one, mut two) = (disk.recover().unwrap().0, again.recover().unwrap().0);
        prop_assert_eq!(state(&mut one), state(&mut two));
    }

    /// What was being written when the machine stopped is short, or zeros: then what was before it is there.
    #[test]
    fn what_was_being_written_is_left_out(
        first in plays(), last in (4u8..8, 1u64..3, 0u64..6, 0u64..100), cut in 0usize..400, zeros in 0usize..2,
    ) {
        let mut disk = OnDisk::new(1 << 10);
        first.into_iter().for_each(|play| disk.play(play));
        let before = state(&mut disk.kept.store);
        let files = disk.files.clone();
        disk.play(last);
        // Nothing is discarded before what goes before is synced.
        for (number, bytes) in files {
            disk.files.entry(number).or_insert(bytes);
        }
        let start = disk.before;
        let number = *disk.files.last_key_value().unwrap().0;
        let newest = disk.files.last_entry().unwrap().into_mut();
        let whole = newest.len();
        let cut = start + cut % (whole - start);
        newest.truncate(cut);
        newest.resize(cut + zeros * (whole - cut), 0);
        // Of a step that began to clean, some entries may be there.
        let (mut store, recovered) = disk.recover().unwrap();
        prop_assert!(recovered.segment < number || recovered.len <= cut as u64);
        if start > 0 {
            let after = state(&mut store);
            prop_assert!(after == before || after == state(&mut disk.kept.store));
        }
    }

    /// Whichever bit is another, it is noticed, also if something was being written when the machine stopped.
    #[test]
    fn a_bit_that_is_another_is_found(
        plays in plays(), at in any::<prop::sample::Index>(), bit in 0u32..8, zeros in 0usize..40,
    ) {
        let mut disk = OnDisk::new(1 << 10);
        plays.into_iter().for_each(|play| disk.play(play));
        let all: usize = disk.files.values().map(Vec::len).sum();
        let mut at = at.index(all);
        let newest = disk.files.last_entry().unwrap().into_mut();
        newest.resize(newest.len() + zeros, 0);
        for bytes in disk.files.values_mut() {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << bit;
                break;
            }
            at -= bytes.len();
        }
        prop_assert!(disk.recover().is_err());
    }
}

#[test]
fn a_journal_that_was_just_being_begun_is_none() {
    let mut disk = OnDisk::new(1 << 10);
    let whole = disk.files[&1].len();
    for len in 0..whole {
        disk.files.get_mut(&1).unwrap().truncate(whole - 1 - len);
        assert!(matches!(disk.recover(), Err(JournalError::NeverBegun)), "{len}");
    }
}

#[test]
fn segments_that_are_missing_are_missed() {
    let mut disk = OnDisk::new(1 << 10);
    let plays = |disk: &mut OnDisk| {
        for value in 0..200 {
            disk.play((0, 1, value % 6, 3));
            disk.play((4, 1, value % 6, value));
        }
    };
    plays(&mut disk);
    let newest = *disk.files.last_key_value().unwrap().0;
    assert!(newest > 2, "it was cleaned: {newest}");
    let first = *disk.files.first_key_value().unwrap().0;
    let second = disk.files[&first].clone();
    disk.files.insert(newest + 2, second);
    assert!(matches!(disk.recover(), Err(JournalError::Missing { .. })));
    disk.files.clear();
    assert!(disk.recover().is_err());
}

/// A unit whose last copies were lost began anew. Of what was kept of it before, nothing is given any more.
#[test]
fn what_is_of_before_a_unit_began_anew_is_dropped() {
    let mut kept = Kept::new();
    let (unit, chunk) = record(1, 10);
    kept.say(1, &ToReplica::Begin(vec![(unit, Epoch(3))]));
    kept.say(1, &ToReplica::Records(&chunk));
    kept.say(1, &ToReplica::Whole(vec![unit]));
    let lay = |kept: &mut Kept, sets: Vec<Epoch>| {
        let sets = Sets { kept: BTreeMap::from([(unit, sets)]), ..Sets::default() };
        kept.store.step(ReplicaInput::Laid(Arc::new(layout(6, sets))), &mut Vec::new());
    };
    lay(&mut kept, vec![Epoch(3), Epoch(6)]);
    assert_eq!(kept.give(unit, 3), [10]);
    lay(&mut kept, vec![Epoch(5)]);
    assert_eq!(kept.give(unit, 5), [0; 0]);
}

/// They were counted, and when one went in between, the next one was skipped and gone for good with the older segments.
#[test]
fn a_unit_that_goes_while_the_journal_is_cleaned_leaves_no_other_out() {
    let mut disk = OnDisk::new(1 << 10);
    let task = |task| Unit::Task { topology: 0, prototype: 0, task };
    let (slot, chunk) = record(1, 10);
    let bytes = checked(&chunk).unwrap();
    for number in 0..64 {
        let mut log = UnitLog::default();
        log.push(bytes);
        let whole = Some(Replica { epoch: Epoch(1), owner: (node(1), 0), log });
        let kept = super::Kept { promised: Epoch(1), whole, incoming: None };
        disk.kept.store.tasks.insert(task(number), kept);
    }
    disk.kept.say(1, &ToReplica::Begin(vec![(slot, Epoch(3))]));
    let (mut gone, mut steps) = (0, 0);
    while disk.files.keys().next().is_some_and(|first| *first == 1) {
        disk.play((4, 1, 1, 10));
        let journal = disk.kept.store.journal.as_ref().unwrap();
        if matches!(journal.cleaning, Some((Unit::Task { .. }, _))) {
            disk.kept.store.tasks.remove(&task(gone));
            gone += 1;
        }
        steps += 1;
        assert!(steps < 1_000, "it is cleaned some time");
    }
    assert!(gone > 1, "it takes several steps: {gone}");
    let (again, _) = disk.recover().unwrap();
    let left = disk.kept.store.tasks.keys().collect::<Vec<_>>();
    let lost: Vec<_> = left.iter().filter(|unit| !again.tasks.contains_key(unit)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}
