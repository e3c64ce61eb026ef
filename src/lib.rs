//! Starling: stream processing without a master.
//!
//! An application is a program that registers what it does to events and hands over control. The same
//! program is every node of the cluster; which streams there are and how many instances of what, it is
//! told by a file.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use starling::{App, Ctx, Event, Line, LineRef, On, Pe};
//!
//! #[derive(Event)]
//! struct Length {
//!     bytes: u64,
//! }
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Measure;
//!
//! impl Pe for Measure {
//!     type In = Line;
//!     type Out = Length;
//! }
//!
//! impl On<Line> for Measure {
//!     fn on(&mut self, line: LineRef<'_>, ctx: &mut Ctx<'_, Length>) {
//!         ctx.emit(LengthRef { bytes: line.text.len() as u64 });
//!     }
//! }
//!
//! let app = App::new("lengths").pe::<Measure>("measure");
//! let plan = app.plan(
//!     r#"
//!     name = "lengths"
//!     spout.lines = { type = "text-files", emits = "lines", params = { paths = ["*.txt"] } }
//!     pe.measure = { type = "measure", input = [{ stream = "lines" }], emits = "lengths" }
//!     pe.show = { type = "stdout", input = [{ stream = "lengths" }] }
//!     "#,
//! );
//! assert_eq!(plan.unwrap().stages, 3);
//! // In `main`, `app.main()` is all: the program then has the commands `node`, `check` and `status`.
//! ```
//!
//! This crate adds no logic to the engine: it gathers the names an application needs, and holds the
//! command line.

mod app;
pub mod cli;

pub use app::App;
pub use pe::{
    Anchor, Ctx, Encoded, Event, EventRef, Extent, Generated, GeneratedRef, Items, KeyRef, Line,
    LineRef, Next, On, Opening, Panes, Param, Params, PartitionName, Pe, Position, Removal, Spout,
    SpoutError, Takes, Waker, WindowError, WindowFull, WindowRef, WindowSpec, Windowed, Windows,
    storm, topology,
};

/// What `#[derive(Event)]` names.
#[doc(hidden)]
pub use pe::__derive;
