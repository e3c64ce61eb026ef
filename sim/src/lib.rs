//! A whole cluster in one thread, in virtual time, replayed from a seed.
//!
//! The simulator runs the very cores that production runs, composed as production composes them: a
//! [`NodeCore`](node::NodeCore) and its containers per node. It owns what a core may not: the clock, the
//! network, the disks and chance. All of them follow from the seed, so a failure is one number, and the
//! same seed gives the same trace.
//!
//! What crosses the network here goes through the real frames, links and checks, since a simulator that
//! skipped them would prove less.
//!
//! [`World`] is a cluster to be played with by hand:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! let registry = Arc::new(pe::Registry::new());
//! let mut world = sim::World::new(7, registry, &[]);
//! let (one, two) = (world.start(2, None), world.start(2, Some(0)));
//! assert!(world.run_until(Duration::from_secs(5), |world| {
//!     [one, two].iter().all(|&node| world.status(node).members.len() == 2)
//! }));
//! ```
//!
//! [`Campaign`] runs a workload on clusters in which things go wrong, a run for each seed, and judges
//! every step by named invariants:
//!
//! ```
//! let campaign = sim::Campaign { nodes: 3, ..sim::Campaign::default() };
//! let run = campaign.run(7);
//! assert!(run.violation.is_none());
//! assert!(run.totals.crashes > 0 && run.totals.handoffs > 0);
//! ```

extern crate pe as starling;

mod campaign;
mod chance;
mod deeds;
mod disk;
mod fault;
mod flaw;
mod journal;
mod ledger;
mod links;
mod machine;
mod network;
mod process;
mod referee;
mod rest;
mod scale;
mod violation;
mod workload;
mod world;

pub use campaign::{Campaign, Run, Totals};
pub use chance::Chance;
pub use fault::{Deed, Fault, FaultKind};
pub use flaw::Flaw;
pub use scale::{Scale, Stage};
pub use violation::Violation;
pub use world::World;
