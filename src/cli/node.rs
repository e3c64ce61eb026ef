//! `starling node`: settings and topologies are read and checked before anything starts.

use std::path::{Path, PathBuf};
use std::thread;

use clap::Args;
use node::config::{NodeConfig, Overrides, resolve};
use pe::topology::{Diagnostic, Plan};

use super::failure::{Exit, Failure};
use super::log;
use super::output;
use super::source::{Severity, Source};
use crate::App;

const EXAMPLES: &str = "Examples:
  starling node --bootstrap --listen 127.0.0.1:7000 --topology top-words.toml
  starling node --join 127.0.0.1:7000 --topology top-words.toml --http 127.0.0.1:7701 --data-dir b
  starling node -c node.toml

Flags go before the environment (STARLING__LISTEN, STARLING__CLUSTER__NAME, ...), the environment
before the file. A node whose seeds do not answer waits and tries again; it never forms a cluster on
its own. Exit codes: 69 the cluster refused the node, 78 something is wrong with a file or setting.";

/// Runs a node of a cluster, until it is told to stop
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct NodeArgs {
    /// Settings of the node, in TOML
    #[arg(short, long, value_name = "NODE.toml")]
    config: Option<PathBuf>,
    /// A topology to run; every node of the cluster is given the same
    #[arg(long, value_name = "FILE")]
    topology: Vec<PathBuf>,
    /// Where other nodes reach this one; port 0 takes any free port
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,
    /// Where events arrive; any free port if nothing is said
    #[arg(long, value_name = "ADDR")]
    listen_data: Option<String>,
    /// The address of --listen as others see it, if it is another
    #[arg(long, value_name = "ADDR")]
    advertise: Option<String>,
    /// The address of --listen-data as others see it, if it is another
    #[arg(long, value_name = "ADDR")]
    advertise_data: Option<String>,
    /// Any member of the cluster to enter; may be repeated
    #[arg(long, value_name = "ADDR")]
    join: Vec<String>,
    /// A peer that may connect, and nobody else may; may be repeated. A node says its own name as a
    /// peer when it starts, and in addresses.json
    #[arg(long, value_name = "PEER")]
    allow: Vec<String>,
    /// Forms a new cluster
    #[arg(long)]
    bootstrap: bool,
    /// Where the node keeps what must survive it
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where status and tables are served
    #[arg(long, value_name = "ADDR")]
    http: Option<String>,
    /// The name of the cluster; nodes of other names are strangers
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// The key that all nodes of the cluster share
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Listens beyond this machine without a key, open to everybody
    #[arg(long)]
    insecure: bool,
    /// How many members there must be before spouts start
    #[arg(long, value_name = "N")]
    expected_nodes: Option<u32>,
    /// How many threads host instances; as many as there are cores if nothing is said
    #[arg(long, value_name = "N")]
    containers: Option<u32>,
    /// How a line of the log looks: text or json
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
    /// What is logged: a level, or a filter such as info,libp2p=warn
    #[arg(long, value_name = "SPEC")]
    log_level: Option<String>,
    /// Stops as if by SIGTERM when standard input is closed, so as not to outlive a parent
    #[arg(long, hide = true)]
    exit_with_stdin: bool,
}

impl NodeArgs {
    pub(super) fn run(self, app: App) -> Result<(), Failure> {
        // All files are looked at before the command ends, so that one run shows all that is wrong.
        let config = self.config();
        let plans: Vec<_> = self.topology.iter().map(|file| plan(&app, file)).collect();
        let config = config?;
        let plans: Vec<Plan> = plans.into_iter().collect::<Result<_, _>>()?;
        for (at, plan) in plans.iter().enumerate() {
            if plans[..at].iter().any(|other| other.name == plan.name) {
                let what = format!("two topologies have the name `{}`", plan.name);
                return Err(Failure::new(Exit::Config, what));
            }
        }
        log::begin(&config.log)?;
        node::runtime::run(config, app.into_program(), plans)
            .map(drop)
            .map_err(|error| Failure::with_code(error.exit_code(), error.to_string()))
    }

    fn config(&self) -> Result<NodeConfig, Failure> {
        let file = self.config.as_deref().map(Source::read).transpose()?;
        let text = file.as_ref().map(Source::text);
        let mut config = resolve(text, environment(), self.overrides(), cores())
            .map_err(|errors| refuse(file.as_ref(), &errors))?;
        config.exit_with_stdin = self.exit_with_stdin;
        Ok(config)
    }

    fn overrides(&self) -> Overrides {
        Overrides {
            listen: self.listen.clone(),
            listen_data: self.listen_data.clone(),
            advertise: self.advertise.clone(),
            advertise_data: self.advertise_data.clone(),
            join: (!self.join.is_empty()).then(|| self.join.clone()),
            allow: (!self.allow.is_empty()).then(|| self.allow.clone()),
            bootstrap: self.bootstrap,
            insecure: self.insecure,
            data_dir: self.data_dir.clone(),
            http: self.http.clone(),
            cluster_name: self.cluster_name.clone(),
            key_file: self.key_file.clone(),
            expected_nodes: self.expected_nodes,
            containers: self.containers,
            log_format: self.log_format.clone(),
            log_level: self.log_level.clone(),
        }
    }
}

/// Plans a topology file; what is wrong with it is shown.
fn plan(app: &App, file: &Path) -> Result<Plan, Failure> {
    let source = Source::read(file)?;
    let plan = app.plan(source.text()).map_err(|errors| source.refuse(&errors))?;
    source.show(&plan.warnings, Severity::Warning);
    Ok(plan)
}

/// Shows what is wrong with the settings, wherever they come from.
fn refuse(file: Option<&Source>, errors: &[Diagnostic]) -> Failure {
    let (placed, others): (Vec<_>, Vec<_>) =
        errors.iter().cloned().partition(|error| error.span.is_some());
    for error in &others {
        output::message(format_args!("error: {error}"));
        if let Some(help) = &error.help {
            output::message(format_args!("  help: {help}"));
        }
    }
    if let Some(file) = file {
        file.show(&placed, Severity::Error);
    }
    Failure::silent(Exit::Config)
}

/// The environment as far as it is text; names of ours are ASCII, and a value that is no text is
/// refused for what remains of it.
fn environment() -> impl Iterator<Item = (String, String)> {
    let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
    std::env::vars_os().map(move |(name, value)| (text(name), text(value)))
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}
