//! Live tables: what the `table` sinks hold, for whoever shows them.
//!
//! Sinks write from the threads of their containers and HTTP reads from its own, so the rows are
//! behind a lock that is taken per batch. A row is kept as the JSON it is shown as, and finding its
//! place costs no memory; the order that people want is made when they ask.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;

/// The most bytes of the rows of a table; their number is limited by the sink.
const TABLE_BYTES_MAX: usize = 64 << 20;

/// The tables of a node, by name.
#[derive(Debug, Default)]
pub(super) struct Tables(DashMap<String, Arc<Table>>);

impl Tables {
    /// The names of all tables, in order.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.0.iter().map(|table| table.key().clone()).collect();
        names.sort();
        names
    }

    /// The rows of a table as a JSON array, ordered by key; none if there is no such table.
    pub(super) fn rows(&self, name: &str) -> Option<Vec<u8>> {
        let table = Arc::clone(&*self.0.get(name)?);
        Some(table.lock().json())
    }

    /// The table of a name; a new one if there is none.
    pub(super) fn table(&self, name: &str) -> Arc<Table> {
        Arc::clone(&*self.0.entry(name.to_owned()).or_default())
    }
}

/// The rows of a table.
#[derive(Debug, Default)]
pub(super) struct Table(Mutex<TableRows>);

impl Table {
    pub(super) fn lock(&self) -> MutexGuard<'_, TableRows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rows as JSON, by their keys: the fields of a key as JSON, one per line.
#[derive(Debug, Default)]
pub(super) struct TableRows {
    rows: BTreeMap<Box<[u8]>, Vec<u8>>,
    /// Of keys and rows.
    bytes: usize,
}

/// A row has no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl TableRows {
    /// Sets the row of a key; changes nothing if it has no place.
    pub(super) fn put(&mut self, key: &[u8], row: &[u8], rows_max: usize) -> Result<(), Full> {
        let before = self.rows.get(key).map(|row| key.len() + row.len());
        let bytes = self.bytes - before.unwrap_or(0) + key.len() + row.len();
        if bytes > TABLE_BYTES_MAX || (before.is_none() && self.rows.len() >= rows_max) {
            return Err(Full);
        }
        match self.rows.get_mut(key) {
            Some(known) => {
                known.clear();
                known.extend_from_slice(row);
            }
            None => drop(self.rows.insert(key.into(), row.to_vec())),
        }
        self.bytes = bytes;
        Ok(())
    }

    fn json(&self) -> Vec<u8> {
        let mut rows: Vec<(Vec<Field>, &[u8])> =
            self.rows.iter().map(|(key, row)| (fields(key), &**row)).collect();
        rows.sort_by(|(one, _), (other, _)| one.cmp(other));
        let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
        [b"[", &*rows.join(&b','), b"]"].concat()
    }
}

/// A field of a key, in the order that people want: numbers by value, texts by their letters.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Field {
    Null,
    Integer(i128),
    Float(Float),
    Text(String),
    /// What has no order that anybody expects; truths among them.
    Other(Vec<u8>),
}

#[derive(Debug)]
struct Float(f64);

impl Ord for Float {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Float {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Float {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Float {}

fn fields(key: &[u8]) -> Vec<Field> {
    key.split(|&byte| byte == b'\n').map(field).collect()
}

fn field(json: &[u8]) -> Field {
    let number = || {
        let text = str::from_utf8(json).ok()?;
        let integer = || Some(Field::Integer(text.parse().ok()?));
        integer().or_else(|| Some(Field::Float(Float(text.parse().ok()?))))
    };
    let known = match json.first() {
        Some(b'n') => Some(Field::Null),
        Some(b'"') => serde_json::from_slice(json).ok().map(Field::Text),
        Some(b'-' | b'0'..=b'9') => number(),
        _ => None,
    };
    known.unwrap_or_else(|| Field::Other(json.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(keys: &[&str]) -> String {
        let mut rows = TableRows::default();
        for key in keys {
            rows.put(key.as_bytes(), key.replace('\n', ";").as_bytes(), 100).unwrap();
        }
        String::from_utf8(rows.json()).unwrap()
    }

    #[test]
    fn rows_are_ordered_by_key_and_numbers_by_value() {
        assert_eq!(
            filled(&["10", "9", "-3", "18446744073709551615"]),
            "[-3,9,10,18446744073709551615]"
        );
        assert_eq!(filled(&["1e3", "20.5", "-0.5", "null"]), "[null,-0.5,20.5,1e3]");
        assert_eq!(filled(&["\"b\"", "\"a\"", "\"\\\"\"", "null"]), r#"[null,"\"","a","b"]"#);
        assert_eq!(filled(&["true", "false"]), "[false,true]");
        let pairs = ["\"a\"\n10", "\"a\"\n9", "\"B\"\n1"];
        assert_eq!(filled(&pairs), r#"["B";1,"a";9,"a";10]"#);
        assert_eq!(filled(&[]), "[]");
    }

    #[test]
    fn a_row_takes_the_place_of_the_last_one_of_its_key() {
        let mut rows = TableRows::default();
        for row in ["first", "second", "3"] {
            rows.put(b"1", row.as_bytes(), 1).unwrap();
        }
        assert_eq!((rows.json(), rows.bytes), (b"[3]".to_vec(), 2));
        assert_eq!(rows.put(b"2", b"4", 1), Err(Full));
        assert_eq!((rows.json(), rows.bytes), (b"[3]".to_vec(), 2));
    }

    #[test]
    fn huge_rows_are_refused_before_they_fill_the_memory() {
        let (mut rows, row) = (TableRows::default(), vec![b'0'; TABLE_BYTES_MAX / 4]);
        let put = (0..9).map(|key| rows.put(&[key], &row, 100)).filter(Result::is_ok).count();
        assert_eq!(put, 3);
        assert_eq!(rows.put(&[0], &[], 100), Ok(()));
        assert_eq!(rows.put(&[7], &row, 100), Ok(()));
    }
}
