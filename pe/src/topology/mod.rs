//! What an application consists of, written down as data.
//!
//! Which streams there are, who emits and who reads them, and how many instances of what: this has
//! to be known before anything runs, be the same on every node, and be wrong at a line and column
//! rather than at three in the morning. So it is a file. [`Topology::parse`] reads the text and
//! says what is wrong with each declaration by itself; [`Topology::plan`] holds the declarations
//! against each other and against the [`Catalog`] of what the application registered, and gives a
//! [`Plan`] in which every name has become a number. Nothing later can fail for a reason that is
//! in the file.
//!
//! Nothing here opens a file, runs a PE or knows where an instance lives. What this version cannot
//! do is refused by name, never accepted and ignored.
//!
//! ```
//! use pe::topology::{Accepts, Catalog, Param, PeSchema, SpoutSchema, Topology};
//! use routing::{FieldKind, FieldSchema, Schema};
//!
//! const LINE: Schema =
//!     Schema { name: "Line", fields: &[FieldSchema { name: "text", kind: FieldKind::Text }] };
//! const PARAMS: &[Param] = &[Param::text("path", "the file to read").required()];
//!
//! let mut catalog = Catalog::default();
//! catalog.spouts.insert("file".into(), SpoutSchema { outputs: vec![LINE], params: PARAMS });
//! let sink = PeSchema { inputs: Accepts::Any, outputs: vec![], params: &[], is_windowed: false };
//! catalog.pes.insert("sink".into(), sink);
//!
//! let topology = Topology::parse(
//!     r#"
//!     name = "example"
//!     spout.lines = { type = "file", emits = "lines", params = { path = "a.txt" } }
//!     pe.show = { type = "sink", input = [{ stream = "lines", grouping = "global" }] }
//!     "#,
//! );
//! let plan = topology.and_then(|topology| topology.plan(&catalog)).unwrap();
//! assert_eq!(plan.prototypes[0].params.text("path"), "a.txt");
//! assert_eq!(plan.stages, 2);
//! ```

mod canonical;
mod catalog;
mod diagnostic;
mod document;
mod duration;
mod graph;
mod inputs;
mod located;
mod model;
mod param;
mod params;
mod plan;
mod planner;
mod reader;
mod streams;
mod suggest;
#[cfg(test)]
mod tests;

pub use catalog::{Accepts, Catalog, PeSchema, SpoutSchema};
pub use diagnostic::{Diagnostic, PROBLEMS_MAX, Problems};
pub use document::{Document, Entry, TEXT_BYTES_MAX, Table};
pub use duration::{DURATION_MAX, DurationError, parse_duration, show_duration};
pub use located::Located;
pub use model::{
    AckPlan, Checkpoint, Delivery, EDGES_MAX, Emits, GRANULARITY_MAX, InputSpec, Memory,
    NAME_BYTES_MAX, Overflow, PARALLELISM_MAX, PENDING_MAX, PROTOTYPES_MAX, PeSpec, SpoutSpec,
    StatedGrouping, StreamSpec, Topology, Trigger,
};
pub use param::{Param, ParamDefault, ParamKind, Presence, UnsetParam};
pub use params::{ParamValue, Params};
pub use plan::{Edge, Grouping, InputPlan, InstancePlan, Plan, Prototype, StreamPlan};
pub use suggest::{did_you_mean, quoted, suggest};
