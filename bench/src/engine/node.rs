//! A node process of a run.

use std::fs;
use std::path::PathBuf;

use node::config::{NodeConfig, Overrides, resolve};
use node::runtime::{Program, RunError};
use pe::topology::{Plan, Topology};
use serde::{Deserialize, Serialize};

use super::{ledger, register, topology};
use crate::Spec;
use crate::data::Data;

/// What a node process is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The run it is part of.
    pub spec: Spec,
    /// A folder for its data; the node makes itself known by `addresses.json` in it, and leaves its
    /// [`Part`](super::Part) there.
    pub folder: PathBuf,
    /// A node to join at; the first node of a run has none.
    pub join: Option<String>,
}

/// Why a node process did not do as it was told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The node could not be started or ended otherwise than it should; there is no part.
    #[error("the node failed")]
    Run(#[from] RunError),
    /// Its part could not be written.
    #[error("the part of a node cannot be written")]
    Part(#[from] std::io::Error),
}

/// The name of the file that a node process leaves in its folder.
const PART: &str = "part.json";

impl Order {
    /// Where the node leaves its [`Part`](super::Part) when it has ended.
    pub fn part(&self) -> PathBuf {
        self.folder.join(PART)
    }

    /// How many containers each node has: all together are the threads of the run.
    fn containers(&self) -> usize {
        (self.spec.threads / self.spec.processes.max(1)).max(1)
    }

    fn config(&self) -> NodeConfig {
        let anywhere = || Some("127.0.0.1:0".to_owned());
        let flags = Overrides {
            listen: anywhere(),
            listen_data: anywhere(),
            http: anywhere(),
            data_dir: Some(self.folder.clone()),
            bootstrap: self.join.is_none(),
            join: self.join.clone().map(|seed| vec![seed]),
            expected_nodes: u32::try_from(self.spec.processes).ok(),
            ..Overrides::default()
        };
        // The environment is that of whoever compares, and not meant for this node.
        let config = resolve(None, std::iter::empty(), flags, self.containers());
        let mut config = config.expect("settings that go together");
        config.exit_with_stdin = true;
        config.cluster.replicas = self.spec.replicas;
        if self.spec.is_durable {
            config.cluster.durability = node::config::Durability::Fsync;
        }
        config.journal_mib = self.spec.journal_mib.unwrap_or(config.journal_mib);
        config
    }
}

/// Makes the data of a run, runs a node until its standard input is closed, and leaves its
/// [`Part`](super::Part) in its folder.
///
/// # Errors
/// See [`NodeError`].
pub fn run(order: &Order) -> Result<(), NodeError> {
    ledger::provide(Data::new(&order.spec));
    let before = ledger::Used::new();
    let mut program = Program::default();
    program.registry = register(program.registry);
    let plan = plan(&order.spec, &program);
    node::runtime::run(order.config(), program, vec![plan])?;
    let part = serde_json::to_vec(&ledger::part(before)).expect("a part is plain data");
    fs::write(order.part(), part)?;
    Ok(())
}

fn plan(spec: &Spec, program: &Program) -> Plan {
    let topology = Topology::parse(&topology::text(spec)).expect("our topologies are topologies");
    topology.plan(&program.registry.catalog()).expect("our topologies name our types")
}
