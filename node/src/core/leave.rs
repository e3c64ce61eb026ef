//! How a node leaves.
//!
//! A node that just ends takes with it what it holds, and what others have sent and not yet heard of. So
//! it says that it wants to go; views give it nothing new and take its units to others, with their state.
//! Then it waits until the others have sent their last, and all its partitions are taken; its containers
//! give out what they have; and when that has been confirmed it says so, and is dismissed by a view. All
//! of it has a limit in time, after which it goes anyway and says what was left behind.

use std::collections::BTreeSet;
use std::time::Duration;

use membership::view_log::{Body, Seat, State};
use membership::{NodeId, Reason, Time, view_log};

use super::{Action, Cause, Ending, Event, NodeCore};

/// How long a node that leaves takes at most.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);

/// How long nobody may seem to be there before a node that leaves gives up to give away what it has.
const ALONE: Duration = Duration::from_secs(5);

/// How far our own leaving has come.
#[derive(Debug)]
pub(super) struct Leave {
    until: Time,
    /// Since when nobody seems to be there to give to.
    alone_since: Option<Time>,
    /// Members from which nothing comes any more.
    finished: BTreeSet<NodeId>,
    pub(super) has_stopped: BTreeSet<u16>,
    stage: LeaveStage,
    /// Whether its containers stopped with what they had: nothing of it can be given away any more.
    gave_up: bool,
    /// Whether all others leave as well, or there are none: then there is nobody to give to.
    is_last: bool,
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
    /// Until the others have our last credits: who hears that we are gone expects none any more.
    Flushing,
    Flushed,
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
            alone_since: None,
            finished: BTreeSet::new(),
            has_stopped: BTreeSet::new(),
            stage: LeaveStage::Draining,
            gave_up: false,
            is_last: false,
            is_dismissed: false,
        });
        out.push(Action::Tell(Event::Leaving));
        self.log_step(now, view_log::Input::Drain, out);
    }

    /// Whether there is no other member to give to. That none is there may be a mistake of gossip, which finds
    /// the others one by one where the network has just healed; so it has to be so for a while, since what
    /// stops does not go on.
    fn is_alone(&mut self, now: Time) -> bool {
        let seats = self.view.iter().flat_map(|view| &view.head.seats);
        let mut staying =
            seats.filter(|seat| seat.node() != self.me() && seat.state != State::Draining);
        let is_there = |seat: &Seat| self.live.contains_key(&seat.node());
        let is_last = staying.clone().next().is_none();
        let seems_alone = !staying.any(is_there);
        let Some(leave) = &mut self.leave else { return false };
        let since = *leave.alone_since.get_or_insert(now);
        leave.alone_since = leave.alone_since.filter(|_| seems_alone);
        leave.is_last = is_last;
        is_last || seems_alone && since + ALONE <= now
    }

    /// Whether the containers have stopped, so that there is nothing any more to be given away.
    pub(super) fn has_stopped(&self) -> bool {
        self.leave.as_ref().is_some_and(|leave| leave.stage != LeaveStage::Draining)
    }

    /// Whether they stopped with what they had. Such a node goes by its last layout until it is gone: by another
    /// the containers would begin anew what the others take for what it was.
    pub(super) fn gave_up(&self) -> bool {
        self.leave.as_ref().is_some_and(|leave| leave.gave_up)
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
        let Some(seat) = view.head.seat_of(self.log_id.disk) else {
            // No member, or none any more.
            return !view.body.wants_back(&view.head, self.log_id);
        };
        // The seat of a former life has what is on the disk, until a view gives it to this one.
        let is_mine = seat.log == self.log_id;
        let has_said = |since| view.body.stores.get(&self.log_id) == Some(since);
        let is_stored = self.stored_since.as_ref().is_none_or(has_said);
        let mut others = view.head.seats.iter().filter(|other| other.node() != self.me());
        is_mine
            && is_stored
            && seat.state == State::Draining
            && !view.body.keeps(&view.head, self.log_id)
            && others.all(|seat| leave.finished.contains(&seat.node()))
            && self.tokens.is_given_away()
    }

    pub(super) fn go_on_leaving(&mut self, now: Time, out: &mut Vec<Action>) {
        let Some(leave) = &self.leave else { return };
        let is_late = leave.until <= now;
        let is_alone = self.is_alone(now);
        let Some(leave) = &self.leave else { return };
        let is_drained = leave.stage == LeaveStage::Draining && self.is_drained();
        let containers = usize::from(self.membership.me().containers);
        let Some(leave) = &mut self.leave else { return };
        match leave.stage {
            LeaveStage::Draining => {
                if is_drained || is_alone || is_late {
                    leave.stage = LeaveStage::Stopping;
                    leave.gave_up = !is_drained;
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
                let goes_anyway = is_alone || leave.gave_up;
                let is_all = self.reports.len() == containers || self.layout.is_none();
                let unconfirmed = self.unconfirmed();
                if is_late {
                    self.exit(now, Ending::DrainLimit(unconfirmed), out);
                } else if is_all && (unconfirmed == 0 || goes_anyway) {
                    self.set_stage(LeaveStage::Flushing);
                    self.drop_links_to_the_gone(out);
                    out.push(Action::Flush);
                }
            }
            LeaveStage::Flushing if is_late => self.exit(now, Ending::DrainLimit(0), out),
            LeaveStage::Flushing => {}
            LeaveStage::Flushed if leave.gave_up && !leave.is_last => {
                self.exit(now, Ending::LeftAlone, out);
            }
            LeaveStage::Flushed if is_alone || leave.gave_up || self.log.seat().is_none() => {
                self.exit(now, Ending::Left, out);
            }
            LeaveStage::Flushed => {
                leave.stage = LeaveStage::Going;
                self.causes.push(Cause::Drained(self.log_id));
            }
            LeaveStage::Going if leave.is_dismissed || is_alone => {
                self.exit(now, Ending::Left, out);
            }
            LeaveStage::Going if is_late => self.exit(now, Ending::DrainLimit(0), out),
            LeaveStage::Going | LeaveStage::Gone => {}
        }
    }

    /// Members that are gone and still have a seat would be waited for: where all leave, some are gone before a view says so.
    fn drop_links_to_the_gone(&self, out: &mut Vec<Action>) {
        let seats = self.view.iter().flat_map(|view| &view.head.seats).map(Seat::node);
        let gone = seats.filter(|node| !self.live.contains_key(node));
        out.extend(gone.map(|node| Action::Disconnect(node, Reason::Left)));
    }

    /// Whether all that is left to do is that others hear the last of this node.
    pub(super) fn is_flushing(&self) -> bool {
        self.leave.as_ref().is_some_and(|leave| leave.stage == LeaveStage::Flushing)
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

    /// Nobody waits for anything of ours.
    pub(super) fn flushed(&mut self) {
        if let Some(leave) = self.leave.as_mut().filter(|l| l.stage == LeaveStage::Flushing) {
            leave.stage = LeaveStage::Flushed;
        }
    }

    fn exit(&mut self, now: Time, ending: Ending, out: &mut Vec<Action>) {
        self.set_stage(LeaveStage::Gone);
        self.gossip(now, membership::Input::Leave, out);
        out.push(Action::Exit(ending));
    }
}

#[cfg(test)]
mod tests {
    use membership::view_log::{ClusterId, Config, DiskId, Founding, LogId, Start, ViewLog};
    use membership::{Member, Membership, Run};
    use pe::Report;

    use super::*;
    use crate::core::{Assignment, Input, Setup};

    /// A node alone in its cluster, about to go but for its last credits.
    fn flushing() -> NodeCore {
        let nowhere = std::net::SocketAddr::from(([127, 0, 0, 1], 9));
        let me = Member {
            node: NodeId(1),
            run: Run(1),
            peer: Vec::new(),
            control: nowhere,
            data: nowhere,
            http: None,
            containers: 1,
        };
        let setup = Setup {
            cluster: "test".to_owned(),
            slots: 16,
            expected_nodes: 1,
            replicas: 1,
            is_durable: false,
            plans: Vec::new(),
        };
        let log_id = LogId::unsynced(DiskId(1), Run(1));
        let body = Assignment::first(&setup, &me, log_id);
        let founding = Founding { cluster: ClusterId(1), body, nodes: Vec::new() };
        let (member, founding) = (me.clone(), Some(founding));
        let start = Start { member, log: log_id, record: None, founding, seed: 1 };
        let log = ViewLog::new(start, Config::lan()).unwrap();
        let gossip = Membership::new(me, membership::Config::local(), 1).unwrap();
        let mut core = NodeCore::new(setup, gossip, log, log_id);
        let mut out = Vec::new();
        core.step(Time::default(), Input::Started, &mut out);
        let stamp = out.drain(..).find_map(|action| {
            if let Action::Persist(stamp, _) = action { Some(stamp) } else { None }
        });
        core.step(Time::default(), Input::Persisted(stamp.unwrap()), &mut out);
        let layout = core.layout.as_ref().unwrap().digest;
        core.step(Time::default(), Input::Leave, &mut out);
        core.step(Time::default(), Input::Stopped(0), &mut out);
        assert!(!out.iter().any(|action| matches!(action, Action::Flush)));
        out.clear();
        let round = core.next_ask;
        let report = Report { round, container: 0, layout, runs: Vec::new() };
        core.step(Time::default(), Input::Reported(report), &mut out);
        assert!(out.iter().any(|action| matches!(action, Action::Flush)), "{out:?}");
        assert_eq!(ending(&out), None);
        core
    }

    fn ending(out: &[Action]) -> Option<Ending> {
        out.iter().find_map(|action| {
            if let Action::Exit(ending) = action { Some(ending.clone()) } else { None }
        })
    }

    #[test]
    fn a_node_goes_when_the_others_have_its_last_credits() {
        let (mut core, mut out) = (flushing(), Vec::new());
        core.step(Time::default() + DRAIN_LIMIT / 2, Input::Woke, &mut out);
        assert_eq!(ending(&out), None);
        core.step(Time::default() + DRAIN_LIMIT / 2, Input::Flushed, &mut out);
        assert_eq!(ending(&out), Some(Ending::Left));
    }

    #[test]
    fn a_node_that_nobody_listens_to_goes_when_its_time_is_up() {
        let (mut core, mut out) = (flushing(), Vec::new());
        core.step(Time::default() + DRAIN_LIMIT, Input::Woke, &mut out);
        assert_eq!(ending(&out), Some(Ending::DrainLimit(0)));
    }
}
