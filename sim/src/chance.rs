//! The only source of chance in a simulation.

use std::time::Duration;

/// A small generator (`SplitMix64`, Steele et al. 2014): the same seed gives the same numbers for ever.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    /// A generator with a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own for one purpose, so that what one part of a world draws does not change what
    /// another draws.
    pub(crate) fn for_purpose(seed: u64, purpose: u64) -> Self {
        let mut chance = Self(seed ^ purpose.wrapping_mul(0xd134_2543_de82_ef95));
        chance.number();
        chance
    }

    /// A number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below a limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.number() % limit
    }

    /// Whether something happens that does so in so many of a hundred cases.
    pub(crate) fn percent(&mut self, of_a_hundred: u64) -> bool {
        self.below(100) < of_a_hundred
    }

    /// A time between two others, in whole milliseconds.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least + 1))
    }
}
