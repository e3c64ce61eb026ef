//! Who seems to be there, and who has come and gone too often.
//!
//! Gossip is a hint that may change its mind from one second to the next, and a view is made for all.
//! So a member counts as dead only when it has been down for a while, and one that was taken off again
//! and again waits ever longer before it is let in: that bounds the views that a flapping link makes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Config, Head, SEATS_MAX, Seat, Seats, State, ViewId};
use crate::{NodeId, Run, Time};

/// What is known of one node.
#[derive(Clone, Copy, Debug)]
struct Contact {
    /// Since when, or from when on, it counts as dead; never while it is up.
    dead_from: Option<Time>,
    /// The run that gossip last heard of.
    run: Run,
    /// The newest view that it has shown to have.
    view: Option<ViewId>,
    /// Which view it was last sent, and when.
    told: Option<(ViewId, Time)>,
}

/// How often a node was taken off.
#[derive(Clone, Copy, Debug)]
struct Removal {
    count: u32,
    last: Time,
    /// Whether people were told.
    is_told: bool,
}

/// The members, and the nodes that gossip says are there.
#[derive(Debug, Default)]
pub(super) struct Contacts {
    known: BTreeMap<NodeId, Contact>,
    /// Pruned of who has stayed, and never more than there can be members.
    removals: BTreeMap<NodeId, Removal>,
}

impl Contacts {
    pub(super) fn up(&mut self, node: NodeId, run: Run) {
        // Another life has to show anew what it has.
        let known = self.known.get(&node).filter(|known| known.run == run);
        let (view, told) = known.map_or((None, None), |known| (known.view, known.told));
        self.known.insert(node, Contact { dead_from: None, run, view, told });
    }

    /// Gossip lost sight of a node, which counts as dead from then on; a stranger is forgotten.
    pub(super) fn down(&mut self, node: NodeId, dead_from: Time, is_member: bool) {
        if !is_member {
            self.known.remove(&node);
        } else if let Some(contact) = self.known.get_mut(&node) {
            contact.told = None; // It may have been lost on the way.
            let earlier = contact.dead_from.filter(|at| *at < dead_from);
            contact.dead_from = earlier.or(Some(dead_from));
        }
    }

    /// A node has shown its newest view.
    pub(super) fn saw(&mut self, node: NodeId, view: Option<ViewId>) {
        if let Some(contact) = self.known.get_mut(&node) {
            contact.view = contact.view.max(view);
        }
    }

    /// A node has said something. If gossip holds it for gone, gossip is late, or soon right: where the network
    /// has just healed, each side would else take off the other.
    pub(super) fn heard(&mut self, now: Time, node: NodeId, grace: Duration) {
        if let Some(contact) = self.known.get_mut(&node) {
            contact.dead_from = contact.dead_from.map(|at| at.max(now + grace));
        }
    }

    /// Follows a view: its members are kept in sight, and who was taken off is counted.
    pub(super) fn follow(
        &mut self,
        now: Time,
        before: Option<&Head>,
        head: &Head,
        config: &Config,
    ) {
        let dead_from = Some(now + config.unheard_after);
        for seat in &head.seats {
            let unheard = Contact { dead_from, run: Run(0), view: None, told: None };
            self.known.entry(seat.node()).or_insert(unheard);
        }
        self.known
            .retain(|node, contact| contact.dead_from.is_none() || head.seat(*node).is_some());
        let calm = config.return_wait_max * 2;
        self.removals.retain(|_, removal| now < removal.last + calm);
        let after = Seats::new(head);
        for seat in before.iter().flat_map(|before| &before.seats) {
            // We may have missed the view in which it was off.
            let is_anew = |here: &Seat| here.log == seat.log && here.since > seat.since;
            let was_off = after.of_disk(seat.disk()).is_none_or(is_anew);
            if was_off && seat.state != State::Draining {
                self.count_removal(now, seat.node());
            }
        }
    }

    fn count_removal(&mut self, now: Time, node: NodeId) {
        if self.removals.len() >= SEATS_MAX && !self.removals.contains_key(&node) {
            let oldest = self.removals.iter().min_by_key(|(_, removal)| removal.last);
            if let Some(node) = oldest.map(|(&node, _)| node) {
                self.removals.remove(&node);
            }
        }
        let fresh = Removal { count: 0, last: now, is_told: false };
        let removal = self.removals.entry(node).or_insert(fresh);
        *removal = Removal { count: removal.count.saturating_add(1), last: now, is_told: false };
    }

    /// Whether a view may have been lost on its way to a node, or was never sent.
    pub(super) fn is_untold(
        &mut self,
        now: Time,
        node: NodeId,
        view: ViewId,
        again: Duration,
    ) -> bool {
        let Some(contact) = self.known.get_mut(&node) else { return true };
        let is_told = contact.told.is_some_and(|(told, at)| told == view && now < at + again);
        if !is_told {
            contact.told = Some((view, now));
        }
        !is_told
    }

    /// Whether gossip has the node.
    pub(super) fn is_up(&self, node: NodeId) -> bool {
        self.known.get(&node).is_some_and(|contact| contact.dead_from.is_none())
    }

    /// Whether gossip has this very run of the node.
    pub(super) fn is_up_as(&self, node: NodeId, run: Run) -> bool {
        self.is_up(node) && self.known.get(&node).is_some_and(|contact| contact.run == run)
    }

    /// Whether a member has been down for long enough.
    pub(super) fn is_dead(&self, now: Time, node: NodeId) -> bool {
        let dead_from = self.known.get(&node).and_then(|contact| contact.dead_from);
        dead_from.is_some_and(|at| at <= now)
    }

    /// The newest view that a node has shown to have.
    pub(super) fn view(&self, node: NodeId) -> Option<ViewId> {
        self.known.get(&node).and_then(|contact| contact.view)
    }

    /// Those that gossip has.
    pub(super) fn live(&self) -> impl Iterator<Item = NodeId> {
        self.known.iter().filter(|(_, contact)| contact.dead_from.is_none()).map(|(&node, _)| node)
    }

    /// From when on a node may be let in.
    pub(super) fn welcome_from(&self, node: NodeId, config: &Config) -> Time {
        let Some(removal) = self.removals.get(&node) else { return Time::default() };
        let Some(doublings) = removal.count.checked_sub(2) else { return Time::default() };
        let wait = config.return_wait.saturating_mul(1 << doublings.min(20));
        removal.last + wait.min(config.return_wait_max)
    }

    /// Whether people have yet to hear that a node waits.
    pub(super) fn tell_damped(&mut self, node: NodeId) -> bool {
        let removal = self.removals.get_mut(&node).filter(|removal| !removal.is_told);
        removal.map(|removal| removal.is_told = true).is_some()
    }

    /// All that decides what is done next, with moments only as far as they have passed.
    pub(super) fn described(&self, now: Time, again: Duration) -> String {
        let contacts = self.known.iter().map(|(node, contact)| {
            let Contact { dead_from, run, view, told } = contact;
            let told = told.map(|(id, at)| (id, now < at + again));
            format!("{node:?} {:?} {run:?} {view:?} {told:?};", dead_from.map(|at| at > now))
        });
        let removals = self
            .removals
            .iter()
            .map(|(node, removal)| format!("{node:?} {} {};", removal.count, removal.is_told));
        contacts.chain(removals).collect()
    }

    /// When the next member counts as dead.
    pub(super) fn next_death(&self, now: Time) -> Option<Time> {
        let times = self.known.values().filter_map(|contact| contact.dead_from);
        times.filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view_log::tests::view;

    const NODE: NodeId = NodeId(2);

    fn at(millis: u64) -> Time {
        Time(Duration::from_millis(millis))
    }

    #[test]
    fn a_member_is_dead_when_it_was_down_for_long_enough() {
        let (mut contacts, config) = (Contacts::default(), Config::lan());
        contacts.follow(at(0), None, &view(3).head, &config);
        assert!(
            !contacts.is_dead(at(4999), NODE) && contacts.is_dead(at(5000), NODE),
            "unheard of"
        );
        contacts.up(NODE, Run(1));
        assert!(!contacts.is_dead(at(5000), NODE));
        assert!(contacts.is_up_as(NODE, Run(1)) && !contacts.is_up_as(NODE, Run(2)));
        contacts.down(NODE, at(6000), true);
        contacts.down(NODE, at(6500), true);
        assert_eq!(contacts.next_death(at(4999)), Some(at(5000)), "the other two");
        assert_eq!(contacts.next_death(at(5000)), Some(at(6000)), "not put off");
        assert!(contacts.is_dead(at(6000), NODE));
        contacts.down(NodeId(9), at(0), false);
        contacts.up(NodeId(9), Run(1));
        contacts.down(NodeId(9), at(0), false);
        assert!(!contacts.is_dead(at(6000), NodeId(9)), "a stranger is forgotten");
    }

    #[test]
    fn who_says_something_is_not_dead_for_a_while() {
        let (mut contacts, config) = (Contacts::default(), Config::lan());
        contacts.follow(at(0), None, &view(3).head, &config);
        contacts.up(NODE, Run(1));
        contacts.down(NODE, at(1000), true);
        contacts.heard(at(2000), NODE, config.stable_after);
        assert!(!contacts.is_dead(at(2999), NODE) && contacts.is_dead(at(3000), NODE));
        contacts.up(NODE, Run(1));
        contacts.heard(at(4000), NODE, config.stable_after);
        assert!(!contacts.is_dead(at(9000), NODE), "who is up is up");
    }

    #[test]
    fn who_is_taken_off_often_waits_longer_up_to_a_limit() {
        let (mut contacts, config) = (Contacts::default(), Config::lan());
        let with = view(3);
        let mut without = view(2).head.clone();
        let mut waits = Vec::new();
        for _ in 0..9 {
            contacts.follow(at(0), Some(&with.head), &without, &config);
            waits.push(contacts.welcome_from(NODE, &config).0.as_secs());
        }
        assert_eq!(waits, [0, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert!(contacts.tell_damped(NODE) && !contacts.tell_damped(NODE), "told once");
        assert!(!contacts.tell_damped(NodeId(1)));
        let mut anew = with.head.clone();
        anew.seats[1].since = anew.number;
        let mut missed = Contacts::default();
        (0..2).for_each(|_| missed.follow(at(0), Some(&with.head), &anew, &config));
        assert_eq!(missed.welcome_from(NODE, &config), at(2000), "off in a view that was missed");
        let later = Time(config.return_wait_max * 2);
        contacts.follow(later, None, &without, &config);
        assert_eq!(contacts.welcome_from(NODE, &config), at(0), "forgiven");
        without.seats.clear();
        let mut leaving = with.head.clone();
        leaving.seats.iter_mut().for_each(|seat| seat.state = State::Draining);
        for _ in 0..3 {
            contacts.follow(later, Some(&leaving), &without, &config);
        }
        assert_eq!(contacts.welcome_from(NODE, &config), at(0), "who left was not taken off");
    }

    #[test]
    fn what_a_node_has_shown_is_of_one_life_and_only_grows() {
        let (mut contacts, old, new) = (Contacts::default(), view(2).id(), view(3).id());
        contacts.up(NODE, Run(1));
        for (shown, known) in [(None, None), (Some(new), Some(new)), (Some(old), Some(new))] {
            contacts.saw(NODE, shown);
            assert_eq!(contacts.view(NODE), known);
        }
        contacts.up(NODE, Run(1));
        assert_eq!(contacts.view(NODE), Some(new));
        contacts.up(NODE, Run(2));
        assert_eq!(contacts.view(NODE), None);
    }

    #[test]
    fn a_view_is_sent_again_only_after_a_while() {
        let mut contacts = Contacts::default();
        let (wait, first, second) = (Duration::from_millis(9), view(2).id(), view(3).id());
        contacts.up(NODE, Run(1));
        let mut untold = |millis, id| contacts.is_untold(at(millis), NODE, id, wait);
        assert!(untold(0, first) && !untold(8, first) && untold(9, first));
        assert!(untold(10, second) && !untold(18, second));
    }
}
