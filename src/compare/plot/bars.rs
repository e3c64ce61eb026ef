//! Bars side by side, each with the interval in which its median is.

use super::svg::{Anchor, Svg};
use super::{ABOVE, Axis, BELOW, LEFT, Look, ROW, WIDTH, bottom};

/// One bar.
#[derive(Clone, Debug)]
pub(in super::super) struct Bar {
    pub(in super::super) label: String,
    pub(in super::super) look: Look,
    pub(in super::super) median: f64,
    pub(in super::super) low: f64,
    pub(in super::super) high: f64,
    /// The median with its unit, for people.
    pub(in super::super) shown: String,
}

/// Room to the right, for what is shown of each.
const RIGHT: f64 = 150.0;

/// A bar below the other, from zero; `unit` is what they count.
pub(in super::super) fn bars(title: &str, unit: &str, all: &[Bar]) -> String {
    let rows = all.len() as f64;
    let end = ABOVE + rows * ROW;
    let mut svg = Svg::new(WIDTH, end + BELOW, title);
    let most = all.iter().map(|bar| bar.high.max(bar.median)).fold(0.0, f64::max);
    let axis = Axis::from_zero(most, LEFT, WIDTH - RIGHT);
    bottom(&mut svg, &axis, ABOVE, end, unit);
    for (number, bar) in all.iter().enumerate() {
        let top = ABOVE + number as f64 * ROW + 5.0;
        let (height, middle) = (ROW - 10.0, top + (ROW - 10.0) / 2.0);
        svg.text((LEFT - 8.0, middle + 4.0), Anchor::End, &bar.label);
        let width = axis.at(bar.median) - LEFT;
        svg.bar((LEFT, top), (width, height), &bar.look.pattern(), &bar.look.class());
        let (low, high) = (axis.at(bar.low), axis.at(bar.high));
        if high - low >= 1.0 {
            svg.line((low, middle), (high, middle), "halo");
            svg.line((low, middle), (high, middle), "whisker");
            for end in [low, high] {
                svg.line((end, middle - 5.0), (end, middle + 5.0), "whisker");
            }
        }
        let right = high.max(axis.at(bar.median)) + 8.0;
        svg.text((right, middle + 4.0), Anchor::Start, &bar.shown);
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_median_and_has_its_interval() {
        let bar = |label: &str, median, low, high| Bar {
            label: label.to_owned(),
            look: Look(1),
            median,
            low,
            high,
            shown: format!("{median} events/s"),
        };
        let drawn = bars(
            "a <b> c",
            "events/s",
            &[bar("keyed", 50.0, 40.0, 100.0), bar("bolt<", 100.0, 100.0, 100.0)],
        );
        // From 130 to 610 there are 480 pixels for 100.
        assert!(drawn.contains(r#"width="240.0" height="20.0" fill="url(#pattern-1)""#), "{drawn}");
        assert!(drawn.contains(r#"width="480.0""#), "{drawn}");
        assert!(drawn.contains(r#"x1="322.0""#) && drawn.contains(r#"x2="610.0""#), "{drawn}");
        assert_eq!(drawn.matches("whisker").count(), 3, "only one has an interval: {drawn}");
        assert!(drawn.contains(">bolt&lt;<") && drawn.contains(">50 events/s<"), "{drawn}");
        assert!(drawn.contains("<title>a &lt;b&gt; c</title>"), "{drawn}");
    }
}
