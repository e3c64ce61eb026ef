//! Guesses what was meant by a name that does not exist.
//!
//! Most wrong names are right names with a slip of the finger. The distance counts insertions,
//! deletions, replacements and swaps of neighbours; a guess is made only if it is near, for a wrong
//! guess costs the reader more than none.

/// Longer names are compared with nothing and shown shortened.
const SHOWN_CHARS_MAX: usize = 64;
/// More candidates are not looked at: a text made to have many must not cost minutes.
const CANDIDATES_MAX: usize = 1_000;
/// More names are not listed.
const LISTED_MAX: usize = 20;

/// The candidate nearest to `word`, if one is near; the first of equals.
pub fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: Vec<char> = word.to_lowercase().chars().take(SHOWN_CHARS_MAX + 1).collect();
    if word.len() > SHOWN_CHARS_MAX {
        return None;
    }
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates.into_iter().take(CANDIDATES_MAX) {
        let other: Vec<char> = candidate.to_lowercase().chars().collect();
        // A third of the letters may be wrong, and one letter always.
        let limit = (word.len().max(other.len()) / 3).max(1);
        // A name of one letter resembles every other name of one letter.
        let says_something = word.len().max(other.len()) > 1;
        if !says_something || other.len() > SHOWN_CHARS_MAX {
            continue;
        }
        let distance = distance(&word, &other);
        if distance <= limit && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// A line of help: the guess, or else everything that would have been right.
pub fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str> + Clone,
    what: &str,
) -> String {
    if let Some(guess) = suggest(word, candidates.clone()) {
        return format!("did you mean {}?", quoted(guess));
    }
    match listed(candidates) {
        Some(all) => format!("{what}: {all}"),
        None => format!("there are no {what}"),
    }
}

/// Names in a row; `None` if there are none.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut names = names.into_iter();
    let mut all = quoted(names.next()?);
    for name in names.by_ref().take(LISTED_MAX - 1) {
        all.push_str(", ");
        all.push_str(&quoted(name));
    }
    let more = names.count();
    if more > 0 {
        all.push_str(&format!(" and {more} more"));
    }
    Some(all)
}

/// A name as it is shown in a message: on one line, and not longer than a line.
pub fn quoted(name: &str) -> String {
    let mut shown: String = name.chars().take(SHOWN_CHARS_MAX).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    format!("`{}`", shown.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'"))
}

/// Optimal string alignment: the edit distance in which a pair may be swapped once.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(from != to);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                let before: &[usize] = &before;
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_guessed_and_far_ones_are_not() {
        let known = ["parallelism", "params", "input", "emits", "type"];
        for (word, guess) in [
            ("paralelism", Some("parallelism")),
            ("parms", Some("params")),
            ("tpye", Some("type")),
            ("Type", Some("type")),
            ("imput", Some("input")),
            ("inptu", Some("input")),
            ("memory", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(suggest(word, known), guess, "{word}");
        }
        assert_eq!(suggest("a", ["b", "ab"]), Some("ab"));
        assert_eq!(suggest(&"y".repeat(1 << 20), known), None);
    }

    #[test]
    fn lists_have_an_end() {
        let names: Vec<String> = (0..25).map(|index| index.to_string()).collect();
        let list = did_you_mean("zzz", names.iter().map(String::as_str), "numbers");
        assert!(list.starts_with("numbers: `0`, `1`, "), "{list}");
        assert!(list.ends_with(", `19` and 5 more"), "{list}");
        assert_eq!(did_you_mean("zzz", [], "numbers"), "there are no numbers");
        let many = std::iter::repeat_n("zzy", 1 << 30);
        assert_eq!(suggest("zzz", many), Some("zzy"), "in no time");
    }

    #[test]
    fn quoted_names_stay_on_a_line() {
        assert_eq!(quoted("a\nb"), "`a\\nb`");
        assert_eq!(quoted("say \"it's\""), "`say \"it's\"`");
        assert_eq!(quoted(&"é".repeat(100)).chars().count(), SHOWN_CHARS_MAX + 3);
    }
}
