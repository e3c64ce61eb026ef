//! The data links of a simulated node: the core of real ones, and letters for streams.
//!
//! Nothing here decides. Where a real node has a task per stream, this writes as soon as there is something
//! to write and confirms as soon as something was read, opens another stream when one ends or stays
//! silent, and tries again and again where nobody answers.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use membership::{Member, NodeId, Run, Time};
use node::link::reader::{LinkGap, LinkReader};
use node::link::writer::{LinkLimits, LinkLost, LinkWriter};
use node::link::{LinkAnswer, LinkCredit, LinkHello};
use routing::{FrameHeader, FrameKind};

use crate::network::Letter;
use crate::process::Outbox;

/// How long a stream may be without an answer, or without a confirmation that is due.
const SILENCE_LIMIT: Duration = Duration::from_secs(4);

/// How long to wait before a stream that was refused is opened again: first, and at most.
const AGAIN: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

/// How long credits, and confirmations, wait for company.
const COMPANY: Duration = Duration::from_millis(5);

/// All data links of a node.
#[derive(Debug)]
pub(crate) struct SimLinks {
    run: Run,
    made: u32,
    streams: u64,
    memories: u64,
    writers: BTreeMap<NodeId, Writer>,
    readers: BTreeMap<NodeId, Reader>,
    /// Nothing is due before.
    next: Option<Time>,
    /// Whether a stream that is opened again forgets what was under way.
    forgets: bool,
}

/// A link that is written.
#[derive(Debug)]
struct Writer {
    link: LinkWriter,
    member: Member,
    stream: u64,
    /// When another stream is opened unless something moves, and how long to wait when one is refused.
    again: Option<Time>,
    wait: Duration,
    /// What was under way when it was last looked at.
    oldest: Option<(u64, u64)>,
    /// How many streams of it were read.
    opened: u64,
    /// When credits go without company.
    release: Option<Time>,
}

/// A link that is read.
#[derive(Debug, Default)]
struct Reader {
    link: Option<LinkReader>,
    stream: u64,
    /// When what was read is confirmed.
    confirm: Option<Time>,
}

impl SimLinks {
    pub(crate) fn new(run: Run, forgets: bool) -> Self {
        let (writers, readers) = Default::default();
        // What is left of a former life must not be taken for what there is now.
        let (made, streams, memories) = (0, run.0 << 32, 0);
        Self { run, made, streams, memories, writers, readers, next: None, forgets }
    }

    /// Keeps a link to a member, in place of that to an earlier life of it.
    pub(crate) fn connect(&mut self, now: Time, member: Member, out: &mut Outbox) {
        let node = member.node;
        if self.writers.get(&node).is_some_and(|known| known.member == member) {
            return;
        }
        self.made += 1;
        let link = LinkWriter::new(self.run, member.run, self.made, LinkLimits::DEFAULT);
        let (wait, oldest, release) = (Duration::ZERO, None, None);
        let (stream, again, opened) = (0, None, 0);
        let writer = Writer { link, member, stream, again, wait, oldest, opened, release };
        self.writers.insert(node, writer);
        self.reopen(now, node, out);
    }

    /// Sends a frame; without a link its events are in doubt, and counted so by their container.
    pub(crate) fn send(
        &mut self,
        now: Time,
        to: NodeId,
        kind: FrameKind,
        frame: Vec<u8>,
        out: &mut Outbox,
    ) {
        if let Some(writer) = self.writers.get_mut(&to) {
            writer.link.push(kind, frame).expect("a simulation is too small for that");
            self.write(now, to, out);
        }
    }

    /// Sends credit.
    pub(crate) fn credit(&mut self, now: Time, to: NodeId, credit: LinkCredit, out: &mut Outbox) {
        let (credit, rows, weight) = credit;
        let Some(writer) = self.writers.get_mut(&to) else { return };
        if writer.link.credit(credit, rows, weight) {
            let at = *writer.release.get_or_insert(now + COMPANY);
            self.due(Some(at));
            self.write(now, to, out);
        }
    }

    /// Opens another stream to a node, if there is a link.
    pub(crate) fn reopen(&mut self, now: Time, to: NodeId, out: &mut Outbox) {
        self.streams += 1;
        if let Some(writer) = self.writers.get_mut(&to) {
            writer.stream = self.streams;
            writer.again = Some(now + SILENCE_LIMIT);
            out.letters.push((to, Letter::Open(self.streams, writer.link.open())));
            self.due(Some(now + SILENCE_LIMIT));
        }
    }

    /// A stream begins.
    pub(crate) fn read(&mut self, from: NodeId, stream: u64, hello: LinkHello, out: &mut Outbox) {
        let reader = self.readers.entry(from).or_default();
        self.memories += 1;
        match LinkReader::begin(&mut reader.link, hello, self.run, self.memories) {
            Some(answer) => {
                (reader.stream, reader.confirm) = (stream, None);
                out.letters.push((from, Letter::Opened(stream, answer)));
            }
            None => out.letters.push((from, Letter::Ended(stream))),
        }
    }

    /// The other side says from where on it reads.
    pub(crate) fn opened(
        &mut self,
        now: Time,
        from: NodeId,
        stream: u64,
        answer: LinkAnswer,
        out: &mut Outbox,
    ) -> Result<(), LinkLost> {
        let Some(writer) = self.writers.get_mut(&from).filter(|writer| writer.stream == stream)
        else {
            return Ok(());
        };
        (writer.again, writer.wait, writer.oldest) = (None, Duration::ZERO, None);
        writer.opened += 1;
        let resumed = writer.link.resume(answer);
        if resumed.is_err() {
            self.reopen(now, from, out);
        } else if self.forgets && writer.opened > 1 {
            // What was sent before and not confirmed is taken, and goes nowhere.
            while writer.link.has_unwritten() && writer.link.take().is_some() {}
        }
        self.write(now, from, out);
        resumed
    }

    /// Whether a frame is to be handed on.
    pub(crate) fn frame(
        &mut self,
        now: Time,
        from: NodeId,
        stream: u64,
        bytes: &Bytes,
        out: &mut Outbox,
    ) -> Result<bool, LinkGap> {
        let known = self.readers.get_mut(&from).filter(|reader| reader.stream == stream);
        let Some(Reader { link: Some(reader), confirm, .. }) = known else {
            out.letters.push((from, Letter::Ended(stream)));
            return Ok(false);
        };
        let header = bytes.first_chunk().expect("a frame has a header");
        let header = FrameHeader::parse(header).expect("a link does not change bytes");
        let is_new = reader.is_new(header.sequence)?;
        if is_new {
            reader.taken(bytes.len());
        }
        let watermark = reader.watermark(false);
        out.letters.extend(watermark.map(|mark| (from, Letter::Confirmed(stream, mark))));
        if reader.owes() {
            let at = *confirm.get_or_insert(now + COMPANY);
            self.due(Some(at));
        }
        Ok(is_new)
    }

    /// The other side has read.
    pub(crate) fn confirmed(
        &mut self,
        now: Time,
        from: NodeId,
        stream: u64,
        watermark: u64,
    ) -> Result<(), LinkLost> {
        let Some(writer) = self.writers.get_mut(&from).filter(|writer| writer.stream == stream)
        else {
            return Ok(());
        };
        writer.link.confirm(watermark)?;
        writer.watch(now);
        let again = writer.again;
        self.due(again);
        Ok(())
    }

    /// The other side reads a stream no more.
    pub(crate) fn ended(&mut self, now: Time, from: NodeId, stream: u64) {
        let [first, most] = AGAIN;
        if let Some(writer) = self.writers.get_mut(&from)
            && writer.stream == stream
        {
            // What was sent before this was heard is answered alike, and must not put it off.
            let again = now + writer.wait;
            writer.again = Some(writer.again.map_or(again, |at| at.min(again)));
            writer.wait = (writer.wait * 2).clamp(first, most);
            let again = writer.again;
            self.due(again);
        }
    }

    /// The connection to a node has closed.
    pub(crate) fn closed(&mut self, now: Time, node: NodeId) {
        if let Some(writer) = self.writers.get(&node) {
            self.ended(now, node, writer.stream);
        }
    }

    /// Does what is due: opens other streams, sends credits that have waited, confirms what was read.
    pub(crate) fn wake(&mut self, now: Time, out: &mut Outbox) {
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        for (&node, reader) in &mut self.readers {
            if is_due(reader.confirm) {
                reader.confirm = None;
                let mark = reader.link.as_mut().and_then(|link| link.watermark(true));
                let confirmed = mark.map(|mark| Letter::Confirmed(reader.stream, mark));
                out.letters.extend(confirmed.map(|letter| (node, letter)));
            }
        }
        let late = self.writers.iter().filter(|(_, writer)| is_due(writer.again));
        for node in late.map(|(&node, _)| node).collect::<Vec<_>>() {
            self.reopen(now, node, out);
        }
        let late = self.writers.iter_mut().filter(|(_, writer)| is_due(writer.release));
        let late = late.map(|(&node, writer)| {
            writer.release = None;
            writer.link.release();
            node
        });
        for node in late.collect::<Vec<_>>() {
            self.write(now, node, out);
        }
        let writers = self.writers.values().flat_map(|writer| [writer.again, writer.release]);
        let readers = self.readers.values().map(|reader| reader.confirm);
        self.next = writers.chain(readers).flatten().min();
    }

    /// When [`SimLinks::wake`] is due.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.next
    }

    fn due(&mut self, at: Option<Time>) {
        self.next = self.next.into_iter().chain(at).min();
    }

    /// Forgets what was read from a node; a stream that is open ends.
    pub(crate) fn forget(&mut self, from: NodeId, out: &mut Outbox) {
        let known = self.readers.remove(&from);
        if let Some(known) = known.filter(|known| known.link.is_some()) {
            out.letters.push((from, Letter::Ended(known.stream)));
        }
    }

    /// Drops all that has to do with a node.
    pub(crate) fn drop_links(&mut self, node: NodeId, out: &mut Outbox) {
        self.writers.remove(&node);
        self.forget(node, out);
    }

    /// Whether the others have all that was sent.
    pub(crate) fn are_settled(&self) -> bool {
        self.writers.values().all(|writer| writer.link.is_settled())
    }

    fn write(&mut self, now: Time, to: NodeId, out: &mut Outbox) {
        if let Some(writer) = self.writers.get_mut(&to) {
            while let Some(frame) = writer.link.take() {
                out.letters.push((to, Letter::Frame(writer.stream, frame)));
            }
            if writer.again.is_none() {
                writer.watch(now);
            }
            let again = writer.again;
            self.due(again);
        }
    }
}

impl Writer {
    /// Gives what is under way a while from when it first was what it is.
    fn watch(&mut self, now: Time) {
        let oldest = self.link.oldest();
        if oldest.is_none() {
            self.again = None;
        } else if oldest != self.oldest || self.again.is_none() {
            self.again = Some(now + SILENCE_LIMIT);
        }
        self.oldest = oldest;
    }
}
