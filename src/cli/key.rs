//! `starling key`: one instance, wherever it lives.
//!
//! Any node knows who owns an instance, and the owner is asked what it is. If the owner cannot be asked, those are who
//! keep a copy of it, and what they say is marked as stale.

use clap::{Args, Subcommand};

use ::node::runtime::{InstanceHolder, InstanceView, LookOf};

use super::client::{Client, HTTP_DEFAULT};
use super::failure::{Exit, Failure};
use super::output;

const EXAMPLES: &str = "Examples:
  starling key get count whale
  starling key where count whale
  starling key get totals de 17        # a key of two fields
  starling key get sort 2              # the third of several numbered instances
  starling key get count whale --json | jq .state.n

Numbers are decimal, truth values true or false, bytes hexadecimal, and an absent optional field is null.";

/// One instance of a PE: what its state is, and which node has it
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Clone, Debug, Subcommand)]
enum KeyCommand {
    /// Shows the state of an instance as JSON, by its owner; by a copy, and said to be stale, if that cannot be asked
    Get(Wanted),
    /// Shows which node and container have an instance, and who keeps copies of it
    Where(Wanted),
}

/// Which instance
#[derive(Clone, Debug, Args)]
struct Wanted {
    /// The name of the PE in its topology
    pe: String,
    /// The fields of the key in the order of the topology, or the number of the instance
    #[arg(required = true, allow_negative_numbers = true)]
    key: Vec<String>,
    /// The topology, where several have such a PE
    #[arg(long, value_name = "NAME")]
    topology: Option<String>,
    /// Where a node answers; any will do
    #[arg(long, value_name = "ADDR", default_value = HTTP_DEFAULT)]
    http: String,
    /// Prints the result as JSON, with where it is from
    #[arg(long)]
    json: bool,
}

impl KeyArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.command {
            KeyCommand::Get(wanted) => get(&wanted),
            KeyCommand::Where(wanted) => show_place(&wanted),
        }
    }
}

impl Wanted {
    fn ask(&self, client: &Client, of: LookOf) -> Result<InstanceView, Failure> {
        client.instance(&self.pe, &self.key, self.topology.as_deref(), of)
    }

    /// As people say it: `count[de, 17]`.
    fn name(&self) -> String {
        format!("{}[{}]", self.pe, self.key.join(", "))
    }
}

fn get(wanted: &Wanted) -> Result<(), Failure> {
    let view = view(wanted)?;
    if wanted.json {
        output::json(&view);
    }
    let (name, by, epoch) = (wanted.name(), &view.answered_by, view.epoch);
    let stale = if view.is_stale { "STALE, by a copy of it: " } else { "" };
    if view.found != Some(true) {
        return Err(match wanted.json {
            true => Failure::silent(Exit::Failure),
            false => Failure::new(
                Exit::Failure,
                format!("{stale}there is no {name} (node {by}, epoch {epoch})"),
            ),
        });
    }
    if !wanted.json {
        output::message(format_args!("{stale}{name} on node {by}, epoch {epoch}"));
        output::data(format_args!("{:#}", view.state));
    }
    Ok(())
}

/// What the owner says, or somebody with a copy. While one of them was waited for in vain, another may have become the
/// owner, so that is found out once more.
fn view(wanted: &Wanted) -> Result<InstanceView, Failure> {
    let first = Client::new(wanted.http.as_str());
    look(wanted, &first).or_else(|_| look(wanted, &first))
}

fn look(wanted: &Wanted, first: &Client) -> Result<InstanceView, Failure> {
    let place = wanted.ask(first, LookOf::Place)?;
    let client = |holder: &InstanceHolder| {
        if holder.node == place.answered_by {
            return Some(first.clone());
        }
        holder.http.map(|http| Client::new(http.to_string()))
    };
    let known = |view: &InstanceView| view.found.is_some();
    let owner = client(&place.owner).filter(|_| place.is_served);
    let failure = match owner.map(|owner| wanted.ask(&owner, LookOf::Owner)) {
        Some(Ok(view)) if known(&view) => return Ok(view),
        Some(Err(failure)) => Some(failure),
        Some(Ok(_)) | None => None,
    };
    let copies = place.copies.iter().filter_map(client);
    let by_copy = copies.filter_map(|copy| wanted.ask(&copy, LookOf::Copy).ok()).find(known);
    by_copy.ok_or_else(|| {
        let (name, owner) = (wanted.name(), &place.owner.node);
        let why = match failure {
            Some(failure) => {
                format!("nobody has a copy to show, and of its owner, node {owner}: {failure}")
            }
            None => format!("node {owner} is getting ready to serve it; ask again in a moment"),
        };
        Failure::new(Exit::Failure, format!("{name} cannot be seen: {why}"))
    })
}

fn show_place(wanted: &Wanted) -> Result<(), Failure> {
    let view = wanted.ask(&Client::new(wanted.http.as_str()), LookOf::Place)?;
    if wanted.json {
        output::json(&view);
        return Ok(());
    }
    let unit = view.slot.map_or_else(|| "instance".to_owned(), |slot| format!("slot {slot}"));
    let is_served = if view.is_served { "" } else { ", which is getting ready to serve it" };
    let (name, topology, epoch) = (wanted.name(), &view.topology, view.epoch);
    output::data(format_args!("{name} of {topology}: {unit}, epoch {epoch}"));
    let shown = |holder: &InstanceHolder| {
        let http = holder.http.map_or_else(|| "no HTTP".to_owned(), |http| format!("http {http}"));
        format!("node {}, {http}", holder.node)
    };
    let (owner, container) = (shown(&view.owner), view.container);
    output::data(format_args!("owner  {owner}, container {container}{is_served}"));
    for copy in &view.copies {
        output::data(format_args!("copy   {}", shown(copy)));
    }
    Ok(())
}
