//! What a run is found guilty of.

use std::fmt;

use membership::Time;

/// An invariant that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The name of the invariant: that of the function which checks it.
    pub invariant: &'static str,
    /// When.
    pub at: Time,
    /// What was found.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, at, what } = self;
        write!(f, "{invariant} at {:.6} s: {what}", at.0.as_secs_f64())
    }
}

/// Whether something holds, with what was found if not.
pub(crate) fn holds(
    invariant: &'static str,
    at: Time,
    does: bool,
    what: impl FnOnce() -> String,
) -> Result<(), Violation> {
    if does { Ok(()) } else { Err(Violation { invariant, at, what: what() }) }
}
