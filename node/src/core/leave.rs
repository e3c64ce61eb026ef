//! How a node leaves.
//!
//! A node that just ends takes with it what it holds, and what others have sent and not yet heard of. So
//! it says that it wants to go; views give it nothing new and take its units to others, with their state.
//! Then it waits until the others have sent their last, and all its partitions are taken; its containers
//! give out what they have; and when that has been confirmed it says so, and is dismissed by a view. All
//! of it has a limit in time, after which it goes anyway and says what was left behind.

use std::collections::BTreeSet;
use std::time::Duration;

use membership::view_log::State;
use membership::{NodeId, Time, view_log};

use super::{Action, Cause, Ending, Event, NodeCore};

/// How long a node that leaves takes at most.
const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// How far our own leaving has come.
#[derive(Debug)]
pub(super) struct Leave {
    until: Time,
    /// Members from which nothing comes any more.
    finished: BTreeSet<NodeId>,
    pub(super) has_stopped: BTreeSet<u16>,
    stage: LeaveStage,
    pub(super) is_dismissed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaveStage {
    /// Until nothing is ours any more, nothing comes, and all tokens are taken.
    Draining,
    /// Until the containers have given out what they had.
    Stopping,
    /// Until what they gave out has been handled.
    Confirming,
    /// Until a view is without us.
    Going,
    Gone,
}

/// Our own leaving.
impl NodeCore {
    pub(super) fn begin_leave(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.leave.is_some() {
            return;
        }
        self.leave = Some(Leave {
            until: now + DRAIN_LIMIT,
            finished: BTreeSet::new(),
            has_stopped: BTreeSet::new(),
            stage: LeaveStage::Draining,
            is_dismissed: false,
        });
        out.push(Action::Tell(Event::Leaving));
        self.log_step(now, view_log::Input::Drain, out);
    }

    /// Whether there is another member to give to.
    fn others_stay(&self) -> bool {
        let Some(view) = &self.view else { return false };
        let mut others = view.head.seats.iter().filter(|seat| seat.node() != self.me());
        others.any(|seat| seat.state != State::Draining && self.live.contains_key(&seat.node()))
    }

    /// Nothing more comes from a node.
    pub(super) fn finished(&mut self, node: NodeId) {
        if let Some(leave) = &mut self.leave {
            leave.finished.insert(node);
        }
    }

    /// Whether nothing is ours any more and nothing comes.
    fn is_drained(&self) -> bool {
        let Some((view, leave)) = self.view.as_ref().zip(self.leave.as_ref()) else { return true };
        let Some(seat) = view.head.seat(self.me()).filter(|seat| seat.log == self.log_id) else {
            return true; // No member, or none any more.
        };
        let mut others = view.head.seats.iter().filter(|other| other.node() != self.me());
        seat.state == State::Draining
            && !view.body.names(self.log_id)
            && others.all(|seat| leave.finished.contains(&seat.node()))
            && self.tokens.is_given_away()
    }

    pub(super) fn go_on_leaving(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(leave) = &self.leave else { return };
        let (is_late, is_alone) = (leave.until <= now, !self.others_stay());
        let is_drained = leave.stage == LeaveStage::Draining && self.is_drained();
        let containers = usize::from(self.membership.me().containers);
        let Some(leave) = &mut self.leave else { return };
        match leave.stage {
            LeaveStage::Draining => {
                if is_drained || is_alone || is_late {
                    leave.stage = LeaveStage::Stopping;
                    out.push(Action::Stop);
                }
            }
            LeaveStage::Stopping => {
                if leave.has_stopped.len() == containers || self.layout.is_none() || is_late {
                    leave.stage = LeaveStage::Confirming;
                    self.reports.clear();
                    self.ask_containers(None, out);
                }
            }
            // Asked again at every tick.
            LeaveStage::Confirming => {
                let is_all = self.reports.len() == containers || self.layout.is_none();
                let unconfirmed = self.unconfirmed();
                if is_late {
                    self.exit(now, Ending::DrainLimit(unconfirmed), out);
                } else if is_all && (unconfirmed == 0 || is_alone) {
                    let is_member = self.log.seat().is_some();
                    if is_member && !is_alone {
                        self.set_stage(LeaveStage::Going);
                        self.causes.push(Cause::Drained(self.log_id));
                    } else {
                        self.exit(now, Ending::Left, out);
                    }
                }
            }
            LeaveStage::Going => {
                if leave.is_dismissed || is_alone {
                    self.exit(now, Ending::Left, out);
                } else if is_late {
                    self.exit(now, Ending::DrainLimit(0), out);
                }
            }
            LeaveStage::Gone => {}
        }
    }

    fn set_stage(&mut self, stage: LeaveStage) {
        if let Some(leave) = &mut self.leave {
            leave.stage = stage;
        }
    }

    /// Events that we sent and have not heard of.
    fn unconfirmed(&self) -> u64 {
        let runs = self.reports.values().flat_map(|report| &report.runs);
        runs.map(|run| run.unconfirmed).sum()
    }

    fn exit(&mut self, now: Time, ending: Ending, out: &mut Vec<Action>) {
        self.set_stage(LeaveStage::Gone);
        self.gossip(now, membership::Input::Leave, out);
        out.push(Action::Exit(ending));
    }
}
