//! Clusters in virtual time: finding each other, dying, leaving, coming back, and being lied to.
//!
//! The network below delays, loses and cuts by a seed. It knows nothing of what must hold; the tests
//! say that. A failure names its seed, and the seed replays it.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use membership::{Action, Config, Input, Member, Membership, NodeId, Reason, Refusal, Run, Time};
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert, proptest};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const SEEDS: std::ops::Range<u64> = 0..8;

/// Sizes and seeds; the large cluster is slow to simulate.
fn cases(sizes: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    let seeds = |size| if size < 50 { SEEDS } else { 0..2 };
    sizes.iter().flat_map(move |&size| seeds(size).map(move |seed| (size, seed)))
}

/// How many nodes there are besides one.
fn others(size: u64) -> usize {
    usize::try_from(size - 1).unwrap()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn member(node: u64, run: u64) -> Member {
    let addr = |port| SocketAddr::from(([10, 0, 0, 1], port));
    Member {
        node: NodeId(node),
        run: Run(run),
        peer: format!("12D3KooW-a-name-as-long-as-libp2p's-{node:04}").into_bytes(),
        control: addr(7000),
        data: addr(7001),
        http: Some(addr(7002)),
        containers: 8,
    }
}

struct Net {
    seed: u64,
    now: Time,
    rng: StdRng,
    nodes: BTreeMap<u64, Membership>,
    /// Packets under way, ordered by arrival.
    packets: BTreeMap<(Time, u64), (u64, Member, Vec<u8>)>,
    sent: u64,
    /// One packet in so many is lost; none if zero.
    loss: u32,
    /// Links, from and to, that carry nothing.
    cuts: BTreeSet<(u64, u64)>,
    /// All that nodes did but send.
    trace: Vec<(Time, u64, Action)>,
}

impl Net {
    fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Time::default(),
            rng: StdRng::seed_from_u64(seed),
            nodes: BTreeMap::new(),
            packets: BTreeMap::new(),
            sent: 0,
            loss: 20,
            cuts: BTreeSet::new(),
            trace: Vec::new(),
        }
    }

    /// A cluster in which all know all.
    fn settled(seed: u64, size: u64) -> Self {
        let mut net = Self::new(seed);
        for node in 1..=size {
            net.start(node, 1);
        }
        for node in 2..=size {
            net.input(node, Input::Met(member(1, 1)));
        }
        net.run_until(ms(10_000), |net| net.all_see(1..=size));
        net.run(ms(1_000));
        net.trace.clear();
        net
    }

    fn start(&mut self, node: u64, run: u64) {
        let seed = self.seed ^ (node << 32) ^ (run << 48);
        let started = Membership::new(member(node, run), Config::lan(), seed).unwrap();
        self.nodes.insert(node, started);
    }

    fn kill(&mut self, node: u64) {
        self.nodes.remove(&node);
    }

    /// Cuts both ways between every one of `here` and every one of `there`.
    fn split(&mut self, here: &[u64], there: &[u64]) {
        for &a in here {
            self.cuts.extend(there.iter().flat_map(|&b| [(a, b), (b, a)]));
        }
    }

    fn input(&mut self, node: u64, input: Input) {
        let mut out = Vec::new();
        let Some(membership) = self.nodes.get_mut(&node) else { return };
        membership.step(self.now, input, &mut out);
        for action in out {
            match action {
                Action::Send(to, bytes) => self.send(node, to, bytes),
                Action::Up(_) | Action::Down(..) | Action::Fenced | Action::Refused(_) => {
                    self.trace.push((self.now, node, action));
                }
            }
        }
    }

    fn send(&mut self, from: u64, to: Member, bytes: Vec<u8>) {
        assert!(bytes.len() <= Config::lan().packet_bytes_max);
        let is_lost = self.loss > 0 && self.rng.random_ratio(1, self.loss);
        let delay = Duration::from_micros(self.rng.random_range(200..5_000));
        if !is_lost {
            self.sent += 1;
            self.packets.insert((self.now + delay, self.sent), (from, to, bytes));
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        while self.advance(end) {}
    }

    /// Runs until `is_reached`, and says how long it took.
    fn run_until(&mut self, limit: Duration, is_reached: impl Fn(&Self) -> bool) -> Duration {
        let (start, end) = (self.now, self.now + limit);
        while !is_reached(self) {
            assert!(self.advance(end), "seed {}: not within {limit:?}\n{self}", self.seed);
        }
        self.now - start
    }

    /// Lets the next thing happen, unless that is after `end`.
    fn advance(&mut self, end: Time) -> bool {
        let arrival = self.packets.first_key_value().map(|(&(at, _), _)| at);
        let alarms = self.nodes.iter().filter_map(|(&node, m)| Some((m.deadline()?, node)));
        match alarms.min() {
            Some((at, node)) if at <= end && arrival.is_none_or(|arrival| at <= arrival) => {
                self.now = self.now.max(at);
                self.input(node, Input::Woke);
                true
            }
            _ if arrival.is_some_and(|arrival| arrival <= end) => {
                let ((at, _), (from, to, bytes)) = self.packets.pop_first().unwrap();
                self.now = self.now.max(at);
                let is_there = self.nodes.get(&to.node.0).is_some_and(|m| m.me().peer == to.peer);
                if is_there && !self.cuts.contains(&(from, to.node.0)) {
                    self.input(to.node.0, Input::Received(bytes));
                }
                true
            }
            _ => {
                self.now = end;
                false
            }
        }
    }

    fn all_see(&self, expected: impl IntoIterator<Item = u64>) -> bool {
        let expected: Vec<_> = expected.into_iter().map(NodeId).collect();
        let is_right =
            |m: &Membership| m.members().map(|seen| seen.node).eq(expected.iter().copied());
        self.nodes.values().all(is_right)
    }

    /// The trace without the refusals and times.
    fn changes(&self) -> Vec<(u64, Action)> {
        let all = self.trace.iter().map(|(_, node, action)| (*node, action.clone()));
        all.filter(|(_, action)| !matches!(action, Action::Refused(_))).collect()
    }
}

impl std::fmt::Display for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (node, membership) in &self.nodes {
            let seen: Vec<_> = membership.members().map(|seen| seen.node.0).collect();
            writeln!(f, "{node} sees {seen:?}")?;
        }
        for (at, node, action) in self.trace.iter().rev().take(40).rev() {
            let name = |member: &Member| format!("{}.{}", member.node.0, member.run);
            let action = match action {
                Action::Up(member) => format!("up {}", name(member)),
                Action::Down(member, reason) => format!("down {} {reason:?}", name(member)),
                Action::Send(..) | Action::Fenced | Action::Refused(_) => format!("{action:?}"),
            };
            writeln!(f, "{:?} at {node}: {action}", at.0)?;
        }
        Ok(())
    }
}

#[test]
fn nodes_find_each_other_through_one_address() {
    for (size, seed) in cases(&[3, 5, 50]) {
        let mut net = Net::new(seed);
        (1..=size).for_each(|node| net.start(node, 1));
        for node in 2..=size {
            net.input(node, Input::Met(member(1, 1)));
        }
        net.run_until(ms(5_000), |net| net.all_see(1..=size));
    }
}

#[test]
fn an_announce_to_nobody_is_repeated_until_somebody_is_there() {
    let mut net = Net::new(1);
    net.start(2, 1);
    net.input(2, Input::Met(member(1, 1)));
    net.run(ms(20_000));
    net.start(1, 1);
    net.run_until(ms(6_000), |net| net.all_see([1, 2]));

    // And no longer, once it is given up.
    let mut net = Net::new(1);
    net.start(2, 1);
    net.input(2, Input::Met(member(1, 1)));
    net.input(2, Input::Lost(NodeId(1)));
    assert_eq!(net.nodes[&2].deadline(), None);
}

#[test]
fn a_killed_node_is_down_for_all_within_five_seconds() {
    for (size, seed) in cases(&[2, 3, 5, 50]) {
        let mut net = Net::settled(seed, size);
        net.kill(size);
        net.run_until(ms(5_000), |net| net.all_see(1..size));
        net.run(ms(2_000));
        let one_down_each: Vec<_> = net.changes().into_iter().map(|(_, action)| action).collect();
        let down = Action::Down(member(size, 1), Reason::Failed);
        assert_eq!(one_down_each, vec![down; others(size)], "seed {seed}\n{net}");
    }
}

#[test]
fn with_evidence_a_killed_node_is_down_within_a_second() {
    for (size, seed) in cases(&[2, 3, 5, 50]) {
        let mut net = Net::settled(seed, size);
        net.kill(size);
        // To be refused takes a moment, in which the last packets of the dead arrive: they may still
        // object to an earlier suspicion.
        net.run(ms(10));
        net.input(1, Input::Lost(NodeId(size)));
        net.run_until(ms(1_000), |net| net.all_see(1..size));
    }
}

#[test]
fn wrong_evidence_is_objected_to_before_anybody_acts() {
    for (size, seed) in cases(&[3, 5, 50]) {
        let mut net = Net::settled(seed, size);
        net.split(&[1], &[2]);
        net.input(1, Input::Lost(NodeId(2)));
        net.run(ms(3_000));
        assert_eq!(net.changes(), [], "seed {seed}\n{net}");
    }
}

#[test]
fn a_node_declared_down_by_mistake_is_fenced_and_comes_back() {
    for (size, seed) in cases(&[2, 3, 5]) {
        let mut net = Net::settled(seed, size);
        let others: Vec<_> = (2..=size).collect();
        net.split(&[1], &others);
        for &node in &others {
            net.input(node, Input::Lost(NodeId(1)));
        }
        net.run_until(ms(1_000), |net| {
            let down = Action::Down(member(1, 1), Reason::Failed);
            others.iter().all(|&node| net.changes().contains(&(node, down.clone())))
        });
        net.run(ms(200));
        net.cuts.clear();
        net.run_until(ms(15_000), |net| net.all_see(1..=size));
        assert!(net.changes().contains(&(1, Action::Fenced)), "seed {seed}\n{net}");
        for &node in &others {
            assert!(net.changes().contains(&(node, Action::Up(member(1, 1)))), "seed {seed}");
        }
    }
}

#[test]
fn a_leaving_node_is_off_at_once() {
    for (size, seed) in cases(&[2, 3, 5, 50]) {
        let mut net = Net::settled(seed, size);
        net.loss = if size == 2 { 0 } else { net.loss };
        net.input(size, Input::Leave);
        assert_eq!(net.nodes[&size].deadline(), None);
        net.kill(size);
        net.run_until(ms(300), |net| net.all_see(1..size));
        let left = Action::Down(member(size, 1), Reason::Left);
        let actions: Vec<_> = net.changes().into_iter().map(|(_, action)| action).collect();
        assert_eq!(actions, vec![left; others(size)], "seed {seed}\n{net}");
    }
}

#[test]
fn a_restarted_node_replaces_its_former_run() {
    for (size, seed) in cases(&[2, 3, 5, 50]) {
        let mut net = Net::settled(seed, size);
        net.start(size, 2);
        net.input(size, Input::Met(member(1, 1)));
        net.run_until(ms(2_000), |net| {
            let has_new = |m: &Membership| m.members().any(|seen| *seen == member(size, 2));
            net.all_see(1..=size) && net.nodes.values().all(has_new)
        });
        for node in 1..size {
            let seen: Vec<_> =
                net.changes().into_iter().filter(|(at, _)| *at == node).map(|(_, a)| a).collect();
            let down = Action::Down(member(size, 1), Reason::Restarted);
            assert_eq!(seen, [down, Action::Up(member(size, 2))], "seed {seed}\n{net}");
        }
    }
}

#[test]
fn an_older_run_never_returns() {
    for seed in SEEDS {
        let mut net = Net::settled(seed, 3);
        net.start(3, 2);
        net.input(3, Input::Met(member(1, 1)));
        net.run(ms(2_000));
        net.kill(3);
        net.run_until(ms(5_000), |net| net.all_see([1, 2]));
        net.trace.clear();
        // The former process was only asleep.
        net.start(3, 1);
        net.input(3, Input::Met(member(1, 1)));
        net.input(3, Input::Met(member(2, 1)));
        net.run(ms(10_000));
        net.kill(3);
        assert!(net.all_see([1, 2]), "seed {seed}\n{net}");
        assert_eq!(net.changes(), [], "seed {seed}");
        let refused = Action::Refused(Refusal::OlderRun(NodeId(3), Run(1)));
        assert!(net.trace.iter().any(|(_, _, action)| *action == refused), "seed {seed}");
    }
}

#[test]
fn a_cut_in_one_direction_takes_nobody_down() {
    for (size, seed) in cases(&[3, 5, 50]) {
        let mut net = Net::settled(seed, size);
        net.cuts.insert((1, 2));
        net.run(ms(2_000));
        net.cuts.clear();
        net.run(ms(5_000));
        assert_eq!(net.changes(), [], "seed {seed}\n{net}");
    }
}

#[test]
fn both_halves_of_a_split_find_back() {
    for (here, there) in [(&[1][..], &[2][..]), (&[1, 2], &[3]), (&[1, 2, 3], &[4, 5])] {
        for seed in SEEDS {
            let size = (here.len() + there.len()) as u64;
            let mut net = Net::settled(seed, size);
            net.split(here, there);
            net.run(ms(20_000));
            assert!(!net.all_see(1..=size), "seed {seed}");
            net.cuts.clear();
            net.run_until(ms(20_000), |net| net.all_see(1..=size));
            // What each half says of the other's dead is still on its way.
            net.run(ms(5_000));
            net.trace.clear();
            net.run(ms(10_000));
            assert_eq!(net.changes(), [], "seed {seed}\n{net}");
        }
    }
}

#[test]
fn a_node_that_slept_judges_nobody() {
    for seed in SEEDS {
        let mut net = Net::settled(seed, 5);
        let sleeper = net.nodes.remove(&1).unwrap();
        net.run(ms(4_000));
        net.nodes.insert(1, sleeper);
        net.run_until(ms(10_000), |net| net.all_see(1..=5));
        net.run(ms(2_000));
        let judged =
            |(node, action): &(u64, Action)| *node == 1 && matches!(action, Action::Down(..));
        assert!(!net.changes().iter().any(judged), "seed {seed}\n{net}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = |seed| {
        let mut net = Net::settled(seed, 5);
        net.kill(5);
        net.start(4, 2);
        net.input(4, Input::Met(member(2, 1)));
        net.run(ms(10_000));
        (net.trace, net.sent)
    };
    assert_eq!(trace(7), trace(7));
    assert_ne!(trace(7), trace(8), "the seed should matter");
}

/// A real packet of a member, as its peer would send it.
fn packet(from: Member, to: &Member) -> Vec<u8> {
    let mut out = Vec::new();
    let mut sender = Membership::new(from, Config::lan(), 1).unwrap();
    sender.step(Time::default(), Input::Met(to.clone()), &mut out);
    match out.pop() {
        Some(Action::Send(_, bytes)) => bytes,
        other => panic!("an announce, not {other:?}"),
    }
}

/// Steps and says what the node did; then demands that only refusals came of it.
fn refusals(node: &mut Membership, input: Input) -> Vec<Refusal> {
    let (members, deadline): (Vec<_>, _) = (node.members().cloned().collect(), node.deadline());
    let mut out = Vec::new();
    node.step(Time::default(), input, &mut out);
    assert_eq!((node.members().cloned().collect(), node.deadline()), (members, deadline));
    out.into_iter()
        .map(|action| match action {
            Action::Refused(refusal) => refusal,
            Action::Send(..) | Action::Up(_) | Action::Down(..) | Action::Fenced => {
                panic!("refused, not {action:?}")
            }
        })
        .collect()
}

/// A node that knows node 2, run 5.
fn acquainted() -> Membership {
    let me = member(1, 1);
    let mut node = Membership::new(me.clone(), Config::lan(), 1).unwrap();
    let mut out = Vec::new();
    node.step(Time::default(), Input::Received(packet(member(2, 5), &me)), &mut out);
    assert!(out.contains(&Action::Up(member(2, 5))), "{out:?}");
    node
}

#[test]
fn forged_incarnations_are_refused() {
    let me = member(1, 1);
    let forged = |from: Member| refusals(&mut acquainted(), Input::Received(packet(from, &me)));

    let absurd = member(2, 6 + (1 << 31) * 2);
    // `new` would refuse it as well, so it is written over a smaller one of the same length.
    let mut bytes = packet(member(3, 1 << 32), &me);
    let run = bytes.windows(9).position(|w| w == [253, 0, 0, 0, 0, 1, 0, 0, 0]).unwrap();
    bytes[run + 1..run + 9].fill(255);
    let refused = refusals(&mut acquainted(), Input::Received(bytes));
    assert_eq!(refused, [Refusal::Incarnation(NodeId(3), Run(u64::MAX))]);

    let refused = refusals(&mut acquainted(), Input::Met(absurd.clone()));
    assert_eq!(refused, [Refusal::Incarnation(absurd.node, absurd.run)]);
    assert_eq!(forged(member(2, 4)), [Refusal::OlderRun(NodeId(2), Run(4))]);
    let other = Member { peer: vec![9], ..member(2, 5) };
    assert_eq!(forged(other.clone()), [Refusal::Conflict(other.node, other.run)]);

    let mut twin = packet(member(2, 5), &me);
    twin[0] = 1; // The first byte is the sender's id.
    assert_eq!(refusals(&mut acquainted(), Input::Received(twin)), [Refusal::FromMyself]);
}

#[test]
fn packets_that_are_cut_or_too_long_or_for_others_are_refused() {
    let good = packet(member(2, 5), &member(1, 1));
    for length in 0..good.len() {
        let refused = refusals(&mut acquainted(), Input::Received(good[..length].to_vec()));
        assert_eq!(refused, [Refusal::Undecodable], "{length} bytes");
    }
    let refused = refusals(&mut acquainted(), Input::Received([&good[..], &[0]].concat()));
    assert_eq!(refused, [Refusal::Undecodable]);
    let refused = refusals(&mut acquainted(), Input::Received(vec![0; 9000]));
    assert_eq!(refused, [Refusal::TooLong(9000)]);
    let astray = packet(member(2, 5), &member(3, 1));
    assert_eq!(refusals(&mut acquainted(), Input::Received(astray)), [Refusal::Misaddressed]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..9000)) {
        prop_assert!(refusals(&mut acquainted(), Input::Received(bytes)).len() == 1);
    }

    /// Every packet of a lively cluster, with a few bytes changed: no step may panic.
    #[test]
    fn changed_packets_do_no_harm(
        seed in any::<u64>(),
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..20)
            .prop_filter("a change", |changes| changes.iter().any(|(_, by)| *by != 0)),
    ) {
        let mut net = Net::settled(seed, 3);
        net.input(1, Input::Lost(NodeId(3)));
        let mut changes = changes.into_iter().cycle();
        for _ in 0..60 {
            let end = net.now + ms(1_000);
            net.advance(end);
            if let Some(mut packet) = net.packets.first_entry() {
                let (at, by) = changes.next().unwrap();
                let bytes = &mut packet.get_mut().2;
                let at = at % bytes.len();
                bytes[at] ^= by;
            }
        }
    }
}
