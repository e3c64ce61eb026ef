//! Settings from each source, and what is said about those that cannot be.

use std::path::Path;

use pe::topology::Diagnostic;

use super::*;

/// Everything a file can say.
const FILE: &str = r#"
listen = "127.0.0.1:7000"
listen_data = "127.0.0.1:7001"
advertise = "10.0.0.1:7000"
advertise_data = "10.0.0.1:7001"
join = ["node-1:7000", "[::1]:7000"]
data_dir = "data"
http = "127.0.0.1:8080"

[cluster]
name = "birds"
slots = 256
replicas = 1
key_file = "key"
allow = ["12D3KooWGC6b9qRzUsq8zyFVsUXYPPvA96HR8PXMFgE6Zm1CCr4S"]
expected_nodes = 3

[node]
containers = 8

[log]
format = "json"
level = "debug"
"#;

/// Names of peers.
const PEERS: [&str; 2] = [
    "12D3KooWGC6b9qRzUsq8zyFVsUXYPPvA96HR8PXMFgE6Zm1CCr4S",
    "12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X",
];

fn environment(pairs: &[(&str, &str)]) -> impl Iterator<Item = (String, String)> {
    pairs
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect::<Vec<_>>()
        .into_iter()
}

fn bootstrap() -> Overrides {
    Overrides { bootstrap: true, ..Overrides::default() }
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// A line per diagnostic: where, what is there, what is said, what to do.
fn shown(problems: &[Diagnostic], file: &str) -> String {
    let line = |problem: &Diagnostic| {
        let place = problem.position(file).map_or("-".into(), |(line, column)| {
            format!("{line}:{column} {}", &file[problem.span.clone().unwrap_or_default()])
        });
        let help = problem.help.as_deref().unwrap_or("-");
        format!("{place} | {problem} | {help}")
    };
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn check(file: &str, env: &[(&str, &str)], flags: Overrides, said: &str) {
    let problems = resolve(Some(file), environment(env), flags, 4).err().unwrap_or_default();
    assert_eq!(shown(&problems, file), said, "in {file} with {env:?}");
}

#[test]
fn who_may_connect_is_a_list_from_any_source() {
    let all = |file: &str, env: &[(&str, &str)], allow: Option<Vec<String>>| {
        let flags = Overrides { allow, ..bootstrap() };
        resolve(Some(file), environment(env), flags, 1).unwrap().cluster.allow
    };
    let list = |peers: &[&str]| Some(peers.iter().map(|peer| (*peer).to_owned()).collect());
    let [one, two] = PEERS;
    let (file, variable) = (format!("cluster.allow = ['{one}']"), "STARLING__CLUSTER__ALLOW");
    let both = format!("{one}, {two}");
    assert_eq!(all("", &[], None), None, "whoever has the key");
    assert_eq!(all("cluster.allow = []", &[], None), list(&[]), "nobody");
    assert_eq!(all(&file, &[], None), list(&[one]));
    assert_eq!(all(&file, &[(variable, &both)], None), list(&[one, two]));
    assert_eq!(all(&file, &[(variable, &both)], list(&[two])), list(&[two]));

    let help = "such as 12D3KooW and 44 more letters and digits; a node says its own when it \
                starts, as peer=";
    let said = |key: &str| format!("- | {key} must be the name of a peer, not `bird` | {help}");
    check("", &[(variable, "bird")], bootstrap(), &said(variable));
    check("", &[], Overrides { allow: list(&[one, "bird"]), ..bootstrap() }, &said("--allow"));
    let in_file = said("`cluster.allow`").replacen('-', "1:17 ['bird']", 1);
    check("cluster.allow = ['bird']", &[], bootstrap(), &in_file);
    let close = "cluster.alow = []";
    let problems = resolve(Some(close), environment(&[]), bootstrap(), 1).unwrap_err();
    assert!(shown(&problems, close).contains("allow"), "{}", shown(&problems, close));
}

#[test]
fn defaults_are_those_of_the_contract() {
    let config = resolve(None, environment(&[]), bootstrap(), 6).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:0");
    assert_eq!(config.listen_data.to_string(), "127.0.0.1:0");
    assert_eq!(config.http.to_string(), "127.0.0.1:7700");
    assert_eq!(config.data_dir, Path::new("starling-data"));
    assert_eq!((config.containers, config.bootstrap, config.insecure), (6, true, false));
    assert!(config.join.is_empty());
    let cluster = &config.cluster;
    assert_eq!(
        (cluster.name.as_str(), cluster.slots, cluster.expected_nodes),
        ("starling", 1024, 1)
    );
    assert_eq!(cluster.key_file, None);
    assert_eq!((config.log.format, config.log.level.as_str()), (LogFormat::Text, "info"));
    assert_eq!(resolve(None, environment(&[]), bootstrap(), 0).unwrap().containers, 1);
}

#[test]
fn a_file_can_say_everything() {
    let config = resolve(Some(FILE), environment(&[]), Overrides::default(), 4).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:7000");
    assert_eq!(config.listen_data.to_string(), "127.0.0.1:7001");
    let advertised = [config.advertise, config.advertise_data].map(|at| at.unwrap().to_string());
    assert_eq!(advertised, ["10.0.0.1:7000", "10.0.0.1:7001"]);
    assert_eq!(config.http.to_string(), "127.0.0.1:8080");
    assert_eq!(config.join, ["node-1:7000", "[::1]:7000"]);
    assert_eq!(config.data_dir, Path::new("data"));
    assert_eq!((config.containers, config.bootstrap), (8, false));
    let cluster = &config.cluster;
    assert_eq!((cluster.name.as_str(), cluster.slots, cluster.expected_nodes), ("birds", 256, 3));
    assert_eq!(cluster.key_file.as_deref(), Some(Path::new("key")));
    assert_eq!(cluster.allow.as_deref(), Some(&[PEERS[0].to_owned()][..]));
    assert_eq!((config.log.format, config.log.level.as_str()), (LogFormat::Json, "debug"));
}

#[test]
fn the_environment_overrides_the_file() {
    let env = [
        ("PATH", "/bin"),
        ("STARLING_LISTEN", "not ours: one underscore"),
        ("STARLING__LISTEN", "127.0.0.2:1"),
        ("STARLING__LISTEN_DATA", "127.0.0.2:2"),
        ("STARLING__ADVERTISE", "10.0.0.2:1"),
        ("STARLING__ADVERTISE_DATA", "10.0.0.2:2"),
        ("STARLING__JOIN", "a:1, b:2"),
        ("STARLING__DATA_DIR", "elsewhere"),
        ("STARLING__HTTP", "127.0.0.2:3"),
        ("STARLING__CLUSTER__NAME", "fish"),
        ("STARLING__CLUSTER__SLOTS", "16"),
        ("STARLING__CLUSTER__REPLICAS", "1"),
        ("STARLING__CLUSTER__KEY_FILE", "other-key"),
        ("STARLING__CLUSTER__EXPECTED_NODES", "5"),
        ("STARLING__NODE__CONTAINERS", "2"),
        ("STARLING__LOG__FORMAT", "text"),
        ("STARLING__LOG__LEVEL", "warn,libp2p=error"),
    ];
    let config = resolve(Some(FILE), environment(&env), Overrides::default(), 4).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.2:1");
    assert_eq!(config.listen_data.to_string(), "127.0.0.2:2");
    let advertised = [config.advertise, config.advertise_data].map(|at| at.unwrap().to_string());
    assert_eq!(advertised, ["10.0.0.2:1", "10.0.0.2:2"]);
    assert_eq!(config.http.to_string(), "127.0.0.2:3");
    assert_eq!(config.join, ["a:1", "b:2"]);
    assert_eq!(config.data_dir, Path::new("elsewhere"));
    assert_eq!(config.containers, 2);
    let cluster = &config.cluster;
    assert_eq!((cluster.name.as_str(), cluster.slots, cluster.expected_nodes), ("fish", 16, 5));
    assert_eq!(cluster.key_file.as_deref(), Some(Path::new("other-key")));
    assert_eq!(
        (config.log.format, config.log.level.as_str()),
        (LogFormat::Text, "warn,libp2p=error")
    );
}

#[test]
fn flags_override_the_environment() {
    let env = [
        ("STARLING__LISTEN", "127.0.0.2:1"),
        ("STARLING__JOIN", "a:1"),
        ("STARLING__CLUSTER__EXPECTED_NODES", "5"),
    ];
    let flags = Overrides {
        listen: text("127.0.0.3:1"),
        listen_data: text("127.0.0.3:2"),
        advertise: text("10.0.0.3:1"),
        advertise_data: text("10.0.0.3:2"),
        join: Some(vec!["c:3".to_owned()]),
        data_dir: Some("flagged".into()),
        http: text("127.0.0.3:3"),
        cluster_name: text("worms"),
        key_file: Some("flagged-key".into()),
        expected_nodes: Some(7),
        containers: Some(3),
        log_format: text("text"),
        log_level: text("trace"),
        ..Overrides::default()
    };
    let config = resolve(Some(FILE), environment(&env), flags, 4).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.3:1");
    assert_eq!(config.listen_data.to_string(), "127.0.0.3:2");
    let advertised = [config.advertise, config.advertise_data].map(|at| at.unwrap().to_string());
    assert_eq!(advertised, ["10.0.0.3:1", "10.0.0.3:2"]);
    assert_eq!(config.http.to_string(), "127.0.0.3:3");
    assert_eq!(config.join, ["c:3"]);
    assert_eq!(config.data_dir, Path::new("flagged"));
    assert_eq!(config.containers, 3);
    let cluster = &config.cluster;
    assert_eq!((cluster.name.as_str(), cluster.slots, cluster.expected_nodes), ("worms", 256, 7));
    assert_eq!(cluster.key_file.as_deref(), Some(Path::new("flagged-key")));
    assert_eq!((config.log.format, config.log.level.as_str()), (LogFormat::Text, "trace"));
}

#[test]
fn a_bad_file_is_refused_at_its_place() {
    for (file, said) in [
        ("listen = ", "1:10  | string values must be quoted, expected literal string | -"),
        ("lisen = 1", "1:1 lisen | unknown key `lisen` | did you mean `listen`?"),
        ("cluster.slot = 16", "1:9 slot | unknown key `slot` | did you mean `slots`?"),
        ("cluster = 1", "1:11 1 | `cluster` must be a table, not an integer | -"),
        ("listen = 7000", "1:10 7000 | `listen` must be a string, not an integer | -"),
        (
            "listen = 'localhost:1'",
            "1:10 'localhost:1' | `listen` must be an IP address and a port, not `localhost:1` | \
             such as 127.0.0.1:7000 or [::1]:7000",
        ),
        ("http = ''", "1:8 '' | `http` is empty | -"),
        ("join = 'a:1'", "1:8 'a:1' | `join` must be an array, not a string | -"),
        (
            "join = ['a']",
            "1:8 ['a'] | `join` must be a host and a port, not `a` | \
             such as node-1:7000 or [::1]:7000",
        ),
        ("data_dir = ''", "1:12 '' | `data_dir` is empty | -"),
        (
            "cluster.name = 'a b'",
            "1:16 'a b' | `cluster.name` cannot be `a b` | \
             1 to 64 letters, digits, `_` and `-` of ASCII",
        ),
        ("cluster.slots = 8", "1:17 8 | `slots` must be from 16 to 65536 | -"),
        ("cluster.slots = 131072", "1:17 131072 | `slots` must be from 16 to 65536 | -"),
        (
            "cluster.slots = 1000",
            "1:17 1000 | `cluster.slots` must be a power of two | 512 or 1024",
        ),
        ("cluster.replicas = 0", "1:20 0 | `replicas` must be from 1 to 7 | -"),
        ("cluster.replicas = 8", "1:20 8 | `replicas` must be from 1 to 7 | -"),
        ("cluster.expected_nodes = 0", "1:26 0 | `expected_nodes` must be from 1 to 1024 | -"),
        ("node.containers = 0", "1:19 0 | `containers` must be from 1 to 1024 | -"),
        (
            "memory.budget = '1GiB'",
            "1:17 '1GiB' | `memory.budget` is not available in this version | -",
        ),
        (
            "log.format = 'jsno'",
            "1:14 'jsno' | `log.format` cannot be `jsno` | did you mean `json`?",
        ),
        ("log.level = ''", "1:13 '' | `log.level` is empty | -"),
        ("bootstrap = true", "1:1 bootstrap | `bootstrap` is a flag only | say --bootstrap"),
        ("insecure = true", "1:1 insecure | `insecure` is a flag only | say --insecure"),
        (
            "cluster.slots = 3\nlog.levl = 'x'\nlisten = 'y'",
            "1:17 3 | `slots` must be from 16 to 65536 | -\n\
             2:5 levl | unknown key `levl` | did you mean `level`?\n\
             3:10 'y' | `listen` must be an IP address and a port, not `y` | \
             such as 127.0.0.1:7000 or [::1]:7000",
        ),
    ] {
        check(file, &[], bootstrap(), said);
    }
}

#[test]
fn a_bad_variable_is_refused_by_name() {
    for (name, value, said) in [
        (
            "STARLING__LISTEN",
            "x",
            "STARLING__LISTEN must be an IP address and a port, not `x` | \
             such as 127.0.0.1:7000 or [::1]:7000",
        ),
        ("STARLING__LISTEN", "", "STARLING__LISTEN is empty | -"),
        (
            "STARLING__JOIN",
            "a:1,b",
            "STARLING__JOIN must be a host and a port, not `b` | such as node-1:7000 or [::1]:7000",
        ),
        (
            "STARLING__CLUSTER__SLOTS",
            "many",
            "STARLING__CLUSTER__SLOTS must be an integer from 16 to 65536 | -",
        ),
        (
            "STARLING__CLUSTER__SLOTS",
            "17",
            "STARLING__CLUSTER__SLOTS must be a power of two | 16 or 32",
        ),
        (
            "STARLING__MEMORY__BUDGET",
            "1GiB",
            "STARLING__MEMORY__BUDGET is not available in this version | -",
        ),
        (
            "STARLING__CLUSTER__REPLICAS",
            "9",
            "STARLING__CLUSTER__REPLICAS must be an integer from 1 to 7 | -",
        ),
        (
            "STARLING__CLUSTER_NAME",
            "x",
            "unknown variable `STARLING__CLUSTER_NAME` | did you mean `STARLING__CLUSTER__NAME`?",
        ),
        (
            "STARLING__BOOTSTRAP",
            "1",
            "STARLING__BOOTSTRAP cannot be set: `bootstrap` is a flag only | say --bootstrap",
        ),
    ] {
        check("", &[(name, value)], bootstrap(), &format!("- | {said}"));
    }
}

#[test]
fn a_bad_flag_is_refused_by_name() {
    let flags = || bootstrap();
    for (flags, said) in [
        (
            Overrides { http: text("7700"), ..flags() },
            "--http must be an IP address and a port, not `7700` | \
             such as 127.0.0.1:7000 or [::1]:7000",
        ),
        (
            Overrides { containers: Some(0), ..flags() },
            "--containers must be an integer from 1 to 1024 | -",
        ),
        (
            Overrides { log_format: text("xml"), ..flags() },
            "--log-format cannot be `xml` | known values: `text`, `json`",
        ),
        (Overrides { data_dir: Some("".into()), ..flags() }, "--data-dir is empty | -"),
        (
            Overrides { bootstrap: false, join: Some(vec!["x".into()]), ..flags() },
            "--join must be a host and a port, not `x` | such as node-1:7000 or [::1]:7000\n\
             - | say --bootstrap to form a new cluster or --join ADDR | -",
        ),
        (
            Overrides { join: Some(vec!["a:1".into(); JOIN_MAX + 1]), ..flags() },
            "--join has 65 addresses, and 64 may be | -",
        ),
    ] {
        check("", &[], flags, &format!("- | {said}"));
    }
}

#[test]
fn a_node_forms_a_cluster_or_joins_one() {
    let help = "--bootstrap forms a new cluster, `join` enters one; leave out one of them";
    check(
        "",
        &[],
        Overrides::default(),
        "- | say --bootstrap to form a new cluster or --join ADDR | -",
    );
    check(
        "join = ['a:1']",
        &[],
        bootstrap(),
        &format!("1:8 ['a:1'] | `join` cannot be given together with --bootstrap | {help}"),
    );
    check(
        "",
        &[("STARLING__JOIN", "a:1")],
        bootstrap(),
        &format!("- | STARLING__JOIN cannot be given together with --bootstrap | {help}"),
    );
    check("join = []", &[], bootstrap(), "");
    check("join = ['a:1']", &[("STARLING__JOIN", "")], bootstrap(), "");
    check("join = ['a:1']", &[], Overrides { join: Some(vec![]), ..bootstrap() }, "");
    check("join = ['a:1']", &[], Overrides::default(), "");
}

#[test]
fn nothing_is_open_to_others_by_accident() {
    let key = "give `cluster.key_file`; or say --insecure, and everybody can reach it";
    let proxy = "pages and commands have no password: keep to 127.0.0.1 and put a proxy before \
                 it, or say --insecure";
    let open = |name: &str, address: &str, help: &str| {
        format!("{name} is open to other machines at {address} and not protected | {help}")
    };
    let listen = "listen = '0.0.0.0:7000'";
    check(
        listen,
        &[],
        bootstrap(),
        &format!("1:10 '0.0.0.0:7000' | {}", open("`listen`", "0.0.0.0:7000", key)),
    );
    let insecure = || Overrides { insecure: true, ..bootstrap() };
    check(listen, &[], insecure(), "");
    check(listen, &[("STARLING__CLUSTER__KEY_FILE", "k")], bootstrap(), "");
    check(listen, &[("STARLING__LISTEN", "127.0.0.1:1")], bootstrap(), "");
    check(
        "",
        &[("STARLING__LISTEN_DATA", "[::]:1")],
        bootstrap(),
        &format!("- | {}", open("STARLING__LISTEN_DATA", "[::]:1", key)),
    );
    let http = Overrides { http: text("10.0.0.1:80"), ..bootstrap() };
    check(
        "cluster.key_file = 'k'",
        &[],
        http,
        &format!("- | {}", open("--http", "10.0.0.1:80", proxy)),
    );
    let http = Overrides { http: text("10.0.0.1:80"), ..insecure() };
    check("", &[], http, "");
    check("listen = '[::ffff:127.0.0.1]:1'\nhttp = '[::1]:1'", &[], bootstrap(), "");

    let config = resolve(Some(listen), environment(&[]), insecure(), 1).unwrap();
    assert_eq!(config.listen_data.to_string(), "0.0.0.0:0", "data follows listen");
}

#[test]
fn what_is_advertised_can_be_connected_to() {
    let said = |address: &str| {
        format!("- | --advertise-data must be an address to connect to, not {address} | -")
    };
    for address in ["10.0.0.1:0", "0.0.0.0:7000", "[::]:7000"] {
        let flags = Overrides { advertise_data: text(address), ..bootstrap() };
        check("", &[], flags, &said(address));
    }
}

#[test]
fn hosts_are_checked_by_their_looks_only() {
    let joins = |host: &str| {
        let flags = Overrides { join: Some(vec![host.to_owned()]), ..Overrides::default() };
        resolve(None, environment(&[]), flags, 1).is_ok()
    };
    for good in ["a:1", "node-1.example.com:65535", "10.0.0.1:7000", "[fe80::1]:7000", "a_b:1"] {
        assert!(joins(good), "{good}");
    }
    for bad in [
        "",
        ":1",
        "a:",
        "a:0",
        "a:65536",
        "a:+1",
        "a b:1",
        "::1:7",
        "[::1:7",
        "[x]:7",
        "http://a:1",
    ] {
        assert!(!joins(bad), "{bad}");
    }
}

/// Every prefix of a good file, and the file without each of its lines.
#[test]
fn a_damaged_file_never_panics() {
    for end in 0..=FILE.len() {
        drop(resolve(Some(&FILE[..end]), environment(&[]), bootstrap(), 1));
    }
    for skipped in 0..FILE.lines().count() {
        let lines = FILE.lines().enumerate().filter(|(index, _)| *index != skipped);
        let text: String = lines.map(|(_, line)| format!("{line}\n")).collect();
        drop(resolve(Some(&text), environment(&[]), bootstrap(), 1));
    }
}
