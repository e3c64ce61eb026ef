//! Who takes part in a comparison: a model, and how the engine delivers under it.

use std::fmt;

use bench::{Model, Spec};

use super::name;

/// A model with or without acks; shown as `keyed` or `keyed+ack64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contender {
    pub(super) model: Model,
    /// Of how many events an ack speaks, if there are acks.
    pub(super) acks: Option<u32>,
}

impl Contender {
    /// A model without acks.
    pub(super) const fn plain(model: Model) -> Self {
        Self { model, acks: None }
    }

    /// Who does this run.
    pub(super) fn of(spec: &Spec) -> Self {
        Self { model: spec.model, acks: spec.acks }
    }

    /// The run that it does of those of a comparison.
    pub(super) fn run_of(self, spec: &Spec) -> Spec {
        Spec { model: self.model, acks: self.acks, ..spec.clone() }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(&self.model))?;
        self.acks.map_or(Ok(()), |acks| write!(f, "+ack{acks}"))
    }
}

/// All who take part: each of the models, those of the engine once for each choice of acks.
pub(super) fn contenders(models: &[Model], acks: &[Option<u32>]) -> Vec<Contender> {
    let of = |&model: &Model| {
        let acks = if model.has_acks() { acks } else { &[None] };
        acks.iter().map(move |&acks| Contender { model, acks })
    };
    models.iter().flat_map(of).collect()
}

/// Reads one of the choices of `--acks`: `off`, or of how many events an ack speaks.
pub(super) fn parse_acks(text: &str) -> Result<Acks, String> {
    if text == "off" {
        return Ok(Acks(None));
    }
    match text.parse() {
        Ok(granularity @ 1..=ACKS_MAX) => Ok(Acks(Some(granularity))),
        _ => Err(format!("`off`, or a number of 1 to {ACKS_MAX}")),
    }
}

/// One of the choices of `--acks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acks(pub(super) Option<u32>);

/// The most events that an ack may speak of: more than that are never in flight.
const ACKS_MAX: u32 = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acks_multiply_the_models_that_have_them() {
        let models = [Model::Baseline, Model::Keyed, Model::Bolt, Model::Actor];
        let all = contenders(&models, &[None, Some(1), Some(64)]);
        let shown: Vec<String> = all.iter().map(ToString::to_string).collect();
        let engine = ["keyed", "keyed+ack1", "keyed+ack64", "bolt", "bolt+ack1", "bolt+ack64"];
        assert_eq!(shown, [&["baseline"][..], &engine, &["actor"]].concat());
        let spec = Spec::new(bench::Workload::KeyedCount, Model::Baseline);
        assert_eq!(Contender::of(&all[3].run_of(&spec)), all[3]);
    }

    #[test]
    fn acks_are_off_or_a_number() {
        assert_eq!(parse_acks("off"), Ok(Acks(None)));
        assert_eq!(parse_acks("64"), Ok(Acks(Some(64))));
        for wrong in ["on", "0", "-1", "", "65537", "1.5"] {
            assert!(parse_acks(wrong).is_err(), "{wrong}");
        }
    }
}
