//! Who knows the actors of one thread by their keys.

use actix::{
    Actor, ActorFutureExt as _, Addr, AsyncContext as _, Context, Handler, Message, ResponseFuture,
    WrapFuture as _, dev::SendError,
};
use futures::future::join_all;
use hashbrown::HashTable;
use tokio::task::yield_now;

use super::BATCH;
use super::counter::{Ask, Counter, See};
use crate::digest;

/// A key that actors can be filed under.
pub(super) trait Filed: Eq + Send + Unpin + 'static {
    /// The hash that all models file it under.
    fn hash(&self) -> u64;
    /// The hash that it has in a digest.
    fn digest_hash(&self) -> u64;
}

/// The actors of the keys that belong to one thread, made when their keys are first seen.
pub(super) struct Keeper<K> {
    counters: HashTable<(K, Addr<Counter>)>,
}

impl<K: Filed> Keeper<K> {
    pub(super) fn new() -> Self {
        Self { counters: HashTable::new() }
    }

    /// The actor of a key.
    fn counter(&mut self, key: K) -> &Addr<Counter> {
        let entry =
            self.counters.entry(key.hash(), |(known, _)| *known == key, |(key, _)| key.hash());
        let entry = entry.or_insert_with(|| (key, Counter::default().start()));
        &entry.into_mut().1
    }
}

impl<K: Filed> Actor for Keeper<K> {
    type Context = Context<Self>;
}

/// Keys that were seen.
pub(super) struct Batch<K>(pub(super) Vec<K>);

impl<K> Message for Batch<K> {
    type Result = ();
}

impl<K: Filed> Handler<Batch<K>> for Keeper<K> {
    type Result = ();

    fn handle(&mut self, Batch(keys): Batch<K>, ctx: &mut Self::Context) {
        let mut refused = Vec::new();
        for key in keys {
            let counter = self.counter(key);
            match counter.try_send(See) {
                Ok(()) => {}
                Err(SendError::Full(See)) => refused.push(counter.clone()),
                Err(SendError::Closed(See)) => unreachable!("counters do not stop"),
            }
        }
        // No other batch before the actors of this thread had their turn.
        let turn = async move {
            yield_now().await;
            for counter in refused {
                counter.send(See).await.expect("counters do not stop");
            }
        };
        ctx.wait(turn.into_actor(self).map(|(), _, _| ()));
    }
}

/// Asks for the digest of all counts, and how many there are.
pub(super) struct Finish;

impl Message for Finish {
    type Result = (u64, usize);
}

impl<K: Filed> Handler<Finish> for Keeper<K> {
    type Result = ResponseFuture<(u64, usize)>;

    fn handle(&mut self, _: Finish, _: &mut Self::Context) -> Self::Result {
        let counters = self.counters.iter();
        let counters: Vec<_> =
            counters.map(|(key, counter)| (key.digest_hash(), counter.clone())).collect();
        Box::pin(async move {
            let mut sum = 0u64;
            for counters in counters.chunks(BATCH) {
                let counts = join_all(counters.iter().map(|(_, counter)| counter.send(Ask))).await;
                for ((hash, _), count) in counters.iter().zip(counts) {
                    sum = sum.wrapping_add(digest(*hash, count.expect("counters do not stop")));
                }
            }
            (sum, counters.len())
        })
    }
}
