//! One actix actor for each key.
//!
//! This is the model that the engine has in its name, taken at its word: a key is an actor with an
//! address and a mailbox, and an event is a message to it. What a message costs there is why the engine
//! has instances in a map instead. It is done well all the same: keys travel between threads in batches,
//! and only their owner, on the thread of the actor, sends a message for each. Messages are sent with
//! `try_send` to mailboxes that have a limit; where one is full the owner waits for it before it takes
//! another batch.

mod counter;
mod keeper;
mod keyed;
mod word_count;

use std::iter;

use actix::{Actor, Addr, Arbiter, Context, Handler, Message, ResponseFuture, System};
use futures::future::join_all;

use self::keeper::{Batch, Filed, Finish, Keeper};
use crate::table::owner;
use crate::{Outcome, Spec, Unsupported, Workload};

/// Draws the data of a run, does it and says what it came to.
///
/// # Errors
///
/// If the workload has not been written for actors.
pub fn run(spec: &Spec) -> Result<Outcome, Unsupported> {
    match spec.workload {
        Workload::KeyedCount | Workload::HotKey | Workload::Counters => Ok(keyed::run(spec)),
        Workload::WordCount => Ok(word_count::run(spec)),
        Workload::TopWords
        | Workload::ClickThrough
        | Workload::Chain
        | Workload::FanOut
        | Workload::OpenLoop
        | Workload::StalledSink => Err(spec.into()),
    }
}

/// Events of a batch between two threads.
const BATCH: usize = 1024;

/// What was counted: how many events of how many keys, and the digest.
#[derive(Default)]
struct Counted {
    events: u64,
    keys: usize,
    digest: u64,
}

/// Counts keys on as many arbiters as asked for. `part` makes what an arbiter reads, of its number;
/// `finish` is called when all is counted and all actors are still there.
fn count<K: Filed, I: Iterator<Item = K> + 'static, T>(
    threads: usize,
    part: impl Fn(usize) -> I + Clone + Send + 'static,
    finish: impl FnOnce(Counted) -> T,
) -> T {
    System::new().block_on(async move {
        let arbiters: Vec<_> = iter::repeat_with(Arbiter::new).take(threads.max(1)).collect();
        let start =
            |arbiter: &Arbiter| Keeper::<K>::start_in_arbiter(&arbiter.handle(), |_| Keeper::new());
        let keepers: Vec<_> = arbiters.iter().map(start).collect();
        let readers = arbiters.iter().map(|arbiter| {
            let keepers = keepers.clone();
            Reader::start_in_arbiter(&arbiter.handle(), |_| Reader { keepers })
        });
        let readers: Vec<_> = readers.collect();
        let read = readers.iter().enumerate().map(|(number, reader)| {
            let part = part.clone();
            reader.send(Read(move || part(number)))
        });
        let mut counted = Counted::default();
        for events in join_all(read).await {
            counted.events += events.expect("readers do not stop");
        }
        for keeper in &keepers {
            let (digest, keys) = keeper.send(Finish).await.expect("keepers do not stop");
            counted.digest = counted.digest.wrapping_add(digest);
            counted.keys += keys;
        }
        let result = finish(counted);
        for arbiter in arbiters {
            arbiter.stop();
            arbiter.join().expect("no arbiter panics");
        }
        result
    })
}

/// Reads a part of the data and sends each key to its keeper.
struct Reader<K: Filed> {
    keepers: Vec<Addr<Keeper<K>>>,
}

impl<K: Filed> Actor for Reader<K> {
    type Context = Context<Self>;
}

/// Makes what a reader is to read; answered with how much that was.
struct Read<F>(F);

impl<F> Message for Read<F> {
    type Result = u64;
}

impl<K, I, F> Handler<Read<F>> for Reader<K>
where
    K: Filed,
    I: Iterator<Item = K> + 'static,
    F: FnOnce() -> I + 'static,
{
    type Result = ResponseFuture<u64>;

    fn handle(&mut self, Read(part): Read<F>, _: &mut Self::Context) -> Self::Result {
        let keepers = self.keepers.clone();
        Box::pin(async move {
            let (mut keys, mut events) = (part(), 0);
            let mut batches: Vec<Vec<K>> = keepers.iter().map(|_| Vec::new()).collect();
            loop {
                for key in keys.by_ref().take(BATCH) {
                    events += 1;
                    batches[owner(key.hash(), keepers.len())].push(key);
                }
                if batches.iter().all(Vec::is_empty) {
                    return events;
                }
                // Until all have been taken, so that no more than this is under way.
                let batches = batches.iter_mut().map(std::mem::take);
                let sent =
                    keepers.iter().zip(batches).map(|(keeper, keys)| keeper.send(Batch(keys)));
                let taken = join_all(sent).await;
                taken.into_iter().for_each(|taken| taken.expect("keepers do not stop"));
            }
        })
    }
}
