//! Counting numbers: a map of them in each task.

use pe::{Ctx, On, Pe, Removal};
use serde::{Deserialize, Serialize};

use super::super::ledger;
use super::super::sources::{Number, NumberRef};
use crate::table::Table;

/// How often each of the numbers of a task was seen.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(in super::super) struct CounterBolt {
    counts: Table<u64, u64>,
}

impl Pe for CounterBolt {
    type In = Number;
    type Out = ();

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, ()>) {
        if reason == Removal::Moved {
            return; // It goes on elsewhere.
        }
        ledger::counted(self.counts.len(), self.counts.iter().map(|(_, count)| count).sum());
        ledger::answer(self.counts.digest(), ctx.now());
    }
}

impl On<Number> for CounterBolt {
    fn on(&mut self, number: NumberRef, _: &mut Ctx<'_, ()>) {
        self.counts.count(number.n);
    }
}
