//! A partition of a spout in a container, in virtual time: for tests.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use membership::{Epoch, NodeId, Time};
use pe::topology::Topology;
use pe::{
    Action, Container, Home, Input, Layout, Param, Params, PartitionName, PartitionReport, Phase,
    Place, Position, Registry, Rows, RunReport, Sink, Spout, SpoutError, Waker, active_containers,
    spread_tasks,
};
use serde_json::Value;

/// One spout that feeds one sink, which keeps what comes.
pub(super) struct Probe {
    /// `None` once it was stopped.
    container: Option<Container>,
    /// The first field of each event.
    fields: Fields,
    /// Hears of each wake-up, and of the end of the last thread that could cause one.
    pub(super) woken: Receiver<()>,
}

type Fields = Arc<Mutex<Vec<Value>>>;

/// A run that takes more steps than this goes round in circles.
const STEPS_MAX: usize = 10_000;

struct Collector(Fields);

impl Sink for Collector {
    fn write(&mut self, rows: &dyn Rows) -> Result<(), SpoutError> {
        let mut fields = self.0.lock().unwrap();
        for at in 0..rows.len() {
            let mut json = Vec::new();
            rows.write_field(at, 0, &mut json);
            fields.push(serde_json::from_slice(&json).unwrap());
        }
        Ok(())
    }
}

/// The parameters of a spout, as its topology would give them.
pub(super) fn params<S: Spout>(text: &str) -> Result<Params, String> {
    let registry =
        Registry::new().spout::<S>("spout").sink("collect", NO_PARAMS, opener(&Fields::default()));
    plan(&registry, text).map(|plan| plan.prototypes[0].params.clone())
}

const NO_PARAMS: &[Param] = &[];

fn opener(fields: &Fields) -> Arc<pe::OpenSink> {
    let fields = Arc::clone(fields);
    Arc::new(move |_| Ok(Box::new(Collector(Arc::clone(&fields)))))
}

fn plan(registry: &Registry, params: &str) -> Result<pe::topology::Plan, String> {
    let text = format!(
        "name = \"probe\"\n\
         spout.source = {{ type = \"spout\", emits = \"lines\", params = {{ {params} }} }}\n\
         pe.sink = {{ type = \"collect\", input = [{{ stream = \"lines\", grouping = \"global\" }}] }}\n"
    );
    Topology::parse(&text)
        .and_then(|topology| topology.plan(&registry.catalog()))
        .map_err(|problems| problems[0].message.clone())
}

impl Probe {
    /// Opens a partition of a spout that was told `text`.
    pub(super) fn open<S: Spout>(text: &str, name: PartitionName, position: Position) -> Self {
        let fields = Fields::default();
        let registry =
            Registry::new().spout::<S>("spout").sink("collect", NO_PARAMS, opener(&fields));
        let plans = [Arc::new(plan(&registry, text).unwrap())];
        let (me, since) = (NodeId(7), Epoch(1));
        let places = vec![Place {
            node: me,
            since,
            containers: 1,
            number: 1,
            is_drained: false,
            is_active: true,
        }];
        let slots = vec![Home::first(me); 16];
        let (tasks, phases) =
            (spread_tasks(&plans, &active_containers(&places)), vec![Phase::Running]);
        let layout = Arc::new(Layout::new(since, me, places, slots, tasks, &plans, phases));
        let (sender, woken) = channel();
        // An error says that the probe is gone.
        let waker = Waker::new(move || sender.send(()).unwrap_or_default());
        let container = Container::new(0, layout, &registry, &plans, waker);
        let mut probe = Self { container: Some(container), fields, woken };
        probe.step(0.0, Input::Open { topology: 0, prototype: 0, name, position, skip: 0 });
        probe
    }

    /// One step with nothing else to do, after so many seconds.
    pub(super) fn drain(&mut self, seconds: f64) {
        self.step(seconds, Input::Drained);
    }

    /// Steps until there is nothing to do at this time.
    pub(super) fn run(&mut self, seconds: f64) {
        self.drain(seconds);
        for _ in 0..STEPS_MAX {
            if !self.container().wants_turn() {
                return;
            }
            self.drain(seconds);
        }
        panic!("after {STEPS_MAX} steps the spout wants yet another turn");
    }

    /// When the container is to be stepped again, in seconds, if nothing happens before.
    pub(super) fn deadline(&mut self) -> Option<f64> {
        self.container().deadline().map(|time| time.0.as_secs_f64())
    }

    /// Steps whenever the spout is woken, until it is exhausted.
    pub(super) fn run_to_end(&mut self) {
        self.run(0.0);
        while !self.partition().is_exhausted {
            self.wait();
            self.run(0.0);
        }
    }

    /// Waits until the spout is woken.
    pub(super) fn wait(&mut self) {
        self.woken.recv_timeout(Duration::from_secs(20)).expect("the spout is woken in time");
        self.step(0.0, Input::Woken);
    }

    /// Takes the partition away, as when another node is to have it.
    pub(super) fn close(&mut self, name: PartitionName) -> PartitionReport {
        let input = Input::Close { topology: 0, prototype: 0, name };
        let mut actions = self.step(0.0, input).into_iter();
        let closed = actions.find_map(|action| {
            let Action::Closed { state, .. } = action else { return None };
            state
        });
        closed.unwrap()
    }

    /// Drops the container, and the spout with it.
    pub(super) fn stop(&mut self) {
        self.container = None;
    }

    fn container(&mut self) -> &mut Container {
        self.container.as_mut().expect("it was not stopped")
    }

    /// How the partition is.
    pub(super) fn partition(&mut self) -> PartitionReport {
        self.report().hosts[0].partitions[0].clone()
    }

    /// How many lines were given up for a reason.
    pub(super) fn dropped(&mut self, reason: &str) -> u64 {
        self.report().dropped.get(reason).copied().unwrap_or(0)
    }

    /// The lines that came since the last call.
    pub(super) fn lines(&mut self) -> Vec<String> {
        self.fields().iter().map(|field| field.as_str().unwrap().to_owned()).collect()
    }

    /// The numbers that came since the last call.
    pub(super) fn numbers(&mut self) -> Vec<u64> {
        self.fields().iter().map(|field| field.as_u64().unwrap()).collect()
    }

    fn fields(&mut self) -> Vec<Value> {
        self.report();
        std::mem::take(&mut *self.fields.lock().unwrap())
    }

    fn report(&mut self) -> RunReport {
        let mut actions = self.step(0.0, Input::Asked(1)).into_iter();
        let report = actions.find_map(|action| {
            let Action::Report(report) = action else { return None };
            Some(report)
        });
        report.unwrap().runs.remove(0)
    }

    fn step(&mut self, seconds: f64, input: Input) -> Vec<Action> {
        let mut out = Vec::new();
        self.container().step(Time(Duration::from_secs_f64(seconds)), input, &mut out);
        out
    }
}
