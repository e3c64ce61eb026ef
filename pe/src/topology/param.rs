//! What a type of PE or spout can be told, declared beside it as a constant.
//!
//! Parameters are checked where the file is checked, on a machine that runs nothing; so they are
//! declared and not parsed by the application. A declaration says whether a value may be missing
//! and ends there: `.required()`, `.optional()` or `.default(..)` makes the [`Param`], and a
//! default of the wrong type does not compile.
//!
//! ```
//! use pe::topology::Param;
//!
//! const PARAMS: &[Param] = &[
//!     Param::integer("k", "how many are kept").between(1, 1_000).default(10),
//!     Param::texts("paths", "the files to read; `*` stands for any name").required(),
//!     Param::duration("every", "how often to look for new files").optional(),
//!     Param::text("order", "which file is read first").one_of(&["name", "age"]).default("name"),
//!     Param::float("share", "how much of a file is read").between(0.0, 1.0).default(1.0),
//! ];
//! assert_eq!(PARAMS[0].name, "k");
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// A parameter of a type of PE or spout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param {
    /// The key in `params`.
    pub name: &'static str,
    /// The values it takes.
    pub kind: ParamKind,
    /// What is when the file does not say.
    pub presence: Presence,
    /// What it does, in a line.
    pub doc: &'static str,
}

/// The values that a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ParamKind {
    /// An integer between two others, both included.
    Integer(i64, i64),
    /// A finite number between two others, both included.
    Float(f64, f64),
    /// A text.
    Text,
    /// One of these texts.
    OneOf(&'static [&'static str]),
    /// A list of texts.
    Texts,
    /// A duration such as `"250ms"`.
    Duration,
    /// `true` or `false`.
    Boolean,
}

/// What is when the file does not give a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Presence {
    /// The file is wrong.
    Required,
    /// There is no value.
    Optional,
    /// There is this value.
    Default(ParamDefault),
}

/// A value in a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ParamDefault {
    /// Of an integer.
    Integer(i64),
    /// Of a number.
    Float(f64),
    /// Of a text.
    Text(&'static str),
    /// Of a list of texts.
    Texts(&'static [&'static str]),
    /// Of a duration.
    Duration(Duration),
    /// Of a truth.
    Boolean(bool),
}

impl Param {
    /// An integer.
    pub const fn integer(name: &'static str, doc: &'static str) -> UnsetParam<i64> {
        UnsetParam::new(name, doc, ParamKind::Integer(i64::MIN, i64::MAX))
    }

    /// A finite number; the file may write it as an integer.
    pub const fn float(name: &'static str, doc: &'static str) -> UnsetParam<f64> {
        UnsetParam::new(name, doc, ParamKind::Float(f64::MIN, f64::MAX))
    }

    /// A text.
    pub const fn text(name: &'static str, doc: &'static str) -> UnsetParam<&'static str> {
        UnsetParam::new(name, doc, ParamKind::Text)
    }

    /// A list of texts.
    pub const fn texts(
        name: &'static str,
        doc: &'static str,
    ) -> UnsetParam<&'static [&'static str]> {
        UnsetParam::new(name, doc, ParamKind::Texts)
    }

    /// A duration; the file writes `"250ms"`, `"1s"`, `"10m"` or `"2h"`.
    pub const fn duration(name: &'static str, doc: &'static str) -> UnsetParam<Duration> {
        UnsetParam::new(name, doc, ParamKind::Duration)
    }

    /// `true` or `false`.
    pub const fn boolean(name: &'static str, doc: &'static str) -> UnsetParam<bool> {
        UnsetParam::new(name, doc, ParamKind::Boolean)
    }
}

impl fmt::Display for ParamKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(i64::MIN, i64::MAX) => f.write_str("an integer"),
            Self::Integer(low, i64::MAX) => write!(f, "an integer of at least {low}"),
            Self::Integer(low, high) => write!(f, "an integer from {low} to {high}"),
            Self::Float(f64::MIN, f64::MAX) => f.write_str("a finite number"),
            Self::Float(low, f64::MAX) => write!(f, "a number of at least {low}"),
            Self::Float(low, high) => write!(f, "a number from {low} to {high}"),
            Self::Text => f.write_str("a string"),
            Self::OneOf(choices) => write_choices(f, choices),
            Self::Texts => f.write_str("an array of strings"),
            Self::Duration => f.write_str("a duration"),
            Self::Boolean => f.write_str("true or false"),
        }
    }
}

/// Writes ``a`, `b` or `c``.
fn write_choices(f: &mut fmt::Formatter<'_>, choices: &[&str]) -> fmt::Result {
    for (at, choice) in choices.iter().enumerate() {
        let before = match at {
            0 => "",
            _ if at + 1 == choices.len() => " or ",
            _ => ", ",
        };
        write!(f, "{before}`{choice}`")?;
    }
    Ok(())
}

/// A parameter of which it is not yet said what happens when it is missing.
#[derive(Clone, Copy, Debug)]
pub struct UnsetParam<T> {
    name: &'static str,
    kind: ParamKind,
    doc: &'static str,
    value: PhantomData<T>,
}

impl<T: Copy> UnsetParam<T> {
    const fn new(name: &'static str, doc: &'static str, kind: ParamKind) -> Self {
        Self { name, kind, doc, value: PhantomData }
    }

    /// A file without it is wrong.
    pub const fn required(self) -> Param {
        self.set(Presence::Required)
    }

    /// Without it there is no value; the getters that start with `optional` say so.
    pub const fn optional(self) -> Param {
        self.set(Presence::Optional)
    }

    const fn set(self, presence: Presence) -> Param {
        Param { name: self.name, kind: self.kind, presence, doc: self.doc }
    }
}

impl UnsetParam<i64> {
    /// Refuses integers below `low` or above `high`.
    #[must_use]
    pub const fn between(mut self, low: i64, high: i64) -> Self {
        self.kind = ParamKind::Integer(low, high);
        self
    }

    /// Without it, this is the value.
    ///
    /// # Panics
    ///
    /// Does not compile, as a constant, if the default is out of the range.
    pub const fn default(self, value: i64) -> Param {
        if let ParamKind::Integer(low, high) = self.kind {
            assert!(low <= value && value <= high, "the default is out of the range");
        }
        self.set(Presence::Default(ParamDefault::Integer(value)))
    }
}

impl UnsetParam<f64> {
    /// Refuses numbers below `low` or above `high`.
    #[must_use]
    pub const fn between(mut self, low: f64, high: f64) -> Self {
        self.kind = ParamKind::Float(low, high);
        self
    }

    /// Without it, this is the value.
    ///
    /// # Panics
    ///
    /// Does not compile, as a constant, if the default is out of the range.
    pub const fn default(self, value: f64) -> Param {
        if let ParamKind::Float(low, high) = self.kind {
            assert!(low <= value && value <= high, "the default is out of the range");
        }
        self.set(Presence::Default(ParamDefault::Float(value)))
    }
}

impl UnsetParam<&'static str> {
    /// Refuses all texts but these.
    #[must_use]
    pub const fn one_of(mut self, choices: &'static [&'static str]) -> Self {
        self.kind = ParamKind::OneOf(choices);
        self
    }

    /// Without it, this is the value.
    ///
    /// # Panics
    ///
    /// Does not compile, as a constant, if the default is none of the choices.
    pub const fn default(self, value: &'static str) -> Param {
        if let ParamKind::OneOf(choices) = self.kind {
            assert!(is_among(value, choices), "the default is none of the choices");
        }
        self.set(Presence::Default(ParamDefault::Text(value)))
    }
}

impl UnsetParam<&'static [&'static str]> {
    /// Without it, these are the values.
    pub const fn default(self, value: &'static [&'static str]) -> Param {
        self.set(Presence::Default(ParamDefault::Texts(value)))
    }
}

impl UnsetParam<Duration> {
    /// Without it, this is the value.
    pub const fn default(self, value: Duration) -> Param {
        self.set(Presence::Default(ParamDefault::Duration(value)))
    }
}

impl UnsetParam<bool> {
    /// Without it, this is the value.
    pub const fn default(self, value: bool) -> Param {
        self.set(Presence::Default(ParamDefault::Boolean(value)))
    }
}

/// `choices.contains(&value)`, in a constant.
const fn is_among(value: &str, choices: &[&str]) -> bool {
    let mut at = 0;
    while at < choices.len() {
        if is_equal(value.as_bytes(), choices[at].as_bytes()) {
            return true;
        }
        at += 1;
    }
    false
}

/// `a == b`, in a constant.
const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_shown_as_what_is_expected() {
        let shown = |param: Param| param.kind.to_string();
        for (param, text) in [
            (Param::integer("a", "").required(), "an integer"),
            (Param::integer("a", "").between(1, i64::MAX).required(), "an integer of at least 1"),
            (Param::integer("a", "").between(1, 9).required(), "an integer from 1 to 9"),
            (Param::float("a", "").required(), "a finite number"),
            (Param::float("a", "").between(0.5, f64::MAX).required(), "a number of at least 0.5"),
            (Param::float("a", "").between(0.0, 10.0).required(), "a number from 0 to 10"),
            (Param::text("a", "").required(), "a string"),
            (Param::text("a", "").one_of(&["b", "c"]).required(), "`b` or `c`"),
            (Param::text("a", "").one_of(&["b", "c", "d"]).required(), "`b`, `c` or `d`"),
            (Param::texts("a", "").required(), "an array of strings"),
            (Param::duration("a", "").required(), "a duration"),
            (Param::boolean("a", "").required(), "true or false"),
        ] {
            assert_eq!(shown(param), text);
        }
    }
    #[test]
    fn a_default_is_one_of_the_choices() {
        let choices = ["ab", "b", ""];
        for choice in choices {
            assert!(is_among(choice, &choices), "{choice:?}");
        }
        for other in ["a", "abc", "B", "ba"] {
            assert!(!is_among(other, &choices), "{other:?}");
        }
        assert!(!is_among("", &["a"]) && !is_among("a", &[]));
    }
}
