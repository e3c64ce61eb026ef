//! Reads TOML so that every complaint has a place and none hides another.
//!
//! A derived `Deserialize` stops at the first error and loses most spans. This walks the parsed
//! document instead: a [`Table`] hands out the entries it is asked for, remembers which, and at the
//! end reports those that nobody asked for. So the list of known keys is the code that reads them
//! and cannot fall behind it. The config of a node is read with the same two types.

use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::diagnostic::{Diagnostic, Problems};
use super::duration::{DurationError, parse_duration};
use super::located::Located;
use super::model::NAME_BYTES_MAX;
use super::suggest::{did_you_mean, quoted, suggest};

/// The largest text that is read; a topology of the permitted size needs a fraction of it.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// A text that is TOML.
#[derive(Debug)]
pub struct Document<'t> {
    root: Spanned<DeTable<'t>>,
}

impl<'t> Document<'t> {
    /// Parses the text; of several errors in the syntax, the first is given.
    pub fn parse(text: &'t str) -> Result<Self, Diagnostic> {
        if text.len() > TEXT_BYTES_MAX {
            let message = format!("the file has {} bytes, and {TEXT_BYTES_MAX} may be", text.len());
            return Err(Diagnostic::new(message));
        }
        match DeTable::parse(text) {
            Ok(root) => Ok(Self { root }),
            Err(error) => Err(Diagnostic::new(error.message()).at(error.span(), "not TOML")),
        }
    }

    /// The table that holds everything; complaints about the whole of it have no span.
    pub fn root(&self) -> Table<'_> {
        Table {
            entries: self.root.get_ref(),
            title: "the top level".into(),
            span: None,
            asked: Vec::new(),
        }
    }
}

/// A table of the text, under way of being read.
#[derive(Debug)]
pub struct Table<'a> {
    entries: &'a DeTable<'a>,
    title: String,
    span: Option<Range<usize>>,
    asked: Vec<&'static str>,
}

impl<'a> Table<'a> {
    /// The entry of this key, if there is one. The key is known from now on.
    pub fn entry(&mut self, key: &'static str) -> Option<Entry<'a>> {
        self.asked.push(key);
        let (key, value) = self.entries.get_key_value(key)?;
        Some(Entry { key, value, path: quoted(key.get_ref()) })
    }

    /// The entry of this key, without which the table is wrong.
    pub fn required(&mut self, key: &'static str, problems: &mut Problems) -> Option<Entry<'a>> {
        let entry = self.entry(key);
        if entry.is_none() {
            let message = format!("{} needs `{key}`", self.title);
            problems.push(Diagnostic::new(message).at(self.span(), format!("`{key}` is missing")));
        }
        entry
    }

    /// The table of this key; without one, or with something else, there is `None`.
    pub fn table(&mut self, key: &'static str, problems: &mut Problems) -> Option<Self> {
        self.entry(key)?.table(format!("[{key}]"), problems)
    }

    /// Knows a key, and refuses it.
    pub fn unavailable(&mut self, key: &'static str, problems: &mut Problems) {
        if let Some(entry) = self.entry(key) {
            problems.push(unavailable(&entry.path, entry.key_span()));
        }
    }

    /// All entries, for a table whose keys are names.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        self.entries.iter().map(|(key, value)| Entry { key, value, path: quoted(key.get_ref()) })
    }

    /// Where the table is; for `[pe.split]` that is `split`.
    pub fn span(&self) -> Option<Range<usize>> {
        self.span.clone()
    }

    /// Reports the keys that were never asked for.
    pub fn finish(self, problems: &mut Problems) {
        for (key, _) in self.entries {
            let name: &str = key.get_ref();
            if !self.asked.contains(&name) {
                problems.push_with(|| {
                    let help = did_you_mean(name, self.asked.iter().copied(), "known keys");
                    Diagnostic::new(format!("unknown key {}", quoted(name)))
                        .at(Some(key.span()), format!("not a key of {}", self.title))
                        .with_help(help)
                });
            }
        }
    }
}

/// A key and its value, or an item of a list.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    key: &'a Spanned<DeString<'a>>,
    value: &'a Spanned<DeValue<'a>>,
    /// How messages call it; an item is called by its list.
    path: String,
}

impl<'a> Entry<'a> {
    /// The key; of an item, that of its list.
    pub fn key(&self) -> &'a str {
        self.key.get_ref()
    }

    /// The key and its place.
    pub fn located_key(&self) -> Located<String> {
        Located::new(self.key().to_owned(), self.key.span())
    }

    /// Where the key is.
    pub fn key_span(&self) -> Option<Range<usize>> {
        Some(self.key.span())
    }

    /// Where the value is.
    pub fn span(&self) -> Option<Range<usize>> {
        Some(self.value.span())
    }

    /// The value as TOML has it.
    pub fn value(&self) -> &'a DeValue<'a> {
        self.value.get_ref()
    }

    /// The key as a name of the application.
    pub fn key_as_name(&self, what: &str, problems: &mut Problems) -> Option<Located<String>> {
        check_name(self.located_key(), what, problems)
    }

    /// The value as a name of the application.
    pub fn name(&self, what: &str, problems: &mut Problems) -> Option<Located<String>> {
        check_name(self.text(problems)?, what, problems)
    }

    /// The value as a text.
    pub fn text(&self, problems: &mut Problems) -> Option<Located<String>> {
        match self.value.get_ref().as_str() {
            Some(text) => Some(self.locate(text.to_owned())),
            None => self.mismatch("a string", problems),
        }
    }

    /// The value as a truth.
    pub fn boolean(&self, problems: &mut Problems) -> Option<Located<bool>> {
        match self.value.get_ref().as_bool() {
            Some(value) => Some(self.locate(value)),
            None => self.mismatch("true or false", problems),
        }
    }

    /// The value as an integer within a range.
    pub fn integer(
        &self,
        range: RangeInclusive<u32>,
        problems: &mut Problems,
    ) -> Option<Located<u32>> {
        let Some(integer) = self.value.get_ref().as_integer() else {
            return self.mismatch("an integer", problems);
        };
        let value = u32::from_str_radix(integer.as_str(), integer.radix()).ok();
        if let Some(value) = value.filter(|value| range.contains(value)) {
            return Some(self.locate(value));
        }
        let (low, high) = (range.start(), range.end());
        self.refuse(format!("{} must be from {low} to {high}", self.path), "out of range", problems)
    }

    /// The value as a duration above zero, such as `"250ms"`.
    pub fn duration(&self, problems: &mut Problems) -> Option<Located<Duration>> {
        let Some(text) = self.value.get_ref().as_str() else {
            if self.value.get_ref().is_integer() {
                return self.no_duration(DurationError::NoUnit, problems);
            }
            return self.mismatch("a duration", problems);
        };
        match parse_duration(text) {
            Ok(Duration::ZERO) => {
                self.refuse(format!("{} must be above zero", self.path), "zero", problems)
            }
            Ok(duration) => Some(self.locate(duration)),
            Err(error) => self.no_duration(error, problems),
        }
    }

    /// The items of the value.
    pub fn list(&self, problems: &mut Problems) -> Option<Vec<Self>> {
        let Some(items) = self.value.get_ref().as_array() else {
            return self.mismatch("an array", problems);
        };
        let path = format!("an item of {}", self.path);
        Some(items.iter().map(|value| Self { key: self.key, value, path: path.clone() }).collect())
    }

    /// The items of the value, each a text.
    pub fn texts(&self, problems: &mut Problems) -> Option<Vec<Located<String>>> {
        let items = self.list(problems)?;
        Some(items.iter().filter_map(|item| item.text(problems)).collect())
    }

    /// The value as a table called `title` in messages.
    pub fn table(&self, title: String, problems: &mut Problems) -> Option<Table<'a>> {
        let Some(entries) = self.value.get_ref().as_table() else {
            return self.mismatch("a table", problems);
        };
        Some(Table { entries, title, span: Some(self.key.span()), asked: Vec::new() })
    }

    /// An item as a table; complaints about the whole of it point at the item, not at the key.
    pub fn item_table(&self, title: String, problems: &mut Problems) -> Option<Table<'a>> {
        Some(Table { span: self.span(), ..self.table(title, problems)? })
    }

    /// One of some texts, each with its meaning; `None` means that it is not available.
    pub fn choice<T: Copy>(
        &self,
        choices: &[(&'static str, Option<T>)],
        problems: &mut Problems,
    ) -> Option<Located<T>> {
        let text = self.text(problems)?;
        match choices.iter().find(|(name, _)| *name == text.as_str()) {
            Some((_, Some(value))) => Some(self.locate(*value)),
            Some((_, None)) => {
                problems.push(unavailable(
                    &quoted(&format!("{} = \"{}\"", self.key(), *text)),
                    self.span(),
                ));
                None
            }
            None => {
                // What is not available may have been meant, but is not worth listing.
                let all = choices.iter().map(|(name, _)| *name);
                let usable = choices.iter().filter(|(_, value)| value.is_some());
                let help = match suggest(&text, all) {
                    Some(guess) => format!("did you mean {}?", quoted(guess)),
                    None => did_you_mean(&text, usable.map(|(name, _)| *name), "known values"),
                };
                problems.push(
                    Diagnostic::new(format!("unknown {} {}", self.key(), quoted(&text)))
                        .at(self.span(), "unknown")
                        .with_help(help),
                );
                None
            }
        }
    }

    /// What was made of the value, with the place of the value.
    pub fn locate<T>(&self, value: T) -> Located<T> {
        Located::new(value, self.value.span())
    }

    /// Complains about the value, and gives nothing.
    pub fn refuse<T>(&self, message: String, label: &str, problems: &mut Problems) -> Option<T> {
        problems.push(Diagnostic::new(message).at(self.span(), label));
        None
    }

    fn no_duration<T>(&self, error: DurationError, problems: &mut Problems) -> Option<T> {
        problems.push(
            Diagnostic::new(format!("the duration of {} {error}", self.path))
                .at(self.span(), "not a duration")
                .with_help(DURATION_HELP.to_owned()),
        );
        None
    }

    fn mismatch<T>(&self, wanted: &str, problems: &mut Problems) -> Option<T> {
        let found = shown_type(self.value.get_ref());
        let message = format!("{} must be {wanted}, not {found}", self.path);
        self.refuse(message, &format!("{wanted} is expected"), problems)
    }
}

/// What to say to whoever got a duration wrong.
pub(super) const DURATION_HELP: &str =
    "write a whole number and its unit: \"250ms\", \"1s\", \"10m\" or \"2h\"";

/// The diagnostic for what the format has and this version has not.
pub(super) fn unavailable(what: &str, span: Option<Range<usize>>) -> Diagnostic {
    Diagnostic::new(format!("{what} is not available in this version")).at(span, "not available")
}

/// The type of a value with its article.
pub(super) fn shown_type(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a datetime",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// Names end up in addresses of pages, in labels of metrics and in commands, unescaped.
fn check_name(
    name: Located<String>,
    what: &str,
    problems: &mut Problems,
) -> Option<Located<String>> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_plain) {
        return Some(name);
    }
    problems.push(
        Diagnostic::new(format!("{} cannot be the name of a {what}", quoted(&name)))
            .at(name.span(), "not a name")
            .with_help(format!(
                "a name has 1 to {NAME_BYTES_MAX} letters, digits, `_` and `-` of ASCII"
            )),
    );
    None
}
