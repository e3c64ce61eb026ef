//! Ranks that are as frequent as those of words: rank `r` once for every `r` times of the first.

use rand::distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;
use rand_pcg::Pcg64Mcg;

/// Zipf's law with exponent 1 over a number of ranks, by Vose's alias method.
///
/// Rejection, which needs no table, would need exponentials, and those round differently on different
/// machines; divisions do not.
#[derive(Debug)]
pub(super) struct Zipf(WeightedAliasIndex<f64>);

impl Zipf {
    pub(super) fn new(ranks: u32) -> Self {
        let weights = (1..=ranks).map(|rank| 1.0 / f64::from(rank)).collect();
        Self(WeightedAliasIndex::new(weights).expect("finite weights, and the first is 1"))
    }

    /// A rank, from 0.
    #[inline]
    pub(super) fn sample(&self, rng: &mut Pcg64Mcg) -> usize {
        self.0.sample(rng)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn the_first_ranks_are_as_frequent_as_the_law_says() {
        const RANKS: u32 = 1_000_000;
        const SAMPLES: u32 = 400_000;
        let (zipf, mut rng) = (Zipf::new(RANKS), Pcg64Mcg::seed_from_u64(5));
        let mut seen = vec![0u32; RANKS as usize];
        (0..SAMPLES).for_each(|_| seen[zipf.sample(&mut rng)] += 1);
        let harmonic: f64 = (1..=RANKS).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [1u32, 2, 3, 10, 100] {
            let chance = 1.0 / f64::from(rank) / harmonic;
            let expected = f64::from(SAMPLES) * chance;
            // Six standard deviations of a binomial: the seed is fixed, so this holds for good.
            let tolerance = 6.0 * (expected * (1.0 - chance)).sqrt();
            let found = f64::from(seen[rank as usize - 1]);
            assert!((found - expected).abs() < tolerance, "rank {rank}: {found}, not {expected}");
        }
        let rare = seen[RANKS as usize / 2..].iter().sum::<u32>();
        let expected = f64::from(SAMPLES) * f64::from(2).ln() / harmonic;
        assert!(
            (f64::from(rare) - expected).abs() < 6.0 * expected.sqrt(),
            "{rare} of the rare half"
        );
    }
}
