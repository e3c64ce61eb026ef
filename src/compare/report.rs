//! What the comparison of one workload came to, for people and for programs.

use std::collections::BTreeMap;

use bench::{Model, Outcome, Spec, Workload};
use serde_json::{Map, Value, json};
use starling::cli::{Columns, grouped};

use super::contender::Contender;
use super::figures::{FIGURES, Figure, RATE, figure};
use super::name;
use super::plan::Planned;
use super::statistics::{Estimate, Spread};
use super::sweep::Setting;

/// The turns of one contender.
#[derive(Clone, Debug)]
pub(super) struct Series {
    pub(super) contender: Contender,
    /// What was not measured but has to be right as well.
    pub(super) warm_up: Option<Outcome>,
    /// In the order of the turns; at least one when all have run.
    pub(super) turns: Vec<Outcome>,
}

/// What the comparison of one workload at one setting came to.
#[derive(Clone, Debug)]
pub(super) struct Report {
    /// The runs; the model is that of the first.
    pub(super) spec: Spec,
    /// What is varied, if this is of a sweep.
    pub(super) setting: Option<Setting>,
    /// What the answer should be.
    pub(super) expected: u64,
    /// To whom the others are compared.
    pub(super) reference: Model,
    /// In the order in which the models were named.
    pub(super) series: Vec<Series>,
}

/// How the interval of a ratio is made.
const METHOD: &str = "order statistics of the paired ratios of the turns";

/// How much larger a process may become while its sink stands still.
const GROWTH_MAX: f64 = 1.05;

impl Report {
    /// What a plan came to.
    pub(super) fn new(planned: Planned, expected: u64, series: Vec<Series>) -> Self {
        let Planned { spec, setting, reference, .. } = planned;
        Self { spec, setting, expected, reference, series }
    }

    /// Who has a wrong result and why it is one; `None` if nobody has.
    pub(super) fn fault(&self) -> Option<String> {
        let wrong = self.series.iter().filter(|series| !self.is_right(series));
        let wrong: Vec<String> = wrong.map(|series| series.contender.to_string()).collect();
        let why = if self.is_stalled() {
            "grew by more than 5 % while the sink stood still"
        } else {
            "does not have the result of the plain count"
        };
        (!wrong.is_empty()).then(|| format!("{} {why}", wrong.join(", ")))
    }

    /// The turns of one of the contenders, if it took part.
    pub(super) fn series_of(&self, contender: Contender) -> Option<&Series> {
        self.series.iter().find(|series| series.contender == contender)
    }

    /// A figure of one of the contenders; `None` if it took no part or does not have it.
    pub(super) fn estimate(&self, name: &str, contender: Contender) -> Option<Estimate> {
        let turns = &self.series_of(contender)?.turns;
        let figures: Option<Vec<f64>> = turns.iter().map(figure(name).of).collect();
        figures.filter(|figures| !figures.is_empty()).map(|figures| Estimate::new(&figures))
    }

    /// How many times the figure of another one it is, within each turn; `None` if either does not have it.
    pub(super) fn times(&self, name: &str, one: Contender, other: Contender) -> Option<Estimate> {
        let (one, other) = (self.series_of(one)?, self.series_of(other)?);
        let of = |(one, other)| {
            let (one, other) = ((figure(name).of)(one)?, (figure(name).of)(other)?);
            (other > 0.0).then(|| one / other)
        };
        let ratios: Option<Vec<f64>> = one.turns.iter().zip(&other.turns).map(of).collect();
        ratios.filter(|ratios| !ratios.is_empty()).map(|ratios| Estimate::new(&ratios))
    }

    pub(super) fn is_right(&self, series: &Series) -> bool {
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

    pub(super) fn is_stalled(&self) -> bool {
        self.spec.workload == Workload::StalledSink
    }

    /// Whether a run takes as long as it is told to.
    fn is_timed(&self) -> bool {
        self.is_stalled() || self.spec.workload == Workload::OpenLoop
    }

    /// How many times as fast as the reference in the same turn; none where a clock says how fast.
    fn ratio(&self, series: &Series) -> Option<Estimate> {
        if self.is_timed() {
            return None;
        }
        let mut all = self.series.iter();
        let reference = all.find(|series| series.contender.model == self.reference)?;
        self.times(RATE, series.contender, reference.contender)
    }

    pub(super) fn to_json(&self) -> Value {
        let Spec { workload, threads, processes, rate, duration, keys, skew, seed, .. } =
            &self.spec;
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
            "keys": keys,
            "skew": skew,
            "sweep": self.setting,
            "ok": self.fault().is_none(),
            "models": self.series.iter().map(|series| self.row(series)).collect::<Vec<_>>(),
            "ratio_method": METHOD,
        })
    }

    fn row(&self, series: &Series) -> Value {
        let (mut row, mut spread) = (Map::new(), Map::new());
        row.insert("model".to_owned(), json!(series.contender.model));
        row.insert("acks".to_owned(), json!(series.contender.acks));
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
        let table = self.table();
        let titles: Vec<&str> = table.columns.iter().map(|(title, _)| *title).collect();
        let mut columns = Columns::new(&titles);
        table.rows.into_iter().for_each(|row| columns.row(row));
        lines.extend(columns.lines());
        lines.push(String::new());
        lines
    }

    /// What the ratios in the table are; nothing if there are none.
    pub(super) fn legend(&self) -> Option<String> {
        let ratio = self.ratio(&self.series[0])?;
        Some(format!(
            "RATIO: median of the speed relative to {} in the same turn; LOW to HIGH: where that \
             median is with {:.1} %, by order statistics",
            name(&self.reference),
            ratio.interval.coverage
        ))
    }

    /// What was run, in short.
    pub(super) fn subject(&self) -> String {
        let workload = name(&self.spec.workload);
        self.setting.map_or(workload.clone(), |setting| format!("{workload} with {setting}"))
    }

    /// What was run, how much of it and how often.
    pub(super) fn headline(&self) -> String {
        let Spec { workload, threads, processes, rate, duration, keys, skew, seed, .. } =
            &self.spec;
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
        let keys =
            keys.map_or_else(String::new, |keys| format!(" of {} keys", grouped(keys.into())));
        let skew = skew.map_or_else(String::new, |skew| format!(", skew {skew}"));
        format!("{workload}: {size}{keys}{skew}; {threads}{processes}; {turns}, seed {seed}")
    }

    /// A row for each contender.
    pub(super) fn table(&self) -> Table {
        let rows: Vec<_> = self.series.iter().map(|series| (series, self.cells(series))).collect();
        let shown =
            |(title, _): &(&str, &str)| rows.iter().any(|(_, cells)| cells.contains_key(title));
        let titles: Vec<_> = self.titles().into_iter().filter(shown).collect();
        let mut columns = vec![("MODEL", "")];
        columns.extend(&titles);
        columns.push(("RESULT", ""));
        let row = |(series, mut cells): (&Series, BTreeMap<&'static str, String>)| {
            let mut row = vec![series.contender.to_string()];
            let cell = |&(title, _): &(&'static str, &str)| {
                cells.remove(title).unwrap_or_else(|| "-".into())
            };
            row.extend(titles.iter().map(cell));
            row.push(if self.is_right(series) { "correct" } else { "WRONG" }.to_owned());
            row
        };
        Table { rows: rows.into_iter().map(row).collect(), columns }
    }

    /// Titles that there may be between the model and its result, with their units.
    fn titles(&self) -> Vec<(&'static str, &'static str)> {
        let mut titles = Vec::new();
        for figure in FIGURES {
            titles.push((figure.title, figure.unit));
            if figure.name == RATE {
                let unit = figure.unit;
                titles.extend([("SLOWEST", unit), ("FASTEST", unit)]);
                titles.extend([("RATIO", "times"), ("LOW", "times"), ("HIGH", "times")]);
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
        if let Some(Estimate { median, interval, .. }) = self.ratio(series) {
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
            "messages_per_event" | "keys_per_instance" => self.spec.workload == Workload::TopWords,
            "busiest" => matches!(self.spec.workload, Workload::TopWords | Workload::HotKey),
            // What is lost without a fault would be seen in the result.
            "dropped" => false,
            _ => true,
        }
    }
}

/// A table of which each column has a unit; empty where there is none.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<(&'static str, &'static str)>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Series {
    /// Before the first turn.
    pub(super) fn new(contender: Contender) -> Self {
        Self { contender, warm_up: None, turns: Vec::new() }
    }

    /// A figure over all turns, if these have it.
    fn spread(&self, figure: &Figure) -> Option<Spread> {
        let values: Option<Vec<f64>> = self.turns.iter().map(figure.of).collect();
        values.filter(|values| !values.is_empty()).map(|values| Spread::new(&values))
    }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn outcome(seconds: f64, answer: u64) -> Outcome {
        Outcome {
            seconds,
            events: 20_000_000,
            bytes: 160_000_000,
            answer,
            cpu_seconds: 2.0 * seconds,
            peak_rss_bytes: 300_000_000,
            start_rss_bytes: 200_000_000,
            ..Outcome::default()
        }
    }

    /// Contenders whose turns took so many seconds; all are right.
    pub(in super::super) fn report_of(workload: Workload, all: &[(Contender, [f64; 3])]) -> Report {
        let series = |&(contender, seconds): &(Contender, [f64; 3])| Series {
            contender,
            warm_up: Some(outcome(9.0, 42)),
            turns: seconds.map(|seconds| outcome(seconds, 42)).to_vec(),
        };
        let reference = all[0].0.model;
        let spec = Spec { threads: 2, seed: 7, ..Spec::new(workload, reference) };
        let series = all.iter().map(series).collect();
        Report { spec, setting: None, expected: 42, reference, series }
    }

    /// Two models, the second half as fast in each turn; its last answer is given.
    pub(in super::super) fn report(last: u64) -> Report {
        let [one, other] = [Model::Baseline, Model::Keyed].map(Contender::plain);
        let all = [(one, [1.0, 4.0, 2.0]), (other, [2.0, 8.0, 4.0])];
        let mut report = report_of(Workload::KeyedCount, &all);
        report.series[1].turns[2].answer = last;
        report
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
        assert_eq!(json["models"][1]["acks"], Value::Null);
    }

    #[test]
    fn a_table_has_a_row_for_each_model() {
        let lines = report(42).lines();
        assert!(
            lines[0].starts_with("keyed-count: 20 000 000 events, 160.0 MB; 2 threads; 3 turns")
        );
        assert!(lines[1].starts_with("MODEL       EVENTS/S"), "{lines:#?}");
        let row = lines.iter().find(|line| line.starts_with("keyed ")).unwrap();
        assert!(row.contains("5 000 000") && row.contains("0.500"), "{row}");
        assert!(row.ends_with("correct"), "{row}");
    }

    #[test]
    fn acks_and_settings_are_shown() {
        let mut report = report(42);
        report.series[1].contender.acks = Some(64);
        report.spec = Setting::Keys(1_000).apply(&report.spec).unwrap();
        report.setting = Some(Setting::Keys(1_000));
        let lines = report.lines();
        assert!(lines[0].contains("events, 160.0 MB of 1 000 keys; 2 threads"), "{lines:#?}");
        assert!(lines.iter().any(|line| line.starts_with("keyed+ack64 ")), "{lines:#?}");
        let json = report.to_json();
        assert_eq!(json["models"][1]["acks"], 64);
        assert_eq!(json["sweep"], json!({ "name": "keys", "value": 1_000 }));
    }

    #[test]
    fn one_wrong_answer_makes_a_row_wrong_and_is_a_fault() {
        let (right, wrong) = (report(42), report(43));
        assert_eq!(right.fault(), None);
        let fault = wrong.fault().unwrap();
        assert_eq!(fault, "keyed does not have the result of the plain count");
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
        assert!(report.fault().is_some());
    }

    #[test]
    fn a_stalled_sink_is_judged_by_growth() {
        let mut report = report(42);
        report.spec.workload = Workload::StalledSink;
        assert!(report.fault().is_some());
        for series in &mut report.series {
            series.warm_up = None;
            series.turns.iter_mut().for_each(|turn| turn.peak_rss_bytes = 209_000_000);
        }
        assert_eq!(report.fault(), None);
        assert_eq!(report.to_json()["models"][0]["ratio"], Value::Null);
    }
}
