//! A data link that outlives its connections.
//!
//! Events and credits between two nodes must arrive once and in order as long as both nodes live, and a
//! connection may break at any time without telling either side how far the other has come. So the
//! writer numbers frames and keeps each until the reader has confirmed it; the reader knows which number
//! comes next, and says so when a stream begins. What it has already is dropped, what it lacks is sent
//! again.
//!
//! That works while both remember. A reader that has forgotten (its node was taken off, or started again)
//! has another id than the one the writer began with; then nobody can say what was handled, the writer
//! begins a new link, and the core is told that something is lost. Which stream is the newest is told by
//! [`LinkHello`], whatever the order in which streams arrive.
//!
//! No sockets and no clock: [`writer`] and [`reader`] decide, and whoever drives them reads, writes and
//! waits.

pub mod reader;
pub mod writer;

#[cfg(test)]
mod tests;

use membership::Run;
use pe::Credit;
use routing::codec;

/// What a stream begins with. Of two for the same pair of nodes the larger is the newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkHello {
    /// The run of the node that writes.
    pub run: Run,
    /// Which of its links; frames are numbered from zero on each.
    pub link: u64,
    /// Which of its streams.
    pub attempt: u64,
    /// The run of the node that it means to write to.
    pub reader: Run,
}

impl LinkHello {
    /// Bytes on the wire.
    pub const LEN: usize = 32;

    /// As it lies on the wire.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let words = [self.run.0, self.link, self.attempt, self.reader.0];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads it; any bytes are one.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let word =
            |at: usize| u64::from_le_bytes(*bytes[8 * at..].first_chunk().expect("four words"));
        Self { run: Run(word(0)), link: word(1), attempt: word(2), reader: Run(word(3)) }
    }
}

/// The answer of who reads: from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkAnswer {
    /// Which memory of the reader this is; another one knows nothing of what this one has read.
    pub memory: u64,
    /// The number of the frame that it wants next; [`REFUSED`] for none.
    pub expected: u64,
}

impl LinkAnswer {
    /// Bytes on the wire.
    pub const LEN: usize = 16;

    /// As it lies on the wire.
    pub fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.memory.to_le_bytes());
        bytes[8..].copy_from_slice(&self.expected.to_le_bytes());
        bytes
    }

    /// Reads it; any bytes are one.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let (memory, expected) = bytes.split_first_chunk().expect("two words");
        let expected = *expected.first_chunk().expect("two words");
        Self { memory: u64::from_le_bytes(*memory), expected: u64::from_le_bytes(expected) }
    }
}

/// In place of a number: a frame came that cannot be one, so no more of this link is read.
pub const REFUSED: u64 = u64::MAX;

/// What is free again on one lane.
pub type LinkCredit = (Credit, u64, u32);

/// The credits in the payload of a frame of that kind.
///
/// # Errors
/// It is none.
pub fn credits_of(payload: &[u8]) -> Result<Vec<LinkCredit>, codec::DecodeError> {
    codec::decode(payload)
}
