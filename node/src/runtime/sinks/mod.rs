//! The shipped sinks: where rows go that nothing in the system takes.

mod row_writer;
pub(super) mod stdout;
pub(super) mod table;
pub(super) mod text_file;
