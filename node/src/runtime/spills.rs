//! Events that wait on disk, since their readers are behind.
//!
//! A container gives batches to be kept, edge by edge, and asks them back in order. A thread of its own writes
//! and reads them, so that a slow disk stands in the way of nobody; only when it is so far behind that much would
//! be in memory, the container waits for it. The files are of one life of the node: what waits dies with the
//! process as what is in memory does, and is read again where trees are tracked. A disk that takes no more
//! costs memory for a while, and then events, which are counted.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use bytes::Bytes;
use pe::SpillId;
use xxhash_rust::xxh3::xxh3_64;

/// The folder in the data directory.
const SPILL_FOLDER: &str = "spill";
/// A file takes no more batches when it has this many bytes.
const FILE_BYTES: u64 = 64 << 20;
/// So many batches may wait for the thread.
const WAITING_MAX: usize = 256;
/// So many bytes are kept in memory when the disk takes no more.
const MEMORY_MAX: usize = 64 << 20;

/// What answers: the bytes kept first of an edge, or nothing if they are lost.
pub(super) type Answer = Box<dyn Fn(SpillId, Option<Bytes>) + Send>;

/// What waits on disk of a container; the thread runs once something does.
pub(super) struct Spills {
    folder: PathBuf,
    answer: Option<Answer>,
    orders: Option<SyncSender<Order>>,
}

enum Order {
    Keep(SpillId, Vec<u8>),
    Give(SpillId),
}

/// Makes sure that nothing is there of a former life.
pub(super) fn clear(data_dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(data_dir.join(SPILL_FOLDER)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl Spills {
    /// For a container of the node with this data directory.
    pub(super) fn new(data_dir: &Path, container: u16, answer: Answer) -> Self {
        let folder = data_dir.join(SPILL_FOLDER).join(container.to_string());
        Self { folder, answer: Some(answer), orders: None }
    }

    /// Keeps a batch behind those of its edge.
    pub(super) fn keep(&mut self, id: SpillId, bytes: Vec<u8>) {
        self.order(Order::Keep(id, bytes));
    }

    /// Asks for what is kept first of an edge.
    pub(super) fn give(&mut self, id: SpillId) {
        self.order(Order::Give(id));
    }

    fn order(&mut self, order: Order) {
        let Self { folder, answer, orders } = self;
        let orders = orders.get_or_insert_with(|| {
            let (orders, taken) = sync_channel(WAITING_MAX);
            let answer = answer.take().expect("the thread is started once");
            let keeper = Keeper { folder: folder.clone(), ..Keeper::default() };
            thread::Builder::new()
                .name("spill".to_owned())
                .spawn(move || keeper.run(&taken, &answer))
                .expect("a node can start a thread");
            orders
        });
        if orders.send(order).is_err() {
            tracing::error!("the thread that keeps events on disk is gone");
        }
    }
}

/// The thread's own.
#[derive(Default)]
struct Keeper {
    folder: PathBuf,
    queues: BTreeMap<SpillId, Queue>,
    /// Bytes that the disk did not take.
    memory: usize,
    errors: u64,
}

/// What is kept of an edge.
#[derive(Default)]
struct Queue {
    kept: VecDeque<Kept>,
    /// The files, the oldest first, with their numbers; the last is written.
    files: VecDeque<(u64, File)>,
    next_file: u64,
    /// Bytes in the last file.
    end: u64,
}

enum Kept {
    OnDisk { file: u64, at: u64, len: usize, sum: u64 },
    InMemory(Vec<u8>),
    Lost,
}

impl Keeper {
    fn run(mut self, orders: &Receiver<Order>, answer: &Answer) {
        for order in orders {
            match order {
                Order::Keep(id, bytes) => self.keep(id, bytes),
                Order::Give(id) => answer(id, self.give(id)),
            }
        }
        // The node ends. What is left, the next life clears.
        drop(fs::remove_dir_all(&self.folder));
    }

    fn keep(&mut self, id: SpillId, bytes: Vec<u8>) {
        let queue = self.queues.entry(id).or_default();
        let kept = match queue.write(&self.folder, id, &bytes) {
            Ok(kept) => kept,
            Err(error) => {
                self.errors += 1;
                let is_kept = self.memory + bytes.len() <= MEMORY_MAX;
                if self.errors.is_power_of_two() {
                    tracing::error!(folder = %self.folder.display(), errors = self.errors, is_kept,
                        "events that wait cannot be written: {error}");
                }
                if is_kept {
                    self.memory += bytes.len();
                    Kept::InMemory(bytes)
                } else {
                    Kept::Lost
                }
            }
        };
        self.queues.entry(id).or_default().kept.push_back(kept);
    }

    fn give(&mut self, id: SpillId) -> Option<Bytes> {
        let queue = self.queues.get_mut(&id)?;
        let bytes = match queue.kept.pop_front()? {
            Kept::OnDisk { file, at, len, sum } => queue.read(file, at, len, sum),
            Kept::InMemory(bytes) => {
                self.memory -= bytes.len();
                Ok(bytes)
            }
            Kept::Lost => return None,
        };
        queue.drop_files(&self.folder, id);
        bytes
            .inspect_err(|error| tracing::error!("events that waited cannot be read: {error}"))
            .ok()
            .map(Bytes::from)
    }
}

fn path(folder: &Path, id: SpillId, file: u64) -> PathBuf {
    folder.join(format!("{}-{}-{file}", id.topology, id.edge))
}

impl Queue {
    fn write(&mut self, folder: &Path, id: SpillId, bytes: &[u8]) -> io::Result<Kept> {
        if self.files.is_empty() || self.end >= FILE_BYTES {
            fs::create_dir_all(folder)?;
            let path = path(folder, id, self.next_file);
            let mut options = OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
            self.files.push_back((self.next_file, file));
            self.next_file += 1;
            self.end = 0;
        }
        let (number, file) = self.files.back().expect("just opened");
        file.write_all_at(bytes, self.end)?;
        let kept =
            Kept::OnDisk { file: *number, at: self.end, len: bytes.len(), sum: xxh3_64(bytes) };
        self.end += bytes.len() as u64;
        Ok(kept)
    }

    fn read(&self, number: u64, at: u64, len: usize, sum: u64) -> io::Result<Vec<u8>> {
        let file = self.files.iter().find(|(known, _)| *known == number);
        let (_, file) = file.ok_or_else(|| io::Error::other("the file is gone"))?;
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, at)?;
        if xxh3_64(&bytes) != sum {
            return Err(io::Error::other("they are not what was written"));
        }
        Ok(bytes)
    }

    /// Removes the files of which nothing is kept any more.
    fn drop_files(&mut self, folder: &Path, id: SpillId) {
        let first = self.kept.iter().find_map(|kept| match kept {
            Kept::OnDisk { file, .. } => Some(*file),
            Kept::InMemory(_) | Kept::Lost => None,
        });
        while let Some((number, _)) = self.files.front()
            && first.is_none_or(|first| *number < first)
        {
            drop(fs::remove_file(path(folder, id, *number)));
            self.files.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::spouts::scratch_dir::ScratchDir;

    const ID: SpillId = SpillId { topology: 0, edge: 3 };
    const OTHER: SpillId = SpillId { topology: 1, edge: 3 };

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder).map_or(0, Iterator::count)
    }

    #[test]
    fn what_is_kept_comes_back_in_order_and_leaves_no_file() {
        let scratch = ScratchDir::new();
        let folder = scratch.path("spill");
        let mut keeper = Keeper { folder: folder.clone(), ..Keeper::default() };
        let batch = |n: u8, len: usize| vec![n; len];
        for n in 0..20 {
            keeper.keep(ID, batch(n, 8 << 20));
            keeper.keep(OTHER, batch(100 + n, 10));
        }
        assert_eq!(files(&folder), 4, "three files of 64 MiB, and the other");
        for n in 0..20 {
            assert_eq!(keeper.give(OTHER).unwrap(), batch(100 + n, 10));
            assert_eq!(keeper.give(ID).unwrap(), batch(n, 8 << 20));
        }
        assert_eq!((files(&folder), keeper.give(ID)), (0, None));
        keeper.keep(ID, batch(1, 5));
        assert_eq!(keeper.give(ID).unwrap(), batch(1, 5));
    }

    #[test]
    fn what_the_disk_has_changed_is_not_given() {
        let scratch = ScratchDir::new();
        let folder = scratch.path("spill");
        let mut keeper = Keeper { folder: folder.clone(), ..Keeper::default() };
        keeper.keep(ID, vec![1; 100]);
        keeper.keep(ID, vec![2; 100]);
        let path = path(&folder, ID, 0);
        OpenOptions::new().write(true).open(path).unwrap().write_all_at(&[7], 50).unwrap();
        assert_eq!(keeper.give(ID), None);
        assert_eq!(keeper.give(ID).unwrap(), vec![2; 100]);
    }

    #[test]
    fn a_disk_that_takes_nothing_costs_memory_up_to_a_limit() {
        let scratch = ScratchDir::new();
        let file = scratch.path("no-folder");
        fs::write(&file, "").unwrap();
        let mut keeper = Keeper { folder: file, ..Keeper::default() };
        for n in 0..5 {
            keeper.keep(ID, vec![n; 20 << 20]);
        }
        for n in 0..3 {
            assert_eq!(keeper.give(ID).unwrap(), vec![n; 20 << 20]);
        }
        assert_eq!((keeper.give(ID), keeper.give(ID)), (None, None), "these were too much");
        keeper.keep(ID, vec![9; 20 << 20]);
        assert_eq!(keeper.give(ID).unwrap(), vec![9; 20 << 20]);
    }
}
