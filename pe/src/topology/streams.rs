//! Which streams there are: whatever somebody emits.
//!
//! A stream need not be declared, so the `emits` of all prototypes together are the list of them,
//! and say what flows in each. That list is made first: without it, no input can be judged.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use routing::Schema;

use super::diagnostic::{Diagnostic, Problems};
use super::located::Located;
use super::model::{Emits, Topology};
use super::plan::StreamPlan;
use super::planner::Declared;
use super::suggest::{did_you_mean, quoted};

/// An output that goes into a stream.
pub(super) struct Outlet<'a> {
    /// Position of the prototype.
    pub(super) from: usize,
    pub(super) emitter: &'a str,
    /// Position among the outputs of its type, and the event, if the type is known and has it.
    pub(super) event: Option<(usize, Schema)>,
    pub(super) stream: &'a str,
    pub(super) site: Option<Range<usize>>,
}

/// All streams that somebody emits, in the order of their names.
pub(super) struct Streams<'a> {
    by_name: BTreeMap<&'a str, Stream<'a>>,
    /// Whether everybody who emits has said where; if not, a missing stream proves nothing.
    is_complete: bool,
}

/// A stream that somebody emits.
#[derive(Clone, Copy)]
pub(super) struct Stream<'a> {
    /// Its position among all.
    pub(super) index: usize,
    /// What flows in it, if that could be resolved.
    pub(super) event: Option<Schema>,
    /// Who said so first.
    emitter: &'a str,
}

impl<'a> Streams<'a> {
    pub(super) fn new(
        declared: &[Declared<'a>],
        outlets: &[Outlet<'a>],
        problems: &mut Problems,
    ) -> Self {
        let mut by_name: BTreeMap<&str, Stream<'_>> = BTreeMap::new();
        let mut disputed = BTreeSet::new();
        for outlet in outlets {
            let (event, emitter) = (outlet.event.map(|(_, event)| event), outlet.emitter);
            let new = Stream { index: 0, event, emitter };
            let stream = by_name.entry(outlet.stream).or_insert(new);
            match (stream.event, event) {
                (Some(first), Some(event)) if first != event => {
                    disputed.insert(outlet.stream);
                    problems.push(two_events(outlet, &event, stream.emitter, &first));
                }
                (None, Some(_)) => *stream = new,
                _ => {}
            }
        }
        for (index, (name, stream)) in by_name.iter_mut().enumerate() {
            stream.index = index;
            if disputed.contains(name) {
                stream.event = None;
            }
        }
        Self { by_name, is_complete: declared.iter().all(Declared::names_its_streams) }
    }

    fn names(&self) -> impl Iterator<Item = &'a str> + Clone + use<'a, '_> {
        self.by_name.keys().copied()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Stream<'a>> {
        self.by_name.get(name)
    }

    /// The streams of a prototype, in the order of the outputs of its type.
    pub(super) fn outputs_of(&self, from: usize, outlets: &[Outlet<'_>]) -> Vec<usize> {
        let mut outputs: Vec<(usize, usize)> = outlets
            .iter()
            .filter(|outlet| outlet.from == from)
            .filter_map(|outlet| Some((outlet.event?.0, self.get(outlet.stream)?.index)))
            .collect();
        outputs.sort_unstable();
        outputs.into_iter().map(|(_, stream)| stream).collect()
    }

    pub(super) fn plans(&self, topology: &Topology) -> Vec<StreamPlan> {
        let plan = |(name, stream): (&&str, &Stream<'_>)| {
            let declared = topology.streams.get(*name);
            let overflow = declared.map(|spec| spec.overflow).unwrap_or_default();
            Some(StreamPlan { name: (*name).to_owned(), event: stream.event?, overflow })
        };
        self.by_name.iter().filter_map(plan).collect()
    }
}

pub(super) fn outlets<'a>(declared: &[Declared<'a>], problems: &mut Problems) -> Vec<Outlet<'a>> {
    let mut outlets = Vec::new();
    for (from, declared) in declared.iter().enumerate() {
        check_emits(declared, problems);
        let Some(emits) = declared.emits else { continue };
        let outputs = declared.known.as_ref().map_or(&[][..], |known| known.outputs);
        let emitter = declared.name;
        match &**emits {
            Emits::Stream(stream) => {
                let event = if let [event] = outputs { Some((0, *event)) } else { None };
                outlets.push(Outlet { from, emitter, event, stream, site: emits.span() });
            }
            Emits::ByEvent(streams) => outlets.extend(streams.iter().map(|(event, stream)| {
                let output = outputs.iter().position(|output| output.name == event.as_str());
                let event = output.map(|output| (output, outputs[output]));
                Outlet { from, emitter, event, stream, site: stream.span() }
            })),
        }
    }
    outlets
}

/// Whether `emits` names the outputs of the type, each once and nothing else.
fn check_emits(declared: &Declared<'_>, problems: &mut Problems) {
    let Some(known) = &declared.known else { return };
    let outputs = known.outputs;
    let type_name = quoted(declared.type_name);
    let says = || {
        let all: Vec<String> = outputs.iter().map(|event| quoted(event.name)).collect();
        format!("the type {type_name} emits {}", all.join(", "))
    };
    let problem = match (declared.emits, outputs) {
        (None, []) => return,
        (None, _) => Diagnostic::new(format!("{} needs `emits`", quoted(declared.name)))
            .at(declared.at.clone(), says())
            .with_help(example(outputs)),
        (Some(emits), []) => Diagnostic::new(format!("the type {type_name} emits nothing"))
            .at(emits.span(), "leave `emits` out"),
        (Some(emits), _) => match &**emits {
            Emits::ByEvent(streams) => {
                check_unknown_events(&type_name, streams, outputs, problems);
                for event in outputs.iter().filter(|event| !streams.contains_key(event.name)) {
                    problems.push(
                        Diagnostic::new(format!(
                            "`emits` has no stream for {}",
                            quoted(event.name)
                        ))
                        .at(emits.span(), says())
                        .with_help(example(outputs)),
                    );
                }
                return;
            }
            Emits::Stream(_) if outputs.len() == 1 => return,
            Emits::Stream(_) => Diagnostic::new(format!("{}, each needs a stream", says()))
                .at(emits.span(), "only one stream")
                .with_help(example(outputs)),
        },
    };
    problems.push(problem);
}

fn check_unknown_events(
    type_name: &str,
    streams: &BTreeMap<Located<String>, Located<String>>,
    outputs: &[Schema],
    problems: &mut Problems,
) {
    let names = outputs.iter().map(|event| event.name);
    for event in streams.keys() {
        if names.clone().all(|name| name != event.as_str()) {
            problems.push_with(|| {
                Diagnostic::new(format!("the type {type_name} does not emit {}", quoted(event)))
                    .at(event.span(), "not emitted")
                    .with_help(did_you_mean(event, names.clone(), "its events"))
            });
        }
    }
}

/// What `emits` looks like for these outputs.
fn example(outputs: &[Schema]) -> String {
    if let [_] = outputs {
        return "emits = \"STREAM\"".to_owned();
    }
    let each = outputs.iter().map(|event| format!("{} = \"STREAM\"", event.name));
    format!("emits = {{ {} }}", each.collect::<Vec<_>>().join(", "))
}

fn two_events(outlet: &Outlet<'_>, event: &Schema, first: &str, other: &Schema) -> Diagnostic {
    let stream = quoted(outlet.stream);
    let (message, help) = if event.name == other.name {
        let name = quoted(event.name);
        let message =
            format!("the stream {stream} has two types called {name} with different fields");
        (message, Some(format!("here {}, there {}", with_fields(event), with_fields(other))))
    } else {
        (format!("the stream {stream} is emitted with two event types"), None)
    };
    let label = format!(
        "{} is emitted here, {} by {}",
        quoted(event.name),
        quoted(other.name),
        quoted(first)
    );
    Diagnostic::new(message).at(outlet.site.clone(), label).with_help(help)
}

pub(super) fn check_declared_streams(
    topology: &Topology,
    streams: &Streams<'_>,
    problems: &mut Problems,
) {
    for (name, spec) in &topology.streams {
        if streams.get(name).is_none() {
            nobody_emits(name, spec.at.span(), streams, problems);
        }
    }
}

pub(super) fn nobody_emits(
    name: &str,
    site: Option<Range<usize>>,
    streams: &Streams<'_>,
    problems: &mut Problems,
) {
    if streams.is_complete {
        problems.push_with(|| {
            Diagnostic::new(format!("nobody emits the stream {}", quoted(name)))
                .at(site, "no such stream")
                .with_help(did_you_mean(name, streams.names(), "streams"))
        });
    }
}

/// An event as a declaration would show it.
pub(super) fn with_fields(event: &Schema) -> String {
    let fields = event.fields.iter().map(|field| format!("{}: {}", field.name, field.kind));
    format!("`{} {{ {} }}`", event.name, fields.collect::<Vec<_>>().join(", "))
}
