//! What a link may bring: frames, the batches in them, and the events in those.

#![expect(unsafe_code, reason = "an allocator that counts can be had no other way")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod mutate;

use bytes::Bytes;
use pe_derive::Event;
use routing::{self as starling};
use routing::{
    BatchHeader, BatchKind, Columns, Encoded, Frame, FrameBuilder, FrameError, FrameHeader,
    FrameKind, codec, seal,
};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");

/// A batch may take so many times what its bytes take, and some more.
fn bound(bytes: usize) -> usize {
    (64 << 10) + 64 * bytes
}

/// One field of each kind.
#[derive(Event)]
struct Reading {
    sensor: String,
    place: Option<u16>,
    celsius: f64,
    is_new: bool,
    raw: Vec<u8>,
    #[event(encoded)]
    tags: Vec<String>,
}

type Rows = <Reading as starling::Event>::Columns;

const ROWS: usize = 3;

fn columns() -> Vec<u8> {
    let mut rows = Rows::default();
    for row in 0..ROWS {
        let tags = vec!["cellar".to_owned(); row];
        rows.push(ReadingRef {
            sensor: ["a", "", "long enough not to be packed"][row],
            place: [None, Some(7), Some(u16::MAX)][row],
            celsius: 1.5,
            is_new: row == 1,
            raw: &[row.to_le_bytes()[0]; 5],
            tags: Encoded::Value(&tags),
        });
    }
    let mut bytes = Vec::new();
    rows.encode(&mut bytes);
    bytes
}

fn frame(kind: FrameKind) -> Vec<u8> {
    let mut builder = FrameBuilder::default();
    for edge in 0..3 {
        let kind = BatchKind::default();
        let rows = u32::try_from(ROWS).unwrap();
        let header = BatchHeader { edge, rows, kind, epoch: 4, ..BatchHeader::default() };
        builder.push(header, |out| out.extend(columns()));
    }
    let mut bytes = builder.take();
    seal(&mut bytes, kind, 0);
    bytes
}

/// The batches of a frame whose checksum is made right, or what is wrong with it.
fn read(bytes: &[u8]) -> Result<Vec<(BatchHeader, Bytes)>, FrameError> {
    let Some((head, payload)) = bytes.split_first_chunk::<{ FrameHeader::LEN }>() else {
        return Ok(Vec::new());
    };
    let header = FrameHeader::parse(head)?;
    let mut sealed = bytes.to_vec();
    seal(&mut sealed, header.kind, header.sequence);
    let head = sealed.first_chunk::<{ FrameHeader::LEN }>().unwrap();
    let header = FrameHeader::parse(head)?;
    Frame::new(header, Bytes::copy_from_slice(payload))?.collect()
}

#[test]
fn broken_frames_are_refused_or_read() {
    let good = mutate::corpus(
        CORPUS,
        vec![("frame", frame(FrameKind::Batches)), ("farewell", frame(FrameKind::Farewell))],
    );
    assert_eq!(read(&good[0]).unwrap().len(), 3);
    mutate::each_broken("frames", &good, |bytes| {
        let (batches, taken) = mutate::memory_of(|| read(bytes));
        assert!(taken <= bound(bytes.len()), "{taken} bytes for {}", bytes.len());
        for (header, body) in batches.unwrap_or_default() {
            let mut builder = FrameBuilder::default();
            builder.push(header, |out| out.extend_from_slice(&body));
            let mut again = builder.take();
            seal(&mut again, FrameKind::Batches, 0);
            assert_eq!(read(&again), Ok(vec![(header, body)]));
        }
    });
}

#[test]
fn broken_events_are_refused_or_read() {
    let good = mutate::corpus(CORPUS, vec![("columns", columns())]);
    let decode = |rows: usize, bytes: &[u8]| {
        let (mut columns, mut input) = (Rows::default(), bytes);
        columns.decode(rows, &mut input).map(|()| (columns, input.len()))
    };
    let mut again = Vec::new();
    decode(ROWS, &good[0]).unwrap().0.encode(&mut again);
    assert_eq!(again, good[0]);
    mutate::each_broken("events", &good, |bytes| {
        for rows in [ROWS, 0, 1 << 16] {
            let (read, taken) = mutate::memory_of(|| decode(rows, bytes));
            assert!(taken <= bound(bytes.len()), "{taken} bytes for {}", bytes.len());
            let Ok((columns, left)) = read else { continue };
            assert!(left <= bytes.len() && columns.rows() == rows);
            for row in 0..rows {
                // Also those of type `encoded`, which are read when somebody looks.
                columns.write_json(row, &mut Vec::new());
                let _ = columns.get(row).tags.decode();
            }
        }
    });
}

#[test]
fn broken_values_are_refused_or_read() {
    type Value = (String, Vec<(u64, Option<String>)>, Vec<u8>);
    let value: Value =
        ("words".to_owned(), vec![(1, None), (2, Some("two".to_owned()))], vec![7; 9]);
    let encoded = |value: &Value| {
        let mut bytes = Vec::new();
        codec::encode(value, &mut bytes).unwrap();
        bytes
    };
    let good = mutate::corpus(CORPUS, vec![("value", encoded(&value))]);
    assert_eq!(codec::decode::<Value>(&good[0]).unwrap(), value);
    mutate::each_broken("values", &good, |bytes| {
        let (read, taken) = mutate::memory_of(|| codec::decode::<Value>(bytes));
        // serde makes room for a million bytes at most before it has read any.
        assert!(taken <= (2 << 20) + bound(bytes.len()), "{taken} bytes for {}", bytes.len());
        if let Ok(read) = read {
            assert_eq!(codec::decode::<Value>(&encoded(&read)).unwrap(), read);
        }
    });
}
