//! What is being done right now: for a person who waits, and for nobody else.

use std::io::{self, IsTerminal, Write};

/// A line on a terminal that changes, and goes away at the end.
#[derive(Debug)]
pub(super) struct Progress {
    is_terminal: bool,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self { is_terminal: io::stderr().is_terminal() }
    }

    /// Shows what is done now in place of what was done before.
    pub(super) fn say(&mut self, what: &str) {
        self.write(&format!("\r\x1b[K{what}"));
    }

    fn write(&mut self, text: &str) {
        if self.is_terminal {
            let _ = io::stderr().write_all(text.as_bytes());
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.write("\r\x1b[K");
    }
}
