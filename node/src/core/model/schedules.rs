//! Orders of events that broke drafts of the protocol, one by one, on the cores that run.
//!
//! They are the schedules of the protocol by their numbers, as far as sets of one copy have them. Still
//! to come, with replicas: 2 (a choice is shipped to one replica and lost), 7 (of two logs the one with
//! the later entry is chosen) and 8 (an index is used again after a crash).

use std::sync::Arc;

use membership::view_log::{DiskId, Record, Word};
use membership::{Epoch, NodeId};

use super::super::{HandoffMessage, Message};
use super::host::{Event, Host};
use super::world::first_view;
use super::{Bounds, COUNT, NODES, place};

/// Three nodes and the letters that nobody has got yet.
struct Desk {
    hosts: Vec<Host>,
    letters: Vec<(NodeId, NodeId, Message)>,
}

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);
const THREE: NodeId = NodeId(3);

fn bounds() -> Bounds {
    Bounds { wakes: [1; COUNT], last: Epoch(9), ..Bounds::calm() }
}

impl Desk {
    fn new() -> Self {
        let start = |node: u64| {
            let record =
                Record { view: Some(Arc::new(first_view())), ..Record::blank(DiskId(node)) };
            Host::new(NodeId(node), record, bounds()).0
        };
        Self { hosts: (1..=NODES).map(start).collect(), letters: Vec::new() }
    }

    fn host(&self, node: NodeId) -> &Host {
        &self.hosts[place(node)]
    }

    fn number(&self, node: NodeId) -> u64 {
        self.host(node).view().unwrap().head.number.0
    }

    /// Something happens to a node; what it says about it.
    fn step(&mut self, node: NodeId, event: Event) -> Vec<(NodeId, NodeId, Message)> {
        let said = self.hosts[place(node)].step(event);
        let said: Vec<_> = said.into_iter().map(|(to, said)| (node, to, said)).collect();
        self.letters.extend(said.iter().cloned());
        said
    }

    /// A letter arrives; it may again.
    fn deliver(
        &mut self,
        (from, to, message): &(NodeId, NodeId, Message),
    ) -> Vec<(NodeId, NodeId, Message)> {
        self.step(*to, Event::Deliver(*from, message.clone()))
    }

    /// Letters of a kind arrive once each, and those that come of them, until there are none.
    fn settle(&mut self, is_let: impl Fn(&(NodeId, NodeId, Message)) -> bool) {
        for _ in 0..10_000 {
            let Some(at) = self.letters.iter().position(&is_let) else { return };
            let letter = self.letters.remove(at);
            self.deliver(&letter);
        }
        panic!("they never stop talking");
    }

    /// The letters of a kind that nobody has got.
    fn waiting(
        &self,
        is_meant: impl Fn(&(NodeId, NodeId, Message)) -> bool,
    ) -> Vec<(NodeId, NodeId, Message)> {
        self.letters.iter().filter(|letter| is_meant(letter)).cloned().collect()
    }

    /// A link of `node` breaks, and it makes a view of that: all but handoffs arrives where it may.
    fn make_view(&mut self, node: NodeId, is_let: impl Fn(&(NodeId, NodeId, Message)) -> bool) {
        self.step(node, Event::Break(NodeId(node.0 % NODES + 1)));
        self.step(node, Event::Wake);
        self.settle(|letter| !is_handoff(letter) && is_let(letter));
    }

    /// Two nodes go on without the third.
    fn give_up(&mut self, gone: NodeId) {
        let living = (1..=NODES).map(NodeId).filter(|&node| node != gone);
        let living: Vec<_> = living.collect();
        for &node in &living {
            self.step(node, Event::Suspect(gone));
        }
        for _ in 0..6 {
            for &node in &living {
                self.step(node, Event::Wake);
                self.settle(|(from, to, _)| *from != gone && *to != gone);
            }
        }
    }

    /// Who is to get a unit by the view of the first node, and which.
    fn elect(&self) -> (NodeId, u16) {
        let view = self.host(ONE).view().unwrap();
        let mut units = (0..).zip(&view.body.slots);
        let (slot, next) =
            units.find_map(|(slot, share)| Some((slot, share.next.as_ref()?))).unwrap();
        (NodeId(next.owner().disk.0), slot)
    }
}

fn is_handoff((_, _, message): &(NodeId, NodeId, Message)) -> bool {
    matches!(message, Message::Handoff(_))
}

fn is_pull((_, _, message): &(NodeId, NodeId, Message)) -> bool {
    matches!(message, Message::Handoff(HandoffMessage::Pull(_)))
}

fn is_piece((_, _, message): &(NodeId, NodeId, Message)) -> bool {
    matches!(message, Message::Handoff(HandoffMessage::Piece { .. }))
}

fn is_yes((_, _, message): &(NodeId, NodeId, Message)) -> bool {
    let Message::Log(message) = message else { return false };
    matches!(message.word, Word::Promise(..) | Word::Accepted(_))
}

/// 1: the elect of an older view is given nothing by who has the newer one, and seals nothing.
#[test]
fn the_elect_of_an_older_view_gets_nothing() {
    let mut desk = Desk::new();
    desk.make_view(ONE, |_| true);
    let (elect, slot) = desk.elect();
    let pulls = desk.waiting(is_pull);
    assert!(!pulls.is_empty() && desk.number(elect) == 2);
    desk.give_up(elect);
    assert!(desk.number(ONE) > 2 && desk.number(elect) == 2);
    for pull in &pulls {
        assert!(!desk.deliver(pull).iter().any(is_piece));
    }
    let owner = desk.host(ONE).view().unwrap().body.slots[usize::from(slot)].active.owner();
    let host = &mut desk.hosts[place(NodeId(owner.disk.0))];
    assert!(host.cell.write(slot), "it is served, and not sealed");
}

/// 3: who has an older view gives nothing for a newer one, and gives it once it has that view.
#[test]
fn a_question_of_a_later_view_waits_for_the_view() {
    let mut desk = Desk::new();
    desk.make_view(TWO, |(_, to, _)| *to != ONE);
    assert_eq!((desk.number(ONE), desk.number(TWO)), (1, 2));
    let pulls = desk.waiting(|letter| is_pull(letter) && letter.1 == ONE);
    assert!(!pulls.is_empty());
    assert!(!desk.deliver(&pulls[0]).iter().any(is_piece));
    assert!(!desk.host(ONE).cell.serves.is_empty());
    desk.settle(|letter| !is_handoff(letter));
    assert_eq!(desk.number(ONE), 2);
    assert!(desk.deliver(&pulls[0]).iter().any(is_piece), "now it is");
}

/// 4: a seal that arrives again after the unit is active elsewhere is not answered with nothing.
#[test]
fn a_seal_after_the_move_is_refused() {
    let mut desk = Desk::new();
    desk.make_view(ONE, |_| true);
    let (elect, slot) = desk.elect();
    desk.step(ONE, Event::Write(slot));
    let mut pulls = Vec::new();
    while let Some(at) = desk.letters.iter().position(is_handoff) {
        let letter = desk.letters.remove(at);
        pulls.extend(Some(letter.clone()).filter(is_pull));
        desk.deliver(&letter);
    }
    desk.settle(|_| true);
    (0..2).for_each(|_| {
        desk.step(ONE, Event::Wake);
        desk.settle(|_| true);
    });
    let served = desk.host(elect).cell.serves.get(&slot).copied();
    assert_eq!(served, Some((Epoch(2), 1)), "with what was written");
    let seals = pulls.iter().filter(|(_, _, message)| {
        matches!(message, Message::Handoff(HandoffMessage::Pull(pull)) if pull.seal)
    });
    assert!(seals.count() > 0);
    for pull in &pulls {
        assert!(!desk.deliver(pull).iter().any(is_piece));
    }
    assert_eq!(desk.host(elect).cell.serves.get(&slot).copied(), served);
}

/// 5: an owner that was asleep while the others went on stops by the first view that it hears of.
#[test]
fn an_owner_that_slept_serves_nothing_once_it_hears() {
    let mut desk = Desk::new();
    desk.give_up(ONE);
    assert!(desk.number(TWO) > 1);
    assert_eq!(desk.host(ONE).cell.serves.len(), 2, "it does not know");
    // Gossip has it back, and what it says to anybody is answered with the view.
    desk.hosts[place(TWO)].meet(ONE);
    desk.step(ONE, Event::Break(TWO));
    desk.step(ONE, Event::Wake);
    desk.settle(|letter| !is_handoff(letter));
    assert!(desk.number(ONE) > 1);
    assert!(desk.host(ONE).cell.serves.is_empty());
}

/// 6: a unit on its way to a node that dies stays with what it holds.
#[test]
fn who_dies_before_it_served_takes_nothing_along() {
    let mut desk = Desk::new();
    desk.make_view(ONE, |_| true);
    let (elect, slot) = desk.elect();
    desk.step(ONE, Event::Write(slot));
    // It has begun to give, and has sealed or not.
    desk.settle(|letter| is_handoff(letter) && !matches!(&letter.2, Message::Log(_)));
    desk.letters.retain(|(from, to, _)| *from != elect && *to != elect);
    desk.give_up(elect);
    let view = desk.host(ONE).view().unwrap().clone();
    assert!(view.head.seat(elect).is_none());
    let owner = NodeId(view.body.slots[usize::from(slot)].active.owner().disk.0);
    let served = desk.host(owner).cell.serves.get(&slot).copied();
    assert_eq!(served.map(|(_, value)| value), Some(1), "on {owner}");
    assert!(desk.hosts[place(owner)].cell.write(slot), "it is not sealed any more");
}

/// 9: a node whose disk was replaced has no vote, and nothing to give.
#[test]
fn another_disk_under_the_same_name_has_no_vote_and_no_units() {
    let mut desk = Desk::new();
    desk.make_view(TWO, |(_, to, _)| *to != ONE);
    let pulls = desk.waiting(|letter| is_pull(letter) && letter.1 == ONE);
    desk.hosts[place(ONE)] = Host::new(ONE, Record::blank(DiskId(11)), bounds()).0;
    for pull in &pulls {
        assert!(!desk.deliver(pull).iter().any(is_piece));
    }
    desk.letters.clear();
    desk.step(TWO, Event::Break(THREE));
    desk.step(TWO, Event::Wake);
    let asked = desk.waiting(|(_, to, _)| *to == ONE);
    assert!(!asked.is_empty());
    for letter in &asked {
        assert!(!desk.deliver(letter).iter().any(is_yes), "blank");
    }
    desk.settle(|(from, to, _)| *from != THREE && *to != THREE);
    assert_eq!(desk.number(TWO), 2, "there is no majority");
    assert!(!desk.waiting(|(from, _, _)| *from == ONE).iter().any(is_yes), "with the view");
}

/// 10: who is asked about a number that it cannot know keeps its vote on the one that it can.
#[test]
fn a_vote_is_not_forgotten_for_a_later_number() {
    let mut desk = Desk::new();
    // All vote for the view of the first node, and only it hears so.
    desk.make_view(ONE, |(from, to, message)| {
        !matches!(message, Message::Log(m) if matches!(m.word, Word::Decided(_)))
            || (*from, *to) == (TWO, ONE)
    });
    assert_eq!((desk.number(ONE), desk.number(TWO), desk.number(THREE)), (2, 1, 1));
    let decided = desk.host(ONE).view().unwrap().digest();
    desk.letters.clear();
    desk.step(ONE, Event::Break(TWO));
    desk.step(ONE, Event::Wake);
    let asked = desk.waiting(|(_, to, _)| *to == TWO);
    assert!(!asked.is_empty());
    for letter in &asked {
        assert!(!desk.deliver(letter).iter().any(is_yes), "of a later number");
    }
    desk.letters.clear();
    desk.step(THREE, Event::Break(ONE));
    desk.step(THREE, Event::Wake);
    desk.settle(|(from, to, _)| *from != ONE && *to != ONE);
    assert_eq!((desk.number(TWO), desk.number(THREE)), (2, 2));
    assert_eq!(desk.host(THREE).view().unwrap().digest(), decided);
}
