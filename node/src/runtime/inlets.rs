//! Inlets: what is read of the data links that others keep to this node.
//!
//! A writer whose connection seems dead opens another stream, and the one before may still be read here
//! when it comes. So there is one inlet per node, with what is known of its link, and one stream has it at a
//! time: the newest. The one before stops between two frames and never within one, since a frame is
//! handed on whole or not at all; else a part of it would come twice.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actix::prelude::{Addr, SendError};
use bytes::{Bytes, BytesMut};
use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use libp2p::Stream;
use membership::{NodeId, Run};
use pe::Input;
use routing::{BatchKind, DecodeError, Frame, FrameError, FrameHeader, FrameKind};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::actor::{ContainerActor, Deliver};
use super::data_links::DATA;
use super::driver::Notice;
use super::identity::node_of;
use super::links::Shared;
use super::wire::GREETING_LIMIT;
use crate::core::link::reader::{LinkGap, LinkReader};
use crate::core::link::{LinkHello, credits_of};

/// How long a confirmation waits for company.
const CONFIRM_AFTER: Duration = Duration::from_millis(5);

/// What is read in one go.
const CHUNK: usize = 64 << 10;

/// The reading end of a link, shared by all streams of one node.
#[derive(Debug)]
pub(super) struct Inlet {
    newest: watch::Sender<LinkHello>,
    reader: tokio::sync::Mutex<Option<LinkReader>>,
}

impl Default for Inlet {
    fn default() -> Self {
        let none = LinkHello { run: Run(0), link: 0, attempt: 0, reader: Run(0) };
        Self { newest: watch::Sender::new(none), reader: tokio::sync::Mutex::new(None) }
    }
}

impl Inlet {
    /// Ends whatever reads.
    pub(super) fn end(&self) {
        self.newest.send_modify(|newest| newest.run = Run(u64::MAX));
    }

    /// Takes the place of all older streams; returns when a newer one has taken this one's.
    async fn hold(&self, hello: LinkHello) {
        let mut newest = self.newest.subscribe();
        self.newest.send_if_modified(|newest| {
            let is_newer = *newest < hello;
            *newest = (*newest).max(hello);
            is_newer
        });
        // It fails only without a sender, and there is one.
        let _ = newest.wait_for(|newest| *newest > hello).await;
    }
}

/// Bytes of a stream that are not yet a frame.
#[derive(Debug, Default)]
struct Pieces(BytesMut);

impl Pieces {
    /// Takes the next frame out, if all of it is there.
    fn frame(&mut self) -> Result<Option<(FrameHeader, Bytes)>, FrameError> {
        let Some(header) = self.0.first_chunk() else { return Ok(None) };
        let header = FrameHeader::parse(header)?;
        let len = FrameHeader::LEN + header.len as usize;
        if self.0.len() < len {
            self.0.reserve(len - self.0.len());
            return Ok(None);
        }
        let mut frame = self.0.split_to(len);
        Ok(Some((header, frame.split_off(FrameHeader::LEN).freeze())))
    }
}

/// Why a stream is not read any further.
#[derive(Debug, thiserror::Error)]
enum InletError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no greeting in time")]
    Late,
    #[error("{0}")]
    Gap(#[from] LinkGap),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("credits: {0}")]
    Credits(#[from] DecodeError),
    #[error("a batch for container {0}, which there is not")]
    Container(u16),
}

impl InletError {
    /// Whether what was read would be no better if it were sent again.
    fn is_final(&self) -> bool {
        match self {
            Self::Io(_) | Self::Late | Self::Gap(_) => false,
            Self::Frame(_) | Self::Credits(_) | Self::Container(_) => true,
        }
    }
}

impl Shared {
    /// Serves what others open on the data connection, until the node ends.
    pub(super) async fn accept_data(mut self) {
        let accepted = self.data_streams.accept(DATA);
        let mut streams = accepted.expect("nobody else accepts this protocol");
        while let Some((peer, stream)) = streams.next().await {
            let (shared, node) = (self.clone(), node_of(&peer));
            tokio::spawn(async move {
                match shared.read_data(node, stream).await {
                    Ok(()) => {}
                    Err(InletError::Io(error)) => {
                        tracing::debug!(%node, "a data stream ended: {error}");
                    }
                    Err(error) => tracing::warn!(%node, "a data stream is closed: {error}"),
                }
            });
        }
    }

    /// Reads a stream until it ends, or a newer one comes.
    async fn read_data(&self, node: NodeId, mut stream: Stream) -> Result<(), InletError> {
        let mut hello = [0; LinkHello::LEN];
        let read = timeout(GREETING_LIMIT, stream.read_exact(&mut hello)).await;
        read.map_err(|_| InletError::Late)??;
        let hello = LinkHello::from_bytes(&hello);
        let greeted = self.links.greeted.get(&node).map(|run| *run);
        let me = self.hello().member.run;
        if greeted != Some(hello.run) || hello.reader != me {
            // It tries again: its greeting is on its way, or it has not heard yet of our run.
            tracing::debug!(%node, ?hello, "refused a data stream of a node that has not greeted");
            return Ok(());
        }
        let inlet = Arc::clone(&self.links.inlets.entry(node).or_default());
        let mut replaced = pin!(inlet.hold(hello));
        let mut known = tokio::select! {
            biased;
            () = &mut replaced => return Ok(()),
            known = inlet.reader.lock() => known,
        };
        let memory = self.links.memories.fetch_add(1, Ordering::Relaxed);
        let Some(answer) = LinkReader::begin(&mut known, hello, me, memory) else {
            tracing::debug!(%node, ?hello, "refused a data stream that is not the newest");
            return Ok(());
        };
        stream.write_all(&answer.to_bytes()).await?;
        stream.flush().await?;
        let reader = known.as_mut().expect("it has just begun");
        let ended = self.read_frames(node, &mut stream, reader, replaced).await;
        if ended.as_ref().is_err_and(InletError::is_final) {
            let refusal = reader.refuse().to_le_bytes();
            // If this does not arrive, the next stream is told.
            let _ = stream.write_all(&refusal).await;
            let _ = stream.close().await;
        }
        ended
    }

    async fn read_frames(
        &self,
        node: NodeId,
        stream: &mut Stream,
        reader: &mut LinkReader,
        mut replaced: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), InletError> {
        let (mut pieces, mut chunk) = (Pieces::default(), vec![0; CHUNK]);
        let (mut alarm, mut is_armed) = (pin!(sleep(CONFIRM_AFTER)), false);
        loop {
            while let Some((header, payload)) = pieces.frame()? {
                self.hand_on(node, reader, header, payload).await?;
            }
            let mut due = reader.watermark(false);
            if !is_armed && reader.owes() {
                alarm.as_mut().reset(Instant::now() + CONFIRM_AFTER);
                is_armed = true;
            }
            if due.is_none() {
                tokio::select! {
                    biased;
                    () = &mut replaced => return Ok(()),
                    read = stream.read(&mut chunk) => match read? {
                        0 if pieces.0.is_empty() => return Ok(()),
                        0 => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                        len => pieces.0.extend_from_slice(&chunk[..len]),
                    },
                    () = &mut alarm, if is_armed => {
                        is_armed = false;
                        due = reader.watermark(true);
                    }
                }
            }
            if let Some(watermark) = due {
                let told = async {
                    stream.write_all(&watermark.to_le_bytes()).await?;
                    stream.flush().await
                };
                tokio::select! {
                    biased;
                    () = &mut replaced => return Ok(()),
                    told = told => told?,
                }
            }
        }
    }

    /// Hands a frame on, all of it, unless it was handed on before.
    async fn hand_on(
        &self,
        node: NodeId,
        reader: &mut LinkReader,
        header: FrameHeader,
        payload: Bytes,
    ) -> Result<(), InletError> {
        if !reader.is_new(header.sequence)? {
            return Ok(());
        }
        let len = payload.len();
        let frame = Frame::new(header, payload)?;
        match header.kind {
            FrameKind::Batches => {
                for batch in frame {
                    let (header, body) = batch?;
                    if header.kind == BatchKind::Replicate {
                        self.replicas.arrived(node, &header, body).await;
                        continue;
                    }
                    let container = self.containers.get(usize::from(header.to));
                    let container = container.ok_or(InletError::Container(header.to))?;
                    deliver(container, Input::Arrived(node, header, body)).await;
                }
            }
            FrameKind::Credits => {
                for (credit, rows, weight) in credits_of(&frame.into_payload())? {
                    if let Some(container) = self.containers.get(usize::from(credit.from)) {
                        deliver(container, Input::Credited { node, credit, rows, weight }).await;
                    }
                }
            }
            FrameKind::Farewell => {
                self.notify(Notice::Core(crate::core::Input::Finished(node))).await;
            }
        }
        reader.taken(len);
        Ok(())
    }
}

async fn deliver(container: &Addr<ContainerActor>, input: Input) {
    if let Err(SendError::Full(message)) = container.try_send(Deliver(input)) {
        // An error says that the node ends.
        let _ = container.send(message).await;
    }
}
