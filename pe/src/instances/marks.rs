//! Which instances were used of late, in a byte each.
//!
//! Who has too many instances gives up some that nobody uses. To know which, the last use of each would be kept in an
//! order, and each event would move something in it. A mark is enough: an event sets it, and whoever looks for one to give
//! up goes round all positions like the hand of a clock, clears marks, and takes the first that has none (Corbató, *A paging
//! experiment with the Multics system*, 1968). A new one has no mark: it is made in the gap that was left behind the hand,
//! so a scan through keys that are used once goes on their cost, and not of those that are used again (SIEVE rests on the
//! same; Zhang et al., NSDI 2024).
//!
//! How long ago an instance was used is told in looks: a walk over all, now and then, that counts how often it found an
//! instance unused.

/// Set by each use; cleared by the hand.
const USED: u8 = 1 << 7;
/// Set by each use; cleared by a look. The bits below count looks since.
const FRESH: u8 = 1 << 6;
const LOOKS: u8 = FRESH - 1;

/// The marks of instances, by position.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Without it nothing is marked.
    is_kept: bool,
    all: Vec<u8>,
    hand: usize,
}

impl Marks {
    /// Marks are kept from now on; before the first instance.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// The instance at a position is used.
    #[inline(always)]
    pub(crate) fn touch(&mut self, position: usize) {
        if self.is_kept
            && let Some(mark) = self.all.get_mut(position)
        {
            *mark = USED | FRESH;
        }
    }

    /// There is one more, behind all others.
    pub(super) fn added(&mut self) {
        if self.is_kept {
            self.all.push(FRESH);
        }
    }

    /// One was removed, and the last one has its position.
    pub(super) fn removed(&mut self, position: usize) {
        if self.is_kept {
            self.all.swap_remove(position);
        }
    }

    /// The position that the hand finds, among those that a condition holds for; none if that is so for none.
    pub(crate) fn victim(&mut self, may_go: impl Fn(usize) -> bool) -> Option<usize> {
        // Once round clears what is marked, once more finds it.
        for _ in 0..2 * self.all.len() {
            let at = if self.hand < self.all.len() { self.hand } else { 0 };
            self.hand = at + 1;
            if self.all[at] & USED != 0 {
                self.all[at] &= !USED;
            } else if may_go(at) {
                // Whoever comes into its place has a round to be used in.
                return Some(at);
            }
        }
        None
    }

    /// Looks at a position: how many looks have found it unused, one after the other.
    pub(crate) fn look(&mut self, position: usize) -> u8 {
        let mark = &mut self.all[position];
        let looks = if *mark & FRESH != 0 { 0 } else { LOOKS.min((*mark & LOOKS) + 1) };
        *mark = *mark & USED | looks;
        looks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(count: usize) -> Marks {
        let mut marks = Marks::default();
        marks.keep();
        (0..count).for_each(|_| marks.added());
        marks
    }

    #[test]
    fn what_is_used_stays_and_a_scan_gives_up_itself() {
        let mut marks = marks(100);
        // Each round the first ten are used, and a key comes that is used once.
        for _ in 0..1000 {
            (0..10).for_each(|position| marks.touch(position));
            let victim = marks.victim(|_| true).unwrap();
            assert!(victim >= 10, "{victim}");
            marks.removed(victim);
            marks.added();
        }
    }

    #[test]
    fn where_all_are_used_some_go_all_the_same_unless_they_may_not() {
        let mut marks = marks(4);
        (0..4).for_each(|position| marks.touch(position));
        assert_eq!(marks.victim(|at| at == 2), Some(2));
        assert_eq!(marks.victim(|_| false), None);
        assert_eq!(Marks::default().victim(|_| true), None);
    }

    #[test]
    fn looks_are_counted_from_the_last_use() {
        let mut marks = marks(2);
        assert_eq!([marks.look(0), marks.look(0), marks.look(0)], [0, 1, 2]);
        marks.touch(0);
        assert_eq!(marks.victim(|at| at == 0), Some(0), "the hand forgets that it was used");
        assert_eq!([marks.look(0), marks.look(0)], [0, 1], "a look does not");
        (0..200).for_each(|_| assert!(marks.look(1) <= LOOKS));
        assert_eq!(marks.look(1), LOOKS);
    }
}
