//! Spouts that emit what is in memory already.

use std::ops::Range;
use std::sync::Arc;

use pe::{
    Ctx, Event, Line, LineRef, Next, Opening, Param, Params, PartitionName, Position, Spout,
    SpoutError,
};

use super::ledger;
use crate::data::{self, Data, WORDS_PER_LINE};

/// Events that a poll emits: two full batches. Other partitions and PEs wait meanwhile.
pub(super) const POLL: usize = 2_048;

/// Lines that a poll emits: about as many words.
const POLL_LINES: usize = 200;

/// The parameter that all of them have.
pub(super) const PARTS: Param =
    Param::integer("parts", "in how many parts the data is read").between(1, 4_096).default(1);

/// A number.
#[derive(Event)]
pub(super) struct Number {
    pub(super) n: u64,
}

/// The names of the parts of the data.
pub(super) fn parts(params: &Params) -> Vec<PartitionName> {
    (0..params.integer("parts")).map(|part| PartitionName::new(part.to_string())).collect()
}

/// Which part a partition is, and of how many.
pub(super) fn part(opening: &Opening<'_>) -> Result<(usize, usize), SpoutError> {
    let name = opening.name.as_str();
    let part = name.parse().map_err(|_| SpoutError::new(format!("{name} is no part")))?;
    let parts = usize::try_from(opening.params.integer("parts"));
    Ok((part, parts.expect("a small number")))
}

/// The events of a share that are behind a position.
pub(super) fn behind(share: Range<usize>, position: Position) -> Range<usize> {
    let offset = usize::try_from(position.offset).unwrap_or(usize::MAX);
    share.start.saturating_add(offset).min(share.end)..share.end
}

/// A spout for data of another kind: the topology and the workload do not go together.
pub(super) fn other_data() -> SpoutError {
    SpoutError::new("the data of this workload is of another kind")
}

/// A part of the numbers of a workload.
#[derive(Debug)]
pub(super) struct Numbers {
    numbers: Arc<Vec<u64>>,
    share: Range<usize>,
    left: Range<usize>,
    plays: u64,
    /// What comes behind the last number.
    after: After,
}

/// What a spout does when it has emitted its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// It is exhausted, and the topology ends.
    End,
    /// It has nothing more, and the topology does not end.
    Idle,
    /// It emits the same again.
    Again,
}

impl Spout for Numbers {
    type Out = Number;
    const PARAMS: &'static [Param] = &[
        PARTS,
        Param::text("after", "what comes behind the last number: end, idle or again")
            .default("end"),
    ];

    fn partitions(params: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        Ok(parts(params))
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let Data::Numbers(numbers) = ledger::data() else { return Err(other_data()) };
        let (part, parts) = part(&opening)?;
        let share = data::share(numbers.len(), part, parts);
        let after = match opening.params.text("after") {
            "idle" => After::Idle,
            "again" => After::Again,
            _ => After::End,
        };
        let left = behind(share.clone(), opening.position);
        let plays = opening.position.plays;
        Ok(Self { numbers: Arc::clone(numbers), share, left, plays, after })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Number>) -> Result<Next, SpoutError> {
        ledger::begin(ctx.now());
        let end = self.left.end.min(self.left.start + POLL);
        let now = &self.numbers[self.left.start..end];
        for &n in now {
            ctx.emit(NumberRef { n });
        }
        ledger::read(now.len(), size_of_val(now));
        self.left.start = end;
        Ok(match self.after {
            _ if !self.left.is_empty() => Next::More,
            After::End => Next::Exhausted,
            After::Again if !self.share.is_empty() => {
                self.left = self.share.clone();
                self.plays += 1;
                Next::More
            }
            After::Again | After::Idle => Next::Idle,
        })
    }

    fn position(&self) -> Position {
        Position { offset: (self.left.start - self.share.start) as u64, plays: self.plays }
    }
}

/// A part of the lines of a text.
#[derive(Debug)]
pub(super) struct Lines {
    text: Arc<String>,
    start: usize,
    left: Range<usize>,
}

impl Spout for Lines {
    type Out = Line;
    const PARAMS: &'static [Param] = &[PARTS];

    fn partitions(params: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        Ok(parts(params))
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let Data::Text(text) = ledger::data() else { return Err(other_data()) };
        let (part, parts) = part(&opening)?;
        let share = data::part(text, part, parts);
        let (start, left) = (share.start, behind(share, opening.position));
        Ok(Self { text: Arc::clone(text), start, left })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Line>) -> Result<Next, SpoutError> {
        ledger::begin(ctx.now());
        let text = &self.text[self.left.clone()];
        let (mut at, mut lines) = (0, 0);
        for end in memchr::memchr_iter(b'\n', text.as_bytes()).take(POLL_LINES) {
            ctx.emit(LineRef { text: &text[at..end] });
            at = end + 1;
            lines += 1;
        }
        ledger::read(lines * WORDS_PER_LINE, at);
        self.left.start += at;
        Ok(if self.left.is_empty() { Next::Exhausted } else { Next::More })
    }

    fn position(&self) -> Position {
        Position { offset: (self.left.start - self.start) as u64, plays: 0 }
    }
}
