//! The hash of a plan: what nodes compare to know that they mean the same.
//!
//! The file is the wrong thing to hash, for a comment would change it; a derived hash is wrong as
//! well, for it changes with the compiler. So the resolved plan is written out once in a form of
//! its own, in which texts carry their length and nothing can be mistaken for anything else, and
//! that is hashed. The golden test pins it: nodes of different builds must agree.

use std::fmt::Write as _;
use std::time::Duration;

use routing::Schema;
use xxhash_rust::xxh3::xxh3_64;

use super::model::{AckPlan, Checkpoint, Delivery, Memory, Overflow, Trigger};
use super::plan::{Grouping, InputPlan, InstancePlan, Plan, Prototype};
use crate::window::{Extent, WindowSpec};

/// The hash of everything in the plan that has a meaning: all but the warnings, and but what
/// follows from the rest.
pub(super) fn hash(plan: &Plan, delivery: Delivery) -> u64 {
    xxh3_64(render(plan, delivery).as_bytes())
}

/// Appends a text so that its end is known before it is read.
pub(super) fn write_text(out: &mut String, text: &str) {
    // Writing into a string cannot fail, here and below.
    let _ = write!(out, "{}:{text}", text.len());
}

/// The canonical form: a line per stream and per prototype.
pub(super) fn render(plan: &Plan, delivery: Delivery) -> String {
    let mut out = String::from("topology 1 ");
    write_text(&mut out, &plan.name);
    let _ = write!(out, " delivery {}", delivery.as_str());
    if let Some(AckPlan { granularity, max_pending, timeout, attempts }) = plan.acks {
        let _ = write!(out, " ack {granularity} {max_pending} {attempts}");
        write_duration(&mut out, "timeout", Some(timeout));
    }
    out.push('\n');
    for stream in &plan.streams {
        out.push_str("stream ");
        write_text(&mut out, &stream.name);
        write_schema(&mut out, &stream.event);
        // What is as it always was is not written, so that plans keep their hashes.
        match stream.overflow {
            Overflow::Block => {}
            Overflow::Shed => out.push_str(" overflow shed"),
            Overflow::Spill { mib } => {
                let _ = write!(out, " overflow spill {mib}");
            }
        }
        out.push('\n');
    }
    for prototype in &plan.prototypes {
        write_prototype(&mut out, prototype);
        out.push('\n');
    }
    out
}

fn write_schema(out: &mut String, event: &Schema) {
    out.push_str(" event ");
    write_text(out, event.name);
    for field in event.fields {
        out.push_str(" field ");
        write_text(out, field.name);
        out.push(' ');
        write_text(out, &field.kind.to_string());
    }
}

fn write_prototype(out: &mut String, prototype: &Prototype) {
    out.push_str(if prototype.is_spout { "spout " } else { "pe " });
    write_text(out, &prototype.name);
    out.push_str(" type ");
    write_text(out, &prototype.type_name);
    prototype.params.write_canonical(out);
    for input in &prototype.inputs {
        write_input(out, input);
    }
    for stream in &prototype.outputs {
        let _ = write!(out, " output {stream}");
    }
    let _ = match prototype.instances {
        InstancePlan::Partitions => write!(out, " partitions"),
        InstancePlan::Keyed => write!(out, " keyed"),
        InstancePlan::Tasks(tasks) => write!(out, " tasks {tasks}"),
        InstancePlan::PerNode => write!(out, " per-node"),
        InstancePlan::PerContainer => write!(out, " per-container"),
    };
    write_duration(out, "timer", prototype.timer);
    if let Some(Trigger { events, after }) = prototype.trigger {
        if let Some(events) = events {
            let _ = write!(out, " trigger-events {events}");
        }
        write_duration(out, "trigger-after", after);
    }
    if let Some(WindowSpec { length, slide, most }) = prototype.window {
        write_extent(out, "window-length", length);
        write_extent(out, "window-slide", slide);
        let _ = write!(out, " window-most {most}");
    }
    if let Some(Checkpoint { events, every }) = prototype.checkpoint {
        if let Some(events) = events {
            let _ = write!(out, " checkpoint-events {events}");
        }
        write_duration(out, "checkpoint-every", every);
    }
    if let Some(Memory { max_instances, idle_after }) = prototype.memory {
        if let Some(max) = max_instances {
            let _ = write!(out, " max-instances {max}");
        }
        write_duration(out, "idle-after", idle_after);
    }
}

fn write_extent(out: &mut String, name: &str, extent: Extent) {
    let _ = match extent {
        Extent::Count(count) => write!(out, " {name} events {count}"),
        Extent::Time(time) => write!(out, " {name} time {}", time.as_nanos()),
    };
}

fn write_input(out: &mut String, input: &InputPlan) {
    let _ = write!(out, " input {} ", input.stream);
    match &input.grouping {
        Grouping::Local => out.push_str("local"),
        Grouping::Key => out.push_str("key"),
        Grouping::PartialKey => out.push_str("partial-key"),
        Grouping::Direct => out.push_str("direct"),
        Grouping::Named(name) => {
            out.push_str("named ");
            write_text(out, name);
        }
        Grouping::Shuffle => out.push_str("shuffle"),
        Grouping::LoadAwareShuffle => out.push_str("load-aware-shuffle"),
        Grouping::LocalOrShuffle => out.push_str("local-or-shuffle"),
        Grouping::Global => out.push_str("global"),
        Grouping::All => out.push_str("all"),
    }
    for field in &input.key {
        let _ = write!(out, " {field}");
    }
}

fn write_duration(out: &mut String, name: &str, duration: Option<Duration>) {
    if let Some(duration) = duration {
        let _ = write!(out, " {name} {}", duration.as_nanos());
    }
}
