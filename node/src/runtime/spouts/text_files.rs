//! Files of text, line by line.
//!
//! The files are listed once, where the topology starts, and each is a partition of its own; whichever
//! node has a partition must find the file under the same path. A file may be played many times, which
//! turns a small one into a long stream.
//!
//! Files are read where they are polled: what is on disk does not keep anybody waiting for long, and a
//! thread in between would cost more than the read. Only plain files are opened: anything else may
//! well keep a thread waiting for ever.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use membership::Time;
use pe::{Ctx, Line, Next, Opening, Param, Params, PartitionName, Position, Spout, SpoutError};

use super::CHUNK;
use super::fault::Faults;
use super::line_decoder::LineDecoder;

/// The most files of a spout: each is a token that nodes pass on and show.
const FILES_MAX: usize = 1 << 16;

/// The most files that this process keeps open between two polls; with more partitions than that, some
/// are opened for each poll. A process may usually have 1,024, and needs them for its links as well.
const KEPT_OPEN_MAX: usize = 256;

/// The most reads per poll: a short file that is played again and again would otherwise take long for
/// its share of input.
const READS_MAX: usize = 32;

thread_local! {
    /// What was read last; here and not in each partition, of which there may be very many.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK].into());
}

/// The spout `text-files`; the value is one file.
#[derive(Debug)]
pub(crate) struct TextFiles {
    path: String,
    file: Option<OpenFile>,
    decoder: LineDecoder,
    /// Complete ones.
    plays: u64,
    end: End,
    faults: Faults,
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
            len if len > FILES_MAX => {
                Err(SpoutError::new(format!("{len} files; at most {FILES_MAX} can be read")))
            }
            _ => Ok(files.into_iter().map(PartitionName::new).collect()),
        }
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let params = opening.params;
        let repeat = params.optional_integer("repeat").unwrap_or(1);
        let path = opening.name.as_str().to_owned();
        Ok(Self {
            file: OpenFile::open(&path)?.keep(),
            path,
            decoder: LineDecoder::at(opening.position.offset),
            plays: opening.position.plays,
            end: match seconds(params)? {
                Some(seconds) => End::At(opening.now + seconds),
                None => End::Plays(repeat.unsigned_abs()),
            },
            faults: Faults::default(),
        })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Line>) -> Result<Next, SpoutError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => OpenFile::open(&self.path)?,
        };
        let next = SCRATCH.with_borrow_mut(|scratch| self.play(&file, scratch, ctx));
        self.file = file.keep();
        next.map_err(|error| about(&self.path, &error))
    }

    fn position(&self) -> Position {
        Position { offset: self.decoder.offset(), plays: self.plays }
    }
}

impl TextFiles {
    fn play(
        &mut self,
        file: &OpenFile,
        scratch: &mut [u8],
        ctx: &mut Ctx<'_, Line>,
    ) -> io::Result<Next> {
        let mut room = scratch.len();
        for _ in 0..READS_MAX {
            if self.is_over(ctx.now()) {
                return Ok(Next::Exhausted);
            }
            let len = match file.0.read_at(&mut scratch[..room], self.decoder.end()) {
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if len == 0 {
                self.played(ctx);
                continue;
            }
            self.decoder.take(&scratch[..len], |found| self.faults.pass(found, &self.path, ctx));
            room -= len;
            if room == 0 {
                break;
            }
        }
        Ok(Next::More)
    }

    /// The end of the file: this play is complete.
    fn played(&mut self, ctx: &mut Ctx<'_, Line>) {
        self.decoder.finish(|found| self.faults.pass(found, &self.path, ctx));
        let is_empty = self.decoder.offset() == 0;
        self.decoder = LineDecoder::at(0);
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
            End::At(time) => self.decoder.end() == 0 && self.plays > 0 && now >= time,
        }
    }
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

fn about(path: &str, error: &dyn std::fmt::Display) -> SpoutError {
    SpoutError::new(format!("{path}: {error}"))
}

/// A file, counted as long as it is open.
#[derive(Debug)]
struct OpenFile(File);

static OPEN: AtomicUsize = AtomicUsize::new(0);

impl OpenFile {
    fn open(path: &str) -> Result<Self, SpoutError> {
        let refuse = |error| about(path, &error);
        if !fs::metadata(path).map_err(refuse)?.is_file() {
            return Err(about(path, &"not a plain file"));
        }
        let file = File::open(path).map_err(refuse)?;
        OPEN.fetch_add(1, Ordering::Relaxed);
        Ok(Self(file))
    }

    /// Closes it if too many are open.
    fn keep(self) -> Option<Self> {
        (OPEN.load(Ordering::Relaxed) <= KEPT_OPEN_MAX).then_some(self)
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;

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
        let params = format!("paths = [\"unused\"], {params}");
        Probe::open::<TextFiles>(&params, PartitionName::new(path), position)
    }

    /// All lines of a file, and where the partition stands then.
    fn read(path: &str, params: &str, position: Position) -> (Vec<String>, Position) {
        let mut probe = open(path, params, position);
        probe.run(0.0);
        let partition = probe.partition();
        assert!(partition.is_exhausted);
        assert_eq!(partition.failure, None);
        (probe.lines(), partition.position)
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
    fn very_many_files_are_read_without_keeping_all_of_them_open() {
        let dir = ScratchDir::new();
        let mut probes: Vec<_> = (0..KEPT_OPEN_MAX + 50)
            .map(|number| {
                let path = shown(dir.path(number.to_string()));
                fs::write(&path, format!("{number}\n")).unwrap();
                // More than one step of the container plays.
                (number.to_string(), open(&path, "repeat = 100", at(0, 0)))
            })
            .collect();
        probes.iter_mut().for_each(|(_, probe)| probe.drain(0.0));
        // Other tests have some open as well.
        assert!(OPEN.load(Ordering::Relaxed) < KEPT_OPEN_MAX + 30);
        for (number, probe) in &mut probes {
            assert!(!probe.partition().is_exhausted);
            probe.run(0.0);
            assert_eq!(probe.lines(), vec![number.clone(); 100]);
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
    }
}
