//! A look at one instance: where it is, and what its state is.
//!
//! Any node knows by its view who owns an instance, and only the owner knows the instance. So who is asked and does not
//! own it says who does. When the owner cannot be asked, the others who keep a copy can: what they say is marked as
//! stale, since they do not know what has come since.

use std::net::SocketAddr;

use membership::Member;
use pe::topology::Plan;
use pe::{ReplicaInput, Seen, Sought, Unit};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::oneshot;

use super::driver::{Driver, QUESTIONS_MAX};

/// What somebody wants to see.
#[derive(Clone, Debug)]
pub(super) struct LookRequest {
    pub(super) pe: String,
    /// The fields of the key, or a number.
    pub(super) key: Vec<String>,
    /// Where several topologies have such a PE.
    pub(super) topology: Option<String>,
    pub(super) of: LookOf,
}

/// What of an instance is wanted; in a request over HTTP, `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookOf {
    /// Only where it is.
    Place,
    /// What its owner says.
    Owner,
    /// What the node that is asked has as a copy.
    Copy,
}

impl LookOf {
    /// All.
    pub(super) const ALL: [Self; 3] = [Self::Place, Self::Owner, Self::Copy];

    /// As a request says it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Place => "place",
            Self::Owner => "owner",
            Self::Copy => "copy",
        }
    }
}

/// Where an instance is, and what is known of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceView {
    /// The topology.
    pub topology: String,
    /// The PE.
    pub pe: String,
    /// The fields of its key, or its number.
    pub key: Vec<String>,
    /// The slot of its key; none for a numbered instance.
    pub slot: Option<u16>,
    /// The number of the view by which the rest is said.
    pub epoch: u64,
    /// Whether somebody serves it now. If not, the owner is who will.
    pub is_served: bool,
    /// Who owns it.
    pub owner: InstanceHolder,
    /// In which container of that node.
    pub container: u16,
    /// The others who have a copy.
    pub copies: Vec<InstanceHolder>,
    /// Whether there is such an instance; nothing if the node that answers does not know.
    pub found: Option<bool>,
    /// Whether that, and the state, is by a copy, which may be a little behind.
    pub is_stale: bool,
    /// The node that answers.
    pub answered_by: String,
    /// The state.
    pub state: Value,
}

/// A node that has an instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InstanceHolder {
    /// Its name.
    pub node: String,
    /// Where it serves HTTP.
    pub http: Option<SocketAddr>,
}

/// Why nothing can be said.
#[derive(Clone, Debug)]
pub(super) enum LookFailure {
    /// What is wanted is not clear.
    Unclear(String),
    /// There is no such PE.
    Unknown(String),
    /// It cannot be seen now, or not at all.
    Hidden(String),
}

pub(super) type LookAnswer = Result<InstanceView, LookFailure>;

/// A look that has not been answered.
pub(super) struct Look {
    sought: Sought,
    view: InstanceView,
    asker: oneshot::Sender<LookAnswer>,
}

impl From<Member> for InstanceHolder {
    fn from(member: Member) -> Self {
        Self { node: member.node.to_string(), http: member.http }
    }
}

impl Driver {
    /// Somebody wants to see an instance. Whoever asked may have gone, here and below.
    pub(super) fn look(&mut self, request: LookRequest, asker: oneshot::Sender<LookAnswer>) {
        let of = request.of;
        let (sought, view) = match self.locate(request) {
            Ok(located) => located,
            Err(failure) => return drop(asker.send(Err(failure))),
        };
        let is_mine = view.owner.node == view.answered_by;
        match of {
            LookOf::Owner if is_mine && view.is_served => {
                let input = |question, sought| pe::Input::Look { question, sought };
                let (container, question) = (view.container, self.keep_look(&sought, view, asker));
                self.container(container, input(question, sought));
            }
            LookOf::Copy => {
                let question = self.keep_look(&sought, view, asker);
                self.shared.replicas.order(ReplicaInput::Look { question, sought });
            }
            LookOf::Place | LookOf::Owner => drop(asker.send(Ok(view))),
        }
    }

    fn keep_look(
        &mut self,
        sought: &Sought,
        view: InstanceView,
        asker: oneshot::Sender<LookAnswer>,
    ) -> u64 {
        // Whoever asked long ago has gone.
        while self.looks.len() >= QUESTIONS_MAX {
            self.looks.pop_first();
        }
        self.next_question += 1;
        self.looks.insert(self.next_question, Look { sought: sought.clone(), view, asker });
        self.next_question
    }

    /// Finds out what is meant, and where that is.
    fn locate(&self, request: LookRequest) -> Result<(Sought, InstanceView), LookFailure> {
        let LookRequest { pe, key, topology, .. } = request;
        let (at, plan, prototype) = self.find_pe(&pe, topology.as_deref())?;
        let sought = Sought::parse(plan, (at, prototype), &key).map_err(LookFailure::Unclear)?;
        let slots = self.core.view().map_or(1, |view| view.body.slots.len());
        let unit = sought.unit(slots);
        let place = self.core.place_of(unit);
        let place =
            place.ok_or_else(|| LookFailure::Hidden("the node is no member yet".to_owned()))?;
        let slot = match unit {
            Unit::Slot(slot) => Some(slot),
            Unit::Task { .. } => None,
        };
        let view = InstanceView {
            topology: plan.name.clone(),
            pe,
            key,
            slot,
            epoch: place.epoch.0,
            is_served: place.is_served,
            owner: place.owner.into(),
            container: place.container,
            copies: place.copies.into_iter().map(InstanceHolder::from).collect(),
            found: None,
            is_stale: false,
            answered_by: self.core.hello().member.node.to_string(),
            state: Value::Null,
        };
        Ok((sought, view))
    }

    /// The topology and the prototype of a PE.
    fn find_pe(&self, pe: &str, topology: Option<&str>) -> Result<(u16, &Plan, u16), LookFailure> {
        let plans = (0..).zip(&self.plans);
        let plans = plans.filter(|(_, plan)| topology.is_none_or(|wanted| plan.name == wanted));
        let mut found = plans.flat_map(|(at, plan)| {
            let prototypes = (0..).zip(&plan.prototypes);
            let meant = prototypes.filter(|(_, known)| known.name == pe && !known.is_spout);
            meant.map(move |(prototype, _)| (at, &**plan, prototype))
        });
        let first = found.next().ok_or_else(|| {
            let of = topology.map(|name| format!(" in the topology `{name}`")).unwrap_or_default();
            LookFailure::Unknown(format!("no PE `{pe}`{of}"))
        })?;
        let Some((_, second, _)) = found.next() else { return Ok(first) };
        let (first, second) = (&first.1.name, &second.name);
        let message =
            format!("`{pe}` is in several topologies, as {first} and {second}: say which");
        Err(LookFailure::Unclear(message))
    }

    /// A container has looked.
    pub(super) fn looked(&mut self, question: u64, seen: Seen) {
        let Some(Look { mut view, asker, .. }) = self.looks.remove(&question) else { return };
        let answer = match seen {
            Seen::State(json) => match serde_json::from_str(&json) {
                Ok(state) => {
                    (view.state, view.found) = (state, Some(true));
                    Ok(view)
                }
                // What is nested more deeply than is read.
                Err(error) => Err(LookFailure::Hidden(format!("it cannot be shown: {error}"))),
            },
            Seen::Absent => {
                view.found = Some(false);
                Ok(view)
            }
            Seen::Elsewhere => {
                view.is_served = false;
                Ok(view)
            }
            Seen::Hidden(why) => Err(LookFailure::Hidden(why)),
        };
        drop(asker.send(answer));
    }

    /// A replica has looked; what it has is read by a container, which knows its type.
    pub(super) fn found_copy(&mut self, question: u64, found: Option<Option<Vec<u8>>>) {
        let Some(look) = self.looks.get_mut(&question) else { return };
        look.view.is_stale = true;
        match found {
            Some(Some(state)) => {
                let Sought { topology, prototype, .. } = look.sought;
                let input = pe::Input::LookAtCopy { question, topology, prototype, state };
                self.container(0, input);
            }
            Some(None) => self.looked(question, Seen::Absent),
            None => self.looked(question, Seen::Hidden("this node has no copy of it".to_owned())),
        }
    }
}
