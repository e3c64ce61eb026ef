//! What a comparison came to, for people and for programs.

use std::collections::BTreeMap;

use bench::{Model, Outcome, Spec, Workload};
use serde_json::{Map, Value, json};
use starling::cli::{Columns, Exit, Failure, grouped};

use super::environment::Environment;
use super::figures::{FIGURES, Figure, RATE};
use super::name;
use super::statistics::{Interval, Spread};

/// The turns of one model.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) model: Model,
    /// What was not measured but has to be right as well.
    pub(super) warm_up: Option<Outcome>,
    /// In the order of the turns; at least one.
    pub(super) turns: Vec<Outcome>,
}

/// What a comparison came to.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// The runs; the model is that of the first.
    pub(super) spec: Spec,
    /// What the answer should be.
    pub(super) expected: u64,
    /// To whom the others are compared.
    pub(super) reference: Model,
    /// In the order in which the models were named.
    pub(super) series: Vec<Series>,
    pub(super) environment: Environment,
}

/// How the interval of a ratio is made.
const METHOD: &str = "order statistics of the paired ratios of the turns";

/// How much larger a process may become while its sink stands still.
const GROWTH_MAX: f64 = 1.05;

/// A ratio to the reference.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    median: f64,
    interval: Interval,
}

impl Report {
    /// A failure if some result is wrong.
    pub(super) fn verdict(&self) -> Result<(), Failure> {
        let wrong = self.series.iter().filter(|series| !self.is_right(series));
        let wrong: Vec<String> = wrong.map(|series| name(&series.model)).collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let why = if self.is_stalled() {
            "grew by more than 5 % while the sink stood still"
        } else {
            "does not have the result of the plain count"
        };
        Err(Failure::new(Exit::Failure, format!("{} {why}", wrong.join(", "))))
    }

    fn is_right(&self, series: &Series) -> bool {
        let has_not_grown = |outcome: &Outcome| {
            outcome.peak_rss_bytes as f64 <= GROWTH_MAX * outcome.start_rss_bytes as f64
        };
        let mut all = series.warm_up.iter().chain(&series.turns);
        if self.is_stalled() {
            all.all(has_not_grown)
        } else {
            all.all(|outcome| outcome.answer == self.expected)
        }
    }

    fn is_stalled(&self) -> bool {
        self.spec.workload == Workload::StalledSink
    }

    /// Whether a run takes as long as it is told to.
    fn is_timed(&self) -> bool {
        self.is_stalled() || self.spec.workload == Workload::OpenLoop
    }

    /// How many times as fast as the reference in the same turn; none where a clock says how fast.
    fn ratio(&self, series: &Series) -> Option<Ratio> {
        if self.is_timed() {
            return None;
        }
        let reference = self.series.iter().find(|series| series.model == self.reference)?;
        let pairs = reference.turns.iter().zip(&series.turns);
        let ratios: Vec<f64> = pairs.map(|(one, other)| one.seconds / other.seconds).collect();
        let (median, interval) = (Spread::new(&ratios).median, Interval::of_median(&ratios));
        Some(Ratio { median, interval })
    }

    pub(super) fn to_json(&self) -> Value {
        let Spec { workload, threads, processes, rate, duration, seed, .. } = &self.spec;
        let first = &self.series[0].turns[0];
        json!({
            "workload": workload,
            "events": first.events,
            "bytes": first.bytes,
            "threads": threads,
            "processes": processes,
            "turns": self.series[0].turns.len(),
            "rate": (*workload == Workload::OpenLoop).then_some(rate),
            "seconds": self.is_timed().then_some(duration.as_secs_f64()),
            "seed": seed,
            "reference": self.reference,
            "ok": self.verdict().is_ok(),
            "models": self.series.iter().map(|series| self.row(series)).collect::<Vec<_>>(),
            "ratio_method": METHOD,
            "environment": self.environment,
        })
    }

    fn row(&self, series: &Series) -> Value {
        let (mut row, mut spread) = (Map::new(), Map::new());
        row.insert("model".to_owned(), json!(series.model));
        row.insert("correct".to_owned(), json!(self.is_right(series)));
        for figure in FIGURES {
            let found = series.spread(figure);
            let json = |value| figure.to_json(value);
            row.insert(figure.name.to_owned(), json!(found.map(|found| json(found.median))));
            if let Some(Spread { low, high, .. }) = found {
                let ends = json!({ "low": json(low), "high": json(high) });
                spread.insert(figure.name.to_owned(), ends);
            }
        }
        let ratio = self.ratio(series);
        row.insert("ratio".to_owned(), json!(ratio.map(|ratio| ratio.median)));
        row.insert("ratio_interval".to_owned(), json!(ratio.map(|ratio| ratio.interval)));
        row.insert("spread".to_owned(), Value::Object(spread));
        row.insert("outcomes".to_owned(), json!(series.turns));
        Value::Object(row)
    }

    /// A table, and below it what one has to know to read it.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.headline()];
        lines.extend(self.table().lines());
        lines.push(String::new());
        if let Some(ratio) = self.ratio(&self.series[0]) {
            lines.push(format!(
                "RATIO: median of the speed relative to {} in the same turn; LOW to HIGH: where that \
                 median is with {:.1} %, by order statistics",
                name(&self.reference),
                ratio.interval.coverage
            ));
        }
        lines.extend(self.environment.lines());
        lines
    }

    fn headline(&self) -> String {
        let Spec { workload, threads, processes, rate, duration, seed, .. } = &self.spec;
        let first = &self.series[0].turns[0];
        let (bytes, seconds) = (first.bytes as f64 / 1e6, duration.as_secs_f64());
        let mut size = format!("{} events, {bytes:.1} MB", grouped(first.events));
        if self.is_stalled() {
            size = format!("{seconds} s");
        } else if self.is_timed() {
            size = format!("{} events/s for {seconds} s", grouped(*rate));
        }
        let processes = match processes {
            1 => String::new(),
            several => format!(", {several} nodes of the engine"),
        };
        let (workload, turns) = (name(workload), counted(self.series[0].turns.len(), "turn"));
        let threads = counted(*threads, "thread");
        format!("{workload}: {size}; {threads}{processes}; {turns}, seed {seed}")
    }

    fn table(&self) -> Columns {
        let rows: Vec<_> = self.series.iter().map(|series| (series, self.cells(series))).collect();
        let shown = |title: &&str| rows.iter().any(|(_, cells)| cells.contains_key(title));
        let titles: Vec<&str> = self.titles().into_iter().filter(shown).collect();
        let mut all = vec!["MODEL"];
        all.extend(&titles);
        all.push("RESULT");
        let mut table = Columns::new(&all);
        for (series, mut cells) in rows {
            let mut row = vec![name(&series.model)];
            row.extend(
                titles.iter().map(|title| cells.remove(title).unwrap_or_else(|| "-".into())),
            );
            row.push(if self.is_right(series) { "correct" } else { "WRONG" }.to_owned());
            table.row(row);
        }
        table
    }

    /// Titles that there may be between the model and its result.
    fn titles(&self) -> Vec<&'static str> {
        let mut titles = Vec::new();
        for figure in FIGURES {
            titles.push(figure.title);
            if figure.name == RATE {
                titles.extend(["SLOWEST", "FASTEST", "RATIO", "LOW", "HIGH"]);
            }
        }
        titles
    }

    /// The cells that a row has, by title.
    fn cells(&self, series: &Series) -> BTreeMap<&'static str, String> {
        let mut cells = BTreeMap::new();
        for figure in FIGURES.iter().filter(|figure| self.is_shown(figure)) {
            let Some(spread) = series.spread(figure) else { continue };
            cells.insert(figure.title, figure.show(spread.median));
            if figure.name == RATE {
                cells.insert("SLOWEST", figure.show(spread.low));
                cells.insert("FASTEST", figure.show(spread.high));
            }
        }
        if let Some(Ratio { median, interval }) = self.ratio(series) {
            cells.insert("RATIO", format!("{median:.3}"));
            cells.insert("LOW", format!("{:.3}", interval.low));
            cells.insert("HIGH", format!("{:.3}", interval.high));
        }
        cells
    }

    /// Whether a figure says something of this workload that others do not say better.
    fn is_shown(&self, figure: &Figure) -> bool {
        match figure.name {
            "seconds" => false,
            "start_rss_bytes" => self.is_stalled(),
            "bytes_per_key" => self.spec.workload == Workload::Counters,
            "events_per_second" | "bytes_per_second" | "cpu_seconds_per_gb" => !self.is_stalled(),
            _ => true,
        }
    }
}

impl Series {
    /// A figure over all turns, if these have it.
    fn spread(&self, figure: &Figure) -> Option<Spread> {
        let values: Option<Vec<f64>> = self.turns.iter().map(figure.of).collect();
        values.map(|values| Spread::new(&values))
    }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn outcome(seconds: f64, answer: u64) -> Outcome {
        Outcome {
            seconds,
            events: 20_000_000,
            bytes: 160_000_000,
            answer,
            cpu_seconds: 2.0 * seconds,
            peak_rss_bytes: 300_000_000,
            start_rss_bytes: 200_000_000,
            bytes_per_key: None,
            latency: None,
            join: None,
        }
    }

    /// Two models, the second half as fast in each turn; its last answer is given.
    fn report(last: u64) -> Report {
        let (workload, duration) = (Workload::KeyedCount, Duration::from_secs(1));
        let spec = Spec {
            workload,
            model: Model::Baseline,
            events: 20_000_000,
            bytes: 0,
            threads: 2,
            processes: 1,
            rate: 0,
            duration,
            join_at: None,
            seed: 7,
        };
        let series = |model, seconds: [f64; 3], last| Series {
            model,
            warm_up: Some(outcome(9.0, 42)),
            turns: vec![
                outcome(seconds[0], 42),
                outcome(seconds[1], 42),
                outcome(seconds[2], last),
            ],
        };
        Report {
            spec,
            expected: 42,
            reference: Model::Baseline,
            series: vec![
                series(Model::Baseline, [1.0, 4.0, 2.0], 42),
                series(Model::Keyed, [2.0, 8.0, 4.0], last),
            ],
            environment: Environment::before(),
        }
    }

    #[test]
    fn ratios_are_of_the_same_turn() {
        let json = report(42).to_json();
        assert_eq!(json["models"][0]["ratio"], 1.0);
        assert_eq!(json["models"][1]["ratio"], 0.5);
        assert_eq!(json["models"][1]["ratio_interval"]["low"], 0.5);
        assert_eq!(json["models"][1]["events_per_second"], 5_000_000);
        assert_eq!(json["models"][1]["spread"]["events_per_second"]["high"], 10_000_000);
        assert_eq!(json["models"][1]["cpu_seconds_per_gb"], 50.0);
        assert_eq!(json["models"][1]["latency_p50_us"], Value::Null);
    }

    #[test]
    fn a_table_has_a_row_for_each_model_and_says_where_it_was_made() {
        let lines = report(42).lines();
        assert!(
            lines[0].starts_with("keyed-count: 20 000 000 events, 160.0 MB; 2 threads; 3 turns")
        );
        assert!(lines[1].starts_with("MODEL       EVENTS/S"), "{lines:#?}");
        let row = lines.iter().find(|line| line.starts_with("keyed ")).unwrap();
        assert!(row.contains("5 000 000") && row.contains("0.500"), "{row}");
        assert!(row.ends_with("correct"), "{row}");
        assert!(lines.iter().any(|line| line.contains("kernel")), "{lines:#?}");
    }

    #[test]
    fn one_wrong_answer_makes_a_row_wrong_and_the_command_fail() {
        let (right, wrong) = (report(42), report(43));
        assert_eq!(right.verdict(), Ok(()));
        let failure = wrong.verdict().unwrap_err();
        assert_eq!(failure.to_string(), "keyed does not have the result of the plain count");
        assert_eq!(failure.exit_code(), std::process::ExitCode::from(1));
        let json = wrong.to_json();
        assert_eq!((&json["ok"], &json["models"][1]["correct"]), (&json!(false), &json!(false)));
        assert_eq!(json["models"][0]["correct"], true);
        let lines = wrong.lines();
        let ends = |model: &str, end| {
            lines.iter().any(|line| line.starts_with(model) && line.ends_with(end))
        };
        assert!(ends("keyed ", "WRONG") && ends("baseline ", "correct"), "{lines:#?}");
    }

    #[test]
    fn a_warm_up_has_to_be_right_as_well() {
        let mut report = report(42);
        report.series[0].warm_up = Some(outcome(1.0, 41));
        assert!(report.verdict().is_err());
    }

    #[test]
    fn a_stalled_sink_is_judged_by_growth() {
        let mut report = report(42);
        report.spec.workload = Workload::StalledSink;
        assert!(report.verdict().is_err());
        for series in &mut report.series {
            series.warm_up = None;
            series.turns.iter_mut().for_each(|turn| turn.peak_rss_bytes = 209_000_000);
        }
        assert_eq!(report.verdict(), Ok(()));
        assert_eq!(report.to_json()["models"][0]["ratio"], Value::Null);
    }
}
