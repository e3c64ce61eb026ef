//! What every program has without writing it.
//!
//! Reading lines and writing rows is the same in all applications, so it is here once, under the names
//! that topologies use. An application adds its own types to this registry.

use std::sync::Arc;

use pe::Registry;

use super::sinks::{stdout, table, text_file};
use super::spouts::{Generator, Lines, TextFiles};
use super::tables::Tables;

/// A registry with the shipped spouts and sinks: `text-files`, `lines` and `generator`, `stdout`,
/// `text-file` and `table`.
///
/// `tables` is where the `table` sinks keep their rows, for whoever shows them; who only checks
/// topologies gives an empty one.
pub(super) fn shipped(tables: &Arc<Tables>) -> Registry {
    Registry::new()
        .spout::<TextFiles>("text-files")
        .spout::<Lines>("lines")
        .spout::<Generator>("generator")
        .sink("stdout", stdout::PARAMS, stdout::opener())
        .sink("text-file", text_file::PARAMS, text_file::opener())
        .sink("table", table::PARAMS, table::opener(tables))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_types_have_the_names_that_topologies_use() {
        let catalog = shipped(&Arc::default()).catalog();
        let (spouts, sinks): (Vec<_>, Vec<_>) =
            (catalog.spouts.keys().collect(), catalog.pes.keys().collect());
        assert_eq!(spouts, ["generator", "lines", "text-files"]);
        assert_eq!(sinks, ["stdout", "table", "text-file"]);
        assert_eq!(catalog.spouts["lines"].outputs, catalog.spouts["text-files"].outputs);
        assert_eq!(catalog.spouts["lines"].outputs[0].name, "Line");
        assert_eq!(catalog.spouts["generator"].outputs[0].name, "Generated");
    }
}
