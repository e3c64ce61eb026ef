//! The processes of a comparison: what a run is told, and what it says.
//!
//! A child is this executable again, by commands that nobody types. `compare-run` does one run: what it is
//! told is a [`Spec`] and what it prints an [`Outcome`], both JSON. For the engine it starts nodes, each by
//! `compare-node`.

use std::process::{Command, Stdio};

use bench::engine::Order;
use bench::{Model, Outcome, Spec};
use clap::Args;
use serde::Serialize;
use serde::de::DeserializeOwned;
use starling::cli::{Exit, Failure, output};

use super::contender::Contender;
use super::{cluster, pair, unsupported};

/// The command of a run.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// The run, as JSON
    #[arg(value_parser = from_json::<Spec>)]
    spec: Spec,
}

/// The command of a node.
#[derive(Clone, Debug, Args)]
pub(crate) struct NodeArgs {
    /// The node, as JSON
    #[arg(value_parser = from_json::<Order>)]
    order: Order,
}

impl RunArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let spec = &self.spec;
        let outcome = match spec.model {
            Model::Keyed | Model::Bolt | Model::OneStep => cluster::run(spec),
            _ if pair::is_pair(spec) => pair::run(spec),
            Model::Baseline => bench::by_hand::run(spec).map_err(unsupported),
            Model::Timely => bench::dataflow::run(spec).map_err(unsupported),
            Model::Actor => bench::actors::run(spec).map_err(unsupported),
        };
        output::json(&outcome?);
        Ok(())
    }
}

impl NodeArgs {
    pub(crate) fn run(self) -> Result<(), Failure> {
        // Its standard error is a file, shown if something goes wrong.
        let log = tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false);
        let begun = log.try_init();
        begun.map_err(|error| {
            Failure::new(Exit::Bug, format!("the log was begun twice: {error}"))
        })?;
        bench::engine::run(&self.order).map_err(|error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            Failure::new(Exit::Failure, format!("{error}: {}", cause.unwrap_or_default()))
        })
    }
}

/// Does one run in a process of its own.
pub(super) fn run(spec: &Spec) -> Result<Outcome, Failure> {
    let failed = |why: String| {
        let who = Contender::of(spec);
        Failure::new(Exit::Failure, format!("the run of {who} failed: {why}"))
    };
    let mut command = this("compare-run", spec)?;
    let ended = command.stdin(Stdio::null()).output().map_err(|error| failed(error.to_string()))?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr);
        return Err(failed(format!("{}\n{}", ended.status, said.trim_end())));
    }
    serde_json::from_slice(&ended.stdout).map_err(|error| failed(error.to_string()))
}

/// A hidden command of this executable, with what it is told.
pub(super) fn this(command: &str, told: &impl Serialize) -> Result<Command, Failure> {
    let this = std::env::current_exe().map_err(|error| {
        Failure::new(Exit::Failure, format!("cannot find this executable: {error}"))
    })?;
    let mut child = Command::new(this);
    child.arg(command).arg(serde_json::to_string(told).expect("what is told is plain data"));
    Ok(child)
}

/// Reads what a child is told.
pub(super) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}
