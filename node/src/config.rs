//! What a node is told when it starts, from whichever place says it last.
//!
//! A node is configured by a file, by the environment and by flags, and the three must not differ
//! in what they accept. So each key is read by one piece of code that does not know where its value
//! comes from; the value knows, and a complaint names the line, the variable or the flag. Each
//! source overrides the one before it: defaults, file, environment, flags.
//!
//! Nothing here reads a file or the environment, looks up a host or opens a socket.
//!
//! ```
//! use node::config::{Overrides, resolve};
//!
//! let file = "listen = \"127.0.0.1:7000\"\n[cluster]\nname = \"birds\"";
//! let env = [("STARLING__LISTEN".to_owned(), "127.0.0.1:7001".to_owned())];
//! let flags = Overrides { bootstrap: true, ..Overrides::default() };
//! let config = resolve(Some(file), env.into_iter(), flags, 4).unwrap();
//! assert_eq!(config.cluster.name, "birds");
//! assert_eq!(config.listen.port(), 7001);
//! assert_eq!(config.containers, 4);
//! ```

mod given;
mod read;
#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use pe::topology::Diagnostic;

/// The fewest slots of a cluster; fewer cannot be spread evenly over a handful of nodes.
pub const SLOTS_MIN: u32 = 16;
/// The most slots of a cluster; the table of slots is part of every view.
pub const SLOTS_MAX: u32 = 65_536;
/// After how many MiB a journal may be cleaned at most: a TiB.
const JOURNAL_MIB_MAX: u32 = 1 << 20;

/// How many containers a node may have, and how many members may be waited for.
pub const COUNT_MAX: u32 = 1_024;

/// The most nodes with the state of a unit.
const REPLICAS_MAX: u32 = 7;
/// How many addresses to join at; one that answers is enough.
pub const JOIN_MAX: usize = 64;
/// How many peers may be allowed: as many as a cluster has room for, twice over.
pub const ALLOW_MAX: usize = 2_048;

/// The settings of a node, checked: every combination that exists can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeConfig {
    /// Where other nodes reach this one; port 0 takes any free port.
    pub listen: SocketAddr,
    /// Where batches of events arrive; by default any free port of the address of `listen`.
    pub listen_data: SocketAddr,
    /// The address of `listen` as others see it; `None` if they see it as it is.
    pub advertise: Option<SocketAddr>,
    /// The address of `listen_data` as others see it; `None` if they see it as it is.
    pub advertise_data: Option<SocketAddr>,
    /// Members to ask for entry, as `host:port`. Empty exactly if `bootstrap` is set.
    pub join: Vec<String>,
    /// Whether to form a new cluster.
    pub bootstrap: bool,
    /// Where the node keeps what must survive it.
    pub data_dir: PathBuf,
    /// Where pages, metrics and commands are served.
    pub http: SocketAddr,
    /// Whether to listen beyond this machine without a key, open to everybody.
    pub insecure: bool,
    /// How many threads host instances. Too few leave cores idle, too many make them wait for one
    /// another.
    pub containers: usize,
    /// After how many MiB the journal of replicas on disk is cleaned, unless twice what is kept is more: fewer take less room,
    /// and write what is kept more often.
    pub journal_mib: u32,
    /// Whether to leave when standard input is closed, so as not to outlive a parent process. Not a
    /// setting: whoever starts the node sets it.
    pub exit_with_stdin: bool,
    /// What must be equal on all nodes, and what it takes to start.
    pub cluster: ClusterConfig,
    /// What is said while it runs.
    pub log: LogConfig,
}

/// What the nodes of a cluster have to agree on, and the first steps together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClusterConfig {
    /// Nodes of other names are strangers.
    pub name: String,
    /// Shares of the key space, fixed when the cluster forms: a power of two. Too few move too much
    /// at once, too many make views large.
    pub slots: u32,
    /// The file with the key that all nodes share; without it the cluster stays on one machine.
    pub key_file: Option<PathBuf>,
    /// The peers that may connect, by their names as peers; `None` lets in whoever has the key. Nodes
    /// should all have the same list, with themselves on it, or who is refused by one gets in by another.
    pub allow: Option<Vec<String>>,
    /// How many nodes there are to be with the state of each key, fixed when the cluster forms. With fewer, state
    /// dies with its node; with more, each change is sent more often.
    pub replicas: u32,
    /// Where state has to be before anything that rests on it is acknowledged; equal on all nodes.
    pub durability: Durability,
    /// How many members there must be before spouts start. Too few make the first nodes carry
    /// everything for a while; more than there are means waiting for ever.
    pub expected_nodes: u32,
}

/// Where state has to be before anything that rests on it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// In the memory of all nodes that are to have it. It ends when all of them do.
    Memory,
    /// On their disks, synced. It outlives all of them, and each acknowledgement waits for a disk.
    Fsync,
}

/// What is said while a node runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogConfig {
    /// For people or for programs.
    pub format: LogFormat,
    /// A level, or a filter as `tracing` has them: `info,libp2p=warn`.
    pub level: String,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// An object a line.
    Json,
}

/// What flags say, as they were written; `None` for a flag that is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// `--listen ADDR`
    pub listen: Option<String>,
    /// `--listen-data ADDR`
    pub listen_data: Option<String>,
    /// `--advertise ADDR`
    pub advertise: Option<String>,
    /// `--advertise-data ADDR`
    pub advertise_data: Option<String>,
    /// `--join ADDR`, any number of them; `None` leaves the list of the file.
    pub join: Option<Vec<String>>,
    /// `--bootstrap`
    pub bootstrap: bool,
    /// `--insecure`
    pub insecure: bool,
    /// `--data-dir DIR`
    pub data_dir: Option<PathBuf>,
    /// `--http ADDR`
    pub http: Option<String>,
    /// `--cluster-name NAME`
    pub cluster_name: Option<String>,
    /// `--key-file FILE`
    pub key_file: Option<PathBuf>,
    /// `--allow PEER`, any number of them; `None` leaves the list of the file.
    pub allow: Option<Vec<String>>,
    /// `--expected-nodes N`
    pub expected_nodes: Option<u32>,
    /// `--containers N`
    pub containers: Option<u32>,
    /// `--log-format FORMAT`
    pub log_format: Option<String>,
    /// `--log-level SPEC`
    pub log_level: Option<String>,
}

/// Puts the settings together, or says everything that is wrong with them.
///
/// `env` is the whole environment; what does not start with `STARLING__` is not ours. `cores` is
/// the default number of containers.
pub fn resolve(
    file: Option<&str>,
    env: impl Iterator<Item = (String, String)>,
    flags: Overrides,
    cores: usize,
) -> Result<NodeConfig, Vec<Diagnostic>> {
    read::resolve(file, env, flags, NodeConfig::new(cores))
}

impl NodeConfig {
    /// The defaults; they do not say how to get into a cluster, so they cannot be started.
    fn new(cores: usize) -> Self {
        let loopback = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Self {
            listen: loopback(0),
            listen_data: loopback(0),
            advertise: None,
            advertise_data: None,
            join: Vec::new(),
            bootstrap: false,
            data_dir: "starling-data".into(),
            http: loopback(7700),
            insecure: false,
            exit_with_stdin: false,
            containers: cores.max(1),
            journal_mib: 32,
            cluster: ClusterConfig {
                name: "starling".into(),
                slots: 1_024,
                key_file: None,
                allow: None,
                replicas: 2,
                durability: Durability::Memory,
                expected_nodes: 1,
            },
            log: LogConfig { format: LogFormat::Text, level: "info".into() },
        }
    }
}
