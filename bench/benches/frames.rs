//! Frames: what an event costs on its way from the columns of one node to those of another, without the
//! link between them.
//!
//! A frame is 16 batches of 1,024 events. Encoding copies the columns and computes the checksum; decoding
//! computes it again, checks and copies the columns, and hashes the keys, since those of a peer are not
//! taken.

mod support;

use bytes::Bytes;
use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use pe::Event;
use routing::{
    Batch, BatchHeader, Columns, Frame, FrameBuilder, FrameHeader, FrameKind, KeyFields, seal,
};
use support::{Number, ROWS, Word, number_columns, word_columns};

fn main() {
    support::main();
}

/// Batches in a frame.
const BATCHES: usize = 16;

#[divan::bench]
fn encode_numbers(bencher: Bencher<'_, '_>) {
    encode(bencher, &number_columns());
}

#[divan::bench]
fn encode_words(bencher: Bencher<'_, '_>) {
    encode(bencher, &word_columns(support::words()));
}

#[divan::bench]
fn decode_numbers(bencher: Bencher<'_, '_>) {
    decode::<Number>(bencher, &number_columns());
}

#[divan::bench]
fn decode_words(bencher: Bencher<'_, '_>) {
    decode::<Word>(bencher, &word_columns(support::words()));
}

fn encode<C: Columns>(bencher: Bencher<'_, '_>, columns: &C) {
    let bytes = frame(columns, &mut FrameBuilder::default()).len();
    let mut builder = FrameBuilder::default();
    bencher
        .counter(ItemsCount::new(BATCHES * ROWS))
        .counter(BytesCount::new(bytes))
        .bench_local(|| frame(columns, &mut builder));
}

fn decode<E: Event>(bencher: Bencher<'_, '_>, columns: &E::Columns) {
    let frame = Bytes::from(frame(columns, &mut FrameBuilder::default()));
    let mut batch = Batch::<E>::default();
    bencher
        .counter(ItemsCount::new(BATCHES * ROWS))
        .counter(BytesCount::new(frame.len()))
        .bench_local(|| open(&frame, &mut batch));
}

/// A sealed frame of full batches.
fn frame<C: Columns>(columns: &C, builder: &mut FrameBuilder) -> Vec<u8> {
    let rows = u32::try_from(ROWS).expect("a thousand");
    for _ in 0..BATCHES {
        let header = BatchHeader { rows, ..BatchHeader::default() };
        builder.push(header, |out| columns.encode(out));
    }
    let mut frame = builder.take();
    seal(&mut frame, FrameKind::Batches, 7);
    frame
}

/// Reads all batches of a frame, one after the other; says how many events they have.
fn open<E: Event>(frame: &Bytes, batch: &mut Batch<E>) -> usize {
    let header = frame.first_chunk().expect("it has a header");
    let header = FrameHeader::parse(header).expect("it was sealed");
    let frame = Frame::new(header, frame.slice(FrameHeader::LEN..)).expect("it is whole");
    let mut rows = 0;
    for part in frame {
        let (header, body) = part.expect("it was built");
        batch.clear();
        let decoded = batch.columns.decode(header.rows as usize, &mut &body[..]);
        decoded.expect("it was encoded");
        batch.hash(&KeyFields(vec![0]));
        rows += batch.len();
    }
    rows
}
