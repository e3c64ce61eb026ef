//! Storm's first examples as bolts: exclamation, word count, rolling top words and the click-through join.
//!
//! The topologies beside this file name parallelism and groupings, as Storm's builders do in code:
//!
//! ```text
//! cargo run --release --example storm_starter -- node --bootstrap --topology examples/storm_starter/exclamation.toml
//! cargo run --release --example storm_starter -- node --bootstrap --topology examples/storm_starter/word-count.toml
//! cargo run --release --example storm_starter -- node --bootstrap --topology examples/storm_starter/rolling-top-words.toml
//! ```
//!
//! All of them are at-least-once: each tuple is anchored to the one that it came of, and acked when `execute`
//! returns.

mod clicks;
mod words;

use std::process::ExitCode;

use starling::App;

fn main() -> ExitCode {
    App::new("storm-starter")
        .bolt::<words::Split>("split")
        .bolt::<words::Exclaim>("exclaim")
        .bolt::<words::WordCount>("word-count")
        .windowed::<words::RollingCount>("rolling-count")
        .bolt::<words::Rankings>("rankings")
        .bolt::<clicks::Parse>("parse")
        .bolt::<clicks::Join>("join")
        .main()
}
