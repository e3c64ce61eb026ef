//! Data links: what carries events and credits, on streams that come and go.
//!
//! What is sent again, confirmed or given up is decided in [`crate::core::link`]. Here is the task around it,
//! one per member, that opens streams and writes; [`super::inlets`] has those that read.
//!
//! A writer whose stream ends opens another at once, then at growing intervals. One whose frames are not
//! confirmed for seconds takes the connection for dead, though nothing was closed, and has another made.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures::io::{ReadHalf, WriteHalf};
use futures::{AsyncReadExt, AsyncWriteExt};
use libp2p::{PeerId, Stream, StreamProtocol};
use membership::{Member, NodeId};
use routing::FrameKind;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::driver::Notice;
use super::links::{Links, Shared};
use super::net::Command;
use crate::core::link::writer::{LinkLimits, LinkLost, LinkWriter};
use crate::core::link::{LinkAnswer, LinkCredit};

/// The streams of data links.
pub(super) const DATA: StreamProtocol = StreamProtocol::new("/starling/data");

/// How long it may take to get a stream, or an answer on it. Longer keeps events waiting behind a
/// connection that is dead; shorter is never met by a machine that is busy.
const OPENING_LIMIT: Duration = Duration::from_secs(4);

/// Between two attempts to open a stream, behind one that is made at once: first, and at most.
const AGAIN: [Duration; 2] = [Duration::from_millis(5), Duration::from_secs(1)];

/// How long frames may be on their way and nothing be confirmed, before the connection is taken for dead.
const SILENCE_LIMIT: Duration = Duration::from_secs(4);

/// How long credits wait for company.
const CREDITS_AFTER: Duration = Duration::from_millis(1);

/// What is joined and written in one go.
const CHUNK: usize = 64 << 10;

/// A frame from this size on is written as it lies.
const LARGE: usize = 16 << 10;

/// The writing end of a link, shared by the containers and the task that writes.
#[derive(Debug)]
pub(super) struct DataLink {
    writer: Mutex<LinkWriter>,
    /// There may be something to write.
    filled: Notify,
    /// Something was confirmed, or dropped.
    moved: Notify,
    task: Mutex<Option<AbortHandle>>,
}

impl DataLink {
    fn new(writer: LinkWriter) -> Self {
        Self {
            writer: Mutex::new(writer),
            filled: Notify::new(),
            moved: Notify::new(),
            task: Mutex::new(None),
        }
    }

    fn writer(&self) -> MutexGuard<'_, LinkWriter> {
        self.writer.lock().expect("nobody panics with it")
    }

    /// Ends the link; what it holds is dropped.
    pub(super) fn end(&self) {
        if let Some(task) = self.task.lock().expect("nobody panics with it").take() {
            task.abort();
        }
        self.writer().clear();
        self.moved.notify_waiters();
    }

    /// Returns when the other side has all that was given.
    pub(super) async fn settled(&self) {
        loop {
            let mut moved = pin!(self.moved.notified());
            // Before looking, so that nothing is missed between.
            moved.as_mut().enable();
            if self.writer().is_settled() {
                return;
            }
            moved.await;
        }
    }

    /// Writes what there is, for as long as the stream is of use.
    async fn write(&self, stream: &mut WriteHalf<Stream>) -> Result<Infallible, DataError> {
        let mut joined = Vec::new();
        loop {
            let large = self.join(&mut joined)?;
            if joined.is_empty() && large.is_none() {
                stream.flush().await?;
                self.wait().await;
            }
            stream.write_all(&joined).await?;
            if let Some(frame) = large {
                stream.write_all(&frame).await?;
            }
        }
    }

    /// Waits for something to write.
    async fn wait(&self) {
        if !self.writer().has_credits() {
            return self.filled.notified().await;
        }
        if timeout(CREDITS_AFTER, self.filled.notified()).await.is_err() {
            self.writer().release();
        }
    }

    /// Puts small frames together, up to a large one, which is given.
    fn join(&self, joined: &mut Vec<u8>) -> Result<Option<Bytes>, DataError> {
        joined.clear();
        let mut writer = self.writer();
        if !writer.is_open() {
            return Err(DataError::Anew);
        }
        while joined.len() < CHUNK
            && let Some(frame) = writer.take()
        {
            if frame.len() >= LARGE {
                return Ok(Some(frame));
            }
            joined.extend_from_slice(&frame);
        }
        Ok(None)
    }

    /// Reads confirmations.
    async fn listen(&self, stream: &mut ReadHalf<Stream>) -> Result<Infallible, DataError> {
        loop {
            let mut watermark = [0; 8];
            stream.read_exact(&mut watermark).await?;
            self.writer().confirm(u64::from_le_bytes(watermark))?;
            self.moved.notify_waiters();
        }
    }

    /// Returns when frames are on their way and nothing moves.
    async fn silence(&self) {
        loop {
            let before = self.writer().oldest();
            sleep(SILENCE_LIMIT).await;
            if before.is_some() && before == self.writer().oldest() {
                return;
            }
        }
    }
}

impl Links {
    /// Sends a frame; without a link its events are in doubt, and counted so by their container.
    ///
    /// # Errors
    /// The link held too much and has dropped it.
    pub(super) fn send_frame(
        &self,
        node: NodeId,
        kind: FrameKind,
        frame: Vec<u8>,
    ) -> Result<(), LinkLost> {
        let Some(link) = self.data.get(&node) else {
            tracing::debug!(%node, "events for a node without a link");
            return Ok(());
        };
        let pushed = link.writer().push(kind, frame);
        link.filled.notify_one();
        pushed
    }

    /// Sends credits, if there is a link.
    pub(super) fn send_credits(&self, node: NodeId, credits: Vec<LinkCredit>) {
        if let Some(link) = self.data.get(&node) {
            let mut writer = link.writer();
            let credits = credits.into_iter();
            let must_look = credits.fold(false, |must_look, (credit, rows, weight)| {
                writer.credit(credit, rows, weight) || must_look
            });
            drop(writer);
            if must_look {
                link.filled.notify_one();
            }
        }
    }
}

impl Shared {
    /// Starts the data link to a run of a member, in place of that to an earlier run.
    pub(super) fn start_data_link(&self, member: Member) {
        let Ok(peer) = PeerId::from_bytes(&member.peer) else { return };
        let made = self.links.made.fetch_add(1, Ordering::Relaxed);
        let run = self.hello().member.run;
        let writer = LinkWriter::new(run, member.run, made, LinkLimits::DEFAULT);
        let link = Arc::new(DataLink::new(writer));
        let before = self.links.data.insert(member.node, Arc::clone(&link));
        if let Some(before) = before {
            before.end();
        }
        let (shared, served) = (self.clone(), Arc::clone(&link));
        let task = self.data_threads.spawn(async move {
            shared.serve_data_link(&member, peer, &served).await;
        });
        *link.task.lock().expect("nobody panics with it") = Some(task.abort_handle());
    }

    /// Keeps a data link until it is ended.
    async fn serve_data_link(mut self, member: &Member, peer: PeerId, link: &DataLink) {
        let [first, most] = AGAIN;
        let (mut again, mut is_dead) = (Duration::ZERO, false);
        loop {
            let before = link.writer().progress();
            let ended = match self.open_data(member, peer, link, is_dead).await {
                Ok(stream) => {
                    let (mut read, mut write) = stream.split();
                    tokio::select! {
                        Err(error) = link.write(&mut write) => error,
                        Err(error) = link.listen(&mut read) => error,
                        () = link.silence() => DataError::Silent,
                    }
                }
                Err(error) => error,
            };
            if before != link.writer().progress() {
                again = Duration::ZERO;
            }
            tracing::debug!(node = %member.node, "a data link has no stream: {ended}");
            is_dead = matches!(ended, DataError::Silent);
            if let DataError::Lost(lost) = ended {
                tracing::warn!(node = %member.node, "a data link begins anew: {lost}");
                link.moved.notify_waiters();
                self.notify(Notice::Core(crate::core::Input::Broken(member.node))).await;
            }
            sleep(again).await;
            again = (2 * again).clamp(first, most);
        }
    }

    /// Opens a stream and finds out where to go on.
    async fn open_data(
        &mut self,
        member: &Member,
        peer: PeerId,
        link: &DataLink,
        is_dead: bool,
    ) -> Result<Stream, DataError> {
        let (done, is_dialled) = oneshot::channel();
        let command = if is_dead { Command::Reconnect } else { Command::Connect };
        // Errors say that the node ends.
        let _ = self.data_swarm.send(command(member.data, peer, done)).await;
        let _ = is_dialled.await;
        let hello = link.writer().open();
        let opening = async {
            let opened = self.data_streams.open_stream(peer, DATA).await;
            let mut stream = opened.map_err(|error| io::Error::other(error.to_string()))?;
            stream.write_all(&hello.to_bytes()).await?;
            stream.flush().await?;
            let mut answer = [0; LinkAnswer::LEN];
            stream.read_exact(&mut answer).await?;
            Ok::<_, DataError>((stream, LinkAnswer::from_bytes(&answer)))
        };
        let opened = timeout(OPENING_LIMIT, opening).await;
        let (stream, answer) = opened.map_err(|_| DataError::Silent)??;
        link.writer().resume(answer)?;
        link.moved.notify_waiters();
        Ok(stream)
    }
}

/// Why a stream is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum DataError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Lost(#[from] LinkLost),
    #[error("the link has begun anew")]
    Anew,
    #[error("no answer in time")]
    Silent,
}
