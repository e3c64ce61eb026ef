//! `starling status`: what a node knows, as tables for people or as its own JSON for scripts.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;

use ::node::{Status, TopologyStatus};
use pe::Evicted;

use super::client::{Client, HTTP_DEFAULT};
use super::columns::{Columns, grouped};
use super::failure::{Exit, Failure};
use super::output;

const EXAMPLES: &str = "Examples:
  starling status
  starling status --http 127.0.0.1:7701
  starling status --json | jq '.topologies[].phase'";

/// Shows members, epoch, slots and topologies, as one node sees them
#[derive(Clone, Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct StatusArgs {
    /// Where the node answers
    #[arg(long, value_name = "ADDR", default_value = HTTP_DEFAULT)]
    http: String,
    /// Prints the answer of the node as it is
    #[arg(long)]
    json: bool,
}

impl StatusArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let client = Client::new(self.http);
        if self.json {
            let text = client.status_text()?;
            // What is handed to a script as JSON is JSON.
            serde_json::from_str::<serde::de::IgnoredAny>(&text).map_err(|error| {
                let address = client.address();
                Failure::new(Exit::Failure, format!("{address} answers no JSON: {error}"))
            })?;
            output::data(text.trim_end());
        } else {
            output::data(render(&client.status()?).trim_end());
        }
        Ok(())
    }
}

fn render(status: &Status) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "node {} (run {}) of cluster {}, version {}, up {}",
        status.node,
        status.run,
        status.cluster,
        status.version,
        up(status.uptime_ms)
    );
    let _ = writeln!(
        out,
        "epoch {}, {} members, {} slots, coordinator {}",
        status.epoch,
        status.members.len(),
        status.slots,
        status.coordinator.as_deref().unwrap_or("unknown")
    );
    if status.is_degraded && status.epoch > 0 {
        let _ = writeln!(
            out,
            "DEGRADED: {} of {} voters needed are there; nothing moves and nobody joins until more are",
            status.voters_live, status.voters_needed
        );
    }
    for stuck in &status.stuck {
        let _ = writeln!(
            out,
            "STUCK: code of {} ({}) has not returned for {}; container {} does nothing else",
            stuck.pe,
            stuck.topology,
            stuck.span(),
            stuck.container
        );
    }
    if status.moving > 0 {
        let _ = writeln!(
            out,
            "moving: {} slots and numbered instances; {} to this node, {} from it",
            status.moving, status.arriving, status.leaving
        );
    }
    if status.thin > 0 {
        let _ = writeln!(
            out,
            "thin: {} slots and numbered instances are with fewer than {} nodes; more are being copied",
            status.thin, status.replicas
        );
    }
    if status.unavailable > 0 {
        let _ = writeln!(
            out,
            "UNAVAILABLE: {} slots and numbered instances; all nodes with their state are gone, their events wait for one",
            status.unavailable
        );
    }
    if status.units_lost > 0 {
        let _ = writeln!(
            out,
            "STATE LOST: {} slots and numbered instances began empty, nobody was left who had their state",
            status.units_lost
        );
    }
    if status.replicas_kept > 0 {
        let _ = writeln!(
            out,
            "replicas kept: {} slots and numbered instances in {} bytes",
            grouped(status.replicas_kept),
            grouped(status.replica_bytes)
        );
    }
    if status.units_taken > 0 {
        let ms = |micros: u64| format!("{}.{}", micros / 1000, micros / 100 % 10);
        let _ = writeln!(
            out,
            "taken over by this node: {} units with {} bytes; they stood still for {} ms (median), {} (worst)",
            grouped(status.units_taken),
            grouped(status.bytes_taken),
            ms(status.pause_median_us),
            ms(status.pause_worst_us)
        );
    }
    out.push('\n');
    append(&mut out, "", &members(status));
    for topology in &status.topologies {
        render_topology(topology, &mut out);
    }
    out
}

fn members(status: &Status) -> Columns {
    let mut table = Columns::new(&[
        "NODE",
        "RUN",
        "STATE",
        "CONTROL",
        "DATA",
        "HTTP",
        "CONTAINERS",
        "SLOTS",
        "",
    ]);
    for member in &status.members {
        table.row([
            member.node.clone(),
            member.run.to_string(),
            member.state.clone(),
            member.control.to_string(),
            member.data.to_string(),
            member.http.map_or_else(|| "-".to_owned(), |http| http.to_string()),
            member.containers.to_string(),
            member.slots.to_string(),
            match (member.is_voter, member.is_self) {
                (true, true) => "voter, this node",
                (true, false) => "voter",
                (false, true) => "this node",
                (false, false) => "",
            }
            .to_owned(),
        ]);
    }
    table
}

fn render_topology(topology: &TopologyStatus, out: &mut String) {
    let _ = writeln!(
        out,
        "\ntopology {} ({}): {}; on this node {} applied, {} emitted, {} in doubt",
        topology.name,
        topology.hash,
        topology.phase,
        grouped(topology.applied),
        grouped(topology.emitted),
        grouped(topology.in_doubt)
    );
    for (reason, count) in &topology.dropped {
        let _ = writeln!(out, "  dropped, {reason}: {}", grouped(*count));
    }
    if topology.trees_completed + topology.trees_pending + topology.replays > 0 {
        let _ = writeln!(
            out,
            "  trees: {} complete, {} pending, {} read again",
            grouped(topology.trees_completed),
            grouped(topology.trees_pending),
            grouped(topology.replays)
        );
    }
    for (why, count) in &topology.trees_failed {
        let _ = writeln!(out, "  given up, {why}: {}", grouped(*count));
    }
    let mut partitions = Columns::new(&["SPOUT", "PARTITION", "POSITION", "PLAYS", ""]);
    for spout in &topology.spouts {
        for partition in &spout.partitions {
            partitions.row([
                spout.name.clone(),
                partition.partition.clone(),
                grouped(partition.position),
                grouped(partition.plays),
                note(&[(partition.exhausted, "exhausted"), (spout.is_held_back, "held back")]),
            ]);
        }
    }
    append(out, "  ", &partitions);
    let spouts = topology.spouts.iter().map(|it| (&it.name, it.spilled, it.spilled_bytes));
    let pes = topology.pes.iter().map(|it| (&it.name, it.spilled, it.spilled_bytes));
    for (name, events, bytes) in spouts.chain(pes).filter(|(_, events, _)| *events > 0) {
        let (events, bytes) = (grouped(events), grouped(bytes));
        let _ = writeln!(out, "  on disk, emitted by {name}: {events} events in {bytes} bytes");
    }
    let mut pes = Columns::new(&["PE", "INSTANCES", "APPLIED", "EMITTED", "DEAD LETTERS", ""]);
    for pe in &topology.pes {
        pes.row([
            pe.name.clone(),
            grouped(pe.instances),
            grouped(pe.applied),
            grouped(pe.emitted),
            grouped(pe.dead_letters),
            note(&[(pe.is_held_back, "held back"), (pe.is_behind, "SLOW: others wait for it")]),
        ]);
    }
    append(out, "  ", &pes);
    for pe in topology.pes.iter().filter(|pe| pe.evicted != Evicted::default()) {
        let Evicted { full, idle } = pe.evicted;
        let (name, full, idle) = (&pe.name, grouped(full), grouped(idle));
        let _ =
            writeln!(out, "  given up by {name}: {full} instances that were too many, {idle} idle");
    }
}

/// Appends a table, if there is anything in it.
fn append(out: &mut String, indent: &str, table: &Columns) {
    for line in table.lines().iter().filter(|_| !table.is_empty()) {
        let _ = writeln!(out, "{indent}{line}");
    }
}

/// The first of some remarks that applies.
fn note(remarks: &[(bool, &str)]) -> String {
    remarks.iter().find(|(applies, _)| *applies).map_or("", |(_, remark)| remark).to_owned()
}

/// A length of time as a person would say it.
fn up(milliseconds: u64) -> String {
    let seconds = Duration::from_millis(milliseconds).as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the contract.
    const ANSWER: &str = r#"{
        "node": "00000000000000aa", "run": 3, "cluster": "starling", "version": "0.1.0",
        "uptime_ms": 7384000, "data_dir": "data", "epoch": 4, "coordinator": null,
        "voters_live": 1, "voters_needed": 2, "is_degraded": true, "moving": 342, "arriving": 300,
        "leaving": 0, "units_taken": 7, "bytes_taken": 2048, "pause_median_us": 12000,
        "pause_worst_us": 31000, "slots": 1024,
        "key_hash": "xxh3-64",
        "members": [{"node": "00000000000000aa", "run": 1, "control": "127.0.0.1:4000",
            "data": "127.0.0.1:4001", "http": null, "containers": 2, "state": "active",
            "is_voter": true, "slots": 342, "is_self": true}],
        "topologies": [{"name": "top-words", "hash": "00000000000000bb", "phase": "running",
            "spouts": [{"name": "lines", "emitted": 1, "is_held_back": true, "partitions": [
                {"partition": "speeches-01.txt", "position": 123, "plays": 4, "exhausted": false}]}],
            "pes": [{"name": "count", "instances": 10, "applied": 1234567, "emitted": 5,
                "dead_letters": 0, "evicted": {"full": 2000, "idle": 7}, "is_held_back": false,
                "is_behind": true, "spilled": 5000,
                "spilled_bytes": 40000}],
            "applied": 100, "emitted": 100, "dropped": {"no-slot": 3}, "in_doubt": 0}],
        "stuck": [{"container": 1, "topology": "top-words", "pe": "count", "for_ms": 5230}]
    }"#;

    #[test]
    fn a_status_reads_as_tables() {
        let shown = render(&serde_json::from_str(ANSWER).unwrap());
        for part in [
            "up 2 h 3 min",
            "epoch 4, 1 members, 1024 slots",
            "STUCK: code of count (top-words) has not returned for 5.2 s; container 1 does nothing else",
            "DEGRADED: 1 of 2 voters needed",
            "taken over by this node: 7 units with 2 048 bytes; they stood still for 12.0 ms (median), 31.0",
            "moving: 342 slots and numbered instances; 300 to this node, 0 from it",
            "00000000000000aa    1  active  127.0.0.1:4000  127.0.0.1:4001     -           2    342  voter, this node",
            "topology top-words (00000000000000bb): running",
            "dropped, no-slot: 3",
            "speeches-01.txt       123      4  held back",
            "count         10  1 234 567        5             0  SLOW: others wait for it",
            "on disk, emitted by count: 5 000 events in 40 000 bytes",
            "given up by count: 2 000 instances that were too many, 7 idle",
        ] {
            assert!(shown.contains(part), "{part} is not in\n{shown}");
        }
    }

    #[test]
    fn where_nobody_answers_the_address_is_named() {
        let args = StatusArgs { http: "127.0.0.1:1".into(), json: false };
        let failure = args.run().unwrap_err();
        assert!(failure.to_string().starts_with("no node answers at 127.0.0.1:1: "), "{failure}");
    }
}
