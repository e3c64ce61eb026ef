//! Links: the streams that a node keeps to each of the others, and the tasks that serve them.
//!
//! Each node opens its own streams for what it sends, one on the control connection and one on the data
//! connection, and reads those that others open. Control messages wait in a bounded queue per link and are
//! lost with their stream; whoever sends one says it again until it is heeded. What goes by a data link
//! is not lost while both nodes live; see [`super::data_links`].

use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use actix::prelude::Addr;
use dashmap::DashMap;
use dashmap::DashSet;
use futures::future::join_all;
use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use libp2p::{PeerId, Stream, StreamProtocol};
use membership::{Member, NodeId, Run};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::actor::ContainerActor;
use super::data_links::DataLink;
use super::driver::Notice;
use super::identity::node_of;
use super::inlets::Inlet;
use super::net::Command;
use super::replicas::Replicas;
use super::wire::{self, Answer, GREETING_LIMIT, WireError};
use crate::core::{Hello, Message, Refused};

const CONTROL: StreamProtocol = StreamProtocol::new("/starling/control");

/// Control messages that may wait for a link.
const CONTROL_QUEUE: usize = 8192;

/// How long the last words of a node may take.
const CLOSING_LIMIT: Duration = Duration::from_secs(1);

/// The links of a node, by node; shared with its containers.
#[derive(Debug, Default)]
pub(super) struct Links {
    control: DashMap<NodeId, mpsc::Sender<Message>>,
    pub(super) data: DashMap<NodeId, Arc<DataLink>>,
    /// What is read from others on data links.
    pub(super) inlets: DashMap<NodeId, Arc<Inlet>>,
    /// Those with whom a greeting has succeeded, in either direction, and which of their runs greeted;
    /// nobody else is read.
    pub(super) greeted: DashMap<NodeId, Run>,
    /// Those that we are about to greet: a second connection needs no second link.
    greeting: DashSet<NodeId>,
    /// The tasks that write control links; see [`Links::close`].
    writers: DashMap<NodeId, JoinHandle<()>>,
    /// How many data links were made, and how many memories of what others write.
    pub(super) made: AtomicU32,
    pub(super) memories: AtomicU64,
}

impl Links {
    /// Sends a control message, if there is a link.
    pub(super) fn send(&self, node: NodeId, message: Message) -> bool {
        let Some(link) = self.control.get(&node) else { return false };
        match link.try_send(message) {
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                // It does not keep up, or is dead: it is ended, and made anew.
                drop(link);
                self.control.remove(&node);
                true
            }
        }
    }

    pub(super) fn has_control(&self, node: NodeId) -> bool {
        self.control.contains_key(&node)
    }

    /// Returns when the others have all that was given to data links.
    pub(super) async fn flush(&self) {
        let links: Vec<_> = self.data.iter().map(|link| Arc::clone(&link)).collect();
        join_all(links.iter().map(|link| link.settled())).await;
    }

    /// Ends all links, after what they hold has been written, or could not be for a second.
    pub(super) async fn close(&self) {
        self.control.clear();
        let nodes: Vec<_> = self.writers.iter().map(|writer| *writer.key()).collect();
        let writers = nodes.iter().filter_map(|node| self.writers.remove(node));
        let writers = join_all(writers.map(|(_, writer)| writer));
        // What could not be written by then never will be.
        let _ = timeout(CLOSING_LIMIT, futures::future::join(writers, self.flush())).await;
        self.data.iter().for_each(|link| link.end());
    }

    /// Ends the links to a node; what they hold is dropped.
    pub(super) fn drop_links(&self, node: NodeId) {
        self.control.remove(&node);
        self.greeted.remove(&node);
        if let Some((_, link)) = self.data.remove(&node) {
            link.end();
        }
        if let Some((_, inlet)) = self.inlets.remove(&node) {
            inlet.end();
        }
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
    pub(super) replicas: Replicas,
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
    pub(super) fn hello(&self) -> Hello {
        self.hello.read().expect("nobody panics with it").clone()
    }

    pub(super) async fn notify(&self, notice: Notice) {
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
                Ok(message) => {
                    let input = crate::core::Input::Received(node, message);
                    self.notify(Notice::Core(input)).await;
                }
                Err(error) => break error,
            }
            if !self.links.greeted.contains_key(&node) {
                return;
            }
        };
        if let WireError::Io(_) = ended {
            tracing::debug!(%node, "a control stream ended: {ended}");
        } else {
            tracing::warn!(%node, "a control stream is closed: {ended}");
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
            self.links.greeted.insert(theirs.member.node, theirs.member.run);
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
        self.links.greeted.insert(node, member.run);
        self.links.control.insert(node, sender);
        self.notify(Notice::Greeted(member)).await;
        let links = Arc::clone(&self.links);
        let writer = tokio::spawn(async move {
            let ended = write_control(&mut stream, queue).await;
            tracing::debug!(%node, "a control link ended: {ended:?}");
            let is_this = |link: &mpsc::Sender<Message>| {
                identity.upgrade().is_some_and(|this| link.same_channel(&this))
            };
            self.links.control.remove_if(&node, |_, link| is_this(link));
            // Unless another has taken its place, or it was given up.
            if !self.links.has_control(node) && self.links.greeted.contains_key(&node) {
                self.notify(Notice::ControlEnded(node)).await;
            }
        });
        links.writers.insert(node, writer);
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

async fn write_control(
    stream: &mut Stream,
    mut queue: mpsc::Receiver<Message>,
) -> Result<(), WireError> {
    let mut scratch = Vec::new();
    while let Some(message) = queue.recv().await {
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
