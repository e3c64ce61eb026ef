//! What the engine knows of an event type at run time: its names, and how to handle a batch of it.
//!
//! A container moves batches whose type is erased. What it must do with one (decode it from a frame,
//! find its keys, show it to a sink) goes through a table of functions made once per type, and costs a
//! dynamic call per batch.

use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;

use routing::{Batch, Columns, DecodeError, Event, KeyFields, Owing, Run, Schema};

/// An event type of this program.
#[derive(Clone, Copy)]
pub struct EventType {
    /// Identity within this program.
    pub id: TypeId,
    /// Its name and fields.
    pub schema: Schema,
    pub(crate) batches: &'static dyn Batches,
}

impl EventType {
    /// What there is to know of `E`.
    pub fn of<E: Event>() -> Self {
        Self { id: TypeId::of::<E>(), schema: E::SCHEMA, batches: &Typed::<E>(PhantomData) }
    }
}

impl fmt::Debug for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventType").field(&self.schema.name).finish()
    }
}

impl PartialEq for EventType {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// A batch whose type is erased: a `Batch<E>`.
pub type AnyBatch = Box<dyn Any + Send>;

/// What can be done with a batch of a type.
pub(crate) trait Batches: Sync {
    /// Reads a batch that takes all of `body`, into the memory of `spare` if there is one.
    fn decode(
        &self,
        spare: Option<AnyBatch>,
        rows: usize,
        has_runs: bool,
        body: &[u8],
    ) -> Result<AnyBatch, DecodeError>;
    /// Computes the keys and hashes of all rows; gives the hashes.
    fn hash<'b>(&self, batch: &'b mut (dyn Any + Send), key: &KeyFields) -> &'b [u64];
    /// The hashes of all rows, if the batch has a key; they were computed before.
    fn hashes<'b>(&self, batch: &'b (dyn Any + Send)) -> &'b [u64];
    /// Copies some rows into a batch of its own, into the memory of `spare` if there is one.
    fn pick(
        &self,
        spare: Option<AnyBatch>,
        batch: &(dyn Any + Send),
        rows: &[u32],
        owing: &mut Owing,
    ) -> AnyBatch;
    /// The trees of the events that are meant.
    fn runs<'b>(&self, batch: &'b dyn Any) -> &'b [Run];
    /// How many of the events that are meant are of a tree.
    fn rows_of(&self, batch: &(dyn Any + Send), root: u64) -> u64;
    /// Says that all parts of a batch have been announced.
    fn retire(&self, batch: &(dyn Any + Send), owing: &mut Owing);
    /// About how much memory the events take.
    fn bytes(&self, batch: &(dyn Any + Send)) -> usize;
    /// The rows that are meant.
    fn meant(&self, batch: &(dyn Any + Send)) -> Vec<u32>;
    /// Says which rows are meant; the others have been announced.
    fn narrow_to(&self, batch: &mut (dyn Any + Send), rows: &[u32], owing: &mut Owing);
    /// The events, for whoever takes any type.
    fn rows<'b>(&self, batch: &'b dyn Any) -> &'b dyn Rows;
    /// Empties a batch.
    fn clear(&self, batch: &mut (dyn Any + Send));
}

/// The events of a batch of any type.
pub trait Rows {
    /// How many there are.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Appends one as a JSON object; `at` is below [`Rows::len`].
    fn write_json(&self, at: usize, out: &mut Vec<u8>);
    /// Appends one field of one as JSON.
    fn write_field(&self, at: usize, field: usize, out: &mut Vec<u8>);
    /// The names of the fields.
    fn schema(&self) -> Schema;
}

impl<E: Event> Rows for Batch<E> {
    fn len(&self) -> usize {
        self.len()
    }

    fn write_json(&self, at: usize, out: &mut Vec<u8>) {
        self.columns.write_json(self.group(at, 1).row(0), out);
    }

    fn write_field(&self, at: usize, field: usize, out: &mut Vec<u8>) {
        self.columns.column(field).write_json(self.group(at, 1).row(0), out);
    }

    fn schema(&self) -> Schema {
        E::SCHEMA
    }
}

struct Typed<E>(PhantomData<fn() -> E>);

fn of<E: Event>(batch: &mut (dyn Any + Send)) -> &mut Batch<E> {
    batch.downcast_mut().expect("a batch is handled by the table of its own type")
}

fn read<E: Event>(batch: &(dyn Any + Send)) -> &Batch<E> {
    batch.downcast_ref().expect("a batch is handled by the table of its own type")
}

fn memory<E: Event>(spare: Option<AnyBatch>) -> Box<Batch<E>> {
    spare.map_or_else(Box::default, |spare| spare.downcast().expect("spares are kept by type"))
}

impl<E: Event> Batches for Typed<E> {
    fn decode(
        &self,
        spare: Option<AnyBatch>,
        rows: usize,
        has_runs: bool,
        body: &[u8],
    ) -> Result<AnyBatch, DecodeError> {
        let mut batch = memory::<E>(spare);
        batch.decode(rows, has_runs, body)?;
        Ok(batch)
    }

    fn hash<'b>(&self, batch: &'b mut (dyn Any + Send), key: &KeyFields) -> &'b [u64] {
        let batch = of::<E>(batch);
        batch.hash(key);
        &batch.hashes
    }

    fn hashes<'b>(&self, batch: &'b (dyn Any + Send)) -> &'b [u64] {
        &read::<E>(batch).hashes
    }

    fn pick(
        &self,
        spare: Option<AnyBatch>,
        batch: &(dyn Any + Send),
        rows: &[u32],
        owing: &mut Owing,
    ) -> AnyBatch {
        let mut picked = memory::<E>(spare);
        picked.extend_owed(read::<E>(batch), rows, owing);
        picked
    }

    fn runs<'b>(&self, batch: &'b dyn Any) -> &'b [Run] {
        let batch = batch.downcast_ref::<Batch<E>>();
        batch.expect("a batch is shown by the table of its own type").runs.as_slice()
    }

    fn rows_of(&self, batch: &(dyn Any + Send), root: u64) -> u64 {
        read::<E>(batch).rows_of(root)
    }

    fn retire(&self, batch: &(dyn Any + Send), owing: &mut Owing) {
        read::<E>(batch).retire(owing);
    }

    fn bytes(&self, batch: &(dyn Any + Send)) -> usize {
        let batch = read::<E>(batch);
        let keys = size_of_val(&batch.hashes[..]) + size_of_val(&batch.keys[..]);
        batch.columns.bytes() + keys + size_of::<Batch<E>>()
    }

    fn meant(&self, batch: &(dyn Any + Send)) -> Vec<u32> {
        let batch = read::<E>(batch);
        let all = || (0..).take(batch.columns.rows()).collect();
        batch.chosen().map_or_else(all, <[u32]>::to_vec)
    }

    fn narrow_to(&self, batch: &mut (dyn Any + Send), rows: &[u32], owing: &mut Owing) {
        of::<E>(batch).narrow_to(rows, owing);
    }

    fn rows<'b>(&self, batch: &'b dyn Any) -> &'b dyn Rows {
        batch.downcast_ref::<Batch<E>>().expect("a batch is shown by the table of its own type")
    }

    fn clear(&self, batch: &mut (dyn Any + Send)) {
        of::<E>(batch).clear();
    }
}
