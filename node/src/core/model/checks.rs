//! What is gone through, and how far.

use stateright::{Checker, HasDiscoveries, Model};

use super::history::Rule;
use super::world::World;
use super::{Bounds, Epoch, Flaw};

/// So many states are gone through of what does not end before, where nobody asks for more.
const STATES: usize = 50_000;

/// So many where something is to be reached.
const STATES_TO_REACH: usize = 150_000;

/// A node dies, and whoever gives it up makes a view without it.
fn death() -> Bounds {
    Bounds { wakes: [2, 1, 0], deaths: 1, suspicions: 1, ..Bounds::calm() }
}

/// Two nodes want different views of one number.
fn duel() -> Bounds {
    Bounds { wakes: [1, 1, 0], breaks: [1, 1, 0], ..Bounds::calm() }
}

/// A unit goes from one node to another while it is written to.
fn moving() -> Bounds {
    Bounds { wakes: [2, 0, 0], breaks: [1, 0, 0], writes: 1, last: Epoch(3), ..Bounds::calm() }
}

/// Goes through all that can happen: the first property that does not hold, with the way there.
///
/// What is to be reached is asked for where `is_reached` says that so many states suffice for it.
fn failure(name: &str, bounds: Bounds, states: usize, is_reached: bool) -> Option<String> {
    let checker = World::new(bounds).checker().threads(2);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures).target_state_count(states);
    let checker = checker.spawn_bfs().join();
    let model = checker.model();
    println!(
        "{name}: {} states, {} of them different, {} deep, {} steps of nodes: {}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth(),
        model.steps(),
        if checker.state_count() < states { "no more" } else { "as far as asked" }
    );
    let mut found = checker.discoveries();
    for property in model.properties() {
        let path = found.remove(property.name).map(stateright::Path::into_actions);
        let is_example = Rule::named(property.name).is_none();
        match path {
            Some(path) if !is_example => {
                return Some(format!("{}:\n{}", property.name, model.told(&path)));
            }
            None if is_example && is_reached => {
                return Some(format!("{}: never", property.name));
            }
            Some(_) | None => {}
        }
    }
    None
}

/// How many states were asked for, if any were.
fn asked() -> Option<usize> {
    std::env::var("MODEL_STATES").ok().map(|states| states.parse().expect("a number of states"))
}

#[track_caller]
fn holds(name: &str, bounds: Bounds, is_reached: bool) {
    let states = if is_reached { STATES_TO_REACH } else { STATES };
    let failure = failure(name, bounds, asked().unwrap_or(states), is_reached);
    assert!(failure.is_none(), "{name}: {}", failure.unwrap_or_default());
}

#[test]
fn the_living_go_on_without_the_dead() {
    holds("death", death(), true);
}

#[test]
fn rivals_decide_one_view_per_number() {
    holds("duel", duel(), false);
    holds("duel with slow disks", Bounds { is_slow: true, ..duel() }, false);
}

#[test]
fn crashes_take_back_nothing_that_was_said() {
    holds("duel with a crash", Bounds { crashes: 1, is_slow: true, ..duel() }, false);
}

#[test]
fn units_move_with_what_was_written() {
    holds("move", moving(), true);
}

/// A view that is made for another reason leaves alone what is on its way.
#[test]
fn another_view_meanwhile_activates_nothing() {
    let again = Bounds { breaks: [2, 0, 0], writes: 0, ..moving() };
    holds("move with another view", again, false);
}

#[test]
fn a_move_survives_a_crash_and_a_death_of_either_end() {
    let crash = Bounds { crashes: 1, ..moving() };
    holds("move with a crash", crash, false);
    holds("move with a death", Bounds { deaths: 1, suspicions: 1, ..moving() }, false);
}

/// More than is tried at each push: more time, more of it going wrong at once.
#[test]
fn more_of_it_holds_where_it_is_asked_for() {
    if asked().is_none() {
        return;
    }
    holds("death and a duel", Bounds { deaths: 1, suspicions: 2, ..duel() }, false);
    holds("two crashes", Bounds { crashes: 2, wakes: [2, 2, 0], is_slow: true, ..duel() }, false);
    let slow = Bounds { is_slow: true, crashes: 1, wakes: [3, 1, 0], writes: 2, ..moving() };
    holds("slow move with a crash", slow, false);
}

/// The rule that a flaw breaks; `states` are more than it takes to find out.
#[track_caller]
fn is_found(flaw: Flaw, bounds: Bounds, rule: Rule, states: usize) {
    let bounds = Bounds { flaw: Some(flaw), ..bounds };
    let found = failure(&format!("{flaw:?}"), bounds, states, false).unwrap_or_default();
    assert_eq!(found.split(':').next(), Some(rule.name()), "{flaw:?}: {found}");
}

#[test]
fn votes_that_nobody_gave_are_found_out() {
    is_found(Flaw::VotesForged, duel(), Rule::OneViewPerNumber, 400_000);
}

#[test]
fn a_disk_that_forgets_is_found_out() {
    let bounds = Bounds { crashes: 1, ..duel() };
    is_found(Flaw::PromiseForgotten, bounds, Rule::OneViewPerNumber, 1_500_000);
}

#[test]
fn a_unit_that_is_active_too_early_is_found_out() {
    let bounds = Bounds { writes: 0, ..moving() };
    is_found(Flaw::ActiveTooEarly, bounds, Rule::ActiveMeansInstalled, STATES);
}

#[test]
fn a_unit_that_goes_unsealed_is_found_out() {
    is_found(Flaw::GivenUnsealed, Bounds { writes: 2, ..moving() }, Rule::WritesStay, 400_000);
}
