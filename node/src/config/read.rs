//! Reads the sources one after the other, and then looks at the whole.
//!
//! A key that does not exist is refused wherever it is written: a setting that is silently ignored
//! is found out on the day it was needed.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use pe::topology::{Diagnostic, Document, Problems, Table, did_you_mean, quoted};

use super::given::{Given, Source, Value};
use super::{
    ALLOW_MAX, COUNT_MAX, Durability, JOIN_MAX, JOURNAL_MIB_MAX, LogFormat, NodeConfig, Overrides,
    REPLICAS_MAX, SLOTS_MAX, SLOTS_MIN,
};

const PREFIX: &str = "STARLING__";

/// The keys of a file, by table; the first are those of the top level.
const KEYS: [(&str, &[&str]); 5] = [
    ("", &["listen", "listen_data", "advertise", "advertise_data", "join", "data_dir", "http"]),
    (
        "cluster",
        &[
            "cluster.name",
            "cluster.slots",
            "cluster.replicas",
            "cluster.durability",
            "cluster.key_file",
            "cluster.allow",
            "cluster.expected_nodes",
        ],
    ),
    ("node", &["node.containers", "node.journal_mib"]),
    ("memory", &["memory.budget"]),
    ("log", &["log.format", "log.level"]),
];

/// What only a flag may say: a file outlives the moment for which it was meant.
const FLAGS_ONLY: [&str; 2] = ["bootstrap", "insecure"];

pub(super) fn resolve(
    file: Option<&str>,
    env: impl Iterator<Item = (String, String)>,
    flags: Overrides,
    defaults: NodeConfig,
) -> Result<NodeConfig, Vec<Diagnostic>> {
    let document = file.map(Document::parse).transpose().map_err(|error| vec![error])?;
    let mut draft = Draft::new(defaults);
    if let Some(document) = &document {
        draft.read_file(document.root());
    }
    draft.read_env(env);
    draft.read_flags(flags);
    draft.finish()
}

/// The settings so far, and who set those that are looked at again in the end.
struct Draft {
    config: NodeConfig,
    listen: Source,
    /// Without one it follows `listen`.
    listen_data: Option<Source>,
    http: Source,
    join: Source,
    problems: Problems,
}

impl Draft {
    fn new(config: NodeConfig) -> Self {
        Self {
            config,
            listen: Source::Default,
            listen_data: None,
            http: Source::Default,
            join: Source::Default,
            problems: Problems::default(),
        }
    }

    fn read_file(&mut self, mut root: Table<'_>) {
        for (table, keys) in KEYS {
            if table.is_empty() {
                self.read_table(&mut root, keys);
            } else if let Some(mut table) = root.table(table, &mut self.problems) {
                self.read_table(&mut table, keys);
                table.finish(&mut self.problems);
            }
        }
        for key in FLAGS_ONLY {
            if let Some(entry) = root.entry(key) {
                let message = format!("`{key}` is a flag only");
                let problem = Diagnostic::new(message).at(entry.key_span(), "not in a file");
                self.problems.push(problem.with_help(format!("say --{key}")));
            }
        }
        root.finish(&mut self.problems);
    }

    fn read_table(&mut self, table: &mut Table<'_>, keys: &[&'static str]) {
        for key in keys.iter().copied() {
            let last = key.rsplit_once('.').map_or(key, |(_, last)| last);
            if let Some(entry) = table.entry(last) {
                let source = Source::File(entry.span());
                self.set(Given { key, source, value: Value::Entry(entry) });
            }
        }
    }

    fn read_env(&mut self, env: impl Iterator<Item = (String, String)>) {
        // Sorted, so that the same environment gives the same complaints.
        let mut ours: Vec<_> = env.filter(|(name, _)| name.starts_with(PREFIX)).collect();
        ours.sort_unstable();
        for (variable, text) in ours {
            let wanted = KEYS.iter().flat_map(|(_, keys)| keys.iter().copied());
            match wanted.clone().find(|key| variable_of(key) == variable) {
                Some(key) => {
                    let source = Source::Env(variable);
                    self.set(Given { key, source, value: Value::Text(text) });
                }
                None => self.problems.push(unknown_variable(&variable, wanted)),
            }
        }
    }

    fn read_flags(&mut self, flags: Overrides) {
        let number = |value: Option<u32>| value.map(|value| value.to_string());
        let texts = [
            ("listen", "--listen", flags.listen),
            ("listen_data", "--listen-data", flags.listen_data),
            ("advertise", "--advertise", flags.advertise),
            ("advertise_data", "--advertise-data", flags.advertise_data),
            ("http", "--http", flags.http),
            ("cluster.name", "--cluster-name", flags.cluster_name),
            ("cluster.expected_nodes", "--expected-nodes", number(flags.expected_nodes)),
            ("node.containers", "--containers", number(flags.containers)),
            ("log.format", "--log-format", flags.log_format),
            ("log.level", "--log-level", flags.log_level),
        ];
        for (key, flag, text) in texts {
            if let Some(text) = text {
                self.set(Given { key, source: Source::Flag(flag), value: Value::Text(text) });
            }
        }
        let lists = [("join", "--join", flags.join), ("cluster.allow", "--allow", flags.allow)];
        for (key, flag, texts) in lists {
            if let Some(texts) = texts {
                self.set(Given { key, source: Source::Flag(flag), value: Value::Texts(texts) });
            }
        }
        // Paths are not texts, so they do not come this way.
        self.set_path("--data-dir", flags.data_dir, |config, path| config.data_dir = path);
        self.set_path("--key-file", flags.key_file, |config, path| {
            config.cluster.key_file = Some(path);
        });
        self.config.bootstrap = flags.bootstrap;
        self.config.insecure = flags.insecure;
    }

    fn set_path(
        &mut self,
        flag: &'static str,
        path: Option<PathBuf>,
        set: impl FnOnce(&mut NodeConfig, PathBuf),
    ) {
        match path {
            Some(path) if path.as_os_str().is_empty() => {
                self.problems.push(Source::Flag(flag).complain("", "is empty"));
            }
            Some(path) => set(&mut self.config, path),
            None => {}
        }
    }

    /// Takes one value, wherever it comes from. What is wrong leaves the setting as it was.
    fn set(&mut self, given: Given<'_>) {
        let (config, problems) = (&mut self.config, &mut self.problems);
        match given.key {
            "listen" => {
                put(&mut config.listen, given.address(problems));
                self.listen = given.source;
            }
            "listen_data" => {
                put(&mut config.listen_data, given.address(problems));
                self.listen_data = Some(given.source);
            }
            "advertise" => put(&mut config.advertise, given.reachable(problems).map(Some)),
            "advertise_data" => {
                put(&mut config.advertise_data, given.reachable(problems).map(Some));
            }
            "http" => {
                put(&mut config.http, given.address(problems));
                self.http = given.source;
            }
            "join" => {
                put(&mut config.join, given.hosts(JOIN_MAX, problems));
                self.join = given.source;
            }
            "data_dir" => put(&mut config.data_dir, given.text(problems).map(PathBuf::from)),
            "cluster.name" => put(&mut config.cluster.name, given.name(problems)),
            "cluster.slots" => put(&mut config.cluster.slots, slots(&given, problems)),
            "cluster.replicas" => {
                put(&mut config.cluster.replicas, given.integer(1..=REPLICAS_MAX, problems));
            }
            "cluster.durability" => {
                let kinds = [("memory", Durability::Memory), ("fsync", Durability::Fsync)];
                put(&mut config.cluster.durability, given.choice(&kinds, problems));
            }
            "cluster.key_file" => {
                let path = given.text(problems).map(PathBuf::from);
                put(&mut config.cluster.key_file, path.map(Some));
            }
            "cluster.allow" => {
                put(&mut config.cluster.allow, given.peers(ALLOW_MAX, problems).map(Some));
            }
            "cluster.expected_nodes" => {
                put(&mut config.cluster.expected_nodes, given.integer(1..=COUNT_MAX, problems));
            }
            "node.containers" => {
                let count = given.integer(1..=COUNT_MAX, problems);
                put(&mut config.containers, count.and_then(|count| usize::try_from(count).ok()));
            }
            "node.journal_mib" => {
                put(&mut config.journal_mib, given.integer(1..=JOURNAL_MIB_MAX, problems));
            }
            "memory.budget" => {
                problems.push(given.source.complain(given.key, "is not available in this version"));
            }
            "log.format" => {
                let formats = [("text", LogFormat::Text), ("json", LogFormat::Json)];
                put(&mut config.log.format, given.choice(&formats, problems));
            }
            "log.level" => put(&mut config.log.level, given.text(problems)),
            key => unreachable!("`{key}` is in KEYS and is not read"),
        }
    }

    fn finish(mut self) -> Result<NodeConfig, Vec<Diagnostic>> {
        if self.listen_data.is_none() {
            self.config.listen_data = SocketAddr::new(self.config.listen.ip(), 0);
        }
        self.check_entry();
        self.check_reach();
        self.problems.into_result(self.config)
    }

    /// There are two ways into a cluster, and a node takes one of them.
    fn check_entry(&mut self) {
        let joins = !self.config.join.is_empty();
        if self.config.bootstrap && joins {
            let what = "cannot be given together with --bootstrap";
            let help = "--bootstrap forms a new cluster, `join` enters one; leave out one of them";
            self.problems.push(self.join.complain("join", what).with_help(help.to_owned()));
        }
        if !self.config.bootstrap && !joins {
            let message = "say --bootstrap to form a new cluster or --join ADDR";
            self.problems.push(Diagnostic::new(message));
        }
    }

    /// Nothing is open to other machines by accident.
    fn check_reach(&mut self) {
        if self.config.insecure {
            return;
        }
        let config = &self.config;
        let needs_key = "give `cluster.key_file`; or say --insecure, and everybody can reach it";
        let needs_insecure = "pages and commands have no password: keep to 127.0.0.1 and \
                              put a proxy before it, or say --insecure";
        let has_key = config.cluster.key_file.is_some();
        let places = [
            ("listen", config.listen, Some(&self.listen), has_key, needs_key),
            ("listen_data", config.listen_data, self.listen_data.as_ref(), has_key, needs_key),
            ("http", config.http, Some(&self.http), false, needs_insecure),
        ];
        for (key, address, source, is_safe, help) in places {
            // Without a source it is where another one is that has been looked at.
            let Some(source) = source else { continue };
            if !is_safe && !is_loopback(address.ip()) {
                let what = format!("is open to other machines at {address} and not protected");
                self.problems.push(source.complain(key, &what).with_help(help.to_owned()));
            }
        }
    }
}

fn put<T>(setting: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *setting = value;
    }
}

fn slots(given: &Given<'_>, problems: &mut Problems) -> Option<u32> {
    let slots = given.integer(SLOTS_MIN..=SLOTS_MAX, problems)?;
    if !slots.is_power_of_two() {
        let near = format!("{} or {}", slots.next_power_of_two() / 2, slots.next_power_of_two());
        return given.refuse("must be a power of two", &near, problems);
    }
    Some(slots)
}

/// `STARLING__CLUSTER__NAME` for `cluster.name`.
fn variable_of(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}

fn unknown_variable(variable: &str, keys: impl Iterator<Item = &'static str>) -> Diagnostic {
    if let Some(flag) = FLAGS_ONLY.iter().find(|flag| variable_of(flag) == variable) {
        let problem = Diagnostic::new(format!("{variable} cannot be set: `{flag}` is a flag only"));
        return problem.with_help(format!("say --{flag}"));
    }
    let known: Vec<String> = keys.map(variable_of).collect();
    let help = did_you_mean(variable, known.iter().map(String::as_str), "known variables");
    Diagnostic::new(format!("unknown variable {}", quoted(variable))).with_help(help)
}

/// An IPv4 address in the clothes of IPv6 is what it is underneath.
fn is_loopback(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}
