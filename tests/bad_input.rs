//! What is wrong from outside is said clearly, with the exit code of the contract, and no healthy node
//! ends, stops counting or grows for it.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "support/peer.rs"]
mod peer;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use node::Message;
use peer::{CONTROL, DATA, PREAMBLE, Peer};
use sim::Chance;
use support::{Node, run_to_end, starling, wait_for};

/// What a healthy node may have more in memory after whatever was done to it.
const GROWTH_MAX: u64 = 64 << 20;

/// Two healthy nodes that count the words of lines that the test sends.
struct Pair {
    folder: PathBuf,
    topology: PathBuf,
    nodes: [Node; 2],
    memory: [u64; 2],
    feed: TcpStream,
    lines: u64,
}

impl Pair {
    #[track_caller]
    fn start(test: &str) -> Self {
        let folder = support::folder(test);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let topology = folder.join("top-words.toml");
        let from = format!("from = \"tcp:{}\"", listener.local_addr().unwrap());
        let text = support::TOP_WORDS.replace("text-files", "lines");
        fs::write(&topology, text.replace(r#"paths = ["corpus/*.txt"]"#, &from)).unwrap();
        let common = ["--expected-nodes", "2", "--containers", "1", "--topology"];
        let arguments = |entry: &[&str]| {
            let topology = [topology.to_str().unwrap()];
            let all = common.iter().chain(&topology).chain(entry);
            all.map(|&argument| argument.to_owned()).collect::<Vec<_>>()
        };
        let first = Node::start(starling(), &folder.join("a"), arguments(&["--bootstrap"]));
        let entry = ["--join", &first.addresses.control];
        let second = Node::start(starling(), &folder.join("b"), arguments(&entry));
        let feed = accept(&listener);
        let (nodes, memory) = ([first, second], [0; 2]);
        let mut pair = Self { folder, topology, nodes, memory, feed, lines: 0 };
        pair.assert_counting();
        pair.memory = pair.nodes.each_ref().map(Node::memory);
        pair
    }

    fn first(&self) -> &Node {
        &self.nodes[0]
    }

    /// Starts a node that would like to join and is not let in: its exit code and what it says.
    #[track_caller]
    fn refused(&self, name: &str, topology: &Path, extra: &[&str]) -> (Option<i32>, String) {
        let topology = topology.to_str().unwrap();
        let entry = &self.first().addresses.control;
        let arguments = ["--join", entry, "--containers", "1", "--topology", topology];
        run_to_end(starling(), &self.folder.join(name), arguments.iter().chain(extra))
    }

    /// Both are members, and nobody else is.
    #[track_caller]
    fn assert_members(&self) {
        for node in &self.nodes {
            let members: Vec<_> = node.status().members.into_iter().map(|one| one.node).collect();
            let mut names = self.nodes.each_ref().map(Node::name);
            names.sort_unstable();
            assert_eq!(members, names);
        }
    }

    /// A line more is split by one of them, and no line was lost.
    #[track_caller]
    fn assert_counting(&mut self) {
        writeln!(self.feed, "the quick brown fox {}", self.lines).unwrap();
        self.lines += 1;
        let split = |node: &Node| {
            let pes = &node.status().topologies[0].pes;
            pes.iter().find(|pe| pe.name == "split").unwrap().applied
        };
        wait_for(&format!("line {}", self.lines), || {
            (self.nodes.iter().map(split).sum::<u64>() == self.lines).then_some(())
        });
    }

    /// Nothing that happened has done them any harm.
    #[track_caller]
    fn assert_healthy(&mut self) {
        self.assert_members();
        self.assert_counting();
        for (node, before) in self.nodes.iter().zip(self.memory) {
            let now = node.memory();
            let grown = now.saturating_sub(before);
            assert!(grown <= GROWTH_MAX, "{} grew from {before} to {now} bytes", node.name());
            assert_eq!(node.said(&["panicked"]), None);
        }
    }
}

/// The next connection that a node makes.
#[track_caller]
fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).unwrap();
    let stream = wait_for("a node that connects", || Some(listener.accept().ok()?.0));
    stream.set_nonblocking(false).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Bytes without any sense, the same at each run.
fn noise(len: usize) -> Vec<u8> {
    let mut chance = Chance::new(42);
    let bytes = std::iter::repeat_with(|| chance.number().to_le_bytes()).flatten();
    bytes.take(len).collect()
}

#[test]
fn an_address_in_use_is_named() {
    let mut pair = Pair::start("in-use");
    let taken = pair.first().addresses.clone();
    for (flag, address) in
        [("--listen", &taken.control), ("--listen-data", &taken.data), ("--http", &taken.http)]
    {
        let folder = pair.folder.join("late");
        let (code, said) = run_to_end(starling(), &folder, ["--bootstrap", flag, address]);
        assert_eq!(code, Some(1), "{flag}: {said}");
        let expected = format!("error: cannot listen at {address}: Address already in use");
        assert!(said.contains(&expected), "{flag}: {said}");
    }
    pair.assert_healthy();
}

#[test]
fn a_data_directory_that_cannot_be_used_is_named() {
    let mut pair = Pair::start("data-dir");
    let taken = pair.first().folder().to_owned();
    let file = pair.folder.join("file");
    fs::write(&file, "").unwrap();
    let scrambled = pair.folder.join("scrambled");
    fs::create_dir(&scrambled).unwrap();
    fs::write(scrambled.join("identity.key"), noise(68)).unwrap();
    for (folder, expected) in [
        (&*taken, "another node uses this data directory"),
        (&*file, "File exists"),
        (&*file.join("below"), "Not a directory"),
        // Not even root can make a folder there.
        (Path::new("/proc/starling"), "No such file or directory"),
        (&*scrambled, "identity.key: no key"),
    ] {
        let arguments = ["--bootstrap", "--data-dir", folder.to_str().unwrap()];
        let (code, said) = run_to_end(starling(), &pair.folder.join("late"), arguments);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(&format!("error: {}", folder.display())), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    assert_eq!(pair.first().status().run, 1);
    pair.assert_healthy();
}

#[test]
fn a_node_whose_seeds_are_not_there_waits_and_never_forms_a_cluster() {
    let folder = support::folder("seeds");
    // Where nobody listens, until somebody does.
    let seed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let nowhere = "nowhere.invalid:7000";
    let arguments = ["--join", nowhere, "--join", &seed];
    let node = Node::start(starling(), &folder.join("b"), arguments);
    node.wait_to_say(&["a seed cannot be reached: Connection refused"]);
    node.wait_to_say(&["waiting for a member at", nowhere, &seed]);
    node.wait_to_say(&["no address for a seed", nowhere]);
    node.wait_to_show("some seconds to pass", |status| status.uptime_ms > 3_000);
    let status = node.status();
    assert_eq!((status.epoch, status.members.len(), status.coordinator), (0, 0, None));

    let arguments = ["--bootstrap", "--listen", &seed];
    let founder = Node::start(starling(), &folder.join("a"), arguments);
    for node in [&founder, &node] {
        node.wait_to_show("two members", |status| status.members.len() == 2);
    }
    assert_eq!(node.status().coordinator.as_deref(), Some(founder.name()));
    assert_eq!(node.terminate().code(), Some(0));
}

#[test]
fn a_node_of_another_setting_is_refused_and_both_sides_say_what_differs() {
    let mut pair = Pair::start("settings");
    let ours = pair.topology.clone();
    let settings = pair.folder.join("slots.toml");
    fs::write(&settings, "[cluster]\nslots = 512\n").unwrap();
    let theirs = pair.folder.join("other.toml");
    let text = fs::read_to_string(&ours).unwrap();
    fs::write(&theirs, text.replace("parallelism = 4", "parallelism = 5")).unwrap();
    let hash = |file: &Path| {
        let checked = starling().args(["check", "--json"]).arg(file).output().unwrap();
        let checked: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
        checked["hash"].as_str().unwrap().to_owned()
    };
    let settings = settings.to_str().unwrap();
    for (name, topology, extra, what, wrong, right) in [
        ("slots", &ours, &["-c", settings][..], "the number of slots", "512", "1024"),
        (
            "name",
            &ours,
            &["--cluster-name", "geese"],
            "the name of the cluster",
            "geese",
            "starling",
        ),
        ("topology", &theirs, &[], "the topology `top-words`", &hash(&theirs), &hash(&ours)),
    ] {
        let (code, said) = pair.refused(name, topology, extra);
        assert_eq!(code, Some(69), "{name}: {said}");
        let by = format!("error: refused by node {}: ", pair.first().name());
        let line = format!("{by}{what} differs: this node has {wrong}, the other has {right}");
        assert!(said.contains(&line), "{name}: {said}");
        let there = format!("{what} differs: this node has {right}, the other has {wrong}");
        pair.first().wait_to_say(&["refused a node", &there]);
        pair.assert_healthy();
    }
}

#[test]
fn of_one_identity_only_the_first_is_a_member() {
    let mut pair = Pair::start("copied");
    let copy = pair.folder.join("copy");
    fs::create_dir(&copy).unwrap();
    for file in ["identity.key", "run"] {
        fs::copy(pair.first().folder().join(file), copy.join(file)).unwrap();
    }
    let topology = pair.topology.clone();
    let (code, said) = pair.refused("copy", &topology, &[]);
    assert_eq!(code, Some(69), "{said}");
    let original = &pair.first().addresses;
    assert!(said.contains(&format!("refused by node {}: ", original.node)), "{said}");
    let why = format!("the node at {} has the identity of this node, at ", original.control);
    assert!(said.contains(&why), "{said}");
    assert!(said.contains("a copied data directory?"), "{said}");
    pair.assert_healthy();
}

#[test]
fn garbage_and_idle_connections_do_no_harm() {
    let mut pair = Pair::start("garbage");
    let addresses = pair.first().addresses.clone();
    let ports = [&addresses.control, &addresses.data];
    for address in ports.into_iter().chain([&addresses.http]) {
        for bytes in [&noise(64 << 10)[..], b"GET / HTTP/1.1\r\n\r\n", b"\x13/multistream/1.0.0\n"]
        {
            let mut stream = TcpStream::connect(address).unwrap();
            // It may be closed before all of it is written.
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let limit = Some(support::PATIENCE);
            stream.set_read_timeout(limit).unwrap();
            // Whatever it says, it ends the connection.
            let mut answer = Vec::new();
            if let Err(error) = stream.read_to_end(&mut answer) {
                assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "still open");
            }
        }
    }
    pair.first().wait_to_say(&["a handshake failed"]);
    pair.assert_healthy();

    let mut idle = Vec::new();
    for number in 0..300 {
        for address in ports {
            let mut stream = TcpStream::connect(address).unwrap();
            if number % 2 == 1 {
                // Half a greeting.
                let _ = stream.write_all(b"\x13/multi");
            }
            idle.push(stream);
        }
    }
    for _ in 0..100 {
        idle.push(TcpStream::connect(&addresses.http).unwrap());
    }
    pair.assert_healthy();
    drop(idle);
    pair.assert_healthy();

    // And the door is open again for who has something to say.
    let topology = pair.topology.to_str().unwrap();
    let arguments = ["--join", &addresses.control, "--expected-nodes", "2", "--topology", topology];
    let third = Node::start(starling(), &pair.folder.join("c"), arguments);
    third.wait_to_show("three members", |status| status.members.len() == 3);
}

#[test]
fn a_peer_that_misbehaves_on_the_control_link_is_cut_off() {
    let mut pair = Pair::start("control-peer");
    let peer = Peer::new();
    let line = peer.connect(&pair.first().addresses.control);
    let node = pair.first();
    let hello = peer.hello(node);

    let mut old = line.open(CONTROL, b"SCTL\x09\x00");
    assert_eq!(old.hear_end(), PREAMBLE, "ours, for whoever can read it");
    node.wait_to_say(&["refused a node", "protocol version 9, this node speaks 4"]);

    line.open(CONTROL, b"GET / HTTP/1.1\r\n\r\n").hear_end();
    node.wait_to_say(&["refused a node", "not a control stream"]);

    line.open(CONTROL, &[&PREAMBLE[..], &u32::MAX.to_le_bytes()].concat()).hear_end();
    node.wait_to_say(&["refused a node", "a message of 4294967295 bytes, at most 4194304"]);

    let silent = line.open(CONTROL, &PREAMBLE);
    node.wait_to_say(&["refused a node", "no answer within 5 s"]);
    drop(silent);

    let foreign = node::Hello { cluster_id: Some(7), ..hello.clone() };
    let refused = line.greet(&foreign).err().unwrap();
    assert_eq!(refused.what, "the id of the cluster");
    assert_eq!(refused.theirs, "0000000000000007");
    let mut false_name = hello.clone();
    false_name.member.node = pair.nodes[1].name().parse().unwrap();
    let refused = line.greet(&false_name).err().unwrap();
    assert_eq!(
        (&*refused.what, &*refused.theirs),
        ("the name of the other node", pair.nodes[1].name())
    );
    let old_hash = node::Hello { key_hash: "md5".to_owned(), ..hello.clone() };
    assert_eq!(line.greet(&old_hash).err().unwrap().what, "the key hash");

    let mut huge = line.greet(&hello).ok().unwrap();
    huge.say(&u32::MAX.to_le_bytes());
    huge.hear_end();
    node.wait_to_say(&["a control stream is closed", "a message of 4294967295 bytes"]);

    let mut random = line.greet(&hello).ok().unwrap();
    random.say(&[&64u32.to_le_bytes()[..], &noise(64)].concat());
    random.hear_end();
    node.wait_to_say(&["a control stream is closed: not a value of this type"]);

    let mut gossip = line.greet(&hello).ok().unwrap();
    gossip.say(&peer::message(&Message::Gossip(noise(500))));
    node.wait_to_say(&["gossip refused", "cannot be decoded"]);

    assert!(node.said(&["member up", &hello.member.node.to_string()]).is_none());
    pair.assert_healthy();
}

#[test]
fn a_peer_that_misbehaves_on_the_data_link_is_cut_off() {
    let mut pair = Pair::start("data-peer");
    let peer = Peer::new();
    let node = pair.first();
    let control = peer.connect(&node.addresses.control);
    let data = peer.connect(&node.addresses.data);

    let unknown = data.open(DATA, &peer.data_hello(node, 1)).hear_end();
    assert!(unknown.is_empty(), "who has not greeted is not read");

    let _greeted = control.greet(&peer.hello(node)).ok().unwrap();
    let mut other_run = peer.data_hello(node, 1);
    *other_run.last_mut().unwrap() ^= 1;
    assert!(data.open(DATA, &other_run).hear_end().is_empty(), "it is meant for somebody else");
    // Magic, version, kind, length, sequence, checksum.
    let header = |version: u16, kind: u16, len: u32, sequence: u64| {
        let [version, kind] = [version, kind].map(u16::to_le_bytes);
        let (len, sequence) = (len.to_le_bytes(), sequence.to_le_bytes());
        [&b"STRL"[..], &version, &kind, &len, &sequence, &[7; 8]].concat()
    };
    let with_payload = |header: Vec<u8>, len: usize| [header, noise(len)].concat();
    let refused = u64::MAX.to_le_bytes();
    for (link, frame, expected, answer) in [
        (1, noise(500), "not a frame", &refused[..]),
        (2, header(4, 0, u32::MAX, 0), "a frame of 4294967295 bytes, at most 8388608", &refused),
        (3, header(9, 0, 100, 0), "a frame of protocol version 9, this node speaks 4", &refused),
        (4, header(4, 7, 100, 0), "a frame of an unknown kind, 7", &refused),
        (5, with_payload(header(4, 0, 100, 5), 100), "frame 5 where frame 0 was expected", &[]),
        (6, with_payload(header(4, 0, 100, 0), 100), "a frame whose checksum is wrong", &refused),
        (7, with_payload(header(4, 0, 100, 0), 50), "", &[]),
    ] {
        let mut talk = data.open(DATA, &peer.data_hello(node, link));
        assert_eq!(talk.hear(16)[8..], [0; 8], "it reads, from the first frame on");
        talk.say(&frame);
        talk.close();
        assert_eq!(talk.hear_end(), answer, "link {link}: {expected}");
        node.wait_to_say(&["a data stream is closed", expected]);
    }
    // What was refused once is not read again, nor is a stream that is older than another.
    let mut again = peer.data_hello(node, 7);
    again[16] = 2;
    assert_eq!(data.open(DATA, &again).hear(16)[8..], [0; 8]);
    assert!(data.open(DATA, &peer.data_hello(node, 6)).hear_end().is_empty());
    pair.assert_healthy();
}

#[test]
fn lines_that_are_no_text_and_files_that_cannot_be_read_are_named_and_the_rest_is_counted() {
    let folder = support::folder("text");
    let texts = folder.join("texts");
    fs::create_dir_all(texts.join("folder.txt")).unwrap();
    fs::write(texts.join("good.txt"), "one two two\nthree three three\n").unwrap();
    fs::write(texts.join("bad.txt"), b"four\n\xff\xfe\nfour \xc3\nfour four\n").unwrap();
    // As if it had been deleted between being listed and being read.
    std::os::unix::fs::symlink(texts.join("gone"), texts.join("gone.txt")).unwrap();
    let pattern = format!("{}/*.txt", texts.display());
    let topology = support::top_words(&folder, &pattern, "");
    let arguments = ["--bootstrap", "--topology", topology.to_str().unwrap()];
    let node = Node::start(starling(), &folder.join("node"), arguments);

    let part = node.wait_until("ended").topologies.remove(0);
    assert_eq!(part.dropped, BTreeMap::from([("not UTF-8".to_owned(), 2)]));
    assert!(part.spouts[0].partitions.iter().all(|file| file.exhausted));
    assert_eq!(part.spouts[0].partitions.len(), 3, "a folder is no file");
    node.wait_to_say(&["bad.txt:2: not UTF-8"]);
    node.wait_to_say(&["ERROR", "gone.txt", "No such file or directory"]);
    let mut found: Vec<(u64, String, u64)> = node
        .client()
        .table::<serde_json::Value>("top")
        .unwrap()
        .iter()
        .map(|row| {
            let number = |name: &str| row[name].as_u64().unwrap();
            (number("rank"), row["word"].as_str().unwrap().to_owned(), number("n"))
        })
        .collect();
    found.sort();
    let expected = [(1, "four", 3), (2, "three", 3), (3, "two", 2), (4, "one", 1)];
    assert_eq!(found, expected.map(|(rank, word, n)| (rank, word.to_owned(), n)));
    assert!(node.stop().success());
}
