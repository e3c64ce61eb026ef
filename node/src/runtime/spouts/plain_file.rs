//! A file that is read here and there.
//!
//! A process may have few files open, and a topology very many partitions; so a file that waits for its
//! next turn is closed if too many others are open, and opened again when it is read. Only plain files
//! are opened: anything else may well keep a thread waiting for ever.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most files that this process keeps open between two polls; with more partitions than that, some
/// are opened for each poll. A process may usually have 1,024, and needs them for its links as well.
pub(super) const KEPT_OPEN_MAX: usize = 256;

/// A file by its path, open or not.
#[derive(Debug)]
pub(super) struct PlainFile {
    path: Arc<str>,
    open: Option<OpenFile>,
}

impl PlainFile {
    /// A file that is opened when it is read.
    pub(super) fn new(path: Arc<str>) -> Self {
        Self { path, open: None }
    }

    pub(super) fn open(path: Arc<str>) -> io::Result<Self> {
        Ok(Self { open: Some(OpenFile::open(&path)?), path })
    }

    /// Reads some of what is at an offset; nothing if the file ends before.
    pub(super) fn read_at(&mut self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let open = match self.open.take() {
            Some(open) => open,
            None => OpenFile::open(&self.path)?,
        };
        let OpenFile(file) = self.open.insert(open);
        loop {
            match file.read_at(into, offset) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// It is not read for a while: closes it if too many are open.
    pub(super) fn rest(&mut self) {
        if OPEN.load(Ordering::Relaxed) > KEPT_OPEN_MAX {
            self.open = None;
        }
    }

    pub(super) fn path(&self) -> &Arc<str> {
        &self.path
    }
}

/// A file, counted as long as it is open.
#[derive(Debug)]
struct OpenFile(File);

static OPEN: AtomicUsize = AtomicUsize::new(0);

/// How many files this process has open.
#[cfg(test)]
pub(super) fn open() -> usize {
    OPEN.load(Ordering::Relaxed)
}

impl OpenFile {
    fn open(path: &str) -> io::Result<Self> {
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a plain file"));
        }
        let file = File::open(path)?;
        OPEN.fetch_add(1, Ordering::Relaxed);
        Ok(Self(file))
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}
