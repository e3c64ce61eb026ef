//! Streams that spill, on a real node: what waits for a slow reader is on its disk, and comes in order.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Command;

use support::ground::path;
use support::{Node, wait_for};

const FILES: u32 = 4;
const LINES: u32 = 100_000;

/// How many files there are below a folder.
fn files(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
}

/// A pipe takes nothing before somebody reads it: so the sink stands still, the spouts do not, and what they have
/// emitted waits. When somebody reads, each line of each file comes once, in its order.
#[test]
fn what_a_slow_sink_does_not_take_waits_on_disk() {
    let folder = support::folder("overflow");
    for file in 0..FILES {
        let mut text = String::new();
        (0..LINES).for_each(|line| writeln!(text, "f{file} {line:012}").unwrap());
        fs::write(folder.join(format!("text-{file}.txt")), text).unwrap();
    }
    let pipe = folder.join("out.tsv");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let topology = folder.join("overflow.toml");
    let text = format!(
        r#"name = "overflow"

[spout.lines]
type = "text-files"
params = {{ paths = [{:?}] }}
emits = "lines"

[pe.out]
type = "text-file"
input = [{{ stream = "lines", grouping = "global" }}]
params = {{ path = {:?}, format = "tsv", append = true }}

[stream.lines]
overflow = "spill"
"#,
        path(&folder.join("text-*.txt")),
        path(&pipe),
    );
    fs::write(&topology, text).unwrap();
    let arguments = ["--topology", path(&topology), "--containers", "2", "--bootstrap"];
    let node = Node::start(support::starling(), &folder.join("a"), arguments);
    let kept = node.folder().join("spill");
    wait_for("events that wait on disk", || (files(&kept) > 0).then_some(()));
    let stuck = wait_for("a sink that is stuck", || node.status().stuck.pop());
    assert_eq!((stuck.pe.as_str(), stuck.topology.as_str()), ("out", "overflow"));
    let mut next: BTreeMap<String, u32> = BTreeMap::new();
    // All of them: a pipe has no end before its writer has closed it.
    for line in BufReader::new(File::open(&pipe).unwrap()).lines().take((FILES * LINES) as usize) {
        let line = line.unwrap();
        let (file, number) = line.split_once(' ').unwrap();
        let expected = next.entry(file.to_owned()).or_default();
        assert_eq!(number.parse::<u32>().unwrap(), *expected, "of {file}");
        *expected += 1;
    }
    assert_eq!(next.into_values().collect::<Vec<_>>(), vec![LINES; FILES as usize]);
    let ended = node.wait_until("ended");
    assert_eq!((ended.stuck.len(), files(&kept)), (0, 0));
}
