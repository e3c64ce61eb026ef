//! Processes under test: folders of their own, free ports, and waiting without guessing how long.
//!
//! A test of processes cannot be told when something has happened in another one, so it has to look
//! again and again. That is done in one place, [`wait_for`], with a limit after which the test fails and
//! says what it waited for. Nothing else here or in a test lets time pass.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests panic, and say why")]
#![expect(clippy::disallowed_methods, reason = "other processes are watched by the clock")]
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod ground;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use starling::cli::{Client, Status};

/// How long anything may take that takes milliseconds on a machine with nothing else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How many slots a cluster has by default.
pub(crate) const SLOTS: usize = 1024;

/// How much of a log a failure shows.
const LOG_LINES: usize = 60;

/// The topology of the example top words.
pub(crate) const TOP_WORDS: &str = include_str!("../../examples/top_words/top-words.toml");

/// The `starling` command.
pub(crate) fn starling() -> Command {
    command(env!("CARGO_BIN_EXE_starling"))
}

/// An example, by name; `cargo test` has built it beside the tests.
pub(crate) fn example(name: &str) -> Command {
    let test = std::env::current_exe().unwrap();
    let path = test.parent().and_then(Path::parent).unwrap().join("examples").join(name);
    assert!(path.exists(), "{} is not built: cargo build --examples", path.display());
    command(path)
}

fn command(path: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(path);
    command.env("NO_COLOR", "1").env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// A new folder for one test, by a name that no other test has; it stays for whoever wants to look.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// The topology of top words over the files of a pattern, with what else the spout is told; written
/// into a folder.
pub(crate) fn top_words(folder: &Path, pattern: &str, params: &str) -> PathBuf {
    let given = r#"paths = ["corpus/*.txt"]"#;
    assert!(TOP_WORDS.contains(given));
    let text = TOP_WORDS.replace(given, &format!("paths = [{pattern:?}]{params}"));
    let path = folder.join("top-words.toml");
    fs::write(&path, text).unwrap();
    path
}

/// A pattern that means the bundled text.
pub(crate) fn corpus() -> String {
    format!("{}/corpus/*.txt", env!("CARGO_MANIFEST_DIR"))
}

/// Looks again and again until there is something to see; `what` says what that is.
///
/// Between two looks it waits on a channel on which nobody sends: a pause, and the only one.
#[track_caller]
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let (_nobody, pause) = mpsc::channel::<()>();
    let since = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(since.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        let _ = pause.recv_timeout(Duration::from_millis(20));
    }
}

/// Waits until these nodes and no others are the members and have what is theirs, by one view that all of
/// them have and that shares the slots out evenly; gives its number.
#[track_caller]
pub(crate) fn agree(nodes: &[&Node]) -> u64 {
    let mut names: Vec<_> = nodes.iter().map(|node| node.name()).collect();
    names.sort_unstable();
    let what = format!("agreement of {} nodes", nodes.len());
    let statuses = wait_for(&what, || {
        let statuses: Vec<_> = nodes.iter().map(|node| node.status()).collect();
        let is_right = |status: &Status| {
            status.epoch == statuses[0].epoch
                && status.moving == 0
                && status.members.iter().all(|member| member.state == "active")
                && status.members.iter().map(|member| &member.node).eq(&names)
        };
        statuses.iter().all(is_right).then_some(statuses)
    });
    for status in &statuses {
        let slots: Vec<usize> = status.members.iter().map(|member| member.slots).collect();
        assert_eq!(slots.iter().sum::<usize>(), SLOTS, "{slots:?}");
        let (least, most) = (SLOTS / slots.len(), SLOTS.div_ceil(slots.len()));
        assert!(slots.iter().all(|slots| (least..=most).contains(slots)), "{slots:?}");
    }
    statuses[0].epoch
}

/// Whether the loss of any node would lose nothing: all of these lives of nodes, and no others, are the members that each of
/// them knows, and all units have as many replicas as there are to be.
pub(crate) fn are_redundant(nodes: &[Node]) -> bool {
    let statuses: Vec<_> = nodes.iter().map(Node::status).collect();
    let mut lives: Vec<_> = statuses.iter().map(|status| (&status.node, status.run)).collect();
    lives.sort_unstable();
    statuses.iter().all(|status| {
        let members = status.members.iter().map(|member| (&member.node, member.run));
        status.thin == 0 && members.eq(lives.iter().copied())
    })
}

pub(crate) fn applied(node: &Node) -> u64 {
    node.status().topologies[0].applied
}

/// Waits until each of these nodes has handled events since.
#[track_caller]
pub(crate) fn flow(nodes: &[&Node]) {
    for node in nodes {
        let before = applied(node);
        wait_for("events to be handled", || (applied(node) > before).then_some(()));
    }
}

/// Says that a test cannot run here. In CI that is a failure: `STARLING_NO_SKIP` is set there.
pub(crate) fn skip(reason: &str) {
    assert!(std::env::var_os("STARLING_NO_SKIP").is_none(), "SKIPPED: {reason}");
    eprintln!("SKIPPED: {reason}");
}

/// A node that runs while the test does.
#[derive(Debug)]
pub(crate) struct Node {
    child: Child,
    folder: PathBuf,
    pub(crate) addresses: Addresses,
}

/// Where a node listens, as it writes it down itself.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Addresses {
    pub(crate) node: String,
    pub(crate) control: String,
    pub(crate) data: String,
    pub(crate) http: String,
}

impl Node {
    /// Starts `program node` with free ports and its data and log in a folder, which need not exist;
    /// back when it listens.
    #[track_caller]
    pub(crate) fn start<A: AsRef<OsStr>>(
        program: Command,
        folder: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        let path = folder.join("addresses.json");
        // Those of an earlier life.
        let _ = fs::remove_file(&path);
        let mut child = spawn(program, folder, arguments);
        let addresses = wait_for("a node that listens", || {
            let ended = child.try_wait().unwrap();
            assert_eq!(ended, None, "{}", fs::read_to_string(folder.join("log")).unwrap());
            serde_json::from_slice(&fs::read(&path).ok()?).ok()
        });
        Self { child, folder: folder.to_owned(), addresses }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&*self.addresses.http)
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.addresses.node
    }

    /// Where it has its data.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    #[track_caller]
    pub(crate) fn status(&self) -> Status {
        self.client().status().unwrap_or_else(|failure| panic!("{failure}\n{}", self.log()))
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// The line of its log that has all of these parts, if there is one.
    pub(crate) fn said(&self, parts: &[&str]) -> Option<String> {
        let log = self.log();
        let found = log.lines().find(|line| parts.iter().all(|part| line.contains(part)));
        found.map(ToOwned::to_owned)
    }

    /// Waits for a line of its log that has all of these parts.
    #[track_caller]
    pub(crate) fn wait_to_say(&self, parts: &[&str]) -> String {
        wait_for(&format!("{parts:?} in the log"), || self.said(parts))
    }

    /// Waits for something that its status shows.
    #[track_caller]
    pub(crate) fn wait_to_show(&self, what: &str, is_shown: impl Fn(&Status) -> bool) -> Status {
        wait_for(what, || Some(self.status()).filter(|status| is_shown(status)))
    }

    /// Waits until its only topology is in a phase.
    #[track_caller]
    pub(crate) fn wait_until(&self, phase: &str) -> Status {
        self.wait_to_show(phase, |status| {
            status.topologies.iter().any(|topology| topology.phase == phase)
        })
    }

    /// Bytes of its memory that are in use.
    pub(crate) fn memory(&self) -> u64 {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Sends it a signal, by name.
    #[track_caller]
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &pid]).status();
        assert!(sent.unwrap().success(), "signal {name}");
    }

    /// Ends it at once, by SIGKILL; its folder stays.
    #[track_caller]
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end, for which somebody else has seen.
    #[track_caller]
    pub(crate) fn wait(mut self) -> ExitStatus {
        wait_for("a node that has stopped", || self.child.try_wait().unwrap())
    }

    /// Stops it by SIGTERM, and waits for its end.
    #[track_caller]
    pub(crate) fn terminate(mut self) -> ExitStatus {
        self.signal("TERM");
        wait_for("a node that has stopped", || self.child.try_wait().unwrap())
    }

    /// Stops it the way SIGTERM does, and waits for its end.
    #[track_caller]
    pub(crate) fn stop(mut self) -> ExitStatus {
        drop(self.child.stdin.take());
        wait_for("a node that has stopped", || self.child.try_wait().unwrap())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
            eprintln!("--- the end of {}/log:\n{last}", self.folder.display());
        }
    }
}

/// Starts `program node`; flags that the arguments do not have are set so that nobody is in the way.
fn spawn<A: AsRef<OsStr>>(
    mut program: Command,
    folder: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> Child {
    let arguments: Vec<_> = arguments.into_iter().map(|a| a.as_ref().to_owned()).collect();
    fs::create_dir_all(folder).unwrap();
    program.args(["node", "--exit-with-stdin"]);
    if !arguments.iter().any(|argument| argument == "--data-dir") {
        program.arg("--data-dir").arg(folder);
    }
    for flag in ["--listen", "--listen-data", "--http"] {
        if !arguments.iter().any(|argument| argument == flag) {
            program.args([flag, "127.0.0.1:0"]);
        }
    }
    let log = fs::File::create(folder.join("log")).unwrap();
    program.args(arguments).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
    program.spawn().unwrap()
}

/// Starts `program node` as [`Node::start`] does, and waits for its end: its exit code and what it said.
#[track_caller]
pub(crate) fn run_to_end<A: AsRef<OsStr>>(
    program: Command,
    folder: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> (Option<i32>, String) {
    let child = spawn(program, folder, arguments);
    let nowhere = String::new;
    let addresses =
        Addresses { node: nowhere(), control: nowhere(), data: nowhere(), http: nowhere() };
    // A node, so that it ends if the test fails.
    let mut node = Node { child, folder: folder.to_owned(), addresses };
    let status = wait_for("a node that ends by itself", || node.child.try_wait().unwrap());
    (status.code(), node.log())
}
