//! The event of the shipped generator.
//!
//! As with [`Line`](crate::Line), it is here and not beside its spout, so that a program which takes it
//! needs no spouts.

use crate as starling;
use crate::Event;

/// A number that was drawn.
#[derive(Event, Clone, Copy, Debug)]
pub struct Generated {
    /// Which, from 0 to below the number of different keys.
    pub key: u64,
}
