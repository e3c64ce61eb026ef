//! What a replica has of a unit: records in the order in which they came.
//!
//! A later record of an instance takes the place of an earlier one, so half of a log may be out of date. When it
//! has grown to twice what it had after it was last gone through, it is gone through again, from the newest record
//! back. So each byte is looked at a bounded number of times, and a log takes at most twice its state and a little.

use std::collections::BTreeSet;

use hashbrown::HashSet;
use routing::{Key, Packed};
use xxhash_rust::xxh3::Xxh3DefaultBuilder;

use crate::chunk::{Copied, Record, records};
use crate::{Sought, Which};

/// Below this, nothing is gained.
const LEAST: usize = 16 << 10;

/// The records of a unit.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnitLog {
    bytes: Vec<u8>,
    /// At this length it is gone through.
    limit: usize,
}

impl UnitLog {
    /// What was compacted, and came back from a disk.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), limit: 2 * bytes.len() }
    }

    /// Adds a record that was read.
    pub(crate) fn push(&mut self, record: &[u8]) {
        self.bytes.extend_from_slice(record);
        if self.bytes.len() > self.limit.max(LEAST) {
            self.compact();
        }
    }

    /// What is there.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Each instance once, one behind the other.
    pub(crate) fn compacted(&mut self) -> &[u8] {
        self.compact();
        &self.bytes
    }

    /// The state of an instance, if it is there.
    pub(crate) fn last(&self, sought: &Sought) -> Option<Vec<u8>> {
        let place = (sought.topology, sought.prototype);
        let all = records(&self.bytes).map(|(_, _, record)| record);
        let all = all.filter(|record| (record.topology, record.prototype) == place);
        let mut found = None;
        for Record { copied, .. } in all {
            match (copied, &sought.which) {
                (Copied::Keyed { key, state, .. }, Which::Key(which)) if key == which => {
                    found = Some(state);
                }
                (Copied::KeyGone(hash), Which::Key(which))
                    if hash == Packed::new(which, 0).hash() =>
                {
                    found = None;
                }
                (Copied::Task { task, state, .. }, Which::Task(which)) if task == *which => {
                    found = Some(state);
                }
                (Copied::TaskGone(task), Which::Task(which)) if task == *which => found = None,
                _ => {}
            }
        }
        found.map(<[u8]>::to_vec)
    }

    /// Leaves the last record of each instance that is there.
    fn compact(&mut self) {
        let all: Vec<_> = records(&self.bytes).collect();
        let mut seen: HashSet<(u16, u16, Instance<'_>), _> =
            HashSet::with_capacity_and_hasher(all.len(), Xxh3DefaultBuilder);
        let mut gone: BTreeSet<(u16, u16, u64)> = BTreeSet::new();
        let mut left = Vec::new();
        for (start, end, Record { topology, prototype, copied }) in all.into_iter().rev() {
            let is_last = match copied {
                Copied::Keyed { key, .. } => {
                    let is_gone = !gone.is_empty()
                        && gone.contains(&(topology, prototype, Packed::new(key, 0).hash()));
                    !is_gone && seen.insert((topology, prototype, Instance::Key(key)))
                }
                Copied::KeyGone(hash) => {
                    gone.insert((topology, prototype, hash));
                    false
                }
                Copied::Task { task, .. } => {
                    seen.insert((topology, prototype, Instance::Task(task)))
                }
                Copied::TaskGone(task) => {
                    seen.insert((topology, prototype, Instance::Task(task)));
                    false
                }
                Copied::Unwritable => false,
            };
            if is_last {
                left.push((start, end));
            }
        }
        let len = left.iter().map(|(start, end)| end - start).sum();
        let mut bytes = Vec::with_capacity(len);
        for (start, end) in left.into_iter().rev() {
            bytes.extend_from_slice(&self.bytes[start..end]);
        }
        drop(seen);
        self.limit = 2 * len;
        self.bytes = bytes;
    }
}

/// What a record is of.
#[derive(PartialEq, Eq, Hash)]
enum Instance<'r> {
    Key(&'r [u8]),
    Task(u32),
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use membership::Time;
    use proptest::prelude::*;

    use super::*;
    use crate::chunk::{ChunkWriter, checked};

    fn push(log: &mut UnitLog, write: impl FnOnce(&mut ChunkWriter)) {
        let mut writer = ChunkWriter::new(Time::default());
        writer.set_place(1, 2);
        write(&mut writer);
        let chunk = writer.finish();
        let bytes = checked(&chunk).unwrap();
        for (start, end, _) in records(bytes) {
            log.push(&bytes[start..end]);
        }
    }

    proptest! {
        /// Whatever came, what is left is each instance as it was last.
        #[test]
        fn the_last_record_of_each_instance_is_left(
            steps in prop::collection::vec((0u8..4, 0u8..20, 0usize..2000), 0..300),
        ) {
            let mut log = UnitLog::default();
            let (mut keys, mut tasks) = (BTreeMap::new(), BTreeMap::new());
            for (what, which, len) in steps {
                let key = vec![which; 1 + usize::from(which)];
                let state = vec![1u8; len];
                match what {
                    0 => {
                        push(&mut log, |writer| writer.keyed(&key, 0, &state));
                        keys.insert(key, len);
                    }
                    1 => {
                        push(&mut log, |writer| writer.key_gone(Packed::new(&key, 0).hash()));
                        keys.remove(&key);
                    }
                    2 => {
                        push(&mut log, |writer| writer.task(which.into(), 0, &state));
                        tasks.insert(which, len);
                    }
                    _ => {
                        push(&mut log, |writer| writer.task_gone(which.into()));
                        tasks.remove(&which);
                    }
                }
            }
            let state = |len: &usize| {
                let mut bytes = Vec::new();
                routing::codec::encode(&vec![1u8; *len], &mut bytes).unwrap();
                bytes
            };
            for which in 0..20u8 {
                let key = vec![which; 1 + usize::from(which)];
                let sought = |which| Sought { topology: 1, prototype: 2, which };
                let known = log.last(&sought(Which::Key(key.clone())));
                prop_assert_eq!(known, keys.get(&key).map(state));
                let known = log.last(&sought(Which::Task(which.into())));
                prop_assert_eq!(known, tasks.get(&which).map(state));
                let other = Sought { topology: 1, prototype: 3, which: Which::Key(key) };
                prop_assert_eq!(log.last(&other), None);
            }
            let (mut keys_left, mut tasks_left) = (BTreeMap::new(), BTreeMap::new());
            let bytes = log.compacted();
            let mut live = 0;
            for (start, end, record) in records(bytes) {
                live += end - start;
                if let Copied::Keyed { key, state, .. } = record.copied {
                    prop_assert!(keys_left.insert(key.to_vec(), state.len() - 8).is_none());
                } else if let Copied::Task { task, state, .. } = record.copied {
                    let task = u8::try_from(task).unwrap();
                    prop_assert!(tasks_left.insert(task, state.len() - 8).is_none());
                } else {
                    prop_assert!(false, "{record:?}");
                }
            }
            prop_assert_eq!(live, bytes.len());
            prop_assert_eq!(keys_left, keys);
            prop_assert_eq!(tasks_left, tasks);
        }
    }
}
