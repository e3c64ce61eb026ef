//! Letters or bytes, end to end in one buffer.
//!
//! The buffer always has room for one block of sixteen bytes behind what is used, so that a short value
//! is written and read as one block in place of a call that copies a few bytes. What lies in the block
//! behind the value is overwritten by the next.

use std::marker::PhantomData;
use std::ops::Range;

use super::{Column, Field, HEAVY, Store, json, narrow, take};
use crate::{DecodeError, FieldKind, Key, Packed};

/// A column of `str` or `[u8]`.
#[derive(Debug)]
pub struct Text<T: ?Sized> {
    /// Longer than what is used, by at least a block; see the module.
    bytes: Vec<u8>,
    /// Where each row begins, and where the last ends.
    bounds: Vec<u32>,
    of: PhantomData<fn() -> Box<T>>,
}

impl<T: ?Sized> Default for Text<T> {
    fn default() -> Self {
        Self { bytes: vec![0; 1024], bounds: vec![0], of: PhantomData }
    }
}

impl<T: ?Sized> Text<T> {
    const BLOCK: usize = 16;

    #[inline(always)]
    fn end(&self) -> usize {
        self.bounds[self.bounds.len() - 1] as usize
    }

    #[inline(always)]
    fn reserve(&mut self, len: usize) {
        let needed = self.end() + len + Self::BLOCK;
        if needed > self.bytes.len() {
            self.grow(needed);
        }
    }

    #[cold]
    fn grow(&mut self, needed: usize) {
        // Bounds are 32 bits, and `get` trusts them; up to here none can be cut.
        assert!(u32::try_from(needed - 1).is_ok(), "an event of 4 GiB does not fit a batch");
        self.bytes.resize(needed.next_power_of_two(), 0);
    }

    #[inline(always)]
    fn push_plain(&mut self, value: &[u8]) {
        let short = (value.len() <= Packed::SHORT_MAX).then(|| Packed::new(value, 0));
        self.push_bytes(value, short);
    }

    /// Copies a value to the end; one that is short is packed already.
    #[inline(always)]
    fn push_bytes(&mut self, value: &[u8], short: Option<Packed>) {
        self.reserve(value.len());
        let end = self.end();
        match short {
            Some(key) => self.bytes[end..end + Self::BLOCK].copy_from_slice(&key.block()),
            None => self.bytes[end..end + value.len()].copy_from_slice(value),
        }
        self.bounds.push(narrow(end + value.len()));
    }

    #[inline(always)]
    fn range(&self, row: usize) -> Range<usize> {
        self.bounds[row] as usize..self.bounds[row + 1] as usize
    }

    #[inline(always)]
    fn block(&self, at: usize) -> [u8; 16] {
        self.bytes[at..at + Self::BLOCK].try_into().expect("a block")
    }

    fn extend(&mut self, from: &Self, rows: &[u32]) {
        for &row in rows {
            let range = from.range(row as usize);
            self.reserve(range.len());
            let end = self.end();
            if range.len() <= Self::BLOCK {
                self.bytes[end..end + Self::BLOCK].copy_from_slice(&from.block(range.start));
            } else {
                self.bytes[end..end + range.len()].copy_from_slice(&from.bytes[range.clone()]);
            }
            self.bounds.push(narrow(end + range.len()));
        }
    }

    fn forget(&mut self) {
        self.bounds.truncate(1);
        // One huge event must not keep its memory for ever.
        if self.bytes.len() > 64 * HEAVY {
            self.bytes.truncate(HEAVY);
            self.bytes.shrink_to_fit();
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + 4 * (self.bounds.len() - 1), 0);
        let (places, _) = out[start..].as_chunks_mut::<4>();
        for (place, end) in places.iter_mut().zip(&self.bounds[1..]) {
            *place = end.to_le_bytes();
        }
        out.extend_from_slice(&self.bytes[..self.end()]);
    }

    /// Reads ends and bytes; whether the bytes are letters is for the caller to check.
    fn read(&mut self, rows: usize, input: &mut &[u8]) -> Result<(), DecodeError> {
        self.bounds.truncate(1);
        let len = rows.checked_mul(4).ok_or(DecodeError::TooLarge("rows"))?;
        let (ends, _) = take(input, len, "the ends of a column of text")?.as_chunks::<4>();
        self.bounds.extend(ends.iter().map(|&end| u32::from_le_bytes(end)));
        if !self.bounds.is_sorted() {
            self.bounds.truncate(1);
            return Err(DecodeError::Malformed("text that ends before it begins"));
        }
        let used = self.end();
        let Ok(bytes) = take(input, used, "a column of text") else {
            self.bounds.truncate(1);
            return Err(DecodeError::Truncated("a column of text"));
        };
        if used + Self::BLOCK > self.bytes.len() {
            self.grow(used + Self::BLOCK);
        }
        self.bytes[..used].copy_from_slice(bytes);
        Ok(())
    }
}

impl<T: ?Sized> Column for Text<T>
where
    Self: Store,
{
    #[inline(always)]
    fn rows(&self) -> usize {
        self.bounds.len() - 1
    }

    fn bytes(&self) -> usize {
        4 * (self.bounds.len() - 1) + self.end()
    }

    fn pack(&self, keys: &mut Vec<Packed>, _: &mut Vec<u8>) {
        let mut start = 0;
        keys.extend(self.bounds[1..].iter().enumerate().map(|(row, &end)| {
            let (from, to) = (start, end as usize);
            start = to;
            if to - from <= Packed::SHORT_MAX {
                Packed::masked(self.block(from), to - from)
            } else {
                Packed::long(&self.bytes[from..to], narrow(row))
            }
        }));
    }

    fn append_key(&self, row: usize, bytes: &mut Vec<u8>) {
        // The length first, so that ("ab", "c") and ("a", "bc") are two keys.
        let range = self.range(row);
        bytes.extend_from_slice(&narrow(range.len()).to_le_bytes());
        bytes.extend_from_slice(&self.bytes[range]);
    }

    fn append_alone(&self, row: usize, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.bytes[self.range(row)]);
    }

    fn write_json(&self, row: usize, out: &mut Vec<u8>) {
        let bytes = &self.bytes[self.range(row)];
        match std::str::from_utf8(bytes) {
            Ok(text) if Self::KIND == FieldKind::Text => json(text, out),
            _ => {
                // JSON has no bytes; hexadecimal is what people can read and search.
                out.push(b'"');
                for byte in bytes {
                    const DIGITS: &[u8; 16] = b"0123456789abcdef";
                    out.push(DIGITS[usize::from(byte >> 4)]);
                    out.push(DIGITS[usize::from(byte & 15)]);
                }
                out.push(b'"');
            }
        }
    }
}

impl Store for Text<str> {
    const KIND: FieldKind = FieldKind::Text;
    type Ref<'a> = &'a str;

    #[inline(always)]
    fn push(&mut self, value: &str) {
        self.push_plain(value.as_bytes());
    }

    #[inline(always)]
    fn pack_one(value: &str) -> Option<Packed> {
        Some(Packed::new(value.as_bytes(), 0))
    }

    #[inline(always)]
    fn push_packed(&mut self, value: &str, key: Packed) {
        self.push_bytes(value.as_bytes(), (!key.is_long()).then_some(key));
    }

    #[inline(always)]
    #[expect(
        unsafe_code,
        reason = "checking again what was a str at `push` costs 1 to 2 ns an event"
    )]
    fn get(&self, row: usize) -> &str {
        // SAFETY: a row is what `push` copied from a str, or whole rows of such a column, or what
        // `decode` checked; and nothing writes between the bounds of a row afterwards.
        unsafe { std::str::from_utf8_unchecked(&self.bytes[self.range(row)]) }
    }

    fn extend_rows(&mut self, from: &Self, rows: &[u32]) {
        self.extend(from, rows);
    }

    fn clear(&mut self) {
        self.forget();
    }

    fn truncate(&mut self, rows: usize) {
        self.bounds.truncate(rows + 1);
    }

    #[inline(always)]
    fn is_heavy(&self) -> bool {
        self.end() > HEAVY
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.write(out);
    }

    fn decode(&mut self, rows: usize, input: &mut &[u8]) -> Result<(), DecodeError> {
        self.read(rows, input)?;
        let letters = std::str::from_utf8(&self.bytes[..self.end()]);
        let is_text = letters.is_ok_and(|letters| {
            self.bounds.iter().all(|&bound| letters.is_char_boundary(bound as usize))
        });
        if !is_text {
            // `get` trusts what is here.
            self.forget();
            return Err(DecodeError::Malformed("text that is not UTF-8"));
        }
        Ok(())
    }
}

impl Store for Text<[u8]> {
    const KIND: FieldKind = FieldKind::Bytes;
    type Ref<'a> = &'a [u8];

    #[inline(always)]
    fn push(&mut self, value: &[u8]) {
        self.push_plain(value);
    }

    #[inline(always)]
    fn pack_one(value: &[u8]) -> Option<Packed> {
        Some(Packed::new(value, 0))
    }

    #[inline(always)]
    fn push_packed(&mut self, value: &[u8], key: Packed) {
        self.push_bytes(value, (!key.is_long()).then_some(key));
    }

    #[inline(always)]
    fn get(&self, row: usize) -> &[u8] {
        &self.bytes[self.range(row)]
    }

    fn extend_rows(&mut self, from: &Self, rows: &[u32]) {
        self.extend(from, rows);
    }

    fn clear(&mut self) {
        self.forget();
    }

    fn truncate(&mut self, rows: usize) {
        self.bounds.truncate(rows + 1);
    }

    #[inline(always)]
    fn is_heavy(&self) -> bool {
        self.end() > HEAVY
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.write(out);
    }

    fn decode(&mut self, rows: usize, input: &mut &[u8]) -> Result<(), DecodeError> {
        self.read(rows, input)
    }
}

impl Field for String {
    type Column = Text<str>;
    type Ref<'a> = &'a str;
    fn lend(&self) -> &str {
        self
    }
}

impl Field for Vec<u8> {
    type Column = Text<[u8]>;
    type Ref<'a> = &'a [u8];
    fn lend(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_the_wire_is_checked_at_every_bound() {
        let mut bytes = Text::<[u8]>::default();
        bytes.push("é".as_bytes());
        let mut wire = Vec::new();
        bytes.encode(&mut wire);
        assert_eq!(Text::<str>::default().decode(1, &mut &wire[..]), Ok(()));
        // The same letters, cut in the middle of one.
        let split = [[1, 0, 0, 0], [2, 0, 0, 0]].concat();
        let wire = [&split[..], "é".as_bytes()].concat();
        let mut text = Text::<str>::default();
        assert!(matches!(text.decode(2, &mut &wire[..]), Err(DecodeError::Malformed(_))));
        assert_eq!(text.rows(), 0);
    }

    #[test]
    fn a_claimed_length_is_checked_before_memory_is_taken() {
        let wire = u32::MAX.to_le_bytes();
        let mut text = Text::<[u8]>::default();
        let refused = Err(DecodeError::Truncated("a column of text"));
        assert_eq!(text.decode(1, &mut &wire[..]), refused);
        assert!(text.bytes.len() < 4096);
        assert!(text.decode(usize::MAX, &mut &wire[..]).is_err());
    }
}
