//! The nodes of a demo: how they are started, and that they end with it.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use starling::cli::{Exit, Failure};

use crate::node_process::NodeProcess;

/// How long a node may take from its start until it listens.
const START_LIMIT: Duration = Duration::from_secs(30);

/// The nodes of a demo.
#[derive(Debug)]
pub(super) struct Cluster {
    nodes: Vec<NodeProcess>,
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
            match setting.start(number, cluster.nodes.first()) {
                Ok(node) => cluster.nodes.push(node),
                Err(failure) => {
                    cluster.stop();
                    return Err(failure);
                }
            }
        }
        Ok(cluster)
    }

    pub(super) fn nodes(&self) -> &[NodeProcess] {
        &self.nodes
    }

    /// Whether all nodes still run; the last words of one that does not.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        self.nodes.iter_mut().try_for_each(NodeProcess::check)
    }

    /// Asks all nodes to stop, waits, and kills those that do not; says which.
    pub(super) fn stop(&mut self) -> Vec<u32> {
        self.nodes.iter_mut().for_each(NodeProcess::ask_to_stop);
        let stuck = self.nodes.iter_mut().filter_map(|node| match node.wait_until_it_stops() {
            Some(_) => None,
            None => Some(node.kill()),
        });
        stuck.collect()
    }

    /// Ends all nodes at once, also those that were to outlive the demo.
    pub(super) fn kill(&mut self) {
        for node in &mut self.nodes {
            node.kill();
        }
    }
}

impl Setting<'_> {
    /// Starts a node by the command `node`.
    fn start(self, number: usize, seed: Option<&NodeProcess>) -> Result<NodeProcess, Failure> {
        let folder = self.folder.join(format!("node-{number}"));
        let this = std::env::current_exe().map_err(|error: io::Error| {
            Failure::new(Exit::Failure, format!("cannot find this executable: {error}"))
        })?;
        let mut command = Command::new(this);
        command.current_dir(self.folder).arg("node");
        // What the user has set for nodes of their own is not meant for these.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("STARLING__") {
                command.env_remove(name);
            }
        }
        for flag in ["--listen", "--listen-data", "--http"] {
            command.args([flag, "127.0.0.1:0"]);
        }
        command.arg("--data-dir").arg(&folder).arg("--topology").arg(self.topology);
        command.args(["--expected-nodes", &self.nodes.to_string()]);
        command.args(["--containers", &self.containers.to_string()]);
        match seed {
            Some(seed) => command.args(["--join", seed.control()]),
            None => command.arg("--bootstrap"),
        };
        if self.keep {
            command.stdin(Stdio::null());
        } else {
            // In a group of their own they do not hear Ctrl-C; the pipe that closes tells them, once.
            command.arg("--exit-with-stdin").stdin(Stdio::piped()).process_group(0);
        }
        NodeProcess::start(command.stdout(Stdio::null()), &folder, START_LIMIT)
    }
}
