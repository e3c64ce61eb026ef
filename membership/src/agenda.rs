//! What is to be done later, and when.
//!
//! foca hands out timers and wants them back in order; we have a few of our own. One ordered map
//! holds both, so that there is one deadline and ties fall as they were made.

use std::collections::BTreeMap;
use std::time::Duration;

use foca::{Incarnation, Timer};

use crate::identity::Identity;
use crate::{Member, NodeId, Time};

/// One thing to do later.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Alarm {
    /// To be handed back to foca.
    Foca(Timer<Identity>),
    /// Ask a member that was met once more, unless it has answered; and the wait after that.
    Announce(Member, Duration),
    /// We know of nobody alive, or nobody knows of us: knock where somebody used to be.
    Knock(Duration),
    /// Declare a node down, unless it has objected by raising its incarnation.
    Judge(Identity, Incarnation),
}

#[derive(Debug, Default)]
pub(crate) struct Agenda {
    alarms: BTreeMap<(Time, u64), Alarm>,
    /// Keeps alarms of one instant in the order in which they were set.
    count: u64,
}

impl Agenda {
    pub(crate) fn set(&mut self, at: Time, alarm: Alarm) {
        if let Alarm::Foca(Timer::RemoveDown(gone)) = &alarm {
            // A node that goes down again and again leaves one of these each time, for an hour.
            self.cancel(|other| match other {
                Alarm::Foca(Timer::RemoveDown(id)) => id.node() == gone.node(),
                Alarm::Foca(_) | Alarm::Announce(..) | Alarm::Knock(_) | Alarm::Judge(..) => false,
            });
        }
        self.alarms.insert((at, self.count), alarm);
        self.count += 1;
    }

    pub(crate) fn cancel(&mut self, is_void: impl Fn(&Alarm) -> bool) {
        self.alarms.retain(|_, alarm| !is_void(alarm));
    }

    pub(crate) fn cancel_announces(&mut self, to: NodeId) {
        self.cancel(|alarm| matches!(alarm, Alarm::Announce(member, _) if member.node == to));
    }

    pub(crate) fn cancel_judgement(&mut self, of: NodeId) {
        self.cancel(|alarm| matches!(alarm, Alarm::Judge(id, _) if id.node() == of));
    }

    pub(crate) fn clear(&mut self) {
        self.alarms.clear();
    }

    /// Puts everything off by `span`, in unchanged order.
    pub(crate) fn postpone(&mut self, span: Duration) {
        let alarms = std::mem::take(&mut self.alarms);
        self.alarms = alarms.into_iter().map(|((at, n), alarm)| ((at + span, n), alarm)).collect();
    }

    /// The next alarm that is due.
    pub(crate) fn pop(&mut self, now: Time) -> Option<Alarm> {
        let next = self.alarms.first_entry().filter(|next| next.key().0 <= now)?;
        Some(next.remove())
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.alarms.first_key_value().map(|(&(at, _), _)| at)
    }

    /// How many members have yet to answer.
    pub(crate) fn announces(&self) -> usize {
        self.alarms.values().filter(|alarm| matches!(alarm, Alarm::Announce(..))).count()
    }

    pub(crate) fn has(&self, is_meant: impl Fn(&Alarm) -> bool) -> bool {
        self.alarms.values().any(is_meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_ring_in_order_even_when_put_off() {
        let at = |seconds| Time(Duration::from_secs(seconds));
        let knock = |seconds| Alarm::Knock(Duration::from_secs(seconds));
        let mut agenda = Agenda::default();
        agenda.set(at(2), knock(3));
        agenda.set(at(1), knock(1));
        agenda.set(at(1), knock(2));
        assert_eq!((agenda.next(), agenda.pop(at(0))), (Some(at(1)), None));

        agenda.postpone(Duration::from_secs(10));
        assert_eq!((agenda.next(), agenda.pop(at(10))), (Some(at(11)), None));
        let rung: Vec<_> = std::iter::from_fn(|| agenda.pop(at(12))).collect();
        assert_eq!(rung, [knock(1), knock(2), knock(3)]);
    }
}
