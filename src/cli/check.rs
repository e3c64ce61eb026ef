//! `starling check`: whether a topology could run, without running it.

use std::path::PathBuf;

use clap::Args;
use pe::topology::Plan;
use serde_json::json;

use super::failure::Failure;
use super::output;
use super::source::{Severity, Source};
use crate::App;

const EXAMPLES: &str = "Examples:
  starling check top-words.toml
  starling check --json top-words.toml | jq .hash

Exit code 78 says that something is wrong with the file; what it is stands on standard error.";

/// Validates a topology file
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// The topology, in TOML
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Prints the result, or what is wrong, as JSON
    #[arg(long)]
    json: bool,
}

impl CheckArgs {
    pub(super) fn run(self, app: &App) -> Result<(), Failure> {
        let source = Source::read(&self.file)?;
        match app.plan(source.text()) {
            Ok(plan) => self.report(&source, &plan),
            Err(errors) => {
                if self.json {
                    let (file, errors) = (source.name(), source.to_json(&errors));
                    output::json(&json!({ "ok": false, "file": file, "errors": errors }));
                }
                return Err(source.refuse(&errors));
            }
        }
        Ok(())
    }

    fn report(&self, source: &Source, plan: &Plan) {
        source.show(&plan.warnings, Severity::Warning);
        let spouts = plan.prototypes.iter().filter(|prototype| prototype.is_spout).count();
        let pes = plan.prototypes.len() - spouts;
        let (file, hash) = (source.name(), format!("{:016x}", plan.hash));
        if self.json {
            output::json(&json!({
                "ok": true, "file": file, "name": plan.name, "hash": hash,
                "spouts": spouts, "pes": pes, "streams": plan.streams.len(),
                "warnings": source.to_json(&plan.warnings),
            }));
        } else {
            let (spouts, pes) = (counted(spouts, "spout"), counted(pes, "PE"));
            output::data(format_args!("ok: {file} ({spouts}, {pes}, hash {hash})"));
        }
    }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
