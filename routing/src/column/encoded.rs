//! A field of any serde type: bytes in the batch, decoded only by who asks.

use std::fmt::{self, Debug};
use std::marker::PhantomData;

use serde::{Serialize, de::DeserializeOwned};

use super::{Column, HEAVY, Store, Text, json};
use crate::{DecodeError, FieldKind, Packed, codec};

/// A value of any serde type on its way through a batch: lent by who emits it, bytes to who receives it.
pub enum Encoded<'a, T> {
    /// As it is emitted.
    Value(&'a T),
    /// As it is received.
    Bytes(&'a [u8]),
}

impl<T> Clone for Encoded<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Encoded<'_, T> {}

impl<T> Debug for Encoded<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Value(..)"),
            Self::Bytes(bytes) => f.debug_tuple("Bytes").field(bytes).finish(),
        }
    }
}

impl<T: Clone + DeserializeOwned> Encoded<'_, T> {
    /// The value.
    ///
    /// # Errors
    /// The bytes are not a value of this type: the sender's program has another type of this name.
    pub fn decode(self) -> Result<T, DecodeError> {
        match self {
            Self::Value(value) => Ok(value.clone()),
            Self::Bytes(bytes) => codec::decode(bytes),
        }
    }
}

/// The column of an encoded field.
#[derive(Debug)]
pub struct EncodedColumn<T> {
    bytes: Text<[u8]>,
    scratch: Vec<u8>,
    of: PhantomData<fn() -> T>,
}

impl<T> Default for EncodedColumn<T> {
    fn default() -> Self {
        Self { bytes: Text::default(), scratch: Vec::new(), of: PhantomData }
    }
}

impl<T: Serialize + DeserializeOwned + Debug + 'static> Store for EncodedColumn<T> {
    const KIND: FieldKind = FieldKind::Encoded;
    type Ref<'a> = Encoded<'a, T>;

    /// # Panics
    /// The value cannot be encoded; inside a handler that is a panic of the application's PE, and is
    /// contained as one.
    fn push(&mut self, value: Encoded<'_, T>) {
        match value {
            Encoded::Bytes(bytes) => self.bytes.push(bytes),
            Encoded::Value(value) => {
                self.scratch.clear();
                if let Err(error) = codec::encode(value, &mut self.scratch) {
                    panic!("a field marked #[event(encoded)] cannot be encoded: {error}");
                }
                self.bytes.push(&self.scratch);
            }
        }
    }

    fn get(&self, row: usize) -> Encoded<'_, T> {
        Encoded::Bytes(self.bytes.get(row))
    }

    fn extend_rows(&mut self, from: &Self, rows: &[u32]) {
        self.bytes.extend_rows(&from.bytes, rows);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        if self.scratch.capacity() > 64 * HEAVY {
            self.scratch = Vec::new();
        }
    }

    fn truncate(&mut self, rows: usize) {
        self.bytes.truncate(rows);
    }

    fn is_heavy(&self) -> bool {
        self.bytes.is_heavy()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.bytes.encode(out);
    }

    fn decode(&mut self, rows: usize, input: &mut &[u8]) -> Result<(), DecodeError> {
        self.bytes.decode(rows, input)
    }
}

impl<T: Serialize + DeserializeOwned + Debug + 'static> Column for EncodedColumn<T> {
    fn rows(&self) -> usize {
        self.bytes.rows()
    }

    fn bytes(&self) -> usize {
        self.bytes.bytes()
    }

    fn pack(&self, keys: &mut Vec<Packed>, scratch: &mut Vec<u8>) {
        self.bytes.pack(keys, scratch);
    }

    fn append_key(&self, row: usize, bytes: &mut Vec<u8>) {
        self.bytes.append_key(row, bytes);
    }

    fn append_alone(&self, row: usize, bytes: &mut Vec<u8>) {
        self.bytes.append_alone(row, bytes);
    }

    fn write_json(&self, row: usize, out: &mut Vec<u8>) {
        match codec::decode::<T>(self.bytes.get(row)) {
            Ok(value) => json(&value, out),
            Err(_) => self.bytes.write_json(row, out),
        }
    }
}
