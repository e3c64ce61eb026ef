//! What the workloads read, from a seed, and what it should come to.
//!
//! Whoever is measured gets the very same events as whoever it is compared with, in memory before the
//! clock starts: reading files or drawing numbers would be measured otherwise. And what an engine
//! answers fast is worth nothing unless it is right, so for each workload there is an [`expected`]
//! answer, found by a plain loop that shares nothing with what is measured.
//!
//! Data is drawn in chunks of a fixed size, each from its own seed, so it does not depend on how many
//! threads draw it. The generator is one whose output is pinned by its authors, and nothing goes
//! through a function that rounds differently elsewhere.

mod ads;
mod chunks;
mod numbers;
mod oracle;
mod text;
mod zipf;

use std::ops::Range;
use std::sync::Arc;

pub use ads::{Ad, CAMPAIGNS, ad_digest, ads};
pub use numbers::{HOT_KEY, KEYS, due, keys, scheduled};
pub use oracle::expected;
pub use text::{VOCABULARY, WORDS_PER_LINE, part, text};

use crate::{Spec, Workload};

/// What a workload reads, shared by all who read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// Keys, or the numbers that a chain starts from.
    Numbers(Arc<Vec<u64>>),
    /// Lines of words.
    Text(Arc<String>),
    /// Impressions and clicks.
    Ads(Arc<Vec<Ad>>),
}

impl Data {
    /// Draws what a run reads, with as many threads as the run has.
    pub fn new(spec: &Spec) -> Self {
        match spec.workload {
            Workload::WordCount | Workload::TopWords => Self::Text(text(spec)),
            Workload::ClickThrough => Self::Ads(ads(spec)),
            Workload::KeyedCount
            | Workload::HotKey
            | Workload::Chain
            | Workload::FanOut
            | Workload::Counters
            | Workload::OpenLoop
            | Workload::StalledSink => Self::Numbers(keys(spec)),
        }
    }
}

/// The share of `len` events that part `part` of `parts` reads: all shares together are all events.
///
/// # Panics
///
/// Without a part.
pub fn share(len: usize, part: usize, parts: usize) -> Range<usize> {
    let end = |part: usize| {
        let end = len as u128 * part as u128 / parts as u128;
        usize::try_from(end).expect("no more than a length")
    };
    end(part)..end(part + 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;
    use crate::Model;

    #[test]
    fn shares_follow_each_other_and_are_even() {
        for (len, parts) in [(0, 1), (1, 3), (10, 3), (1000, 7)] {
            let shares: Vec<_> = (0..parts).map(|part| share(len, part, parts)).collect();
            assert_eq!((shares[0].start, shares[parts - 1].end), (0, len));
            assert!(shares.windows(2).all(|two| two[0].end == two[1].start));
            assert!(shares.iter().all(|share| share.len().abs_diff(len / parts) <= 1));
        }
    }

    fn spec(workload: Workload, events: u64, threads: usize) -> Spec {
        let duration = Duration::from_millis(events);
        Spec {
            events,
            bytes: events,
            threads,
            rate: 1000,
            duration,
            seed: 42,
            ..Spec::new(workload, Model::Baseline)
        }
    }

    #[test]
    fn data_does_not_depend_on_how_many_threads_draw_it() {
        // Three chunks and a bit.
        let events = 3 * chunks::CHUNK as u64 + 4_321;
        for workload in [
            Workload::KeyedCount,
            Workload::HotKey,
            Workload::Chain,
            Workload::Counters,
            Workload::WordCount,
            Workload::ClickThrough,
        ] {
            let [one, two, three] =
                [1, 2, 3].map(|threads| Data::new(&spec(workload, events, threads)));
            assert!(one == two && one == three, "{workload:?}");
            let other = Data::new(&Spec { seed: 43, ..spec(workload, events, 1) });
            assert_eq!(one == other, workload == Workload::Counters, "{workload:?}");
        }
    }

    /// A change here makes figures of before and after incomparable.
    #[test]
    fn data_is_pinned() {
        let golden = [
            (Workload::KeyedCount, 0x5a0f_0d4f_e11d_5ff1),
            (Workload::HotKey, 0x0591_836a_6e6c_73df),
            (Workload::WordCount, 0x92f0_4d41_7be1_2c62),
            (Workload::TopWords, 0xee21_d81d_23c5_e4fd),
            (Workload::ClickThrough, 0x3f21_bc0c_7492_0a5b),
            (Workload::Chain, 0x6ede_7dfd_0599_06e7),
            (Workload::FanOut, 0xf9c6_d541_96ee_9231),
            (Workload::Counters, 0x930e_046d_a784_58c2),
            (Workload::OpenLoop, 0x5a0f_0d4f_e11d_5ff1),
            (Workload::StalledSink, 0),
        ];
        let found = golden.map(|(workload, _)| {
            let spec = spec(workload, 30_000, 1);
            (workload, expected(&spec, &Data::new(&spec)))
        });
        assert_eq!(found, golden);
    }

    #[test]
    fn half_of_the_events_are_of_the_hot_key() {
        let keys = keys(&spec(Workload::HotKey, 100_000, 1));
        let hot = keys.iter().filter(|&&key| key == HOT_KEY).count();
        assert!(hot.abs_diff(50_000) < 1_000, "{hot}");
        assert!(keys.iter().all(|&key| key <= u64::from(KEYS)));
    }

    /// Of a thousand keys a run of many events sees all, and none beside them.
    #[test]
    fn keys_are_as_many_and_as_skewed_as_a_run_says() {
        let drawn = |workload, skew| {
            let spec = Spec { keys: Some(1_000), skew, ..spec(workload, 200_000, 2) };
            let data = Data::new(&spec);
            assert_ne!(expected(&spec, &data), 0);
            keys(&spec)
        };
        for (skew, first) in [(Some(0.0), 200), (None, 26_700), (Some(1.5), 78_400)] {
            let keys = drawn(Workload::KeyedCount, skew);
            let different: BTreeSet<_> = keys.iter().copied().collect();
            assert!(different.len() > 900 && different.range(1..=1_000).count() == different.len());
            let found = keys.iter().filter(|&&key| key == 1).count();
            assert!(found.abs_diff(first) < 50 + first / 50, "{skew:?}: {found}, not {first}");
        }
        let hot: BTreeSet<_> = drawn(Workload::HotKey, None).iter().copied().collect();
        assert_eq!(hot, (0..=1_000).collect());
    }

    #[test]
    fn a_text_has_lines_of_ten_words_and_about_the_bytes_asked_for() {
        let text = text(&spec(Workload::WordCount, 2_500_000, 2));
        assert!((2_500_000..2_501_000).contains(&text.len()), "{}", text.len());
        assert!(text.ends_with('\n'));
        assert!(text.lines().all(|line| line.split(' ').count() == WORDS_PER_LINE));
        assert!(!text.contains("  ") && !text.is_ascii());
        let bytes = text.len() as f64 / (text.lines().count() * WORDS_PER_LINE) as f64;
        assert!((6.0..8.0).contains(&bytes), "{bytes} bytes a word, with the space");
    }

    #[test]
    fn a_click_comes_behind_its_impression_and_only_once() {
        let ads = ads(&spec(Workload::ClickThrough, 2_000_000, 2));
        let (mut shown, mut clicks) = (BTreeSet::new(), 0);
        for ad in ads.iter() {
            match *ad {
                Ad::Impression { id, .. } => assert!(shown.insert(id)),
                Ad::Click { id } => {
                    clicks += 1;
                    assert!(shown.remove(&id), "{id}");
                }
            }
        }
        assert_eq!(ads.len(), 2_000_000);
        assert!((200_000..230_000).contains(&clicks), "{clicks}");
    }
}
