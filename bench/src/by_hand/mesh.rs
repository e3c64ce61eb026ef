//! Threads that send each other batches.
//!
//! Every thread is a source and a sink for every other. If each waited for room in the other's channel
//! all would wait for ever, so there is one inbox per thread, for filled batches and for emptied ones
//! that come home, and what bounds it is the number of batches: a thread that has none left for a
//! neighbour takes from its inbox until one returns. Nothing is allocated once all batches are as long
//! as they get.

use std::mem;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// What travels: a number of events.
pub(super) trait Batch: Default + Send {
    fn is_empty(&self) -> bool;
    fn clear(&mut self);
}

impl<T: Send> Batch for Vec<T> {
    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn clear(&mut self) {
        self.clear();
    }
}

/// Events of a full batch.
pub(super) const FULL: usize = 1024;

/// Batches that a thread has for each other thread, beside the one that it fills.
const SPARES: usize = 8;

enum Mail<B> {
    Filled {
        from: usize,
        batch: B,
    },
    Emptied {
        by: usize,
        batch: B,
    },
    /// The sender has filled its last batch.
    Done,
}

/// One thread's end.
pub(super) struct Port<B> {
    me: usize,
    open: Vec<B>,
    spares: Vec<Vec<B>>,
    peers: Vec<SyncSender<Mail<B>>>,
    inbox: Receiver<Mail<B>>,
    /// How many others have filled their last batch.
    done: usize,
}

/// Runs a function on as many threads as asked for, each with its end of the mesh; gives what they
/// returned.
pub(super) fn on_mesh<B: Batch, T: Send>(
    threads: usize,
    work: impl Fn(usize, Port<B>) -> T + Sync,
) -> Vec<T> {
    let threads = threads.max(1);
    // All batches that may be filled or on their way home, and the ends.
    let capacity = 2 * threads * (SPARES + 2);
    let (peers, inboxes): (Vec<_>, Vec<_>) = (0..threads).map(|_| sync_channel(capacity)).unzip();
    let fresh = |count| (0..count).map(|_| B::default()).collect::<Vec<_>>();
    let ports = inboxes.into_iter().enumerate().map(|(me, inbox)| {
        let spares = (0..threads).map(|_| fresh(SPARES)).collect();
        Port { me, open: fresh(threads), spares, peers: peers.clone(), inbox, done: 0 }
    });
    let ports: Vec<_> = ports.collect();
    drop(peers);
    let work = &work;
    thread::scope(|scope| {
        let start = |port: Port<B>| scope.spawn(move || work(port.me, port));
        let handles: Vec<_> = ports.into_iter().map(start).collect();
        handles.into_iter().map(|handle| handle.join().expect("no thread panics")).collect()
    })
}

impl<B: Batch> Port<B> {
    /// How many threads there are.
    pub(super) fn threads(&self) -> usize {
        self.peers.len()
    }

    /// The batch for a thread that is being filled.
    #[inline(always)]
    pub(super) fn open(&mut self, to: usize) -> &mut B {
        &mut self.open[to]
    }

    /// Sends a batch that is full, and takes what has arrived. The own share is taken at once.
    #[inline(never)]
    pub(super) fn ship(&mut self, to: usize, mut take: impl FnMut(&B)) {
        if to == self.me {
            take(&self.open[to]);
            self.open[to].clear();
            return;
        }
        let spare = loop {
            match self.spares[to].pop() {
                Some(spare) => break spare,
                None => self.wait(&mut take),
            }
        };
        let batch = mem::replace(&mut self.open[to], spare);
        let filled = Mail::Filled { from: self.me, batch };
        self.peers[to].send(filled).expect("nobody leaves before all are done");
        while let Ok(mail) = self.inbox.try_recv() {
            self.sort(mail, &mut take);
        }
    }

    /// Sends what is left and takes until all are done.
    pub(super) fn finish(&mut self, mut take: impl FnMut(&B)) {
        for to in 0..self.threads() {
            if !self.open[to].is_empty() {
                self.ship(to, &mut take);
            }
        }
        for (to, peer) in self.peers.iter().enumerate() {
            if to != self.me {
                peer.send(Mail::Done).expect("nobody leaves before all are done");
            }
        }
        while self.done + 1 < self.threads() {
            self.wait(&mut take);
        }
    }

    fn wait(&mut self, take: &mut impl FnMut(&B)) {
        let mail = self.inbox.recv().expect("this thread has a sender itself");
        self.sort(mail, take);
    }

    fn sort(&mut self, mail: Mail<B>, take: &mut impl FnMut(&B)) {
        match mail {
            Mail::Filled { from, mut batch } => {
                take(&batch);
                batch.clear();
                // Whoever is done with everything does not need it any more.
                let _ = self.peers[from].send(Mail::Emptied { by: self.me, batch });
            }
            Mail::Emptied { by, batch } => self.spares[by].push(batch),
            Mail::Done => self.done += 1,
        }
    }
}
