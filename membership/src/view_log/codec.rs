//! How a view log is written: to disk, and for fingerprints.
//!
//! A record that was damaged on disk and read as if it were not would be a broken promise. So it says
//! what it is and carries a checksum, and a node whose record does not read does not start.

use std::fmt;

use bincode::config::{Configuration, Limit, LittleEndian, Varint, standard};
use serde::Serialize;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::record::Record;
use super::view::Digest;
use super::{Body, View};

/// The longest record. Two views of 65,536 slots with two sets of three replicas each have 20 MB.
const RECORD_BYTES_MAX: usize = 1 << 26;

/// bincode asks this before it makes room for what a damaged record only claims to hold.
const FORMAT: Configuration<LittleEndian, Varint, Limit<RECORD_BYTES_MAX>> =
    standard().with_limit::<RECORD_BYTES_MAX>();

/// What a record begins with; the last byte is the version of the format.
const MAGIC: [u8; 8] = *b"viewlog\x01";

/// The magic and the checksum.
const PREFIX_BYTES: usize = 16;

/// The fingerprint of a view.
pub(super) fn digest<B: Body>(view: &View<B>) -> Digest {
    Digest(xxh3_128(&encode(view)))
}

fn encode(what: &impl Serialize) -> Vec<u8> {
    bincode::serde::encode_to_vec(what, standard()).expect("plain data can be written")
}

impl<B: Body> Record<B> {
    /// The bytes to be written; the file is to be replaced whole and synced.
    pub fn to_bytes(&self) -> Vec<u8> {
        let payload = encode(self);
        let mut bytes = Vec::with_capacity(PREFIX_BYTES + payload.len());
        bytes.extend(MAGIC);
        bytes.extend(xxh3_64(&payload).to_le_bytes());
        bytes.extend(payload);
        bytes
    }

    /// Reads what [`Record::to_bytes`] wrote.
    ///
    /// # Errors
    /// The bytes are not those of a record. A node must not go on as if it had none: it may have
    /// promised something. It may come back with a new disk, as another member.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, RecordError> {
        let (magic, rest) = bytes.split_first_chunk::<8>().ok_or(RecordError::Damaged)?;
        if magic[..7] != MAGIC[..7] {
            return Err(RecordError::Damaged);
        }
        if magic[7] != MAGIC[7] {
            return Err(RecordError::Version(magic[7]));
        }
        let (sum, payload) = rest.split_first_chunk::<8>().ok_or(RecordError::Damaged)?;
        if xxh3_64(payload).to_le_bytes() != *sum {
            return Err(RecordError::Damaged);
        }
        match bincode::serde::decode_from_slice(payload, FORMAT) {
            Ok((record, length)) if length == payload.len() => Ok(record),
            Ok(_) | Err(_) => Err(RecordError::Undecodable),
        }
    }
}

/// Why a record was not read. Nothing was changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RecordError {
    /// Cut short, changed, or no record at all.
    Damaged,
    /// Of another version of the format.
    Version(u8),
    /// Whole, but written by a program whose views hold something else.
    Undecodable,
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => f.write_str("the record of the view log is damaged"),
            Self::Version(version) => {
                write!(f, "the record of the view log has version {version}, not {}", MAGIC[7])
            }
            Self::Undecodable => f.write_str("the record of the view log is of another program"),
        }
    }
}

impl std::error::Error for RecordError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::view_log::record::Ballot;
    use crate::view_log::tests::{Notes, view};
    use crate::{Run, view_log::DiskId};

    fn record() -> Record<Notes> {
        let ballot = Ballot { round: 3, run: Run(2), disk: DiskId(1) };
        Record {
            disk: DiskId(7),
            view: Some(view(3)),
            promised: Some(ballot),
            accepted: Some((ballot, Arc::clone(&view(2)))),
        }
    }

    #[test]
    fn a_record_is_read_as_written() {
        let record = record();
        assert_eq!(Record::from_bytes(&record.to_bytes()), Ok(record));
        let blank = Record::<Notes>::blank(DiskId(7));
        assert_eq!(Record::from_bytes(&blank.to_bytes()), Ok(blank));
    }

    #[test]
    fn a_damaged_record_is_not_read() {
        let good = record().to_bytes();
        for length in 0..good.len() {
            let read = Record::<Notes>::from_bytes(&good[..length]);
            assert_eq!(read, Err(RecordError::Damaged), "{length} bytes");
        }
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 4;
            let expected = if at == 7 { RecordError::Version(5) } else { RecordError::Damaged };
            assert_eq!(Record::<Notes>::from_bytes(&bytes), Err(expected), "byte {at}");
        }
        let longer = [&good[..], &[0]].concat();
        assert_eq!(Record::<Notes>::from_bytes(&longer), Err(RecordError::Damaged));
    }

    #[test]
    fn the_fingerprint_of_a_view_is_the_same_in_every_build() {
        assert_eq!(view(3).digest().to_string(), "56a62608e1c0730ef68c2d51a7ddbf17");
        assert_ne!(view(2).digest(), view(3).digest());
    }
}
