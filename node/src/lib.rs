//! One node.
//!
//! [`NodeCore`] composes the pure cores: what gossip believes is put to the view log, what that decides is
//! a view, a view becomes a layout, units and partitions move, and counts from all nodes tell when a topology has ended.
//! Most bugs live in such compositions, so it is a core itself, and the simulator runs it as it stands.
//!
//! The feature `runtime` adds what drives it on a real machine: libp2p, actix, disk and HTTP. Nothing
//! is decided there.
//!
//! ```
//! use node::config::{Overrides, resolve};
//!
//! let flags = Overrides { bootstrap: true, ..Overrides::default() };
//! let config = resolve(None, std::iter::empty(), flags, 2).unwrap();
//! assert_eq!(config.cluster.slots, 1024);
//! ```

pub mod config;
mod core;
#[cfg(feature = "runtime")]
pub mod runtime;

pub use crate::core::link;
pub use crate::core::{
    Action, Assignment, BookMessage, Came, Cause, Ending, Event, HandoffMessage, Heir, Hello,
    Input, MemberStatus, Message, NodeCore, Offsets, PartitionStatus, PeStatus, Pull, Refused, Set,
    Setup, Share, SpoutStatus, Status, StreamId, StuckStatus, Token, TokenId, TopologyState,
    TopologyStatus, Totals, TreeStatus, UnitPlace, View,
};
