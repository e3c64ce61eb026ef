//! Clusters in which things go wrong, by fixed seeds, by some that nobody has seen, and with planted bugs.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use sim::{Campaign, FaultKind, Flaw, Run, Totals};

/// Fewer without optimisation, so that nobody has to wait.
const FIXED: u64 = if cfg!(debug_assertions) { 6 } else { 60 };
const RANDOM: u64 = if cfg!(debug_assertions) { 2 } else { 5 };

/// A bug has to be found within so many seeds.
const WITHIN: u64 = 200;

fn explain(run: &Run) -> String {
    let why = run.violation.as_ref().map(ToString::to_string).unwrap_or_default();
    format!("seed {}: {why}\n`starling sim --seed {} --seeds 1` shows more", run.seed, run.seed)
}

fn run_all(campaign: &Campaign, seeds: impl Iterator<Item = u64>) -> Totals {
    let mut totals = Totals::default();
    for seed in seeds {
        let run = campaign.run(seed);
        assert!(run.violation.is_none(), "{}", explain(&run));
        totals.add(&run.totals);
    }
    totals
}

/// All faults but the one that nothing can be done about: with its disk goes what a node knew of its partitions.
fn at_least_once() -> Campaign {
    let mut campaign = Campaign { has_acks: true, ..Campaign::default() };
    campaign.faults.retain(|kind| *kind != FaultKind::Wipe);
    campaign
}

/// The same with replicas on disk: all processes may end at once, disks rot and are full.
fn on_disk() -> Campaign {
    let faults = FaultKind::ALL.iter().copied().filter(|kind| *kind != FaultKind::Wipe).collect();
    Campaign { faults, is_durable: true, ..at_least_once() }
}

#[test]
fn fixed_seeds_with_all_faults_break_nothing() {
    let totals = run_all(&Campaign::default(), 1..=FIXED);
    let each = |all: u64| all / totals.seeds;
    assert!(totals.time / u32::try_from(totals.seeds).unwrap_or(1) >= Duration::from_secs(60));
    assert!(each(totals.emitted) >= 10_000, "{totals:?}");
    assert!(each(totals.crashes) >= 1 && each(totals.handoffs) >= 20, "{totals:?}");
}

/// The seeds are printed, so that a failure of today can be had again tomorrow.
#[test]
fn seeds_that_nobody_has_seen_break_nothing() {
    let first = RandomState::new().hash_one(0) >> 16;
    println!("seeds from {first}");
    run_all(&Campaign::default(), first..first + RANDOM);
}

#[test]
fn without_faults_nothing_is_lost() {
    let campaign =
        Campaign { faults: vec![FaultKind::Join, FaultKind::Leave], ..Campaign::default() };
    let totals = run_all(&campaign, 1..=FIXED / 3);
    assert_eq!(totals.crashes + totals.losses, 0, "{totals:?}");
    assert_eq!(totals.applied, 2 * totals.emitted, "{totals:?}");
}

/// Partitions wait for their disks, what was lost is read again, whatever a disk says is committed was applied, and in
/// the end nothing is missing.
#[test]
fn under_at_least_once_nothing_is_missing_in_the_end() {
    let totals = run_all(&at_least_once(), 1..=FIXED);
    assert!(totals.crashes > 0 && totals.applied > 2 * totals.emitted, "{totals:?}");
}

/// With replicas on disk nobody's state is lost, whoever ends, and all of them at once.
#[test]
fn on_disk_nothing_is_missing_and_nothing_begins_empty() {
    let totals = run_all(&on_disk(), 1..=FIXED);
    assert!(totals.crashes > 0 && totals.losses == 0, "{totals:?}");
}

/// Without a crash, nothing is read again either: a move in order waits for what is pending.
#[test]
fn under_at_least_once_a_move_in_order_reads_nothing_again() {
    let faults = vec![FaultKind::Join, FaultKind::Leave];
    let campaign = Campaign { faults, has_acks: true, ..Campaign::default() };
    let totals = run_all(&campaign, 1..=FIXED / 3);
    assert_eq!(totals.crashes + totals.losses, 0, "{totals:?}");
    assert_eq!(totals.applied, 2 * totals.emitted, "{totals:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let campaign = Campaign::default();
    let (one, again, other) = (campaign.run(3), campaign.run(3), campaign.run(4));
    assert_eq!((one.fingerprint, &one.trace), (again.fingerprint, &again.trace));
    assert_eq!(one.totals, again.totals);
    assert_ne!(one.fingerprint, other.fingerprint);
}

/// Each planted bug, the invariant that is meant to find it, and a seed not long before it does.
#[test]
fn each_planted_bug_is_found() {
    for (flaw, invariant, first) in [
        (Flaw::Fsync, "nothing_is_sent_before_it_is_on_disk", 1),
        (Flaw::Resend, "a_link_has_no_gap", 1),
        (Flaw::Fence, "the_cluster_comes_to_rest", 1),
        (Flaw::Seal, "the_cluster_comes_to_rest", 1),
        (Flaw::Stage, "state_goes_with_its_unit", 1),
        (Flaw::Order, "numbers_of_a_key_grow", 1),
        (Flaw::Quorum, "a_view_was_decided", 1),
        (Flaw::DoubleToken, "a_partition_has_one_reader", 1),
        (Flaw::AckEarly, "what_is_committed_was_applied", 1),
        (Flaw::AckTwice, "all_trees_are_complete", 7),
        (Flaw::CommitEarly, "what_is_committed_was_applied", 1),
        (Flaw::Skip, "what_is_committed_was_applied", 5),
        (Flaw::ConfirmEarly, "what_is_done_with_is_in_state", 2),
        (Flaw::HalfCopy, "what_is_done_with_is_in_state", 13),
        (Flaw::Forget, "the_cluster_comes_to_rest", 1),
        (Flaw::SkipSync, "what_is_synced_can_be_read", 1),
        (Flaw::DiscardEarly, "what_is_synced_can_be_read", 15),
    ] {
        let campaign = match flaw {
            flaw if flaw.is_of_disks() => on_disk(),
            flaw if flaw.is_of_acks() => at_least_once(),
            _ => Campaign::default(),
        };
        let campaign = Campaign { flaw: Some(flaw), ..campaign };
        let mut found = Vec::new();
        let is_found = (first..first + WITHIN).any(|seed| {
            let run = campaign.run(seed);
            found.extend(run.violation.map(|violation| violation.invariant));
            found.last() == Some(&invariant)
        });
        assert!(is_found, "{flaw}: {found:?}");
    }
}

/// A script that fails is made shorter, and fails as before.
#[test]
fn a_failing_run_is_shrunk() {
    let (faults, flaw) = (vec![FaultKind::Link], Some(Flaw::Resend));
    let campaign = Campaign { nodes: 3, faults, flaw, ..Campaign::default() };
    let failed = (1..=WITHIN).map(|seed| campaign.run(seed)).find(|run| run.violation.is_some());
    let failed = failed.expect("the bug is found");
    let shrunk = campaign.shrink(&failed);
    let invariant = |run: &Run| run.violation.as_ref().map(|violation| violation.invariant);
    assert_eq!(invariant(&shrunk), invariant(&failed));
    assert!(shrunk.faults.len() < failed.faults.len());
}

/// Seeds that found a bug once; what it was is beside them.
#[test]
fn seeds_that_once_failed_fail_no_more() {
    const ONCE: [u64; 17] = [
        2,                  // A taking that waited for room was woken again and again.
        8,                  // A token was taken a second time, by a node that had passed it on.
        4,                  // A restarted node served the units of its former life.
        40,                 // A late question made a taker drop what it had taken over.
        77,   // A unit that was to begin empty was served with what had been staged of it.
        73, // A node that leaves stopped since gossip had lost sight of all others, and served on.
        297, // A machine that stood still never heard of what its disk wrote meanwhile.
        786, // A view was decided by votes of which nobody learned, and nobody wanted it any more.
        9047, // A node that had stopped alone took a partition and read it on.
        9503, // A unit that was lost elsewhere began with what its owner had had of it before.
        2477, // A node that leaves stopped alone, and was sent events again when the network healed.
        13_652_393_903_842, // A former giver that missed some views served what it was to take from a replica.
        109,                // A unit that had begun anew went on from a replica of before that.
        4156, // A question that was overdue waited for room, and its node was woken again and again.
        1279, // A late question for a former stream had sealed units served again.
        212,  // A machine that stood still was told to leave.
        700_200, // What a machine had that left alone was taken for lost without a fault.
    ];
    run_all(&Campaign::default(), ONCE.into_iter());
}

/// The same under at-least-once.
#[test]
fn seeds_that_once_failed_under_at_least_once_fail_no_more() {
    const ONCE: [u64; 3] = [
        44, // A machine that stood still wrote to the former life of a member, and fences were dropped with that link.
        171, // A former keeper of a book told what had been in it, and tokens that had been passed on came back.
        1072, // A partition that was inherited back was still being closed, and was not read.
    ];
    run_all(&at_least_once(), ONCE.into_iter());
}

/// The same with replicas on disk.
#[test]
fn seeds_that_once_failed_on_disk_fail_no_more() {
    const ONCE: [u64; 11] = [
        3,         // A node that was taken off and came back did not take its own units from its disk.
        1061, // A bit that was another in a journal that ended with zeros was taken for a torn write.
        1087, // All started again on two sides of a split; each side knew of the other by the view alone.
        50_004, // A machine that had slept took a partition that it was given before it was given up.
        2033, // A node that left could not go on without a replica that was lost, and no view was decided.
        50_063, // A node that was told to leave was cut off and taken off, and ended with what nobody else had.
        1_000_357, // An heir missed the views by which it was one, and the disk had come back and forgotten.
        1_000_636, // A numbered instance went while a journal was cleaned, and the next one was left out.
        1_008_610, // A partition that was inherited there and back was taken for one that had been passed on.
        1_007_386, // What a node had done when it heard that it was off, and not committed, was acknowledged by it.
        1_001_043, // A life that had just begun was told to leave, and thought that nothing on its disk was its own.
    ];
    run_all(&on_disk(), ONCE.into_iter());
}
