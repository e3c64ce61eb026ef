//! The rules: from figures to verdicts.
//!
//! Each is named after what is claimed and says in its first line what makes it hold. Rules of things that no
//! run of this version shows are here as well, and say so: whoever makes such a run has one place to
//! go on.

use bench::engine::STORM_GROUPINGS;
use bench::{Model, Workload};
use starling::cli::grouped;

use super::super::contender::Contender;
use super::super::figures::{RATE, figure};
use super::super::statistics::{Estimate, Side};
use super::limits::{
    ACCEPTABLE_NODE, ACKS_CHEAP, ACKS_DEAR, CHEAP, COSTLY, FREE, GOOD_NODE, LEDGER_BYTES,
    LEDGER_BYTES_WRONG, LEDGER_GROWTH, MANY_WORDS, NO_LOSS, NODE_CORES, SAME_MESSAGES, SECONDS,
    TENS_OF_MILLISECONDS, TURNS_MIN,
};
use super::{Evidence, Finding, Word};

const KEYED: Contender = Contender::plain(Model::Keyed);
const BOLT: Contender = Contender::plain(Model::Bolt);
const ACTOR: Contender = Contender::plain(Model::Actor);
const KEYED_ACKED: Contender = Contender { model: Model::Keyed, acks: Some(1) };

/// C1 holds if an instance costs much more than an entry of a bolt, as an actor does; it is fixed here if an actor
/// does and an instance does not, in memory and in speed.
pub(super) fn objects_per_key_cost_memory(evidence: &Evidence<'_>) -> Finding {
    let bytes = |one| evidence.times(Workload::Counters, "bytes_per_key", one, BOLT);
    let (Some(actor), Some(keyed)) = (bytes(ACTOR), bytes(KEYED)) else {
        return Finding::open(needs("counters under keyed, bolt and actor"));
    };
    let absolute = [ACTOR, KEYED, BOLT].map(|who| {
        let found = evidence.estimate(Workload::Counters, "bytes_per_key", who);
        found.map_or(0.0, |found| found.median)
    });
    let speed = evidence.times(Workload::KeyedCount, RATE, KEYED, BOLT);
    let [of_actor, of_keyed, of_bolt] = absolute;
    let why = format!(
        "a key takes {of_actor:.0} bytes as an actor, {of_keyed:.0} as a keyed PE, {of_bolt:.0} in a bolt: the \
         actor {} as many as the bolt, the keyed PE {}{}",
        times(&actor),
        times(&keyed),
        speed.map_or_else(String::new, |speed| format!(
            "; keyed-count runs {} as fast as bolts",
            times(&speed)
        ))
    );
    let is_slow = speed.map_or(Side::Above, |speed| speed.side(NO_LOSS)) == Side::Below;
    match (actor.side(COSTLY), keyed.side(CHEAP)) {
        _ if actor.side(FREE) == Side::Below => Finding::new(Word::Refuted, why),
        _ if keyed.side(COSTLY) == Side::Above => Finding::new(Word::Holds, why),
        (Side::Above, _) if is_slow => Finding::new(Word::Holds, why),
        (Side::Above, Side::Below)
            if speed.is_none_or(|speed| speed.side(NO_LOSS) == Side::Above) =>
        {
            Finding::new(Word::FixedHere, why)
        }
        _ => Finding::too_close(&why),
    }
}

pub(super) fn objects_per_key_criterion() -> String {
    format!(
        "fixed here: an actor takes more than {COSTLY} times the bytes of a bolt's entry, a keyed PE less than \
         {CHEAP}, at more than {NO_LOSS} of its speed; holds: a keyed PE takes more than {COSTLY} times or is \
         slower; refuted: an actor takes less than {FREE} times"
    )
}

/// C2 has no run: nothing fills a budget of memory.
pub(super) fn the_application_flushes(_: &Evidence<'_>) -> Finding {
    Finding::open("no workload fills a memory budget yet")
}

/// C3 has no run: nothing changes parallelism while a topology runs.
pub(super) fn parallelism_is_code(_: &Evidence<'_>) -> Finding {
    Finding::open("no run changes parallelism while events flow yet")
}

/// C4 holds if the planner takes all groupings of Storm.
pub(super) fn groupings_are_there(evidence: &Evidence<'_>) -> Finding {
    let missing = &evidence.groupings_missing;
    let (all, there) = (STORM_GROUPINGS.len(), STORM_GROUPINGS.len() - missing.len());
    if missing.is_empty() {
        return Finding::new(Word::Holds, format!("{there} of {all} groupings can be planned"));
    }
    let missing = missing.join(", ");
    Finding::open(format!(
        "{there} of {all} groupings can be planned; this version refuses {missing}"
    ))
}

pub(super) fn groupings_criterion() -> String {
    format!("holds: a topology with each of {} can be planned", STORM_GROUPINGS.join(", "))
}

/// C5 holds if both shapes come to the right words, one with a word an instance and one with many, by as many
/// messages.
pub(super) fn count_pes_have_one_word(evidence: &Evidence<'_>) -> Finding {
    let of = |figure, who| evidence.estimate(Workload::TopWords, figure, who);
    let both = |figure| Some((of(figure, KEYED)?, of(figure, BOLT)?));
    let (Some(words), Some(messages)) = (both("keys_per_instance"), both("messages_per_event"))
    else {
        return Finding::open(needs("top-words under keyed and bolt"));
    };
    let skew = both("busiest").map_or_else(String::new, |(keyed, bolt)| {
        let (keyed, bolt) = (keyed.median, bolt.median);
        format!("; the busiest container has {keyed:.2} and {bolt:.2} times its share")
    });
    let why = format!(
        "a count PE has {:.0} word, a count bolt {}; {:.2} and {:.2} messages a word read{skew}",
        words.0.median,
        whole(words.1.median),
        messages.0.median,
        messages.1.median
    );
    let is_right = |who| evidence.is_right(Workload::TopWords, who) == Some(true);
    if !is_right(KEYED) || !is_right(BOLT) {
        return Finding::open(format!("a result is wrong: {why}"));
    }
    let more = messages.1.median / messages.0.median;
    match (words.0.side(1.5), words.1.side(MANY_WORDS)) {
        (Side::Below, Side::Above) if (more - 1.0).abs() <= SAME_MESSAGES => {
            Finding::new(Word::Holds, why)
        }
        (Side::Above, _) | (_, Side::Below) => Finding::new(Word::Refuted, why),
        _ => Finding::too_close(&why),
    }
}

pub(super) fn count_pes_criterion() -> String {
    format!(
        "holds: both shapes are right, a count PE has one word, a count bolt more than {MANY_WORDS}, and their \
         messages differ by no more than {:.0} %; refuted: the shapes have other numbers of words",
        SAME_MESSAGES * 100.0
    )
}

/// C6 has no run: no node is killed here.
pub(super) fn there_is_no_master(_: &Evidence<'_>) -> Finding {
    Finding::open("no run of this command kills a node yet")
}

/// C7 is open: without a fault nothing is dropped, which shows nothing.
pub(super) fn losses_are_not_known(evidence: &Evidence<'_>) -> Finding {
    let add = |(dropped, all), turn: bench::Traffic| (dropped + turn.dropped, all + turn.messages);
    match evidence.traffic().fold((0, 0), add) {
        (_, 0) => Finding::open(needs("a run of the engine")),
        (dropped, all) => Finding::open(format!(
            "no fault is injected yet; of {} messages {} are counted as dropped or in doubt",
            grouped(all),
            grouped(dropped)
        )),
    }
}

/// C8 holds if ledgers take about 16 bytes a tree under all workloads with an ack for every event, refuted if they
/// take many more or grow with the tree.
pub(super) fn a_tree_costs_16_bytes(evidence: &Evidence<'_>) -> Finding {
    if let Some(refusal) = &evidence.acks_refused {
        return refused(refusal);
    }
    let each = evidence.acks().filter(|(_, who, _)| who.acks == Some(1));
    let each = each
        .filter_map(|(_, _, acks)| Some((acks.ledger_bytes_per_tree?, acks.ack_bytes_per_tree?)));
    let (ledgers, acks): (Vec<f64>, Vec<f64>) = each.unzip();
    let range = |all: &[f64]| {
        let low = all.iter().copied().reduce(f64::min)?;
        Some((low, all.iter().copied().reduce(f64::max)?))
    };
    let (Some((low, high)), Some((fewest, most))) = (range(&ledgers), range(&acks)) else {
        return Finding::open(needs("a run with --acks 1"));
    };
    let why = format!(
        "a pending tree takes {low:.1} to {high:.1} bytes of ledger, and acks {fewest:.1} to {most:.1} bytes a tree"
    );
    if low > LEDGER_BYTES_WRONG || high > low.max(LEDGER_BYTES) * LEDGER_GROWTH {
        Finding::new(Word::Refuted, why)
    } else if high <= LEDGER_BYTES {
        Finding::new(Word::Holds, why)
    } else {
        Finding::too_close(&why)
    }
}

pub(super) fn tree_criterion() -> String {
    format!(
        "holds: no ledger takes more than {LEDGER_BYTES} bytes a pending tree; refuted: all take more than \
         {LEDGER_BYTES_WRONG}, or some {LEDGER_GROWTH} times as many as others and more than that"
    )
}

/// C9 has no run: events count twice after faults, and there are none.
pub(super) fn replays_count_twice(evidence: &Evidence<'_>) -> Finding {
    evidence.acks_refused.as_ref().map_or_else(
        || Finding::open("no fault is injected yet, so nothing counts twice"),
        |refusal| refused(refusal),
    )
}

/// C10 is fixed here if one core does what is good for a node of 24, holds if it does a 24th of it.
pub(super) fn a_million_a_node_is_good(evidence: &Evidence<'_>) -> Finding {
    let per_core = |&workload: &Workload| {
        let threads = evidence.threads(workload)? as f64;
        let rate = evidence.estimate(workload, RATE, KEYED)?;
        Some((workload, rate.map(|rate| rate / threads)))
    };
    let counting = [
        Workload::KeyedCount,
        Workload::WordCount,
        Workload::TopWords,
        Workload::ClickThrough,
        Workload::HotKey,
    ];
    let all = counting.iter().filter_map(per_core);
    let slowest = all.min_by(|(_, one), (_, other)| one.median.total_cmp(&other.median));
    let Some((workload, rate)) = slowest else {
        return Finding::open(needs(
            "keyed-count, word-count, top-words or click-through under keyed",
        ));
    };
    let why = format!(
        "{} records/s a core at the slowest workload, {} (from {} to {}): {:.1} times what is good for a node of \
         {NODE_CORES} cores",
        whole(rate.median),
        super::super::name(&workload),
        whole(rate.interval.low),
        whole(rate.interval.high),
        rate.median / GOOD_NODE
    );
    if rate.side(GOOD_NODE) == Side::Above {
        Finding::new(Word::FixedHere, why)
    } else if rate.side(ACCEPTABLE_NODE / NODE_CORES) == Side::Below {
        Finding::new(Word::Refuted, why)
    } else if rate.side(GOOD_NODE / NODE_CORES) == Side::Above
        && rate.side(GOOD_NODE) == Side::Below
    {
        Finding::new(Word::Holds, why)
    } else {
        Finding::too_close(&why)
    }
}

pub(super) fn million_criterion() -> String {
    let (good, acceptable) = (GOOD_NODE / NODE_CORES, ACCEPTABLE_NODE / NODE_CORES);
    format!(
        "of the slowest counting workload: fixed here: one core does {} records/s, what is good for a node; holds: \
         at least {}; refuted: less than {}",
        whole(GOOD_NODE),
        whole(good),
        whole(acceptable)
    )
}

/// C11 is fixed here if acks for each event cost less than is claimed, holds if about as much, refuted if more.
pub(super) fn acks_cost_throughput(evidence: &Evidence<'_>) -> Finding {
    if let Some(refusal) = &evidence.acks_refused {
        return refused(refusal);
    }
    let Some(speed) = evidence.times(Workload::WordCount, RATE, KEYED_ACKED, KEYED) else {
        return Finding::open(needs("word-count under keyed with --acks off,1"));
    };
    let cost = speed.map(|speed| 1.0 - speed);
    let percent = |share: f64| format!("{:.1}", share * 100.0);
    let why = format!(
        "acks for every event cost {} % of word-count's speed (from {} to {} %); durable state is not there yet",
        percent(cost.median),
        percent(cost.interval.low),
        percent(cost.interval.high)
    );
    match (cost.side(ACKS_CHEAP), cost.side(ACKS_DEAR)) {
        (Side::Below, _) => Finding::new(Word::FixedHere, why),
        (Side::Above, Side::Below) => Finding::new(Word::Holds, why),
        (_, Side::Above) => Finding::new(Word::Refuted, why),
        _ => Finding::too_close(&why),
    }
}

pub(super) fn acks_criterion() -> String {
    format!(
        "fixed here: acks cost less than {:.0} % of the speed of word-count; holds: up to {:.0} %; refuted: more",
        ACKS_CHEAP * 100.0,
        ACKS_DEAR * 100.0
    )
}

/// C12 holds if 99 of 100 events arrive within tens of milliseconds, refuted if some need seconds.
pub(super) fn streaming_answers_fast(evidence: &Evidence<'_>) -> Finding {
    let of = |name| evidence.estimate(Workload::OpenLoop, name, KEYED);
    let late = ["latency_p50_us", "latency_p99_us", "latency_p999_us"].map(of);
    let [Some(p50), Some(p99), Some(p999)] = late else {
        return Finding::open(needs("open-loop under keyed"));
    };
    let shown = |estimate: &Estimate| figure("latency_p99_us").show_with_unit(estimate.median);
    let why = format!(
        "p50 {}, p99 {} (from {} to {} µs), p99.9 {}: p99 is {:.0} times below 100 ms; there is no micro-batch \
         model here",
        shown(&p50),
        shown(&p99),
        whole(p99.interval.low),
        whole(p99.interval.high),
        shown(&p999),
        TENS_OF_MILLISECONDS / p99.median.max(1.0)
    );
    if p99.side(TENS_OF_MILLISECONDS) == Side::Below {
        Finding::new(Word::Holds, why)
    } else if p99.side(SECONDS) == Side::Above {
        Finding::new(Word::Refuted, why)
    } else {
        Finding::too_close(&why)
    }
}

pub(super) fn streaming_criterion() -> String {
    let ms = |us: f64| us / 1_000.0;
    format!(
        "holds: p99 of open-loop is below {} ms; refuted: it is above {} ms",
        ms(TENS_OF_MILLISECONDS),
        ms(SECONDS)
    )
}

/// C13 is fixed here if a sink that takes nothing makes no replays, holds if it does.
pub(super) fn back_pressure_is_no_failure(evidence: &Evidence<'_>) -> Finding {
    if let Some(refusal) = &evidence.acks_refused {
        return refused(refusal);
    }
    let stalled = evidence.acks().filter(|(workload, ..)| *workload == Workload::StalledSink);
    let Some(replays) = stalled.map(|(_, _, acks)| acks.replays).reduce(|a, b| a + b) else {
        return Finding::open(needs("stalled-sink with --acks 1"));
    };
    let why = format!("{} replays behind a sink that takes nothing", grouped(replays));
    Finding::new(if replays == 0 { Word::FixedHere } else { Word::Holds }, why)
}

pub(super) fn back_pressure_criterion() -> String {
    "fixed here: no event is replayed behind a sink that takes nothing; holds: some are".to_owned()
}

/// C14 has no run: nothing is killed here.
pub(super) fn recovery_does_no_harm(_: &Evidence<'_>) -> Finding {
    Finding::open("no run of this command kills a node yet")
}

/// C15 has no run: state is in memory.
pub(super) fn state_beyond_memory_works(_: &Evidence<'_>) -> Finding {
    Finding::open("no workload has more state than memory yet")
}

/// There is no rule because there is no run.
pub(super) fn nothing_yet() -> String {
    "no run shows this yet".to_owned()
}

fn needs(what: &str) -> String {
    format!("needs {what}, {TURNS_MIN} turns or more")
}

fn refused(refusal: &str) -> Finding {
    Finding::open(format!("this version of the engine refuses acks: {refusal}"))
}

fn times(estimate: &Estimate) -> String {
    let (low, high) = (estimate.interval.low, estimate.interval.high);
    format!("{:.2} times (from {low:.2} to {high:.2})", estimate.median)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no figure is negative"
)]
fn whole(value: f64) -> String {
    grouped(value.round() as u64)
}

#[cfg(test)]
mod tests;
