//! One instance, wherever it lives: who has it, what its state is, and what is left to see when its owner is gone.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs;
use std::net::TcpListener;

use serde_json::Value;
use support::ground::{self, Ground};
use support::{Node, agree, are_redundant, starling, wait_for};

/// What a command came to.
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

fn key(node: &Node, arguments: &[&str]) -> Ran {
    let mut command = starling();
    command.arg("key").args(arguments).args(["--http", &node.addresses.http]);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
}

fn json(node: &Node, arguments: &[&str]) -> Value {
    let ran = key(node, &[arguments, &["--json"]].concat());
    serde_json::from_str(&ran.out)
        .unwrap_or_else(|error| panic!("{error}: {} {}", ran.out, ran.err))
}

/// Three nodes that have counted these words and wait for more.
fn counted() -> (TcpListener, Vec<Node>) {
    let folder = support::folder("keys");
    let topology = folder.join("words.toml");
    fs::write(folder.join("text-0.txt"), "whale whale ship whale\n".repeat(20)).unwrap();
    // A spout that waits keeps the topology from its end.
    let idle = TcpListener::bind("127.0.0.1:0").unwrap();
    let waiting = format!(
        "\n[spout.idle]\ntype = \"lines\"\nparams = {{ from = \"tcp:{}\", connect_seconds = 300 }}\n\
         emits = \"idle\"\n\n[pe.nothing]\ntype = \"splitter\"\ninput = [{{ stream = \"idle\", grouping = \"shuffle\" }}]\n\
         parallelism = 2\nemits = \"more\"\n\n[pe.end]\ntype = \"stdout\"\ninput = [{{ stream = \"more\", grouping = \"global\" }}]\n",
        idle.local_addr().unwrap()
    );
    fs::write(&topology, ground::word_count(&folder) + &waiting).unwrap();
    let ground = Ground { folder, topology, expected_nodes: 3 };
    let mut nodes: Vec<Node> = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(ground.start(name, nodes.first()));
    }
    agree(&nodes.iter().collect::<Vec<_>>());
    wait_for("all lines to be done with", || {
        let done: u64 = nodes.iter().map(|node| node.status().topologies[0].trees_completed).sum();
        (done == 20 && are_redundant(&nodes)).then_some(())
    });
    (idle, nodes)
}

#[test]
fn any_node_knows_where_an_instance_is_and_gets_it_from_its_owner() {
    let (_idle, mut nodes) = counted();
    for node in &nodes {
        let ran = key(node, &["get", "count", "whale"]);
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), "{\n  \"n\": 60\n}\n"), "{}", ran.err);
        assert!(ran.err.starts_with("count[whale] on node "), "{}", ran.err);
        let view = json(node, &["get", "count", "ship"]);
        assert_eq!(
            (&view["state"]["n"], &view["is_stale"]),
            (&Value::from(20), &Value::from(false))
        );
        assert_eq!(view["answered_by"], view["owner"]["node"]);
        let ran = key(node, &["get", "count", "harpoon"]);
        assert!(
            ran.code == Some(1) && ran.err.contains("there is no count[harpoon]"),
            "{}",
            ran.err
        );
        let numbered = json(node, &["get", "split", "2"]);
        assert_eq!((&numbered["found"], &numbered["slot"]), (&Value::from(true), &Value::Null));
    }
    let whose = json(&nodes[0], &["where", "count", "whale"]);
    let owner = nodes.iter().position(|node| whose["owner"]["node"] == node.name()).unwrap();
    assert_eq!(whose["copies"].as_array().unwrap().len(), 1, "{whose}");
    let ran = key(&nodes[0], &["where", "count", "whale"]);
    assert!(ran.out.starts_with("count[whale] of words: slot "), "{}", ran.out);
    assert_eq!(ran.out.lines().count(), 3, "{}", ran.out);

    // Over HTTP, who is not the owner says who is.
    let other = &nodes[(owner + 1) % 3];
    let url = format!("http://{}/api/v1/instances/count?key=whale", other.addresses.http);
    let agent: ureq::Agent = ureq::Agent::config_builder().max_redirects(0).build().into();
    let answer = agent.get(&url).call().unwrap();
    assert_eq!(answer.status(), 307);
    let location = answer.headers()["Location"].to_str().unwrap().to_owned();
    assert_eq!(location, url.replace(&other.addresses.http, &nodes[owner].addresses.http));

    let copy = whose["copies"][0]["http"].as_str().unwrap();
    let answer =
        agent.get(format!("http://{copy}/api/v1/instances/count?key=whale&of=copy")).call();
    let text = answer.unwrap().body_mut().read_to_string().unwrap();
    let view: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&view["state"]["n"], &view["is_stale"]), (&Value::from(60), &Value::from(true)));

    // Nobody has heard yet that the owner is gone, so its copy is asked; then somebody else is the owner. Lines that it
    // had read may be read again.
    let has_all = |view: &Value| view["state"]["n"].as_u64().is_some_and(|n| n >= 60);
    nodes[owner].signal("STOP");
    let left = (owner + 1) % 3;
    let view = json(&nodes[left], &["get", "count", "whale"]);
    assert!(has_all(&view), "{view}");
    nodes.remove(owner).kill();
    let view = wait_for("another owner", || {
        let view = json(&nodes[0], &["get", "count", "whale"]);
        (view["is_stale"] == false).then_some(view)
    });
    assert!(has_all(&view), "{view}");
}

#[test]
fn what_is_no_instance_is_refused_with_a_reason() {
    let folder = support::folder("no-keys");
    let topology = support::top_words(&folder, &support::corpus(), ", repeat = 1000000");
    let ground = Ground { folder, topology, expected_nodes: 1 };
    let node = ground.start("a", None);
    node.wait_until("running");
    for (arguments, code, why) in [
        (&["get", "nothing", "x"][..], 1, "no PE `nothing`"),
        (&["get", "count", "a", "b"], 2, "a key of count has 1 fields (text), not 2"),
        (&["get", "sort", "99"], 2, "sort has instances 0 to "),
        (&["get", "sort", "x"], 2, "sort has instances 0 to "),
        (&["where", "lines", "x"], 1, "no PE `lines`"),
        (&["get", "count", "x", "--topology", "t"], 1, "no PE `count` in the topology `t`"),
    ] {
        let ran = key(&node, arguments);
        assert_eq!(ran.code, Some(code), "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(why), "{arguments:?}: {}", ran.err);
    }
}
