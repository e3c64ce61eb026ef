//! Drawing by several threads what does not depend on how many they are.
//!
//! A generator is a chain: each number needs the one before. So the data is cut into chunks of a fixed
//! size and each chunk has a generator of its own, seeded with the seed and the chunk's number.

use std::thread;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

/// Events, or bytes, of a chunk.
pub(super) const CHUNK: usize = 1 << 18;

/// One chunk: what there is to draw and from which generator.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The number of its first event, or byte.
    pub(super) start: u64,
    /// How many events, or bytes.
    pub(super) len: usize,
    pub(super) rng: Pcg64Mcg,
}

/// Draws `total` of something, chunk by chunk. `draw` appends what a chunk asks for.
pub(super) fn drawn<T: Send>(
    total: usize,
    seed: u64,
    threads: usize,
    draw: impl Fn(Chunk, &mut Vec<T>) + Sync,
) -> Vec<T> {
    // A text ends its last line in every chunk and so is a little longer than was asked for.
    let mut all = Vec::with_capacity(total + total / 1000 + 1024);
    let starts: Vec<usize> = (0..total).step_by(CHUNK).collect();
    let mut parts: Vec<Vec<T>> = (0..threads.max(1)).map(|_| Vec::new()).collect();
    // As many chunks at a time as there are threads: what waits to be put together is small.
    for (round, starts) in starts.chunks(parts.len()).enumerate() {
        let first = round * parts.len();
        thread::scope(|scope| {
            for (index, (&start, part)) in starts.iter().zip(&mut parts).enumerate() {
                let rng = Pcg64Mcg::seed_from_u64(seed.wrapping_add((first + index) as u64));
                let chunk = Chunk { start: start as u64, len: CHUNK.min(total - start), rng };
                let draw = &draw;
                scope.spawn(move || draw(chunk, part));
            }
        });
        parts.iter_mut().for_each(|part| all.append(part));
    }
    all
}
