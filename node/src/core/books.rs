//! Where partitions have come to, with members that are left when one goes.
//!
//! What a node has of partitions (its *book*: tokens, and where they stand) is on its disk. So that it outlives the
//! disk it is also with some other members, as many as keep replicas of a unit, and nothing is said that rests on it
//! before all of them have it. When a view has it that a disk is gone, the first member asks all others for what they
//! have of its book, puts the latest into its own, and when that is with all who keep its own, a view makes it the
//! heir. Until then the disk may come back and go on; from then on it has to forget.
//!
//! Who keeps a book follows from the view. Whoever does not any more drops it: what it has may be old, and tokens that
//! have been passed on since would come back.
//!
//! At most as many may go at a time as there are keepers; else a book is with nobody, and its partitions wait for
//! their disk.

use std::collections::{BTreeMap, BTreeSet};

use membership::view_log::{DiskId, LogId, Seat};
use membership::{Epoch, Run};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::assignment::Cause;
use super::message::{Action, Message};
use super::tokens::Offsets;
use super::{NodeCore, View};

/// What nodes say to each other about books.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum BookMessage {
    /// What the sender has of partitions, for one who keeps it.
    Is {
        /// Its life.
        life: LogId,
        /// How often that has changed in this life.
        change: u64,
        /// What it is.
        book: Offsets,
    },
    /// The answer: it is kept.
    Kept {
        /// Whose.
        life: LogId,
        /// As of which change.
        change: u64,
    },
    /// What is kept of a disk that is gone since that view?
    Of(DiskId, Epoch),
    /// The answer.
    Copy {
        /// The disk.
        disk: DiskId,
        /// Since when it is gone.
        gone: Epoch,
        /// In which life it changed how often, and what it was then; nothing if nothing is kept.
        copy: Option<((Run, u64), Offsets)>,
    },
}

/// A book, and how often it has changed in which life of its node.
type Copy = ((Run, u64), Offsets);

/// The books of others.
#[derive(Debug, Default)]
pub(super) struct Books {
    copies: BTreeMap<DiskId, Copy>,
    /// Since when we are a member.
    since: Option<Epoch>,
    /// Who has answered what it has of the book of a disk that is gone since a view.
    asked: BTreeMap<(DiskId, Epoch), BTreeMap<LogId, Option<Copy>>>,
}

/// Who keeps the book of a node: the members that come first by a number drawn for both.
fn keepers(view: &View, of: LogId) -> BTreeSet<LogId> {
    let others = view.head.seats.iter().filter(|seat| seat.log != of && super::is_active(seat));
    let draw = |seat: &Seat| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&of.disk.0.to_le_bytes());
        bytes[8..].copy_from_slice(&seat.node().0.to_le_bytes());
        (xxh3_64(&bytes), seat.log)
    };
    let mut drawn: Vec<_> = others.map(draw).collect();
    drawn.sort_unstable();
    drawn.truncate((view.body.replicas as usize).saturating_sub(1));
    drawn.into_iter().map(|(_, log)| log).collect()
}

impl NodeCore {
    /// Learns from a view who keeps our book, and what has been inherited; before the tokens are laid.
    pub(super) fn lay_books(&mut self, view: &View, out: &mut Vec<Action>) {
        let is_durable = view.body.topologies.iter().any(|state| state.partitions.is_some());
        if !is_durable {
            return;
        }
        self.tokens.keep_with(keepers(view, self.log_id).into_iter());
        // Whoever is not asked any more to keep a book has what it was, and must not tell it for what it is: its tokens may
        // have gone elsewhere since. So it is with one that was taken off and is back.
        let me = self.log_id;
        let is_current = |disk: DiskId| match view.head.seat_of(disk) {
            Some(seat) => keepers(view, seat.log).contains(&me),
            None => view.body.orphans.contains_key(&disk),
        };
        let since = self.seat(self.me()).map(|seat| view.body.since(seat));
        let is_same = std::mem::replace(&mut self.books.since, since) == since;
        self.books.copies.retain(|&disk, _| is_same && is_current(disk));
        self.books.asked.retain(|(disk, gone), _| view.body.orphans.get(disk) == Some(gone));
        self.tokens.inherit(self.log_id, &view.body.heirs, &view.body.orphans, out);
        self.causes.extend(self.tokens.settled(self.log_id.disk));
    }

    /// Says what may have been lost on its way, and asks for the books of disks that are gone if that is on us.
    pub(super) fn see_to_books(&mut self, out: &mut Vec<Action>) {
        let Some(view) = self.view.clone().filter(|_| self.is_seated()) else { return };
        self.send_book(&view, out);
        self.causes.extend(self.tokens.settled(self.log_id.disk));
        let heir = view.head.seats.iter().find(|seat| super::is_active(seat));
        if heir.is_none_or(|seat| seat.log != self.log_id) {
            return;
        }
        for (&disk, &gone) in &view.body.orphans {
            if self.tokens.has_bequest(disk) {
                self.causes.push(Cause::Inherited(disk, gone, self.log_id));
                continue;
            }
            if self.tokens.knows_bequest(disk) {
                continue;
            }
            let mine = self.books.copies.get(&disk).cloned();
            let answers = self.books.asked.entry((disk, gone)).or_default();
            answers.insert(self.log_id, mine);
            let silent = view.head.seats.iter().filter(|seat| !answers.contains_key(&seat.log));
            let silent: Vec<_> = silent.map(Seat::node).collect();
            if silent.is_empty() {
                let latest = answers.values().flatten().max_by_key(|(version, _)| *version);
                if let Some((_, book)) = latest.cloned() {
                    self.tokens.bequeathed(disk, gone, book);
                }
                // If nobody has it, somebody may who is not here yet.
                self.books.asked.remove(&(disk, gone));
                continue;
            }
            for node in silent {
                self.send(node, Message::Book(BookMessage::Of(disk, gone)), out);
            }
        }
    }

    /// Sends our book to those who keep it and have not got it.
    pub(super) fn send_book(&self, view: &View, out: &mut Vec<Action>) {
        let Some((change, book, lacking)) = self.tokens.book() else { return };
        for log in lacking {
            if let Some(seat) = view.head.seat_of(log.disk).filter(|seat| seat.log == log) {
                let (book, life) = ((**book).clone(), self.log_id);
                let message = BookMessage::Is { life, change, book };
                self.send(seat.node(), Message::Book(message), out);
            }
        }
    }

    /// Takes a message about books.
    pub(super) fn book_arrived(
        &mut self,
        from: LogId,
        message: BookMessage,
        out: &mut Vec<Action>,
    ) {
        let Some(view) = self.view.clone() else { return };
        let Some(node) = view.head.seat_of(from.disk).map(Seat::node) else { return };
        match message {
            BookMessage::Is { life, change, book }
                if life == from && keepers(&view, life).contains(&self.log_id) =>
            {
                let version = (life.run, change);
                let known = self.books.copies.get(&life.disk);
                if known.is_none_or(|(known, _)| *known < version) {
                    self.books.copies.insert(life.disk, (version, book));
                }
                self.send(node, Message::Book(BookMessage::Kept { life, change }), out);
            }
            BookMessage::Kept { life, change } if life == self.log_id => {
                self.tokens.copied(from, change);
                self.say_what_is_kept(out);
                self.causes.extend(self.tokens.settled(self.log_id.disk));
            }
            // By an older view it may be there still, and its book may change.
            BookMessage::Of(disk, gone) if view.body.orphans.get(&disk) == Some(&gone) => {
                let copy = self.books.copies.get(&disk).cloned();
                self.send(node, Message::Book(BookMessage::Copy { disk, gone, copy }), out);
            }
            BookMessage::Copy { disk, gone, copy } => {
                if let Some(answers) = self.books.asked.get_mut(&(disk, gone)) {
                    answers.insert(from, copy);
                }
            }
            // Of another life than now, or by another view.
            BookMessage::Is { .. } | BookMessage::Kept { .. } | BookMessage::Of(..) => {}
        }
    }

    /// Says what rests on what is on disks now.
    pub(super) fn say_what_is_kept(&mut self, out: &mut Vec<Action>) {
        for (to, id, hops) in self.tokens.owed() {
            self.send(to, Message::Taken(id, hops), out);
        }
        self.tokens.say(&self.live, out);
    }
}
