//! The data links of a simulated node: the core of real ones, and letters for streams.
//!
//! Nothing here decides. Where a real node has a task per stream, this writes as soon as there is something
//! to write and confirms as soon as something was read.

use std::collections::BTreeMap;

use bytes::Bytes;
use membership::{NodeId, Run};
use node::link::reader::LinkReader;
use node::link::writer::{LinkLimits, LinkLost, LinkWriter};
use node::link::{LinkAnswer, LinkCredit, LinkHello};
use routing::{FrameHeader, FrameKind};

use crate::network::Letter;
use crate::node_sim::Outbox;

/// Every node has one life.
const RUN: Run = Run(1);

/// All data links of a node.
#[derive(Debug, Default)]
pub(crate) struct SimLinks {
    made: u32,
    memories: u64,
    /// With the number of the stream.
    writers: BTreeMap<NodeId, (LinkWriter, u64)>,
    /// With the number of the stream.
    readers: BTreeMap<NodeId, (Option<LinkReader>, u64)>,
}

impl SimLinks {
    /// Sends a frame.
    pub(crate) fn send(&mut self, to: NodeId, kind: FrameKind, frame: Vec<u8>, out: &mut Outbox) {
        let pushed = self.writer(to, out).push(kind, frame);
        pushed.expect("a simulation is too small for that");
        self.write(to, out);
    }

    /// Sends credit.
    pub(crate) fn credit(&mut self, to: NodeId, credit: LinkCredit, out: &mut Outbox) {
        let (credit, rows, weight) = credit;
        let writer = self.writer(to, out);
        writer.credit(credit, rows, weight);
        writer.release();
        self.write(to, out);
    }

    /// Opens another stream to a node, if there was one.
    pub(crate) fn reopen(&mut self, to: NodeId, out: &mut Outbox) {
        if let Some((writer, stream)) = self.writers.get_mut(&to) {
            let hello = writer.open();
            *stream = hello.attempt;
            out.push((to, Letter::Open(hello)));
        }
    }

    /// A stream begins.
    pub(crate) fn read(&mut self, from: NodeId, hello: LinkHello, out: &mut Outbox) {
        let (reader, stream) = self.readers.entry(from).or_default();
        self.memories += 1;
        match LinkReader::begin(reader, hello, RUN, self.memories) {
            Some(answer) => {
                *stream = hello.attempt;
                out.push((from, Letter::Opened(*stream, answer)));
            }
            None => out.push((from, Letter::Ended(hello.attempt))),
        }
    }

    /// The other side says from where on it reads.
    pub(crate) fn opened(
        &mut self,
        from: NodeId,
        stream: u64,
        answer: LinkAnswer,
        out: &mut Outbox,
    ) -> Result<(), LinkLost> {
        let Some((writer, current)) = self.writers.get_mut(&from) else { return Ok(()) };
        if stream != *current {
            return Ok(());
        }
        let resumed = writer.resume(answer);
        if resumed.is_err() {
            self.reopen(from, out);
        }
        self.write(from, out);
        resumed
    }

    /// Whether a frame is to be handed on.
    pub(crate) fn frame(
        &mut self,
        from: NodeId,
        stream: u64,
        bytes: &Bytes,
        out: &mut Outbox,
    ) -> bool {
        let known = self.readers.get_mut(&from).filter(|(_, current)| *current == stream);
        let Some((Some(reader), _)) = known else {
            out.push((from, Letter::Ended(stream)));
            return false;
        };
        let header = bytes.first_chunk().expect("a frame has a header");
        let header = FrameHeader::parse(header).expect("a link does not change bytes");
        let is_new = reader.is_new(header.sequence).expect("a stream keeps its order");
        if is_new {
            reader.taken(bytes.len());
        }
        let watermark = reader.watermark(true);
        out.extend(watermark.map(|watermark| (from, Letter::Confirmed(stream, watermark))));
        is_new
    }

    /// The other side has read.
    pub(crate) fn confirmed(&mut self, from: NodeId, stream: u64, watermark: u64) {
        if let Some((writer, current)) = self.writers.get_mut(&from)
            && stream == *current
        {
            writer.confirm(watermark).expect("nobody confirms what was not sent");
        }
    }

    /// The other side reads a stream no more.
    pub(crate) fn ended(&mut self, from: NodeId, stream: u64, out: &mut Outbox) {
        if self.writers.get(&from).is_some_and(|(_, current)| *current == stream) {
            self.reopen(from, out);
        }
    }

    /// Forgets what was read from a node; a stream that is open ends.
    pub(crate) fn forget(&mut self, from: NodeId, out: &mut Outbox) {
        if let Some((Some(_), stream)) = self.readers.remove(&from) {
            out.push((from, Letter::Ended(stream)));
        }
    }

    /// Drops all that has to do with a node.
    pub(crate) fn drop_links(&mut self, node: NodeId, out: &mut Outbox) {
        self.writers.remove(&node);
        self.forget(node, out);
    }

    /// Whether the others have all that was sent.
    pub(crate) fn are_settled(&self) -> bool {
        self.writers.values().all(|(writer, _)| writer.is_settled())
    }

    fn writer(&mut self, to: NodeId, out: &mut Outbox) -> &mut LinkWriter {
        let Self { writers, made, .. } = self;
        let (writer, _) = writers.entry(to).or_insert_with(|| {
            *made += 1;
            let mut writer = LinkWriter::new(RUN, RUN, *made, LinkLimits::DEFAULT);
            let hello = writer.open();
            out.push((to, Letter::Open(hello)));
            (writer, hello.attempt)
        });
        writer
    }

    fn write(&mut self, to: NodeId, out: &mut Outbox) {
        if let Some((writer, stream)) = self.writers.get_mut(&to) {
            while let Some(frame) = writer.take() {
                out.push((to, Letter::Frame(*stream, frame)));
            }
        }
    }
}
