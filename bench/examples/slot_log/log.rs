//! The log: frames of batches and deltas, and the thread that writes them.
//!
//! A part of a frame is a batch as it goes to another node, or records as in the chunks of a handoff. So the
//! log has the frames of links: their headers, their numbers, their checksums.

use std::fs::File;
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};

use bytes::Bytes;
use routing::{Batch, BatchHeader, FrameBuilder, FrameKind, codec, seal};
use serde::Serialize;

use crate::Hit;

/// Logged bytes at which a container waits for the disk.
pub(crate) const BACKLOG: usize = 16 << 20;

/// A frame is closed when it has this many bytes.
const FRAME_TARGET: usize = 4 << 20;

/// A part of deltas is closed when it has this many.
pub(crate) const CHUNK_TARGET: usize = 64 << 10;

/// What the parts of a frame are, in place of the edge of a batch.
pub(crate) const INPUTS: u16 = 0;
pub(crate) const DELTAS: u16 = 1;

/// What has not been given to the writer.
#[derive(Default)]
pub(crate) struct Log {
    open: FrameBuilder,
    closed: Vec<Vec<u8>>,
    closed_bytes: usize,
}

impl Log {
    /// Adds a batch.
    pub(crate) fn inputs(&mut self, batch: &Batch<Hit>) {
        let rows = u32::try_from(batch.len()).expect("a thousand");
        self.push(BatchHeader { edge: INPUTS, rows, ..BatchHeader::default() }, |bytes| {
            batch.encode(false, bytes);
        });
    }

    /// Adds records.
    pub(crate) fn deltas(&mut self, records: impl FnOnce(&mut Vec<u8>)) {
        self.push(BatchHeader { edge: DELTAS, ..BatchHeader::default() }, records);
    }

    /// Bytes that were added since they were last taken.
    pub(crate) fn len(&self) -> usize {
        self.closed_bytes + self.open.len()
    }

    /// Takes out the frames of a commit.
    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        self.close();
        self.closed_bytes = 0;
        std::mem::take(&mut self.closed)
    }

    fn push(&mut self, header: BatchHeader, body: impl FnOnce(&mut Vec<u8>)) {
        self.open.push(header, body);
        if self.open.len() >= FRAME_TARGET {
            self.close();
        }
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.closed_bytes += self.open.len();
            self.closed.push(self.open.take());
        }
    }
}

/// Frames as they are on disk.
pub(crate) fn sealed(frames: Vec<Vec<u8>>) -> Vec<Bytes> {
    let numbered = frames.into_iter().zip(0..);
    let sealed = numbered.map(|(mut frame, number)| {
        seal(&mut frame, FrameKind::Batches, number);
        frame.into()
    });
    sealed.collect()
}

/// The writer, as the container knows it.
pub(crate) struct Writer {
    commits: Sender<Vec<Vec<u8>>>,
    done: Receiver<()>,
    is_busy: bool,
    bytes: usize,
}

impl Writer {
    /// One that is idle, and what [`write`] needs.
    pub(crate) fn new() -> (Self, Receiver<Vec<Vec<u8>>>, Sender<()>) {
        let ((commits, given), (tell, done)) = (channel(), channel());
        (Self { commits, done, is_busy: false, bytes: 0 }, given, tell)
    }

    /// Whether all that it was given is on disk.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.is_busy &= self.done.try_recv().is_err();
        !self.is_busy
    }

    /// Gives it the frames of a commit, when the one before is on disk.
    pub(crate) fn give(&mut self, frames: Vec<Vec<u8>>) {
        self.wait();
        self.bytes += frames.iter().map(Vec::len).sum::<usize>();
        self.commits.send(frames).expect("it ends when nothing more can come");
        self.is_busy = true;
    }

    /// Gives it the last frames, and waits; says how many bytes there were in all.
    pub(crate) fn finish(mut self, frames: Vec<Vec<u8>>) -> usize {
        self.give(frames);
        self.wait();
        self.bytes
    }

    fn wait(&mut self) {
        if self.is_busy {
            self.done.recv().expect("it says so of each commit");
            self.is_busy = false;
        }
    }
}

/// Writes commits until there are no more.
pub(crate) fn write(
    mut file: &File,
    is_synced: bool,
    commits: &Receiver<Vec<Vec<u8>>>,
    done: &Sender<()>,
) {
    let mut number = 0;
    for frames in commits {
        for mut frame in frames {
            seal(&mut frame, FrameKind::Batches, number);
            number += 1;
            file.write_all(&frame).expect("there is room for the log");
        }
        if is_synced {
            file.sync_data().expect("the disk can be synced");
        }
        // Whoever gave the last one may have gone.
        let _ = done.send(());
    }
}

/// An instance in the log: kind, topology, prototype, key, where its trigger stands, and state.
pub(crate) struct Record<'l> {
    /// Its canonical key.
    pub(crate) key: &'l [u8],
    /// Its encoded state.
    pub(crate) state: &'l [u8],
}

impl<'l> Record<'l> {
    /// Bytes before the length of the key, and between key and length of the state.
    const PLACE: usize = 5;
    const EVENTS: usize = 4;

    pub(crate) fn write(key: &[u8], state: &impl Serialize, bytes: &mut Vec<u8>) {
        let length = |len: usize| u32::try_from(len).expect("it is short").to_le_bytes();
        bytes.extend_from_slice(&[0; Self::PLACE]);
        bytes.extend_from_slice(&length(key.len()));
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(&[0; Self::EVENTS]);
        let length_at = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        codec::encode(state, bytes).expect("it has a plain form");
        let state = length(bytes.len() - length_at - 4);
        bytes[length_at..length_at + 4].copy_from_slice(&state);
    }

    fn read(bytes: &mut &'l [u8]) -> Option<Self> {
        *bytes = bytes.get(Self::PLACE..)?;
        let key = slice(bytes)?;
        *bytes = bytes.get(Self::EVENTS..)?;
        Some(Self { key, state: slice(bytes)? })
    }
}

/// The records of a part.
pub(crate) fn records(mut bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    std::iter::from_fn(move || {
        (!bytes.is_empty()).then(|| Record::read(&mut bytes).expect("it was written whole"))
    })
}

fn slice<'l>(bytes: &mut &'l [u8]) -> Option<&'l [u8]> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (slice, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *bytes = rest;
    Some(slice)
}
