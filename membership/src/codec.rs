//! How gossip is written, and read without trust.
//!
//! foca applies a packet piece by piece as it reads it, and stops at the first error. So a packet is
//! read here in full before foca sees it: what is broken at its end must not have changed anything
//! by its beginning, and what is wrong about one node can be cut out and the rest kept.

use std::ops::Range;

use bincode::config::{Configuration, Limit, LittleEndian, Varint, standard};
use bytes::{Buf, BufMut};
use foca::{Header, Message};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Refusal;
use crate::identity::Identity;

/// The longest header or update. A header names three members of at most 230 bytes.
pub(crate) const ITEM_BYTES_MAX: usize = 2048;

/// bincode asks this before it makes room for bytes that a packet only claims to have.
const FORMAT: Configuration<LittleEndian, Varint, Limit<ITEM_BYTES_MAX>> =
    standard().with_limit::<ITEM_BYTES_MAX>();

/// One thing said about one node.
pub(crate) type Update = foca::Member<Identity>;

/// The codec given to foca.
#[derive(Debug)]
pub(crate) struct Codec;

impl foca::Codec<Identity> for Codec {
    type Error = CodecError;

    fn encode_header(
        &mut self,
        header: &Header<Identity>,
        buf: impl BufMut,
    ) -> Result<(), CodecError> {
        encode(header, buf)
    }

    fn decode_header(&mut self, buf: impl Buf) -> Result<Header<Identity>, CodecError> {
        decode(buf)
    }

    fn encode_member(&mut self, member: &Update, buf: impl BufMut) -> Result<(), CodecError> {
        encode(member, buf)
    }

    fn decode_member(&mut self, buf: impl Buf) -> Result<Update, CodecError> {
        decode(buf)
    }
}

/// The item has no room, or the bytes are no item.
#[derive(Debug)]
pub(crate) struct CodecError;

impl std::fmt::Display for CodecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a gossip item, or no room for it")
    }
}

impl std::error::Error for CodecError {}

fn encode(item: &impl Serialize, mut buf: impl BufMut) -> Result<(), CodecError> {
    let bytes = bincode::serde::encode_to_vec(item, FORMAT).map_err(|_| CodecError)?;
    if buf.remaining_mut() < bytes.len() {
        return Err(CodecError);
    }
    buf.put_slice(&bytes);
    Ok(())
}

fn decode<T: DeserializeOwned>(mut buf: impl Buf) -> Result<T, CodecError> {
    let (item, length) =
        bincode::serde::decode_from_slice(buf.chunk(), FORMAT).map_err(|_| CodecError)?;
    buf.advance(length);
    Ok(item)
}

/// A packet, read in full.
#[derive(Debug)]
pub(crate) struct Packet<'a> {
    pub(crate) header: Header<Identity>,
    bytes: &'a [u8],
    header_bytes: usize,
    /// Each with the bytes it was read from.
    updates: Vec<(Update, Range<usize>)>,
}

impl<'a> Packet<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let mut rest = bytes;
        let header: Header<Identity> = decode(&mut rest).map_err(|_| Refusal::Undecodable)?;
        let header_bytes = bytes.len() - rest.len();
        let mut updates = Vec::new();
        match header.message {
            // Nobody sends it: the engine's own messages have their own connection.
            Message::Broadcast => return Err(Refusal::Undecodable),
            Message::Announce | Message::TurnUndead => (),
            Message::Ping(_)
            | Message::Ack(_)
            | Message::PingReq { .. }
            | Message::IndirectPing { .. }
            | Message::IndirectAck { .. }
            | Message::ForwardedAck { .. }
            | Message::Feed
            | Message::Gossip => {
                let count = rest.try_get_u16().map_err(|_| Refusal::Undecodable)?;
                for _ in 0..count {
                    let start = bytes.len() - rest.len();
                    let update = decode(&mut rest).map_err(|_| Refusal::Undecodable)?;
                    updates.push((update, start..bytes.len() - rest.len()));
                }
            }
        }
        if !rest.is_empty() {
            return Err(Refusal::Undecodable);
        }
        Ok(Self { header, bytes, header_bytes, updates })
    }

    /// The third node that the message is about, besides sender and receiver.
    pub(crate) fn subject(&self) -> Option<&Identity> {
        match &self.header.message {
            Message::PingReq { target: subject, .. }
            | Message::IndirectPing { origin: subject, .. }
            | Message::IndirectAck { target: subject, .. }
            | Message::ForwardedAck { origin: subject, .. } => Some(subject),
            Message::Ping(_)
            | Message::Ack(_)
            | Message::Announce
            | Message::Feed
            | Message::Gossip
            | Message::Broadcast
            | Message::TurnUndead => None,
        }
    }

    pub(crate) fn updates(&self) -> impl Iterator<Item = &Update> {
        self.updates.iter().map(|(update, _)| update)
    }

    /// The packet with only those updates for which `keep`, in order, says so.
    pub(crate) fn stripped(&self, keep: &[bool]) -> Vec<u8> {
        if keep.iter().all(|&keep| keep) {
            return self.bytes.to_vec();
        }
        let mut bytes = self.bytes[..self.header_bytes].to_vec();
        let kept = || self.updates.iter().zip(keep).filter(|&(_, &keep)| keep);
        let count = u16::try_from(kept().count()).expect("the count of all was read as a u16");
        bytes.put_u16(count);
        for ((_, range), _) in kept() {
            bytes.extend_from_slice(&self.bytes[range.clone()]);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    use foca::{Codec as _, State};

    use crate::{Member, NodeId, Run};

    fn update(node: u64, peer: usize) -> Update {
        let addr = SocketAddr::from(([0xff; 16], u16::MAX));
        let member = Member {
            node: NodeId(node),
            run: Run(u64::MAX),
            peer: vec![0xff; peer],
            control: addr,
            data: addr,
            http: Some(addr),
            containers: u16::MAX,
        };
        foca::Member::new(Identity::new(member), u16::MAX, State::Down)
    }

    fn packet(updates: &[Update]) -> Vec<u8> {
        let id = update(u64::MAX, Member::PEER_BYTES_MAX).id().clone();
        let header = Header {
            src: id.clone(),
            src_incarnation: u16::MAX,
            dst: id.clone(),
            message: Message::PingReq { target: id, probe_number: u8::MAX },
        };
        let mut bytes = Vec::new();
        Codec.encode_header(&header, &mut bytes).unwrap();
        assert!(bytes.len() + 2 <= ITEM_BYTES_MAX, "the longest header fits");
        bytes.put_u16(u16::try_from(updates.len()).unwrap());
        for update in updates {
            Codec.encode_member(update, &mut bytes).unwrap();
        }
        bytes
    }

    #[test]
    fn a_packet_loses_only_what_is_cut_out() {
        let said = [1, 2, 3].map(|node| update(node, 128));
        let bytes = packet(&said);
        let read = Packet::read(&bytes).unwrap();
        assert!(read.updates().eq(&said));
        assert_eq!(read.stripped(&[true; 3]), bytes);
        assert_eq!(
            read.stripped(&[true, false, true]),
            packet(&[said[0].clone(), said[2].clone()])
        );
        assert_eq!(read.stripped(&[false; 3]), packet(&[]));
    }

    #[test]
    fn a_length_is_not_believed_before_the_bytes_are_there() {
        let long = update(1, ITEM_BYTES_MAX);
        let mut bytes = Vec::new();
        Codec.encode_member(&long, &mut bytes).unwrap();
        assert!(Codec.decode_member(&bytes[..]).is_err());
        bytes.clear();
        // node 1, run 1, a peer of 2^64 - 1 bytes.
        bytes.extend([1, 1, 253, 255, 255, 255, 255, 255, 255, 255, 255]);
        assert!(Codec.decode_member(&bytes[..]).is_err());
    }

    #[test]
    fn nothing_is_written_where_there_is_no_room() {
        let mut bytes = Vec::new();
        assert!(Codec.encode_member(&update(1, 1), (&mut bytes).limit(10)).is_err());
        assert!(bytes.is_empty());
    }
}
