//! A file that a person wrote, and what is wrong with it: where, the line itself, and what was
//! probably meant.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use miette::{
    GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, NamedSource, Report,
};
use pe::topology::{Diagnostic, TEXT_BYTES_MAX};
use serde_json::{Value, json};

use super::failure::{Exit, Failure};
use super::output;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    Error,
    Warning,
}

/// The text of a file, with its name for messages.
#[derive(Clone, Debug)]
pub(super) struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// Reads a file; of one that is too long, enough for its reader to refuse it.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = read_limited(path).map_err(|error| {
            Failure::new(Exit::Config, format!("cannot read {}: {error}", path.display()))
        })?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let line = error.as_bytes()[..valid].iter().filter(|byte| **byte == b'\n').count() + 1;
            let message = format!("{}:{line}: not UTF-8 at byte {valid}", path.display());
            Failure::new(Exit::Config, message)
        })?;
        Ok(Self { path: path.to_owned(), text })
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The name of the file as it was given.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Prints what is wrong as messages.
    pub(super) fn show(&self, diagnostics: &[Diagnostic], severity: Severity) {
        for diagnostic in diagnostics {
            let shown = self.render(diagnostic, severity, output::is_coloured());
            output::message(format_args!("{}\n", shown.trim_end()));
        }
    }

    /// Prints errors, and makes them the reason why the command ends.
    pub(super) fn refuse(&self, errors: &[Diagnostic]) -> Failure {
        self.show(errors, Severity::Error);
        Failure::silent(Exit::Config)
    }

    /// What is wrong, as data.
    pub(super) fn to_json(&self, diagnostics: &[Diagnostic]) -> Vec<Value> {
        let to_json = |diagnostic: &Diagnostic| {
            let (line, column) = diagnostic.position(&self.text).unzip();
            json!({
                "message": diagnostic.message,
                "line": line,
                "column": column,
                "label": diagnostic.label,
                "help": diagnostic.help,
            })
        };
        diagnostics.iter().map(to_json).collect()
    }

    fn render(&self, diagnostic: &Diagnostic, severity: Severity, colours: bool) -> String {
        let mut shown = MietteDiagnostic::new(&diagnostic.message);
        shown.severity = Some(match severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        });
        shown.help.clone_from(&diagnostic.help);
        if let Some(span) = &diagnostic.span {
            let label = (!diagnostic.label.is_empty()).then(|| diagnostic.label.clone());
            shown.labels = Some(vec![LabeledSpan::new(label, span.start, span.len())]);
        } else {
            // Without a place there is no excerpt, and so nobody would say which file it is.
            shown.message = format!("{}: {}", self.name(), shown.message);
        }
        let source = NamedSource::new(self.name(), self.text.clone());
        let report = Report::from(shown).with_source_code(source);
        let theme =
            if colours { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(100).with_links(false);
        let mut out = String::new();
        handler.render_report(&mut out, report.as_ref()).expect("a String takes everything");
        out
    }
}

fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(TEXT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, diagnostic: &Diagnostic) -> String {
        let source = Source { path: "a.toml".into(), text: text.to_owned() };
        source.render(diagnostic, Severity::Error, false)
    }

    #[test]
    fn a_diagnostic_shows_place_line_and_help() {
        let diagnostic = Diagnostic::new("unknown key `paralelism`")
            .at(Some(11..21), "not a key of the top level")
            .with_help("did you mean `parallelism`?".to_owned());
        let shown = shown("name = \"x\"\nparalelism = 4\n", &diagnostic);
        for part in ["a.toml:2:1", "paralelism = 4", "not a key", "did you mean `parallelism`?"] {
            assert!(shown.contains(part), "{part} is not in\n{shown}");
        }
        assert!(!shown.contains('\u{1b}'), "{shown}");
    }

    #[test]
    fn without_a_place_the_file_is_named() {
        let shown = shown("", &Diagnostic::new("the file is too long"));
        assert!(shown.contains("a.toml: the file is too long"), "{shown}");
    }
}
