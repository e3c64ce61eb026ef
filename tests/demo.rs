//! The demo, as a newcomer runs it: real processes, a real cluster, and a result that is checked.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

/// One demo at a time: several at once would measure each other, and a small machine might take busy
/// nodes for dead ones.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn on_three_nodes_the_top_ten_equals_the_plain_count() {
    demo(&["--nodes", "3", "--seconds", "1"], 3);
}

#[test]
fn on_five_nodes_the_top_ten_equals_the_plain_count() {
    demo(&["--nodes", "5", "--seconds", "1"], 5);
}

#[test]
fn every_file_is_played_as_often_as_asked() {
    let result = demo(&["--nodes", "1", "--repeat", "2"], 1);
    assert_eq!(result["plays"], 2 * 12);
    assert_eq!(result["top"][0]["word"], "the");
    assert_eq!(result["top"][0]["n"], 2 * 15_561);
}

/// Runs the demo to its end and looks at what every demo must show.
#[track_caller]
fn demo(arguments: &[&str], nodes: usize) -> Value {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let output = support::starling().arg("demo").args(arguments).arg("--json").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}", output.status);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["ok"], true, "{result}");
    assert_eq!(result["equal"], true, "{result}");
    assert_eq!(result["top"].as_array().unwrap().len(), 10, "{result}");
    assert_eq!(result["top"], result["plain"], "{result}");
    assert_eq!(result["lost"], 0, "{result}");
    assert_eq!(result["dead_letters"], 0, "{result}");
    let shares = result["nodes"].as_array().unwrap();
    assert_eq!(shares.len(), nodes, "{result}");
    assert!(shares.iter().all(|share| share["percent"].as_u64().unwrap() >= 10), "{result}");
    result
}
