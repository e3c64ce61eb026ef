//! Files of text, line by line.
//!
//! The files are listed once, where the topology starts, and each is a partition of its own, or many
//! where large ones are cut; whichever node has a partition must find the file under the same path. A
//! file may be played many times, which turns a small one into a long stream.
//!
//! Files are read where they are polled: what is on disk does not keep anybody waiting for long, and a
//! thread in between would cost more than the read.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use membership::Time;
use pe::{Ctx, Line, Next, Opening, Param, Params, PartitionName, Position, Spout, SpoutError};

use super::CHUNK;
use super::byte_range::ByteRange;
use super::fault::Faults;
use super::gunzip::{Gunzip, Piece, is_gzip};
use super::plain_file::PlainFile;
use super::range_decoder::RangeDecoder;

/// The most files of a spout, and the most parts of them: each is a token that nodes pass on and show.
const PARTITIONS_MAX: usize = 1 << 16;

/// The most reads per poll: a short file that is played again and again would otherwise take long for
/// its share of input.
const READS_MAX: usize = 32;

thread_local! {
    /// What was read last; here and not in each partition, of which there may be very many.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK].into());
}

/// The spout `text-files`; the value is one file, or a part of one.
#[derive(Debug)]
pub(crate) struct TextFiles {
    path: Arc<str>,
    text: Text,
    decoder: RangeDecoder,
    /// Complete ones.
    plays: u64,
    end: End,
    faults: Faults,
    /// Why it cannot be read any further, to be said at the next poll.
    failure: Option<SpoutError>,
}

/// What is read.
#[derive(Debug)]
enum Text {
    Plain(PlainFile),
    Gzip(Gunzip),
}

/// When a file has been played often enough. A position has no time in it, so a node that takes a file
/// over counts the seconds anew.
#[derive(Clone, Copy, Debug)]
enum End {
    /// After so many plays.
    Plays(u64),
    /// At the end of the play that is going on then; after the first one, at least.
    At(Time),
}

impl Spout for TextFiles {
    type Out = Line;

    const PARAMS: &'static [Param] = &[
        Param::texts("paths", "the files to read; `*`, `?`, `[...]` and `**` as in a shell")
            .required(),
        Param::integer("split_bytes", "cut larger files into partitions of so many bytes")
            .between(1, i64::MAX)
            .optional(),
        Param::integer("repeat", "how many times each file is played; once if not given")
            .between(1, 1_000_000_000_000)
            .optional(),
        Param::float("seconds", "play again and again until so many seconds have passed")
            .optional(),
    ];

    fn partitions(params: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        if params.has("repeat") && params.has("seconds") {
            return Err(SpoutError::new("`repeat` and `seconds` exclude each other"));
        }
        seconds(params)?;
        let mut files = BTreeSet::new();
        for pattern in params.texts("paths") {
            let found = list(pattern)?;
            if found.is_empty() {
                return Err(SpoutError::new(format!("no file matches `{pattern}`")));
            }
            files.extend(found);
        }
        match files.len() {
            0 => Err(SpoutError::new("`paths` names no files")),
            len if len > PARTITIONS_MAX => {
                Err(SpoutError::new(format!("{len} files; at most {PARTITIONS_MAX} can be read")))
            }
            _ => match split_bytes(params) {
                Some(size) => cut(&files, size),
                None => Ok(files.into_iter().map(PartitionName::new).collect()),
            },
        }
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let params = opening.params;
        let repeat = params.optional_integer("repeat").unwrap_or(1);
        let name = opening.name.as_str();
        let part = split_bytes(params).and_then(|_| ByteRange::of_name(name));
        let (path, range) = part.unwrap_or((name, ByteRange::WHOLE));
        let text = Text::open(path, range).map_err(|error| about(path, &error))?;
        Ok(Self {
            path: path.into(),
            text,
            decoder: RangeDecoder::at(range, opening.position.offset),
            plays: opening.position.plays,
            end: match seconds(params)? {
                Some(seconds) => End::At(opening.now + seconds),
                None => End::Plays(repeat.unsigned_abs()),
            },
            faults: Faults::default(),
            failure: None,
        })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Line>) -> Result<Next, SpoutError> {
        SCRATCH.with_borrow_mut(|scratch| self.poll_with(scratch, ctx))
    }

    fn position(&self) -> Position {
        Position { offset: self.decoder.offset(), plays: self.plays }
    }
}

impl TextFiles {
    /// A poll that reads as much as there is room for.
    fn poll_with(
        &mut self,
        scratch: &mut [u8],
        ctx: &mut Ctx<'_, Line>,
    ) -> Result<Next, SpoutError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let before = self.position();
        let next = self.play(scratch, ctx).map_err(|error| about(&self.path, &error));
        self.text.rest();
        match next {
            // After a poll that fails nobody asks for the position, and this one has emitted.
            Err(failure) if self.position() != before => {
                self.failure = Some(failure);
                Ok(Next::More)
            }
            next => next,
        }
    }

    fn play(&mut self, scratch: &mut [u8], ctx: &mut Ctx<'_, Line>) -> io::Result<Next> {
        let mut room = scratch.len();
        for _ in 0..READS_MAX {
            if self.is_over(ctx.now()) {
                return Ok(Next::Exhausted);
            }
            let piece = match self.decoder.wanted() {
                Some(wanted) => self.text.read(wanted, room, scratch)?,
                None => Piece { made: 0, bytes: &[] },
            };
            if piece.made == 0 {
                self.played(ctx);
                continue;
            }
            self.decoder.take(piece.bytes, |found| self.faults.pass(found, &self.path, ctx));
            room = room.saturating_sub(piece.made);
            if room == 0 {
                break;
            }
        }
        Ok(Next::More)
    }

    /// The end of the file, or of our part of it: this play is complete.
    fn played(&mut self, ctx: &mut Ctx<'_, Line>) {
        self.decoder.finish(|found| self.faults.pass(found, &self.path, ctx));
        let is_empty = self.decoder.is_at_start();
        self.decoder.restart();
        self.plays += 1;
        if is_empty {
            // All further plays are like this one, and nobody would see them.
            if let End::Plays(plays) = self.end {
                self.plays = plays;
            }
            self.end = End::Plays(self.plays);
        }
    }

    /// Whether no play is going on, and none is to begin.
    fn is_over(&self, now: Time) -> bool {
        match self.end {
            End::Plays(plays) => self.plays >= plays,
            End::At(time) => self.decoder.is_untouched() && self.plays > 0 && now >= time,
        }
    }
}

impl Text {
    fn open(path: &str, range: ByteRange) -> io::Result<Self> {
        let mut file = PlainFile::open(path.into())?;
        let mut text = match is_gzip(&mut file)? {
            false => Self::Plain(file),
            true if range == ByteRange::WHOLE => Self::Gzip(Gunzip::new(file)),
            true => return Err(io::Error::other("compressed, so it cannot be read in parts")),
        };
        text.rest();
        Ok(text)
    }

    /// Reads some of the bytes that are wanted, about as many as are left of the room for a poll.
    fn read<'a>(
        &mut self,
        wanted: Range<u64>,
        left: usize,
        room: &'a mut [u8],
    ) -> io::Result<Piece<'a>> {
        match self {
            Self::Plain(file) => {
                let len = usize::try_from(wanted.end - wanted.start).unwrap_or(left).min(left);
                let made = file.read_at(&mut room[..len], wanted.start)?;
                Ok(Piece { made, bytes: &room[..made] })
            }
            Self::Gzip(gunzip) => gunzip.read(wanted.start, room),
        }
    }

    /// It is not read for a while.
    fn rest(&mut self) {
        match self {
            Self::Plain(file) => file.rest(),
            Self::Gzip(gunzip) => gunzip.rest(),
        }
    }
}

/// The size of a part, if files are to be cut.
fn split_bytes(params: &Params) -> Option<u64> {
    params.optional_integer("split_bytes").map(i64::unsigned_abs)
}

/// How long to play, if that is what counts.
fn seconds(params: &Params) -> Result<Option<Duration>, SpoutError> {
    let seconds = params.optional_float("seconds").map(Duration::try_from_secs_f64).transpose();
    seconds.map_err(|error| SpoutError::new(format!("`seconds`: {error}")))
}

/// The files that a pattern means.
fn list(pattern: &str) -> Result<Vec<String>, SpoutError> {
    let paths = glob::glob(pattern).map_err(|error| about(pattern, &error))?;
    let mut files = Vec::new();
    for path in paths {
        let path = path.map_err(|error| about(&error.path().to_string_lossy(), error.error()))?;
        // What cannot be looked at is said where it is opened.
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            continue;
        }
        let name = path.to_str().ok_or_else(|| about(&path.to_string_lossy(), &"not UTF-8"))?;
        files.push(name.to_owned());
    }
    Ok(files)
}

/// The partitions of files that are cut into parts of `size` bytes.
fn cut(files: &BTreeSet<String>, size: u64) -> Result<Vec<PartitionName>, SpoutError> {
    let mut names = Vec::new();
    for path in files {
        // What cannot be looked at is said where it is opened.
        let length = length_to_cut(path).unwrap_or(0);
        for range in ByteRange::cut(length, size) {
            if names.len() == PARTITIONS_MAX {
                let text = format!(
                    "more than {PARTITIONS_MAX} partitions; a larger `split_bytes` makes fewer"
                );
                return Err(SpoutError::new(text));
            }
            names.push(PartitionName::new(range.name(path)));
        }
    }
    Ok(names)
}

/// How much of a file can be cut: nothing of one that is compressed.
fn length_to_cut(path: &str) -> io::Result<u64> {
    let is_whole = is_gzip(&mut PlainFile::new(path.into()))?;
    Ok(if is_whole { 0 } else { fs::metadata(path)?.len() })
}

fn about(path: &str, error: &dyn std::fmt::Display) -> SpoutError {
    SpoutError::new(format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::super::gunzip::tests::gzip;
    use super::super::plain_file::{self, KEPT_OPEN_MAX};
    use super::super::probe::{self, Probe};
    use super::super::scratch_dir::ScratchDir;
    use super::*;

    /// A directory with a file `a.txt` of some bytes.
    fn dir_with(bytes: impl AsRef<[u8]>) -> (ScratchDir, String) {
        let dir = ScratchDir::new();
        let path = shown(dir.path("a.txt"));
        fs::write(&path, bytes).unwrap();
        (dir, path)
    }

    fn shown(path: PathBuf) -> String {
        path.to_str().unwrap().to_owned()
    }

    fn open(path: &str, params: &str, position: Position) -> Probe {
        open_as::<TextFiles>(path, params, position)
    }

    fn open_as<S: Spout>(name: &str, params: &str, position: Position) -> Probe {
        let params = format!("paths = [\"unused\"], {params}");
        Probe::open::<S>(&params, PartitionName::new(name), position)
    }

    /// The spout with other polls: each takes so many bytes.
    struct InSteps<const ROOM: usize>(TextFiles);

    impl<const ROOM: usize> Spout for InSteps<ROOM> {
        type Out = Line;

        const PARAMS: &'static [Param] = TextFiles::PARAMS;

        fn partitions(params: &Params) -> Result<Vec<PartitionName>, SpoutError> {
            TextFiles::partitions(params)
        }

        fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
            TextFiles::open(opening).map(Self)
        }

        fn poll(&mut self, ctx: &mut Ctx<'_, Line>) -> Result<Next, SpoutError> {
            self.0.poll_with(&mut [0; ROOM], ctx)
        }

        fn position(&self) -> Position {
            self.0.position()
        }
    }

    /// All lines of a file, and where the partition stands then.
    fn read(path: &str, params: &str, position: Position) -> (Vec<String>, Position) {
        read_as::<TextFiles>(path, params, position)
    }

    fn read_as<S: Spout>(path: &str, params: &str, position: Position) -> (Vec<String>, Position) {
        let mut probe = open_as::<S>(path, params, position);
        probe.run(0.0);
        let partition = probe.partition();
        assert!(partition.is_exhausted);
        assert_eq!(partition.failure, None);
        (probe.lines(), partition.position)
    }

    /// The names of the parts of a file, cut by `size` bytes.
    fn parts(path: &str, size: u64) -> Vec<String> {
        let params = format!("paths = ['{path}'], split_bytes = {size}");
        let params = probe::params::<TextFiles>(&params).unwrap();
        let names = TextFiles::partitions(&params).unwrap();
        names.iter().map(|name| name.as_str().to_owned()).collect()
    }

    fn at(offset: u64, plays: u64) -> Position {
        Position { offset, plays }
    }

    /// The names of the partitions, or the refusal; the directory is shown as `DIR`.
    fn partitions(dir: &ScratchDir, params: &str) -> Result<Vec<String>, String> {
        let root = shown(dir.path(""));
        let params = probe::params::<TextFiles>(&params.replace("DIR/", &root))?;
        let short = |text: &str| text.replace(&root, "DIR/");
        match TextFiles::partitions(&params) {
            Ok(names) => Ok(names.iter().map(|name| short(name.as_str())).collect()),
            Err(error) => Err(short(&error.to_string())),
        }
    }

    #[test]
    fn each_file_that_a_pattern_means_is_a_partition() {
        let dir = ScratchDir::new();
        fs::create_dir_all(dir.path("deep/er.txt")).unwrap();
        for name in ["b.txt", "a.txt", "c.log", "deep/d.txt"] {
            fs::write(dir.path(name), "").unwrap();
        }
        let list = |params| partitions(&dir, params).unwrap();
        assert_eq!(list(r#"paths = ["DIR/*.txt"]"#), ["DIR/a.txt", "DIR/b.txt"]);
        assert_eq!(
            list(r#"paths = ["DIR/c.log", "DIR/**/*.txt", "DIR/a.*"]"#),
            ["DIR/a.txt", "DIR/b.txt", "DIR/c.log", "DIR/deep/d.txt"],
        );
        assert_eq!(list(r#"paths = ["Cargo.tom?"]"#), ["Cargo.toml"], "in the working directory");
    }

    #[test]
    fn what_cannot_be_listed_is_refused() {
        let (dir, _) = dir_with("x");
        for (params, refusal) in [
            (r#"paths = ["DIR/a.txt", "DIR/*.csv"]"#, "no file matches `DIR/*.csv`"),
            (r#"paths = ["DIR/"]"#, "no file matches `DIR/`"),
            (r#"paths = []"#, "`paths` names no files"),
            (
                r#"paths = ["DIR/[z"]"#,
                "DIR/[z: Pattern syntax error near position 4: invalid range pattern",
            ),
            (
                r#"paths = ["DIR/a.txt"], repeat = 1, seconds = 1"#,
                "`repeat` and `seconds` exclude each other",
            ),
            (
                r#"paths = ["DIR/a.txt"], seconds = -1"#,
                "`seconds`: cannot convert float seconds to Duration: value is negative",
            ),
        ] {
            let refused = partitions(&dir, params).unwrap_err();
            // The place in a pattern depends on where temporary files are.
            let refused = match refused.split_once("position ") {
                Some((start, end)) => {
                    let (_, end) = end.split_once(':').unwrap();
                    format!("{start}position 4:{end}")
                }
                None => refused,
            };
            assert_eq!(refused, refusal, "{params}");
        }
        for repeat in ["0", "1000000000001", "1.5"] {
            let params = format!(r#"paths = ["DIR/a.txt"], repeat = {repeat}"#);
            let refused = partitions(&dir, &params).unwrap_err();
            assert!(refused.contains("an integer from 1 to 1000000000000"), "{refused}");
        }
        assert!(partitions(&dir, "").unwrap_err().contains("`paths` is missing"));
    }

    #[test]
    fn lines_come_without_their_ends() {
        let (_dir, path) = dir_with("one\r\ntwo\n\n\0 three");
        let (lines, position) = read(&path, "", at(0, 0));
        assert_eq!(lines, ["one", "two", "", "\0 three"]);
        assert_eq!(position, at(0, 1));
    }

    #[test]
    fn lines_that_are_no_text_or_too_long_are_given_up_and_counted() {
        let long = vec![b'x'; (1 << 20) + 1];
        let bytes = [b"ok\nbr\xffoken\n", &long[..], b"\nalso broken \xc3\nend\n"].concat();
        let (_dir, path) = dir_with(bytes);
        let mut probe = open(&path, "repeat = 2", at(0, 0));
        probe.run(0.0);
        assert_eq!(probe.lines(), ["ok", "end", "ok", "end"]);
        assert_eq!((probe.dropped("not UTF-8"), probe.dropped("line too long")), (4, 2));
    }

    #[test]
    fn a_file_is_played_as_often_as_it_is_told() {
        let (_dir, path) = dir_with("a\nb");
        let (lines, position) = read(&path, "repeat = 3", at(0, 0));
        assert_eq!(lines, ["a", "b", "a", "b", "a", "b"]);
        assert_eq!(position, at(0, 3));
        assert_eq!(
            read(&path, "repeat = 3", at(2, 1)),
            (vec!["b".into(), "a".into(), "b".into()], at(0, 3))
        );
        assert_eq!(read(&path, "repeat = 3", at(0, 3)), (vec![], at(0, 3)));
        assert_eq!(read(&path, "repeat = 1000", at(0, 0)).0.len(), 2000);
    }

    #[test]
    fn an_offset_beyond_the_end_completes_the_play() {
        let (_dir, path) = dir_with("a\nb\n");
        assert_eq!(read(&path, "", at(4, 0)), (vec![], at(0, 1)));
        assert_eq!(read(&path, "", at(999, 0)), (vec![], at(0, 1)));
        let (lines, position) = read(&path, "repeat = 2", at(1 << 40, 0));
        assert_eq!((lines, position), (vec!["a".to_owned(), "b".to_owned()], at(0, 2)));
    }

    #[test]
    fn seconds_let_a_play_end_and_none_begin() {
        // More than one poll, less than two steps of the container.
        let text = "x".repeat(99) + "\n";
        let (_dir, path) = dir_with(text.repeat(3000));
        let mut probe = open(&path, "seconds = 1.5", at(0, 0));
        let mut count = 0;
        for seconds in [0.0, 0.1, 1.4, 1.49] {
            probe.drain(seconds);
            count += probe.lines().len();
            assert!(!probe.partition().is_exhausted);
        }
        assert!(count > 3000 && count % 3000 > 0, "{count} lines: in the middle of a play");
        probe.run(1.5);
        count += probe.lines().len();
        assert!(probe.partition().is_exhausted);
        assert_eq!(probe.partition().position, at(0, count as u64 / 3000));
        assert_eq!(count % 3000, 0);
    }

    #[test]
    fn every_file_is_played_once_however_late_its_turn_comes() {
        let (_dir, path) = dir_with("a\n");
        for seconds in ["0", "2"] {
            let mut probe = open(&path, &format!("seconds = {seconds}"), at(0, 0));
            probe.run(100.0);
            assert_eq!(probe.lines(), ["a"]);
            assert_eq!(probe.partition().position, at(0, 1));
        }
    }

    #[test]
    fn an_empty_file_is_over_at_once() {
        let (_dir, path) = dir_with("");
        assert_eq!(read(&path, "", at(0, 0)), (vec![], at(0, 1)));
        assert_eq!(read(&path, "seconds = 60", at(0, 0)), (vec![], at(0, 1)));
        let many = 1_000_000_000_000;
        assert_eq!(read(&path, &format!("repeat = {many}"), at(0, 0)), (vec![], at(0, many)));
    }

    #[test]
    fn a_file_may_shrink_or_go_while_it_is_read() {
        let line = "x".repeat(99) + "\n";
        let (_dir, path) = dir_with(line.repeat(9000));
        let mut probe = open(&path, "repeat = 2", at(0, 0));
        probe.drain(0.0);
        File::options().write(true).open(&path).unwrap().set_len(150).unwrap();
        probe.run(0.0);
        let partition = probe.partition();
        assert_eq!((partition.position, partition.failure), (at(0, 2), None));

        fs::write(&path, line.repeat(9000)).unwrap();
        let mut probe = open(&path, "", at(0, 0));
        probe.drain(0.0);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "another\n").unwrap();
        probe.run(0.0);
        assert!(probe.partition().is_exhausted);
    }

    #[test]
    fn what_cannot_be_read_is_named_and_over() {
        let (dir, path) = dir_with("");
        let missing = shown(dir.path("none.txt"));
        let fifo = shown(dir.path("."));
        for (path, cause) in [
            (&missing, "No such file or directory (os error 2)"),
            (&fifo, "not a plain file"),
            (&format!("{path}/x"), "Not a directory (os error 20)"),
        ] {
            let partition = open(path, "", at(5, 1)).partition();
            assert_eq!(partition.failure, Some(format!("{path}: {cause}")));
            assert_eq!((partition.is_exhausted, partition.position), (true, at(5, 1)));
        }
    }

    #[test]
    fn files_that_are_cut_are_partitions_by_their_parts() {
        let dir = ScratchDir::new();
        let name = |number| format!("{number}.txt");
        for (number, len) in [(1, 8), (2, 9), (3, 0)] {
            fs::write(dir.path(name(number)), "x".repeat(len)).unwrap();
        }
        fs::write(dir.path("4.txt.gz"), gzip(b"a line and another")).unwrap();
        fs::write(dir.path("5.txt.gz"), "not at all compressed").unwrap();
        fs::write(dir.path("6.txt#0-4"), "").unwrap();
        std::os::unix::fs::symlink("nowhere", dir.path("7.txt")).unwrap();
        assert_eq!(
            partitions(&dir, r#"paths = ["DIR/*"], split_bytes = 8"#).unwrap(),
            [
                "DIR/1.txt",
                "DIR/2.txt#0-8",
                "DIR/2.txt#8-",
                "DIR/3.txt",
                "DIR/4.txt.gz",
                "DIR/5.txt.gz#0-8",
                "DIR/5.txt.gz#8-16",
                "DIR/5.txt.gz#16-",
                "DIR/6.txt#0-4#0-",
                "DIR/7.txt",
            ],
        );
        let whole = partitions(&dir, r#"paths = ["DIR/[26]*"]"#).unwrap();
        assert_eq!(whole, ["DIR/2.txt", "DIR/6.txt#0-4"]);
    }

    #[test]
    fn a_path_that_reads_like_a_part_of_a_file_is_read_as_it_is() {
        let dir = ScratchDir::new();
        let path = shown(dir.path("a.txt#0-1"));
        fs::write(dir.path("a.txt"), "other\nlines\n").unwrap();
        fs::write(&path, "its\nown\n").unwrap();
        assert_eq!(read(&path, "", at(0, 0)).0, ["its", "own"]);
        assert_eq!(parts(&path, 100), [format!("{path}#0-")]);
        assert_eq!(read(&format!("{path}#0-"), "split_bytes = 100", at(0, 0)).0, ["its", "own"]);
        assert_eq!(read(&path, "split_bytes = 100", at(0, 0)).0, ["other"]);
    }

    #[test]
    fn parts_are_played_each_by_itself() {
        let (_dir, path) = dir_with("one\ntwo\n\nthree");
        let params = "split_bytes = 4, repeat = 2";
        let part = |range: &str| read(&format!("{path}#{range}"), params, at(0, 0));
        assert_eq!(part("0-4"), (vec!["one".into(); 2], at(0, 2)));
        assert_eq!(part("4-8"), (vec!["two".into(); 2], at(4, 2)));
        let lines = ["", "three", "", "three"].map(str::to_owned);
        assert_eq!(part("8-12"), (lines.into(), at(8, 2)));
        assert_eq!(part("12-"), (vec![], at(12, 2)), "within the last line");
        let part = |range: &str, position| read(&format!("{path}#{range}"), params, position);
        assert_eq!(part("4-8", at(8, 0)), (vec!["two".into()], at(4, 2)));
        assert_eq!(part("4-8", at(4, 1)), (vec!["two".into()], at(4, 2)));
    }

    #[test]
    fn a_part_without_lines_is_over_at_once() {
        let (_dir, path) = dir_with("x".repeat(100) + "\n");
        let many = 1_000_000_000_000;
        for start in [1, 99, 100, 101, 200] {
            for end in [format!("{}", start + 1), String::new()] {
                let read = |params: &str| {
                    let params = format!("split_bytes = 10, {params}");
                    read_as::<InSteps<8>>(&format!("{path}#{start}-{end}"), &params, at(0, 0))
                };
                assert_eq!(read(&format!("repeat = {many}")), (vec![], at(start, many)));
                assert_eq!(read("seconds = 60"), (vec![], at(start, 1)));
            }
        }
    }

    #[test]
    fn seconds_let_a_play_of_a_part_end_and_none_begin() {
        // The lines are far longer than what is read at once, and the first is not ours.
        let (_dir, path) = dir_with(("x".repeat(999) + "\n").repeat(3));
        let mut probe = open_as::<InSteps<64>>(
            &format!("{path}#10-"),
            "split_bytes = 9, seconds = 1",
            at(0, 0),
        );
        probe.drain(0.0);
        assert_eq!((probe.lines().len(), probe.partition().position), (0, at(10, 0)));
        while probe.partition().position.plays == 0 {
            probe.drain(0.5);
        }
        probe.drain(0.5);
        // In the second play, before its first line.
        assert_eq!((probe.lines().len(), probe.partition().position), (2, at(10, 1)));
        probe.run(1.0);
        assert_eq!((probe.lines().len(), probe.partition().position), (2, at(10, 2)));
    }

    #[test]
    fn more_parts_than_there_may_be_are_refused() {
        let (dir, path) = dir_with("");
        let partitions = |len: usize, size: &str| {
            File::options().write(true).open(&path).unwrap().set_len(len as u64).unwrap();
            partitions(&dir, &format!(r#"paths = ["DIR/a.txt"], split_bytes = {size}"#))
        };
        assert_eq!(partitions(10 * PARTITIONS_MAX, "10").unwrap().len(), PARTITIONS_MAX);
        for len in [10 * PARTITIONS_MAX + 1, 1 << 40] {
            let refusal = "more than 65536 partitions; a larger `split_bytes` makes fewer";
            assert_eq!(partitions(len, "10").unwrap_err(), refusal);
        }
        for size in ["0", "-1", "1.5"] {
            let refused = partitions(1, size).unwrap_err();
            assert!(refused.contains("an integer of at least 1"), "{refused}");
        }
    }

    /// A directory with a compressed file of some bytes.
    fn gzip_with(bytes: impl AsRef<[u8]>) -> (ScratchDir, String) {
        let dir = ScratchDir::new();
        let path = shown(dir.path("a.txt.gz"));
        fs::write(&path, bytes).unwrap();
        (dir, path)
    }

    #[test]
    fn a_compressed_file_is_played_like_its_text() {
        let (_dir, path) = gzip_with([gzip(b"one\r\ntw"), gzip(b"o\n\nthree")].concat());
        let lines = ["one", "two", "", "three"].map(str::to_owned);
        assert_eq!(read(&path, "", at(0, 0)), (lines.to_vec(), at(0, 1)));
        assert_eq!(
            read(&path, "repeat = 3", at(0, 0)),
            (vec![lines.to_vec(); 3].concat(), at(0, 3))
        );
        let rest = [&lines[2..], &lines].concat();
        assert_eq!(read(&path, "repeat = 3, split_bytes = 5", at(9, 1)), (rest, at(0, 3)));
        assert_eq!(read(&path, "", at(1 << 40, 0)), (vec![], at(0, 1)));
        let (_dir, path) = gzip_with(gzip(b""));
        assert_eq!(read(&path, "seconds = 60", at(0, 0)), (vec![], at(0, 1)));
    }

    #[test]
    fn what_comes_before_the_offset_is_passed_in_many_polls() {
        let text = ("x".repeat(99) + "\n").repeat(30_000) + "end";
        let (_dir, path) = gzip_with(gzip(text.as_bytes()));
        let mut probe = open(&path, "", at(3_000_000, 0));
        for _ in 0..3 {
            probe.drain(0.0);
            assert_eq!(probe.lines(), [""; 0]);
            assert_eq!(probe.partition().position, at(3_000_000, 0));
        }
        probe.run(0.0);
        assert_eq!((probe.lines(), probe.partition().position), (vec!["end".into()], at(0, 1)));
    }

    #[test]
    fn of_a_broken_compressed_file_what_can_be_had_comes_each_time() {
        let text: String = (0..60_000_u64).map(|n| format!("{}\n", n * n * 7_919)).collect();
        let bytes = gzip(text.as_bytes());
        let (_dir, path) = gzip_with(&bytes[..bytes.len() / 2]);
        let mut probe = open(&path, "", at(0, 0));
        let mut positions = Vec::new();
        let mut lines = Vec::new();
        while !probe.partition().is_exhausted {
            positions.push((lines.len(), probe.partition().position));
            probe.drain(0.0);
            lines.extend(probe.lines());
        }
        let partition = probe.partition();
        let given: usize = lines.iter().map(|line| line.len() + 1).sum();
        assert!(given > text.len() / 4 && text.lines().take(lines.len()).eq(&lines));
        assert_eq!(partition.position, at(given as u64, 0), "behind the last line");
        let failure = partition.failure.unwrap();
        let rest = failure.strip_prefix(&format!("{path}: after byte ")).unwrap();
        let (offset, cause) = rest.split_once(' ').unwrap();
        assert_eq!(cause, "of the text: the file ends within its compressed text");
        assert!((given..given + 20).contains(&offset.parse::<usize>().unwrap()), "{failure}");
        for (given, position) in positions {
            let mut again = open(&path, "", position);
            again.run(0.0);
            assert!(again.lines() == lines[given..], "from {position:?}");
            assert_eq!(again.partition().failure.as_ref(), Some(&failure));
        }
    }

    #[test]
    fn a_compressed_file_has_no_parts() {
        let (_dir, path) = gzip_with(gzip(b"a\nb\n"));
        for range in ["0-4", "2-"] {
            let partition =
                open(&format!("{path}#{range}"), "split_bytes = 4", at(0, 0)).partition();
            let failure = format!("{path}: compressed, so it cannot be read in parts");
            assert_eq!(partition.failure, Some(failure));
        }
    }

    #[test]
    fn very_many_files_are_read_without_keeping_all_of_them_open() {
        for is_compressed in [false, true] {
            let dir = ScratchDir::new();
            let mut probes: Vec<_> = (0..KEPT_OPEN_MAX + 50)
                .map(|number| {
                    let path = shown(dir.path(format!("{number}.gz")));
                    let text = format!("{number}\n").into_bytes();
                    fs::write(&path, if is_compressed { gzip(&text) } else { text }).unwrap();
                    // More than one step of the container plays.
                    (number.to_string(), open(&path, "repeat = 100", at(0, 0)))
                })
                .collect();
            probes.iter_mut().for_each(|(_, probe)| probe.drain(0.0));
            // Other tests have some open as well.
            assert!(plain_file::open() < KEPT_OPEN_MAX + 30);
            for (number, probe) in &mut probes {
                assert!(!probe.partition().is_exhausted);
                probe.run(0.0);
                assert_eq!(probe.lines(), vec![number.clone(); 100]);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn a_partition_goes_on_exactly_where_it_was_closed(
            lengths in prop::collection::vec(0..9000usize, 1..120),
            steps in 0..6usize,
            repeat in 1..3usize,
            has_end in any::<bool>(),
        ) {
            let whole: Vec<_> =
                (0..).zip(&lengths).map(|(at, &len)| format!("{at}{}", "\u{e4}".repeat(len / 2))).collect();
            let end = if has_end { "\n" } else { "" };
            let (_dir, path) = dir_with(whole.join("\n") + end);
            let params = format!("repeat = {repeat}");
            let mut probe = open(&path, &params, at(0, 0));
            (0..steps).for_each(|_| probe.drain(0.0));
            let mut lines = probe.lines();
            let closed = probe.close(PartitionName::new(&*path));
            if !closed.is_exhausted {
                lines.extend(read(&path, &params, closed.position).0);
            }
            prop_assert_eq!(lines, vec![whole; repeat].concat());
        }

        #[test]
        fn each_line_is_read_once_however_a_file_is_cut(
            text in text(), size in 1..300u64, repeat in 1..3usize,
        ) {
            let (_dir, path) = dir_with(&text);
            let params = format!("split_bytes = {size}, repeat = {repeat}");
            let mut all = Vec::new();
            for part in parts(&path, size) {
                let (lines, _) = read_as::<InSteps<50>>(&part, &params, at(0, 0));
                let (play, rest) = lines.split_at(lines.len() / repeat);
                prop_assert_eq!(vec![play; repeat - 1].concat(), rest);
                all.extend_from_slice(play);
            }
            prop_assert_eq!(all, read(&path, "", at(0, 0)).0);
        }

        #[test]
        fn from_each_position_the_same_lines_follow_whatever_is_polled(
            text in text(),
            form in prop_oneof![
                Just(Form::Plain),
                (1..400u64).prop_map(Form::Cut),
                (1..900usize).prop_map(Form::Gzip),
            ],
            repeat in 1..3usize,
            picks in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
        ) {
            let (_dir, path, size) = match form {
                Form::Plain => { let (dir, path) = dir_with(&text); (dir, path, 1 << 20) }
                Form::Cut(size) => { let (dir, path) = dir_with(&text); (dir, path, size) }
                Form::Gzip(len) => {
                    let members: Vec<_> = text.chunks(len).map(gzip).collect();
                    let (dir, path) = gzip_with(members.concat());
                    (dir, path, 1)
                }
            };
            let params = format!("split_bytes = {size}, repeat = {repeat}");
            for part in parts(&path, size) {
                let mut probe = open_as::<InSteps<13>>(&part, &params, at(0, 0));
                let (mut lines, mut positions) = (Vec::new(), vec![(0, at(0, 0))]);
                while !probe.partition().is_exhausted {
                    positions.push((lines.len(), probe.partition().position));
                    probe.drain(0.0);
                    lines.extend(probe.lines());
                }
                positions.push((lines.len(), probe.partition().position));
                prop_assert!(positions.is_sorted_by_key(|(_, at)| (at.plays, at.offset)));
                for pick in &picks {
                    let &(given, position) = pick.get(&positions);
                    for rest in [
                        read_as::<InSteps<7>>(&part, &params, position),
                        read_as::<InSteps<100>>(&part, &params, position),
                        read(&part, &params, position),
                    ] {
                        prop_assert_eq!(&rest.0, &lines[given..], "{} from {:?}", part, position);
                        prop_assert_eq!(rest.1, probe.partition().position);
                    }
                }
            }
        }
    }

    /// How a text is stored and cut.
    #[derive(Clone, Debug)]
    enum Form {
        Plain,
        Cut(u64),
        /// Compressed in members of so many bytes.
        Gzip(usize),
    }

    /// Lines of all kinds of lengths and ends, some of them no text; the last end may be missing.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let line = prop_oneof![
            "[a\u{e4}]{0,8}".prop_map(String::into_bytes),
            "[ab\r]{50,200}".prop_map(String::into_bytes),
            Just(b"\xff\xc3".to_vec()),
        ];
        let end = prop_oneof![Just(&b"\n"[..]), Just(&b"\r\n"[..])];
        let lines = prop::collection::vec((line, end), 0..40);
        (lines, any::<bool>()).prop_map(|(lines, has_end)| {
            let mut lines: Vec<_> = (0..)
                .zip(lines)
                .map(|(number, (line, end))| {
                    let number = format!("{number}");
                    [if number.ends_with('3') { b"" } else { number.as_bytes() }, &line, end]
                        .concat()
                })
                .collect();
            if !has_end && let Some(last) = lines.last_mut() {
                last.retain(|&byte| byte != b'\n' && byte != b'\r');
            }
            lines.concat()
        })
    }
}
