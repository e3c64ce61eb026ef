//! Sinks: instances that write events of any type to somewhere outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use membership::{NodeId, Time};
use routing::{AnyOutlet, BatchHeader};

use super::{AnyHost, Blueprint, Delivery, Here, Panic, Tally, contain};
use crate::units::Scope;
use crate::{EventType, OpenSink, Removal, Sink, SinkPlace, SpoutError};

/// The reason under which events of a sink that failed are counted.
pub(crate) const SINK_FAILED: &str = "sink failed";

/// The sinks of a prototype in a container.
pub(crate) struct SinkHost {
    /// By number; one that could not be opened is tried again for its next batch.
    sinks: BTreeMap<u32, Box<dyn Sink>>,
    plan: Blueprint,
    /// The event type of each input.
    events: Vec<EventType>,
    open: Arc<OpenSink>,
    node: NodeId,
    container: u16,
    tally: Tally,
    failures: u64,
}

impl SinkHost {
    pub(crate) fn new(
        plan: Blueprint,
        events: Vec<EventType>,
        open: Arc<OpenSink>,
        node: NodeId,
        container: u16,
    ) -> Self {
        let (sinks, tally) = (BTreeMap::new(), Tally::default());
        Self { sinks, plan, events, open, node, container, tally, failures: 0 }
    }

    fn open(&mut self, number: u32) -> Result<&mut dyn Sink, SpoutError> {
        if !self.sinks.contains_key(&number) {
            let place = SinkPlace {
                name: &self.plan.name,
                params: &self.plan.params,
                node: self.node,
                container: self.container,
                task: (number != BatchHeader::NO_TASK).then_some(number),
                is_alone: number != BatchHeader::NO_TASK && self.plan.tasks == 1,
            };
            let sink = contain(|| (self.open)(place)).unwrap_or_else(Panic::refuse)?;
            self.sinks.insert(number, sink);
        }
        Ok(&mut **self.sinks.get_mut(&number).expect("opened above"))
    }

    /// Flushes and drops the sinks of some numbers.
    fn close(&mut self, is_gone: impl Fn(u32) -> bool) {
        let gone: Vec<_> = self.sinks.extract_if(.., |number, _| is_gone(*number)).collect();
        for (_, mut sink) in gone {
            let flushed = contain(|| sink.flush()).unwrap_or_else(Panic::refuse);
            let dropped = contain(|| drop(sink)).or_else(Panic::refuse);
            if let Err(error) = flushed.and(dropped) {
                self.failed(&error);
            }
        }
    }

    fn failed(&mut self, error: &SpoutError) {
        self.failures += 1;
        if self.failures.is_power_of_two() {
            tracing::error!(sink = %self.plan.name, failures = self.failures, "{error}");
        }
    }
}

impl Panic {
    /// A panic of a sink or a spout is a failure like any other.
    pub(crate) fn refuse<T>(self) -> Result<T, SpoutError> {
        Err(SpoutError::new(format!("panicked: {}", self.0)))
    }
}

impl AnyHost for SinkHost {
    fn deliver(&mut self, delivery: Delivery<'_>) {
        let rows = self.events[delivery.input].batches.rows(delivery.batch);
        let count = rows.len() as u64;
        let written = self
            .open(delivery.task)
            .and_then(|sink| contain(|| sink.write(rows)).unwrap_or_else(Panic::refuse));
        match written {
            Ok(()) => self.tally.applied += count,
            Err(error) => {
                *self.tally.discarded.entry(SINK_FAILED).or_default() += count;
                self.failed(&error);
            }
        }
    }

    fn outlets(&mut self, _: &mut dyn FnMut(usize, &mut dyn AnyOutlet)) {}

    fn is_over_budget(&self) -> bool {
        false
    }

    fn is_open(&self) -> bool {
        false
    }

    fn tick(&mut self, _: Time, _: Scope<'_>) {}

    fn deadline(&self, _: Scope<'_>) -> Option<Time> {
        None
    }

    fn settle(&mut self, _: Time, here: &Here<'_>) {
        // Sinks by key have no number; there is one in each container.
        if self.plan.tasks > 0 || self.plan.kinds.is_empty() {
            self.close(|number| !(here.has_task)(number));
        }
        for &number in here.tasks {
            if let Err(error) = self.open(number).map(drop) {
                self.failed(&error);
            }
        }
    }

    fn remove_all(&mut self, _: Time, _: Removal) {
        self.close(|_| true);
    }

    fn idle(&mut self) {
        let flush =
            |sink: &mut Box<dyn Sink>| contain(|| sink.flush()).unwrap_or_else(Panic::refuse).err();
        let failed: Vec<_> = self.sinks.values_mut().filter_map(flush).collect();
        failed.iter().for_each(|error| self.failed(error));
    }

    fn instances(&self) -> usize {
        self.sinks.len()
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }
}
