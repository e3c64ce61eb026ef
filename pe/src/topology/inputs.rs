//! Who reads what, by which key, and how many instances that makes.
//!
//! The file says how events choose an instance, and from that it follows how many there are; each
//! input is right or wrong only in view of the others of its PE.

use routing::{FieldKind, Schema};

use super::catalog::{Accepts, Catalog};
use super::diagnostic::{Diagnostic, Problems};
use super::located::Located;
use super::model::{InputSpec, PeSpec, StatedGrouping};
use super::plan::{Grouping, InputPlan, InstancePlan};
use super::planner::Declared;
use super::streams::{Streams, nobody_emits, with_fields};
use super::suggest::{did_you_mean, quoted, suggest};

pub(super) fn inputs(
    declared: &Declared<'_>,
    streams: &Streams<'_>,
    catalog: &Catalog,
    problems: &mut Problems,
) -> Vec<InputPlan> {
    let Some(pe) = declared.pe else { return Vec::new() };
    let instances = instances(pe);
    let mut key_of_all: Option<KeyOf<'_>> = None;
    let mut plans = Vec::new();
    for input in &pe.inputs {
        let grouping = grouping(input);
        check_named(input, pe, catalog, problems);
        check_grouping(declared.name, input, &grouping, instances, problems);
        let Some(stream) = streams.get(&input.stream) else {
            nobody_emits(&input.stream, input.stream.span(), streams, problems);
            continue;
        };
        let Some(event) = &stream.event else { continue };
        check_taken(declared, input, event, problems);
        let Some(key) = key(input, event, problems) else { continue };
        if grouping == Grouping::Direct {
            check_number(input, event, &key, problems);
        }
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
        Some(StatedGrouping::PartialKey) => Grouping::PartialKey,
        Some(StatedGrouping::Direct) => Grouping::Direct,
        Some(StatedGrouping::Named(name)) => Grouping::Named(name.clone()),
        Some(StatedGrouping::All) => Grouping::All,
        _ if !input.key.is_empty() => Grouping::Key,
        Some(StatedGrouping::Shuffle | StatedGrouping::None) => Grouping::Shuffle,
        Some(StatedGrouping::LoadAwareShuffle) => Grouping::LoadAwareShuffle,
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

/// A grouping of the application: whether there is one of this name, and whether it has what it needs.
fn check_named(input: &InputSpec, pe: &PeSpec, catalog: &Catalog, problems: &mut Problems) {
    let Some(stated) = &input.grouping else { return };
    let StatedGrouping::Named(name) = &**stated else { return };
    let shown = quoted(name);
    if !catalog.groupings.contains(name) {
        let shipped = StatedGrouping::SHIPPED.iter().map(StatedGrouping::as_str);
        let all = shipped.chain(catalog.groupings.iter().map(String::as_str));
        let problem = Diagnostic::new(format!("unknown grouping {shown}"));
        let help = did_you_mean(name, all, "known values");
        return problems.push(problem.at(stated.span(), "unknown").with_help(help));
    }
    let (message, help) = match (input.key.is_empty(), pe.parallelism) {
        (true, _) => (
            format!("the grouping {shown} needs a key"),
            "add key = [\"FIELD\"], what the task is chosen by",
        ),
        (false, None) => (
            format!("the grouping {shown} needs `parallelism`"),
            "add `parallelism`, the number of tasks",
        ),
        (false, Some(_)) => return,
    };
    let problem = Diagnostic::new(message).at(stated.span(), "this grouping");
    problems.push(problem.with_help(help.to_owned()));
}

/// The number of a task is an unsigned integer.
fn check_number(input: &InputSpec, event: &Schema, key: &[usize], problems: &mut Problems) {
    let (Some(name), [field]) = (input.key.first(), key) else { return };
    let kind = event.fields[*field].kind;
    if kind == FieldKind::Unsigned {
        return;
    }
    let unsigned = event.fields.iter().filter(|field| field.kind == FieldKind::Unsigned);
    let unsigned: Vec<_> = unsigned.map(|field| quoted(field.name)).collect();
    let help = if unsigned.is_empty() {
        format!("{} has no such field; use a key with `fields`", quoted(event.name))
    } else {
        format!("its fields of this kind: {}", unsigned.join(", "))
    };
    problems.push(
        Diagnostic::new("the key of the grouping `direct` must be an unsigned integer")
            .at(name.span(), format!("{} is {kind}", quoted(name)))
            .with_help(help),
    );
}

fn check_grouping(
    name: &str,
    input: &InputSpec,
    grouping: &Grouping,
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
        (
            InstancePlan::Keyed,
            Grouping::Local
            | Grouping::Shuffle
            | Grouping::LoadAwareShuffle
            | Grouping::LocalOrShuffle
            | Grouping::All,
        ) => (
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
