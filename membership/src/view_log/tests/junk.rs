//! What a broken peer might send.

use super::*;
use proptest::prelude::{ProptestConfig, any, proptest};

#[test]
fn absurd_numbers_and_foreign_clusters_change_nothing() {
    let mut desk = Desk::voter(2);
    let absurd = ballot(u64::MAX, 1);
    let others = ballot(1, 3);
    for word in [Word::Prepare(absurd), Word::Accept(absurd, next(5)), Word::Prepare(others)] {
        let named = if word == Word::Prepare(others) { others } else { absurd };
        assert_eq!(refused(&desk.hear(1, word)), [&Refusal::Ballot(named)]);
    }
    let mut far = View::clone(&next(5));
    far.head.number = Epoch(1 << 47);
    let out = desk.give(said_at(&far, 1, 1, Word::Decided(Arc::new(far.clone()))));
    assert_eq!(refused(&out), [&Refusal::Unfit(Unfit::Number(far.head.number))]);
    let mut foreign = View::clone(&next(5));
    foreign.head.cluster = ClusterId(6);
    for word in [Word::Here, Word::Ask, Word::Decided(Arc::new(foreign.clone()))] {
        let out = desk.give(said_at(&foreign, 1, 1, word));
        assert_eq!(out, [Action::Tell(Event::Refused(NodeId(1), Refusal::Foreign(ClusterId(6))))]);
    }
    assert_eq!((desk.stamp, desk.log.view()), (None, Some(&view(3))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Every kind of message, with a few bytes changed: no step may panic, and what is held stays held.
    #[test]
    fn changed_messages_do_no_harm(
        kind in 0_usize..9,
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..6),
        is_proposing in any::<bool>(),
    ) {
        let mut desk = Desk::voter(1);
        let mine = if is_proposing { desk.propose(9) } else { ballot(1, 2) };
        let Wish { member, log, .. } = desk.log.wishes.of(NodeId(1)).unwrap().clone();
        let wish = Wish { count: 1, member, log, state: State::Active, causes: vec![3] };
        let word = [
            Word::Decided(next(5)),
            Word::Here,
            Word::Ask,
            Word::Prepare(ballot(1, 2)),
            Word::Promise(mine, Some((ballot(1, 3), next(6)))),
            Word::Accept(ballot(1, 2), next(5)),
            Word::Accepted(mine),
            Word::Beaten(mine, ballot(9, 3)),
            Word::Wish(wish),
        ][kind].clone();
        let at = Some((ClusterId(5), view(3).id()));
        let format = bincode::config::standard();
        let message = Message { disk: DiskId(2), at, word };
        let mut bytes = bincode::serde::encode_to_vec(&message, format).unwrap();
        for (at, by) in changes {
            let at = at % bytes.len();
            bytes[at] ^= by;
        }
        let limited = format.with_limit::<65536>();
        if let Ok((message, _)) = bincode::serde::decode_from_slice::<Message<Notes>, _>(&bytes, limited) {
            desk.give(Input::Received(NodeId(2), message));
            desk.sync();
            for _ in 0..5 {
                desk.wait(700);
            }
            let held = desk.log.view().unwrap();
            assert!(held.head.number.0 >= 7 && held.check().is_ok());
        }
    }
}
