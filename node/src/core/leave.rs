//! How a node leaves.
//!
//! A node that just ends takes with it what others have sent and not yet heard of. So it says that it
//! leaves and is given nothing new by a view; then it waits until the others have sent their last, and
//! all its partitions are taken; then its containers give out what they have; and when that has been
//! confirmed, and the others have its own confirmations, it goes. Each step has the same limit in time,
//! after which it goes anyway and says what was left behind.

use std::collections::BTreeSet;
use std::time::Duration;

use membership::{NodeId, Time};

use super::{Action, Event, Message, NodeCore};

/// How long a node that leaves waits for what is on its way.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// How far our own leaving has come.
#[derive(Debug)]
pub(super) struct Leave {
    pub(super) until: Time,
    /// Members from which something may still come.
    pub(super) waits_for: BTreeSet<NodeId>,
    pub(super) has_stopped: BTreeSet<u16>,
    pub(super) stage: LeaveStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaveStage {
    /// Until a view gives us nothing any more.
    Asking,
    /// Until nothing comes any more and all tokens are taken.
    Draining,
    /// Until the containers have given out what they had.
    Stopping,
    /// Until what they gave out has been handled.
    Confirming,
    /// Until the others have our last credits: who hears that we are gone expects none any more.
    Flushing,
    Flushed,
    Gone,
}

/// Our own leaving.
impl NodeCore {
    pub(super) fn begin_leave(&mut self, now: Time, out: &mut Vec<Action>) {
        if self.leave.is_some() {
            return;
        }
        let others = self.live.keys().copied().filter(|node| *node != self.me());
        let waits_for: BTreeSet<_> = match &self.record {
            Some(record) => others.filter(|node| record.has(*node)).collect(),
            None => BTreeSet::new(),
        };
        let is_alone = !self.others_stay();
        let stage = if is_alone { LeaveStage::Draining } else { LeaveStage::Asking };
        let until = now + DRAIN_LIMIT;
        self.leave = Some(Leave { until, waits_for, has_stopped: BTreeSet::new(), stage });
        self.leaving.insert((self.me(), self.membership.me().run));
        out.push(Action::Tell(Event::Leaving));
        self.press_leave(out);
        if !is_alone {
            self.look_for_causes(now);
        }
    }

    /// Whether there is another member to give to.
    pub(super) fn others_stay(&self) -> bool {
        let mut others = self.live.values().filter(|member| member.node != self.me());
        others.any(|member| !self.is_leaving(member))
    }

    /// Says to the one who makes views that we leave; it may have changed, or not have heard.
    pub(super) fn press_leave(&mut self, out: &mut Vec<Action>) {
        let Some(leave) = &self.leave else { return };
        if leave.stage == LeaveStage::Asking {
            let run = self.membership.me().run;
            for node in self.live.keys().copied().filter(|node| *node != self.me()) {
                self.send(node, Message::Leaving(run), out);
            }
        }
    }

    /// Nothing more comes from a node.
    pub(super) fn finished(&mut self, node: NodeId) {
        if let Some(leave) = &mut self.leave {
            leave.waits_for.remove(&node);
        }
    }

    pub(super) fn go_on_leaving(&mut self, now: Time, out: &mut Vec<Action>) {
        let is_alone = !self.others_stay();
        let containers = usize::from(self.membership.me().containers);
        let Some(leave) = &mut self.leave else { return };
        let is_late = leave.until <= now;
        match leave.stage {
            LeaveStage::Asking if !is_late && !is_alone => {}
            LeaveStage::Asking | LeaveStage::Draining => {
                let is_drained = leave.waits_for.is_empty() && self.tokens.is_given_away();
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
                let open = self.reports.values().flat_map(|report| &report.runs);
                let unconfirmed: u64 = open.map(|run| run.unconfirmed).sum();
                if is_late {
                    self.depart(now, Some(unconfirmed), out);
                } else if is_all && (unconfirmed == 0 || is_alone) {
                    leave.stage = LeaveStage::Flushing;
                    out.push(Action::Flush);
                }
            }
            LeaveStage::Flushing if is_late => self.depart(now, Some(0), out),
            LeaveStage::Flushing => {}
            LeaveStage::Flushed => self.depart(now, None, out),
            LeaveStage::Gone => {}
        }
    }

    /// Nobody waits for anything of ours.
    pub(super) fn flushed(&mut self) {
        if let Some(leave) = self.leave.as_mut().filter(|l| l.stage == LeaveStage::Flushing) {
            leave.stage = LeaveStage::Flushed;
        }
    }

    /// Goes; `left` events were left behind if there was no time for them.
    fn depart(&mut self, now: Time, left: Option<u64>, out: &mut Vec<Action>) {
        if let Some(leave) = &mut self.leave {
            leave.stage = LeaveStage::Gone;
        }
        self.gossip(now, membership::Input::Leave, out);
        out.push(Action::Exit(left));
    }
}

#[cfg(test)]
mod tests {
    use membership::{Config, Member, Membership, Run};
    use pe::Report;

    use super::*;
    use crate::core::{Input, Setup};

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
            cluster_id: 1,
            is_founder: true,
            slots: 16,
            expected_nodes: 1,
            plans: Vec::new(),
        };
        let mut core = NodeCore::new(setup, Membership::new(me, Config::local(), 1).unwrap());
        let mut out = Vec::new();
        core.step(Time::default(), Input::Started, &mut out);
        let layout = core.layout.as_ref().unwrap().digest;
        core.step(Time::default(), Input::Leave, &mut out);
        core.step(Time::default(), Input::Stopped(0), &mut out);
        assert!(!out.iter().any(|action| matches!(action, Action::Flush)));
        out.clear();
        let round = core.next_ask;
        let report = Report { round, container: 0, layout, runs: Vec::new() };
        core.step(Time::default(), Input::Reported(report), &mut out);
        assert!(out.iter().any(|action| matches!(action, Action::Flush)), "{out:?}");
        assert_eq!(exit(&out), None);
        core
    }

    fn exit(out: &[Action]) -> Option<Option<u64>> {
        out.iter()
            .find_map(|action| if let Action::Exit(left) = action { Some(*left) } else { None })
    }

    #[test]
    fn a_node_goes_when_the_others_have_its_last_credits() {
        let (mut core, mut out) = (flushing(), Vec::new());
        core.step(Time::default() + DRAIN_LIMIT / 2, Input::Woke, &mut out);
        assert_eq!(exit(&out), None);
        core.step(Time::default() + DRAIN_LIMIT / 2, Input::Flushed, &mut out);
        assert_eq!(exit(&out), Some(None));
    }

    #[test]
    fn a_node_that_nobody_listens_to_goes_when_its_time_is_up() {
        let (mut core, mut out) = (flushing(), Vec::new());
        core.step(Time::default() + DRAIN_LIMIT, Input::Woke, &mut out);
        assert_eq!(exit(&out), Some(Some(0)));
    }
}
