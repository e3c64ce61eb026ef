//! Which workloads have been written for which models.
//!
//! Not every comparison means something: a join written for timely by us would measure how well we
//! know timely. So there are gaps, and asking for one is answered with what there is.

use std::error::Error;
use std::fmt;

use crate::{Model, Spec, Workload};

/// The models that a workload has been written for.
pub fn models(workload: Workload) -> &'static [Model] {
    use Model::{Actor, Baseline, Bolt, Keyed, OneStep, Timely};
    match workload {
        Workload::KeyedCount | Workload::HotKey | Workload::WordCount => {
            &[Baseline, Timely, Keyed, Bolt, Actor]
        }
        Workload::TopWords | Workload::ClickThrough => &[Baseline, Keyed, Bolt],
        Workload::FanOut => &[Baseline, Keyed],
        Workload::Chain => &[Baseline, Timely, Keyed, OneStep],
        Workload::Counters => &[Baseline, Keyed, Bolt, Actor],
        Workload::OpenLoop => &[Baseline, Timely, Keyed],
        Workload::StalledSink => &[Keyed],
    }
}

/// A workload has not been written for the model that was asked for. Nothing was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// What was asked for.
    pub workload: Workload,
    /// By whom.
    pub model: Model,
}

impl From<&Spec> for Unsupported {
    fn from(spec: &Spec) -> Self {
        Self { workload: spec.workload, model: spec.model }
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { workload, model } = self;
        write!(f, "{} has not been written for {}, only for", name(workload), name(model))?;
        let models = models(*workload).iter().enumerate();
        models.into_iter().try_for_each(|(index, model)| {
            write!(f, "{} {}", if index == 0 { "" } else { "," }, name(model))
        })
    }
}

impl Error for Unsupported {}

/// As it is written on the command line.
fn name(value: &impl clap::ValueEnum) -> String {
    let value = value.to_possible_value().expect("no value is hidden");
    value.get_name().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_for_a_gap_is_told_what_there_is() {
        let gap = Unsupported { workload: Workload::FanOut, model: Model::Timely };
        assert_eq!(
            gap.to_string(),
            "fan-out has not been written for timely, only for baseline, keyed"
        );
    }
}
