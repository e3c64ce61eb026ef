//! Distances in the graph of prototypes, which must not go round.
//!
//! Works on positions alone, so that it can be tested without a file. What has a way to itself
//! could wait for itself when queues are full, and would never come to an end; so a cycle is named
//! instead.

use super::plan::Edge;

/// For each prototype its longest distance from those without predecessors, or the edges of one
/// cycle, each starting where the one before it ends.
pub(super) fn stages(prototypes: usize, edges: &[Edge]) -> Result<Vec<usize>, Vec<Edge>> {
    let mut waiting = vec![0_usize; prototypes];
    for edge in edges {
        waiting[edge.to] += 1;
    }
    let mut stages = vec![0; prototypes];
    let mut ready: Vec<usize> = (0..prototypes).filter(|&index| waiting[index] == 0).collect();
    while let Some(from) = ready.pop() {
        for edge in edges.iter().filter(|edge| edge.from == from) {
            stages[edge.to] = stages[edge.to].max(stages[from] + 1);
            waiting[edge.to] -= 1;
            if waiting[edge.to] == 0 {
                ready.push(edge.to);
            }
        }
    }
    match (0..prototypes).find(|&index| waiting[index] > 0) {
        None => Ok(stages),
        Some(start) => Err(cycle(start, &waiting, edges)),
    }
}

/// Follows waiting prototypes backwards from `start` until one is met again.
fn cycle(start: usize, waiting: &[usize], edges: &[Edge]) -> Vec<Edge> {
    let mut trail: Vec<Edge> = Vec::new();
    let mut at = start;
    loop {
        let back = edges
            .iter()
            .find(|edge| edge.to == at && waiting[edge.from] > 0)
            .expect("what waits for ever waits for something that waits for ever");
        trail.push(*back);
        at = back.from;
        if let Some(met) = trail.iter().position(|edge| edge.to == at) {
            let mut cycle = trail.split_off(met);
            cycle.reverse();
            return cycle;
        }
    }
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
        assert_eq!(stages(5, &diamond), Ok(vec![0, 1, 2, 3, 0]));
    }

    #[test]
    fn a_cycle_is_named_without_what_hangs_on_it() {
        // 3 and 4 wait for the cycle of 1 and 2 but are not part of it.
        let found = stages(5, &edges(&[(0, 1), (1, 2), (2, 1), (2, 3), (3, 4)])).unwrap_err();
        let mut ring: Vec<_> = found.iter().map(|edge| (edge.from, edge.to)).collect();
        ring.sort_unstable();
        assert_eq!(ring, [(1, 2), (2, 1)]);
        assert_eq!(found[0].to, found[1].from);
        // Here the search begins with what hangs on the cycle.
        let found = stages(4, &edges(&[(0, 2), (2, 3), (3, 2), (3, 1)])).unwrap_err();
        assert_eq!(found, edges(&[(3, 2), (2, 3)]));
        assert_eq!(stages(1, &edges(&[(0, 0)])).unwrap_err().len(), 1);
    }
}
