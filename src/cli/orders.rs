//! `starling drain` and `starling recover`: orders to the local node.
//!
//! An order is posted to the node's HTTP, with the token that only who may read its data directory has.
//! The commands wait for what comes of it, so that a script may go on when they are back.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Args;

use super::client::{Client, HTTP_DEFAULT};
use super::failure::{Exit, Failure};
use super::output;

/// Between two looks at a node.
const LOOK: Duration = Duration::from_millis(100);

/// A node that leaves takes a minute at most.
const DRAIN_LIMIT: Duration = Duration::from_secs(75);

/// A recovery is one write; what it takes is whoever is left to hear of it.
const RECOVER_LIMIT: Duration = Duration::from_secs(10);

const DRAIN_EXAMPLES: &str = "Examples:
  starling drain
  starling drain --http 127.0.0.1:7701

The node gives its slots with their state to the other members, and ends. Exits 0 when it has.";

const RECOVER_EXAMPLES: &str = "Example:
  starling recover --unsafe

For a cluster most of whose voters are gone for good, or in which units are UNAVAILABLE since all who have their
state are gone for good: those units begin empty. The members that this node cannot reach are given
up: what only they knew is LOST, and should they come back they drop what they hold and join anew. If some
of them still run on the other side of a broken network, both sides go on and events are handled twice.
Bring the nodes back instead if there is any way.";

/// Where the order goes
#[derive(Clone, Debug, Args)]
struct Door {
    /// Where the node answers
    #[arg(long, value_name = "ADDR", default_value = HTTP_DEFAULT)]
    http: String,
    /// The file with the node's token, if it is not in its data directory on this machine
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
}

/// Has the local node leave: hand off what it has, and end
#[derive(Clone, Debug, Args)]
#[command(after_help = DRAIN_EXAMPLES)]
pub struct DrainArgs {
    #[command(flatten)]
    door: Door,
}

/// Goes on without a lost majority, and gives up what only the lost members knew
#[derive(Clone, Debug, Args)]
#[command(after_help = RECOVER_EXAMPLES)]
pub struct RecoverArgs {
    /// Says that what is lost by it is understood
    #[arg(long = "unsafe", required = true)]
    is_unsafe: bool,
    #[command(flatten)]
    door: Door,
}

impl DrainArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let client = Client::new(self.door.http);
        let node = client.status()?.node;
        client.order("/api/v1/drain", self.door.token.as_deref())?;
        output::message(format_args!("node {node} leaves"));
        let is_gone = || client.status().map_or(Some(()), |_| None);
        wait(DRAIN_LIMIT, is_gone).ok_or_else(|| {
            let limit = DRAIN_LIMIT.as_secs();
            Failure::new(Exit::Failure, format!("node {node} is still there after {limit} s"))
        })?;
        output::message(format_args!("node {node} has left"));
        Ok(())
    }
}

impl RecoverArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let client = Client::new(self.door.http);
        let before = client.status()?;
        if !before.is_degraded && before.unavailable == 0 {
            let message =
                "nothing to recover: a majority of the voters is there, and nothing is unavailable";
            return Err(Failure::new(Exit::Failure, message));
        }
        client.order("/api/v1/recover", self.door.token.as_deref())?;
        let recovered = || {
            let status = client.status().ok()?;
            let is_whole = !status.is_degraded && status.unavailable == 0;
            (status.epoch > before.epoch && is_whole).then_some(status)
        };
        let after = wait(RECOVER_LIMIT, recovered).ok_or_else(|| {
            Failure::new(Exit::Failure, "nothing was recovered; the node's log says why")
        })?;
        let is_kept = |node: &str| after.members.iter().any(|member| member.node == node);
        let lost = before.members.iter().filter(|member| !is_kept(&member.node));
        let lost: Vec<_> = lost.map(|member| member.node.as_str()).collect();
        let (epoch, members) = (after.epoch, after.members.len());
        if before.is_degraded {
            output::message(format_args!(
                "RECOVERED without a majority: epoch {epoch}, {members} members; given up, with all that only they \
                 knew: {}",
                lost.join(" ")
            ));
        }
        let begun_empty = after.units_lost - before.units_lost;
        if begun_empty > 0 {
            output::message(format_args!(
                "GIVEN UP: {begun_empty} units that nobody had begin empty, epoch {epoch}"
            ));
        }
        Ok(())
    }
}

/// Looks again and again, for a limited time.
#[expect(clippy::disallowed_methods, reason = "a command waits by the clock of this machine")]
fn wait<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let (_nobody, pause) = mpsc::channel::<()>();
    let until = Instant::now() + limit;
    loop {
        if let Some(seen) = look() {
            return Some(seen);
        }
        if Instant::now() >= until {
            return None;
        }
        // Nobody sends: it is a pause.
        let _ = pause.recv_timeout(LOOK);
    }
}
