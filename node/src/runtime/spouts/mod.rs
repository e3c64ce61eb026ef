//! The shipped sources. Those of text share what a line is; the generator has its keys and times apart.

mod byte_range;
mod fault;
mod generator;
mod gunzip;
mod keys;
mod line_decoder;
mod lines;
mod plain_file;
#[cfg(test)]
mod probe;
mod range_decoder;
mod schedule;
#[cfg(test)]
pub(super) mod scratch_dir;
mod text_files;
mod zipf;

pub(super) use generator::Generator;
pub(super) use lines::Lines;
pub(super) use text_files::TextFiles;

/// How much input a spout takes per poll, and reads at once: enough that a call to the system costs
/// nothing beside the lines, and small enough to stay in the cache of its core.
const CHUNK: usize = 64 << 10;
