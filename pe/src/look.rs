//! A look at one instance from outside.
//!
//! People write a key as the text of its fields. It is turned into the canonical bytes that batches carry, so it is
//! found by the same hash on every node. An instance is shown as JSON, which is made of its state by the same serde
//! code that hands it over.

use routing::{Bits, FieldKind, Key, Packed, Slot, codec};
use serde::Serialize;

use crate::host::{Panic, contain};
use crate::registry::key_kinds;
use crate::topology::{InstancePlan, Plan};
use crate::{KeyRef, Pe, Unit};

/// The instance that somebody wants to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sought {
    /// The topology, by its place.
    pub topology: u16,
    /// The prototype.
    pub prototype: u16,
    /// Which of its instances.
    pub which: Which,
}

/// One of the instances of a prototype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// That of a key, by its canonical bytes.
    Key(Vec<u8>),
    /// That of a number.
    Task(u32),
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The state, as JSON.
    State(String),
    /// There is no such instance.
    Absent,
    /// It is, or would be, somewhere else, or nobody serves its unit now.
    Elsewhere,
    /// It cannot be shown: why.
    Hidden(String),
}

impl Sought {
    /// Finds out which instance is meant by the fields of a key, or by a number.
    ///
    /// Numbers are decimal, truth values `true` or `false`, bytes hexadecimal; an optional field that is absent is
    /// `null`. A field of any other type is given as the hexadecimal digits of its encoded form.
    ///
    /// # Errors
    /// The prototype has no such instances, or no such key; in words.
    pub fn parse(
        plan: &Plan,
        (topology, prototype): (u16, u16),
        fields: &[String],
    ) -> Result<Self, String> {
        let known = plan.prototypes.get(usize::from(prototype)).ok_or("no such PE")?;
        let name = &known.name;
        let which = match known.instances {
            InstancePlan::Keyed => Which::Key(canonical(name, &key_kinds(plan, known), fields)?),
            InstancePlan::Tasks(count) => {
                let [number] = fields else {
                    return Err(format!("{name} has numbered instances: give a number"));
                };
                let number = number.parse().ok().filter(|number| *number < count);
                Which::Task(
                    number.ok_or_else(|| format!("{name} has instances 0 to {}", count - 1))?,
                )
            }
            InstancePlan::PerNode | InstancePlan::PerContainer => {
                return Err(format!("{name} has an instance on each node, and they have no keys"));
            }
            InstancePlan::Partitions => return Err(format!("{name} is a spout")),
        };
        Ok(Self { topology, prototype, which })
    }

    /// The unit that it moves with, in a cluster of so many slots.
    pub fn unit(&self, slots: usize) -> Unit {
        match &self.which {
            Which::Key(key) => Unit::Slot(Slot::of(Packed::new(key, 0).hash(), slots).0),
            Which::Task(task) => {
                let Self { topology, prototype, .. } = *self;
                Unit::Task { topology, prototype, task: *task }
            }
        }
    }
}

/// The canonical bytes of a key.
fn canonical(name: &str, kinds: &[FieldKind], fields: &[String]) -> Result<Vec<u8>, String> {
    if kinds.len() != fields.len() {
        let kinds: Vec<_> = kinds.iter().map(ToString::to_string).collect();
        let (count, given) = (kinds.len(), fields.len());
        let kinds = kinds.join(", ");
        return Err(format!("a key of {name} has {count} fields ({kinds}), not {given}"));
    }
    let is_alone = kinds.len() == 1;
    let mut key = Vec::new();
    for (&kind, text) in kinds.iter().zip(fields) {
        write_field(kind, text, is_alone, &mut key)
            .ok_or_else(|| format!("in a key of {name}, `{text}` is no {kind}"))?;
    }
    // Of an encoded field, nobody knows where it ends but by trying.
    let is_whole = KeyRef::of_key(&key, kinds).is_whole();
    is_whole.then_some(key).ok_or_else(|| format!("that is no key of {name}"))
}

fn write_field(kind: FieldKind, text: &str, is_alone: bool, key: &mut Vec<u8>) -> Option<()> {
    let mut framed = |bytes: &[u8]| {
        if !is_alone {
            key.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_le_bytes());
        }
        key.extend_from_slice(bytes);
        Some(())
    };
    let number = match kind {
        FieldKind::Text => return framed(text.as_bytes()),
        FieldKind::Bytes | FieldKind::Encoded => return framed(&unhex(text)?),
        FieldKind::Optional(_) if text == "null" => {
            key.push(0);
            return Some(());
        }
        FieldKind::Optional(inner) => {
            key.push(1);
            return write_field(*inner, text, false, key);
        }
        FieldKind::Unsigned => text.parse().ok()?,
        FieldKind::Signed => text.parse::<i64>().ok()?.cast_unsigned(),
        FieldKind::Bool => u64::from(text.parse::<bool>().ok()?),
        FieldKind::Float => f64::canonical(text.parse::<f64>().ok()?.to_bits()),
        _ => return None,
    };
    key.extend_from_slice(&number.to_le_bytes());
    Some(())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        // A sign is no digit, but would be taken for one.
        let is_digits = pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
        u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|_| is_digits)?, 16).ok()
    };
    digits.map(byte).collect()
}

/// A state as JSON; making it is application code.
pub(crate) fn shown(state: &impl Serialize) -> Seen {
    match contain(|| serde_json::to_string(state)) {
        Ok(Ok(json)) => Seen::State(json),
        Ok(Err(error)) => Seen::Hidden(format!("it is not JSON: {error}")),
        Err(panic) => panicked(&panic),
    }
}

/// What the bytes of a state of some type are.
pub(crate) fn copy<P: Pe>(state: &[u8]) -> Seen {
    match decoded::<P>(state) {
        Ok(pe) => shown(&pe),
        Err(why) => Seen::Hidden(format!("it cannot be read: {why}")),
    }
}

/// A state from its bytes; reading it is application code.
pub(crate) fn decoded<P: Pe>(state: &[u8]) -> Result<P, String> {
    match contain(|| codec::decode::<P>(state)) {
        Ok(Ok(pe)) => Ok(pe),
        Ok(Err(error)) => Err(error.to_string()),
        Err(panic) => Err(format!("its code panicked: {}", panic.text())),
    }
}

fn panicked(panic: &Panic) -> Seen {
    Seen::Hidden(format!("its code panicked: {}", panic.text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kinds: &[FieldKind], fields: &[&str]) -> Result<Vec<u8>, String> {
        let fields: Vec<_> = fields.iter().map(|&field| field.to_owned()).collect();
        canonical("count", kinds, &fields)
    }

    #[test]
    fn a_key_in_text_is_the_one_that_events_have() {
        let kinds = [
            FieldKind::Text,
            FieldKind::Optional(&FieldKind::Signed),
            FieldKind::Optional(&FieldKind::Text),
            FieldKind::Unsigned,
            FieldKind::Bool,
            FieldKind::Float,
            FieldKind::Bytes,
        ];
        let bytes = key(&kinds, &["ab", "-3", "null", "7", "true", "-0", "00fF"]).unwrap();
        let key = KeyRef::of_key(&bytes, &kinds);
        assert_eq!((key.text(0), key.signed(1), key.text(2)), (Some("ab"), Some(-3), None));
        assert_eq!((key.unsigned(3), key.boolean(4)), (Some(7), Some(true)));
        assert_eq!(key.float(5).map(f64::to_bits), Some(0), "one of the two zeros");
        assert_eq!(key.bytes(6), Some(&[0, 255][..]));
    }

    #[test]
    fn a_field_alone_is_not_framed() {
        assert_eq!(key(&[FieldKind::Text], &["word"]), Ok(b"word".to_vec()));
        let text = FieldKind::Optional(&FieldKind::Text);
        assert_eq!(key(&[text], &["a"]), Ok(vec![1, 1, 0, 0, 0, b'a']));
    }

    #[test]
    fn what_is_no_key_is_said_to_be_none() {
        let refused = |kind, text| key(&[kind], &[text]).unwrap_err();
        assert_eq!(
            refused(FieldKind::Unsigned, "-1"),
            "in a key of count, `-1` is no unsigned integer"
        );
        assert!(refused(FieldKind::Bool, "1").ends_with("is no bool"));
        assert!(refused(FieldKind::Bytes, "abc").ends_with("is no bytes"));
        assert!(refused(FieldKind::Bytes, "+f").ends_with("is no bytes"));
        assert!(refused(FieldKind::Bytes, "ä").ends_with("is no bytes"));
        let two = key(&[FieldKind::Text, FieldKind::Float], &["a"]).unwrap_err();
        assert_eq!(two, "a key of count has 2 fields (text, float), not 1");
    }
}
