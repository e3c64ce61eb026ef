//! A peer that can greet as a node does, and after that does what no node would.
//!
//! It is written against the bytes and shares with the engine only what both sides must encode alike:
//! the greeting itself. What is laid out by hand there is laid out by hand here a second time.

use std::net::SocketAddr;

use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::swarm::SwarmEvent;
use libp2p::{Multiaddr, PeerId, Stream, StreamProtocol, SwarmBuilder, noise, tcp, yamux};
use membership::{Member, NodeId, Run};
use node::{Hello, Refused};
use routing::{KEY_HASH, codec};
use tokio::runtime::Runtime;

use super::support::{Node, PATIENCE};

/// Which kind of stream.
pub(crate) const CONTROL: StreamProtocol = StreamProtocol::new("/starling/control");
/// Which kind of stream.
pub(crate) const DATA: StreamProtocol = StreamProtocol::new("/starling/data");

/// How a greeting begins in the version that nodes speak.
pub(crate) const PREAMBLE: [u8; 6] = *b"SCTL\x04\x00";

/// Someone with a key, but no node.
pub(crate) struct Peer {
    runtime: Runtime,
    keypair: Keypair,
}

/// A connection to a node.
pub(crate) struct Line<'p> {
    peer: &'p Peer,
    streams: libp2p_stream::Control,
    node: PeerId,
}

impl Peer {
    pub(crate) fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        Self { runtime, keypair: Keypair::generate_ed25519() }
    }

    /// Connects to where a node listens.
    pub(crate) fn connect(&self, address: &str) -> Line<'_> {
        let address: SocketAddr = address.parse().unwrap();
        let address = Multiaddr::from(address.ip()).with(Protocol::Tcp(address.port()));
        let (streams, node) = self.wait_for("a connection", async {
            let mut swarm = SwarmBuilder::with_existing_identity(self.keypair.clone())
                .with_tokio()
                .with_tcp(tcp::Config::default(), noise::Config::new, yamux::Config::default)
                .unwrap()
                .with_behaviour(|_| libp2p_stream::Behaviour::new())
                .unwrap()
                .with_swarm_config(|c| c.with_idle_connection_timeout(PATIENCE))
                .build();
            swarm.dial(address).unwrap();
            let node = loop {
                let event = swarm.select_next_some().await;
                if let SwarmEvent::ConnectionEstablished { peer_id, .. } = event {
                    break peer_id;
                }
                if let SwarmEvent::OutgoingConnectionError { error, .. } = event {
                    panic!("{error}");
                }
            };
            let streams = swarm.behaviour().new_control();
            // It runs until the runtime ends, with the peer.
            self.runtime.spawn(async move { while swarm.next().await.is_some() {} });
            (streams, node)
        });
        Line { peer: self, streams, node }
    }

    /// What a node would say in its place, to be a member where that node is one.
    pub(crate) fn hello(&self, node: &Node) -> Hello {
        let (id, status) = (self.keypair.public().to_peer_id().to_bytes(), node.status());
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 9));
        let topologies = status.topologies.into_iter();
        let hash = |text: &str| u64::from_str_radix(text, 16).unwrap();
        Hello {
            member: Member {
                node: NodeId(xxhash_rust::xxh3::xxh3_64(&id)),
                run: Run(1),
                peer: id,
                control: nowhere,
                data: nowhere,
                http: None,
                containers: 1,
            },
            cluster: status.cluster,
            cluster_id: None,
            slots: status.slots,
            is_durable: false,
            key_hash: KEY_HASH.to_owned(),
            topologies: topologies.map(|one| (one.name, hash(&one.hash))).collect(),
        }
    }

    /// What a data stream begins with: our run, the number of the link and of the stream, and the run of
    /// the node.
    pub(crate) fn data_hello(&self, node: &Node, link: u64) -> Vec<u8> {
        [1, link, 1, node.status().run].iter().flat_map(|word: &u64| word.to_le_bytes()).collect()
    }

    fn wait_for<T>(&self, what: &str, done: impl Future<Output = T>) -> T {
        let within = self.runtime.block_on(async { tokio::time::timeout(PATIENCE, done).await });
        within.unwrap_or_else(|_| panic!("waited {PATIENCE:?} for {what}"))
    }
}

/// A message behind its length, as control streams have them.
pub(crate) fn message<T: serde::Serialize>(value: &T) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    codec::encode(value, &mut bytes).unwrap();
    let len = u32::try_from(bytes.len() - 4).unwrap();
    bytes[..4].copy_from_slice(&len.to_le_bytes());
    bytes
}

impl Line<'_> {
    /// Opens a stream and writes something on it.
    pub(crate) fn open(&self, protocol: StreamProtocol, bytes: &[u8]) -> Talk<'_> {
        let mut streams = self.streams.clone();
        let opened = streams.open_stream(self.node, protocol);
        let stream = self.peer.wait_for("a stream", opened).unwrap();
        let mut talk = Talk { peer: self.peer, stream };
        talk.say(bytes);
        talk
    }

    /// Greets, and gives what came of it: the stream, or why the node does not want us.
    pub(crate) fn greet(&self, hello: &Hello) -> Result<Talk<'_>, Refused> {
        let mut talk = self.open(CONTROL, &[&PREAMBLE[..], &message(hello)].concat());
        assert_eq!(talk.hear(6), PREAMBLE);
        let len = u32::from_le_bytes(talk.hear(4).try_into().unwrap());
        let answer = talk.hear(len as usize);
        // The number of the variant, then what it holds.
        let (variant, inner) = answer.split_at(4);
        match variant {
            [0, 0, 0, 0] => Ok(talk),
            [1, 0, 0, 0] => Err(codec::decode(inner).unwrap()),
            _ => panic!("an answer of another kind: {answer:02x?}"),
        }
    }
}

/// A stream.
pub(crate) struct Talk<'p> {
    peer: &'p Peer,
    stream: Stream,
}

impl Talk<'_> {
    /// Writes; a node that has ended the stream already need not hear it.
    pub(crate) fn say(&mut self, bytes: &[u8]) {
        let said = async {
            let _ = self.stream.write_all(bytes).await;
            let _ = self.stream.flush().await;
        };
        self.peer.wait_for("bytes to be written", said);
    }

    pub(crate) fn hear(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.peer.wait_for("an answer", self.stream.read_exact(&mut bytes)).unwrap();
        bytes
    }

    /// Ends what we say.
    pub(crate) fn close(&mut self) {
        // As above.
        let _ = self.peer.wait_for("a stream to close", self.stream.close());
    }

    /// Waits until the node has ended the stream; what it said before.
    pub(crate) fn hear_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        // It may also be reset, which is as good an end.
        let _ = self.peer.wait_for("the end of a stream", self.stream.read_to_end(&mut bytes));
        bytes
    }
}
