//! Processes under test: folders of their own, free ports, and waiting without guessing how long.
//!
//! A test of processes cannot be told when something has happened in another one, so it has to look
//! again and again. That is done in one place, [`wait_for`], with a limit after which the test fails and
//! says what it waited for. Nothing else here or in a test lets time pass.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "tests panic, and say why")]
#![expect(clippy::disallowed_methods, reason = "other processes are watched by the clock")]
#![allow(dead_code, reason = "each test uses a part of it")]

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
    pub(crate) control: String,
    pub(crate) data: String,
    pub(crate) http: String,
}

impl Node {
    /// Starts `program node` with free ports and its data and log in a folder, which need not exist;
    /// back when it listens.
    #[track_caller]
    pub(crate) fn start<A: AsRef<OsStr>>(
        mut program: Command,
        folder: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        fs::create_dir_all(folder).unwrap();
        program.args(["node", "--exit-with-stdin"]).arg("--data-dir").arg(folder);
        for flag in ["--listen", "--listen-data", "--http"] {
            program.args([flag, "127.0.0.1:0"]);
        }
        let log = fs::File::create(folder.join("log")).unwrap();
        program.args(arguments).stdin(Stdio::piped()).stderr(log);
        let mut child = program.spawn().unwrap();
        let path = folder.join("addresses.json");
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

    #[track_caller]
    pub(crate) fn status(&self) -> Status {
        self.client().status().unwrap_or_else(|failure| panic!("{failure}\n{}", self.log()))
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap()
    }

    /// Waits until its only topology is in a phase.
    #[track_caller]
    pub(crate) fn wait_until(&self, phase: &str) -> Status {
        wait_for(phase, || {
            let status = self.status();
            let is_there = status.topologies.iter().any(|topology| topology.phase == phase);
            is_there.then_some(status)
        })
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
    }
}
