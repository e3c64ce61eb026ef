//! Each rule of the view log, with the message or the crash that would break it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use proptest::prelude::{ProptestConfig, any, proptest};
use serde::{Deserialize, Serialize};

use super::*;
use crate::Run;

/// Notes that are only ever added to.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Notes(pub(super) BTreeSet<u32>);

impl Body for Notes {
    type Cause = u32;

    fn wants(&self, _: &Head, note: &u32) -> bool {
        *note < 100 && !self.0.contains(note)
    }

    fn next(&self, _: &Head, _: &Head, notes: &BTreeSet<u32>) -> Self {
        Self(self.0.union(notes).copied().collect())
    }

    /// Note 50 says that nobody may go.
    fn needs(&self, _: &Head, _: LogId) -> bool {
        self.0.contains(&50)
    }

    fn check(&self, _: &Head) -> Result<(), String> {
        let is_small = self.0.iter().all(|note| *note < 100);
        is_small.then_some(()).ok_or_else(|| "too large a note".to_owned())
    }

    fn check_next(&self, _: &Head, next: &Self, _: &Head) -> Result<(), String> {
        let is_kept = self.0.is_subset(&next.0);
        is_kept.then_some(()).ok_or_else(|| "a note is missing".to_owned())
    }
}

pub(super) fn member(node: u64) -> Member {
    let addr = SocketAddr::from(([10, 0, 0, 1], 7000));
    Member {
        node: NodeId(node),
        run: Run(1),
        peer: Vec::new(),
        control: addr,
        data: addr,
        http: None,
        containers: 1,
    }
}

/// A seat of the first view, on a disk numbered like the node.
pub(super) fn seat(node: u64, state: State) -> Seat {
    let log = LogId::synced(DiskId(node));
    Seat { member: member(node), log, state, since: Epoch(1) }
}

/// View 7 of a cluster of nodes 1 to 3 with note 1; with 2 instead of 3, view 6 of nodes 1 and 3.
pub(super) fn view(size: u64) -> Arc<View<Notes>> {
    let nodes = if size == 2 { &[1, 3][..] } else { &[1, 2, 3] };
    let seats: Vec<_> = nodes.iter().map(|&node| seat(node, State::Active)).collect();
    let head = Head {
        cluster: ClusterId(5),
        generation: Generation { count: 0, author: DiskId(1) },
        number: Epoch(4 + size),
        parent: Digest(0),
        voters: view::voters(&[], &seats, &BTreeSet::new()),
        seats,
        lost: Vec::new(),
    };
    Arc::new(View { head, body: Notes([1].into()) })
}

const START: Time = Time(Duration::ZERO);

fn ballot(round: u64, disk: u64) -> Ballot {
    Ballot { round, run: Run(1), disk: DiskId(disk) }
}

/// What follows `view(3)` with one more note.
fn next(note: u32) -> Arc<View<Notes>> {
    let before = view(3);
    let mut next = View { head: before.head.clone(), body: before.body.clone() };
    next.head.number.0 += 1;
    next.head.parent = before.digest();
    next.body.0.insert(note);
    Arc::new(next)
}

/// A node and its disk.
struct Desk {
    log: ViewLog<Notes>,
    file: Record<Notes>,
    now: Time,
    /// The write that is under way.
    stamp: Option<Stamp>,
}

impl Desk {
    /// A node with that on its disk, which is numbered like the node.
    fn with(node: u64, run: u64, file: Record<Notes>) -> Self {
        let member = Member { run: Run(run), ..member(node) };
        let log = LogId::synced(file.disk);
        let record = Some(file.clone());
        let start = Start { member, log, record, founding: None, seed: 1 };
        let log = ViewLog::new(start, Config::lan()).unwrap();
        Self { log, file, now: START, stamp: None }
    }

    /// A voter of `view(3)`, who hears of nobody else.
    fn voter(node: u64) -> Self {
        let disk = DiskId(node);
        let mut desk = Self::with(node, 1, Record { view: Some(view(3)), ..Record::blank(disk) });
        let installed = desk.give(Input::Ready);
        assert_eq!(installed, [Action::Install(view(3))]);
        desk
    }

    /// The same node in its next run, with what it has on disk.
    fn restarted(self) -> Self {
        let mut desk = Self::with(self.log.me.node.0, self.log.me.run.0 + 1, self.file);
        desk.give(Input::Ready);
        desk
    }

    /// One input; writes stay under way.
    fn give(&mut self, input: Input<Notes>) -> Vec<Action<Notes>> {
        let mut out = Vec::new();
        self.log.step(self.now, input, &mut out);
        out.retain(|action| {
            let Action::Persist(stamp, record) = action else { return true };
            assert!(self.stamp.is_none(), "two writes at a time");
            (self.stamp, self.file) = (Some(*stamp), record.clone());
            false
        });
        out
    }

    /// Lets the disk finish, and whatever follows from that.
    fn sync(&mut self) -> Vec<Action<Notes>> {
        let mut out = Vec::new();
        while let Some(stamp) = self.stamp.take() {
            out.extend(self.give(Input::Persisted(stamp)));
        }
        out
    }

    /// One message from a node that holds `view(3)`, and what comes of it once it is on disk.
    fn hear(&mut self, from: u64, word: Word<Notes>) -> Vec<Action<Notes>> {
        let mut out = self.give(said(from, from, word));
        out.extend(self.sync());
        out
    }

    /// Lets time pass.
    fn wait(&mut self, millis: u64) -> Vec<Action<Notes>> {
        self.now = self.now + Duration::from_millis(millis);
        let mut out = self.give(Input::Woke);
        out.extend(self.sync());
        out
    }

    /// Begins an attempt for a note, and says under which ballot.
    fn propose(&mut self, note: u32) -> Ballot {
        self.give(Input::Cause(note));
        self.now = self.now + Duration::from_secs(2);
        let out = self.give(Input::Woke);
        let asked = out.iter().find_map(|action| match action {
            Action::Send(_, Message { word: Word::Prepare(ballot), .. }) => Some(*ballot),
            _ => None,
        });
        asked.unwrap()
    }
}

/// A message from a node that holds `view(3)`.
fn said(from: u64, disk: u64, word: Word<Notes>) -> Input<Notes> {
    said_at(&view(3), from, disk, word)
}

fn said_at(at: &View<Notes>, from: u64, disk: u64, word: Word<Notes>) -> Input<Notes> {
    let at = Some((at.head.cluster, at.id()));
    Input::Received(NodeId(from), Message { disk: DiskId(disk), at, word })
}

/// What is said to one node, by kind of message.
fn words(out: &[Action<Notes>], to: u64) -> Vec<&Word<Notes>> {
    let to_it = |action| match action {
        &Action::Send(node, Message { ref word, .. }) if node == NodeId(to) => Some(word),
        _ => None,
    };
    out.iter().filter_map(to_it).collect()
}

/// The values that are put to the vote.
fn proposals(out: &[Action<Notes>]) -> BTreeSet<BTreeSet<u32>> {
    let proposed = |action: &Action<Notes>| match action {
        Action::Send(_, Message { word: Word::Accept(_, value), .. }) => Some(value.body.0.clone()),
        _ => None,
    };
    out.iter().filter_map(proposed).collect()
}

fn refused(out: &[Action<Notes>]) -> Vec<&Refusal> {
    let why = |action| match action {
        &Action::Tell(Event::Refused(_, ref why)) => Some(why),
        _ => None,
    };
    out.iter().filter_map(why).collect()
}

fn installed(out: &[Action<Notes>]) -> Vec<u64> {
    let number = |action: &Action<Notes>| match action {
        Action::Install(view) => Some(view.head.number.0),
        _ => None,
    };
    out.iter().filter_map(number).collect()
}

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

/// A process that slept while another disk, or a later run, took its seat.
#[test]
fn a_past_life_ends() {
    let later_run = |seat: &mut Seat| seat.member.run = Run(2);
    let other_disk = |seat: &mut Seat| {
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
    (2..=7).for_each(|node| drop(desk.give(Input::Up(member(node)))));
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
