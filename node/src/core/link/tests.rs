//! A wire that breaks at any point, and what must come out behind it all the same.

use std::collections::VecDeque;

use bytes::Bytes;
use membership::Run;
use pe::Credit;
use proptest::prelude::*;
use routing::{Frame, FrameHeader, FrameKind};

use super::reader::LinkReader;
use super::writer::{LinkLimits, LinkLost, LinkWriter};
use super::*;

const ME: Run = Run(3);
const OTHER: Run = Run(8);

fn writer() -> LinkWriter {
    LinkWriter::new(ME, OTHER, 1, LinkLimits::DEFAULT)
}

/// A frame with a number for a payload, as large as none that would be joined with another.
fn numbered(number: u32) -> Vec<u8> {
    let mut frame = vec![0; FrameHeader::LEN + (40 << 10)];
    frame[FrameHeader::LEN..][..4].copy_from_slice(&number.to_le_bytes());
    frame
}

fn credit(from: u16) -> Credit {
    Credit { topology: 0, edge: 0, from, to: 0, task: 0, epoch: 1 }
}

/// Two ends and what is on its way between them.
struct Wire {
    writer: LinkWriter,
    reader: Option<LinkReader>,
    memories: u64,
    is_open: bool,
    there: VecDeque<Bytes>,
    back: VecDeque<u64>,
    seen: Vec<u32>,
    rows: u64,
    lost: Vec<LinkLost>,
}

impl Wire {
    fn new() -> Self {
        let (there, back, seen, lost) = Default::default();
        let (writer, reader, memories, is_open, rows) = (writer(), None, 0, false, 0);
        Self { writer, reader, memories, is_open, there, back, seen, rows, lost }
    }

    /// A stream breaks, and what was on its way is gone.
    fn cut(&mut self) {
        self.is_open = false;
        self.there.clear();
        self.back.clear();
    }

    /// A new stream; its greeting may be lost before or behind the reader.
    fn open(&mut self, arrives: bool, returns: bool) {
        self.cut();
        let hello = LinkHello::from_bytes(&self.writer.open().to_bytes());
        if arrives {
            self.memories += 1;
            let answer = LinkReader::begin(&mut self.reader, hello, OTHER, self.memories);
            let answer = LinkAnswer::from_bytes(&answer.unwrap().to_bytes());
            if returns {
                match self.writer.resume(answer) {
                    Ok(()) => self.is_open = true,
                    Err(lost) => self.lost.push(lost),
                }
            }
        }
    }

    fn write(&mut self, frames: usize) {
        for _ in 0..frames {
            if self.is_open {
                self.there.extend(self.writer.take());
            }
        }
    }

    fn read(&mut self, frames: usize, is_idle: bool) {
        for _ in 0..frames.min(self.there.len()) {
            let bytes = self.there.pop_front().unwrap();
            let header = FrameHeader::parse(bytes.first_chunk().unwrap()).unwrap();
            let frame = Frame::new(header, bytes.slice(FrameHeader::LEN..)).unwrap();
            let reader = self.reader.as_mut().unwrap();
            assert!(reader.is_new(header.sequence).unwrap(), "a stream goes on where it must");
            let payload = frame.into_payload();
            match header.kind {
                FrameKind::Batches => {
                    self.seen.push(u32::from_le_bytes(*payload.first_chunk().unwrap()));
                }
                FrameKind::Credits => {
                    let credits = credits_of(&payload).unwrap();
                    self.rows += credits.iter().map(|(_, rows, _)| rows).sum::<u64>();
                }
                FrameKind::Farewell => self.seen.push(u32::MAX),
            }
            reader.taken(payload.len());
            self.back.extend(reader.watermark(false));
        }
        if let Some(reader) = self.reader.as_mut().filter(|_| is_idle && self.is_open) {
            self.back.extend(reader.watermark(true));
        }
    }

    fn confirm(&mut self, watermarks: usize) {
        for _ in 0..watermarks.min(self.back.len()) {
            let watermark = self.back.pop_front().unwrap();
            if let Err(lost) = self.writer.confirm(watermark) {
                self.lost.push(lost);
                self.cut();
            }
        }
    }

    /// Lets all come to rest on one stream that holds.
    fn heal(&mut self) {
        self.open(true, true);
        // A link that was lost begins anew with the stream behind.
        if !self.is_open {
            self.open(true, true);
        }
        while self.writer.has_unwritten() {
            self.writer.release();
            self.write(1);
        }
        self.read(usize::MAX, true);
        self.confirm(usize::MAX);
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push,
    Credit,
    Write(usize),
    Read(usize, bool),
    Confirm(usize),
    Open(bool, bool),
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Push),
        2 => Just(Step::Credit),
        4 => (1usize..5).prop_map(Step::Write),
        4 => (1usize..5, any::<bool>()).prop_map(|(frames, is_idle)| Step::Read(frames, is_idle)),
        2 => (1usize..3).prop_map(Step::Confirm),
        2 => (any::<bool>(), any::<bool>()).prop_map(|(a, b)| Step::Open(a, b)),
        3 => Just(Step::Open(true, true)),
        1 => Just(Step::Cut),
    ]
}

/// Runs steps; how many frames and rows of credit were given.
fn run(wire: &mut Wire, steps: &[Step]) -> (u32, u64) {
    let (mut frames, mut rows) = (0, 0);
    for step in steps {
        match *step {
            Step::Push => {
                wire.writer.push(FrameKind::Batches, numbered(frames)).unwrap();
                frames += 1;
            }
            Step::Credit => {
                let lane = credit(u16::try_from(rows % 3).unwrap());
                wire.writer.credit(lane, 1, u32::try_from(rows % 20).unwrap());
                rows += 1;
            }
            Step::Write(frames) => wire.write(frames),
            Step::Read(frames, is_idle) => wire.read(frames, is_idle),
            Step::Confirm(watermarks) => wire.confirm(watermarks),
            Step::Open(arrives, returns) => wire.open(arrives, returns),
            Step::Cut => wire.cut(),
        }
    }
    (frames, rows)
}

proptest! {
    #[test]
    fn whatever_breaks_frames_arrive_once_and_in_order(steps in prop::collection::vec(step(), 0..120)) {
        let mut wire = Wire::new();
        let (frames, rows) = run(&mut wire, &steps);
        wire.writer.push(FrameKind::Farewell, vec![0; FrameHeader::LEN]).unwrap();
        wire.heal();
        prop_assert!(wire.lost.is_empty(), "{:?}", wire.lost);
        let all: Vec<_> = (0..frames).chain([u32::MAX]).collect();
        prop_assert_eq!(&wire.seen, &all);
        prop_assert_eq!(wire.rows, rows);
        prop_assert!(wire.writer.is_settled());
    }

    #[test]
    fn a_reader_that_forgets_costs_what_was_under_way_and_doubles_nothing(
        before in prop::collection::vec(step(), 0..60),
        between in prop::collection::vec(step(), 0..60),
    ) {
        let mut wire = Wire::new();
        let (first, _) = run(&mut wire, &before);
        wire.cut();
        wire.reader = None;
        let (second, _) = run(&mut wire, &between);
        // Numbers of the second part begin anew.
        wire.heal();
        let seen = std::mem::take(&mut wire.seen);
        let mut wanted = (0..first).chain(0..second);
        for (at, &number) in seen.iter().enumerate() {
            let is_next = wanted.any(|wanted| wanted == number);
            prop_assert!(is_next, "frame {} of {:?} is a second one, or late", at, seen);
        }
        prop_assert!(wire.lost.len() <= 1, "{:?}", wire.lost);
        prop_assert!(wire.writer.is_settled());
        // It works as if it were new.
        wire.writer.push(FrameKind::Batches, numbered(7)).unwrap();
        wire.write(1);
        wire.read(1, true);
        prop_assert_eq!(&wire.seen, &[7]);
    }

    #[test]
    fn a_hello_and_an_answer_come_back(run: u64, link: u64, attempt: u64, reader: u64) {
        let hello = LinkHello { run: Run(run), link, attempt, reader: Run(reader) };
        prop_assert_eq!(LinkHello::from_bytes(&hello.to_bytes()), hello);
        let answer = LinkAnswer { memory: link, expected: attempt };
        prop_assert_eq!(LinkAnswer::from_bytes(&answer.to_bytes()), answer);
    }
}

#[test]
fn frames_that_wait_are_joined_and_credits_go_before_them_but_not_always() {
    let mut wire = Wire::new();
    let small = |number: u32| [&[0; FrameHeader::LEN][..], &number.to_le_bytes()].concat();
    for number in 0..3 {
        wire.writer.push(FrameKind::Batches, small(number)).unwrap();
    }
    wire.open(true, true);
    wire.writer.credit(credit(1), 5, 1);
    let kind = |wire: &mut Wire| {
        let frame = wire.writer.take()?;
        Some((FrameHeader::parse(frame.first_chunk().unwrap()).unwrap().kind, frame.len()))
    };
    assert_eq!(kind(&mut wire).unwrap().0, FrameKind::Credits);
    wire.writer.push(FrameKind::Farewell, vec![0; FrameHeader::LEN]).unwrap();
    wire.writer.credit(credit(1), 5, 1);
    assert_eq!(kind(&mut wire), Some((FrameKind::Batches, FrameHeader::LEN + 12)));
    assert_eq!(kind(&mut wire).unwrap().0, FrameKind::Credits);
    assert_eq!(kind(&mut wire).unwrap().0, FrameKind::Farewell);
    assert_eq!(kind(&mut wire), None);
}

#[test]
fn credits_wait_for_company_for_time_or_for_more_of_their_lane() {
    let mut wire = Wire::new();
    wire.open(true, true);
    assert!(wire.writer.credit(credit(1), 5, 1), "the first: somebody has to begin to wait");
    assert!(!wire.writer.credit(credit(2), 5, 1));
    assert_eq!(wire.writer.take(), None);
    assert!(wire.writer.has_credits() && !wire.writer.is_settled());
    wire.writer.release();
    wire.write(1);
    wire.read(1, true);
    assert_eq!(wire.rows, 10);
    assert!(wire.writer.credit(credit(1), 1, 15));
    assert_eq!(wire.writer.take(), None);
    assert!(wire.writer.credit(credit(1), 1, 1), "a quarter of a small budget");
    wire.write(1);
    wire.read(1, true);
    assert_eq!(wire.rows, 12);
    wire.writer.credit(credit(1), 1, 1);
    assert_eq!(wire.writer.take(), None, "time is up for those before, not for this");
    wire.writer.push(FrameKind::Batches, numbered(0)).unwrap();
    wire.write(2);
    wire.read(2, true);
    assert_eq!((wire.rows, &wire.seen[..]), (13, &[0][..]));
}

#[test]
fn confirmations_wait_for_company_or_for_silence() {
    let mut wire = Wire::new();
    wire.open(true, true);
    for number in 0..100 {
        wire.writer.push(FrameKind::Batches, numbered(number)).unwrap();
    }
    wire.write(100);
    wire.read(12, false);
    assert!(wire.back.is_empty());
    wire.read(1, false);
    assert_eq!(wire.back, [13], "half a megabyte");
    wire.read(2, true);
    assert_eq!(wire.back, [13, 15]);
    assert!(wire.reader.as_mut().unwrap().watermark(true).is_none(), "all is said");
    wire.confirm(2);
    assert_eq!(wire.writer.oldest().unwrap().1, 15);
}

#[test]
fn an_older_stream_and_one_for_another_run_are_not_read() {
    let (mut writer, mut known) = (writer(), None);
    let (old, new) = (writer.open(), writer.open());
    assert_eq!(
        LinkReader::begin(&mut known, new, OTHER, 4),
        Some(LinkAnswer { memory: 4, expected: 0 })
    );
    assert_eq!(LinkReader::begin(&mut known, old, OTHER, 5), None);
    assert_eq!(LinkReader::begin(&mut known, new, OTHER, 5), None, "the same once more");
    assert_eq!(LinkReader::begin(&mut known, writer.open(), Run(9), 5), None);
    let later_run = LinkHello { run: Run(4), link: 0, attempt: 0, ..new };
    let answer = LinkReader::begin(&mut known, later_run, OTHER, 6);
    assert_eq!(answer, Some(LinkAnswer { memory: 6, expected: 0 }));
}

#[test]
fn a_gap_is_an_error_and_a_second_one_is_dropped() {
    let (mut writer, mut known) = (writer(), None);
    LinkReader::begin(&mut known, writer.open(), OTHER, 1).unwrap();
    let mut reader = known.unwrap();
    reader.taken(10);
    assert_eq!(reader.is_new(0), Ok(false));
    assert_eq!(reader.is_new(1), Ok(true));
    assert_eq!(reader.is_new(5).unwrap_err().to_string(), "frame 5 where frame 1 was expected");
}

#[test]
fn what_is_refused_is_not_sent_again_and_the_rest_goes_on_as_a_new_link() {
    let mut wire = Wire::new();
    wire.open(true, true);
    for number in 0..2 {
        wire.writer.push(FrameKind::Batches, numbered(number)).unwrap();
    }
    wire.write(1);
    wire.back.push_back(wire.reader.as_mut().unwrap().refuse());
    wire.confirm(1);
    assert_eq!(wire.lost, [LinkLost::Refused]);
    wire.heal();
    assert_eq!(wire.seen, [1], "the one that was not on its way");

    // The same, if the refusal itself is lost.
    wire.writer.push(FrameKind::Batches, numbered(2)).unwrap();
    wire.write(1);
    let _ = wire.reader.as_mut().unwrap().refuse();
    wire.open(true, true);
    assert_eq!(wire.lost, [LinkLost::Refused; 2]);
    assert_eq!(wire.writer.oldest(), None);
}

#[test]
fn a_reader_that_claims_what_it_cannot_have_is_not_believed() {
    let mut writer = writer();
    writer.open();
    writer.resume(LinkAnswer { memory: 1, expected: 0 }).unwrap();
    writer.push(FrameKind::Batches, numbered(0)).unwrap();
    assert_eq!(writer.confirm(1), Err(LinkLost::Refused));
    writer.open();
    let ahead = LinkAnswer { memory: 1, expected: 1 };
    assert_eq!(writer.resume(ahead), Err(LinkLost::NotKept(1)));
}

#[test]
fn a_link_that_holds_too_much_gives_up_and_begins_anew() {
    let by_frames = LinkLimits { frames: 3, ..LinkLimits::DEFAULT };
    let by_bytes = LinkLimits { bytes: 140 << 10, ..LinkLimits::DEFAULT };
    for limits in [by_frames, by_bytes] {
        let mut wire = Wire { writer: LinkWriter::new(ME, OTHER, 1, limits), ..Wire::new() };
        wire.open(true, true);
        for number in 0..3 {
            wire.writer.push(FrameKind::Batches, numbered(number)).unwrap();
        }
        wire.write(2);
        wire.read(1, false);
        let lost = wire.writer.push(FrameKind::Batches, numbered(3));
        assert!(matches!(lost, Err(LinkLost::Full(3, _))), "{lost:?}");
        assert!(wire.writer.is_settled(), "nothing is left");
        wire.writer.push(FrameKind::Batches, numbered(4)).unwrap();
        wire.heal();
        assert_eq!(wire.seen, [0, 4]);
    }
}
