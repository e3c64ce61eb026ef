//! How the end of a topology is known: by counting, never by a timer.
//!
//! The coordinator asks all members for their totals, again and again. A topology that runs has ended
//! when nobody holds an unexhausted partition and, in two successive rounds of one view, the events sent
//! by all equal the events taken by all and are the same as in the round before (Mattern's four-counter
//! method: an event that was on its way in the first round was counted as taken by the second). Timers
//! only decide how often it is asked.
//!
//! The end itself comes in stages: instances are removed from the spouts on, and what they emit while
//! they go has to be handled, by the same rule, before the next stage goes.

use std::collections::BTreeMap;
use std::time::Duration;

use membership::{Epoch, NodeId, Time};
use pe::Phase;
use serde::{Deserialize, Serialize};

use super::message::Setup;
use super::record::Record;

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
    pub(super) fn next(&mut self, now: Time, record: &Record) -> Option<u64> {
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
        self.is_eager = record.phases.iter().any(|phase| matches!(phase, Phase::Ending(_)));
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
    pub(super) fn answered(&mut self, from: NodeId, _: Epoch, round: u64, totals: Vec<Totals>) {
        if round == self.round && self.is_open {
            self.answers.insert(from, totals);
        }
    }

    /// If all have answered: closes the round, and gives the phases that follow from it, if they are
    /// others than before.
    pub(super) fn verdict(&mut self, record: &Record, setup: &Setup) -> Option<Vec<Phase>> {
        let has_answered = |node: &NodeId| self.answers.contains_key(node);
        let is_whole = record.seats.iter().all(|seat| has_answered(&seat.member.node));
        if !self.is_open || !is_whole {
            return None;
        }
        self.is_open = false;
        let sums: Vec<_> = (0..setup.plans.len()).map(|topology| self.sum(topology)).collect();
        let before = self.before.replace(sums.clone());
        let mut phases = record.phases.clone();
        for (at, sum) in sums.iter().enumerate() {
            let is_still = sum.open_partitions == 0 && sum.sent == sum.received;
            self.is_eager |= sum.open_partitions == 0 && phases[at] == Phase::Running;
            let is_settled = is_still && before.as_ref().is_some_and(|before| before[at] == *sum);
            let stages = u32::try_from(setup.plans[at].stages).expect("bounded by the planner");
            phases[at] = match phases[at] {
                Phase::Running if is_settled => Phase::Ending(0),
                Phase::Ending(stage) if is_settled && sum.stages_removed > stage => {
                    if stage + 1 < stages { Phase::Ending(stage + 1) } else { Phase::Ended }
                }
                phase @ (Phase::Waiting | Phase::Running | Phase::Ending(_) | Phase::Ended) => {
                    phase
                }
            };
        }
        (phases != record.phases).then_some(phases)
    }

    fn sum(&self, topology: usize) -> Totals {
        let of_topology = |totals: &Vec<Totals>| totals.get(topology).cloned().unwrap_or_default();
        let all = self.answers.values().map(of_topology);
        all.reduce(|sum, one| Totals {
            sent: sum.sent + one.sent,
            received: sum.received + one.received,
            open_partitions: sum.open_partitions + one.open_partitions,
            stages_removed: sum.stages_removed.min(one.stages_removed),
        })
        .unwrap_or_default()
    }
}
