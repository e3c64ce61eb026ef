//! A whole cluster in one thread, in virtual time, replayed from a seed.
//!
//! The simulator runs the very cores that production runs, composed as production composes them: a
//! [`NodeCore`](node::NodeCore) and its containers per node. It owns what a core may not: the clock, the
//! network and chance. All three follow from the seed, so a failure is one number, and the same seed
//! gives the same trace.
//!
//! What crosses the network here goes through the real frames and checks, since a simulator that
//! skipped them would prove less.
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

mod chance;
mod links;
mod network;
mod node_sim;
mod world;

pub use chance::Chance;
pub use world::World;
