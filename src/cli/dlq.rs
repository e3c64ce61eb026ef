//! `starling dlq`: events of spouts that were tried often enough, on the local node.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde_json::json;

use ::node::runtime::KeptLetter;

use super::client::{Client, HTTP_DEFAULT};
use super::columns::{Columns, grouped};
use super::failure::{Exit, Failure};
use super::output;

const EXAMPLES: &str = "Examples:
  starling dlq ls
  starling dlq show 3
  starling dlq replay 3
  starling dlq ls --json | jq '.letters[].json'

A dead letter is on the node that read it, in dead-letters.jsonl of its data directory.";

/// Dead letters: events that were tried often enough
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DlqArgs {
    #[command(subcommand)]
    command: DlqCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum DlqCommand {
    /// Lists them
    Ls {
        #[command(flatten)]
        door: Door,
        /// Prints the result as JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows one with all that is known of it
    Show {
        /// Its number
        id: u64,
        #[command(flatten)]
        door: Door,
    },
    /// Has one read again from its spout, as if for the first time
    Replay {
        /// Its number
        id: u64,
        #[command(flatten)]
        door: Door,
        /// The file with the node's token, if it is not in its data directory on this machine
        #[arg(long, value_name = "FILE")]
        token: Option<PathBuf>,
    },
}

/// Where the node answers
#[derive(Clone, Debug, Args)]
struct Door {
    /// Where the node answers
    #[arg(long, value_name = "ADDR", default_value = HTTP_DEFAULT)]
    http: String,
}

impl DlqArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.command {
            DlqCommand::Ls { door, json } => {
                let letters = Client::new(door.http).dead_letters()?;
                if json {
                    output::json(&json!({ "letters": letters }));
                } else {
                    list(&letters);
                }
                Ok(())
            }
            DlqCommand::Show { id, door } => {
                let letters = Client::new(door.http).dead_letters()?;
                let letter = letters.into_iter().find(|letter| letter.id == id);
                let letter = letter.ok_or_else(|| nothing(id))?;
                output::json(&json!(letter));
                Ok(())
            }
            DlqCommand::Replay { id, door, token } => {
                let client = Client::new(door.http);
                if client.dead_letters()?.iter().all(|letter| letter.id != id) {
                    return Err(nothing(id));
                }
                client.order(&format!("/api/v1/dlq/{id}/replay"), token.as_deref())?;
                output::message(format_args!("dead letter {id} is read again"));
                Ok(())
            }
        }
    }
}

fn nothing(id: u64) -> Failure {
    Failure::new(Exit::Failure, format!("there is no dead letter {id} on this node"))
}

fn list(letters: &[KeptLetter]) {
    let mut table = Columns::new(&[
        "ID",
        "TOPOLOGY",
        "SPOUT",
        "PARTITION",
        "POSITION",
        "ATTEMPTS",
        "RESENT",
        "WHY",
        "EVENT",
    ]);
    for KeptLetter { id, letter, resent, .. } in letters {
        table.row([
            id.to_string(),
            letter.topology.clone(),
            letter.spout.clone(),
            letter.partition.clone(),
            format!("{} + {}", grouped(letter.position.offset), grouped(letter.skip)),
            letter.attempts.to_string(),
            resent.to_string(),
            letter.why.as_str().to_owned(),
            short(&letter.json),
        ]);
    }
    output::data(format_args!("{} dead letters", letters.len()));
    table.lines().iter().filter(|_| !table.is_empty()).for_each(output::data);
}

/// As much of a text as a line of a table has room for.
fn short(text: &str) -> String {
    const ROOM: usize = 48;
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    match plain.char_indices().nth(ROOM) {
        Some((at, _)) => format!("{}...", &plain[..at]),
        None => plain,
    }
}
