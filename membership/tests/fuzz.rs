//! What gossip may bring, and what a disk may hold.

#![expect(unsafe_code, reason = "an allocator that counts can be had no other way")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../../routing/tests/mutate/mod.rs"]
mod mutate;

use std::collections::VecDeque;
use std::time::Duration;

use membership::{Action, Config, Input, Member, Membership, NodeId, Run, Time};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");

fn member(node: u64) -> Member {
    let addr = ([10, 0, 0, node.to_le_bytes()[0]], 7000).into();
    Member {
        node: NodeId(node),
        run: Run(1),
        peer: vec![7; 38],
        control: addr,
        data: addr,
        http: Some(addr),
        containers: 8,
    }
}

fn node(node: u64) -> Membership {
    Membership::new(member(node), Config::local(), node).unwrap()
}

/// All packets by which three nodes get to know each other and look after one another for a while.
fn packets() -> Vec<Vec<u8>> {
    let mut nodes = [node(1), node(2), node(3)];
    let mut under_way = VecDeque::new();
    let mut packets = Vec::new();
    let mut out = Vec::new();
    let mut now = Time::default();
    for round in 0..60u64 {
        for (at, node) in nodes.iter_mut().enumerate() {
            let input = if round == 0 && at > 0 { Input::Met(member(1)) } else { Input::Woke };
            node.step(now, input, &mut out);
            for action in out.drain(..) {
                if let Action::Send(to, bytes) = action {
                    under_way.push_back((to.node, bytes));
                }
            }
        }
        while let Some((to, bytes)) = under_way.pop_front() {
            packets.push(bytes.clone());
            let at = usize::try_from(to.0).unwrap() - 1;
            nodes[at].step(now, Input::Received(bytes), &mut out);
            for action in out.drain(..) {
                if let Action::Send(to, bytes) = action {
                    under_way.push_back((to.node, bytes));
                }
            }
        }
        now = now + Duration::from_millis(50);
    }
    assert!(nodes.iter().all(|node| node.members().count() == 3), "they never met");
    packets.sort_unstable_by_key(|packet| (packet.len(), packet.clone()));
    packets.dedup();
    packets
}

#[test]
fn broken_gossip_does_no_harm() {
    let packets = packets();
    let kept = packets.first().into_iter().chain(packets.last()).cloned();
    let kept: Vec<_> = ["gossip_short", "gossip_long"].into_iter().zip(kept).collect();
    mutate::corpus(CORPUS, kept);
    let mut target = node(1);
    let (mut out, mut now) = (Vec::new(), Time::default());
    mutate::each_broken("gossip", &packets, |bytes| {
        now = now + Duration::from_millis(1);
        let input = Input::Received(bytes.to_vec());
        let ((), taken) = mutate::memory_of(|| target.step(now, input, &mut out));
        // It may remember a member or two, and answer with all it knows.
        assert!(taken <= 256 << 10, "{taken} bytes for {}", bytes.len());
        out.clear();
        if target.deadline().is_some_and(|due| due <= now) {
            target.step(now, Input::Woke, &mut out);
            out.clear();
        }
        assert_eq!(target.me().node, NodeId(1));
    });
}
