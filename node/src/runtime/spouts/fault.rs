//! Lines that are no events.
//!
//! A source is not ours: some of its lines are not text, or have no end. They are given up and counted
//! one by one, and people are told where to look; but a file of a million such lines must not make a
//! million lines of log, so only every power of two is told.

use pe::{Ctx, Line, LineRef};

use super::line_decoder::Found;

/// A line that is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// Why; also the reason under which it is counted.
    pub(super) reason: &'static str,
    /// Its number, counted from 1 at `since`.
    pub(super) line: u64,
    /// The offset at which lines began to be counted: not 0 where another node had read before.
    pub(super) since: u64,
}

impl Fault {
    /// Where to look, in a source with a name.
    fn place(&self, source: &str) -> String {
        let Self { line, since, .. } = self;
        match since {
            0 => format!("{source}:{line}"),
            since => format!("{source}: line {line} after byte {since}"),
        }
    }
}

/// What a partition gave up.
#[derive(Debug, Default)]
pub(super) struct Faults(u64);

impl Faults {
    /// Emits a line, or gives it up.
    #[inline(always)]
    pub(super) fn pass(&mut self, found: Found<'_>, source: &str, ctx: &mut Ctx<'_, Line>) {
        match found {
            Found::Line(text) => ctx.emit(LineRef { text }),
            Found::Fault(fault) => self.give_up(&fault, source, ctx),
        }
    }

    #[cold]
    fn give_up(&mut self, fault: &Fault, source: &str, ctx: &mut Ctx<'_, Line>) {
        ctx.discard(fault.reason);
        self.0 += 1;
        if self.0.is_power_of_two() {
            tracing::warn!(so_far = self.0, "{}: {}", fault.place(source), fault.reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_the_line_as_well_as_it_is_known() {
        let fault = |since| Fault { reason: "not UTF-8", line: 7, since };
        assert_eq!(fault(0).place("a.txt"), "a.txt:7");
        assert_eq!(fault(900).place("a.txt"), "a.txt: line 7 after byte 900");
    }
}
