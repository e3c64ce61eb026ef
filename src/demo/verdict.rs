//! What came of it: whether the cluster counted right, and whether every node did its share.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use starling::cli::{Columns, grouped};

use super::plain::{self, Place};
use super::progress::{NodeView, Snapshot};

/// The least part of all events that a node has to apply, in thousandths: a tenth of them or, where
/// there are so many nodes that a tenth is too much to ask, half of an even share.
fn share_least(nodes: usize) -> u64 {
    u64::try_from(500 / nodes.max(1)).unwrap_or(0).min(100)
}

/// The result of a demo.
#[derive(Debug)]
pub(super) struct Verdict {
    /// What the cluster says.
    top: Vec<Place>,
    /// What the plain count says.
    plain: Vec<Place>,
    /// How often a file was played, all files together.
    plays: u64,
    shares: Vec<Share>,
    applied: u64,
    /// Events that were dropped, by reason.
    dropped: BTreeMap<String, u64>,
    in_doubt: u64,
    dead_letters: u64,
    /// How long events flowed, in milliseconds.
    elapsed_ms: u64,
}

/// What a node did.
#[derive(Debug)]
struct Share {
    node: String,
    slots: usize,
    applied: u64,
}

impl Verdict {
    /// Holds the last snapshot against a plain count.
    pub(super) fn new(last: &Snapshot, elapsed_ms: u64) -> Self {
        let mut dropped = BTreeMap::new();
        for (reason, count) in last.nodes.iter().flat_map(NodeView::dropped) {
            *dropped.entry(reason.clone()).or_insert(0) += count;
        }
        let share = |node: &NodeView| Share {
            node: node.status.node.clone(),
            slots: node.slots(),
            applied: node.applied(),
        };
        Self {
            top: last.top.clone(),
            plain: plain::top_ten(&last.plays),
            plays: last.plays.values().sum(),
            shares: last.nodes.iter().map(share).collect(),
            applied: last.applied(),
            dropped,
            in_doubt: last.nodes.iter().map(NodeView::in_doubt).sum(),
            dead_letters: last.nodes.iter().map(NodeView::dead_letters).sum(),
            elapsed_ms,
        }
    }

    /// All that is not as it should be; empty for a success.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if self.plays == 0 {
            faults.push("no file was played to its end".to_owned());
        }
        if self.top != self.plain {
            faults.push("the top ten differs from the plain count".to_owned());
        }
        let least = share_least(self.shares.len());
        for share in &self.shares {
            if share.applied * 1_000 < self.applied * least {
                let (node, percent, least) = (&share.node, self.percent(share), percent(least));
                faults.push(format!(
                    "node {node} applied {percent} of all events, less than {least}"
                ));
            }
        }
        faults
    }

    pub(super) fn to_json(&self) -> Value {
        let nodes: Vec<Value> =
            self.shares.iter().map(|share| share.to_json(self.applied)).collect();
        let faults = self.faults();
        json!({
            "ok": faults.is_empty(),
            "faults": faults,
            "equal": self.top == self.plain,
            "top": self.top,
            "plain": self.plain,
            "plays": self.plays,
            "applied": self.applied,
            "lost": self.lost(),
            "dropped": self.dropped,
            "in_doubt": self.in_doubt,
            "dead_letters": self.dead_letters,
            "elapsed_ms": self.elapsed_ms,
            "events_per_second": self.rate(),
            "nodes": nodes,
        })
    }

    /// The result as tables.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut words = Columns::new(&["RANK", "WORD", "COUNT", "PLAIN WORD", "PLAIN COUNT", ""]);
        for index in 0..self.top.len().max(self.plain.len()) {
            let (place, plain) = (self.top.get(index), self.plain.get(index));
            words.row([
                (index + 1).to_string(),
                place.map_or_else(|| "-".into(), |place| place.word.clone()),
                place.map_or_else(|| "-".into(), |place| grouped(place.n)),
                plain.map_or_else(|| "-".into(), |place| place.word.clone()),
                plain.map_or_else(|| "-".into(), |place| grouped(place.n)),
                if place == plain { "equal".into() } else { "DIFFERENT".into() },
            ]);
        }
        let mut nodes = Columns::new(&["NODE", "SLOTS", "APPLIED", "SHARE"]);
        for share in &self.shares {
            nodes.row([
                share.node.clone(),
                share.slots.to_string(),
                grouped(share.applied),
                self.percent(share),
            ]);
        }
        let mut lines = words.lines();
        lines.push(String::new());
        lines.extend(nodes.lines());
        lines.push(String::new());
        lines.push(format!(
            "{} events in {}.{} s, {} events/s; files played {} times; {} lost, {} dead letters",
            grouped(self.applied),
            self.elapsed_ms / 1_000,
            self.elapsed_ms % 1_000 / 100,
            grouped(self.rate()),
            grouped(self.plays),
            grouped(self.lost()),
            grouped(self.dead_letters)
        ));
        lines
    }

    /// Events that were not applied, or perhaps not.
    fn lost(&self) -> u64 {
        self.dropped.values().sum::<u64>() + self.in_doubt
    }

    fn rate(&self) -> u64 {
        self.applied.saturating_mul(1_000) / self.elapsed_ms.max(1)
    }

    fn percent(&self, share: &Share) -> String {
        percent(share.applied * 1_000 / self.applied.max(1))
    }
}

/// Thousandths as people read them.
fn percent(thousandths: u64) -> String {
    format!("{}.{}%", thousandths / 10, thousandths % 10)
}

impl Share {
    fn to_json(&self, all: u64) -> Value {
        let percent = self.applied * 100 / all.max(1);
        json!({
            "node": self.node, "slots": self.slots, "applied": self.applied, "percent": percent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(applied: [u64; 3]) -> Verdict {
        let top = vec![Place { rank: 1, word: "the".into(), n: 4 }];
        let share = |applied| Share { node: format!("node-{applied}"), slots: 341, applied };
        Verdict {
            plain: top.clone(),
            top,
            plays: 12,
            shares: applied.map(share).into(),
            applied: applied.iter().sum(),
            dropped: BTreeMap::new(),
            in_doubt: 0,
            dead_letters: 0,
            elapsed_ms: 1_234,
        }
    }

    #[test]
    fn equal_tables_and_fair_shares_are_a_success() {
        assert_eq!(verdict([300, 400, 300]).faults(), Vec::<String>::new());
        assert_eq!(verdict([100, 800, 100]).faults(), Vec::<String>::new());
    }

    #[test]
    fn of_many_nodes_less_is_asked() {
        assert_eq!([1, 3, 5, 6, 10].map(share_least), [100, 100, 100, 83, 50]);
    }

    #[test]
    fn every_fault_is_named() {
        let mut verdict = verdict([99, 801, 100]);
        verdict.plain[0].n = 5;
        verdict.plays = 0;
        let faults = verdict.faults();
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert!(
            faults[2].contains("node-99 applied 9.9% of all events, less than 10.0%"),
            "{faults:?}"
        );
        assert_eq!(verdict.to_json()["ok"], false);
        assert!(verdict.lines().iter().any(|line| line.ends_with("DIFFERENT")));
    }
}
