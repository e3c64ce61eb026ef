//! How many instances there are, where they live, and which of them gets an event.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use pe as starling;

use std::collections::BTreeMap;

use pe::{Ctx, Event, HostReport, KeyRef, On, Param, Params, Pe, Registry};
use serde::{Deserialize, Serialize};
use support::{Cluster, Feed, Lend, Written, counts, feed, host, log, logged};

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

#[derive(Clone, Event)]
struct Shown {
    ad: u64,
}

#[derive(Clone, Event)]
struct Clicked {
    target: u64,
    by: String,
}

impl Lend for Shown {
    fn lend(&self) -> ShownRef {
        ShownRef { ad: self.ad }
    }
}

impl Lend for Clicked {
    fn lend(&self) -> ClickedRef<'_> {
        ClickedRef { target: self.target, by: &self.by }
    }
}

#[derive(Event)]
struct Rate {
    ad: u64,
    shown: u64,
    clicked: u64,
}

#[derive(Event)]
struct Doubt {
    by: String,
}

/// Two event types in, two out.
#[derive(Default, Serialize, Deserialize)]
struct Ctr {
    shown: u64,
    clicked: u64,
}

impl Pe for Ctr {
    type In = (Shown, Clicked);
    type Out = (Rate, Doubt);
}

impl On<Shown> for Ctr {
    fn on(&mut self, event: ShownRef, ctx: &mut Ctx<'_, Self::Out>) {
        self.shown += 1;
        ctx.emit(RateRef { ad: event.ad, shown: self.shown, clicked: self.clicked });
    }
}

impl On<Clicked> for Ctr {
    fn on(&mut self, event: ClickedRef<'_>, ctx: &mut Ctx<'_, Self::Out>) {
        self.clicked += 1;
        ctx.emit(DoubtRef { by: event.by });
        ctx.emit(RateRef { ad: event.target, shown: self.shown, clicked: self.clicked });
    }
}

/// Says which instance it is when it is made, and what it gets.
#[derive(Default, Serialize, Deserialize)]
struct Teller {
    name: String,
}

impl Pe for Teller {
    type In = (Shown, Clicked);
    type Out = ();
    const PARAMS: &'static [Param] = &[
        Param::text("greeting", "what it says first").default("made"),
        Param::integer("step", "an integer").optional(),
    ];

    fn create(key: KeyRef<'_>, params: &Params) -> Self {
        let name = match key.task() {
            Some((task, count)) => format!("{task}/{count}"),
            None => format!("{:?}", key.unsigned(0).unwrap()),
        };
        let step = params.optional_integer("step").unwrap_or_default();
        log(format!("{} {name} {step}", params.text("greeting")));
        Self { name }
    }
}

impl On<Shown> for Teller {
    fn on(&mut self, event: ShownRef, ctx: &mut Ctx<'_, ()>) {
        assert!(ctx.key().is_none(), "the event has the key");
        log(format!("{} got {}", self.name, event.ad));
    }
}

impl On<Clicked> for Teller {
    fn on(&mut self, event: ClickedRef<'_>, _: &mut Ctx<'_, ()>) {
        log(format!("{} got {}", self.name, event.target));
    }
}

fn registry() -> Registry {
    Registry::new()
        .spout::<Feed<Shown>>("shown")
        .spout::<Feed<Clicked>>("clicked")
        .pe::<Ctr>("ctr")
        .pe::<Teller>("teller")
}

/// Runs a teller over events with ads 0..count; gives how often each instance was made and what it got.
fn told(
    teller: &str,
    nodes: &[u16],
    count: u64,
) -> (BTreeMap<String, usize>, BTreeMap<String, Vec<u64>>) {
    for part in 0..2 {
        feed(
            &part.to_string(),
            (0..count).filter(|ad| ad % 2 == part).map(|ad| Shown { ad }).collect(),
        );
    }
    let text = format!(
        r#"name = "tell"
        spout.shown = {{ type = "shown", emits = "shown" }}
        pe.tell = {{ type = "teller", {teller} }}"#
    );
    logged();
    let mut cluster = Cluster::new(registry(), &text, nodes, 7);
    cluster.open("shown", &["0", "1"]);
    cluster.finish();
    let (mut made, mut got) = (Vec::new(), BTreeMap::<_, Vec<_>>::new());
    for line in logged() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["made", name, _] => made.push(name.to_owned()),
            [name, "got", ad] => got.entry(name.to_owned()).or_default().push(ad.parse().unwrap()),
            _ => panic!("{line}"),
        }
    }
    let all = got.values().map(Vec::len).sum::<usize>();
    assert_eq!(all as u64, count, "every event is handled once");
    (counts(made), got)
}

#[test]
fn one_pe_takes_two_event_types_by_one_key_and_gives_two() {
    feed("0", (0..500).map(|n| Shown { ad: n % 50 }).collect());
    feed("0", (0..200).map(|n| Clicked { target: n % 50, by: format!("user {n}") }).collect());
    let (rates, doubts) = (Written::default(), Written::default());
    let registry = doubts.sink(rates.sink(registry(), "rates"), "doubts");
    let text = r#"name = "ads"
        spout.shown = { type = "shown", emits = "shown" }
        spout.clicked = { type = "clicked", emits = "clicked" }
        [pe.ctr]
        type = "ctr"
        input = [{ stream = "shown", key = ["ad"] }, { stream = "clicked", key = ["target"] }]
        emits = { Rate = "rates", Doubt = "doubts" }
        [pe.rates]
        type = "rates"
        input = [{ stream = "rates", grouping = "global" }]
        [pe.doubts]
        type = "doubts"
        input = [{ stream = "doubts", grouping = "shuffle" }]"#;
    let mut cluster = Cluster::new(registry, text, &[2, 1, 2], 3);
    cluster.open("shown", &["0"]);
    cluster.open("clicked", &["0"]);
    let report = cluster.finish();
    let ctr = &report.hosts[host(&cluster.plans[0], "ctr")];
    assert_eq!((ctr.applied, ctr.emitted, ctr.instances), (700, 900, 50));
    assert_eq!(doubts.counts().len(), 200);
    let rates = rates.take();
    assert_eq!(rates.len(), 700);
    for ad in 0..50 {
        assert!(
            rates.contains(&format!(r#"{{"ad":{ad},"shown":10,"clicked":4}}"#)),
            "{ad}: {rates:?}"
        );
    }
}

#[test]
fn an_output_feeds_several_readers_each_with_all() {
    feed("0", (0..3000).map(|ad| Shown { ad }).collect());
    let (one, two) = (Written::default(), Written::default());
    let registry = two.sink(one.sink(registry(), "one"), "two");
    let text = r#"name = "fan"
        spout.shown = { type = "shown", emits = "shown" }
        pe.one = { type = "one", input = [{ stream = "shown", grouping = "global" }] }
        pe.two = { type = "two", input = [{ stream = "shown", key = ["ad"] }] }
        pe.three = { type = "teller", input = [{ stream = "shown", key = ["ad"] }] }"#;
    let mut cluster = Cluster::new(registry, text, &[2, 2], 3);
    cluster.open("shown", &["0"]);
    let report = cluster.finish();
    let one = one.take();
    assert_eq!(
        one,
        (0..3000).map(|ad| format!(r#"{{"ad":{ad}}}"#)).collect::<Vec<_>>(),
        "in order"
    );
    assert_eq!(two.counts().len(), 3000);
    assert_eq!(report.hosts[host(&cluster.plans[0], "three")].instances, 3000);
}

#[test]
fn tasks_by_shuffle_are_spread_over_containers_and_events_over_tasks() {
    let input = r#"input = [{ stream = "shown", grouping = "shuffle" }]"#;
    for (nodes, tasks) in [(&[1][..], 4), (&[2, 1], 5), (&[2, 2, 2], 4), (&[1, 3], 9)] {
        let (made, got) = told(&format!("{input}, parallelism = {tasks}"), nodes, 20_000);
        assert_eq!(made, (0..tasks).map(|task| (format!("{task}/{tasks}"), 1)).collect());
        let share = 20_000 / usize::try_from(tasks).unwrap();
        for (name, got) in &got {
            // Batches go round, and there are about two hundred.
            assert!(
                got.len().abs_diff(share) < share / 4 + 200,
                "{name} got {} of {share}",
                got.len()
            );
        }
    }
}

#[test]
fn tasks_are_at_most_their_share_in_each_container() {
    for (nodes, tasks) in [(&[1][..], 4), (&[2, 1], 5), (&[2, 2, 2], 4), (&[1, 3], 9)] {
        let text = format!(
            r#"name = "tell"
            spout.shown = {{ type = "shown", emits = "shown" }}
            [pe.tell]
            type = "teller"
            parallelism = {tasks}
            input = [{{ stream = "shown", grouping = "shuffle" }}]"#
        );
        let mut cluster = Cluster::new(registry(), &text, nodes, 1);
        let at = host(&cluster.plans[0], "tell");
        let loads: Vec<_> = cluster
            .reports_by_node()
            .iter()
            .map(|(_, report)| report.runs[0].hosts[at].instances)
            .collect();
        let most = u64::div_ceil(tasks, loads.len() as u64);
        assert!(loads.iter().all(|load| *load <= most), "{loads:?} of {tasks}");
        assert_eq!(loads.iter().sum::<u64>(), tasks);
    }
}

#[test]
fn tasks_by_key_keep_a_key_on_one_task() {
    let input =
        r#"input = [{ stream = "shown", key = ["ad"], grouping = "fields" }], parallelism = 4"#;
    let (made, got) = told(input, &[2, 1], 4000);
    assert_eq!(made.len(), 4);
    let (_, again) = told(input, &[2, 1], 4000);
    let sorted = |got: BTreeMap<String, Vec<u64>>| -> BTreeMap<_, _> {
        got.into_iter()
            .map(|(name, mut ads)| {
                (name, {
                    ads.sort_unstable();
                    ads
                })
            })
            .collect()
    };
    let (got, again) = (sorted(got), sorted(again));
    assert_eq!(got, again, "the hash of a key chooses, and nothing else");
    assert!(got.values().all(|ads| (800..1200).contains(&ads.len())), "4,000 keys over 4 tasks");
}

#[test]
fn a_global_grouping_makes_exactly_one() {
    for nodes in [&[1][..], &[2, 3]] {
        let (made, got) =
            told(r#"input = [{ stream = "shown", grouping = "global" }]"#, nodes, 3000);
        assert_eq!(made, BTreeMap::from([("0/1".to_owned(), 1)]));
        assert_eq!(got.len(), 1);
    }
}

#[test]
fn without_a_grouping_there_is_one_on_each_node() {
    let (made, got) = told(r#"input = [{ stream = "shown" }]"#, &[2, 1, 3], 3000);
    assert_eq!(made, BTreeMap::from([("0/1".to_owned(), 3)]));
    assert_eq!(got["0/1"].len(), 3000);
}

#[test]
fn local_or_shuffle_keeps_events_in_their_container_if_it_can() {
    // Without a number of instances there is one in each container, so everything stays where it is.
    let near = r#"input = [{ stream = "shown", grouping = "local-or-shuffle" }]"#;
    let (made, got) = told(near, &[2, 1, 3], 3000);
    assert_eq!(made, BTreeMap::from([("0/1".to_owned(), 6)]));
    assert_eq!(got["0/1"].len(), 3000);

    // The one partition is read in some container. With an instance in each, that of the container has
    // all; with fewer than containers, those of its node; with none there, each its share.
    for (nodes, tasks) in [(&[2, 2][..], 4), (&[2, 2], 2), (&[1, 3], 1), (&[2, 3], 8)] {
        feed("0", (0..20_000).map(|ad| Shown { ad }).collect());
        let text = format!(
            r#"name = "tell"
            spout.shown = {{ type = "shown", emits = "shown" }}
            pe.tell = {{ type = "teller", parallelism = {tasks}, {near} }}"#
        );
        let mut cluster = Cluster::new(registry(), &text, nodes, 7);
        cluster.open("shown", &["0"]);
        cluster.settle();
        let plan = &cluster.plans[0];
        let (tell, shown) = (host(plan, "tell"), host(plan, "shown"));
        let hosts: Vec<_> = cluster
            .reports_by_node()
            .into_iter()
            .map(|(node, report)| (node, report.runs[0].hosts.clone()))
            .collect();
        let (home, source) = hosts.iter().find(|(_, hosts)| hosts[shown].emitted > 0).unwrap();
        let on_node = |hosts: &[HostReport]| hosts[tell].instances > 0;
        let same_node = hosts.iter().any(|(node, hosts)| node == home && on_node(hosts));
        for (node, host) in &hosts {
            let is_nearest = if on_node(source) {
                std::ptr::eq(host, source)
            } else {
                (node == home || !same_node) && on_node(host)
            };
            let applied = host[tell].applied;
            assert_eq!(applied > 0, is_nearest, "{nodes:?} {tasks}: {applied} on {node}");
        }
        let all: u64 = hosts.iter().map(|(_, hosts)| hosts[tell].applied).sum();
        assert_eq!(all, 20_000);
    }
}

#[test]
fn by_shuffle_the_instances_of_all_nodes_get_their_share() {
    feed("0", (0..30_000).map(|ad| Shown { ad }).collect());
    let text = r#"name = "tell"
        spout.shown = { type = "shown", emits = "shown" }
        pe.tell = { type = "teller", input = [{ stream = "shown", grouping = "shuffle" }] }"#;
    let mut cluster = Cluster::new(registry(), text, &[2, 1, 3], 7);
    cluster.open("shown", &["0"]);
    cluster.settle();
    let at = host(&cluster.plans[0], "tell");
    let mut applied = BTreeMap::new();
    for (node, report) in cluster.reports_by_node() {
        *applied.entry(node).or_insert(0) += report.runs[0].hosts[at].applied;
    }
    assert!(applied.values().all(|applied| (8000..12_000).contains(applied)), "{applied:?}");
}

#[test]
fn parameters_reach_create_with_their_defaults() {
    let input = r#"input = [{ stream = "shown", grouping = "global" }]"#;
    logged();
    for (params, said) in
        [("", "made 0/1 0"), (r#"params = { greeting = "hi", step = 3 },"#, "hi 0/1 3")]
    {
        let text = format!(
            r#"name = "tell"
            spout.shown = {{ type = "shown", emits = "shown" }}
            pe.tell = {{ type = "teller", {params} {input} }}"#
        );
        Cluster::new(registry(), &text, &[2], 1).settle();
        assert_eq!(logged(), [said]);
    }
}

#[test]
fn a_keyed_instance_is_made_by_its_first_event_and_only_once() {
    feed("0", [3, 1, 3, 3, 1].map(|ad| Shown { ad }).to_vec());
    let text = r#"name = "tell"
        spout.shown = { type = "shown", emits = "shown" }
        pe.tell = { type = "teller", input = [{ stream = "shown", key = ["ad"] }] }"#;
    logged();
    let mut cluster = Cluster::new(registry(), text, &[1], 1);
    cluster.open("shown", &["0"]);
    cluster.settle();
    let all = ["made 3 0", "3 got 3", "made 1 0", "1 got 1", "3 got 3", "3 got 3", "1 got 1"];
    assert_eq!(logged(), all);
}

#[test]
fn two_topologies_in_the_same_containers_do_not_meet() {
    feed("0", (0..300).map(|ad| Shown { ad }).collect());
    feed("0", (0..200).map(|target| Clicked { target, by: String::new() }).collect());
    let one = r#"name = "one"
        spout.shown = { type = "shown", emits = "s" }
        pe.tell = { type = "teller", input = [{ stream = "s", key = ["ad"] }] }"#;
    let two = r#"name = "two"
        spout.clicked = { type = "clicked", emits = "s" }
        pe.tell = { type = "teller", input = [{ stream = "s", key = ["target"] }] }"#;
    let mut cluster = Cluster::with(registry(), &[one, two], &[2, 1], 11);
    cluster.open("shown", &["0"]);
    cluster.open("clicked", &["0"]);
    cluster.settle();
    let reports = cluster.reports_by_node();
    let applied = |run: usize| -> u64 {
        reports
            .iter()
            .flat_map(|(_, report)| &report.runs[run].hosts)
            .map(|host| host.applied)
            .sum()
    };
    assert_eq!((applied(0), applied(1)), (300, 200));
}

#[test]
fn two_types_of_one_name_and_form_are_refused_at_registration() {
    mod other {
        use serde::{Deserialize, Serialize};

        use super::{Ctx, Event, On, Pe, starling};
        #[derive(Event)]
        pub(crate) struct Shown {
            ad: u64,
        }
        #[derive(Default, Serialize, Deserialize)]
        pub(crate) struct Twin;
        impl Pe for Twin {
            type In = Shown;
            type Out = ();
        }
        impl On<Shown> for Twin {
            fn on(&mut self, _: ShownRef, _: &mut Ctx<'_, ()>) {}
        }
    }
    let refused = std::panic::catch_unwind(|| registry().pe::<other::Twin>("twin"));
    let text = refused.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(*text, "two event types are called `Shown` and have the same fields");
}
