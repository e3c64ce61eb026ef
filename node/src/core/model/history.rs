//! What has been seen of a cluster so far, and the rules that it must not break.
//!
//! What must hold is about more than one moment: two views of one number may be held at two times, and
//! what was written is compared with what is served much later.

use std::collections::{BTreeMap, BTreeSet};

use membership::view_log::Digest;
use membership::{Epoch, NodeId};

use super::super::{Set, Share, View};
use super::LogId;
use super::cell::Term;
use super::table::{HostId, Seen, Table};

/// What must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    OneViewPerNumber,
    OneOwnerPerEpoch,
    ServesByView,
    OneChoicePerBallot,
    ActiveMeansInstalled,
    WritesStay,
}

/// What has been seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct History {
    /// The fingerprint of the view of each number.
    pub(super) views: BTreeMap<Epoch, Digest>,
    /// Who was to serve each unit under each epoch.
    owners: BTreeMap<Term, LogId>,
    /// Who has got all of a unit before it served it.
    whole: BTreeSet<(Term, LogId)>,
    /// How much each unit holds that no crash and no death has taken, and the epoch of it.
    written: BTreeMap<u16, (Epoch, u8)>,
    pub(super) dead: BTreeSet<NodeId>,
    /// Logs that ended with their process.
    ended: BTreeSet<LogId>,
    /// The rule that was broken first.
    pub(super) fault: Option<Rule>,
    /// Whether a unit is served elsewhere with what was written before.
    pub(super) has_moved: bool,
    /// Whether there is a view without a node that died.
    pub(super) is_rid: bool,
}

impl Rule {
    pub(super) const ALL: [Self; 6] = [
        Self::OneViewPerNumber,
        Self::OneOwnerPerEpoch,
        Self::ServesByView,
        Self::OneChoicePerBallot,
        Self::ActiveMeansInstalled,
        Self::WritesStay,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::OneViewPerNumber => "one view per number",
            Self::OneOwnerPerEpoch => "one owner per epoch",
            Self::ServesByView => "a node serves what its view says",
            Self::OneChoicePerBallot => "one choice per ballot",
            Self::ActiveMeansInstalled => "who is active has installed",
            Self::WritesStay => "what was written stays",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }
}

impl History {
    pub(super) fn blame(&mut self, rule: Rule) {
        self.fault.get_or_insert(rule);
    }

    /// A process ended, and with it what it held.
    pub(super) fn end(&mut self, log: LogId) {
        self.ended.insert(log);
        let owners = &self.owners;
        self.written.retain(|&slot, (epoch, _)| owners.get(&(slot, *epoch)) != Some(&log));
    }

    /// Looks at a node after its step.
    pub(super) fn look(&mut self, table: &Table, host: HostId) {
        let seen = table.seen(host);
        let Some(view) = &seen.view else { return };
        self.whole.extend(seen.cell.whole.iter().map(|&term| (term, seen.log)));
        self.look_at_view(view);
        for (slot, share) in (0..).zip(&view.body.slots) {
            let serves = seen.cell.serves.get(&slot);
            let is_owner = share.active.owner() == seen.log;
            if serves.is_some() != is_owner
                || serves.is_some_and(|(epoch, _)| *epoch != share.active.epoch)
            {
                self.blame(Rule::ServesByView);
            }
            self.look_at_unit(slot, share, seen);
        }
    }

    fn look_at_view(&mut self, view: &View) {
        let digest = view.digest();
        let is_new = !self.views.contains_key(&view.head.number);
        if *self.views.entry(view.head.number).or_insert(digest) != digest {
            self.blame(Rule::OneViewPerNumber);
        }
        if is_new {
            let has = |node: &NodeId| view.head.seat(*node).is_some();
            self.is_rid |= !self.dead.is_empty() && !self.dead.iter().any(has);
            // Whoever was taken off takes along what it had.
            let gone: Vec<_> = self.owners.values().copied().collect();
            let is_off = |log: &LogId| view.head.seat_of(log.disk).is_none_or(|s| s.log != *log);
            gone.into_iter().filter(is_off).for_each(|log| self.end(log));
        }
        for (slot, Share { active, next, .. }) in (0..).zip(&view.body.slots) {
            for set in [Some(active), next.as_ref()].into_iter().flatten() {
                self.look_at_set(slot, set);
            }
            let is_first = active.epoch == Epoch(1);
            let is_ready = self.whole.contains(&((slot, active.epoch), active.owner()));
            let before = self.owners.range(..(slot, active.epoch)).rev();
            let before = before.take_while(|((of, _), _)| *of == slot).map(|(_, log)| *log);
            let was_lost = before.clone().any(|log| self.ended.contains(&log));
            let was_called_back = before.clone().any(|log| log == active.owner());
            if !(is_first || is_ready || was_lost || was_called_back) {
                self.blame(Rule::ActiveMeansInstalled);
            }
        }
    }

    fn look_at_set(&mut self, slot: u16, set: &Set) {
        if *self.owners.entry((slot, set.epoch)).or_insert(set.owner()) != set.owner() {
            self.blame(Rule::OneOwnerPerEpoch);
        }
    }

    /// What was written is in every later owner, and whoever is the newest may add to it.
    fn look_at_unit(&mut self, slot: u16, share: &Share, seen: &Seen) {
        let Some(&(epoch, value)) = seen.cell.serves.get(&slot) else { return };
        if self.ended.contains(&share.active.owner()) {
            self.written.remove(&slot); // It begins empty.
            return;
        }
        let is_of_now = share.active.owner() == seen.log && !self.ended.contains(&seen.log);
        let (written_in, written) = self.written.get(&slot).copied().unwrap_or_default();
        if epoch > written_in && value < written {
            self.blame(Rule::WritesStay);
        }
        if is_of_now && (epoch, value) > (written_in, written) {
            self.has_moved |= written > 0 && epoch > written_in && written_in > Epoch(0);
            self.written.insert(slot, (epoch, value));
        }
    }
}
