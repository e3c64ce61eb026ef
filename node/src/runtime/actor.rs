//! A container as an actix actor, on an arbiter of its own.
//!
//! The actor decides nothing: it steps the container with what arrives and does what the container
//! wants. After any input it arranges a turn, which runs when the mailbox has been emptied: that is the
//! "nothing else to do" at which spouts read and partial batches are sent. A turn is spawned, not
//! mailed to itself, so the rest of the arbiter has its say between two of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::prelude::*;
use membership::{NodeId, Time};
use pe::{Action, Container, Input, Waker};
use routing::FrameKind;
use tokio::sync::mpsc;

use super::clock::Clock;
use super::driver::Notice;
use super::links::Links;
use super::replicas::Replicas;
use super::spills::Spills;
use crate::core::link::LinkCredit;

/// Above what all credits let be under way to one container.
const MAILBOX: usize = 1 << 16;

/// A deadline that is no further away is waited for by turning: the timer of the arbiter is a
/// millisecond wide, and a spout with a schedule of its own would come late by half of that. Wider, and
/// a spout that reads a thousand times a second would keep a core busy.
const NEAR: Duration = Duration::from_micros(100);

/// An input for the container.
pub(super) struct Deliver(pub(super) Input);

/// The other containers of the node, before anything runs.
pub(super) struct Meet(pub(super) Arc<[Addr<ContainerActor>]>);

impl Message for Deliver {
    type Result = ();
}

impl Message for Meet {
    type Result = ();
}

/// A container and its surroundings.
pub(super) struct ContainerActor {
    container: Container,
    number: u16,
    neighbours: Arc<[Addr<Self>]>,
    links: Arc<Links>,
    notices: mpsc::Sender<Notice>,
    clock: Clock,
    actions: Vec<Action>,
    /// The credits of one step, which go together.
    credits: BTreeMap<NodeId, Vec<LinkCredit>>,
    is_turning: bool,
    alarm: Option<(Time, SpawnHandle)>,
    is_woken: Arc<AtomicBool>,
    spills: Spills,
    replicas: Replicas,
}

/// A waker for the spouts of a container, and the flag by which its actor sees that it was used.
///
/// The message only makes the actor turn: one that finds the mailbox full is not needed, since the actor
/// is turning then, and will see the flag.
pub(super) fn waker(address: Addr<ContainerActor>) -> (Waker, Arc<AtomicBool>) {
    let flag = Arc::new(AtomicBool::new(false));
    let is_woken = Arc::clone(&flag);
    let wake = move || {
        if !flag.swap(true, Ordering::AcqRel) {
            drop(address.try_send(Deliver(Input::Woken)));
        }
    };
    (Waker::new(wake), is_woken)
}

/// What waits on disk of a container, given back to its actor: of each edge one batch at a time, so it needs no
/// place in the mailbox.
pub(super) fn spills(address: Addr<ContainerActor>, data_dir: &Path, container: u16) -> Spills {
    #[expect(clippy::disallowed_methods, reason = "there is one answer an edge at most")]
    let answer = move |id, bytes| address.do_send(Deliver(Input::Unspilled(id, bytes)));
    Spills::new(data_dir, container, Box::new(answer))
}

impl ContainerActor {
    pub(super) fn new(
        container: Container,
        number: u16,
        (links, replicas, notices): (Arc<Links>, Replicas, mpsc::Sender<Notice>),
        clock: Clock,
        is_woken: Arc<AtomicBool>,
        spills: Spills,
    ) -> Self {
        Self {
            container,
            number,
            neighbours: Arc::new([]),
            links,
            notices,
            clock,
            actions: Vec::new(),
            credits: BTreeMap::new(),
            is_turning: false,
            alarm: None,
            is_woken,
            spills,
            replicas,
        }
    }

    fn take(&mut self, input: Input) {
        let mut actions = std::mem::take(&mut self.actions);
        self.container.step(self.clock.now(), input, &mut actions);
        for action in actions.drain(..) {
            self.act(action);
        }
        self.actions = actions;
        while let Some((node, credits)) = self.credits.pop_first() {
            self.links.send_credits(node, credits);
        }
    }

    fn arrange_turn(&mut self, ctx: &mut Context<Self>) {
        if !self.is_turning {
            self.is_turning = true;
            let turn = tokio::task::yield_now().into_actor(self);
            ctx.spawn(turn.map(|(), actor, ctx| actor.turn(ctx)));
        }
    }

    fn turn(&mut self, ctx: &mut Context<Self>) {
        self.is_turning = false;
        if self.is_woken.swap(false, Ordering::AcqRel) {
            self.take(Input::Woken);
        }
        self.take(Input::Drained);
        let deadline = self.container.deadline();
        let is_near = || deadline.is_some_and(|at| at <= self.clock.now() + NEAR);
        if self.container.wants_turn() || is_near() {
            self.arrange_turn(ctx);
        } else {
            self.set_alarm(deadline, ctx);
        }
    }

    /// Wakes the container at its deadline, if nothing comes before.
    fn set_alarm(&mut self, deadline: Option<Time>, ctx: &mut Context<Self>) {
        if let Some((at, handle)) = self.alarm {
            if Some(at) == deadline {
                return;
            }
            ctx.cancel_future(handle);
            self.alarm = None;
        }
        if let Some(at) = deadline {
            let wait = at - self.clock.now();
            let handle = ctx.run_later(wait, |actor, ctx| {
                actor.alarm = None;
                actor.arrange_turn(ctx);
            });
            self.alarm = Some((at, handle));
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Post(to, input) => {
                match self.neighbours[usize::from(to)].try_send(Deliver(input)) {
                    Ok(()) | Err(SendError::Closed(_)) => {}
                    Err(SendError::Full(_)) => {
                        tracing::error!(container = to, "a mailbox is full in spite of credits");
                    }
                }
            }
            Action::Send(node, frame) => {
                if let Err(lost) = self.links.send_frame(node, FrameKind::Batches, frame) {
                    tracing::error!(%node, "a data link is given up: {lost}");
                    self.notify(Notice::Core(crate::core::Input::Broken(node)));
                }
            }
            Action::Credit { node, credit, rows, weight } => {
                self.credits.entry(node).or_default().push((credit, rows, weight));
            }
            Action::Report(report) => {
                self.notify(Notice::Core(crate::core::Input::Reported(report)));
            }
            Action::Closed { topology, prototype, name, state } => {
                let closed = crate::core::Input::Closed { topology, prototype, name, state };
                self.notify(Notice::Core(closed));
            }
            Action::Chunk { handoff, kind, bytes } => {
                let chunk = crate::core::Input::Chunk { handoff, kind, bytes };
                self.notify(Notice::Core(chunk));
            }
            Action::Staged { handoff, outcome } => {
                self.notify(Notice::Core(crate::core::Input::Staged { handoff, outcome }));
            }
            Action::Secured { handoff, epoch, units } => {
                let secured = crate::core::Input::Secured { handoff, epoch, units };
                self.notify(Notice::Core(secured));
            }
            Action::Replicate(body) => self.replicas.own(self.number, body),
            Action::Bury(letter) => self.notify(Notice::Bury(letter)),
            Action::Spill(id, bytes) => self.spills.keep(id, bytes),
            Action::Unspill(id) => self.spills.give(id),
            Action::Explained { question, holders } => {
                self.notify(Notice::Explained(question, holders));
            }
            Action::Looked { question, seen } => self.notify(Notice::Looked(question, seen)),
            Action::Stopped => self.notify(Notice::Core(crate::core::Input::Stopped(self.number))),
        }
    }

    fn notify(&self, notice: Notice) {
        // A driver that is gone has ended the node.
        if let Err(mpsc::error::TrySendError::Full(_)) = self.notices.try_send(notice) {
            tracing::error!(container = self.number, "the driver does not take notices");
        }
    }
}

impl Actor for ContainerActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
    }
}

impl Handler<Meet> for ContainerActor {
    type Result = ();

    fn handle(&mut self, Meet(neighbours): Meet, _: &mut Self::Context) {
        self.neighbours = neighbours;
    }
}

impl Handler<Deliver> for ContainerActor {
    type Result = ();

    fn handle(&mut self, Deliver(input): Deliver, ctx: &mut Self::Context) {
        self.take(input);
        self.arrange_turn(ctx);
    }
}
