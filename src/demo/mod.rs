//! `starling demo`: the engine at work on one machine, and the proof that it counted right.
//!
//! A newcomer wants to see it run before reading anything. So the demo brings its own text, starts real
//! node processes, shows what they do, and at the end holds their result against a plain count. It uses
//! nothing that a user could not type: `node`, a topology file, the HTTP of each node.

mod board;
mod cluster;
mod plain;
mod progress;
mod text;
mod verdict;

use std::path::{Path, PathBuf};
use std::{fs, io, thread};

use clap::Args;
use starling::cli::{Exit, Failure, output};

use board::Board;
use cluster::{Cluster, Setting};
use verdict::Verdict;

use crate::node_process::new_folder;

const EXAMPLES: &str = "Examples:
  starling demo
  starling demo --nodes 5 --seconds 30
  starling demo --repeat 20 --json | jq .events_per_second
  starling demo --keep

Exit code 1 says that the result differs from the plain count, or that a node did too little.";

/// The topology, as the example has it.
const TOPOLOGY: &str = include_str!("../../examples/top_words/top-words.toml");
/// Its line that says what is read.
const PATHS: &str = r#"paths = ["corpus/*.txt"]"#;
/// Beyond this a laptop shows nothing new.
const NODES_MAX: u16 = 16;

/// Counts the words of a bundled text on several nodes and checks the result
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// How many node processes to start
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)))]
    nodes: u16,
    /// How long the text is played again and again
    #[arg(long, value_name = "S", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// How often the text is played, whatever time that takes
    #[arg(long, value_name = "R", conflicts_with = "seconds")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    repeat: Option<u32>,
    /// Leaves the nodes running and says how to reach them
    #[arg(long)]
    keep: bool,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

impl DemoArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let folder = new_folder("demo").map_err(|error| {
            Failure::new(Exit::Failure, format!("cannot make a temporary folder: {error}"))
        })?;
        let result = self.run_in(&folder);
        match &result {
            Ok(()) if self.keep => {}
            Ok(()) => drop(fs::remove_dir_all(&folder)),
            Err(_) => output::message(format_args!("logs and data are in {}", folder.display())),
        }
        result
    }

    fn run_in(&self, folder: &Path) -> Result<(), Failure> {
        let topology = self.prepare(folder).map_err(|error| {
            Failure::new(Exit::Failure, format!("cannot write to {}: {error}", folder.display()))
        })?;
        let nodes = usize::from(self.nodes);
        output::message(format_args!("starting {nodes} nodes in {}", folder.display()));
        let (containers, keep) = (self.containers(), self.keep);
        let setting = Setting { nodes, containers, folder, topology: &topology, keep };
        let mut cluster = Cluster::start(setting)?;
        let verdict = self.watch(&mut cluster);
        if self.keep {
            // A node that was to stay has no pipe that closes.
            let verdict = verdict.inspect_err(|_| cluster.kill())?;
            let result = self.conclude(&verdict);
            tell_how_to_reach(&cluster);
            return result;
        }
        for pid in cluster.stop() {
            output::message(format_args!("node process {pid} did not stop and was killed"));
        }
        self.conclude(&verdict?)
    }

    /// Writes the text and the topology.
    fn prepare(&self, folder: &Path) -> io::Result<PathBuf> {
        text::write(&folder.join("corpus"))?;
        let topology = folder.join("top-words.toml");
        fs::write(&topology, self.topology())?;
        Ok(topology)
    }

    /// The topology of the example, told how long to play, and with a task per container, so that no
    /// node is left out.
    fn topology(&self) -> String {
        let until = match self.repeat {
            Some(times) => format!("{PATHS}, repeat = {times}"),
            None => format!("{PATHS}, seconds = {}", self.seconds),
        };
        let tasks = usize::from(self.nodes) * self.containers();
        let line = |line: &str| match line.starts_with("parallelism = ") {
            true => format!("parallelism = {tasks}\n"),
            false => format!("{}\n", line.replace(PATHS, &until)),
        };
        TOPOLOGY.lines().map(line).collect()
    }

    /// How many containers each node has: together as many as there are cores, for they share them.
    fn containers(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        (cores / usize::from(self.nodes)).max(1)
    }

    fn watch(&self, cluster: &mut Cluster) -> Result<Verdict, Failure> {
        let mut board = Board::new();
        let mut began = None;
        let last = progress::watch(cluster, |snapshot| {
            if snapshot.applied() > 0 {
                began.get_or_insert(snapshot.at);
            }
            board.show(snapshot);
        })?;
        board.finish();
        let elapsed = began.map_or(0, |began| last.at.duration_since(began).as_millis());
        Ok(Verdict::new(&last, u64::try_from(elapsed).unwrap_or(u64::MAX)))
    }

    fn conclude(&self, verdict: &Verdict) -> Result<(), Failure> {
        if self.json {
            output::json(&verdict.to_json());
        } else {
            verdict.lines().iter().for_each(output::data);
        }
        let faults = verdict.faults();
        if faults.is_empty() {
            output::message("the cluster and the plain count agree, and every node did its share");
            return Ok(());
        }
        Err(Failure::new(Exit::Failure, faults.join("\nerror: ")))
    }
}

fn tell_how_to_reach(cluster: &Cluster) {
    output::message("\nthe nodes keep running:");
    for node in cluster.nodes() {
        let client = node.client();
        let (address, pid) = (client.address(), node.pid());
        output::message(format_args!("  starling status --http {address}    # process {pid}"));
    }
    let pids: Vec<String> = cluster.nodes().iter().map(|node| node.pid().to_string()).collect();
    output::message(format_args!("stop them with\n  kill {}\n", pids.join(" ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topology_is_told_how_long_to_play() {
        let args = |repeat| DemoArgs { nodes: 3, seconds: 7, repeat, keep: false, json: false };
        assert!(args(None).topology().contains(r#"["corpus/*.txt"], seconds = 7 }"#));
        assert!(args(Some(2)).topology().contains(r#"["corpus/*.txt"], repeat = 2 }"#));
    }
}
