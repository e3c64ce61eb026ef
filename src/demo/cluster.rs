//! Node processes on this machine, which end with the demo.
//!
//! Each child is this executable again, as `node`, on ports of the system's choice. What a child
//! writes goes to a file beside its data, shown if it dies early. A child watches its standard input:
//! when the demo ends, however it ends, the pipe closes and the child stops as it does on SIGTERM.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use starling::cli::{Client, Exit, Failure};

/// How long a node may take from its start until it listens.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a node may take to stop when asked, which is longer than it allows itself; then it is
/// killed.
const STOP_LIMIT: Duration = Duration::from_secs(15);
/// How often a child is looked at while it starts or stops.
const TICK: Duration = Duration::from_millis(20);
/// How much of the log of a node that died is shown.
const LOG_LINES: usize = 20;

/// The nodes of a demo.
#[derive(Debug)]
pub(super) struct Cluster {
    nodes: Vec<Node>,
}

/// A node process.
#[derive(Debug)]
pub(super) struct Node {
    child: Child,
    folder: PathBuf,
    addresses: Addresses,
}

/// Where a node listens, as it writes it down itself.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Addresses {
    control: String,
    http: String,
}

/// What a cluster is started with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting<'a> {
    /// How many nodes.
    pub(super) nodes: usize,
    /// How many containers each of them has.
    pub(super) containers: usize,
    /// Where they keep their data; also where they look for what the topology names.
    pub(super) folder: &'a Path,
    /// The topology they run.
    pub(super) topology: &'a Path,
    /// Whether they outlive the demo.
    pub(super) keep: bool,
}

impl Cluster {
    /// Starts the nodes; the first forms the cluster, the others join it.
    ///
    /// If one does not start, those that did are stopped.
    pub(super) fn start(setting: Setting<'_>) -> Result<Self, Failure> {
        let mut cluster = Self { nodes: Vec::new() };
        for number in 1..=setting.nodes {
            let seed = cluster.nodes.first().map(|node| node.addresses.control.clone());
            match Node::start(setting, number, seed.as_deref()) {
                Ok(node) => cluster.nodes.push(node),
                Err(failure) => {
                    cluster.stop();
                    return Err(failure);
                }
            }
        }
        Ok(cluster)
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Whether all nodes still run; the last words of one that does not.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        self.nodes.iter_mut().try_for_each(Node::check)
    }

    /// Asks all nodes to stop, waits, and kills those that do not; says which.
    pub(super) fn stop(&mut self) -> Vec<u32> {
        for node in &mut self.nodes {
            drop(node.child.stdin.take());
        }
        self.nodes
            .iter_mut()
            .filter_map(|node| (!node.has_stopped()).then(|| node.kill()))
            .collect()
    }

    /// Ends all nodes at once, also those that were to outlive the demo.
    pub(super) fn kill(&mut self) {
        for node in &mut self.nodes {
            node.kill();
        }
    }
}

impl Node {
    fn start(setting: Setting<'_>, number: usize, seed: Option<&str>) -> Result<Self, Failure> {
        let folder = setting.folder.join(format!("node-{number}"));
        let cannot = |error: io::Error| {
            Failure::new(Exit::Failure, format!("cannot start node {number}: {error}"))
        };
        fs::create_dir(&folder).map_err(cannot)?;
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command.current_dir(setting.folder).arg("node");
        // What the user has set for nodes of their own is not meant for these.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("STARLING__") {
                command.env_remove(name);
            }
        }
        for flag in ["--listen", "--listen-data", "--http"] {
            command.args([flag, "127.0.0.1:0"]);
        }
        command.arg("--data-dir").arg(&folder).arg("--topology").arg(setting.topology);
        command.args(["--expected-nodes", &setting.nodes.to_string()]);
        command.args(["--containers", &setting.containers.to_string()]);
        match seed {
            Some(seed) => command.args(["--join", seed]),
            None => command.arg("--bootstrap"),
        };
        if setting.keep {
            command.stdin(Stdio::null());
        } else {
            // In a group of their own they do not hear Ctrl-C; the pipe that closes tells them, once.
            command.arg("--exit-with-stdin").stdin(Stdio::piped()).process_group(0);
        }
        let log = File::create(folder.join("log")).map_err(cannot)?;
        let child = command.stdout(Stdio::null()).stderr(log).spawn().map_err(cannot)?;
        let nowhere = Addresses { control: String::new(), http: String::new() };
        let mut node = Self { child, folder, addresses: nowhere };
        match node.wait_until_it_listens() {
            Ok(addresses) => Ok(Self { addresses, ..node }),
            Err(failure) => {
                node.kill();
                Err(failure)
            }
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn client(&self) -> Client {
        Client::new(&*self.addresses.http)
    }

    fn wait_until_it_listens(&mut self) -> Result<Addresses, Failure> {
        let since = now();
        loop {
            self.check()?;
            let written = fs::read(self.folder.join("addresses.json")).ok();
            // A file that is only half there is not JSON yet.
            if let Some(addresses) = written.and_then(|text| serde_json::from_slice(&text).ok()) {
                return Ok(addresses);
            }
            if since.elapsed() > START_LIMIT {
                return Err(self.last_words("does not listen"));
            }
            pause(TICK);
        }
    }

    fn check(&mut self) -> Result<(), Failure> {
        match self.exit_status() {
            Some(status) => Err(self.last_words(&format!("ended early ({status})"))),
            None => Ok(()),
        }
    }

    fn exit_status(&mut self) -> Option<ExitStatus> {
        // A child whose state cannot be asked for is none of ours any more.
        self.child.try_wait().unwrap_or(None)
    }

    fn has_stopped(&mut self) -> bool {
        let since = now();
        while self.exit_status().is_none() {
            if since.elapsed() > STOP_LIMIT {
                return false;
            }
            pause(TICK);
        }
        true
    }

    /// Ends the process at once; says which it was.
    fn kill(&mut self) -> u32 {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.pid()
    }

    /// A failure with the end of the log.
    fn last_words(&self, what: &str) -> Failure {
        let log = self.folder.join("log");
        let text = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let shown = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n  ");
        let message = format!("{} {what}; the end of its log:\n  {shown}", self.folder.display());
        Failure::new(Exit::Failure, message)
    }
}

#[expect(clippy::disallowed_methods, reason = "the demo watches other processes, by the clock")]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "the demo watches other processes, by the clock")]
pub(super) fn pause(time: Duration) {
    std::thread::sleep(time);
}
