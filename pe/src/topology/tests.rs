//! One good file, broken in every way there is, and what is said about it.

mod groupings;

use std::time::Duration;

use proptest::prelude::*;
use routing::{FieldKind, FieldSchema, Schema};

use super::canonical::render;
use super::*;
use crate::window::{Extent, WindowSpec};

/// A file that uses everything the format has.
const GOOD: &str = r#"name = "top-words"

[spout.lines]
type = "text-files"
params = { paths = ["corpus/*.txt"] }
emits = "lines"

[pe.split]
type = "splitter"
input = [{ stream = "lines", grouping = "shuffle" }]
emits = { Word = "words", Bad = "errors" }
parallelism = 4

[pe.count]
type = "counter"
input = [{ stream = "words", key = ["text"] }]
emits = "counts"
timer = "1s"

[pe.sort]
type = "top-k"
input = [{ stream = "counts", key = ["word"], grouping = "fields" }]
emits = "tops"
parallelism = 3
params = { k = 20 }
trigger = { events = 1000, after = "250ms" }

[pe.merge]
type = "top-k-merge"
input = [{ stream = "tops", grouping = "global" }]

[pe.log]
type = "print"
input = [{ stream = "errors" }]

[stream.words]
overflow = "block"
"#;

const fn field(name: &'static str, kind: FieldKind) -> FieldSchema {
    FieldSchema { name, kind }
}

const LINE: Schema = Schema { name: "Line", fields: &[field("line", FieldKind::Text)] };
const WORD: Schema = Schema {
    name: "Word",
    fields: &[field("text", FieldKind::Text), field("length", FieldKind::Unsigned)],
};
const OLD_WORD: Schema = Schema {
    name: "Word",
    fields: &[field("text", FieldKind::Text), field("n", FieldKind::Signed)],
};
const BAD: Schema = Schema { name: "Bad", fields: &[field("line", FieldKind::Text)] };
const COUNT: Schema = Schema {
    name: "Count",
    fields: &[field("n", FieldKind::Unsigned), field("word", FieldKind::Text)],
};
const TOP: Schema =
    Schema { name: "Top", fields: &[field("share", FieldKind::Optional(&FieldKind::Float))] };

const FILES: &[Param] = &[Param::texts("paths", "the files to read").required()];
const TOP_K: &[Param] = &[
    Param::integer("k", "how many are kept").between(1, 1_000).default(10),
    Param::duration("every", "how often they are shown").optional(),
    Param::float("share", "the least share of one that is kept").between(0.0, 1.0).default(0.5),
    Param::text("title", "what is shown above").default("top"),
    Param::boolean("quiet", "whether nothing is shown").default(false),
    Param::texts("ignored", "what is left out").default(&["the", "a"]),
    Param::text("order", "what they are ordered by").one_of(&["count", "word"]).optional(),
];

fn catalog() -> Catalog {
    let these = |events: &[Schema]| Accepts::These(events.to_vec());
    let pe = |inputs, outputs: &[Schema], params| PeSchema {
        inputs,
        outputs: outputs.to_vec(),
        params,
        is_windowed: false,
    };
    let spout = |outputs: &[Schema], params| SpoutSchema { outputs: outputs.to_vec(), params };
    let pes = [
        ("splitter", pe(these(&[LINE]), &[WORD, BAD], &[])),
        ("counter", pe(these(&[WORD]), &[COUNT], &[])),
        ("top-k", pe(these(&[COUNT]), &[TOP], TOP_K)),
        ("top-k-merge", pe(these(&[TOP, COUNT]), &[], &[])),
        ("print", pe(Accepts::Any, &[], &[])),
        ("echo", pe(Accepts::Any, &[BAD], &[])),
        ("start", pe(these(&[]), &[BAD], &[])),
        ("windowed", PeSchema { is_windowed: true, ..pe(these(&[WORD]), &[COUNT], &[]) }),
    ];
    let spouts = [("text-files", spout(&[LINE], FILES)), ("old-words", spout(&[OLD_WORD], &[]))];
    Catalog {
        pes: pes.map(|(name, schema)| (name.to_owned(), schema)).into(),
        spouts: spouts.map(|(name, schema)| (name.to_owned(), schema)).into(),
        groupings: ["by-length", "by-region"].map(str::to_owned).into(),
    }
}

/// The good file with one part replaced.
fn with(from: &str, to: &str) -> String {
    assert_eq!(GOOD.matches(from).count(), 1, "{from} is there once");
    GOOD.replacen(from, to, 1)
}

fn planned(text: &str) -> Result<Plan, Vec<Diagnostic>> {
    Topology::parse(text)?.plan(&catalog())
}

fn plan(text: &str) -> Plan {
    planned(text).unwrap_or_else(|problems| panic!("{}\nin\n{text}", shown(&problems, text)))
}

/// A line per diagnostic: where, what is there, what is said, what to do.
fn shown(problems: &[Diagnostic], text: &str) -> String {
    let line = |problem: &Diagnostic| {
        let place = problem.position(text).map_or("-".into(), |(line, column)| {
            let span = problem.span.clone().unwrap_or_default();
            format!("{line}:{column} {}", &text[span])
        });
        let help = problem.help.as_deref().unwrap_or("-");
        format!("{place} | {problem} | {} | {help}", problem.label)
    };
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Breaks the good file in one place and compares everything that is said about it.
fn check(from: &str, to: &str, said: &str) {
    let text = with(from, to);
    let problems = planned(&text).err().unwrap_or_default();
    assert_eq!(shown(&problems, &text), said, "with {to} in place of {from}");
}

#[test]
fn the_good_file_is_planned() {
    let plan = plan(GOOD);
    let streams: Vec<_> =
        plan.streams.iter().map(|stream| (stream.name.as_str(), stream.event.name)).collect();
    assert_eq!(
        streams,
        [
            ("counts", "Count"),
            ("errors", "Bad"),
            ("lines", "Line"),
            ("tops", "Top"),
            ("words", "Word")
        ]
    );
    let names: Vec<_> = plan
        .prototypes
        .iter()
        .map(|prototype| (prototype.name.as_str(), prototype.instances, prototype.stage))
        .collect();
    assert_eq!(
        names,
        [
            ("lines", InstancePlan::Partitions, 0),
            ("count", InstancePlan::Keyed, 2),
            ("log", InstancePlan::PerNode, 2),
            ("merge", InstancePlan::Tasks(1), 4),
            ("sort", InstancePlan::Tasks(3), 3),
            ("split", InstancePlan::Tasks(4), 1),
        ]
    );
    assert_eq!((plan.stages, plan.name.as_str()), (5, "top-words"));
    assert_eq!(plan.warnings, []);
    let edge = |from, output, to| Edge { from, output, to, input: 0 };
    assert_eq!(
        plan.edges,
        [edge(0, 0, 5), edge(1, 0, 4), edge(4, 0, 3), edge(5, 0, 1), edge(5, 1, 2)]
    );
    let [lines, count, log, merge, sort, split] = plan.prototypes.as_slice() else {
        panic!("six prototypes")
    };
    assert!(lines.is_spout && !count.is_spout);
    assert_eq!((&lines.outputs[..], &split.outputs[..]), (&[2][..], &[4, 1][..]));
    let input =
        |stream, key: &[usize], grouping| vec![InputPlan { stream, key: key.to_vec(), grouping }];
    assert_eq!(count.inputs, input(4, &[0], Grouping::Key));
    assert_eq!(log.inputs, input(1, &[], Grouping::Local));
    assert_eq!(merge.inputs, input(3, &[], Grouping::Global));
    assert_eq!(sort.inputs, input(0, &[1], Grouping::Key));
    assert_eq!(split.inputs, input(2, &[], Grouping::Shuffle));
    assert_eq!(count.timer, Some(Duration::from_secs(1)));
    let after = Some(Duration::from_millis(250));
    assert_eq!(sort.trigger, Some(Trigger { events: Some(1000), after }));
}

#[test]
fn params_are_those_of_the_file_and_the_defaults() {
    let plan = plan(GOOD);
    let paths = plan.prototypes[0].params.texts("paths");
    assert_eq!(paths, ["corpus/*.txt"]);
    let params = &plan.prototypes[4].params;
    assert_eq!((params.integer("k"), params.float("share")), (20, 0.5));
    assert_eq!((params.text("title"), params.boolean("quiet")), ("top", false));
    assert_eq!(params.texts("ignored"), ["the", "a"]);
    assert_eq!((params.optional_duration("every"), params.has("every")), (None, false));
    assert_eq!(params.optional_integer("k"), Some(20));
    let shown = serde_json::to_string(params).unwrap();
    assert_eq!(shown, r#"{"ignored":["the","a"],"k":20,"quiet":false,"share":0.5,"title":"top"}"#);

    let given =
        [("every", Duration::from_secs(90).into()), ("share", 1.into()), ("order", "word".into())];
    let params = Params::new(TOP_K, given).unwrap();
    assert_eq!(params.optional_duration("every"), Some(Duration::from_secs(90)));
    assert_eq!((params.float("share"), params.optional_text("order")), (1.0, Some("word")));
    assert!(params.has("every") && params != plan.prototypes[4].params);
    assert!(serde_json::to_string(&params).unwrap().contains(r#""every":"90s""#));
}

#[test]
fn asking_for_what_params_do_not_declare_says_what_to_declare() {
    let panic_of = |ask: &dyn Fn(&Params)| {
        let params = Params::new(TOP_K, []).unwrap();
        let ask = std::panic::AssertUnwindSafe(|| ask(&params));
        let text = std::panic::catch_unwind(ask).unwrap_err();
        text.downcast_ref::<String>().unwrap().clone()
    };
    assert_eq!(
        panic_of(&|params| {
            let _ = params.integer("kk");
        }),
        "PARAMS do not declare `kk`; they declare \
         [\"every\", \"ignored\", \"k\", \"order\", \"quiet\", \"share\", \"title\"]"
    );
    assert_eq!(
        panic_of(&|params| {
            let _ = params.text("k");
        }),
        "PARAMS declare `k` with `Param::integer`, not with `Param::text`"
    );
    assert_eq!(
        panic_of(&|params| {
            let _ = params.duration("every");
        }),
        "PARAMS declare `every` optional; ask for `optional_duration`"
    );
    assert_eq!(
        panic_of(&|_| {
            let _ = Params::default().has("k");
        }),
        "PARAMS do not declare `k`; they declare []"
    );
    const TWICE: &[Param] = &[Param::text("a", "").required(), Param::integer("a", "").required()];
    assert_eq!(panic_of(&|_| drop(Params::new(TWICE, []))), "PARAMS declare `a` twice");
}

#[test]
fn a_prototype_of_one_reads_by_key_and_shuffle_as_well() {
    let text = with(
        r#"[{ stream = "errors" }]"#,
        r#"[
            { stream = "errors", grouping = "global" },
            { stream = "words", key = ["text"] },
            { stream = "words", key = ["length"] },
            { stream = "lines", grouping = "shuffle" },
        ]"#,
    );
    let plan = plan(&text);
    let log = &plan.prototypes[2];
    assert_eq!(log.instances, InstancePlan::Tasks(1));
    let groupings: Vec<_> = log.inputs.iter().map(|input| input.grouping.clone()).collect();
    assert_eq!(groupings, [Grouping::Global, Grouping::Key, Grouping::Key, Grouping::Shuffle]);
}

#[test]
fn keys_of_the_same_kinds_make_one_keyed_prototype() {
    let text = with(
        r#"[{ stream = "errors" }]"#,
        r#"[{ stream = "words", key = ["text"] }, { stream = "counts", key = ["word"] }]"#,
    );
    let plan = plan(&text);
    assert_eq!(plan.prototypes[2].instances, InstancePlan::Keyed);
    assert_eq!(
        shown(&plan.warnings, &text),
        "11:33 \"errors\" | nobody reads the stream `errors` | emitted in vain | -"
    );
}

#[test]
fn two_may_emit_one_stream_of_one_event() {
    let text = with(
        "[stream.words]",
        "[pe.again]\ntype = \"echo\"\ninput = [{ stream = \"lines\" }]\nemits = \"errors\"\n\
         [stream.words]",
    );
    let plan = plan(&text);
    let into_log: Vec<_> = plan.edges.iter().filter(|edge| edge.to == 3).collect();
    assert_eq!(into_log.len(), 2, "{:?}", plan.edges);
    assert_eq!(plan.prototypes[3].name, "log");
}

#[test]
fn what_is_too_large_is_refused() {
    let text = format!("{GOOD}#{}", "x".repeat(TEXT_BYTES_MAX));
    assert_eq!(
        shown(&planned(&text).unwrap_err(), &text),
        format!("- | the file has {} bytes, and 1048576 may be |  | -", text.len())
    );

    let pe = |index: usize, inputs: &str| {
        format!("[pe.p{index}]\ntype = \"print\"\ninput = [{inputs}]\n")
    };
    let pes = |count: usize| (0..count).map(|index| pe(index, "{stream = \"lines\"}"));
    let text = format!("{GOOD}{}", pes(250).collect::<String>());
    assert_eq!(plan(&text).prototypes.len(), 256);
    let text = format!("{GOOD}{}", pes(251).collect::<String>());
    assert_eq!(
        shown(&planned(&text).unwrap_err(), &text),
        "- | there are 257 spouts and PEs, and 256 may be |  | -"
    );

    let five = ["lines", "words", "errors", "counts", "tops"]
        .map(|stream| format!("{{stream = \"{stream}\"}},"))
        .concat();
    let text = format!("{GOOD}{}", (0..204).map(|index| pe(index, &five)).collect::<String>());
    assert_eq!(
        shown(&planned(&text).unwrap_err(), &text),
        "- | there are more than 1024 edges |  | -"
    );
}

/// As large as may be, and wrong all over: what an attacker would send.
#[test]
fn a_large_file_of_nonsense_is_refused_in_time() {
    let mut text = String::from(GOOD);
    text.push_str("[pe.flood]\ntype = \"top-k\"\nemits = {");
    for index in 0..20_000 {
        text.push_str(&format!("E{index} = \"s{index}\", "));
    }
    text.push_str("}\ninput = [");
    for index in 0..EDGES_MAX {
        text.push_str(&format!("{{ stream = \"t{index}\", key = [\"k\"] }}, "));
    }
    text.push_str("]\n");
    assert_eq!(planned(&text).unwrap_err().len(), PROBLEMS_MAX + 1);
    let text = text.replace("}, ]", "}, { stream = \"lines\" }]");
    let problems = planned(&text).unwrap_err();
    assert_eq!(problems[0].message, "`input` has 1025 items, and 1024 may be");
}

#[test]
fn a_hundred_problems_are_enough() {
    let text = format!(
        "{GOOD}[unknown]\n{}",
        (0..300).fold(String::new(), |text, i| text + &format!("[{i}]\n"))
    );
    let problems = planned(&text).unwrap_err();
    assert_eq!(problems.len(), PROBLEMS_MAX + 1);
    assert_eq!(problems[PROBLEMS_MAX].message, "201 more errors are not shown");
}

/// Nodes of different builds compare this number; if it changes, they no longer understand one
/// another, and the `1` in the canonical form has to change with it.
#[test]
fn the_hash_is_pinned() {
    let plan = plan(GOOD);
    assert_eq!(
        render(&plan, Delivery::AtMostOnce),
        r#"topology 1 9:top-words delivery at-most-once
stream 6:counts event 5:Count field 1:n 16:unsigned integer field 4:word 4:text
stream 6:errors event 3:Bad field 4:line 4:text
stream 5:lines event 4:Line field 4:line 4:text
stream 4:tops event 3:Top field 5:share 14:optional float
stream 5:words event 4:Word field 4:text 4:text field 6:length 16:unsigned integer
spout 5:lines type 10:text-files param 5:paths texts 1 12:corpus/*.txt output 2 partitions
pe 5:count type 7:counter input 4 key 0 output 0 keyed timer 1000000000
pe 3:log type 5:print input 1 local per-node
pe 5:merge type 11:top-k-merge input 3 global tasks 1
pe 4:sort type 5:top-k param 7:ignored texts 2 3:the 1:a param 1:k integer 20 param 5:quiet boolean false param 5:share float 3fe0000000000000 param 5:title text 3:top input 0 key 1 output 3 tasks 3 trigger-events 1000 trigger-after 250000000
pe 5:split type 8:splitter input 2 shuffle output 4 output 1 tasks 4
"#
    );
    assert_eq!(plan.hash, 12_366_900_712_473_884_848);
}

/// The good file with a windowed `count` in which `window` stands.
fn windowed(window: &str) -> String {
    with("\"counter\"", "\"windowed\"").replace("timer = \"1s\"", window)
}

#[test]
fn windows_are_planned_and_hashed() {
    let (events, millis) = (Extent::Count, |millis| Extent::Time(Duration::from_millis(millis)));
    let mut hashes = vec![plan(GOOD).hash];
    for (text, spec) in [
        ("{ length = 100 }", WindowSpec::tumbling(events(100))),
        ("{ length = 100, slide = 10 }", WindowSpec::sliding(events(100), events(10))),
        ("{ length = \"10s\" }", WindowSpec::tumbling(millis(10_000))),
        (
            "{ length = \"10s\", slide = \"1s\" }",
            WindowSpec::sliding(millis(10_000), millis(1_000)),
        ),
        ("{ length = 100, slide = \"1s\" }", WindowSpec::sliding(events(100), millis(1_000))),
        ("{ length = \"10s\", slide = 100 }", WindowSpec::sliding(millis(10_000), events(100))),
        (
            "{ length = \"10s\", most = 5_000 }",
            WindowSpec { most: 5_000, ..WindowSpec::tumbling(millis(10_000)) },
        ),
        // What would be the same number of something else.
        ("{ length = \"100ms\" }", WindowSpec::tumbling(millis(100))),
        ("{ length = 100_000_000 }", WindowSpec::tumbling(events(1))),
    ] {
        let text = windowed(&format!("window = {text}"));
        let Ok(plan) = planned(&text) else {
            assert!(text.contains("100_000_000"), "{text}");
            continue;
        };
        let count = plan.prototypes.iter().find(|prototype| prototype.name == "count").unwrap();
        assert_eq!(count.window, Some(spec), "{text}");
        assert!(!hashes.contains(&plan.hash), "{text}");
        hashes.push(plan.hash);
    }
    // How it is written does not matter.
    let one = plan(&windowed("window = { length = \"10s\", slide = \"10s\", most = 1_000_000 }"));
    assert_eq!(one.hash, plan(&windowed("window.length = \"10000ms\"")).hash);
}

#[test]
fn windows_that_cannot_be_are_refused() {
    for (window, said) in [
        (
            "",
            "14:5 count | `count` needs `window` | which windows? | the type `windowed` is windowed: add window = { length = 100 }, or { length = \"10s\", slide = \"1s\" }",
        ),
        (
            "window = 100",
            "18:10 100 | `window` must be a table, not an integer | a table is expected | -",
        ),
        ("window = {}", "18:1 window | `window` needs `length` | `length` is missing | -"),
        (
            "window = { length = 0 }",
            "18:21 0 | `length` must be from 1 to 16000000 | out of range | -",
        ),
        (
            "window = { length = 16_000_001 }",
            "18:21 16_000_001 | `length` must be from 1 to 16000000 | out of range | -",
        ),
        ("window = { length = \"0s\" }", "18:21 \"0s\" | `length` must be above zero | zero | -"),
        (
            "window = { length = \"10\" }",
            "18:21 \"10\" | the duration of `length` has no unit | not a duration | write a whole number and its unit: \"250ms\", \"1s\", \"10m\" or \"2h\"",
        ),
        (
            "window = { length = 1.5 }",
            "18:21 1.5 | `length` must be a number of events or a duration | a number or a duration is expected | -",
        ),
        (
            "window = { length = 10, slide = 0 }",
            "18:33 0 | `slide` must be from 1 to 16000000 | out of range | -",
        ),
        (
            "window = { length = 10, slide = 11 }",
            "18:10 { length = 10, slide = 11 } | the slide is longer than the length, so some events would be in no window | no window | leave `slide` out, and each event is in one window",
        ),
        (
            "window = { length = \"1s\", slide = \"1001ms\" }",
            "18:10 { length = \"1s\", slide = \"1001ms\" } | the slide is longer than the length, so some events would be in no window | no window | leave `slide` out, and each event is in one window",
        ),
        (
            "window = { length = \"1h\", slide = \"1ms\" }",
            "18:10 { length = \"1h\", slide = \"1ms\" } | the length is more than 10000 slides | no window | `length` may be up to 10000 times `slide`",
        ),
        (
            "window = { length = 10, most = 5 }",
            "18:32 5 | `most` is for a `length` of time; one of events is its own limit | this limit | -",
        ),
        (
            "window = { length = \"1s\", most = 0 }",
            "18:34 0 | `most` must be from 1 to 16000000 | out of range | -",
        ),
        (
            "window = { length = 10, slid = 5 }",
            "18:25 slid | unknown key `slid` | not a key of `window` | did you mean `slide`?",
        ),
        (
            "window = { length = 10 }\ntrigger = { events = 5 }",
            "19:11 { events = 5 } | the type `windowed` is windowed and has no trigger | never called | the `slide` of its window says when it is called",
        ),
    ] {
        let text = windowed(window);
        let problems = planned(&text).unwrap_err();
        assert_eq!(shown(&problems, &text), said, "{window}");
    }
    let text = with("timer = \"1s\"", "window = { length = 10 }");
    assert_eq!(
        shown(&planned(&text).unwrap_err(), &text),
        "18:10 { length = 10 } | the type `counter` is not windowed | it takes events one by one | leave `window` out"
    );
}

/// What came later is written behind what there was, so that plans without it keep their hashes.
#[test]
fn the_canonical_form_of_what_came_later_is_pinned() {
    let text = with("\"block\"", "\"shed\"").replace("\"fields\"", "\"by-length\"");
    let text = text
        .replace("timer = \"1s\"", "timer = \"1s\"\ncheckpoint = { events = 5, every = \"1s\" }")
        .replace(
            "key = [\"text\"] }]",
            "key = [\"text\"] }]\nmemory = { max_instances = 9, idle_after = \"1s\" }",
        );
    let rendered = render(&plan(&text), Delivery::AtMostOnce);
    for line in [
        "stream 5:words event 4:Word field 4:text 4:text field 6:length 16:unsigned integer overflow shed",
        "trigger-events 1000 trigger-after 250000000",
        "checkpoint-events 5 checkpoint-every 1000000000 max-instances 9 idle-after 1000000000",
    ] {
        assert!(rendered.lines().any(|found| found.ends_with(line)), "{line} in\n{rendered}");
    }
    assert!(rendered.contains(" input 0 named 9:by-length 1 output 3 tasks 3"), "{rendered}");
}

#[test]
fn the_hash_does_not_depend_on_how_a_file_is_written() {
    for (from, to) in [
        ("name = \"top-words\"\n", "name = 'top-words' # the name\ndelivery = \"at-most-once\"\n"),
        (
            "type = \"counter\"\ninput = [{ stream = \"words\", key = [\"text\"] }]\nemits = \"counts\"",
            "emits.Count = \"counts\"\ninput = [{ key = [\"text\"], stream = \"words\" }]\ntype = \"counter\"",
        ),
        ("Word = \"words\", Bad = \"errors\"", "Bad = \"errors\", Word = \"words\""),
        ("1000", "1_000"),
        ("\"1s\"", "\"1000ms\""),
        ("k = 20", "k = 0x14, share = 0.5"),
        ("[stream.words]\noverflow = \"block\"\n", ""),
        (", grouping = \"fields\"", ""),
        ("\"shuffle\"", "\"none\""),
    ] {
        let text = with(from, to);
        let plan = plan(&text);
        assert_eq!(plan.hash, self::plan(GOOD).hash, "with {to} in place of {from}");
        assert_eq!(plan, self::plan(GOOD));
    }
}

#[test]
fn the_hash_depends_on_everything_that_means_something() {
    let mut hashes = vec![plan(GOOD).hash];
    for (from, to) in [
        ("\"top-words\"", "\"top-word\""),
        ("[spout.lines]", "[spout.texts]"),
        ("corpus/*.txt", "corpus/*.tx"),
        ("[\"corpus/*.txt\"]", "[\"corpus/\", \"*.txt\"]"),
        ("parallelism = 4", "parallelism = 5"),
        ("parallelism = 4", "parallelism = 1"),
        ("stream = \"lines\", grouping = \"shuffle\"", "stream = \"lines\", grouping = \"global\""),
        ("key = [\"text\"]", "key = [\"length\"]"),
        ("key = [\"text\"]", "key = [\"text\", \"length\"]"),
        ("key = [\"text\"]", "key = [\"length\", \"text\"]"),
        ("\"1s\"", "\"2s\""),
        ("timer = \"1s\"", ""),
        ("timer = \"1s\"", "trigger = { after = \"1s\" }"),
        ("timer = \"1s\"", "timer = \"1s\"\ncheckpoint = { every = \"1s\" }"),
        ("timer = \"1s\"", "timer = \"1s\"\ncheckpoint = { every = \"2s\" }"),
        ("timer = \"1s\"", "timer = \"1s\"\ncheckpoint = { events = 5 }"),
        ("key = [\"text\"] }]", "key = [\"text\"] }]\nmemory = { max_instances = 9 }"),
        ("key = [\"text\"] }]", "key = [\"text\"] }]\nmemory = { idle_after = \"1s\" }"),
        ("1000", "1001"),
        ("events = 1000, ", ""),
        (", after = \"250ms\"", ""),
        ("k = 20", "k = 21"),
        ("k = 20", "k = 20, share = 0.25"),
        ("k = 20", "k = 20, every = \"1s\""),
        ("k = 20", "k = 20, quiet = true"),
        ("k = 20", "k = 20, title = \"\""),
        ("k = 20", "k = 20, ignored = [\"thea\"]"),
        ("k = 20", "k = 20, ignored = []"),
        ("[{ stream = \"errors\" }]", "[{ stream = \"lines\" }]"),
        ("[{ stream = \"errors\" }]", "[{ stream = \"errors\" }, { stream = \"lines\" }]"),
        ("[{ stream = \"errors\" }]", "[{ stream = \"lines\" }, { stream = \"errors\" }]"),
        ("type = \"top-k-merge\"", "type = \"print\""),
        ("[pe.log]", "[pe.log2]"),
        ("\"block\"", "\"shed\""),
        ("\"shuffle\"", "\"load-aware-shuffle\""),
        ("\"shuffle\"", "\"all\""),
        ("\"shuffle\"", "\"local-or-shuffle\""),
        ("\"fields\"", "\"partial-key\""),
        ("\"fields\"", "\"by-length\""),
        ("\"fields\"", "\"by-region\""),
        ("key = [\"word\"], grouping = \"fields\"", "key = [\"n\"], grouping = \"fields\""),
        ("key = [\"word\"], grouping = \"fields\"", "key = [\"n\"], grouping = \"direct\""),
    ] {
        let hash = plan(&with(from, to)).hash;
        assert!(!hashes.contains(&hash), "with {to} in place of {from}");
        hashes.push(hash);
    }
    let mut other = catalog();
    let renamed = Schema { name: "Line2", ..LINE };
    const RETYPED: &[FieldSchema] = &[field("line", FieldKind::Bytes)];
    const GROWN: &[FieldSchema] = &[field("line", FieldKind::Text), field("n", FieldKind::Bool)];
    let retyped = Schema { fields: RETYPED, ..LINE };
    let grown = Schema { fields: GROWN, ..LINE };
    for line in [renamed, retyped, grown] {
        other.spouts.get_mut("text-files").unwrap().outputs = vec![line];
        other.pes.get_mut("splitter").unwrap().inputs = Accepts::These(vec![line]);
        let hash = Topology::parse(GOOD).unwrap().plan(&other).unwrap().hash;
        assert!(!hashes.contains(&hash), "{line:?}");
        hashes.push(hash);
    }
}

/// Damage as an editor, a merge or a torn write does it.
fn damaged() -> impl Strategy<Value = String> {
    let cut = (0..GOOD.len(), 0..40_usize, "[ -~\n]{0,12}");
    let part = prop::sample::select(GOOD.split_inclusive(&[' ', '\n'][..]).collect::<Vec<_>>());
    let paste = (0..GOOD.len(), 0..20_usize, prop::collection::vec(part, 0..4));
    let paste = paste.prop_map(|(at, drop, parts)| (at, drop, parts.concat()));
    prop::collection::vec(prop_oneof![cut, paste], 1..5).prop_map(|edits| {
        let mut text = GOOD.to_owned();
        for (at, length, new) in edits {
            // The good file is ASCII, and what is put in is as well.
            let start = at.min(text.len());
            let end = (start + length).min(text.len());
            text.replace_range(start..end, &new);
        }
        text
    })
}

proptest! {
    #[test]
    fn a_damaged_file_never_panics(text in damaged()) {
        for problem in planned(&text).err().unwrap_or_default() {
            prop_assert!(!problem.message.is_empty());
            if let Some(span) = problem.span {
                prop_assert!(text.get(span).is_some(), "a span lies within the text");
            }
        }
    }

    #[test]
    fn any_text_at_all_never_panics(text in ".{0,200}") {
        drop(planned(&text));
    }
}

#[test]
fn a_declaration_that_is_wrong_by_itself_is_refused() {
    for (from, to, said) in [
        (
            r#"name = "top-words""#,
            r#"name = "top-words"#,
            r#"1:18  | invalid basic string, expected `"` | not TOML | -"#,
        ),
        (
            r#"name = "top-words""#,
            r#"name = "a"
name = "b""#,
            "2:1 name | duplicate key | not TOML | -",
        ),
        (r#"name = "top-words""#, "", "- | the top level needs `name` | `name` is missing | -"),
        (
            r#"name = "top-words""#,
            r#"name = """#,
            r#"1:8 "" | `` cannot be the name of a topology | not a name | a name has 1 to 64 letters, digits, `_` and `-` of ASCII"#,
        ),
        (
            r#"name = "top-words""#,
            "name = 7",
            "1:8 7 | `name` must be a string, not an integer | a string is expected | -",
        ),
        (
            r#"name = "top-words""#,
            r#"name = "top words""#,
            r#"1:8 "top words" | `top words` cannot be the name of a topology | not a name | a name has 1 to 64 letters, digits, `_` and `-` of ASCII"#,
        ),
        (
            r#"name = "top-words""#,
            r#"name = "a"
ack = { granularity = 64 }"#,
            "2:1 ack | `ack` needs `delivery = \"at-least-once\"` | there are no acks | events that may be lost are not acked",
        ),
        (
            r#"name = "top-words""#,
            r#"name = "a"
max_pending = 5"#,
            "2:1 max_pending | `max_pending` needs `delivery = \"at-least-once\"` | there are no acks | events that may be lost are not acked",
        ),
        (
            r#"name = "top-words""#,
            r#"name = "a"
delivery = "at-least-once"
ack = { granularity = 0, attempts = "five", timeout = 30 }
max_pending = 2000000"#,
            r#"3:23 0 | `granularity` must be from 1 to 65536 | out of range | -
3:37 "five" | `attempts` must be an integer, not a string | an integer is expected | -
3:55 30 | the duration of `timeout` has no unit | not a duration | write a whole number and its unit: "250ms", "1s", "10m" or "2h"
4:15 2000000 | `max_pending` must be from 1 to 1048576 | out of range | -"#,
        ),
        (
            r#"name = "top-words""#,
            r#"name = "a"
delivery = "exactly-once""#,
            r#"2:12 "exactly-once" | `delivery = "exactly-once"` is not available in this version | not available | -"#,
        ),
        (
            r#"name = "top-words""#,
            r#"name = "a"
delivery = "at-most-onec""#,
            r#"2:12 "at-most-onec" | unknown delivery `at-most-onec` | unknown | did you mean `at-most-once`?"#,
        ),
        (
            r#"name = "top-words""#,
            r#"name = "a"
delivery = true"#,
            "2:12 true | `delivery` must be a string, not a boolean | a string is expected | -",
        ),
        (
            r#"name = "top-words""#,
            r#"nmae = "top-words""#,
            "- | the top level needs `name` | `name` is missing | -
1:1 nmae | unknown key `nmae` | not a key of the top level | did you mean `name`?",
        ),
        (
            r#"name = "top-words""#,
            r#"name = "a"
whatever = 1"#,
            "2:1 whatever | unknown key `whatever` | not a key of the top level | known keys: `name`, `delivery`, `ack`, `max_pending`, `stream`, `spout`, `pe`, `test`",
        ),
        (
            "[stream.words]",
            "[[test]]
given = 1
[stream.words]",
            "36:3 test | `test` is not available in this version | not available | -",
        ),
        (
            "[stream.words]",
            "[streams.words]",
            "36:2 streams | unknown key `streams` | not a key of the top level | did you mean `stream`?",
        ),
        (
            "[stream.words]
overflow",
            "[stream]
words",
            r#"37:9 "block" | `words` must be a table, not a string | a table is expected | -"#,
        ),
        (
            r#""block""#,
            r#""block"
spill_mib = 4"#,
            "38:1 spill_mib | `spill_mib` needs `overflow = \"spill\"` | nothing waits on disk | -",
        ),
        (
            r#""block""#,
            r#""blok""#,
            r#"37:12 "blok" | unknown overflow `blok` | unknown | did you mean `block`?"#,
        ),
        (
            "overflow",
            "overfow",
            "37:1 overfow | unknown key `overfow` | not a key of [stream.words] | did you mean `overflow`?",
        ),
        (
            "[spout.lines]",
            r#"[spout."a b"]"#,
            r#"3:8 "a b" | `a b` cannot be the name of a spout | not a name | a name has 1 to 64 letters, digits, `_` and `-` of ASCII"#,
        ),
        (
            "[pe.split]",
            r#"[pe."spl/it"]"#,
            r#"8:5 "spl/it" | `spl/it` cannot be the name of a PE | not a name | a name has 1 to 64 letters, digits, `_` and `-` of ASCII"#,
        ),
        (
            "[pe.split]",
            r#"[pe."xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]"#,
            r#"8:5 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" | `xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…` cannot be the name of a PE | not a name | a name has 1 to 64 letters, digits, `_` and `-` of ASCII"#,
        ),
        (
            r#"emits = "lines""#,
            r#"emits = "li nes""#,
            r#"6:9 "li nes" | `li nes` cannot be the name of a stream | not a name | a name has 1 to 64 letters, digits, `_` and `-` of ASCII"#,
        ),
        (
            r#"emits = "lines""#,
            r#"emits = ["lines"]"#,
            r#"6:9 ["lines"] | `emits` must be the name of a stream, or a table of them by event | a string or a table is expected | -"#,
        ),
        (
            r#"emits = "lines""#,
            r#"emit = "lines""#,
            "6:1 emit | unknown key `emit` | not a key of [spout.lines] | did you mean `emits`?",
        ),
        (
            r#"Bad = "errors""#,
            "Bad = 3",
            "11:33 3 | `Bad` must be a string, not an integer | a string is expected | -",
        ),
        (r#"type = "splitter""#, "", "8:5 split | [pe.split] needs `type` | `type` is missing | -"),
        (
            r#"type = "splitter""#,
            "type = []",
            "9:8 [] | `type` must be a string, not an array | a string is expected | -",
        ),
        (
            "parallelism = 4",
            "paralelism = 4",
            "12:1 paralelism | unknown key `paralelism` | not a key of [pe.split] | did you mean `parallelism`?",
        ),
        (
            "parallelism = 4",
            "parallelism = 0",
            "12:15 0 | `parallelism` must be from 1 to 4096 | out of range | -",
        ),
        (
            "parallelism = 4",
            "parallelism = 4097",
            "12:15 4097 | `parallelism` must be from 1 to 4096 | out of range | -",
        ),
        (
            "parallelism = 4",
            "parallelism = -1",
            "12:15 -1 | `parallelism` must be from 1 to 4096 | out of range | -",
        ),
        (
            "parallelism = 4",
            r#"parallelism = "4""#,
            r#"12:15 "4" | `parallelism` must be an integer, not a string | an integer is expected | -"#,
        ),
        (
            "parallelism = 4",
            "parallelism = 4
memory = { idle_after = \"1s\", priority = 5 }",
            "13:31 priority | `priority` is not available in this version | not available | -",
        ),
        (
            "parallelism = 4",
            "parallelism = 4
memory = {}",
            "13:10 {} | `memory` needs `max_instances`, `idle_after` or both | neither is given | -",
        ),
        (
            r#"input = [{ stream = "lines", grouping = "shuffle" }]"#,
            "",
            "8:5 split | [pe.split] needs `input` | `input` is missing | -",
        ),
        (
            r#"input = [{ stream = "lines", grouping = "shuffle" }]"#,
            "input = []",
            "10:9 [] | `input` names no stream | empty | -",
        ),
        (
            r#"input = [{ stream = "lines", grouping = "shuffle" }]"#,
            r#"input = "lines""#,
            r#"10:9 "lines" | `input` must be an array, not a string | an array is expected | -"#,
        ),
        (
            r#"input = [{ stream = "lines", grouping = "shuffle" }]"#,
            r#"input = ["lines"]"#,
            r#"10:10 "lines" | an item of `input` must be a table, not a string | a table is expected | -"#,
        ),
        (
            r#"input = [{ stream = "lines", grouping = "shuffle" }]"#,
            r#"input = [{ grouping = "shuffle" }]"#,
            r#"10:10 { grouping = "shuffle" } | the input needs `stream` | `stream` is missing | -"#,
        ),
        (
            r#"{ stream = "errors" }"#,
            r#"{ stream = "errors" }, { stream = "errors" }"#,
            r#"34:33 { stream = "errors" } | an input is there twice | the same again | -"#,
        ),
        (
            r#"{ stream = "errors" }"#,
            r#"{ stream = "errors", keys = ["a"] }"#,
            "34:31 keys | unknown key `keys` | not a key of the input | did you mean `key`?",
        ),
        (
            r#"key = ["text"]"#,
            r#"key = "text""#,
            r#"16:36 "text" | `key` must be an array, not a string | an array is expected | -"#,
        ),
        (r#"key = ["text"]"#, "key = []", "16:36 [] | `key` names no field | empty | -"),
        (
            r#"key = ["text"]"#,
            "key = [1]",
            "16:37 1 | an item of `key` must be a string, not an integer | a string is expected | -",
        ),
        (
            r#"key = ["text"]"#,
            r#"key = ["text", "text"]"#,
            r#"16:45 "text" | `key` names the field `text` twice | again | -"#,
        ),
        (
            r#"key = ["text"]"#,
            r#"key = ["text"], grouping = "shuffle""#,
            r#"16:57 "shuffle" | a key and the grouping `shuffle` exclude each other | this grouping | leave out one of the two"#,
        ),
        (
            r#"key = ["text"]"#,
            r#"key = ["text"], grouping = "global""#,
            r#"16:57 "global" | a key and the grouping `global` exclude each other | this grouping | leave out one of the two"#,
        ),
        (
            r#"key = ["text"]"#,
            r#"key = ["text"], grouping = "fields""#,
            r#"16:57 "fields" | the grouping `fields` needs `parallelism` | this grouping | add `parallelism`; or leave the grouping out, and there is an instance per key"#,
        ),
        (
            r#"key = ["word"], grouping"#,
            "grouping",
            r#"22:42 "fields" | the grouping `fields` needs a key | this grouping | add key = ["FIELD"]"#,
        ),
        (
            r#"key = ["text"]"#,
            r#"key = ["text"], grouping = "all""#,
            r#"16:57 "all" | a key and the grouping `all` exclude each other | this grouping | leave out one of the two"#,
        ),
        (
            r#"key = ["text"]"#,
            r#"key = ["text"], grouping = "none""#,
            r#"16:57 "none" | a key and the grouping `none` exclude each other | this grouping | leave out one of the two"#,
        ),
        (
            r#"key = ["text"]"#,
            r#"key = ["text"], grouping = "load-aware-shuffle""#,
            r#"16:57 "load-aware-shuffle" | a key and the grouping `load-aware-shuffle` exclude each other | this grouping | leave out one of the two"#,
        ),
        (
            r#"key = ["text"]"#,
            r#"key = ["text"], grouping = "local-or-shuffle""#,
            r#"16:57 "local-or-shuffle" | a key and the grouping `local-or-shuffle` exclude each other | this grouping | leave out one of the two"#,
        ),
        (
            r#"key = ["text"]"#,
            r#"key = ["text"], grouping = "partial-key""#,
            r#"16:57 "partial-key" | the grouping `partial-key` needs `parallelism` | this grouping | add `parallelism`, the number of tasks"#,
        ),
        (
            r#""shuffle""#,
            r#""partial-key""#,
            r#"10:41 "partial-key" | the grouping `partial-key` needs a key | this grouping | add key = ["FIELD"]"#,
        ),
        (
            r#"key = ["text"]"#,
            r#"key = ["length"], grouping = "direct""#,
            r#"16:59 "direct" | the grouping `direct` needs `parallelism` | this grouping | add `parallelism`, the number of tasks"#,
        ),
        (
            r#""shuffle""#,
            r#""direct""#,
            r#"10:41 "direct" | the grouping `direct` needs a key | this grouping | add key = ["FIELD"], the field that holds the number of the task"#,
        ),
        (
            r#"key = ["word"], grouping = "fields""#,
            r#"key = ["n", "word"], grouping = "direct""#,
            r#"22:63 "direct" | the grouping `direct` needs a key of one field | this grouping | leave only the field that holds the number of the task"#,
        ),
        (
            r#""shuffle""#,
            "7",
            "10:41 7 | `grouping` must be a string, not an integer | a string is expected | -",
        ),
        (
            r#""1s""#,
            "1",
            r#"18:9 1 | the duration of `timer` has no unit | not a duration | write a whole number and its unit: "250ms", "1s", "10m" or "2h""#,
        ),
        (
            r#""1s""#,
            r#""1""#,
            r#"18:9 "1" | the duration of `timer` has no unit | not a duration | write a whole number and its unit: "250ms", "1s", "10m" or "2h""#,
        ),
        (
            r#""1s""#,
            r#""1 sec""#,
            r#"18:9 "1 sec" | the duration of `timer` is not a number with a unit | not a duration | write a whole number and its unit: "250ms", "1s", "10m" or "2h""#,
        ),
        (r#""1s""#, r#""0s""#, r#"18:9 "0s" | `timer` must be above zero | zero | -"#),
        (
            r#""1s""#,
            r#""9000h""#,
            r#"18:9 "9000h" | the duration of `timer` is longer than a year | not a duration | write a whole number and its unit: "250ms", "1s", "10m" or "2h""#,
        ),
        (
            r#""1s""#,
            "true",
            "18:9 true | `timer` must be a duration, not a boolean | a duration is expected | -",
        ),
        (
            r#"{ events = 1000, after = "250ms" }"#,
            "{}",
            "26:11 {} | `trigger` needs `events`, `after` or both | neither is given | -",
        ),
        (
            r#"{ events = 1000, after = "250ms" }"#,
            "{ events = 0 }",
            "26:22 0 | `events` must be from 1 to 4294967295 | out of range | -",
        ),
        (
            r#"{ events = 1000, after = "250ms" }"#,
            "{ event = 7 }",
            "26:11 { event = 7 } | `trigger` needs `events`, `after` or both | neither is given | -
26:13 event | unknown key `event` | not a key of `trigger` | did you mean `events`?",
        ),
        (
            r#"timer = "1s""#,
            r#"checkpoint = { after = "1s" }"#,
            r#"18:14 { after = "1s" } | `checkpoint` needs `events`, `every` or both | neither is given | -
18:16 after | unknown key `after` | not a key of `checkpoint` | known keys: `events`, `every`"#,
        ),
        (
            r#"{ events = 1000, after = "250ms" }"#,
            r#"{ after = "soon" }"#,
            r#"26:21 "soon" | the duration of `after` is not a number with a unit | not a duration | write a whole number and its unit: "250ms", "1s", "10m" or "2h""#,
        ),
        (
            r#"{ events = 1000, after = "250ms" }"#,
            "1000",
            "26:11 1000 | `trigger` must be a table, not an integer | a table is expected | -",
        ),
        (
            "params = { k = 20 }",
            "params = 20",
            "25:10 20 | `params` must be a table, not an integer | a table is expected | -",
        ),
        (
            "parallelism = 4",
            "paralelism = 0
timer = 3
trigger = {}",
            r#"12:1 paralelism | unknown key `paralelism` | not a key of [pe.split] | did you mean `parallelism`?
13:9 3 | the duration of `timer` has no unit | not a duration | write a whole number and its unit: "250ms", "1s", "10m" or "2h"
14:11 {} | `trigger` needs `events`, `after` or both | neither is given | -"#,
        ),
    ] {
        check(from, to, said);
    }
}

#[test]
fn declarations_that_do_not_fit_together_are_refused() {
    for (from, to, said) in [
        (r#"[spout.lines]
type = "text-files"
params = { paths = ["corpus/*.txt"] }
emits = "lines"
"#, "", r#"- | there is no spout, so nothing would ever happen |  | add [spout.NAME] with `type` and `emits`
6:21 "lines" | nobody emits the stream `lines` | no such stream | streams: `counts`, `errors`, `tops`, `words`"#),
        ("[pe.split]", "[pe.lines]", "8:5 lines | a spout and a PE are both called `lines` | the name is taken | -"),
        (r#""text-files""#, r#""text-file""#, r#"4:8 "text-file" | there is no spout type `text-file` | not registered | did you mean `text-files`? registered spout types: `old-words`, `text-files`"#),
        (r#""text-files""#, r#""splitter""#, r#"4:8 "splitter" | there is no spout type `splitter` | not registered | it is the type of a PE; declare it under [pe.NAME]"#),
        (r#""splitter""#, r#""spliter""#, r#"9:8 "spliter" | there is no PE type `spliter` | not registered | did you mean `splitter`? registered PE types: `counter`, `echo`, `print`, `splitter`, `start`, `top-k`, `top-k-merge`, `windowed`"#),
        (r#""splitter""#, r#""text-files""#, r#"9:8 "text-files" | there is no PE type `text-files` | not registered | it is the type of a spout; declare it under [spout.NAME]"#),
        (r#""splitter""#, r#""zzz""#, r#"9:8 "zzz" | there is no PE type `zzz` | not registered | registered PE types: `counter`, `echo`, `print`, `splitter`, `start`, `top-k`, `top-k-merge`, `windowed`"#),
        (r#"input = [{ stream = "errors" }]"#, "input = [{ stream = \"errors\" }]\ncheckpoint = { events = 1 }", "35:14 { events = 1 } | `log` is a sink and has no state | of what? | leave `checkpoint` out"),
        ("parallelism = 4", "checkpoint = { events = 1 }", "12:14 { events = 1 } | `split` has an instance on each node, and these have no replicas | of what? | give it a key or a `parallelism`, or leave `checkpoint` out"),
        ("parallelism = 4", "memory = { max_instances = 1 }", "12:10 { max_instances = 1 } | the instances of `split` have no keys, and stay | of what? | leave `memory` out"),
        (r#"stream = "words""#, r#"stream = "wrods""#, r#"16:21 "wrods" | nobody emits the stream `wrods` | no such stream | did you mean `words`?"#),
        (r#"stream = "words""#, r#"stream = "zzz""#, r#"16:21 "zzz" | nobody emits the stream `zzz` | no such stream | streams: `counts`, `errors`, `lines`, `tops`, `words`"#),
        ("[stream.words]", "[stream.word]", "36:9 word | nobody emits the stream `word` | no such stream | did you mean `words`?"),
        (r#"key = ["text"]"#, r#"key = ["txet"]"#, r#"16:37 "txet" | `Word` has no field `txet` | no such field | did you mean `text`? its fields: `text`, `length`"#),
        (r#"key = ["text"]"#, r#"key = ["zzz", "length"]"#, r#"16:37 "zzz" | `Word` has no field `zzz` | no such field | its fields: `text`, `length`"#),
        (r#"stream = "counts""#, r#"stream = "words""#, r#"22:21 "words" | the type `top-k` does not take `Word` | its events are `Word` | it takes `Count`
22:37 "word" | `Word` has no field `word` | no such field | its fields: `text`, `length`"#),
        (r#"emits = "counts""#, "", r#"14:5 count | `count` needs `emits` | the type `counter` emits `Count` | emits = "STREAM""#),
        (r#"emits = "counts""#, r#"emits = { Word = "counts" }"#, r#"17:9 { Word = "counts" } | `emits` has no stream for `Count` | the type `counter` emits `Count` | emits = "STREAM"
17:11 Word | the type `counter` does not emit `Word` | not emitted | its events: `Count`"#),
        (r#"emits = { Word = "words", Bad = "errors" }"#, r#"emits = "words""#, r#"11:9 "words" | the type `splitter` emits `Word`, `Bad`, each needs a stream | only one stream | emits = { Word = "STREAM", Bad = "STREAM" }"#),
        (r#"emits = { Word = "words", Bad = "errors" }"#, r#"emits = { Word = "words", Bda = "errors" }"#, r#"11:9 { Word = "words", Bda = "errors" } | `emits` has no stream for `Bad` | the type `splitter` emits `Word`, `Bad` | emits = { Word = "STREAM", Bad = "STREAM" }
11:27 Bda | the type `splitter` does not emit `Bda` | not emitted | did you mean `Bad`?"#),
        (r#"emits = { Word = "words", Bad = "errors" }"#, r#"emits = { Word = "words", Zzz = "errors" }"#, r#"11:9 { Word = "words", Zzz = "errors" } | `emits` has no stream for `Bad` | the type `splitter` emits `Word`, `Bad` | emits = { Word = "STREAM", Bad = "STREAM" }
11:27 Zzz | the type `splitter` does not emit `Zzz` | not emitted | its events: `Word`, `Bad`"#),
        (r#"emits = { Word = "words", Bad = "errors" }"#, "", r#"8:5 split | `split` needs `emits` | the type `splitter` emits `Word`, `Bad` | emits = { Word = "STREAM", Bad = "STREAM" }"#),
        (r#"Bad = "errors""#, r#"Bad = "words""#, r#"11:18 "words" | the stream `words` is emitted with two event types | `Word` is emitted here, `Bad` by `split` | -
34:21 "errors" | nobody emits the stream `errors` | no such stream | streams: `counts`, `lines`, `tops`, `words`"#),
        (r#"stream = "errors" }]"#, r#"stream = "errors" }]
emits = "x""#, r#"35:9 "x" | the type `print` emits nothing | leave `emits` out | -"#),
        (r#"params = { paths = ["corpus/*.txt"] }"#, "", "3:8 lines | the parameter `paths` is missing | an array of strings is required | `paths`: the files to read"),
        (r#"params = { paths = ["corpus/*.txt"] }"#, r#"params = { path = ["corpus/*.txt"] }"#, "3:8 lines | the parameter `paths` is missing | an array of strings is required | `paths`: the files to read
5:12 path | unknown parameter `path` | not a parameter of this type | did you mean `paths`?"),
        (r#"["corpus/*.txt"]"#, r#""corpus/*.txt""#, r#"5:20 "corpus/*.txt" | the parameter `paths` must be an array of strings, not a string | an array of strings is expected | `paths`: the files to read"#),
        (r#"["corpus/*.txt"]"#, r#"["a", 1]"#, r#"5:20 ["a", 1] | the parameter `paths` must be an array of strings, not an array of something else | an array of strings is expected | `paths`: the files to read"#),
        ("params = { k = 20 }", r#"params = { k = "20" }"#, r#"25:16 "20" | the parameter `k` must be an integer from 1 to 1000, not a string | an integer from 1 to 1000 is expected | `k`: how many are kept"#),
        ("params = { k = 20 }", "params = { k = 0 }", "25:16 0 | the parameter `k` must be an integer from 1 to 1000, not 0 | an integer from 1 to 1000 is expected | `k`: how many are kept"),
        ("params = { k = 20 }", "params = { k = 99999999999999999999 }", "25:16 99999999999999999999 | the parameter `k` must be an integer from 1 to 1000, not an integer beyond 64 bits | an integer from 1 to 1000 is expected | `k`: how many are kept"),
        ("params = { k = 20 }", "params = { every = 5 }", r#"25:20 5 | the duration of the parameter `every` has no unit | not a duration | write a whole number and its unit: "250ms", "1s", "10m" or "2h""#),
        ("params = { k = 20 }", r#"params = { every = "5 s" }"#, r#"25:20 "5 s" | the duration of the parameter `every` is not a number with a unit | not a duration | write a whole number and its unit: "250ms", "1s", "10m" or "2h""#),
        ("params = { k = 20 }", "params = { share = inf }", "25:20 inf | the parameter `share` must be a number from 0 to 1, not inf | a number from 0 to 1 is expected | `share`: the least share of one that is kept"),
        ("params = { k = 20 }", "params = { share = 2020-01-01 }", "25:20 2020-01-01 | the parameter `share` must be a number from 0 to 1, not a datetime | a number from 0 to 1 is expected | `share`: the least share of one that is kept"),
        ("params = { k = 20 }", "params = { share = 1.5 }", "25:20 1.5 | the parameter `share` must be a number from 0 to 1, not 1.5 | a number from 0 to 1 is expected | `share`: the least share of one that is kept"),
        ("params = { k = 20 }", "params = { share = -1 }", "25:20 -1 | the parameter `share` must be a number from 0 to 1, not -1 | a number from 0 to 1 is expected | `share`: the least share of one that is kept"),
        ("params = { k = 20 }", "params = { share = nan }", "25:20 nan | the parameter `share` must be a number from 0 to 1, not NaN | a number from 0 to 1 is expected | `share`: the least share of one that is kept"),
        ("params = { k = 20 }", r#"params = { order = "cuont" }"#, r#"25:20 "cuont" | the parameter `order` must be `count` or `word`, not `cuont` | `count` or `word` is expected | did you mean `count`?"#),
        ("params = { k = 20 }", r#"params = { order = "up" }"#, r#"25:20 "up" | the parameter `order` must be `count` or `word`, not `up` | `count` or `word` is expected | `order`: what they are ordered by"#),
        ("params = { k = 20 }", "params = { order = 1 }", "25:20 1 | the parameter `order` must be `count` or `word`, not 1 | `count` or `word` is expected | `order`: what they are ordered by"),
        ("params = { k = 20 }", "params = { zzz = 1 }", "25:12 zzz | unknown parameter `zzz` | not a parameter of this type | parameters: `k`, `every`, `share`, `title`, `quiet`, `ignored`, `order`"),
        (r#"{ stream = "lines", grouping = "shuffle" }"#, r#"{ stream = "lines" }"#, r#"10:21 "lines" | the input `lines` of `split` needs a key or a grouping | no instance is chosen | the number of instances is fixed, so say which of them gets an event: add a key, or grouping = "shuffle", "local-or-shuffle" or "global""#),
        (r#"{ stream = "words", key = ["text"] }"#, r#"{ stream = "words", key = ["text"] }, { stream = "counts" }"#, r#"16:59 "counts" | the input `counts` of `count` needs a key | no instance is chosen | another input has a key, so there is an instance per key; give this one a key too, or give the PE a `parallelism`
16:59 "counts" | the type `counter` does not take `Count` | its events are `Count` | it takes `Word`
16:59 "counts" | a cycle in which nobody goes on when the next is behind | a cycle: count -> count | where each waits for the next, all may wait for ever: add [stream.counts] with overflow = "spill""#),
        (r#"{ stream = "tops", grouping = "global" }"#, r#"{ stream = "tops", grouping = "global" }, { stream = "counts" }"#, r#"30:63 "counts" | the input `counts` of `merge` needs a key or a grouping | no instance is chosen | the number of instances is fixed, so say which of them gets an event: add a key, or grouping = "shuffle", "local-or-shuffle" or "global""#),
        (r#"[pe.log]
type = "print"
input = [{ stream = "errors" }]"#, r#"[pe.log]
type = "print"
input = [{ stream = "words", key = ["text"] }, { stream = "counts", key = ["n"] }, { stream = "errors", key = ["line"] }]"#, r#"34:76 "n" | the inputs `words` and `counts` of `log` have different keys | not the same kinds of fields in the same order | `words` has `text` (text); `counts` has `n` (unsigned integer)"#),
        (r#"[pe.log]
type = "print"
input = [{ stream = "errors" }]"#, r#"[pe.log]
type = "echo"
input = [{ stream = "echoed" }, { stream = "errors" }]
emits = "echoed""#, r#"34:21 "echoed" | a cycle in which nobody goes on when the next is behind | a cycle: log -> log | where each waits for the next, all may wait for ever: add [stream.echoed] with overflow = "spill""#),
        (r#"[pe.log]
type = "print"
input = [{ stream = "errors" }]"#, r#"[pe.b]
type = "echo"
input = [{ stream = "a" }, { stream = "errors" }]
emits = "b"
[pe.a]
type = "echo"
input = [{ stream = "b" }]
emits = "a"
[pe.c]
type = "print"
input = [{ stream = "b" }]"#, r#"38:21 "b" | a cycle in which nobody goes on when the next is behind | a cycle: a -> b -> a | where each waits for the next, all may wait for ever: add [stream.b] with overflow = "spill""#),
        ("[stream.words]", r#"[pe.a]
type = "start"
input = [{ stream = "none" }]
emits = "b"
[pe.b]
type = "print"
input = [{ stream = "b" }]
[stream.words]"#, r#"38:21 "none" | nobody emits the stream `none` | no such stream | streams: `b`, `counts`, `errors`, `lines`, `tops`, `words`"#),
        (r#""splitter""#, r#""splitter-2""#, r#"9:8 "splitter-2" | there is no PE type `splitter-2` | not registered | did you mean `splitter`? registered PE types: `counter`, `echo`, `print`, `splitter`, `start`, `top-k`, `top-k-merge`, `windowed`"#),
        ("[stream.words]", r#"[pe.a]
type = "print"
input = [{ stream = "q" }]
[pe.p]
type = "echo"
input = [{ stream = "r" }]
emits = "p"
[pe.q]
type = "echo"
input = [{ stream = "p" }]
emits = "q"
[pe.r]
type = "echo"
input = [{ stream = "q" }]
emits = "r"
[stream.words]"#, r#"39:5 p | nothing ever comes to `p` | no spout leads here | -
41:21 "r" | a cycle in which nobody goes on when the next is behind | a cycle: p -> q -> r -> p | where each waits for the next, all may wait for ever: add [stream.r] with overflow = "spill""#),
        ("[stream.words]", r#"[spout.old]
type = "old-words"
emits = "words"
[stream.words]"#, r#"11:18 "words" | the stream `words` has two types called `Word` with different fields | `Word` is emitted here, `Word` by `old` | here `Word { text: text, length: unsigned integer }`, there `Word { text: text, n: signed integer }`"#),
        ("[stream.words]", r#"[spout.old]
type = "old-words"
emits = "old"
[pe.x]
type = "counter"
input = [{ stream = "old", key = ["text"] }]
emits = "counts"
[stream.words]"#, r#"41:21 "old" | the type `counter` takes a `Word` with other fields | its events are `Word` | it takes `Word { text: text, length: unsigned integer }`; the stream has `Word { text: text, n: signed integer }`"#),
        ("[stream.words]", r#"[spout.old]
type = "old-words"
emits = "old"
[pe.x]
type = "print"
input = [{ stream = "words", key = ["text"] }, { stream = "old", grouping = "shuffle" }]
[stream.words]"#, r#"41:77 "shuffle" | the input `old` of `x` needs a key | no instance is chosen | another input has a key, so there is an instance per key; give this one a key too, or give the PE a `parallelism`"#),
        ("[stream.words]", r#"[spout.old]
type = "old-words"
emits = "old"
[pe.x]
type = "print"
input = [{ stream = "words", key = ["text"] }, { stream = "old", key = ["text", "n"] }]
[stream.words]"#, r#"41:73 "text" | the inputs `words` and `old` of `x` have different keys | not the same kinds of fields in the same order | `words` has `text` (text); `old` has `text` (text), `n` (signed integer)"#),
        ("[stream.words]", r#"[pe.x]
type = "start"
input = [{ stream = "lines" }]
emits = "starts"
[stream.words]"#, r#"38:21 "lines" | the type `start` does not take `Line` | its events are `Line` | it takes nothing"#),
    ] {
        check(from, to, said);
    }
}
