//! A field that may be absent: the present values, and for each row which of them it is.

use super::{Column, Field, Store, narrow, take};
use crate::{DecodeError, FieldKind, Packed};

/// The column of an `Option`.
#[derive(Debug, Default)]
pub struct Optional<C> {
    /// Zero for absent, else one more than the position among the values.
    places: Vec<u32>,
    values: C,
}

impl<F: Field> Field for Option<F> {
    type Column = Optional<F::Column>;
    type Ref<'a> = Option<F::Ref<'a>>;
    fn lend(&self) -> Option<F::Ref<'_>> {
        self.as_ref().map(F::lend)
    }
}

impl<C: Store> Store for Optional<C> {
    const KIND: FieldKind = FieldKind::Optional(&C::KIND);
    type Ref<'a> = Option<C::Ref<'a>>;

    #[inline]
    fn push(&mut self, value: Option<C::Ref<'_>>) {
        match value {
            Some(value) => {
                self.values.push(value);
                self.places.push(narrow(self.values.rows()));
            }
            None => self.places.push(0),
        }
    }

    #[inline]
    fn get(&self, row: usize) -> Option<C::Ref<'_>> {
        let at = self.places[row].checked_sub(1)?;
        Some(self.values.get(at as usize))
    }

    fn extend_rows(&mut self, from: &Self, rows: &[u32]) {
        for &row in rows {
            self.push(from.get(row as usize));
        }
    }

    fn clear(&mut self) {
        self.places.clear();
        self.values.clear();
    }

    fn truncate(&mut self, rows: usize) {
        self.places.truncate(rows);
        let present = self.places.iter().max().copied().unwrap_or(0);
        self.values.truncate(present as usize);
    }

    fn is_heavy(&self) -> bool {
        self.values.is_heavy()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.places.iter().map(|&place| u8::from(place > 0)));
        self.values.encode(out);
    }

    fn decode(&mut self, rows: usize, input: &mut &[u8]) -> Result<(), DecodeError> {
        self.places.clear();
        let mut present = 0;
        for &flag in take(input, rows, "which values are present")? {
            if flag > 1 {
                return Err(DecodeError::Malformed("neither present nor absent"));
            }
            present += u32::from(flag);
            self.places.push(present * u32::from(flag));
        }
        self.values.decode(present as usize, input)
    }
}

impl<C: Store> Column for Optional<C> {
    fn rows(&self) -> usize {
        self.places.len()
    }

    fn bytes(&self) -> usize {
        self.places.len() + self.values.bytes()
    }

    fn pack(&self, keys: &mut Vec<Packed>, scratch: &mut Vec<u8>) {
        keys.extend((0..self.rows()).map(|row| {
            scratch.clear();
            self.append_alone(row, scratch);
            Packed::new(scratch, narrow(row))
        }));
    }

    fn append_key(&self, row: usize, bytes: &mut Vec<u8>) {
        let place = self.places[row];
        bytes.push(u8::from(place > 0));
        if let Some(at) = place.checked_sub(1) {
            self.values.append_key(at as usize, bytes);
        }
    }

    fn write_json(&self, row: usize, out: &mut Vec<u8>) {
        match self.places[row].checked_sub(1) {
            Some(at) => self.values.write_json(at as usize, out),
            None => out.extend_from_slice(b"null"),
        }
    }
}
