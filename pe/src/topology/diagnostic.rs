//! What is wrong with a text, said so that it can be repaired.
//!
//! A message alone sends the reader searching. A diagnostic says what is wrong, where, and, if it
//! can be guessed, what was meant. It keeps byte offsets and not the text, so that whoever has the
//! text decides how to show it.

use std::fmt;
use std::ops::Range;

/// How many diagnostics are kept of one text; the rest are counted.
///
/// Nobody repairs more at once, and a file of a megabyte may hold a hundred thousand errors.
pub const PROBLEMS_MAX: usize = 100;

/// One thing that is wrong with a text, or that deserves a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// What is wrong, as a sentence without its full stop.
    pub message: String,
    /// The bytes of the text it is about; `None` if it is about no place in particular.
    pub span: Option<Range<usize>>,
    /// What to write beside the span; may be empty.
    pub label: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A diagnostic about no place in particular.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), span: None, label: String::new(), help: None }
    }

    /// Points at the text.
    #[must_use]
    pub fn at(mut self, span: Option<Range<usize>>, label: impl Into<String>) -> Self {
        self.span = span;
        self.label = label.into();
        self
    }

    /// Says what to do.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<Option<String>>) -> Self {
        self.help = help.into();
        self
    }

    /// Line and column of its start in the text it was made from, both counted from one; the
    /// column counts characters.
    pub fn position(&self, text: &str) -> Option<(usize, usize)> {
        let start = self.span.as_ref()?.start.min(text.len());
        let before = text.get(..start)?;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.matches('\n').count() + 1;
        Some((line, before[line_start..].chars().count() + 1))
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Diagnostic {}

/// Collects diagnostics, so that a reader can go on after the first.
#[derive(Clone, Debug, Default)]
pub struct Problems {
    kept: Vec<Diagnostic>,
    more: usize,
}

impl Problems {
    /// Adds one; beyond [`PROBLEMS_MAX`] it is only counted.
    pub fn push(&mut self, problem: Diagnostic) {
        self.push_with(|| problem);
    }

    /// Adds one that is costly to make, and makes it only if it is kept.
    pub fn push_with(&mut self, problem: impl FnOnce() -> Diagnostic) {
        if self.kept.len() < PROBLEMS_MAX {
            self.kept.push(problem());
        } else {
            self.more += 1;
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// All of them in the order of the text, those about no place first.
    pub fn into_sorted(mut self) -> Vec<Diagnostic> {
        self.kept.sort_by_key(|problem| problem.span.as_ref().map(|span| span.start));
        if self.more > 0 {
            self.kept.push(Diagnostic::new(format!("{} more errors are not shown", self.more)));
        }
        self.kept
    }

    /// The value if nothing was wrong, else everything that was.
    pub fn into_result<T>(self, value: T) -> Result<T, Vec<Diagnostic>> {
        if self.is_empty() { Ok(value) } else { Err(self.into_sorted()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let text = "a = 1\nbé = 2\n";
        let at = |start| Diagnostic::new("").at(Some(start..start), "").position(text);
        assert_eq!(at(0), Some((1, 1)));
        assert_eq!(at(4), Some((1, 5)));
        assert_eq!(at(6), Some((2, 1)));
        assert_eq!(at(9), Some((2, 3)), "é is two bytes and one character");
        assert_eq!(at(8), None, "inside é");
        assert_eq!(at(999), Some((3, 1)));
        assert_eq!(Diagnostic::new("").position(text), None);
    }

    #[test]
    fn beyond_the_limit_they_are_counted() {
        let mut problems = Problems::default();
        for start in 0..PROBLEMS_MAX + 7 {
            problems.push(Diagnostic::new("x").at(Some(start..start), ""));
        }
        let all = problems.into_sorted();
        assert_eq!(all.len(), PROBLEMS_MAX + 1);
        assert_eq!(all.last().unwrap().message, "7 more errors are not shown");
    }
}
