//! The shipped sources: where they read is here, what a line is they share.

mod fault;
mod line_decoder;
mod lines;
#[cfg(test)]
mod probe;
#[cfg(test)]
pub(super) mod scratch_dir;
mod text_files;

pub(super) use lines::Lines;
pub(super) use text_files::TextFiles;

/// How much input a spout takes per poll, and reads at once: enough that a call to the system costs
/// nothing beside the lines, and small enough to stay in the cache of its core.
const CHUNK: usize = 64 << 10;
