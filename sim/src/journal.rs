//! The journal of replicas on a simulated disk: what is synced outlives the process, what is being written may be
//! there in part.

use std::collections::BTreeMap;

use pe::Recovered;

use crate::Chance;

/// A journal is cleaned after so many bytes, so that it happens often.
pub(crate) const CLEAN_AFTER: u64 = 48 << 10;

/// What a process wants done with it, in order.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    /// At the end of the newest segment.
    Append(Vec<u8>),
    /// A new segment.
    Begin(u64, Vec<u8>),
    /// Segments below this one go.
    Discard(u64),
}

/// A bug that is planted in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// It says that it has what it has not.
    SkipsSync,
    /// What is not needed any more soon goes at once.
    DiscardsEarly,
}

/// The segments of a disk.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    segments: BTreeMap<u64, Vec<u8>>,
    writing: Vec<Write>,
    /// How much of each segment was synced when the process ended.
    synced: BTreeMap<u64, usize>,
    pub(crate) lie: Option<Lie>,
    /// Whether it is damaged.
    pub(crate) has_rotted: bool,
}

impl Journal {
    /// Begins to write.
    pub(crate) fn write(&mut self, steps: Vec<Write>) {
        self.writing.extend(steps);
    }

    /// What was being written is there.
    pub(crate) fn sync(&mut self) {
        for step in std::mem::take(&mut self.writing) {
            if self.lie != Some(Lie::SkipsSync) || !matches!(step, Write::Append(_)) {
                self.apply(step);
            }
        }
    }

    fn apply(&mut self, step: Write) {
        match step {
            Write::Append(bytes) => {
                if let Some(mut last) = self.segments.last_entry() {
                    last.get_mut().extend(bytes);
                }
            }
            Write::Begin(number, bytes) => {
                self.segments.insert(number, bytes);
                if self.lie == Some(Lie::DiscardsEarly) {
                    self.segments.retain(|known, _| *known >= number);
                }
            }
            Write::Discard(below) => self.segments.retain(|number, _| *number >= below),
        }
    }

    /// The process ends in the middle of what it does: some of that is there, the last of it torn, or full of zeros.
    pub(crate) fn crash(&mut self, chance: &mut Chance) {
        let steps = std::mem::take(&mut self.writing);
        let lens = self.segments.iter().map(|(number, bytes)| (*number, bytes.len()));
        self.synced = lens.collect();
        if self.lie == Some(Lie::SkipsSync) {
            return;
        }
        let whole = chance.below(steps.len() as u64 + 1);
        for (at, step) in (0..).zip(steps) {
            match step {
                step if at < whole => self.apply(step),
                Write::Append(bytes) if at == whole => {
                    let end = usize::try_from(chance.below(bytes.len() as u64 + 1));
                    let end = end.expect("a length is one");
                    let mut torn = bytes[..end].to_vec();
                    if chance.below(2) == 0 {
                        torn.resize(bytes.len(), 0);
                    }
                    self.apply(Write::Append(torn));
                }
                Write::Begin(number, bytes) if at == whole => {
                    let end = usize::try_from(chance.below(bytes.len() as u64 + 1));
                    let end = end.expect("a length is one");
                    self.segments.insert(number, bytes[..end].to_vec());
                }
                Write::Append(_) | Write::Begin(..) | Write::Discard(_) => break,
            }
        }
    }

    /// A bit of what is synced is another; whether there was one.
    pub(crate) fn rot(&mut self, chance: &mut Chance) -> bool {
        let all: usize = self.synced.values().sum();
        let mut at = usize::try_from(chance.below(all.max(1) as u64)).expect("a length is one");
        for (number, len) in &self.synced {
            if at >= *len {
                at -= len;
                continue;
            }
            let Some(bytes) = self.segments.get_mut(number) else { return false };
            bytes[at] ^= 1 << chance.below(8);
            self.has_rotted = true;
            return true;
        }
        false
    }

    /// What is there.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.segments.iter().map(|(number, bytes)| (*number, &bytes[..]))
    }

    /// It is gone on with.
    pub(crate) fn go_on(&mut self, recovered: &Recovered) {
        let Recovered { first, segment, len, .. } = *recovered;
        self.segments.retain(|number, _| (first..=segment).contains(number));
        if let Some(mut last) = self.segments.last_entry() {
            last.get_mut().truncate(usize::try_from(len).expect("a length is one"));
        }
    }

    /// It is given up.
    pub(crate) fn give_up(&mut self) {
        self.segments.clear();
        self.has_rotted = false;
    }
}
