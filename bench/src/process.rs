//! What another process has used so far, as the system counts it.
//!
//! A node does not know what it took at the moment at which somebody else sees that it is done, so it is
//! asked for from outside. The system counts processor time for others in ticks of ten milliseconds, which is
//! one per cent of the shortest run worth measuring.

use std::fs;
use std::time::Duration;

/// A process of this machine, by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(pub u32);

/// Ticks of a second in `/proc`; the same on every architecture that Linux has.
const TICKS: u64 = 100;

/// What `kB` in `/proc/PID/status` means.
const KIBIBYTE: u64 = 1024;

impl Process {
    /// Processor time of all its threads so far, also of those that have ended: user and system.
    ///
    /// `None` if the process is gone.
    pub fn cpu(self) -> Option<Duration> {
        let text = self.read("stat")?;
        // The name of the program is in parentheses and may have spaces.
        let fields = text.rsplit_once(')')?.1;
        let mut times = fields.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
        let (user, system) = (times.next()?.ok()?, times.next()?.ok()?);
        Some(Duration::from_millis((user + system) * 1_000 / TICKS))
    }

    /// Bytes of its memory that are resident now.
    pub fn resident(self) -> Option<u64> {
        self.bytes("VmRSS:")
    }

    /// The most bytes of its memory that were resident at a time.
    pub fn peak(self) -> Option<u64> {
        self.bytes("VmHWM:")
    }

    fn bytes(self, name: &str) -> Option<u64> {
        let text = self.read("status")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        let number = line.trim().strip_suffix(" kB")?;
        Some(number.parse::<u64>().ok()? * KIBIBYTE)
    }

    fn read(self, file: &str) -> Option<String> {
        fs::read_to_string(format!("/proc/{}/{file}", self.0)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_written_to_is_resident() {
        let this = Process(std::process::id());
        let before = this.resident().unwrap();
        let block = vec![1u8; 64 << 20];
        let after = this.resident().unwrap();
        assert!(after >= before + (60 << 20), "{before} {after} {}", block.len());
        assert!(this.peak().unwrap() >= after);
    }

    #[test]
    fn work_takes_processor_time() {
        let this = Process(std::process::id());
        let before = this.cpu().unwrap();
        let mut bits = 1u64;
        while this.cpu().unwrap() == before {
            bits = (0..100_000).fold(bits, |bits, _| std::hint::black_box(bits).wrapping_mul(3));
        }
        assert_ne!(bits, 0);
    }

    #[test]
    fn who_is_not_there_uses_nothing() {
        assert_eq!(Process(u32::MAX).cpu(), None);
        assert_eq!(Process(u32::MAX).resident(), None);
    }
}
