//! Holds the declarations of a topology against each other and against the catalog.
//!
//! A name that does not exist must be reported once, and must not make ten other things look wrong.
//! So each step works with what the steps before could resolve, and is silent about the rest: types
//! first, then the streams and what flows in them, then who reads what by which key, and the shape
//! of the whole last.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use routing::Schema;

use super::canonical;
use super::catalog::{Accepts, Catalog};
use super::diagnostic::{Diagnostic, Problems};
use super::graph;
use super::inputs::{inputs, instances};
use super::located::Located;
use super::model::{
    Checkpoint, Delivery, EDGES_MAX, Emits, InputSpec, Memory, Overflow, PeSpec, Topology, Trigger,
};
use super::param::Param;
use super::params::{ParamValue, Params};
use super::plan::{Edge, InputPlan, InstancePlan, Plan, Prototype};
use super::streams::{Outlet, Streams, check_declared_streams, outlets};
use super::suggest::{did_you_mean, quoted, suggest};
use crate::window::WindowSpec;

/// Resolves a topology, or says everything that is wrong with it.
pub(super) fn plan(topology: &Topology, catalog: &Catalog) -> Result<Plan, Vec<Diagnostic>> {
    let mut problems = Problems::default();
    check_names(topology, &mut problems);
    let declared: Vec<Declared<'_>> = declarations(topology, catalog, &mut problems);
    let outlets: Vec<Outlet<'_>> = outlets(&declared, &mut problems);
    let streams = Streams::new(&declared, &outlets, &mut problems);
    check_declared_streams(topology, &streams, &mut problems);
    let read = |declared: &Declared<'_>| inputs(declared, &streams, catalog, &mut problems);
    let inputs: Vec<Vec<InputPlan>> = declared.iter().map(read).collect();

    let edges = edges(&declared, &outlets);
    let stages = check_shape(&declared, &edges, &mut problems);
    check_cycles(topology, &declared, &edges, &mut problems);
    let prototypes = declared
        .iter()
        .zip(inputs)
        .enumerate()
        .map(|(index, (declared, inputs))| Prototype {
            name: declared.name.to_owned(),
            type_name: declared.type_name.to_string(),
            is_spout: declared.pe.is_none(),
            params: declared.params(&mut problems),
            inputs,
            outputs: streams.outputs_of(index, &outlets),
            instances: declared.pe.map_or(InstancePlan::Partitions, instances),
            timer: declared.pe.and_then(|pe| pe.timer),
            trigger: declared.trigger().map(|trigger| **trigger),
            window: declared.window(&mut problems),
            checkpoint: declared.checkpoint(&mut problems),
            memory: declared.memory(&mut problems),
            stage: stages.get(index).copied().unwrap_or_default(),
        })
        .collect();

    let mut plan = Plan {
        name: topology.name.clone(),
        hash: 0,
        acks: (topology.delivery == Delivery::AtLeastOnce).then_some(topology.ack),
        streams: streams.plans(topology),
        prototypes,
        edges,
        stages: stages.iter().max().map_or(0, |stage| stage + 1),
        warnings: unread(&declared, &outlets),
    };
    plan.hash = canonical::hash(&plan, topology.delivery);
    problems.into_result(plan)
}

/// A spout or a PE and, if it exists, its type.
pub(super) struct Declared<'a> {
    pub(super) name: &'a str,
    pub(super) at: Option<Range<usize>>,
    pub(super) type_name: &'a Located<String>,
    pub(super) emits: Option<&'a Located<Emits>>,
    pub(super) given: &'a BTreeMap<Located<String>, Located<ParamValue>>,
    /// `None` for a spout.
    pub(super) pe: Option<&'a PeSpec>,
    pub(super) known: Option<Known<'a>>,
}

/// What the catalog has on a type.
pub(super) struct Known<'a> {
    /// `None` for a spout.
    pub(super) accepts: Option<&'a Accepts>,
    pub(super) outputs: &'a [Schema],
    pub(super) params: &'static [Param],
    is_windowed: bool,
}

impl<'a> Declared<'a> {
    pub(super) fn inputs(&self) -> &[InputSpec] {
        self.pe.map_or(&[], |pe| &pe.inputs)
    }

    pub(super) fn names_its_streams(&self) -> bool {
        let outputs = self.known.as_ref().map_or(0, |known| known.outputs.len());
        match self.emits.map(|emits| &**emits) {
            Some(Emits::Stream(_)) => outputs <= 1,
            Some(Emits::ByEvent(streams)) => outputs <= streams.len(),
            None => self.known.is_some() && outputs == 0,
        }
    }

    fn params(&self, problems: &mut Problems) -> Params {
        let Some(known) = &self.known else { return Params::default() };
        Params::resolve(known.params, self.given, self.at.clone(), problems)
    }

    fn trigger(&self) -> Option<&'a Located<Trigger>> {
        self.pe.and_then(|pe| pe.trigger.as_ref())
    }

    /// What has replicas can be written to them.
    fn checkpoint(&self, problems: &mut Problems) -> Option<Checkpoint> {
        let pe = self.pe?;
        let checkpoint = pe.checkpoint.as_ref()?;
        let is_sink =
            self.known.as_ref().is_some_and(|known| matches!(known.accepts, Some(Accepts::Any)));
        let has_units = matches!(instances(pe), InstancePlan::Keyed | InstancePlan::Tasks(_));
        if is_sink || !has_units {
            let name = quoted(self.name);
            let (message, help) = match is_sink {
                true => (format!("{name} is a sink and has no state"), "leave `checkpoint` out"),
                false => (
                    format!("{name} has an instance on each node, and these have no replicas"),
                    "give it a key or a `parallelism`, or leave `checkpoint` out",
                ),
            };
            let problem = Diagnostic::new(message).at(checkpoint.span(), "of what?");
            problems.push(problem.with_help(help.to_owned()));
        }
        Some(**checkpoint)
    }

    /// Only keyed instances come and go with their events.
    fn memory(&self, problems: &mut Problems) -> Option<Memory> {
        let pe = self.pe?;
        let memory = pe.memory.as_ref()?;
        let is_sink =
            self.known.as_ref().is_some_and(|known| matches!(known.accepts, Some(Accepts::Any)));
        if is_sink || instances(pe) != InstancePlan::Keyed {
            let message = format!("the instances of {} have no keys, and stay", quoted(self.name));
            let problem = Diagnostic::new(message).at(memory.span(), "of what?");
            problems.push(problem.with_help("leave `memory` out".to_owned()));
        }
        Some(**memory)
    }

    /// A windowed type has a window, and no other does.
    fn window(&self, problems: &mut Problems) -> Option<WindowSpec> {
        let (known, window) = (self.known.as_ref()?, self.pe?.window.as_ref());
        let shown = quoted(self.type_name);
        if let (None, true) = (window, known.is_windowed) {
            let message = format!("{} needs `window`", quoted(self.name));
            let problem = Diagnostic::new(message).at(self.at.clone(), "which windows?");
            let help = format!(
                "the type {shown} is windowed: add window = {{ length = 100 }}, or {{ length = \"10s\", slide = \"1s\" }}"
            );
            problems.push(problem.with_help(help));
        }
        if let (Some(window), false) = (window, known.is_windowed) {
            let message = format!("the type {shown} is not windowed");
            let problem = Diagnostic::new(message).at(window.span(), "it takes events one by one");
            problems.push(problem.with_help("leave `window` out".to_owned()));
        }
        if let (Some(trigger), true) = (self.trigger(), known.is_windowed) {
            let message = format!("the type {shown} is windowed and has no trigger");
            let problem = Diagnostic::new(message).at(trigger.span(), "never called");
            problems.push(
                problem.with_help("the `slide` of its window says when it is called".to_owned()),
            );
        }
        window.map(|window| **window)
    }
}

fn check_names(topology: &Topology, problems: &mut Problems) {
    if topology.spouts.is_empty() {
        let problem = Diagnostic::new("there is no spout, so nothing would ever happen");
        problems.push(problem.with_help("add [spout.NAME] with `type` and `emits`".to_owned()));
    }
    for (name, pe) in &topology.pes {
        if topology.spouts.contains_key(name) {
            let message = format!("a spout and a PE are both called {}", quoted(name));
            problems.push(Diagnostic::new(message).at(pe.at.span(), "the name is taken"));
        }
    }
}

/// Spouts first, so that their positions are below all others.
fn declarations<'a>(
    topology: &'a Topology,
    catalog: &'a Catalog,
    problems: &mut Problems,
) -> Vec<Declared<'a>> {
    let mut all = Vec::new();
    for (name, spout) in &topology.spouts {
        let known = catalog.spouts.get(spout.type_name.as_str()).map(|schema| Known {
            accepts: None,
            outputs: &schema.outputs,
            params: schema.params,
            is_windowed: false,
        });
        if known.is_none() {
            problems.push(unknown_type(&spout.type_name, catalog, true));
        }
        all.push(Declared {
            name,
            at: spout.at.span(),
            type_name: &spout.type_name,
            emits: spout.emits.as_ref(),
            given: &spout.params,
            pe: None,
            known,
        });
    }
    for (name, pe) in &topology.pes {
        let known = catalog.pes.get(pe.type_name.as_str()).map(|schema| Known {
            accepts: Some(&schema.inputs),
            outputs: &schema.outputs,
            params: schema.params,
            is_windowed: schema.is_windowed,
        });
        if known.is_none() {
            problems.push(unknown_type(&pe.type_name, catalog, false));
        }
        all.push(Declared {
            name,
            at: pe.at.span(),
            type_name: &pe.type_name,
            emits: pe.emits.as_ref(),
            given: &pe.params,
            pe: Some(pe),
            known,
        });
    }
    all
}

fn unknown_type(name: &Located<String>, catalog: &Catalog, is_spout: bool) -> Diagnostic {
    let (kind, other) = if is_spout { ("spout", "PE") } else { ("PE", "spout") };
    let pes: Vec<&str> = catalog.pes.keys().map(String::as_str).collect();
    let spouts: Vec<&str> = catalog.spouts.keys().map(String::as_str).collect();
    let (right, wrong) = if is_spout { (spouts, pes) } else { (pes, spouts) };
    let list = format!("registered {kind} types");
    let help = if wrong.contains(&name.as_str()) {
        format!("it is the type of a {other}; declare it under [{}.NAME]", other.to_lowercase())
    } else {
        // Not among the ten nearest but among all: the reader may have the wrong program.
        let all: Vec<String> = right.iter().map(|name| quoted(name)).collect();
        match suggest(name, right.iter().copied()) {
            Some(guess) => format!("did you mean {}? {list}: {}", quoted(guess), all.join(", ")),
            None => did_you_mean(name, right.iter().copied(), &list),
        }
    };
    Diagnostic::new(format!("there is no {kind} type {}", quoted(name)))
        .at(name.span(), "not registered")
        .with_help(help)
}

/// Who feeds whom; no more than is needed to see that it is too many.
fn edges(declared: &[Declared<'_>], outlets: &[Outlet<'_>]) -> Vec<Edge> {
    let mut feeds: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
    for outlet in outlets {
        let output = outlet.event.map_or(0, |(output, _)| output);
        feeds.entry(outlet.stream).or_default().push((outlet.from, output));
    }
    let inputs = declared.iter().enumerate().flat_map(|(to, reader)| {
        reader.inputs().iter().enumerate().map(move |(input, spec)| (to, input, spec))
    });
    let edges = inputs.flat_map(|(to, input, spec)| {
        let feeds = feeds.get(spec.stream.as_str()).into_iter().flatten();
        feeds.map(move |&(from, output)| Edge { from, output, to, input })
    });
    let mut edges: Vec<Edge> = edges.take(EDGES_MAX + 1).collect();
    edges.sort_unstable();
    edges
}

/// The stages; empty if there are too many edges.
fn check_shape(declared: &[Declared<'_>], edges: &[Edge], problems: &mut Problems) -> Vec<usize> {
    if edges.len() > EDGES_MAX {
        let message = format!("there are more than {EDGES_MAX} edges");
        problems.push(Diagnostic::new(message));
        return Vec::new();
    }
    graph::stages(declared.len(), edges)
}

/// A spout must lead to what reads: two that feed each other alone never have anything.
fn check_fed(declared: &[Declared<'_>], edges: &[Edge], problems: &mut Problems) {
    let spouts = declared.iter().filter(|declared| declared.pe.is_none()).count();
    for at in graph::unfed(declared.len(), spouts, edges) {
        let message = format!("nothing ever comes to {}", quoted(declared[at].name));
        problems.push(Diagnostic::new(message).at(declared[at].at.clone(), "no spout leads here"));
    }
}

/// On each cycle somebody must not wait for the next, or all could wait for each other.
fn check_cycles(
    topology: &Topology,
    declared: &[Declared<'_>],
    edges: &[Edge],
    problems: &mut Problems,
) {
    if edges.len() > EDGES_MAX {
        return;
    }
    check_fed(declared, edges, problems);
    let stream = |edge: &Edge| declared[edge.to].inputs()[edge.input].stream.as_str();
    let blocks = |edge: &&Edge| {
        let declared = topology.streams.get(stream(edge));
        declared.is_none_or(|spec| spec.overflow == Overflow::Block)
    };
    let waiting: Vec<Edge> = edges.iter().filter(blocks).copied().collect();
    if let Some(cycle) = graph::cycle(declared.len(), &waiting) {
        problems.push(cycle_found(declared, &cycle));
    }
}

fn cycle_found(declared: &[Declared<'_>], cycle: &[Edge]) -> Diagnostic {
    // From the first name on, so that the message does not depend on where the search began.
    let start = cycle.iter().enumerate().min_by_key(|(_, edge)| edge.from).map_or(0, |(at, _)| at);
    let mut ring: Vec<&str> = cycle.iter().map(|edge| declared[edge.from].name).collect();
    ring.rotate_left(start);
    ring.extend(ring.first().copied());
    let closing = cycle[(start + cycle.len() - 1) % cycle.len()];
    let site = declared[closing.to].inputs()[closing.input].stream.span();
    let help = format!(
        "where each waits for the next, all may wait for ever: add [stream.{}] with overflow = \"spill\"",
        &*declared[closing.to].inputs()[closing.input].stream,
    );
    Diagnostic::new("a cycle in which nobody goes on when the next is behind")
        .at(site, format!("a cycle: {}", ring.join(" -> ")))
        .with_help(help)
}

/// A warning for each stream that has no reader.
fn unread(declared: &[Declared<'_>], outlets: &[Outlet<'_>]) -> Vec<Diagnostic> {
    let read: BTreeSet<&str> =
        declared.iter().flat_map(Declared::inputs).map(|input| input.stream.as_str()).collect();
    let mut warned = BTreeSet::new();
    let mut warnings = Problems::default();
    for outlet in outlets {
        if !read.contains(outlet.stream) && warned.insert(outlet.stream) {
            let message = format!("nobody reads the stream {}", quoted(outlet.stream));
            let problem = Diagnostic::new(message).at(outlet.site.clone(), "emitted in vain");
            warnings.push(problem);
        }
    }
    warnings.into_sorted()
}
