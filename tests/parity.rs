//! One scenario, in the simulator and on real nodes: the same cores give the same results.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;
#[path = "../sim/tests/support/mod.rs"]
mod virtually;

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use sim::World;
use support::{Node, starling, wait_for};
use virtually::{Table, plain, plan, ranking, registry};

/// What came of the scenario.
#[derive(Debug, PartialEq)]
struct Outcome {
    /// The words with the highest counts.
    top: Vec<(String, u64)>,
    /// How many events PEs of which the number follows from the text have handled, on all nodes.
    applied: BTreeMap<String, u64>,
    /// How many partitions are exhausted, and how many there are.
    exhausted: (usize, usize),
    /// Events dropped or in doubt, for whatever reason.
    lost: u64,
    members: Vec<usize>,
}

/// PEs that get as many events however lines fall into batches; those behind them do not.
const COUNTED: [&str; 2] = ["split", "count"];

/// Texts with words in common, none of them empty.
fn texts() -> Vec<&'static str> {
    const TEXT: &str = include_str!("../corpus/speeches-02.txt");
    let mut starts: Vec<_> = TEXT.match_indices('\n').map(|(at, _)| at + 1).collect();
    starts.truncate(120);
    starts.windows(41).step_by(20).map(|lines| &TEXT[lines[0]..lines[40]]).collect()
}

fn in_the_simulator(texts: &[&str]) -> Outcome {
    let table = Table::default();
    let registry = Arc::new(registry(&table));
    let plan = plan(&registry, texts, 1);
    let mut world = World::new(1, registry, &[plan]);
    world.expect(2);
    let nodes = [world.start(2, None), world.start(2, Some(0))];
    let is_over =
        |world: &World| nodes.iter().all(|&node| world.status(node).topologies[0].phase == "ended");
    assert!(world.run_until(Duration::from_secs(600), is_over), "{}", world.trace());
    let statuses = nodes.map(|node| world.status(node));
    let parts = || statuses.iter().map(|status| &status.topologies[0]);
    let partitions: Vec<_> =
        parts().flat_map(|part| &part.spouts).flat_map(|spout| &spout.partitions).collect();
    let applied = parts().flat_map(|part| &part.pes).map(|pe| (&*pe.name, pe.applied));
    Outcome {
        top: ranking(&table),
        applied: sum(applied),
        exhausted: (partitions.iter().filter(|one| one.exhausted).count(), partitions.len()),
        lost: parts().map(|part| part.dropped.values().sum::<u64>() + part.in_doubt).sum(),
        members: statuses.iter().map(|status| status.members.len()).collect(),
    }
}

fn on_real_nodes(texts: &[&str]) -> Outcome {
    let folder = support::folder("parity");
    for (at, text) in texts.iter().enumerate() {
        fs::write(folder.join(format!("{at}.txt")), text).unwrap();
    }
    let topology = support::top_words(&folder, &format!("{}/*.txt", folder.display()), "");
    let common = ["--expected-nodes", "2", "--containers", "2", "--topology"];
    let arguments = |entry: &[&str]| {
        let topology = [topology.to_str().unwrap()];
        let all = common.iter().chain(&topology).chain(entry);
        all.map(|&argument| argument.to_owned()).collect::<Vec<_>>()
    };
    let first = Node::start(starling(), &folder.join("a"), arguments(&["--bootstrap"]));
    let entry = ["--join", &first.addresses.control];
    let second = Node::start(starling(), &folder.join("b"), arguments(&entry));
    let nodes = [first, second];
    let statuses = nodes.each_ref().map(|node| node.wait_until("ended"));
    // What a status shows is as old as the last report of the containers; the end is behind all events.
    let statuses = wait_for("the last figures", || {
        let now = nodes.each_ref().map(Node::status);
        let lines = |status: &starling::cli::Status| status.topologies[0].applied;
        now.iter().zip(&statuses).all(|(now, then)| lines(now) >= lines(then)).then_some(now)
    });
    let parts = || statuses.iter().map(|status| &status.topologies[0]);
    let partitions: Vec<_> =
        parts().flat_map(|part| &part.spouts).flat_map(|spout| &spout.partitions).collect();
    let applied = parts().flat_map(|part| &part.pes).map(|pe| (&*pe.name, pe.applied));
    let mut top: Vec<(u64, String, u64)> = Vec::new();
    for node in &nodes {
        for row in node.client().table::<serde_json::Value>("top").unwrap() {
            let number = |name: &str| row[name].as_u64().unwrap();
            top.push((number("rank"), row["word"].as_str().unwrap().to_owned(), number("n")));
        }
    }
    top.sort();
    let outcome = Outcome {
        top: top.into_iter().map(|(_, word, n)| (word, n)).collect(),
        applied: sum(applied),
        exhausted: (partitions.iter().filter(|one| one.exhausted).count(), partitions.len()),
        lost: parts().map(|part| part.dropped.values().sum::<u64>() + part.in_doubt).sum(),
        members: statuses.iter().map(|status| status.members.len()).collect(),
    };
    assert!(nodes.into_iter().all(|node| node.stop().success()));
    outcome
}

/// What the PEs of [`COUNTED`] have handled on all nodes.
fn sum<'a>(applied: impl Iterator<Item = (&'a str, u64)>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, applied) in applied.filter(|(name, _)| COUNTED.contains(name)) {
        *sums.entry(name.to_owned()).or_default() += applied;
    }
    sums
}

#[test]
fn two_nodes_count_alike_in_the_simulator_and_on_sockets() {
    let texts = texts();
    assert!(texts.len() > 3, "{} texts", texts.len());
    let simulated = in_the_simulator(&texts);
    assert_eq!(simulated.top, plain(&texts));
    assert_eq!(simulated.top.len(), 10);
    assert_eq!(simulated.exhausted, (texts.len(), texts.len()));
    assert_eq!((simulated.lost, &*simulated.members), (0, &[2, 2][..]));
    let lines = texts.iter().flat_map(|text| text.lines()).count();
    assert_eq!(simulated.applied["split"], lines as u64);
    assert_eq!(on_real_nodes(&texts), simulated);
}
