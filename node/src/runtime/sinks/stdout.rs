//! Rows to the standard output, each as a JSON object on a line.
//!
//! Data goes there and nothing else does, so that a program can read it.

use std::io::{self, Write};
use std::sync::Arc;

use pe::{OpenSink, Param, SinkPlace};

use super::row_writer::{Format, RowWriter};

/// There is nothing to be told.
pub(in crate::runtime) const PARAMS: &[Param] = &[];

/// Opens the sinks `stdout`.
pub(in crate::runtime) fn opener() -> Arc<OpenSink> {
    Arc::new(|_: SinkPlace<'_>| {
        let place = "standard output".to_owned();
        Ok(Box::new(RowWriter::new(Stdout, place, Format::Json)))
    })
}

/// Locked for the whole of a write: the sinks of several threads must not mix their lines.
#[derive(Debug)]
struct Stdout;

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use pe::Sink;

    use super::super::row_writer::tests::prices;
    use super::*;

    #[test]
    fn a_closed_output_is_an_error_each_time() {
        let (mut read, write) = io::pipe().unwrap();
        let mut sink = RowWriter::new(write, "standard output".to_owned(), Format::Json);
        sink.write(&prices(&[("tea", 1, None)])).unwrap();
        sink.flush().unwrap();
        let mut first = [0; 8];
        read.read_exact(&mut first).unwrap();
        assert_eq!(&first, br#"{"item":"#);
        drop(read);
        for _ in 0..2 {
            sink.write(&prices(&[("tea", 1, None)])).unwrap();
            let error = sink.flush().unwrap_err().to_string();
            assert!(error.starts_with("standard output: Broken pipe"), "{error}");
        }
        let many = sink.write(&prices(&[("tea", 1, None); 9000])).unwrap_err().to_string();
        assert!(many.starts_with("standard output: Broken pipe"), "{many}");
    }
}
