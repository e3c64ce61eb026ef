//! Counting keys: skewed ones, a hot one, and each once.

use routing::Key;

use super::mesh::{FULL, Port, on_mesh};
use crate::data::{keys, share};
use crate::table::{Table, owner};
use crate::{Meter, Outcome, Spec, measure};

/// [`KeyedCount`](crate::Workload::KeyedCount), [`HotKey`](crate::Workload::HotKey) and
/// [`Counters`](crate::Workload::Counters).
pub(super) fn run(spec: &Spec) -> Outcome {
    let keys = keys(spec);
    let (meter, before) = (Meter::start(), measure::resident());
    let tables = on_mesh(spec.threads, |me, port| {
        let keys = &keys[share(keys.len(), me, port.threads())];
        let table = count(keys, port);
        (table.digest(), table)
    });
    let answer = tables.iter().fold(0u64, |sum, (digest, _)| sum.wrapping_add(*digest));
    let outcome = meter.finish(keys.len() as u64, size_of_val(&**keys) as u64, answer);
    let distinct = tables.iter().map(|(_, table)| table.len()).sum();
    Outcome { bytes_per_key: measure::per_key(before, distinct), ..outcome }
}

/// Sends each key to its owner, and counts those that come here.
fn count(keys: &[u64], mut port: Port<Vec<u64>>) -> Table<u64, u64> {
    let mut table = Table::new();
    let mut take = |batch: &Vec<u64>| batch.iter().for_each(|&key| table.count(key));
    for &key in keys {
        let to = owner(key.hash(), port.threads());
        let batch = port.open(to);
        batch.push(key);
        if batch.len() == FULL {
            port.ship(to, &mut take);
        }
    }
    port.finish(&mut take);
    table
}
