//! Where the figures come from: the machine, how busy it was, and what was built.

use std::fs;
use std::thread;

use serde::Serialize;

/// What figures depend on beside the code.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Environment {
    /// The model of the processor.
    pub(super) cpu: String,
    /// How many processors there are for us.
    pub(super) cores: usize,
    /// The version of the kernel.
    pub(super) kernel: String,
    /// The average number of busy tasks of the last minute when the first run began.
    pub(super) load_before: Option<f64>,
    /// The same when the last run had ended.
    pub(super) load_after: Option<f64>,
    /// The version of the program.
    pub(super) version: &'static str,
    /// `release`, or `debug`: then the figures mean nothing.
    pub(super) profile: &'static str,
    /// The compiler.
    pub(super) rustc: &'static str,
    /// Who allocates memory, in all models.
    pub(super) allocator: &'static str,
}

impl Environment {
    /// As it is before the first run.
    pub(super) fn before() -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            cpu: read("/proc/cpuinfo").and_then(|text| cpu_of(&text)).unwrap_or_else(unknown),
            cores: thread::available_parallelism().map_or(1, usize::from),
            kernel: read("/proc/sys/kernel/osrelease").unwrap_or_else(unknown),
            load_before: load(),
            load_after: None,
            version: env!("CARGO_PKG_VERSION"),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            rustc: bench::RUSTC,
            allocator: "system",
        }
    }

    /// Looks again after the last run.
    #[must_use]
    pub(super) fn after(mut self) -> Self {
        self.load_after = load();
        self
    }

    /// For people.
    pub(super) fn lines(&self) -> Vec<String> {
        let load = |load: Option<f64>| load.map_or_else(|| "?".to_owned(), |load| load.to_string());
        let (before, after) = (load(self.load_before), load(self.load_after));
        let Self { cpu, cores, kernel, version, profile, rustc, allocator, .. } = self;
        let mut lines = vec![
            format!(
                "{cpu}, {cores} cores, kernel {kernel}, load {before} before and {after} after"
            ),
            format!("starling {version}, {profile}, {rustc}, allocator {allocator}"),
        ];
        if cfg!(debug_assertions) {
            lines.push("this is a debug build: build with --release to measure".to_owned());
        }
        lines
    }
}

fn cpu_of(cpuinfo: &str) -> Option<String> {
    let named = |name| {
        let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    // What is a model on one architecture is a part on another.
    named("model name").or_else(|| named("CPU part").map(|part| format!("CPU part {part}")))
}

fn load() -> Option<f64> {
    read("/proc/loadavg")?.split(' ').next()?.parse().ok()
}

fn read(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_known_by_its_model_or_part() {
        let intel = "processor\t: 0\nmodel name\t: Some Processor @ 2.0 GHz\n";
        assert_eq!(cpu_of(intel).unwrap(), "Some Processor @ 2.0 GHz");
        assert_eq!(cpu_of("processor : 0\nCPU part : 0xd0c\n").unwrap(), "CPU part 0xd0c");
        assert_eq!(cpu_of(""), None);
    }

    #[test]
    fn what_matters_is_in_the_lines() {
        let environment = Environment::before().after();
        let lines = environment.lines().join("\n");
        for part in [&*environment.kernel, environment.rustc, "allocator system"] {
            assert!(lines.contains(part) && !part.is_empty(), "{part:?} is not in\n{lines}");
        }
    }
}
