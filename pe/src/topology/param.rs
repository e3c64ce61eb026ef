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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParamKind {
    /// An integer between two others, both included.
    Integer(i64, i64),
    /// A finite number.
    Float,
    /// A text.
    Text,
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
        UnsetParam::new(name, doc, ParamKind::Float)
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
            Self::Float => f.write_str("a finite number"),
            Self::Text => f.write_str("a string"),
            Self::Texts => f.write_str("an array of strings"),
            Self::Duration => f.write_str("a duration"),
            Self::Boolean => f.write_str("true or false"),
        }
    }
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
    /// Without it, this is the value.
    pub const fn default(self, value: f64) -> Param {
        self.set(Presence::Default(ParamDefault::Float(value)))
    }
}

impl UnsetParam<&'static str> {
    /// Without it, this is the value.
    pub const fn default(self, value: &'static str) -> Param {
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
            (Param::text("a", "").required(), "a string"),
            (Param::texts("a", "").required(), "an array of strings"),
            (Param::duration("a", "").required(), "a duration"),
            (Param::boolean("a", "").required(), "true or false"),
        ] {
            assert_eq!(shown(param), text);
        }
    }
}
