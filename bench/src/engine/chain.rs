//! Steps without state, one after the other.

use pe::{Ctx, KeyRef, On, Param, Params, Pe, Removal};
use serde::{Deserialize, Serialize};

use super::ledger;
use super::sources::{Number, NumberRef};
use crate::{CHAIN, step};

/// One of the steps.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Step {
    which: u32,
}

impl Pe for Step {
    type In = Number;
    type Out = Number;
    const PARAMS: &'static [Param] =
        &[Param::integer("which", "which of the steps").between(0, 1_000).required()];

    fn create(_: KeyRef<'_>, params: &Params) -> Self {
        Self { which: u32::try_from(params.integer("which")).expect("a small number") }
    }
}

impl On<Number> for Step {
    fn on(&mut self, number: NumberRef, ctx: &mut Ctx<'_, Number>) {
        ctx.emit(NumberRef { n: step(number.n, self.which) });
    }
}

/// All of the steps.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct AllSteps;

impl Pe for AllSteps {
    type In = Number;
    type Out = Number;
}

impl On<Number> for AllSteps {
    fn on(&mut self, number: NumberRef, ctx: &mut Ctx<'_, Number>) {
        ctx.emit(NumberRef { n: (0..CHAIN).fold(number.n, step) });
    }
}

/// Adds up what comes out.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Sum {
    sum: u64,
}

impl Pe for Sum {
    type In = Number;
    type Out = ();

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, ()>) {
        if reason == Removal::Moved {
            return; // It goes on elsewhere.
        }
        ledger::answer(self.sum, ctx.now());
    }
}

impl On<Number> for Sum {
    fn on(&mut self, number: NumberRef, _: &mut Ctx<'_, ()>) {
        self.sum = self.sum.wrapping_add(number.n);
    }
}
