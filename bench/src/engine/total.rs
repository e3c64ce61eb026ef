//! The parts of all nodes of a run, put together.

use std::time::Duration;

use super::AckCounts;
use super::ledger::Part;
use crate::{Acks, Latencies, Outcome, Spec, Traffic, Workload};

/// What is known of a node when it has ended: what it said itself, and what was seen from outside when
/// its work was done.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeEnd {
    /// What it left.
    pub part: Part,
    /// When it last applied an event, since its start; `None` if it applied none.
    pub last_applied: Option<Duration>,
    /// Its processor time.
    pub cpu: Duration,
    /// Bytes that were resident.
    pub resident: u64,
    /// The most that were.
    pub peak: u64,
    /// Events that its PEs handled.
    pub messages: u64,
    /// Events that it dropped, or cannot know whether they arrived.
    pub dropped: u64,
    /// What it knows of trees, if it knows anything of them.
    pub acks: Option<AckCounts>,
}

/// What a run came to: from the first event read by any node to the last applied by any.
///
/// The processor time includes what nodes take to find out that the end has come, a few milliseconds.
pub fn total(spec: &Spec, ends: &[NodeEnd]) -> Outcome {
    let parts = || ends.iter().map(|end| &end.part);
    let began = parts().filter_map(|part| part.beginning).map(|at| at.machine).min();
    let ended = ends.iter().filter_map(NodeEnd::ended).max();
    let cpu: Duration = ends.iter().map(|end| end.cpu.saturating_sub(end.part.before.cpu)).sum();
    let (start, resident) = (
        parts().map(|part| part.before.resident).sum::<u64>(),
        ends.iter().map(|end| end.resident).sum::<u64>(),
    );
    let events = parts().map(|part| part.events).sum();
    let per_key = |keys: u64| resident.saturating_sub(start) as f64 / keys as f64;
    Outcome {
        seconds: ended.unwrap_or_default().saturating_sub(began.unwrap_or_default()).as_secs_f64(),
        events,
        bytes: parts().map(|part| part.bytes).sum(),
        answer: parts().fold(0, |sum, part| sum.wrapping_add(part.answer)),
        cpu_seconds: cpu.as_secs_f64(),
        peak_rss_bytes: ends.iter().map(|end| end.peak).sum(),
        start_rss_bytes: start,
        bytes_per_key: (spec.workload == Workload::Counters && events > 0).then(|| per_key(events)),
        latency: (spec.workload == Workload::OpenLoop).then(|| {
            let mut all = Latencies::new();
            parts().for_each(|part| all.add_buckets(&part.lateness));
            all.finish()
        }),
        join: None,
        traffic: Some(traffic(spec, ends)),
        acks: ends.iter().filter_map(|end| end.acks).reduce(AckCounts::plus).map(Acks::from),
    }
}

fn traffic(spec: &Spec, ends: &[NodeEnd]) -> Traffic {
    let sum = |of: fn(&NodeEnd) -> u64| ends.iter().map(of).sum::<u64>();
    let instances = sum(|end| end.part.instances);
    let loads = || ends.iter().flat_map(|end| &end.part.loads);
    let (all, most) = (loads().sum::<u64>(), loads().max().copied().unwrap_or_default());
    // A container to which nothing came has no load; it has a share all the same.
    let even = all as f64 / spec.threads.max(1) as f64;
    Traffic {
        messages: sum(|end| end.messages),
        dropped: sum(|end| end.dropped),
        keys_per_instance: (instances > 0)
            .then(|| sum(|end| end.part.keys) as f64 / instances as f64),
        busiest: (all > 0).then(|| most as f64 / even),
    }
}

impl NodeEnd {
    /// When it last applied an event, by the clock of the machine.
    fn ended(&self) -> Option<Duration> {
        Some(self.part.clocks?.machine_at(self.last_applied?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ledger::{Moment, Used};
    use super::*;
    use crate::Model;

    fn spec(workload: Workload) -> Spec {
        Spec { events: 30, threads: 2, processes: 2, ..Spec::new(workload, Model::Keyed) }
    }

    fn end(machine: u64, node: u64, last_applied: u64, has_spout: bool) -> NodeEnd {
        let at = Moment { machine: Duration::from_secs(machine), node: Duration::from_secs(node) };
        let part = Part {
            answer: u64::MAX,
            events: 15,
            bytes: 120,
            beginning: has_spout.then_some(at),
            clocks: Some(at),
            before: Used { cpu: Duration::from_secs(3), resident: 1_000 },
            lateness: vec![(machine * 1_000, 1)],
            instances: 4,
            keys: 10,
            loads: if has_spout { vec![machine] } else { Vec::new() },
            ..Part::default()
        };
        NodeEnd {
            part,
            last_applied: Some(Duration::from_secs(last_applied)),
            cpu: Duration::from_secs(7),
            resident: 1_600,
            peak: 2_000,
            messages: 50,
            dropped: 1,
            acks: None,
        }
    }

    #[test]
    fn a_run_is_from_the_first_beginning_to_the_last_event() {
        // By the clock of the machine: 100 to 108, and 103 to 111.
        let ends = [end(100, 2, 10, true), end(103, 1, 9, true)];
        let total = total(&spec(Workload::Counters), &ends);
        assert_eq!(total.seconds, 11.0);
        assert_eq!((total.events, total.bytes), (30, 240));
        assert_eq!(total.answer, u64::MAX - 1);
        assert_eq!(total.cpu_seconds, 8.0);
        assert_eq!((total.start_rss_bytes, total.peak_rss_bytes), (2_000, 4_000));
        assert_eq!(total.bytes_per_key, Some(40.0));
        assert_eq!((total.latency, total.acks), (None, None));
        let busiest = Some(103.0 / 101.5);
        let traffic = Traffic { messages: 100, dropped: 2, keys_per_instance: Some(2.5), busiest };
        assert_eq!(total.traffic, Some(traffic));
    }

    #[test]
    fn a_node_without_a_spout_does_not_begin() {
        let ends = [end(100, 2, 3, true), end(50, 2, 62, false)];
        let total = total(&spec(Workload::OpenLoop), &ends);
        assert_eq!(total.seconds, 10.0);
        assert!(total.latency.unwrap().max >= 100.0, "{total:?}");
        assert_eq!(total.bytes_per_key, None);
        // All that was counted, by one of two.
        assert_eq!(total.traffic.unwrap().busiest, Some(2.0));
    }
}
