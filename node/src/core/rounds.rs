//! How the end of a topology is known: by counting, never by a timer.
//!
//! A coordinator (the first live voter; two at a time do no harm) asks all members for their totals, again and again. A topology that runs has ended
//! when nobody holds an unexhausted partition and, in two successive rounds of one view, the events sent
//! by all equal the events taken by all and are the same as in the round before (Mattern's four-counter
//! method: an event that was on its way in the first round was counted as taken by the second). Timers
//! only decide how often it is asked.
//!
//! The end itself comes in stages: instances are removed from the spouts on, and what they emit while
//! they go has to be handled, by the same rule, before the next stage goes.

use std::collections::BTreeMap;
use std::time::Duration;

use membership::{NodeId, Time};
use pe::Phase;
use serde::{Deserialize, Serialize};

use super::assignment::View;

/// Between two rounds while spouts read.
const CALM: Duration = Duration::from_millis(250);
/// Between two rounds once nothing is read any more: the end is near, and people wait for it.
const EAGER: Duration = Duration::from_millis(5);
/// After this, an answer is taken for lost.
const PATIENCE: Duration = Duration::from_secs(1);

/// The counts of one topology on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Events sent to members.
    pub sent: u64,
    /// Events taken from members.
    pub received: u64,
    /// Partitions held and not exhausted.
    pub open_partitions: u64,
    /// Partitions held and exhausted.
    pub exhausted_partitions: u64,
    /// Trees that are not complete.
    pub open_trees: u64,
    /// Stages of instances that are removed in all containers.
    pub stages_removed: u32,
}

/// The rounds of questions, and the questions of others that we owe an answer.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    round: u64,
    asked: Option<Time>,
    is_open: bool,
    is_eager: bool,
    answers: BTreeMap<NodeId, Vec<Totals>>,
    /// The sums of the round before, in the same view.
    before: Option<Vec<Totals>>,
    owed: BTreeMap<u64, Vec<(NodeId, u64)>>,
}

impl Rounds {
    /// There is a new view: what was counted in the old one proves nothing.
    pub(super) fn forget(&mut self) {
        self.answers.clear();
        self.before = None;
        self.is_open = false;
        self.is_eager = true;
        self.owed.clear();
    }

    /// When the next round is due.
    pub(super) fn deadline(&self) -> Option<Time> {
        let wait = match (self.is_open, self.is_eager) {
            (true, _) => PATIENCE,
            (false, true) => EAGER,
            (false, false) => CALM,
        };
        self.asked.map(|asked| asked + wait)
    }

    /// Starts a round if one is due.
    pub(super) fn next(&mut self, now: Time, view: &View) -> Option<u64> {
        if self.deadline().is_some_and(|due| due > now) {
            return None;
        }
        if self.is_open {
            // Somebody did not answer: this round proves nothing, nor does the one before it.
            self.before = None;
        }
        self.asked = Some(now);
        self.round += 1;
        self.is_open = true;
        let mut phases = view.body.topologies.iter().map(|topology| topology.phase);
        self.is_eager = phases.any(|phase| matches!(phase, Phase::Ending(_)));
        self.answers.clear();
        Some(self.round)
    }

    /// Remembers who waits for the answers to a question to the containers.
    pub(super) fn owe(&mut self, ask: u64, asker: (NodeId, u64)) {
        // A peer that asks without end is owed the last few answers.
        while self.owed.len() >= 64 {
            self.owed.pop_first();
        }
        self.owed.entry(ask).or_default().push(asker);
    }

    /// Who waits for the answers up to a question.
    pub(super) fn owed(&mut self, ask: u64) -> Vec<(NodeId, u64)> {
        let later = self.owed.split_off(&(ask + 1));
        std::mem::replace(&mut self.owed, later).into_values().flatten().collect()
    }

    /// Takes an answer.
    pub(super) fn answered(&mut self, from: NodeId, round: u64, totals: Vec<Totals>) {
        if round == self.round && self.is_open {
            self.answers.insert(from, totals);
        }
    }

    /// If all have answered: closes the round, and gives the phases that follow from it, by topology, and the
    /// topologies of which nothing is on its way though trees are open: they have lost something.
    ///
    /// While units move nothing follows: what they are is in neither of two nodes.
    pub(super) fn verdict(&mut self, view: &View) -> (Vec<(u16, Phase)>, Vec<u16>) {
        let has_answered = |node: &NodeId| self.answers.contains_key(node);
        let is_whole = view.head.seats.iter().all(|seat| has_answered(&seat.member.node));
        if !self.is_open || !is_whole {
            return (Vec::new(), Vec::new());
        }
        self.is_open = false;
        let topologies = &view.body.topologies;
        let sums: Vec<_> = (0..topologies.len()).map(|topology| self.sum(topology)).collect();
        let before = self.before.replace(sums.clone());
        let is_moving = view.body.moving() > 0;
        let (mut next, mut quiet) = (Vec::new(), Vec::new());
        for (at, (sum, topology)) in sums.iter().zip(topologies).enumerate() {
            let is_listed = topology.spouts.values().all(Option::is_some);
            // Partitions that outlive their nodes may be on a disk that is not here now.
            let are_all_here = topology.partitions.as_ref().is_none_or(|all| {
                sum.exhausted_partitions == all.values().map(|&count| u64::from(count)).sum::<u64>()
            });
            let is_read = sum.open_partitions == 0 && is_listed && are_all_here;
            self.is_eager |= is_read && topology.phase == Phase::Running;
            let is_still = is_read && sum.sent == sum.received && !is_moving;
            let is_settled = is_still && before.as_ref().is_some_and(|before| before[at] == *sum);
            let is_same = before.as_ref().is_some_and(|before| before[at] == *sum);
            let is_quiet = sum.sent == sum.received && !is_moving && is_same;
            if is_quiet && sum.open_trees > 0 && topology.phase == Phase::Running {
                quiet.push(u16::try_from(at).expect("bounded by the planner"));
            }
            let phase = match topology.phase {
                Phase::Running if is_settled => Phase::Ending(0),
                Phase::Ending(stage) if is_settled && sum.stages_removed > stage => {
                    if stage + 1 < topology.stages {
                        Phase::Ending(stage + 1)
                    } else {
                        Phase::Ended
                    }
                }
                Phase::Waiting | Phase::Running | Phase::Ending(_) | Phase::Ended => continue,
            };
            next.push((u16::try_from(at).expect("bounded by the planner"), phase));
        }
        (next, quiet)
    }

    fn sum(&self, topology: usize) -> Totals {
        let of_topology = |totals: &Vec<Totals>| totals.get(topology).cloned().unwrap_or_default();
        let all = self.answers.values().map(of_topology);
        all.reduce(|sum, one| Totals {
            sent: sum.sent + one.sent,
            received: sum.received + one.received,
            open_partitions: sum.open_partitions + one.open_partitions,
            exhausted_partitions: sum.exhausted_partitions + one.exhausted_partitions,
            open_trees: sum.open_trees + one.open_trees,
            stages_removed: sum.stages_removed.min(one.stages_removed),
        })
        .unwrap_or_default()
    }
}
