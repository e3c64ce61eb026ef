//! The assignment of the next view.
//!
//! It starts from the one before: what is heeded of the causes, then each unit, which stays where it is
//! or is on its way to unless its node goes or has more than its part. So a join or leave moves one
//! node's part and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use membership::view_log::{Head, LogId, Seat, Seats, State};
use membership::{Epoch, Member, NodeId};
use pe::{Phase, Unit};
use routing::{ContainerId, Slot, SlotTable, spread};

use super::{Assignment, Came, Cause, Set, Share, is_active, may_own, seat_of};

/// The body that follows `before`, for the members of `next`.
pub(super) fn next(
    before: &Assignment,
    head: &Head,
    next: &Head,
    causes: &BTreeSet<Cause>,
) -> Assignment {
    let mut after = before.clone();
    for cause in causes {
        after.heed(cause, next.number);
    }
    after.anew.retain(|&node, anew| next.seat(node).is_some_and(|seat| seat.since < *anew));
    after.drained.retain(|&log| seat_of(next, log).is_some());
    let seats = Seats::new(next);
    let world = World { before: head, after: next, seats, installed: installed(causes) };
    after.activate(&world);
    after.move_slots(&world);
    after.move_tasks(&world);
    after.hold(head, next);
    after.start(next);
    after.number(next);
    after
}

/// The two memberships between which units move.
struct World<'h> {
    before: &'h Head,
    after: &'h Head,
    /// The seats of `after`.
    seats: Seats<'h>,
    /// The units whose next sets have installed.
    installed: BTreeMap<Unit, Epoch>,
}

fn installed(causes: &BTreeSet<Cause>) -> BTreeMap<Unit, Epoch> {
    let all = causes.iter().filter_map(|cause| match cause {
        Cause::Installed(epoch, units) => Some(units.iter().map(|&unit| (unit, *epoch))),
        Cause::Advance(..)
        | Cause::Listed { .. }
        | Cause::Holds(_)
        | Cause::Broken(..)
        | Cause::Drained(_) => None,
    });
    // By several nodes that each claim it, the highest epoch: it is the one that may be pending.
    let mut installed = BTreeMap::new();
    for (unit, epoch) in all.flatten() {
        let known = installed.entry(unit).or_insert(epoch);
        *known = epoch.max(*known);
    }
    installed
}

impl World<'_> {
    fn is_seated(&self, log: LogId) -> bool {
        self.seats.of(log).is_some()
    }

    /// The node with the disk of a log: a node that restarted keeps what it had, though it is empty.
    fn node_of(&self, log: LogId) -> Option<NodeId> {
        self.seats.of_disk(log.disk).map(Seat::node)
    }

    /// Where a unit is, or is on its way to; nothing if all of that is lost.
    fn designated(&self, share: &Share) -> Option<ContainerId> {
        let next = share.next.as_ref().filter(|next| self.is_seated(next.owner()));
        let active = Some(&share.active);
        let place = |set: &Set| {
            let node = self.node_of(set.owner())?;
            Some(ContainerId { node, container: set.container })
        };
        next.or(active).and_then(place)
    }

    /// Where the containers that take units are, in order.
    fn containers(&self) -> Vec<ContainerId> {
        let active = self.after.seats.iter().filter(|seat| is_active(seat));
        let of = |seat: &Seat| {
            let node = seat.node();
            (0..seat.member.containers).map(move |container| ContainerId { node, container })
        };
        active.flat_map(of).collect()
    }

    /// Makes a unit go to a container, if it is not there or on its way.
    fn send(&self, share: &mut Share, to: ContainerId) {
        let seat = self.after.seat(to.node).expect("units go to members");
        let (number, to) = (self.after.number, (seat.log, to.container));
        if !self.is_seated(share.active.owner()) {
            // Nobody is left who could say what it held.
            *share = Share { active: Set::of(number, to), next: None, came: None };
        } else if share.next.as_ref().map_or_else(|| !share.active.has(to), |next| !next.has(to)) {
            share.next = Some(Set::of(number, to));
        }
    }
}

impl Assignment {
    /// Gives new members numbers.
    fn number(&mut self, next: &Head) {
        self.numbers.retain(|&log, _| seat_of(next, log).is_some());
        let mut taken: BTreeSet<u16> = self.numbers.values().copied().collect();
        for seat in &next.seats {
            if self.numbers.contains_key(&seat.log) {
                continue;
            }
            // There are fewer members than numbers: a view of so many would be too large to be sent.
            let fresh = |last: u16| last.checked_add(1).unwrap_or(1);
            let mut number = fresh(self.last_number);
            while taken.contains(&number) && taken.len() < usize::from(u16::MAX) {
                number = fresh(number);
            }
            taken.insert(number);
            self.numbers.insert(seat.log, number);
            self.last_number = number;
        }
    }

    fn heed(&mut self, cause: &Cause, number: Epoch) {
        match cause {
            Cause::Installed(..) => {}
            Cause::Advance(topology, phase) => {
                let topology = &mut self.topologies[usize::from(*topology)];
                // Two coordinators may have asked for two phases; one at a time.
                if topology.may_go_on_to(*phase) {
                    topology.phase = *phase;
                }
            }
            Cause::Listed { topology, prototype, by, count } => {
                let topology = &mut self.topologies[usize::from(*topology)];
                let maker = topology.spouts.get_mut(prototype);
                let maker = maker.expect("only what is wanted is heeded");
                // Of two who listed, one makes the tokens.
                if maker.is_none() {
                    *maker = Some(*by);
                    if let Some(partitions) = &mut topology.partitions {
                        partitions.insert(*prototype, *count);
                    }
                }
            }
            Cause::Holds(log) => {
                self.holders.insert(*log);
            }
            Cause::Broken(node, _) => {
                self.anew.insert(*node, number);
            }
            Cause::Drained(log) => {
                self.drained.insert(*log);
            }
        }
    }

    fn shares_mut(&mut self) -> impl Iterator<Item = (Unit, &mut Share)> {
        let slots = (0..).zip(&mut self.slots).map(|(slot, share)| (Unit::Slot(slot), share));
        let tasks = (0..).zip(&mut self.topologies).flat_map(|(topology, state)| {
            state.tasks.iter_mut().flat_map(move |(&prototype, shares)| {
                let unit = move |task| Unit::Task { topology, prototype, task };
                (0..).zip(shares).map(move |(task, share)| (unit(task), share))
            })
        });
        slots.chain(tasks)
    }

    /// Makes those next sets active that have installed.
    fn activate(&mut self, world: &World<'_>) {
        let (number, former) = (world.after.number, Seats::new(world.before));
        for (unit, share) in self.shares_mut() {
            let Some(next) = &share.next else { continue };
            let has_installed = world.installed.get(&unit) == Some(&next.epoch);
            if !has_installed || !world.is_seated(next.owner()) {
                continue;
            }
            let before = std::mem::replace(&mut share.active, next.clone());
            share.next = None;
            if before.owner() == share.active.owner() && before.container == share.active.container
            {
                continue; // It was called back, and never went.
            }
            let node = former.of(before.owner()).map(Seat::node);
            let from = |node| ContainerId { node, container: before.container };
            share.came = node.map(|node| Came { from: from(node), at: number });
        }
    }

    /// Key slots: see [`SlotTable`].
    fn move_slots(&mut self, world: &World<'_>) {
        let active = world.after.seats.iter().filter(|seat| is_active(seat));
        let nodes: Vec<_> = active.map(Seat::node).collect();
        if nodes.is_empty() {
            return self.rescue(world);
        }
        // A name that no node has stands for what is lost.
        let owners = self
            .slots
            .iter()
            .map(|share| world.designated(share).map_or(NodeId(0), |place| place.node));
        let table = SlotTable::of(owners.collect()).next(&nodes);
        for (slot, share) in (0..).zip(&mut self.slots) {
            let node = table.owner(Slot(slot));
            let containers =
                world.after.seat(node).expect("an owner is a member").member.containers;
            world.send(share, ContainerId { node, container: Slot(slot).container(containers) });
        }
    }

    /// Where all leave, somebody has to be the last: nothing moves but what has no owner any more,
    /// or was on its way to one that is gone.
    fn rescue(&mut self, world: &World<'_>) {
        let last = world.after.seats.iter().find(|seat| may_own(world.after, seat));
        let node = last.expect("a view has a member that votes").node();
        for (_, share) in self.shares_mut() {
            let is_lost = |set: &Set| !world.is_seated(set.owner());
            if is_lost(&share.active) {
                world.send(share, ContainerId { node, container: 0 });
            } else if share.next.as_ref().is_some_and(is_lost) {
                let back = world.designated(share).expect("its owner has a seat");
                world.send(share, back);
            }
        }
    }

    /// Numbered instances, spread evenly over containers.
    fn move_tasks(&mut self, world: &World<'_>) {
        let containers = world.containers();
        if containers.is_empty() {
            return;
        }
        for topology in &mut self.topologies {
            for (&prototype, shares) in &mut topology.tasks {
                let seed = topology.hash ^ u64::from(prototype);
                let wanted: Vec<_> = shares.iter().map(|share| world.designated(share)).collect();
                for (share, to) in shares.iter_mut().zip(spread(seed, &wanted, &containers)) {
                    world.send(share, to);
                }
            }
        }
    }

    /// The numbered instances of the first view.
    pub(super) fn place_first_tasks(&mut self, founder: &Member, log: LogId) {
        let of = |container| ContainerId { node: founder.node, container };
        let containers: Vec<_> = (0..founder.containers).map(of).collect();
        for topology in &mut self.topologies {
            for (&prototype, shares) in &mut topology.tasks {
                let seed = topology.hash ^ u64::from(prototype);
                let places = spread(seed, &vec![None; shares.len()], &containers);
                for (share, to) in shares.iter_mut().zip(places) {
                    share.active = Set::of(Epoch(1), (log, to.container));
                }
            }
        }
    }

    /// Where every process that may have held a token is gone, nothing is read any more and no state is left
    /// either: topologies that run begin anew.
    ///
    /// A process that has taken the place of another holds nothing until it has asked to: after a cold
    /// restart the new ones come one by one, while the view still names the old ones.
    fn hold(&mut self, before: &Head, head: &Head) {
        let had_holders = !self.holders.is_empty();
        let (seats, former) = (Seats::new(head), Seats::new(before));
        self.holders.retain(|&log| seats.of(log).is_some());
        if had_holders && self.holders.is_empty() {
            // Partitions that outlive their nodes are found again on the disks.
            let running = self.topologies.iter_mut();
            let running = running.filter(|t| t.phase == Phase::Running && t.partitions.is_none());
            running.flat_map(|t| t.spouts.values_mut()).for_each(|maker| *maker = None);
        }
        let mut makers = self.topologies.iter().flat_map(|t| t.spouts.values());
        if self.holders.is_empty() && makers.any(Option::is_some) {
            self.holders.extend(head.seats.iter().filter(|seat| is_active(seat)).map(|s| s.log));
        }
        let has_come_in = |seat: &&Seat| {
            is_active(seat) && former.of(seat.log).is_some_and(|was| was.state == State::Joining)
        };
        self.holders.extend(head.seats.iter().filter(has_come_in).map(|seat| seat.log));
    }

    /// Topologies run once enough members are there and have what is theirs, and do not stop when there are
    /// fewer again.
    fn start(&mut self, head: &Head) {
        let active = head.seats.iter().filter(|seat| is_active(seat)).count();
        if active >= self.expected_nodes as usize && self.moving() == 0 {
            let phases = self.topologies.iter_mut().map(|topology| &mut topology.phase);
            phases.filter(|phase| **phase == Phase::Waiting).for_each(|p| *p = Phase::Running);
        }
    }
}
