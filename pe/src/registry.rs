//! The types that a topology may name.
//!
//! A registered type is turned into a function that makes its hosts, and into what it takes and gives.
//! With that, checking and wiring a topology is a comparison of names and needs no generics.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use membership::NodeId;
use routing::{Choice, FieldKind, KeyFields};

use crate::host::{
    AnyHost, Blueprint, ChooseTask, Panic, SinkHost, SourceHost, TasksHost, choice, contain, keyed,
};
use crate::storm::{self, Bolt, Bolts};
use crate::topology::{
    Accepts, Catalog, Grouping, InputPlan, InstancePlan, Param, Params, PeSchema, Plan, Prototype,
    SpoutSchema, StatedGrouping,
};
use crate::{
    EventType, Inputs, KeyRef, OpenSink, Outputs, PartitionName, Pe, Spout, SpoutError, Windowed,
    Windows,
};

/// The PE, spout and sink types and the groupings of a program, under the names that topologies use.
#[derive(Default)]
pub struct Registry {
    pes: BTreeMap<String, PeType>,
    known: Vec<EventType>,
    spouts: BTreeMap<String, SpoutType>,
    sinks: BTreeMap<String, SinkType>,
    groupings: BTreeMap<String, Arc<ChooseTask>>,
}

struct PeType {
    inputs: Vec<EventType>,
    outputs: Vec<EventType>,
    params: &'static [Param],
    is_windowed: bool,
    make: fn(Blueprint, InstancePlan) -> Box<dyn AnyHost>,
}

struct SpoutType {
    outputs: Vec<EventType>,
    params: &'static [Param],
    partitions: fn(&Params) -> Result<Vec<PartitionName>, SpoutError>,
    make: fn(Blueprint) -> Box<dyn AnyHost>,
}

struct SinkType {
    params: &'static [Param],
    open: Arc<OpenSink>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("pes", &self.pes.keys())
            .field("spouts", &self.spouts.keys())
            .field("sinks", &self.sinks.keys())
            .field("groupings", &self.groupings.keys())
            .finish()
    }
}

impl Registry {
    /// Nothing registered yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a PE type; the events come with it. A name that is taken now means the new type.
    ///
    /// # Panics
    /// One of its event types has the name and fields of another type of this program. Topologies know
    /// events by these, so nobody could tell the two apart.
    #[must_use]
    pub fn pe<P: Pe>(mut self, name: &str) -> Self {
        let make: fn(Blueprint, InstancePlan) -> Box<dyn AnyHost> =
            |plan, instances| match instances {
                InstancePlan::Keyed => keyed::<P>(plan),
                InstancePlan::Tasks(_)
                | InstancePlan::PerNode
                | InstancePlan::PerContainer
                | InstancePlan::Partitions => Box::new(TasksHost::<P>::new(plan)),
            };
        let (inputs, outputs, params) = (P::In::types(), P::Out::types(), P::PARAMS);
        self.learn(&inputs);
        self.learn(&outputs);
        let is_windowed = P::IS_WINDOWED;
        self.pes.insert(name.to_owned(), PeType { inputs, outputs, params, is_windowed, make });
        self
    }

    /// Registers a type that is given windows of events, as the PE [`Windows`].
    ///
    /// # Panics
    /// As [`Self::pe`].
    #[must_use]
    pub fn windowed<W: Windowed>(self, name: &str) -> Self {
        self.pe::<Windows<W>>(name)
    }

    /// Registers a bolt type: see [`storm`](crate::storm).
    ///
    /// # Panics
    /// As [`Self::pe`].
    #[must_use]
    pub fn bolt<B: Bolt>(self, name: &str) -> Self {
        self.pe::<Bolts<B>>(name)
    }

    /// Registers a type of spout in Storm's words: see [`crate::storm`].
    ///
    /// # Panics
    /// As [`Self::pe`].
    #[must_use]
    pub fn storm_spout<S: storm::Spout>(self, name: &str) -> Self {
        self.spout::<storm::Spouts<S>>(name)
    }

    /// Registers a spout type.
    ///
    /// # Panics
    /// As [`Self::pe`].
    #[must_use]
    pub fn spout<S: Spout>(mut self, name: &str) -> Self {
        let make: fn(Blueprint) -> Box<dyn AnyHost> = |plan| Box::new(SourceHost::<S>::new(plan));
        let (outputs, params, partitions) = (S::Out::types(), S::PARAMS, S::partitions);
        self.learn(&outputs);
        self.spouts.insert(name.to_owned(), SpoutType { outputs, params, partitions, make });
        self
    }

    /// Registers a sink type, which takes events of any type.
    #[must_use]
    pub fn sink(mut self, name: &str, params: &'static [Param], open: Arc<OpenSink>) -> Self {
        self.sinks.insert(name.to_owned(), SinkType { params, open });
        self
    }

    /// Registers a grouping: a function of an event's key and the number of tasks that says which of them gets
    /// the event. A topology names it beside a key and `parallelism`.
    ///
    /// It runs where events are emitted, for each of them, and must say the same for the same key on every node
    /// and at any time: whoever counts by key relies on it. An event for a task that there is not is dropped and
    /// counted as `no such task`; so is one at which the function panics. A name that is taken now means the
    /// new function.
    ///
    /// # Panics
    /// The name is one that every topology has, such as `shuffle`.
    #[must_use]
    pub fn grouping<F>(mut self, name: &str, choose: F) -> Self
    where
        F: Fn(KeyRef<'_>, u32) -> u32 + Send + Sync + 'static,
    {
        let is_free = matches!(StatedGrouping::of(name), StatedGrouping::Named(_));
        assert!(is_free, "every topology has a grouping `{name}`, which means another thing");
        self.groupings.insert(name.to_owned(), Arc::new(choose));
        self
    }

    /// The types as names, to check topologies by.
    pub fn catalog(&self) -> Catalog {
        let schemas = |types: &[EventType]| types.iter().map(|event| event.schema).collect();
        let pes = self.pes.iter().map(|(name, pe)| {
            let (inputs, outputs) = (Accepts::These(schemas(&pe.inputs)), schemas(&pe.outputs));
            let PeType { params, is_windowed, .. } = *pe;
            (name.clone(), PeSchema { inputs, outputs, params, is_windowed })
        });
        let sinks = self.sinks.iter().map(|(name, sink)| {
            let (inputs, outputs) = (Accepts::Any, Vec::new());
            (name.clone(), PeSchema { inputs, outputs, params: sink.params, is_windowed: false })
        });
        let spouts = self.spouts.iter().map(|(name, spout)| {
            let outputs = schemas(&spout.outputs);
            (name.clone(), SpoutSchema { outputs, params: spout.params })
        });
        Catalog {
            pes: pes.chain(sinks).collect(),
            spouts: spouts.collect(),
            groupings: self.groupings.keys().cloned().collect(),
        }
    }

    /// Lists the partitions of a spout of a plan.
    ///
    /// # Errors
    /// The spout finds nothing to read.
    pub fn partitions(&self, spout: &Prototype) -> Result<Vec<PartitionName>, SpoutError> {
        let known = self.spouts.get(&spout.type_name);
        let known = known.ok_or_else(|| SpoutError::new(format!("no type {}", spout.type_name)))?;
        contain(|| (known.partitions)(&spout.params)).unwrap_or_else(Panic::refuse)
    }

    /// The event types of all streams of a plan that was made with [`Self::catalog`].
    pub(crate) fn events(&self, plan: &Plan) -> Vec<EventType> {
        let mut events = vec![None; plan.streams.len()];
        for prototype in &plan.prototypes {
            let outputs = self.outputs(prototype);
            for (&stream, &event) in prototype.outputs.iter().zip(outputs) {
                events[stream] = Some(event);
            }
        }
        events
            .into_iter()
            .map(|event| event.expect("a plan has no stream without producer"))
            .collect()
    }

    /// The function that the grouping of an input names, if it names one.
    pub(crate) fn choice(&self, plan: &Plan, input: &InputPlan) -> Option<Choice> {
        let Grouping::Named(name) = &input.grouping else { return None };
        Some(choice(name, Arc::clone(&self.groupings[name]), kinds(plan, input)))
    }

    fn learn(&mut self, events: &[EventType]) {
        for &event in events {
            let twin = self.known.iter().find(|known| known.schema == event.schema);
            let is_one = twin.is_none_or(|twin| *twin == event);
            assert!(
                is_one,
                "two event types are called `{}` and have the same fields",
                event.schema.name
            );
            if twin.is_none() {
                self.known.push(event);
            }
        }
    }

    fn outputs(&self, prototype: &Prototype) -> &[EventType] {
        let name = &prototype.type_name;
        let spout =
            self.spouts.get(name).filter(|_| prototype.is_spout).map(|spout| &spout.outputs);
        let outputs = spout.or_else(|| self.pes.get(name).map(|pe| &pe.outputs));
        outputs.map_or(&[], Vec::as_slice)
    }

    /// Makes the host of a prototype for one container.
    pub(crate) fn host(
        &self,
        plan: &Plan,
        prototype: &Prototype,
        events: &[EventType],
        (node, container): (NodeId, u16),
    ) -> Box<dyn AnyHost> {
        let blueprint = blueprint(plan, prototype);
        let name = &prototype.type_name;
        if prototype.is_spout {
            return (self.spouts[name].make)(blueprint);
        }
        if let Some(pe) = self.pes.get(name) {
            return (pe.make)(blueprint, prototype.instances);
        }
        let inputs = prototype.inputs.iter().map(|input| events[input.stream]).collect();
        let open = Arc::clone(&self.sinks[name].open);
        Box::new(SinkHost::new(blueprint, inputs, open, node, container))
    }
}

/// The kinds of the fields of an input's key.
fn kinds(plan: &Plan, input: &InputPlan) -> Vec<FieldKind> {
    let fields = plan.streams[input.stream].event.fields;
    input.key.iter().map(|&field| fields[field].kind).collect()
}

/// The kinds of the fields of a prototype's key; the same for all its inputs.
pub(crate) fn key_kinds(plan: &Plan, prototype: &Prototype) -> Vec<FieldKind> {
    let keyed = prototype.inputs.iter().find(|input| !input.key.is_empty());
    keyed.map_or_else(Vec::new, |input| kinds(plan, input))
}

fn blueprint(plan: &Plan, prototype: &Prototype) -> Blueprint {
    let keys: Vec<_> = prototype.inputs.iter().map(|input| KeyFields(input.key.clone())).collect();
    Blueprint {
        name: prototype.name.clone(),
        params: Arc::new(match prototype.window {
            Some(window) => prototype.params.clone().with_window(window),
            None => prototype.params.clone(),
        }),
        keys,
        kinds: key_kinds(plan, prototype),
        tasks: match prototype.instances {
            InstancePlan::Tasks(count) => count,
            InstancePlan::Keyed
            | InstancePlan::PerNode
            | InstancePlan::PerContainer
            | InstancePlan::Partitions => 0,
        },
        timer: prototype.timer,
        trigger: prototype.trigger,
        window: prototype.window,
        memory: prototype.memory,
    }
}
