//! Nodes come and go on purpose while words are counted, and the count comes out as if they had not.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use support::ground::Ground;
use support::{Node, agree, flow, wait_for};

/// A row of the table of all words.
#[derive(Clone, Debug, Deserialize)]
struct Row {
    word: String,
    n: u64,
}

/// A cluster that counts words of files, each played again and again for some time.
struct Words {
    ground: Ground,
    texts: BTreeMap<String, String>,
}

impl Words {
    fn new(test: &str) -> Self {
        let folder = support::folder(test);
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let texts = (1..=6).map(|number| {
            let name = format!("speeches-{number:02}.txt");
            let text = fs::read_to_string(corpus.join(&name)).unwrap();
            (name, text.lines().take(300).map(|line| format!("{line}\n")).collect::<String>())
        });
        let texts: BTreeMap<_, _> = texts.collect();
        for (name, text) in &texts {
            fs::write(folder.join(name), text).unwrap();
        }
        let pattern = folder.join("*.txt");
        let topology = support::top_words(&folder, pattern.to_str().unwrap(), ", seconds = 25");
        // And all words, in one table.
        let words = "
[pe.words]
type = \"table\"
input = [{ stream = \"counts\", grouping = \"global\" }]
params = { key = [\"word\"], max_rows = 1_000_000 }
";
        fs::write(&topology, fs::read_to_string(&topology).unwrap() + words).unwrap();
        Self { ground: Ground { folder, topology, expected_nodes: 3 }, texts }
    }

    /// How often each word is in the files, each played so many times; by a rule of its own.
    fn count(&self, plays: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (name, text) in &self.texts {
            let mut word = String::new();
            for letter in text.chars().chain(['\n']) {
                if letter.is_alphanumeric() || letter == '\'' {
                    word.push(letter.to_ascii_lowercase());
                    continue;
                }
                let inner = word.trim_matches('\'');
                if !inner.is_empty() {
                    *counts.entry(inner.to_owned()).or_default() += plays[name];
                }
                word.clear();
            }
        }
        counts
    }
}

/// The table of all words on the node that has its sink, if it is this one.
fn words(node: &Node) -> Vec<Row> {
    node.client().table("words").unwrap()
}

/// Waits for the end, and holds all that was counted against a plain count: equal to the last event.
#[track_caller]
fn assert_exact(ground: &Words, nodes: &[&Node]) {
    for node in nodes {
        node.wait_until("ended");
    }
    let mut plays = BTreeMap::new();
    for node in nodes {
        let topology = node.status().topologies.remove(0);
        assert_eq!(topology.dropped, BTreeMap::new(), "{}", node.name());
        assert_eq!(topology.in_doubt, 0, "{}", node.name());
        for partition in topology.spouts.into_iter().flat_map(|spout| spout.partitions) {
            assert!(partition.exhausted);
            let name = Path::new(&partition.partition).file_name().unwrap();
            plays.insert(name.to_str().unwrap().to_owned(), partition.plays);
        }
    }
    assert_eq!(plays.len(), ground.texts.len(), "each file has one reader: {plays:?}");
    let rows = nodes.iter().flat_map(|node| words(node));
    let counted: BTreeMap<_, _> = rows.map(|row| (row.word, row.n)).collect();
    let expected = ground.count(&plays);
    assert_eq!(counted.len(), expected.len());
    for (word, n) in &expected {
        assert_eq!(counted.get(word), Some(n), "{word}, files played {plays:?}");
    }
}

/// Has a node leave by the command; it must have given all away, and exit with 0.
#[track_caller]
fn drain(node: Node) {
    let drained =
        support::starling().args(["drain", "--http", &node.addresses.http]).output().unwrap();
    let said = String::from_utf8_lossy(&drained.stderr).into_owned();
    assert!(drained.status.success(), "{said}\n{}", node.log());
    assert!(said.contains("has left"), "{said}");
    let code = node.wait().code();
    assert_eq!(code, Some(0));
}

/// From three nodes to five and back to three: the first of them, by which all others came in, is among
/// those that leave.
#[test]
fn from_three_to_five_to_three_every_word_is_counted_exactly() {
    let counting = Words::new("elastic");
    let ground = &counting.ground;
    let a = ground.start("a", None);
    let b = ground.start("b", Some(&a));
    let c = ground.start("c", Some(&a));
    agree(&[&a, &b, &c]);
    flow(&[&a, &b, &c]);
    let d = ground.start("d", Some(&b));
    let e = ground.start("e", Some(&c));
    agree(&[&a, &b, &c, &d, &e]);
    flow(&[&d, &e]);
    assert!(d.status().units_taken > 0 && d.status().bytes_taken > 0);
    // The table is where the last event of a word found it, so its node stays.
    let all = [a, b, c, d, e];
    let has_words = |node: &Node| (!words(node).is_empty()).then_some(());
    let keeper = wait_for("words", || all.iter().position(|node| has_words(node).is_some()));
    let mut rest: Vec<_> = all.into_iter().collect();
    let kept = rest.remove(keeper);
    drain(rest.remove(0));
    agree(&[&kept, &rest[0], &rest[1], &rest[2]]);
    drain(rest.remove(0));
    agree(&[&kept, &rest[0], &rest[1]]);
    assert_exact(&counting, &[&kept, &rest[0], &rest[1]]);
}
