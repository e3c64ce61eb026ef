//! Asks a node over HTTP.
//!
//! A node answers on its own machine; nothing here trusts more of the answer than its shape.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::failure::{Exit, Failure};

/// Where a node answers if nobody says otherwise.
pub const HTTP_DEFAULT: &str = "127.0.0.1:7700";

/// A node that busy answers within milliseconds; one that is gone should not hold up a command.
const PATIENCE: Duration = Duration::from_secs(5);

/// A node, by the address where it answers.
#[derive(Clone, Debug)]
pub struct Client {
    agent: ureq::Agent,
    address: String,
}

impl Client {
    /// A node at `ip:port`.
    pub fn new(address: impl Into<String>) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).build();
        Self { agent: config.into(), address: address.into() }
    }

    /// Where it answers.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What the node says of itself, as it says it.
    pub fn status_text(&self) -> Result<String, Failure> {
        let path = "/api/v1/status";
        self.get(path)?.ok_or_else(|| self.answers("not found", path))
    }

    /// What the node says of itself.
    pub fn status(&self) -> Result<Status, Failure> {
        self.parse(&self.status_text()?)
    }

    /// The rows that the node holds of a `table` sink; none if it has no such table.
    pub fn table<R: DeserializeOwned>(&self, name: &str) -> Result<Vec<R>, Failure> {
        #[derive(Deserialize)]
        struct Table<R> {
            rows: Vec<R>,
        }
        match self.get(&format!("/api/v1/tables/{name}"))? {
            Some(text) => Ok(self.parse::<Table<R>>(&text)?.rows),
            None => Ok(Vec::new()),
        }
    }

    /// The body of an answer; `None` if there is nothing at this path.
    fn get(&self, path: &str) -> Result<Option<String>, Failure> {
        let address = &self.address;
        let answer = self.agent.get(format!("http://{address}{path}")).call();
        match answer.and_then(|mut answer| answer.body_mut().read_to_string()) {
            Ok(text) => Ok(Some(text)),
            Err(ureq::Error::StatusCode(404)) => Ok(None),
            Err(ureq::Error::StatusCode(code)) => Err(self.answers(&code.to_string(), path)),
            Err(error) => {
                let message = format!(
                    "no node answers at {address}: {error}\n\
                     (a node answers where its --http says; see addresses.json in its data directory)"
                );
                Err(Failure::new(Exit::Failure, message))
            }
        }
    }

    fn answers(&self, what: &str, path: &str) -> Failure {
        let address = &self.address;
        let message = format!("{address} answers {what} to {path}: is it a node of this version?");
        Failure::new(Exit::Failure, message)
    }

    fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, Failure> {
        serde_json::from_str(text).map_err(|error| {
            let message =
                format!("{} answers what no node of this version says: {error}", self.address);
            Failure::new(Exit::Failure, message)
        })
    }
}

/// What a node says of itself, its cluster and its part in each topology.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of /api/v1/status")]
pub struct Status {
    pub node: String,
    pub run: u64,
    pub cluster: String,
    pub version: String,
    pub uptime_ms: u64,
    pub epoch: u64,
    pub coordinator: Option<String>,
    pub slots: u32,
    pub members: Vec<Member>,
    pub topologies: Vec<TopologyStatus>,
}

/// A member of the cluster, as the node that was asked sees it.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of /api/v1/status")]
pub struct Member {
    pub node: String,
    pub run: u64,
    pub control: String,
    pub data: String,
    pub http: Option<String>,
    pub containers: u32,
    pub slots: u32,
    pub is_self: bool,
}

/// The part of a node in a topology.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of /api/v1/status")]
pub struct TopologyStatus {
    pub name: String,
    pub hash: String,
    pub phase: String,
    pub spouts: Vec<SpoutStatus>,
    pub pes: Vec<PeStatus>,
    pub applied: u64,
    pub emitted: u64,
    pub dropped: BTreeMap<String, u64>,
    pub in_doubt: u64,
}

/// What a node holds of a spout.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of /api/v1/status")]
pub struct SpoutStatus {
    pub name: String,
    pub partitions: Vec<PartitionStatus>,
    pub emitted: u64,
    pub is_held_back: bool,
}

/// A partition of a spout.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of /api/v1/status")]
pub struct PartitionStatus {
    pub partition: String,
    pub position: u64,
    pub plays: u64,
    pub exhausted: bool,
}

/// What a node holds of a PE.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of /api/v1/status")]
pub struct PeStatus {
    pub name: String,
    pub instances: u64,
    pub applied: u64,
    pub emitted: u64,
    pub dead_letters: u64,
    pub is_held_back: bool,
}
