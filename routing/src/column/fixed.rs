//! Numbers and truth values, each kept as eight bytes.
//!
//! One width for all keeps one code path: any such field can be a key without a conversion, and the
//! column is its own array of keys. It costs bytes on the wire for narrow types, which are rare.

use std::fmt::Debug;
use std::marker::PhantomData;

use super::{Column, Field, Store, json, take};
use crate::{DecodeError, FieldKind, Packed};

/// The column of a type of at most eight bytes.
#[derive(Debug)]
pub struct Fixed<T> {
    bits: Vec<u64>,
    of: PhantomData<fn() -> T>,
}

/// A value of at most eight bytes.
pub trait Bits: Copy + Debug + serde::Serialize + 'static {
    /// How it looks as a key.
    const KIND: FieldKind;
    /// The value in eight bytes; it comes back exactly.
    fn to_bits(self) -> u64;
    /// Back again; `None` if no value has these bits.
    fn of_bits(bits: u64) -> Option<Self>;
    /// The eight bytes it is known by as a key: equal values have equal ones.
    fn canonical(bits: u64) -> u64 {
        bits
    }
}

macro_rules! integers {
    ($kind:ident, $wide:ty: $($ty:ty)*) => {$(
        impl Bits for $ty {
            const KIND: FieldKind = FieldKind::$kind;
            #[inline(always)]
            fn to_bits(self) -> u64 {
                u64::from_le_bytes(<$wide>::from(self).to_le_bytes())
            }
            #[inline(always)]
            fn of_bits(bits: u64) -> Option<Self> {
                Self::try_from(<$wide>::from_le_bytes(bits.to_le_bytes())).ok()
            }
        }
        plain!($ty);
    )*};
}

macro_rules! plain {
    ($ty:ty) => {
        impl Field for $ty {
            type Column = Fixed<$ty>;
            type Ref<'a> = $ty;
            fn lend(&self) -> $ty {
                *self
            }
        }
    };
}

integers!(Unsigned, u64: u8 u16 u32 u64);
integers!(Signed, i64: i8 i16 i32 i64);
plain!(bool);
plain!(f32);
plain!(f64);

impl Bits for bool {
    const KIND: FieldKind = FieldKind::Bool;
    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(self)
    }
    #[inline(always)]
    fn of_bits(bits: u64) -> Option<Self> {
        (bits <= 1).then_some(bits == 1)
    }
}

impl Bits for f64 {
    const KIND: FieldKind = FieldKind::Float;
    #[inline(always)]
    fn to_bits(self) -> u64 {
        Self::to_bits(self)
    }
    #[inline(always)]
    fn of_bits(bits: u64) -> Option<Self> {
        Some(Self::from_bits(bits))
    }
    fn canonical(bits: u64) -> u64 {
        let value = Self::from_bits(bits);
        // Both zeros compare equal, and a NaN as a key means "not a number", whichever it is.
        if value.is_nan() { Self::NAN.to_bits() } else { (value + 0.0).to_bits() }
    }
}

impl Bits for f32 {
    const KIND: FieldKind = FieldKind::Float;
    #[inline(always)]
    fn to_bits(self) -> u64 {
        u64::from(Self::to_bits(self))
    }
    #[inline(always)]
    fn of_bits(bits: u64) -> Option<Self> {
        u32::try_from(bits).ok().map(Self::from_bits)
    }
    /// As the same value in 64 bits, so that fields of both widths can be one key.
    fn canonical(bits: u64) -> u64 {
        let value = <Self as Bits>::of_bits(bits).expect("checked when it was pushed or decoded");
        <f64 as Bits>::canonical(f64::from(value).to_bits())
    }
}

impl<T> Default for Fixed<T> {
    fn default() -> Self {
        Self { bits: Vec::new(), of: PhantomData }
    }
}

impl<T: Bits> Store for Fixed<T> {
    const KIND: FieldKind = T::KIND;
    type Ref<'a> = T;

    #[inline(always)]
    fn push(&mut self, value: T) {
        self.bits.push(value.to_bits());
    }

    #[inline(always)]
    fn get(&self, row: usize) -> T {
        T::of_bits(self.bits[row]).expect("checked when it was pushed or decoded")
    }

    fn extend_rows(&mut self, from: &Self, rows: &[u32]) {
        self.bits.extend(rows.iter().map(|&row| from.bits[row as usize]));
    }

    fn clear(&mut self) {
        self.bits.clear();
    }

    fn truncate(&mut self, rows: usize) {
        self.bits.truncate(rows);
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + 8 * self.bits.len(), 0);
        let (places, _) = out[start..].as_chunks_mut::<8>();
        for (place, bits) in places.iter_mut().zip(&self.bits) {
            *place = bits.to_le_bytes();
        }
    }

    fn decode(&mut self, rows: usize, input: &mut &[u8]) -> Result<(), DecodeError> {
        let len = rows.checked_mul(8).ok_or(DecodeError::TooLarge("rows"))?;
        let (chunks, _) = take(input, len, "a column of numbers")?.as_chunks::<8>();
        self.bits.clear();
        self.bits.extend(chunks.iter().map(|&bytes| u64::from_le_bytes(bytes)));
        if self.bits.iter().all(|&bits| T::of_bits(bits).is_some()) {
            Ok(())
        } else {
            Err(DecodeError::Malformed("a number out of the range of its type"))
        }
    }
}

impl<T: Bits> Column for Fixed<T> {
    #[inline(always)]
    fn rows(&self) -> usize {
        self.bits.len()
    }

    fn bytes(&self) -> usize {
        8 * self.bits.len()
    }

    fn numbers(&self) -> Option<&[u64]> {
        T::KIND.is_number().then_some(&self.bits)
    }

    fn pack(&self, keys: &mut Vec<Packed>, _: &mut Vec<u8>) {
        keys.extend(self.bits.iter().map(|&bits| Packed::number(T::canonical(bits))));
    }

    fn append_key(&self, row: usize, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&T::canonical(self.bits[row]).to_le_bytes());
    }

    fn write_json(&self, row: usize, out: &mut Vec<u8>) {
        json(&self.get(row), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_type_refuses_what_it_cannot_hold() {
        let mut wire = Vec::new();
        let mut wide = Fixed::<i64>::default();
        wide.push(-129);
        wide.encode(&mut wire);
        let refused = Err(DecodeError::Malformed("a number out of the range of its type"));
        assert_eq!(Fixed::<i8>::default().decode(1, &mut &wire[..]), refused);
        assert_eq!(Fixed::<bool>::default().decode(1, &mut &wire[..]), refused);
        assert_eq!(Fixed::<i16>::default().decode(1, &mut &wire[..]), Ok(()));
    }

    #[test]
    fn floats_that_are_one_key_have_one_form() {
        let forms = [0.0f64, -0.0].map(|zero| f64::canonical(zero.to_bits()));
        assert_eq!(forms[0], forms[1]);
        let odd_nan = f64::from_bits(f64::NAN.to_bits() | 1);
        assert_eq!(f64::canonical(odd_nan.to_bits()), f64::canonical(f64::NAN.to_bits()));
        assert_eq!(f32::canonical(u64::from(1.5f32.to_bits())), f64::canonical(1.5f64.to_bits()));
    }
}
