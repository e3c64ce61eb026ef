//! Who reads what, by which key, and how many instances that makes.
//!
//! The file says how events choose an instance, and from that it follows how many there are; each
//! input is right or wrong only in view of the others of its PE.

use routing::Schema;

use super::catalog::Accepts;
use super::diagnostic::{Diagnostic, Problems};
use super::located::Located;
use super::model::{InputSpec, PeSpec, StatedGrouping};
use super::plan::{Grouping, InputPlan, InstancePlan};
use super::planner::Declared;
use super::streams::{Streams, nobody_emits, with_fields};
use super::suggest::{quoted, suggest};

pub(super) fn inputs(
    declared: &Declared<'_>,
    streams: &Streams<'_>,
    problems: &mut Problems,
) -> Vec<InputPlan> {
    let Some(pe) = declared.pe else { return Vec::new() };
    let instances = instances(pe);
    let mut key_of_all: Option<KeyOf<'_>> = None;
    let mut plans = Vec::new();
    for input in &pe.inputs {
        let grouping = grouping(input);
        check_grouping(declared.name, input, grouping, instances, problems);
        let Some(stream) = streams.get(&input.stream) else {
            nobody_emits(&input.stream, input.stream.span(), streams, problems);
            continue;
        };
        let Some(event) = &stream.event else { continue };
        check_taken(declared, input, event, problems);
        let Some(key) = key(input, event, problems) else { continue };
        if instances == InstancePlan::Keyed && grouping == Grouping::Key {
            let here = KeyOf { stream: &input.stream, event: *event, key: key.clone() };
            match &key_of_all {
                None => key_of_all = Some(here),
                Some(first) => check_same_key(declared.name, first, &here, input, problems),
            }
        }
        plans.push(InputPlan { stream: stream.index, key, grouping });
    }
    plans
}

/// The key of an input, with what is needed to compare it with that of another.
struct KeyOf<'a> {
    stream: &'a str,
    event: Schema,
    key: Vec<usize>,
}

impl KeyOf<'_> {
    fn shown(&self) -> String {
        let field = |&index: &usize| {
            let field = &self.event.fields[index];
            format!("{} ({})", quoted(field.name), field.kind)
        };
        self.key.iter().map(field).collect::<Vec<_>>().join(", ")
    }
}

fn grouping(input: &InputSpec) -> Grouping {
    match input.grouping.as_deref() {
        _ if !input.key.is_empty() => Grouping::Key,
        Some(StatedGrouping::Shuffle) => Grouping::Shuffle,
        Some(StatedGrouping::LocalOrShuffle) => Grouping::LocalOrShuffle,
        Some(StatedGrouping::Global) => Grouping::Global,
        // The reader refuses `fields` without a key.
        Some(StatedGrouping::Fields) | None => Grouping::Local,
    }
}

/// One input to the first instance alone makes the PE single; one key makes it keyed.
pub(super) fn instances(pe: &PeSpec) -> InstancePlan {
    let has = |wanted| pe.inputs.iter().any(|input| grouping(input) == wanted);
    match pe.parallelism {
        Some(tasks) => InstancePlan::Tasks(tasks),
        None if has(Grouping::Global) => InstancePlan::Tasks(1),
        None if has(Grouping::Key) => InstancePlan::Keyed,
        None if has(Grouping::LocalOrShuffle) => InstancePlan::PerContainer,
        None => InstancePlan::PerNode,
    }
}

fn check_grouping(
    name: &str,
    input: &InputSpec,
    grouping: Grouping,
    instances: InstancePlan,
    problems: &mut Problems,
) {
    let (stream, name) = (quoted(&input.stream), quoted(name));
    let (message, help) = match (instances, grouping) {
        (InstancePlan::Tasks(_), Grouping::Local) => (
            format!("the input {stream} of {name} needs a key or a grouping"),
            "the number of instances is fixed, so say which of them gets an event: add a key, or \
             grouping = \"shuffle\", \"local-or-shuffle\" or \"global\"",
        ),
        (InstancePlan::Keyed, Grouping::Local | Grouping::Shuffle | Grouping::LocalOrShuffle) => (
            format!("the input {stream} of {name} needs a key"),
            "another input has a key, so there is an instance per key; give this one a key too, or \
             give the PE a `parallelism`",
        ),
        _ => return,
    };
    let site = input.grouping.as_ref().map_or(input.stream.span(), Located::span);
    problems.push(
        Diagnostic::new(message).at(site, "no instance is chosen").with_help(help.to_owned()),
    );
}

fn check_taken(
    declared: &Declared<'_>,
    input: &InputSpec,
    event: &Schema,
    problems: &mut Problems,
) {
    let Some(accepts) = declared.known.as_ref().and_then(|known| known.accepts) else { return };
    let Accepts::These(events) = accepts else { return };
    if accepts.takes(event) {
        return;
    }
    let type_name = quoted(declared.type_name);
    let name = quoted(event.name);
    let (message, help) = match events.iter().find(|other| other.name == event.name) {
        Some(other) => (
            format!("the type {type_name} takes a {name} with other fields"),
            format!("it takes {}; the stream has {}", with_fields(other), with_fields(event)),
        ),
        None => {
            let all: Vec<String> = events.iter().map(|event| quoted(event.name)).collect();
            let takes = if all.is_empty() { "nothing".to_owned() } else { all.join(", ") };
            (format!("the type {type_name} does not take {name}"), format!("it takes {takes}"))
        }
    };
    problems.push(
        Diagnostic::new(message)
            .at(input.stream.span(), format!("its events are {name}"))
            .with_help(help),
    );
}

/// The positions of the fields of the key; `None` if one of them does not exist.
fn key(input: &InputSpec, event: &Schema, problems: &mut Problems) -> Option<Vec<usize>> {
    let mut key = Some(Vec::new());
    for name in &input.key {
        match (event.field(name), &mut key) {
            (Some(position), Some(key)) => key.push(position),
            (Some(_), None) => {}
            (None, _) => {
                key = None;
                problems.push(unknown_field(name, event));
            }
        }
    }
    key
}

fn unknown_field(name: &Located<String>, event: &Schema) -> Diagnostic {
    let fields = event.fields.iter().map(|field| field.name);
    let all: Vec<String> = fields.clone().map(quoted).collect();
    let list = format!("its fields: {}", all.join(", "));
    let help = match suggest(name, fields) {
        Some(guess) => format!("did you mean {}? {list}", quoted(guess)),
        None if all.is_empty() => "it has no fields".to_owned(),
        None => list,
    };
    Diagnostic::new(format!("{} has no field {}", quoted(event.name), quoted(name)))
        .at(name.span(), "no such field")
        .with_help(help)
}

/// One instance has one key, whichever stream its events come from.
fn check_same_key(
    name: &str,
    first: &KeyOf<'_>,
    here: &KeyOf<'_>,
    input: &InputSpec,
    problems: &mut Problems,
) {
    let kinds = |of: &KeyOf<'_>| {
        of.key.iter().map(|&field| of.event.fields[field].kind).collect::<Vec<_>>()
    };
    if kinds(first) == kinds(here) {
        return;
    }
    let (stream, other) = (quoted(here.stream), quoted(first.stream));
    problems.push(
        Diagnostic::new(format!(
            "the inputs {other} and {stream} of {} have different keys",
            quoted(name)
        ))
        .at(input.key[0].span(), "not the same kinds of fields in the same order")
        .with_help(format!(
            "{other} has {}; {stream} has {}",
            first.shown(),
            here.shown()
        )),
    );
}
