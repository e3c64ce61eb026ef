//! A hundred keys of each event.

use routing::Key;

use super::mesh::{FULL, Port, on_mesh};
use crate::data::{keys, share};
use crate::table::{Table, owner};
use crate::{FAN_OUT, Meter, Outcome, Spec, spread};

/// [`FanOut`](crate::Workload::FanOut).
pub(super) fn run(spec: &Spec) -> Outcome {
    let numbers = keys(spec);
    let meter = Meter::start();
    let digests = on_mesh(spec.threads, |me, port| {
        count(&numbers[share(numbers.len(), me, port.threads())], port)
    });
    let answer = digests.into_iter().fold(0, u64::wrapping_add);
    meter.finish(numbers.len() as u64, size_of_val(&**numbers) as u64, answer)
}

fn count(numbers: &[u64], mut port: Port<Vec<u64>>) -> u64 {
    let mut table = Table::new();
    let mut take = |batch: &Vec<u64>| batch.iter().for_each(|&key| table.count(key));
    for &number in numbers {
        for key in (0..FAN_OUT).map(|which| spread(number, which)) {
            let to = owner(key.hash(), port.threads());
            let batch = port.open(to);
            batch.push(key);
            if batch.len() == FULL {
                port.ship(to, &mut take);
            }
        }
    }
    port.finish(&mut take);
    table.digest()
}
