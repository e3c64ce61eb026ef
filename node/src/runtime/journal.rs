//! The files of the journal of replicas: segments that only grow, in a folder of their own.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use pe::Recovered;

/// The disk that a journal is on.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    /// The segment that is written.
    file: Option<Segment>,
    /// What is to be written, in order.
    waiting: VecDeque<Step>,
    bytes: usize,
    /// Segments below this one go once the rest is synced.
    discard: Option<u64>,
    /// Whether something was written that is not synced.
    is_dirty: bool,
}

#[derive(Debug)]
struct Segment {
    file: File,
    /// How long it is, as far as what was written is whole.
    len: u64,
}

#[derive(Debug)]
enum Step {
    Append(Vec<u8>),
    Begin(u64, Vec<u8>),
}

impl Disk {
    /// The segments in a folder by number, the first one first; none if there is no such folder.
    pub(super) fn segments(folder: &Path) -> io::Result<Vec<(u64, File)>> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut segments = Vec::new();
        for entry in entries {
            if let Some(number) = number_of(&entry?.path()) {
                segments.push((number, File::open(path_of(folder, number))?));
            }
        }
        segments.sort_unstable_by_key(|(number, _)| *number);
        Ok(segments)
    }

    /// A folder without segments.
    pub(super) fn begin(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        sync_folder(folder.parent().unwrap_or(Path::new(".")))?;
        Ok(Self {
            folder: folder.to_owned(),
            file: None,
            waiting: VecDeque::new(),
            bytes: 0,
            discard: None,
            is_dirty: false,
        })
    }

    /// Goes on where a journal ends; what follows there was being written when the machine stopped.
    pub(super) fn go_on(folder: &Path, recovered: &Recovered) -> io::Result<Self> {
        let mut disk = Self::begin(folder)?;
        for (number, _) in Self::segments(folder)? {
            if number < recovered.first || number > recovered.segment {
                fs::remove_file(path_of(folder, number))?;
            }
        }
        let mut file = OpenOptions::new().write(true).open(path_of(folder, recovered.segment))?;
        file.set_len(recovered.len)?;
        file.seek(SeekFrom::End(0))?;
        file.sync_all()?;
        sync_folder(folder)?;
        disk.file = Some(Segment { file, len: recovered.len });
        Ok(disk)
    }

    /// Bytes for the end of the newest segment.
    pub(super) fn append(&mut self, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        self.waiting.push_back(Step::Append(bytes));
    }

    /// A new segment, and what it begins with.
    pub(super) fn segment(&mut self, number: u64, start: Vec<u8>) {
        self.waiting.push_back(Step::Begin(number, start));
    }

    /// Segments below this one go, once all that was given before is synced.
    pub(super) fn discard(&mut self, below: u64) {
        self.discard = Some(below);
    }

    /// How many bytes wait.
    pub(super) fn waiting(&self) -> usize {
        self.bytes
    }

    /// Writes and syncs what waits. What cannot be written waits on, and what is there is whole: so it may be tried again.
    ///
    /// # Errors
    /// The disk is full, or failed otherwise; then what it has is not known.
    pub(super) fn write(&mut self) -> io::Result<()> {
        while let Some(step) = self.waiting.pop_front() {
            let outcome = match &step {
                Step::Append(bytes) => self.write_bytes(bytes),
                Step::Begin(number, start) => self.begin_segment(*number, start),
            };
            if let Err(error) = outcome {
                self.waiting.push_front(step);
                return Err(error);
            }
            if let Step::Append(bytes) = step {
                self.bytes -= bytes.len();
            }
        }
        self.sync()
    }

    /// The folder.
    pub(super) fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(segment) = &mut self.file else { return Ok(()) };
        self.is_dirty = true;
        segment.write(bytes)
    }

    fn begin_segment(&mut self, number: u64, start: &[u8]) -> io::Result<()> {
        self.sync()?;
        let path = path_of(&self.folder, number);
        let file = OpenOptions::new().create(true).write(true).truncate(true).open(path)?;
        let mut segment = Segment { file, len: 0 };
        segment.write(start)?;
        sync_folder(&self.folder)?;
        self.file = Some(segment);
        self.is_dirty = true;
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Some(segment) = self.file.as_mut().filter(|_| self.is_dirty) {
            // What a disk says after it has failed once to sync is not to be relied on: no room is an error as well.
            segment.file.sync_data().map_err(io::Error::other)?;
            self.is_dirty = false;
        }
        let Some(below) = self.discard.take_if(|_| self.waiting.is_empty()) else { return Ok(()) };
        for (number, _) in Self::segments(&self.folder)? {
            if number < below {
                fs::remove_file(path_of(&self.folder, number))?;
            }
        }
        Ok(())
    }
}

impl Segment {
    /// Appends all, or leaves what is there.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.file.write_all(bytes) {
            Ok(()) => {
                self.len += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                self.file.set_len(self.len)?;
                self.file.seek(SeekFrom::Start(self.len))?;
                Err(error)
            }
        }
    }
}

fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:016}.log"))
}

fn number_of(path: &Path) -> Option<u64> {
    let is_segment = path.extension().is_some_and(|extension| extension == "log");
    path.file_stem()?.to_str()?.parse().ok().filter(|_| is_segment)
}

/// Makes what was created or removed in a folder last.
fn sync_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn contents(folder: &Path) -> Vec<(u64, Vec<u8>)> {
        let read = |(number, mut file): (u64, File)| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            (number, bytes)
        };
        Disk::segments(folder).unwrap().into_iter().map(read).collect()
    }

    #[test]
    fn what_is_written_is_there_and_what_is_torn_is_cut_off() {
        let parent = std::env::temp_dir().join(format!("starling-journal-{}", std::process::id()));
        let folder = parent.join("replicas");
        let mut disk = Disk::begin(&folder).unwrap();
        disk.segment(1, b"one".to_vec());
        disk.append(b" entry".to_vec());
        assert_eq!((contents(&folder), disk.waiting()), (vec![], 6));
        disk.write().unwrap();
        assert_eq!((contents(&folder), disk.waiting()), (vec![(1, b"one entry".to_vec())], 0));
        disk.append(b" torn".to_vec());
        disk.segment(2, b"never".to_vec());
        disk.write().unwrap();
        // As it is found: the second segment was being begun, and the last entry of the first written.
        let recovered = Recovered { made: 1, segment: 1, len: 9, first: 1 };
        let mut disk = Disk::go_on(&folder, &recovered).unwrap();
        assert_eq!(contents(&folder), [(1, b"one entry".to_vec())]);
        disk.append(b", more".to_vec());
        disk.segment(2, b"two".to_vec());
        disk.append(b" too".to_vec());
        disk.discard(2);
        assert_eq!(contents(&folder).len(), 1, "nothing goes before the rest is there");
        disk.write().unwrap();
        assert_eq!(contents(&folder), [(2, b"two too".to_vec())]);
        fs::remove_dir_all(&parent).unwrap();
    }
}
