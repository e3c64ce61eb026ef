//! Events on a schedule, one at a time, through a channel or a connection.
//!
//! The source looks at the clock until an event is due and then sends it alone: whoever gathers a batch
//! here delays its first event. The other end waits as it would in an application, so the price of
//! waking it is in the figure. Delays are behind the schedule, see [`Latency`](crate::Latency).

use std::hint;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::data::{due, keys};
use crate::measure::monotonic;
use crate::table::Table;
use crate::{Latencies, Meter, Outcome, Spec};

/// Events that may be under way; at the limit the source falls behind its schedule, which shows.
const UNDER_WAY: usize = 1024;

/// When an event was to be sent, and its key.
type Timed = (Duration, u64);

/// [`OpenLoop`](crate::Workload::OpenLoop) in one process: a thread that sends and one that counts.
pub(super) fn run(spec: &Spec) -> Outcome {
    let keys = keys(spec);
    let meter = Meter::start();
    let (tx, rx) = sync_channel(UNDER_WAY);
    let sink = thread::scope(|scope| {
        let sink = scope.spawn(|| receive(rx));
        send(spec, &keys, tx);
        sink.join().expect("no thread panics")
    });
    sink.finish(&meter)
}

fn send(spec: &Spec, keys: &[u64], tx: SyncSender<Timed>) {
    on_schedule(spec, keys, |at, key| tx.send((at, key)).is_ok());
}

fn receive(rx: Receiver<Timed>) -> Sink {
    let mut sink = Sink::new();
    rx.iter().for_each(|(at, key)| sink.take(at, key));
    sink
}

/// Sends the events of a run over a connection to [`receive_from`], on schedule; gives what that cost.
///
/// # Errors
///
/// If the connection breaks; the receiver has then counted less.
pub fn send_over(spec: &Spec, mut stream: TcpStream) -> io::Result<Outcome> {
    stream.set_nodelay(true)?;
    let keys = keys(spec);
    let meter = Meter::start();
    let mut result = Ok(());
    on_schedule(spec, &keys, |at, key| {
        result = stream.write_all(&encode(at, key));
        result.is_ok()
    });
    result.and_then(|()| stream.shutdown(Shutdown::Write))?;
    Ok(meter.finish(keys.len() as u64, size_of_val(&**keys) as u64, 0))
}

/// Counts the events that [`send_over`] sends from another process of the same machine, whose clock is
/// the same; gives the answer and the delays.
///
/// # Errors
///
/// If the connection breaks.
pub fn receive_from(_: &Spec, mut stream: TcpStream) -> io::Result<Outcome> {
    let meter = Meter::start();
    let mut sink = Sink::new();
    let (mut buffer, mut filled) = ([0; 64 * EVENT], 0);
    loop {
        let more = stream.read(&mut buffer[filled..])?;
        if more == 0 {
            return Ok(sink.finish(&meter));
        }
        filled += more;
        let (events, _) = buffer[..filled].as_chunks();
        events.iter().map(decode).for_each(|(at, key)| sink.take(at, key));
        let taken = events.as_flattened().len();
        buffer.copy_within(taken..filled, 0);
        filled -= taken;
    }
}

/// Bytes of an event on a connection.
const EVENT: usize = 16;

fn encode(at: Duration, key: u64) -> [u8; EVENT] {
    let nanos = u64::try_from(at.as_nanos()).expect("centuries of nanoseconds");
    (u128::from(nanos) << 64 | u128::from(key)).to_be_bytes()
}

#[expect(clippy::cast_possible_truncation, reason = "the halves of an event")]
fn decode(event: &[u8; EVENT]) -> Timed {
    let event = u128::from_be_bytes(*event);
    (Duration::from_nanos((event >> 64) as u64), event as u64)
}

/// Gives each event to a function when it is due, until that says that it is enough.
fn on_schedule(spec: &Spec, keys: &[u64], mut give: impl FnMut(Duration, u64) -> bool) {
    let start = monotonic();
    for (number, &key) in (0..).zip(keys) {
        let at = start + due(number, spec.rate);
        while monotonic() < at {
            hint::spin_loop();
        }
        if !give(at, key) {
            return;
        }
    }
}

/// Where events end: the counts of their keys, and how late they were.
struct Sink {
    events: u64,
    counts: Table<u64, u64>,
    latencies: Latencies,
}

impl Sink {
    fn new() -> Self {
        Self { events: 0, counts: Table::new(), latencies: Latencies::new() }
    }

    #[inline]
    fn take(&mut self, at: Duration, key: u64) {
        self.events += 1;
        self.counts.count(key);
        self.latencies.record(monotonic().saturating_sub(at));
    }

    fn finish(&self, meter: &Meter) -> Outcome {
        let outcome = meter.finish(self.events, 8 * self.events, self.counts.digest());
        Outcome { latency: Some(self.latencies.finish()), ..outcome }
    }
}
