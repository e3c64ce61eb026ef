//! A run of the engine: nodes are started, watched until the work is done, and asked what they know.
//!
//! The nodes are real ones and are seen as anybody would see them: by their status, over HTTP, and by
//! what the system says of their processes. When the last event was applied they say themselves, to the
//! microsecond; that it is so is seen some milliseconds later, which costs the run nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use bench::engine::{AckCounts, NodeEnd, Order, Part, TOPOLOGY, total};
use bench::measure::monotonic;
use bench::{Acks, Join, Latencies, Latency, Outcome, Process, Spec, Workload};
use starling::cli::{Exit, Failure, Status, TopologyStatus, output};

use super::child;
use crate::node_process::{NodeProcess, new_folder, now, pause};

/// How long a node may take from its start until it listens; it makes its data before.
const START_LIMIT: Duration = Duration::from_secs(300);
/// How often nodes are asked. Seldom enough not to keep them from work.
const PERIOD: Duration = Duration::from_millis(50);
/// How long nothing may happen before a run is given up.
const STALL_LIMIT: Duration = Duration::from_secs(60);
/// How long before a node joins it is looked at how late events are.
const BEFORE: Duration = Duration::from_secs(30);
/// How long a sink has to have stood still before memory must not grow any more.
const SETTLE: Duration = Duration::from_secs(5);
/// How often memory is looked at behind a sink that stands still.
const SAMPLE_PERIOD: Duration = Duration::from_secs(1);

/// Does a run of the engine.
pub(super) fn run(spec: &Spec) -> Result<Outcome, Failure> {
    let folder = new_folder("compare").map_err(|error| {
        Failure::new(Exit::Failure, format!("cannot make a temporary folder: {error}"))
    })?;
    let result = Cluster::start(spec, &folder).and_then(|mut cluster| match spec.join_at {
        Some(at) => cluster.run_with_join(at),
        None if spec.workload == Workload::StalledSink => cluster.watch_memory(),
        None => cluster.run(),
    });
    match &result {
        Ok(_) => drop(fs::remove_dir_all(&folder)),
        Err(_) => output::message(format_args!("logs are in {}", folder.display())),
    }
    result
}

/// The nodes of a run; none outlives it.
#[derive(Debug)]
struct Cluster<'s> {
    spec: &'s Spec,
    folder: PathBuf,
    nodes: Vec<NodeProcess>,
    /// Where each leaves its part.
    parts: Vec<PathBuf>,
}

/// What a node has used by the end of its work.
#[derive(Clone, Copy, Debug)]
struct Used {
    cpu: Duration,
    resident: u64,
    peak: u64,
}

impl<'s> Cluster<'s> {
    /// Starts the nodes; the first forms the cluster, the others join it.
    fn start(spec: &'s Spec, folder: &Path) -> Result<Self, Failure> {
        let (folder, nodes, parts) = (folder.to_owned(), Vec::new(), Vec::new());
        let mut cluster = Self { spec, folder, nodes, parts };
        (0..spec.processes).try_for_each(|_| cluster.add())?;
        Ok(cluster)
    }

    /// Starts another node.
    fn add(&mut self) -> Result<(), Failure> {
        let folder = self.folder.join(format!("node-{}", self.nodes.len() + 1));
        let join = self.nodes.first().map(|node| node.control().to_owned());
        let order = Order { spec: self.spec.clone(), folder: folder.clone(), join };
        self.parts.push(order.part());
        let mut command = child::this("compare-node", &order)?;
        // In a group of their own they do not hear Ctrl-C; the pipe that closes tells them.
        command.stdin(Stdio::piped()).process_group(0);
        // A pipe that nobody reads is what a sink that takes nothing writes to.
        let is_stalled = self.spec.workload == Workload::StalledSink;
        command.stdout(if is_stalled { Stdio::piped() } else { Stdio::null() });
        self.nodes.push(NodeProcess::start(&mut command, &folder, START_LIMIT)?);
        Ok(())
    }

    /// Waits until all is done, and adds up what the nodes know.
    fn run(&mut self) -> Result<Outcome, Failure> {
        Ok(total(self.spec, &self.run_to_end()?))
    }

    /// The same, while another node joins.
    fn run_with_join(&mut self, at: Duration) -> Result<Outcome, Failure> {
        while applied(&self.ask()?) == 0 {
            pause(PERIOD);
        }
        pause(at);
        self.add()?;
        let listens = monotonic();
        let (began, members) = (now(), self.nodes.len());
        let has_moved = |status: &Status| {
            let mut all = status.members.iter();
            let has_part = all.all(|member| member.state == "active" && member.slots > 0);
            status.members.len() == members && has_part && status.moving == 0
        };
        let statuses = loop {
            let statuses = self.ask()?;
            if statuses.iter().all(has_moved) {
                break statuses;
            }
            if began.elapsed() > STALL_LIMIT {
                return Err(self.nodes[0].last_words("a node did not get its part"));
            }
            pause(PERIOD);
        };
        let settled = monotonic();
        let ends = self.run_to_end()?;
        let [before, during] = late_where_nothing_moved(&ends, listens, settled);
        let newcomer = statuses.last().expect("a cluster has nodes");
        let join = Join {
            seconds: (settled - listens).as_secs_f64(),
            before,
            pause_median: newcomer.pause_median_us as f64,
            pause_worst: newcomer.pause_worst_us as f64,
        };
        let latency = Some(during);
        Ok(Outcome { latency, join: Some(join), ..total(self.spec, &ends) })
    }

    /// Waits until all is done, and asks each node what it knows.
    fn run_to_end(&mut self) -> Result<Vec<NodeEnd>, Failure> {
        let last = self.wait_until_done()?;
        let used = self.used();
        let acks = self.ask_for_acks()?;
        self.stop()?;
        let parts = self.parts.iter().map(|path| read_part(path));
        let parts: Vec<Part> = parts.collect::<Result<_, _>>()?;
        let ends = parts.into_iter().zip(used).zip(acks).zip(&last);
        let ends = ends.map(|(((part, used), acks), status)| {
            let Used { cpu, resident, peak } = used;
            let (last_applied, status) = (last_applied(status), std::slice::from_ref(status));
            let (messages, dropped) = (applied(status), dropped(status));
            NodeEnd { part, last_applied, cpu, resident, peak, messages, dropped, acks }
        });
        Ok(ends.collect())
    }

    fn wait_until_done(&mut self) -> Result<Vec<Status>, Failure> {
        let mut moved = (0, now());
        loop {
            let statuses = self.ask()?;
            if self.is_done(&statuses) {
                return Ok(statuses);
            }
            let applied = applied(&statuses);
            if applied != moved.0 {
                moved = (applied, now());
            } else if moved.1.elapsed() > STALL_LIMIT {
                let seconds = STALL_LIMIT.as_secs();
                return Err(self.nodes[0].last_words(&format!("applied nothing for {seconds} s")));
            }
            pause(PERIOD);
        }
    }

    /// Whether all events have been applied: a topology whose spouts do not end never says so.
    fn is_done(&self, statuses: &[Status]) -> bool {
        if self.spec.workload == Workload::Counters {
            // What is replayed is applied again.
            return applied(statuses) >= self.spec.events;
        }
        phases(statuses).all(|phase| phase == "ended")
    }

    /// Lets a sink stand still, and looks at memory.
    fn watch_memory(&mut self) -> Result<Outcome, Failure> {
        while !phases(&self.ask()?).all(|phase| phase == "running") {
            pause(PERIOD);
        }
        let (began, before) = (now(), self.used());
        // A run that is shorter than is sensible, such as that of a test, has half of it to settle.
        let settle = SETTLE.min(self.spec.duration / 2);
        wait_until(began, settle);
        let settled = resident(&self.used());
        let mut most = settled;
        while began.elapsed() < self.spec.duration {
            wait_until(began, self.spec.duration.min(began.elapsed() + SAMPLE_PERIOD));
            self.ask()?;
            most = most.max(resident(&self.used()));
        }
        let emitted = topologies(&self.ask()?)
            .flat_map(|topology| &topology.spouts)
            .map(|spout| spout.emitted)
            .sum();
        let cpu = |used: &[Used]| used.iter().map(|used| used.cpu).sum::<Duration>();
        let acks = self.ask_for_acks()?.into_iter().flatten().reduce(AckCounts::plus);
        Ok(Outcome {
            seconds: began.elapsed().as_secs_f64(),
            events: emitted,
            cpu_seconds: (cpu(&self.used()) - cpu(&before)).as_secs_f64(),
            peak_rss_bytes: most,
            start_rss_bytes: settled,
            acks: acks.map(Acks::from),
            ..Outcome::default()
        })
    }

    /// What each node says of itself.
    fn ask(&mut self) -> Result<Vec<Status>, Failure> {
        let asked = self.nodes.iter().map(|node| node.client().status()).collect();
        // A node that does not answer has mostly ended, and its log says more.
        self.nodes.iter_mut().try_for_each(NodeProcess::check)?;
        asked
    }

    /// What each node says of trees.
    fn ask_for_acks(&self) -> Result<Vec<Option<AckCounts>>, Failure> {
        let of = |node: &NodeProcess| {
            let status = serde_json::from_str(&node.client().status_text()?);
            Ok(status.ok().and_then(|status| AckCounts::of_status(&status)))
        };
        self.nodes.iter().map(of).collect()
    }

    /// What the system says of each node; nothing of one that is gone, which is noticed elsewhere.
    fn used(&self) -> Vec<Used> {
        let used = |node: &NodeProcess| {
            let process = Process(node.pid());
            Used {
                cpu: process.cpu().unwrap_or_default(),
                resident: process.resident().unwrap_or_default(),
                peak: process.peak().unwrap_or_default(),
            }
        };
        self.nodes.iter().map(used).collect()
    }

    /// Asks all nodes to leave, and waits for it.
    fn stop(&mut self) -> Result<(), Failure> {
        self.nodes.iter_mut().for_each(NodeProcess::ask_to_stop);
        for node in &mut self.nodes {
            match node.wait_until_it_stops() {
                Some(status) if status.success() => {}
                Some(status) => return Err(node.last_words(&format!("did not leave ({status})"))),
                None => return Err(node.last_words("did not stop")),
            }
        }
        Ok(())
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            node.kill();
        }
    }
}

fn topologies(statuses: &[Status]) -> impl Iterator<Item = &TopologyStatus> {
    let all = statuses.iter().flat_map(|status| &status.topologies);
    all.filter(|topology| topology.name == TOPOLOGY)
}

fn phases(statuses: &[Status]) -> impl Iterator<Item = &str> {
    topologies(statuses).map(|topology| &*topology.phase)
}

fn applied(statuses: &[Status]) -> u64 {
    topologies(statuses).map(|topology| topology.applied).sum()
}

/// Events that did not arrive, or of which nobody knows.
fn dropped(statuses: &[Status]) -> u64 {
    let of = |topology: &TopologyStatus| topology.dropped.values().sum::<u64>() + topology.in_doubt;
    topologies(statuses).map(of).sum()
}

/// When a node last applied an event, since its start.
fn last_applied(status: &Status) -> Option<Duration> {
    let pes = topologies(std::slice::from_ref(status)).flat_map(|topology| &topology.pes);
    pes.filter_map(|pe| pe.last_applied_us).max().map(Duration::from_micros)
}

fn resident(used: &[Used]) -> u64 {
    used.iter().map(|used| used.resident).sum()
}

/// How late events were of slots that had one node throughout: before another came, and while it did.
fn late_where_nothing_moved(ends: &[NodeEnd], from: Duration, to: Duration) -> [Latency; 2] {
    let mut places: BTreeMap<u16, BTreeSet<usize>> = BTreeMap::new();
    for (node, end) in ends.iter().enumerate() {
        for sample in &end.part.samples {
            places.entry(sample.slot).or_default().insert(node);
        }
    }
    let (mut before, mut during) = (Latencies::new(), Latencies::new());
    for sample in ends.iter().flat_map(|end| &end.part.samples) {
        let at = Duration::from_millis(sample.at);
        if places[&sample.slot].len() > 1 {
            continue;
        }
        if (from.saturating_sub(BEFORE)..from).contains(&at) {
            before.record(Duration::from_nanos(sample.late));
        } else if (from..=to).contains(&at) {
            during.record(Duration::from_nanos(sample.late));
        }
    }
    [before.finish(), during.finish()]
}

fn wait_until(began: Instant, time: Duration) {
    pause(time.saturating_sub(began.elapsed()));
}

fn read_part(path: &Path) -> Result<Part, Failure> {
    let text = fs::read(path).map_err(|error| error.to_string());
    let part = text.and_then(|text| serde_json::from_slice(&text).map_err(|e| e.to_string()));
    part.map_err(|error| {
        Failure::new(Exit::Failure, format!("cannot read {}: {error}", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use bench::engine::Sample;

    use super::*;

    fn end(samples: &[(u16, u64, u64)]) -> NodeEnd {
        let sample = |&(slot, at, late): &(u16, u64, u64)| Sample { slot, at, late: late * 1_000 };
        let samples = samples.iter().map(sample).collect();
        NodeEnd {
            part: Part { samples, ..Part::default() },
            last_applied: None,
            cpu: Duration::ZERO,
            resident: 0,
            peak: 0,
            messages: 0,
            dropped: 0,
            acks: None,
        }
    }

    #[test]
    fn what_counts_is_late_in_slots_that_stay_in_time() {
        let first = end(&[(1, 29_999, 9), (1, 30_000, 10), (2, 40_000, 11), (1, 60_000, 500)]);
        let newcomer = end(&[(2, 60_500, 7_000), (3, 60_000, 600), (3, 61_001, 8_000)]);
        let (from, to) = (Duration::from_secs(60), Duration::from_secs(61));
        let [before, during] = late_where_nothing_moved(&[first, newcomer], from, to);
        let is = |found: f64, right: f64| (found - right).abs() <= right / 500.0;
        assert!(is(before.max, 10.0), "neither too early nor of a slot that moved: {before:?}");
        assert!(is(during.max, 600.0), "nor too late: {during:?}");
    }
}
