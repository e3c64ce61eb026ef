//! Distances in the graph of prototypes, and the ways in it that go round.
//!
//! Works on positions alone, so that it can be tested without a file. What has a way to itself could wait for
//! itself when queues are full, unless somebody on the way does not wait; so what is left of a cycle without
//! those edges is named.

use std::collections::VecDeque;

use super::plan::Edge;

/// For each prototype its longest distance from those without predecessors. What lies on one cycle has one
/// distance, so an edge that leads nowhere further is part of a cycle.
pub(super) fn stages(prototypes: usize, edges: &[Edge]) -> Vec<usize> {
    let group = groups(prototypes, edges);
    let onward: Vec<_> = edges.iter().filter(|edge| group[edge.from] != group[edge.to]).collect();
    let mut waiting = vec![0_usize; prototypes];
    onward.iter().for_each(|edge| waiting[group[edge.to]] += 1);
    let mut stages = vec![0; prototypes];
    let is_first = |&at: &usize| group[at] == at && waiting[at] == 0;
    let mut ready: Vec<usize> = (0..prototypes).filter(is_first).collect();
    while let Some(from) = ready.pop() {
        for edge in onward.iter().filter(|edge| group[edge.from] == from) {
            let to = group[edge.to];
            stages[to] = stages[to].max(stages[from] + 1);
            waiting[to] -= 1;
            if waiting[to] == 0 {
                ready.push(to);
            }
        }
    }
    (0..prototypes).map(|at| stages[group[at]]).collect()
}

/// For each prototype the first of those that it has a way to and from.
fn groups(prototypes: usize, edges: &[Edge]) -> Vec<usize> {
    let next = next(prototypes, edges);
    let reached: Vec<Vec<bool>> = (0..prototypes).map(|at| reach([at], &next)).collect();
    let is_with = |one: usize, other: usize| reached[one][other] && reached[other][one];
    let first = |at| (0..at).find(|&other| is_with(at, other)).unwrap_or(at);
    (0..prototypes).map(first).collect()
}

/// For each prototype whom it feeds.
fn next(prototypes: usize, edges: &[Edge]) -> Vec<Vec<usize>> {
    let mut next = vec![Vec::new(); prototypes];
    edges.iter().for_each(|edge| next[edge.from].push(edge.to));
    next
}

/// Where ways of at least one edge lead.
fn reach(from: impl IntoIterator<Item = usize>, next: &[Vec<usize>]) -> Vec<bool> {
    let mut reached = vec![false; next.len()];
    let mut ahead: Vec<usize> = from.into_iter().collect();
    while let Some(at) = ahead.pop() {
        for &to in &next[at] {
            if !std::mem::replace(&mut reached[to], true) {
                ahead.push(to);
            }
        }
    }
    reached
}

/// The first prototype of each cycle to which none of the first few prototypes leads.
pub(super) fn unfed(prototypes: usize, sources: usize, edges: &[Edge]) -> Vec<usize> {
    let next = next(prototypes, edges);
    let (reached, group) = (reach(0..sources, &next), groups(prototypes, edges));
    let is_on_cycle = |at: usize| reach([at], &next)[at];
    (sources..prototypes).filter(|&at| !reached[at] && group[at] == at && is_on_cycle(at)).collect()
}

/// The edges of one cycle, each starting where the one before it ends, if there is one.
pub(super) fn cycle(prototypes: usize, edges: &[Edge]) -> Option<Vec<Edge>> {
    let next = next(prototypes, edges);
    let on_cycle = |&at: &usize| reach([at], &next)[at];
    let start = (0..prototypes).find(on_cycle)?;
    // The shortest way back, breadth first.
    let mut came: Vec<Option<Edge>> = vec![None; prototypes];
    let mut ahead = VecDeque::from([start]);
    while let Some(at) = ahead.pop_front() {
        for edge in edges.iter().filter(|edge| edge.from == at) {
            if came[edge.to].is_none() {
                came[edge.to] = Some(*edge);
                ahead.push_back(edge.to);
            }
        }
    }
    let mut ring = Vec::new();
    let mut at = start;
    loop {
        let edge = came[at].expect("a cycle leads back");
        ring.push(edge);
        at = edge.from;
        if at == start {
            break;
        }
    }
    ring.reverse();
    Some(ring)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(pairs: &[(usize, usize)]) -> Vec<Edge> {
        pairs.iter().map(|&(from, to)| Edge { from, output: 0, to, input: 0 }).collect()
    }

    #[test]
    fn a_stage_is_the_longest_way() {
        let diamond = edges(&[(0, 1), (1, 2), (0, 2), (2, 3), (0, 3), (0, 3)]);
        assert_eq!(stages(5, &diamond), [0, 1, 2, 3, 0]);
        assert_eq!(cycle(5, &diamond), None);
    }

    #[test]
    fn what_goes_round_has_one_stage() {
        // Round 1, 3 and 2, and on to 4; round 5 alone.
        let all = edges(&[(0, 1), (1, 3), (3, 2), (2, 1), (2, 4), (0, 5), (5, 5), (5, 4)]);
        assert_eq!(stages(6, &all), [0, 1, 1, 1, 2, 1]);
        // Two cycles, one behind the other.
        let two = edges(&[(0, 1), (1, 2), (2, 1), (2, 3), (3, 4), (4, 3)]);
        assert_eq!(stages(5, &two), [0, 1, 1, 2, 2]);
    }

    #[test]
    fn a_cycle_is_named_without_what_hangs_on_it() {
        // 3 and 4 hang on the cycle of 1 and 2 but are not part of it.
        let found = cycle(5, &edges(&[(0, 1), (1, 2), (2, 1), (2, 3), (3, 4)])).unwrap();
        assert_eq!(found, edges(&[(1, 2), (2, 1)]));
        let found = cycle(4, &edges(&[(0, 2), (2, 3), (3, 2), (3, 1)])).unwrap();
        assert_eq!(found, edges(&[(2, 3), (3, 2)]));
        assert_eq!(cycle(1, &edges(&[(0, 0)])).unwrap().len(), 1);
    }

    #[test]
    fn a_cycle_that_nothing_leads_to_is_not_fed() {
        let all = edges(&[(0, 2), (2, 3), (3, 2), (4, 5), (5, 4), (5, 3)]);
        assert_eq!(unfed(6, 2, &all), [4]);
    }
}
