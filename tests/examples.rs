//! The examples, run to their end as processes and held against counts without an engine.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;
use support::Node;

#[derive(Debug, PartialEq, Deserialize)]
struct Place {
    rank: u64,
    word: String,
    n: u64,
}

#[test]
fn top_words_ranks_the_bundled_text() {
    let folder = support::folder("top-words");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut program = support::example("top_words");
    program.current_dir(root);
    let topology = "examples/top_words/top-words.toml";
    let node = Node::start(program, &folder, ["--bootstrap", "--topology", topology]);

    let status = node.wait_until("ended");
    let part = &status.topologies[0];
    assert_eq!(part.spouts[0].partitions.len(), 12, "{part:?}");
    assert!(part.spouts[0].partitions.iter().all(|file| file.exhausted), "{part:?}");
    let mut found: Vec<Place> = node.client().table("top").unwrap();
    found.sort_by_key(|place| place.rank);
    assert_eq!(found, count_words(&root.join("corpus")));
    assert!(node.stop().success());
}

/// The ten most frequent words of all text files of a folder.
fn count_words(folder: &Path) -> Vec<Place> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let text = fs::read_to_string(path).unwrap().to_ascii_lowercase();
            for run in text.split(|c: char| !(c.is_alphanumeric() || c == '\'')) {
                *counts.entry(run.trim_matches('\'').to_owned()).or_default() += 1;
            }
        }
    }
    counts.remove("");
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    (1..=10).zip(counts).map(|(rank, (word, n))| Place { rank, word, n }).collect()
}

#[derive(Debug, Deserialize)]
struct Row {
    key: u64,
}

#[test]
fn generated_numbers_reach_their_sinks() {
    let folder = support::folder("generated");
    let topology = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/generated.toml");
    let arguments = ["--bootstrap".as_ref(), "--topology".as_ref(), topology.as_os_str()];
    let node = Node::start(support::starling(), &folder, arguments);

    let status = node.wait_until("ended");
    let part = &status.topologies[0];
    let positions: Vec<_> =
        part.spouts[0].partitions.iter().map(|partition| partition.position).collect();
    assert_eq!(positions, [750; 4], "{part:?}");
    let applied: Vec<_> = part.pes.iter().map(|pe| (&*pe.name, pe.applied)).collect();
    assert_eq!(applied, [("print", 3000), ("seen", 3000)]);
    let rows: Vec<Row> = node.client().table("seen").unwrap();
    let keys: BTreeSet<_> = rows.iter().map(|row| row.key).collect();
    assert_eq!(keys.len(), rows.len(), "one row for each key");
    // The rarest has one chance in 519 with each event.
    assert!(keys.len() > 90 && keys.iter().all(|&key| key < 100), "{keys:?}");
    assert!(node.stop().success());
}

#[derive(Debug, Deserialize)]
struct Rate {
    ad: u32,
    impressions: u64,
    clicks: u64,
    rate: f64,
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "the counts are small")]
fn click_through_joins_impressions_and_clicks_by_ad() {
    let folder = support::folder("click-through");
    let log = folder.join("clicks.log");
    let generated = support::example("click_through").arg("generate").arg(&log).status().unwrap();
    assert!(generated.success());
    let mut program = support::example("click_through");
    program.current_dir(&folder);
    let topology = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/click-through.toml");
    let arguments = ["--bootstrap".as_ref(), "--topology".as_ref(), topology.as_os_str()];
    let node = Node::start(program, &folder.join("node"), arguments);

    node.wait_until("ended");
    let found: Vec<Rate> = node.client().table("rates").unwrap();
    let counts = found.iter().map(|rate| (rate.ad, (rate.impressions, rate.clicks))).collect();
    assert_eq!(count_clicks(&fs::read_to_string(log).unwrap()), counts);
    for Rate { ad, impressions, clicks, rate } in found {
        // As JSON a number may lose its last bit.
        let is_right = (rate * impressions as f64 - clicks as f64).abs() < 1e-6;
        assert!(is_right, "ad {ad}: {clicks} of {impressions} are not {rate}");
    }
    assert!(node.stop().success());
}

/// Impressions and clicks of each ad in a log.
fn count_clicks(log: &str) -> BTreeMap<u32, (u64, u64)> {
    let mut counts: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for line in log.lines() {
        if let Some((_, ad)) = line.split_once(" impression ad=") {
            counts.entry(ad.parse().unwrap()).or_default().0 += 1;
        } else if let Some((_, ad)) = line.split_once(" click ad=") {
            counts.entry(ad.parse().unwrap()).or_default().1 += 1;
        }
    }
    assert!(counts.len() > 40, "a log with too few ads proves little");
    counts
}

fn storm_starter(topology: &str, folder: &Path) -> Node {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let topology = root.join("examples/storm_starter").join(topology);
    let mut program = support::example("storm_starter");
    program.current_dir(root);
    let arguments = ["--bootstrap".as_ref(), "--topology".as_ref(), topology.as_os_str()];
    Node::start(program, folder, arguments)
}

#[derive(Debug, Deserialize)]
struct Counted {
    word: String,
    n: u64,
}

/// Each line is a tree, all are complete, and the last count of each word is that of a plain count.
#[test]
fn the_word_count_of_storm_counts_each_word_once() {
    let folder = support::folder("storm-words");
    let node = storm_starter("word-count.toml", &folder);
    let status = node.wait_until("ended");
    let part = &status.topologies[0];
    assert_eq!((part.replays, part.trees_pending), (0, 0), "{part:?}");
    let mut lines = 0;
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for entry in fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let text = fs::read_to_string(path).unwrap();
            lines += text.lines().count() as u64;
            for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
                *counts.entry(word.to_lowercase()).or_default() += 1;
            }
        }
    }
    assert_eq!(part.trees_completed, lines, "a tree for each line");
    let found: Vec<Counted> = node.client().table("counts").unwrap();
    let found: BTreeMap<_, _> = found.into_iter().map(|row| (row.word, row.n)).collect();
    assert_eq!(found, counts);
    assert!(node.stop().success());
}

/// What comes of two tuples is anchored to both, and what waits for nothing is done with at a tick.
#[test]
fn the_click_through_join_of_bolts_finds_all_pairs() {
    let folder = support::folder("storm-clicks");
    let (mut log, mut pairs) = (String::new(), BTreeSet::new());
    for id in 0..2_000_u32 {
        let click = format!("click {id}\n");
        let is_clicked = id % 3 == 0;
        // Some come before what they are of.
        let (before, behind) = if id % 6 == 0 { (&*click, "") } else { ("", &*click) };
        log += if is_clicked { before } else { "" };
        log += &format!("impression {id} ad-{}\n", id % 7);
        log += if is_clicked { behind } else { "" };
        if is_clicked {
            pairs.insert(format!("{id}\tad-{}", id % 7));
        }
    }
    fs::write(folder.join("clicks.log"), log).unwrap();
    let given = Path::new(env!("CARGO_MANIFEST_DIR"));
    let given = given.join("examples/storm_starter/click-through.toml");
    let text = fs::read_to_string(given).unwrap().replace("timer = \"10s\"", "timer = \"1s\"");
    fs::write(folder.join("join.toml"), text).unwrap();
    let mut program = support::example("storm_starter");
    program.current_dir(&folder);
    let arguments = ["--bootstrap", "--topology", "join.toml"];
    let node = Node::start(program, &folder.join("node"), arguments);
    let status = node.wait_until("ended");
    let part = &status.topologies[0];
    assert_eq!((part.replays, part.trees_pending), (0, 0), "{part:?}");
    let found = fs::read_to_string(folder.join("clicked.tsv")).unwrap();
    let lines: Vec<_> = found.lines().map(str::to_owned).collect();
    // Who was told to wait no longer before its other half came is not among them; nobody is twice.
    let distinct: BTreeSet<_> = lines.iter().cloned().collect();
    assert_eq!(distinct.len(), lines.len());
    assert!(distinct.is_subset(&pairs), "{:?}", distinct.difference(&pairs).next());
    assert!(distinct.len() > pairs.len() / 2, "{} of {}", distinct.len(), pairs.len());
    assert!(node.stop().success());
}
