//! How control messages lie on a libp2p stream.
//!
//! A stream begins with a preamble that every version can read: four letters and a number. Then come
//! messages, each behind its length, which is checked before anything is allocated for it.

use std::io;
use std::time::Duration;

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use routing::{PROTOCOL_VERSION, codec};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::core::{Hello, Refused};

/// The most bytes in a control message: a view of 65,536 slots and a thousand members has a megabyte.
const MESSAGE_MAX: usize = 4 << 20;

/// How long the other side may take for its part of a greeting.
pub(super) const GREETING_LIMIT: Duration = Duration::from_secs(5);

const MAGIC: [u8; 4] = *b"SCTL";

/// The answer to a hello.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Welcome(Box<Hello>),
    Refused(Refused),
}

/// Why a stream cannot go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum WireError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("not a control stream: it begins with {0:02x?}")]
    Magic([u8; 4]),
    #[error("protocol version {0}, this node speaks {PROTOCOL_VERSION}")]
    Version(u16),
    #[error("a message of {0} bytes, at most {MESSAGE_MAX} are allowed")]
    TooLong(usize),
    #[error("{0}")]
    Decode(#[from] codec::DecodeError),
    #[error("no answer within {} s", GREETING_LIMIT.as_secs())]
    Late,
}

/// Writes the preamble.
pub(super) async fn write_preamble(stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let [low, high] = PROTOCOL_VERSION.to_le_bytes();
    let [a, b, c, d] = MAGIC;
    stream.write_all(&[a, b, c, d, low, high]).await
}

/// Reads the preamble of the other side.
pub(super) async fn read_preamble(stream: &mut (impl AsyncRead + Unpin)) -> Result<(), WireError> {
    let mut bytes = [0; 6];
    stream.read_exact(&mut bytes).await?;
    let [a, b, c, d, low, high] = bytes;
    if [a, b, c, d] != MAGIC {
        return Err(WireError::Magic([a, b, c, d]));
    }
    let version = u16::from_le_bytes([low, high]);
    if version == PROTOCOL_VERSION { Ok(()) } else { Err(WireError::Version(version)) }
}

/// Writes a message; `scratch` is reused.
pub(super) async fn write<T: Serialize>(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &T,
    scratch: &mut Vec<u8>,
) -> Result<(), WireError> {
    scratch.clear();
    scratch.extend_from_slice(&[0; 4]);
    codec::encode(message, scratch)?;
    let len = scratch.len() - 4;
    if len > MESSAGE_MAX {
        return Err(WireError::TooLong(len));
    }
    let len = u32::try_from(len).expect("at most MESSAGE_MAX");
    scratch[..4].copy_from_slice(&len.to_le_bytes());
    stream.write_all(scratch).await?;
    Ok(())
}

/// Reads a message; `scratch` is reused.
pub(super) async fn read<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
    scratch: &mut Vec<u8>,
) -> Result<T, WireError> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).await?;
    let len = u32::from_le_bytes(len) as usize;
    if len > MESSAGE_MAX {
        return Err(WireError::TooLong(len));
    }
    scratch.resize(len, 0);
    stream.read_exact(scratch).await?;
    Ok(codec::decode(scratch)?)
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::io::Cursor;

    use super::*;

    #[test]
    fn a_message_of_four_gigabytes_is_refused_by_its_length() {
        let bytes = u32::MAX.to_le_bytes();
        let mut scratch = Vec::new();
        let read = block_on(read::<u64>(&mut &bytes[..], &mut scratch));
        assert!(matches!(read, Err(WireError::TooLong(_))));
        assert!(scratch.is_empty());
    }

    #[test]
    fn another_version_and_random_bytes_are_told_apart() {
        let error =
            |bytes: &[u8]| block_on(read_preamble(&mut &bytes[..])).unwrap_err().to_string();
        assert_eq!(error(b"SCTL\x09\x00"), "protocol version 9, this node speaks 4");
        assert!(error(b"GET / ").contains("not a control stream"));
        assert!(block_on(read_preamble(&mut &b"SC"[..])).is_err());
    }

    #[test]
    fn a_message_comes_back() {
        let mut stream = Cursor::new(Vec::new());
        block_on(write(&mut stream, &("bird", 7u32), &mut Vec::new())).unwrap();
        stream.set_position(0);
        let back: (String, u32) = block_on(read(&mut stream, &mut Vec::new())).unwrap();
        assert_eq!(back, ("bird".to_owned(), 7));
    }
}
