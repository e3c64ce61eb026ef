//! The journal: what a node keeps, on its disk.
//!
//! Whatever changes what is kept is an entry, in the order in which it happened: so reading the entries again gives
//! what was there. They stand in segments, files that only grow. When much of them is out of date, a new segment is
//! begun, and between what comes there each unit is written once as it is by then; when that is through, nothing
//! before the new segment is needed any more (as the cleaner of a log-structured file system does it, Rosenblum and
//! Ousterhout 1992, but by units). So there is no moment at which all is written at once, and nobody waits for it.
//!
//! An entry has two checksums, one for its length and one for what it says, and ends with a byte that is not zero. What
//! was being written when the machine stopped is short, or zeros from some byte on: it was never confirmed, and goes.
//! Anything else that is not as it was written is damage. Then nobody knows what else is missing, and
//! the whole journal is given up: the node goes on as one that has lost its disk.

use std::io::{self, Read};

use membership::{Epoch, NodeId};
use routing::codec;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{Owner, ToReplica};
use crate::Unit;

/// How a segment begins, before its number.
const MAGIC: [u8; 8] = *b"starrep1";

/// Bytes before the first entry of a segment: the magic, its number, the life that made the journal, a checksum, and the
/// byte that ends an entry.
const START: usize = 33;

/// Bytes before what an entry says: its length, the checksum of that, the checksum of what it says.
const HEADER: usize = 16;

/// The last byte of an entry, and of what a segment begins with.
const END: u8 = 0xa5;

/// The most bytes of an entry: all that is kept of a unit.
const ENTRY_MAX: usize = u32::MAX as usize;

const MESSAGE: u8 = 0;
const SEALED: u8 = 1;
const DROPPED: u8 = 2;
const UNIT: u8 = 3;
const CLEANED: u8 = 4;

/// What changes what is kept.
#[derive(Debug)]
pub(super) enum Entry<'e> {
    /// An owner said something; the units of which it was taken in.
    Message(Owner, ToReplica<'e>),
    /// Units were sealed for a set.
    Sealed(Vec<Unit>, Epoch),
    /// Units are not kept any more.
    Dropped(Vec<Unit>),
    /// All that is kept of a unit, in place of what came before.
    Unit(Image<'e>),
    /// Of segments below this one nothing is needed.
    Cleaned(u64),
}

/// What is kept of a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image<'e> {
    pub(super) unit: Unit,
    pub(super) promised: Epoch,
    pub(super) whole: Option<(Epoch, Owner, &'e [u8])>,
    pub(super) incoming: Option<(Epoch, Owner, &'e [u8])>,
}

/// What stands before the records of a unit.
#[derive(Serialize, Deserialize)]
struct ImageHeader {
    unit: Unit,
    promised: Epoch,
    whole: Option<(Epoch, Owner, u32)>,
    incoming: Option<(Epoch, Owner, u32)>,
}

/// Why a journal cannot be relied on.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is not as it was written.
    #[error("segment {segment} is damaged at byte {at}: {what}")]
    Damaged {
        /// In which segment.
        segment: u64,
        /// Where.
        at: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// Its first segment was being begun when the process ended, so nothing was kept.
    #[error("it was never begun")]
    NeverBegun,
    /// Segments are missing.
    #[error("its segments begin with {first}, and all from {needed} on are needed")]
    Missing {
        /// The first that is there.
        first: u64,
        /// The first that is needed.
        needed: u64,
    },
}

/// Appends an entry; gives how many bytes that were.
pub(super) fn append(entry: &Entry<'_>, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER]);
    write(entry, out);
    out.push(END);
    let said = &out[start + HEADER..];
    let len = u32::try_from(said.len()).expect("a unit has less than 4 GiB");
    let (len, sum) = (len.to_le_bytes(), xxh3_64(said).to_le_bytes());
    let header = &mut out[start..start + HEADER];
    header[..4].copy_from_slice(&len);
    header[4..8].copy_from_slice(&header_sum(len, sum));
    header[8..].copy_from_slice(&sum);
    out.len() - start
}

/// How a segment begins.
pub(super) fn begin(segment: u64, made: u64) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&segment.to_le_bytes());
    out.extend_from_slice(&made.to_le_bytes());
    out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
    out.push(END);
    out
}

fn header_sum(len: [u8; 4], sum: [u8; 8]) -> [u8; 4] {
    let mut both = [0; 12];
    both[..4].copy_from_slice(&len);
    both[4..].copy_from_slice(&sum);
    let [a, b, c, d, ..] = xxh3_64(&both).to_le_bytes();
    [a, b, c, d]
}

fn write(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let mut put = |kind: u8, with: &dyn Fn(&mut Vec<u8>) -> Result<(), codec::DecodeError>| {
        out.push(kind);
        with(out).expect("a list of units is far smaller than a message may be");
    };
    match entry {
        Entry::Message((node, container), message) => {
            put(MESSAGE, &|out| {
                out.extend_from_slice(&node.0.to_le_bytes());
                out.extend_from_slice(&container.to_le_bytes());
                message.write(0, out);
                Ok(())
            });
        }
        Entry::Sealed(units, epoch) => put(SEALED, &|out| codec::encode(&(units, epoch), out)),
        Entry::Dropped(units) => put(DROPPED, &|out| codec::encode(units, out)),
        Entry::Unit(image) => {
            let of = |replica: &Option<(Epoch, Owner, &[u8])>| {
                replica.map(|(epoch, owner, bytes)| {
                    let len = u32::try_from(bytes.len()).expect("a unit has less than 4 GiB");
                    (epoch, owner, len)
                })
            };
            let Image { unit, promised, whole, incoming } = *image;
            let header = ImageHeader { unit, promised, whole: of(&whole), incoming: of(&incoming) };
            let mut head = Vec::new();
            codec::encode(&header, &mut head).expect("some numbers");
            put(UNIT, &|out| {
                out.extend_from_slice(&u32::try_from(head.len()).unwrap_or(0).to_le_bytes());
                out.extend_from_slice(&head);
                for (_, _, bytes) in whole.iter().chain(&incoming) {
                    out.extend_from_slice(bytes);
                }
                Ok(())
            });
        }
        Entry::Cleaned(segment) => put(CLEANED, &|out| {
            out.extend_from_slice(&segment.to_le_bytes());
            Ok(())
        }),
    }
}

fn read(said: &[u8]) -> Option<Entry<'_>> {
    let (&kind, body) = said.strip_suffix(&[END])?.split_first()?;
    Some(match kind {
        MESSAGE => {
            let (node, body) = body.split_first_chunk::<8>()?;
            let (container, body) = body.split_first_chunk::<2>()?;
            let owner = (NodeId(u64::from_le_bytes(*node)), u16::from_le_bytes(*container));
            Entry::Message(owner, ToReplica::read(body).ok()?.1)
        }
        SEALED => {
            let (units, epoch) = codec::decode(body).ok()?;
            Entry::Sealed(units, epoch)
        }
        DROPPED => Entry::Dropped(codec::decode(body).ok()?),
        UNIT => {
            let (len, body) = body.split_first_chunk::<4>()?;
            let (head, mut rest) = body.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            let header: ImageHeader = codec::decode(head).ok()?;
            let mut take = |replica: Option<(Epoch, Owner, u32)>| match replica {
                Some((epoch, owner, len)) => {
                    let (bytes, after) = rest.split_at_checked(len as usize)?;
                    rest = after;
                    Some(Some((epoch, owner, bytes)))
                }
                None => Some(None),
            };
            let (whole, incoming) = (take(header.whole)?, take(header.incoming)?);
            Entry::Unit(Image { unit: header.unit, promised: header.promised, whole, incoming })
        }
        CLEANED => Entry::Cleaned(u64::from_le_bytes(*body.first_chunk::<8>()?)),
        _ => return None,
    })
}

/// How a segment was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Its number.
    pub(super) number: u64,
    /// Which life made the journal.
    pub(super) made: u64,
    /// How many of its bytes are good. What follows was being written when the machine stopped.
    pub(super) len: u64,
}

/// Reads a segment and gives each entry to `each`; nothing if even its beginning was not yet written. Only the last one
/// may end in the middle of an entry.
pub(super) fn replay(
    source: &mut impl Read,
    expected: u64,
    is_last: bool,
    mut each: impl FnMut(Entry<'_>),
) -> Result<Option<Segment>, JournalError> {
    let damaged =
        |at: usize, what| Err(JournalError::Damaged { segment: expected, at: at as u64, what });
    let mut start = [0; START];
    let got = fill(source, &mut start)?;
    let is_right = got == START
        && start == *begin(expected, u64_at(&start, 16)).first_chunk().unwrap_or(&[0; START]);
    if !is_right {
        let mut rest = Vec::new();
        source.read_to_end(&mut rest)?;
        let has_no_end = start[START - 1] == 0 && rest.iter().all(|byte| *byte == 0);
        let is_torn = got < START || has_no_end;
        return if is_last && is_torn { Ok(None) } else { damaged(0, "its beginning") };
    }
    let mut segment = Segment { number: expected, made: u64_at(&start, 16), len: START as u64 };
    let mut said = Vec::new();
    loop {
        let at = usize::try_from(segment.len).unwrap_or(usize::MAX);
        let mut header = [0; HEADER];
        let got = fill(source, &mut header)?;
        if got == 0 {
            return Ok(Some(segment));
        }
        let (len, sum) = (header.first_chunk::<4>(), header.last_chunk::<8>());
        let (len, sum) = (*len.expect("four of 16"), *sum.expect("eight of 16"));
        let is_known = got == HEADER && header[4..8] == header_sum(len, sum);
        said.clear();
        let wanted = if is_known { u32::from_le_bytes(len) as usize } else { ENTRY_MAX };
        source.by_ref().take(wanted as u64).read_to_end(&mut said)?;
        if is_known && said.len() == wanted && xxh3_64(&said).to_le_bytes() == sum {
            let Some(entry) = read(&said) else { return damaged(at, "an entry that says nothing") };
            each(entry);
            segment.len += (HEADER + wanted) as u64;
            continue;
        }
        let is_short = got < HEADER || is_known && said.len() < wanted;
        // An entry that was written to its end ends with a byte that is not zero; of one whose length is not known,
        // nothing may be there but zeros.
        let may_be_torn = is_short || !is_known || said.last() == Some(&0);
        if is_known {
            said.clear();
        }
        source.read_to_end(&mut said)?;
        let is_torn = is_short || may_be_torn && said.iter().all(|byte| *byte == 0);
        return if is_last && is_torn {
            Ok(Some(segment))
        } else {
            damaged(at, "a checksum is wrong")
        };
    }
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Reads until the buffer is full or nothing comes any more; how much it is.
fn fill(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match source.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(more) => got += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}
