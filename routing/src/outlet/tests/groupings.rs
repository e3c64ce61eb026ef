//! Each way to choose a lane gives the events to whom it says, as evenly as it says, in order; what an edge
//! drops is counted.

use super::super::picks::two_choices;
use super::*;

/// Tasks that live all over the place, here too.
fn numbered(tasks: u32) -> Vec<Lane> {
    let home = |task: u32| (u64::from(task % 3) + 1, u16::try_from(task % 2).unwrap());
    tasks_at(tasks, home)
}

fn tasks_at(tasks: u32, home: impl Fn(u32) -> (u64, u16)) -> Vec<Lane> {
    let lane = |task| {
        let (node, container) = home(task);
        Lane { task, ..lane(node, container) }
    };
    (0..tasks).map(lane).collect()
}

/// An outlet with one edge by some fields.
fn by(fields: &[usize], lanes: Vec<Lane>, spread: Spread) -> Outlet<Word> {
    let mut outlet = Outlet::default();
    outlet.connect(KeyFields(fields.to_vec()));
    outlet.lead(0, ME, Lanes { lanes, spread }, BUDGET);
    outlet
}

fn hash_of(key: &str) -> u64 {
    Packed::new(key.as_bytes(), 0).hash()
}

/// The numbers of the events of each task, in the order in which they came.
fn by_task(left: &[Left]) -> BTreeMap<u32, Vec<u64>> {
    let mut found: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for left in left {
        found.entry(left.lane.task).or_default().extend(left.rows.iter().map(|(_, n)| *n));
    }
    found
}

/// Few keys, one of them very common.
fn skewed() -> impl Strategy<Value = Vec<String>> {
    let key = prop_oneof![Just(0u8), any::<u8>(), 0u8..4];
    let word = key.prop_map(|key| format!("key {key} {}", "long ".repeat(usize::from(key % 5))));
    prop::collection::vec(word, 0..4000)
}

/// What leaves without `hash goes with the row`, which is said of the first field only.
fn rows_of(outlet: &mut Outlet<Word>) -> Vec<(u32, Vec<u64>)> {
    let ready = std::mem::take(outlet.ready());
    let numbers = |ready: Ready| {
        let batch = ready.batch.downcast::<Batch<Word>>().unwrap();
        let group = batch.group(0, usize::MAX);
        let rows = (0..group.len()).map(|at| batch.columns.get(group.row(at)).n).collect();
        outlet.recycle(batch);
        (ready.lane.task, rows)
    };
    ready.into_iter().map(numbers).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Exactly where a sender counting by itself would give each, whatever the batches: so to one of two.
    #[test]
    fn by_two_choices_each_row_goes_where_fewer_went(
        words in skewed(), tasks in 1u32..9, flush_every in 1u64..2000,
    ) {
        let mut outlet = by(&[0], numbered(tasks), Spread::TwoChoices);
        let mut left = Vec::new();
        let mut given = vec![0u64; tasks as usize];
        let mut wanted: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (word, n) in words.iter().zip(0u64..) {
            outlet.push(WordRef { text: word, n });
            if n.is_multiple_of(flush_every) {
                outlet.flush();
            }
            left.extend(leave(&mut outlet));
            let (one, two) = two_choices(hash_of(word), tasks as usize);
            let task = if given[two] < given[one] { two } else { one };
            given[task] += 1;
            wanted.entry(u32::try_from(task).unwrap()).or_default().push(n);
        }
        outlet.flush();
        left.extend(leave(&mut outlet));
        prop_assert_eq!(by_task(&left), wanted);
        prop_assert_eq!(outlet.emitted(), words.len() as u64);
        if tasks == 2 {
            prop_assert!(given[0].abs_diff(given[1]) <= 1, "both may have every key: {:?}", given);
        }
    }

    /// What waits for a task when the view changes goes to it, wherever it lives now, and not by another choice:
    /// that might put an event of a key behind younger ones.
    #[test]
    fn by_two_choices_what_waits_stays_with_its_task_under_a_new_view(
        words in skewed(), tasks in 1u32..9, view_every in 1u64..1500,
    ) {
        let mut outlet = by(&[0], numbered(tasks), Spread::TwoChoices);
        let mut left = Vec::new();
        let mut given = vec![0u64; tasks as usize];
        let mut wanted: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (word, n) in words.iter().zip(0u64..) {
            outlet.push(WordRef { text: word, n });
            if n.is_multiple_of(view_every) {
                let moved = tasks_at(tasks, |task| (u64::from(task) + n % 3, 0));
                outlet.lead(0, ME, Lanes { lanes: moved, spread: Spread::TwoChoices }, BUDGET);
            }
            left.extend(leave(&mut outlet));
            let (one, two) = two_choices(hash_of(word), tasks as usize);
            let task = if given[two] < given[one] { two } else { one };
            given[task] += 1;
            wanted.entry(u32::try_from(task).unwrap()).or_default().push(n);
        }
        outlet.flush();
        left.extend(leave(&mut outlet));
        prop_assert_eq!(by_task(&left), wanted);
        prop_assert_eq!(outlet.emitted(), words.len() as u64);
    }

    #[test]
    fn all_lanes_get_a_copy_of_every_row_in_order(words in words(), tasks in 1u32..6, flushes in 0usize..4) {
        let mut outlet = by(&[], numbered(tasks), Spread::All);
        let mut found: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        let mut n = 0;
        for part in words.chunks(words.len() / (flushes + 1) + 1) {
            for text in part {
                outlet.push(WordRef { text, n });
                n += 1;
                prop_assert_eq!(outlet.emitted(), n, "however many get it");
            }
            outlet.flush();
            for (task, rows) in rows_of(&mut outlet) {
                found.entry(task).or_default().extend(rows);
            }
        }
        prop_assert!(!outlet.is_open());
        prop_assert_eq!(outlet.unconfirmed(), n * u64::from(tasks));
        let every: Vec<_> = (0..n).collect();
        for task in 0..tasks {
            prop_assert_eq!(found.remove(&task).unwrap_or_default(), &every[..]);
        }
    }

    #[test]
    fn numbered_rows_go_to_their_tasks_in_order_and_others_are_counted(
        numbers in prop::collection::vec(prop_oneof![0u64..12, any::<u64>()], 0..3000), tasks in 1u32..9,
    ) {
        let mut outlet = by(&[1], numbered(tasks), Spread::Numbered);
        for (&n, at) in numbers.iter().zip(0..) {
            let text = format!("{at}");
            outlet.push(WordRef { text: &text, n });
        }
        outlet.flush();
        let mut found: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for ready in std::mem::take(outlet.ready()) {
            let batch = ready.batch.downcast::<Batch<Word>>().unwrap();
            for row in 0..batch.columns.rows() {
                let WordRef { text, n } = batch.columns.get(row);
                prop_assert_eq!(n, u64::from(ready.lane.task));
                found.entry(ready.lane.task).or_default().push(text.parse().unwrap());
            }
        }
        let at = |task: u32| {
            let of = numbers.iter().zip(0u64..).filter(move |(n, _)| **n == u64::from(task));
            of.map(|(_, at)| at).collect::<Vec<_>>()
        };
        let wanted = (0..tasks).map(|task| (task, at(task))).filter(|(_, all)| !all.is_empty());
        prop_assert_eq!(found, wanted.collect());
        let no_such_task = numbers.iter().filter(|&&n| n >= u64::from(tasks)).count() as u64;
        prop_assert_eq!(outlet.dropped(), Dropped { no_such_task, ..Dropped::default() });
        prop_assert_eq!(outlet.emitted(), numbers.len() as u64, "emitted, if to nobody");
    }

    /// By the canonical bytes of one field, or of two, framed.
    #[test]
    fn custom_rows_go_where_the_function_says_in_order(
        words in skewed(), tasks in 1u32..9, is_of_two in any::<bool>(),
    ) {
        fn sum(bytes: &[u8], tasks: u32) -> u32 {
            bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>() % (tasks + 2)
        }
        let fields: &[usize] = if is_of_two { &[1, 0] } else { &[0] };
        let mut outlet = by(fields, numbered(tasks), Spread::Custom(Choice::new(sum)));
        let mut alone = Batch::<Word>::default();
        let (mut wanted, mut no_such_task) = (BTreeMap::<u32, Vec<u64>>::new(), 0);
        for (text, n) in words.iter().zip(0..) {
            outlet.push(WordRef { text, n });
            let mut bytes = Vec::new();
            alone.columns.push(WordRef { text, n });
            KeyFields(fields.to_vec()).write(&alone.columns, 0, &mut bytes);
            alone.clear();
            match sum(&bytes, tasks) {
                task if task < tasks => wanted.entry(task).or_default().push(n),
                _ => no_such_task += 1,
            }
        }
        outlet.flush();
        let mut found = BTreeMap::<u32, Vec<u64>>::new();
        for (task, rows) in rows_of(&mut outlet) {
            found.entry(task).or_default().extend(rows);
        }
        prop_assert_eq!(found, wanted);
        prop_assert_eq!(outlet.dropped(), Dropped { no_such_task, ..Dropped::default() });
        prop_assert_eq!(outlet.emitted(), words.len() as u64);
    }

    /// Whatever credit comes back and when: the next batch goes where least is on its way, and never past
    /// a nearer lane that has as little; all that is even is used in turn.
    #[test]
    fn load_aware_batches_go_where_least_is_on_its_way(
        homes in prop::collection::vec((1u64..4, 0u16..2), 1..6),
        confirmed in prop::collection::vec(prop::option::of(0usize..40), 1..80),
    ) {
        let lanes = tasks(&homes);
        let mut outlet = by(&[0], lanes.clone(), Spread::LeastLoaded);
        let budget = |lane: &Lane| {
            u64::from(if lane.to.node == ME.node { BUDGET.batches } else { BUDGET.kibibytes })
        };
        let mut out = vec![0u64; lanes.len()];
        let mut under_way: Vec<(usize, Left)> = Vec::new();
        let mut before: Option<usize> = None;
        for confirmed in confirmed {
            push(&mut outlet, &some_words(20));
            outlet.flush();
            let left = leave(&mut outlet);
            let [left] = <[Left; 1]>::try_from(left).ok().expect("a batch is not divided");
            let went = left.lane.task as usize;
            let rank = |place: usize| {
                let lane = &lanes[place];
                let near = (lane.to != ME, lane.to.node != ME.node);
                // As fractions of one denominator: 4 batches or 100 KiB.
                (out[place] * (400 / budget(lane)), near)
            };
            let best = (0..lanes.len()).map(rank).min().unwrap();
            prop_assert_eq!(rank(went), best, "{} of {:?} with {:?}", went, lanes, out);
            // In turn: the first of the best behind the last that was taken.
            let start = before.map_or(1, |before| before + 1);
            let turn = (start..).map(|place| place % lanes.len()).find(|&place| rank(place) == best);
            prop_assert_eq!(Some(went), turn);
            before = Some(went);
            out[went] += u64::from(left.weight);
            under_way.push((went, left));
            if let Some(at) = confirmed {
                let (went, left) = under_way.swap_remove(at % under_way.len());
                out[went] -= u64::from(left.weight);
                outlet.credit(0, left.lane, left.rows.len() as u64, left.weight);
            }
        }
    }

    /// Batch by batch in turn, so no lane is ever more than a batch ahead.
    #[test]
    fn shuffled_rows_are_spread_evenly_and_each_goes_once(
        words in words(), tasks in 1u32..9, flush_every in 1u64..2000,
    ) {
        let mut outlet = by(&[], numbered(tasks), Spread::Rotate);
        let mut left = Vec::new();
        for (text, n) in words.iter().zip(0u64..) {
            outlet.push(WordRef { text, n });
            if n.is_multiple_of(flush_every) {
                outlet.flush();
            }
            left.extend(rows_of(&mut outlet));
        }
        outlet.flush();
        left.extend(rows_of(&mut outlet));
        let mut batches = vec![0u32; tasks as usize];
        left.iter().for_each(|(task, _)| batches[*task as usize] += 1);
        let (least, most) = (batches.iter().min().unwrap(), batches.iter().max().unwrap());
        prop_assert!(most - least <= 1, "{:?}", batches);
        let rows: Vec<_> = left.into_iter().flat_map(|(_, rows)| rows).collect();
        prop_assert_eq!(rows, (0..words.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn all_rows_go_to_the_only_lane_in_order(words in words()) {
        let mut outlet = by(&[], vec![lane(2, 0)], Spread::Only);
        push(&mut outlet, &words);
        outlet.flush();
        let rows: Vec<_> = rows_of(&mut outlet).into_iter().flat_map(|(_, rows)| rows).collect();
        prop_assert_eq!(rows, (0..words.len() as u64).collect::<Vec<_>>());
    }

    /// Whoever is slow, by whichever way rows go: an edge that sheds holds nobody back, has no more on its way
    /// than the budget and one batch, and each row either went, in order, or is counted.
    #[test]
    fn what_is_shed_is_counted_and_holds_nobody_back(
        words in skewed(), tasks in 1u32..5, how in 0usize..5,
        credits in prop::collection::vec(prop::option::of(0usize..40), 1..60),
    ) {
        let spread = [
            Spread::Only, Spread::Rotate, Spread::Hash, Spread::All, Spread::Slots([0; 16].into()),
        ];
        let spread = spread[how].clone();
        let readers = if matches!(spread, Spread::All) { u64::from(tasks) } else { 1 };
        let lanes = numbered(tasks);
        let budget = Budget { batches: 2, kibibytes: 3 };
        let mut outlet = Outlet::default();
        outlet.connect(KeyFields(vec![0]));
        outlet.set_excess(0, Excess::IsShed);
        outlet.lead(0, ME, Lanes { lanes, spread }, budget);
        let mut under_way: Vec<Left> = Vec::new();
        let mut last = BTreeMap::<u32, u64>::new();
        let (mut n, mut sent, mut shed) = (0, 0, 0);
        for credit in credits {
            for text in words.iter().take(50) {
                outlet.push(WordRef { text, n });
                n += 1;
            }
            outlet.flush();
            prop_assert!(!outlet.is_over_budget());
            for left in leave(&mut outlet) {
                for (_, n) in &left.rows {
                    let last = last.insert(left.lane.task, *n);
                    prop_assert!(last.is_none_or(|last| last < *n), "in order");
                }
                let on_the_way = under_way.iter().filter(|before| before.lane == left.lane);
                let out: u32 = on_the_way.map(|before| before.weight).sum();
                let is_near = left.lane.to.node == ME.node;
                let most = if is_near { budget.batches } else { budget.kibibytes };
                prop_assert!(out < most, "{} of {} on its way before it", out, most);
                sent += left.rows.len() as u64;
                under_way.push(left);
            }
            let Dropped { oversized, no_such_task, shed: now } = outlet.dropped();
            prop_assert_eq!((oversized, no_such_task), (0, 0));
            shed += now;
            prop_assert_eq!(sent + shed, n * readers);
            prop_assert_eq!(outlet.emitted(), n);
            if let Some(at) = credit.filter(|_| !under_way.is_empty()) {
                let left = under_way.swap_remove(at % under_way.len());
                outlet.credit(0, left.lane, left.rows.len() as u64, left.weight);
            }
        }
    }
}

/// One key in four is the same: by hash it makes one task of eight do more than a quarter, with two choices
/// two tasks share it.
#[test]
fn two_choices_divide_what_a_hash_cannot() {
    let words: Vec<_> = (0..40_000u32)
        .map(|n| if n % 4 == 0 { "the".to_owned() } else { format!("word {}", n % 5000) })
        .collect();
    let most = |spread| {
        let mut outlet = by(&[0], numbered(8), spread);
        push(&mut outlet, &words);
        outlet.flush();
        by_task(&leave(&mut outlet)).values().map(Vec::len).max().unwrap()
    };
    let (hashed, chosen) = (most(Spread::Hash), most(Spread::TwoChoices));
    assert!(hashed > 13_000, "{hashed}");
    // An eighth, and the words that have no choice but the same two.
    assert!((5_000..5_600).contains(&chosen), "{chosen}");
}

#[test]
fn a_lane_over_its_budget_is_shed_alone() {
    let mut outlet = by(&[0], vec![lane(1, 1), lane(1, 2)], Spread::All);
    outlet.set_excess(0, Excess::IsShed);
    push(&mut outlet, &some_words(6 * ROWS_MAX as u64));
    // Four near batches each, and then only the one that confirms.
    assert_eq!(outlet.dropped().shed, 2 * 2 * ROWS_MAX as u64);
    assert_eq!(leave(&mut outlet).len(), 8);
    outlet.credit(0, lane(1, 1), ROWS_MAX as u64, 1);
    push(&mut outlet, &some_words(ROWS_MAX as u64));
    assert_eq!(outlet.dropped().shed, ROWS_MAX as u64);
    let lanes: Vec<_> = leave(&mut outlet).iter().map(|left| left.lane).collect();
    assert_eq!(lanes, [lane(1, 1)]);
}

/// It was on its way to the lane already, and a former home must not lose it.
#[test]
fn what_is_passed_on_is_not_shed() {
    let mut outlet = by(&[0], vec![lane(1, 1)], Spread::Only);
    outlet.set_excess(0, Excess::IsShed);
    push(&mut outlet, &some_words(9 * ROWS_MAX as u64));
    assert_eq!(outlet.dropped().shed, 5 * ROWS_MAX as u64);
    leave(&mut outlet);
    let mut other = Batch::<Word>::default();
    some_words(10).iter().for_each(|text| other.columns.push(WordRef { text, n: 0 }));
    outlet.send_on(0, Passage::Forwarded, &other, &[1, 2, 3]);
    outlet.send_to(0, Passage::Forwarded, (lane(1, 1), true), &other, &[4]);
    let rows: Vec<_> = rows_of(&mut outlet).iter().map(|(_, rows)| rows.len()).collect();
    assert_eq!((rows, outlet.dropped()), (vec![3, 1], Dropped::default()));
}

/// Some edges of an outlet shed, if it feeds several streams' worth of readers; the others still wait.
#[test]
fn an_edge_that_does_not_shed_still_holds_back() {
    let mut outlet = outlet(&[
        Lanes { lanes: vec![lane(1, 1)], spread: Spread::Only },
        Lanes { lanes: vec![lane(1, 2)], spread: Spread::Only },
    ]);
    outlet.set_excess(0, Excess::IsShed);
    push(&mut outlet, &some_words(4 * ROWS_MAX as u64));
    assert!(outlet.is_over_budget());
    outlet.credit(1, lane(1, 2), ROWS_MAX as u64, 1);
    assert!(!outlet.is_over_budget());
}
