//! What was acknowledged survives the node: replicas of keyed state, and of where partitions have come to, on real
//! processes that are killed and stay away.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and says what it saw"
)]

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::ground::{self, Ground, path};
use support::{Node, agree, are_redundant, wait_for};

const FILES: u32 = 8;
const LINES: u32 = 3_000;
const WORDS: u32 = 10;
const DISTINCT: u32 = 1_500;

/// Files of lines in which each word is there equally often.
fn write_text(ground: &Path) {
    for file in 0..FILES {
        let mut text = String::new();
        for line in 0..LINES {
            let word = |at: u32| format!("w{}", (line * WORDS + at) % DISTINCT);
            let words = (0..WORDS).map(word).collect::<Vec<_>>();
            writeln!(text, "{}", words.join(" ")).unwrap();
        }
        fs::write(ground.join(format!("text-{file}.txt")), text).unwrap();
    }
}

fn completed(nodes: &[Node]) -> u64 {
    nodes.iter().map(|node| node.status().topologies[0].trees_completed).sum()
}

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Nodes of a cluster with these settings, that run word count.
fn cluster(test: &str, settings: &str, names: &[&str]) -> (Ground, Vec<Node>) {
    let ground = ground(support::folder(test), settings, names);
    let nodes = start_all(&ground, names);
    (ground, nodes)
}

fn ground(folder: PathBuf, settings: &str, names: &[&str]) -> Ground {
    write_text(&folder);
    let topology = folder.join("words.toml");
    fs::write(&topology, ground::word_count(&folder)).unwrap();
    let config = folder.join("node.toml");
    fs::write(&config, format!("[cluster]\n{settings}\n")).unwrap();
    Ground { folder, topology, expected_nodes: names.len() }
}

fn start_all(ground: &Ground, names: &[&str]) -> Vec<Node> {
    let config = ground.folder.join("node.toml");
    let mut nodes: Vec<Node> = Vec::new();
    for name in names {
        nodes.push(ground.start_with(name, nodes.first(), &["-c", path(&config)]));
    }
    agree(&nodes.iter().collect::<Vec<_>>());
    nodes
}

/// Waits until a share of the lines is done with, and all units have as many replicas as there are to be.
fn wait_to_have_done(nodes: &[Node], share: u32) {
    let enough = u64::from(FILES * LINES / share);
    wait_for("some lines to be done with", || {
        (completed(nodes) > enough && are_redundant(nodes)).then_some(())
    });
}

/// Of each word, the highest count that was written is at least how often it is there: whoever counted it last had
/// all that was acknowledged. What is more was read again.
fn check(ground: &Ground, nodes: &[Node]) {
    let ends: Vec<_> = nodes.iter().map(|node| node.wait_until("ended")).collect();
    let topologies = || ends.iter().map(|status| &status.topologies[0]);
    assert_eq!(topologies().map(|topology| topology.trees_pending).sum::<u64>(), 0);
    assert!(ends.iter().all(|status| status.units_lost == 0), "nothing began empty");
    let replays: u64 = topologies().map(|topology| topology.replays).sum();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for entry in fs::read_dir(&ground.folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "tsv") {
            for line in fs::read_to_string(path).unwrap().lines() {
                let (word, count) = line.split_once('\t').unwrap();
                let known = counts.entry(word.to_owned()).or_default();
                *known = count.parse::<u64>().unwrap().max(*known);
            }
        }
    }
    assert_eq!(counts.len(), DISTINCT as usize);
    let expected = u64::from(FILES * LINES * WORDS / DISTINCT);
    let short: Vec<_> = counts.iter().filter(|(_, count)| **count < expected).collect();
    assert!(short.is_empty(), "{} words are short of {expected}, as {:?}", short.len(), short[0]);
    let more: u64 = counts.values().map(|count| count - expected).sum();
    // Beside what is read again, an heir reads on from where the partition was last known to be.
    println!("{replays} trees were read again, {more} words are counted more than once");
    assert!(more < u64::from(FILES * LINES * WORDS / 2), "{more} words more");
}

/// With two replicas any node may be lost, and does not come back: the others go on with its counts and its files.
#[test]
fn counts_survive_a_node_that_is_killed_and_stays_away() {
    let (ground, mut nodes) = cluster("replicas-2", "replicas = 2", &NAMES);
    wait_to_have_done(&nodes, 6);
    let killed = nodes.remove(1);
    killed.kill();
    check(&ground, &nodes);
}

/// With three, two may be lost, one after the other; the founder is one of them.
#[test]
fn counts_survive_two_nodes_one_after_the_other() {
    let (ground, mut nodes) = cluster("replicas-3", "replicas = 3", &["a", "b", "c", "d"]);
    wait_to_have_done(&nodes, 8);
    nodes.remove(3).kill();
    wait_to_have_done(&nodes, 4);
    nodes.remove(0).kill();
    check(&ground, &nodes);
}

/// With replicas on disk, all nodes may be killed at once, and go on when they are started again.
#[test]
fn counts_survive_all_nodes_at_once_where_they_are_on_disk() {
    let (ground, nodes) = cluster("replicas-disk", "replicas = 2\ndurability = \"fsync\"", &NAMES);
    wait_to_have_done(&nodes, 4);
    let before = completed(&nodes);
    nodes.into_iter().for_each(Node::kill);
    let nodes = start_all(&ground, &NAMES);
    check(&ground, &nodes);
    let after: u64 = completed(&nodes);
    println!("{before} trees were complete before, {after} after");
    assert!(after < u64::from(FILES * LINES), "what was committed is not read again");
    // Those that are gone a moment sooner are not waited for by the others.
    nodes.iter().for_each(|node| node.signal("TERM"));
    for node in nodes {
        assert_eq!(node.wait().code(), Some(0));
    }
}

/// What a disk has is looked at when its node starts: where a bit is another it is put aside, and got from the others.
#[test]
fn a_damaged_journal_is_put_aside_and_repaired_from_the_others() {
    let (ground, mut nodes) = cluster("replicas-rot", "durability = \"fsync\"", &NAMES);
    wait_to_have_done(&nodes, 4);
    nodes.remove(1).kill();
    let journal = ground.folder.join("b/replicas");
    let segment = fs::read_dir(&journal).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(&segment, bytes).unwrap();
    let config = ground.folder.join("node.toml");
    let back = ground.start_with("b", nodes.first(), &["-c", path(&config)]);
    back.wait_to_say(&["replicas on disk cannot be relied on", "is damaged at byte"]);
    back.wait_to_show("to have replicas again", |status| status.replicas_kept > 0);
    nodes.push(back);
    check(&ground, &nodes);
}

/// What is on disks only waits for them, until an operator says that they do not come back; if they do, they drop it.
#[test]
fn what_nobody_has_waits_until_an_operator_gives_it_up() {
    let names = ["a", "b", "c", "d", "e"];
    let settings = "replicas = 2\ndurability = \"fsync\"";
    let (ground, mut nodes) = cluster("replicas-given-up", settings, &names);
    wait_to_have_done(&nodes, 8);
    nodes.drain(3..).for_each(Node::kill);
    let status = nodes[0].wait_to_show("units that nobody has", |status| {
        status.unavailable > 0 && status.members.len() == 3
    });
    assert_eq!(
        (status.units_lost, status.is_degraded),
        (0, false),
        "nothing begins empty by itself"
    );
    nodes[0].wait_to_say(&["UNAVAILABLE"]);
    let recover = |http: &str| {
        let mut command = support::starling();
        let output = command.args(["recover", "--unsafe", "--http", http]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let http = &nodes[0].addresses.http;
    let (code, said) = recover(http);
    assert!(code == Some(0) && said.starts_with("GIVEN UP: "), "{code:?} {said}");
    let status = nodes[0].status();
    assert!(status.unavailable == 0 && status.units_lost > 0, "{status:?}");
    let (code, said) = recover(http);
    assert!(code == Some(1) && said.contains("nothing to recover"), "{code:?} {said}");
    let config = ground.folder.join("node.toml");
    for name in ["d", "e"] {
        nodes.push(ground.start_with(name, nodes.first(), &["-c", path(&config)]));
    }
    let ends: Vec<_> = nodes.iter().map(|node| node.wait_until("ended")).collect();
    let pending = ends.iter().map(|status| status.topologies[0].trees_pending).sum::<u64>();
    assert_eq!(pending, 0);
}

/// A file system of its own, as large as is said.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(at: PathBuf, size: &str) -> Result<Self, String> {
        fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "starling-test", path(&at)]);
        let output = mount.output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(Self(at)),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", path(&self.0)]).status();
    }
}

/// While the disk is full nothing is acknowledged, and the node stays; when there is room it goes on, and nothing is
/// missing.
#[test]
fn a_full_disk_pauses_sources_until_there_is_room() {
    let folder = support::folder("replicas-full");
    let disk = match Tmpfs::mount(folder.join("a"), "64m") {
        Ok(disk) => disk,
        Err(why) => return support::skip(&format!("no file system can be mounted ({why})")),
    };
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![1; 63 << 20]).unwrap();
    let ground = ground(folder, "replicas = 1\ndurability = \"fsync\"", &["a"]);
    let nodes = start_all(&ground, &["a"]);
    nodes[0].wait_to_say(&["ENOSPC: sources paused", "replicas"]);
    let status = nodes[0].wait_to_show("trees to wait", |s| s.topologies[0].trees_pending > 0);
    assert_eq!(status.topologies[0].phase, "running");
    fs::remove_file(&ballast).unwrap();
    nodes[0].wait_to_say(&["there is room again", "replicas"]);
    check(&ground, &nodes);
}
