//! Asks a node over HTTP.
//!
//! A node answers on its own machine; nothing here trusts more of the answer than its shape.

use std::path::Path;
use std::time::Duration;

use node::Status;
use node::runtime::{InstanceView, KeptLetter, LookOf, TOKEN_FILE, TreeHolder};
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

    /// Who has events of a tree on the node.
    pub(super) fn tree_holders(&self, root: &str) -> Result<Vec<TreeHolder>, Failure> {
        #[derive(Deserialize)]
        struct Answer {
            holders: Vec<TreeHolder>,
        }
        let path = format!("/api/v1/trees/{root}");
        let text = self.get(&path)?.ok_or_else(|| self.answers("not found", &path))?;
        Ok(self.parse::<Answer>(&text)?.holders)
    }

    /// An instance, as far as the node knows of it; an owner that is not the node is asked by way of it.
    pub(super) fn instance(
        &self,
        pe: &str,
        key: &[String],
        topology: Option<&str>,
        of: LookOf,
    ) -> Result<InstanceView, Failure> {
        #[derive(Deserialize)]
        struct Refusal {
            error: String,
        }
        let path = format!("/api/v1/instances/{pe}");
        let request = self.agent.get(format!("http://{}{path}", self.address));
        let request =
            request.query("of", of.as_str()).query_pairs(topology.map(|of| ("topology", of)));
        let request = request.query_pairs(key.iter().map(|field| ("key", field)));
        // What is refused, or not found, is explained in the body.
        let request = request.config().http_status_as_error(false).build();
        let mut answer = request.call().map_err(|error| self.is_silent(&error))?;
        let text = answer.body_mut().read_to_string().map_err(|error| self.is_silent(&error))?;
        let Ok(Refusal { error }) = serde_json::from_str(&text) else { return self.parse(&text) };
        let exit = if answer.status() == 400 { Exit::Usage } else { Exit::Failure };
        Err(Failure::new(exit, error))
    }

    /// The dead letters of the node.
    pub(super) fn dead_letters(&self) -> Result<Vec<KeptLetter>, Failure> {
        #[derive(Deserialize)]
        struct Answer {
            letters: Vec<KeptLetter>,
        }
        let path = "/api/v1/dlq";
        let text = self.get(path)?.ok_or_else(|| self.answers("not found", path))?;
        Ok(self.parse::<Answer>(&text)?.letters)
    }

    /// Gives the node an order, with the token that is in its data directory on this machine.
    pub(super) fn order(&self, path: &str, token_file: Option<&Path>) -> Result<(), Failure> {
        let file = match token_file {
            Some(file) => file.to_owned(),
            None => Path::new(&self.status()?.data_dir).join(TOKEN_FILE),
        };
        let token = std::fs::read_to_string(&file).map_err(|error| {
            let message = format!("cannot read the token {}: {error}", file.display());
            Failure::new(Exit::Failure, format!("{message}\n(--token says where it is)"))
        })?;
        let request = self.agent.post(format!("http://{}{path}", self.address));
        let request = request.header("Authorization", format!("Bearer {}", token.trim()));
        match request.send_empty() {
            Ok(_) => Ok(()),
            Err(ureq::Error::StatusCode(401)) => {
                let message = format!("{} is not the token of this node", file.display());
                Err(Failure::new(Exit::Failure, message))
            }
            Err(ureq::Error::StatusCode(code)) => Err(self.answers(&code.to_string(), path)),
            Err(error) => Err(self.is_silent(&error)),
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
            Err(error) => Err(self.is_silent(&error)),
        }
    }

    fn is_silent(&self, error: &ureq::Error) -> Failure {
        let address = &self.address;
        let message = format!(
            "no node answers at {address}: {error}\n\
             (a node answers where its --http says; see addresses.json in its data directory)"
        );
        Failure::new(Exit::Failure, message)
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
