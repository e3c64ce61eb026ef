//! Columns: how the fields of a batch lie in memory and on the wire.
//!
//! There are two views of a column. [`Store`] is typed, and runs per event, inlined. [`Column`] is an
//! object, chosen by config when a field is a key, and works on the whole column at once, so that the
//! dynamic call is paid per batch.

mod encoded;
mod fixed;
mod optional;
mod text;

use std::fmt::Debug;

pub use encoded::{Encoded, EncodedColumn};
pub use fixed::{Bits, Fixed};
pub use optional::Optional;
pub use text::Text;

use crate::{DecodeError, FieldKind, Packed};

/// A column with more bytes than this closes its batch. Smaller costs a dispatch more often; larger
/// falls out of the first-level cache, and batches of large events would grow with their rows.
pub const HEAVY: usize = 16 << 10;

/// A plain field type: what may stand in an event without an attribute.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a plain field of an event",
    note = "plain fields are integers up to 64 bits, floats, bool, String, Vec<u8> and Option of these",
    note = "any other serde type travels encoded: write #[event(encoded)] before the field"
)]
pub trait Field {
    /// The column of such fields.
    type Column: for<'a> Store<Ref<'a> = Self::Ref<'a>>;
    /// The field, borrowed.
    type Ref<'a>: Copy;
    /// Lends a field of an owned event.
    fn lend(&self) -> Self::Ref<'_>;
}

/// The typed view, used per event.
pub trait Store: Column + Debug + Default + Send + 'static {
    /// How the values look as a key.
    const KIND: FieldKind;
    /// The field, borrowed.
    type Ref<'a>: Copy;
    /// Copies a value to the end.
    fn push(&mut self, value: Self::Ref<'_>);
    /// A value packed as the only field of a key, where that spares work when it is pushed; `None` where
    /// it is better done for a whole column.
    #[inline(always)]
    fn pack_one(value: Self::Ref<'_>) -> Option<Packed> {
        let _ = value;
        None
    }
    /// As [`Store::push`], for what [`Store::pack_one`] has packed.
    #[inline(always)]
    fn push_packed(&mut self, value: Self::Ref<'_>, key: Packed) {
        let _ = key;
        self.push(value);
    }
    /// Borrows the value of a row.
    fn get(&self, row: usize) -> Self::Ref<'_>;
    /// Copies chosen rows of another column to the end.
    fn extend_rows(&mut self, from: &Self, rows: &[u32]);
    /// Forgets the rows and keeps the memory.
    fn clear(&mut self);
    /// Forgets the rows from `rows` on.
    fn truncate(&mut self, rows: usize);
    /// Whether there are more bytes than [`HEAVY`].
    #[inline(always)]
    fn is_heavy(&self) -> bool {
        false
    }
    /// Appends the column as it goes over the wire.
    fn encode(&self, out: &mut Vec<u8>);
    /// Replaces the rows by `rows` rows from the wire; leaves `input` behind what it read.
    ///
    /// # Errors
    /// The input is shorter than it says, or not such a column; the rows are then unspecified, and the
    /// caller clears the column.
    fn decode(&mut self, rows: usize, input: &mut &[u8]) -> Result<(), DecodeError>;
}

/// The view as a key, used per batch.
pub trait Column {
    /// How many rows there are.
    fn rows(&self) -> usize;
    /// Bytes of data.
    fn bytes(&self) -> usize;
    /// The rows as numbers, if they are their own canonical form: see [`FieldKind::is_number`].
    fn numbers(&self) -> Option<&[u64]> {
        None
    }
    /// Appends the packed canonical bytes of every row; the place of a long key is its row. `scratch` is
    /// memory that may be used.
    fn pack(&self, keys: &mut Vec<Packed>, scratch: &mut Vec<u8>);
    /// Appends the canonical bytes of one row as one field among several.
    fn append_key(&self, row: usize, bytes: &mut Vec<u8>);
    /// Appends the canonical bytes of one row as the only field of a key.
    fn append_alone(&self, row: usize, bytes: &mut Vec<u8>) {
        self.append_key(row, bytes);
    }
    /// Appends the value of a row as JSON.
    fn write_json(&self, row: usize, out: &mut Vec<u8>);
}

/// Takes `len` bytes off the front of `input`.
pub(crate) fn take<'i>(
    input: &mut &'i [u8],
    len: usize,
    what: &'static str,
) -> Result<&'i [u8], DecodeError> {
    let (taken, rest) = input.split_at_checked(len).ok_or(DecodeError::Truncated(what))?;
    *input = rest;
    Ok(taken)
}

/// A row number or a length inside a batch: batches are far smaller than 4 GiB.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "checked where a batch takes memory")]
pub(crate) fn narrow(at: usize) -> u32 {
    debug_assert!(u32::try_from(at).is_ok(), "batches are closed long before 4 GiB");
    at as u32
}

/// Appends any serde value as JSON; a value that JSON cannot say becomes `null`.
pub(crate) fn json<T: serde::Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate as starling;
    use crate::{Batch, Columns, Encoded, Event, EventRef, KeyFields};

    #[derive(Event)]
    struct Everything {
        id: u64,
        delta: i32,
        share: f64,
        is_new: bool,
        name: String,
        note: Option<String>,
        blob: Vec<u8>,
        #[event(encoded)]
        tags: Vec<(String, u32)>,
    }

    fn batch(names: &[String]) -> Batch<Everything> {
        let mut batch = Batch::<Everything>::default();
        for (id, name) in (0u64..).zip(names) {
            let tags = vec![(name.clone(), 7)];
            batch.columns.push(EverythingRef {
                id,
                delta: -1,
                share: -0.0,
                is_new: id % 2 == 1,
                name,
                note: (id % 2 == 0).then_some(name),
                blob: name.as_bytes(),
                tags: Encoded::Value(&tags),
            });
        }
        batch
    }

    fn check(columns: &EverythingColumns, names: &[String]) {
        assert_eq!(columns.rows(), names.len());
        for (row, name) in names.iter().enumerate() {
            let event = columns.get(row);
            assert_eq!((event.id, event.delta, event.name), (row as u64, -1, &name[..]));
            assert!(
                event.share == 0.0 && event.share.is_sign_negative(),
                "values are kept as given"
            );
            assert_eq!(event.is_new, row % 2 == 1);
            assert_eq!(event.note, (row % 2 == 0).then_some(&name[..]));
            assert_eq!(event.blob, name.as_bytes());
            assert_eq!(event.tags.decode(), Ok(vec![(name.clone(), 7)]));
        }
    }

    fn names() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec("[a-zé]{0,40}", 0..40)
    }

    proptest! {
        #[test]
        fn every_kind_of_field_comes_back_from_memory_and_wire(names in names()) {
            let batch = batch(&names);
            check(&batch.columns, &names);
            let mut wire = Vec::new();
            batch.columns.encode(&mut wire);
            prop_assert_eq!(wire.len(), batch.columns.bytes());
            let (mut back, mut input) = (EverythingColumns::default(), &wire[..]);
            back.decode(names.len(), &mut input).unwrap();
            prop_assert!(input.is_empty());
            check(&back, &names);
        }

        #[test]
        fn no_bytes_from_the_wire_break_a_column(
            names in names(), cut in 0usize..2000, flip in any::<(usize, u8)>(), rows in 0usize..100,
        ) {
            let mut wire = Vec::new();
            batch(&names).columns.encode(&mut wire);
            wire.truncate(cut);
            if !wire.is_empty() {
                let at = flip.0 % wire.len();
                wire[at] ^= flip.1;
            }
            let mut back = EverythingColumns::default();
            if back.decode(rows, &mut &wire[..]).is_ok() {
                // Whatever was accepted can be read.
                let mut json = Vec::new();
                for row in 0..rows {
                    let _ = back.get(row).tags.decode();
                    back.write_json(row, &mut json);
                }
                prop_assert!(std::str::from_utf8(&json).is_ok());
            } else {
                prop_assert_eq!(back.rows(), 0);
            }
        }

        #[test]
        fn equal_keys_have_equal_hashes_wherever_they_are(names in names(), fields in prop::sample::select(
            vec![vec![4], vec![0, 4], vec![5, 7], vec![2], vec![1, 3], vec![6]],
        )) {
            let key = KeyFields(fields);
            let (mut one, mut two) = (batch(&names), Batch::<Everything>::default());
            let rows: Vec<u32> = (0..super::narrow(names.len())).rev().collect();
            two.columns.extend_rows(&one.columns, &rows);
            one.hash(&key);
            two.hash(&key);
            two.hashes.reverse();
            prop_assert_eq!(&one.hashes, &two.hashes);
        }
    }

    #[test]
    fn a_row_is_json() {
        let batch = batch(&["q\"".to_owned()]);
        let mut json = Vec::new();
        batch.columns.write_json(0, &mut json);
        assert_eq!(
            String::from_utf8(json).unwrap(),
            r#"{"id":0,"delta":-1,"share":-0.0,"is_new":false,"name":"q\"","note":"q\"","blob":"7122","tags":[["q\"",7]]}"#
        );
    }

    #[test]
    fn the_fields_of_several_do_not_run_together() {
        #[derive(Event)]
        struct Pair {
            a: String,
            b: String,
        }
        let mut batch = Batch::<Pair>::default();
        batch.columns.push(PairRef { a: "ab", b: "c" });
        batch.columns.push(PairRef { a: "a", b: "bc" });
        batch.hash(&KeyFields(vec![0, 1]));
        assert_ne!(batch.hashes[0], batch.hashes[1]);
        fn event_of<'a, R: EventRef<'a>>(_: R) -> &'static str {
            R::Event::SCHEMA.name
        }
        assert_eq!(event_of(PairRef { a: "", b: "" }), "Pair");
    }
}
