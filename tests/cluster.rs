//! A cluster of processes started by hand, while nodes come, go and come back.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::BTreeMap;
use std::fs;

use starling::cli::Status;
use support::ground::{Ground, path};
use support::{Node, SLOTS, agree, flow, wait_for};

#[track_caller]
fn three(ground: &Ground) -> [Node; 3] {
    ground.nodes().try_into().unwrap()
}

/// Where the partitions stand that a node holds, by name: plays, and the place in the current one.
fn partitions(node: &Node) -> BTreeMap<String, (u64, u64)> {
    let spout = node.status().topologies.remove(0).spouts.remove(0);
    let partitions = spout.partitions.into_iter();
    partitions.map(|part| (part.partition, (part.plays, part.position))).collect()
}

fn in_doubt(nodes: &[&Node]) -> u64 {
    nodes.iter().map(|node| node.status().topologies[0].in_doubt).sum()
}

/// The number behind a name in a line of the log.
#[track_caller]
fn number(line: &str, name: &str) -> u64 {
    let behind = line.split_once(&format!(" {name}=")).unwrap().1;
    behind.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn nodes_join_die_and_leave_and_events_keep_flowing() {
    let ground = Ground::new("cluster", 3);
    let [a, b, c] = three(&ground);
    let three = agree(&[&a, &b, &c]);
    let held: usize = [&a, &b, &c].iter().map(|node| partitions(node).len()).sum();
    assert_eq!(held, 12, "each file is held by one node");

    let d = ground.start("d", Some(&b));
    let four = agree(&[&a, &b, &c, &d]);
    assert!(four > three, "epoch {three}, then {four}");
    for node in [&a, &b, &c] {
        let log = node.log();
        let views = log.lines().filter(|line| line.contains("new view"));
        let of_four = views.filter(|line| line.contains(" members=4 "));
        let moved: u64 = of_four.map(|line| number(line, "slots_moved")).sum();
        assert_eq!(moved, SLOTS as u64 / 4, "{log}");
        node.wait_to_say(&["member up", d.name(), &d.addresses.control]);
    }
    flow(&[&a, &b, &c, &d]);
    wait_for("a partition on the fourth", || (!partitions(&d).is_empty()).then_some(()));

    assert_eq!(in_doubt(&[&a, &b, &c, &d]), 0, "nobody has gone yet");

    let name = c.name().to_owned();
    c.kill();
    let after_kill = agree(&[&a, &b, &d]);
    assert!(after_kill > four, "epoch {four}, then {after_kill}");
    for node in [&a, &b, &d] {
        node.wait_to_say(&["member down", &name, "does not answer"]);
    }
    flow(&[&a, &b, &d]);
    wait_for("events given to the dead to be counted", || {
        [&a, &b, &d].iter().all(|node| in_doubt(&[node]) > 0).then_some(())
    });

    let (held, doubt) = (partitions(&b), in_doubt(&[&a, &d]));
    assert!(!held.is_empty(), "who leaves has something to give");
    let (name, folder) = (b.name().to_owned(), b.folder().to_owned());
    let ended = b.terminate();
    let log = fs::read_to_string(folder.join("log")).unwrap();
    // It would be 75 if the time to leave had been up.
    assert_eq!(ended.code(), Some(0), "{log}");
    let after_leave = agree(&[&a, &d]);
    assert!(after_leave > after_kill, "epoch {after_kill}, then {after_leave}");
    for node in [&a, &d] {
        node.wait_to_say(&["member down", &name, "left"]);
        node.wait_to_say(&["new view", " members=2 "]);
    }
    let now: BTreeMap<_, _> = partitions(&a).into_iter().chain(partitions(&d)).collect();
    for (partition, at) in held {
        let there = now.get(&partition).unwrap_or_else(|| panic!("{partition} is gone"));
        assert!(*there >= at, "{partition} went back from {at:?} to {there:?}");
    }
    flow(&[&a, &d]);
    assert_eq!(in_doubt(&[&a, &d]), doubt, "who leaves confirms all it was given");
}

#[test]
fn without_its_founder_the_cluster_goes_on_and_takes_it_back_in_its_next_life() {
    let ground = Ground::new("founder", 3);
    let [a, b, c] = three(&ground);
    let first_life = a.status();
    assert_eq!(first_life.run, 1);
    a.kill();
    let two = agree(&[&b, &c]);
    flow(&[&b, &c]);

    let d = ground.start("d", Some(&c));
    let three = agree(&[&b, &c, &d]);
    assert!(three > two, "epoch {two}, then {three}");
    flow(&[&b, &c, &d]);

    let a = ground.start("a", Some(&d));
    let all = [&a, &b, &c, &d];
    agree(&all);
    for node in all {
        let status = node.status();
        let back = status.members.iter().find(|member| member.node == first_life.node).unwrap();
        assert_eq!(back.run, 2, "as {} sees it", status.node);
    }
    flow(&all);
}

#[test]
fn a_node_that_starts_again_at_once_is_known_by_its_run() {
    let ground = Ground::new("restart", 3);
    let [a, b, c] = three(&ground);
    let name = c.name().to_owned();
    c.kill();
    // Perhaps before anybody has noticed.
    let c = ground.start("c", Some(&b));
    assert_eq!(c.name(), name);
    let all = [&a, &b, &c];
    let is_back = |status: &Status| {
        status.members.iter().any(|member| member.node == name && member.run == 2)
    };
    for node in all {
        node.wait_to_show("its second life", is_back);
    }
    agree(&all);
    flow(&all);
    for node in [&a, &b] {
        node.wait_to_say(&["member down", &name, "run=1"]);
    }
}

#[test]
fn a_node_that_stood_still_is_taken_off_and_comes_back_by_itself() {
    let ground = Ground::new("stopped", 3);
    let [a, b, c] = three(&ground);
    // The founder comes last.
    for (stopped, others) in [(&c, [&a, &b]), (&a, [&b, &c])] {
        stopped.signal("STOP");
        let without = agree(&others);
        flow(&others);
        let since = others[0].status().uptime_ms;
        others[0]
            .wait_to_show("twelve seconds to pass", |status| status.uptime_ms > since + 12_000);
        stopped.signal("CONT");
        let with = agree(&[&a, &b, &c]);
        assert!(with > without, "epoch {without}, then {with}");
        stopped.wait_to_say(&["fenced: the others went on without this node"]);
        flow(&[&a, &b, &c]);
    }
}

#[test]
fn only_who_has_the_key_gets_in() {
    let ground = Ground::new("key", 2);
    let key = |name: &str, digit: &str| {
        let path = ground.folder.join(name);
        let digits = digit.repeat(64);
        fs::write(&path, format!("/key/swarm/psk/1.0.0/\n/base16/\n{digits}\n")).unwrap();
        path
    };
    let (right, wrong) = (key("right.key", "5"), key("wrong.key", "6"));
    let has_key = ["--key-file", path(&right)];
    let a = ground.start_with("a", None, &has_key);
    let b = ground.start_with("b", Some(&a), &has_key);
    // By then all partitions have readers, and there is no reason for another view.
    flow(&[&a, &b]);
    let epoch = agree(&[&a, &b]);
    for (name, key) in [("wrong", &["--key-file", path(&wrong)][..]), ("none", &[])] {
        let stranger = ground.start_with(name, Some(&a), key);
        stranger.wait_to_say(&["a seed cannot be reached"]);
        stranger.wait_to_say(&["waiting for a member at", &a.addresses.control]);
        a.wait_to_say(&["handshake failed", "wrong cluster key"]);
        let status = stranger.status();
        assert_eq!((status.epoch, status.members.len()), (0, 0));
        stranger.kill();
        flow(&[&a, &b]);
    }
    // Whoever came and went changed nothing, not even for a moment.
    assert_eq!(agree(&[&a, &b]), epoch);
    assert!(a.said(&["member up"]).unwrap().contains(b.name()));
    assert_eq!(a.log().matches("member up").count(), 1);

    let broken = ground.folder.join("broken.key");
    fs::write(&broken, "secret\n").unwrap();
    let arguments = ["--bootstrap", "--key-file", broken.to_str().unwrap()];
    let (code, said) =
        support::run_to_end(support::starling(), &ground.folder.join("broken"), arguments);
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("broken.key: not a cluster key: three lines"), "{said}");
}
