//! Two nodes whose connections break while events flow, and a result as if they had not.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/proxy.rs"]
mod proxy;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use proxy::Proxy;
use starling::cli::Status;
use support::{Node, starling, wait_for};

/// How often each file is played: for as long as it takes to break a few dozen connections.
const PLAYS: u64 = 20;

/// One test at a time: what breaks here looks like a machine that is too busy, and should not be one.
static TURN: Mutex<()> = Mutex::new(());

/// A node, and the ways on which the others reach it.
struct Far {
    node: Node,
    control: Proxy,
    data: Proxy,
}

impl Far {
    #[track_caller]
    fn start(folder: &Path, topology: &Path, entry: Option<&Self>) -> Self {
        let (control, data) = (Proxy::new(), Proxy::new());
        let ways = [control.address(), data.address()];
        let mut arguments = vec!["--topology", topology.to_str().unwrap(), "--containers", "1"];
        arguments.extend(["--expected-nodes", "2", "--log-level", "info,node=debug"]);
        arguments.extend(["--advertise", &ways[0], "--advertise-data", &ways[1]]);
        let entry = entry.map(|entry| entry.control.address());
        match &entry {
            Some(entry) => arguments.extend(["--join", entry]),
            None => arguments.push("--bootstrap"),
        }
        let node = Node::start(starling(), folder, arguments);
        control.lead_to(&node.addresses.control);
        data.lead_to(&node.addresses.data);
        Self { node, control, data }
    }
}

fn applied(status: &Status) -> u64 {
    status.topologies[0].applied
}

fn is_over(pair: &[Far; 2]) -> bool {
    pair.iter().all(|far| far.node.status().topologies[0].phase == "ended")
}

#[track_caller]
fn pair(test: &str) -> [Far; 2] {
    let folder = support::folder(test);
    let params = format!(", repeat = {PLAYS}");
    let topology = support::top_words(&folder, &support::corpus(), &params);
    let first = Far::start(&folder.join("a"), &topology, None);
    let second = Far::start(&folder.join("b"), &topology, Some(&first));
    for far in [&first, &second] {
        far.node.wait_to_show("two members", |status| status.members.len() == 2);
        far.node.wait_to_show("events", |status| applied(status) > 0);
    }
    [first, second]
}

/// Waits until so many more bytes have come on data links, or all is over.
#[track_caller]
fn flow(pair: &[Far; 2], bytes: u64) {
    // Both may have their streams on one connection.
    let count = || pair.iter().map(|far| far.data.bytes()).sum::<u64>();
    let before = count();
    wait_for("events on their way", || (count() >= before + bytes || is_over(pair)).then_some(()));
}

/// The ten most frequent words of the bundled text, by a plain count.
fn plain() -> Vec<(String, u64)> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let files = fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path());
    let mut counts = BTreeMap::<String, u64>::new();
    for file in files.filter(|path| path.extension().is_some_and(|name| name == "txt")) {
        let text = fs::read_to_string(file).unwrap();
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
        for word in words.map(|word| word.trim_matches('\'')).filter(|word| !word.is_empty()) {
            *counts.entry(word.to_ascii_lowercase()).or_default() += PLAYS;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|one, two| two.1.cmp(&one.1).then_with(|| one.0.cmp(&two.0)));
    counts.truncate(10);
    counts
}

/// Waits for the end, and compares.
#[track_caller]
fn assert_exact(pair: [Far; 2]) {
    let statuses = pair.each_ref().map(|far| far.node.wait_until("ended"));
    let mut top: Vec<(u64, String, u64)> = Vec::new();
    for far in &pair {
        for row in far.node.client().table::<serde_json::Value>("top").unwrap() {
            let number = |name: &str| row[name].as_u64().unwrap();
            top.push((number("rank"), row["word"].as_str().unwrap().to_owned(), number("n")));
        }
    }
    top.sort();
    let top: Vec<_> = top.into_iter().map(|(_, word, n)| (word, n)).collect();
    assert_eq!(top, plain());
    for status in statuses {
        let part = &status.topologies[0];
        assert_eq!((part.in_doubt, part.dropped.values().sum::<u64>()), (0, 0), "{part:?}");
        assert_eq!(status.members.len(), 2);
    }
    for Far { node, .. } in pair {
        assert!(!node.log().contains("a data link begins anew"), "{}", node.log());
        assert!(node.stop().success());
    }
}

#[test]
fn connections_that_are_closed_again_and_again_lose_and_double_nothing() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let pair = pair("links-closed");
    let ways = |far: usize| [&pair[far].data, &pair[far].control, &pair[far].data];
    let mut closed = 0;
    for which in 0..60 {
        if is_over(&pair) {
            break;
        }
        closed += ways(which % 2)[which / 2 % 3].cut();
        flow(&pair, 50_000);
    }
    assert!(closed >= 10, "it was over after {closed} connections");
    assert_exact(pair);
}

#[test]
fn a_connection_on_which_nothing_passes_any_more_is_replaced() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let pair = pair("links-stalled");
    let stalled: usize = pair.iter().map(|far| far.data.stall()).sum();
    assert!(stalled > 0 && !is_over(&pair), "{stalled} connections");
    flow(&pair, 20_000);
    let is_noticed = |far: &Far| far.node.said(&["no answer in time"]).is_some();
    assert!(pair.iter().any(is_noticed));
    assert_exact(pair);
}
