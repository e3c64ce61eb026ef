//! What an operator may choose about the view log.

use std::fmt;
use std::time::Duration;

use super::rules::Unfit;

/// Settings of [`super::ViewLog`]. They decide when something is tried and never what is safe, so they may
/// differ between the nodes of a cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Config {
    /// How long causes are gathered before a view is proposed.
    ///
    /// What happens together makes one view. Shorter makes more views; longer delays each of them.
    pub gather: Duration,

    /// How long causes are gathered at least, by member.
    ///
    /// A view is told to all, and worked out by each: in a large cluster that takes longer than `gather`. Shorter
    /// costs many views where many nodes come at once; longer delays each change of a large cluster.
    pub gather_by_member: Duration,

    /// How much longer each voter waits than the one before it before it proposes.
    ///
    /// Shorter than three round trips with a sync each, and voters outbid each other; longer, and a
    /// dead first voter that nobody has noticed yet holds every view up for longer.
    pub rank_delay: Duration,

    /// How long to wait before what may have been lost is said again. Doubles each time.
    ///
    /// Shorter than a round trip with a sync costs messages in vain; longer makes each lost one cost
    /// more.
    pub retry: Duration,

    /// The longest of these waits. Must not be shorter than `retry`.
    ///
    /// Longer is quieter while there is no majority, and slower to go on when there is one again.
    pub retry_max: Duration,

    /// How often one other node, chosen by chance, is told where we stand.
    ///
    /// This heals what got lost when a view was told. Shorter heals sooner, for a small message each.
    pub spread: Duration,

    /// How long a member must have been down before it is taken off.
    ///
    /// Gossip has had its say by then, so this is for links that flap. Too short and a view is made
    /// for nothing; too long and what the dead one held stands still for longer.
    pub stable_after: Duration,

    /// How long a member that gossip has not heard of yet is taken to be there.
    ///
    /// After a cold restart everybody is unheard of. Too short and slow starters are taken off; too
    /// long and one that is really gone is noticed late.
    pub unheard_after: Duration,

    /// How long a member that was taken off a second time has to wait before it is let in again;
    /// doubles with each time.
    ///
    /// It bounds how many views a flapping link can cause. The first return is free.
    pub return_wait: Duration,

    /// The longest of these waits. Who stays for twice as long starts afresh. Must not be shorter than
    /// `return_wait`.
    pub return_wait_max: Duration,

    /// How many causes of one node are kept.
    ///
    /// Bounds memory against a peer that makes them up. With fewer than a node has slots, a node that
    /// takes over all of them needs several views.
    pub causes_max: usize,
}

impl Config {
    /// For nodes in one data centre: round trips of milliseconds, syncs of tens of milliseconds.
    pub fn lan() -> Self {
        Self {
            gather: Duration::from_millis(20),
            gather_by_member: Duration::from_micros(250),
            rank_delay: Duration::from_millis(400),
            retry: Duration::from_millis(250),
            retry_max: Duration::from_secs(2),
            spread: Duration::from_secs(1),
            stable_after: Duration::from_secs(1),
            unheard_after: Duration::from_secs(5),
            return_wait: Duration::from_secs(2),
            return_wait_max: Duration::from_secs(60),
            causes_max: 1 << 16,
        }
    }

    pub(super) fn check(self) -> Result<Self, StartError> {
        let waits = [self.gather, self.rank_delay, self.retry, self.spread, self.return_wait];
        if waits.iter().any(Duration::is_zero) {
            return Err(StartError::ZeroWait);
        }
        if self.retry_max < self.retry || self.return_wait_max < self.return_wait {
            return Err(StartError::ShortestLongest);
        }
        if self.causes_max == 0 {
            return Err(StartError::NoCauses);
        }
        Ok(self)
    }
}

/// Why [`super::ViewLog::new`] refused. Nothing was started.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum StartError {
    /// A wait of the config is zero; it would never end, or be over before it began.
    ZeroWait,
    /// The longest of some waits is shorter than the first of them.
    ShortestLongest,
    /// No cause could be kept.
    NoCauses,
    /// The record was written for another disk: a copied data directory.
    OtherDisk,
    /// The node's own seat is not one that the others would take.
    Myself,
    /// The first view, or the one on disk, cannot stand.
    Unfit(Unfit),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroWait => "a wait of the view log is zero",
            Self::ShortestLongest => "a longest wait of the view log is shorter than the first",
            Self::NoCauses => "causes_max must not be zero",
            Self::OtherDisk => "the record of the view log was written for another data directory",
            Self::Myself => "the node's own peer name, run or logs are not possible",
            Self::Unfit(_) => "the view to start from cannot stand",
        })
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unfit(why) => Some(why),
            Self::ZeroWait
            | Self::ShortestLongest
            | Self::NoCauses
            | Self::OtherDisk
            | Self::Myself => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_cannot_work() {
        let (zero, lan) = (Duration::ZERO, Config::lan);
        assert_eq!(lan().check(), Ok(lan()));
        for (config, error) in [
            (Config { gather: zero, ..lan() }, StartError::ZeroWait),
            (Config { rank_delay: zero, ..lan() }, StartError::ZeroWait),
            (Config { retry: zero, ..lan() }, StartError::ZeroWait),
            (Config { spread: zero, ..lan() }, StartError::ZeroWait),
            (Config { return_wait: zero, ..lan() }, StartError::ZeroWait),
            (Config { retry_max: zero, ..lan() }, StartError::ShortestLongest),
            (Config { return_wait_max: zero, ..lan() }, StartError::ShortestLongest),
            (Config { causes_max: 0, ..lan() }, StartError::NoCauses),
        ] {
            assert_eq!(config.check(), Err(error));
        }
    }
}
