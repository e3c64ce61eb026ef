//! What drives a node on a real machine.
//!
//! Nothing is decided here. The network has tokio runtimes of its own, since beside busy actors its
//! round trips go from microseconds to milliseconds; and control has one apart from data, or a node
//! whose links are full would answer late and be taken for dead. The containers have an arbiter each;
//! HTTP has a thread as well. The order in which all that ends is written down in [`run`].

mod actor;
mod clock;
mod data_links;
mod dead_letters;
mod driver;
mod http;
mod identity;
mod inlets;
mod journal;
mod links;
mod look;
mod net;
mod replicas;
mod room;
mod shipped;
mod sinks;
mod spills;
mod spouts;
mod tables;
mod watch;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use actix::prelude::*;
use libp2p::PeerId;
use libp2p::pnet::PreSharedKey;
use membership::view_log::{self, ClusterId, Founding, LogId, Start, ViewLog};
use membership::{Member, Membership, Time};
use pe::topology::Plan;
use pe::{Container, Home, Layout, Phase, Registry, active_containers, spread_tasks};
use tokio::sync::{mpsc, oneshot};

use self::actor::{ContainerActor, Meet};
use self::clock::Clock;
use self::dead_letters::DeadLetters;
pub use self::dead_letters::KeptLetter;
use self::driver::{Driver, Inbox, Notice};
pub use self::http::TreeHolder;
use self::identity::Identity;
pub use self::identity::TOKEN_FILE;
use self::links::{Links, Shared};
pub use self::look::{InstanceHolder, InstanceView, LookOf};
use self::net::{Net, Side};
use self::replicas::Replicas;
use self::shipped::shipped;
use self::tables::Tables;
use self::watch::Watch;
use crate::config::{Durability, NodeConfig};
use crate::core::{Assignment, NodeCore, Setup};

/// Notices that may wait for the driver.
const NOTICES: usize = 1 << 16;

/// How a node ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It was told to leave, and left nothing behind.
    Left,
}

/// Why a node could not start, or ended otherwise than it should.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunError {
    /// A file or directory cannot be used. Nothing was started.
    Disk(PathBuf, String),
    /// Another process has the data directory. Nothing was started.
    InUse(PathBuf),
    /// The cluster key is none. Nothing was started.
    Key(PathBuf, String),
    /// What is allowed is not the name of a peer. Nothing was started.
    Peer(String),
    /// An address cannot be listened at. Nothing was started.
    Listen(SocketAddr, String),
    /// A member does not take this node; the cluster is as it was.
    Refused(membership::NodeId, String),
    /// A later life of this node is in the cluster, with this data directory or another.
    Superseded,
    /// The cluster that the data directory belongs to is not one that this node can be in.
    Unfit(String),
    /// The node left, but some of its events were not confirmed in time.
    DrainLimit(u64),
    /// The node left while no other member could be reached: what it had is with replicas or on its disk, or lost.
    LeftAlone,
    /// The node was told to stop a second time before it had left.
    Forced,
}

impl RunError {
    fn disk(path: &Path, error: &std::io::Error) -> Self {
        Self::Disk(path.to_owned(), error.to_string())
    }

    /// The exit code of the contract.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Disk(..) | Self::InUse(_) | Self::Listen(..) | Self::Forced => 1,
            Self::Key(..) | Self::Peer(_) => 78,
            Self::Refused(..) | Self::Superseded | Self::Unfit(_) => 69,
            Self::DrainLimit(_) | Self::LeftAlone => 75,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disk(path, why) => write!(f, "{}: {why}", path.display()),
            Self::InUse(path) => {
                write!(f, "{}: another node uses this data directory", path.display())
            }
            Self::Key(path, why) => write!(f, "{}: not a cluster key: {why}", path.display()),
            Self::Peer(name) => write!(f, "`cluster.allow`: {name} is not the name of a peer"),
            Self::Listen(address, why) => write!(f, "cannot listen at {address}: {why}"),
            Self::Superseded => f.write_str(
                "a later start of this node is in the cluster (a copied data directory?)",
            ),
            Self::Unfit(why) => write!(f, "the data directory belongs to another cluster: {why}"),
            Self::Refused(node, why) => write!(f, "refused by node {node}: {why}"),
            Self::DrainLimit(0) => f.write_str("forced: the time to leave was up"),
            Self::DrainLimit(events) => {
                write!(f, "forced: the time to leave was up, {events} events were not confirmed")
            }
            Self::LeftAlone => f.write_str(
                "left without giving away what it had: no other member could be reached",
            ),
            Self::Forced => f.write_str("forced: told to stop twice"),
        }
    }
}

impl std::error::Error for RunError {}

/// What a program can do: its types, and what its table sinks share with HTTP.
#[derive(Debug)]
pub struct Program {
    /// The types that topologies may name.
    pub registry: Registry,
    tables: Arc<Tables>,
}

impl Default for Program {
    /// The shipped spouts and sinks: `text-files`, `lines` and `generator`, `stdout`, `text-file` and
    /// `table`.
    fn default() -> Self {
        let tables = Arc::default();
        Self { registry: shipped(&tables), tables }
    }
}

/// Runs a node until it has left, on this thread and those it starts.
///
/// `plans` were made with the catalog of the program's registry.
///
/// # Errors
/// See [`RunError`].
pub fn run(config: NodeConfig, program: Program, plans: Vec<Plan>) -> Result<Exit, RunError> {
    let identity = Identity::open(&config.data_dir)?;
    let key = config.cluster.key_file.as_deref().map(read_key).transpose()?;
    let http = TcpListener::bind(config.http)
        .map_err(|error| RunError::Listen(config.http, error.to_string()))?;
    let network =
        Network { control: threads("starling-control", 1)?, data: threads("starling-data", 2)? };
    let keypair = &identity.keypair;
    let allowed = config.cluster.allow.as_deref().map(peers).transpose()?;
    let allowed = allowed.as_deref();
    let control = network.control.block_on(Net::listen(keypair, key, allowed, config.listen))?;
    let data = network.data.block_on(Net::listen(keypair, key, allowed, config.listen_data))?;
    let http_address =
        http.local_addr().map_err(|error| RunError::disk(Path::new("http"), &error))?;
    let me = Member {
        node: identity.node(),
        run: identity.run,
        peer: identity.peer().to_bytes(),
        control: config.advertise.unwrap_or(control.address),
        data: config.advertise_data.unwrap_or(data.address),
        http: Some(http_address),
        containers: u16::try_from(config.containers).expect("config bounds the containers"),
    };
    let listens = Member { control: control.address, data: data.address, ..me.clone() };
    write_addresses(&config.data_dir, &listens, identity.peer())?;
    let mut plans: Vec<_> = plans.into_iter().map(Arc::new).collect();
    plans.sort_by(|one, two| one.name.cmp(&two.name));
    tracing::info!(node = %me.node, run = me.run.0, control = %control.address, data = %data.address,
        http = %http_address, peer = %identity.peer(), cluster = config.cluster.name, "listening");
    let system = System::new();
    let outcome = system.block_on(start(Parts {
        config,
        program,
        plans,
        me,
        identity,
        control,
        data,
        http,
        network: &network,
    }));
    // The driver has ended: containers, HTTP and their threads are stopped; what is left is the network,
    // whose tasks wait for bytes that nobody needs any more.
    network.data.shutdown_timeout(Duration::from_secs(1));
    network.control.shutdown_timeout(Duration::from_secs(1));
    outcome
}

/// The threads of the network.
struct Network {
    control: tokio::runtime::Runtime,
    data: tokio::runtime::Runtime,
}

fn threads(name: &str, count: usize) -> Result<tokio::runtime::Runtime, RunError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let built = builder.worker_threads(count).thread_name(name).enable_all().build();
    built.map_err(|error| RunError::disk(Path::new(name), &error))
}

/// What a node is put together from.
struct Parts<'n> {
    config: NodeConfig,
    program: Program,
    plans: Vec<Arc<Plan>>,
    me: Member,
    identity: Identity,
    control: Net,
    data: Net,
    http: TcpListener,
    network: &'n Network,
}

async fn start(parts: Parts<'_>) -> Result<Exit, RunError> {
    let Parts { config, program, plans, me, identity, control, data, http, network } = parts;
    let Program { registry, tables } = program;
    let registry = Arc::new(registry);
    spills::clear(&config.data_dir)
        .map_err(|error| RunError::disk(&config.data_dir.join("spill"), &error))?;
    let (clock, links) = (Clock::start(), Arc::new(Links::default()));
    let (notices, notice_queue) = mpsc::channel(NOTICES);
    let (askers, asker_queue) = mpsc::channel(64);
    let arbiters: Vec<_> = (0..config.containers).map(|_| Arbiter::new()).collect();
    let first = first_layout(&me, &config, &plans);
    let is_durable = config.cluster.durability == Durability::Fsync;
    let clean_after = is_durable.then_some(u64::from(config.journal_mib) << 20);
    let opened = replicas::open(&config.data_dir, clean_after, identity.run, Arc::clone(&first))?;
    let stored_since = opened.since;
    let replicas = Replicas::start(opened, Arc::clone(&links), notices.clone());
    let activities: Vec<_> = arbiters.iter().map(|_| pe::Activity::default()).collect();
    let containers: Arc<[_]> = (0..)
        .zip(arbiters.iter().zip(activities.clone()))
        .map(|(number, (arbiter, activity))| {
            let (registry, plans, first) =
                (Arc::clone(&registry), plans.clone(), Arc::clone(&first));
            let (links, notices) = (Arc::clone(&links), notices.clone());
            let (data_dir, replicas) = (config.data_dir.clone(), replicas.clone());
            ContainerActor::start_in_arbiter(&arbiter.handle(), move |ctx: &mut Context<_>| {
                let (waker, is_woken) = actor::waker(ctx.address());
                let mut container = Container::new(number, first, &registry, &plans, waker);
                container.show_activity(activity);
                let spills = actor::spills(ctx.address(), &data_dir, number);
                let ways = (links, replicas, notices);
                ContainerActor::new(container, number, ways, clock, is_woken, spills)
            })
        })
        .collect();
    replicas.meet(Arc::clone(&containers));
    for container in containers.iter() {
        // An error says that the arbiter is gone; then the node ends soon.
        let _ = container.send(Meet(Arc::clone(&containers))).await;
    }
    let setup = Setup {
        cluster: config.cluster.name.clone(),
        slots: config.cluster.slots,
        expected_nodes: config.cluster.expected_nodes,
        replicas: config.cluster.replicas,
        is_durable,
        plans: plans.clone(),
    };
    // Not the faster preset, even on one machine: its nodes share processors that may all be busy.
    let gossip = membership::Config::lan();
    let membership = Membership::new(me, gossip, rand::random()).expect("the preset is valid");
    let record_file = identity::record_file(&config.data_dir);
    let log_id = LogId::unsynced(identity.disk, identity.run);
    let start = Start {
        member: membership.me().clone(),
        log: log_id,
        record: identity.record.clone(),
        founding: config.bootstrap.then(|| Founding {
            cluster: ClusterId(rand::random()),
            body: Assignment::first(&setup, membership.me(), log_id),
            nodes: Vec::new(),
        }),
        seed: rand::random(),
    };
    let log = ViewLog::new(start, view_log_config())
        .map_err(|error| RunError::Disk(record_file.clone(), error.to_string()))?;
    let mut core = NodeCore::new(setup, membership, log, log_id);
    if let Some(since) = stored_since {
        core.stored(since);
    }
    if let Some(offsets) = identity.offsets.clone()
        && !core.restore(offsets)
    {
        tracing::warn!(
            "the partitions that this node read were of other topologies: they are not read on"
        );
    }
    let letters = Arc::new(DeadLetters::open(&config.data_dir)?);
    let (control_swarm, control_commands) = mpsc::channel(256);
    let (data_swarm, data_commands) = mpsc::channel(256);
    let (events, net) = mpsc::channel(1024);
    let shared = Shared {
        replicas,
        links,
        notices: notices.clone(),
        hello: Arc::new(RwLock::new(core.hello())),
        control_streams: control.streams.clone(),
        data_streams: data.streams.clone(),
        data_swarm,
        data_threads: network.data.handle().clone(),
        containers: Arc::clone(&containers),
    };
    network.control.spawn(shared.clone().accept_control());
    network.data.spawn(shared.clone().accept_data());
    let listens = control.address;
    network.control.spawn(control.run(Side::Control, control_commands, events.clone()));
    network.data.spawn(data.run(Side::Data, data_commands, events));
    let driver = Driver {
        core,
        listens,
        clock,
        shared,
        registry,
        plans,
        control_swarm,
        containers,
        seeds: config.join.clone(),
        wanted: BTreeMap::new(),
        connected: BTreeSet::new(),
        dialled: BTreeMap::new(),
        at: BTreeMap::new(),
        failed_handshakes: 0,
        tell_handshakes: Time::default(),
        rejected: 0,
        tell_rejected: Time::default(),
        next_seeds: Time::default(),
        seed_rounds: 0,
        failed_dials: 0,
        is_stopping: false,
        record_file,
        data_dir: config.data_dir.clone(),
        questions: BTreeMap::new(),
        next_question: 0,
        looks: BTreeMap::new(),
        letters: Arc::clone(&letters),
        watch: Watch::new(activities),
        outcome: None,
    };
    let inbox = Inbox { notices: notice_queue, net, askers: asker_queue };
    let (done, outcome) = oneshot::channel();
    network.control.spawn(async move {
        // An error says that nobody waits, and that cannot be: see below.
        let _ = done.send(driver.run(inbox).await);
    });
    network.control.spawn(signals(notices.clone()));
    if config.exit_with_stdin {
        network.control.spawn(stdin_closed(notices.clone()));
    }
    let (orders, token) = (notices.clone(), identity.token.clone());
    let doors = http::Doors { status: askers, orders, token, letters };
    let server = http::serve(http, tables, doors);
    let handle = server.handle();
    actix::spawn(server);
    let outcome = outcome.await.expect("the driver ends with an outcome");
    handle.stop(false).await;
    for arbiter in arbiters {
        arbiter.stop();
        // A node that is forced does not wait: it may be a handler that never returns. Its threads end
        // with the process.
        if outcome.is_ok() && arbiter.join().is_err() {
            tracing::error!("the thread of a container panicked");
        }
    }
    outcome
}

/// Gossip has waited before it says that a member is gone, and is rarely wrong by a closed connection; so
/// the view log waits less than its preset before it believes that.
fn view_log_config() -> view_log::Config {
    view_log::Config { stable_after: Duration::from_millis(400), ..view_log::Config::lan() }
}

/// What the containers have before there is a view: themselves, and nothing runs.
fn first_layout(me: &Member, config: &NodeConfig, plans: &[Arc<Plan>]) -> Arc<Layout> {
    let epoch = membership::Epoch(0);
    let place = pe::Place {
        node: me.node,
        since: epoch,
        containers: me.containers,
        number: 1,
        is_drained: false,
        is_active: true,
    };
    let slots = vec![Home::first(me.node); config.cluster.slots as usize];
    let places = vec![place];
    let tasks = spread_tasks(plans, &active_containers(&places));
    let phases = vec![Phase::Waiting; plans.len()];
    Arc::new(Layout::new(epoch, me.node, places, slots, tasks, plans, phases))
}

fn read_key(path: &Path) -> Result<PreSharedKey, RunError> {
    let text = std::fs::read_to_string(path).map_err(|error| RunError::disk(path, &error))?;
    text.parse().map_err(|_| {
        let form = "three lines: /key/swarm/psk/1.0.0/, /base16/ and 64 hexadecimal digits";
        RunError::Key(path.to_owned(), form.to_owned())
    })
}

/// The peers of a list.
fn peers(names: &[String]) -> Result<Vec<PeerId>, RunError> {
    let peer = |name: &String| name.parse().map_err(|_| RunError::Peer(name.clone()));
    names.iter().map(peer).collect()
}

/// Where the node really listens, for scripts: ports may have been left to the system.
fn write_addresses(folder: &Path, me: &Member, peer: PeerId) -> Result<(), RunError> {
    let text = serde_json::json!({
        "node": me.node.to_string(),
        "peer": peer.to_string(),
        "pid": std::process::id(),
        "control": me.control,
        "data": me.data,
        "http": me.http,
    });
    identity::write_synced(&folder.join("addresses.json"), format!("{text}\n").as_bytes())
}

async fn signals(notices: mpsc::Sender<Notice>) {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let [Ok(mut terminate), Ok(mut interrupt)] = signals else {
        tracing::error!("signals cannot be caught: SIGTERM will end the node at once");
        return;
    };
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if notices.send(Notice::Stop).await.is_err() {
            return;
        }
    }
}

/// Stops the node when its standard input is closed: so it does not outlive a parent that cannot tell.
async fn stdin_closed(notices: mpsc::Sender<Notice>) {
    let end = tokio::task::spawn_blocking(|| {
        std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())
    });
    // However it ends, the parent is not there any more.
    let _ = end.await;
    let _ = notices.send(Notice::Stop).await;
}
