//! What a split of the network does to a cluster: only one side may go on deciding, nobody forms a second
//! cluster, and when it heals all are one again.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/hosts.rs"]
mod hosts;
mod support;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hosts::Hosts;
use starling::cli::Status;
use support::Node;

/// One test at a time: what is too busy looks like what is cut off.
static TURN: Mutex<()> = Mutex::new(());

/// How often a link flaps.
const FLAPS: u64 = 5;

/// Five nodes, each on a host of its own, that play text for ever.
struct Ground {
    nodes: Vec<Node>,
    hosts: Hosts,
    folder: PathBuf,
    /// Given back last.
    _turn: MutexGuard<'static, ()>,
}

impl Ground {
    /// Nothing, where hosts cannot be made.
    #[track_caller]
    fn new(test: &str, number: u8) -> Option<Self> {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = hosts::unavailable() {
            support::skip(&format!("no network namespaces ({why})"));
            return None;
        }
        let hosts = Hosts::new(number, 5);
        let folder = support::folder(test);
        let mut ground = Self { _turn: turn, hosts, folder, nodes: Vec::new() };
        for host in 0..5 {
            let node = ground.start(host);
            ground.nodes.push(node);
        }
        ground.agree(&[0, 1, 2, 3, 4]);
        // By then all partitions have readers, and there is no reason for another view.
        ground.flow(&[0, 1, 2, 3, 4]);
        Some(ground)
    }

    #[track_caller]
    fn start(&self, host: usize) -> Node {
        let topology = self.folder.join("top-words.toml");
        if !topology.exists() {
            support::top_words(&self.folder, &support::corpus(), ", repeat = 1000000");
        }
        let (address, near) = (self.hosts.address(host), self.hosts.near_address(host));
        let mut arguments = vec![
            "--insecure".to_owned(),
            "--topology".to_owned(),
            topology.to_str().unwrap().to_owned(),
            "--containers".to_owned(),
            "1".to_owned(),
            "--expected-nodes".to_owned(),
            "5".to_owned(),
            "--listen".to_owned(),
            format!("{address}:7400"),
            "--listen-data".to_owned(),
            format!("{address}:7401"),
            "--http".to_owned(),
            format!("{near}:7700"),
        ];
        if host == 0 {
            arguments.push("--bootstrap".to_owned());
        } else {
            arguments.extend(["--join".to_owned(), format!("{}:7400", self.hosts.address(0))]);
        }
        let program = self.hosts.command(host, &support::starling());
        Node::start(program, &self.folder.join(host.to_string()), arguments)
    }

    fn status(&self, host: usize) -> Status {
        self.nodes[host].status()
    }

    fn of(&self, hosts: &[usize]) -> Vec<&Node> {
        hosts.iter().map(|&host| &self.nodes[host]).collect()
    }

    #[track_caller]
    fn agree(&self, hosts: &[usize]) -> u64 {
        support::agree(&self.of(hosts))
    }

    #[track_caller]
    fn flow(&self, hosts: &[usize]) {
        support::flow(&self.of(hosts));
    }

    /// Lets time pass, in milliseconds of the clock of a node.
    #[track_caller]
    fn pass(&self, millis: u64) {
        let since = self.status(0).uptime_ms;
        self.nodes[0].wait_to_show("later", |status| status.uptime_ms > since + millis);
    }

    #[track_caller]
    fn wait_for_degraded(&self, hosts: &[usize]) {
        for &host in hosts {
            self.nodes[host].wait_to_show("too few voters", |status| status.is_degraded);
            self.nodes[host].wait_to_say(&["degraded: too few voters are there"]);
        }
    }
}

#[test]
fn of_three_and_two_the_three_go_on_and_take_the_two_back() {
    let Some(ground) = Ground::new("split-3-2", 1) else { return };
    let before = ground.agree(&[0, 1, 2, 3, 4]);
    ground.hosts.split(&[&[0, 3, 4], &[1, 2]]);
    ground.wait_for_degraded(&[1, 2]);
    let after = ground.agree(&[0, 3, 4]);
    ground.flow(&[0, 3, 4]);
    for host in [1, 2] {
        let status = ground.status(host);
        assert_eq!(status.members.len(), 5, "who cannot decide goes by the last view");
        assert!(status.epoch <= after && status.epoch >= before);
    }
    ground.hosts.heal();
    let healed = ground.agree(&[0, 1, 2, 3, 4]);
    assert!(healed > after);
    for host in [1, 2] {
        ground.nodes[host].wait_to_say(&["fenced: the others went on without this node"]);
        ground.nodes[host].wait_to_say(&["enough voters are there again"]);
    }
    ground.flow(&[0, 1, 2, 3, 4]);
}

#[test]
fn of_two_one_and_two_nobody_decides_and_all_go_on_in_their_view_when_it_heals() {
    let Some(ground) = Ground::new("split-2-1-2", 2) else { return };
    let before = ground.agree(&[0, 1, 2, 3, 4]);
    ground.hosts.split(&[&[0, 1], &[2], &[3, 4]]);
    ground.wait_for_degraded(&[0, 1, 2, 3, 4]);
    for host in 0..5 {
        let status = ground.status(host);
        assert_eq!((status.epoch, status.members.len()), (before, 5), "no view without a majority");
    }
    ground.hosts.heal();
    ground.agree(&[0, 1, 2, 3, 4]);
    ground.flow(&[0, 1, 2, 3, 4]);
}

#[test]
fn what_goes_one_way_only_makes_few_views() {
    let Some(ground) = Ground::new("one-way", 3) else { return };
    let before = ground.agree(&[0, 1, 2, 3, 4]);
    ground.hosts.cut(1, 2, true);
    // Long enough for gossip to have made up its mind: it hears of the two through the others.
    ground.pass(10_000);
    ground.hosts.cut(1, 2, false);
    let after = ground.agree(&[0, 1, 2, 3, 4]);
    assert!(after - before <= 20, "{} views", after - before);
    ground.flow(&[0, 1, 2, 3, 4]);
}

/// Who is taken off again and again waits ever longer until it is let in: each turn costs a view without it, some while others
/// take over and copy what it had, and some while it comes in and gets its part.
#[test]
fn a_host_whose_links_flap_makes_few_views() {
    let Some(ground) = Ground::new("flapping", 4) else { return };
    let before = ground.agree(&[0, 1, 2, 3, 4]);
    for _ in 0..FLAPS {
        ground.hosts.split(&[&[0, 1, 2, 3], &[4]]);
        ground.nodes[0].wait_to_show("four members", |status| status.members.len() == 4);
        ground.hosts.heal();
        ground.pass(4_000);
    }
    let after = ground.agree(&[0, 1, 2, 3, 4]);
    let has_waited = |node: &Node| node.said(&["a node that comes and goes has to wait"]).is_some();
    assert!(ground.nodes[..4].iter().any(has_waited));
    // Some twelve each on a quiet machine; where messages are slow, what happens together is spread over more.
    assert!((1..=20 * FLAPS).contains(&(after - before)), "{} views", after - before);
    ground.flow(&[0, 1, 2, 3, 4]);
}
