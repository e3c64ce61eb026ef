//! Who is there: what a node believes about the other nodes of its cluster.
//!
//! Nobody hands out a list of nodes, machines die without a word, and a node that is slow looks like
//! one that is dead. So every node gossips (SWIM, by way of [foca]): it probes the others in turn,
//! asks third parties when an answer fails to come, suspects before it declares, and lets the
//! suspected object. What comes of it is a stream of [`Action::Up`] and [`Action::Down`].
//!
//! That is a *hint*. Two nodes may believe different things at the same time; what the cluster
//! agrees on, the view and its [`Epoch`], is decided by the [`view_log`], among nodes that gossip has
//! introduced to each other. The two know nothing of one another: the driver of both passes on who is
//! up and down. Neither knows of slots, streams or processing elements.
//!
//! They also have no clock, no socket, no disk and no chance of their own: [`Membership::step`] is told
//! what happened and when, and answers with what to do.
//!
//! ```
//! use std::net::SocketAddr;
//! use std::time::Duration;
//!
//! use membership::{Action, Config, Input, Member, Membership, NodeId, Run, Time};
//!
//! let member = |node: u64| Member {
//!     node: NodeId(node),
//!     run: Run(1),
//!     peer: vec![1, 2, 3],
//!     control: SocketAddr::from(([10, 0, 0, 1], 7000)),
//!     data: SocketAddr::from(([10, 0, 0, 1], 7001)),
//!     http: None,
//!     containers: 4,
//! };
//! let mut ann = Membership::new(member(1), Config::lan(), 1)?;
//! let mut bob = Membership::new(member(2), Config::lan(), 2)?;
//!
//! // A handshake with bob has succeeded. The loop is the network: it carries packets at once.
//! let now = Time(Duration::ZERO);
//! let (mut from_ann, mut from_bob) = (Vec::new(), Vec::new());
//! ann.step(now, Input::Met(member(2)), &mut from_ann);
//! for _ in 0..3 {
//!     for action in std::mem::take(&mut from_ann) {
//!         if let Action::Send(_, bytes) = action {
//!             bob.step(now, Input::Received(bytes), &mut from_bob);
//!         }
//!     }
//!     for action in std::mem::take(&mut from_bob) {
//!         if let Action::Send(_, bytes) = action {
//!             ann.step(now, Input::Received(bytes), &mut from_ann);
//!         }
//!     }
//! }
//! assert!(ann.members().eq([&member(1), &member(2)]));
//! assert!(bob.members().eq(ann.members()));
//! # Ok::<(), membership::ConfigError>(())
//! ```
//!
//! [foca]: https://docs.rs/foca

mod action;
mod agenda;
mod codec;
mod config;
mod effects;
mod identity;
mod member;
mod membership;
mod refusal;
mod roster;
mod time;
pub mod view_log;

pub use action::{Action, Input, Reason};
pub use config::{Config, ConfigError};
pub use member::{Epoch, Member, NodeId, ParseNodeIdError, Run};
pub use membership::Membership;
pub use refusal::Refusal;
pub use time::Time;
