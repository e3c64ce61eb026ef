//! How a handler's work becomes acks.
//!
//! A host goes through the rows of a batch; the tracker goes through its runs beside it. When a run has been
//! handled, its id and those of all that was emitted meanwhile become one ack. So the price of an event is a
//! comparison, that of a run an ack.

use routing::{Ack, EdgeIds, Root, Run};

use super::{Anchor, Failure};

/// The number of a joint within its host; above are those of the host.
const JOINT_BITS: u32 = 27;

/// A tree that was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fail {
    pub(crate) root: u64,
    pub(crate) why: Failure,
}

impl Fail {
    /// Bytes on the wire.
    pub(crate) const LEN: usize = 9;

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.root.to_le_bytes());
        out.push(self.why.number());
    }

    /// Reads what was written; `None` if the bytes are none such.
    pub(crate) fn read_all(bytes: &[u8]) -> Option<Vec<(u64, Failure)>> {
        let (fails, rest) = bytes.as_chunks::<{ Self::LEN }>();
        if !rest.is_empty() {
            return None;
        }
        let read = |fail: &[u8; Self::LEN]| {
            let root = u64::from_le_bytes(fail[..8].try_into().expect("eight of nine"));
            Some((root, Failure::of(fail[8])?))
        };
        fails.iter().map(read).collect()
    }
}

/// What a host owes to ledgers.
#[derive(Debug)]
pub(crate) struct Tracker {
    is_on: bool,
    /// The tree of the event at hand.
    pub(crate) root: u64,
    /// Ids that were made for it.
    pub(crate) owed: u64,
    /// The run at hand among those of the batch, and behind which position it ends.
    run: usize,
    end: usize,
    /// Whether the run at hand is one that was begun.
    is_in_run: bool,
    ids: EdgeIds,
    pub(crate) acks: Vec<Ack>,
    pub(crate) fails: Vec<Fail>,
    /// What joints of this host are named by, and how many there were.
    joint: u64,
    joined: u64,
    /// Joints that were made and not taken: their names, what is owed for them, and for whom they stand.
    pub(crate) joints: Vec<(Ack, Vec<Ack>)>,
    /// Anchors that were made here and not given back here; below zero where they came with their instances.
    pub(crate) held: i64,
    /// Whether application code wants what it has come to with its replicas now.
    pub(crate) wants_checkpoint: bool,
}

impl Default for Tracker {
    fn default() -> Self {
        Self {
            is_on: false,
            root: 0,
            owed: 0,
            run: 0,
            end: usize::MAX,
            is_in_run: false,
            ids: EdgeIds::default(),
            acks: Vec::new(),
            fails: Vec::new(),
            joint: 0,
            joined: 0,
            joints: Vec::new(),
            held: 0,
            wants_checkpoint: false,
        }
    }
}

impl Tracker {
    /// From now on, what is handled is acked; the seed is that of no other producer of ids.
    pub(crate) fn turn_on(&mut self, seed: u64) {
        (self.is_on, self.ids) = (true, EdgeIds::new(seed));
    }

    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The tree of the event at hand, if anybody is told.
    #[inline(always)]
    pub(crate) fn root_of_event(&self) -> Option<u64> {
        self.is_on.then_some(self.root)
    }

    /// A batch is about to be handled.
    pub(crate) fn begin(&mut self, runs: &[Run]) {
        self.end = match runs {
            [first, ..] if self.is_on => first.begin as usize,
            _ => usize::MAX,
        };
        (self.run, self.is_in_run) = (0, false);
    }

    /// The event at a position is about to be handled, those before it have been.
    #[inline(always)]
    pub(crate) fn follow(&mut self, position: usize, runs: &[Run]) {
        if position >= self.end {
            self.turn(position, runs);
        }
    }

    #[inline(never)]
    fn turn(&mut self, position: usize, runs: &[Run]) {
        self.close(runs);
        let begin = |run: usize| runs.get(run).map_or(usize::MAX, |run| run.begin as usize);
        // Behind a run of which all events were lost to panics.
        while begin(self.run + 1) <= position {
            self.open(runs);
            self.close(runs);
        }
        self.open(runs);
        self.end = begin(self.run + 1);
    }

    fn open(&mut self, runs: &[Run]) {
        (self.root, self.owed, self.is_in_run) = (runs[self.run].root, 0, true);
    }

    fn close(&mut self, runs: &[Run]) {
        if std::mem::take(&mut self.is_in_run) {
            let Run { root, edge, .. } = runs[self.run];
            if root != 0 {
                self.acks.push(Ack { root, edges: edge ^ self.owed });
            }
            self.run += 1;
        }
    }

    /// A batch has been handled.
    pub(crate) fn finish(&mut self, runs: &[Run]) {
        if self.is_on && !runs.is_empty() {
            self.close(runs);
            // What is left was lost to panics.
            while self.run < runs.len() {
                self.open(runs);
                self.close(runs);
            }
        }
        (self.root, self.owed, self.end) = (0, 0, usize::MAX);
    }

    /// The acks of a batch are put off: what it is of is still under way.
    pub(crate) fn put_off(&mut self, runs: &[Run], put_off: &mut Vec<Ack>) {
        let before = put_off.len();
        let of_trees = runs.iter().filter(|run| run.root != 0);
        put_off.extend(of_trees.map(|run| Ack { root: run.root, edges: run.edge }));
        self.held += signed(put_off.len() - before);
    }

    /// What was put off is acked, or given up.
    pub(crate) fn settle(&mut self, put_off: &mut Vec<Ack>, is_done: bool, why: Failure) {
        self.held -= signed(put_off.len());
        if is_done {
            self.acks.append(put_off);
        } else {
            self.fails.extend(put_off.drain(..).map(|ack| Fail { root: ack.root, why }));
        }
    }

    /// All events of a batch are given up.
    pub(crate) fn fail_all(&mut self, runs: &[Run], why: Failure) {
        let of_trees = runs.iter().filter(|run| run.root != 0);
        self.fails.extend(of_trees.map(|run| Fail { root: run.root, why }));
    }

    /// The event at hand is given up.
    pub(crate) fn fail(&mut self, why: Failure) {
        if self.root != 0 {
            self.fails.push(Fail { root: self.root, why });
        }
    }

    /// The tree of the event at hand is to wait.
    pub(crate) fn hold(&mut self) -> Anchor {
        if self.root == 0 {
            return Anchor::default();
        }
        let owed = self.ids.draw();
        self.owed ^= owed;
        self.held += 1;
        Anchor { root: self.root, owed }
    }

    /// What joints of this host are named by from now on.
    pub(crate) fn name_joints(&mut self, member: u16, container: u16, host: u16) {
        let sequence = Root::JOINT | u64::from(host) << JOINT_BITS;
        self.joint = Root { member, container, sequence }.pack();
    }

    /// A tree within the trees of some anchors: each of them waits for it, too.
    pub(crate) fn join(&mut self, anchors: &mut [&mut Anchor]) -> Anchor {
        let mut parents = Vec::new();
        for anchor in anchors.iter_mut().filter(|anchor| anchor.is_tracked()) {
            let edges = self.ids.draw();
            anchor.owed ^= edges;
            parents.push(Ack { root: anchor.root, edges });
        }
        if parents.is_empty() || self.joint == 0 {
            return Anchor::default();
        }
        self.joined = (self.joined + 1) % (1 << JOINT_BITS);
        let root = self.joint | self.joined;
        let owed = self.ids.draw();
        self.joints.push((Ack { root, edges: owed }, parents));
        Anchor { root, owed }
    }

    /// A joint has all that belongs to it: what is owed for it is left to those who handle that.
    pub(crate) fn leave(&mut self, joint: Anchor) {
        if joint.is_tracked() {
            self.acks.push(Ack { root: joint.root, edges: joint.owed });
        }
    }

    /// It need not wait any longer.
    pub(crate) fn release(&mut self, anchor: Anchor) {
        if anchor.is_tracked() {
            self.acks.push(Ack { root: anchor.root, edges: anchor.owed });
            self.held -= 1;
        }
    }

    /// It is given up.
    pub(crate) fn reject(&mut self, anchor: Anchor, why: Failure) {
        if anchor.is_tracked() {
            self.fails.push(Fail { root: anchor.root, why });
            self.held -= 1;
        }
    }
}

/// A count of acks as one that may be taken away.
fn signed(count: usize) -> i64 {
    i64::try_from(count).expect("acks are in memory")
}
