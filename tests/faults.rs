//! Nodes are killed, stopped, started again and robbed of their disks, and the cluster goes on.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use support::ground::{Ground, path};
use support::{Node, agree, flow, wait_for};

/// One test at a time: each keeps all processors busy, and what is too busy looks like what is broken.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn in_doubt(nodes: &[Node]) -> u64 {
    nodes.iter().map(|node| node.status().topologies[0].in_doubt).sum()
}

#[track_caller]
fn all_agree(nodes: &[Node]) -> u64 {
    let all: Vec<_> = nodes.iter().collect();
    let epoch = agree(&all);
    flow(&all);
    epoch
}

/// The second that is killed is the one by which all came in.
#[test]
fn five_nodes_survive_two_kills_and_then_all_are_restarted_one_by_one() {
    let _turn = turn();
    let ground = Ground::new("kills", 5);
    let mut nodes = ground.nodes();
    for place in [3, 0] {
        let killed = nodes.remove(place);
        let name = killed.folder().file_name().unwrap().to_str().unwrap().to_owned();
        killed.kill();
        all_agree(&nodes);
        nodes.push(ground.start(&name, Some(&nodes[0])));
        all_agree(&nodes);
    }
    let doubt = in_doubt(&nodes);
    for _ in 0..5 {
        let node = nodes.remove(0);
        let name = node.folder().file_name().unwrap().to_str().unwrap().to_owned();
        let before = in_doubt(&nodes);
        let folder = node.folder().to_owned();
        let code = node.terminate().code();
        assert_eq!(code, Some(0), "{}", fs::read_to_string(folder.join("log")).unwrap());
        assert_eq!(in_doubt(&nodes), before, "who leaves confirms all it was given");
        nodes.push(ground.start(&name, Some(&nodes[0])));
        all_agree(&nodes);
    }
    assert!(doubt > 0, "what the killed had was in doubt");
    for node in &nodes {
        let topology = node.status().topologies.remove(0);
        assert_eq!(topology.dropped.len(), 0, "{:?}", topology.dropped);
    }
}

/// Lines with numbers, handed to the one node that reads them for as long as the test wants.
fn feed(listener: &TcpListener, is_over: &AtomicBool) -> u64 {
    listener.set_nonblocking(true).unwrap();
    let (mut reader, _) = wait_for("a node that reads", || listener.accept().ok());
    reader.set_nonblocking(false).unwrap();
    let (_nobody, pause) = mpsc::channel::<()>();
    let mut next = 0;
    while !is_over.load(Ordering::Relaxed) {
        let lines: String = (next..next + 8).map(|number| format!("{number}\n")).collect();
        reader.write_all(lines.as_bytes()).unwrap();
        next += 8;
        let _ = pause.recv_timeout(Duration::from_millis(2));
    }
    next
}

/// Each line is written at once and is on disk when its node is killed. So what is in no file was lost, and who sent it
/// has counted it. It may have counted more: some of what is in doubt was written.
#[test]
fn what_a_killed_node_did_not_apply_is_in_doubt() {
    let _turn = turn();
    let folder = support::folder("doubt");
    let (topology, listener) =
        (folder.join("doubt.toml"), TcpListener::bind("127.0.0.1:0").unwrap());
    let text = format!(
        r#"name = "doubt"
[spout.lines]
type = "lines"
params = {{ from = "tcp:{}", connect_seconds = 300 }}
emits = "lines"

[pe.out]
type = "text-file"
parallelism = 20
input = [{{ stream = "lines", grouping = "shuffle" }}]
params = {{ path = {:?}, append = true, format = "tsv" }}
"#,
        listener.local_addr().unwrap(),
        path(&folder.join("out.tsv")),
    );
    fs::write(&topology, text).unwrap();
    let ground = Ground { folder, topology, expected_nodes: 5 };
    let is_over = AtomicBool::new(false);
    let (sent, nodes) = thread::scope(|scope| {
        let fed = scope.spawn(|| feed(&listener, &is_over));
        let mut nodes = ground.nodes();
        for _ in 0..2 {
            let is_reader = |node: &Node| {
                node.status().topologies[0].spouts.iter().any(|spout| spout.emitted > 0)
            };
            let killed = nodes.iter().position(|node| !is_reader(node)).unwrap();
            let killed = nodes.remove(killed);
            let name = killed.folder().file_name().unwrap().to_str().unwrap().to_owned();
            killed.kill();
            all_agree(&nodes);
            nodes.push(ground.start(&name, Some(&nodes[0])));
            all_agree(&nodes);
        }
        is_over.store(true, Ordering::Relaxed);
        (fed.join().unwrap(), nodes)
    });
    let mut dropped = 0;
    for node in &nodes {
        dropped += node.wait_until("ended").topologies[0].dropped.values().sum::<u64>();
    }
    let files = fs::read_dir(&ground.folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|it| it == "tsv"));
    let texts: Vec<_> = files.map(|path| fs::read_to_string(path).unwrap()).collect();
    let lines = || texts.iter().flat_map(|text| text.lines());
    let numbers: BTreeSet<u64> = lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(numbers.len(), lines().count(), "none is applied twice");
    assert!(numbers.last().is_some_and(|last| *last < sent));
    let (applied, doubt) = (numbers.len() as u64, in_doubt(&nodes));
    let sums = format!("{sent} sent, {applied} applied, {dropped} dropped, {doubt} in doubt");
    assert!(doubt > 0 && applied < sent, "{sums}");
    assert!(sent <= applied + dropped + doubt, "{sums}");
}

#[test]
fn a_cluster_that_was_killed_whole_is_found_again_on_its_disks() {
    let _turn = turn();
    let ground = Ground::new("cold", 3);
    let nodes = ground.nodes();
    let before = nodes[0].status();
    let ports: Vec<_> = nodes.iter().map(|node| node.addresses.control.clone()).collect();
    nodes.into_iter().for_each(Node::kill);
    // Nobody is told whom to join: the view says where the others are. What takes any free port does so elsewhere, or it
    // might be one at which another is to be found.
    let again = ["a", "b", "c"].iter().zip(&ports).map(|(name, control)| {
        let arguments = [
            "--topology",
            ground.topology.to_str().unwrap(),
            "--containers",
            "1",
            "--bootstrap",
            "--listen",
            control,
            "--listen-data",
            "127.0.0.2:0",
            "--http",
            "127.0.0.2:0",
        ];
        Node::start(support::starling(), &ground.folder.join(name), arguments)
    });
    let again: Vec<_> = again.collect();
    // The first may be the view on their disks, in which nobody who started again has anything.
    all_agree(&again);
    let epoch = all_agree(&again);
    assert!(epoch > before.epoch, "epoch {}, then {epoch}", before.epoch);
    for node in &again {
        node.wait_to_say(&["the data directory belongs to a cluster; this node goes on in it"]);
        assert!(node.said(&["founded a cluster"]).is_none());
        let run = node.status().run;
        assert_eq!(run, 2);
    }
}

#[test]
fn a_joiner_that_is_killed_on_its_way_in_has_changed_nothing() {
    let _turn = turn();
    let ground = Ground::new("joiner", 3);
    let nodes = ground.nodes();
    for _ in 0..3 {
        let joiner = ground.start("d", Some(&nodes[1]));
        // As soon as something is on its way to it.
        wait_for("something to move", || {
            let status = nodes[0].status();
            (status.moving > 0 || status.members.iter().any(|m| m.node == joiner.name()))
                .then_some(())
        });
        joiner.kill();
        all_agree(&nodes);
        fs::remove_dir_all(ground.folder.join("d")).unwrap();
    }
    // And one that is let live.
    let joiner = ground.start("d", Some(&nodes[2]));
    let mut all = nodes;
    all.push(joiner);
    all_agree(&all);
}

#[test]
fn a_node_whose_disk_is_wiped_comes_in_as_another_member() {
    let _turn = turn();
    let ground = Ground::new("wiped", 3);
    let mut nodes = ground.nodes();
    let lost = nodes.remove(2);
    let name = lost.name().to_owned();
    lost.kill();
    fs::remove_dir_all(ground.folder.join("c")).unwrap();
    let blank = ground.start("c", Some(&nodes[1]));
    assert_ne!(blank.name(), name);
    nodes.push(blank);
    all_agree(&nodes);
}

/// Two of three are gone for good: only an order brings the third to go on without them.
#[test]
fn a_lost_majority_is_given_up_by_order_only() {
    let _turn = turn();
    let ground = Ground::new("majority", 3);
    let mut nodes = ground.nodes();
    nodes.split_off(1).into_iter().for_each(Node::kill);
    let last = &nodes[0];
    let before = last.wait_to_show("too few voters", |status| status.is_degraded);
    assert_eq!(before.members.len(), 3);
    let recover = |flags: &[&str]| {
        let mut command = support::starling();
        command.args(["recover", "--http", &last.addresses.http]).args(flags);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = recover(&[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--unsafe"), "{said}");
    let (code, said) = recover(&["--unsafe"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("RECOVERED without a majority"), "{said}");
    assert!(said.contains(&before.members.iter().find(|m| !m.is_self).unwrap().node), "{said}");
    last.wait_to_say(&["UNSAFE RECOVERY"]);
    all_agree(&nodes);
    let (code, said) = {
        let output = support::starling()
            .args(["recover", "--unsafe", "--http", &nodes[0].addresses.http])
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("nothing to recover"), "{said}");
    // Who comes back was given up, and joins anew.
    nodes.push(ground.start("b", Some(&nodes[0])));
    all_agree(&nodes);
}

#[test]
fn orders_need_the_token_of_the_node() {
    let _turn = turn();
    let ground = Ground::new("token", 1);
    let nodes = ground.nodes();
    let wrong = ground.folder.join("wrong");
    fs::write(&wrong, "0123456789abcdef0123456789abcdef\n").unwrap();
    let drain = |token: &str| {
        let http = &nodes[0].addresses.http;
        let output =
            support::starling().args(["drain", "--http", http, "--token", token]).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = drain(wrong.to_str().unwrap());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("is not the token of this node"), "{said}");
    let (code, said) = drain("nowhere");
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("cannot read the token nowhere"), "{said}");
    all_agree(&nodes);
    let right = ground.folder.join("a").join("admin.token");
    let (code, said) = drain(right.to_str().unwrap());
    assert_eq!(code, Some(0), "{said}");
}
