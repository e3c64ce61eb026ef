//! Links: to which life of a node they are, and when a broken one is mended.

use membership::Run;
use membership::view_log::{ClusterId, Config, Digest, DiskId, Generation, Head, Record, Start};

use super::*;

const ME: NodeId = NodeId(1);
const OTHER: NodeId = NodeId(2);

fn member(node: NodeId, run: u64) -> Member {
    let (control, data) = (([10, 0, 0, 1], 1).into(), ([10, 0, 0, 1], 2).into());
    let (peer, http, containers) = (Vec::new(), None, 1);
    Member { node, run: Run(run), peer, control, data, http, containers }
}

fn log(node: NodeId, run: u64) -> LogId {
    LogId::unsynced(DiskId(node.0), Run(run))
}

fn setup() -> Setup {
    Setup {
        cluster: "test".to_owned(),
        slots: 4,
        expected_nodes: 1,
        replicas: 1,
        is_durable: false,
        plans: Vec::new(),
    }
}

/// Two members; the other in that life of it, since that view.
fn view(number: u64, (run, since): (u64, u64)) -> Arc<View> {
    let seat = |node, run, since| Seat {
        member: member(node, run),
        log: log(node, run),
        state: State::Active,
        since: Epoch(since),
    };
    let head = Head {
        cluster: ClusterId(1),
        generation: Generation { count: 0, author: DiskId(1) },
        number: Epoch(number),
        parent: Digest(0),
        seats: vec![seat(ME, 1, 1), seat(OTHER, run, since)],
        voters: vec![DiskId(1)],
        lost: Vec::new(),
    };
    let mut body = Assignment::first(&setup(), &member(ME, 1), log(ME, 1));
    body.numbers = head.seats.iter().map(|seat| seat.log).zip(1..).collect();
    Arc::new(View { head, body })
}

/// A node that has a view of two members and has heard of both.
fn core() -> NodeCore {
    core_with(view(3, (1, 2)))
}

fn core_with(view: Arc<View>) -> NodeCore {
    let record = Record { view: Some(view), ..Record::blank(DiskId(1)) };
    let (me, log) = (member(ME, 1), log(ME, 1));
    let start = Start { member: me.clone(), log, record: Some(record), founding: None, seed: 1 };
    let view_log = ViewLog::new(start, Config::lan()).unwrap();
    let gossip = Membership::new(me, membership::Config::local(), 1).unwrap();
    let mut core = NodeCore::new(setup(), gossip, view_log, log);
    let mut out = Vec::new();
    core.step(Time::default(), Input::Started, &mut out);
    core.up(Time::default(), member(OTHER, 1), &mut out);
    assert_eq!(connected(&out).last(), Some(&member(OTHER, 1)));
    core
}

/// To whom links are made.
fn connected(out: &[Action]) -> Vec<Member> {
    let made = out.iter().filter_map(|action| {
        if let Action::Connect(member) = action { Some(member.clone()) } else { None }
    });
    made.collect()
}

/// Who slept hears of a restart by a view, and by gossip only later: what it sends meanwhile is for the new life.
#[test]
fn links_are_to_the_life_that_the_view_names() {
    let (mut core, now) = (core(), Time::default());
    let mut out = Vec::new();
    core.install(now, view(8, (2, 6)), &mut out);
    assert_eq!(connected(&out), [member(OTHER, 2)]);
    let first = |is: fn(&Action) -> bool| out.iter().position(is);
    let (connect, lay) = (
        first(|action| matches!(action, Action::Connect(_))),
        first(|action| matches!(action, Action::Lay(_))),
    );
    assert!(connect < lay && lay.is_some(), "before anything is sent by the view");

    // Gossip still believes in the former life, and gives it up.
    out.clear();
    core.up(now, member(OTHER, 1), &mut out);
    core.down(now, &member(OTHER, 1), Reason::Restarted, &mut out);
    let is_link = |action: &Action| matches!(action, Action::Connect(_) | Action::Disconnect(..));
    assert!(!out.iter().any(is_link), "{out:?}");

    // It is the same link when gossip has heard.
    core.up(now, member(OTHER, 2), &mut out);
    assert_eq!(connected(&out), [member(OTHER, 2)]);
}

/// Gossip that is ahead of the view is believed.
#[test]
fn a_link_is_to_a_later_life_than_the_view_names() {
    let (mut core, now) = (core(), Time::default());
    let mut out = Vec::new();
    core.down(now, &member(OTHER, 1), Reason::Restarted, &mut out);
    core.up(now, member(OTHER, 2), &mut out);
    assert_eq!(connected(&out), [member(OTHER, 2)]);
    out.clear();
    core.install(now, view(4, (1, 2)), &mut out);
    assert_eq!(connected(&out), []);
}

/// Containers are told when too few voters are there, and when enough are there again; each time once.
#[test]
fn containers_are_told_when_too_few_voters_are_there() {
    let third = NodeId(3);
    let mut of_three = view(3, (1, 2)).as_ref().clone();
    let mut seat = of_three.head.seats[1].clone();
    (seat.member, seat.log) = (member(third, 1), log(third, 1));
    of_three.head.seats.push(seat);
    of_three.body.numbers.insert(log(third, 1), 3);
    of_three.head.voters = vec![DiskId(1), DiskId(2), DiskId(3)];
    let (mut core, now) = (core_with(Arc::new(of_three)), Time::default());
    let told = |core: &mut NodeCore, seconds| -> Vec<bool> {
        let (mut out, now) = (Vec::new(), Time(Duration::from_secs(seconds)));
        core.step(now, Input::Woke, &mut out);
        core.step(now, Input::Woke, &mut out);
        let told = out.iter().filter_map(|action| {
            if let Action::Degraded(is_degraded) = action { Some(*is_degraded) } else { None }
        });
        told.collect()
    };
    // One of the others will do.
    core.up(now, member(third, 1), &mut Vec::new());
    core.down(now, &member(OTHER, 1), Reason::Failed, &mut Vec::new());
    assert!(told(&mut core, 5).is_empty());
    core.down(now, &member(third, 1), Reason::Failed, &mut Vec::new());
    assert_eq!(told(&mut core, 10), [true]);
    core.up(now, member(OTHER, 1), &mut Vec::new());
    assert_eq!(told(&mut core, 10), [false]);
}

/// A link that breaks again just after a view has mended it is mended again.
#[test]
fn a_link_that_breaks_again_is_mended_again() {
    let mut core = core();
    core.link_broke(Time::default(), OTHER);
    let mut anew = view(4, (1, 2)).as_ref().clone();
    anew.body.anew.insert(OTHER, Epoch(4));
    core.install(Time::default(), Arc::new(anew), &mut Vec::new());
    core.link_broke(Time(BROKEN), OTHER);
    core.causes.clear();
    core.mend(Time(2 * BROKEN));
    assert_eq!(core.causes, [Cause::Broken(OTHER, Epoch(4))]);
}
