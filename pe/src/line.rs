//! The event of the shipped text spouts.
//!
//! It is here and not beside the spouts, since the spouts need files and sockets, and a program that
//! takes lines (or a simulation that gives them) does not.

use crate as starling;
use crate::Event;

/// A line of text, without its end.
#[derive(Event, Clone, Debug)]
pub struct Line {
    /// Its letters.
    pub text: String,
}
