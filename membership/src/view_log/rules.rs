//! Which view may stand, and which may follow which.
//!
//! Proposers are meant to propose only what is valid. Acceptors and learners check it all the same:
//! what is once decided cannot be taken back, and a mistake of one node must not become that of all.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::view::{SEATS_MAX, VOTERS_MAX};
use super::{Body, Head, Seat, Seats, State, View};
use crate::{Epoch, Member, NodeId};

/// The largest number that is believed of a view we know nothing before. Recoveries leap, so it is
/// generous; what lies beyond would bring the numbers to their end.
const NUMBER_MAX: u64 = 1 << 48;

/// Why a view cannot stand, or cannot follow the one before.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub enum Unfit {
    /// Its members are none, too many, or not in order.
    Seats,
    /// A seat of this node is not one that a node could have, or that could come after the one before.
    Seat(NodeId),
    /// Its voters are not an odd number of members with a vote, at most [`VOTERS_MAX`], in order.
    Voters,
    /// Its number is zero, absurd, or not the next.
    Number(Epoch),
    /// It is of another cluster or generation.
    Lineage,
    /// It does not name the view before it.
    Parent,
    /// It names lost members, and follows a view without a recovery.
    Lost,
    /// Its body refused.
    Body(String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seats => f.write_str("its members are not a list in order"),
            Self::Seat(node) => write!(f, "its seat of node {node} is not possible"),
            Self::Voters => f.write_str("its voters are not an odd number of members in order"),
            Self::Number(number) => write!(f, "it cannot have the number {number}"),
            Self::Lineage => f.write_str("it is of another cluster or generation"),
            Self::Parent => f.write_str("it follows another view"),
            Self::Lost => f.write_str("it gives members up without a recovery"),
            Self::Body(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Unfit {}

impl<B: Body> View<B> {
    /// Whether this view can stand, whatever came before.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), Unfit> {
        check_head(&self.head)?;
        self.body.check(&self.head).map_err(Unfit::Body)
    }

    /// Whether `next` may follow this view: the rule `valid(v, v + 1)`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check_next(&self, next: &Self) -> Result<(), Unfit> {
        next.check()?;
        let (head, after) = (&self.head, &next.head);
        if (head.cluster, head.generation) != (after.cluster, after.generation) {
            return Err(Unfit::Lineage);
        }
        if after.number.0 != head.number.0 + 1 {
            return Err(Unfit::Number(after.number));
        }
        if after.parent != self.digest() {
            return Err(Unfit::Parent);
        }
        if !after.lost.is_empty() {
            return Err(Unfit::Lost);
        }
        let old = Seats::new(head);
        let is_wrong = |seat: &&Seat| !may_follow(&old, after, seat);
        if let Some(seat) = after.seats.iter().find(is_wrong) {
            return Err(Unfit::Seat(seat.node()));
        }
        self.body.check_next(head, &next.body, after).map_err(Unfit::Body)
    }
}

fn check_head(head: &Head) -> Result<(), Unfit> {
    let Head { number, seats, voters, .. } = head;
    if number.0 == 0 || number.0 > NUMBER_MAX {
        return Err(Unfit::Number(*number));
    }
    let is_ordered = seats.is_sorted_by(|one, two| one.node() < two.node());
    let disks: BTreeSet<_> = seats.iter().map(Seat::disk).collect();
    let is_list = is_ordered && disks.len() == seats.len();
    if seats.is_empty() || seats.len() > SEATS_MAX || !is_list {
        return Err(Unfit::Seats);
    }
    let is_possible = |seat: &Seat| {
        seat.member.peer.len() <= Member::PEER_BYTES_MAX
            && (1..=number.0).contains(&seat.since.0)
            && seat.log.run <= seat.member.run
    };
    if let Some(seat) = seats.iter().find(|seat| !is_possible(seat)) {
        return Err(Unfit::Seat(seat.node()));
    }
    let is_ordered = voters.is_sorted_by(|one, two| one < two);
    let may_vote = |&disk| head.seat_of(disk).is_some_and(|seat| seat.state != State::Joining);
    let is_odd = voters.len() % 2 == 1 && voters.len() <= VOTERS_MAX;
    if !is_odd || !is_ordered || !voters.iter().all(may_vote) {
        return Err(Unfit::Voters);
    }
    Ok(())
}

/// Whether a seat may stand in the next view: a new disk joins first, an old one does not go back to
/// joining, and who forgot its logs is here anew.
fn may_follow(before: &Seats<'_>, after: &Head, seat: &Seat) -> bool {
    let Some(old) = before.of_disk(seat.disk()) else {
        return seat.state == State::Joining && seat.since == after.number;
    };
    let since = if old.log == seat.log { old.since } else { after.number };
    old.node() == seat.node()
        && seat.since == since
        && (seat.state != State::Joining || old.state == State::Joining)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Run;
    use crate::view_log::tests::{Notes, seat, view};
    use crate::view_log::{Digest, DiskId, LogId};

    /// Views that follow `view(3)`, each with one thing changed.
    fn refused(change: impl Fn(&mut View<Notes>)) -> Option<Unfit> {
        let before = view(3);
        let mut next = View { body: before.body.clone(), head: before.head.clone() };
        next.head.number.0 += 1;
        next.head.parent = before.digest();
        assert_eq!(before.check_next(&next), Ok(()), "without the change it is valid");
        change(&mut next);
        before.check_next(&next).err()
    }

    #[test]
    fn a_view_follows_the_one_before_it_and_no_other() {
        let lineage = Some(Unfit::Lineage);
        assert_eq!(refused(|view| view.head.cluster.0 += 1), lineage);
        assert_eq!(refused(|view| view.head.generation.count += 1), lineage);
        assert_eq!(refused(|view| view.head.number.0 += 1), Some(Unfit::Number(Epoch(9))));
        assert_eq!(refused(|view| view.head.number.0 = 0), Some(Unfit::Number(Epoch(0))));
        let absurd = Epoch(u64::MAX);
        assert_eq!(refused(|view| view.head.number = absurd), Some(Unfit::Number(absurd)));
        assert_eq!(refused(|view| view.head.parent = Digest(7)), Some(Unfit::Parent));
        assert_eq!(refused(|view| view.head.lost.push(NodeId(9))), Some(Unfit::Lost));
    }

    #[test]
    fn voters_are_odd_few_in_order_and_members() {
        let voters = |disks: &[u64]| {
            refused(|view| view.head.voters = disks.iter().copied().map(DiskId).collect())
        };
        assert_eq!(voters(&[2]), None);
        for disks in [&[][..], &[1, 2], &[3, 2, 1], &[1, 1, 2], &[1, 2, 9], &[1, 2, 3, 4]] {
            assert_eq!(voters(disks), Some(Unfit::Voters), "{disks:?}");
        }
        let joining = |view: &mut View<Notes>| {
            view.head.seats.push(Seat { since: Epoch(8), ..seat(4, State::Joining) });
            view.head.voters = vec![DiskId(4)];
        };
        assert_eq!(refused(joining), Some(Unfit::Voters));
    }

    #[test]
    fn seats_change_step_by_step() {
        let wrong = |node| Some(Unfit::Seat(NodeId(node)));
        let with =
            |at: usize, change: fn(&mut Seat)| refused(|view| change(&mut view.head.seats[at]));
        assert_eq!(with(0, |seat| seat.state = State::Draining), None);
        assert_eq!(with(0, |seat| seat.member.containers = 9), None);
        assert_eq!(with(0, |seat| seat.since = Epoch(7)), wrong(1));
        assert_eq!(with(0, |seat| seat.member.peer = vec![0; 129]), wrong(1));
        let anew = |seat: &mut Seat| {
            seat.member.run = Run(2);
            seat.log = LogId { run: Run(2), ..seat.log };
        };
        let forgot = |since| {
            refused(|view| {
                anew(&mut view.head.seats[0]);
                view.head.seats[0].since = Epoch(since);
            })
        };
        assert_eq!(forgot(8), None);
        assert_eq!(forgot(1), wrong(1), "who forgot is here anew");
        let push = |state, since| {
            refused(|view| view.head.seats.push(Seat { since: Epoch(since), ..seat(4, state) }))
        };
        assert_eq!(push(State::Joining, 8), None);
        assert_eq!(push(State::Joining, 7), wrong(4));
        assert_eq!(push(State::Active, 8), wrong(4), "a new disk joins first");
        let replaced = |view: &mut View<Notes>| {
            view.head.voters = vec![DiskId(2)];
            view.head.seats[0].log.disk = DiskId(77);
            view.head.seats[0].since = Epoch(8);
        };
        assert_eq!(refused(replaced), wrong(1), "a new disk under an old key too");
        let demoted = |view: &mut View<Notes>| {
            view.head.voters = vec![DiskId(2)];
            view.head.seats[0].state = State::Joining;
        };
        assert_eq!(refused(demoted), wrong(1));
    }

    #[test]
    fn members_are_a_list_in_order() {
        assert_eq!(refused(|view| view.head.seats.swap(0, 1)), Some(Unfit::Seats));
        assert_eq!(refused(|view| view.head.seats.clear()), Some(Unfit::Seats));
        let one_disk = |view: &mut View<Notes>| view.head.seats[1].log = view.head.seats[0].log;
        assert_eq!(refused(one_disk), Some(Unfit::Seats));
    }

    #[test]
    fn a_body_is_asked_as_well() {
        let unfit = |why: &str| Some(Unfit::Body(why.to_owned()));
        assert_eq!(refused(|view| view.body.0.extend([100])), unfit("too large a note"));
        assert_eq!(refused(|view| view.body.0.clear()), unfit("a note is missing"));
    }
}
