//! Several hosts on one machine: a network namespace each, on a switch that can be split.
//!
//! Needs root and `ip`. Each host has two addresses: one on the switch, for the nodes among themselves,
//! and one towards the test, which no split touches.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::fmt::Write as _;
use std::process::Command;

/// What connects hosts, and goes with them when the test is over.
#[derive(Debug)]
pub(crate) struct Hosts {
    prefix: String,
    subnet: u8,
    count: usize,
}

/// Whether hosts can be made here, and why not.
pub(crate) fn unavailable() -> Option<String> {
    let probe = format!("slprobe{}", std::process::id());
    let made = Command::new("ip").args(["netns", "add", &probe]).output();
    match made {
        Ok(output) if output.status.success() => {
            let _ = Command::new("ip").args(["netns", "del", &probe]).status();
            None
        }
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("ip: {error}")),
    }
}

#[track_caller]
fn ip(line: &str) {
    let output = Command::new("ip").args(line.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Hosts {
    /// So many hosts on one switch. `number` tells tests that run at once apart, below 100.
    #[track_caller]
    pub(crate) fn new(number: u8, count: usize) -> Self {
        let prefix = format!("sl{}x{number}", std::process::id() % 100_000);
        let hosts = Self { prefix, subnet: 100 + number, count };
        let switch = hosts.name("s");
        ip(&format!("netns add {switch}"));
        for bridge in 0..3 {
            ip(&format!("-n {switch} link add br{bridge} type bridge"));
            ip(&format!("-n {switch} link set br{bridge} up"));
        }
        for host in 0..count {
            let (name, port) = (hosts.name(&host.to_string()), hosts.port(host));
            ip(&format!("netns add {name}"));
            ip(&format!("-n {name} link set lo up"));
            ip(&format!("link add {port} netns {switch} type veth peer name eth0 netns {name}"));
            ip(&format!("-n {switch} link set {port} master br0 up"));
            ip(&format!("-n {name} addr add {}/24 dev eth0", hosts.address(host)));
            ip(&format!("-n {name} link set eth0 up"));
            let near = hosts.near(host);
            ip(&format!("link add {near} type veth peer name eth1 netns {name}"));
            ip(&format!("addr add 10.{}.{}.1/30 dev {near}", hosts.subnet, host + 1));
            ip(&format!("link set {near} up"));
            ip(&format!("-n {name} addr add {}/30 dev eth1", hosts.near_address(host)));
            ip(&format!("-n {name} link set eth1 up"));
        }
        hosts
    }

    fn name(&self, what: &str) -> String {
        format!("{}{what}", self.prefix)
    }

    /// The test's end of the wire to a host.
    fn near(&self, host: usize) -> String {
        self.name(&format!("m{host}"))
    }

    fn port(&self, host: usize) -> String {
        format!("p{host}")
    }

    /// Where the others reach a host.
    pub(crate) fn address(&self, host: usize) -> String {
        format!("10.{}.0.{}", self.subnet, host + 1)
    }

    /// Where the test reaches it.
    pub(crate) fn near_address(&self, host: usize) -> String {
        format!("10.{}.{}.2", self.subnet, host + 1)
    }

    /// A command that runs `program` on a host.
    pub(crate) fn command(&self, host: usize, program: &Command) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(&host.to_string())]).arg(program.get_program());
        command.env("NO_COLOR", "1").env_remove("RUST_LOG");
        command
    }

    /// Splits the switch: each of at most three sides reaches itself alone.
    #[track_caller]
    pub(crate) fn split(&self, sides: &[&[usize]]) {
        for (bridge, side) in sides.iter().enumerate() {
            for &host in *side {
                let (switch, port) = (self.name("s"), self.port(host));
                ip(&format!("-n {switch} link set {port} master br{bridge}"));
            }
        }
    }

    /// Makes it one again.
    #[track_caller]
    pub(crate) fn heal(&self) {
        let all: Vec<_> = (0..self.count).collect();
        self.split(&[&all]);
    }

    /// What one host sends to another does not arrive any more; or does again.
    #[track_caller]
    pub(crate) fn cut(&self, from: usize, to: usize, is_cut: bool) {
        let (name, to) = (self.name(&from.to_string()), self.address(to));
        let what = if is_cut { "add" } else { "del" };
        ip(&format!("-n {name} route {what} blackhole {to}/32"));
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        // A namespace lives on while connections in it wait for an answer, with its addresses.
        for host in 0..self.count {
            let _ = Command::new("ip").args(["link", "del", &self.near(host)]).status();
        }
        let mut names = String::new();
        for what in (0..self.count).map(|host| host.to_string()).chain(["s".to_owned()]) {
            let _ = write!(names, " {}", self.name(&what));
        }
        for name in names.split_whitespace() {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}
