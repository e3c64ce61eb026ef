//! The `starling` command: the commands of every application, and the demo.
//!
//! It is an application like any other; the PEs it has are those of the example "top words", which the
//! demo runs.

mod demo;
mod node_process;
#[path = "../examples/top_words/pes.rs"]
mod pes;

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
    #[command(flatten)]
    Shared(cli::Command),
}

fn main() -> ExitCode {
    let line = Line::parse();
    cli::conclude(|| match line.command {
        Command::Demo(args) => args.run(),
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
