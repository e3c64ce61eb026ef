//! Two swarms: one for control messages, one for events.
//!
//! One connection is one task and one core, and a round trip beside a bulk stream takes milliseconds: so
//! what is urgent and small has a connection of its own. A swarm here dials, listens and reports; the
//! streams on its connections are opened and read elsewhere.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "what a swarm can report and an address can say is for libp2p to add to"
)]

use std::error::Error as _;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use futures::StreamExt;
use libp2p::allow_block_list::{self, AllowedPeers, NotAllowed};
use libp2p::connection_limits::{self, ConnectionLimits};
use libp2p::core::Transport;
use libp2p::core::transport::TransportError;
use libp2p::core::upgrade::Version;
use libp2p::identity::Keypair;
use libp2p::multiaddr::Protocol;
use libp2p::pnet::{PnetConfig, PreSharedKey};
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{self, DialError, ListenError, NetworkBehaviour, Swarm, SwarmEvent};
use libp2p::{Multiaddr, PeerId, noise, tcp, yamux};
use tokio::sync::{mpsc, oneshot};

use super::RunError;

/// How long a handshake may take, from the first byte to the end of Noise and Yamux.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);

/// Connections without a stream are closed after this.
const IDLE_LIMIT: Duration = Duration::from_secs(30);

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Control,
    Data,
}

/// What a swarm is told to do.
#[derive(Debug)]
pub(super) enum Command {
    Dial(SocketAddr, Option<PeerId>),
    /// Have a connection to a peer, and say when one is being made: a stream that is asked for before would
    /// fail for want of an address.
    Connect(SocketAddr, PeerId, oneshot::Sender<()>),
    /// The same, but close all that there are and make another.
    Reconnect(SocketAddr, PeerId, oneshot::Sender<()>),
}

/// What a swarm reports.
#[derive(Debug)]
pub(super) enum NetEvent {
    /// To whom, and at which address if it was dialled.
    Connected(PeerId, Option<SocketAddr>),
    Disconnected(PeerId),
    /// Who was dialled there has the very key of this node.
    Itself(SocketAddr),
    DialFailed {
        peer: Option<PeerId>,
        is_refused: bool,
        text: String,
    },
    HandshakeFailed {
        from: String,
        text: String,
    },
    /// A peer that is not on the list has connected, or was connected to.
    NotAllowed(PeerId),
}

#[derive(NetworkBehaviour)]
struct Behaviour {
    streams: libp2p_stream::Behaviour,
    limits: connection_limits::Behaviour,
    /// Off where no list is given.
    allowed: Toggle<allow_block_list::Behaviour<AllowedPeers>>,
}

/// A swarm and where it listens.
pub(super) struct Net {
    swarm: Swarm<Behaviour>,
    pub(super) address: SocketAddr,
    pub(super) streams: libp2p_stream::Control,
}

impl Net {
    /// Listens at an address; port 0 takes any free port. Only `allowed` may connect, if there is a list.
    pub(super) async fn listen(
        keypair: &Keypair,
        key: Option<PreSharedKey>,
        allowed: Option<&[PeerId]>,
        address: SocketAddr,
    ) -> Result<Self, RunError> {
        let mut swarm = swarm(keypair, key, allowed);
        let failed = |text: String| RunError::Listen(address, text);
        // libp2p would share the port with whoever listens there already, and each would get some of the
        // connections of the other.
        drop(TcpListener::bind(address).map_err(|error| failed(error.to_string()))?);
        swarm.listen_on(multiaddr(address)).map_err(|error| failed(innermost(&error)))?;
        let address = loop {
            match swarm.select_next_some().await {
                SwarmEvent::NewListenAddr { address, .. } => {
                    break socket_addr(&address).expect("it listens at TCP addresses only");
                }
                SwarmEvent::ListenerClosed { reason: Err(error), .. } => {
                    return Err(failed(error.to_string()));
                }
                _ => {}
            }
        };
        let streams = swarm.behaviour().streams.new_control();
        Ok(Self { swarm, address, streams })
    }

    /// Drives the swarm until nobody commands it any more.
    pub(super) async fn run(
        mut self,
        side: Side,
        mut commands: mpsc::Receiver<Command>,
        events: mpsc::Sender<(Side, NetEvent)>,
    ) {
        loop {
            let event = tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => return,
                },
                event = self.swarm.select_next_some() => noticed(event),
            };
            if let Some(event) = event
                && events.send((side, event)).await.is_err()
            {
                return;
            }
        }
    }

    fn obey(&mut self, command: Command) -> Option<NetEvent> {
        let to_peer = |address, peer, condition| {
            let options = DialOpts::peer_id(peer).condition(condition);
            options.addresses(vec![multiaddr(address)]).build()
        };
        let (options, peer, done) = match command {
            Command::Dial(address, Some(peer)) => {
                (to_peer(address, peer, PeerCondition::DisconnectedAndNotDialing), Some(peer), None)
            }
            Command::Dial(address, None) => {
                (DialOpts::unknown_peer_id().address(multiaddr(address)).build(), None, None)
            }
            Command::Connect(address, peer, done) => {
                let condition = PeerCondition::DisconnectedAndNotDialing;
                (to_peer(address, peer, condition), Some(peer), Some(done))
            }
            Command::Reconnect(address, peer, done) => {
                // An error says that there are none. Those that are dead may take long to close.
                let _ = self.swarm.disconnect_peer_id(peer);
                (to_peer(address, peer, PeerCondition::NotDialing), Some(peer), Some(done))
            }
        };
        let failed = match self.swarm.dial(options) {
            Ok(()) | Err(DialError::DialPeerConditionFalse(_)) => None,
            Err(error) => Some(dial_failed(peer, &error)),
        };
        // Nobody need wait for it.
        let _ = done.map(|done| done.send(()));
        failed
    }
}

fn swarm(
    keypair: &Keypair,
    key: Option<PreSharedKey>,
    allowed: Option<&[PeerId]>,
) -> Swarm<Behaviour> {
    let tcp = tcp::tokio::Transport::new(tcp::Config::default().nodelay(true));
    let noise = noise::Config::new(keypair).expect("an ed25519 key can sign");
    let transport = match key {
        Some(key) => tcp
            .and_then(move |socket, _| PnetConfig::new(key).handshake(socket))
            .upgrade(Version::V1Lazy)
            .authenticate(noise)
            .multiplex(yamux::Config::default())
            .timeout(HANDSHAKE_LIMIT)
            .boxed(),
        None => tcp
            .upgrade(Version::V1Lazy)
            .authenticate(noise)
            .multiplex(yamux::Config::default())
            .timeout(HANDSHAKE_LIMIT)
            .boxed(),
    };
    // Whoever has the key may connect; these bound what anybody can make us hold.
    let limits = ConnectionLimits::default()
        .with_max_pending_incoming(Some(64))
        .with_max_pending_outgoing(Some(256))
        .with_max_established_incoming(Some(2048))
        .with_max_established_per_peer(Some(8));
    let allowed = allowed.map(|peers| {
        let mut list = allow_block_list::Behaviour::<AllowedPeers>::default();
        peers.iter().for_each(|peer| {
            list.allow_peer(*peer);
        });
        list
    });
    let behaviour = Behaviour {
        allowed: allowed.into(),
        streams: libp2p_stream::Behaviour::new(),
        limits: connection_limits::Behaviour::new(limits),
    };
    let config = swarm::Config::with_tokio_executor().with_idle_connection_timeout(IDLE_LIMIT);
    Swarm::new(transport, behaviour, keypair.public().to_peer_id(), config)
}

fn noticed(event: SwarmEvent<BehaviourEvent>) -> Option<NetEvent> {
    match event {
        SwarmEvent::ConnectionEstablished { peer_id, endpoint, .. } => {
            let dialled = endpoint.is_dialer().then(|| socket_addr(endpoint.get_remote_address()));
            Some(NetEvent::Connected(peer_id, dialled.flatten()))
        }
        SwarmEvent::ConnectionClosed { peer_id, num_established: 0, .. } => {
            Some(NetEvent::Disconnected(peer_id))
        }
        SwarmEvent::OutgoingConnectionError {
            error: DialError::LocalPeerId { address }, ..
        } => socket_addr(&address).map(NetEvent::Itself),
        SwarmEvent::OutgoingConnectionError {
            peer_id: Some(peer),
            error: DialError::Denied { cause },
            ..
        } if is_not_allowed(&cause) => Some(NetEvent::NotAllowed(peer)),
        SwarmEvent::IncomingConnectionError {
            peer_id: Some(peer),
            error: ListenError::Denied { cause },
            ..
        } if is_not_allowed(&cause) => Some(NetEvent::NotAllowed(peer)),
        SwarmEvent::OutgoingConnectionError { peer_id, error, .. } => {
            Some(dial_failed(peer_id, &error))
        }
        // The other end of having dialled ourselves; or a copy of us that is about to be told.
        SwarmEvent::IncomingConnectionError { error: ListenError::LocalPeerId { .. }, .. } => None,
        SwarmEvent::IncomingConnectionError { send_back_addr, error, .. } => {
            let (from, text) = (send_back_addr.to_string(), innermost(&error));
            Some(NetEvent::HandshakeFailed { from, text })
        }
        _ => None,
    }
}

/// Whether a connection was denied by the list, and not by a limit.
fn is_not_allowed(cause: &swarm::ConnectionDenied) -> bool {
    cause.source().is_some_and(|cause| cause.is::<NotAllowed>())
}

fn dial_failed(peer: Option<PeerId>, error: &DialError) -> NetEvent {
    let (mut is_refused, mut text) = (false, innermost(error));
    if let DialError::Transport(errors) = error {
        for (_, error) in errors {
            text = innermost(error);
            is_refused |= matches!(error, TransportError::Other(_)) && text.contains("refused");
        }
    }
    NetEvent::DialFailed { peer, is_refused, text }
}

/// The text of the error at the bottom: what libp2p wraps around it says less.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn multiaddr(address: SocketAddr) -> Multiaddr {
    Multiaddr::from(address.ip()).with(Protocol::Tcp(address.port()))
}

fn socket_addr(address: &Multiaddr) -> Option<SocketAddr> {
    let mut parts = address.iter();
    let ip = match parts.next()? {
        Protocol::Ip4(ip) => ip.into(),
        Protocol::Ip6(ip) => ip.into(),
        _ => return None,
    };
    match parts.next()? {
        Protocol::Tcp(port) => Some(SocketAddr::new(ip, port)),
        _ => None,
    }
}
