//! One thing that is varied while all else stays: `--sweep keys=1000,100000`.

use std::fmt;

use bench::{Spec, Workload};
use serde::Serialize;
use starling::cli::grouped;

use super::name;

/// What is varied, with the values it takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sweep(pub(super) Vec<Setting>);

/// One thing at one value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "name", content = "value", rename_all = "kebab-case")]
pub(super) enum Setting {
    /// How many different keys there are.
    Keys(u32),
    /// The exponent of Zipf's law.
    Skew(f64),
    /// How many threads compute, which for bolts is how many tasks there are.
    Parallelism(u16),
    /// How many nodes have the state of each key.
    Replicas(u16),
    /// Whether they are on disk before anything is acknowledged.
    Durability(bool),
    /// After how many MiB journals are cleaned.
    Journal(u32),
}

/// The most different keys. A table of 12 bytes for each is made to draw them by.
pub(super) const KEYS_MAX: u32 = 100_000_000;
/// The most skew: at 4, twelve of thirteen events are of the first key.
pub(super) const SKEW_MAX: f64 = 4.0;
/// The most threads.
pub(super) const PARALLELISM_MAX: u16 = 256;
/// The most nodes with the state of a key.
const REPLICAS_MAX: u16 = 7;
/// The most MiB after which a journal is cleaned: with so many it never is.
const JOURNAL_MIB_MAX: u32 = 1 << 20;
/// The most values of a sweep, each of which is a comparison of its own.
const VALUES_MAX: usize = 32;

impl Sweep {
    /// Reads `what=value,value,...`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let Some((what, values)) = text.split_once('=') else {
            return Err("what is varied and its values: keys=1000,100000".to_owned());
        };
        let read = match what {
            "keys" => |value: &str| parse_keys(value).map(Setting::Keys),
            "skew" => |value: &str| parse_skew(value).map(Setting::Skew),
            "parallelism" => |value: &str| parse_parallelism(value).map(Setting::Parallelism),
            "replicas" => |value: &str| parse_replicas(value).map(Setting::Replicas),
            "durability" => |value: &str| parse_durability(value).map(Setting::Durability),
            "journal" => |value: &str| parse_journal(value).map(Setting::Journal),
            _ => {
                let all = "keys, skew, parallelism, replicas, durability or journal";
                return Err(format!("`{what}` cannot be varied: {all}"));
            }
        };
        let settings: Vec<Setting> = values.split(',').map(read).collect::<Result<_, _>>()?;
        if settings.len() > VALUES_MAX {
            return Err(format!("at most {VALUES_MAX} values"));
        }
        match twice(&settings) {
            Some(setting) => Err(format!("{setting} is named twice")),
            None => Ok(Self(settings)),
        }
    }
}

fn twice(settings: &[Setting]) -> Option<&Setting> {
    let mut all = settings.iter().enumerate();
    all.find_map(|(at, setting)| settings[..at].contains(setting).then_some(setting))
}

/// Reads a number of different keys.
pub(super) fn parse_keys(text: &str) -> Result<u32, String> {
    let keys = text.parse().ok().filter(|keys| (1..=KEYS_MAX).contains(keys));
    keys.ok_or_else(|| format!("`{text}` is not a number of keys from 1 to {KEYS_MAX}"))
}

/// Reads an exponent.
pub(super) fn parse_skew(text: &str) -> Result<f64, String> {
    let skew = text.parse().ok().filter(|skew| (0.0..=SKEW_MAX).contains(skew));
    skew.ok_or_else(|| format!("`{text}` is not a skew from 0 to {SKEW_MAX}"))
}

fn parse_parallelism(text: &str) -> Result<u16, String> {
    let tasks = text.parse().ok().filter(|tasks| (1..=PARALLELISM_MAX).contains(tasks));
    tasks.ok_or_else(|| format!("`{text}` is not a parallelism from 1 to {PARALLELISM_MAX}"))
}

fn parse_replicas(text: &str) -> Result<u16, String> {
    let replicas = text.parse().ok().filter(|replicas| (1..=REPLICAS_MAX).contains(replicas));
    replicas.ok_or_else(|| format!("`{text}` is not a number of replicas from 1 to {REPLICAS_MAX}"))
}

fn parse_durability(text: &str) -> Result<bool, String> {
    match text {
        "memory" => Ok(false),
        "fsync" => Ok(true),
        _ => Err(format!("`{text}` is neither memory nor fsync")),
    }
}

fn parse_journal(text: &str) -> Result<u32, String> {
    let mib = text.parse().ok().filter(|mib| (1..=JOURNAL_MIB_MAX).contains(mib));
    mib.ok_or_else(|| format!("`{text}` is not a number of MiB from 1 to {JOURNAL_MIB_MAX}"))
}

impl Setting {
    /// What is set.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Keys(_) => "keys",
            Self::Skew(_) => "skew",
            Self::Parallelism(_) => "parallelism",
            Self::Replicas(_) => "replicas",
            Self::Durability(_) => "durability",
            Self::Journal(_) => "journal",
        }
    }

    /// To what, as a number.
    pub(super) fn value(self) -> f64 {
        match self {
            Self::Keys(keys) | Self::Journal(keys) => keys.into(),
            Self::Skew(skew) => skew,
            Self::Parallelism(count) | Self::Replicas(count) => count.into(),
            Self::Durability(is_durable) => u8::from(is_durable).into(),
        }
    }

    /// To what, for people.
    pub(super) fn shown(self) -> String {
        match self {
            Self::Keys(keys) => grouped(keys.into()),
            Self::Skew(skew) => skew.to_string(),
            Self::Parallelism(count) | Self::Replicas(count) => count.to_string(),
            Self::Journal(mib) => format!("{} MiB", grouped(mib.into())),
            Self::Durability(false) => "memory".to_owned(),
            Self::Durability(true) => "fsync".to_owned(),
        }
    }

    /// A run with this setting; an error if the workload does not have what is set.
    pub(super) fn apply(self, spec: &Spec) -> Result<Spec, String> {
        let (spec, workload) = (spec.clone(), spec.workload);
        match self {
            // Each of its events is of another key.
            Self::Keys(keys) if workload == Workload::Counters => {
                Ok(Spec { events: keys.into(), ..spec })
            }
            Self::Keys(keys) if workload.has_keys() => Ok(Spec { keys: Some(keys), ..spec }),
            Self::Skew(skew) if workload.has_skew() => Ok(Spec { skew: Some(skew), ..spec }),
            Self::Parallelism(tasks) => Ok(Spec { threads: tasks.into(), ..spec }),
            // With one process there is nobody to have them.
            Self::Replicas(replicas) if spec.processes > 1 => {
                Ok(Spec { replicas: replicas.into(), ..spec })
            }
            // Two, where nothing else is said: as nodes have by themselves.
            Self::Durability(is_durable) if spec.processes > 1 => {
                Ok(Spec { replicas: spec.replicas.max(2), is_durable, ..spec })
            }
            Self::Journal(mib) if spec.processes > 1 => Ok(Spec {
                replicas: spec.replicas.max(2),
                is_durable: true,
                journal_mib: Some(mib),
                ..spec
            }),
            Self::Replicas(_) | Self::Durability(_) | Self::Journal(_) => {
                Err("replicas are of several processes: --processes 3".to_owned())
            }
            Self::Keys(_) | Self::Skew(_) => {
                Err(format!("the {} of {} cannot be chosen", self.what(), name(&workload)))
            }
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what(), self.shown())
    }
}

#[cfg(test)]
mod tests {
    use bench::Model;

    use super::*;

    #[test]
    fn a_sweep_is_what_is_varied_and_its_values() {
        let keys = Sweep::parse("keys=1000,100000").unwrap();
        assert_eq!(keys.0, [Setting::Keys(1_000), Setting::Keys(100_000)]);
        let skews = Sweep::parse("skew=0,0.5,1.5").unwrap();
        assert_eq!(skews.0.iter().map(|skew| skew.value()).collect::<Vec<_>>(), [0.0, 0.5, 1.5]);
        assert_eq!(Sweep::parse("parallelism=4").unwrap().0, [Setting::Parallelism(4)]);
        let shown = |text| Sweep::parse(text).unwrap().0[0].to_string();
        assert_eq!(shown("keys=1000000"), "keys 1 000 000");
        assert_eq!(shown("skew=1.5"), "skew 1.5");
    }

    #[test]
    fn what_is_no_sweep_is_refused_with_the_reason() {
        for (text, why) in [
            ("keys", "keys=1000,100000"),
            ("speed=1", "`speed` cannot be varied"),
            ("keys=", "`` is not a number of keys"),
            ("keys=1,,2", "`` is not a number of keys"),
            ("keys=0", "from 1 to"),
            ("keys=1e3", "`1e3` is not"),
            ("skew=-1", "`-1` is not a skew"),
            ("skew=NaN", "`NaN` is not a skew"),
            ("skew=5", "from 0 to 4"),
            ("parallelism=0", "from 1 to 256"),
            ("replicas=8", "from 1 to 7"),
            ("durability=disk", "neither memory nor fsync"),
            ("journal=0", "from 1 to"),
            ("keys=7,8,7", "keys 7 is named twice"),
        ] {
            let refused = Sweep::parse(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        let many: Vec<String> = (1..=33).map(|keys| keys.to_string()).collect();
        assert!(Sweep::parse(&format!("keys={}", many.join(","))).is_err());
    }

    #[test]
    fn a_setting_goes_where_the_workload_has_it() {
        let apply = |setting: Setting, workload| setting.apply(&Spec::new(workload, Model::Keyed));
        assert_eq!(apply(Setting::Keys(9), Workload::KeyedCount).unwrap().keys, Some(9));
        assert_eq!(apply(Setting::Keys(9), Workload::Counters).unwrap().events, 9);
        assert_eq!(apply(Setting::Skew(0.5), Workload::KeyedCount).unwrap().skew, Some(0.5));
        assert_eq!(apply(Setting::Parallelism(3), Workload::Chain).unwrap().threads, 3);
        let refused = apply(Setting::Skew(0.5), Workload::WordCount).unwrap_err();
        assert_eq!(refused, "the skew of word-count cannot be chosen");
        assert!(apply(Setting::Keys(9), Workload::OpenLoop).is_err());
    }
}
