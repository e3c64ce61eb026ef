//! How what is compared is told apart: by a pattern, a mark and dashes, and by a colour on top.

use std::fmt::Write as _;

use super::svg::Place;

/// One of some looks, by number; they come round again after the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Look(pub(in super::super) usize);

/// How many there are.
const LOOKS: usize = 6;

/// The insides of their patterns, in a square of eight pixels.
const PATTERNS: [&str; LOOKS] = [
    r#"<path d="M0 0H8V8H0Z" class="ink"/>"#,
    r#"<path d="M-2 2L2 -2M0 8L8 0M6 10L10 6" class="stroke"/>"#,
    r#"<path d="M0 0H8V8H0Z" class="pale"/>"#,
    r#"<circle cx="4" cy="4" r="1.8" class="ink"/>"#,
    r#"<path d="M0 4H8M4 0V8" class="stroke"/>"#,
    r#"<path d="M-2 6L2 10M0 0L8 8M6 -2L10 2" class="stroke"/>"#,
];

/// Their dashes; none for the first.
const DASHES: [&str; LOOKS] = ["none", "8 4", "2 3", "10 3 2 3", "5 5", "14 4"];

/// Their marks: closed shapes around a place.
const MARKS: [&[Place]; LOOKS] = [
    &[(-4.0, -4.0), (4.0, -4.0), (4.0, 4.0), (-4.0, 4.0)],
    &[(0.0, -5.5), (5.0, 4.0), (-5.0, 4.0)],
    &[(0.0, -6.0), (6.0, 0.0), (0.0, 6.0), (-6.0, 0.0)],
    &[(0.0, 5.5), (5.0, -4.0), (-5.0, -4.0)],
    &[(-6.0, -2.0), (6.0, -2.0), (6.0, 2.0), (-6.0, 2.0)],
    &[(-2.0, -6.0), (2.0, -6.0), (2.0, 6.0), (-2.0, 6.0)],
];

/// Styles of all plots. Paper is white and ink is black; on a dark screen the other way round.
pub(in super::super) const STYLE: &str = "\
svg{max-width:100%;height:auto;display:block}
svg text{font:12px system-ui,sans-serif;fill:var(--ink)}
.axis{stroke:var(--ink);stroke-width:1}
.grid{stroke:var(--rule);stroke-width:1}
.bar{stroke:var(--ink);stroke-width:1}
.whisker{stroke:var(--ink);stroke-width:2}
.halo{stroke:var(--paper);stroke-width:5}
.curve{fill:none;stroke-width:2;stroke:currentColor}
.mark{fill:var(--paper);stroke:currentColor;stroke-width:2}
.full{fill:currentColor}
pattern .ink{fill:currentColor}
pattern .pale{fill:currentColor;fill-opacity:.25}
pattern .stroke{fill:none;stroke:currentColor;stroke-width:2}
";

impl Look {
    /// The name of its pattern in the page.
    pub(super) fn pattern(self) -> String {
        format!("pattern-{}", self.0 % LOOKS)
    }

    /// The class that gives it its colour.
    pub(super) fn class(self) -> String {
        format!("look-{}", self.0 % LOOKS)
    }

    pub(super) fn dashes(self) -> &'static str {
        DASHES[self.0 % LOOKS]
    }

    pub(super) fn mark(self) -> &'static [Place] {
        MARKS[self.0 % LOOKS]
    }
}

/// The patterns of all looks; once in a page.
pub(in super::super) fn patterns() -> String {
    let mut out = String::from("<svg width=\"0\" height=\"0\" aria-hidden=\"true\"><defs>\n");
    for (number, inside) in PATTERNS.iter().enumerate() {
        let (id, class) = (Look(number).pattern(), Look(number).class());
        let _ = writeln!(
            out,
            "<pattern id=\"{id}\" class=\"{class}\" width=\"8\" height=\"8\" \
             patternUnits=\"userSpaceOnUse\">{inside}</pattern>"
        );
    }
    out + "</defs></svg>\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn looks_differ_in_more_than_colour() {
        let different: BTreeSet<_> = PATTERNS.iter().zip(DASHES).collect();
        assert_eq!(different.len(), LOOKS);
        assert_eq!(BTreeSet::from(PATTERNS).len(), LOOKS);
        assert_eq!(BTreeSet::from(DASHES).len(), LOOKS);
        let shapes: BTreeSet<String> = MARKS.iter().map(|mark| format!("{mark:?}")).collect();
        assert_eq!(shapes.len(), LOOKS);
        let all = patterns();
        assert!(
            (0..LOOKS).all(|number| all.contains(&format!("id=\"{}\"", Look(number).pattern())))
        );
        assert_eq!(Look(LOOKS).pattern(), Look(0).pattern());
    }
}
