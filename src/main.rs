//! The `starling` command: the commands of every application, and the demo.
//!
//! It is an application like any other; the PEs it has are those of the example "top words", which the
//! demo runs.

#[cfg(feature = "compare")]
mod compare;
mod demo;
mod node_process;
#[path = "../examples/top_words/pes.rs"]
mod pes;
#[cfg(feature = "sim")]
mod simulate;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use starling::{App, cli};

/// Stream processing without a master
#[derive(Debug, Parser)]
#[command(version)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Counts the words of a bundled text on several nodes and checks the result
    Demo(demo::DemoArgs),
    /// Runs a workload under several models in turns, and compares speed, memory and results
    #[cfg(feature = "compare")]
    Compare(compare::CompareArgs),
    /// Does one run of a comparison
    #[cfg(feature = "compare")]
    #[command(hide = true)]
    CompareRun(compare::RunArgs),
    /// Runs a node for a comparison
    #[cfg(feature = "compare")]
    #[command(hide = true)]
    CompareNode(compare::NodeArgs),
    /// Receives what a run of a comparison sends
    #[cfg(feature = "compare")]
    #[command(hide = true)]
    CompareReceive(compare::ReceiveArgs),
    /// Runs clusters in virtual time in which things go wrong, and checks every step
    #[cfg(feature = "sim")]
    Sim(simulate::SimArgs),
    #[command(flatten)]
    Shared(cli::Command),
}

fn main() -> ExitCode {
    let line = Line::parse();
    cli::conclude(|| match line.command {
        Command::Demo(args) => args.run(),
        #[cfg(feature = "compare")]
        Command::Compare(args) => args.run(),
        #[cfg(feature = "compare")]
        Command::CompareRun(args) => args.run(),
        #[cfg(feature = "compare")]
        Command::CompareNode(args) => args.run(),
        #[cfg(feature = "compare")]
        Command::CompareReceive(args) => args.run(),
        #[cfg(feature = "sim")]
        Command::Sim(args) => args.run(),
        Command::Shared(command) => command.run(app()),
    })
}

fn app() -> App {
    App::new("starling")
        .pe::<pes::Splitter>("splitter")
        .pe::<pes::Counter>("counter")
        .pe::<pes::TopK>("top-k")
        .pe::<pes::TopKMerge>("top-k-merge")
}
