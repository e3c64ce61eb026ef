//! From the text of a topology to its declarations, each checked by itself.
//!
//! What can be said about a declaration without looking at another is said here, all of it at once;
//! whether the names in it exist is for the planner. Where something is wrong, a placeholder takes
//! its place and the reading goes on: it can never be seen, since one problem is enough to give no
//! topology.

use std::collections::BTreeMap;
use std::time::Duration;

use super::diagnostic::{Diagnostic, Problems};
use super::document::{Document, Entry, Table};
use super::located::Located;
use super::model::{
    AckPlan, Checkpoint, Delivery, EDGES_MAX, Emits, GRANULARITY_MAX, InputSpec, Memory, Overflow,
    PARALLELISM_MAX, PENDING_MAX, PROTOTYPES_MAX, PeSpec, SPILL_MIB, SPILL_MIB_MAX, SpoutSpec,
    StatedGrouping, StreamSpec, Topology, Trigger,
};
use super::params::ParamValue;
use crate::window::{COUNT_MAX, Extent, MOST, OVERLAP_MAX, WindowError, WindowSpec};

const DELIVERIES: &[(&str, Option<Delivery>)] = &[
    ("at-most-once", Some(Delivery::AtMostOnce)),
    ("at-least-once", Some(Delivery::AtLeastOnce)),
    ("exactly-once", None),
];

const OVERFLOWS: &[(&str, Option<Overflow>)] = &[
    ("block", Some(Overflow::Block)),
    ("shed", Some(Overflow::Shed)),
    ("spill", Some(Overflow::Spill { mib: SPILL_MIB })),
];

/// Reads a whole file.
pub(super) fn read(text: &str) -> Result<Topology, Vec<Diagnostic>> {
    let document = Document::parse(text).map_err(|error| vec![error])?;
    let mut problems = Problems::default();
    let topology = topology(document.root(), &mut problems);
    problems.into_result(topology)
}

fn topology(mut root: Table<'_>, problems: &mut Problems) -> Topology {
    let name = root.required("name", problems).and_then(|entry| entry.name("topology", problems));
    let delivery = root.entry("delivery").and_then(|entry| entry.choice(DELIVERIES, problems));
    let delivery = delivery.map(Located::into_value).unwrap_or_default();
    let topology = Topology {
        name: name.unwrap_or_default().into_value(),
        delivery,
        ack: ack(&mut root, delivery, problems),
        streams: named(&mut root, "stream", stream, problems),
        spouts: named(&mut root, "spout", spout, problems),
        pes: named(&mut root, "pe", pe, problems),
    };
    root.unavailable("test", problems);
    root.finish(problems);
    let prototypes = topology.spouts.len() + topology.pes.len();
    if prototypes > PROTOTYPES_MAX {
        let message = format!("there are {prototypes} spouts and PEs, and {PROTOTYPES_MAX} may be");
        problems.push(Diagnostic::new(message));
    }
    topology
}

/// What is said of acks, which there are under at-least-once only.
fn ack(root: &mut Table<'_>, delivery: Delivery, problems: &mut Problems) -> AckPlan {
    let (mut plan, default) = (AckPlan::default(), AckPlan::default());
    let (ack, pending) = (root.entry("ack"), root.entry("max_pending"));
    if delivery == Delivery::AtMostOnce {
        for entry in [&ack, &pending].into_iter().flatten() {
            let key = entry.key();
            let problem = Diagnostic::new(format!("`{key}` needs `delivery = \"at-least-once\"`"));
            let problem = problem.at(entry.key_span(), "there are no acks");
            problems.push(problem.with_help("events that may be lost are not acked".to_owned()));
        }
    }
    let pending = pending.and_then(|entry| entry.integer(1..=PENDING_MAX, problems));
    plan.max_pending = pending.map_or(default.max_pending, Located::into_value);
    if let Some(mut table) = ack.and_then(|entry| entry.table("[ack]".to_owned(), problems)) {
        let integer = |entry: Option<Entry<'_>>, most: u32, problems: &mut Problems| {
            entry.and_then(|entry| entry.integer(1..=most, problems)).map(Located::into_value)
        };
        let granularity = integer(table.entry("granularity"), GRANULARITY_MAX, problems);
        plan.granularity = granularity.unwrap_or(default.granularity);
        let attempts = integer(table.entry("attempts"), 1_000, problems);
        plan.attempts = attempts.unwrap_or(default.attempts);
        let timeout = table.entry("timeout").and_then(|entry| entry.duration(problems));
        plan.timeout = timeout.map_or(default.timeout, Located::into_value);
        table.finish(problems);
    }
    plan
}

/// The tables `[what.NAME]`, each read by `read`.
fn named<T>(
    root: &mut Table<'_>,
    what: &'static str,
    read: impl Fn(Table<'_>, Located<()>, &mut Problems) -> T,
    problems: &mut Problems,
) -> BTreeMap<String, T> {
    let mut found = BTreeMap::new();
    let Some(tables) = root.table(what, problems) else { return found };
    for entry in tables.entries() {
        let shown = if what == "pe" { "PE" } else { what };
        let name = entry.key_as_name(shown, problems);
        let title = format!("[{what}.{}]", name.as_ref().map_or("..", |name| name.as_str()));
        let Some(table) = entry.table(title, problems) else { continue };
        // A table with a bad name is read all the same, for what else is wrong with it.
        let name = name.unwrap_or_default();
        let spec = read(table, name.clone().map(|_| ()), problems);
        found.insert(name.into_value(), spec);
    }
    found
}

fn stream(mut table: Table<'_>, at: Located<()>, problems: &mut Problems) -> StreamSpec {
    let overflow = table.entry("overflow").and_then(|entry| entry.choice(OVERFLOWS, problems));
    let mut overflow = overflow.map(Located::into_value).unwrap_or_default();
    if let Some(entry) = table.entry("spill_mib") {
        match &mut overflow {
            Overflow::Spill { mib } => {
                let given = entry.integer(1..=SPILL_MIB_MAX, problems);
                *mib = given.map_or(*mib, Located::into_value);
            }
            Overflow::Block | Overflow::Shed => {
                let problem = Diagnostic::new("`spill_mib` needs `overflow = \"spill\"`");
                problems.push(problem.at(entry.key_span(), "nothing waits on disk"));
            }
        }
    }
    table.finish(problems);
    StreamSpec { overflow, at }
}

fn spout(mut table: Table<'_>, at: Located<()>, problems: &mut Problems) -> SpoutSpec {
    let spec = SpoutSpec {
        type_name: type_name(&mut table, problems),
        params: params(&mut table, problems),
        emits: table.entry("emits").and_then(|entry| emits(&entry, problems)),
        at,
    };
    table.finish(problems);
    spec
}

fn pe(mut table: Table<'_>, at: Located<()>, problems: &mut Problems) -> PeSpec {
    let type_name = type_name(&mut table, problems);
    let parallelism = table.entry("parallelism");
    let has_parallelism = parallelism.is_some();
    let parallelism = parallelism.and_then(|entry| entry.integer(1..=PARALLELISM_MAX, problems));
    let inputs = table.required("input", problems);
    let spec = PeSpec {
        type_name,
        inputs: inputs
            .and_then(|entry| inputs_of(&entry, has_parallelism, problems))
            .unwrap_or_default(),
        emits: table.entry("emits").and_then(|entry| emits(&entry, problems)),
        parallelism: parallelism.map(Located::into_value),
        params: params(&mut table, problems),
        timer: table
            .entry("timer")
            .and_then(|entry| entry.duration(problems))
            .map(Located::into_value),
        trigger: trigger(&mut table, problems),
        window: window(&mut table, problems),
        checkpoint: checkpoint(&mut table, problems),
        memory: memory(&mut table, problems),
        at,
    };
    table.finish(problems);
    spec
}

fn type_name(table: &mut Table<'_>, problems: &mut Problems) -> Located<String> {
    table.required("type", problems).and_then(|entry| entry.text(problems)).unwrap_or_default()
}

fn params(
    table: &mut Table<'_>,
    problems: &mut Problems,
) -> BTreeMap<Located<String>, Located<ParamValue>> {
    let Some(params) = table.table("params", problems) else { return BTreeMap::new() };
    let read =
        |entry: Entry<'_>| (entry.located_key(), entry.locate(ParamValue::of(entry.value())));
    params.entries().map(read).collect()
}

fn emits(entry: &Entry<'_>, problems: &mut Problems) -> Option<Located<Emits>> {
    if entry.value().is_str() {
        return Some(entry.name("stream", problems)?.map(Emits::Stream));
    }
    if !entry.value().is_table() {
        let message = "`emits` must be the name of a stream, or a table of them by event".into();
        return entry.refuse(message, "a string or a table is expected", problems);
    }
    let by_event = entry.table("`emits`".into(), problems)?;
    let read = |item: Entry<'_>| Some((item.located_key(), item.name("stream", problems)?));
    let streams = by_event.entries().filter_map(read).collect();
    Some(entry.locate(Emits::ByEvent(streams)))
}

fn inputs_of(
    entry: &Entry<'_>,
    has_parallelism: bool,
    problems: &mut Problems,
) -> Option<Vec<InputSpec>> {
    let items = entry.list(problems)?;
    if items.is_empty() {
        return entry.refuse("`input` names no stream".into(), "empty", problems);
    }
    if items.len() > EDGES_MAX {
        // Each is an edge at least.
        let message = format!("`input` has {} items, and {EDGES_MAX} may be", items.len());
        return entry.refuse(message, "too many", problems);
    }
    let mut specs: Vec<InputSpec> = Vec::new();
    for item in items {
        let Some(spec) = input(&item, has_parallelism, problems) else { continue };
        if specs.contains(&spec) {
            let problem = Diagnostic::new("an input is there twice");
            problems.push(problem.at(item.span(), "the same again"));
        }
        specs.push(spec);
    }
    Some(specs)
}

fn input(item: &Entry<'_>, has_parallelism: bool, problems: &mut Problems) -> Option<InputSpec> {
    let mut table = item.item_table("the input".into(), problems)?;
    let stream =
        table.required("stream", problems).and_then(|entry| entry.name("stream", problems));
    let key_entry = table.entry("key");
    let key = key_entry.as_ref().and_then(|entry| key_fields(entry, problems));
    let grouping = table.entry("grouping").and_then(|entry| entry.text(problems));
    let grouping = grouping.map(|name| name.map(|name| StatedGrouping::of(&name)));
    table.finish(problems);
    if let Some(grouping) = &grouping {
        let fields =
            key_entry.as_ref().map(|entry| entry.value().as_array().map_or(1, |all| all.len()));
        check_grouping(grouping, fields, has_parallelism, problems);
    }
    Some(InputSpec { stream: stream?, key: key.unwrap_or_default(), grouping })
}

fn key_fields(entry: &Entry<'_>, problems: &mut Problems) -> Option<Vec<Located<String>>> {
    let fields = entry.texts(problems)?;
    if entry.value().as_array().is_some_and(|items| items.is_empty()) {
        return entry.refuse("`key` names no field".into(), "empty", problems);
    }
    for (index, field) in fields.iter().enumerate() {
        if fields[..index].contains(field) {
            let message = format!("`key` names the field {} twice", super::quoted(field));
            problems.push(Diagnostic::new(message).at(field.span(), "again"));
        }
    }
    Some(fields)
}

/// Whether a grouping has the key and the `parallelism` that it needs; `fields` is the length of the key.
fn check_grouping(
    grouping: &Located<StatedGrouping>,
    fields: Option<usize>,
    has_parallelism: bool,
    problems: &mut Problems,
) {
    let name = super::quoted(grouping.as_str());
    let needs_key = || format!("the grouping {name} needs a key");
    let needs_parallelism = || format!("the grouping {name} needs `parallelism`");
    let (message, help) = match (&**grouping, fields) {
        (StatedGrouping::Fields | StatedGrouping::PartialKey, None) => {
            (needs_key(), "add key = [\"FIELD\"]")
        }
        (StatedGrouping::Direct, None) => {
            (needs_key(), "add key = [\"FIELD\"], the field that holds the number of the task")
        }
        (StatedGrouping::Direct, Some(2..)) => (
            "the grouping `direct` needs a key of one field".to_owned(),
            "leave only the field that holds the number of the task",
        ),
        (StatedGrouping::Fields, Some(_)) if !has_parallelism => (
            needs_parallelism(),
            "add `parallelism`; or leave the grouping out, and there is an instance per key",
        ),
        (StatedGrouping::PartialKey | StatedGrouping::Direct, Some(_)) if !has_parallelism => {
            (needs_parallelism(), "add `parallelism`, the number of tasks")
        }
        (
            StatedGrouping::Shuffle
            | StatedGrouping::None
            | StatedGrouping::LoadAwareShuffle
            | StatedGrouping::LocalOrShuffle
            | StatedGrouping::Global
            | StatedGrouping::All,
            Some(_),
        ) => (
            format!("a key and the grouping {name} exclude each other"),
            "leave out one of the two",
        ),
        // Whether others exist is not known yet.
        _ => return,
    };
    let problem = Diagnostic::new(message).at(grouping.span(), "this grouping");
    problems.push(problem.with_help(help.to_owned()));
}

fn trigger(table: &mut Table<'_>, problems: &mut Problems) -> Option<Located<Trigger>> {
    let of = |events, after| Trigger { events, after };
    events_or_time(table, ("trigger", "after"), of, problems)
}

fn checkpoint(table: &mut Table<'_>, problems: &mut Problems) -> Option<Located<Checkpoint>> {
    let of = |events, every| Checkpoint { events, every };
    events_or_time(table, ("checkpoint", "every"), of, problems)
}

fn memory(table: &mut Table<'_>, problems: &mut Problems) -> Option<Located<Memory>> {
    let entry = table.entry("memory")?;
    let mut table = entry.table("`memory`".into(), problems)?;
    let (max, idle) = (table.entry("max_instances"), table.entry("idle_after"));
    table.unavailable("priority", problems);
    table.finish(problems);
    if max.is_none() && idle.is_none() {
        let message = "`memory` needs `max_instances`, `idle_after` or both".to_owned();
        return entry.refuse(message, "neither is given", problems);
    }
    let max = max.and_then(|entry| entry.integer(1..=u32::MAX, problems));
    let idle = idle.and_then(|entry| entry.duration(problems));
    let (max_instances, idle_after) = (max.map(Located::into_value), idle.map(Located::into_value));
    Some(entry.locate(Memory { max_instances, idle_after }))
}

/// A table with a number of `events`, a time, or both.
fn events_or_time<T>(
    table: &mut Table<'_>,
    (name, time): (&'static str, &'static str),
    of: impl FnOnce(Option<u32>, Option<Duration>) -> T,
    problems: &mut Problems,
) -> Option<Located<T>> {
    let entry = table.entry(name)?;
    let mut table = entry.table(format!("`{name}`"), problems)?;
    let (events, spent) = (table.entry("events"), table.entry(time));
    table.finish(problems);
    if events.is_none() && spent.is_none() {
        let message = format!("`{name}` needs `events`, `{time}` or both");
        return entry.refuse(message, "neither is given", problems);
    }
    let events = events.and_then(|entry| entry.integer(1..=u32::MAX, problems));
    let spent = spent.and_then(|entry| entry.duration(problems));
    Some(entry.locate(of(events.map(Located::into_value), spent.map(Located::into_value))))
}

fn window(table: &mut Table<'_>, problems: &mut Problems) -> Option<Located<WindowSpec>> {
    let entry = table.entry("window")?;
    let mut table = entry.table("`window`".into(), problems)?;
    let length = table.required("length", problems);
    let (slide, most) = (table.entry("slide"), table.entry("most"));
    table.finish(problems);
    let length = length.and_then(|entry| extent(&entry, problems));
    let slide = match slide {
        Some(entry) => extent(&entry, problems),
        None => length,
    };
    let given = most.as_ref().and_then(|entry| entry.integer(1..=COUNT_MAX, problems));
    if let (Some(Extent::Count(_)), Some(most)) = (length, most) {
        let message = "`most` is for a `length` of time; one of events is its own limit".into();
        return most.refuse(message, "this limit", problems);
    }
    let most = given.map_or(MOST, Located::into_value);
    let spec = WindowSpec { length: length?, slide: slide?, most };
    match spec.check() {
        Ok(spec) => Some(entry.locate(spec)),
        Err(error) => no_window(&entry, error, problems),
    }
}

/// A count or a time.
fn extent(entry: &Entry<'_>, problems: &mut Problems) -> Option<Extent> {
    if entry.value().is_integer() {
        return entry.integer(1..=COUNT_MAX, problems).map(Located::into_value).map(Extent::Count);
    }
    if entry.value().is_str() {
        return entry.duration(problems).map(Located::into_value).map(Extent::Time);
    }
    let message = format!("`{}` must be a number of events or a duration", entry.key());
    entry.refuse(message, "a number or a duration is expected", problems)
}

fn no_window<T>(entry: &Entry<'_>, error: WindowError, problems: &mut Problems) -> Option<T> {
    let help = match error {
        WindowError::Gaps => "leave `slide` out, and each event is in one window".to_owned(),
        WindowError::Overlap => format!("`length` may be up to {OVERLAP_MAX} times `slide`"),
        WindowError::OutOfRange => format!("counts are from 1 to {COUNT_MAX}"),
    };
    let problem = Diagnostic::new(error.to_string()).at(entry.span(), "no window");
    problems.push(problem.with_help(help));
    None
}
