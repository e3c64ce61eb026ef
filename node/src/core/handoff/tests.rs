//! Two sides of a handoff and messages between them that are lost, doubled and late.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use membership::view_log::{ClusterId, Digest, DiskId, Generation, Head, Seat, State};
use membership::{Member, Run};
use proptest::prelude::*;

use super::*;
use crate::core::{Assignment, Set, Share};

const SLOTS: u16 = 16;

fn log(node: u64) -> LogId {
    LogId::unsynced(DiskId(node), Run(1))
}

/// All slots are node 1's, and go to node 2.
fn view(epoch: u64) -> View {
    let seat = |node: u64| Seat {
        member: Member {
            node: NodeId(node),
            run: Run(1),
            peer: Vec::new(),
            control: ([10, 0, 0, 1], 1).into(),
            data: ([10, 0, 0, 1], 2).into(),
            http: None,
            containers: 2,
        },
        log: log(node),
        state: State::Active,
        since: Epoch(1),
    };
    let head = Head {
        cluster: ClusterId(1),
        generation: Generation { count: 0, author: DiskId(1) },
        number: Epoch(epoch),
        parent: Digest(0),
        seats: vec![seat(1), seat(2)],
        voters: vec![DiskId(1)],
        lost: Vec::new(),
    };
    let share = |slot: u16| Share {
        active: Set { epoch: Epoch(1), logs: vec![log(1)], container: slot % 2 },
        next: Some(Set { epoch: Epoch(2), logs: vec![log(2)], container: slot % 2 }),
        came: None,
    };
    let body = Assignment {
        given_up: Epoch(0),
        expected_nodes: 1,
        replicas: 1,
        is_durable: false,
        stores: BTreeMap::new(),
        slots: (0..SLOTS).map(share).collect(),
        topologies: Vec::new(),
        anew: BTreeMap::new(),
        holders: BTreeSet::new(),
        books: BTreeSet::new(),
        drained: BTreeSet::new(),
        orphans: BTreeMap::new(),
        heirs: BTreeMap::new(),
        numbers: BTreeMap::from([(log(1), 1), (log(2), 2)]),
        last_number: 2,
    };
    View { head, body }
}

/// What a container gives: small, nothing, larger than fits a message, and the rest after the seal.
fn chunks(container: u16) -> [(ChunkKind, Vec<u8>); 5] {
    let large = (0..700_000u32).map(|at| at.to_le_bytes()[usize::from(container)]).collect();
    [
        (ChunkKind::Ahead, vec![1; 10]),
        (ChunkKind::Ahead, large),
        (ChunkKind::AheadEnd, Vec::new()),
        (ChunkKind::Rest, vec![2; 20]),
        (ChunkKind::End, vec![3; 30]),
    ]
}

/// Both sides, and containers that only count.
struct Pair {
    view: View,
    now: Time,
    giver: Handoff,
    taker: Handoff,
    /// By handoff: its container, chunks given, and whether it is sealed.
    given: BTreeMap<u64, (u16, usize, bool)>,
    /// By handoff: what was staged.
    staged: BTreeMap<u64, Vec<Bytes>>,
    causes: Vec<Cause>,
}

impl Pair {
    fn new() -> Self {
        Self {
            view: view(2),
            now: Time::default(),
            giver: Handoff::new(log(1), Run(1)),
            taker: Handoff::new(log(2), Run(1)),
            given: BTreeMap::new(),
            staged: BTreeMap::new(),
            causes: Vec::new(),
        }
    }

    /// Does what a side wants of its containers; gives what it says to the other.
    #[expect(clippy::wildcard_enum_match_arm, reason = "nothing else may be asked for")]
    fn act(&mut self, is_giver: bool, out: Vec<Action>, outcome: &mut Outcome) {
        self.causes.append(&mut outcome.causes);
        for action in out {
            let Action::Give(container, input) = action else { continue };
            match input {
                pe::Input::Copy { handoff, units } => {
                    assert!(is_giver && units.len() == usize::from(SLOTS) / 2);
                    self.given.insert(handoff, (container, 0, false));
                }
                pe::Input::Seal(handoff) => self.given.get_mut(&handoff).unwrap().2 = true,
                pe::Input::Pull(handoff) => {
                    let (container, next, is_sealed) = self.given.get_mut(&handoff).unwrap();
                    let (kind, bytes) = chunks(*container)[*next].clone();
                    let is_rest = matches!(kind, ChunkKind::Rest | ChunkKind::End);
                    assert!(*is_sealed || !is_rest, "nobody waits for what is not sealed");
                    *next += 1;
                    self.giver.chunk(handoff, kind, bytes, outcome);
                }
                pe::Input::Stage { handoff, bytes, .. } => {
                    self.staged.entry(handoff).or_default().push(bytes);
                    let mut more = Vec::new();
                    self.taker.staged(self.now, handoff, Ok(()), &mut more, outcome);
                    self.act(false, more, outcome);
                }
                other => panic!("{other:?} is not asked for here"),
            }
        }
        self.causes.append(&mut outcome.causes);
    }

    fn receive(&mut self, is_giver: bool, message: HandoffMessage) -> Vec<HandoffMessage> {
        let (mut out, mut outcome) = (Vec::new(), Outcome::default());
        let (side, from) = match is_giver {
            true => (&mut self.giver, NodeId(2)),
            false => (&mut self.taker, NodeId(1)),
        };
        side.receive(self.now, &self.view, (from, message), &mut out, &mut outcome);
        self.act(is_giver, out, &mut outcome);
        outcome.messages.into_iter().map(|(_, message)| message).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// `fates` says of each message in turn: 0 lost, 1 doubled, 2 late, else delivered.
    #[test]
    fn every_chunk_arrives_once_and_in_order_whatever_is_lost(
        fates in prop::collection::vec(0u8..8, 0..200),
    ) {
        let mut pair = Pair::new();
        let mut fates = fates.into_iter();
        let mut outcome = Outcome::default();
        let view = pair.view.clone();
        pair.taker.take(&view, &mut Vec::new(), &mut outcome);
        let mut late = Vec::new();
        let mut rounds = 0;
        while pair.causes.is_empty() {
            rounds += 1;
            prop_assert!(rounds < 10_000, "it never ends");
            let (mut out, mut outcome) = (Vec::new(), Outcome::default());
            pair.taker.ask(pair.now, &mut out, &mut outcome);
            pair.act(false, out, &mut outcome);
            let mut messages: Vec<_> =
                outcome.messages.into_iter().map(|(_, message)| (true, message)).collect();
            messages.append(&mut late);
            while let Some((to_giver, message)) = messages.pop() {
                let fate = fates.next().unwrap_or(9);
                let times = match fate {
                    0 => 0,
                    1 => 2,
                    2 => { late.push((to_giver, message)); continue; }
                    _ => 1,
                };
                for _ in 0..times {
                    let answers = pair.receive(to_giver, message.clone());
                    messages.extend(answers.into_iter().map(|answer| (!to_giver, answer)));
                }
            }
            pair.now = pair.now + Duration::from_millis(50);
        }
        prop_assert_eq!(pair.causes.len(), 1);
        let Cause::Installed(epoch, units) = &pair.causes[0] else { panic!("{:?}", pair.causes) };
        prop_assert_eq!((*epoch, units.len()), (Epoch(2), usize::from(SLOTS)));
        let staged: Vec<Vec<Bytes>> = pair.staged.into_values().collect();
        let expected: Vec<Vec<Bytes>> = (0..2)
            .map(|container| chunks(container).into_iter().map(|(_, bytes)| bytes.into()).collect())
            .collect();
        prop_assert_eq!(staged, expected);
        prop_assert_eq!(pair.taker.moving().0, usize::from(SLOTS));
    }
}

/// Who takes may begin anew, and what it asked before may come after: what was given and sealed for the stream
/// that it has now must not be served again.
#[test]
fn a_late_question_for_a_former_stream_changes_nothing() {
    let mut pair = Pair::new();
    let pull = |number, seal, units: &[u16]| {
        HandoffMessage::Pull(Pull {
            stream: StreamId { run: Run(1), number },
            chunk: 0,
            offset: 0,
            seal,
            epoch: Epoch(2),
            container: 0,
            units: units.iter().copied().map(Unit::Slot).collect(),
        })
    };
    let all: Vec<_> = (0..SLOTS).step_by(2).collect();
    assert_eq!(pair.receive(true, pull(1, false, &all)).len(), 1);
    assert_eq!(pair.receive(true, pull(3, true, &all)).len(), 1, "begun anew");
    let given = pair.given.clone();
    assert_eq!(given.len(), 2);
    for number in [1, 2] {
        assert!(pair.receive(true, pull(number, true, &all)).is_empty());
    }
    let [HandoffMessage::Unknown(_)] = pair.receive(true, pull(1, true, &[]))[..] else {
        panic!("it was forgotten");
    };
    assert_eq!((pair.given.clone(), pair.giver.giving.len()), (given, 1));
}

/// A view that was slept through gave the unit to another, with whom it was lost: what is left here is too old.
#[test]
fn a_unit_that_was_lost_elsewhere_begins_empty_where_it_was_before_too() {
    let (mut before, mut after) = (view(4), view(9));
    let epochs = [1, 2, 9];
    for (share, epoch) in after.body.slots.iter_mut().zip(epochs) {
        share.active.epoch = Epoch(epoch);
    }
    before.body.slots[1].next = Some(after.body.slots[1].active.clone());
    let mut out = Vec::new();
    Handoff::new(log(1), Run(1)).begin_anew_what_was_lost(&before, &after, &mut out);
    let discarded = out.into_iter().map(|action| {
        let Action::Give(container, pe::Input::Discard(units)) = action else {
            panic!("{action:?}")
        };
        (container, units)
    });
    let discarded: Vec<_> = discarded.collect();
    assert_eq!(
        discarded,
        [(0, vec![Unit::Slot(2)])],
        "neither what stayed nor what was called back"
    );
}

#[test]
fn what_the_view_takes_back_is_discarded_here_and_released_there() {
    let mut pair = Pair::new();
    let mut outcome = Outcome::default();
    pair.taker.take(&pair.view, &mut Vec::new(), &mut outcome);
    let mut out = Vec::new();
    pair.taker.ask(pair.now, &mut out, &mut outcome);
    for (_, pull) in std::mem::take(&mut outcome.messages) {
        pair.receive(true, pull);
    }
    let mut back = view(3);
    for share in &mut back.body.slots {
        share.next =
            Some(Set { epoch: Epoch(3), logs: vec![log(1)], container: share.active.container });
    }
    let (mut here, mut there) = (Vec::new(), Vec::new());
    pair.taker.give_up(pair.now, &back, &mut here);
    let discarded = here.iter().filter(
        |action| matches!(action, Action::Give(_, pe::Input::Discard(units)) if units.len() == 8),
    );
    assert_eq!(discarded.count(), 2);
    pair.giver.release(&back, &mut there);
    let released =
        there.iter().filter(|action| matches!(action, Action::Give(_, pe::Input::Release(_))));
    assert_eq!(released.count(), 2);
    assert_eq!((pair.taker.moving().0, pair.giver.moving().1), (0, 0));
    // Who is called back has what it needs.
    pair.giver.take(&back, &mut Vec::new(), &mut outcome);
    let units = (0..SLOTS).map(Unit::Slot).collect();
    assert_eq!(outcome.causes, [Cause::Installed(Epoch(3), units)]);
}
