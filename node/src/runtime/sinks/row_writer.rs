//! Rows as lines of text, gathered.
//!
//! A call to the system per row would cost more than the row; so lines are gathered and leave when
//! there are many, or when there is nothing else to do. They leave whole, in one call where the system
//! lets us, so that several sinks can write to the same place.

use std::io::{self, ErrorKind, Write};

use pe::{Rows, Sink, SpoutError};

/// How many bytes are gathered before they are written.
const GATHERED: usize = 64 << 10;

/// How a row is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A JSON object.
    Json,
    /// The fields in their order, with a tab in between. Texts are as they are, but for `\t`, `\n`,
    /// `\r` and `\\`; what is absent is empty; all else is JSON.
    Tsv,
}

/// A sink that writes lines.
#[derive(Debug)]
pub(super) struct RowWriter<W: Write> {
    out: W,
    /// The name of `out`, for people.
    place: String,
    format: Format,
    gathered: Vec<u8>,
    field: Vec<u8>,
    /// Whether the last line that was written is not whole.
    is_torn: bool,
}

impl<W: Write> RowWriter<W> {
    pub(super) fn new(out: W, place: String, format: Format) -> Self {
        Self { out, place, format, gathered: Vec::new(), field: Vec::new(), is_torn: false }
    }

    /// The same behind a line that may have no end.
    pub(super) fn behind(mut self, is_torn: bool) -> Self {
        self.is_torn = is_torn;
        self
    }

    fn gather(&mut self, rows: &dyn Rows, at: usize) {
        match self.format {
            Format::Json => rows.write_json(at, &mut self.gathered),
            Format::Tsv => {
                for field in 0..rows.schema().fields.len() {
                    if field > 0 {
                        self.gathered.push(b'\t');
                    }
                    self.field.clear();
                    rows.write_field(at, field, &mut self.field);
                    append_plain(&self.field, &mut self.gathered);
                }
            }
        }
        self.gathered.push(b'\n');
    }

    /// Writes what is gathered; what cannot be written is given up.
    fn drain(&mut self) -> Result<(), SpoutError> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        if self.is_torn {
            self.gathered.insert(0, b'\n');
        }
        let (written, outcome) = write_all(&mut self.out, &self.gathered);
        if let Some(last) = written.checked_sub(1) {
            self.is_torn = self.gathered[last] != b'\n';
        }
        self.gathered.clear();
        outcome.map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> SpoutError {
        SpoutError::new(format!("{}: {error}", self.place))
    }
}

impl<W: Write + Send> Sink for RowWriter<W> {
    fn write(&mut self, rows: &dyn Rows) -> Result<(), SpoutError> {
        let mut outcome = Ok(());
        for at in 0..rows.len() {
            self.gather(rows, at);
            if self.gathered.len() >= GATHERED {
                outcome = self.drain().and(outcome);
            }
        }
        outcome
    }

    fn flush(&mut self) -> Result<(), SpoutError> {
        self.drain()?;
        self.out.flush().map_err(|error| self.failed(&error))
    }
}

impl<W: Write> Drop for RowWriter<W> {
    /// A sink that moves to another node goes without a last word.
    fn drop(&mut self) {
        if let Err(error) = self.drain() {
            tracing::error!("the last rows are lost: {error}");
        }
    }
}

/// As `Write::write_all`, and says how much was written.
fn write_all(out: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match out.write(&bytes[written..]) {
            Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
            Ok(len) => written += len,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, Ok(()))
}

/// Appends a JSON value as a field between tabs.
fn append_plain(json: &[u8], out: &mut Vec<u8>) {
    let quoted = json.strip_prefix(b"\"").and_then(|json| json.strip_suffix(b"\""));
    match quoted {
        None if json == b"null" => {}
        None => out.extend_from_slice(json),
        Some(text) if memchr::memchr(b'\\', text).is_none() => out.extend_from_slice(text),
        Some(text) => {
            let text = serde_json::from_slice(json).unwrap_or_else(|_| into_text(text));
            for byte in text.bytes() {
                match byte {
                    b'\t' => out.extend_from_slice(b"\\t"),
                    b'\n' => out.extend_from_slice(b"\\n"),
                    b'\r' => out.extend_from_slice(b"\\r"),
                    b'\\' => out.extend_from_slice(b"\\\\"),
                    byte => out.push(byte),
                }
            }
        }
    }
}

fn into_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, Mutex};

    use pe as starling;
    use pe::{Batch, Event};
    use routing::Columns;

    use super::*;

    #[derive(Event)]
    pub(in crate::runtime) struct Price {
        pub(in crate::runtime) item: String,
        pub(in crate::runtime) cents: i64,
        pub(in crate::runtime) note: Option<String>,
    }

    /// A batch of prices.
    pub(in crate::runtime) fn prices(rows: &[(&str, i64, Option<&str>)]) -> Batch<Price> {
        let mut batch = Batch::<Price>::default();
        for &(item, cents, note) in rows {
            batch.columns.push(PriceRef { item, cents, note });
        }
        batch
    }

    /// Takes so many bytes, then none.
    #[derive(Clone, Default)]
    struct Disk {
        written: Arc<Mutex<Vec<u8>>>,
        room: Arc<Mutex<Option<usize>>>,
    }

    impl Disk {
        fn text(&self) -> String {
            String::from_utf8(self.written.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = bytes.len().min(self.room.lock().unwrap().unwrap_or(usize::MAX));
            if len == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            if let Some(room) = self.room.lock().unwrap().as_mut() {
                *room -= len;
            }
            self.written.lock().unwrap().extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn on(disk: &Disk, format: Format) -> RowWriter<Disk> {
        RowWriter::new(disk.clone(), "disk".to_owned(), format)
    }

    #[test]
    fn rows_leave_when_there_are_many_or_nothing_else_to_do() {
        let disk = Disk::default();
        let mut sink = on(&disk, Format::Json);
        sink.write(&prices(&[("tea", 120, None), ("a\tb", -1, Some("x"))])).unwrap();
        assert_eq!(disk.text(), "");
        sink.flush().unwrap();
        let (first, second) = (
            r#"{"item":"tea","cents":120,"note":null}"#,
            r#"{"item":"a\tb","cents":-1,"note":"x"}"#,
        );
        assert_eq!(disk.text(), format!("{first}\n{second}\n"));
        sink.write(&prices(&[("x", 1, None); 5000])).unwrap();
        assert!(disk.text().len() > GATHERED, "most of it is written");
        assert!(disk.text().ends_with('\n'));
        drop(sink);
        assert_eq!(disk.text().lines().count(), 5002, "and the rest when the sink goes");
    }

    #[test]
    fn tsv_keeps_each_row_on_a_line_and_each_field_in_a_column() {
        let disk = Disk::default();
        let mut sink = on(&disk, Format::Tsv);
        let rows = [("tea", 120, None), ("a\tb\nc\\d\"e\u{e4}", -1, Some("x")), ("", 0, Some(""))];
        sink.write(&prices(&rows)).unwrap();
        sink.flush().unwrap();
        assert_eq!(disk.text(), "tea\t120\t\na\\tb\\nc\\\\d\"e\u{e4}\t-1\tx\n\t0\t\n");
    }

    #[test]
    fn after_a_full_disk_the_next_row_begins_a_line() {
        let disk = Disk::default();
        let mut sink = on(&disk, Format::Tsv);
        *disk.room.lock().unwrap() = Some(5);
        sink.write(&prices(&[("a", 1, None), ("b", 2, None)])).unwrap();
        let error = sink.flush().unwrap_err();
        assert_eq!(error.to_string(), "disk: no storage space");
        assert_eq!(disk.text(), "a\t1\t\n".get(..5).unwrap());
        *disk.room.lock().unwrap() = Some(2);
        sink.write(&prices(&[("c", 3, None)])).unwrap();
        sink.flush().unwrap_err();
        *disk.room.lock().unwrap() = None;
        sink.write(&prices(&[("d", 4, None)])).unwrap();
        sink.flush().unwrap();
        assert_eq!(disk.text(), "a\t1\t\nc\t\nd\t4\t\n");
    }
}
