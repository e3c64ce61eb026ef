//! A report as one page: verdicts, tables and plots, without a network and without scripts.
//!
//! It may be mailed, printed, or opened years later, so all that one has to know to judge a figure is in it:
//! units, intervals, the machine, the command line and the seed.

use std::fmt::Write as _;

use bench::Model;
use clap::ValueEnum;

use super::comparison::Comparison;
use super::contender::Contender;
use super::figures::{RATE, figure};
use super::name;
use super::plot::{
    Bar, Line, Look, Point, Quantiles, STYLE, bars, escape, lines, patterns, quantiles,
};
use super::report::Report;
use super::sweep::Setting;

/// Colours: those of a screen by day, of one by night, and of paper.
const COLOURS: &str = "\
:root{color-scheme:light dark;--paper:#fff;--ink:#111;--rule:#d0d0d0;--tint:#f3f3f3}
.look-0{color:#444}.look-1{color:#8a5a00}.look-2{color:#0050b0}
.look-3{color:#a8323e}.look-4{color:#1d7a3c}.look-5{color:#6a3fa0}
@media (prefers-color-scheme:dark){
:root{--paper:#15171a;--ink:#e8e8e8;--rule:#3c4046;--tint:#20242a}
.look-0{color:#c0c0c0}.look-1{color:#e0a040}.look-2{color:#6cb0ff}
.look-3{color:#ff8a92}.look-4{color:#6fd08c}.look-5{color:#c3a0f0}
}
@media print{
:root{color-scheme:light;--paper:#fff;--ink:#000;--rule:#bbb;--tint:#fff}
.look-0,.look-1,.look-2,.look-3,.look-4,.look-5{color:#000}
section,figure{break-inside:avoid}
}
";

const LAYOUT: &str = "\
body{background:var(--paper);color:var(--ink);font:15px/1.45 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin:2.2rem 0 .5rem;border-bottom:1px solid var(--rule)}
table{border-collapse:collapse;margin:.6rem 0;font-variant-numeric:tabular-nums;display:block;overflow-x:auto}
th,td{padding:.25rem .6rem;border:1px solid var(--rule);text-align:right;vertical-align:top}
th{background:var(--tint);font-weight:600}th small{display:block;font-weight:400}
td:first-child,th:first-child,td:last-child,th:last-child,.words td,.words th{text-align:left}
.words td:nth-child(2){white-space:nowrap;font-weight:600}.words small{display:block}
.figures{font-size:.72rem}.figures td{white-space:nowrap}.figures th,.figures td{padding:.2rem .27rem}
figure{margin:.8rem 0}figcaption{font-size:.9rem}
code{font-size:.9rem;overflow-wrap:anywhere}
@media print{body{max-width:none;margin:0}table{display:table}.figures{font-size:6.5pt}.figures th,.figures td{padding:.1rem .2rem}tr,figure{break-inside:avoid}}
";

/// The page of a comparison.
pub(super) fn page(comparison: &Comparison) -> String {
    let mut out =
        String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
    let _ = write!(
        out,
        "<meta name=\"viewport\" content=\"width=device-width\"/>\n<title>starling compare</title>\n\
         <style>\n{COLOURS}{LAYOUT}{STYLE}</style>\n</head>\n<body>\n{}",
        patterns()
    );
    out += "<h1>Models of stream processing, compared</h1>\n";
    out += &about(comparison);
    out += &verdicts(comparison);
    for report in comparison.reports.iter().filter(|report| report.setting.is_none()) {
        out += &section(report);
    }
    for swept in sweeps(&comparison.reports) {
        out += &sweep_section(&swept);
    }
    out + "</body>\n</html>\n"
}

fn about(comparison: &Comparison) -> String {
    let seed = comparison.reports.first().map_or(0, |report| report.spec.seed);
    let command = escape(&comparison.command);
    let mut out = format!("<p>Command: <code>{command}</code><br/>\nSeed: {seed}");
    for line in comparison.environment.lines() {
        let _ = write!(out, "<br/>\n{}", escape(&line));
    }
    out + "</p>\n<p>Every contender does the same work on the same data, in turns, and each result is held \
           against a plain count. Figures are medians over the turns; a whisker is the interval in which the \
           median is, by order statistics.</p>\n"
}

fn verdicts(comparison: &Comparison) -> String {
    let mut out = String::from(
        "<section>\n<h2>Claims of the literature</h2>\n<table class=\"words\">\n\
         <tr><th>claim</th><th>verdict</th><th>what is claimed, and the figures behind the verdict</th></tr>\n",
    );
    for verdict in &comparison.verdicts {
        let (says, why, rule) = (escape(verdict.says), escape(&verdict.why), escape(&verdict.rule));
        let (claim, word) = (verdict.claim, verdict.verdict.shown());
        let _ = writeln!(
            out,
            "<tr><td>{claim}</td><td>{word}</td><td>{says}.<br/>\n<strong>{why}</strong>\
             <small>Rule: {rule}.</small></td></tr>"
        );
    }
    out + "</table>\n</section>\n"
}

fn section(report: &Report) -> String {
    let (subject, headline) = (escape(&report.subject()), escape(&report.headline()));
    let mut out = format!("<section>\n<h2>{subject}</h2>\n<p>{headline}</p>\n{}", table(report));
    if let Some(legend) = report.legend() {
        let _ = writeln!(out, "<p><small>{}</small></p>", escape(&legend));
    }
    let is_late =
        |series: &super::report::Series| series.turns.iter().any(|turn| turn.latency.is_some());
    if report.series.iter().any(is_late) {
        out += &lateness(report);
    } else if !report.is_stalled() {
        out += &bar_plot(report, RATE);
    }
    if report.spec.workload == bench::Workload::Counters {
        out += &bar_plot(report, "bytes_per_key");
    }
    out + "</section>\n"
}

fn table(report: &Report) -> String {
    let table = report.table();
    let mut out = String::from("<table class=\"figures\">\n<tr>");
    for (title, unit) in &table.columns {
        let (title, unit) = (escape(title), escape(unit));
        let _ = write!(out, "<th>{title}<small>{unit}</small></th>");
    }
    out += "</tr>\n";
    for row in &table.rows {
        out += "<tr>";
        for cell in row {
            let _ = write!(out, "<td>{}</td>", escape(cell));
        }
        out += "</tr>\n";
    }
    out + "</table>\n"
}

fn bar_plot(report: &Report, name: &str) -> String {
    let figure = figure(name);
    let bar = |contender: Contender| {
        let found = report.estimate(name, contender)?;
        Some(Bar {
            label: contender.to_string(),
            look: look(contender),
            median: found.median,
            low: found.interval.low,
            high: found.interval.high,
            shown: figure.show_with_unit(found.median),
        })
    };
    let all: Vec<Bar> = contenders(report).filter_map(bar).collect();
    let title = format!("{}: {}", report.subject(), figure.unit);
    framed(&title, &bars(&title, figure.unit, &all))
}

fn lateness(report: &Report) -> String {
    let row = |contender: Contender| {
        let of = |name| Some(report.estimate(name, contender)?.median);
        let values = vec![
            ("p50", of("latency_p50_us")?),
            ("p99", of("latency_p99_us")?),
            ("p99.9", of("latency_p999_us")?),
        ];
        Some(Quantiles { label: contender.to_string(), look: look(contender), values })
    };
    let all: Vec<Quantiles> = contenders(report).filter_map(row).collect();
    let title = format!("{}: how late events arrive behind their schedule", report.subject());
    framed(&title, &quantiles(&title, "µs", &all))
}

/// The reports of each sweep: of one workload, where one thing is varied.
fn sweeps(reports: &[Report]) -> Vec<Vec<&Report>> {
    let mut sweeps: Vec<Vec<&Report>> = Vec::new();
    let what = |report: &Report| Some((report.spec.workload, report.setting?.what()));
    for report in reports.iter().filter(|report| report.setting.is_some()) {
        match sweeps.iter_mut().find(|sweep| what(sweep[0]) == what(report)) {
            Some(sweep) => sweep.push(report),
            None => sweeps.push(vec![report]),
        }
    }
    sweeps
}

fn sweep_section(swept: &[&Report]) -> String {
    let first = swept[0];
    let workload = name(&first.spec.workload);
    let what = first.setting.map_or("", Setting::what);
    let mut out = format!("<section>\n<h2>{} by {}</h2>\n", escape(&workload), escape(what));
    for name in [RATE, "bytes_per_key"] {
        out += &line_plot(swept, name, &format!("{workload} by {what}"), what);
    }
    out += "</section>\n";
    for report in swept {
        let headline = escape(&report.headline());
        let _ = write!(out, "<section>\n<p>{headline}</p>\n{}</section>\n", table(report));
    }
    out
}

fn line_plot(swept: &[&Report], name: &str, title: &str, what: &str) -> String {
    let line = |contender: Contender| {
        let point = |report: &&Report| {
            let (setting, found) = (report.setting?, report.estimate(name, contender)?);
            Some(Point {
                x: setting.value(),
                shown: setting.shown(),
                median: found.median,
                low: found.interval.low,
                high: found.interval.high,
            })
        };
        let mut points: Vec<Point> = swept.iter().filter_map(point).collect();
        points.sort_by(|one, other| one.x.total_cmp(&other.x));
        Line { label: contender.to_string(), look: look(contender), points }
    };
    // What a table of counts costs is a figure of counters alone.
    let has_it = name == RATE || swept[0].spec.workload == bench::Workload::Counters;
    if !has_it {
        return String::new();
    }
    let all: Vec<Line> = contenders(swept[0]).map(line).collect();
    let x_name = match what {
        "keys" => "distinct keys",
        "skew" => "skew (exponent of Zipf's law)",
        _ => "parallelism (threads)",
    };
    let unit = figure(name).unit;
    let title = format!("{title}: {unit}");
    framed(&title, &lines(&title, x_name, unit, &all))
}

fn framed(title: &str, plot: &str) -> String {
    format!("<figure>\n{plot}<figcaption>{}</figcaption>\n</figure>\n", escape(title))
}

fn contenders(report: &Report) -> impl Iterator<Item = Contender> {
    report.series.iter().map(|series| series.contender)
}

/// A model looks the same in all plots.
fn look(contender: Contender) -> Look {
    let mut all = Model::value_variants().iter();
    Look(all.position(|&model| model == contender.model).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use bench::{Latency, Workload};

    use super::super::comparison::tests::comparison;
    use super::super::report::tests::report;
    use super::*;

    /// Whether each element that is opened is closed, in order; the declaration stands before them.
    #[track_caller]
    fn is_well_formed(page: &str) {
        let body = page.strip_prefix("<!DOCTYPE html>").unwrap();
        let mut open = Vec::new();
        for tag in body.split('<').skip(1) {
            let (tag, text) = tag.split_once('>').unwrap();
            assert!(!text.contains('>'), "`>` in {text:?}");
            let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "{tag}");
            } else if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert_eq!(open, [""; 0]);
    }

    #[test]
    fn a_page_has_all_and_needs_nothing() {
        let mut comparison = comparison(&[42, 42, 42]);
        comparison.command = "starling compare --html '<i>&.html'".to_owned();
        let late = &mut comparison.reports[0];
        late.spec.workload = Workload::OpenLoop;
        let latency = Some(Latency { p50: 20.0, p99: 900.0, p999: 5_000.0, max: 9_000.0 });
        late.series[1].turns.iter_mut().for_each(|turn| turn.latency = latency);
        for (report, keys) in comparison.reports[1..].iter_mut().zip([1_000, 100_000]) {
            report.setting = Some(Setting::Keys(keys));
        }
        let page = page(&comparison);
        is_well_formed(&page);
        for part in ["open-loop", "keyed-count by keys", "events/s", "Seed: 7", "kernel", "C15"] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(
            page.contains("<code>starling compare --html &#39;&lt;i&gt;&amp;.html&#39;</code>")
        );
        assert_eq!(page.matches("<polyline").count(), 3, "a row of quantiles and two lines");
        for part in ["http:", "https:", "<script", "<link", "@import", "<img", "src="] {
            assert!(!page.contains(part), "{part} is in {page}");
        }
        assert!(!page.contains("NaN") && !page.contains("inf\""));
    }

    #[test]
    fn sweeps_are_told_apart_by_workload_and_by_what_is_varied() {
        let at = |workload, setting| {
            let mut report = report(42);
            report.spec.workload = workload;
            report.setting = setting;
            report
        };
        let (one, other) = (Workload::KeyedCount, Workload::Counters);
        let reports = [
            at(one, None),
            at(one, Some(Setting::Keys(1))),
            at(one, Some(Setting::Skew(1.0))),
            at(other, Some(Setting::Keys(1))),
            at(one, Some(Setting::Keys(2))),
        ];
        let lengths: Vec<usize> = sweeps(&reports).iter().map(Vec::len).collect();
        assert_eq!(lengths, [2, 1, 1]);
    }
}
