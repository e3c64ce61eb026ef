//! What a run should come to, by the plainest loop there is.
//!
//! One thread, one pass, an array where keys are small numbers. It shares the digest with those who
//! are measured, and the work of `step` and `spread`; nothing else, so a fault of theirs is not here.

use std::cmp::Reverse;

use hashbrown::HashMap;
use routing::Key;
use xxhash_rust::xxh3::{Xxh3DefaultBuilder, xxh3_64};

use super::numbers::different;
use super::{Ad, CAMPAIGNS, Data, ad_digest};
use crate::{CHAIN, FAN_OUT, FAN_OUT_KEYS, Spec, TOP_WORDS, Workload, digest, spread, step};

/// The answer of a run that is right: a sum of [`digest`], or of what a chain made.
///
/// [`TopWords`](Workload::TopWords) has the digest of its hundred most frequent words; of words that
/// are as frequent, the first by their bytes counts. [`StalledSink`](Workload::StalledSink) answers
/// nothing, which is 0.
///
/// # Panics
///
/// If the data is of another workload.
pub fn expected(spec: &Spec, data: &Data) -> u64 {
    match (spec.workload, data) {
        (Workload::KeyedCount | Workload::HotKey | Workload::OpenLoop, Data::Numbers(keys)) => {
            counted(keys.iter().copied(), u64::from(different(spec)) + 1)
        }
        (Workload::Counters, Data::Numbers(keys)) => {
            counted(keys.iter().copied(), keys.len() as u64)
        }
        (Workload::FanOut, Data::Numbers(numbers)) => {
            let fan = |&number| (0..FAN_OUT).map(move |which| spread(number, which));
            counted(numbers.iter().flat_map(fan), FAN_OUT_KEYS)
        }
        (Workload::Chain, Data::Numbers(numbers)) => chained(numbers),
        (Workload::StalledSink, Data::Numbers(_)) => 0,
        (Workload::WordCount, Data::Text(text)) => words(&counts(text)),
        (Workload::TopWords, Data::Text(text)) => top(counts(text)),
        (Workload::ClickThrough, Data::Ads(ads)) => joined(ads),
        (workload, _) => panic!("{workload:?} does not read such data"),
    }
}

fn counted(keys: impl Iterator<Item = u64>, below: u64) -> u64 {
    let mut counts = vec![0u64; index(below)];
    keys.for_each(|key| counts[index(key)] += 1);
    let seen = (0u64..).zip(counts).filter(|&(_, count)| count > 0);
    sum(seen.map(|(key, count)| digest(key.hash(), count)))
}

fn chained(numbers: &[u64]) -> u64 {
    sum(numbers.iter().map(|&number| (0..CHAIN).fold(number, step)))
}

type Counts<'a> = Vec<(&'a str, u64)>;

fn counts(text: &str) -> Counts<'_> {
    let mut counts = HashMap::with_hasher(Xxh3DefaultBuilder);
    for word in text.lines().flat_map(|line| line.split(' ')) {
        *counts.entry(word).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

fn words(counts: &Counts<'_>) -> u64 {
    sum(counts.iter().map(|&(word, count)| digest(xxh3_64(word.as_bytes()), count)))
}

fn top(mut counts: Counts<'_>) -> u64 {
    counts.sort_unstable_by_key(|&(word, count)| (Reverse(count), word));
    counts.truncate(TOP_WORDS);
    words(&counts)
}

fn joined(ads: &[Ad]) -> u64 {
    let mut shown = HashMap::with_hasher(Xxh3DefaultBuilder);
    let mut campaigns = vec![(0u64, 0u64); index(u64::from(CAMPAIGNS) + 1)];
    for &ad in ads {
        match ad {
            Ad::Impression { id, campaign } => {
                shown.insert(id, campaign);
                campaigns[index(campaign.into())].0 += 1;
            }
            Ad::Click { id } => campaigns[index(shown[&id].into())].1 += 1,
        }
    }
    let seen = (0u32..).zip(campaigns).filter(|(_, (impressions, _))| *impressions > 0);
    sum(seen.map(|(campaign, (impressions, clicks))| ad_digest(campaign, impressions, clicks)))
}

fn sum(parts: impl Iterator<Item = u64>) -> u64 {
    parts.fold(0, u64::wrapping_add)
}

fn index(key: u64) -> usize {
    usize::try_from(key).expect("a key below a bound")
}
