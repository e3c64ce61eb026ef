//! Where events go.
//!
//! A key hashes to a [`Slot`], a slot belongs to a node, and the [`SlotTable`] says which: nodes with
//! equal tables route alike without asking anyone. Events travel in typed, columnar [`Batch`]es, so
//! that a hop costs per batch and not per event; what leaves a node is a frame of many small batches.
//!
//! This crate knows nothing of processing elements, threads or the network.
//!
//! ```
//! use routing::{Packed, Key, Slot};
//!
//! // The hash and the slot of a key are the same on every node and in every build.
//! let key = Packed::new("congress".as_bytes(), 0);
//! assert_eq!(Slot::of(key.hash(), 1024), Slot::of(key.hash(), 1024));
//! ```

mod batch;
pub mod codec;
mod column;
mod event;
mod frame;
mod key;
mod outlet;
mod runs;
mod schema;
mod table;

pub use batch::{Batch, Group, KeyFields};
pub use codec::DecodeError;
pub use column::{
    Bits, Column, Encoded, EncodedColumn, Field, Fixed, HEAVY, Optional, Store, Text,
};
pub use event::{Columns, Event, EventRef};
pub use frame::{
    BatchHeader, BatchKind, FRAME_MAX, Frame, FrameBuilder, FrameError, FrameHeader, FrameKind,
    PROTOCOL_VERSION, seal,
};
pub use key::{KEY_HASH, Key, Packed};
pub use outlet::{
    AnyOutlet, Budget, Choice, ContainerId, Dropped, EVENT_MAX, Excess, FIELDS_MAX, Lane, Lanes,
    Outlet, Passage, ROWS_MAX, Ready, Spread,
};
pub use runs::{Ack, EdgeIds, Owing, Root, Run, Runs};
pub use schema::{FieldKind, FieldSchema, Schema};
pub use table::{Moves, Slot, SlotTable, place, spread};

/// What `#[derive(Event)]` names.
#[doc(hidden)]
pub mod __derive {
    /// Here an event is nothing but an event; `pe` has another macro of this name.
    pub use crate::__alone as alone;
    pub use crate::{
        Column, Columns, DecodeError, Encoded, EncodedColumn, Event, EventRef, Field, FieldSchema,
        Packed, Schema, Store,
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __alone {
    ($event:ty) => {};
}

#[cfg(test)]
pub(crate) use pe_derive::Event;
