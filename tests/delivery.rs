//! At-least-once on real processes: what a killed node had under way is read again.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use support::ground::{self, Ground, path};
use support::{Node, agree, are_redundant, wait_for};

const FILES: u32 = 6;
const LINES: u32 = 4_000;
const WORDS: u32 = 10;

/// Files of lines in which each word is there once.
fn write_text(ground: &std::path::Path) {
    for file in 0..FILES {
        let mut text = String::new();
        for line in 0..LINES {
            let words = (0..WORDS).map(|word| format!("f{file}l{line}w{word}"));
            writeln!(text, "{}", words.collect::<Vec<_>>().join(" ")).unwrap();
        }
        fs::write(ground.join(format!("text-{file}.txt")), text).unwrap();
    }
}

fn completed(node: &Node) -> u64 {
    node.status().topologies[0].trees_completed
}

/// Two nodes that read partitions are killed in the middle of them, one after the other, and started again with their
/// disks. Each word of each line is in a file in the end; those that are there twice were read again.
#[test]
fn each_word_is_counted_at_least_once_whoever_is_killed() {
    let folder = support::folder("words");
    write_text(&folder);
    let topology = folder.join("words.toml");
    fs::write(&topology, ground::word_count(&folder)).unwrap();
    let ground = Ground { folder, topology, expected_nodes: 3 };
    let mut nodes: Vec<Node> = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(ground.start(name, nodes.first()));
    }
    agree(&nodes.iter().collect::<Vec<_>>());
    for (place, share) in [(2, 8), (1, 4)] {
        let enough = u64::from(FILES * LINES) / share;
        wait_for("some lines to be done with", || {
            let done: u64 = nodes.iter().map(completed).sum();
            let reads = completed(&nodes[place]) > 0;
            (done > enough && reads && are_redundant(&nodes)).then_some(())
        });
        let killed = nodes.remove(place);
        let name = killed.folder().file_name().unwrap().to_str().unwrap().to_owned();
        killed.kill();
        nodes.insert(place, ground.start(&name, Some(&nodes[0])));
    }
    let ends: Vec<_> = nodes.iter().map(|node| node.wait_until("ended")).collect();
    let topologies = || ends.iter().map(|status| &status.topologies[0]);
    assert_eq!(topologies().map(|topology| topology.trees_pending).sum::<u64>(), 0);
    let replays: u64 = topologies().map(|topology| topology.replays).sum();
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for entry in fs::read_dir(&ground.folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "tsv") {
            for line in fs::read_to_string(path).unwrap().lines() {
                let word = line.split('\t').next().unwrap();
                *seen.entry(word.to_owned()).or_default() += 1;
            }
        }
    }
    for file in 0..FILES {
        for line in 0..LINES {
            for word in 0..WORDS {
                let word = format!("f{file}l{line}w{word}");
                assert!(seen.contains_key(&word), "{word} is in no file");
            }
        }
    }
    let again: u32 = seen.values().map(|times| times - 1).sum();
    println!("{replays} trees were read again, {again} words are there more than once");
    assert!(replays > 0, "what was under way when a node was killed was read again");
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = support::starling().args(arguments).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// A sink that cannot write fails its trees; when they were tried often enough they are dead letters, and once it can,
/// they are sent again.
#[test]
fn dead_letters_are_listed_shown_and_sent_again() {
    let folder = support::folder("letters");
    fs::write(folder.join("in.txt"), "one\ntwo\nthree\n").unwrap();
    // A spout that waits keeps the topology from its end.
    let idle = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!(
        r#"name = "letters"
delivery = "at-least-once"
ack = {{ attempts = 2 }}

[spout.lines]
type = "text-files"
params = {{ paths = [{:?}] }}
emits = "lines"

[spout.idle]
type = "lines"
params = {{ from = "tcp:{}", connect_seconds = 300 }}
emits = "idle"

[pe.out]
type = "text-file"
input = [{{ stream = "lines", grouping = "global" }}, {{ stream = "idle", grouping = "global" }}]
params = {{ path = {:?}, format = "tsv" }}
"#,
        path(&folder.join("in.txt")),
        idle.local_addr().unwrap(),
        path(&folder.join("missing").join("out.tsv")),
    );
    let topology = folder.join("letters.toml");
    fs::write(&topology, text).unwrap();
    let ground = Ground { folder, topology, expected_nodes: 1 };
    let node = ground.start("a", None);
    let http = node.addresses.http.clone();
    let listed = wait_for("three dead letters", || {
        let (code, out, _) = run(&["dlq", "ls", "--http", &http]);
        (code == Some(0) && out.starts_with("3 dead letters")).then_some(out)
    });
    assert!(listed.contains("a sink failed"), "{listed}");
    assert!(listed.contains(r#"{"text":"two"}"#), "{listed}");
    // Which of them is the first is by chance: each waited for a time of its own.
    let letter_of_two = || {
        let (_, listed, _) = run(&["dlq", "ls", "--json", "--http", &http]);
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
        let mut letters = listed["letters"].as_array().unwrap().iter();
        letters.find(|letter| letter["json"] == r#"{"text":"two"}"#).unwrap().clone()
    };
    let id = letter_of_two()["id"].to_string();
    let (code, shown, _) = run(&["dlq", "show", &id, "--http", &http]);
    assert_eq!(code, Some(0), "{shown}");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((&shown["attempts"], &shown["spout"]), (&2.into(), &"lines".into()));
    let (code, _, said) = run(&["dlq", "show", "9", "--http", &http]);
    assert_eq!((code, said.contains("there is no dead letter 9")), (Some(1), true), "{said}");
    fs::create_dir(ground.folder.join("missing")).unwrap();
    let (code, _, said) = run(&["dlq", "replay", &id, "--http", &http]);
    assert_eq!(code, Some(0), "{said}");
    let written = ground.folder.join("missing").join("out.tsv");
    wait_for("the line to be written", || {
        (fs::read_to_string(&written).ok()? == "two\n").then_some(())
    });
    assert_eq!(letter_of_two()["resent"], 1);
    // The file is written before its trees are done with, and what a node says of them is as old as its last look.
    wait_for("no tree to be pending", || {
        let (code, trees, _) = run(&["trees", "--http", &http]);
        (code == Some(0) && trees.starts_with("0 trees are pending")).then_some(())
    });
    let (code, _, said) = run(&["trees", "explain", "0001000000000000", "--http", &http]);
    assert_eq!(
        (code, said.contains("nobody has events of such a tree")),
        (Some(1), true),
        "{said}"
    );
}
