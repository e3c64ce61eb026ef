//! One machine of the [`crate::world`]: a disk, and a process while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use membership::view_log::{Accepted, Body, DiskId, Head, LogId, Record, Stamp, ViewLog};
use membership::{Member, NodeId, Run, Time};
use serde::{Deserialize, Serialize};

/// Notes that are only ever added to.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Notes(pub(crate) BTreeSet<u64>);

impl Body for Notes {
    type Cause = u64;

    fn wants(&self, _: &Head, note: &u64) -> bool {
        !self.0.contains(note)
    }

    fn next(&self, _: &Head, _: &Head, notes: &BTreeSet<u64>) -> Self {
        Self(self.0.union(notes).copied().collect())
    }

    fn needs(&self, _: &Head, _: LogId) -> bool {
        false
    }

    fn check(&self, _: &Head) -> Result<(), String> {
        Ok(())
    }

    fn check_next(&self, _: &Head, next: &Self, _: &Head) -> Result<(), String> {
        let is_kept = self.0.is_subset(&next.0);
        is_kept.then_some(()).ok_or_else(|| "a note is missing".to_owned())
    }
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn member(node: u64, run: u64) -> Member {
    let addr = |port| SocketAddr::from(([10, 0, 0, 1], port));
    Member {
        node: NodeId(node),
        run: Run(run),
        peer: node.to_le_bytes().to_vec(),
        control: addr(7000),
        data: addr(7001),
        http: None,
        containers: 2,
    }
}

/// A machine: its disk, and the process if it runs.
pub(crate) struct Host {
    pub(crate) disk: DiskId,
    pub(crate) run: u64,
    /// What is synced.
    pub(crate) file: Option<Vec<u8>>,
    /// What is being written.
    pub(crate) write: Option<(Stamp, Vec<u8>)>,
    pub(crate) log: Option<ViewLog<Notes>>,
    /// Whom gossip has told this process to be there, by run.
    pub(crate) believed: BTreeMap<u64, u64>,
    /// When gossip will have noticed that a node is there, or is not.
    pub(crate) notices: BTreeMap<u64, Time>,
    pub(crate) is_leaving: bool,
    pub(crate) is_dismissed: bool,
}

impl Host {
    /// What is synced.
    pub(crate) fn record(&self) -> Option<Record<Notes>> {
        self.file.as_ref().map(|bytes| Record::from_bytes(bytes).unwrap())
    }

    /// The vote that is on disk.
    pub(crate) fn voted(&self) -> Option<Accepted<Notes>> {
        self.record().and_then(|record| record.accepted)
    }
}
