//! How a view is decided: the rules of Paxos, of whose votes count, and of whose turn it is.

use super::*;

/// Otherwise a crash takes back what others count on: the model finds two views of one number when an
/// acceptor answers before it syncs.
#[test]
fn nothing_is_said_before_it_is_on_disk() {
    let mut desk = Desk::voter(2);
    for (asked, answer) in [
        (Word::Prepare(ballot(1, 1)), Word::Promise(ballot(1, 1), None)),
        (Word::Accept(ballot(1, 1), next(5)), Word::Accepted(ballot(1, 1))),
    ] {
        assert_eq!(desk.give(said(1, 1, asked)), []);
        assert_eq!(words(&desk.sync(), 1), [&answer]);
    }
    let decided = said_at(&next(5), 1, 1, Word::Decided(next(5)));
    assert_eq!(desk.give(decided), [], "neither told nor installed");
    assert_eq!(installed(&desk.sync()), [8]);
}

#[test]
fn what_was_promised_and_voted_outlives_the_process() {
    let mut desk = Desk::voter(2);
    desk.hear(1, Word::Accept(ballot(3, 1), next(5)));
    let mut desk = desk.restarted();
    let beaten = Word::Beaten(ballot(2, 3), ballot(3, 1));
    assert_eq!(words(&desk.hear(3, Word::Prepare(ballot(2, 3))), 3), [&beaten]);
    let promise = Word::Promise(ballot(4, 3), Some((ballot(3, 1), next(5))));
    assert_eq!(words(&desk.hear(3, Word::Prepare(ballot(4, 3))), 3), [&promise]);
}

/// The value of the highest ballot that any voter of the majority has voted for may be decided.
#[test]
fn what_may_be_decided_is_proposed_again() {
    let promise = |ballot, accepted| Word::Promise(ballot, accepted);
    for (two, three, expected) in [
        (None, None, 9),
        (Some((ballot(1, 2), next(5))), None, 5),
        (None, Some((ballot(1, 2), next(5))), 5),
        (Some((ballot(1, 2), next(5))), Some((ballot(2, 3), next(6))), 6),
        (Some((ballot(2, 3), next(6))), Some((ballot(1, 2), next(5))), 6),
    ] {
        let mut desk = Desk::voter(1);
        let mine = desk.propose(9);
        // Our own promise is not on disk yet, so these two are the majority.
        let mut out = desk.give(said(2, 2, promise(mine, two)));
        out.extend(desk.give(said(3, 3, promise(mine, three))));
        out.extend(desk.sync());
        assert_eq!(proposals(&out), [[1, expected].into()].into());
    }
}

/// The answers may be lost, who asked may be gone, and what it wanted may be wanted by nobody any more.
#[test]
fn what_may_be_decided_is_brought_to_its_end_by_who_voted_for_it() {
    let mut desk = Desk::voter(2);
    assert!(words(&desk.wait(1000), 3).iter().all(|word| !matches!(word, Word::Prepare(_))));
    desk.hear(1, Word::Accept(ballot(1, 1), next(5)));
    let out = desk.wait(1000);
    let asked = words(&out, 3).into_iter().find_map(|word| {
        let Word::Prepare(ballot) = word else { return None };
        Some(*ballot)
    });
    let out = desk.hear(3, Word::Promise(asked.unwrap(), None));
    assert_eq!(proposals(&out), [[1, 5].into()].into());
}

#[test]
fn a_ballot_is_for_one_value() {
    let mut desk = Desk::voter(1);
    let mine = desk.propose(9);
    let out = desk.hear(2, Word::Promise(mine, None));
    assert_eq!(proposals(&out), [[1, 9].into()].into(), "ours and theirs are a majority");
    desk.give(Input::Cause(10));
    let voted = Some((ballot(1, 2), next(5)));
    let mut out = desk.hear(3, Word::Promise(mine, voted));
    out.extend(desk.wait(1000));
    assert_eq!(proposals(&out), [[1, 9].into()].into(), "asked again for the same");
}

/// Otherwise a node that has forgotten what it proposed proposes something else under the same ballot,
/// and votes for the one count for the other.
#[test]
fn a_ballot_is_not_used_in_two_runs() {
    let mut desk = Desk::voter(1);
    let mine = desk.propose(9);
    let before = Record { view: Some(view(3)), ..Record::blank(DiskId(1)) };
    desk.file = before; // The promise to itself was not synced.
    let again = desk.restarted().propose(10);
    assert_eq!(again.round, mine.round);
    assert_ne!(again, mine);
}

/// Of three voters one is no majority, and the voters are those of the view that is held: not those of
/// the view that is proposed, not a node that has come since, not another disk under the key of a voter.
#[test]
fn only_voters_of_the_present_view_count_and_it_takes_two_of_three() {
    let mut desk = Desk::voter(1);
    desk.sync();
    let mine = desk.propose(9);
    for (from, disk) in [(4, 4), (2, 77), (4, 2)] {
        let mut out = desk.give(said(from, disk, Word::Promise(mine, None)));
        out.extend(desk.sync());
        assert_eq!(proposals(&out), [].into(), "node {from}, disk {disk}, and ourselves");
        assert_eq!(refused(&out), [&Refusal::NotAVoter(DiskId(disk))]);
    }
    let out = desk.hear(2, Word::Promise(mine, None));
    assert_eq!(proposals(&out).len(), 1);
    for (from, disk) in [(4, 4), (2, 77), (4, 2)] {
        let mut out = desk.give(said(from, disk, Word::Accepted(mine)));
        out.extend(desk.sync());
        assert_eq!(installed(&out), []);
    }
    assert_eq!(installed(&desk.hear(3, Word::Accepted(mine))), [8]);
}

#[test]
fn a_late_answer_to_another_ballot_does_not_count() {
    let mut desk = Desk::voter(1);
    let mine = desk.propose(9);
    let older = Ballot { round: mine.round - 1, ..mine };
    assert_eq!(proposals(&desk.hear(2, Word::Promise(older, None))), [].into());
    desk.hear(2, Word::Promise(mine, None));
    assert_eq!(installed(&desk.hear(3, Word::Accepted(older))), []);
}

/// An acceptor that turned to whatever number it is asked about would forget its vote on the one before.
#[test]
fn an_acceptor_votes_on_the_number_after_its_view_and_no_other() {
    let mut desk = Desk::voter(2);
    desk.hear(1, Word::Accept(ballot(1, 1), next(5)));
    let asked = said_at(&next(5), 3, 3, Word::Prepare(ballot(7, 3)));
    let out = desk.give(asked);
    assert_eq!((words(&out, 3), desk.stamp), (vec![&Word::Ask], None), "it is behind and asks");
    let promise = Word::Promise(ballot(2, 3), Some((ballot(1, 1), next(5))));
    assert_eq!(words(&desk.hear(3, Word::Prepare(ballot(2, 3))), 3), [&promise]);
}

#[test]
fn who_is_behind_is_sent_the_view_and_then_asked_again() {
    let mut desk = Desk::voter(1);
    let mine = desk.propose(9);
    let old = view(2);
    let stale = || said_at(&old, 2, 2, Word::Here);
    let out = desk.give(stale());
    assert_eq!(
        words(&out, 2),
        [] as [&Word<Notes>; 0],
        "held back: our own promise is being written"
    );
    let out = desk.sync();
    assert_eq!(words(&out, 2), [&Word::Decided(view(3)), &Word::Prepare(mine)]);
    assert_eq!(words(&desk.give(stale()), 2), [&Word::Prepare(mine)], "not twice in a moment");
    let blank = Message { disk: DiskId(9), at: None, word: Word::Ask };
    let out = desk.give(Input::Received(NodeId(9), blank));
    assert_eq!(words(&out, 9), [&Word::Decided(view(3))]);
}

#[test]
fn what_may_not_follow_is_not_voted_for() {
    let mut desk = Desk::voter(2);
    let mut astray = View::clone(&next(5));
    astray.head.parent = Digest(7);
    let out = desk.hear(1, Word::Accept(ballot(1, 1), Arc::new(astray)));
    assert_eq!(refused(&out), [&Refusal::Unfit(Unfit::Parent)]);
    let mut missing = View::clone(&next(5));
    missing.body.0.clear();
    let out = desk.hear(1, Word::Accept(ballot(1, 1), Arc::new(missing.clone())));
    assert!(matches!(refused(&out)[..], [Refusal::Unfit(Unfit::Body(_))]));
    let out = desk.give(said_at(&missing, 1, 1, Word::Decided(Arc::new(missing.clone()))));
    assert!(matches!(refused(&out)[..], [Refusal::Unfit(Unfit::Body(_))]));
    assert_eq!((desk.stamp, desk.file.accepted.as_ref()), (None, None));
}

#[test]
fn two_views_of_one_number_are_told_of_and_the_first_stays() {
    let mut desk = Desk::voter(2);
    let mut other = View::clone(&view(3));
    other.body.0.insert(9);
    let out = desk.give(said_at(&other, 1, 1, Word::Decided(Arc::new(other.clone()))));
    assert_eq!(refused(&out), [&Refusal::Conflict(other.id())]);
    // Two sides have recovered.
    other.head.generation.count += 1;
    let out = desk.give(said_at(&other, 1, 1, Word::Decided(Arc::new(other.clone()))));
    assert_eq!(refused(&out), [&Refusal::Conflict(other.id())]);
    // A smaller number would take the fences of slots back.
    other.head.number = Epoch(6);
    let out = desk.give(said_at(&other, 1, 1, Word::Decided(Arc::new(other.clone()))));
    assert_eq!(words(&out, 1), [&Word::Decided(view(3))]);
    assert_eq!(desk.stamp, None);
}

#[test]
fn the_second_voter_waits_for_the_first_unless_gossip_has_given_it_up() {
    let asks =
        |out: &[Action<Notes>]| words(out, 3).iter().any(|word| matches!(word, Word::Prepare(_)));
    let mut desk = Desk::voter(2);
    desk.give(Input::Up(member(1)));
    desk.give(Input::Cause(9));
    assert!(!asks(&desk.wait(20)), "it is not its turn");
    assert!(asks(&desk.wait(400)), "the first did nothing");
    let mut desk = Desk::voter(2);
    desk.give(Input::Down(NodeId(1), Reason::Left));
    desk.give(Input::Cause(9));
    assert!(!asks(&desk.wait(19)), "causes are gathered");
    assert!(asks(&desk.wait(1)), "the first is not there");
}

#[test]
fn who_is_beaten_waits_and_outbids() {
    let mut desk = Desk::voter(1);
    let mine = desk.propose(9);
    let by = ballot(mine.round + 5, 3);
    desk.hear(2, Word::Beaten(mine, by));
    assert!(desk.log.propose_at() > Some(desk.now + Config::lan().rank_delay / 2));
    desk.wait(10_000);
    let Attempt::Preparing(ballot, _) = desk.log.proposer.attempt else { panic!("no attempt") };
    assert_eq!(ballot.round, by.round + 1);
    // And leaves a rival that is ahead its time.
    let rival = Ballot { round: ballot.round + 1, ..by };
    desk.hear(3, Word::Prepare(rival));
    assert!(desk.log.proposer.is_idle());
    assert_eq!(desk.log.propose_at(), Some(desk.now + Config::lan().rank_delay));
}

#[test]
fn only_voters_propose_and_only_voters_answer() {
    let mut four = View::clone(&view(3));
    four.head.seats.push(seat(4, State::Joining));
    let four = Arc::new(four);
    let record = |node| Record { view: Some(Arc::clone(&four)), ..Record::blank(DiskId(node)) };
    let mut desk = Desk::with(2, 1, record(2));
    for word in [Word::Prepare(ballot(1, 4)), Word::Accept(ballot(1, 4), next(5))] {
        let out = desk.give(said_at(&four, 4, 4, word));
        assert_eq!(refused(&out), [&Refusal::NotAVoter(DiskId(4))]);
    }
    assert_eq!(desk.file.promised, None);
    let mut desk = Desk::with(4, 1, record(4));
    desk.give(Input::Ready);
    desk.give(said_at(&four, 1, 1, Word::Prepare(ballot(1, 1))));
    assert_eq!((desk.file.promised, desk.log.propose_at()), (None, None));
}
