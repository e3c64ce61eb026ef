//! The assignment of the next view.
//!
//! It starts from the one before: what is heeded of the causes, then each unit, which stays where it is
//! or is on its way to unless its node goes or has more than its part. So a join or leave moves one
//! node's part and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use membership::view_log::{DiskId, Head, LogId, Seat, Seats, State};
use membership::{Epoch, Member, NodeId, Run};
use pe::{Phase, Unit};
use routing::{ContainerId, Slot, SlotTable, spread};
use xxhash_rust::xxh3::xxh3_64;

use super::{Assignment, Came, Cause, Copies, Heir, Set, Share, is_active, may_own, seat_of};

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
    after.bereave(head, next);
    after.drained.retain(|&log| seat_of(next, log).is_some());
    after.stores.retain(|&log, _| seat_of(next, log).is_some());
    let seats = Seats::new(next);
    let installed = installed(causes);
    let stores = after.stores.clone();
    let is_durable = after.is_durable;
    let is_given_up = after.given_up == next.number;
    let mut world = World {
        before: head,
        after: next,
        seats,
        stores,
        is_durable,
        installed,
        is_given_up,
        is_urgent: false,
    };
    after.activate(&world);
    world.is_urgent = after.shares().any(|(_, share)| world.is_to_be_taken_over(share));
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
    /// The seats of `after`, and what their members have on their disks.
    seats: Seats<'h>,
    stores: BTreeMap<LogId, Run>,
    /// Whether who is gone may come back with its copies.
    is_durable: bool,
    /// The units whose next sets have installed.
    installed: BTreeMap<Unit, Epoch>,
    /// Whether what nobody has is given up.
    is_given_up: bool,
    /// Whether there are units that nobody serves and somebody can take over: that goes first, and what has an owner
    /// stays where it is until then.
    is_urgent: bool,
}

fn installed(causes: &BTreeSet<Cause>) -> BTreeMap<Unit, Epoch> {
    let all = causes.iter().filter_map(|cause| match cause {
        Cause::Installed(epoch, units) | Cause::Replicated(epoch, units) => {
            Some(units.iter().map(|&unit| (unit, *epoch)))
        }
        Cause::Advance(..)
        | Cause::Listed { .. }
        | Cause::Holds(_)
        | Cause::Broken(..)
        | Cause::Drained(_)
        | Cause::Inherited(..)
        | Cause::Merged(..)
        | Cause::Forgot(_)
        | Cause::Stored(..)
        | Cause::GivenUp(_) => None,
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
    fn is_served(&self, share: &Share) -> bool {
        !share.is_waiting(&self.seats)
    }

    /// The node with the disk of a log: a node that restarted keeps what it had, though it is empty.
    fn node_of(&self, log: LogId) -> Option<NodeId> {
        self.seats.of_disk(log.disk).map(Seat::node)
    }

    /// Where a unit is, or is on its way to; nothing if all of that is lost.
    fn designated(&self, unit: Unit, share: &Share) -> Option<ContainerId> {
        let next = share.next.as_ref().filter(|next| next.owner_seat(&self.seats).is_some());
        let place = |log, container| {
            let node = self.node_of(log)?;
            Some(ContainerId { node, container })
        };
        if let Some(next) = next {
            return place(next.owner(), next.container);
        }
        if self.is_served(share) {
            return place(share.active.owner(), share.active.container);
        }
        if let Some(heir) = self.heir(share) {
            return Some(ContainerId { node: heir.node(), container: container_at(unit, heir) });
        }
        place(share.active.owner(), share.active.container)
    }

    fn is_to_be_taken_over(&self, share: &Share) -> bool {
        !self.is_served(share) && self.heir(share).is_some()
    }

    /// Where a unit goes in this view: to a place that was found for it, unless it is served and others are not.
    fn place(&self, unit: Unit, share: &Share, found: ContainerId) -> ContainerId {
        let stays = self.is_urgent && self.is_served(share);
        self.designated(unit, share).filter(|_| stays).unwrap_or(found)
    }

    /// Who has a copy of a unit.
    fn left(&self, share: &Share) -> Vec<&Seat> {
        Copies { seats: &self.seats, stores: &self.stores }.of(share)
    }

    /// Who goes on with a unit whose owner is gone: the first that has a replica.
    fn heir(&self, share: &Share) -> Option<&Seat> {
        let left = self.left(share);
        let find = |is: &dyn Fn(&Seat) -> bool| left.iter().copied().find(|seat| is(seat));
        find(&is_active).or_else(|| find(&|seat| may_own(self.after, seat)))
    }

    /// Who is to have replicas of a unit beside its owner: those that come first by a number drawn for the unit and
    /// the node (rendezvous hashing, Thaler and Ravishankar 1998), so a member more or less changes its part only.
    fn others(&self, body_replicas: u32, unit: Unit, owner: NodeId) -> Vec<LogId> {
        let active = self.after.seats.iter().filter(|seat| is_active(seat));
        let mut drawn: Vec<_> = active
            .filter(|seat| seat.node() != owner)
            .map(|seat| (draw(unit, seat.node()), seat.log))
            .collect();
        drawn.sort_unstable();
        drawn.truncate((body_replicas as usize).saturating_sub(1));
        drawn.into_iter().map(|(_, log)| log).collect()
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

    /// Makes a unit go to a container and have replicas, if they are not there or on their way.
    fn send(&self, replicas: u32, unit: Unit, share: &mut Share, to: ContainerId) {
        let number = self.after.number;
        let set = |logs: Vec<LogId>, container| Set { epoch: number, logs, container };
        let wanted = || {
            let seat = self.after.seat(to.node).expect("units go to members");
            let others = self.others(replicas, unit, to.node);
            set(std::iter::once(seat.log).chain(others).collect(), to.container)
        };
        let next = share.next.as_ref().filter(|next| next.is_whole(&self.seats));
        let has_it = |&log: &LogId| share.active.seat(log, &self.seats).is_some();
        if !self.is_served(share) {
            let left = self.left(share);
            if left.is_empty() && (self.is_given_up || !self.is_durable) {
                // Nobody is left who could say what it held.
                *share = Share { active: wanted(), next: None, came: None };
                return;
            }
            // Without any who is left, it waits until one comes back, and what comes for it waits somewhere.
            let Some(heir) = self.heir(share) else {
                // Those that are left leave as well, and give it to somebody else.
                if next.is_none() {
                    share.next = Some(wanted());
                }
                return;
            };
            // Whoever was on its way to have it has it from one that is left. Otherwise, and after it was with nobody,
            // those that are left go on with it; where else it should be is for later.
            let has_copy = |next: &&Set| left.iter().any(|seat| seat.log == next.owner());
            if next.filter(|next| !self.is_durable || has_copy(next)).is_none() {
                let others = left.iter().map(|seat| seat.log).filter(|&log| log != heir.log);
                let logs = std::iter::once(heir.log).chain(others).collect();
                share.next = Some(set(logs, container_at(unit, heir)));
            }
            return;
        }
        if !share.active.is_whole(&self.seats) {
            // Until the set is without those that are gone, nothing more is committed.
            let logs = share.active.logs.iter().copied().filter(has_it);
            let left = set(logs.collect(), share.active.container);
            if next.is_none_or(|next| (&next.logs, next.container) != (&left.logs, left.container))
            {
                share.next = Some(left);
            }
            return;
        }
        let wanted = wanted();
        let is_wanted = |set: &Set| (&set.logs, set.container) == (&wanted.logs, wanted.container);
        let is_on_its_way = match next {
            Some(next) => next.has((wanted.owner(), wanted.container)),
            None => share.next.is_none() && is_wanted(&share.active),
        };
        if !is_on_its_way {
            share.next = Some(wanted);
        }
    }
}

/// In which container of a member a unit is, that was in none of its before.
fn container_at(unit: Unit, seat: &Seat) -> u16 {
    let containers = seat.member.containers;
    match unit {
        Unit::Slot(slot) => Slot(slot).container(containers),
        Unit::Task { task, .. } => u16::try_from(task % u32::from(containers)).expect("below it"),
    }
}

/// A number for a unit and a node, as if by chance, and always the same.
fn draw(unit: Unit, node: NodeId) -> u64 {
    let mut bytes = [0; 24];
    let (kind, one, two) = match unit {
        Unit::Slot(slot) => (0, u32::from(slot), 0),
        Unit::Task { topology, prototype, task } => {
            (1, u32::from(topology) << 16 | u32::from(prototype), task)
        }
    };
    bytes[..8].copy_from_slice(&node.0.to_le_bytes());
    bytes[8..12].copy_from_slice(&one.to_le_bytes());
    bytes[12..16].copy_from_slice(&two.to_le_bytes());
    bytes[16] = kind;
    xxh3_64(&bytes)
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

    /// Notes which disks have gone that may have had tokens which outlive them, and which have come back.
    fn bereave(&mut self, before: &Head, next: &Head) {
        let gone = before.seats.iter().filter(|seat| next.seat_of(seat.disk()).is_none());
        for seat in gone {
            let disk = seat.disk();
            let had_tokens = self.books.remove(&disk) && !self.drained.contains(&seat.log);
            // Of what another has, it has nothing until it has forgotten that.
            let is_disowned = self.heirs.get(&disk).is_some_and(|heir| !heir.is_forgotten);
            if had_tokens && !is_disowned {
                self.orphans.insert(disk, next.number);
            }
        }
        let back = self.orphans.extract_if(.., |&disk, _| next.seat_of(disk).is_some());
        self.books.extend(back.map(|(disk, _)| disk));
    }

    fn heed(&mut self, cause: &Cause, number: Epoch) {
        match cause {
            Cause::Installed(..) | Cause::Replicated(..) => {}
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
            Cause::Inherited(disk, gone, by) => {
                // Of two who have it, one inherits.
                if self.orphans.remove(disk).is_some() {
                    let heir =
                        Heir { log: *by, gone: *gone, has_merged: false, is_forgotten: false };
                    self.heirs.insert(*disk, heir);
                }
            }
            Cause::Merged(disk, _) => {
                if let Some(heir) = self.heirs.get_mut(disk) {
                    heir.has_merged = true;
                }
                self.settle_heir(*disk);
            }
            Cause::Forgot(disk) => {
                if let Some(heir) = self.heirs.get_mut(disk) {
                    heir.is_forgotten = true;
                }
                self.settle_heir(*disk);
            }
            Cause::Stored(log, since) => {
                self.stores.insert(*log, *since);
            }
            Cause::GivenUp(_) => self.given_up = number,
        }
    }

    /// Nothing is to be known any more of an inheritance that both have acted on. What the disk had inherited itself went
    /// with it.
    fn settle_heir(&mut self, disk: DiskId) {
        let heir = self.heirs.get(&disk).copied();
        let Some(heir) = heir.filter(|heir| heir.has_merged && heir.is_forgotten) else { return };
        self.heirs.remove(&disk);
        let its = self.heirs.values_mut().filter(|its| its.log.disk == disk);
        its.for_each(|its| its.log = heir.log);
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
            if !has_installed || next.owner_seat(&world.seats).is_none() {
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
            .zip(0..)
            .map(|(share, slot)| world.designated(Unit::Slot(slot), share))
            .map(|place| place.map_or(NodeId(0), |place| place.node));
        let table = SlotTable::of(owners.collect()).next(&nodes);
        let replicas = self.replicas;
        for (slot, share) in (0..).zip(&mut self.slots) {
            let node = table.owner(Slot(slot));
            let containers =
                world.after.seat(node).expect("an owner is a member").member.containers;
            let to = ContainerId { node, container: Slot(slot).container(containers) };
            let unit = Unit::Slot(slot);
            let to = world.place(unit, share, to);
            world.send(replicas, unit, share, to);
        }
    }

    /// Where all leave, somebody has to be the last: nothing moves but what has no owner any more,
    /// or was on its way to one that is gone.
    fn rescue(&mut self, world: &World<'_>) {
        let last = world.after.seats.iter().find(|seat| may_own(world.after, seat));
        let node = last.expect("a view has a member that votes").node();
        let replicas = self.replicas;
        for (unit, share) in self.shares_mut() {
            let is_lost = |set: &Set| !set.is_whole(&world.seats);
            if !world.is_served(share) {
                world.send(replicas, unit, share, ContainerId { node, container: 0 });
            } else if is_lost(&share.active) || share.next.as_ref().is_some_and(is_lost) {
                let back = world.designated(unit, share).expect("its owner has a seat");
                world.send(replicas, unit, share, back);
            }
        }
    }

    /// Numbered instances, spread evenly over containers.
    fn move_tasks(&mut self, world: &World<'_>) {
        let containers = world.containers();
        if containers.is_empty() {
            return;
        }
        let replicas = self.replicas;
        for (topology, state) in (0..).zip(&mut self.topologies) {
            for (&prototype, shares) in &mut state.tasks {
                let seed = state.hash ^ u64::from(prototype);
                let unit = |task| Unit::Task { topology, prototype, task };
                let all = (0..).zip(shares.iter());
                let wanted: Vec<_> =
                    all.map(|(task, share)| world.designated(unit(task), share)).collect();
                let places = spread(seed, &wanted, &containers);
                for ((task, share), to) in (0..).zip(shares.iter_mut()).zip(places) {
                    let to = world.place(unit(task), share, to);
                    world.send(replicas, unit(task), share, to);
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
        // Who made tokens, or inherits some, has what it never took from anybody.
        let makers = self.topologies.iter().flat_map(|t| t.spouts.values()).flatten();
        let owners = makers.chain(self.heirs.values().map(|heir| &heir.log));
        self.holders.extend(owners.filter(|&&log| seats.of(log).is_some()));
        let outlive = self.topologies.iter().any(|t| t.partitions.is_some()) && self.replicas > 1;
        self.books.extend(self.holders.iter().map(|log| log.disk).filter(|_| outlive));
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
