//! Keys out of nothing: a load that is the same wherever and however often it runs.
//!
//! An engine is measured, and an application tried, with more events than anybody has in files. What a
//! partition emits follows from the seed, its number and how much it has emitted, and that is its
//! position; so a partition that moves goes on exactly where it stood, and two runs can be compared.
//!
//! With a rate it emits on a schedule, whatever becomes of the events ("open loop"): what it could not
//! emit while it was held back is emitted late, as fast as it can, and never left out. A generator that
//! slowed down with what it feeds would hide the delays that it is to show.

use membership::Time;
use pe::{
    Ctx, Generated, GeneratedRef, Next, Opening, Param, Params, PartitionName, Position, Spout,
    SpoutError,
};

use super::keys::{Keys, Law};
use super::schedule::Schedule;
use super::zipf::Zipf;

/// The most different keys. A key is drawn by scaling 64 random bits to their number, so that some keys
/// have one part in 2^64 / keys more than others: nothing, up to here.
const KEYS_MAX: i64 = 1 << 32;

/// The largest exponent: beyond it, there is hardly more than one key.
const EXPONENT_MAX: f64 = 10.0;

/// The largest rate: one event a nanosecond, which is what the node's time is counted in.
const RATE_MAX: i64 = 1_000_000_000;

/// The most partitions: as many as a PE may have numbered instances.
const PARTITIONS_MAX: i64 = 4096;

/// How many events a poll emits at most: two batches.
const EVENTS_PER_POLL: u64 = 2048;

/// The spout `generator`; the value is one partition.
#[derive(Debug)]
pub(crate) struct Generator {
    keys: Keys,
    /// Events emitted, by whichever node.
    offset: u64,
    /// How many there are.
    end: u64,
    /// When they are due, if not as soon as they can be. A position has no time in it, so a node that
    /// takes a partition over begins a schedule of its own.
    schedule: Option<Schedule>,
    /// The offset of the first event of the schedule.
    since: u64,
}

/// What a partition has of the whole: of all events in order, every n-th.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// Which partition.
    number: u64,
    /// Of how many.
    of: u64,
}

impl Spout for Generator {
    type Out = Generated;

    const PARAMS: &'static [Param] = &[
        Param::integer("keys", "how many different keys").between(1, KEYS_MAX).default(1_000_000),
        Param::text("distribution", "how frequent which key is")
            .one_of(&["uniform", "zipf"])
            .default("uniform"),
        Param::float("exponent", "of `zipf`: how much rarer the next key is; 1 if not given")
            .between(0.0, EXPONENT_MAX)
            .optional(),
        Param::integer("seed", "the same seed gives the same keys").default(1),
        Param::integer("events", "how many, of all partitions; for ever if not given")
            .between(1, i64::MAX)
            .optional(),
        Param::integer(
            "rate",
            "events a second, of all partitions; as fast as it can if not given",
        )
        .between(1, RATE_MAX)
        .optional(),
        Param::integer("partitions", "how many").between(1, PARTITIONS_MAX).default(4),
    ];

    fn partitions(params: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        law(params)?;
        let count = params.integer("partitions");
        Ok((0..count).map(|number| PartitionName::new(number.to_string())).collect())
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let params = opening.params;
        let share = Share::new(opening.name, params)?;
        let (offset, seed) = (opening.position.offset, params.integer("seed").cast_unsigned());
        let optional = |name| params.optional_integer(name).map(i64::unsigned_abs);
        let Share { number: first, of: stride } = share;
        Ok(Self {
            keys: Keys::new(law(params)?, seed, share.number, offset),
            offset,
            end: optional("events").map_or(u64::MAX, |events| share.of(events)),
            schedule: optional("rate").map(|rate| {
                let start = opening.now;
                Schedule { start, rate, first, stride }
            }),
            since: offset,
        })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Generated>) -> Result<Next, SpoutError> {
        let due = self.due(ctx.now());
        let count = (due - self.offset).min(EVENTS_PER_POLL);
        self.keys.give(count, |key| ctx.emit(GeneratedRef { key }));
        self.offset += count;
        Ok(match self.schedule {
            _ if self.offset == self.end => Next::Exhausted,
            Some(schedule) if self.offset == due => {
                Next::Until(schedule.time(self.offset - self.since))
            }
            _ => Next::More,
        })
    }

    fn position(&self) -> Position {
        Position { offset: self.offset, plays: 0 }
    }
}

impl Generator {
    /// The offset up to which events are due; never behind what was emitted.
    fn due(&self, now: Time) -> u64 {
        let due = self.schedule.map(|schedule| self.since.saturating_add(schedule.due(now)));
        due.unwrap_or(u64::MAX).min(self.end).max(self.offset)
    }
}

impl Share {
    fn new(name: &PartitionName, params: &Params) -> Result<Self, SpoutError> {
        let (name, of) = (name.as_str(), params.integer("partitions").unsigned_abs());
        let number = name.parse().ok().filter(|&number| number < of);
        let number = number.ok_or_else(|| SpoutError::new(format!("no partition `{name}`")))?;
        Ok(Self { number, of })
    }

    /// How many of so many events are of this partition.
    fn of(self, events: u64) -> u64 {
        events.saturating_sub(self.number).div_ceil(self.of)
    }
}

fn law(params: &Params) -> Result<Law, SpoutError> {
    let keys = params.integer("keys").unsigned_abs();
    let exponent = params.optional_float("exponent");
    match (params.text("distribution"), exponent) {
        ("zipf", exponent) => Ok(Law::Zipf(Zipf::new(keys, exponent.unwrap_or(1.0)))),
        (_, None) => Ok(Law::Uniform(keys)),
        (_, Some(_)) => {
            Err(SpoutError::new("`exponent` says something with `distribution = \"zipf\"` only"))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::probe::{self, Probe};
    use super::*;

    fn open(params: &str, partition: u64, offset: u64) -> Probe {
        let name = PartitionName::new(partition.to_string());
        Probe::open::<Generator>(params, name, Position { offset, plays: 0 })
    }

    /// All keys of a partition from an offset on.
    fn read(params: &str, partition: u64, offset: u64) -> Vec<u64> {
        let mut probe = open(params, partition, offset);
        probe.run(0.0);
        let state = probe.partition();
        assert!(state.is_exhausted && state.failure.is_none(), "{state:?}");
        let keys = probe.numbers();
        assert_eq!(state.position, Position { offset: offset + keys.len() as u64, plays: 0 });
        keys
    }

    /// The names of the partitions, or why there are none.
    fn partitions(params: &str) -> Result<Vec<String>, String> {
        let params = probe::params::<Generator>(params)?;
        let names = Generator::partitions(&params).map_err(|error| error.to_string())?;
        Ok(names.iter().map(|name| name.as_str().to_owned()).collect())
    }

    #[test]
    fn partitions_are_numbered() {
        assert_eq!(partitions("").unwrap(), ["0", "1", "2", "3"]);
        assert_eq!(partitions("partitions = 1").unwrap(), ["0"]);
        assert_eq!(partitions("partitions = 4096").unwrap().len(), 4096);
    }

    #[test]
    fn what_cannot_be_generated_is_refused() {
        for (params, refusal) in [
            ("keys = 0", "the parameter `keys` must be an integer from 1 to 4294967296, not 0"),
            (
                "keys = 4294967297",
                "the parameter `keys` must be an integer from 1 to 4294967296, not 4294967297",
            ),
            (
                "distribution = \"zpif\"",
                "the parameter `distribution` must be `uniform` or `zipf`, not `zpif`",
            ),
            (
                "distribution = \"zipf\", exponent = -1",
                "the parameter `exponent` must be a number from 0 to 10, not -1",
            ),
            (
                "distribution = \"zipf\", exponent = 10.5",
                "the parameter `exponent` must be a number from 0 to 10, not 10.5",
            ),
            ("exponent = 2", "`exponent` says something with `distribution = \"zipf\"` only"),
            ("seed = 0.5", "the parameter `seed` must be an integer, not 0.5"),
            ("events = 0", "the parameter `events` must be an integer of at least 1, not 0"),
            ("rate = 0", "the parameter `rate` must be an integer from 1 to 1000000000, not 0"),
            (
                "partitions = 5000",
                "the parameter `partitions` must be an integer from 1 to 4096, not 5000",
            ),
            ("event = 1", "unknown parameter `event`"),
        ] {
            assert_eq!(partitions(params), Err(refusal.to_owned()), "{params}");
        }
    }

    #[test]
    fn a_partition_that_there_is_not_is_no_partition() {
        for name in ["4", "-1", "x", ""] {
            let mut probe =
                Probe::open::<Generator>("", PartitionName::new(name), Position::default());
            let state = probe.partition();
            assert_eq!(state.failure, Some(format!("no partition `{name}`")));
            assert!(state.is_exhausted);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_keys_and_another_one_others() {
        for distribution in ["uniform", "zipf"] {
            let params =
                |seed| format!("distribution = \"{distribution}\", events = 20000, seed = {seed}");
            let first = read(&params(7), 1, 0);
            assert_eq!(first.len(), 5000);
            assert!(first == read(&params(7), 1, 0));
            assert!(first != read(&params(7), 2, 0), "another partition");
            assert!(first != read(&params(-7), 1, 0), "another seed");
        }
    }

    #[test]
    fn partitions_share_the_events_and_no_key_is_out_of_range() {
        let params = "keys = 10, events = 9, partitions = 4";
        let all: Vec<_> = (0..4).map(|partition| read(params, partition, 0)).collect();
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2, 2, 2]);
        assert!(all.iter().flatten().all(|&key| key < 10));
        assert_eq!(read("events = 1, partitions = 3", 2, 0), [0; 0], "fewer than partitions");
        assert_eq!(read(params, 1, 2), [0; 0], "at its end");
    }

    #[test]
    fn without_a_number_of_events_there_is_no_end() {
        let mut probe = open("keys = 5", 0, u64::MAX >> 1);
        for _ in 0..10 {
            probe.drain(0.0);
        }
        let state = probe.partition();
        assert!(!state.is_exhausted);
        let emitted = probe.numbers().len() as u64;
        assert!(emitted >= 10 * EVENTS_PER_POLL);
        assert_eq!(state.position.offset, (u64::MAX >> 1) + emitted);
    }

    #[test]
    fn a_rate_is_kept_on_a_schedule() {
        // Partition 1 of 4 has the numbers 1, 5, 9 ... of 1,000 a second.
        let mut probe = open("rate = 1000", 1, 0);
        probe.run(0.0);
        assert_eq!((probe.numbers().len(), probe.deadline()), (0, Some(0.001)));
        let mut emitted = 0;
        for millis in 1..=2000u32 {
            probe.run(f64::from(millis) / 1000.0);
            emitted += probe.numbers().len();
            assert_eq!(emitted as u64, u64::from(millis + 3) / 4, "after {millis} ms");
        }
        assert_eq!(probe.deadline(), Some(2.001));
    }

    #[test]
    fn what_was_held_back_is_emitted_late_and_not_left_out() {
        let params = "rate = 10000, partitions = 1";
        let mut probe = open(params, 0, 0);
        probe.run(0.0);
        assert_eq!(probe.numbers().len(), 1);
        probe.drain(60.0);
        let at_once = probe.numbers().len() as u64;
        assert!(at_once <= 4 * EVENTS_PER_POLL, "{at_once} events in a step keep others waiting");
        probe.run(60.0);
        assert_eq!(at_once + probe.numbers().len() as u64, 600_000);
        assert_eq!(probe.deadline(), Some(60.000_1), "and the schedule goes on");
    }

    #[test]
    fn a_partition_that_moves_begins_a_schedule_and_keeps_its_place() {
        let params = "rate = 1000, partitions = 1, keys = 1000000";
        let whole = read(&format!("events = 2000, {params}").replace("rate = 1000, ", ""), 0, 0);
        let mut probe = open(params, 0, 1500);
        probe.run(0.0);
        probe.run(0.099);
        assert_eq!(probe.numbers(), whole[1500..1600]);
    }

    #[test]
    fn the_last_event_of_a_schedule_is_the_end() {
        let mut probe = open("rate = 10, events = 3, partitions = 1", 0, 0);
        probe.run(0.1);
        assert!(!probe.partition().is_exhausted);
        probe.run(0.2);
        assert!(probe.partition().is_exhausted);
        assert_eq!(probe.numbers().len(), 3);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]

        #[test]
        fn a_partition_goes_on_exactly_where_it_was_closed(
            distribution in prop_oneof![Just("uniform"), Just("zipf")],
            seed in any::<i64>(),
            partition in 0..3u64,
            steps in 0..4usize,
            stops in prop::collection::vec(0..20_000u64, 0..3),
        ) {
            let params = format!(
                "distribution = \"{distribution}\", seed = {seed}, events = 60000, partitions = 3"
            );
            let whole = read(&params, partition, 0);
            let mut probe = open(&params, partition, 0);
            (0..steps).for_each(|_| probe.drain(0.0));
            let mut keys = probe.numbers();
            let closed = probe.close(PartitionName::new(partition.to_string()));
            if !closed.is_exhausted {
                keys.extend(read(&params, partition, closed.position.offset));
            }
            prop_assert!(whole == keys, "closed at {:?}", closed.position);
            for stop in stops {
                let rest = read(&params, partition, stop);
                prop_assert!(whole[usize::try_from(stop).unwrap()..] == rest, "from {stop}");
            }
        }
    }
}
