//! What this version of the engine takes: found by asking it, not by knowing.
//!
//! A comparison says of some things that the engine does not have them yet. If that were written down it
//! would be out of date with the next version; so a topology that asks for the thing is planned, and what the
//! planner says is the answer.

use std::sync::Arc;

use pe::Registry;
use pe::topology::{Diagnostic, Plan, Topology};

use super::{register, topology};
use crate::Spec;

/// The groupings that Storm has, by the names that topologies have for them.
pub const STORM_GROUPINGS: [&str; 7] =
    ["shuffle", "fields", "all", "global", "none", "direct", "local-or-shuffle"];

/// Why this version of the engine does not take the topology of a run; `None` if it does.
pub fn refusal(spec: &Spec) -> Option<String> {
    let problems = plan(&topology::text(spec)).err()?;
    Some(problems.first().map_or_else(|| "it does not say why".to_owned(), ToString::to_string))
}

/// Whether this version of the engine has a grouping.
pub fn has_grouping(grouping: &str) -> bool {
    ["", "parallelism = 2\n"].iter().any(|tasks| plan(&grouped(grouping, tasks)).is_ok())
}

pub(super) fn plan(text: &str) -> Result<Plan, Vec<Diagnostic>> {
    // The sink is the runtime's, and nothing runs here.
    let registry =
        Registry::new().sink("stdout", &[], Arc::new(|_| unreachable!("nothing runs here")));
    Topology::parse(text)?.plan(&register(registry).catalog())
}

fn grouped(grouping: &str, tasks: &str) -> String {
    let is_by_key = matches!(grouping, "fields" | "direct");
    let key = if is_by_key { ", key = [\"n\"]" } else { "" };
    format!(
        r#"name = "asked"
[spout.numbers]
type = "numbers"
emits = "numbers"

[pe.count]
type = "counter"
input = [{{ stream = "numbers", grouping = "{grouping}"{key} }}]
{tasks}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Model, Workload};

    #[test]
    fn what_the_planner_takes_is_there_and_what_it_refuses_is_not() {
        for known in STORM_GROUPINGS {
            assert!(has_grouping(known), "{known}");
        }
        assert!(!has_grouping("by-magic"));
    }

    #[test]
    fn the_refusal_of_a_topology_is_in_the_words_of_the_planner() {
        let spec = Spec::new(Workload::KeyedCount, Model::Keyed);
        assert_eq!(refusal(&spec), None);
        // No reader of acks can take this, now or later.
        let why = refusal(&Spec { acks: Some(0), ..spec }).unwrap();
        assert!(!why.is_empty());
    }
}
