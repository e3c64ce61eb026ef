//! What a run costs: time, processor time, memory, and how late events were.
//!
//! Everybody is measured by the same meter, started when the data is in memory. The clock is the
//! monotonic one of the system, read as a number: unlike an `Instant` it can be sent to another process
//! of the machine, which is what the delay between two processes needs.

use std::fs;
use std::time::Duration;

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

use crate::{Latency, Outcome};

/// Runs from the first event read to the last result.
#[derive(Debug)]
pub struct Meter {
    time: Duration,
    processor: Duration,
    resident: u64,
}

impl Meter {
    /// Starts to measure this process; the data is in memory.
    ///
    /// What was resident for a while when the data was made does not count as the peak of the run.
    pub fn start() -> Self {
        // "5" sets the high-water mark to what is resident now, see proc_pid_clear_refs(5). Where that
        // is not allowed, the peak includes the making of the data.
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self { resident: resident(), processor: processor(), time: monotonic() }
    }

    /// The cost so far, with what was read and found.
    pub fn finish(&self, events: u64, bytes: u64, answer: u64) -> Outcome {
        Outcome {
            seconds: (monotonic() - self.time).as_secs_f64(),
            events,
            bytes,
            answer,
            cpu_seconds: (processor() - self.processor).as_secs_f64(),
            peak_rss_bytes: status("VmHWM:"),
            start_rss_bytes: self.resident,
            ..Outcome::default()
        }
    }
}

/// The time since some moment that is the same for all processes of a machine.
pub fn monotonic() -> Duration {
    read(ClockId::Monotonic)
}

/// Bytes of this process that are resident; 0 where the system does not say.
pub fn resident() -> u64 {
    status("VmRSS:")
}

/// Bytes for each key at rest: what has become resident since, over the number of keys.
pub fn per_key(before: u64, keys: usize) -> Option<f64> {
    (keys > 0).then(|| resident().saturating_sub(before) as f64 / keys as f64)
}

/// The processor time of this process, user and system, of all threads that are or were.
pub fn processor() -> Duration {
    read(ClockId::ProcessCPUTime)
}

fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).try_into().expect("clocks that start at zero")
}

/// A field of /proc/self/status that is in KiB, in bytes.
fn status(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    kib.unwrap_or(0u64) * 1024
}

/// How late events were, to be asked for quantiles.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    /// None so far.
    pub fn new() -> Self {
        // Three digits are enough, and an hour is longer than any run.
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3);
        Self(histogram.expect("bounds that the histogram has room for"))
    }

    /// One event was so late, to three digits.
    #[inline]
    pub fn record(&mut self, late: Duration) {
        self.0.saturating_record(u64::try_from(late.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts those of another thread as well.
    ///
    /// # Panics
    ///
    /// Never: all have the same bounds.
    pub fn add(&mut self, others: &Self) {
        self.0.add(&others.0).expect("the same bounds");
    }

    /// How many were how late, in nanoseconds: for another process, which cannot be handed the rest.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let recorded = self.0.iter_recorded();
        recorded.map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value())).collect()
    }

    /// Counts those of another process as well.
    pub fn add_buckets(&mut self, buckets: &[(u64, u64)]) {
        for &(nanos, count) in buckets {
            self.0.saturating_record_n(nanos, count);
        }
    }

    /// The quantiles; all 0 without events.
    pub fn finish(&self) -> Latency {
        let micros = |nanos: u64| Duration::from_nanos(nanos).as_secs_f64() * 1e6;
        let quantile = |quantile| micros(self.0.value_at_quantile(quantile));
        Latency {
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: micros(self.0.max()),
        }
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_microseconds() {
        let mut latencies = Latencies::new();
        (1..=1000).for_each(|micros| latencies.record(Duration::from_micros(micros)));
        let Latency { p50, p99, p999, max } = latencies.finish();
        for (found, right) in [(p50, 500.0), (p99, 990.0), (p999, 999.0), (max, 1000.0)] {
            assert!((found - right).abs() <= right / 500.0, "{found}, not {right}");
        }
        // Several of one bucket are several in another process, too.
        (0..3000).for_each(|_| latencies.record(Duration::from_micros(7)));
        let mut copied = Latencies::new();
        copied.add_buckets(&latencies.buckets());
        assert_eq!(copied.finish(), latencies.finish());
        assert_eq!(Latencies::new().finish(), Latency { p50: 0.0, p99: 0.0, p999: 0.0, max: 0.0 });
    }
}
