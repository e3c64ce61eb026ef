//! All that a command came to: the reports of its workloads, the verdicts on the claims, and where it was.

use serde_json::{Value, json};
use starling::cli::{Exit, Failure};

use super::environment::Environment;
use super::report::Report;
use super::verdict::{self, Evidence, Verdict, Word};

/// What a command came to.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    /// In the order in which they were planned; at least one.
    pub(super) reports: Vec<Report>,
    pub(super) verdicts: Vec<Verdict>,
    pub(super) environment: Environment,
    /// The command line.
    pub(super) command: String,
}

impl Comparison {
    /// Judges the claims by these reports.
    pub(super) fn new(reports: Vec<Report>, environment: Environment, command: String) -> Self {
        let verdicts = verdict::verdicts(&Evidence::new(&reports));
        Self { reports, verdicts, environment, command }
    }

    /// A failure if some result is wrong.
    pub(super) fn result(&self) -> Result<(), Failure> {
        let fault = |report: &Report| Some(format!("{}: {}", report.subject(), report.fault()?));
        let faults: Vec<String> = match &*self.reports {
            [report] => report.fault().into_iter().collect(),
            several => several.iter().filter_map(fault).collect(),
        };
        if faults.is_empty() { Ok(()) } else { Err(Failure::new(Exit::Failure, faults.join("\n"))) }
    }

    /// One object: of a single comparison its own with what is about the command added, of several a list.
    pub(super) fn to_json(&self) -> Value {
        let Self { reports, verdicts, environment, command } = self;
        let mut json = match &**reports {
            [report] => report.to_json(),
            several => json!({
                "ok": self.result().is_ok(),
                "seed": several.first().map(|report| report.spec.seed),
                "comparisons": several.iter().map(Report::to_json).collect::<Vec<_>>(),
            }),
        };
        json["environment"] = json!(environment);
        json["command"] = json!(command);
        json["verdicts"] = json!(verdicts);
        json
    }

    /// Tables, and below them what one has to know to read them.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.reports.iter().flat_map(Report::lines).collect();
        let mut legends: Vec<String> = self.reports.iter().filter_map(Report::legend).collect();
        legends.dedup();
        lines.extend(legends);
        lines.extend(self.environment.lines());
        let shown = self.shown_verdicts();
        if !shown.is_empty() {
            lines.push(String::new());
            lines.extend(verdict::lines(&shown));
        }
        lines
    }

    /// All verdicts; of a single workload only those to which it has something to say.
    fn shown_verdicts(&self) -> Vec<Verdict> {
        let is_all = self.reports.len() > 1;
        let is_shown = |verdict: &&Verdict| is_all || verdict.verdict != Word::Open;
        self.verdicts.iter().filter(is_shown).cloned().collect()
    }
}

/// The command line that a shell would take for these words.
pub(super) fn command_line(words: impl Iterator<Item = String>) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=,./:+@%".contains(c);
    let quoted = |word: String| {
        let is_plain = !word.is_empty() && word.chars().all(is_plain);
        if is_plain { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::report::tests::report;
    use super::*;

    /// Of the answers that the last turn of each report has.
    pub(in super::super) fn comparison(answers: &[u64]) -> Comparison {
        let reports = answers.iter().map(|&answer| report(answer)).collect();
        Comparison::new(reports, Environment::before(), "starling compare".to_owned())
    }

    #[test]
    fn one_wrong_answer_makes_the_command_fail() {
        assert_eq!(comparison(&[42]).result(), Ok(()));
        let failure = comparison(&[43]).result().unwrap_err();
        assert_eq!(failure.to_string(), "keyed does not have the result of the plain count");
        assert_eq!(failure.exit_code(), std::process::ExitCode::from(1));
        let failure = comparison(&[42, 43]).result().unwrap_err();
        let why = "keyed-count: keyed does not have the result of the plain count";
        assert_eq!(failure.to_string(), why);
        assert_eq!(comparison(&[42, 43]).to_json()["ok"], false);
    }

    #[test]
    fn a_single_comparison_is_its_own_object_and_several_are_a_list() {
        let (one, two) = (comparison(&[42]).to_json(), comparison(&[42, 42]).to_json());
        assert_eq!(one["workload"], "keyed-count");
        assert_eq!(two["comparisons"][1]["workload"], "keyed-count");
        for json in [one, two] {
            assert_eq!((&json["seed"], &json["command"]), (&json!(7), &json!("starling compare")));
            assert_eq!(json["verdicts"].as_array().unwrap().len(), 15);
            assert_eq!(json["verdicts"][9]["verdict"], "fixed-here");
            assert!(json["environment"]["kernel"].is_string());
        }
    }

    #[test]
    fn open_verdicts_are_shown_where_all_are() {
        let (one, two) = (comparison(&[42]).lines(), comparison(&[42, 42]).lines());
        let has = |lines: &[String], start: &str| lines.iter().any(|line| line.starts_with(start));
        assert!(has(&one, "C10 ") && !has(&one, "C2 "), "{one:#?}");
        assert!(has(&two, "C10 ") && has(&two, "C2 "), "{two:#?}");
        assert!(one.iter().any(|line| line.contains("kernel")), "{one:#?}");
        let legends = two.iter().filter(|line| line.starts_with("RATIO")).count();
        assert_eq!(legends, 1, "{two:#?}");
    }

    #[test]
    fn a_command_line_can_be_typed_again() {
        let words = ["starling", "--html", "a b.html", "it's", ""].map(str::to_owned);
        assert_eq!(command_line(words.into_iter()), r"starling --html 'a b.html' 'it'\''s' ''");
    }
}
