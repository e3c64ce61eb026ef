//! A machine of a simulation: a disk, and a process while it runs.

use std::net::SocketAddr;

use membership::view_log::Stamp;
use membership::{Member, NodeId, Run, Time};

use crate::disk::Disk;
use crate::network::Letter;
use crate::process::Process;

/// What a process that stands still hears of when it goes on.
pub(crate) enum Missed {
    Letter(NodeId, Letter),
    /// Its disk has written.
    Synced(Stamp),
    /// The same of where partitions have come to.
    Kept,
    /// The same of replicas.
    Journaled,
}

/// One machine.
pub(crate) struct Machine {
    pub(crate) node: NodeId,
    number: u16,
    containers: u16,
    /// How often a process was started here.
    pub(crate) run: u64,
    pub(crate) disk: Disk,
    pub(crate) process: Option<Process>,
    /// What came while the machine stood still; none if it does not.
    pub(crate) backlog: Option<Vec<Missed>>,
    /// Whether its process was told to leave and has ended.
    pub(crate) has_left: bool,
    /// Whether its process was told to leave.
    pub(crate) is_leaving: bool,
    /// Whether it is to be started again.
    pub(crate) is_due: bool,
    /// When it is woken next.
    pub(crate) scheduled: Option<Time>,
    /// Who is asked for the way in.
    pub(crate) seeds: Vec<NodeId>,
}

impl Machine {
    pub(crate) fn new(node: NodeId, number: u16, containers: u16, disk: Disk) -> Self {
        Self {
            node,
            number,
            containers,
            run: 0,
            disk,
            process: None,
            backlog: None,
            has_left: false,
            is_leaving: false,
            is_due: false,
            scheduled: None,
            seeds: Vec::new(),
        }
    }

    /// What its next process says of itself.
    pub(crate) fn next_life(&mut self) -> Member {
        self.run += 1;
        let port = |which: u16| {
            let [high, low] = self.number.to_be_bytes();
            SocketAddr::from(([10, 0, high, low], 7000 + which))
        };
        Member {
            node: self.node,
            run: Run(self.run),
            peer: self.number.to_le_bytes().to_vec(),
            control: port(0),
            data: port(1),
            http: None,
            containers: self.containers,
        }
    }

    /// Whether a process runs here and is to go on.
    pub(crate) fn is_up(&self) -> bool {
        self.process.is_some()
    }
}
