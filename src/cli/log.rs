//! What a node logs, and in which form.
//!
//! Logs are messages and go to standard error. The engine says what it did by `tracing`; only a
//! program decides where that goes, so this is the one place with a subscriber.

use std::io;

use node::config::{LogConfig, LogFormat};
use tracing_subscriber::EnvFilter;

use super::failure::{Exit, Failure};
use super::output;

/// The variable that says what is logged for one run; it goes before the settings.
const VARIABLE: &str = "RUST_LOG";

/// Libraries that say what only their authors want to know, or what anybody can make them say by
/// sending garbage; a filter may ask for more.
const QUIET: &str = "libp2p_swarm=warn,actix_server=warn,actix_http=off";

/// Begins to log.
pub(super) fn begin(config: &LogConfig) -> Result<(), Failure> {
    let asked = std::env::var(VARIABLE).ok().filter(|filter| !filter.is_empty());
    let (source, filter) = match &asked {
        Some(filter) => (VARIABLE, filter),
        None => ("log.level", &config.level),
    };
    let filter = EnvFilter::try_new(format!("{QUIET},{filter}")).map_err(|error| {
        Failure::new(Exit::Config, format!("{source} cannot be {filter:?}: {error}"))
    })?;
    // A standard error that nobody reads any more must not end the node, as a complaint about it would.
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .log_internal_errors(false);
    match config.format {
        LogFormat::Text => lines.with_ansi(output::is_coloured()).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    }
    .map_err(|error| Failure::new(Exit::Bug, format!("the log was begun twice: {error}")))
}
