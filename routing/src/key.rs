//! Keys, packed into sixteen bytes, and their stable 64-bit hash.
//!
//! A key is compared for every event and kept for every instance, so its form decides speed and memory
//! both. The idea: the canonical bytes of a key, if there are at most fifteen, lie in the packed form
//! itself, padded with zeros and with their number in the last byte. Then comparing two keys is one
//! comparison of sixteen bytes and hashing takes the one path of xxh3 for sixteen bytes, whatever the
//! length. Longer keys are known by their hash and compared byte by byte where they are kept.
//!
//! The hash is xxh3-64 as its specification pins it, with seed 0 for the whole cluster. It must not
//! change between builds or machines: the golden vectors below are a promise to every running cluster.

use std::fmt::Debug;

use xxhash_rust::xxh3::xxh3_64;

/// The name of the key hash; part of what two nodes must agree on before they talk.
pub const KEY_HASH: &str = "xxh3-64/packed-16/seed-0";

/// What an instance is filed under: `u64` for a single integer, [`Packed`] for everything else.
pub trait Key: Copy + Eq + Send + Debug + 'static {
    /// The key hash; the same for both forms of the same key.
    fn hash(self) -> u64;
    /// Whether this is a long key, whose bytes have to be compared elsewhere.
    fn is_long(self) -> bool;
}

impl Key for u64 {
    #[inline(always)]
    fn hash(self) -> u64 {
        hash_block(self, 8 << 56)
    }

    #[inline(always)]
    fn is_long(self) -> bool {
        false
    }
}

/// Sixteen bytes: a short key itself, or the hash of a long one and where its bytes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    low: u64,
    high: u64,
}

impl Packed {
    /// The most canonical bytes that fit.
    pub const SHORT_MAX: usize = 15;
    const LONG: u64 = 0xff << 56;

    /// Packs canonical bytes; whoever holds the bytes of a long key finds them at `place`.
    #[inline(always)]
    pub fn new(bytes: &[u8], place: u32) -> Self {
        let len = bytes.len();
        let (low, high) = match len {
            0 => (0, 0),
            1..4 => (upto_three(bytes), 0),
            4..8 => (four(bytes, 0) | four(bytes, len - 4) << (8 * (len - 4)), 0),
            // Shifted in two halves, since eight bytes are shifted out altogether.
            8..16 => {
                let half = 4 * (16 - len);
                (eight(bytes, 0), eight(bytes, len - 8) >> half >> half)
            }
            _ => return Self::long(bytes, place),
        };
        Self { low, high: high | (len as u64) << 56 }
    }

    /// Packs the first `len` bytes of a block, at most [`Self::SHORT_MAX`], without a branch on it.
    #[inline(always)]
    pub fn masked(block: [u8; 16], len: usize) -> Self {
        debug_assert!(len <= Self::SHORT_MAX);
        let word = u128::from_le_bytes(block) & ((1u128 << (8 * len)) - 1);
        let (low, high) = halves(word);
        Self { low, high: high | (len as u64) << 56 }
    }

    /// A key of one number: the same as [`Packed::new`] of its eight little-endian bytes.
    #[inline(always)]
    pub fn number(value: u64) -> Self {
        Self { low: value, high: 8 << 56 }
    }

    /// A long key.
    #[cold]
    pub fn long(bytes: &[u8], place: u32) -> Self {
        Self { low: xxh3_64(bytes), high: Self::LONG | u64::from(place) }
    }

    /// The same long key with its bytes elsewhere.
    #[must_use]
    pub fn moved(self, place: u32) -> Self {
        Self { low: self.low, high: Self::LONG | u64::from(place) }
    }

    /// Where the bytes of a long key are.
    #[inline(always)]
    pub fn place(self) -> u32 {
        (self.high & 0xffff_ffff) as u32
    }

    /// How many bytes a short key has.
    #[inline(always)]
    pub fn short_len(self) -> usize {
        usize::from(self.high.to_le_bytes()[7])
    }

    /// The bytes of a short key, padded with zeros; the last byte is their number.
    #[inline(always)]
    pub fn block(self) -> [u8; 16] {
        (u128::from(self.high) << 64 | u128::from(self.low)).to_le_bytes()
    }

    /// Whether two long keys may be equal: all that can be said without their bytes.
    #[inline(always)]
    pub fn same_hash(self, other: Self) -> bool {
        self.low == other.low
    }
}

impl Key for Packed {
    #[inline(always)]
    fn hash(self) -> u64 {
        if self.is_long() { self.low } else { hash_block(self.low, self.high) }
    }

    #[inline(always)]
    fn is_long(self) -> bool {
        self.high >= Self::LONG
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
fn halves(word: u128) -> (u64, u64) {
    (word as u64, (word >> 64) as u64)
}

#[inline(always)]
fn eight(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[inline(always)]
fn four(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")))
}

#[inline(always)]
fn upto_three(bytes: &[u8]) -> u64 {
    let byte = |at: usize| u64::from(bytes[at]) << (8 * at);
    byte(0) | byte(bytes.len() / 2) | byte(bytes.len() - 1)
}

/// `xxh3_64` of the sixteen bytes of `low` and `high`, seed 0.
///
/// This is the path of the specification for inputs of 9 to 16 bytes, written out: the general
/// function branches on the length and is not inlined.
#[inline(always)]
fn hash_block(low: u64, high: u64) -> u64 {
    // Bytes 24..56 of the default secret of xxh3, combined in pairs as the specification says.
    const FLIP_LOW: u64 = 0x1f67_b3b7_a4a4_4072 ^ 0x78e5_c0cc_4ee6_79cb;
    const FLIP_HIGH: u64 = 0x2172_ffcc_7dd0_5a82 ^ 0x8e24_43f7_7446_08b8;
    const PRIME: u64 = 0x1656_6791_9e37_79f9;
    let (low, high) = (low ^ FLIP_LOW, high ^ FLIP_HIGH);
    let (product_low, product_high) = halves(u128::from(low) * u128::from(high));
    let mixed = 16u64
        .wrapping_add(low.swap_bytes())
        .wrapping_add(high)
        .wrapping_add(product_low ^ product_high);
    let mixed = (mixed ^ mixed >> 37).wrapping_mul(PRIME);
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change here moves every key of every cluster: it is a new [`KEY_HASH`], not a fix. The values
    /// were computed with the reference implementation of xxh3, not with this one.
    #[test]
    fn the_hash_is_pinned() {
        let hash = |key: &str| Packed::new(key.as_bytes(), 0).hash();
        let golden = [
            ("", 0xd0a6_6a65_c752_8968),
            ("a", 0x12e1_503b_fe42_e7f3),
            ("the", 0x09df_1323_be23_332d),
            ("congress", 0x035a_ee26_87c2_80cd),
            ("fifteen letters", 0x2834_1b33_f4f8_9228),
            ("sixteen letters!", 0x6eaf_64b0_ce97_194d),
            ("a key that is longer than any block", 0xd30b_60db_903d_2833),
        ];
        let found: Vec<_> = golden.iter().map(|&(key, _)| (key, hash(key))).collect();
        assert_eq!(found, golden);
        let numbers = [0xd7bc_eb8d_29ea_26b5, 0x60d5_a5a2_3de9_64cd, 0xbe28_83ea_2600_61e8];
        assert_eq!([0, 1, u64::MAX].map(Key::hash), numbers);
    }

    #[test]
    fn a_short_key_hashes_as_xxh3_of_its_block() {
        for len in 0..=Packed::SHORT_MAX {
            let bytes: Vec<u8> = (1..=u8::MAX).map(|at| at.wrapping_mul(37)).take(len).collect();
            let packed = Packed::new(&bytes, 0);
            assert_eq!(&packed.block()[..len], &bytes[..]);
            assert_eq!(packed.short_len(), len);
            assert_eq!(packed.hash(), xxh3_64(&packed.block()));
            let mut block = [0xee; 16];
            block[..len].copy_from_slice(&bytes);
            assert_eq!(Packed::masked(block, len), packed);
        }
    }

    #[test]
    fn a_number_has_one_hash_in_both_forms() {
        assert_eq!(Packed::new(&77u64.to_le_bytes(), 0), Packed::number(77));
        assert_eq!(77u64.hash(), Packed::number(77).hash());
    }

    #[test]
    fn a_long_key_is_known_by_its_hash_wherever_its_bytes_are() {
        let (one, two) = (Packed::new(&[7; 16], 1), Packed::new(&[7; 16], 2));
        assert!(one.is_long() && one.same_hash(two) && one.moved(2) == two);
        assert!(!one.same_hash(Packed::new(&[8; 16], 1)));
        assert_eq!(one.hash(), xxh3_64(&[7; 16]));
    }
}
