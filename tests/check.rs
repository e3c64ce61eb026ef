//! What is wrong with a topology is said at its line and column, with what was probably meant.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

const TOP_WORDS: &str = include_str!("../examples/top_words/top-words.toml");

#[test]
fn the_topologies_of_the_examples_are_in_order() {
    let top_words = root().join("examples/top_words/top-words.toml");
    let checked = support::starling().arg("check").arg(&top_words).output().unwrap();
    let said = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(0), "{said}");
    let start = format!("ok: {} (1 spout, 5 PEs, hash ", top_words.display());
    assert!(said.starts_with(&start), "{said}");

    let generated = root().join("examples/generated.toml");
    let checked = support::starling().arg("check").arg(generated).output().unwrap();
    assert_eq!(checked.status.code(), Some(0), "{checked:?}");

    let click_through = root().join("examples/click-through.toml");
    let checked = support::example("click_through").arg("check").arg(click_through).output();
    assert_eq!(checked.unwrap().status.code(), Some(0));
}

#[test]
fn a_misspelt_key_is_shown_in_its_line_with_a_suggestion() {
    let text = TOP_WORDS.replace("parallelism = 6", "paralelism = 6");
    let line = 1 + text.lines().position(|line| line.starts_with("paralelism")).unwrap();
    let (file, checked) = check("misspelt-key", &text, &[]);
    assert_refused(
        &checked,
        &[&format!("{}:{line}:1", file.display()), "paralelism = 6", "did you mean `parallelism`?"],
    );
}

#[test]
fn an_unknown_stream_a_missing_type_and_a_wrong_type_are_shown_together() {
    let text = TOP_WORDS
        .replace(r#"stream = "words""#, r#"stream = "wrods""#)
        .replace(r#"type = "top-k""#, r#"type = "top""#)
        .replace("parallelism = 6", r#"parallelism = "six""#);
    let (_, checked) = check("three-errors", &text, &[]);
    assert_refused(&checked, &[r#"parallelism = "six""#, "an integer"]);
    // What does not fit together is looked at once each declaration is in order.
    let text = text.replace(r#"parallelism = "six""#, "parallelism = 6");
    let (_, checked) = check("two-errors", &text, &[]);
    assert_refused(&checked, &["wrods", "did you mean `words`?", "type = \"top\""]);
}

#[test]
fn what_this_version_does_not_do_is_refused() {
    let text = TOP_WORDS
        .replace(r#"name = "top-words""#, "name = \"top-words\"\ndelivery = \"exactly-once\"");
    let (_, checked) = check("not-available", &text, &[]);
    assert_refused(&checked, &["not available in this version", "not-available.toml:3:"]);
}

#[test]
fn as_json_there_are_numbers_to_jump_to() {
    let text = TOP_WORDS.replace("parallelism = 6", "paralelism = 6");
    let (_, checked) = check("as-json", &text, &["--json"]);
    assert_eq!(checked.status.code(), Some(78));
    let result: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(result["ok"], false);
    assert_eq!(result["errors"][0]["column"], 1, "{result}");
    assert_eq!(result["errors"][0]["help"], "did you mean `parallelism`?", "{result}");

    let (_, checked) = check("as-json-ok", TOP_WORDS, &["--json"]);
    let result: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!((&result["ok"], &result["pes"]), (&true.into(), &5.into()), "{result}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let missing = support::starling().args(["check", "no-such-file.toml"]).output().unwrap();
    assert_refused(&missing, &["cannot read no-such-file.toml"]);

    let file = support::folder("not-text").join("a.toml");
    fs::write(&file, b"name = \"x\"\n\xff\xfe").unwrap();
    let garbled = support::starling().arg("check").arg(&file).output().unwrap();
    assert_refused(&garbled, &["a.toml:2: not UTF-8 at byte 11"]);
}

#[test]
fn a_node_refuses_what_check_refuses() {
    let folder = support::folder("node-refuses");
    let file = folder.join("a.toml");
    fs::write(&file, TOP_WORDS.replace("parallelism = 6", "paralelism = 6")).unwrap();
    let mut node = support::starling();
    node.args(["node", "--bootstrap", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    node.arg("--data-dir").arg(folder.join("data")).arg("--topology").arg(file);
    assert_refused(&node.output().unwrap(), &["a.toml:", "did you mean `parallelism`?"]);
}

#[test]
fn the_command_line_itself_is_checked() {
    let wrong = support::starling().arg("chekc").output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    let help = support::starling().arg("--help").output().unwrap();
    let said = String::from_utf8(help.stdout).unwrap();
    assert_eq!(help.status.code(), Some(0));
    for command in ["demo", "compare", "node", "status", "check", "drain", "recover"] {
        assert!(said.contains(&format!("\n  {command} ")), "{command} is not in\n{said}");
    }
    for absent in ["apply", "scale", "compare-run", "compare-node"] {
        assert!(!said.contains(&format!("\n  {absent} ")), "{absent} is in\n{said}");
    }
}

/// Writes a topology and checks it.
fn check(name: &str, text: &str, flags: &[&str]) -> (PathBuf, Output) {
    let file = support::folder(name).join(format!("{name}.toml"));
    fs::write(&file, text).unwrap();
    let output = support::starling().arg("check").args(flags).arg(&file).output().unwrap();
    (file, output)
}

/// Exit code 78, nothing on standard output, and everything that is expected in the messages.
#[track_caller]
fn assert_refused(output: &Output, expected: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78), "{said}");
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(!said.contains('\u{1b}'), "colour, though NO_COLOR is set: {said:?}");
    for part in expected {
        assert!(said.contains(part), "{part} is not in\n{said}");
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
