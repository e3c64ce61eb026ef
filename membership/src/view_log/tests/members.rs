//! Who is a member: joining, leaving, being replaced, and what everybody wants.

use super::*;

/// A process that slept while another disk, or a later run, took its seat.
#[test]
fn a_past_life_ends() {
    let later_run = |seat: &mut Seat| seat.member.run = Run(2);
    let other_disk = |seat: &mut Seat| {
        seat.member.run = Run(2);
        seat.log = LogId::synced(DiskId(77));
        (seat.state, seat.since) = (State::Joining, Epoch(8));
    };
    for change in [later_run as fn(&mut Seat), other_disk] {
        let mut newer = View::clone(&next(5));
        newer.head.voters = vec![DiskId(1)];
        change(&mut newer.head.seats[1]);
        let mut desk = Desk::voter(2);
        desk.give(said_at(&newer, 1, 1, Word::Decided(Arc::new(newer.clone()))));
        assert_eq!(desk.sync(), [Action::Tell(Event::Superseded)]);
        assert_eq!((desk.give(Input::Woke), desk.log.deadline()), (vec![], None));
        // The later run itself is not told so.
        let disk = newer.head.seats[1].disk();
        let mut desk =
            Desk::with(2, 2, Record { view: Some(Arc::new(newer)), ..Record::blank(disk) });
        assert!(!desk.give(Input::Ready).contains(&Action::Tell(Event::Superseded)));
    }
}

/// The vote of who leaves may have been needed for the view that lets it go: were it gone before the new
/// voters have that view, one more failure would end all views.
#[test]
fn who_leaves_waits_until_a_majority_of_the_new_voters_can_go_on() {
    let mut without = View::clone(&next(5));
    without.head.seats.remove(1);
    without.head.seats.push(Seat { since: Epoch(8), ..seat(4, State::Joining) });
    without.head.voters = vec![DiskId(1)];
    let decided = || said_at(&without, 3, 3, Word::Decided(Arc::new(without.clone())));
    let here = |from| said_at(&without, from, from, Word::Here);

    let mut desk = Desk::voter(2);
    assert_eq!(desk.give(Input::Drain).len(), 2, "the other voters are told");
    desk.give(decided());
    let out = desk.sync();
    assert_eq!(installed(&out), [8]);
    assert!(!out.contains(&Action::Dismissed));
    assert!(words(&desk.wait(250), 1).contains(&&Word::Ask), "the new voter is asked");
    assert_eq!(desk.give(here(3)), [], "it has no vote");
    assert_eq!(desk.give(here(1)), [Action::Dismissed]);
    assert_eq!(desk.give(here(1)), [], "once");

    let mut desk = Desk::voter(2);
    desk.give(decided());
    assert_eq!(desk.sync()[0], Action::Tell(Event::Fenced), "who did not want to go is told");
}

#[test]
fn a_draining_member_stays_while_its_logs_are_named() {
    let drained = |note| {
        let mut before = View::clone(&view(3));
        before.head.seats[1].state = State::Draining;
        before.head.voters = vec![DiskId(1)];
        before.body.0.extend(note);
        let view = Some(Arc::new(before));
        let mut desk = Desk::with(1, 1, Record { view, ..Record::blank(DiskId(1)) });
        desk.give(Input::Ready);
        desk.log.draft(desk.now).map(|view| view.head.seats.len())
    };
    assert_eq!(drained(Some(50)), None);
    assert_eq!(drained(None), Some(2));
}

/// What happens together makes one view: a death, a new member, one that leaves, a restart that forgot
/// its logs, a lost disk, and a cause.
#[test]
fn causes_go_into_one_view() {
    let mut before = View::clone(&view(3));
    before.head.seats.extend([4, 5, 6].map(|node| seat(node, State::Active)));
    let at = before.clone();
    let view = Some(Arc::new(before));
    let mut desk = Desk::with(1, 1, Record { view, ..Record::blank(DiskId(1)) });
    desk.give(Input::Ready);
    for node in 2..=7 {
        desk.give(Input::Up(Member { run: Run(2), ..member(node) }));
    }
    let tell = |desk: &mut Desk, node: u64, log: LogId, state, causes: &[u32]| {
        let member = Member { run: Run(2), ..member(node) };
        let wish = Wish { count: 0, member, log, state, causes: causes.to_vec() };
        desk.give(said_at(&at, node, log.disk.0, Word::Wish(wish)));
    };
    let own = |node| LogId::synced(DiskId(node));
    desk.give(Input::Down(NodeId(2), Reason::Left));
    tell(&mut desk, 3, own(3), State::Draining, &[9]);
    tell(&mut desk, 4, LogId::unsynced(DiskId(4), Run(2)), State::Active, &[]);
    tell(&mut desk, 5, own(77), State::Active, &[]);
    tell(&mut desk, 7, own(7), State::Active, &[]);
    let next = desk.log.draft(desk.now).unwrap();
    assert_eq!(at.check_next(&next), Ok(()));
    let seats = next.head.seats.iter();
    let seats: Vec<_> =
        seats.map(|seat| (seat.node().0, seat.disk().0, seat.state, seat.since.0)).collect();
    let expected = [
        (1, 1, State::Active, 1),
        (3, 3, State::Draining, 1),
        (4, 4, State::Active, 8),
        (5, 77, State::Joining, 8),
        (6, 6, State::Active, 1),
        (7, 7, State::Joining, 8),
    ];
    assert_eq!(seats, expected);
    assert_eq!(next.head.voters, [1, 4, 6].map(DiskId));
    assert_eq!(next.body, Notes([1, 9].into()));
}

#[test]
fn a_start_that_cannot_be_is_refused() {
    let start = || Start {
        member: member(1),
        log: LogId::synced(DiskId(1)),
        record: Some(Record { view: Some(view(3)), ..Record::blank(DiskId(1)) }),
        founding: None,
        seed: 1,
    };
    let why = |start| ViewLog::<Notes>::new(start, Config::lan()).err();
    assert_eq!(why(start()), None);
    let copied = Some(Record::blank(DiskId(2)));
    assert_eq!(why(Start { record: copied, ..start() }), Some(StartError::OtherDisk));
    let log = LogId::unsynced(DiskId(1), Run(2));
    assert_eq!(why(Start { log, ..start() }), Some(StartError::Myself));
    let body = Notes([100].into());
    let founding = Some(Founding { cluster: ClusterId(1), body, nodes: Vec::new() });
    let unfit = Unfit::Body("too large a note".to_owned());
    assert_eq!(why(Start { founding, ..start() }), Some(StartError::Unfit(unfit)));
}

#[test]
fn causes_are_bounded() {
    let mut desk = Desk::voter(1);
    desk.log.config.causes_max = 2;
    assert_eq!(desk.give(Input::Cause(1)), [], "not wanted: it is there");
    for cause in [9, 10, 10] {
        desk.give(Input::Cause(cause));
    }
    assert_eq!(refused(&desk.give(Input::Cause(11))), [&Refusal::Full]);
    let wish = Wish {
        count: 0,
        member: member(2),
        log: LogId::synced(DiskId(2)),
        state: State::Active,
        causes: vec![20, 21, 22],
    };
    desk.hear(2, Word::Wish(wish.clone()));
    let known = |desk: &Desk| desk.log.wishes.of(NodeId(2)).map(|wish| wish.causes.clone());
    assert_eq!(known(&desk), Some(vec![20, 21]));
    let out = desk.hear(3, Word::Wish(wish));
    assert_eq!(refused(&out), [&Refusal::Seat(Run(1))], "nobody asks for another");
}

/// What gossip takes back within a second makes no view; who says itself that it goes is believed.
#[test]
fn a_death_has_to_last() {
    let members = |desk: &Desk| {
        let draft = desk.log.draft(desk.now);
        draft.map(|view| view.head.seats.iter().map(|seat| seat.node().0).collect::<Vec<_>>())
    };
    let mut desk = Desk::voter(1);
    desk.give(Input::Down(NodeId(2), Reason::Failed));
    assert_eq!(desk.log.deadline(), Some(desk.now + Config::lan().stable_after));
    desk.now = desk.now + Duration::from_millis(999);
    assert_eq!(members(&desk), None);
    desk.give(Input::Up(member(2)));
    desk.now = desk.now + Duration::from_millis(1);
    assert_eq!(members(&desk), None);
    desk.give(Input::Down(NodeId(2), Reason::Left));
    assert_eq!(members(&desk), Some(vec![1, 3]));
    desk.give(Input::Down(NodeId(1), Reason::Left));
    assert_eq!(members(&desk), Some(vec![1, 3]), "we know better");
}

/// A replica set that installed and died must not be made active.
#[test]
fn the_dead_want_nothing() {
    let mut desk = Desk::voter(1);
    let Seat { member, log, state, .. } = seat(2, State::Active);
    desk.hear(2, Word::Wish(Wish { count: 0, member, log, state, causes: vec![9] }));
    let note = |desk: &Desk| desk.log.draft(desk.now).map(|view| view.body.0.contains(&9));
    assert_eq!(note(&desk), Some(true));
    desk.give(Input::Down(NodeId(2), Reason::Left));
    assert_eq!(note(&desk), Some(false));
}

/// A wish of a former life that was long on its way, with the disk that has since been replaced.
#[test]
fn a_newcomer_is_let_in_as_gossip_knows_it() {
    let mut desk = Desk::voter(1);
    let Seat { member, log, state, .. } = seat(4, State::Active);
    let up = |run| Input::Up(Member { run: Run(run), ..member.clone() });
    desk.give(up(2));
    let wish = Wish { count: 0, member: member.clone(), log, state, causes: Vec::new() };
    desk.hear(4, Word::Wish(wish));
    assert_eq!(desk.log.draft(desk.now), None);
    desk.give(up(1));
    assert_eq!(desk.log.draft(desk.now).map(|view| view.head.seats.len()), Some(4));
    let too_large = Member { containers: 100, ..member.clone() };
    let wish = Wish { count: 1, member: too_large, log, state, causes: Vec::new() };
    desk.hear(4, Word::Wish(wish));
    assert_eq!(desk.log.draft(desk.now), None, "the body has no room for it");
}

/// One that died on its way in would become a voter before it is missed.
#[test]
fn who_joins_becomes_active_when_it_has_shown_that_it_knows() {
    let mut four = View::clone(&view(3));
    four.head.seats.push(Seat { since: Epoch(7), ..seat(4, State::Joining) });
    let four = Arc::new(four);
    let record = Record { view: Some(Arc::clone(&four)), ..Record::blank(DiskId(1)) };
    let mut desk = Desk::with(1, 1, record);
    desk.give(Input::Ready);
    desk.give(Input::Up(member(4)));
    let Seat { member, log, .. } = seat(4, State::Active);
    let wish = Wish { count: 0, member, log, state: State::Active, causes: Vec::new() };
    desk.give(said_at(&view(2), 4, 4, Word::Wish(wish)));
    assert_eq!(desk.log.draft(desk.now), None);
    desk.give(said_at(&four, 4, 4, Word::Here));
    let state = |view: Arc<View<Notes>>| view.head.seats[3].state;
    assert_eq!(desk.log.draft(desk.now).map(state), Some(State::Active));
}

/// A voter whose node is there with another disk is lost all the same.
#[test]
fn a_replaced_disk_is_a_lost_voter() {
    let mut desk = Desk::voter(1);
    let told = |desk: &mut Desk, node: u64| {
        let log = LogId::synced(DiskId(70 + node));
        let (member, causes) = (member(node), Vec::new());
        let wish = Wish { count: 0, member, log, state: State::Active, causes };
        let out = desk.give(said(node, 70 + node, Word::Wish(wish)));
        out.into_iter().find(|action| matches!(action, Action::Tell(_)))
    };
    assert_eq!(told(&mut desk, 2), None);
    let lost = Event::QuorumLost { live: 1, needed: 2 };
    assert_eq!(told(&mut desk, 3), Some(Action::Tell(lost)));
    assert_eq!(desk.log.quorum(), Some((1, 2)));
}
