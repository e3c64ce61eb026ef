//! A node as a process on this machine, which ends with the command that started it.
//!
//! Each child is this executable again, on ports of the system's choice. What a child writes goes to a
//! file beside its data, shown if it dies early. A child watches its standard input: when the command
//! ends, however it ends, the pipe closes and the child stops as it does on SIGTERM.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use serde::Deserialize;
use starling::cli::{Client, Exit, Failure};

/// How long a node may take to stop when asked, which is longer than it allows itself; then it is
/// killed.
const STOP_LIMIT: Duration = Duration::from_secs(15);
/// How often a child is looked at while it starts or stops.
const TICK: Duration = Duration::from_millis(20);
/// How much of the log of a node that died is shown.
const LOG_LINES: usize = 20;

/// A node process.
#[derive(Debug)]
pub(crate) struct NodeProcess {
    child: Child,
    folder: PathBuf,
    addresses: Addresses,
}

/// Where a node listens, as it writes it down itself.
#[derive(Clone, Debug, Deserialize)]
struct Addresses {
    control: String,
    http: String,
}

impl NodeProcess {
    /// Starts a node that keeps its data in a new folder, and waits until it listens; not for longer
    /// than the limit.
    ///
    /// The command says all but where its log goes; one that pipes its standard input stops when the
    /// pipe closes, if the node was told to watch it.
    pub(crate) fn start(
        command: &mut Command,
        folder: &Path,
        limit: Duration,
    ) -> Result<Self, Failure> {
        let cannot = |error: io::Error| {
            Failure::new(Exit::Failure, format!("cannot start {}: {error}", folder.display()))
        };
        fs::create_dir(folder).map_err(cannot)?;
        let log = File::create(folder.join("log")).map_err(cannot)?;
        let child = command.stderr(log).spawn().map_err(cannot)?;
        let nowhere = Addresses { control: String::new(), http: String::new() };
        let mut node = Self { child, folder: folder.to_owned(), addresses: nowhere };
        match node.wait_until_it_listens(limit) {
            Ok(addresses) => Ok(Self { addresses, ..node }),
            Err(failure) => {
                node.kill();
                Err(failure)
            }
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where other nodes reach it.
    pub(crate) fn control(&self) -> &str {
        &self.addresses.control
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&*self.addresses.http)
    }

    /// Whether it still runs; its last words if it does not.
    pub(crate) fn check(&mut self) -> Result<(), Failure> {
        match self.exit_status() {
            Some(status) => Err(self.last_words(&format!("ended early ({status})"))),
            None => Ok(()),
        }
    }

    /// Closes its standard input, which asks it to stop.
    pub(crate) fn ask_to_stop(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for the end of a node that was asked to stop; how it ended, or nothing if it did not.
    pub(crate) fn wait_until_it_stops(&mut self) -> Option<ExitStatus> {
        let since = now();
        loop {
            let status = self.exit_status();
            if status.is_some() || since.elapsed() > STOP_LIMIT {
                return status;
            }
            pause(TICK);
        }
    }

    /// Ends the process at once; says which it was.
    pub(crate) fn kill(&mut self) -> u32 {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.pid()
    }

    /// A failure with the end of the log.
    pub(crate) fn last_words(&self, what: &str) -> Failure {
        let log = self.folder.join("log");
        let text = fs::read(&log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let shown = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n  ");
        let message = format!("{} {what}; the end of its log:\n  {shown}", self.folder.display());
        Failure::new(Exit::Failure, message)
    }

    fn wait_until_it_listens(&mut self, limit: Duration) -> Result<Addresses, Failure> {
        let since = now();
        loop {
            self.check()?;
            let written = fs::read(self.folder.join("addresses.json")).ok();
            // A file that is only half there is not JSON yet.
            if let Some(addresses) = written.and_then(|text| serde_json::from_slice(&text).ok()) {
                return Ok(addresses);
            }
            if since.elapsed() > limit {
                return Err(self.last_words("does not listen"));
            }
            pause(TICK);
        }
    }

    fn exit_status(&mut self) -> Option<ExitStatus> {
        // A child whose state cannot be asked for is none of ours any more.
        self.child.try_wait().unwrap_or(None)
    }
}

/// Makes a new folder in the system's place for temporary files.
pub(crate) fn new_folder(purpose: &str) -> io::Result<PathBuf> {
    let process = std::process::id();
    for attempt in 0..100 {
        let folder = std::env::temp_dir().join(format!("starling-{purpose}-{process}-{attempt}"));
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|()| folder),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[expect(clippy::disallowed_methods, reason = "other processes are watched by the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "other processes are watched by the clock")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
