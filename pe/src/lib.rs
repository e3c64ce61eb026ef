//! What happens to events.
//!
//! An application is a set of processing elements ([`Pe`]) and sources ([`Spout`]); a [`topology`] wires
//! them by name. Each [`Container`] hosts the instances of its share of the keys, on one thread, and is
//! a core: what arrives is an input, what it wants done is an action.
//!
//! This crate knows which instance an event belongs to and what is done with it. It knows no sockets,
//! threads, files or clocks.
//!
//! ```
//! # use pe as starling;
//! use serde::{Deserialize, Serialize};
//! use starling::{Ctx, Event, On, Pe};
//!
//! #[derive(Event)]
//! struct Word { text: String }
//!
//! #[derive(Event)]
//! struct Count { word: String, n: u64 }
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Counter { n: u64 }
//!
//! impl Pe for Counter {
//!     type In = Word;
//!     type Out = Count;
//! }
//!
//! impl On<Word> for Counter {
//!     fn on(&mut self, word: WordRef<'_>, ctx: &mut Ctx<'_, Count>) {
//!         self.n += 1;
//!         ctx.emit(CountRef { word: word.text, n: self.n });
//!     }
//! }
//!
//! let registry = starling::Registry::new().pe::<Counter>("counter");
//! assert!(registry.catalog().pes.contains_key("counter"));
//! ```

mod acker;
mod chunk;
mod container;
mod ctx;
mod event_type;
mod generated;
mod host;
mod instance_key;
mod instances;
mod layout;
mod line;
mod look;
mod pe;
mod registry;
mod replica;
mod report;
mod sink;
mod spout;
pub mod storm;
pub mod topology;
mod trigger;
mod units;
mod window;

pub use acker::{Anchor, Failure};
pub use container::{
    Action, Activity, Call, ChunkKind, Container, Credit, DeadLetter, Held, Holder, Input, Parcel,
    Returned, SpillId,
};
pub use ctx::Ctx;
pub use event_type::{AnyBatch, EventType, Rows};
pub use generated::{Generated, GeneratedColumns, GeneratedRef};
pub use instance_key::KeyRef;
pub use layout::{
    CONTAINERS_MAX, Duty, Home, Layout, Phase, Place, Sets, TaskHomes, Unit, active_containers,
    spread_tasks,
};
pub use line::{Line, LineColumns, LineRef};
pub use look::{Seen, Sought, Which};
pub use pe::{Alone, At, Emits, Inputs, On, Outputs, Pe, Receive, Removal, STATE_MAX};
pub use pe_derive::Event;
pub use registry::Registry;
pub use replica::{JournalError, Recovered, ReplicaAction, ReplicaInput, ReplicaStore};
pub use report::{
    Evicted, HostReport, PartitionReport, Report, RunReport, TreeReport, TreesReport,
};
#[doc(hidden)]
pub use routing::{AnyOutlet, Batch, Outlet};
pub use routing::{Encoded, Event, EventRef};
pub use sink::{OpenSink, Sink, SinkPlace};
pub use spout::{Next, Opening, PartitionName, Position, Spout, SpoutError, Waker};
pub use topology::{Param, Params};
pub use window::{
    COUNT_MAX, Extent, Items, MOST, OVERLAP_MAX, Panes, Takes, WindowError, WindowFull, WindowRef,
    WindowSpec, Windowed, Windows,
};

/// What `#[derive(Event)]` names.
#[doc(hidden)]
pub mod __derive {
    pub use routing::__derive::{
        Column, Columns, DecodeError, Encoded, EncodedColumn, Event, EventRef, Field, FieldSchema,
        Packed, Schema, Store,
    };

    pub use crate::__alone as alone;
}
