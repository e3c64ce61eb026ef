//! What a PE or spout was told, checked against what it can be told.
//!
//! An application asks for its parameters when an instance is made, and there is nobody then to
//! hand an error to. So everything is checked while planning, defaults are filled in, and what can
//! still go wrong is a slip in the application itself: asking for what its `PARAMS` do not declare.
//! That panics, and the text says what to declare.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::time::Duration;

use serde::ser::{Serialize, SerializeMap, Serializer};
use toml::de::DeValue;

use super::canonical::write_text;
use super::diagnostic::{Diagnostic, Problems};
use super::document::{DURATION_HELP, shown_type};
use super::duration::{DurationError, parse_duration, show_duration};
use super::located::Located;
use super::param::{Param, ParamDefault, ParamKind, Presence};
use super::suggest::{did_you_mean, quoted, suggest};
use crate::window::WindowSpec;

/// A value as a topology gives it, before it is known what is wanted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ParamValue {
    /// A string; may be meant as a duration.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A number.
    Float(f64),
    /// A truth.
    Boolean(bool),
    /// A list of strings.
    Texts(Vec<String>),
    /// What no parameter takes; the name of what it is, with its article.
    Other(&'static str),
}

/// The parameters of one prototype, as the application reads them.
///
/// Cheap enough to be cloned per container, not per event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params {
    settings: BTreeMap<&'static str, Setting>,
    window: Option<WindowSpec>,
}

impl Params {
    /// Checks values against a declaration and fills in the defaults; for tests of a PE, and for
    /// topologies made by a program.
    ///
    /// ```
    /// use pe::topology::{Param, Params};
    ///
    /// const PARAMS: &[Param] = &[
    ///     Param::integer("k", "how many").default(10),
    ///     Param::text("path", "where to").required(),
    /// ];
    /// let params = Params::new(PARAMS, [("path", "out.txt".into())]).unwrap();
    /// assert_eq!((params.integer("k"), params.text("path")), (10, "out.txt"));
    /// let problems = Params::new(PARAMS, []).unwrap_err();
    /// assert_eq!(problems[0].message, "the parameter `path` is missing");
    /// ```
    pub fn new<'a>(
        declared: &'static [Param],
        values: impl IntoIterator<Item = (&'a str, ParamValue)>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let given = values.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let mut problems = Problems::default();
        let params = Self::resolve(declared, &given, None, &mut problems);
        problems.into_result(params)
    }

    /// As [`Params::new`]; what is missing is reported at `site`.
    pub(super) fn resolve(
        declared: &'static [Param],
        given: &BTreeMap<Located<String>, Located<ParamValue>>,
        site: Option<Range<usize>>,
        problems: &mut Problems,
    ) -> Self {
        for name in given.keys() {
            if !declared.iter().any(|param| param.name == name.as_str()) {
                let known = declared.iter().map(|param| param.name);
                problems.push(
                    Diagnostic::new(format!("unknown parameter {}", quoted(name)))
                        .at(name.span(), "not a parameter of this type")
                        .with_help(did_you_mean(name, known, "parameters")),
                );
            }
        }
        let mut settings = BTreeMap::new();
        for param in declared {
            let value = match (given.get(param.name), param.presence) {
                (Some(value), _) => Value::new(param, value, problems),
                (None, Presence::Default(value)) => Some(value.into()),
                (None, Presence::Optional) => None,
                (None, Presence::Required) => {
                    problems.push(missing(param, site.clone()));
                    None
                }
            };
            let is_optional = param.presence == Presence::Optional;
            let before =
                settings.insert(param.name, Setting { is_optional, kind: param.kind, value });
            assert!(before.is_none(), "PARAMS declare `{}` twice", param.name);
        }
        Self { settings, window: None }
    }

    /// The same with the windows that a [`Windowed`](crate::Windowed) type is given; for tests of one.
    /// A topology says it with `window`.
    #[must_use]
    pub fn with_window(self, window: WindowSpec) -> Self {
        Self { window: Some(window), ..self }
    }

    /// The windows that the topology gives a windowed type.
    pub fn window(&self) -> Option<WindowSpec> {
        self.window
    }

    /// Whether there is a value.
    ///
    /// # Panics
    ///
    /// As all getters: if `PARAMS` do not declare the name.
    #[track_caller]
    pub fn has(&self, name: &str) -> bool {
        self.setting(name).value.is_some()
    }

    /// Names, in order, and values of what is set.
    fn set(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.settings.iter().filter_map(|(name, setting)| Some((*name, setting.value.as_ref()?)))
    }

    /// Appends all values so that no two different sets of them look the same.
    pub(super) fn write_canonical(&self, out: &mut String) {
        for (name, value) in self.set() {
            out.push_str(" param ");
            write_text(out, name);
            value.write_canonical(out);
        }
    }

    #[track_caller]
    fn setting(&self, name: &str) -> &Setting {
        let Some(setting) = self.settings.get(name) else {
            let known: Vec<&str> = self.settings.keys().copied().collect();
            panic!("PARAMS do not declare `{name}`; they declare {known:?}");
        };
        setting
    }
}

/// Two getters per kind: the value, and the value if there is one.
macro_rules! getters {
    ($($variant:ident, $get:ident, $optional:ident, $result:ty, $value:ident => $shown:expr;)*) => {
        impl Params {$(
            #[doc = concat!("What was declared with `Param::", stringify!($get), "`.")]
            ///
            /// # Panics
            ///
            /// If `PARAMS` do not declare it, declare it with another type, or declare it optional.
            #[track_caller]
            pub fn $get(&self, name: &str) -> $result {
                assert!(
                    !self.setting(name).is_optional,
                    concat!("PARAMS declare `{}` optional; ask for `", stringify!($optional), "`"),
                    name,
                );
                self.$optional(name).expect("a parameter that is not optional has a value")
            }

            #[doc = concat!("As [`Params::", stringify!($get), "`], for one that may be missing.")]
            #[track_caller]
            pub fn $optional(&self, name: &str) -> Option<$result> {
                let setting = self.setting(name);
                let (asked, declared) = (stringify!($get), setting.kind.getter());
                assert!(
                    asked == declared,
                    "PARAMS declare `{name}` with `Param::{declared}`, not with `Param::{asked}`",
                );
                match setting.value.as_ref()? {
                    Value::$variant($value) => Some($shown),
                    _ => unreachable!("a value is of the kind that was declared"),
                }
            }
        )*}
    };
}

getters! {
    Integer, integer, optional_integer, i64, value => *value;
    Float, float, optional_float, f64, value => *value;
    Text, text, optional_text, &str, value => value.as_str();
    Texts, texts, optional_texts, &[String], value => value.as_slice();
    Duration, duration, optional_duration, Duration, value => *value;
    Boolean, boolean, optional_boolean, bool, value => *value;
}

/// A map of what is set; durations as a file would write them.
impl Serialize for Params {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.set() {
            match value {
                Value::Integer(value) => map.serialize_entry(name, value)?,
                Value::Float(value) => map.serialize_entry(name, value)?,
                Value::Text(value) => map.serialize_entry(name, value)?,
                Value::Texts(value) => map.serialize_entry(name, value)?,
                Value::Duration(value) => map.serialize_entry(name, &show_duration(*value))?,
                Value::Boolean(value) => map.serialize_entry(name, value)?,
            }
        }
        map.end()
    }
}

impl ParamKind {
    /// The getter, and the constructor, of this kind.
    fn getter(self) -> &'static str {
        match self {
            Self::Integer(..) => "integer",
            Self::Float(..) => "float",
            Self::Text | Self::OneOf(_) => "text",
            Self::Texts => "texts",
            Self::Duration => "duration",
            Self::Boolean => "boolean",
        }
    }
}

impl ParamValue {
    /// What a text says, whatever it is.
    pub(super) fn of(value: &DeValue<'_>) -> Self {
        let text_of = |item: &DeValue<'_>| item.as_str().map(str::to_owned);
        match value {
            DeValue::String(text) => Self::Text(text.to_string()),
            DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix())
                .map_or(Self::Other("an integer beyond 64 bits"), Self::Integer),
            DeValue::Float(float) => {
                float.as_str().parse().map_or(Self::Other("a float"), Self::Float)
            }
            DeValue::Boolean(value) => Self::Boolean(*value),
            DeValue::Array(items) => items
                .iter()
                .map(|item| text_of(item.get_ref()))
                .collect::<Option<_>>()
                .map_or(Self::Other("an array of something else"), Self::Texts),
            DeValue::Datetime(_) | DeValue::Table(_) => Self::Other(shown_type(value)),
        }
    }

    fn shown(&self) -> String {
        match self {
            Self::Text(_) => "a string".into(),
            Self::Integer(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Boolean(value) => value.to_string(),
            Self::Texts(_) => "an array of strings".into(),
            Self::Other(what) => (*what).into(),
        }
    }
}

impl From<&str> for ParamValue {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}

impl From<i64> for ParamValue {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for ParamValue {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<bool> for ParamValue {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<&[&str]> for ParamValue {
    fn from(values: &[&str]) -> Self {
        Self::Texts(values.iter().map(|&value| value.into()).collect())
    }
}

impl From<Duration> for ParamValue {
    fn from(value: Duration) -> Self {
        Self::Text(show_duration(value))
    }
}

/// A declared parameter and its value; without one only if it is optional.
#[derive(Clone, Debug, PartialEq)]
struct Setting {
    is_optional: bool,
    kind: ParamKind,
    value: Option<Value>,
}

/// A value of the kind that was declared.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Integer(i64),
    Float(f64),
    Text(String),
    Texts(Vec<String>),
    Duration(Duration),
    Boolean(bool),
}

impl Value {
    fn new(param: &Param, given: &Located<ParamValue>, problems: &mut Problems) -> Option<Self> {
        let value = match (param.kind, &**given) {
            (ParamKind::Integer(low, high), ParamValue::Integer(value)) => {
                (low..=high).contains(value).then_some(Self::Integer(*value))
            }
            (ParamKind::Float(low, high), ParamValue::Float(value)) => {
                (low..=high).contains(value).then_some(Self::Float(*value))
            }
            (ParamKind::Float(low, high), ParamValue::Integer(value)) => {
                let value = i32::try_from(*value).ok().map(f64::from);
                value.filter(|value| (low..=high).contains(value)).map(Self::Float)
            }
            (ParamKind::Text, ParamValue::Text(text)) => Some(Self::Text(text.clone())),
            (ParamKind::OneOf(choices), ParamValue::Text(text)) => {
                if !choices.contains(&text.as_str()) {
                    return none_of(param, choices, given.span(), text, problems);
                }
                Some(Self::Text(text.clone()))
            }
            (ParamKind::Texts, ParamValue::Texts(texts)) => Some(Self::Texts(texts.clone())),
            (ParamKind::Boolean, ParamValue::Boolean(value)) => Some(Self::Boolean(*value)),
            (ParamKind::Duration, ParamValue::Text(text)) => {
                return match parse_duration(text) {
                    Ok(duration) => Some(Self::Duration(duration)),
                    Err(error) => no_duration(param, given.span(), error, problems),
                };
            }
            (ParamKind::Duration, ParamValue::Integer(_)) => {
                return no_duration(param, given.span(), DurationError::NoUnit, problems);
            }
            _ => None,
        };
        if value.is_none() {
            let (name, kind, found) = (param.name, param.kind, given.shown());
            problems.push(
                Diagnostic::new(format!("the parameter `{name}` must be {kind}, not {found}"))
                    .at(given.span(), format!("{kind} is expected"))
                    .with_help(help(param)),
            );
        }
        value
    }

    fn write_canonical(&self, out: &mut String) {
        // Writing into a string cannot fail.
        let _ = match self {
            Self::Integer(value) => write!(out, " integer {value}"),
            Self::Float(value) => write!(out, " float {:016x}", value.to_bits()),
            Self::Duration(value) => write!(out, " duration {}", value.as_nanos()),
            Self::Boolean(value) => write!(out, " boolean {value}"),
            Self::Text(value) => {
                out.push_str(" text ");
                write_text(out, value);
                Ok(())
            }
            Self::Texts(values) => {
                let written = write!(out, " texts {}", values.len());
                for value in values {
                    out.push(' ');
                    write_text(out, value);
                }
                written
            }
        };
    }
}

impl From<ParamDefault> for Value {
    fn from(value: ParamDefault) -> Self {
        match value {
            ParamDefault::Integer(value) => Self::Integer(value),
            ParamDefault::Float(value) => Self::Float(value),
            ParamDefault::Text(value) => Self::Text(value.into()),
            ParamDefault::Texts(values) => {
                Self::Texts(values.iter().map(|&value| value.into()).collect())
            }
            ParamDefault::Duration(value) => Self::Duration(value),
            ParamDefault::Boolean(value) => Self::Boolean(value),
        }
    }
}

fn missing(param: &Param, site: Option<Range<usize>>) -> Diagnostic {
    Diagnostic::new(format!("the parameter `{}` is missing", param.name))
        .at(site, format!("{} is required", param.kind))
        .with_help(help(param))
}

fn help(param: &Param) -> String {
    format!("`{}`: {}", param.name, param.doc)
}

fn none_of<T>(
    param: &Param,
    choices: &'static [&'static str],
    span: Option<Range<usize>>,
    found: &str,
    problems: &mut Problems,
) -> Option<T> {
    let (name, kind) = (param.name, param.kind);
    let text = format!("the parameter `{name}` must be {kind}, not {}", quoted(found));
    let help = suggest(found, choices.iter().copied())
        .map_or_else(|| help(param), |guess| format!("did you mean {}?", quoted(guess)));
    problems.push(Diagnostic::new(text).at(span, format!("{kind} is expected")).with_help(help));
    None
}

fn no_duration<T>(
    param: &Param,
    span: Option<Range<usize>>,
    error: DurationError,
    problems: &mut Problems,
) -> Option<T> {
    problems.push(
        Diagnostic::new(format!("the duration of the parameter `{}` {error}", param.name))
            .at(span, "not a duration")
            .with_help(DURATION_HELP.to_owned()),
    );
    None
}
