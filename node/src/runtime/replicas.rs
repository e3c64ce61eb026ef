//! The replicas that a node keeps, on a thread of their own: a handler that takes its time must not hold up what others
//! wait for, nor the other way round.
//!
//! With a journal, what came while the disk was busy is written and synced together, and whatever follows from it is
//! done after that.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use actix::Addr;
use bytes::Bytes;
use membership::{NodeId, Run};
use pe::{JournalError, Layout, ReplicaAction, ReplicaInput, ReplicaStore};
use routing::{BatchHeader, FrameKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::RunError;
use super::actor::{ContainerActor, Deliver};
use super::driver::Notice;
use super::journal::Disk;
use super::links::Links;
use super::room;
use crate::core::Input;

/// What may wait for the thread, in KiB, before those who send are read no further.
const WAITING_MAX: u32 = 64 << 10;

/// So much is written at once; what comes then waits for the disk.
const WRITE_MAX: usize = 8 << 20;

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

/// Something for the thread.
enum Order {
    /// An input, and the room that it takes.
    Input(ReplicaInput, Option<OwnedSemaphorePermit>),
    /// The containers of this node, before anything else.
    Meet(Arc<[Addr<ContainerActor>]>),
}

/// Replicas that nobody has been given yet.
pub(super) struct Opened {
    store: ReplicaStore,
    disk: Option<Disk>,
    /// Since which life they are there, if they are on disk.
    pub(super) since: Option<Run>,
    first: Vec<ReplicaAction>,
}

/// Opens what is on disk, if replicas are to be there: then it says after how many bytes they are cleaned. What cannot be relied on is put aside, and the node goes on as one
/// that has nothing.
pub(super) fn open(
    data_dir: &Path,
    clean_after: Option<u64>,
    run: Run,
    first: Arc<Layout>,
) -> Result<Opened, RunError> {
    let Some(clean_after) = clean_after else {
        let store = ReplicaStore::new(first);
        return Ok(Opened { store, disk: None, since: None, first: Vec::new() });
    };
    let folder = data_dir.join("replicas");
    let failed = |error| RunError::disk(&folder, &error);
    let segments = Disk::segments(&folder).map_err(failed)?;
    if !segments.is_empty() {
        let sources = segments.iter().map(|(number, file)| (*number, file));
        match ReplicaStore::recover(Arc::clone(&first), clean_after, sources) {
            Ok((store, recovered)) => {
                let (units, bytes) = store.size();
                tracing::info!(units, bytes, "replicas are back from disk");
                let disk = Disk::go_on(&folder, &recovered).map_err(failed)?;
                let since = Some(Run(recovered.made));
                return Ok(Opened { store, disk: Some(disk), since, first: Vec::new() });
            }
            Err(JournalError::NeverBegun) => std::fs::remove_dir_all(&folder).map_err(failed)?,
            Err(error) => {
                let aside = data_dir.join(format!("replicas.damaged-{}", run.0));
                std::fs::rename(&folder, &aside).map_err(failed)?;
                tracing::error!(
                    "replicas on disk cannot be relied on: {error}; they are put aside in {}, and this node goes on \
                     as one that has lost its disk",
                    aside.display(),
                );
            }
        }
    }
    let disk = Some(Disk::begin(&folder).map_err(failed)?);
    let mut actions = Vec::new();
    let store = ReplicaStore::with_journal(first, clean_after, run.0, &mut actions);
    Ok(Opened { store, disk, since: Some(run), first: actions })
}

impl Replicas {
    /// Starts the thread; it ends with the last door.
    pub(super) fn start(opened: Opened, links: Arc<Links>, notices: mpsc::Sender<Notice>) -> Self {
        let (orders, taken) = channel();
        let figures = Arc::<Figures>::default();
        let Opened { store, disk, first, .. } = opened;
        let keeper = Keeper {
            links,
            notices,
            figures: Arc::clone(&figures),
            containers: Arc::new([]),
            disk,
            held: Vec::new(),
        };
        thread::Builder::new()
            .name("replicas".to_owned())
            .spawn(move || keeper.run(store, first, &taken))
            .expect("a node can start a thread");
        Self { orders, room: Arc::new(Semaphore::new(WAITING_MAX as usize)), figures }
    }

    /// Says who the containers of this node are, before anything else.
    pub(super) fn meet(&self, containers: Arc<[Addr<ContainerActor>]>) {
        self.give(Order::Meet(containers));
    }

    /// Something that the core of the node wants done.
    pub(super) fn order(&self, input: ReplicaInput) {
        self.give(Order::Input(input, None));
    }

    /// A message from a container of this node about units that are its own.
    pub(super) fn own(&self, container: u16, body: Vec<u8>) {
        self.give(Order::Input(ReplicaInput::Own { container, body: body.into() }, None));
    }

    /// A message from the owner of units; waits while too many wait.
    pub(super) async fn arrived(&self, node: NodeId, header: &BatchHeader, body: Bytes) {
        let size = u32::try_from(body.len() / 1024 + 1).unwrap_or(WAITING_MAX).min(WAITING_MAX);
        let Ok(permit) = Arc::clone(&self.room).acquire_many_owned(size).await else { return };
        // The frame that it came in is kept no longer than it waits, and that is counted.
        let input = ReplicaInput::Arrived { node, container: header.from, body };
        self.give(Order::Input(input, Some(permit)));
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
    containers: Arc<[Addr<ContainerActor>]>,
    disk: Option<Disk>,
    /// What waits until the disk has what went before.
    held: Vec<ReplicaAction>,
}

impl Keeper {
    fn run(mut self, mut store: ReplicaStore, first: Vec<ReplicaAction>, orders: &Receiver<Order>) {
        let mut actions = first;
        loop {
            actions.drain(..).for_each(|action| self.act(action));
            let is_much = self.disk.as_ref().is_some_and(|disk| disk.waiting() >= WRITE_MAX);
            let order = if is_much { Err(TryRecvError::Empty) } else { orders.try_recv() };
            let order = match order {
                Ok(order) => order,
                Err(TryRecvError::Disconnected) => return,
                Err(TryRecvError::Empty) if !self.write() => return,
                Err(TryRecvError::Empty) if is_much => continue,
                Err(TryRecvError::Empty) => {
                    self.show(&store);
                    let Ok(order) = orders.recv() else { return };
                    order
                }
            };
            match order {
                Order::Meet(containers) => self.containers = containers,
                Order::Input(input, permit) => {
                    store.step(input, &mut actions);
                    drop(permit);
                }
            }
        }
    }

    /// Writes what waits for the disk, and does what waited for that; whether the node goes on.
    fn write(&mut self) -> bool {
        let Some(disk) = &mut self.disk else { return true };
        // Nothing is taken in while the disk is full: whoever sends is held back by that.
        let (folder, notices) = (disk.folder(), &self.notices);
        match room::write(&folder, || notices.is_closed(), || disk.write()) {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                let _ = notices.blocking_send(Notice::DiskFailed(error));
                return false;
            }
            None => return false,
        }
        std::mem::take(&mut self.held).into_iter().for_each(|action| self.act_now(action));
        true
    }

    fn show(&self, store: &ReplicaStore) {
        let (units, bytes) = store.size();
        self.figures.units.store(units as u64, Ordering::Relaxed);
        self.figures.bytes.store(bytes as u64, Ordering::Relaxed);
    }

    fn act(&mut self, action: ReplicaAction) {
        let Some(disk) = &mut self.disk else { return self.act_now(action) };
        match action {
            ReplicaAction::Log(bytes) => disk.append(bytes),
            ReplicaAction::Segment(number, start) => disk.segment(number, start),
            ReplicaAction::Discard(below) => disk.discard(below),
            ReplicaAction::Send(..) | ReplicaAction::Tell(..) | ReplicaAction::Chunk { .. } => {
                self.held.push(action);
            }
            // It is said to be of a copy.
            ReplicaAction::Looked { .. } => self.act_now(action),
        }
    }

    fn act_now(&self, action: ReplicaAction) {
        match action {
            ReplicaAction::Send(node, frame) => {
                if let Err(lost) = self.links.send_frame(node, FrameKind::Batches, frame) {
                    tracing::error!(%node, "a data link is given up: {lost}");
                    self.tell(Input::Broken(node));
                }
            }
            ReplicaAction::Tell(container, body) => {
                if let Some(container) = self.containers.get(usize::from(container)) {
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "there is one answer for each of the few messages that may be under way"
                    )]
                    container.do_send(Deliver(pe::Input::Replicated(body)));
                }
            }
            ReplicaAction::Chunk { handoff, bytes, kind } => {
                self.tell(Input::Chunk { handoff, kind, bytes });
            }
            ReplicaAction::Looked { question, found } => {
                let _ = self.notices.blocking_send(Notice::FoundCopy(question, found));
            }
            ReplicaAction::Log(_) | ReplicaAction::Segment(..) | ReplicaAction::Discard(_) => {}
        }
    }

    fn tell(&self, input: Input) {
        // A driver that is gone has ended the node.
        let _ = self.notices.blocking_send(Notice::Core(input));
    }
}
