//! Placeholder.
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::*;
use crate::Run;

/// Notes that are only ever added to.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct Notes(pub(super) BTreeSet<u32>);

impl Body for Notes {
    type Cause = u32;

    fn wants(&self, _: &Head, note: &u32) -> bool {
        *note < 100 && !self.0.contains(note)
    }

    fn next(&self, _: &Head, _: &Head, notes: &BTreeSet<u32>) -> Self {
        Self(self.0.union(notes).copied().collect())
    }

    fn needs(&self, _: &Head, _: LogId) -> bool {
        false
    }

    fn check(&self, _: &Head) -> Result<(), String> {
        let is_small = self.0.iter().all(|note| *note < 100);
        is_small.then_some(()).ok_or_else(|| "too large a note".to_owned())
    }

    fn check_next(&self, _: &Head, next: &Self, _: &Head) -> Result<(), String> {
        let is_kept = self.0.is_subset(&next.0);
        is_kept.then_some(()).ok_or_else(|| "a note is missing".to_owned())
    }
}

pub(super) fn member(node: u64) -> Member {
    let addr = SocketAddr::from(([10, 0, 0, 1], 7000));
    Member {
        node: NodeId(node),
        run: Run(1),
        peer: Vec::new(),
        control: addr,
        data: addr,
        http: None,
        containers: 1,
    }
}

/// A seat of the first view, on a disk numbered like the node.
pub(super) fn seat(node: u64, state: State) -> Seat {
    let log = LogId::synced(DiskId(node));
    Seat { member: member(node), log, state, since: Epoch(1) }
}

/// View 7 of a cluster of nodes 1 to 3 with note 1; with 2 instead of 3, view 6 of nodes 1 and 3.
pub(super) fn view(size: u64) -> Arc<View<Notes>> {
    let nodes = if size == 2 { &[1, 3][..] } else { &[1, 2, 3] };
    let seats: Vec<_> = nodes.iter().map(|&node| seat(node, State::Active)).collect();
    let head = Head {
        cluster: ClusterId(5),
        generation: Generation { count: 0, author: DiskId(1) },
        number: Epoch(4 + size),
        parent: Digest(0),
        voters: view::voters(&[], &seats, &BTreeSet::new()),
        seats,
        lost: Vec::new(),
    };
    Arc::new(View { head, body: Notes([1].into()) })
}
