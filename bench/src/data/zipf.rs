//! Ranks that are as frequent as those of words: rank `r` once for every `r` times of the first, or, with
//! another exponent, for every power of `r`.

use rand::distr::Distribution;
use rand_distr::weighted::WeightedAliasIndex;
use rand_pcg::Pcg64Mcg;

/// Zipf's law over a number of ranks, by Vose's alias method.
///
/// Rejection, which needs no table, would need exponentials for every draw. The powers of the table are those of
/// `libm`, which round alike on all machines; those of the system need not. Exponent 1 needs none.
#[derive(Debug)]
pub(super) struct Zipf(WeightedAliasIndex<f64>);

impl Zipf {
    pub(super) fn new(ranks: u32, exponent: f64) -> Self {
        let weight = |rank: u32| {
            let rank = f64::from(rank);
            if exponent == 1.0 { 1.0 / rank } else { libm::pow(rank, -exponent) }
        };
        let weights = (1..=ranks).map(weight).collect();
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
        for (ranks, exponent) in [(1_000_000u32, 1.0), (1_000_000, 0.5), (100_000, 1.5), (50, 0.0)]
        {
            frequent_as_said(ranks, exponent);
        }
    }

    fn frequent_as_said(ranks: u32, exponent: f64) {
        const SAMPLES: u32 = 400_000;
        let (zipf, mut rng) = (Zipf::new(ranks, exponent), Pcg64Mcg::seed_from_u64(5));
        let mut seen = vec![0u32; ranks as usize];
        (0..SAMPLES).for_each(|_| seen[zipf.sample(&mut rng)] += 1);
        let weight = |rank: u32| f64::from(rank).powf(-exponent);
        let all: f64 = (1..=ranks).map(weight).sum();
        // Six standard deviations of a binomial: the seed is fixed, so this holds for good.
        let is_near = |found: u32, chance: f64, what: &str| {
            let expected = f64::from(SAMPLES) * chance;
            let tolerance = 6.0 * (expected * (1.0 - chance)).sqrt();
            let is_near = (f64::from(found) - expected).abs() < tolerance;
            assert!(is_near, "exponent {exponent}, {what}: {found}, not {expected}");
        };
        for rank in [1u32, 2, 3, 10, 50] {
            is_near(seen[rank as usize - 1], weight(rank) / all, &format!("rank {rank}"));
        }
        let rare = seen[ranks as usize / 2..].iter().sum();
        let chance = (ranks / 2 + 1..=ranks).map(weight).sum::<f64>() / all;
        is_near(rare, chance, "the rare half");
    }
}
