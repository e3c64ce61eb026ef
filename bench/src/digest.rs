//! A result in eight bytes, whoever computed it and in how many parts.
//!
//! A million counts cannot be compared by eye, and those who computed them hold parts of them, in any
//! order. So each pair of a key and its count is mixed to a number and the numbers are added: the sum
//! does not depend on order, and the sums of threads and of processes add up to that of the whole.

/// What one key and its count contribute to the digest of a result.
///
/// The digest of a result is the wrapping sum over its keys. A number's hash is that of
/// [`routing::Key`], a word's is `xxh3_64` of its bytes.
#[inline]
pub fn digest(key_hash: u64, count: u64) -> u64 {
    // Two rounds, so that neither swapped counts nor counts that are off by one cancel out in a sum.
    let mixed = round(key_hash ^ count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    round(mixed.wrapping_add(count))
}

#[inline]
fn round(bits: u64) -> u64 {
    let mixed = (bits ^ bits >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapped_counts_and_counts_that_are_off_show() {
        let of = |counts: [u64; 3]| {
            let pairs = [11u64, 22, 33].into_iter().zip(counts);
            pairs.fold(0u64, |sum, (key, count)| sum.wrapping_add(digest(key, count)))
        };
        let right = of([5, 6, 7]);
        for wrong in [[6, 5, 7], [5, 7, 6], [4, 7, 7], [6, 6, 6], [5, 6, 8], [0, 0, 18]] {
            assert_ne!(of(wrong), right, "{wrong:?}");
        }
    }
}
