//! Dead letters: events of spouts that were tried often enough, on disk.
//!
//! A file of the data directory has a line for each, as JSON, so that whatever reads lines can read them. What is
//! sent again is marked by a line of its own behind it, and never taken out: the file only grows, up to a limit,
//! and a line that a crash has torn is passed over.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pe::DeadLetter;
use serde::{Deserialize, Serialize};

use super::RunError;

/// The file in the data directory.
const DEAD_LETTERS_FILE: &str = "dead-letters.jsonl";

/// The file takes no more bytes than this; letters beyond are counted and logged, and not kept.
const BYTES_MAX: u64 = 256 << 20;

/// The dead letters of a node.
#[derive(Debug)]
pub(super) struct DeadLetters {
    path: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    bytes: u64,
    next: u64,
}

/// A line of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeptLetter {
    /// Its number on this node.
    pub id: u64,
    /// When it was buried, in milliseconds since 1970.
    pub at_ms: u64,
    /// How often it was sent again.
    #[serde(default)]
    pub resent: u32,
    /// What it is.
    #[serde(flatten)]
    pub letter: DeadLetter,
}

impl DeadLetters {
    /// Opens the file, making it if it is not there.
    pub(super) fn open(folder: &Path) -> Result<Self, RunError> {
        let path = folder.join(DEAD_LETTERS_FILE);
        let failed = |error: std::io::Error| RunError::disk(&path, &error);
        let next = read(&path).map_err(failed)?.last().map_or(1, |letter| letter.id + 1);
        let mut options = OpenOptions::new();
        let mut file = options.create(true).append(true).open(&path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        if bytes > 0 {
            // Behind a line that a crash has torn; an empty line is passed over.
            file.write_all(b"\n").map_err(failed)?;
        }
        Ok(Self { path, inner: Mutex::new(Inner { file, bytes, next }) })
    }

    /// All of them, in order.
    pub(super) fn all(&self) -> Result<Vec<KeptLetter>, RunError> {
        let _inner = self.inner.lock().expect("nobody panics with it");
        read(&self.path).map_err(|error| RunError::disk(&self.path, &error))
    }

    /// Notes that a letter was sent again.
    pub(super) fn note_resent(&self, id: u64) -> Result<(), RunError> {
        let mut inner = self.inner.lock().expect("nobody panics with it");
        let mut line = serde_json::to_vec(&Resent { resent_id: id }).expect("it is plain data");
        line.push(b'\n');
        inner.bytes += line.len() as u64;
        inner.file.write_all(&line).map_err(|error| RunError::disk(&self.path, &error))
    }

    /// Adds a letter, and has it synced.
    pub(super) fn append(&self, letter: DeadLetter) -> Result<(), RunError> {
        let mut inner = self.inner.lock().expect("nobody panics with it");
        let id = inner.next;
        inner.next += 1;
        let (spout, partition) = (letter.spout.clone(), letter.partition.clone());
        let (position, why) = (letter.position.offset, letter.why.as_str());
        tracing::error!(id, %spout, %partition, position, skip = letter.skip, attempts = letter.attempts,
            "a dead letter: {why}");
        let kept = KeptLetter { id, at_ms: now_ms(), resent: 0, letter };
        let mut line = serde_json::to_vec(&kept).expect("it is plain data");
        line.push(b'\n');
        if inner.bytes + line.len() as u64 > BYTES_MAX {
            tracing::error!(id, "the file of dead letters is full: it is not kept");
            return Ok(());
        }
        inner.bytes += line.len() as u64;
        let written = inner.file.write_all(&line).and_then(|()| inner.file.sync_data());
        written.map_err(|error| RunError::disk(&self.path, &error))
    }
}

/// Says that a letter was sent again.
#[derive(Serialize, Deserialize)]
struct Resent {
    resent_id: u64,
}

/// The letters of a file, in order; none if it is not there.
fn read(path: &Path) -> std::io::Result<Vec<KeptLetter>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let lines = BufReader::new(file).split(b'\n');
    let mut letters: Vec<KeptLetter> = Vec::new();
    for line in lines {
        let line = line?;
        if let Ok(letter) = serde_json::from_slice(&line) {
            letters.push(letter);
        } else if let Ok(Resent { resent_id }) = serde_json::from_slice(&line) {
            let known = letters.iter_mut().filter(|letter| letter.id == resent_id);
            known.for_each(|letter| letter.resent += 1);
        }
    }
    Ok(letters)
}

#[expect(clippy::disallowed_methods, reason = "a time for people")]
fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
