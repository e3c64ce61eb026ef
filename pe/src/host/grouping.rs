//! Groupings of the application: its code chooses the task of an event.
//!
//! It is called in the middle of sealing a batch, sometimes of events of many handlers at once, so a panic
//! must not leave from there: it costs the event at hand, which then has no task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use routing::{Choice, FieldKind};

use super::contain;
use crate::KeyRef;

/// What an application registers: the task, of so many, for a key.
pub(crate) type ChooseTask = dyn Fn(KeyRef<'_>, u32) -> u32 + Send + Sync;

/// A grouping as an outlet calls it, for keys with fields of these kinds.
pub(crate) fn choice(name: &str, choose: Arc<ChooseTask>, kinds: Vec<FieldKind>) -> Choice {
    let (name, panics) = (name.to_owned(), AtomicU64::new(0));
    Choice::new(move |bytes, tasks| {
        contain(|| choose(KeyRef::of_key(bytes, &kinds), tasks)).unwrap_or_else(|cause| {
            let panics = panics.fetch_add(1, Ordering::Relaxed) + 1;
            if panics.is_power_of_two() {
                tracing::error!(grouping = %name, panics,
                    "a grouping panicked; the event is dropped: {}", cause.0);
            }
            tasks
        })
    })
}
