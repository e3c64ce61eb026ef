//! Ranks by Zipf's law, fast and in little memory.
//!
//! A table with an entry per key would answer with two reads, but with a miss of the cache at each: it
//! has megabytes where there are many keys, and takes as long to make wherever a partition is opened.
//! Neighbouring ranks are almost equally frequent, though. So ranks are put into buckets, the further
//! out the wider. A bucket is drawn by the alias method (Walker, Vose) as if all its ranks were as
//! frequent as its first; one of the ranks is drawn evenly; and it is refused as often as it is rarer
//! than the first, which is seldom, since a bucket is narrow. What comes out is exactly Zipf's law.
//!
//! Powers are computed by `libm` and not by the system, so that all nodes draw alike.

use std::hint::select_unpredictable;

use rand::Rng;
use rand_pcg::Pcg64Mcg;

/// A bucket of ranks from `n` on has `n / FINENESS` of them. Finer, and the buckets leave the nearest
/// cache; coarser, and more draws are refused: of the exponent 1, one in 65.
const FINENESS: u64 = 32;

/// 2^64: what the chances of buckets and ranks are measured in.
const ONE: f64 = 18_446_744_073_709_551_616.0;

/// Zipf's law for a number of ranks: how often a rank is drawn falls with a power of it.
#[derive(Debug)]
pub(super) struct Zipf {
    exponent: f64,
    buckets: Box<[Bucket]>,
}

/// Some ranks in a row, with their column of the alias table.
#[derive(Clone, Debug)]
struct Bucket {
    /// The first rank.
    first: u64,
    /// How many.
    width: u64,
    /// A rank whose lot is not above this is kept without looking closer.
    sure: u64,
    /// Of 2^64 draws of this column, so many are for this bucket.
    own: u64,
    /// The bucket that gets the others.
    other: usize,
}

impl Zipf {
    /// The law for ranks from 1 to `ranks`, which is not zero; the exponent is not negative.
    pub(super) fn new(ranks: u64, exponent: f64) -> Self {
        let mut buckets = Vec::new();
        let mut weights = Vec::new();
        let mut first = 1;
        while first <= ranks {
            let width = (first / FINENESS).clamp(1, ranks - first + 1);
            let last = first + width - 1;
            let sure = scaled(share(first, last, exponent));
            buckets.push(Bucket { first, width, sure, own: u64::MAX, other: buckets.len() });
            weights.push(libm::pow(float(first), -exponent) * float(width));
            first += width;
        }
        alias(&mut buckets, &weights);
        Self { exponent, buckets: buckets.into() }
    }

    /// How many numbers [`Self::draw`] takes from the generator.
    pub(super) const DRAWS: u64 = 2;

    /// Draws a rank.
    #[inline(always)]
    pub(super) fn draw(&self, rng: &mut impl Rng) -> u64 {
        let (one, two) = (rng.next_u64(), rng.next_u64());
        match self.attempt(one, two) {
            Some(rank) => rank,
            None => self.draw_again(one, two),
        }
    }

    /// Makes a rank of two even numbers, unless it is refused.
    #[inline(always)]
    fn attempt(&self, one: u64, two: u64) -> Option<u64> {
        let (column, lot) = split(one, self.buckets.len() as u64);
        let column = narrow(column);
        let Bucket { own, other, .. } = self.buckets[column];
        // A branch would be guessed wrong every other time: 6 ns a draw in place of 4.
        let bucket = &self.buckets[select_unpredictable(lot < own, column, other)];
        let (place, lot) = split(two, bucket.width);
        let rank = bucket.first + place;
        (lot <= bucket.sure || self.is_kept(bucket.first, rank, lot)).then_some(rank)
    }

    #[cold]
    fn is_kept(&self, first: u64, rank: u64, lot: u64) -> bool {
        lot < scaled(share(first, rank, self.exponent))
    }

    /// The same when the first attempt was refused. However many more it takes, the generator has gone
    /// on by [`Self::DRAWS`]: so it is known where an event begins without drawing those before it.
    #[cold]
    fn draw_again(&self, one: u64, two: u64) -> u64 {
        let mut rng = Pcg64Mcg::new(u128::from(one) << 64 | u128::from(two));
        loop {
            if let Some(rank) = self.attempt(rng.next_u64(), rng.next_u64()) {
                return rank;
            }
        }
    }
}

/// How often a rank is drawn, for each time that an earlier one is.
fn share(first: u64, rank: u64, exponent: f64) -> f64 {
    libm::pow(float(first) / float(rank), exponent)
}

/// Gives each bucket its column: Vose's way, always from the end of the lists, so that all nodes
/// have the same table.
fn alias(buckets: &mut [Bucket], weights: &[f64]) {
    let mean = weights.iter().sum::<f64>() / float(weights.len() as u64);
    let mut left: Vec<f64> = weights.iter().map(|weight| weight / mean).collect();
    let (mut small, mut large): (Vec<_>, Vec<_>) =
        (0..left.len()).partition(|&bucket| left[bucket] < 1.0);
    // What one list lacks at the end is a matter of rounding: those columns are full.
    while let (Some(poor), Some(&rich)) = (small.pop(), large.last()) {
        buckets[poor].own = scaled(left[poor]);
        buckets[poor].other = rich;
        left[rich] -= 1.0 - left[poor];
        if left[rich] < 1.0 {
            small.extend(large.pop());
        }
    }
}

/// A number below `bound`, and a lot that is independent of it, out of one even number: the whole and
/// the broken part of `even / 2^64 * bound` (Lemire). Both are as even as 64 bits are for so many.
#[inline(always)]
pub(super) fn split(even: u64, bound: u64) -> (u64, u64) {
    let product = u128::from(even) * u128::from(bound);
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
    ((product >> 64) as u64, product as u64)
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "below the length of a list")]
fn narrow(place: u64) -> usize {
    place as usize
}

#[expect(clippy::cast_precision_loss, reason = "ranks are far below 2^53")]
fn float(number: u64) -> f64 {
    number as f64
}

/// A chance, of 2^64.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and saturates"
)]
fn scaled(chance: f64) -> u64 {
    (chance * ONE) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each rank was drawn; the place is the rank.
    fn counts(zipf: &Zipf, ranks: usize, draws: usize) -> Vec<u64> {
        let mut rng = Pcg64Mcg::new(0xcafe_f00d_d15e_a5e5);
        let mut counts = vec![0; ranks + 1];
        for _ in 0..draws {
            counts[narrow(zipf.draw(&mut rng))] += 1;
        }
        counts
    }

    /// The chances of ranks from 1 to `ranks`, by the definition.
    fn chances(ranks: u64, exponent: f64) -> Vec<f64> {
        let weights: Vec<_> = (1..=ranks).map(|rank| float(rank).powf(-exponent)).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    #[test]
    fn every_rank_is_as_frequent_as_the_law_says() {
        const DRAWS: usize = 1_000_000;
        for exponent in [0.0, 0.5, 1.0, 1.5] {
            let chances = chances(1000, exponent);
            let counts = counts(&Zipf::new(1000, exponent), 1000, DRAWS);
            // Ranks that are too rare for the test to mean anything are taken together.
            let (mut chi_squared, mut cells) = (0.0, 0.0);
            let (mut expected, mut found) = (0.0, 0.0);
            for (count, chance) in counts[1..].iter().zip(&chances) {
                expected += chance * DRAWS as f64;
                found += float(*count);
                if expected >= 20.0 {
                    chi_squared += (found - expected) * (found - expected) / expected;
                    cells += 1.0;
                    (expected, found) = (0.0, 0.0);
                }
            }
            // Its mean is the number of cells less one, its variance twice that.
            let limit = cells + 4.0 * f64::sqrt(2.0 * cells);
            assert!(chi_squared < limit, "{exponent}: {chi_squared} of {cells} cells");
            assert_eq!(counts[0], 0);
        }
    }

    /// What counting cannot see: the few draws that must be refused.
    #[test]
    fn buckets_and_refusals_together_are_the_law() {
        for (ranks, exponent) in [(1000, 1.0), (5000, 0.3), (777, 3.0)] {
            let zipf = Zipf::new(ranks, exponent);
            // The chance of each bucket: of its own column, and of those that give it their rest.
            let mut draws = vec![0.0; zipf.buckets.len()];
            for (at, bucket) in zipf.buckets.iter().enumerate() {
                draws[at] += float(bucket.own) / ONE;
                draws[bucket.other] += 1.0 - float(bucket.own) / ONE;
            }
            let mut found = Vec::new();
            for (bucket, draws) in zipf.buckets.iter().zip(&draws) {
                let ranks = bucket.first..bucket.first + bucket.width;
                let kept = ranks.map(|rank| share(bucket.first, rank, exponent));
                found.extend(kept.map(|kept| draws * kept / float(bucket.width)));
            }
            let sum: f64 = found.iter().sum();
            for (rank, (found, chance)) in (1..).zip(found.iter().zip(chances(ranks, exponent))) {
                let off = (found / sum / chance - 1.0).abs();
                assert!(off < 1e-9, "rank {rank} of {ranks}: {found}, not {chance}");
            }
        }
    }

    #[test]
    fn a_rank_is_refused_as_often_as_it_is_rarer_than_the_first_of_its_bucket() {
        let zipf = Zipf::new(100_000, 1.0);
        let count = zipf.buckets.len() as u128;
        let column = zipf.buckets.len() - 2;
        let Bucket { first, width, .. } = zipf.buckets[column];
        // With the lowest lot of a column, the bucket is the column's own.
        let one = u64::try_from(((column as u128) << 64).div_ceil(count)).unwrap();
        let drawn = |place: u64, lot: f64| {
            let two = (u128::from(place) << 64 | u128::from(scaled(lot))).div_ceil(width.into());
            zipf.attempt(one, u64::try_from(two).unwrap())
        };
        for place in [1, width / 2, width - 1] {
            let (rank, kept) = (first + place, float(first) / float(first + place));
            assert_eq!(drawn(place, 0.0), Some(rank));
            assert_eq!(drawn(place, kept - 1e-6), Some(rank));
            assert_eq!(drawn(place, kept + 1e-6), None, "rank {rank}");
        }
        assert_eq!(drawn(0, 1.0 - 1e-6), Some(first));
    }

    #[test]
    fn a_whole_decade_of_ranks_is_as_frequent_as_the_law_says() {
        const DRAWS: usize = 200_000;
        let zipf = Zipf::new(1 << 32, 1.0);
        let mut rng = Pcg64Mcg::new(7);
        let mut found = [0; 10];
        for _ in 0..DRAWS {
            found[zipf.draw(&mut rng).ilog10() as usize] += 1;
        }
        // The sum of 1/k up to n, but for what does not matter here.
        let sum = |ranks: f64| f64::ln(ranks) + 0.577_215_664_9 + 0.5 / ranks;
        let all = sum(f64::powi(2.0, 32));
        let mut before = 0.0;
        for (decade, &found) in (1..).zip(&found) {
            let upto = sum((f64::powi(10.0, decade) - 1.0).min(f64::powi(2.0, 32))) / all;
            let expected = (upto - before) * DRAWS as f64;
            let off = f64::from(found) - expected;
            assert!(off.abs() < 5.0 * expected.sqrt(), "10^{decade}: {found}, not {expected}");
            before = upto;
        }
    }

    #[test]
    fn one_rank_is_always_drawn_and_two_both() {
        assert_eq!(counts(&Zipf::new(1, 1.0), 1, 1000), [0, 1000]);
        let counts = counts(&Zipf::new(2, 10.0), 2, 100_000);
        assert!((50..150).contains(&counts[2]), "{counts:?}");
    }

    #[test]
    fn the_table_is_small_however_many_ranks_there_are() {
        for (ranks, buckets) in [(1, 1), (64, 64), (1_000_000, 385), (1 << 32, 657)] {
            let zipf = Zipf::new(ranks, 1.0);
            assert_eq!(zipf.buckets.len(), buckets, "{ranks} ranks");
            let last = zipf.buckets.last().unwrap();
            assert_eq!(last.first + last.width - 1, ranks);
        }
        assert!(size_of::<Bucket>() * 657 < 32 << 10, "more than the nearest cache has");
    }

    #[test]
    fn a_draw_that_is_refused_takes_no_more_from_the_generator() {
        let zipf = Zipf::new(1 << 32, 1.0);
        let mut rng = Pcg64Mcg::new(3);
        let mut refused = 0;
        for draws in 1..=20_000u64 {
            let mut ahead = rng.clone();
            refused += u32::from(zipf.attempt(ahead.next_u64(), ahead.next_u64()).is_none());
            zipf.draw(&mut rng);
            let mut fresh = Pcg64Mcg::new(3);
            fresh.advance(u128::from(draws * Zipf::DRAWS));
            assert!(rng == fresh);
        }
        assert!(refused > 0, "nothing was tested");
    }
}
