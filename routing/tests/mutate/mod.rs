//! Broken bytes, made from good ones, and how much memory they take.
//!
//! Random bytes rarely get past the first check, so what is tried is nearly right: real encodings with
//! bits flipped, cut off, put together from two, or with numbers that claim far too much. The real ones
//! are kept beside the test, so that a change of what crosses the network does not go unseen; with
//! `UPDATE_CORPUS` they are written anew. `FUZZ_CASES` tries more than is tried at each push, and
//! `FUZZ_SEED` others.

#![expect(clippy::print_stdout, reason = "shown with a failure")]
#![allow(dead_code, reason = "each test uses a part of it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fs;
use std::path::Path;

/// So many cases for each test, where nobody asks for more.
const CASES: u64 = 20_000;

/// The seed where nobody asks for another.
const SEED: u64 = 0x5eed;

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

thread_local! {
    /// What this thread holds, and the most since somebody asked.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

fn note(size: isize) {
    // A thread that ends has no cell any more, and no test that counts.
    let _ = HELD.try_with(|held| {
        let (now, most) = held.get();
        held.set((now + size, most.max(now + size)));
    });
}

// SAFETY: every call goes to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        note(-layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The most bytes that were held at a time by what is done, beyond what was held before.
pub(crate) fn memory_of<T>(act: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.with(|held| {
        let (now, _) = held.get();
        held.set((now, now));
        now
    });
    let done = act();
    let most = HELD.with(Cell::get).1;
    (done, usize::try_from(most - before).unwrap_or(0))
}

/// Encodings of real values, which are those that are kept in a folder.
#[track_caller]
pub(crate) fn corpus(folder: &str, real: Vec<(&str, Vec<u8>)>) -> Vec<Vec<u8>> {
    let folder = Path::new(folder);
    for (name, bytes) in &real {
        let path = folder.join(format!("{name}.bin"));
        if std::env::var_os("UPDATE_CORPUS").is_some() {
            fs::create_dir_all(folder).unwrap();
            fs::write(&path, bytes).unwrap();
        }
        let kept = fs::read(&path).unwrap_or_default();
        assert!(
            kept == *bytes,
            "{name} is written otherwise than {}: if that is meant, the protocol has another \
             version, and UPDATE_CORPUS=1 keeps it",
            path.display()
        );
    }
    real.into_iter().map(|(_, bytes)| bytes).collect()
}

/// Tries broken bytes made from `good` ones.
pub(crate) fn each_broken(name: &str, good: &[Vec<u8>], mut attempt: impl FnMut(&[u8])) {
    let number = |variable: &str| std::env::var(variable).ok()?.parse().ok();
    let (cases, seed) =
        (number("FUZZ_CASES").unwrap_or(CASES), number("FUZZ_SEED").unwrap_or(SEED));
    // Shown with a failure.
    println!("{name}: FUZZ_SEED={seed} FUZZ_CASES={cases}");
    let mut chance = Chance(seed);
    for case in 0..cases {
        let bytes = chance.broken(good);
        let shown = Shown(case, &bytes);
        attempt(&bytes);
        std::mem::forget(shown);
    }
}

/// Says which case it was that did not come back.
struct Shown<'b>(u64, &'b [u8]);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        println!("case {}: {:02x?}", self.0, self.1);
    }
}

/// Chance by a seed: splitmix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).unwrap()
    }

    fn broken(&mut self, good: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = good[self.below(good.len())].clone();
        for _ in 0..=self.below(3) {
            self.break_once(&mut bytes, good);
        }
        bytes
    }

    fn break_once(&mut self, bytes: &mut Vec<u8>, good: &[Vec<u8>]) {
        let at = self.below(bytes.len());
        match self.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = self.next().to_le_bytes()[0],
            2 => bytes.truncate(at),
            3 => {
                let other = &good[self.below(good.len())];
                let from = self.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            4 => {
                let here = bytes[at..].to_vec();
                bytes.extend_from_slice(&here);
            }
            _ => self.claim(bytes, at),
        }
    }

    /// A number that is far too large, or nothing, where a length may be.
    fn claim(&mut self, bytes: &mut [u8], at: usize) {
        let claims = [0, 1, 0xff, 0xffff, 1 << 24, u64::from(u32::MAX), 1 << 40, 1 << 63, u64::MAX];
        let claim = claims[self.below(claims.len())].to_le_bytes();
        let size = [1, 2, 4, 8][self.below(4)];
        bytes[at..].iter_mut().zip(&claim[..size]).for_each(|(byte, claim)| *byte = *claim);
    }
}
