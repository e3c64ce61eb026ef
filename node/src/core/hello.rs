//! What two nodes must agree on before they talk, and how a disagreement is said.

use membership::Member;
use membership::view_log::ClusterId;
use routing::KEY_HASH;
use serde::{Deserialize, Serialize};

use super::message::Setup;

/// What a node says of itself when it meets another. What it says of the protocol's version comes
/// before this, in a form that every version can read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Who it is.
    pub member: Member,
    /// The name of its cluster.
    pub cluster: String,
    /// The id of its cluster, if it is in one.
    pub cluster_id: Option<u64>,
    /// How many slots its cluster has.
    pub slots: u32,
    /// The name of its key hash.
    pub key_hash: String,
    /// Whether replicas are on disks before anything is acknowledged.
    pub is_durable: bool,
    /// Its topologies, by name, with their hashes.
    pub topologies: Vec<(String, u64)>,
}

/// Why a node is refused: what differs, and both values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{what} differs: this node has {ours}, the other has {theirs}")]
pub struct Refused {
    /// What differs.
    pub what: String,
    /// The value here.
    pub ours: String,
    /// The value there.
    pub theirs: String,
}

impl Hello {
    pub(super) fn new(setup: &Setup, me: &Member, cluster: Option<ClusterId>) -> Self {
        Self {
            member: me.clone(),
            cluster: setup.cluster.clone(),
            cluster_id: cluster.map(|cluster| cluster.0),
            slots: setup.slots,
            key_hash: KEY_HASH.to_owned(),
            is_durable: setup.is_durable,
            topologies: setup.plans.iter().map(|plan| (plan.name.clone(), plan.hash)).collect(),
        }
    }

    /// Compares what another node says with what this one says.
    ///
    /// # Errors
    /// They cannot be members of one cluster.
    pub fn check(&self, theirs: &Self) -> Result<(), Refused> {
        let differs = |what: &str, ours: &dyn ToString, theirs: &dyn ToString| {
            let (ours, theirs) = (ours.to_string(), theirs.to_string());
            Err(Refused { what: what.to_owned(), ours, theirs })
        };
        if self.cluster != theirs.cluster {
            return differs("the name of the cluster", &self.cluster, &theirs.cluster);
        }
        if self.slots != theirs.slots {
            return differs("the number of slots", &self.slots, &theirs.slots);
        }
        if self.key_hash != theirs.key_hash {
            return differs("the key hash", &self.key_hash, &theirs.key_hash);
        }
        if self.is_durable != theirs.is_durable {
            let show = |hello: &Self| if hello.is_durable { "fsync" } else { "memory" };
            return differs("the durability", &show(self), &show(theirs));
        }
        if let (Some(ours), Some(foreign)) = (self.cluster_id, theirs.cluster_id)
            && ours != foreign
        {
            let show = |id: u64| format!("{id:016x}");
            return differs("the id of the cluster", &show(ours), &show(foreign));
        }
        if self.member.node == theirs.member.node {
            let show = |hello: &Self| format!("{} at {}", hello.member.node, hello.member.control);
            let what = "the address of one identity (a copied data directory?)";
            return differs(what, &show(self), &show(theirs));
        }
        self.check_topologies(theirs)
    }

    fn check_topologies(&self, theirs: &Self) -> Result<(), Refused> {
        let hash_of = |of: &Self, wanted: &str| {
            let found = of.topologies.iter().find(|(name, _)| name == wanted);
            found.map_or_else(|| "none".to_owned(), |(_, hash)| format!("{hash:016x}"))
        };
        let names = self.topologies.iter().chain(&theirs.topologies).map(|(name, _)| name);
        for name in names {
            let (ours, other) = (hash_of(self, name), hash_of(theirs, name));
            if ours != other {
                let what = format!("the topology `{name}`");
                return Err(Refused { what, ours, theirs: other });
            }
        }
        Ok(())
    }
}
