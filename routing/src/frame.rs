//! Frames: what crosses a link, many small batches at a time.
//!
//! A frame is a fixed header and a payload of batches, each with a header of its own. The header is read
//! first and says how much follows, and nothing is allocated before that is known to be allowed; then
//! the payload is checked as a whole, so a batch is only ever looked at in a frame that arrived as it
//! was sent. Everything is little-endian and laid out by hand: it is read before anything is trusted.

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The version of everything that two nodes say to each other; both must have the same.
pub const PROTOCOL_VERSION: u16 = 4;

/// The most bytes in a payload.
pub const FRAME_MAX: usize = 8 << 20;

const MAGIC: [u8; 4] = *b"STRL";

/// What a frame holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameKind {
    /// Batches, one behind the other.
    #[default]
    Batches,
    /// Credits for batches that came the other way.
    Credits,
    /// Nothing: no batches come behind it.
    Farewell,
}

impl FrameKind {
    fn number(self) -> u16 {
        match self {
            Self::Batches => 0,
            Self::Credits => 1,
            Self::Farewell => 2,
        }
    }

    fn of(number: u16) -> Result<Self, FrameError> {
        let kinds = [Self::Batches, Self::Credits, Self::Farewell];
        kinds.get(usize::from(number)).copied().ok_or(FrameError::Kind(number))
    }
}

/// The first bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// What follows.
    pub kind: FrameKind,
    /// Bytes of the payload that follows.
    pub len: u32,
    /// The number of the frame on its link, from zero.
    pub sequence: u64,
    checksum: u64,
}

/// Why bytes were not a frame. The link that brought them cannot go on: its place is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It does not begin as a frame does.
    #[error("not a frame: it begins with {0:02x?}")]
    Magic([u8; 4]),
    /// The sender speaks another version.
    #[error("a frame of protocol version {0}, this node speaks {PROTOCOL_VERSION}")]
    Version(u16),
    /// It holds something that this version does not know.
    #[error("a frame of an unknown kind, {0}")]
    Kind(u16),
    /// It claims to be longer than is allowed; nothing was allocated for it.
    #[error("a frame of {0} bytes, at most {FRAME_MAX} are allowed")]
    TooLong(u32),
    /// The payload is not what was sent.
    #[error("a frame whose checksum is wrong")]
    Checksum,
    /// A batch is of a kind that there is not.
    #[error("a batch of kind {0}")]
    BatchKind(u8),
    /// A batch ends behind the end of its frame.
    #[error("a batch that ends behind the end of its frame")]
    Overrun,
}

impl FrameHeader {
    /// Bytes of a header.
    pub const LEN: usize = 28;

    /// Reads a header.
    ///
    /// # Errors
    /// It is none, or announces what is not allowed.
    pub fn parse(bytes: &[u8; Self::LEN]) -> Result<Self, FrameError> {
        let mut reader = Reader(bytes);
        let magic = reader.bytes::<4>();
        if magic != MAGIC {
            return Err(FrameError::Magic(magic));
        }
        let version = u16::from_le_bytes(reader.bytes());
        if version != PROTOCOL_VERSION {
            return Err(FrameError::Version(version));
        }
        let kind = FrameKind::of(u16::from_le_bytes(reader.bytes()))?;
        let len = u32::from_le_bytes(reader.bytes());
        if len as usize > FRAME_MAX {
            return Err(FrameError::TooLong(len));
        }
        let sequence = u64::from_le_bytes(reader.bytes());
        Ok(Self { kind, len, sequence, checksum: u64::from_le_bytes(reader.bytes()) })
    }

    fn write(self, out: &mut [u8]) {
        out[..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
        out[6..8].copy_from_slice(&self.kind.number().to_le_bytes());
        out[8..12].copy_from_slice(&self.len.to_le_bytes());
        out[12..20].copy_from_slice(&self.sequence.to_le_bytes());
        out[20..28].copy_from_slice(&self.checksum.to_le_bytes());
    }
}

/// What a batch says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchHeader {
    /// The topology, by its place among those that both nodes have.
    pub topology: u16,
    /// The edge, by its place in the plan.
    pub edge: u16,
    /// The container that sent it, and gets the credit.
    pub from: u16,
    /// The container that it is for.
    pub to: u16,
    /// The instance that it is for, if the prototype has numbered ones.
    pub task: u32,
    /// How many events.
    pub rows: u32,
    /// What it takes from the budget of its lane.
    pub weight: u32,
    /// The number of the view by which it was routed.
    pub epoch: u64,
    /// The digest of the layout by which it was routed.
    pub layout: u64,
    /// What it is for.
    pub kind: BatchKind,
}

/// What a batch is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchKind {
    /// Events from whoever emitted them.
    #[default]
    Direct,
    /// Events that a container passed on, since they belong elsewhere by a newer view.
    Forwarded,
    /// No events: behind the last of those that its sender routed by an older view.
    Fence,
    /// No events: behind the last of those that came before a fence and were passed on.
    Flushed,
    /// No events: so many acks for trees that the receiver planted.
    Acks,
    /// No events: so many trees that the receiver planted are given up.
    Fails,
    /// No events: what a replica of units of the sender is to take in.
    Replicate,
    /// No events: how far a replica has come with that.
    Replicated,
}

impl BatchKind {
    const ALL: [Self; 8] = [
        Self::Direct,
        Self::Forwarded,
        Self::Fence,
        Self::Flushed,
        Self::Acks,
        Self::Fails,
        Self::Replicate,
        Self::Replicated,
    ];

    fn parse(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&kind| kind as u8 == byte)
    }
}

impl BatchHeader {
    /// The task of a batch for a prototype without numbered instances.
    pub const NO_TASK: u32 = u32::MAX;
    /// Bytes of a header on the wire, the length of the body included.
    const LEN: usize = 37 + 4;

    fn write(self, out: &mut Vec<u8>) {
        for small in [self.topology, self.edge, self.from, self.to] {
            out.extend_from_slice(&small.to_le_bytes());
        }
        for number in [self.task, self.rows, self.weight] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.layout.to_le_bytes());
        out.push(self.kind as u8);
    }

    fn parse(bytes: &[u8; Self::LEN]) -> Result<(Self, usize), FrameError> {
        let mut reader = Reader(bytes);
        let mut small = || u16::from_le_bytes(reader.bytes());
        let (topology, edge, from, to) = (small(), small(), small(), small());
        let mut number = || u32::from_le_bytes(reader.bytes());
        let (task, rows, weight) = (number(), number(), number());
        let epoch = u64::from_le_bytes(reader.bytes());
        let layout = u64::from_le_bytes(reader.bytes());
        let [kind] = reader.bytes();
        let kind = BatchKind::parse(kind).ok_or(FrameError::BatchKind(kind))?;
        let len = u32::from_le_bytes(reader.bytes()) as usize;
        Ok((Self { topology, edge, from, to, task, rows, weight, epoch, layout, kind }, len))
    }
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let (taken, rest) = self.0.split_first_chunk().expect("the header's length was checked");
        self.0 = rest;
        *taken
    }
}

/// Collects batches into a frame.
#[derive(Debug, Default)]
pub struct FrameBuilder {
    bytes: Vec<u8>,
    /// Bytes of the frame before: the next is likely to need as many.
    before: usize,
}

impl FrameBuilder {
    /// Adds a batch; `body` appends its columns.
    pub fn push(&mut self, header: BatchHeader, body: impl FnOnce(&mut Vec<u8>)) {
        if self.bytes.is_empty() {
            self.bytes.reserve(self.before);
            self.bytes.resize(FrameHeader::LEN, 0);
        }
        header.write(&mut self.bytes);
        let length_at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        body(&mut self.bytes);
        let len = u32::try_from(self.bytes.len() - length_at - 4).expect("a batch is below 4 GiB");
        self.bytes[length_at..length_at + 4].copy_from_slice(&len.to_le_bytes());
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no batch.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Closes the frame and takes it out; the number and the checksum are added by [`seal`].
    pub fn take(&mut self) -> Vec<u8> {
        self.before = self.bytes.len();
        std::mem::take(&mut self.bytes)
    }
}

/// Writes the header of a frame, with its number and its checksum, just before it leaves.
pub fn seal(frame: &mut [u8], kind: FrameKind, sequence: u64) {
    let (header, payload) = frame.split_at_mut(FrameHeader::LEN);
    let len = u32::try_from(payload.len()).expect("frames are bounded by what a batch may hold");
    let checksum = checksum(payload, kind, sequence);
    FrameHeader { kind, len, sequence, checksum }.write(header);
}

/// A header is covered as well: a frame of another kind or number has another checksum.
fn checksum(payload: &[u8], kind: FrameKind, sequence: u64) -> u64 {
    xxh3_64_with_seed(payload, sequence ^ u64::from(kind.number()) << 48)
}

/// A frame that arrived whole.
#[derive(Clone, Debug)]
pub struct Frame {
    payload: Bytes,
}

impl Frame {
    /// Checks a payload against its header.
    ///
    /// # Errors
    /// The checksum is wrong.
    pub fn new(header: FrameHeader, payload: Bytes) -> Result<Self, FrameError> {
        let is_whole = payload.len() == header.len as usize
            && checksum(&payload, header.kind, header.sequence) == header.checksum;
        if is_whole { Ok(Self { payload }) } else { Err(FrameError::Checksum) }
    }

    /// The bytes behind the header, for a frame that does not hold batches.
    pub fn into_payload(self) -> Bytes {
        self.payload
    }
}

/// The batches of a frame, in order; an error ends it.
impl Iterator for Frame {
    type Item = Result<(BatchHeader, Bytes), FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.payload.is_empty() {
            return None;
        }
        let batch = self.take();
        if batch.is_err() {
            self.payload.clear();
        }
        Some(batch)
    }
}

impl Frame {
    fn take(&mut self) -> Result<(BatchHeader, Bytes), FrameError> {
        let header = self.payload.first_chunk().ok_or(FrameError::Overrun)?;
        let (header, len) = BatchHeader::parse(header)?;
        if len > self.payload.len() - BatchHeader::LEN {
            return Err(FrameError::Overrun);
        }
        let mut body = self.payload.split_to(BatchHeader::LEN + len);
        Ok((header, body.split_off(BatchHeader::LEN)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame() -> Vec<u8> {
        let mut builder = FrameBuilder::default();
        for edge in 0..3 {
            let header =
                BatchHeader { edge, rows: 7, epoch: 5, layout: 9, ..BatchHeader::default() };
            builder.push(header, |body| body.extend_from_slice(&[edge.to_le_bytes()[0]; 5]));
        }
        let mut frame = builder.take();
        seal(&mut frame, FrameKind::Batches, 41);
        frame
    }

    fn read(bytes: &[u8]) -> Result<Vec<(BatchHeader, Bytes)>, FrameError> {
        let header = FrameHeader::parse(bytes.first_chunk().ok_or(FrameError::Overrun)?)?;
        Frame::new(header, Bytes::copy_from_slice(&bytes[FrameHeader::LEN..]))?.collect()
    }

    #[test]
    fn batches_come_back_in_order() {
        let batches = read(&frame()).unwrap();
        assert_eq!(batches.len(), 3);
        for (edge, (header, body)) in (0..3).zip(&batches) {
            assert_eq!((header.edge, header.rows, header.layout), (edge, 7, 9));
            assert_eq!(&body[..], &[edge.to_le_bytes()[0]; 5]);
        }
    }

    /// The layout is what nodes of other builds read.
    #[test]
    fn the_bytes_are_pinned() {
        let bytes = frame();
        assert_eq!(bytes[..12], [b'S', b'T', b'R', b'L', 4, 0, 0, 0, 138, 0, 0, 0]);
        assert_eq!(xxhash_rust::xxh3::xxh3_64(&bytes), 11631195432623180654);
    }

    #[test]
    fn a_frame_of_four_gigabytes_is_refused_by_its_header() {
        let mut bytes = frame();
        bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(read(&bytes).unwrap_err(), FrameError::TooLong(u32::MAX));
    }

    #[test]
    fn another_version_is_refused_with_both_numbers() {
        let mut bytes = frame();
        bytes[4] = 9;
        assert_eq!(
            read(&bytes).unwrap_err().to_string(),
            "a frame of protocol version 9, this node speaks 4"
        );
    }

    proptest! {
        #[test]
        fn a_changed_or_cut_frame_is_refused(at in 0usize..166, bit in 0u8..8, cut in 0usize..166) {
            let mut bytes = frame();
            prop_assert!(read(&bytes[..cut]).is_err());
            bytes[at] ^= 1 << bit;
            prop_assert!(read(&bytes).is_err());
        }

        #[test]
        fn random_bytes_are_no_frame(bytes in prop::collection::vec(any::<u8>(), 0..200), len in 0u32..200) {
            let _ = read(&bytes);
            // Nor do they break the reader of batches if they carry the right checksum.
            let kind = FrameKind::Batches;
            let header = FrameHeader { kind, len, sequence: 0, checksum: checksum(&bytes, kind, 0) };
            if let Ok(frame) = Frame::new(header, Bytes::from(bytes)) {
                frame.for_each(drop);
            }
        }
    }
}
