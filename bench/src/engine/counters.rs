//! Counting numbers: one instance for each.

use pe::{Ctx, On, Pe, Removal};
use routing::Key;
use serde::{Deserialize, Serialize};

use super::ledger;
use super::sources::{Number, NumberRef};
use crate::{FAN_OUT, digest, spread};

/// How often one number was seen.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Counter {
    count: u64,
}

impl Pe for Counter {
    type In = Number;
    type Out = ();

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, ()>) {
        if reason == Removal::Moved {
            return; // It goes on elsewhere.
        }
        if let Some(number) = ctx.key().and_then(|key| key.unsigned(0)) {
            ledger::counted(1, self.count);
            ledger::answer(digest(number.hash(), self.count), ctx.now());
        }
    }
}

impl On<Number> for Counter {
    fn on(&mut self, _: NumberRef, _: &mut Ctx<'_, ()>) {
        self.count += 1;
    }
}

/// Makes many numbers of one.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Fan;

impl Pe for Fan {
    type In = Number;
    type Out = Number;
}

impl On<Number> for Fan {
    fn on(&mut self, number: NumberRef, ctx: &mut Ctx<'_, Number>) {
        for which in 0..FAN_OUT {
            ctx.emit(NumberRef { n: spread(number.n, which) });
        }
    }
}

/// Passes each number on as it is.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Echo;

impl Pe for Echo {
    type In = Number;
    type Out = Number;
}

impl On<Number> for Echo {
    fn on(&mut self, number: NumberRef, ctx: &mut Ctx<'_, Number>) {
        ctx.emit(number);
    }
}
