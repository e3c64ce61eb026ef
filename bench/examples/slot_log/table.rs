//! The table: a line for each way, with what was found of it in every turn.

use std::fmt;

use crate::{COMMITS, Way};

/// What stands over the lines.
pub(crate) const HEAD: [&str; 3] = [
    concat!(
        "                             | bytes an event by   | ns of processor ",
        "| events/s, or what is left of them when they are logged      ",
        "| s of processor for a million",
    ),
    concat!(
        "                             | commits every       | more, writer    ",
        "|                synced by commits every                      ",
        "| instances, from the log's",
    ),
    concat!(
        "keys    state log            |  1 ms  10 ms 100 ms |                 ",
        "| not synced     1 ms           10 ms          100 ms         ",
        "| beginning        end",
    ),
];

/// What was found of a way.
pub(crate) struct Figures {
    /// Which.
    pub(crate) way: Way,
    /// Events in a second.
    pub(crate) rates: Vec<f64>,
    /// Nanoseconds of an event: of the container (what it is more than without a log) and of the writer.
    pub(crate) own_costs: Vec<f64>,
    pub(crate) writer_costs: Vec<f64>,
    /// As shares of what there is without a log.
    pub(crate) unsynced: Vec<f64>,
    /// As shares, by commits.
    pub(crate) synced: [Vec<f64>; COMMITS.len()],
    /// Of an event, by commits.
    pub(crate) bytes: [Vec<f64>; COMMITS.len()],
    /// Seconds for a million instances, from the first frame to the last.
    pub(crate) rebuilt: Vec<f64>,
    /// The same from the last to the first.
    pub(crate) rebuilt_newest_first: Vec<f64>,
}

impl Figures {
    pub(crate) fn new(way: Way) -> Self {
        Self {
            way,
            rates: Vec::new(),
            own_costs: Vec::new(),
            writer_costs: Vec::new(),
            unsynced: Vec::new(),
            synced: Default::default(),
            bytes: Default::default(),
            rebuilt: Vec::new(),
            rebuilt_newest_first: Vec::new(),
        }
    }
}

/// A line of the table.
pub(crate) struct Line {
    /// The exponent of Zipf's law; 0 for uniform keys.
    pub(crate) skew: f64,
    /// The size of a state.
    pub(crate) state: &'static str,
    pub(crate) figures: Figures,
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { skew, state, figures } = self;
        let keys = if *skew == 0.0 { "uniform" } else { "Zipf 1" };
        let log = match figures.way {
            Way::Nothing => "none",
            Way::Inputs => "inputs",
            Way::EachBatch => "deltas, batch",
            Way::Both => "both",
            Way::EachCommit => "deltas, commit",
        };
        write!(f, "{keys:7} {state:5} {log:14} |")?;
        for bytes in &figures.bytes {
            let bytes = spread(bytes).map(|[_, median, _]| format!("{median:.1}"));
            write!(f, "{:>7}", bytes.unwrap_or_default())?;
        }
        write!(f, " |")?;
        for costs in [&figures.own_costs, &figures.writer_costs] {
            let costs = spread(costs).map(|[_, median, _]| format!("{median:.0}"));
            write!(f, "{:>7} ", costs.unwrap_or_default())?;
        }
        write!(f, " | ")?;
        if let Some([low, median, high]) = spread(&figures.rates) {
            let millions = |rate: f64| rate / 1e6;
            let (low, median, high) = (millions(low), millions(median), millions(high));
            let rate = format!("{median:.2} M/s ({low:.2}-{high:.2})");
            write!(f, "{rate:60}")?;
        } else {
            for shares in [&figures.unsynced].into_iter().chain(&figures.synced) {
                let share = spread(shares).map(|[low, median, high]| {
                    format!("{:.0}% ({:.0}-{:.0})", 100.0 * median, 100.0 * low, 100.0 * high)
                });
                write!(f, "{:15}", share.unwrap_or_default())?;
            }
        }
        write!(f, "|")?;
        for seconds in [&figures.rebuilt, &figures.rebuilt_newest_first] {
            let seconds = spread(seconds)
                .map(|[low, median, high]| format!(" {median:.2} ({low:.2}-{high:.2})"));
            write!(f, "{:17}", seconds.unwrap_or_default())?;
        }
        Ok(())
    }
}

/// The lowest, the median and the highest.
fn spread(figures: &[f64]) -> Option<[f64; 3]> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = if sorted.len().is_multiple_of(2) {
        f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, sorted[middle])
    } else {
        sorted[middle]
    };
    Some([*sorted.first()?, median, *sorted.last()?])
}
