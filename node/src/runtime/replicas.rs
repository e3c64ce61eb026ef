//! The replicas that a node keeps for others, on a thread of their own: a handler that takes its time must not
//! hold up what others wait for, nor the other way round.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use bytes::Bytes;
use membership::NodeId;
use pe::{Layout, ReplicaAction, ReplicaInput, ReplicaStore};
use routing::{BatchHeader, FrameKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::driver::Notice;
use super::links::Links;
use crate::core::Input;

/// What may wait for the thread, in KiB, before those who send are read no further.
const WAITING_MAX: u32 = 64 << 10;

/// The door to the replicas of a node.
#[derive(Clone)]
pub(super) struct Replicas {
    orders: Sender<Order>,
    room: Arc<Semaphore>,
    figures: Arc<Figures>,
}

/// What is to be seen of them.
#[derive(Debug, Default)]
pub(super) struct Figures {
    units: AtomicU64,
    bytes: AtomicU64,
}

/// An input, and the room that it takes.
struct Order(ReplicaInput, Option<OwnedSemaphorePermit>);

impl Replicas {
    /// Starts the thread; it ends with the last door.
    pub(super) fn start(
        first: Arc<Layout>,
        links: Arc<Links>,
        notices: mpsc::Sender<Notice>,
    ) -> Self {
        let (orders, taken) = channel();
        let figures = Arc::<Figures>::default();
        let keeper = Keeper { links, notices, figures: Arc::clone(&figures) };
        thread::Builder::new()
            .name("replicas".to_owned())
            .spawn(move || keeper.run(ReplicaStore::new(first), &taken))
            .expect("a node can start a thread");
        Self { orders, room: Arc::new(Semaphore::new(WAITING_MAX as usize)), figures }
    }

    /// Something that the core of the node wants done.
    pub(super) fn order(&self, input: ReplicaInput) {
        self.give(Order(input, None));
    }

    /// A message from the owner of units; waits while too many wait.
    pub(super) async fn arrived(&self, node: NodeId, header: &BatchHeader, body: Bytes) {
        let size = u32::try_from(body.len() / 1024 + 1).unwrap_or(WAITING_MAX).min(WAITING_MAX);
        let Ok(permit) = Arc::clone(&self.room).acquire_many_owned(size).await else { return };
        // The frame that it came in is kept no longer than it waits, and that is counted.
        let input = ReplicaInput::Arrived { node, container: header.from, body };
        self.give(Order(input, Some(permit)));
    }

    /// How many units are kept, and about how many bytes they take.
    pub(super) fn figures(&self) -> (u64, u64) {
        let Figures { units, bytes } = &*self.figures;
        (units.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }

    fn give(&self, order: Order) {
        if self.orders.send(order).is_err() {
            tracing::error!("the thread that keeps replicas is gone");
        }
    }
}

/// The thread's own.
struct Keeper {
    links: Arc<Links>,
    notices: mpsc::Sender<Notice>,
    figures: Arc<Figures>,
}

impl Keeper {
    fn run(self, mut store: ReplicaStore, orders: &Receiver<Order>) {
        let mut actions = Vec::new();
        loop {
            let Order(input, permit) = match orders.try_recv() {
                Ok(order) => order,
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) => {
                    self.show(&store);
                    let Ok(order) = orders.recv() else { return };
                    order
                }
            };
            store.step(input, &mut actions);
            actions.drain(..).for_each(|action| self.act(action));
            drop(permit);
        }
    }

    fn show(&self, store: &ReplicaStore) {
        let (units, bytes) = store.size();
        self.figures.units.store(units as u64, Ordering::Relaxed);
        self.figures.bytes.store(bytes as u64, Ordering::Relaxed);
    }

    fn act(&self, action: ReplicaAction) {
        match action {
            ReplicaAction::Send(node, frame) => {
                if let Err(lost) = self.links.send_frame(node, FrameKind::Batches, frame) {
                    tracing::error!(%node, "a data link is given up: {lost}");
                    self.tell(Input::Broken(node));
                }
            }
            ReplicaAction::Chunk { handoff, bytes, kind } => {
                self.tell(Input::Chunk { handoff, kind, bytes });
            }
        }
    }

    fn tell(&self, input: Input) {
        // A driver that is gone has ended the node.
        let _ = self.notices.blocking_send(Notice::Core(input));
    }
}
