//! What the simulated cluster computes: numbered events of some keys, counted per key and per share of the
//! keys.
//!
//! It is as small as it can be and still have all that moves: partitions of a spout, keyed instances and
//! numbered ones, both with state. What it does is told to the [`Ledger`](crate::ledger::Ledger).

use std::sync::Arc;
use std::time::Duration;

use pe::topology::{Param, Plan, Topology};
use pe::{
    Ctx, Event, KeyRef, Next, On, Opening, Params, PartitionName, Pe, Position, Registry, Spout,
    SpoutError,
};
use serde::{Deserialize, Serialize};

use crate::Chance;
use crate::ledger::{self, Mode, Reader, Told};

/// How often a partition that emits nothing looks whether it is to.
const LOOK: Duration = Duration::from_millis(50);

/// How long a partition waits between two bursts, in milliseconds, and how many events are in one.
const PACE: (u64, u64) = (200, 1000);
const BURST: (u64, u64) = (4, 24);

/// An event.
#[derive(Event)]
pub(crate) struct Mark {
    /// By which it is grouped.
    pub(crate) key: u64,
    /// Who emitted it,
    pub(crate) partition: u64,
    /// and how many it had emitted before.
    pub(crate) number: u64,
}

/// Emits events of all keys, in bursts.
struct Marks {
    partition: u64,
    keys: u64,
    next: u64,
    /// Of one place and position, so that who goes on elsewhere goes on otherwise.
    chance: Chance,
    /// The last probe that was answered.
    probe: u64,
    /// Whether what was lost is read again, beside the one who reads on.
    is_again: bool,
}

impl Spout for Marks {
    type Out = Mark;
    const PARAMS: &'static [Param] = &[
        Param::integer("partitions", "how many partitions").required(),
        Param::integer("keys", "how many keys").required(),
    ];

    fn partitions(params: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        let partitions = 0..params.integer("partitions");
        Ok(partitions.map(|at| PartitionName::new(at.to_string())).collect())
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let name = opening.name.as_str();
        let partition = name.parse().map_err(|_| SpoutError::new("not a number"))?;
        let (keys, next) = (opening.params.integer("keys").unsigned_abs(), opening.position.offset);
        ledger::with(|ledger| ledger.opened(partition));
        let chance = Chance::for_purpose(next, partition + 1);
        let (probe, is_again) = (opening.position.plays, false);
        Ok(Self { partition, keys, next, chance, probe, is_again })
    }

    fn reopen(&mut self, opening: Opening<'_>) -> Result<Self, SpoutError> {
        let (partition, keys, next) = (self.partition, self.keys, opening.position.offset);
        let chance = Chance::for_purpose(next, partition + 1);
        Ok(Self { partition, keys, next, chance, probe: u64::MAX, is_again: true })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Mark>) -> Result<Next, SpoutError> {
        let now = ctx.now();
        if self.is_again {
            (0..BURST.1).for_each(|_| self.emit(None, ctx));
            return Ok(Next::More);
        }
        let has_acks = ledger::with(|ledger| ledger.has_acks).unwrap_or(false);
        let known = ledger::with(|ledger| ledger.emitted_of(self.partition)).unwrap_or(0);
        if has_acks && self.next < known {
            // What a former reader has emitted is there to be read.
            (0..BURST.1).for_each(|_| self.emit(None, ctx));
            return Ok(Next::More);
        }
        match ledger::with(|ledger| ledger.mode).unwrap_or(Mode::Load) {
            Mode::Load => {
                for _ in 0..BURST.0 + self.chance.below(BURST.1 - BURST.0) {
                    let key = (!has_acks).then(|| self.chance.below(self.keys));
                    self.emit(key, ctx);
                }
                Ok(Next::Until(now + self.chance.between(PACE.0, PACE.1)))
            }
            Mode::Probe(number) if number > self.probe => {
                self.probe = number;
                (0..self.keys).for_each(|key| self.emit((!has_acks).then_some(key), ctx));
                Ok(Next::Until(now + LOOK))
            }
            Mode::Probe(_) | Mode::Quiet => Ok(Next::Until(now + LOOK)),
        }
    }

    fn position(&self) -> Position {
        Position { offset: self.next, plays: self.probe }
    }
}

impl Marks {
    /// Without a key, that follows from the number, so that it is the same when it is read again; of as many events
    /// as there are keys, one behind the other, each has another.
    fn emit(&mut self, key: Option<u64>, ctx: &mut Ctx<'_, Mark>) {
        let (partition, number) = (self.partition, self.next);
        let turned = || {
            let turn = Chance::for_purpose(number / self.keys, partition + 1).below(self.keys);
            (number % self.keys + turn) % self.keys
        };
        let key = key.unwrap_or_else(turned);
        self.next += 1;
        ctx.emit(MarkRef { key, partition, number });
        if !self.is_again {
            ledger::with(|ledger| ledger.emitted(Told { key, partition, number }));
        }
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        if !self.is_again {
            ledger::with(|ledger| ledger.closed(self.partition));
        }
    }
}

/// Counts the events of a key.
#[derive(Default, Serialize, Deserialize)]
struct Keyed {
    count: u64,
}

impl Pe for Keyed {
    type In = Mark;
    type Out = ();
}

impl On<Mark> for Keyed {
    fn on(&mut self, mark: MarkRef, _: &mut Ctx<'_, ()>) {
        self.count += 1;
        let told = Told { key: mark.key, partition: mark.partition, number: mark.number };
        ledger::with(|ledger| ledger.applied(Reader::Keyed, told, self.count));
    }
}

/// Counts the events of a share of the keys.
#[derive(Default, Serialize, Deserialize)]
struct Numbered {
    task: u32,
    count: u64,
}

impl Pe for Numbered {
    type In = Mark;
    type Out = ();

    fn create(key: KeyRef<'_>, _: &Params) -> Self {
        Self { task: key.task().map_or(0, |(task, _)| task), count: 0 }
    }
}

impl On<Mark> for Numbered {
    fn on(&mut self, mark: MarkRef, _: &mut Ctx<'_, ()>) {
        self.count += 1;
        let told = Told { key: mark.key, partition: mark.partition, number: mark.number };
        ledger::with(|ledger| ledger.applied(Reader::Numbered(self.task), told, self.count));
    }
}

/// How much of it there is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) partitions: u32,
    pub(crate) keys: u32,
    pub(crate) tasks: u32,
    /// Whether what is lost is read again.
    pub(crate) has_acks: bool,
}

/// The program and the topology; the number of the prototype that has numbered instances.
pub(crate) fn build(size: Size) -> (Arc<Registry>, Arc<Plan>, u16) {
    let registry =
        Registry::new().spout::<Marks>("marks").pe::<Keyed>("keyed").pe::<Numbered>("numbered");
    let Size { partitions, keys, tasks, has_acks } = size;
    let delivery =
        if has_acks { "delivery = \"at-least-once\"\n        max_pending = 300" } else { "" };
    let text = format!(
        r#"
        name = "marks"
        {delivery}

        [spout.source]
        type = "marks"
        params = {{ partitions = {partitions}, keys = {keys} }}
        emits = "marks"

        [pe.keyed]
        type = "keyed"
        input = [{{ stream = "marks", key = ["key"] }}]

        [pe.numbered]
        type = "numbered"
        input = [{{ stream = "marks", key = ["key"] }}]
        parallelism = {tasks}
        "#
    );
    let topology = Topology::parse(&text).expect("the topology is well-formed");
    let plan = topology.plan(&registry.catalog()).expect("the topology fits the program");
    let numbered = plan.prototypes.iter().position(|prototype| prototype.name == "numbered");
    let numbered = u16::try_from(numbered.expect("it is in the topology")).expect("there are few");
    (Arc::new(registry), Arc::new(plan), numbered)
}
