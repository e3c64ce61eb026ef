//! Groupings and what becomes of events for a reader that is behind: which go together, and what is said of
//! those that do not.

use super::*;

#[test]
fn groupings_that_do_not_fit_are_refused() {
    for (from, to, said) in [
        (
            r#""shuffle""#,
            r#""shufle""#,
            r#"10:41 "shufle" | unknown grouping `shufle` | unknown | did you mean `shuffle`?"#,
        ),
        (
            r#""shuffle""#,
            r#""by-lenght""#,
            r#"10:41 "by-lenght" | unknown grouping `by-lenght` | unknown | did you mean `by-length`?"#,
        ),
        (
            r#""shuffle""#,
            r#""zzz""#,
            r#"10:41 "zzz" | unknown grouping `zzz` | unknown | known values: `shuffle`, `fields`, `global`, `local-or-shuffle`, `partial-key`, `all`, `none`, `direct`, `load-aware-shuffle`, `by-length`, `by-region`"#,
        ),
        (
            r#""shuffle""#,
            r#""by-length""#,
            r#"10:41 "by-length" | the grouping `by-length` needs a key | this grouping | add key = ["FIELD"], what the task is chosen by"#,
        ),
        (
            r#"key = ["text"]"#,
            r#"key = ["text"], grouping = "by-length""#,
            r#"16:57 "by-length" | the grouping `by-length` needs `parallelism` | this grouping | add `parallelism`, the number of tasks"#,
        ),
        (
            r#"key = ["word"], grouping = "fields""#,
            r#"key = ["word"], grouping = "direct""#,
            r#"22:38 "word" | the key of the grouping `direct` must be an unsigned integer | `word` is text | its fields of this kind: `n`"#,
        ),
        (
            r#"{ stream = "lines", grouping = "shuffle" }"#,
            r#"{ stream = "lines", key = ["line"], grouping = "direct" }"#,
            r#"10:37 "line" | the key of the grouping `direct` must be an unsigned integer | `line` is text | `Line` has no such field; use a key with `fields`"#,
        ),
        (
            r#"key = ["word"], grouping = "fields""#,
            r#"key = ["wrod"], grouping = "direct""#,
            r#"22:38 "wrod" | `Count` has no field `wrod` | no such field | did you mean `word`? its fields: `n`, `word`"#,
        ),
        (
            r#"[pe.log]
type = "print"
input = [{ stream = "errors" }]"#,
            r#"[pe.log]
type = "print"
input = [{ stream = "words", key = ["text"] }, { stream = "errors", grouping = "all" }]"#,
            r#"34:80 "all" | the input `errors` of `log` needs a key | no instance is chosen | another input has a key, so there is an instance per key; give this one a key too, or give the PE a `parallelism`"#,
        ),
        (
            r#"[pe.log]
type = "print"
input = [{ stream = "errors" }]"#,
            r#"[pe.log]
type = "print"
input = [{ stream = "words", key = ["text"] }, { stream = "errors", grouping = "load-aware-shuffle" }]"#,
            r#"34:80 "load-aware-shuffle" | the input `errors` of `log` needs a key | no instance is chosen | another input has a key, so there is an instance per key; give this one a key too, or give the PE a `parallelism`"#,
        ),
        (
            r#"[pe.log]
type = "print"
input = [{ stream = "errors" }]"#,
            r#"[pe.log]
type = "print"
input = [{ stream = "tops", grouping = "global" }, { stream = "words", key = ["text"], grouping = "partial-key" }]"#,
            r#"34:99 "partial-key" | the grouping `partial-key` needs `parallelism` | this grouping | add `parallelism`, the number of tasks"#,
        ),
    ] {
        check(from, to, said);
    }
}

/// Which grouping an input has, and how many instances its PE, by what the file says of it.
#[test]
fn groupings_are_planned_and_say_how_many_instances_there_are() {
    let log = |inputs: &str, more: &str| {
        let read = plan(&with(
            "input = [{ stream = \"errors\" }]",
            &format!("input = [{inputs}]\n{more}"),
        ));
        let log = &read.prototypes[2];
        let inputs = log.inputs.iter().map(|input| (input.grouping.clone(), input.key.clone()));
        (inputs.collect::<Vec<_>>(), log.instances)
    };
    let named = Grouping::Named("by-length".to_owned());
    for (input, grouping, key, alone) in [
        (r#"grouping = "none""#, Grouping::Shuffle, vec![], Some(InstancePlan::PerNode)),
        (
            r#"grouping = "load-aware-shuffle""#,
            Grouping::LoadAwareShuffle,
            vec![],
            Some(InstancePlan::PerNode),
        ),
        (r#"grouping = "all""#, Grouping::All, vec![], Some(InstancePlan::PerNode)),
        (r#"grouping = "partial-key", key = ["length"]"#, Grouping::PartialKey, vec![1], None),
        (r#"grouping = "direct", key = ["length"]"#, Grouping::Direct, vec![1], None),
        (r#"grouping = "by-length", key = ["length", "text"]"#, named, vec![1, 0], None),
    ] {
        let input = format!("{{ stream = \"words\", {input} }}");
        let wanted = vec![(grouping, key)];
        assert_eq!(log(&input, "parallelism = 3"), (wanted.clone(), InstancePlan::Tasks(3)));
        if let Some(instances) = alone {
            assert_eq!(log(&input, ""), (wanted, instances));
        }
    }
    let both = r#"{ stream = "words", grouping = "all" }, { stream = "errors", grouping = "local-or-shuffle" }"#;
    assert_eq!(log(both, "").1, InstancePlan::PerContainer);
    let both =
        r#"{ stream = "words", grouping = "all" }, { stream = "errors", grouping = "global" }"#;
    assert_eq!(log(both, "").1, InstancePlan::Tasks(1));
}

#[test]
fn overflow_is_planned_and_blocks_if_it_is_not_said() {
    let overflows =
        |text: &str| plan(text).streams.iter().map(|stream| stream.overflow).collect::<Vec<_>>();
    let mut wanted = vec![Overflow::Block; 5];
    assert_eq!(overflows(GOOD), wanted);
    wanted[4] = Overflow::Shed;
    assert_eq!(overflows(&with("\"block\"", "\"shed\"")), wanted);
}
