//! Links: the streams that a node keeps to each of the others, and the tasks that serve them.
//!
//! Each node opens its own streams for what it sends, one on the control connection and one on the data
//! connection, and reads those that others open. What is sent waits in a bounded queue per link; for
//! events the bound is never met, since credits end before it.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use actix::prelude::{Addr, SendError};
use bytes::BytesMut;
use dashmap::{DashMap, DashSet};
use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use libp2p::{PeerId, Stream, StreamProtocol};
use membership::{Member, NodeId};
use pe::Input;
use routing::{Frame, FrameHeader, seal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::actor::{ContainerActor, Deliver};
use super::driver::Notice;
use super::identity::node_of;
use super::net::{Command, Side};
use super::wire::{self, Answer, GREETING_LIMIT, Wire, WireError};
use crate::core::{Hello, Refused};

const CONTROL: StreamProtocol = StreamProtocol::new("/starling/control");
const DATA: StreamProtocol = StreamProtocol::new("/starling/data");

/// Control messages that may wait for a link.
const CONTROL_QUEUE: usize = 8192;

/// Said on a data stream by both sides before the first frame.
const TAKEN: u8 = 1;

/// Credits in one message.
const CREDITS_MAX: usize = 1024;

/// Frames that may wait for a link; credits allow fewer.
const DATA_QUEUE: usize = 1 << 14;

/// How long the last words of a node may take.
const CLOSING_LIMIT: Duration = Duration::from_secs(1);

/// Between two attempts to open a data link.
const AGAIN: Duration = Duration::from_millis(200);

/// The links of a node, by node; shared with its containers.
#[derive(Debug, Default)]
pub(super) struct Links {
    control: DashMap<NodeId, mpsc::Sender<Wire>>,
    data: DashMap<NodeId, mpsc::Sender<Vec<u8>>>,
    /// Those with whom a greeting has succeeded, in either direction; nobody else is read.
    greeted: DashSet<NodeId>,
    /// Those that we are about to greet: a second connection needs no second link.
    greeting: DashSet<NodeId>,
    /// The tasks that write; see [`Links::close`].
    writers: DashMap<(NodeId, Side), JoinHandle<()>>,
}

impl Links {
    /// Sends a control message, if there is a link.
    pub(super) fn send(&self, node: NodeId, message: Wire) -> bool {
        let Some(link) = self.control.get(&node) else { return false };
        match link.try_send(message) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                // It does not keep up, or is dead. Without this message it is of no use: it is ended, and
                // made anew.
                drop(link);
                self.control.remove(&node);
                true
            }
        }
    }

    /// Sends a frame; without a link its events are in doubt, and counted so by their container.
    pub(super) fn send_frame(&self, node: NodeId, frame: Vec<u8>) {
        let sent = self.data.get(&node).map(|link| link.try_send(frame));
        if !matches!(sent, Some(Ok(()))) {
            tracing::debug!(%node, "events for a node without a link");
        }
    }

    pub(super) fn has_control(&self, node: NodeId) -> bool {
        self.control.contains_key(&node)
    }

    /// Ends all links, after what they hold has been written, or could not be for a second.
    pub(super) async fn close(&self) {
        self.control.clear();
        self.data.clear();
        let keys: Vec<_> = self.writers.iter().map(|writer| *writer.key()).collect();
        let writers = keys.iter().filter_map(|key| self.writers.remove(key));
        let all = futures::future::join_all(writers.map(|(_, writer)| writer));
        // What could not be written by then never will be.
        let _ = timeout(CLOSING_LIMIT, all).await;
    }

    /// Ends the links to a node; what they hold is dropped.
    pub(super) fn drop_links(&self, node: NodeId) {
        self.control.remove(&node);
        self.data.remove(&node);
        self.greeted.remove(&node);
    }
}

/// What the tasks of links share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) links: Arc<Links>,
    pub(super) notices: mpsc::Sender<Notice>,
    /// What we say of ourselves; it changes when we become members of a cluster.
    pub(super) hello: Arc<RwLock<Hello>>,
    pub(super) control_streams: libp2p_stream::Control,
    pub(super) data_streams: libp2p_stream::Control,
    pub(super) data_swarm: mpsc::Sender<Command>,
    pub(super) data_threads: tokio::runtime::Handle,
    pub(super) containers: Arc<[Addr<ContainerActor>]>,
}

/// Why a greeting failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum GreetingError {
    #[error("{0}")]
    Refused(Refused),
    #[error("{0}")]
    Wire(#[from] WireError),
}

impl From<std::io::Error> for GreetingError {
    fn from(error: std::io::Error) -> Self {
        Self::Wire(error.into())
    }
}

impl Shared {
    fn hello(&self) -> Hello {
        self.hello.read().expect("nobody panics with it").clone()
    }

    async fn notify(&self, notice: Notice) {
        // The driver ends last but for these tasks.
        let _ = self.notices.send(notice).await;
    }

    /// Serves what others open on the control connection, until the node ends.
    pub(super) async fn accept_control(mut self) {
        let accepted = self.control_streams.accept(CONTROL);
        let mut streams = accepted.expect("nobody else accepts this protocol");
        while let Some((peer, stream)) = streams.next().await {
            let shared = self.clone();
            tokio::spawn(async move { shared.serve_control(peer, stream).await });
        }
    }

    /// Answers a greeting, then reads messages.
    async fn serve_control(self, peer: PeerId, mut stream: Stream) {
        let node = node_of(&peer);
        let greeted = timeout(GREETING_LIMIT, self.answer(peer, &mut stream)).await;
        if let Err(error) = greeted.unwrap_or(Err(WireError::Late.into())) {
            tracing::warn!(%node, "refused a node: {error}");
            return;
        }
        let mut scratch = Vec::new();
        let ended: WireError = loop {
            match wire::read(&mut stream, &mut scratch).await {
                Ok(Wire::Core(message)) => {
                    let input = crate::core::Input::Received(node, message);
                    self.notify(Notice::Core(input)).await;
                }
                Ok(Wire::Credits(credits)) => self.credit(node, credits).await,
                Err(error) => break error,
            }
            if !self.links.greeted.contains(&node) {
                return;
            }
        };
        if let WireError::Io(_) = ended {
            tracing::debug!(%node, "a control stream ended: {ended}");
        } else {
            tracing::warn!(%node, "a control stream is closed: {ended}");
        }
    }

    async fn credit(&self, node: NodeId, credits: Vec<(pe::Credit, u64, u32)>) {
        for (credit, rows, weight) in credits {
            if let Some(container) = self.containers.get(usize::from(credit.from)) {
                deliver(container, Input::Credited { node, credit, rows, weight }).await;
            }
        }
    }

    /// The part of a greeting that waits for the other to begin.
    async fn answer(&self, peer: PeerId, stream: &mut Stream) -> Result<(), GreetingError> {
        let read = wire::read_preamble(stream).await;
        // Ours in any case: it tells a node of another version which one we have.
        wire::write_preamble(stream).await?;
        stream.flush().await?;
        read?;
        let mut scratch = Vec::new();
        let theirs: Hello = wire::read(stream, &mut scratch).await?;
        let ours = self.hello();
        let checked = is_itself(&theirs, peer).and_then(|()| ours.check(&theirs));
        let answer = match &checked {
            Ok(()) => Answer::Welcome(Box::new(ours)),
            Err(refused) => Answer::Refused(refused.clone()),
        };
        if checked.is_ok() {
            self.links.greeted.insert(theirs.member.node);
        }
        wire::write(stream, &answer, &mut scratch).await?;
        stream.flush().await?;
        checked.map_err(GreetingError::Refused)
    }

    /// Opens the control link to a peer that we are connected to, and serves it until it ends.
    pub(super) async fn control_link(self, peer: PeerId) {
        let node = node_of(&peer);
        if self.links.greeting.insert(node) {
            let links = Arc::clone(&self.links);
            self.open_control(node, peer).await;
            links.greeting.remove(&node);
        }
    }

    async fn open_control(mut self, node: NodeId, peer: PeerId) {
        let opened = timeout(GREETING_LIMIT, self.control_streams.open_stream(peer, CONTROL)).await;
        let mut stream = match opened {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                let error = WireError::Io(std::io::Error::other(error.to_string()));
                return self.notify(Notice::NotGreeted(node, error.into())).await;
            }
            Err(_) => return self.notify(Notice::NotGreeted(node, WireError::Late.into())).await,
        };
        let greeted = timeout(GREETING_LIMIT, self.greet(peer, &mut stream)).await;
        let member = match greeted.unwrap_or(Err(WireError::Late.into())) {
            Ok(member) => member,
            Err(error) => return self.notify(Notice::NotGreeted(node, error)).await,
        };
        let (sender, queue) = mpsc::channel(CONTROL_QUEUE);
        let identity = sender.downgrade();
        self.links.greeted.insert(node);
        self.links.control.insert(node, sender);
        self.notify(Notice::Greeted(member)).await;
        let links = Arc::clone(&self.links);
        let writer = tokio::spawn(async move {
            let ended = write_control(&mut stream, queue).await;
            tracing::debug!(%node, "a control link ended: {ended:?}");
            let is_this = |link: &mpsc::Sender<Wire>| {
                identity.upgrade().is_some_and(|this| link.same_channel(&this))
            };
            self.links.control.remove_if(&node, |_, link| is_this(link));
            // Unless another has taken its place, or it was given up.
            if !self.links.has_control(node) && self.links.greeted.contains(&node) {
                self.notify(Notice::ControlEnded(node)).await;
            }
        });
        links.writers.insert((node, Side::Control), writer);
    }

    /// The part of a greeting that begins.
    async fn greet(&self, peer: PeerId, stream: &mut Stream) -> Result<Member, GreetingError> {
        let (ours, mut scratch) = (self.hello(), Vec::new());
        wire::write_preamble(stream).await?;
        wire::write(stream, &ours, &mut scratch).await?;
        stream.flush().await?;
        wire::read_preamble(stream).await?;
        match wire::read(stream, &mut scratch).await? {
            Answer::Welcome(theirs) => {
                is_itself(&theirs, peer)
                    .and_then(|()| ours.check(&theirs))
                    .map_err(GreetingError::Refused)?;
                Ok(theirs.member)
            }
            // It says what it has and what we have; we say it the other way round.
            Answer::Refused(Refused { what, ours, theirs }) => {
                Err(GreetingError::Refused(Refused { what, ours: theirs, theirs: ours }))
            }
        }
    }

    /// Starts the data link to a member.
    pub(super) fn start_data_link(&self, member: Member) {
        let Ok(peer) = PeerId::from_bytes(&member.peer) else { return };
        let (sender, queue) = mpsc::channel(DATA_QUEUE);
        self.links.data.insert(member.node, sender);
        let (shared, node) = (self.clone(), member.node);
        let link =
            self.data_threads.spawn(async move { shared.data_link(member, peer, queue).await });
        self.links.writers.insert((node, Side::Data), link);
    }

    /// Keeps the data link to a member until its queue is closed.
    async fn data_link(mut self, member: Member, peer: PeerId, mut queue: mpsc::Receiver<Vec<u8>>) {
        let node = member.node;
        loop {
            let dial = Command::Dial(member.data, Some(peer));
            if self.data_swarm.send(dial).await.is_err() {
                return;
            }
            let opened = timeout(GREETING_LIMIT, self.data_streams.open_stream(peer, DATA)).await;
            let ended = match opened {
                Ok(Ok(mut stream)) => match timeout(GREETING_LIMIT, is_taken(&mut stream)).await {
                    Ok(Ok(())) => {
                        let ended = write_frames(&mut stream, &mut queue).await;
                        if ended.is_err() {
                            self.notify(Notice::Core(crate::core::Input::Broken(node))).await;
                        }
                        ended
                    }
                    Ok(Err(error)) => Err(error),
                    Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
                },
                Ok(Err(error)) => Err(std::io::Error::other(error.to_string())),
                Err(_) => Err(std::io::ErrorKind::TimedOut.into()),
            };
            match ended {
                Ok(()) => return,
                Err(error) => tracing::debug!(%node, "no data link: {error}"),
            }
            tokio::time::sleep(AGAIN).await;
            if queue.is_closed() {
                return;
            }
        }
    }

    /// Serves what others open on the data connection, until the node ends.
    pub(super) async fn accept_data(mut self) {
        let accepted = self.data_streams.accept(DATA);
        let mut streams = accepted.expect("nobody else accepts this protocol");
        while let Some((peer, stream)) = streams.next().await {
            let node = node_of(&peer);
            if !self.links.greeted.contains(&node) {
                // It tries again: its greeting is on its way.
                tracing::debug!(%node, "refused events of a node that has not greeted");
                continue;
            }
            let shared = self.clone();
            tokio::spawn(async move {
                if let Err(error) = shared.read_frames(node, stream).await {
                    tracing::warn!(%node, "a data stream is closed: {error}");
                }
            });
        }
    }

    async fn read_frames(&self, node: NodeId, mut stream: Stream) -> Result<(), DataError> {
        let mut header = [0; FrameHeader::LEN];
        let mut sequence = 0;
        stream.read_exact(&mut [0]).await?;
        stream.write_all(&[TAKEN]).await?;
        stream.flush().await?;
        loop {
            match stream.read_exact(&mut header).await {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            let header = FrameHeader::parse(&header)?;
            if header.sequence != sequence {
                return Err(DataError::Sequence(header.sequence, sequence));
            }
            sequence += 1;
            let mut payload = BytesMut::zeroed(header.len as usize);
            stream.read_exact(&mut payload).await?;
            if payload.is_empty() {
                self.notify(Notice::Core(crate::core::Input::Finished(node))).await;
                continue;
            }
            for batch in Frame::new(header, payload.freeze())? {
                let (header, body) = batch?;
                match self.containers.get(usize::from(header.to)) {
                    Some(container) => {
                        deliver(container, Input::Arrived(node, header, body)).await;
                    }
                    None => return Err(DataError::Container(header.to)),
                }
            }
        }
    }
}

/// Why a data stream cannot go on.
#[derive(Debug, thiserror::Error)]
enum DataError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("{0}")]
    Frame(#[from] routing::FrameError),
    #[error("frame {0} where frame {1} was expected")]
    Sequence(u64, u64),
    #[error("a batch for container {0}, which there is not")]
    Container(u16),
}

/// A node may only speak for itself: its name follows from the key that the connection proved.
fn is_itself(hello: &Hello, peer: PeerId) -> Result<(), Refused> {
    let (said, is) = (hello.member.node, node_of(&peer));
    if said == is && hello.member.peer == peer.to_bytes() {
        return Ok(());
    }
    let (what, ours, theirs) =
        ("the name of the other node".to_owned(), is.to_string(), said.to_string());
    Err(Refused { what, ours, theirs })
}

/// Waits until the other side reads: it does not before our greeting with it has succeeded.
async fn is_taken(stream: &mut Stream) -> std::io::Result<()> {
    // The first write is what makes the other side know of the stream at all.
    stream.write_all(&[TAKEN]).await?;
    stream.flush().await?;
    stream.read_exact(&mut [0]).await
}

async fn deliver(container: &Addr<ContainerActor>, input: Input) {
    if let Err(SendError::Full(message)) = container.try_send(Deliver(input)) {
        // An error says that the node ends.
        let _ = container.send(message).await;
    }
}

async fn write_control(
    stream: &mut Stream,
    mut queue: mpsc::Receiver<Wire>,
) -> Result<(), WireError> {
    let mut scratch = Vec::new();
    while let Some(mut message) = queue.recv().await {
        // Credits of one moment go together.
        let mut next = None;
        if let Wire::Credits(credits) = &mut message {
            while credits.len() < CREDITS_MAX && next.is_none() {
                match queue.try_recv() {
                    Ok(Wire::Credits(more)) => credits.extend(more),
                    Ok(other) => next = Some(other),
                    Err(_) => break,
                }
            }
        }
        if let Some(next) = next {
            wire::write(stream, &message, &mut scratch).await?;
            message = next;
        }
        wire::write(stream, &message, &mut scratch).await?;
        if queue.is_empty() {
            stream.flush().await?;
        }
    }
    stream.close().await?;
    // A stream takes bytes before they are on their way, and the last words of a node that ends at once
    // would never be. The other side closes its half when it has read them.
    let _ = timeout(CLOSING_LIMIT, stream.read(&mut [0])).await;
    Ok(())
}

async fn write_frames(
    stream: &mut Stream,
    queue: &mut mpsc::Receiver<Vec<u8>>,
) -> std::io::Result<()> {
    let mut sequence = 0;
    while let Some(mut frame) = queue.recv().await {
        seal(&mut frame, sequence);
        sequence += 1;
        stream.write_all(&frame).await?;
        if queue.is_empty() {
            stream.flush().await?;
        }
    }
    stream.close().await
}
