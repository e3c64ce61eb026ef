//! Outlets: what an event costs from `emit` until its batch is ready for its lane.
//!
//! Pushed into columns, sealed when full, hashed, and chosen or copied by lane; then the batch comes back,
//! as it does from a consumer. The first lane is that of the container itself, whose rows stay where they
//! are.

mod support;

use divan::Bencher;
use divan::counter::ItemsCount;
use membership::NodeId;
use pe::Event;
use routing::{
    AnyOutlet, BatchHeader, Budget, ContainerId, KeyFields, Lane, Lanes, Outlet, Spread,
};
use support::{Number, NumberRef, ROWS, Word, WordRef};

fn main() {
    support::main();
}

/// Lanes that the rows of a batch go to.
const LANES: [u16; 3] = [1, 2, 8];

/// Batches pushed before what is ready is taken.
const BATCHES: usize = 16;

#[divan::bench(args = LANES)]
fn numbers(bencher: Bencher<'_, '_>, lanes: u16) {
    let keys: Vec<_> = support::numbers().take(BATCHES * ROWS).collect();
    let mut outlet = outlet::<Number>(lanes);
    bencher.counter(ItemsCount::new(keys.len())).bench_local(|| {
        keys.iter().for_each(|&key| outlet.push(NumberRef { key }));
        give_back(&mut outlet)
    });
}

#[divan::bench(args = LANES)]
fn words(bencher: Bencher<'_, '_>, lanes: u16) {
    let words: Vec<_> = support::words().take(BATCHES * ROWS).collect();
    let mut outlet = outlet::<Word>(lanes);
    bencher.counter(ItemsCount::new(words.len())).bench_local(|| {
        words.iter().for_each(|text| outlet.push(WordRef { text }));
        give_back(&mut outlet)
    });
}

/// An outlet with one edge, by key, to so many containers of this node.
fn outlet<E: Event>(lanes: u16) -> Outlet<E> {
    let to = |container| ContainerId { node: NodeId(1), container };
    let lane = |container| Lane { to: to(container), task: BatchHeader::NO_TASK };
    let slots = (0..1024).map(|slot| slot % lanes).collect();
    let lanes = Lanes { lanes: (0..lanes).map(lane).collect(), spread: Spread::Slots(slots) };
    let mut outlet = Outlet::default();
    outlet.connect(KeyFields(vec![0]));
    outlet.lead(0, to(0), lanes, Budget { batches: 32, kibibytes: 64 });
    outlet
}

/// Takes what is ready and gives it back, handled; says how many events it was.
fn give_back<E: Event>(outlet: &mut Outlet<E>) -> u64 {
    let mut rows = 0;
    while let Some(ready) = outlet.ready().pop() {
        rows += u64::from(ready.rows);
        outlet.credit(ready.route, ready.lane, ready.rows.into(), ready.weight);
        outlet.recycle(ready.batch);
    }
    rows
}
