//! The table that assigns slots to nodes.
//!
//! Consistent hashing alone is 9 to 25 % uneven and, with a bound on the load, a change of one node
//! ripples through others. So the ring only *prefers*: the table of a new view starts from the one
//! before, slots without an owner go to the first node of their ring order that has room, and a newcomer
//! takes its share from the fullest. A leave moves the slots of who left and nothing else, a join moves
//! one share and nothing else, and each node has ⌊S/N⌋ or ⌈S/N⌉ slots.
//!
//! The ring is asked when a view changes; the path of an event reads an array.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use consistent_hash::{Node, RingHash, StaticHashRing};
use membership::NodeId;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// A share of the key space: the unit of ownership and of handoff.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Slot(pub u16);

impl Slot {
    /// The slot of a key hash, among `slots` (a power of two, at most 65,536).
    ///
    /// It comes from the middle of the hash: the maps of the instances use both ends.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "at most 65,536 slots")]
    pub fn of(hash: u64, slots: usize) -> Self {
        debug_assert!(slots.is_power_of_two());
        Self(((hash >> 32) as usize & (slots - 1)) as u16)
    }

    /// The container that has this slot, on a node with so many.
    #[inline(always)]
    pub fn container(self, containers: u16) -> u16 {
        self.0 % containers
    }
}

/// Who owns which slot.
#[derive(Clone, Debug, Eq, PartialEq, Serialize, Deserialize)]
pub struct SlotTable {
    owners: Vec<NodeId>,
}

/// What a new table changed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Moves {
    /// Slots with another owner than before.
    pub moved: usize,
}

/// Virtual nodes per node on the ring. Fewer make the orders of different slots alike, so that the
/// slots of a lost node pile up on its neighbour; more cost time when a view changes.
const VIRTUAL: usize = 64;

impl SlotTable {
    /// The table of a cluster of one node.
    pub fn of_one(node: NodeId, slots: usize) -> Self {
        assert!(slots.is_power_of_two() && slots <= 1 << 16, "config was checked");
        Self { owners: vec![node; slots] }
    }

    /// A table with these owners, slot by slot; an owner that is no member stands for a slot without one.
    pub fn of(owners: Vec<NodeId>) -> Self {
        assert!(owners.len().is_power_of_two() && owners.len() <= 1 << 16, "views are checked");
        Self { owners }
    }

    /// The table of a new set of members, starting from this one; `members` is not empty.
    #[must_use]
    pub fn next(&self, members: &[NodeId]) -> Self {
        let ring = ring(members);
        let mut loads: BTreeMap<NodeId, usize> = members.iter().map(|&node| (node, 0)).collect();
        for owner in &self.owners {
            if let Some(load) = loads.get_mut(owner) {
                *load += 1;
            }
        }
        let (slots, nodes) = (self.owners.len(), loads.len());
        let mut owners = self.owners.clone();
        let newcomers: Vec<_> = members.iter().copied().filter(|node| loads[node] == 0).collect();
        let (least, most) = (slots / nodes, slots.div_ceil(nodes));
        for (slot, owner) in owners.iter_mut().enumerate() {
            if loads.contains_key(owner) {
                continue;
            }
            let order: Vec<_> = ring.calc_candidates(&(slot as u64)).map(|node| node.key).collect();
            // First all get their least, so that nobody stays behind and has to be given more later.
            let room = |bound| order.iter().copied().find(|node| loads[node] < bound);
            *owner = room(least).or_else(|| room(most)).expect("N * ceil(S/N) >= S");
            *loads.get_mut(owner).expect("a candidate is a member") += 1;
        }
        let mut table = Self { owners };
        for node in newcomers {
            table.fill(node, least, &mut loads, &ring);
        }
        // Who had to take back what was on its way to somebody who died, or goes on with what that one had, may have
        // more than its part, and others less.
        while loads.values().any(|&load| load > most || load < least) {
            let emptiest = loads.iter().min_by_key(|&(&node, &load)| (load, node));
            let (&node, &load) = emptiest.expect("there are members");
            table.fill(node, load + 1, &mut loads, &ring);
        }
        table
    }

    /// Gives `node` slots of the fullest nodes, those that prefer it first, until it has `share`.
    fn fill(
        &mut self,
        node: NodeId,
        share: usize,
        loads: &mut BTreeMap<NodeId, usize>,
        ring: &StaticHashRing<'_, NodeId, (), StableHash>,
    ) {
        let rank = |slot: usize| {
            ring.calc_candidates(&(slot as u64)).position(|candidate| candidate.key == node)
        };
        let mut wanted: BTreeMap<NodeId, Vec<(usize, usize)>> = BTreeMap::new();
        for (slot, &owner) in self.owners.iter().enumerate().filter(|&(_, &owner)| owner != node) {
            wanted
                .entry(owner)
                .or_default()
                .push((rank(slot).expect("a member is on the ring"), slot));
        }
        for slots in wanted.values_mut() {
            slots.sort_unstable_by(|one, two| two.cmp(one)); // The most wanted last.
        }
        while loads[&node] < share {
            let (&fullest, _) =
                loads.iter().max_by_key(|&(&id, &load)| (load, id)).expect("there are members");
            let taken = wanted.get_mut(&fullest).and_then(Vec::pop);
            let (_, slot) = taken.expect("who has more than the share has a slot to give");
            self.owners[slot] = node;
            *loads.get_mut(&fullest).expect("a member") -= 1;
            *loads.get_mut(&node).expect("a member") += 1;
        }
    }

    /// The node that owns a slot.
    #[inline(always)]
    pub fn owner(&self, slot: Slot) -> NodeId {
        self.owners[usize::from(slot.0)]
    }

    /// The owners of all slots, in order.
    pub fn owners(&self) -> &[NodeId] {
        &self.owners
    }

    /// How many slots a node has.
    pub fn count(&self, node: NodeId) -> usize {
        self.owners.iter().filter(|&&owner| owner == node).count()
    }

    /// What changed since another table of the same slots.
    pub fn moves_since(&self, before: &Self) -> Moves {
        let moved =
            self.owners.iter().zip(&before.owners).filter(|(now, then)| now != then).count();
        Moves { moved }
    }
}

fn ring<'a>(members: &[NodeId]) -> StaticHashRing<'a, NodeId, (), StableHash> {
    let nodes = members.iter().map(|&node| Node::new(node).quantity(VIRTUAL));
    StaticHashRing::new(StableHash, nodes)
}

/// The order in which the containers of a cluster are preferred for one of several instances, and so
/// where each of `count` instances lives: evenly, at most ⌈count / containers⌉ in each.
///
/// Instances are few, so they are not left to the hash of a slot. The order is by rendezvous: a
/// container that comes or goes moves the instances that it takes or held, and rarely another.
pub fn place(seed: u64, count: u32, containers: &[crate::ContainerId]) -> Vec<crate::ContainerId> {
    spread(seed, &vec![None; count as usize], containers)
}

/// Like [`place`], for instances that are somewhere already: each stays, unless its container is gone or
/// has more than its part. `containers` is in order, and not empty unless there are no instances.
pub fn spread(
    seed: u64,
    present: &[Option<crate::ContainerId>],
    containers: &[crate::ContainerId],
) -> Vec<crate::ContainerId> {
    let most = present.len().div_ceil(containers.len().max(1));
    let mut loads = vec![0usize; containers.len()];
    let mut stay = |to: &Option<crate::ContainerId>| {
        let at = containers.binary_search(to.as_ref()?).ok().filter(|&at| loads[at] < most)?;
        loads[at] += 1;
        Some(at)
    };
    let staying: Vec<_> = present.iter().map(&mut stay).collect();
    (0u32..)
        .zip(staying)
        .map(|(instance, stays)| {
            if let Some(at) = stays {
                return containers[at];
            }
            let weight = |&at: &usize| {
                let to = containers[at];
                let mut bytes = [0; 22];
                bytes[..8].copy_from_slice(&seed.to_le_bytes());
                bytes[8..12].copy_from_slice(&instance.to_le_bytes());
                bytes[12..20].copy_from_slice(&to.node.0.to_le_bytes());
                bytes[20..].copy_from_slice(&to.container.to_le_bytes());
                xxh3_64(&bytes)
            };
            let open = (0..containers.len()).filter(|&at| loads[at] < most);
            let at = open.max_by_key(weight).expect("the bounds of all add up to at least `count`");
            loads[at] += 1;
            containers[at]
        })
        .collect()
}

/// Hashes what `consistent_hash` gives through `std::hash`, in bytes that do not depend on the machine.
#[derive(Debug)]
struct StableHash;

impl RingHash for StableHash {
    fn hash_item<T: Hash>(&self, item: &T) -> u64 {
        let mut hasher = StableHasher::default();
        item.hash(&mut hasher);
        hasher.finish()
    }
}

#[derive(Default)]
struct StableHasher {
    bytes: Vec<u8>,
}

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn write_usize(&mut self, number: usize) {
        self.write(&(number as u64).to_le_bytes());
    }

    fn finish(&self) -> u64 {
        xxh3_64(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ContainerId;

    fn ids(nodes: &[u64]) -> Vec<NodeId> {
        nodes.iter().map(|&node| NodeId(node.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect()
    }

    /// Nodes of different builds must agree on this.
    #[test]
    fn the_table_is_pinned() {
        let members = ids(&[1, 2, 3]);
        let table = SlotTable::of_one(members[0], 32).next(&members);
        let owners: Vec<_> = table
            .owners()
            .iter()
            .map(|owner| members.iter().position(|member| member == owner).unwrap())
            .collect();
        assert_eq!(
            owners,
            [
                2, 2, 1, 2, 0, 1, 1, 1, 2, 1, 0, 1, 0, 2, 2, 1, 1, 2, 2, 2, 0, 2, 0, 1, 1, 0, 0, 0,
                0, 0, 0, 1
            ]
        );
    }

    proptest! {
        // Each case builds many rings, slowly in debug.
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Whoever has what, and whatever is lost: everybody has ⌊S/N⌋ or ⌈S/N⌉ in the end.
        #[test]
        fn any_table_becomes_an_even_one(
            bits in 4u32..8, nodes in 1u64..8, seed in any::<u64>(),
        ) {
            let members = ids(&(0..nodes).collect::<Vec<_>>());
            let slots = 1usize << bits;
            let mut random = seed | 1;
            let owners = (0..slots).map(|_| {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                // One in so many is of nobody, and low numbers have more than high ones.
                let at = usize::try_from((random >> 33) % (nodes * nodes + 1)).unwrap().isqrt();
                members.get(at).copied().unwrap_or(NodeId(0))
            });
            let table = SlotTable::of(owners.collect()).next(&members);
            let (least, most) = (slots / members.len(), slots.div_ceil(members.len()));
            for node in members {
                let load = table.owners().iter().filter(|owner| **owner == node).count();
                prop_assert!((least..=most).contains(&load), "{load} of {slots}, {nodes} nodes");
            }
        }

        /// The bounds of the contract: a change of one node moves at most 1.1/N of the slots (or one
        /// slot more than a share, where shares are small), and everybody has ⌊S/N⌋ or ⌈S/N⌉.
        #[test]
        fn a_change_of_one_node_moves_its_share_and_nothing_else(
            bits in 4u32..9, changes in prop::collection::vec((any::<bool>(), 0u64..24), 1..16),
        ) {
            let slots = 1usize << bits;
            let mut members = ids(&[100]);
            let mut table = SlotTable::of_one(members[0], slots);
            for (is_join, which) in changes {
                let node = ids(&[which])[0];
                let before = (table.clone(), members.clone());
                if is_join && members.len() < slots / 2 && !members.contains(&node) {
                    members.push(node);
                } else if !is_join && members.len() > 1 {
                    members.remove(usize::try_from(which).unwrap() % members.len());
                } else {
                    continue;
                }
                table = table.next(&members);
                let larger = members.len().max(before.1.len());
                let moved = table.moves_since(&before.0).moved;
                let bound = (1.1 * slots as f64 / larger as f64).max(slots.div_ceil(larger) as f64);
                prop_assert!(moved as f64 <= bound, "{moved} of {slots} moved, {larger} nodes");
                for (at, (&now, &then)) in table.owners().iter().zip(before.0.owners()).enumerate() {
                    let is_explained = now == then || !members.contains(&then) || !before.1.contains(&now);
                    prop_assert!(is_explained, "slot {at} moved between two nodes that stayed");
                }
                for &member in &members {
                    let count = table.count(member);
                    prop_assert!(count <= slots.div_ceil(members.len()));
                    prop_assert!(count >= slots / members.len());
                }
            }
        }

        #[test]
        fn instances_are_placed_evenly_and_stay(count in 1u32..64, containers in 1u16..9, nodes in 1u64..6) {
            let all: Vec<_> = ids(&(0..=nodes).collect::<Vec<_>>())
                .into_iter()
                .flat_map(|node| (0..containers).map(move |container| ContainerId { node, container }))
                .collect();
            let fewer = &all[..usize::from(containers) * usize::try_from(nodes).unwrap()];
            let (before, after) = (place(7, count, fewer), place(7, count, &all));
            for (placed, among) in [(&before, fewer), (&after, &all[..])] {
                for container in among {
                    let here = placed.iter().filter(|&to| to == container).count();
                    prop_assert!(here <= (count as usize).div_ceil(among.len()));
                }
            }
            prop_assert_eq!(place(7, count, &all), after);
        }
    }
}
