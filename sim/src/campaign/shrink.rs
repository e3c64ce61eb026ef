//! A shorter list of faults that breaks the same invariant.

use super::{Campaign, Run};
use crate::fault::Fault;

/// The most runs that it may take.
const RUNS: usize = 200;

impl Campaign {
    /// Leaves out what is not needed for a run to fail as it did: halves first, then ever smaller parts, at
    /// last one fault after the other. Gives the run of what is left, with every letter in its trace.
    pub fn shrink(&self, failed: &Run) -> Run {
        let Some(violation) = &failed.violation else { return failed.clone() };
        let mut faults = failed.faults.clone();
        let mut runs = 0;
        let mut part = faults.len().div_ceil(2).max(1);
        while runs < RUNS {
            let mut has_shrunk = false;
            let mut at = 0;
            while at < faults.len() && runs < RUNS {
                let mut fewer: Vec<Fault> = faults.clone();
                fewer.drain(at..(at + part).min(faults.len()));
                runs += 1;
                let again = self.play(failed.seed, &fewer, false).violation;
                if again.is_some_and(|again| again.invariant == violation.invariant) {
                    (faults, has_shrunk) = (fewer, true);
                } else {
                    at += part;
                }
            }
            if part == 1 && !has_shrunk {
                break;
            }
            part = if has_shrunk { part } else { part / 2 }.max(1);
        }
        self.play(failed.seed, &faults, true)
    }
}
