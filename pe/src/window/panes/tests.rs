//! Windows held against what follows from the whole history, computed anew for each.
//!
//! Lengths, slides and the gaps between events are a few nanoseconds, so events come on boundaries,
//! directly before and behind them, several at one time, and with many boundaries between them.

use proptest::prelude::*;
use routing::codec;

use super::*;

/// What is done to the window of an instance. Gaps are what has passed since the last.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push(u64),
    /// The host calls, because of a deadline or for nothing.
    Call(u64),
    /// The instance goes to a node whose clock stands so.
    Move(u64, u64),
}

/// A window as it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    /// When it ended, of a slide of time.
    end: Option<u64>,
    items: Vec<usize>,
    fresh: Vec<usize>,
    expired: Vec<usize>,
}

/// When each event came, by its number; the first at zero.
type History = [u64];

fn length_has(length: Extent, history: &History, end: u64, upto: usize) -> Vec<usize> {
    let before: Vec<_> = (0..upto).filter(|&event| history[event] < end).collect();
    match length {
        Extent::Count(count) => before[before.len().saturating_sub(count as usize)..].to_vec(),
        Extent::Time(time) => {
            let length = i128::try_from(time.as_nanos()).unwrap();
            let start = i128::from(end) - length;
            before.into_iter().filter(|&event| i128::from(history[event]) >= start).collect()
        }
    }
}

fn without(these: &[usize], those: &[usize]) -> Vec<usize> {
    these.iter().copied().filter(|event| !those.contains(event)).collect()
}

fn told(end: Option<u64>, items: Vec<usize>, before: &[usize]) -> Told {
    let (fresh, expired) = (without(&items, before), without(before, &items));
    Told { end, items, fresh, expired }
}

/// All windows up to some time.
fn expected(spec: WindowSpec, history: &History, now: u64) -> Vec<Told> {
    let mut all = Vec::<Told>::new();
    let last = |all: &[Told]| all.last().map(|told| told.items.clone()).unwrap_or_default();
    match spec.slide {
        Extent::Count(slide) => {
            for upto in (1..=history.len()).filter(|upto| upto % slide as usize == 0) {
                let end = history[upto - 1] + 1;
                let items = length_has(spec.length, history, end, upto);
                all.push(told(None, items, &last(&all)));
            }
        }
        Extent::Time(slide) => {
            let slide = u64::try_from(slide.as_nanos()).unwrap();
            for end in (1..).map(|nth| nth * slide).take_while(|&end| end <= now) {
                let items = length_has(spec.length, history, end, history.len());
                let next = told(Some(end), items, &last(&all));
                let is_told = match spec.length {
                    Extent::Count(_) => !next.fresh.is_empty(),
                    Extent::Time(_) => !next.items.is_empty() || !next.expired.is_empty(),
                };
                all.extend(is_told.then_some(next));
            }
        }
    }
    all
}

/// What there is of the window that would come next.
fn expected_rest(spec: WindowSpec, history: &History, now: u64) -> Told {
    let before = expected(spec, history, now).pop().map(|told| told.items).unwrap_or_default();
    let items = match (spec.length, spec.slide) {
        (Extent::Count(length), Extent::Count(slide)) => {
            let end = (history.len() / slide as usize + 1) * slide as usize;
            (end.saturating_sub(length as usize)..history.len()).collect()
        }
        (_, Extent::Count(_)) => length_has(spec.length, history, now + 1, history.len()),
        (_, Extent::Time(slide)) => {
            let slide = u64::try_from(slide.as_nanos()).unwrap();
            length_has(spec.length, history, (now / slide + 1) * slide, history.len())
        }
    };
    told(None, items, &before)
}

fn seen(window: &WindowRef<'_, usize>, end: Option<u64>) -> Told {
    assert_eq!(window.len(), window.items().len());
    assert_eq!(window.is_empty(), window.items().next().is_none());
    let list = |items: Items<'_, usize>| items.copied().collect();
    Told {
        end,
        items: list(window.items()),
        fresh: list(window.fresh()),
        expired: list(window.expired()),
    }
}

/// Runs a window through a script, against what is expected at each step.
fn check(spec: WindowSpec, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut panes = Panes::new(spec).unwrap();
    let (mut history, mut all) = (Vec::<u64>::new(), Vec::new());
    // Two clocks: the node's, and that of the instance, which starts with its first event.
    let (mut clock, mut age) = (1_000, 0);
    for step in steps {
        let (Step::Push(gap) | Step::Call(gap) | Step::Move(gap, _)) = *step;
        clock += gap;
        age += if history.is_empty() { 0 } else { gap };
        let now = Time(Duration::from_nanos(clock));
        if let Step::Move(_, there) = *step {
            panes.touch(now);
            let mut bytes = Vec::new();
            codec::encode(&panes, &mut bytes).unwrap();
            panes = codec::decode(&bytes).unwrap();
            clock = there;
            panes.touch(Time(Duration::from_nanos(clock)));
            continue;
        }
        while let Some(window) = panes.advance(now) {
            let end = age - u64::try_from(window.late().as_nanos()).unwrap();
            all.push(seen(&window, Some(end)));
        }
        if let Step::Push(_) = step {
            let event = history.len();
            history.push(age);
            let window = panes.push(now, event).unwrap();
            all.extend(window.map(|window| seen(&window, None)));
        }
        prop_assert_eq!(&all, &expected(spec, &history, age));
        // Without another event: the window after these comes when it is due, or never.
        let later = expected(spec, &history, age + 100);
        let next = later.get(all.len()).and_then(|told| told.end);
        let due = next.map(|end| Time(Duration::from_nanos(clock + end - age)));
        prop_assert_eq!(panes.deadline(), due);
    }
    let now = Time(Duration::from_nanos(clock));
    while let Some(window) = panes.advance(now) {
        all.push(seen(&window, None)); // The last step was a move.
    }
    prop_assert_eq!(seen(&panes.rest(now), None), expected_rest(spec, &history, age));
    Ok(())
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Many at one time and many apart; those in between hit boundaries and their neighbours.
    let gap = || prop_oneof![3 => Just(0), 6 => 1_u64..4, 3 => 0_u64..13, 1 => 13_u64..70];
    let step = prop_oneof![
        8 => gap().prop_map(Step::Push),
        4 => gap().prop_map(Step::Call),
        1 => (gap(), 0_u64..5_000).prop_map(|(gap, there)| Step::Move(gap, there)),
    ];
    prop::collection::vec(step, 0..40)
}

fn count(count: u32) -> Extent {
    Extent::Count(count)
}

fn time(nanos: u64) -> Extent {
    Extent::Time(Duration::from_nanos(nanos))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn the_last_events_every_so_many(a in 1_u32..9, b in 1_u32..9, steps in steps()) {
        check(WindowSpec::sliding(count(a.max(b)), count(a.min(b))), &steps)?;
    }

    #[test]
    fn the_last_time_every_so_often(a in 1_u64..13, b in 1_u64..13, steps in steps()) {
        check(WindowSpec::sliding(time(a.max(b)), time(a.min(b))), &steps)?;
    }

    #[test]
    fn the_last_events_every_so_often(length in 1_u32..9, slide in 1_u64..13, steps in steps()) {
        check(WindowSpec::sliding(count(length), time(slide)), &steps)?;
    }

    #[test]
    fn the_last_time_every_so_many_events(length in 1_u64..13, slide in 1_u32..9, steps in steps()) {
        check(WindowSpec::sliding(time(length), count(slide)), &steps)?;
    }
}

fn at(nanos: u64) -> Time {
    Time(Duration::from_nanos(nanos))
}

#[test]
fn an_event_at_a_boundary_is_in_the_window_that_begins_there() {
    let mut panes = Panes::new(WindowSpec::tumbling(time(10))).unwrap();
    for (event, nanos) in [(0, 105), (1, 114)] {
        assert!(panes.push(at(nanos), event).unwrap().is_none());
    }
    assert!(panes.advance(at(114)).is_none());
    let first = seen(&panes.advance(at(115)).unwrap(), None);
    assert_eq!((first.items, first.fresh, first.expired), (vec![0, 1], vec![0, 1], vec![]));
    assert!(panes.advance(at(115)).is_none() && panes.push(at(115), 2).unwrap().is_none());
    let second = seen(&panes.advance(at(125)).unwrap(), None);
    assert_eq!((second.items, second.fresh, second.expired), (vec![2], vec![2], vec![0, 1]));
}

#[test]
fn a_window_with_nothing_to_tell_has_no_deadline() {
    let mut panes = Panes::new(WindowSpec::sliding(time(20), time(10))).unwrap();
    panes.touch(at(3));
    assert!(panes.advance(at(50)).is_none() && panes.deadline().is_none());
    panes.push(at(100), 'a').unwrap();
    for due in [110, 120, 130] {
        assert_eq!(panes.deadline(), Some(at(due)));
        let window = panes.advance(at(due)).unwrap();
        assert_eq!((window.len(), window.expired().len()), if due < 130 { (1, 0) } else { (0, 1) });
    }
    assert_eq!(panes.deadline(), None);
    // Boundaries are where they were.
    panes.push(at(1_007), 'b').unwrap();
    assert_eq!(panes.deadline(), Some(at(1_010)));
}

#[test]
fn a_length_of_time_holds_no_more_than_it_may_and_takes_events_again_when_some_have_expired() {
    for slide in [time(10), count(1_000)] {
        let spec = WindowSpec { most: 3, ..WindowSpec::sliding(time(10), slide) };
        let mut panes = Panes::new(spec).unwrap();
        for event in 0..3 {
            panes.push(at(event), event).unwrap();
        }
        assert_eq!(panes.push(at(3), 3).unwrap_err(), WindowFull);
        while panes.advance(at(10)).is_some() {}
        panes.push(at(10), 10).unwrap();
        assert!(panes.shown.len() + panes.fresh.len() <= 6);
    }
}

/// Events that a window has shown and that are too old for the next once filled it for ever, where the
/// slide is of events: none were taken any more, so it never fired again.
#[test]
fn what_has_expired_and_was_not_told_leaves_room() {
    let spec = WindowSpec { most: 3, ..WindowSpec::sliding(time(10), count(3)) };
    let mut panes = Panes::new(spec).unwrap();
    for event in 0..3 {
        panes.push(at(0), event).unwrap();
    }
    assert_eq!(panes.push(at(9), 3).unwrap_err(), WindowFull);
    for event in 3..5 {
        assert!(panes.push(at(10), event).unwrap().is_none());
    }
    let window = seen(&panes.push(at(10), 5).unwrap().unwrap(), None);
    assert_eq!((window.items, window.expired), (vec![3, 4, 5], vec![0, 1, 2]));
}

#[test]
fn a_length_of_events_is_its_own_limit() {
    for slide in [count(5), time(10)] {
        let spec = WindowSpec { most: 1, ..WindowSpec::sliding(count(5), slide) };
        let mut panes = Panes::new(spec).unwrap();
        for event in 0..1_000 {
            panes.push(at(0), event).unwrap();
            assert!(panes.shown.len() + panes.fresh.len() <= 10);
        }
    }
}

#[test]
fn a_window_in_which_nothing_is_left_takes_no_memory() {
    let mut panes = Panes::new(WindowSpec::tumbling(time(10))).unwrap();
    for event in 0..1_000 {
        panes.push(at(0), event).unwrap();
    }
    while panes.advance(at(100)).is_some() {}
    assert_eq!(panes.shown.capacity() + panes.fresh.capacity(), 0);
}

/// A peer may say anything; what it says must neither fire for years nor end a container.
#[test]
fn what_was_never_a_window_is_refused() {
    let spec = WindowSpec::sliding(time(10), time(5));
    let good = || {
        let mut panes = Panes::new(spec).unwrap();
        for nanos in [0, 1, 1, 4] {
            panes.push(at(nanos), ()).unwrap();
        }
        while panes.advance(at(5)).is_some() {}
        panes.push(at(6), ()).unwrap();
        panes
    };
    let is_read = |panes: &Panes<()>| {
        let mut bytes = Vec::new();
        codec::encode(panes, &mut bytes).unwrap();
        codec::decode::<Panes<()>>(&bytes).is_ok()
    };
    assert!(is_read(&good()) && is_read(&Panes::new(spec).unwrap()));
    let damages: [fn(&mut Panes<()>); 11] = [
        |panes| panes.spec.length = time(4),
        |panes| panes.next = 9,
        |panes| panes.spec.slide = time(0),
        |panes| panes.spec.slide = time(11),
        |panes| panes.spec.most = 3,
        |panes| panes.shown[0].at = 2,
        |panes| panes.fresh[0].at = 7,
        |panes| panes.next = 5,
        |panes| panes.next = 12,
        |panes| panes.next = 1_000,
        |panes| panes.age = u64::MAX,
    ];
    for (nth, damage) in damages.iter().enumerate() {
        let mut panes = good();
        damage(&mut panes);
        assert!(!is_read(&panes), "damage {nth}");
    }
    let mut counted = Panes::new(WindowSpec::tumbling(count(3))).unwrap();
    counted.push(at(0), ()).unwrap();
    assert!(is_read(&counted));
    counted.come = 3;
    assert!(!is_read(&counted));
}
