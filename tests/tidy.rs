//! The rules that the compiler does not check.
//!
//! Layers that only point downwards, cores that cannot reach a socket or a clock, a reason at the
//! top of every module and beside every exception: all of it can be read off the text of the
//! project, so a test reads it. The strings looked for are put together with `concat!` where this
//! file would otherwise find itself.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Each package of the workspace by its folder, with those it may import; lowest layer first.
const LAYERS: &[(&str, &[&str])] = &[
    ("pe/derive", &[]),
    ("membership", &[]),
    ("routing", &["membership"]),
    ("pe", &["membership", "routing", "pe-derive"]),
    ("node", &["membership", "routing", "pe"]),
    ("sim", &["membership", "routing", "pe", "node"]),
    ("bench", &["membership", "routing", "pe", "node", "sim"]),
    (".", &["membership", "routing", "pe", "node", "sim", "bench"]),
];

/// The names of our packages, as manifests spell them.
const OURS: &[&str] =
    &["membership", "routing", "pe", "pe-derive", "node", "sim", "bench", "starling"];

/// Folders whose code decides and does not act; what is below `DRIVERS` is excepted.
const PURE: &[&str] = &["membership", "routing", "pe", "node", "sim"];

/// Where sockets, threads and clocks are at home inside the pure folders.
const DRIVERS: &[&str] = &["node/src/runtime"];

/// What only a driver may name, with the reason.
const IMPURE: &[(&str, &str)] = &[
    ("tokio", "cores are stepped, they do not wait"),
    ("actix", "containers are driven by actors, they are none"),
    ("actix_web", "HTTP belongs to the runtime"),
    ("libp2p", "a core says what to send, not how"),
    ("libp2p_stream", "a core says what to send, not how"),
    ("TcpStream", "no sockets in cores"),
    ("TcpListener", "no sockets in cores"),
    ("UdpSocket", "no sockets in cores"),
    ("std::thread", "threads belong to the runtime"),
    ("Instant", "cores are given `now`"),
    ("SystemTime", "cores are given `now`"),
];

#[test]
fn packages_import_only_the_layers_below() {
    let mut faults = String::new();
    for (folder, allowed) in LAYERS {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        for import in imports(&manifest) {
            if OURS.contains(&import) && !allowed.contains(&import) {
                writeln!(faults, "{folder} may not import {import}").unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn every_package_has_a_layer() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = manifest.lines().find(|line| line.starts_with("members = ")).unwrap();
    for member in members.split('"').skip(1).step_by(2) {
        assert!(LAYERS.iter().any(|(folder, _)| *folder == member), "{member} has no layer");
    }
}

#[test]
fn sim_takes_the_core_of_a_node_without_its_runtime() {
    let workspace = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let shared = workspace.lines().find(|line| line.starts_with("node = ")).unwrap();
    assert!(shared.contains("default-features = false"), "{shared}");
    let manifest = fs::read_to_string(root().join("sim/Cargo.toml")).unwrap();
    let taken = manifest.lines().find(|line| line.starts_with("node")).unwrap();
    assert!(!taken.contains("runtime"), "{taken}");
}

#[test]
fn the_runtime_of_a_node_is_behind_its_feature() {
    let manifest = fs::read_to_string(root().join("node/Cargo.toml")).unwrap();
    for line in section(&manifest, "[dependencies]") {
        let name = line.split(['.', ' ']).next().unwrap().replace('-', "_");
        if IMPURE.iter().any(|(impure, _)| *impure == name) {
            assert!(line.contains("optional = true"), "{line}");
        }
    }
}

#[test]
fn every_module_says_why_it_exists() {
    let mut faults = String::new();
    for source in sources() {
        if !source.text.starts_with("//! ") {
            writeln!(faults, "{} has no module doc", source.path).unwrap();
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn cores_reach_no_socket_no_thread_and_no_clock() {
    let mut faults = String::new();
    for source in sources().iter().filter(|source| source.is_pure()) {
        for (number, line) in source.code() {
            for (name, reason) in IMPURE {
                if names(&line, name) {
                    writeln!(faults, "{}:{number}: {name}: {reason}", source.path).unwrap();
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn no_test_is_switched_off_or_waits_by_the_clock() {
    let banned = [
        (concat!("#[", "ignore"), "a test that does not run proves nothing"),
        (concat!("```", "ignore"), "an example that does not compile misleads"),
        (concat!("should_", "panic"), "assert on what the call returned"),
        (concat!("sleep", "("), "wait for a condition with a deadline"),
    ];
    let mut faults = String::new();
    for source in sources() {
        for (number, line) in source.numbered() {
            for (mark, reason) in banned {
                let is_test = mark.contains("ignore") || source.is_test_line(number);
                if is_test && line.contains(mark) {
                    writeln!(faults, "{}:{number}: `{mark}`: {reason}", source.path).unwrap();
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let banned = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/")];
    let mut faults = String::new();
    for path in files(root()) {
        // What is not text has no path to find.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            if banned.iter().any(|path| line.contains(path)) {
                writeln!(faults, "{}:{}: {line}", shown(&path), number + 1).unwrap();
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn every_exception_has_a_reason() {
    let mut faults = String::new();
    for source in sources() {
        for opening in ["[expect(", "[allow("] {
            for (at, _) in source.text.match_indices(opening) {
                let is_attribute = source.text[..at].ends_with(['#', '!']);
                let attribute = source.text[at..].split(")]").next().unwrap();
                if is_attribute && !attribute.contains("reason = ") {
                    let number = source.text[..at].lines().count();
                    writeln!(faults, "{}:{number}: no reason", source.path).unwrap();
                }
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

/// A Rust file of the project.
struct Source {
    /// Its path below the root.
    path: String,
    text: String,
    /// The line from which on it is tests; the rule of the house puts them last.
    tests_from: usize,
}

impl Source {
    fn new(path: &Path) -> Self {
        let (path, text) = (shown(path), fs::read_to_string(path).unwrap());
        let is_test = path.split('/').any(|folder| folder == "tests" || folder == "examples");
        // A module with its tests in it; one that is declared, or a function for tests, ends nothing.
        let lines: Vec<_> = text.lines().collect();
        let is_body = |line: &&&str| line.starts_with("mod ") && line.ends_with('{');
        let marker = lines.iter().enumerate().position(|(at, line)| {
            let item = lines[at..].iter().find(|line| !line.starts_with("#["));
            *line == "#[cfg(test)]" && item.filter(is_body).is_some()
        });
        let tests_from = if is_test { 0 } else { marker.map_or(usize::MAX, |line| line + 1) };
        Self { path, text, tests_from }
    }

    fn is_pure(&self) -> bool {
        let below = |folder: &&str| self.path.starts_with(&format!("{folder}/src/"));
        PURE.iter().any(below) && !DRIVERS.iter().any(|driver| self.path.starts_with(driver))
    }

    fn is_test_line(&self, number: usize) -> bool {
        number >= self.tests_from
    }

    fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The lines without comments and without what stands in quotes.
    fn code(&self) -> impl Iterator<Item = (usize, String)> {
        self.numbered().map(|(number, line)| {
            let unquoted: String = line.split('"').step_by(2).collect();
            (number, unquoted.split("//").next().unwrap().to_owned())
        })
    }
}

/// Whether a line of code names something, as a word of its own.
fn names(line: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(name).any(|(at, _)| {
        !line[..at].ends_with(is_part) && !line[at + name.len()..].starts_with(is_part)
    })
}

/// The names of what a manifest depends on; tests may import everything.
fn imports(manifest: &str) -> Vec<&str> {
    let lines = section(manifest, "[dependencies]").into_iter();
    lines.filter_map(|line| line.split(['.', ' ', '=']).next()).collect()
}

/// The lines of one section of a manifest.
fn section<'a>(manifest: &'a str, header: &str) -> Vec<&'a str> {
    let lines = manifest.lines().skip_while(|line| *line != header).skip(1);
    let inside = lines.take_while(|line| !line.starts_with('['));
    inside.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// Every Rust file of the project.
fn sources() -> Vec<Source> {
    let files = files(root());
    let rust = files.iter().filter(|path| path.extension().is_some_and(|name| name == "rs"));
    rust.map(|path| Source::new(path)).collect()
}

/// Every file below a folder, but for what git and cargo keep there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == ".git" || name == "target" {
            continue;
        }
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().into_owned()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
