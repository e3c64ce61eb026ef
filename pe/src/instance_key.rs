//! The key of an instance, as its code may ask for it.

use routing::{FieldKind, Key, Packed};

use crate::instances::long_bytes;

/// Which instance this is: the key it was created for, or its number among several.
///
/// The fields of a composite key come in the order in which config names them.
#[derive(Clone, Copy, Debug)]
pub struct KeyRef<'a> {
    bytes: &'a [u8],
    kinds: &'a [FieldKind],
    task: Option<(u32, u32)>,
}

impl<'a> KeyRef<'a> {
    pub(crate) fn of_key(bytes: &'a [u8], kinds: &'a [FieldKind]) -> Self {
        Self { bytes, kinds, task: None }
    }

    pub(crate) fn of_task(task: u32, count: u32) -> Self {
        Self { bytes: &[], kinds: &[], task: Some((task, count)) }
    }

    /// The number of this instance and how many there are; `None` for a keyed instance.
    pub fn task(&self) -> Option<(u32, u32)> {
        self.task
    }

    /// Whether the bytes are a key of these fields, no more and no less.
    pub(crate) fn is_whole(&self) -> bool {
        if let [kind] = *self.kinds {
            return is_alone(kind, self.bytes);
        }
        let mut rest = self.bytes;
        for &kind in self.kinds {
            match split(kind, rest) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.is_empty()
    }

    /// How many fields the key has; 0 for an instance without a key.
    pub fn fields(&self) -> usize {
        self.kinds.len()
    }

    /// A field that is text; `None` if it is of another kind or there is no such field.
    pub fn text(&self, field: usize) -> Option<&'a str> {
        let (kind, bytes) = self.field(field)?;
        if kind == FieldKind::Text { std::str::from_utf8(bytes).ok() } else { None }
    }

    /// A field of bytes, or an encoded one.
    pub fn bytes(&self, field: usize) -> Option<&'a [u8]> {
        let (kind, bytes) = self.field(field)?;
        matches!(kind, FieldKind::Bytes | FieldKind::Encoded).then_some(bytes)
    }

    /// A field that is an unsigned integer.
    pub fn unsigned(&self, field: usize) -> Option<u64> {
        self.number(field, FieldKind::Unsigned)
    }

    /// A field that is a signed integer.
    pub fn signed(&self, field: usize) -> Option<i64> {
        self.number(field, FieldKind::Signed).map(|bits| i64::from_le_bytes(bits.to_le_bytes()))
    }

    /// A field that is a float.
    pub fn float(&self, field: usize) -> Option<f64> {
        self.number(field, FieldKind::Float).map(f64::from_bits)
    }

    /// A field that is a truth value.
    pub fn boolean(&self, field: usize) -> Option<bool> {
        self.number(field, FieldKind::Bool).map(|bits| bits != 0)
    }

    fn number(&self, field: usize, kind: FieldKind) -> Option<u64> {
        let (found, bytes) = self.field(field)?;
        (found == kind).then(|| u64::from_le_bytes(bytes.try_into().expect("numbers are 8 bytes")))
    }

    /// The kind and bytes of a field; of one that may be absent, those of what is there.
    fn field(&self, field: usize) -> Option<(FieldKind, &'a [u8])> {
        match self.framed(field)? {
            (FieldKind::Optional(inner), bytes) => {
                let bytes = bytes.strip_prefix(&[1])?;
                Some((*inner, split(*inner, bytes)?.0))
            }
            plain => Some(plain),
        }
    }

    /// The canonical bytes of a field: alone they are all of the key, among several they are framed.
    fn framed(&self, field: usize) -> Option<(FieldKind, &'a [u8])> {
        let kind = *self.kinds.get(field)?;
        if self.kinds.len() == 1 {
            return Some((kind, self.bytes));
        }
        let mut rest = self.bytes;
        for &before in &self.kinds[..field] {
            rest = split(before, rest)?.1;
        }
        Some((kind, split(kind, rest)?.0))
    }
}

/// Whether the bytes are a field that is alone, and so not framed.
fn is_alone(kind: FieldKind, bytes: &[u8]) -> bool {
    match kind {
        FieldKind::Text | FieldKind::Bytes | FieldKind::Encoded => true,
        FieldKind::Unsigned
        | FieldKind::Signed
        | FieldKind::Float
        | FieldKind::Bool
        | FieldKind::Optional(_) => split(kind, bytes).is_some_and(|(_, rest)| rest.is_empty()),
        _ => false,
    }
}

/// The bytes of the first field, and the rest.
fn split(kind: FieldKind, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match kind {
        FieldKind::Text | FieldKind::Bytes | FieldKind::Encoded => {
            let (len, rest) = bytes.split_first_chunk::<4>()?;
            rest.split_at_checked(u32::from_le_bytes(*len) as usize)
        }
        FieldKind::Optional(inner) => match bytes.split_first()? {
            (0, rest) => Some((&bytes[..1], rest)),
            (_, rest) => {
                let (_, after) = split(*inner, rest)?;
                Some((&bytes[..bytes.len() - after.len()], after))
            }
        },
        FieldKind::Unsigned | FieldKind::Signed | FieldKind::Float | FieldKind::Bool => {
            bytes.split_at_checked(8)
        }
        _ => None,
    }
}

/// What an instance is filed under, back to its canonical bytes; a long key's are in `long`.
pub(crate) trait Unpack: Key {
    /// Writes the canonical bytes.
    fn unpack(self, long: &[Option<Box<[u8]>>], out: &mut Vec<u8>);
    /// The key of canonical bytes, which are whole; of a long one they have yet to be kept.
    fn pack(bytes: &[u8]) -> Self;
}

impl Unpack for u64 {
    fn unpack(self, _: &[Option<Box<[u8]>>], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.to_le_bytes());
    }

    fn pack(bytes: &[u8]) -> Self {
        Self::from_le_bytes(bytes.try_into().expect("a number is eight bytes"))
    }
}

impl Unpack for Packed {
    fn unpack(self, long: &[Option<Box<[u8]>>], out: &mut Vec<u8>) {
        out.clear();
        if self.is_long() {
            out.extend_from_slice(long_bytes(self, long));
        } else {
            out.extend_from_slice(&self.block()[..self.short_len()]);
        }
    }

    fn pack(bytes: &[u8]) -> Self {
        Self::new(bytes, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_a_composite_key_are_found_behind_one_another() {
        let kinds = [
            FieldKind::Text,
            FieldKind::Optional(&FieldKind::Signed),
            FieldKind::Optional(&FieldKind::Text),
            FieldKind::Unsigned,
            FieldKind::Bool,
        ];
        let mut bytes = vec![2, 0, 0, 0, b'a', b'b', 1];
        bytes.extend_from_slice(&(-3i64).to_le_bytes());
        bytes.push(0);
        bytes.extend_from_slice(&7u64.to_le_bytes());
        bytes.extend_from_slice(&1u64.to_le_bytes());
        let key = KeyRef::of_key(&bytes, &kinds);
        assert_eq!(
            (key.text(0), key.unsigned(3), key.boolean(4)),
            (Some("ab"), Some(7), Some(true))
        );
        assert_eq!((key.signed(1), key.text(2)), (Some(-3), None), "absent fields are none");
        assert_eq!((key.text(1), key.signed(3), key.text(5)), (None, None, None));
        let cut = KeyRef::of_key(&bytes[..5], &kinds);
        assert_eq!((cut.text(0), cut.boolean(4)), (None, None));
    }

    #[test]
    fn a_key_of_one_field_is_all_of_its_bytes() {
        assert_eq!(KeyRef::of_key(b"word", &[FieldKind::Text]).text(0), Some("word"));
        assert_eq!(KeyRef::of_task(2, 4).task(), Some((2, 4)));
    }
}
