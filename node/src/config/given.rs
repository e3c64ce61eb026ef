//! A value together with who gave it.
//!
//! A file gives typed values with places, the environment and flags give texts with names. Here
//! they become one thing with one set of getters, so that a key cannot mean one thing in a file and
//! another in a variable.

use std::net::SocketAddr;
use std::ops::{Range, RangeInclusive};

use pe::topology::{Diagnostic, Entry, NAME_BYTES_MAX, Problems, did_you_mean, quoted};

/// Who said something, and so where to point.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// Nobody; it is the default.
    Default,
    /// A place in the file.
    File(Option<Range<usize>>),
    /// This variable.
    Env(String),
    /// This flag, with its dashes.
    Flag(&'static str),
}

impl Source {
    /// A complaint about `key`, under the name by which this source calls it.
    pub(super) fn complain(&self, key: &str, what: &str) -> Diagnostic {
        match self {
            Self::Default => Diagnostic::new(format!("`{key}` {what}")),
            Self::File(span) => {
                Diagnostic::new(format!("`{key}` {what}")).at(span.clone(), "this value")
            }
            Self::Env(variable) => Diagnostic::new(format!("{variable} {what}")),
            Self::Flag(flag) => Diagnostic::new(format!("{flag} {what}")),
        }
    }
}

/// A value that a source gives for a key.
pub(super) struct Given<'a> {
    /// The key as the contract calls it: `cluster.name`.
    pub(super) key: &'static str,
    pub(super) source: Source,
    pub(super) value: Value<'a>,
}

/// A value as it was written.
pub(super) enum Value<'a> {
    Entry(Entry<'a>),
    /// What a variable or a flag says.
    Text(String),
    /// What a flag that may be repeated says.
    Texts(Vec<String>),
}

impl Given<'_> {
    /// A text that is not empty.
    pub(super) fn text(&self, problems: &mut Problems) -> Option<String> {
        let text = self.any_text(problems)?;
        if text.is_empty() {
            return self.refuse("is empty", "", problems);
        }
        Some(text)
    }

    /// A text that can be a name.
    pub(super) fn name(&self, problems: &mut Problems) -> Option<String> {
        let name = self.text(problems)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if name.len() > NAME_BYTES_MAX || !name.chars().all(is_plain) {
            let help = format!("1 to {NAME_BYTES_MAX} letters, digits, `_` and `-` of ASCII");
            return self.refuse(&format!("cannot be {}", quoted(&name)), &help, problems);
        }
        Some(name)
    }

    /// An address of this machine.
    pub(super) fn address(&self, problems: &mut Problems) -> Option<SocketAddr> {
        let text = self.text(problems)?;
        let address = text.parse().ok();
        if address.is_none() {
            let what = format!("must be an IP address and a port, not {}", quoted(&text));
            return self.refuse(&what, "such as 127.0.0.1:7000 or [::1]:7000", problems);
        }
        address
    }

    /// An address that others can connect to.
    pub(super) fn reachable(&self, problems: &mut Problems) -> Option<SocketAddr> {
        let address = self.address(problems)?;
        if address.port() == 0 || address.ip().is_unspecified() {
            let what = format!("must be an address to connect to, not {address}");
            return self.refuse(&what, "", problems);
        }
        Some(address)
    }

    /// Addresses of other machines, as `host:port`; in a variable separated by commas.
    pub(super) fn hosts(&self, most: usize, problems: &mut Problems) -> Option<Vec<String>> {
        let hosts = self.texts(problems)?;
        if hosts.len() > most {
            let what = format!("has {} addresses, and {most} may be", hosts.len());
            return self.refuse(&what, "", problems);
        }
        if let Some(bad) = hosts.iter().find(|host| !is_host_and_port(host)) {
            let what = format!("must be a host and a port, not {}", quoted(bad));
            return self.refuse(&what, "such as node-1:7000 or [::1]:7000", problems);
        }
        Some(hosts)
    }

    /// The names of peers, each as a node says its own; in a variable separated by commas.
    pub(super) fn peers(&self, most: usize, problems: &mut Problems) -> Option<Vec<String>> {
        let peers = self.texts(problems)?;
        if peers.len() > most {
            let what = format!("has {} peers, and {most} may be", peers.len());
            return self.refuse(&what, "", problems);
        }
        if let Some(bad) = peers.iter().find(|peer| !is_peer(peer)) {
            let what = format!("must be the name of a peer, not {}", quoted(bad));
            let help = "such as 12D3KooW and 44 more letters and digits; a node says its own \
                        when it starts, as peer=";
            return self.refuse(&what, help, problems);
        }
        Some(peers)
    }

    /// A list of texts; in a variable separated by commas.
    fn texts(&self, problems: &mut Problems) -> Option<Vec<String>> {
        Some(match &self.value {
            Value::Entry(entry) => {
                entry.texts(problems)?.iter().map(|text| text.to_string()).collect()
            }
            Value::Text(text) if text.trim().is_empty() => Vec::new(),
            Value::Text(text) => text.split(',').map(|text| text.trim().to_owned()).collect(),
            Value::Texts(texts) => texts.clone(),
        })
    }

    /// An integer within a range.
    pub(super) fn integer(
        &self,
        range: RangeInclusive<u32>,
        problems: &mut Problems,
    ) -> Option<u32> {
        let value = match &self.value {
            Value::Entry(entry) => return entry.integer(range, problems).map(|value| *value),
            Value::Text(text) => text.parse().ok().filter(|value| range.contains(value)),
            Value::Texts(_) => None,
        };
        if value.is_none() {
            let what = format!("must be an integer from {} to {}", range.start(), range.end());
            return self.refuse(&what, "", problems);
        }
        value
    }

    /// One of some texts, each with its meaning.
    pub(super) fn choice<T: Copy>(
        &self,
        choices: &[(&'static str, T)],
        problems: &mut Problems,
    ) -> Option<T> {
        let text = self.text(problems)?;
        let found = choices.iter().find(|(name, _)| *name == text);
        if found.is_none() {
            let help = did_you_mean(&text, choices.iter().map(|(name, _)| *name), "known values");
            return self.refuse(&format!("cannot be {}", quoted(&text)), &help, problems);
        }
        found.map(|(_, value)| *value)
    }

    /// Complains, and gives nothing.
    pub(super) fn refuse<T>(&self, what: &str, help: &str, problems: &mut Problems) -> Option<T> {
        let help = (!help.is_empty()).then(|| help.to_owned());
        problems.push(self.source.complain(self.key, what).with_help(help));
        None
    }

    fn any_text(&self, problems: &mut Problems) -> Option<String> {
        match &self.value {
            Value::Entry(entry) => Some(entry.text(problems)?.into_value()),
            Value::Text(text) => Some(text.clone()),
            Value::Texts(_) => self.refuse("must be one text", "", problems),
        }
    }
}

/// Whether a text looks like the name of a peer with an Ed25519 key, as all nodes have: 38 bytes in the
/// digits of base 58, of which the first say what it is.
fn is_peer(text: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_alphanumeric() && !matches!(c, '0' | 'O' | 'I' | 'l');
    text.len() == 52 && text.starts_with("12D3KooW") && text.chars().all(is_digit)
}

/// Whether a text looks like `host:port`; whether there is such a host is for the network to say.
fn is_host_and_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-' || c == '_';
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => (1..=253).contains(&host.len()) && host.chars().all(is_plain),
    };
    is_host
        && port.bytes().all(|b| b.is_ascii_digit())
        && port.parse::<u16>().is_ok_and(|port| port > 0)
}
