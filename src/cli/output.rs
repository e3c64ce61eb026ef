//! Where a command's words go: data to standard output, messages to standard error.
//!
//! A reader that goes away (`starling status | head -1`) is no error, so what cannot be written is
//! dropped. Colour is for people: only on a terminal, and not where `NO_COLOR` asks for none.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

/// Prints data.
pub fn data(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Prints data as one line of JSON.
pub fn json(value: &impl serde::Serialize) {
    data(serde_json::to_string(value).expect("our reports have text as keys"));
}

/// Prints a message.
pub fn message(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Whether messages may be coloured.
pub(crate) fn is_coloured() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && io::stderr().is_terminal()
}
