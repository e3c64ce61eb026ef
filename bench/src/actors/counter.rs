//! The actor of one key.

use actix::{Actor, Context, Handler, Message};

/// Messages that may wait for one actor. More are refused, and whoever sends them waits.
const MAILBOX: usize = 1024;

/// How often a key was seen.
#[derive(Default)]
pub(super) struct Counter {
    count: u64,
}

impl Actor for Counter {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
    }
}

/// The key was seen.
pub(super) struct See;

impl Message for See {
    type Result = ();
}

impl Handler<See> for Counter {
    type Result = ();

    fn handle(&mut self, _: See, _: &mut Self::Context) {
        self.count += 1;
    }
}

/// How often was it?
pub(super) struct Ask;

impl Message for Ask {
    type Result = u64;
}

impl Handler<Ask> for Counter {
    type Result = u64;

    fn handle(&mut self, _: Ask, _: &mut Self::Context) -> u64 {
        self.count
    }
}
