//! The live table: what the nodes do right now.
//!
//! On a terminal it is redrawn in place; lines are cut off at the edge by the terminal itself, so its
//! width need not be known. Elsewhere it is a line per second, fit for a log.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use starling::cli::{Columns, grouped, output};

use super::plain::Place;
use super::progress::Snapshot;

/// How often there is a line where there is no terminal.
const LINE_PERIOD: Duration = Duration::from_secs(1);
/// Rates are over at least so long: nodes count their events a few times a second, not at each question.
const RATE_PERIOD: Duration = Duration::from_secs(1);

/// Has the terminal cut lines off at the edge.
const NO_WRAP: &str = "\x1b[?7l";
/// Has it wrap them again.
const WRAP: &str = "\x1b[?7h";

/// Shows snapshots as they come.
#[derive(Debug)]
pub(super) struct Board {
    is_terminal: bool,
    /// How many lines stand where the next table goes.
    drawn: usize,
    /// What rates are the difference to, oldest first.
    seen: VecDeque<Seen>,
    said: Option<Instant>,
}

/// What had been applied at some time, per node.
#[derive(Debug)]
struct Seen {
    at: Instant,
    applied: Vec<u64>,
}

impl Board {
    pub(super) fn new() -> Self {
        Self {
            is_terminal: io::stderr().is_terminal(),
            drawn: 0,
            seen: VecDeque::new(),
            said: None,
        }
    }

    pub(super) fn show(&mut self, snapshot: &Snapshot) {
        let rates = self.rates(snapshot);
        if self.is_terminal {
            self.redraw(&table(snapshot, &rates));
        } else if self.said.is_none_or(|said| snapshot.at.duration_since(said) >= LINE_PERIOD) {
            self.said = Some(snapshot.at);
            output::message(line(snapshot, &rates));
        }
    }

    /// Events per second of late, per node.
    fn rates(&mut self, snapshot: &Snapshot) -> Vec<u64> {
        let applied: Vec<u64> = snapshot.nodes.iter().map(|node| node.applied()).collect();
        self.seen.push_back(Seen { at: snapshot.at, applied: applied.clone() });
        let age = |seen: &Seen| snapshot.at.duration_since(seen.at);
        while self.seen.get(1).is_some_and(|second| age(second) >= RATE_PERIOD) {
            self.seen.pop_front();
        }
        let oldest = self.seen.front().expect("one was just pushed");
        let elapsed = u64::try_from(age(oldest).as_millis()).unwrap_or(u64::MAX).max(1);
        let pairs = applied.iter().zip(&oldest.applied);
        pairs.map(|(now, before)| now.saturating_sub(*before) * 1_000 / elapsed).collect()
    }

    /// Leaves what was drawn last where it is.
    pub(super) fn finish(self) {
        if self.is_terminal {
            output::message("");
        }
    }

    fn redraw(&mut self, lines: &[String]) {
        let mut out = String::from(NO_WRAP);
        if self.drawn > 0 {
            let _ = write!(out, "\x1b[{}A\r", self.drawn);
        }
        for line in lines {
            // Each line ends what stood there before.
            let _ = writeln!(out, "{line}\x1b[K");
        }
        // Below a shorter table nothing of the longer one remains.
        let _ = write!(out, "\x1b[J{WRAP}");
        self.drawn = lines.len();
        let _ = io::stderr().write_all(out.as_bytes());
    }
}

/// The table of a terminal.
fn table(snapshot: &Snapshot, rates: &[u64]) -> Vec<String> {
    let mut nodes = Columns::new(&["NODE", "PHASE", "EPOCH", "SLOTS", "APPLIED", "EVENTS/S"]);
    for (node, rate) in snapshot.nodes.iter().zip(rates) {
        nodes.row([
            node.status.node.clone(),
            node.phase().to_owned(),
            node.status.epoch.to_string(),
            node.slots().to_string(),
            grouped(node.applied()),
            grouped(*rate),
        ]);
    }
    nodes.row([
        "all".to_owned(),
        String::new(),
        String::new(),
        snapshot.nodes.iter().map(|node| node.slots()).sum::<usize>().to_string(),
        grouped(snapshot.applied()),
        grouped(rates.iter().sum()),
    ]);
    let mut lines = nodes.lines();
    lines.push(String::new());
    lines.extend(top_ten(&snapshot.top));
    lines
}

/// Ten words in two columns of five.
fn top_ten(top: &[Place]) -> Vec<String> {
    let cell = |index: usize| match top.get(index) {
        Some(Place { rank, word, n }) => format!("{rank:>3}  {word:<16} {:>14}", grouped(*n)),
        None => String::new(),
    };
    (0..5).map(|row| format!("{:<36}{}", cell(row), cell(row + 5)).trim_end().to_owned()).collect()
}

/// The line of a log.
fn line(snapshot: &Snapshot, rates: &[u64]) -> String {
    let mut out = format!(
        "{} applied, {} events/s",
        grouped(snapshot.applied()),
        grouped(rates.iter().sum())
    );
    for (node, rate) in snapshot.nodes.iter().zip(rates) {
        let short = node.status.node.get(..8).unwrap_or(&node.status.node);
        let (phase, epoch, slots) = (node.phase(), node.status.epoch, node.slots());
        let rate = grouped(*rate);
        let _ = write!(out, "; {short} {phase} epoch {epoch} slots {slots} {rate}/s");
    }
    if let Some(first) = snapshot.top.first() {
        let _ = write!(out, "; first: {} {}", first.word, grouped(first.n));
    }
    out
}
