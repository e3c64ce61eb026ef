//! The commands that every application has.
//!
//! A cluster is run by typing, so every application answers to the same words: `node`, `status`,
//! `check`, `trees`, `key`, `dlq`, `drain`, `recover`. [`App::main`] is all that most need. A program with commands of its own flattens
//! [`Command`] into its own enum, as `starling` does to add `demo`:
//!
//! ```
//! use clap::{Parser, Subcommand};
//! use starling::{App, cli};
//!
//! #[derive(Parser)]
//! struct Line {
//!     #[command(subcommand)]
//!     command: Mine,
//! }
//!
//! #[derive(Subcommand)]
//! enum Mine {
//!     #[command(flatten)]
//!     Shared(cli::Command),
//!     /// Says hello
//!     Hello,
//! }
//!
//! fn run(line: Line, app: App) -> std::process::ExitCode {
//!     cli::conclude(|| match line.command {
//!         Mine::Shared(command) => command.run(app),
//!         Mine::Hello => {
//!             cli::output::data("hello");
//!             Ok(())
//!         }
//!     })
//! }
//!
//! let line = Line::parse_from(["mine", "hello"]);
//! assert_eq!(run(line, App::new("mine")), std::process::ExitCode::SUCCESS);
//! ```
//!
//! Nothing here knows how a node works: commands read what was typed, and show what came of it.

mod check;
mod client;
mod columns;
mod dlq;
mod failure;
mod key;
mod log;
mod node;
mod orders;
pub mod output;
mod source;
mod status;
mod trees;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub use self::node::NodeArgs;
pub use ::node::{MemberStatus, PartitionStatus, PeStatus, SpoutStatus, Status, TopologyStatus};
pub use check::CheckArgs;
pub use client::{Client, HTTP_DEFAULT};
pub use columns::{Columns, grouped};
pub use dlq::DlqArgs;
pub use failure::{Exit, Failure};
pub use key::KeyArgs;
pub use orders::{DrainArgs, RecoverArgs};
pub use status::StatusArgs;
pub use trees::TreesArgs;

use crate::App;

/// One of the commands that every application has.
#[derive(Clone, Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Runs a node of a cluster, until it is told to stop
    Node(Box<NodeArgs>),
    /// Shows members, epoch, slots and topologies, as one node sees them
    Status(StatusArgs),
    /// Validates a topology file
    Check(CheckArgs),
    /// Shows which events of spouts are not done with, and which PE has what of them
    Trees(TreesArgs),
    /// One instance of a PE: what its state is, and which node has it
    Key(KeyArgs),
    /// Dead letters: events that were tried often enough
    Dlq(DlqArgs),
    /// Has the local node leave: hand off what it has, and end
    Drain(DrainArgs),
    /// Goes on without a lost majority, and gives up what only the lost members knew
    Recover(RecoverArgs),
}

impl Command {
    /// Does what the command says, with what the application registered.
    pub fn run(self, app: App) -> Result<(), Failure> {
        match self {
            Self::Node(args) => args.run(app),
            Self::Status(args) => args.run(),
            Self::Check(args) => args.run(&app),
            Self::Trees(args) => args.run(),
            Self::Key(args) => args.run(),
            Self::Dlq(args) => args.run(),
            Self::Drain(args) => args.run(),
            Self::Recover(args) => args.run(),
        }
    }
}

/// Runs a command to its end: what went wrong becomes a message and an exit code, and so does a
/// panic.
pub fn conclude(command: impl FnOnce() -> Result<(), Failure>) -> ExitCode {
    // Nothing that the command owned is looked at after a panic.
    match catch_unwind(AssertUnwindSafe(command)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(failure)) => {
            if !failure.is_silent() {
                output::message(format_args!("error: {failure}"));
            }
            failure.exit_code()
        }
        Err(_) => {
            output::message("error: this is a bug; the lines above say where");
            (Exit::Bug as u8).into()
        }
    }
}

/// The command line of an application without commands of its own.
#[derive(Debug, Parser)]
#[command(version, about = "A Starling application: every node of its cluster is this program")]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// What [`App::main`] does.
pub(crate) fn main(app: App) -> ExitCode {
    let matches = Line::command().name(app.name()).get_matches();
    let line = Line::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    conclude(|| line.command.run(app))
}
