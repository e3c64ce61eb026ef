//! Each rule on figures made for it: on either side of its limits, and around them.

use bench::{Acks, Latency, Outcome, Traffic};

use super::super::super::report::Report;
use super::super::super::report::tests::report_of;
use super::*;

/// Three turns of each, changed by a function of who it is and of the number of the turn.
fn report(
    workload: Workload,
    all: &[Contender],
    change: impl Fn(Contender, f64, &mut Outcome),
) -> Report {
    let all: Vec<_> = all.iter().map(|&who| (who, [1.0, 1.0, 1.0])).collect();
    let mut report = report_of(workload, &all);
    for series in &mut report.series {
        for (turn, outcome) in (0u8..).zip(&mut series.turns) {
            change(series.contender, turn.into(), outcome);
        }
    }
    report
}

/// Evidence of an engine that has all.
fn evidence(reports: &[Report]) -> Evidence<'_> {
    Evidence { acks_refused: None, groupings_missing: Vec::new(), ..Evidence::new(reports) }
}

/// Counters whose keys take so many bytes, with a tenth more in each turn.
fn counters(actor: f64, keyed: f64, bolt: f64) -> Report {
    report(Workload::Counters, &[KEYED, BOLT, ACTOR], |who, turn, outcome| {
        let all = [(ACTOR, actor), (KEYED, keyed), (BOLT, bolt)];
        let (_, bytes) = all.iter().find(|(one, _)| *one == who).unwrap();
        outcome.bytes_per_key = Some(bytes * (1.0 + turn / 10.0));
    })
}

#[track_caller]
fn is(finding: &Finding, word: Word, part: &str) {
    assert_eq!(finding.word, word, "{finding:?}");
    assert!(finding.why.contains(part), "{part} is not in {finding:?}");
}

#[test]
fn c1_is_decided_by_bytes_and_by_speed() {
    let of = |reports: &[Report]| objects_per_key_cost_memory(&evidence(reports));
    is(&of(&[counters(1_000.0, 34.0, 30.0)]), Word::FixedHere, "the actor 33.33 times");
    is(&of(&[counters(1_000.0, 500.0, 30.0)]), Word::Holds, "the keyed PE 16.67 times");
    is(&of(&[counters(31.0, 30.0, 30.0)]), Word::Refuted, "the actor 1.03 times");
    is(&of(&[counters(1_000.0, 90.0, 30.0)]), Word::Open, "too close to call");
    is(&of(&[]), Word::Open, "needs counters under keyed, bolt and actor");
    let speed = |share: f64| {
        report(Workload::KeyedCount, &[KEYED, BOLT], |who, _, outcome| {
            outcome.seconds = if who == BOLT { share } else { 1.0 };
        })
    };
    let cheap = counters(1_000.0, 34.0, 30.0);
    is(&of(&[cheap.clone(), speed(0.9)]), Word::FixedHere, "runs 0.90 times");
    is(&of(&[cheap, speed(0.1)]), Word::Holds, "runs 0.10 times");
}

#[test]
fn a_limit_within_the_interval_is_too_close_to_call() {
    let mut wide = counters(1_000.0, 34.0, 30.0);
    wide.series[0].turns[1].bytes_per_key = Some(200.0);
    let finding = objects_per_key_cost_memory(&evidence(std::slice::from_ref(&wide)));
    is(&finding, Word::Open, "too close to call");
}

#[test]
fn too_few_turns_decide_nothing() {
    let mut few = counters(1_000.0, 34.0, 30.0);
    few.series.iter_mut().for_each(|series| series.turns.truncate(2));
    let finding = objects_per_key_cost_memory(&evidence(std::slice::from_ref(&few)));
    is(&finding, Word::Open, "3 turns or more");
}

#[test]
fn c4_holds_when_all_can_be_planned() {
    is(&groupings_are_there(&evidence(&[])), Word::Holds, "7 of 7");
    let some = Evidence { groupings_missing: vec!["all", "none"], ..evidence(&[]) };
    is(
        &groupings_are_there(&some),
        Word::Open,
        "5 of 7 groupings can be planned; this version refuses all, none",
    );
}

#[test]
fn c5_is_decided_by_words_and_messages() {
    let of = |words: f64, messages: u64, answer: u64| {
        let report = report(Workload::TopWords, &[KEYED, BOLT], |who, _, outcome| {
            let is_bolt = who == BOLT;
            outcome.answer = answer;
            outcome.traffic = Some(Traffic {
                messages: if is_bolt { messages } else { 42_000_000 },
                dropped: 0,
                keys_per_instance: Some(if is_bolt { words } else { 1.0 }),
                busiest: Some(1.25),
            });
        });
        count_pes_have_one_word(&evidence(&[report]))
    };
    is(&of(50_000.0, 42_000_000, 42), Word::Holds, "a count bolt 50 000; 2.10 and 2.10 messages");
    is(&of(2.0, 42_000_000, 42), Word::Refuted, "a count bolt 2;");
    is(&of(50_000.0, 63_000_000, 42), Word::Open, "2.10 and 3.15 messages");
    is(&of(50_000.0, 42_000_000, 43), Word::Open, "a result is wrong");
}

fn acked(workload: Workload, ledger: f64, replays: u64) -> Report {
    report(workload, &[KEYED, KEYED_ACKED], |who, _, outcome| {
        outcome.acks = who.acks.map(|_| Acks {
            trees: 9,
            replays,
            ack_bytes_per_tree: Some(16.0),
            ledger_bytes_per_tree: Some(ledger),
        });
    })
}

#[test]
fn c8_is_decided_by_the_bytes_of_all_workloads() {
    let of = |one, other| {
        let reports = [acked(Workload::KeyedCount, one, 0), acked(Workload::WordCount, other, 0)];
        a_tree_costs_16_bytes(&evidence(&reports))
    };
    is(&of(16.0, 24.0), Word::Holds, "16.0 to 24.0 bytes of ledger, and acks 16.0 to 16.0");
    is(&of(70.0, 80.0), Word::Refuted, "70.0 to 80.0");
    is(&of(16.0, 160.0), Word::Refuted, "16.0 to 160.0");
    is(&of(30.0, 40.0), Word::Open, "too close");
    is(&a_tree_costs_16_bytes(&evidence(&[])), Word::Open, "needs a run with --acks 1");
}

#[test]
fn what_needs_acks_is_open_while_they_are_refused() {
    let refused = || Evidence { acks_refused: Some("no such key".to_owned()), ..evidence(&[]) };
    for rule in [
        a_tree_costs_16_bytes,
        replays_count_twice,
        acks_cost_throughput,
        back_pressure_is_no_failure,
    ] {
        is(&rule(&refused()), Word::Open, "refuses acks: no such key");
        assert_eq!(rule(&evidence(&[])).word, Word::Open);
    }
}

#[test]
fn c10_is_decided_by_the_slowest_workload() {
    // Twenty million events by two threads.
    let of = |seconds: f64| {
        let all = [(Workload::KeyedCount, 0.1), (Workload::WordCount, seconds)];
        let reports = all.map(|(workload, seconds)| {
            report(workload, &[KEYED], |_, turn, outcome| {
                outcome.seconds = seconds + turn / 1e9;
            })
        });
        a_million_a_node_is_good(&evidence(&reports))
    };
    is(&of(2.0), Word::FixedHere, "5 000 000 records/s a core at the slowest workload, word-count");
    is(&of(100.0), Word::Holds, "100 000 records/s");
    is(&of(10_000.0), Word::Refuted, "1 000 records/s");
    is(&of(10.0), Word::Open, "too close");
    is(&of(300.0), Word::Open, "too close");
}

#[test]
fn c11_is_decided_by_what_acks_cost() {
    let of = |seconds: f64| {
        let all = [KEYED, KEYED_ACKED];
        let report = report(Workload::WordCount, &all, |who, turn, outcome| {
            outcome.seconds = if who == KEYED { 1.0 } else { seconds + turn / 1_000.0 };
        });
        acks_cost_throughput(&evidence(&[report]))
    };
    is(&of(1.05), Word::FixedHere, "cost 4.9 %");
    is(&of(1.17), Word::Holds, "cost 14.6 %");
    is(&of(2.0), Word::Refuted, "cost 50.0 %");
    is(&of(1.111), Word::Open, "too close to call: acks for every event cost 10.1 %");
}

#[test]
fn c12_is_decided_by_the_99th_percentile() {
    let of = |p99: f64| {
        let report = report(Workload::OpenLoop, &[KEYED], |_, turn, outcome| {
            let (p50, p999, max) = (20.0, p99 * 2.0, p99 * 3.0);
            outcome.latency = Some(Latency { p50, p99: p99 + turn, p999, max });
        });
        streaming_answers_fast(&evidence(&[report]))
    };
    is(
        &of(4_000.0),
        Word::Holds,
        "p50 20 µs, p99 4 001 µs (from 4 000 to 4 002 µs), p99.9 8 000 µs",
    );
    is(&of(2e6), Word::Refuted, "p99 2 000 001 µs");
    is(&of(400_000.0), Word::Open, "too close");
}

#[test]
fn c13_is_decided_by_replays() {
    let of = |replays| {
        back_pressure_is_no_failure(&evidence(&[acked(Workload::StalledSink, 16.0, replays)]))
    };
    is(&of(0), Word::FixedHere, "0 replays");
    is(&of(2), Word::Holds, "6 replays");
    let elsewhere = [acked(Workload::WordCount, 16.0, 2)];
    is(&back_pressure_is_no_failure(&evidence(&elsewhere)), Word::Open, "needs stalled-sink");
}

#[test]
fn c7_says_what_was_dropped() {
    let report = report(Workload::KeyedCount, &[KEYED], |_, _, outcome| {
        let dropped = 1;
        outcome.traffic = Some(Traffic { messages: 1_000, dropped, ..Traffic::default() });
    });
    let finding = losses_are_not_known(&evidence(&[report]));
    is(&finding, Word::Open, "of 3 000 messages 3 are counted");
}
