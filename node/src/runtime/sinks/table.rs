//! The last row of each key, for people to look at.
//!
//! What a topology has found out is mostly small: ten words, a rate per ad. This keeps it where a
//! browser can get it, and is no store: it is on the node that has the sink, and gone with the node.

use std::sync::Arc;

use pe::{OpenSink, Param, Rows, Sink, SinkPlace, SpoutError};

use crate::runtime::tables::{Table, Tables};

/// What can be told.
pub(in crate::runtime) const PARAMS: &[Param] = &[
    Param::texts("key", "the fields that tell rows apart; without them there is only the last row")
        .optional(),
    Param::integer("max_rows", "how many rows are kept; a new key beyond is refused")
        .between(1, 1_000_000)
        .default(10_000),
];

/// Opens the sinks `table`; their tables are named like their prototypes.
pub(in crate::runtime) fn opener(tables: &Arc<Tables>) -> Arc<OpenSink> {
    let tables = Arc::clone(tables);
    Arc::new(move |place: SinkPlace<'_>| {
        let max_rows = usize::try_from(place.params.integer("max_rows"));
        Ok(Box::new(TableSink {
            name: place.name.to_owned(),
            table: tables.table(place.name),
            fields: place.params.optional_texts("key").unwrap_or_default().to_vec(),
            rows_max: max_rows.expect("declared to be between 1 and a million"),
            key: Vec::new(),
            row: Vec::new(),
        }))
    })
}

struct TableSink {
    name: String,
    table: Arc<Table>,
    /// The names of the fields of the key.
    fields: Vec<String>,
    rows_max: usize,
    /// Used again for each row, like `row`.
    key: Vec<u8>,
    row: Vec<u8>,
}

impl TableSink {
    /// Where the fields of the key are in these rows.
    fn positions(&self, rows: &dyn Rows) -> Result<Vec<usize>, SpoutError> {
        let schema = rows.schema();
        let position = |field: &String| {
            schema.field(field).ok_or_else(|| {
                let known: Vec<_> = schema.fields.iter().map(|field| field.name).collect();
                let (table, event, known) = (&self.name, schema.name, known.join(", "));
                let text =
                    format!("table {table}: no field `{field}` in {event}, which has {known}");
                SpoutError::new(text)
            })
        };
        self.fields.iter().map(position).collect()
    }
}

impl Sink for TableSink {
    fn write(&mut self, rows: &dyn Rows) -> Result<(), SpoutError> {
        let positions = self.positions(rows)?;
        let mut refused = 0u64;
        let mut table = self.table.lock();
        for at in 0..rows.len() {
            self.key.clear();
            for (place, &position) in positions.iter().enumerate() {
                if place > 0 {
                    self.key.push(b'\n');
                }
                append_key(rows, at, position, &mut self.key);
            }
            self.row.clear();
            rows.write_json(at, &mut self.row);
            refused += u64::from(table.put(&self.key, &self.row, self.rows_max).is_err());
        }
        match refused {
            0 => Ok(()),
            refused => {
                let (table, max) = (&self.name, self.rows_max);
                let text = format!("table {table} is full: {refused} rows beyond {max} or 64 MiB");
                Err(SpoutError::new(text))
            }
        }
    }
}

/// Appends a field of a key; as a key, both zeros are one.
fn append_key(rows: &dyn Rows, at: usize, field: usize, key: &mut Vec<u8>) {
    let start = key.len();
    rows.write_field(at, field, key);
    if &key[start..] == b"-0.0" {
        key.remove(start);
    }
}

#[cfg(test)]
mod tests {
    use membership::NodeId;
    use pe as starling;
    use pe::topology::{ParamValue, Params};
    use pe::{Batch, Event};
    use routing::Columns;

    use super::super::row_writer::tests::prices;
    use super::*;

    #[derive(Event)]
    struct Share {
        of: f64,
    }

    fn sink(tables: &Arc<Tables>, params: &[(&'static str, ParamValue)]) -> Box<dyn Sink> {
        let params = Params::new(PARAMS, params.iter().cloned()).unwrap();
        let (node, container, task) = (NodeId(1), 0, Some(0));
        let place =
            SinkPlace { name: "prices", params: &params, node, container, task, is_alone: true };
        opener(tables)(place).unwrap()
    }

    fn key(fields: &[&str]) -> (&'static str, ParamValue) {
        ("key", ParamValue::Texts(fields.iter().map(|&field| field.to_owned()).collect()))
    }

    /// The cents of the rows, in the order of the answer.
    fn cents(tables: &Tables) -> Vec<i64> {
        #[derive(serde::Deserialize)]
        struct Row {
            cents: i64,
        }
        let rows: Vec<Row> = serde_json::from_slice(&tables.rows("prices").unwrap()).unwrap();
        rows.into_iter().map(|row| row.cents).collect()
    }

    #[test]
    fn the_last_row_of_each_key_is_kept_in_the_order_of_keys() {
        let tables = Arc::default();
        let mut by_item = sink(&tables, &[key(&["item"])]);
        by_item.write(&prices(&[("tea", 1, None), ("cake", 2, None), ("tea", 3, None)])).unwrap();
        assert_eq!(cents(&tables), [2, 3]);

        let tables = Arc::default();
        let mut by_cents = sink(&tables, &[key(&["cents", "note"])]);
        let rows = [("a", 10, None), ("b", 9, Some("x")), ("c", 9, None), ("d", -1, None)];
        by_cents.write(&prices(&rows)).unwrap();
        assert_eq!(cents(&tables), [-1, 9, 9, 10]);
    }

    #[test]
    fn without_a_key_there_is_the_last_row() {
        for params in [&[][..], &[key(&[])]] {
            let tables = Arc::default();
            let mut sink = sink(&tables, params);
            assert_eq!(tables.names(), ["prices"]);
            assert_eq!(tables.rows("prices").unwrap(), b"[]");
            sink.write(&prices(&[("tea", 1, None), ("cake", 2, None)])).unwrap();
            assert_eq!(cents(&tables), [2]);
        }
    }

    #[test]
    fn sinks_of_one_name_share_a_table_that_outlives_them() {
        let tables = Arc::default();
        for (item, cents) in [("tea", 1), ("cake", 2)] {
            sink(&tables, &[key(&["item"])]).write(&prices(&[(item, cents, None)])).unwrap();
        }
        assert_eq!(cents(&tables), [2, 1]);
    }

    #[test]
    fn a_new_key_beyond_the_limit_is_refused_and_known_ones_go_on() {
        let tables = Arc::default();
        let mut sink = sink(&tables, &[key(&["item"]), ("max_rows", 2.into())]);
        let rows = [("a", 1, None), ("b", 2, None), ("c", 3, None), ("a", 4, None)];
        let error = sink.write(&prices(&rows)).unwrap_err().to_string();
        assert_eq!(error, "table prices is full: 1 rows beyond 2 or 64 MiB");
        assert_eq!(cents(&tables), [4, 2]);
        sink.write(&prices(&[("b", 5, None)])).unwrap();
        assert_eq!(cents(&tables), [4, 5]);
    }

    #[test]
    fn a_key_that_is_no_field_is_refused_with_the_fields_there_are() {
        let mut sink = sink(&Arc::default(), &[key(&["item", "price"])]);
        let error = sink.write(&prices(&[("a", 1, None)])).unwrap_err().to_string();
        let expected = "table prices: no field `price` in Price, which has item, cents, note";
        assert_eq!(error, expected);
    }

    #[test]
    fn both_zeros_are_one_key() {
        let tables = Arc::default();
        let mut batch = Batch::<Share>::default();
        for of in [0.0, -0.0, 1e300, f64::NAN] {
            batch.columns.push(ShareRef { of });
        }
        sink(&tables, &[key(&["of"])]).write(&batch).unwrap();
        let rows = String::from_utf8(tables.rows("prices").unwrap()).unwrap();
        assert_eq!(rows, r#"[{"of":null},{"of":-0.0},{"of":1e+300}]"#);
    }
}
