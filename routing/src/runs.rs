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

/// Events of one tree, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The tree, or zero for none.
    pub root: u64,
    /// The id under which they are owed, all together.
    pub edge: u64,
    /// How many rows of the batch come before the end of the run, of those that are meant.
    pub end: u32,
}

/// The runs of a batch, in the order of its rows. A batch of a topology without acks has none; else each row
/// that is meant is in one.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    list: Vec<Run>,
}

impl Runs {
    /// Bytes of a run on the wire.
    const LEN: usize = 20;

    /// The runs.
    pub fn as_slice(&self) -> &[Run] {
        &self.list
    }

    /// Whether nobody is told of the events.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }

    /// Takes one more event of a tree in, as row `end - 1`; gives the id that is owed from now on, or zero if
    /// nothing new is.
    #[inline(always)]
    pub(crate) fn push(&mut self, root: u64, end: u32, ids: &mut EdgeIds) -> u64 {
        match self.list.last_mut() {
            Some(last) if last.root == root => {
                last.end = end;
                0
            }
            _ => self.begin(root, end, ids),
        }
    }

    #[inline(never)]
    fn begin(&mut self, root: u64, end: u32, ids: &mut EdgeIds) -> u64 {
        let edge = if root == 0 { 0 } else { ids.draw() };
        self.list.push(Run { root, edge, end });
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
        if from.list.is_empty() {
            return;
        }
        let mut at = 0;
        for (end, position) in (first + 1..).zip(positions) {
            while from.list[at].end <= position {
                at += 1;
            }
            let root = from.list[at].root;
            let edges = self.push(root, end, &mut owing.ids);
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
        while let [.., last] = &self.list[..] {
            let (last, before) = (*last, self.list.len().checked_sub(2));
            let begins = before.map_or(0, |before| self.list[before].end);
            self.list.pop();
            if begins < rows {
                return self.list.push(Run { end: last.end.min(rows), ..last });
            }
            if last.root != 0 {
                owing.acks.push(Ack { root: last.root, edges: last.edge });
            }
        }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let count = u32::try_from(self.list.len()).expect("at most one a row");
        out.extend_from_slice(&count.to_le_bytes());
        for run in &self.list {
            out.extend_from_slice(&run.root.to_le_bytes());
            out.extend_from_slice(&run.edge.to_le_bytes());
            out.extend_from_slice(&run.end.to_le_bytes());
        }
    }

    /// Reads the runs of a batch of so many rows; `None` if these are not such.
    pub(crate) fn decode(&mut self, rows: u32, input: &mut &[u8]) -> Option<()> {
        self.list.clear();
        let (count, rest) = input.split_first_chunk::<4>()?;
        let count = u32::from_le_bytes(*count);
        if count > rows {
            return None;
        }
        let (runs, rest) = rest.split_at_checked(count as usize * Self::LEN)?;
        let mut before = 0;
        for run in runs.chunks_exact(Self::LEN) {
            let word = |at: usize| u64::from_le_bytes(run[at..at + 8].try_into().expect("eight"));
            let end = u32::from_le_bytes(run[16..].try_into().expect("four of twenty are left"));
            if end <= before {
                return None;
            }
            before = end;
            self.list.push(Run { root: word(0), edge: word(8), end });
        }
        *input = rest;
        (before == rows).then_some(())
    }
}
