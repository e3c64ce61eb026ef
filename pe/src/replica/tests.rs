//! What a replica takes in, and from when on it does not.

use membership::Time;
use routing::{Frame, FrameHeader, FrameKind, seal};

use super::*;
use crate::chunk::ChunkWriter;
use crate::layout::{Home, Place};

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

struct Kept {
    store: ReplicaStore,
    said: BTreeMap<u64, u64>,
}

impl Kept {
    fn new() -> Self {
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
        let layout = Layout::new(Epoch(0), node(9), vec![place], slots, no_tasks, &[], none);
        Self { store: ReplicaStore::new(Arc::new(layout)), said: BTreeMap::new() }
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
