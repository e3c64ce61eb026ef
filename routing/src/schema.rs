//! What the engine knows of an event type without its Rust type.
//!
//! Config names streams, events and fields; a topology is checked, hashed and shown by these names
//! alone. Nothing here touches a datum.

use std::fmt;

/// The names of an event type and of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The name of the type, as Rust spells it.
    pub name: &'static str,
    /// The fields, in the order in which they are declared.
    pub fields: &'static [FieldSchema],
}

impl Schema {
    /// The position of a field, if there is one of this name.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }
}

/// A field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSchema {
    /// Its name; config may use it as a key.
    pub name: &'static str,
    /// How its values look as a key.
    pub kind: FieldKind,
}

/// The canonical form of a field's values.
///
/// Two fields can be the same key only if their kinds are equal: canonical bytes of different kinds
/// are not comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldKind {
    /// Any unsigned integer of at most 64 bits.
    Unsigned,
    /// Any signed integer of at most 64 bits.
    Signed,
    /// `f32` or `f64`; as a key, both zeros are one and every NaN is one.
    Float,
    /// `bool`.
    Bool,
    /// `String`.
    Text,
    /// `Vec<u8>`.
    Bytes,
    /// `Option` of a plain field.
    Optional(&'static Self),
    /// Any other serde type, as its encoded bytes.
    Encoded,
}

impl FieldKind {
    /// Whether a column of such fields is its own column of canonical numbers.
    ///
    /// Not so for floats: their two zeros, and all their NaNs, are one key but several values.
    pub fn is_number(self) -> bool {
        matches!(self, Self::Unsigned | Self::Signed | Self::Bool)
    }
}

impl fmt::Display for FieldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned => f.write_str("unsigned integer"),
            Self::Signed => f.write_str("signed integer"),
            Self::Float => f.write_str("float"),
            Self::Bool => f.write_str("bool"),
            Self::Text => f.write_str("text"),
            Self::Bytes => f.write_str("bytes"),
            Self::Optional(kind) => write!(f, "optional {kind}"),
            Self::Encoded => f.write_str("encoded value"),
        }
    }
}
