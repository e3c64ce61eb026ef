//! The keys of a partition: which one comes at which place, for ever.
//!
//! A stream that is to be the same on every node and after every restart must follow from its seed
//! and its place alone. So each event takes the same number of draws from a generator that can skip
//! any number of them at once, and going on at an offset costs no more than going on at zero.
//!
//! The generator is PCG XSL 128/64 (MCG) of O'Neill, which its crate promises to keep as it is; the state
//! that a partition begins with is the XXH3 hash of its number under the seed. Nothing here may change:
//! the keys of a seed are pinned below.

use rand::Rng;
use rand_pcg::Pcg64Mcg;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::zipf::{Zipf, split};

/// How frequent which key is.
#[derive(Debug)]
pub(super) enum Law {
    /// All below a bound alike.
    Uniform(u64),
    /// The lower, the more frequent.
    Zipf(Zipf),
}

/// The keys of a partition, from some place on.
#[derive(Debug)]
pub(super) struct Keys {
    law: Law,
    rng: Pcg64Mcg,
}

impl Keys {
    /// Those behind the first `offset`.
    pub(super) fn new(law: Law, seed: u64, partition: u64, offset: u64) -> Self {
        let draws = match law {
            Law::Uniform(_) => 1,
            Law::Zipf(_) => Zipf::DRAWS,
        };
        let mut rng = Pcg64Mcg::new(xxh3_128_with_seed(&partition.to_le_bytes(), seed));
        rng.advance(u128::from(offset) * u128::from(draws));
        Self { law, rng }
    }

    /// Gives the next so many.
    #[inline(always)]
    pub(super) fn give(&mut self, count: u64, mut each: impl FnMut(u64)) {
        let Self { law, rng } = self;
        match law {
            Law::Uniform(keys) => {
                for _ in 0..count {
                    each(split(rng.next_u64(), *keys).0);
                }
            }
            Law::Zipf(zipf) => {
                for _ in 0..count {
                    each(zipf.draw(rng) - 1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn law(is_zipf: bool, keys: u64) -> Law {
        if is_zipf { Law::Zipf(Zipf::new(keys, 1.0)) } else { Law::Uniform(keys) }
    }

    fn keys(law: Law, seed: u64, partition: u64, offset: u64, count: u64) -> Vec<u64> {
        let mut all = Vec::new();
        Keys::new(law, seed, partition, offset).give(count, |key| all.push(key));
        all
    }

    /// Other values mean that a stream that is replayed is another one: not a fix, but a break.
    #[test]
    fn the_keys_of_a_seed_are_pinned() {
        let million = |is_zipf, offset| keys(law(is_zipf, 1_000_000), 1, 0, offset, 4);
        assert_eq!(million(false, 0), [56_743, 48_699, 861_727, 540_935]);
        assert_eq!(million(false, 1 << 40), [156_127, 935_872, 78_979, 418_717]);
        assert_eq!(million(true, 0), [20, 193_081, 13, 4]);
        assert_eq!(million(true, 1 << 40), [0, 696, 1153, 5993]);
        let of_billions = keys(Law::Zipf(Zipf::new(1 << 32, 0.8)), 2, 3, 4, 4);
        assert_eq!(of_billions, [17_549_910, 769_505_997, 370_947, 1_375_976_570]);
    }

    #[test]
    fn seeds_and_partitions_have_streams_of_their_own() {
        let first = |seed, partition| keys(Law::Uniform(1 << 32), seed, partition, 0, 3);
        let all = [first(1, 0), first(2, 0), first(1, 1), first(2, 1), first(0, 1)];
        for (at, one) in all.iter().enumerate() {
            for other in &all[at + 1..] {
                assert!(one.iter().all(|key| !other.contains(key)), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn uniform_keys_are_all_alike() {
        let mut counts = [0u32; 100];
        for key in keys(Law::Uniform(100), 5, 0, 0, 1_000_000) {
            counts[usize::try_from(key).unwrap()] += 1;
        }
        // 10,000 of each, give or take 100.
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    proptest! {
        #[test]
        fn what_follows_an_offset_is_the_rest(
            is_zipf in any::<bool>(),
            bound in prop_oneof![1..100u64, Just(1_000_000), Just(1 << 32)],
            seed in any::<u64>(),
            partition in 0..4096u64,
            offset in prop_oneof![0..3000u64, Just((1 << 62) - 500)],
            taken in 0..1000u64,
        ) {
            let whole = keys(law(is_zipf, bound), seed, partition, offset, 1000);
            prop_assert!(whole.iter().all(|&key| key < bound));
            let rest = keys(law(is_zipf, bound), seed, partition, offset + taken, 1000 - taken);
            prop_assert_eq!(&whole[usize::try_from(taken).unwrap()..], &rest);
            // In several calls as in one.
            let mut parts = Vec::new();
            let mut keys = Keys::new(law(is_zipf, bound), seed, partition, offset);
            keys.give(taken, |key| parts.push(key));
            keys.give(1000 - taken, |key| parts.push(key));
            prop_assert_eq!(whole, parts);
        }
    }
}
