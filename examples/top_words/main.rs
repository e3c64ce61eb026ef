//! Top words: a complete application.
//!
//! ```text
//! cargo run --release --example top_words -- node --bootstrap \
//!     --topology examples/top_words/top-words.toml
//! ```
//!
//! counts the bundled text on one node and shows the ten most frequent words at
//! `http://127.0.0.1:7700/api/v1/tables/top`. More nodes join with `--join ADDR` and the same file.

mod pes;

use std::process::ExitCode;

use starling::App;

fn main() -> ExitCode {
    App::new("top-words")
        .pe::<pes::Splitter>("splitter")
        .pe::<pes::Counter>("counter")
        .pe::<pes::TopK>("top-k")
        .pe::<pes::TopKMerge>("top-k-merge")
        .main()
}
