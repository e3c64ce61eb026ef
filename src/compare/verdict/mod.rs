//! What became of the claims of the literature.
//!
//! Two survey articles compare S4 with Storm, and Storm, Trident, Spark Streaming, Samza and Flink. Each thing
//! they claim is a question that runs can answer, so each has a rule: a function from figures to a verdict. No
//! figure of a verdict is typed; the limits that rules compare with are, in one place, with their reasons.
//!
//! A rule is told about all runs of a command and does not know who ran them. Limits are far from where figures
//! lie, so that two commands come to the same verdicts; where a limit is within the interval of a figure,
//! the verdict is that there is none.

mod evidence;
mod limits;
mod rules;

use serde::Serialize;
use starling::cli::Columns;

pub(super) use evidence::Evidence;

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Word {
    /// What is claimed was seen here as well.
    Holds,
    /// What is claimed was seen of the model that it is claimed of, and is not so of keyed PEs here.
    FixedHere,
    /// What is claimed was not seen.
    Refuted,
    /// These runs do not decide it.
    Open,
}

/// What became of one claim, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Verdict {
    /// Its number.
    pub(super) claim: &'static str,
    /// What is claimed.
    pub(super) says: &'static str,
    pub(super) verdict: Word,
    /// The figures behind it with their margins, or what is missing.
    pub(super) why: String,
    /// What the rule demands.
    pub(super) rule: String,
}

/// What a rule finds.
#[derive(Clone, Debug, PartialEq)]
struct Finding {
    word: Word,
    why: String,
}

/// A claim and its rule.
struct Claim {
    id: &'static str,
    says: &'static str,
    rule: fn(&Evidence<'_>) -> Finding,
    /// The rule in words, with the limits that it has.
    criterion: fn() -> String,
}

impl Word {
    /// As it is shown.
    pub(super) fn shown(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::FixedHere => "fixed here",
            Self::Refuted => "refuted",
            Self::Open => "open",
        }
    }
}

impl Finding {
    fn new(word: Word, why: String) -> Self {
        Self { word, why }
    }

    fn open(why: impl Into<String>) -> Self {
        Self::new(Word::Open, why.into())
    }

    /// Figures lie around a limit.
    fn too_close(why: &str) -> Self {
        Self::open(format!("too close to call: {why}"))
    }
}

/// The verdict on each claim.
pub(super) fn verdicts(evidence: &Evidence<'_>) -> Vec<Verdict> {
    let verdict = |claim: &Claim| {
        let Finding { word, why } = (claim.rule)(evidence);
        let Claim { id, says, criterion, .. } = claim;
        Verdict { claim: id, says, verdict: word, why, rule: criterion() }
    };
    CLAIMS.iter().map(verdict).collect()
}

/// Verdicts as a table for people, with the figures below each other.
pub(super) fn lines(verdicts: &[Verdict]) -> Vec<String> {
    let mut table = Columns::new(&["CLAIM", "VERDICT", "WHY"]);
    for verdict in verdicts {
        let word = verdict.verdict.shown().to_owned();
        table.row([verdict.claim.to_owned(), word, verdict.why.clone()]);
    }
    table.lines()
}

const CLAIMS: &[Claim] = &[
    Claim {
        id: "C1",
        says: "S4 makes one object per distinct key, and the many objects cost memory and collection time; \
               a bolt is one object for many keys",
        rule: rules::objects_per_key_cost_memory,
        criterion: rules::objects_per_key_criterion,
    },
    Claim {
        id: "C2",
        says: "In S4 the framework decides when memory is too full; the application cannot flush earlier",
        rule: rules::the_application_flushes,
        criterion: rules::nothing_yet,
    },
    Claim {
        id: "C3",
        says: "In S4 parallelism sits in keys: changing it means new code, a new deployment and other results",
        rule: rules::parallelism_is_code,
        criterion: rules::nothing_yet,
    },
    Claim {
        id: "C4",
        says: "Storm has shuffle, fields, all, global, none, direct and local-or-shuffle groupings",
        rule: rules::groupings_are_there,
        criterion: rules::groupings_criterion,
    },
    Claim {
        id: "C5",
        says: "In top-k word count an S4 count PE has one word and feeds one sort PE; a Storm count bolt has many \
               words and feeds many",
        rule: rules::count_pes_have_one_word,
        criterion: rules::count_pes_criterion,
    },
    Claim {
        id: "C6",
        says: "Storm needs Nimbus, ZooKeeper and supervisors, each a part to run; S4 has no master",
        rule: rules::there_is_no_master,
        criterion: rules::nothing_yet,
    },
    Claim {
        id: "C7",
        says: "Messages are sent without waiting for the receiver; whether one arrived is not known",
        rule: rules::losses_are_not_known,
        criterion: rules::nothing_yet,
    },
    Claim {
        id: "C8",
        says: "An XOR ledger needs 16 bytes a tree, whatever the size of the tree, and acks of 16 bytes",
        rule: rules::a_tree_costs_16_bytes,
        criterion: rules::tree_criterion,
    },
    Claim {
        id: "C9",
        says: "At-least-once by replay may count twice; at-most-once by switching acks off; exactly-once is \
               what one wants",
        rule: rules::replays_count_twice,
        criterion: rules::nothing_yet,
    },
    Claim {
        id: "C10",
        says: "A node of 24 cores doing 500,000 records a second is acceptable, 1,000,000 is good",
        rule: rules::a_million_a_node_is_good,
        criterion: rules::million_criterion,
    },
    Claim {
        id: "C11",
        says: "Fault tolerance costs 10 to 15 % of throughput; state costs 25 to 50 % more",
        rule: rules::acks_cost_throughput,
        criterion: rules::acks_criterion,
    },
    Claim {
        id: "C12",
        says: "Native streaming answers in tens of milliseconds, micro-batches in seconds",
        rule: rules::streaming_answers_fast,
        criterion: rules::streaming_criterion,
    },
    Claim {
        id: "C13",
        says: "Storm's acks take back-pressure for failure",
        rule: rules::back_pressure_is_no_failure,
        criterion: rules::back_pressure_criterion,
    },
    Claim {
        id: "C14",
        says: "Recovery goes on from the last good state without harm to results, under a chaos monkey",
        rule: rules::recovery_does_no_harm,
        criterion: rules::nothing_yet,
    },
    Claim {
        id: "C15",
        says: "Local state in the tens of gigabytes works",
        rule: rules::state_beyond_memory_works,
        criterion: rules::nothing_yet,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_has_a_verdict_and_without_runs_all_but_one_are_open() {
        let verdicts = verdicts(&Evidence::new(&[]));
        let ids: Vec<String> = (1..=15).map(|number| format!("C{number}")).collect();
        assert_eq!(verdicts.iter().map(|verdict| verdict.claim).collect::<Vec<_>>(), ids);
        for verdict in &verdicts {
            assert!(!verdict.why.is_empty(), "{verdict:?}");
            // What groupings there are needs no run.
            let is_open = verdict.verdict == Word::Open || verdict.claim == "C4";
            assert!(is_open, "{verdict:?}");
        }
        let lines = lines(&verdicts);
        assert_eq!(lines.len(), 16);
        assert!(lines[1].starts_with("C1     open"), "{lines:#?}");
    }
}
