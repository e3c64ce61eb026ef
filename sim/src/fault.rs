//! What goes wrong in a run, and when: a list that follows from the seed before the run begins, so that it
//! can be made shorter.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::Chance;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultKind {
    /// A process ends without a word, and is started again from its disk.
    Crash,
    /// A process ends, and its machine comes back with a blank disk.
    Wipe,
    /// A machine does nothing for a while.
    Pause,
    /// A machine does not reach another for a while; perhaps both ways.
    Cut,
    /// Machines are on several sides that do not reach each other.
    Partition,
    /// Control messages are lost.
    Loss,
    /// Control messages come twice.
    Duplicate,
    /// Control messages overtake each other.
    Reorder,
    /// The connection of a data link breaks, and what was under way on it is lost.
    Link,
    /// Another machine joins.
    Join,
    /// A machine leaves for good.
    Leave,
    /// A disk takes long to sync.
    SlowDisk,
    /// All processes end at once, and are started again one after the other. This and what follows is for replicas on disk.
    Blackout,
    /// A process ends, and a bit of what its machine has of replicas is another when it is started again.
    Rot,
    /// A disk has no room.
    FullDisk,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Crash,
        Self::Wipe,
        Self::Pause,
        Self::Cut,
        Self::Partition,
        Self::Loss,
        Self::Duplicate,
        Self::Reorder,
        Self::Link,
        Self::Join,
        Self::Leave,
        Self::SlowDisk,
        Self::Blackout,
        Self::Rot,
        Self::FullDisk,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crash => "crash",
            Self::Wipe => "wipe",
            Self::Pause => "pause",
            Self::Cut => "cut",
            Self::Partition => "partition",
            Self::Loss => "loss",
            Self::Duplicate => "duplicate",
            Self::Reorder => "reorder",
            Self::Link => "link",
            Self::Join => "join",
            Self::Leave => "leave",
            Self::SlowDisk => "slow-disk",
            Self::Blackout => "blackout",
            Self::Rot => "rot",
            Self::FullDisk => "full-disk",
        }
    }

    /// Whether it is for clusters with replicas on disk: in others it takes what nothing brings back, or nothing.
    pub fn needs_disks(self) -> bool {
        matches!(self, Self::Blackout | Self::Rot | Self::FullDisk)
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for FaultKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|kind| kind.name()).collect();
            format!("there are {}", names.join(", "))
        })
    }
}

/// A fault at its time. Machines are counted in the order in which they start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// When, from the start of the run.
    pub at: Duration,
    /// How long it lasts; of a crash, how long the machine is down.
    pub lasts: Duration,
    /// What it is.
    pub deed: Deed,
}

/// What a fault does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A machine crashes; the others notice that its connections close, or do not.
    Crash(usize, bool),
    /// A machine loses its disk.
    Wipe(usize),
    /// A machine stands still.
    Pause(usize),
    /// From one machine to another, and perhaps back.
    Cut(usize, usize, bool),
    /// The side of each machine.
    Partition(Vec<u8>),
    /// Of a hundred messages.
    Loss(u64),
    /// Of a hundred messages.
    Duplicate(u64),
    /// Of a hundred messages.
    Reorder(u64),
    /// The data link from one machine to another.
    Link(usize, usize),
    /// Another machine joins.
    Join,
    /// A machine leaves.
    Leave(usize),
    /// A sync takes so much longer on a machine.
    SlowDisk(usize, Duration),
    /// All machines crash.
    Blackout,
    /// A machine crashes, and its disk has a bit that is another.
    Rot(usize),
    /// A machine's disk has no room.
    FullDisk(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (at, lasts) = (self.at.as_secs_f64(), self.lasts.as_secs_f64());
        write!(f, "{at:>9.3} s  ")?;
        match &self.deed {
            Deed::Crash(machine, is_quiet) => {
                let how = if *is_quiet { " unseen" } else { "" };
                write!(f, "crash n{machine}{how}, back after {lasts:.3} s")
            }
            Deed::Wipe(machine) => write!(f, "wipe n{machine}, back after {lasts:.3} s"),
            Deed::Pause(machine) => write!(f, "pause n{machine} for {lasts:.3} s"),
            Deed::Cut(from, to, is_both) => {
                let way = if *is_both { "<->" } else { "->" };
                write!(f, "cut n{from} {way} n{to} for {lasts:.3} s")
            }
            Deed::Partition(sides) => write!(f, "partition {sides:?} for {lasts:.3} s"),
            Deed::Loss(percent) => write!(f, "loss {percent} % for {lasts:.3} s"),
            Deed::Duplicate(percent) => write!(f, "duplicate {percent} % for {lasts:.3} s"),
            Deed::Reorder(percent) => write!(f, "reorder {percent} % for {lasts:.3} s"),
            Deed::Link(from, to) => write!(f, "link n{from} -> n{to} breaks"),
            Deed::Join => f.write_str("join"),
            Deed::Leave(machine) => write!(f, "leave n{machine}"),
            Deed::SlowDisk(machine, by) => {
                write!(f, "slow-disk n{machine} by {} ms for {lasts:.3} s", by.as_millis())
            }
            Deed::Blackout => write!(f, "blackout, back after {lasts:.3} s"),
            Deed::Rot(machine) => write!(f, "rot n{machine}, back after {lasts:.3} s"),
            Deed::FullDisk(machine) => write!(f, "full-disk n{machine} for {lasts:.3} s"),
        }
    }
}

/// When the first fault may come, and the last, in milliseconds.
const SPAN: (u64, u64) = (5_000, 56_000);

/// How many faults there are, the first crash not counted.
const COUNT: (u64, u64) = (5, 14);

/// The faults of a seed among so many machines, in order of time.
pub(crate) fn script(seed: u64, machines: usize, kinds: &[FaultKind]) -> Vec<Fault> {
    let mut chance = Chance::for_purpose(seed, 1);
    let count = COUNT.0 + chance.below(COUNT.1 - COUNT.0);
    let mut faults = Vec::new();
    if kinds.contains(&FaultKind::Crash) {
        faults.push(fault(&mut chance, machines, FaultKind::Crash));
    }
    for _ in 0..if kinds.is_empty() { 0 } else { count } {
        let kind = kinds[pick(&mut chance, kinds.len())];
        faults.push(fault(&mut chance, machines, kind));
    }
    faults.sort_by_key(|fault| fault.at);
    faults
}

fn pick(chance: &mut Chance, count: usize) -> usize {
    usize::try_from(chance.below(count as u64)).expect("an index is one")
}

fn fault(chance: &mut Chance, machines: usize, kind: FaultKind) -> Fault {
    let at = chance.between(SPAN.0, SPAN.1);
    let one = pick(chance, machines);
    let other = (one + 1 + pick(chance, machines.max(2) - 1)) % machines.max(2);
    let for_long = chance.percent(20);
    let (deed, lasts) = match kind {
        FaultKind::Crash => (Deed::Crash(one, chance.percent(50)), chance.between(50, 9_000)),
        FaultKind::Wipe => (Deed::Wipe(one), chance.between(50, 9_000)),
        FaultKind::Pause => {
            let most = if for_long { 60_000 } else { 9_000 };
            (Deed::Pause(one), chance.between(100, most))
        }
        FaultKind::Cut => (Deed::Cut(one, other, chance.percent(50)), chance.between(100, 15_000)),
        FaultKind::Partition => {
            let sides = 2 + chance.below(2);
            let side = |_| u8::try_from(chance.below(sides)).expect("there are few sides");
            let sides = (0..machines).map(side).collect();
            (Deed::Partition(sides), chance.between(200, 15_000))
        }
        FaultKind::Loss => (Deed::Loss(1 + chance.below(30)), chance.between(500, 10_000)),
        FaultKind::Duplicate => {
            (Deed::Duplicate(1 + chance.below(50)), chance.between(500, 10_000))
        }
        FaultKind::Reorder => (Deed::Reorder(1 + chance.below(50)), chance.between(500, 10_000)),
        FaultKind::Link => (Deed::Link(one, other), Duration::ZERO),
        FaultKind::Join => (Deed::Join, Duration::ZERO),
        FaultKind::Leave => (Deed::Leave(one), Duration::ZERO),
        FaultKind::SlowDisk => {
            let by = chance.between(5, 800);
            (Deed::SlowDisk(one, by), chance.between(500, 20_000))
        }
        FaultKind::Blackout => (Deed::Blackout, chance.between(50, 5_000)),
        FaultKind::Rot => (Deed::Rot(one), chance.between(50, 9_000)),
        FaultKind::FullDisk => (Deed::FullDisk(one), chance.between(500, 10_000)),
    };
    Fault { at, lasts, deed }
}
