//! Sinks: instances that write events of any type to somewhere outside.

use std::collections::BTreeMap;
use std::sync::Arc;

use membership::{NodeId, Time};
use routing::{Ack, AnyOutlet, BatchHeader};

use super::{AnyHost, Blueprint, Delivery, Here, Panic, Tally, contain};
use crate::acker::Tracker;
use crate::units::Scope;
use crate::{EventType, Failure, OpenSink, Removal, Sink, SinkPlace, SpoutError};

/// The reason under which events of a sink that failed are counted.
pub(crate) const SINK_FAILED: &str = "sink failed";

/// The sinks of a prototype in a container.
pub(crate) struct SinkHost {
    /// By number; one that could not be opened is tried again for its next batch.
    sinks: BTreeMap<u32, Opened>,
    plan: Blueprint,
    /// The event type of each input.
    events: Vec<EventType>,
    open: Arc<OpenSink>,
    node: NodeId,
    container: u16,
    tally: Tally,
    tracker: Tracker,
    failures: u64,
}

/// A sink, and the acks of what it took and may not have written yet.
struct Opened {
    sink: Box<dyn Sink>,
    taken: Vec<Ack>,
}

impl SinkHost {
    pub(crate) fn new(
        plan: Blueprint,
        events: Vec<EventType>,
        open: Arc<OpenSink>,
        node: NodeId,
        container: u16,
    ) -> Self {
        let (sinks, tally, tracker) = (BTreeMap::new(), Tally::default(), Tracker::default());
        Self { sinks, plan, events, open, node, container, tally, tracker, failures: 0 }
    }

    fn open(&mut self, number: u32) -> Result<&mut Opened, SpoutError> {
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
            self.sinks.insert(number, Opened { sink, taken: Vec::new() });
        }
        Ok(self.sinks.get_mut(&number).expect("opened above"))
    }

    /// Flushes and drops the sinks of some numbers.
    fn close(&mut self, is_gone: impl Fn(u32) -> bool) {
        let gone: Vec<_> = self.sinks.extract_if(.., |number, _| is_gone(*number)).collect();
        for (_, Opened { mut sink, mut taken }) in gone {
            let flushed = contain(|| sink.flush()).unwrap_or_else(Panic::refuse);
            self.tracker.settle(&mut taken, flushed.is_ok(), Failure::SinkFailed);
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
        let batches = self.events[delivery.input].batches;
        let (rows, runs) = (batches.rows(delivery.batch), batches.runs(delivery.batch));
        let count = rows.len() as u64;
        let written = self.open(delivery.task).and_then(|opened| {
            contain(|| opened.sink.write(rows)).unwrap_or_else(Panic::refuse)?;
            Ok(std::mem::take(&mut opened.taken))
        });
        match written {
            Ok(mut taken) => {
                self.tally.applied += count;
                // What is gathered is lost with the process: it is acked when it is written.
                self.tracker.put_off(runs, &mut taken);
                self.sinks.get_mut(&delivery.task).expect("it has written").taken = taken;
            }
            Err(error) => {
                self.tracker.fail_all(runs, Failure::SinkFailed);
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
        let tracker = &mut self.tracker;
        let flush = |Opened { sink, taken }: &mut Opened| {
            let flushed = contain(|| sink.flush()).unwrap_or_else(Panic::refuse);
            tracker.settle(taken, flushed.is_ok(), Failure::SinkFailed);
            flushed.err()
        };
        let failed: Vec<_> = self.sinks.values_mut().filter_map(flush).collect();
        failed.iter().for_each(|error| self.failed(error));
    }

    fn instances(&self) -> usize {
        self.sinks.len()
    }

    fn tally(&mut self) -> &mut Tally {
        &mut self.tally
    }

    fn tracker(&mut self) -> &mut Tracker {
        &mut self.tracker
    }
}
