//! The text of a file that is compressed with gzip.
//!
//! Such a file can only be read from its beginning, but a partition goes on in the middle. So the text
//! before is made and thrown away, a piece per read, as that may take longer than a poll should. A file
//! that is closed meanwhile keeps what the decoder knows, some 50 KiB: to begin anew at each poll would
//! never come to an end.
//!
//! Where the pieces of the text end depends on the text before and on nothing else, in particular not
//! on where somebody goes on: of a broken file, too, the same lines come each time.

use std::io::{self, BufRead, ErrorKind, Read};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use super::plain_file::PlainFile;

/// What compressed files are called; others are not looked into.
const SUFFIX: &str = ".gz";

/// The first bytes of a compressed file.
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How much is read of the file at once. Each partition has its own buffer; the text is a few times as
/// long, so this is some calls to the system a poll.
const COMPRESSED: usize = 8 << 10;

/// Whether a file is to be read with [`Gunzip`]: by its name and its first bytes.
pub(super) fn is_gzip(file: &mut PlainFile) -> io::Result<bool> {
    let mut first = MAGIC.map(|byte| !byte);
    Ok(file.path().ends_with(SUFFIX) && {
        file.read_at(&mut first, 0)?;
        first == MAGIC
    })
}

/// The text of a compressed file, made while it is read.
#[derive(Debug)]
pub(super) struct Gunzip {
    /// In a box: it is far larger than what an uncompressed file needs.
    decoder: Box<MultiGzDecoder<Compressed>>,
    /// How much of the text was made.
    at: u64,
}

/// A piece of the text.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    /// How much was made; nothing if the text is over.
    pub(super) made: usize,
    /// What of that is not before the offset that was asked for.
    pub(super) bytes: &'a [u8],
}

impl Gunzip {
    pub(super) fn new(file: PlainFile) -> Self {
        let compressed =
            Compressed { file, read: 0, buffer: vec![0; COMPRESSED].into(), used: 0, len: 0 };
        Self { decoder: Box::new(MultiGzDecoder::new(compressed)), at: 0 }
    }

    /// Makes a piece of the text, on the way to an offset or from there on. All reads of a file are to
    /// have the same room.
    ///
    /// # Errors
    /// The file cannot be read, or is broken there: what was made before is all that can be had.
    pub(super) fn read<'a>(&mut self, offset: u64, room: &'a mut [u8]) -> io::Result<Piece<'a>> {
        if offset < self.at {
            *self = Self::new(PlainFile::new(Arc::clone(self.decoder.get_ref().file.path())));
        }
        // All of the room, also before the offset: what can be had of a broken piece depends on it.
        let made = self.decoder.read(room).map_err(|error| self.explain(error))?;
        let passed = usize::try_from(offset.saturating_sub(self.at)).unwrap_or(made).min(made);
        self.at += made as u64;
        Ok(Piece { made, bytes: &room[passed..made] })
    }

    /// The file is not read for a while.
    pub(super) fn rest(&mut self) {
        self.decoder.get_mut().file.rest();
    }

    /// Says where the text breaks off.
    fn explain(&self, error: io::Error) -> io::Error {
        let cause = if error.kind() == ErrorKind::UnexpectedEof {
            "the file ends within its compressed text".to_owned()
        } else {
            error.to_string()
        };
        io::Error::new(error.kind(), format!("after byte {} of the text: {cause}", self.at))
    }
}

/// The bytes of a file in their order, whether it stays open or not.
#[derive(Debug)]
struct Compressed {
    file: PlainFile,
    /// How much of the file was read.
    read: u64,
    buffer: Box<[u8]>,
    /// What of the buffer is used up, and how much is in it.
    used: usize,
    len: usize,
}

impl BufRead for Compressed {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.len {
            (self.used, self.len) = (0, self.file.read_at(&mut self.buffer, self.read)?);
            self.read += self.len as u64;
        }
        Ok(&self.buffer[self.used..self.len])
    }

    fn consume(&mut self, amount: usize) {
        self.used += amount;
    }
}

impl Read for Compressed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = self.fill_buf()?.read(into)?;
        self.consume(len);
        Ok(len)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::super::scratch_dir::ScratchDir;
    use super::*;

    pub(in super::super) fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// A text that is followed by what no encoder writes. If it compresses well, what can be had of its
    /// end depends on where the pieces before end, in rooms of more than 32 KiB.
    fn broken_off(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.flush().unwrap();
        [encoder.get_ref(), &[0xff][..]].concat()
    }

    /// A file of these bytes.
    fn file(bytes: &[u8]) -> (ScratchDir, PlainFile) {
        let dir = ScratchDir::new();
        let path = dir.path("a.gz");
        fs::write(&path, bytes).unwrap();
        let file = PlainFile::open(path.to_str().unwrap().into()).unwrap();
        (dir, file)
    }

    /// A text that does not compress to almost nothing.
    fn text(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let step = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 60).to_le_bytes()[0] + b'a'
        };
        (0..len).map(step).collect()
    }

    /// All that can be read from an offset on, in rooms of a size, and why no more.
    fn read(gunzip: &mut Gunzip, offset: u64, room: usize) -> (Vec<u8>, Option<String>) {
        let (mut room, mut all) = (vec![0; room], Vec::new());
        loop {
            match gunzip.read(offset + all.len() as u64, &mut room) {
                Ok(Piece { made: 0, .. }) => return (all, None),
                Ok(Piece { bytes, .. }) => all.extend_from_slice(bytes),
                Err(error) => return (all, Some(error.to_string())),
            }
            gunzip.rest();
        }
    }

    #[test]
    fn a_text_is_read_from_any_offset_and_again() {
        let text = text(50_000);
        let (_dir, file) = file(&gzip(&text));
        let mut gunzip = Gunzip::new(file);
        for offset in [0, 1, 4095, 4096, 4097, 30_000, 49_999, 50_000, 20_000, 50_001, 1 << 40, 3] {
            let rest = text.get(offset..).unwrap_or_default();
            assert!(read(&mut gunzip, offset as u64, 4096) == (rest.into(), None), "{offset}");
        }
    }

    #[test]
    fn members_follow_each_other_and_may_be_empty() {
        let bytes = [gzip(b"one\ntw"), gzip(b""), gzip(b"o\n")].concat();
        let (_dir, file) = file(&bytes);
        assert_eq!(read(&mut Gunzip::new(file), 2, 100), (b"e\ntwo\n".into(), None));
    }

    #[test]
    fn what_is_compressed_is_known_by_name_and_first_bytes() {
        let dir = ScratchDir::new();
        for (name, bytes, expected) in [
            ("a.gz", &gzip(b"")[..], true),
            ("b.gz", b"\x1f\x8b", true),
            ("c.gz", b"\x1f", false),
            ("d.gz", b"", false),
            ("e.gz", b"text", false),
            ("f.txt", &gzip(b""), false),
            (".gz", &gzip(b""), true),
        ] {
            let path = dir.path(name);
            fs::write(&path, bytes).unwrap();
            let mut file = PlainFile::open(path.to_str().unwrap().into()).unwrap();
            assert_eq!(is_gzip(&mut file).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn of_a_broken_file_the_same_text_comes_from_wherever_one_goes_on() {
        let text = text(50_000);
        let whole = gzip(&text);
        let flip = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            bytes
        };
        for (bytes, cause) in [
            (whole[..whole.len() / 2].to_vec(), "the file ends within its compressed text"),
            (whole[..whole.len() - 1].to_vec(), "the file ends within its compressed text"),
            (whole[..2].to_vec(), "the file ends within its compressed text"),
            (broken_off(&[b'a'; 200_000]), "corrupt deflate stream"),
            (flip(whole.len() / 2), "corrupt "),
            (flip(whole.len() - 5), "corrupt gzip stream does not have a matching checksum"),
            ([&whole[..], b"more than a header"].concat(), "invalid gzip header"),
        ] {
            let (_dir, file) = file(&bytes);
            for room in [1000, 64 << 10] {
                let open = || Gunzip::new(PlainFile::new(Arc::clone(file.path())));
                let (all, failure) = read(&mut open(), 0, room);
                let failure = failure.unwrap();
                let start = format!("after byte {} of the text: {cause}", all.len());
                assert!(failure.starts_with(&start), "{failure}, not {start}");
                for offset in (0..all.len()).step_by(1777) {
                    let (rest, again) = read(&mut open(), offset as u64, room);
                    assert!(rest == all[offset..], "{cause}: from {offset}");
                    assert_eq!(again.as_ref(), Some(&failure));
                }
            }
        }
    }
}
