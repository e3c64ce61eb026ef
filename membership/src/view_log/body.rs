//! What a view holds beside its members.
//!
//! Slots, replica sets and topologies are above this crate. So the view log is generic over the body
//! of a view, and asks it the few things that only it can know. The body is a type and not encoded
//! bytes, because acceptors must check each body before they accept it: a view that is held has been
//! decoded and checked, and there is no code path on which it might turn out to be junk.

use std::collections::BTreeSet;
use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Head, LogId};
use crate::Member;

/// The body of a view.
///
/// All methods are pure: two nodes that ask the same get the same answer, or one of them refuses what
/// the other proposes. What serde writes must be canonical, since its bytes make the digest: ordered
/// maps, no floating-point numbers.
pub trait Body: Clone + Debug + Eq + Serialize + DeserializeOwned {
    /// Something besides the coming and going of members that calls for another view, such as a
    /// deployment or a replica set that has installed its log. Any node may name one.
    type Cause: Clone + Debug + Ord + Serialize + DeserializeOwned;

    /// Whether a cause still calls for another view. Peers may name any cause, so `false` is the
    /// answer for one that makes no sense; a cause that was heeded must not be wanted again.
    fn wants(&self, head: &Head, cause: &Self::Cause) -> bool;

    /// The body of the next view, whose members are those of `next`. Each of `causes` is wanted.
    fn next(&self, head: &Head, next: &Head, causes: &BTreeSet<Self::Cause>) -> Self;

    /// Whether the logs of a draining member are still named, so that it has to stay.
    fn needs(&self, head: &Head, log: LogId) -> bool;

    /// Whether a node that leaves was taken off before it had given all it has, and has to come in once more for that.
    fn wants_back(&self, _head: &Head, _log: LogId) -> bool {
        false
    }

    /// Whether this body can stand under `head`, whatever came before.
    ///
    /// # Errors
    /// Why not, for people. The view is refused, and nothing has changed.
    fn check(&self, head: &Head) -> Result<(), String>;

    /// Whether `next` may follow this body; both have passed [`Body::check`].
    ///
    /// # Errors
    /// Why not, for people. The view is refused, and nothing has changed.
    fn check_next(&self, head: &Head, next: &Self, next_head: &Head) -> Result<(), String>;

    /// Whether a node may become a member. One that is let in although the body cannot hold it would
    /// keep every later view from being decided.
    fn admits(&self, _head: &Head, _member: &Member) -> bool {
        true
    }

    /// The body of a view that goes on without a lost majority. `next.lost` names who is given up, and
    /// [`Body::check_next`] is not asked.
    #[must_use]
    fn recovered(&self, head: &Head, next: &Head) -> Self {
        self.next(head, next, &BTreeSet::new())
    }
}
