//! What a container is doing, for who watches it from another thread.
//!
//! A handler that does not return keeps all of its container from working, and from saying so. So the container
//! notes whose code it calls, once a batch, where the driver can see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whose code a container calls.
#[derive(Clone, Debug, Default)]
pub struct Activity(Arc<AtomicU64>);

/// A call, as it is seen from outside; another call differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The topology, by its place.
    pub topology: u16,
    /// The prototype.
    pub prototype: u16,
    /// Which call it is, more or less: they are counted and begin anew after 2^31.
    pub nth: u32,
}

/// In no call.
const IDLE: u64 = 1 << 63;
/// Calls are counted up to here.
const NTH_MAX: u64 = 0x7fff_ffff;

impl Activity {
    /// The call that the container is in.
    pub fn call(&self) -> Option<Call> {
        let word = self.0.load(Ordering::Relaxed);
        let half = |shift: u32| u16::try_from(word >> shift & 0xffff).expect("sixteen bits");
        let nth = u32::try_from(word >> 32 & NTH_MAX).expect("31 bits");
        let is_idle = word == 0 || word & IDLE != 0;
        (!is_idle).then(|| Call { topology: half(16), prototype: half(0), nth })
    }

    /// Calls code of a prototype. Nobody else writes here, so no change need be one step.
    #[inline]
    pub(super) fn during<R>(&self, topology: u16, prototype: usize, call: impl FnOnce() -> R) -> R {
        let nth = (self.0.load(Ordering::Relaxed) >> 32).wrapping_add(1) & NTH_MAX;
        let whose = u64::from(topology) << 16 | prototype as u64 & 0xffff;
        let word = nth.max(1) << 32 | whose;
        self.0.store(word, Ordering::Relaxed);
        let result = call();
        self.0.store(word | IDLE, Ordering::Relaxed);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_seen_while_it_lasts_and_differs_from_the_next() {
        let activity = Activity::default();
        assert_eq!(activity.call(), None);
        let first = activity.during(0, 0, || activity.call().unwrap());
        assert_eq!((first.topology, first.prototype), (0, 0));
        assert_eq!(activity.call(), None);
        let second = activity.during(3, 700, || activity.call().unwrap());
        assert_eq!((second.topology, second.prototype), (3, 700));
        assert_ne!(first.nth, second.nth);
        // However many there are.
        activity.0.store(NTH_MAX << 32 | IDLE, Ordering::Relaxed);
        let again = activity.during(1, 2, || activity.call());
        assert_eq!(again, Some(Call { topology: 1, prototype: 2, nth: 1 }));
    }
}
