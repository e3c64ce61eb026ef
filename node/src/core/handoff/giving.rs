//! The side of a handoff that gives: it answers, and stops when the view says something else.

use std::collections::BTreeSet;

use membership::view_log::{LogId, Seats};
use membership::{Epoch, NodeId};
use pe::{ChunkKind, ReplicaInput, Unit};

use super::{Action, Handoff, HandoffMessage, Outcome, Pull, REPLICAS, StreamId, View};

/// The most streams at a time: more than two nodes of 64 containers have between them.
const STREAMS_MAX: usize = 1 << 13;

/// The most bytes of a chunk in one message: control messages are small, and gossip waits behind them.
const PIECE_MAX: usize = 256 << 10;

/// A stream that goes out.
#[derive(Debug)]
pub(super) struct Giving {
    /// What the container calls it.
    number: u64,
    container: u16,
    units: Vec<Unit>,
    epoch: Epoch,
    /// The log of who takes.
    to: LogId,
    is_sealed: bool,
    /// Whether the container was asked for the next chunk.
    is_asked: bool,
    next: u32,
    /// The last chunk, in case it is lost on its way.
    last: Option<(u32, ChunkKind, Vec<u8>)>,
}

impl Giving {
    pub(super) fn units(&self) -> usize {
        self.units.len()
    }

    /// The last chunk from an offset on, if it is the one that is asked for.
    fn piece(&self, stream: StreamId, chunk: u32, offset: u32) -> Option<HandoffMessage> {
        let (number, kind, bytes) = self.last.as_ref()?;
        let from = usize::try_from(offset).ok().filter(|_| *number == chunk)?;
        let rest = bytes.get(from..)?;
        let piece = rest[..rest.len().min(PIECE_MAX)].to_vec();
        let len = u32::try_from(bytes.len()).expect("a chunk is some instances, or one");
        Some(HandoffMessage::Piece { stream, chunk, kind: *kind, offset, len, bytes: piece })
    }

    /// Whether the view still wants these units to go there.
    fn is_wanted(&self, view: &View, log: LogId) -> bool {
        let seats = Seats::new(&view.head);
        self.units.iter().all(|&unit| {
            view.body.share(unit).is_some_and(|share| {
                let has_it = if self.container == REPLICAS {
                    let left = view.body.copies(&seats).of(share);
                    share.is_waiting(&seats) && left.iter().any(|seat| seat.log == log)
                } else {
                    share.active.owner() == log && share.active.container == self.container
                };
                has_it
                    && share
                        .next
                        .as_ref()
                        .is_some_and(|next| (next.epoch, next.owner()) == (self.epoch, self.to))
            })
        })
    }
}

impl Handoff {
    pub(super) fn pulled(
        &mut self,
        view: &View,
        from: NodeId,
        pull: Pull,
        out: &mut Vec<Action>,
        outcome: &mut Outcome,
    ) {
        let key = (from, pull.stream);
        if !self.giving.contains_key(&key) {
            if pull.units.is_empty() {
                return outcome.messages.push((from, HandoffMessage::Unknown(pull.stream)));
            }
            if !self.begin(view, from, &pull, out) {
                return; // Of another view than ours: it asks again.
            }
        }
        let giving = self.giving.get_mut(&key).expect("just begun");
        if pull.seal && !giving.is_sealed {
            giving.is_sealed = true;
            // A replica is sealed from the beginning.
            if giving.container != REPLICAS {
                out.push(Action::Give(giving.container, pe::Input::Seal(giving.number)));
            }
        }
        if let Some(piece) = giving.piece(pull.stream, pull.chunk, pull.offset) {
            outcome.messages.push((from, piece));
        } else if pull.chunk == giving.next && !giving.is_asked {
            giving.is_asked = true;
            giving.last = None;
            out.push(match giving.container {
                REPLICAS => Action::Replicas(ReplicaInput::Pull(giving.number)),
                container => Action::Give(container, pe::Input::Pull(giving.number)),
            });
        }
    }

    /// Begins to give, if our view says so.
    fn begin(&mut self, view: &View, from: NodeId, pull: &Pull, out: &mut Vec<Action>) -> bool {
        let Some(seat) = view.head.seat(from) else { return false };
        let giving = Giving {
            number: self.number(),
            container: pull.container,
            units: pull.units.clone(),
            epoch: pull.epoch,
            to: seat.log,
            is_sealed: false,
            is_asked: false,
            next: 0,
            last: None,
        };
        if !giving.is_wanted(view, self.log) || self.giving.len() >= STREAMS_MAX {
            return false;
        }
        if !self.supersede(from, pull, out) {
            return false;
        }
        let (handoff, units, epoch) = (giving.number, giving.units.clone(), giving.epoch);
        out.push(match giving.container {
            REPLICAS => Action::Replicas(ReplicaInput::Copy { handoff, units, epoch }),
            container => Action::Give(container, pe::Input::Copy { handoff, units }),
        });
        self.giving.insert((from, pull.stream), giving);
        true
    }

    /// Forgets the streams in whose place a new one comes: who takes has begun anew. Whether it is one: a question
    /// for a former stream may come late, and what is sealed for the present one must not be served again.
    fn supersede(&mut self, from: NodeId, pull: &Pull, out: &mut Vec<Action>) -> bool {
        let units: BTreeSet<_> = pull.units.iter().collect();
        let is_rival = |node: NodeId, giving: &Giving| {
            node == from && giving.units.iter().any(|unit| units.contains(unit))
        };
        let mut rivals = self.giving.iter().filter(|((node, _), giving)| is_rival(*node, giving));
        if rivals.any(|((_, stream), _)| *stream > pull.stream) {
            return false;
        }
        // A container releases them when it begins the new copy.
        self.giving.retain(|(node, _), giving| {
            let is_over = is_rival(*node, giving);
            if is_over && giving.container == REPLICAS {
                out.push(Action::Replicas(ReplicaInput::Release(giving.number)));
            }
            !is_over
        });
        true
    }

    /// A container has the next chunk.
    pub(in super::super) fn chunk(
        &mut self,
        number: u64,
        kind: ChunkKind,
        bytes: Vec<u8>,
        outcome: &mut Outcome,
    ) {
        let found = self.giving.iter_mut().find(|(_, giving)| giving.number == number);
        let Some((&(to, stream), giving)) = found else { return };
        let chunk = giving.next;
        giving.next += 1;
        giving.is_asked = false;
        giving.last = Some((chunk, kind, bytes));
        outcome.messages.extend(giving.piece(stream, chunk, 0).map(|piece| (to, piece)));
    }

    /// After the containers have a new layout: what the view does not want to go any more is released.
    pub(in super::super) fn release(&mut self, view: &View, out: &mut Vec<Action>) {
        let log = self.log;
        self.giving.retain(|_, giving| {
            let is_wanted = giving.is_wanted(view, log);
            if !is_wanted {
                out.push(match giving.container {
                    REPLICAS => Action::Replicas(ReplicaInput::Release(giving.number)),
                    container => Action::Give(container, pe::Input::Release(giving.number)),
                });
            }
            is_wanted
        });
    }
}
