//! `starling trees`: which events of spouts are not done with, and who has what of them.
//!
//! A tree is known to the node that planted it, and what belongs to it may be on any. So the members are asked
//! one after the other, by the addresses that the first of them knows; who cannot be asked is named.

use clap::{Args, Subcommand};
use serde_json::json;

use ::node::runtime::TreeHolder;
use ::node::{Status, TreeStatus};

use super::client::{Client, HTTP_DEFAULT};
use super::columns::{Columns, grouped};
use super::failure::{Exit, Failure};
use super::output;

const EXAMPLES: &str = "Examples:
  starling trees
  starling trees explain 0001000000000a3f
  starling trees --json | jq '.trees[] | select(.attempts > 0)'";

/// Shows the trees that have been pending longest, on all nodes
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct TreesArgs {
    #[command(subcommand)]
    command: Option<TreesCommand>,
    #[command(flatten)]
    door: Door,
}

/// Whom to ask
#[derive(Clone, Debug, Args)]
struct Door {
    /// Where a node answers
    #[arg(long, value_name = "ADDR", default_value = HTTP_DEFAULT)]
    http: String,
    /// Prints the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Debug, Subcommand)]
enum TreesCommand {
    /// Says which PEs have events of a tree
    Explain {
        /// The tree, by its 16 hexadecimal digits
        #[arg(value_name = "ROOT", value_parser = root)]
        root: String,
        #[command(flatten)]
        door: Door,
    },
}

fn root(text: &str) -> Result<String, String> {
    let is_root = text.len() == 16 && u64::from_str_radix(text, 16).is_ok();
    is_root.then(|| text.to_owned()).ok_or_else(|| "a tree has 16 hexadecimal digits".to_owned())
}

/// A member, if it can be asked.
struct Member {
    node: String,
    client: Option<Client>,
    status: Option<Status>,
}

fn members(http: &str) -> Result<Vec<Member>, Failure> {
    let first = Client::new(http);
    let status = first.status()?;
    let all = status.members.iter().map(|member| {
        let node = member.node.clone();
        if member.is_self {
            let (client, status) = (Some(first.clone()), Some(status.clone()));
            return Member { node, client, status };
        }
        let client = member.http.map(|http| Client::new(http.to_string()));
        let status = client.as_ref().and_then(|client| client.status().ok());
        Member { node, client: client.filter(|_| status.is_some()), status }
    });
    let all: Vec<_> = all.collect();
    for member in all.iter().filter(|member| member.client.is_none()) {
        output::message(format_args!(
            "node {} cannot be asked: what it has is missing",
            member.node
        ));
    }
    Ok(all)
}

impl TreesArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.command {
            None => list(&self.door),
            Some(TreesCommand::Explain { root, door }) => explain(&root, &door),
        }
    }
}

fn list(door: &Door) -> Result<(), Failure> {
    let members = members(&door.http)?;
    let trees = members.iter().filter_map(|member| Some((member, member.status.as_ref()?)));
    let trees: Vec<_> = trees
        .flat_map(|(member, status)| {
            status.topologies.iter().flat_map(move |topology| {
                let of = move |tree| (member.node.as_str(), topology.name.as_str(), tree);
                topology.oldest_trees.iter().map(of)
            })
        })
        .collect();
    if door.json {
        let shown = |(node, topology, tree): &(&str, &str, &TreeStatus)| {
            let mut value = serde_json::to_value(tree).expect("it is plain data");
            (value["node"], value["topology"]) = (json!(node), json!(topology));
            value
        };
        output::json(&json!({ "trees": trees.iter().map(shown).collect::<Vec<_>>() }));
        return Ok(());
    }
    let pending: u64 = members
        .iter()
        .filter_map(|member| member.status.as_ref())
        .flat_map(|status| &status.topologies)
        .map(|topology| topology.trees_pending)
        .sum();
    output::data(format_args!("{} trees are pending", grouped(pending)));
    let mut table = Columns::new(&[
        "ROOT",
        "NODE",
        "TOPOLOGY",
        "SPOUT",
        "PARTITION",
        "POSITION",
        "ATTEMPTS",
        "IDLE MS",
        "",
    ]);
    for (node, topology, tree) in trees {
        table.row([
            tree.root.clone(),
            node.to_owned(),
            topology.to_owned(),
            tree.spout.clone(),
            tree.partition.clone(),
            format!("{} + {}", grouped(tree.position), grouped(tree.skip)),
            tree.attempts.to_string(),
            grouped(tree.idle_ms),
            tree.why.clone().unwrap_or_default(),
        ]);
    }
    table.lines().iter().filter(|_| !table.is_empty()).for_each(output::data);
    Ok(())
}

fn explain(root: &str, door: &Door) -> Result<(), Failure> {
    let mut held: Vec<(String, TreeHolder, bool)> = Vec::new();
    let mut is_known = false;
    for member in members(&door.http)? {
        let (Some(client), Some(status)) = (member.client, member.status) else { continue };
        let topologies = || status.topologies.iter();
        is_known |= topologies().any(|of| of.oldest_trees.iter().any(|tree| tree.root == root));
        let is_behind = |holder: &TreeHolder| {
            let pes = topologies().filter(|of| of.name == holder.topology).flat_map(|of| &of.pes);
            pes.filter(|pe| pe.name == holder.pe).any(|pe| pe.is_held_back)
        };
        for holder in client.tree_holders(root)? {
            let is_held_back = is_behind(&holder);
            held.push((member.node.clone(), holder, is_held_back));
        }
    }
    if door.json {
        let shown = |(node, holder, is_held_back): &(String, TreeHolder, bool)| {
            let mut value = serde_json::to_value(holder).expect("it is plain data");
            (value["node"], value["is_held_back"]) = (json!(node), json!(is_held_back));
            value
        };
        output::json(&json!({ "holders": held.iter().map(shown).collect::<Vec<_>>() }));
        return Ok(());
    }
    if held.is_empty() {
        let what = if is_known {
            "the tree is pending, and nobody has events of it: they are being handled, or on a link, or lost"
        } else {
            "nobody has events of such a tree; it may be complete"
        };
        return Err(Failure::new(Exit::Failure, what));
    }
    let mut table = Columns::new(&["NODE", "TOPOLOGY", "PE", "COUNT", "HOW", ""]);
    for (node, holder, is_held_back) in held {
        table.row([
            node,
            holder.topology,
            holder.pe,
            grouped(holder.count),
            holder.how,
            if is_held_back { "held back" } else { "" }.to_owned(),
        ]);
    }
    table.lines().iter().for_each(output::data);
    Ok(())
}
