//! A batch: the events of one stream for one lane, with what was worked out for all of them at once.
//!
//! Keys and their hashes are computed a column at a time. Within a node they travel with the events: the
//! hash that chose the lane chooses the bucket. From another node they are computed again, since nothing
//! that a peer says of its events is trusted. A batch is never shared, and comes back empty to where it
//! was filled, so its memory is used again.

use std::ops::Range;

use crate::column::narrow;
use crate::runs::Runs;
use crate::{Columns, DecodeError, EdgeIds, Event, Key, Owing, Packed, ROWS_MAX};

/// The fields that are the key of an edge, by position; empty for none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFields(pub Vec<usize>);

impl KeyFields {
    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Writes the canonical bytes of the key of one row.
    pub fn write<C: Columns>(&self, columns: &C, row: usize, bytes: &mut Vec<u8>) {
        bytes.clear();
        match self.0[..] {
            [field] => columns.column(field).append_alone(row, bytes),
            ref fields => {
                fields.iter().for_each(|&field| columns.column(field).append_key(row, bytes));
            }
        }
    }
}

/// Events in columns.
#[derive(Debug)]
pub struct Batch<E: Event> {
    /// The events.
    pub columns: E::Columns,
    /// The key hash of each row, if the edge has a key.
    pub hashes: Vec<u64>,
    /// The packed key of each row, unless the key is one number: then the column itself is the keys.
    pub keys: Vec<Packed>,
    /// The trees that the events belong to, if anybody is told when they are handled.
    pub runs: Runs,
    /// Memory for `runs`.
    former: Runs,
    /// The rows meant, if `is_chosen`; else all are, and this is only memory.
    chosen: Vec<u32>,
    is_chosen: bool,
    scratch: Vec<u8>,
}

impl<E: Event> Default for Batch<E> {
    fn default() -> Self {
        Self {
            columns: E::Columns::default(),
            hashes: Vec::new(),
            keys: Vec::new(),
            runs: Runs::default(),
            former: Runs::default(),
            chosen: Vec::new(),
            is_chosen: false,
            scratch: Vec::new(),
        }
    }
}

impl<E: Event> Batch<E> {
    /// Computes key and hash of every row.
    pub fn hash(&mut self, key: &KeyFields) {
        self.hashes.clear();
        self.keys.clear();
        if let [field] = key.0[..] {
            let column = self.columns.column(field);
            if let Some(numbers) = column.numbers() {
                self.hashes.extend(numbers.iter().map(|&number| number.hash()));
                return;
            }
            column.pack(&mut self.keys, &mut self.scratch);
        } else {
            let Self { columns, keys, scratch, .. } = self;
            keys.extend((0..columns.rows()).map(|row| {
                key.write(columns, row, scratch);
                Packed::new(scratch, narrow(row))
            }));
        }
        self.hashes.extend(self.keys.iter().map(|key| key.hash()));
    }

    /// Says that the last event is of a tree; gives the id that is owed from now on, or zero if nothing new is.
    #[inline(always)]
    pub(crate) fn plant(&mut self, root: u64, ids: &mut EdgeIds) -> u64 {
        let Self { runs, columns, .. } = self;
        runs.push(root, || narrow(columns.rows() - 1), ids)
    }

    /// Shows the canonical bytes of the key of every row, in order.
    pub(crate) fn each_key(&mut self, key: &KeyFields, mut each: impl FnMut(&[u8])) {
        let Self { columns, scratch, .. } = self;
        for row in 0..columns.rows() {
            key.write(columns, row, scratch);
            each(scratch);
        }
    }

    /// Copies an event to the end, with its key, which is a field of it.
    #[inline(always)]
    pub(crate) fn push(&mut self, event: E::Ref<'_>, field: usize, key: Packed, hash: u64) {
        let place = narrow(self.columns.rows());
        self.columns.push_packed(event, field, key);
        self.keys.push(if key.is_long() { key.moved(place) } else { key });
        self.hashes.push(hash);
    }

    /// Whether nothing more should be added.
    #[inline(always)]
    pub(crate) fn is_full(&self) -> bool {
        self.columns.rows() >= ROWS_MAX || self.columns.is_heavy()
    }

    /// Forgets the rows from `rows` on, and what of a row is not in every column. What nothing is left of is
    /// done with.
    pub(crate) fn truncate(&mut self, rows: usize, owing: &mut Owing) {
        self.columns.truncate(rows);
        let rows = self.columns.rows();
        self.hashes.truncate(rows);
        self.keys.truncate(rows);
        self.runs.truncate(narrow(rows), owing);
    }

    /// Copies some rows of another batch to the end, and announces what is owed for the copies.
    ///
    /// The rows ascend, and are among those that are meant.
    pub fn extend_owed(&mut self, from: &Self, rows: &[u32], owing: &mut Owing) {
        let first = narrow(self.columns.rows());
        self.runs.pick(&from.runs, positions(from.chosen(), rows), first, owing);
        self.extend_rows(from, rows);
    }

    /// Leaves some of the rows that are meant, which ascend. The others are somewhere else and have been
    /// announced, so what is owed for all of them together is done with.
    pub fn narrow_to(&mut self, rows: &[u32], owing: &mut Owing) {
        if !self.runs.is_empty() {
            std::mem::swap(&mut self.runs, &mut self.former);
            let chosen = self.is_chosen.then_some(&self.chosen[..]);
            self.runs.clear();
            self.runs.pick(&self.former, positions(chosen, rows), 0, owing);
            self.former.retire(owing);
        }
        self.choose(rows);
    }

    /// How many of the events that are meant are of a tree.
    pub fn rows_of(&self, root: u64) -> u64 {
        self.runs.rows_of(root, narrow(self.len()))
    }

    /// Gives the events new ids, since there are copies of them: whoever gets these could be done with the old ones
    /// before the copies are announced.
    pub(crate) fn renew(&mut self, owing: &mut Owing) {
        if !self.runs.is_empty() {
            std::mem::swap(&mut self.runs, &mut self.former);
            self.runs.clear();
            let rows = 0..narrow(self.columns.rows());
            self.runs.pick(&self.former, rows, 0, owing);
            self.former.retire(owing);
        }
    }

    /// Says that nothing more is owed for the events as a whole: all parts of them have been announced.
    pub fn retire(&self, owing: &mut Owing) {
        self.runs.retire(owing);
    }

    /// Reads a batch that takes all of `body`; with the trees of its rows if `has_runs`.
    ///
    /// # Errors
    /// The bytes are no such batch.
    pub fn decode(&mut self, rows: usize, has_runs: bool, body: &[u8]) -> Result<(), DecodeError> {
        let mut input = body;
        if has_runs {
            let runs = self.runs.decode(narrow(rows), &mut input);
            runs.ok_or(DecodeError::Malformed("the trees of its rows are none"))?;
        }
        self.columns.decode(rows, &mut input)?;
        if input.is_empty() { Ok(()) } else { Err(DecodeError::Trailing(input.len())) }
    }

    /// Appends the batch as [`Batch::decode`] reads it.
    pub fn encode(&self, has_runs: bool, out: &mut Vec<u8>) {
        if has_runs {
            self.runs.encode(out);
        }
        self.columns.encode(out);
    }

    /// Copies chosen rows of another batch to the end, but not what trees they belong to.
    pub(crate) fn extend_rows(&mut self, from: &Self, rows: &[u32]) {
        let first = narrow(self.columns.rows());
        self.columns.extend_rows(&from.columns, rows);
        if !from.hashes.is_empty() {
            self.hashes.extend(rows.iter().map(|&row| from.hashes[row as usize]));
        }
        if !from.keys.is_empty() {
            self.keys.extend(rows.iter().zip(first..).map(|(&row, place)| {
                let key = from.keys[row as usize];
                if key.is_long() { key.moved(place) } else { key }
            }));
        }
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        self.columns.clear();
        self.hashes.clear();
        self.keys.clear();
        self.runs.clear();
        self.is_chosen = false;
    }

    /// Says which rows are meant: what stays in the container is chosen in place and not copied.
    pub fn choose(&mut self, rows: &[u32]) {
        self.chosen.clear();
        self.chosen.extend_from_slice(rows);
        self.is_chosen = true;
    }

    /// The rows that are meant, if not all are.
    pub fn chosen(&self) -> Option<&[u32]> {
        self.is_chosen.then_some(&self.chosen)
    }

    /// How many events are meant.
    pub fn len(&self) -> usize {
        if self.is_chosen { self.chosen.len() } else { self.columns.rows() }
    }

    /// Whether no event is meant.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows that are meant, at positions `from..from + size` of them.
    #[inline(always)]
    pub fn group(&self, from: usize, size: usize) -> Group<'_> {
        let end = self.len().min(from.saturating_add(size));
        if self.is_chosen { Group::Chosen(&self.chosen[from..end]) } else { Group::Run(from..end) }
    }
}

/// Where some rows are among those that are meant.
fn positions<'r>(chosen: Option<&'r [u32]>, rows: &'r [u32]) -> impl Iterator<Item = u32> + 'r {
    let mut at = 0;
    rows.iter().map(move |&row| match chosen {
        None => row,
        Some(chosen) => {
            at += chosen[at..].iter().position(|&known| known == row).expect("it is meant");
            narrow(at)
        }
    })
}

/// Some rows of a batch.
#[derive(Clone, Debug)]
pub enum Group<'a> {
    /// All in a range.
    Run(Range<usize>),
    /// These.
    Chosen(&'a [u32]),
}

impl Group<'_> {
    /// How many.
    #[inline(always)]
    pub fn len(&self) -> usize {
        match self {
            Self::Run(range) => range.len(),
            Self::Chosen(rows) => rows.len(),
        }
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row at a position of the group.
    #[inline(always)]
    pub fn row(&self, at: usize) -> usize {
        match self {
            Self::Run(range) => range.start + at,
            Self::Chosen(rows) => rows[at] as usize,
        }
    }
}
