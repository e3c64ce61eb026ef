//! The end of a link that writes: numbers frames, and keeps them until they are confirmed.
//!
//! Two things wait for a stream: frames in the order in which they were given, and credits, which are
//! added up by lane and so never grow beyond the number of lanes. Credits go first, since they are small and
//! the other side may stand still for want of them; but never twice in a row while a frame waits, or a
//! busy link would send nothing else. While no frame waits, credits wait a moment for company, unless a lane
//! has many: a packet for each would double what two nodes have to do for a slow stream. A frame gets
//! its number when it is taken for the first time.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use membership::Run;
use pe::Credit;
use routing::{FrameHeader, FrameKind, codec, seal};

use super::{LinkAnswer, LinkCredit, LinkHello, REFUSED};

/// Frames that wait are joined up to this size: one header, one checksum, one delivery.
const JOINED_MAX: usize = 64 << 10;

/// Credits of one lane that are sent at once; the smallest budget is four times as much.
const URGENT: u32 = 16;

/// Credits in one frame.
const CREDITS_MAX: usize = 1024;

/// What a writer holds at most. Credits allow less; to meet this, something has to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLimits {
    /// Frames. Too few, and a link is given up that would have come back.
    pub frames: usize,
    /// Bytes of all frames.
    pub bytes: usize,
}

impl LinkLimits {
    /// As much as the budgets of a few dozen containers on either side allow to be under way.
    pub const DEFAULT: Self = Self { frames: 1 << 20, bytes: 1 << 30 };
}

/// What was under way on a link may or may not have been handled; the link has begun anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkLost {
    /// The reader has forgotten what it read, or wants what there is not any more.
    #[error("the reader wants frame {0}, which is not kept")]
    NotKept(u64),
    /// The reader got a frame that cannot be one.
    #[error("the reader refused a frame")]
    Refused,
    /// More waits than may.
    #[error("{0} frames of {1} bytes wait to be confirmed")]
    Full(usize, usize),
}

/// The writing end of a link to one run of a node.
#[derive(Debug)]
pub struct LinkWriter {
    hello: LinkHello,
    limits: LinkLimits,
    /// The memory of the reader that this link has begun with.
    memory: Option<u64>,
    credits: BTreeMap<Credit, (u64, u32)>,
    /// Whether credits go without company.
    are_due: bool,
    /// Not yet numbered.
    waiting: VecDeque<(FrameKind, Vec<u8>)>,
    /// Numbered and not confirmed; the first has the number `confirmed`.
    kept: VecDeque<Bytes>,
    confirmed: u64,
    /// The number of the next frame to be written on this stream.
    next: u64,
    /// Whether there is a stream on which this link goes on.
    is_open: bool,
    /// Bytes in `waiting` and `kept`.
    bytes: usize,
    /// Whether credits were what was numbered last.
    were_credits: bool,
}

impl LinkWriter {
    /// A link from a run of this node to one of another; `made` says how many were made before in this run.
    pub fn new(run: Run, reader: Run, made: u32, limits: LinkLimits) -> Self {
        Self {
            // A link that begins anew counts on; there is room before the next one that is made.
            hello: LinkHello { run, link: u64::from(made) << 32, attempt: 0, reader },
            limits,
            memory: None,
            credits: BTreeMap::new(),
            are_due: false,
            waiting: VecDeque::new(),
            kept: VecDeque::new(),
            confirmed: 0,
            next: 0,
            is_open: false,
            bytes: 0,
            were_credits: false,
        }
    }

    /// Adds a frame, its header not yet written. The first of [`FrameHeader::LEN`] bytes are for that.
    ///
    /// # Errors
    /// Too much waits: all of it was dropped, this frame included, and the stream is of no use.
    pub fn push(&mut self, kind: FrameKind, frame: Vec<u8>) -> Result<(), LinkLost> {
        let held = self.waiting.len() + self.kept.len();
        if held >= self.limits.frames || self.bytes + frame.len() > self.limits.bytes {
            let bytes = self.bytes;
            self.waiting.clear();
            self.credits.clear();
            self.begin_anew();
            return Err(LinkLost::Full(held, bytes));
        }
        match self.waiting.back_mut() {
            Some((FrameKind::Batches, last))
                if kind == FrameKind::Batches && last.len() + frame.len() <= JOINED_MAX =>
            {
                let batches = &frame[FrameHeader::LEN..];
                self.bytes += batches.len();
                last.extend_from_slice(batches);
            }
            _ => {
                self.bytes += frame.len();
                self.waiting.push_back((kind, frame));
            }
        }
        Ok(())
    }

    /// Adds credits; whether the writer should look, since they are the first or many.
    pub fn credit(&mut self, credit: Credit, rows: u64, weight: u32) -> bool {
        let is_first = self.credits.is_empty();
        let sum = self.credits.entry(credit).or_default();
        *sum = (sum.0.saturating_add(rows), sum.1.saturating_add(weight));
        let is_urgent = sum.1 >= URGENT && !self.are_due;
        self.are_due |= is_urgent;
        is_first || is_urgent
    }

    /// Credits have waited long enough.
    pub fn release(&mut self) {
        self.are_due = true;
    }

    /// Whether credits wait for company, or for [`LinkWriter::release`].
    pub fn has_credits(&self) -> bool {
        !self.credits.is_empty()
    }

    /// What the next stream begins with; the one before is over.
    pub fn open(&mut self) -> LinkHello {
        self.is_open = false;
        self.hello.attempt += 1;
        self.hello
    }

    /// Goes on where the reader says.
    ///
    /// # Errors
    /// That is not possible. What was numbered is dropped, and the next stream begins a new link.
    pub fn resume(&mut self, answer: LinkAnswer) -> Result<(), LinkLost> {
        let LinkAnswer { memory, expected } = answer;
        let is_known = self.memory.map_or(expected == 0, |known| known == memory);
        let is_kept = (self.confirmed..=self.numbered()).contains(&expected);
        if !is_known || !is_kept {
            self.begin_anew();
            let is_refused = expected == REFUSED;
            return Err(if is_refused { LinkLost::Refused } else { LinkLost::NotKept(expected) });
        }
        self.memory = Some(memory);
        self.forget(expected);
        (self.next, self.is_open) = (expected, true);
        Ok(())
    }

    /// The next frame to write on this stream, if there is one and the stream is of use.
    pub fn take(&mut self) -> Option<Bytes> {
        if !self.is_open {
            return None;
        }
        if self.next == self.numbered() {
            self.number_next()?;
        }
        let at = usize::try_from(self.next - self.confirmed).expect("as many as are kept");
        self.next += 1;
        Some(self.kept[at].clone())
    }

    /// The reader has all frames below a number.
    ///
    /// # Errors
    /// The reader refuses what it got, or claims what it cannot have. What was numbered is dropped, and the
    /// next stream begins a new link.
    pub fn confirm(&mut self, watermark: u64) -> Result<(), LinkLost> {
        if watermark > self.next {
            self.begin_anew();
            return Err(LinkLost::Refused);
        }
        self.forget(watermark);
        Ok(())
    }

    /// Drops all, for a reader that is gone.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.credits.clear();
        self.begin_anew();
    }

    /// Whether the stream that was resumed last is still of use.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Whether the reader has all that was given.
    pub fn is_settled(&self) -> bool {
        self.kept.is_empty() && !self.has_unwritten()
    }

    /// Whether there is something to write.
    pub fn has_unwritten(&self) -> bool {
        self.next < self.numbered() || !self.waiting.is_empty() || !self.credits.is_empty()
    }

    /// How far the reader has come, on which link.
    pub fn progress(&self) -> (u64, u64) {
        (self.hello.link, self.confirmed)
    }

    /// What was written longest ago and is not confirmed; while it stays the same, nothing has moved.
    pub fn oldest(&self) -> Option<(u64, u64)> {
        (self.next > self.confirmed).then(|| self.progress())
    }

    /// The number that the next new frame gets.
    fn numbered(&self) -> u64 {
        self.confirmed + self.kept.len() as u64
    }

    fn number_next(&mut self) -> Option<()> {
        let has_company = !self.waiting.is_empty();
        let may_go = if has_company { !self.were_credits } else { self.are_due };
        self.were_credits = may_go && !self.credits.is_empty();
        let (kind, mut frame) = if self.were_credits {
            let frame = self.credit_frame();
            self.bytes += frame.len();
            (FrameKind::Credits, frame)
        } else {
            self.waiting.pop_front()?
        };
        seal(&mut frame, kind, self.numbered());
        self.kept.push_back(Bytes::from(frame));
        Some(())
    }

    fn credit_frame(&mut self) -> Vec<u8> {
        let mut credits: Vec<LinkCredit> = Vec::new();
        while credits.len() < CREDITS_MAX
            && let Some((credit, (rows, weight))) = self.credits.pop_first()
        {
            credits.push((credit, rows, weight));
        }
        self.are_due &= !self.credits.is_empty();
        let mut frame = vec![0; FrameHeader::LEN];
        codec::encode(&credits, &mut frame).expect("a list of numbers can be encoded");
        frame
    }

    /// Drops what is confirmed.
    fn forget(&mut self, watermark: u64) {
        while self.confirmed < watermark
            && let Some(frame) = self.kept.pop_front()
        {
            self.bytes -= frame.len();
            self.confirmed += 1;
        }
    }

    fn begin_anew(&mut self) {
        self.kept.clear();
        self.bytes = self.waiting.iter().map(|(_, frame)| frame.len()).sum();
        self.hello.link += 1;
        self.memory = None;
        self.is_open = false;
        (self.confirmed, self.next) = (0, 0);
    }
}
