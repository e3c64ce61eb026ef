//! What an event is to the engine: a type with a borrowed form, columns, and named fields.
//!
//! An event is never passed as an owned struct. Whoever emits it lends its fields, a batch copies them
//! into columns, and whoever receives it borrows them from there: a word costs a copy of its letters
//! and no allocation. The owned struct is the place where the fields are declared.

use std::fmt::Debug;

use crate::{Column, DecodeError, Packed, Schema};

/// One datum of an application. Derive it: `#[derive(Event)]`.
///
/// The derive makes `NameRef<'a>` (the event with its fields borrowed; without the lifetime if nothing
/// borrows) and `NameColumns`. It takes structs with named fields of integers up to 64 bits, `f32`,
/// `f64`, `bool`, `String`, `Vec<u8>`, `Option` of these, and any other serde type under
/// `#[event(encoded)]`.
///
/// ```
/// # use routing as starling;
/// use pe_derive::Event;
/// use routing::{Encoded, Event as _};
///
/// #[derive(Event)]
/// struct Reading {
///     sensor: String,
///     celsius: Option<f64>,
///     #[event(encoded)]
///     tags: Vec<String>,
/// }
///
/// let tags = vec!["cellar".to_owned()];
/// let reading = ReadingRef { sensor: "a", celsius: None, tags: Encoded::Value(&tags) };
/// assert_eq!(reading.sensor, "a");
/// assert_eq!(Reading::SCHEMA.field("celsius"), Some(1));
/// ```
///
/// An enum would be several events, and a stream carries one:
///
/// ```compile_fail
/// # use routing as starling;
/// #[derive(pe_derive::Event)]
/// enum Either { Word, Line }
/// ```
///
/// Fields have names, since config uses them as keys, and there is at least one:
///
/// ```compile_fail
/// # use routing as starling;
/// #[derive(pe_derive::Event)]
/// struct Word(String);
/// ```
///
/// ```compile_fail
/// # use routing as starling;
/// #[derive(pe_derive::Event)]
/// struct Tick {}
/// ```
///
/// The owned type is declared; the derive makes the borrowed one:
///
/// ```compile_fail
/// # use routing as starling;
/// #[derive(pe_derive::Event)]
/// struct Word { text: &'static str }
/// ```
///
/// ```compile_fail
/// # use routing as starling;
/// #[derive(pe_derive::Event)]
/// struct Word<'a> { text: std::borrow::Cow<'a, str> }
/// ```
///
/// Any other serde type says that it travels encoded:
///
/// ```compile_fail
/// # use routing as starling;
/// #[derive(pe_derive::Event)]
/// struct Tags { tags: Vec<String> }
/// ```
pub trait Event: Sized + Send + 'static {
    /// The event with its fields borrowed.
    type Ref<'a>: EventRef<'a, Event = Self>;
    /// The columns of a batch of such events.
    type Columns: Columns<Event = Self>;
    /// Its name and fields.
    const SCHEMA: Schema;
}

/// The way back from a borrowed form to its event: it lets `emit(CountRef { .. })` infer the type.
pub trait EventRef<'a>: Copy {
    /// The event that this borrows.
    type Event: Event<Ref<'a> = Self>;
}

/// A column for each field, all of the same length.
pub trait Columns: Debug + Default + Send + 'static {
    /// The event whose fields these are.
    type Event: Event<Columns = Self>;
    /// Copies an event to the end.
    fn push(&mut self, event: <Self::Event as Event>::Ref<'_>);
    /// A field packed as the only one of a key; `None` if its keys are better packed by column.
    fn pack_one(event: <Self::Event as Event>::Ref<'_>, field: usize) -> Option<Packed>;
    /// As [`Columns::push`], where [`Columns::pack_one`] has packed a field.
    fn push_packed(&mut self, event: <Self::Event as Event>::Ref<'_>, field: usize, key: Packed);
    /// Borrows the event of a row.
    fn get(&self, row: usize) -> <Self::Event as Event>::Ref<'_>;
    /// Copies chosen rows of another batch to the end, column by column.
    fn extend_rows(&mut self, from: &Self, rows: &[u32]);
    /// How many rows there are.
    fn rows(&self) -> usize;
    /// Forgets the rows and keeps the memory.
    fn clear(&mut self);
    /// Forgets the rows from `rows` on; with fewer rows than that, what is not in every column.
    ///
    /// A panic between two columns of a `push` leaves them unequal, and this makes them equal again.
    fn truncate(&mut self, rows: usize);
    /// Bytes of data, as they would be encoded.
    fn bytes(&self) -> usize;
    /// Whether some column is so large that the batch should be closed whatever its rows.
    fn is_heavy(&self) -> bool;
    /// A column by the position of its field in the schema.
    fn column(&self, field: usize) -> &dyn Column;
    /// Appends all columns as they go over the wire.
    fn encode(&self, out: &mut Vec<u8>);
    /// Replaces the rows by `rows` rows read from the wire; leaves `input` behind what it read.
    ///
    /// On an error the columns are empty. Memory taken is bounded by the length of `input`.
    fn decode(&mut self, rows: usize, input: &mut &[u8]) -> Result<(), DecodeError>;
    /// Appends a row as a JSON object.
    fn write_json(&self, row: usize, out: &mut Vec<u8>) {
        out.push(b'{');
        for (field, schema) in Self::Event::SCHEMA.fields.iter().enumerate() {
            if field > 0 {
                out.push(b',');
            }
            out.push(b'"');
            out.extend_from_slice(schema.name.as_bytes());
            out.extend_from_slice(b"\":");
            self.column(field).write_json(row, out);
        }
        out.push(b'}');
    }
}
