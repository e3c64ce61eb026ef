//! Which trees the events of a batch belong to, and what is owed to whom once they are handled.
//!
//! Storm draws a random id for each event and XORs it into the ledger of its tree twice: when the event is
//! emitted and when it has been handled. What makes that cheap here is that events lie in batches: events
//! of one tree that lie one behind the other share an id, and are acked together. Such a *run* takes one
//! id and one ack, whether it is one word or all words of a line. While a batch is open a run may grow: the
//! id is owed until the whole run has been handled, so whoever adds to it need announce nothing.
//!
//! When a batch is taken apart, each part of a run gets an id of its own. All parts are announced *before*
//! the id of the whole is acked, in one list that keeps its order up to the ledger; so the ledger cannot
//! find zero in between, whoever is faster.

/// What is said of a tree: 16 bytes, whatever its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// The tree; see [`Root`].
    pub root: u64,
    /// Edge ids that were made or done with, `XORed`.
    pub edges: u64,
}

impl Ack {
    /// Bytes of an ack on the wire.
    pub const LEN: usize = 16;

    /// Appends it as it goes on the wire.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.root.to_le_bytes());
        out.extend_from_slice(&self.edges.to_le_bytes());
    }

    /// Reads what [`Ack::write`] wrote; `None` if there are too few or too many bytes for whole acks.
    pub fn read_all(bytes: &[u8]) -> Option<impl Iterator<Item = Self> + '_> {
        let (acks, rest) = bytes.as_chunks::<{ Self::LEN }>();
        let word = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("half of sixteen"));
        rest.is_empty().then(|| {
            acks.iter().map(move |ack| Self { root: word(&ack[..8]), edges: word(&ack[8..]) })
        })
    }
}

/// The name of a tree, and of where its ledger is; zero is no tree.
///
/// From the top: 16 bits for the member of the view, by the number that the view gave it; 10 for its
/// container; one that says whether it is a joint; 37 for the tree, which begin anew after so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Root {
    /// The number of the member, above zero.
    pub member: u16,
    /// Its container.
    pub container: u16,
    /// Which of the trees of that container.
    pub sequence: u64,
}

impl Root {
    /// The most containers of a node of which trees can be named.
    pub const CONTAINERS_MAX: u16 = 1 << 10;
    /// Sequence numbers are counted modulo this.
    pub const SEQUENCES: u64 = 1 << 37;
    /// Above these bits it is said where the ledger is.
    pub const OWNER_SHIFT: u32 = 38;
    /// The bit of a joint: a tree within trees, planted by whoever joins them.
    pub const JOINT: u64 = 1 << 37;

    /// All of it in one number.
    #[inline(always)]
    pub fn pack(self) -> u64 {
        let owner = u64::from(self.member) << 10 | u64::from(self.container);
        owner << Self::OWNER_SHIFT | self.sequence
    }

    /// The parts of a number.
    #[inline(always)]
    pub fn unpack(root: u64) -> Self {
        let low = |bits: u64| u16::try_from(bits & 0xffff).expect("masked");
        Self {
            member: low(root >> 48),
            container: low(root >> Self::OWNER_SHIFT & u64::from(Self::CONTAINERS_MAX - 1)),
            sequence: root & (Self::SEQUENCES - 1),
        }
    }
}

/// Random edge ids: a counter, mixed (wyrand). Drawn anew for each attempt, so what was said of a former one
/// never cancels anything out.
#[derive(Clone, Debug, Default)]
pub struct EdgeIds(u64);

impl EdgeIds {
    /// Ids of one producer; the seed keeps producers apart.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The next id.
    #[inline(always)]
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x2d35_8dcc_aa6c_78a5);
        let product = u128::from(self.0) * u128::from(self.0 ^ 0x8bb8_4b93_962e_acc9);
        // Both halves of the product, each whole.
        #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
        let folded = product as u64 ^ (product >> 64) as u64;
        folded
    }
}

/// Where the ids of a producer come from, and what it has to say to ledgers. What it says stays in order.
#[derive(Clone, Debug, Default)]
pub struct Owing {
    /// Whence ids.
    pub ids: EdgeIds,
    /// What is to be said.
    pub acks: Vec<Ack>,
}

impl Owing {
    /// That of one producer; the seed keeps producers apart.
    pub fn new(seed: u64) -> Self {
        Self { ids: EdgeIds::new(seed), acks: Vec::new() }
    }
}

/// Events of one tree, one behind the other: up to where the next run begins, or the batch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The tree, or zero for none.
    pub root: u64,
    /// The id under which they are owed, all together.
    pub edge: u64,
    /// How many rows of the batch come before it, of those that are meant.
    pub begin: u32,
}

/// The runs of a batch, in the order of its rows. Rows before the first are of no tree; a batch of a topology
/// without acks has none.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    list: Vec<Run>,
    /// The tree of the last.
    tail: u64,
}

impl Runs {
    /// Bytes of a run on the wire.
    const LEN: usize = 20;

    /// The runs of a batch of so many rows as it came; none if the bytes do not begin with such.
    pub fn of_wire(rows: u32, mut body: &[u8]) -> Option<Self> {
        let mut runs = Self::default();
        runs.decode(rows, &mut body)?;
        Some(runs)
    }

    /// How many of so many rows are of a tree.
    pub fn rows_of(&self, root: u64, rows: u32) -> u64 {
        let ends = self.list.iter().skip(1).map(|run| run.begin).chain([rows]);
        let of = self.list.iter().zip(ends).filter(|(run, _)| run.root == root);
        of.map(|(run, end)| u64::from(end - run.begin)).sum()
    }

    /// The runs.
    pub fn as_slice(&self) -> &[Run] {
        &self.list
    }

    /// Whether all events are of no tree.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.tail = 0;
    }

    /// Takes an event of a tree in, as this row; gives the id that is owed from now on, or zero if nothing new is.
    #[inline(always)]
    pub(crate) fn push(&mut self, root: u64, row: impl FnOnce() -> u32, ids: &mut EdgeIds) -> u64 {
        if self.tail == root { 0 } else { self.begin(root, row(), ids) }
    }

    #[inline(never)]
    fn begin(&mut self, root: u64, begin: u32, ids: &mut EdgeIds) -> u64 {
        let edge = if root == 0 { 0 } else { ids.draw() };
        self.list.push(Run { root, edge, begin });
        self.tail = root;
        edge
    }

    /// Takes copies of the runs of another batch in, as far as they are at some of its positions, which
    /// ascend; the first becomes row `first` here. What is owed for them is announced.
    pub(crate) fn pick(
        &mut self,
        from: &Self,
        positions: impl Iterator<Item = u32>,
        first: u32,
        owing: &mut Owing,
    ) {
        if from.list.is_empty() && self.list.is_empty() {
            return;
        }
        let (mut next, mut root) = (0, 0);
        for (row, position) in (first..).zip(positions) {
            while let Some(run) = from.list.get(next).filter(|run| run.begin <= position) {
                (next, root) = (next + 1, run.root);
            }
            let edges = self.push(root, || row, &mut owing.ids);
            if edges != 0 {
                owing.acks.push(Ack { root, edges });
            }
        }
    }

    /// Says that the runs are done with, since all parts of them have been announced.
    pub(crate) fn retire(&self, owing: &mut Owing) {
        let of_trees = self.list.iter().filter(|run| run.root != 0);
        owing.acks.extend(of_trees.map(|run| Ack { root: run.root, edges: run.edge }));
    }

    /// Forgets what is behind the first `rows` rows; a run of which nothing is left is done with.
    pub(crate) fn truncate(&mut self, rows: u32, owing: &mut Owing) {
        while let Some(last) = self.list.pop_if(|last| last.begin >= rows) {
            if last.root != 0 {
                owing.acks.push(Ack { root: last.root, edges: last.edge });
            }
        }
        self.tail = self.list.last().map_or(0, |last| last.root);
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.list.len()).expect("at most one a row");
        out.extend_from_slice(&count.to_le_bytes());
        for run in &self.list {
            out.extend_from_slice(&run.root.to_le_bytes());
            out.extend_from_slice(&run.edge.to_le_bytes());
            out.extend_from_slice(&run.begin.to_le_bytes());
        }
    }

    /// Reads the runs of a batch of so many rows; `None` if these are not such.
    pub(crate) fn decode(&mut self, rows: u32, input: &mut &[u8]) -> Option<()> {
        self.clear();
        let (count, rest) = input.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count);
        if count > rows {
            return None;
        }
        let (runs, rest) = rest.split_at_checked(count as usize * Self::LEN)?;
        let mut least = 0;
        for run in runs.chunks_exact(Self::LEN) {
            let word = |at: usize| u64::from_le_bytes(run[at..at + 8].try_into().expect("eight"));
            let begin = u32::from_le_bytes(run[16..].try_into().expect("four of twenty are left"));
            if begin < least || begin >= rows {
                return None;
            }
            (least, self.tail) = (begin + 1, word(0));
            self.list.push(Run { root: word(0), edge: word(8), begin });
        }
        *input = rest;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a ledger makes of acks.
    fn owed(acks: &[Ack], root: u64) -> u64 {
        acks.iter().filter(|ack| ack.root == root).fold(0, |sum, ack| sum ^ ack.edges)
    }

    fn roots_of(runs: &Runs, rows: u32) -> Vec<u64> {
        let mut roots = vec![0; rows as usize];
        for run in runs.as_slice() {
            roots[run.begin as usize..].fill(run.root);
        }
        roots
    }

    proptest! {
        /// Rows go to parts as chance will have it. Each is of its tree there; and what is owed is zero when all
        /// parts are done with and not before, whichever comes last.
        #[test]
        fn a_batch_that_is_taken_apart_owes_for_each_part(
            roots in prop::collection::vec(0..4_u64, 1..40),
            parts in prop::collection::vec(0..3_usize, 40),
            last in 0..3_usize,
            seed: u64,
        ) {
            let mut owing = Owing::new(seed);
            let mut whole = Runs::default();
            let mut ledger = Vec::new();
            for (row, &root) in (0..).zip(&roots) {
                let edges = whole.push(root, || row, &mut owing.ids);
                if edges != 0 {
                    ledger.push(Ack { root, edges });
                }
            }
            let rows = u32::try_from(roots.len()).unwrap();
            prop_assert_eq!(roots_of(&whole, rows), roots.clone());
            let mut parted = Vec::new();
            for part in 0..3 {
                let of: Vec<u32> = (0..rows).filter(|&row| parts[row as usize] == part).collect();
                let mut runs = Runs::default();
                runs.pick(&whole, of.iter().copied(), 0, &mut owing);
                let wanted: Vec<_> = of.iter().map(|&row| roots[row as usize]).collect();
                let count = u32::try_from(of.len()).unwrap();
                prop_assert_eq!(roots_of(&runs, count), wanted.clone());
                for root in 1..4 {
                    let rows = wanted.iter().filter(|known| **known == root).count() as u64;
                    prop_assert_eq!(runs.rows_of(root, count), rows);
                }
                let mut bytes = Vec::new();
                runs.encode(&mut bytes);
                let back = Runs::of_wire(count, &bytes);
                prop_assert_eq!(back.as_ref().map(Runs::as_slice), Some(runs.as_slice()));
                parted.push((runs, wanted));
            }
            whole.retire(&mut owing);
            ledger.append(&mut owing.acks);
            for (part, (runs, _)) in parted.iter().enumerate().filter(|(part, _)| *part != last) {
                let _ = part;
                runs.retire(&mut owing);
            }
            ledger.append(&mut owing.acks);
            for root in 1..4 {
                let is_left = parted[last].1.contains(&root);
                prop_assert_eq!(owed(&ledger, root) != 0, is_left, "tree {}", root);
            }
            parted[last].0.retire(&mut owing);
            ledger.append(&mut owing.acks);
            for root in 1..4 {
                prop_assert_eq!(owed(&ledger, root), 0);
            }
        }

        #[test]
        fn any_bytes_are_runs_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..90),
            rows in 0..9_u32,
        ) {
            if let Some(runs) = Runs::of_wire(rows, &bytes) {
                prop_assert!(runs.as_slice().iter().all(|run| run.begin < rows));
                let _ = runs.rows_of(1, rows);
            }
        }
    }

    #[test]
    fn what_is_cut_off_is_owed_no_more() {
        let mut owing = Owing::new(1);
        let mut runs = Runs::default();
        let edges: Vec<_> = [(7, 0), (7, 1), (8, 2), (8, 3)]
            .map(|(root, row)| runs.push(root, || row, &mut owing.ids))
            .into();
        assert!(edges[0] != 0 && edges[1] == 0 && edges[2] != 0 && edges[3] == 0);
        runs.truncate(3, &mut owing);
        assert_eq!(owing.acks, []);
        runs.truncate(2, &mut owing);
        assert_eq!(owing.acks, [Ack { root: 8, edges: edges[2] }]);
        // The next of the same tree is another run.
        assert_ne!(runs.push(8, || 2, &mut owing.ids), 0);
        assert_eq!(runs.rows_of(7, 3), 2);
    }

    #[test]
    fn a_root_says_where_its_ledger_is() {
        let root = Root { member: 0xfedc, container: 0x3ff, sequence: Root::SEQUENCES - 1 };
        assert_eq!(Root::unpack(root.pack()), root);
        assert_eq!(root.pack() & Root::JOINT, 0);
        assert_eq!(Root::unpack(root.pack() | Root::JOINT), root);
    }
}
