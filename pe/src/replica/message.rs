//! What an owner of units says to those who keep replicas of them, and what they answer.
//!
//! All of it goes over the data link, so it comes once and in order, and an answer stands for all that went before.
//! What comes is read before anything is trusted.

use membership::Epoch;
use routing::codec;

use crate::Unit;

/// The most bytes in one message; a larger chunk goes in parts.
pub(crate) const MESSAGE_MAX: usize = 4 << 20;

/// Messages are counted in so many bits; above is the view since which both nodes know each other.
pub(crate) const SEQUENCE_BITS: u32 = 32;

/// Bytes before the body.
const HEADER: usize = 9;

/// Why bytes were no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a message to a replica: {0}")]
pub(crate) struct MessageError(&'static str);

/// What an owner says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToReplica<'m> {
    /// What follows of these units, up to [`ToReplica::Whole`], is all that there is; under the epochs of sets.
    Begin(Vec<(Unit, Epoch)>),
    /// What is there of these units goes on under another set.
    Continue(Vec<(Unit, Epoch)>),
    /// Records of some units, as a chunk.
    Records(&'m [u8]),
    /// The next part of a chunk that is too large for one message; the last part are records.
    Part(&'m [u8]),
    /// All is there of these units.
    Whole(Vec<Unit>),
}

impl<'m> ToReplica<'m> {
    /// Appends a message with its number.
    pub(crate) fn write(&self, sequence: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&sequence.to_le_bytes());
        let mut list = |kind, list: &dyn Fn(&mut Vec<u8>) -> Result<(), codec::DecodeError>| {
            out.push(kind);
            list(out).expect("units are far fewer than fill a message");
        };
        match self {
            Self::Begin(units) => list(0, &|out| codec::encode(units, out)),
            Self::Continue(units) => list(1, &|out| codec::encode(units, out)),
            Self::Whole(units) => list(2, &|out| codec::encode(units, out)),
            Self::Records(bytes) => {
                out.push(3);
                out.extend_from_slice(bytes);
            }
            Self::Part(bytes) => {
                out.push(4);
                out.extend_from_slice(bytes);
            }
        }
    }

    /// Reads what was written.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn read(bytes: &'m [u8]) -> Result<(u64, Self), MessageError> {
        let (header, body) =
            bytes.split_first_chunk::<HEADER>().ok_or(MessageError("truncated"))?;
        let (sequence, kind) = header.split_first_chunk::<8>().expect("eight of nine");
        let list = |bytes| codec::decode(bytes).map_err(|_| MessageError("a list of units"));
        let read = match kind[0] {
            0 => Self::Begin(list(body)?),
            1 => Self::Continue(list(body)?),
            2 => Self::Whole(codec::decode(body).map_err(|_| MessageError("a list of units"))?),
            3 => Self::Records(body),
            4 => Self::Part(body),
            _ => return Err(MessageError("a kind that there is not")),
        };
        Ok((u64::from_le_bytes(*sequence), read))
    }
}

/// What a replica answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FromReplica {
    /// All messages up to this one have been taken in, and synced if replicas are.
    pub(crate) sequence: u64,
    /// Of these units nothing is taken in any more: they are promised to a later set, or are not there.
    pub(crate) refused: Vec<Unit>,
}

impl FromReplica {
    /// Appends it.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.sequence.to_le_bytes());
        codec::encode(&self.refused, out).expect("units are far fewer than fill a message");
    }

    /// Reads what was written; nothing if it is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (sequence, refused) = bytes.split_first_chunk::<8>()?;
        let refused = codec::decode(refused).ok()?;
        Some(Self { sequence: u64::from_le_bytes(*sequence), refused })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_rest_refused() {
        let units = vec![(Unit::Slot(3), Epoch(7))];
        let all = [
            ToReplica::Begin(units.clone()),
            ToReplica::Continue(units),
            ToReplica::Whole(vec![Unit::Task { topology: 1, prototype: 2, task: 3 }]),
            ToReplica::Records(b"records"),
            ToReplica::Part(b""),
        ];
        for message in all {
            let mut bytes = Vec::new();
            message.write(9, &mut bytes);
            assert_eq!(ToReplica::read(&bytes), Ok((9, message)));
        }
        assert!(ToReplica::read(b"too short").is_err());
        assert!(ToReplica::read(&[0, 0, 0, 0, 0, 0, 0, 0, 5]).is_err());
        assert!(ToReplica::read(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255]).is_err());
        let answer = FromReplica { sequence: 4, refused: vec![Unit::Slot(1)] };
        let mut bytes = Vec::new();
        answer.write(&mut bytes);
        assert_eq!(FromReplica::read(&bytes), Some(answer));
        assert_eq!(FromReplica::read(&bytes[..9]), None);
    }
}
