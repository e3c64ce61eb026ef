//! Values that remember where they were written.
//!
//! A name is read long before it turns out to be wrong, so it has to carry its place. Comparing two
//! such values compares the values: where something was written is not part of what it means.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::{Deref, Range};

/// A value, and the bytes of the text it was read from, if it was.
#[derive(Clone, Debug, Default)]
pub struct Located<T> {
    value: T,
    span: Option<Range<usize>>,
}

impl<T> Located<T> {
    /// A value read from `span`.
    pub fn new(value: T, span: Range<usize>) -> Self {
        Self { value, span: Some(span) }
    }

    /// Where it was read; `None` if it was made by a program.
    pub fn span(&self) -> Option<Range<usize>> {
        self.span.clone()
    }

    /// The value without its place.
    pub fn into_value(self) -> T {
        self.value
    }

    /// Another value at the same place.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Located<U> {
        Located { value: change(self.value), span: self.span }
    }
}

impl<T> From<T> for Located<T> {
    fn from(value: T) -> Self {
        Self { value, span: None }
    }
}

impl From<&str> for Located<String> {
    fn from(value: &str) -> Self {
        Self { value: value.to_owned(), span: None }
    }
}

impl<T> Deref for Located<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl Borrow<str> for Located<String> {
    fn borrow(&self) -> &str {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Located<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Located<T> {}

impl<T: PartialOrd> PartialOrd for Located<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl<T: Ord> Ord for Located<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.cmp(&other.value)
    }
}
