//! The hooks of an instance: timers, triggers, closing, and every way to be removed.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use pe as starling;

use std::time::Duration;

use membership::NodeId;
use pe::{
    Ctx, Event, KeyRef, Next, On, Opening, Params, PartitionName, Pe, Phase, Position, Registry,
};
use pe::{Removal, Spout, SpoutError, Waker};
use serde::{Deserialize, Serialize};
use support::{Cluster, Feed, Lend, Written, at, feed, host, log, logged};

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

#[derive(Clone, Event)]
struct Word {
    text: String,
}

impl Lend for Word {
    fn lend(&self) -> WordRef<'_> {
        WordRef { text: &self.text }
    }
}

#[derive(Clone, Event)]
struct Said {
    what: String,
}

fn words(texts: &[&str]) -> Vec<Word> {
    texts.iter().map(|&text| Word { text: text.to_owned() }).collect()
}

/// Emits all that happens to it; a word that begins with "bye" closes it, "second" when it comes again.
#[derive(Default, Serialize, Deserialize)]
struct Talker {
    name: String,
    n: u64,
}

impl Talker {
    fn say(&self, what: &str, ctx: &mut Ctx<'_, Said>) {
        let millis = (ctx.now().0 - Duration::from_secs(1)).as_millis();
        ctx.emit(SaidRef { what: &format!("{} {what} {} at {millis}", self.name, self.n) });
    }
}

impl Pe for Talker {
    type In = Word;
    type Out = Said;

    fn create(key: KeyRef<'_>, _: &Params) -> Self {
        let task = || format!("task {}", key.task().unwrap().0);
        Self { name: key.text(0).map_or_else(task, str::to_owned), n: 0 }
    }

    fn on_time(&mut self, ctx: &mut Ctx<'_, Said>) {
        assert!(ctx.key().is_some());
        self.say("time", ctx);
        if self.n == 13 {
            ctx.close();
        }
    }

    fn on_trigger(&mut self, ctx: &mut Ctx<'_, Said>) {
        self.say("trigger", ctx);
        self.n = 0;
    }

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, Said>) {
        let key = ctx.key().unwrap();
        assert!(key.task().is_some() || key.text(0) == Some(&self.name), "{key:?}");
        self.say(&format!("{reason:?}"), ctx);
        ctx.close(); // Changes nothing.
    }
}

impl On<Word> for Talker {
    fn on(&mut self, word: WordRef<'_>, ctx: &mut Ctx<'_, Said>) {
        self.n += 1;
        if word.text.starts_with("bye") || word.text.starts_with("second") && self.n == 2 {
            ctx.close();
        }
        if word.text == "bad" {
            ctx.discard("bad word");
        }
    }
}

/// Passes on what it hears, and notes it.
#[derive(Default, Serialize, Deserialize)]
struct Echo;

impl Pe for Echo {
    type In = Said;
    type Out = Said;

    fn on_remove(&mut self, reason: Removal, ctx: &mut Ctx<'_, Said>) {
        ctx.emit(SaidRef { what: &format!("echo {reason:?}") });
    }
}

impl On<Said> for Echo {
    fn on(&mut self, said: SaidRef<'_>, ctx: &mut Ctx<'_, Said>) {
        ctx.emit(said);
    }
}

struct Talk {
    cluster: Cluster,
    written: Written,
}

/// A talker that feeds a sink; `with` goes into its declaration.
fn talk(with: &str, nodes: &[u16]) -> Talk {
    let written = Written::default();
    let registry =
        Registry::new().spout::<Feed<Word>>("feed").pe::<Talker>("talker").pe::<Echo>("echo");
    let text = format!(
        r#"name = "talk"
        spout.words = {{ type = "feed", emits = "words" }}
        pe.talk = {{ type = "talker", emits = "said", {with} }}
        pe.out = {{ type = "collect", input = [{{ stream = "said", grouping = "global" }}] }}"#
    );
    let mut cluster = Cluster::new(written.sink(registry, "collect"), &text, nodes, 5);
    cluster.settle();
    Talk { cluster, written }
}

impl Talk {
    /// Gives some words now.
    fn hear(&mut self, words_now: &[&str]) {
        let name = format!("at {:?}", self.cluster.now);
        feed(&name, words(words_now));
        self.cluster.open("words", &[&name]);
        self.cluster.settle();
    }

    fn pass(&mut self, millis: u64) {
        self.cluster.pass(Duration::from_millis(millis));
    }

    fn said(&mut self) -> Vec<String> {
        self.cluster.settle();
        let mut said = self.written.take();
        said.sort();
        said.iter().map(|line| line[9..line.len() - 2].to_owned()).collect()
    }
}

const KEYED: &str = r#"input = [{ stream = "words", key = ["text"] }]"#;
const ONE: &str = r#"input = [{ stream = "words", grouping = "global" }]"#;

#[test]
fn the_timer_tells_every_instance_the_time() {
    let mut talk = talk(&format!(r#"{KEYED}, timer = "10ms""#), &[1]);
    talk.hear(&["a", "b", "a"]);
    assert_eq!(talk.said(), [""; 0]);
    talk.pass(10);
    assert_eq!(talk.said(), ["a time 2 at 10", "b time 1 at 10"]);
    talk.hear(&["c"]);
    talk.pass(9);
    assert_eq!(talk.said(), [""; 0]);
    talk.pass(12);
    let two = ["a time 2 at 20", "a time 2 at 30", "b time 1 at 20", "b time 1 at 30"];
    assert_eq!(talk.said(), [&two[..], &["c time 1 at 20", "c time 1 at 30"]].concat());
}

#[test]
fn a_numbered_instance_is_told_the_time_without_any_event() {
    let mut talk = talk(&format!(r#"{ONE}, timer = "10ms""#), &[2, 1]);
    talk.pass(25);
    assert_eq!(talk.said(), ["task 0 time 0 at 10", "task 0 time 0 at 20"]);
}

#[test]
fn an_instance_may_close_itself_when_it_is_told_the_time() {
    for input in [KEYED, ONE] {
        let mut talk = talk(&format!(r#"{input}, timer = "10ms""#), &[2]);
        talk.hear(&["a"; 13]);
        talk.pass(30);
        let name = if input == KEYED { "a" } else { "task 0" };
        assert_eq!(
            talk.said(),
            [format!("{name} Closed 13 at 10"), format!("{name} time 13 at 10")]
        );
    }
}

#[test]
fn a_trigger_fires_after_so_many_events_of_an_instance() {
    for (input, name) in [(KEYED, "a"), (ONE, "task 0")] {
        let mut talk = talk(&format!(r#"{input}, trigger = {{ events = 3 }}"#), &[2, 1]);
        talk.hear(&["a", "a"]);
        assert_eq!(talk.said(), [""; 0]);
        talk.pass(1000);
        talk.hear(&["a", "a", "a", "a", "a"]);
        let fired = format!("{name} trigger 3 at 1000");
        assert_eq!(talk.said(), [fired.clone(), fired]);
    }
}

#[test]
fn a_trigger_fires_so_long_after_the_first_event() {
    for (input, name) in [(KEYED, "a"), (ONE, "task 0")] {
        let mut talk = talk(&format!(r#"{input}, trigger = {{ after = "20ms" }}"#), &[1]);
        talk.hear(&["a"]);
        talk.pass(15);
        talk.hear(&["a"]);
        talk.pass(4);
        assert_eq!(talk.said(), [""; 0]);
        talk.pass(1);
        assert_eq!(talk.said(), [format!("{name} trigger 2 at 20")]);
        talk.pass(100);
        assert_eq!(talk.said(), [""; 0], "nothing came since");
        talk.hear(&["a"]);
        talk.pass(20);
        assert_eq!(talk.said(), [format!("{name} trigger 1 at 140")]);
    }
}

#[test]
fn a_trigger_by_events_starts_the_time_anew() {
    for (input, name) in [(KEYED, "a"), (ONE, "task 0")] {
        let mut talk =
            talk(&format!(r#"{input}, trigger = {{ events = 2, after = "20ms" }}"#), &[1]);
        talk.hear(&["a", "a", "a"]);
        assert_eq!(talk.said(), [format!("{name} trigger 2 at 0")]);
        talk.pass(10);
        talk.hear(&["a", "a"]);
        assert_eq!(talk.said(), [format!("{name} trigger 2 at 10")]);
        talk.pass(19);
        assert_eq!(talk.said(), [""; 0], "the time of the third event is over");
        talk.pass(1);
        assert_eq!(talk.said(), [format!("{name} trigger 1 at 30")]);
    }
}

#[test]
fn close_removes_the_instance_after_its_event_and_the_next_event_makes_another() {
    let mut talk = talk(KEYED, &[1]);
    // In one batch, with new keys that take the place of what was removed.
    let mut texts = Vec::new();
    for round in 0..200 {
        texts.extend([format!("bye {}", round % 3), format!("new {round}"), "stay".to_owned()]);
    }
    talk.hear(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let said = talk.said();
    assert_eq!(said.len(), 200);
    assert!(
        said.iter().all(|line| line.contains("bye ") && line.ends_with("Closed 1 at 0")),
        "{said:?}"
    );
    talk.cluster.finish();
    let said = talk.said();
    assert_eq!(said.len(), 201);
    assert!(said.contains(&"stay Ended 200 at 0".to_owned()));
    assert_eq!(said.iter().filter(|line| line.ends_with("Ended 1 at 0")).count(), 200);
}

/// Where it was, another instance may be before the batch is through: once, an event went to that one.
#[test]
fn events_after_a_close_never_go_to_who_took_the_place() {
    let mut talk = talk(KEYED, &[1]);
    let mut texts = Vec::new();
    for n in 0..3001 {
        texts.extend([format!("second {}", n % 5), format!("new {n}")]);
    }
    talk.hear(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let said = talk.said();
    assert!(said.iter().all(|line| line.contains("second") && line.ends_with("Closed 2 at 0")));
    talk.cluster.finish();
    let left = talk.said();
    let wrong: Vec<_> = left.iter().filter(|line| !line.ends_with("Ended 1 at 0")).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(2 * said.len() + left.len(), 6002);
}

#[test]
fn a_task_that_closes_itself_is_made_again_by_its_next_event() {
    let mut talk = talk(ONE, &[1]);
    talk.hear(&["a", "b", "bye", "c", "bye", "bye"]);
    assert_eq!(
        talk.said(),
        ["task 0 Closed 1 at 0", "task 0 Closed 2 at 0", "task 0 Closed 3 at 0"]
    );
}

#[test]
fn what_is_discarded_is_counted_by_its_reason() {
    let mut talk = talk(KEYED, &[2, 1]);
    talk.hear(&["bad", "good", "bad"]);
    assert_eq!(talk.cluster.report().dropped["bad word"], 2);
}

#[test]
fn a_view_that_takes_a_slot_or_a_task_away_says_moved() {
    let mut talk = talk(KEYED, &[2]);
    let names: Vec<_> = (0..200).map(|n| format!("word {n}")).collect();
    talk.hear(&names.iter().map(String::as_str).collect::<Vec<_>>());
    talk.cluster.view(&[(NodeId(1), 2), (NodeId(2), 2)]);
    let said = talk.said();
    assert!((60..140).contains(&said.len()), "{} of 200 instances moved", said.len());
    assert!(said.iter().all(|line| line.ends_with("Moved 1 at 0")), "{said:?}");
    talk.cluster.finish();
    assert_eq!(talk.said().len(), 200 - said.len(), "the others ended");

    let mut tasks = talk_tasks();
    tasks.cluster.view(&[(NodeId(1), 1), (NodeId(2), 1)]);
    let said = tasks.said();
    assert_eq!(said.iter().filter(|line| line.contains("Moved")).count(), 4, "{said:?}");
}

fn talk_tasks() -> Talk {
    talk(r#"input = [{ stream = "words", grouping = "shuffle" }], parallelism = 8"#, &[1])
}

#[test]
fn a_node_that_shuts_down_says_so_to_all_and_what_they_emit_arrives() {
    let mut talk = talk(KEYED, &[1, 1]);
    talk.hear(&["a", "b", "c", "d", "e", "f", "g", "h"]);
    let mut here = 0;
    let talker = host(&talk.cluster.plans[0], "talk");
    let sink = host(&talk.cluster.plans[0], "out");
    for (node, report) in talk.cluster.reports_by_node() {
        if node == NodeId(1) {
            here = report.runs[0].hosts[talker].instances;
        }
    }
    assert!(here > 0 && here < 8);
    // The node without the sink.
    let plan = std::sync::Arc::clone(&talk.cluster.plans[0]);
    let has_sink =
        |node| !talk.cluster.layout(NodeId(1)).tasks(&plan, (0, sink), at(node, 0)).is_empty();
    let other = if has_sink(1) { 2 } else { 1 };
    talk.cluster.stop(NodeId(other));
    let said = talk.said();
    assert_eq!(said.len() as u64, if other == 1 { here } else { 8 - here });
    assert!(said.iter().all(|line| line.contains("Shutdown 1")), "{said:?}");
}

#[test]
fn stages_end_one_after_another_and_what_they_emit_while_they_go_is_handled() {
    feed("0", words(&["a", "b"]));
    let written = Written::default();
    let registry =
        Registry::new().spout::<Feed<Word>>("feed").pe::<Talker>("talker").pe::<Echo>("echo");
    let text = r#"name = "talk"
        spout.words = { type = "feed", emits = "words" }
        pe.talk = { type = "talker", emits = "said", input = [{ stream = "words", key = ["text"] }] }
        pe.one = { type = "echo", emits = "first", input = [{ stream = "said", grouping = "global" }] }
        pe.two = { type = "echo", emits = "second", input = [{ stream = "first", grouping = "global" }] }
        pe.out = { type = "collect", input = [{ stream = "second", grouping = "global" }] }"#;
    let mut cluster = Cluster::new(written.sink(registry, "collect"), text, &[2, 2], 5);
    cluster.open("words", &["0"]);
    cluster.settle();
    assert_eq!(cluster.plans[0].stages, 5);
    let mut by_stage = Vec::new();
    for stage in 0..5 {
        cluster.phase(Phase::Ending(stage));
        cluster.settle();
        let report = cluster.report();
        assert_eq!((report.sent, report.received), (report.sent, report.sent));
        let mut said = written.take();
        said.sort();
        by_stage.push(said);
    }
    let json = |what: &str| format!(r#"{{"what":"{what}"}}"#);
    assert_eq!(by_stage[0], [""; 0]);
    assert_eq!(by_stage[1], [json("a Ended 1 at 0"), json("b Ended 1 at 0")]);
    assert_eq!(by_stage[2], [json("echo Ended")]);
    assert_eq!(by_stage[3], [json("echo Ended")]);
    assert_eq!(by_stage[4], [""; 0]);
    cluster.phase(Phase::Ended);
    cluster.settle();
    let report = cluster.report();
    assert_eq!(report.hosts.iter().skip(1).map(|host| host.instances).sum::<u64>(), 0);
}

#[test]
fn a_container_that_comes_late_to_the_end_catches_up_at_once() {
    let mut talk = talk(ONE, &[1]);
    talk.hear(&["a"]);
    talk.cluster.phase(Phase::Ended);
    assert_eq!(talk.said(), ["task 0 Ended 1 at 0"], "its reader goes after it");
    talk.cluster.view(&[(NodeId(1), 1), (NodeId(2), 1)]);
    assert_eq!(talk.said(), [""; 0]);
    let instances = |talk: &mut Talk| -> u64 {
        talk.cluster.report().hosts.iter().skip(1).map(|host| host.instances).sum()
    };
    assert_eq!(instances(&mut talk), 0);
}

#[test]
fn nothing_is_read_before_the_topology_runs() {
    let mut talk = talk(ONE, &[1]);
    talk.cluster.phase(Phase::Waiting);
    talk.cluster.settle();
    talk.hear(&["a"]);
    assert_eq!(talk.cluster.report().hosts[0].emitted, 0);
    talk.cluster.phase(Phase::Running);
    talk.cluster.settle();
    assert_eq!(talk.cluster.report().hosts[0].emitted, 1);
}

/// Idle until it is woken; then as its partition's name says.
struct Moody {
    name: String,
    polls: u64,
    waker: Waker,
}

impl Spout for Moody {
    type Out = Word;

    fn partitions(_: &Params) -> Result<Vec<PartitionName>, SpoutError> {
        Err(SpoutError::new("nothing here"))
    }

    fn open(opening: Opening<'_>) -> Result<Self, SpoutError> {
        let polls = opening.position.offset;
        Ok(Self { name: opening.name.as_str().to_owned(), polls, waker: opening.waker })
    }

    fn poll(&mut self, ctx: &mut Ctx<'_, Word>) -> Result<Next, SpoutError> {
        self.polls += 1;
        log(format!("{} {}", self.name, self.polls));
        match (&self.name[..], self.polls) {
            ("later", 1) => Ok(Next::Until(ctx.now() + Duration::from_millis(5))),
            ("idle", 1) => {
                self.waker.wake();
                Ok(Next::Idle)
            }
            ("failing", 2) => Err(SpoutError::new("the disk is gone")),
            ("failing", _) => Ok(Next::More),
            _ => Ok(Next::Exhausted),
        }
    }

    fn position(&self) -> Position {
        Position { offset: self.polls, plays: 0 }
    }
}

fn moody() -> Cluster {
    let registry = Registry::new().spout::<Moody>("moody").pe::<Talker>("talker");
    let text = r#"name = "moods"
        spout.words = { type = "moody", emits = "words" }
        pe.talk = { type = "talker", emits = "said", input = [{ stream = "words", grouping = "global" }] }"#;
    logged();
    Cluster::new(registry, text, &[1], 5)
}

#[test]
fn a_spout_is_polled_when_it_said() {
    let mut cluster = moody();
    cluster.open("words", &["later", "idle", "failing"]);
    cluster.settle();
    let mut polled = logged();
    polled.sort();
    assert_eq!(polled, ["failing 1", "failing 2", "idle 1", "later 1"]);
    cluster.pass(Duration::from_millis(4));
    assert_eq!(logged(), [""; 0]);
    cluster.pass(Duration::from_millis(1));
    assert_eq!(logged(), ["later 2"]);
    cluster.give(at(1, 0), pe::Input::Woken);
    cluster.settle();
    assert_eq!(logged(), ["idle 2"]);
    let partitions = cluster.report().hosts[0].partitions.clone();
    assert!(partitions.iter().all(|partition| partition.is_exhausted));
    let failed = partitions.iter().find(|partition| partition.name.as_str() == "failing").unwrap();
    assert_eq!(failed.failure.as_deref(), Some("the disk is gone"));
    assert_eq!(failed.position.offset, 1, "where it stood before it failed");
}

#[test]
fn a_partition_closes_with_its_position_and_goes_on_elsewhere() {
    let mut cluster = moody();
    let name = PartitionName::new("idle");
    let close = || pe::Input::Close { topology: 0, prototype: 0, name: PartitionName::new("idle") };
    cluster.open("words", &["idle"]);
    cluster.open("words", &["idle"]); // Shown twice, opened once.
    cluster.settle();
    assert_eq!(logged(), ["idle 1"]);
    cluster.give(at(1, 0), close());
    let (closed, state) = cluster.closed.pop().unwrap();
    let state = state.unwrap();
    assert_eq!((closed, state.position.offset, state.is_exhausted), (name, 1, false));
    cluster.give(at(1, 0), close());
    assert_eq!(cluster.closed.pop().unwrap().1, None, "it is not here any more");
    cluster.open_at(at(1, 0), (0, 0), "idle", state.position);
    cluster.settle();
    assert_eq!(logged(), ["idle 2"]);
    // Numbers of no topology and no spout.
    let name = || PartitionName::new("x");
    for (topology, prototype) in [(7, 0), (0, 1), (0, 77)] {
        let position = Position::default();
        cluster.give(
            at(1, 0),
            pe::Input::Open { topology, prototype, name: name(), position, skip: 0 },
        );
        cluster.give(at(1, 0), pe::Input::Close { topology, prototype, name: name() });
        assert_eq!(cluster.closed.pop().unwrap().1, None);
    }
}
