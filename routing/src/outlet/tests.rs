//! Every row leaves once, by the lane it belongs to, and budgets are kept.

mod groupings;

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate as starling;
use crate::{BatchHeader, Event, Key, Packed, Slot};

#[derive(Event)]
struct Word {
    text: String,
    n: u64,
}

const ME: ContainerId = ContainerId { node: NodeId(1), container: 0 };
const BUDGET: Budget = Budget { batches: 4, kibibytes: 100 };

fn lane(node: u64, container: u16) -> Lane {
    Lane { to: ContainerId { node: NodeId(node), container }, task: BatchHeader::NO_TASK }
}

fn tasks(lanes: &[(u64, u16)]) -> Vec<Lane> {
    let task = |(task, &(node, container))| Lane { task, ..lane(node, container) };
    (0..).zip(lanes).map(task).collect()
}

/// Sixteen slots, dealt out in turn.
fn slots(lanes: Vec<Lane>) -> Lanes {
    let of = |slot: usize| u16::try_from(slot % lanes.len()).unwrap();
    let spread = Spread::Slots((0..16).map(of).collect());
    Lanes { lanes, spread }
}

/// An outlet with an edge by `text` for each of some lanes.
fn outlet(edges: &[Lanes]) -> Outlet<Word> {
    let mut outlet = Outlet::default();
    for (route, lanes) in edges.iter().enumerate() {
        outlet.connect(KeyFields(vec![0]));
        outlet.lead(route, ME, lanes.clone(), BUDGET);
    }
    outlet
}

/// What has left: route, lane and the rows meant.
struct Left {
    route: usize,
    lane: Lane,
    weight: u32,
    is_forwarded: bool,
    rows: Vec<(String, u64)>,
}

/// Takes what is ready, and gives the batches back.
fn leave(outlet: &mut Outlet<Word>) -> Vec<Left> {
    let mut all = Vec::new();
    for ready in std::mem::take(outlet.ready()) {
        let Ready { route, lane, batch, rows: count, weight, passage, .. } = ready;
        let is_forwarded = passage == Passage::Forwarded;
        let batch = batch.downcast::<Batch<Word>>().unwrap();
        let group = batch.group(0, usize::MAX);
        let row = |at| {
            let word = batch.columns.get(group.row(at));
            let hash = Packed::new(word.text.as_bytes(), 0).hash();
            assert_eq!(batch.hashes[group.row(at)], hash, "the hash goes with the row");
            (word.text.to_owned(), word.n)
        };
        let rows: Vec<_> = (0..group.len()).map(row).collect();
        assert_eq!(count as usize, rows.len());
        all.push(Left { route, lane, weight, is_forwarded, rows });
        outlet.recycle(batch);
    }
    all
}

fn push(outlet: &mut Outlet<Word>, words: &[String]) {
    for (word, n) in words.iter().zip(0..) {
        outlet.push(WordRef { text: word, n });
    }
}

/// The lane that a key belongs to.
fn expected<'l>(lanes: &'l Lanes, key: &str) -> &'l Lane {
    let hash = Packed::new(key.as_bytes(), 0).hash();
    match &lanes.spread {
        Spread::Slots(table) => {
            &lanes.lanes[usize::from(table[usize::from(Slot::of(hash, table.len()).0)])]
        }
        Spread::Hash => &lanes.lanes[((hash >> 32) as usize * lanes.lanes.len()) >> 32],
        Spread::Only
        | Spread::Rotate
        | Spread::TwoChoices
        | Spread::All
        | Spread::Numbered
        | Spread::LeastLoaded
        | Spread::Custom(_) => panic!("not by the hash of a key alone"),
    }
}

fn by_key() -> impl Strategy<Value = Lanes> {
    let near = vec![lane(1, 0), lane(1, 1)];
    let far = vec![lane(1, 0), lane(1, 1), lane(2, 0), lane(3, 0), lane(3, 1)];
    prop_oneof![
        Just(slots(vec![lane(1, 0)])),
        Just(slots(vec![lane(2, 0)])),
        Just(slots(vec![lane(2, 0), lane(2, 1)])),
        Just(slots(near)),
        Just(slots(far)),
        Just(Lanes { lanes: tasks(&[(1, 0), (1, 0), (2, 1)]), spread: Spread::Hash }),
        Just(Lanes { lanes: tasks(&[(2, 0)]), spread: Spread::Hash }),
    ]
}

fn words() -> impl Strategy<Value = Vec<String>> {
    // Short, around the length of a block, and so long that they close their batches.
    let word = |n: u8| match n % 8 {
        0..4 => "abcdefgh"[..usize::from(n / 32)].to_owned(),
        4..7 => format!("{n:015}{}", &"xyz"[..usize::from(n % 4)]),
        _ => format!("{n:300}"),
    };
    let words = prop::collection::vec(any::<u8>(), 0..4000);
    words.prop_map(move |words| words.into_iter().map(word).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn every_row_leaves_once_in_the_lane_of_its_key_and_in_order(
        words in words(), one in by_key(), two in by_key(), flushes in 0usize..4,
    ) {
        let edges = [one, two];
        let mut outlet = outlet(&edges);
        let mut left = Vec::new();
        for part in words.chunks(words.len() / (flushes + 1) + 1) {
            for word in part {
                outlet.push(WordRef { text: word, n: left.len() as u64 });
            }
            left.extend(leave(&mut outlet));
            outlet.flush();
            prop_assert!(!outlet.is_open());
            left.extend(leave(&mut outlet));
        }
        prop_assert_eq!(outlet.emitted(), words.len() as u64);
        for (route, lanes) in edges.iter().enumerate() {
            // The words of each lane, in the order in which they left.
            let mut found: BTreeMap<Lane, Vec<&str>> = BTreeMap::new();
            for left in left.iter().filter(|left| left.route == route) {
                prop_assert!(!left.is_forwarded && !left.rows.is_empty());
                found.entry(left.lane).or_default().extend(left.rows.iter().map(|(word, _)| &word[..]));
            }
            let mut wanted: BTreeMap<Lane, Vec<&str>> = BTreeMap::new();
            for word in &words {
                wanted.entry(*expected(lanes, word)).or_default().push(word);
            }
            prop_assert_eq!(found, wanted);
        }
    }

    /// Rows that wait when the view changes go by the new one; none is lost and none goes twice.
    #[test]
    fn rows_that_wait_for_company_follow_a_new_view(
        words in words(), before in by_key(), after in by_key(),
    ) {
        let mut outlet = outlet(std::slice::from_ref(&before));
        push(&mut outlet, &words);
        let left = leave(&mut outlet);
        for left in &left {
            for (word, _) in &left.rows {
                prop_assert_eq!(&left.lane, expected(&before, word));
            }
        }
        outlet.lead(0, ME, after.clone(), BUDGET);
        outlet.flush();
        let right = leave(&mut outlet);
        for right in &right {
            for (word, _) in &right.rows {
                prop_assert_eq!(&right.lane, expected(&after, word));
            }
        }
        let mut all: Vec<_> = left.iter().chain(&right).flat_map(|left| &left.rows).collect();
        all.sort_by_key(|(_, n)| *n);
        let same = words.iter().zip(0..).map(|(word, n)| (word.clone(), n)).collect::<Vec<_>>();
        prop_assert_eq!(all, same.iter().collect::<Vec<_>>());
    }
}

fn some_words(count: u64) -> Vec<String> {
    (0..count).map(|n| format!("word {n}")).collect()
}

#[test]
fn batches_go_round_the_lanes_of_a_rotation() {
    let lanes = Lanes { lanes: tasks(&[(1, 0), (2, 0), (2, 1)]), spread: Spread::Rotate };
    let mut outlet = outlet(&[lanes]);
    push(&mut outlet, &some_words(7 * ROWS_MAX as u64));
    let tasks: Vec<_> = leave(&mut outlet).iter().map(|left| left.lane.task).collect();
    assert_eq!(tasks, [1, 2, 0, 1, 2, 0, 1]);
}

#[test]
fn what_leads_nowhere_is_counted_and_forgotten() {
    let mut outlet = Outlet::<Word>::default();
    push(&mut outlet, &some_words(5000));
    outlet.flush();
    assert_eq!((outlet.emitted(), outlet.ready().len()), (5000, 0));
    assert!(!outlet.is_open() && !outlet.is_over_budget());
}

#[test]
fn the_rows_of_this_container_are_chosen_in_place() {
    let lanes = slots(vec![lane(2, 0), lane(1, 0)]);
    let mut outlet = outlet(&[lanes.clone(), lanes]);
    push(&mut outlet, &some_words(ROWS_MAX as u64));
    let ready = outlet.ready();
    let here = ready.iter().find(|ready| ready.lane == lane(1, 0)).unwrap();
    let batch = here.batch.downcast_ref::<Batch<Word>>().unwrap();
    assert_eq!(
        (batch.columns.rows(), batch.chosen().map(<[u32]>::len)),
        (ROWS_MAX, Some(batch.len()))
    );
}

#[test]
fn a_lane_is_over_its_budget_until_its_credit_comes() {
    let only = |lane| Lanes { lanes: vec![lane], spread: Spread::Only };
    let mut outlet = outlet(&[only(lane(1, 1)), only(lane(2, 0))]);
    push(&mut outlet, &some_words(3 * ROWS_MAX as u64));
    assert!(!outlet.is_over_budget(), "three batches near, 66 KiB far");
    push(&mut outlet, &some_words(ROWS_MAX as u64));
    assert!(outlet.is_over_budget(), "four near");
    let left = leave(&mut outlet);
    let near = left.iter().filter(|left| left.route == 0);
    assert!(near.clone().all(|left| left.weight == 1));
    outlet.credit(0, lane(1, 1), 1024, 1);
    assert!(!outlet.is_over_budget());
    assert_eq!(outlet.unconfirmed(), 7 * 1024);
    push(&mut outlet, &some_words(3 * ROWS_MAX as u64));
    outlet.credit(0, lane(1, 1), 3 * 1024, 3);
    outlet.credit(0, lane(1, 1), 3 * 1024, 3);
    assert!(outlet.is_over_budget(), "far");
    for left in leave(&mut outlet).iter().chain(&left).filter(|left| left.route == 1) {
        outlet.credit(1, lane(2, 0), left.rows.len() as u64, left.weight);
    }
    assert!(!outlet.is_over_budget());
    assert_eq!(outlet.unconfirmed(), 0);
    // Credit that nobody owes us changes nothing.
    outlet.credit(0, lane(1, 1), u64::MAX, u32::MAX);
    outlet.credit(0, lane(7, 7), 1, 1);
    outlet.credit(7, lane(1, 1), 1, 1);
    assert!(!outlet.is_over_budget() && outlet.unconfirmed() == 0);
}

#[test]
fn a_lane_that_is_gone_still_confirms_and_holds_nobody_back() {
    let one = |lane| Lanes { lanes: vec![lane], spread: Spread::Only };
    let mut outlet = outlet(&[one(lane(1, 1))]);
    push(&mut outlet, &some_words(5 * ROWS_MAX as u64));
    assert!(outlet.is_over_budget());
    outlet.lead(0, ME, one(lane(1, 2)), BUDGET);
    assert!(!outlet.is_over_budget());
    assert_eq!(outlet.unconfirmed(), 5 * 1024);
    outlet.credit(0, lane(1, 1), 2 * 1024, 2);
    assert_eq!(outlet.unconfirmed(), 3 * 1024);
    // It comes back with what it owes.
    outlet.lead(0, ME, one(lane(1, 1)), BUDGET);
    assert!(!outlet.is_over_budget(), "three of four");
    push(&mut outlet, &some_words(ROWS_MAX as u64));
    assert!(outlet.is_over_budget());
    outlet.lead(0, ME, one(lane(1, 2)), BUDGET);
    outlet.credit(0, lane(1, 1), 4 * 1024, 4);
    assert_eq!(outlet.unconfirmed(), 0);
    assert!(outlet.routes[0].past.is_empty(), "what has confirmed all is forgotten");
}

#[test]
fn what_is_on_its_way_to_a_node_that_is_gone_is_given_up() {
    let mut outlet = outlet(&[slots(vec![lane(1, 1), lane(2, 0), lane(3, 0)])]);
    push(&mut outlet, &some_words(20_000));
    outlet.flush();
    let left = leave(&mut outlet);
    let rows = [1, 2, 3].map(|node| {
        let to = left.iter().filter(|left| left.lane.to.node == NodeId(node));
        to.map(|left| left.rows.len() as u64).sum::<u64>()
    });
    assert!(outlet.is_over_budget());
    // The first is gone in one view, and the second, which left the lanes before, in the next.
    outlet.lead(0, ME, slots(vec![lane(1, 1), lane(3, 0)]), BUDGET);
    assert_eq!(outlet.abandon(0, &|node| node == NodeId(3)), rows[2]);
    assert_eq!(outlet.abandon(0, &|node| node == NodeId(3)), 0, "once");
    assert_eq!(outlet.abandon(0, &|node| node == NodeId(2)), rows[1]);
    assert_eq!(outlet.unconfirmed(), rows[0]);
    assert!(outlet.is_over_budget(), "near");
    outlet.credit(0, lane(1, 1), rows[0], u32::MAX);
    assert!(!outlet.is_over_budget());
}

#[test]
fn rows_go_to_their_lanes_when_they_are_pushed_where_one_key_decides() {
    let mut outlet = outlet(&[slots(vec![lane(2, 0), lane(1, 0)])]);
    let words = some_words(10 * ROWS_MAX as u64);
    for (word, emitted) in words.iter().zip(1..) {
        outlet.push(WordRef { text: word, n: 0 });
        assert_eq!(outlet.emitted(), emitted, "those in lanes count");
    }
    let full = leave(&mut outlet);
    assert!(full.iter().all(|left| left.rows.len() == ROWS_MAX));
    assert!(full.len() >= 8 && outlet.is_open());
}

/// Between an edge that goes by key and one that does not, rows are in different places.
#[test]
fn an_edge_that_goes_by_key_from_now_on_keeps_the_order() {
    let only = Lanes { lanes: vec![lane(2, 0)], spread: Spread::Only };
    let by_key = slots(vec![lane(1, 0), lane(2, 0)]);
    let mut outlet = outlet(std::slice::from_ref(&only));
    let words = some_words(100);
    for (round, next) in [&by_key, &only, &by_key, &only].into_iter().enumerate() {
        for word in &words {
            outlet.push(WordRef { text: word, n: round as u64 });
        }
        outlet.lead(0, ME, next.clone(), BUDGET);
        assert_eq!(outlet.emitted(), 100 * (round as u64 + 1));
    }
    outlet.flush();
    let mut rounds: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for (word, round) in leave(&mut outlet).into_iter().flat_map(|left| left.rows) {
        rounds.entry(word).or_default().push(round);
    }
    assert_eq!(rounds.len(), words.len());
    assert!(rounds.values().all(|rounds| *rounds == [0, 1, 2, 3]));
}

#[test]
fn what_is_passed_on_has_no_company() {
    let lanes = slots(vec![lane(2, 0), lane(3, 0)]);
    let mut outlet = outlet(std::slice::from_ref(&lanes));
    // One row waits in a lane.
    push(&mut outlet, &some_words(1));
    assert!(outlet.is_open() && outlet.ready().is_empty());
    let mut other = Batch::<Word>::default();
    for (n, word) in some_words(100).iter().enumerate() {
        other.columns.push(WordRef { text: word, n: n as u64 });
    }
    let rows: Vec<_> = (10..60).collect();
    outlet.send_on(0, Passage::Forwarded, &other, &rows);
    let left = leave(&mut outlet);
    assert!(left.iter().all(|left| left.is_forwarded));
    let mut passed: Vec<_> = left.iter().flat_map(|left| &left.rows).map(|(_, n)| *n).collect();
    passed.sort_unstable();
    assert_eq!(passed, (10..60).collect::<Vec<_>>());
    outlet.flush();
    let left = leave(&mut outlet);
    assert_eq!(left.len(), 1, "what waited goes later, for the first time");
    assert!(!left[0].is_forwarded);
}

#[test]
fn an_event_as_large_as_is_allowed_passes_whatever_its_company() {
    let overhead = 4 + 8;
    let largest = "x".repeat(EVENT_MAX - overhead);
    let too_large = "x".repeat(EVENT_MAX - overhead + 1);
    let company = "y".repeat(crate::HEAVY - 10);
    for (text, oversized) in [(&largest, 0), (&too_large, 1)] {
        let mut outlet = outlet(&[Lanes { lanes: vec![lane(2, 0)], spread: Spread::Only }]);
        outlet.push(WordRef { text: &company, n: 0 });
        outlet.push(WordRef { text, n: 1 });
        outlet.push(WordRef { text: "after", n: 2 });
        outlet.flush();
        let sizes: Vec<_> = leave(&mut outlet)
            .iter()
            .flat_map(|left| &left.rows)
            .map(|(word, _)| word.len())
            .collect();
        let all = [company.len(), text.len(), 5];
        let wanted = if oversized == 0 { all.to_vec() } else { vec![all[0], all[2]] };
        assert_eq!(sizes, wanted);
        let told = [outlet.dropped(), outlet.dropped()];
        assert_eq!(told, [Dropped { oversized, ..Dropped::default() }, Dropped::default()]);
    }
}

#[test]
fn memory_that_is_given_back_is_used_again_and_what_is_too_much_is_let_go() {
    let mut outlet = outlet(&[Lanes { lanes: vec![lane(2, 0)], spread: Spread::Only }]);
    push(&mut outlet, &some_words(200 * ROWS_MAX as u64));
    let taken: Vec<_> = std::mem::take(outlet.ready());
    taken.into_iter().for_each(|ready| outlet.recycle(ready.batch));
    assert_eq!(outlet.spare.len(), SPARE_MAX);
    push(&mut outlet, &some_words(ROWS_MAX as u64));
    assert_eq!(outlet.spare.len(), SPARE_MAX - 1);
}
