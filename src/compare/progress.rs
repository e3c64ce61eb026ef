//! What is being done right now: for a person who waits, and for nobody else.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use super::estimate::shown;
use crate::node_process::now;

/// A line on a terminal that changes, and goes away at the end.
#[derive(Debug)]
pub(super) struct Progress {
    is_terminal: bool,
    began: Instant,
    /// How long all runs together may take, and those that are done were thought to take.
    all: Duration,
    done: Duration,
    runs: (usize, usize),
}

/// How wide the bar is.
const WIDTH: usize = 24;

impl Progress {
    /// Before the first of so many runs.
    pub(super) fn new(runs: usize, all: Duration) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Self { is_terminal, began: now(), all, done: Duration::ZERO, runs: (0, runs) }
    }

    /// Shows what is done now in place of what was done before.
    pub(super) fn say(&mut self, what: &str) {
        let line = self.line(what, self.began.elapsed());
        self.write(&format!("\r\x1b[K{line}"));
    }

    /// A run is over that was thought to take so long.
    pub(super) fn ran(&mut self, estimate: Duration) {
        self.done += estimate;
        self.runs.0 += 1;
    }

    fn line(&self, what: &str, elapsed: Duration) -> String {
        let share = (self.done.as_secs_f64() / self.all.as_secs_f64().max(1e-9)).min(1.0);
        let full = (1..=WIDTH).filter(|&place| place as f64 <= share * WIDTH as f64).count();
        let bar = "#".repeat(full) + &"-".repeat(WIDTH - full);
        let left = self.all.saturating_sub(self.done);
        // By how much the estimate has been wrong so far.
        let pace = elapsed.as_secs_f64() / self.done.as_secs_f64().max(1e-9);
        let pace = if self.done.is_zero() { 1.0 } else { pace.min(100.0) };
        let (done, runs) = self.runs;
        format!("[{bar}] {done} of {runs}, about {} left: {what}", shown(left.mul_f64(pace)))
    }

    fn write(&mut self, text: &str) {
        if self.is_terminal {
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.write("\r\x1b[K");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_grows_and_what_is_left_is_scaled_by_what_was() {
        let seconds = Duration::from_secs;
        let mut progress = Progress::new(4, seconds(40));
        let empty = "-".repeat(24);
        let first = progress.line("keyed", seconds(5));
        assert_eq!(first, format!("[{empty}] 0 of 4, about 40 s left: keyed"));
        progress.ran(seconds(10));
        let line = progress.line("bolt", seconds(20));
        assert_eq!(line, "[######------------------] 1 of 4, about 60 s left: bolt");
        (0..3).for_each(|_| progress.ran(seconds(10)));
        assert!(progress.line("", seconds(80)).starts_with("[########################] 4 of 4"));
    }
}
