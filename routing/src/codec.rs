//! bincode behind one door.
//!
//! Control messages, tokens and encoded fields are bincode; columns are not. bincode 2 trusts the
//! lengths it reads unless it is given a limit, and accepts trailing bytes without a word, so nobody
//! calls it but this module (and that of `membership`, which is below this crate and does the same):
//! every decode has a limit and takes its input whole. A value
//! has no more bytes than its input, so the limit follows that: a text that claims megabytes in a message of
//! fifty bytes is refused before there is room for it. What it cannot limit is a claimed number of
//! values without size, as in `Vec<()>`; none of our messages has one.

use bincode::config::{self, Configuration, Fixint, Limit, LittleEndian};
use serde::{Serialize, de::DeserializeOwned};

/// The most bytes that a value may claim while it is decoded.
pub const VALUE_MAX: usize = 1 << 24;

/// Why bytes were not a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input ended before what it claimed to hold.
    #[error("truncated: {0}")]
    Truncated(&'static str),
    /// The input claims more than is allowed; nothing was allocated for it.
    #[error("too large: {0}")]
    TooLarge(&'static str),
    /// The input holds something that cannot be.
    #[error("malformed: {0}")]
    Malformed(&'static str),
    /// bincode refused it.
    #[error("not a value of this type: {0}")]
    Value(String),
    /// There was more than the value.
    #[error("{0} bytes after the value")]
    Trailing(usize),
}

/// Inputs up to these sizes get a limit of their own.
const SMALL: usize = 1 << 10;
const MEDIUM: usize = 1 << 14;
const LARGE: usize = 1 << 18;

fn bounded() -> Configuration<LittleEndian, Fixint, Limit<VALUE_MAX>> {
    config::standard().with_fixed_int_encoding().with_limit::<VALUE_MAX>()
}

/// Appends a value.
///
/// # Errors
/// The type cannot be encoded (serde's `flatten` and untagged enums, for instance) or is larger than
/// [`VALUE_MAX`]; what was appended is then taken back.
pub fn encode<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let start = out.len();
    let written = bincode::serde::encode_into_std_write(value, out, bounded());
    let written = match written {
        Ok(_) if out.len() - start > VALUE_MAX => Err(DecodeError::TooLarge("a value")),
        Ok(_) => Ok(()),
        Err(error) => Err(DecodeError::Value(error.to_string())),
    };
    if written.is_err() {
        out.truncate(start);
    }
    written
}

/// Decodes a value that takes all of `bytes`.
///
/// # Errors
/// The bytes are not exactly one value, or claim more than [`VALUE_MAX`].
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let (value, used) = match bytes.len() {
        len if len <= SMALL => within::<T, { 2 * SMALL }>(bytes),
        len if len <= MEDIUM => within::<T, { 2 * MEDIUM }>(bytes),
        len if len <= LARGE => within::<T, { 2 * LARGE }>(bytes),
        _ => within::<T, VALUE_MAX>(bytes),
    }?;
    if used == bytes.len() { Ok(value) } else { Err(DecodeError::Trailing(bytes.len() - used)) }
}

/// Decodes what claims no more than a limit; bincode has its limits in types.
fn within<T: DeserializeOwned, const LIMIT: usize>(
    bytes: &[u8],
) -> Result<(T, usize), DecodeError> {
    let format = config::standard().with_fixed_int_encoding().with_limit::<LIMIT>();
    bincode::serde::decode_from_slice(bytes, format)
        .map_err(|error| DecodeError::Value(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_and_anything_else_is_refused() {
        let mut bytes = Vec::new();
        encode(&("words", vec![1u64, 2]), &mut bytes).unwrap();
        assert_eq!(decode::<(String, Vec<u64>)>(&bytes), Ok(("words".to_owned(), vec![1, 2])));
        for end in 0..bytes.len() {
            assert!(decode::<(String, Vec<u64>)>(&bytes[..end]).is_err());
        }
        bytes.push(0);
        assert_eq!(decode::<(String, Vec<u64>)>(&bytes), Err(DecodeError::Trailing(1)));
    }

    #[test]
    fn a_claimed_length_allocates_nothing() {
        let mut bytes = Vec::new();
        encode(&(1u64 << 40), &mut bytes).unwrap();
        assert!(matches!(decode::<String>(&bytes), Err(DecodeError::Value(_))));
        assert!(matches!(decode::<Vec<u64>>(&bytes), Err(DecodeError::Value(_))));
        bytes.clear();
        encode(&(1u64 << 20), &mut bytes).unwrap();
        let said = decode::<String>(&bytes).unwrap_err().to_string();
        assert!(said.contains("LimitExceeded"), "{said}");
    }
}
