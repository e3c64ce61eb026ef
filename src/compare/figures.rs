//! The figures of a run: what they are called, how they follow from its outcome, how they are shown.

use bench::Outcome;
use serde_json::{Value, json};
use starling::cli::grouped;

/// A figure that a run has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    /// Its name in JSON.
    pub(super) name: &'static str,
    /// Its title in the table.
    pub(super) title: &'static str,
    /// Its unit, as it is shown; empty for a bare number.
    pub(super) unit: &'static str,
    /// What it is of a run, if the run has it.
    pub(super) of: fn(&Outcome) -> Option<f64>,
    form: Form,
}

/// How a figure is written.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// A count, in groups of three digits.
    Count,
    /// A number of bytes; in the table they are millions.
    Bytes,
    /// With so many digits behind the point.
    Decimal(usize),
}

/// All of them, in the order of the table.
pub(super) const FIGURES: &[Figure] = &[
    Figure {
        name: "events_per_second",
        title: "EVENTS/S",
        unit: "events/s",
        of: |outcome| Some(outcome.events as f64 / outcome.seconds),
        form: Form::Count,
    },
    Figure {
        name: "bytes_per_second",
        title: "MB/S",
        unit: "MB/s",
        of: |outcome| bytes(outcome).map(|bytes| bytes / outcome.seconds),
        form: Form::Bytes,
    },
    Figure {
        name: "seconds",
        title: "SECONDS",
        unit: "s",
        of: |outcome| Some(outcome.seconds),
        form: Form::Decimal(2),
    },
    Figure {
        name: "cpu_seconds",
        title: "CPU S",
        unit: "s",
        of: |outcome| Some(outcome.cpu_seconds),
        form: Form::Decimal(2),
    },
    Figure {
        name: "cpu_seconds_per_gb",
        title: "CPU S/GB",
        unit: "s/GB",
        of: |outcome| bytes(outcome).map(|bytes| outcome.cpu_seconds / bytes * 1e9),
        form: Form::Decimal(2),
    },
    Figure {
        name: "start_rss_bytes",
        title: "START MB",
        unit: "MB",
        of: |outcome| Some(outcome.start_rss_bytes as f64),
        form: Form::Bytes,
    },
    Figure {
        name: "peak_rss_bytes",
        title: "PEAK MB",
        unit: "MB",
        of: |outcome| Some(outcome.peak_rss_bytes as f64),
        form: Form::Bytes,
    },
    Figure {
        name: "bytes_per_key",
        title: "B/KEY",
        unit: "bytes/key",
        of: |outcome| outcome.bytes_per_key,
        form: Form::Decimal(1),
    },
    Figure {
        name: "latency_p50_us",
        title: "P50 US",
        unit: "µs",
        of: |outcome| outcome.latency.map(|latency| latency.p50),
        form: Form::Count,
    },
    Figure {
        name: "latency_p99_us",
        title: "P99 US",
        unit: "µs",
        of: |outcome| outcome.latency.map(|latency| latency.p99),
        form: Form::Count,
    },
    Figure {
        name: "latency_p999_us",
        title: "P99.9 US",
        unit: "µs",
        of: |outcome| outcome.latency.map(|latency| latency.p999),
        form: Form::Count,
    },
    Figure {
        name: "latency_max_us",
        title: "MAX US",
        unit: "µs",
        of: |outcome| outcome.latency.map(|latency| latency.max),
        form: Form::Count,
    },
    Figure {
        name: "before_p50_us",
        title: "P50 US BEFORE",
        unit: "µs",
        of: |outcome| outcome.join.map(|join| join.before.p50),
        form: Form::Count,
    },
    Figure {
        name: "before_p99_us",
        title: "P99 US BEFORE",
        unit: "µs",
        of: |outcome| outcome.join.map(|join| join.before.p99),
        form: Form::Count,
    },
    Figure {
        name: "join_seconds",
        title: "JOIN S",
        unit: "s",
        of: |outcome| outcome.join.map(|join| join.seconds),
        form: Form::Decimal(2),
    },
    Figure {
        name: "pause_median_us",
        title: "PAUSE US",
        unit: "µs",
        of: |outcome| outcome.join.map(|join| join.pause_median),
        form: Form::Count,
    },
    Figure {
        name: "pause_worst_us",
        title: "WORST US",
        unit: "µs",
        of: |outcome| outcome.join.map(|join| join.pause_worst),
        form: Form::Count,
    },
    Figure {
        name: "messages_per_event",
        title: "MSG/EVENT",
        unit: "messages/event",
        of: |outcome| outcome.traffic.and_then(|traffic| over(traffic.messages, outcome.events)),
        form: Form::Decimal(2),
    },
    Figure {
        name: "keys_per_instance",
        title: "KEYS/INST",
        unit: "keys/instance",
        of: |outcome| outcome.traffic?.keys_per_instance,
        form: Form::Decimal(0),
    },
    Figure {
        name: "busiest",
        title: "BUSIEST",
        unit: "times its share",
        of: |outcome| outcome.traffic?.busiest,
        form: Form::Decimal(2),
    },
    Figure {
        name: "dropped",
        title: "DROPPED",
        unit: "events",
        of: |outcome| outcome.traffic.map(|traffic| traffic.dropped as f64),
        form: Form::Count,
    },
    Figure {
        name: "trees",
        title: "TREES",
        unit: "trees",
        of: |outcome| outcome.acks.map(|acks| acks.trees as f64),
        form: Form::Count,
    },
    Figure {
        name: "replays",
        title: "REPLAYS",
        unit: "replays",
        of: |outcome| outcome.acks.map(|acks| acks.replays as f64),
        form: Form::Count,
    },
    Figure {
        name: "ack_bytes_per_tree",
        title: "ACK B/TREE",
        unit: "bytes/tree",
        of: |outcome| outcome.acks?.ack_bytes_per_tree,
        form: Form::Decimal(1),
    },
    Figure {
        name: "ledger_bytes_per_tree",
        title: "LEDGER B/TREE",
        unit: "bytes/tree",
        of: |outcome| outcome.acks?.ledger_bytes_per_tree,
        form: Form::Decimal(1),
    },
];

/// The first figure, which is shown with its range.
pub(super) const RATE: &str = "events_per_second";

/// A figure by its name.
pub(super) fn figure(name: &str) -> &'static Figure {
    FIGURES.iter().find(|figure| figure.name == name).expect("a name that is in the list")
}

fn over(count: u64, events: u64) -> Option<f64> {
    (events > 0).then(|| count as f64 / events as f64)
}

fn bytes(outcome: &Outcome) -> Option<f64> {
    (outcome.bytes > 0).then_some(outcome.bytes as f64)
}

impl Figure {
    /// A value of this figure, for people.
    pub(super) fn show(self, value: f64) -> String {
        match self.form {
            Form::Count => grouped(whole(value)),
            Form::Bytes => format!("{:.1}", value / 1e6),
            Form::Decimal(digits) => format!("{value:.digits$}"),
        }
    }

    /// The same with its unit.
    pub(super) fn show_with_unit(self, value: f64) -> String {
        format!("{} {}", self.show(value), self.unit).trim_end().to_owned()
    }

    /// A value of this figure, for programs.
    pub(super) fn to_json(self, value: f64) -> Value {
        match self.form {
            Form::Count | Form::Bytes => json!(whole(value)),
            Form::Decimal(_) => json!(value),
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no figure is negative"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}
