//! The end of a link that reads: knows which frame comes next, and says so now and then.
//!
//! A confirmation costs a packet the other way, so it waits until there is enough to confirm or nothing
//! else to read. How long "nothing" takes is for the driver to say.

use membership::Run;

use super::{LinkAnswer, LinkHello, REFUSED};

/// Frames that are read without being confirmed.
const FRAMES_MAX: u64 = 256;

/// Bytes that are read without being confirmed.
const BYTES_MAX: usize = 512 << 10;

/// A frame that cannot follow those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("frame {came} where frame {expected} was expected")]
pub struct LinkGap {
    /// Its number.
    pub came: u64,
    /// The number that was due.
    pub expected: u64,
}

/// What a node knows of what another one writes to it.
#[derive(Debug)]
pub struct LinkReader {
    hello: LinkHello,
    memory: u64,
    expected: u64,
    /// What the writer was told last.
    told: u64,
    /// Bytes since.
    bytes: usize,
}

impl LinkReader {
    /// Begins to read a stream; `memory` is a number not used before in this run of this node. What is known
    /// of the writer is kept if the stream belongs to the same link, else it is replaced.
    ///
    /// `None` if the stream is of no use: it is for another run of this node, or older than one that came
    /// already.
    pub fn begin(
        known: &mut Option<Self>,
        hello: LinkHello,
        me: Run,
        memory: u64,
    ) -> Option<LinkAnswer> {
        let is_newer = known.as_ref().is_none_or(|known| known.hello < hello);
        if hello.reader != me || !is_newer {
            return None;
        }
        let reader = match known {
            Some(known) if (known.hello.run, known.hello.link) == (hello.run, hello.link) => known,
            _ => known.insert(Self { hello, memory, expected: 0, told: 0, bytes: 0 }),
        };
        reader.hello = hello;
        (reader.told, reader.bytes) = (reader.expected, 0);
        Some(LinkAnswer { memory: reader.memory, expected: reader.expected })
    }

    /// Whether a frame is new; if not it was read before, and is to be dropped.
    ///
    /// # Errors
    /// Frames are missing before it.
    pub fn is_new(&self, came: u64) -> Result<bool, LinkGap> {
        let expected = self.expected;
        if came > expected { Err(LinkGap { came, expected }) } else { Ok(came == expected) }
    }

    /// The frame that was due has been handed on whole.
    pub fn taken(&mut self, bytes: usize) {
        self.expected += 1;
        self.bytes += bytes;
    }

    /// A frame came that cannot be one: sent again it would be no better. The link ends here, and the writer
    /// is to be told this number.
    pub fn refuse(&mut self) -> u64 {
        (self.expected, self.told) = (REFUSED, REFUSED);
        REFUSED
    }

    /// Whether there is something that the writer has not been told.
    pub fn owes(&self) -> bool {
        self.told < self.expected
    }

    /// What to tell the writer now, if anything; `is_idle` if nothing more comes at the moment.
    pub fn watermark(&mut self, is_idle: bool) -> Option<u64> {
        let is_much = self.expected - self.told >= FRAMES_MAX || self.bytes >= BYTES_MAX;
        if !self.owes() || !(is_idle || is_much) {
            return None;
        }
        (self.told, self.bytes) = (self.expected, 0);
        Some(self.told)
    }
}
