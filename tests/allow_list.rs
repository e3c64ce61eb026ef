//! A list of peers that may connect, in a cluster of processes.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs;
use std::path::Path;

use support::{Node, agree, flow};

/// The name as a peer of the node with a data directory.
fn peer_of(node: &Node) -> String {
    let written = fs::read(node.folder().join("addresses.json")).unwrap();
    let addresses: serde_json::Value = serde_json::from_slice(&written).unwrap();
    addresses["peer"].as_str().unwrap().to_owned()
}

/// Starts a node that enters by an address, or forms the cluster.
#[track_caller]
fn start(folder: &Path, topology: &Path, entry: Option<&str>, allowed: &[&String]) -> Node {
    let topology = topology.to_str().unwrap();
    let mut arguments = vec!["--topology", topology, "--containers", "1", "--expected-nodes", "2"];
    arguments.extend(entry.map_or(vec!["--bootstrap"], |entry| vec!["--join", entry]));
    arguments.extend(allowed.iter().flat_map(|peer| ["--allow", peer.as_str()]));
    Node::start(support::starling(), folder, arguments)
}

#[test]
fn who_is_not_on_the_list_is_never_a_member() {
    let folder = support::folder("allow_list");
    let topology = support::top_words(&folder, &support::corpus(), ", repeat = 1000000");
    let folders = ["a", "b", "c"].map(|name| folder.join(name));
    // A first life, in which nobody answers, gives each its name.
    let peers = folders.each_ref().map(|folder| {
        let node = start(folder, &topology, Some("127.0.0.1:9"), &[]);
        let peer = peer_of(&node);
        node.wait_to_say(&["listening", &format!("peer={peer}")]);
        node.kill();
        peer
    });

    let [listed_a, listed_b, stranger] = &peers;
    let listed = [listed_a, listed_b];
    let a = start(&folders[0], &topology, None, &listed);
    let entry = a.addresses.control.clone();
    let b = start(&folders[1], &topology, Some(&entry), &listed);
    flow(&[&a, &b]);
    let epoch = agree(&[&a, &b]);

    let c = start(&folders[2], &topology, Some(&entry), &[]);
    a.wait_to_say(&[&format!("rejected: {stranger} not allowed")]);
    flow(&[&a, &b]);
    let status = c.status();
    assert_eq!((status.epoch, status.members.len()), (0, 0));
    assert_eq!(agree(&[&a, &b]), epoch, "who was rejected changed nothing");
    assert_eq!(a.log().matches("member up").count(), 1);
}
