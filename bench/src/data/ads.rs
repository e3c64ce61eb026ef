//! Impressions of ads, and the clicks on them.
//!
//! A click says which impression it belongs to and not which campaign: to count clicks by campaign, a
//! click has to be joined with its impression. It comes at a random distance behind it. Who reads the
//! events with several threads may see it first, and must join it all the same.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::RngExt;
use routing::Key;

use super::chunks::{Chunk, drawn};
use super::zipf::Zipf;
use crate::{Spec, digest};

/// How many campaigns there are: 1 to this, skewed by Zipf's law.
pub const CAMPAIGNS: u32 = 1_000;

/// One in so many impressions is clicked.
const CLICKED: u32 = 8;

/// The furthest that a click is behind its impression, in events.
const DISTANCE: u64 = 10_000;

/// What happened to an ad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ad {
    /// It was shown.
    Impression {
        /// Which impression this is; every one has another.
        id: u64,
        /// Whose ad it was.
        campaign: u32,
    },
    /// It was clicked; no impression is clicked twice.
    Click {
        /// The impression that was clicked.
        id: u64,
    },
}

impl Ad {
    /// The impression that this is about.
    #[inline]
    pub fn id(self) -> u64 {
        match self {
            Self::Impression { id, .. } | Self::Click { id } => id,
        }
    }
}

/// Impressions and clicks, as they happened; the clicks of a chunk are on impressions of that chunk.
pub fn ads(spec: &Spec) -> Arc<Vec<Ad>> {
    let events = usize::try_from(spec.events).expect("as many events as fit into memory");
    let zipf = Zipf::new(CAMPAIGNS, 1.0);
    Arc::new(drawn(events, spec.seed, spec.threads, |chunk, ads| draw(chunk, &zipf, ads)))
}

/// What one campaign contributes to the digest of [`ClickThrough`](crate::Workload::ClickThrough):
/// its impressions, and its clicks that were joined with one of them.
pub fn ad_digest(campaign: u32, impressions: u64, clicks: u64) -> u64 {
    let hash = u64::from(campaign).hash();
    digest(hash, impressions).wrapping_add(digest(!hash, clicks))
}

fn draw(mut chunk: Chunk, zipf: &Zipf, ads: &mut Vec<Ad>) {
    // The clicks to come, by when they are due: a ring, a place for each event ahead.
    let mut due: VecDeque<Vec<u64>> = (0..=DISTANCE).map(|_| Vec::new()).collect();
    let mut late = VecDeque::new();
    for id in chunk.start..chunk.start + chunk.len as u64 {
        let mut now = due.pop_front().expect("a ring");
        late.extend(now.drain(..));
        due.push_back(now);
        if let Some(id) = late.pop_front() {
            ads.push(Ad::Click { id });
            continue;
        }
        let campaign = u32::try_from(zipf.sample(&mut chunk.rng) + 1).expect("below `CAMPAIGNS`");
        ads.push(Ad::Impression { id, campaign });
        if chunk.rng.random_range(0..CLICKED) == 0 {
            let distance = chunk.rng.random_range(0..DISTANCE);
            due[usize::try_from(distance).expect("below `DISTANCE`")].push(id);
        }
    }
}
