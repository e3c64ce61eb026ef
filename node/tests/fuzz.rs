//! What a control link may bring: greetings, and messages for the core of a node.
//!
//! Bytes are broken, read as the runtime reads them, and what can be read is given to the core of a node
//! in a cluster of two: whatever a peer says, it panics at nothing. Chunks of state are broken in the
//! tests of `pe`, batches and frames in those of `routing`.

#![expect(unsafe_code, reason = "an allocator that counts can be had no other way")]
#![expect(clippy::wildcard_enum_match_arm, reason = "only some actions are answered")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../routing/tests/mutate/mod.rs"]
mod mutate;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use membership::view_log::{
    Ballot, ClusterId, Config, Digest, DiskId, Founding, Generation, Head, LogId, Message as Said,
    Record, Seat, Start, State, ViewLog, Wish, Word,
};
use membership::{Epoch, Member, Membership, NodeId, Run, Time};
use node::{
    Action, Assignment, Cause, HandoffMessage, Hello, Input, Message, NodeCore, Pull, Refused,
    Setup, StreamId, Token, TokenId, Totals, View,
};
use pe::{ChunkKind, PartitionName, Position, Unit};
use routing::codec;
use serde::{Serialize, de::DeserializeOwned};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");

/// A core is used for so many messages; what it has been told by then may make it deaf.
const LIFE: u64 = 64;

fn member(node: u64) -> Member {
    let addr = ([10, 0, 0, node.to_le_bytes()[0]], 7000).into();
    let (peer, http) = (vec![7; 38], Some(addr));
    Member { node: NodeId(node), run: Run(1), peer, control: addr, data: addr, http, containers: 2 }
}

fn log(node: u64) -> LogId {
    LogId::unsynced(DiskId(node), Run(1))
}

fn setup() -> Setup {
    Setup {
        cluster: "fuzz".to_owned(),
        slots: 16,
        expected_nodes: 1,
        replicas: 1,
        is_durable: false,
        plans: Vec::new(),
    }
}

/// Nodes 1 and 2; the first votes, and its slots go to the second.
fn view() -> Arc<View> {
    let seat =
        |node| Seat { member: member(node), log: log(node), state: State::Active, since: Epoch(1) };
    let head = Head {
        cluster: ClusterId(1),
        generation: Generation { count: 0, author: DiskId(1) },
        number: Epoch(3),
        parent: Digest(0),
        seats: vec![seat(1), seat(2)],
        voters: vec![DiskId(2)],
        lost: Vec::new(),
    };
    let mut body = Assignment::first(&setup(), &member(1), log(1));
    body.numbers = head.seats.iter().map(|seat| seat.log).zip(1..).collect();
    for share in body.slots.iter_mut().step_by(2) {
        let mut next = share.active.clone();
        (next.epoch, next.logs) = (Epoch(3), vec![log(2)]);
        share.next = Some(next);
    }
    Arc::new(View { head, body })
}

fn core() -> NodeCore {
    let record = Record { view: Some(view()), ..Record::blank(DiskId(1)) };
    let founding: Option<Founding<Assignment>> = None;
    let start = Start { member: member(1), log: log(1), record: Some(record), founding, seed: 1 };
    let view_log = ViewLog::new(start, Config::lan()).unwrap();
    let gossip = Membership::new(member(1), membership::Config::local(), 1).unwrap();
    let mut core = NodeCore::new(setup(), gossip, view_log, log(1));
    give(&mut core, Time::default(), Input::Started);
    core
}

/// One input, and all that the disk has to say about it.
fn give(core: &mut NodeCore, now: Time, input: Input) {
    let mut inputs = vec![input];
    while let Some(input) = inputs.pop() {
        let mut out = Vec::new();
        core.step(now, input, &mut out);
        inputs.extend(out.into_iter().filter_map(|action| match action {
            Action::Persist(stamp, _) => Some(Input::Persisted(stamp)),
            Action::Keep(_) => Some(Input::Kept),
            Action::Give(_, pe::Input::Stage { handoff, .. }) => {
                Some(Input::Staged { handoff, outcome: Ok(()) })
            }
            Action::Give(_, pe::Input::Pull(handoff)) => {
                Some(Input::Chunk { handoff, kind: ChunkKind::End, bytes: vec![1; 9] })
            }
            _ => None,
        }));
    }
}

fn bytes_of(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    codec::encode(value, &mut bytes).unwrap();
    bytes
}

fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let view = view();
    let mut next = View { head: view.head.clone(), body: view.body.clone() };
    (next.head.number, next.head.parent) = (Epoch(4), view.digest());
    let next = Arc::new(next);
    let ballot = Ballot { round: 1, run: Run(1), disk: DiskId(2) };
    let said = |number: &View, word| {
        let at = Some((number.head.cluster, number.id()));
        Message::Log(Box::new(Said { disk: DiskId(2), at, word }))
    };
    let causes = vec![Cause::Installed(Epoch(3), vec![Unit::Slot(0), Unit::Slot(2)])];
    let wish = Wish { count: 1, member: member(2), log: log(2), state: State::Active, causes };
    let stream = StreamId { run: Run(1), number: 1 };
    let units = (0..16).step_by(2).map(Unit::Slot).collect();
    let pull =
        Pull { stream, chunk: 0, offset: 0, seal: true, epoch: Epoch(3), container: 0, units };
    let piece = HandoffMessage::Piece {
        stream,
        chunk: 0,
        kind: ChunkKind::Ahead,
        offset: 0,
        len: 40,
        bytes: vec![3; 40],
    };
    let totals = vec![Totals {
        sent: 1,
        received: 2,
        open_partitions: 3,
        exhausted_partitions: 5,
        open_trees: 6,
        stages_removed: 4,
    }];
    let id = TokenId { topology: 0, prototype: 1, index: 2, count: 3 };
    let position = Position { offset: 5, plays: 1 };
    let name = PartitionName::new("a.txt");
    let token = Token { id, name, position, skip: 0, is_exhausted: false, hops: 2 };
    let all = [
        ("decided", said(&next, Word::Decided(Arc::clone(&next)))),
        ("prepare", said(&view, Word::Prepare(ballot))),
        ("promise", said(&view, Word::Promise(ballot, Some((ballot, Arc::clone(&next)))))),
        ("accept", said(&view, Word::Accept(ballot, next))),
        ("wish", said(&view, Word::Wish(wish))),
        ("pull", Message::Handoff(HandoffMessage::Pull(pull))),
        ("piece", Message::Handoff(piece)),
        ("unknown", Message::Handoff(HandoffMessage::Unknown(stream))),
        ("ask", Message::Ask { epoch: Epoch(3), round: 1 }),
        ("answer", Message::Answer { epoch: Epoch(3), round: 1, totals }),
        ("token", Message::Token { token, to: LogId::unsynced(DiskId(7), Run(1)) }),
        ("taken", Message::Taken(id, 2)),
        ("quiet", Message::Quiet { epoch: Epoch(3), topologies: vec![0, 9] }),
        ("gossip", Message::Gossip(vec![1; 60])),
    ];
    all.iter().map(|(name, message)| (*name, bytes_of(message))).collect()
}

/// Reads broken bytes within a bound, and what can be read comes back as it is.
fn read<T: Serialize + DeserializeOwned + Debug>(bytes: &[u8]) -> Option<T> {
    let (value, taken) = mutate::memory_of(|| codec::decode::<T>(bytes).ok());
    // serde makes room for a million bytes at most before it has read any, at each of two depths.
    let bound = (4 << 20) + 64 * bytes.len();
    assert!(taken <= bound, "{taken} bytes for {}", bytes.len());
    let value = value?;
    let again = bytes_of(&value);
    assert_eq!(bytes_of(&codec::decode::<T>(&again).unwrap()), again, "{value:?}");
    Some(value)
}

#[test]
fn no_message_does_harm() {
    let good = mutate::corpus(CORPUS, messages());
    for bytes in &good {
        assert!(read::<Message>(bytes).is_some_and(|message| bytes_of(&message) == *bytes));
    }
    let (mut target, mut age, mut now) = (core(), 0, Time::default());
    mutate::each_broken("messages", &good, |bytes| {
        let Some(message) = read::<Message>(bytes) else { return };
        age += 1;
        if age % LIFE == 0 {
            (target, now) = (core(), Time::default());
        }
        now = now + Duration::from_millis(7);
        give(&mut target, now, Input::Received(NodeId(2), message));
    });
    assert!(age > LIFE, "nothing could be read");
}

#[test]
fn no_greeting_does_harm() {
    let core = core();
    let [what, ours, theirs] = ["slots", "16", "32"].map(str::to_owned);
    let hello = Hello { topologies: vec![("words".to_owned(), 7)], ..core.hello() };
    let refused = Refused { what, ours, theirs };
    let real = vec![("hello", bytes_of(&hello)), ("refused", bytes_of(&refused))];
    let good = mutate::corpus(CORPUS, real);
    mutate::each_broken("greetings", &good, |bytes| {
        let _ = read::<Refused>(bytes);
        if let Some(hello) = read::<Hello>(bytes) {
            let _ = core.hello().check(&hello);
        }
    });
}
