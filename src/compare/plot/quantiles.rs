//! Quantiles of lateness, on an axis by powers of ten: a row for each contender, a mark for each quantile.

use super::axis::label;
use super::svg::{Anchor, Svg};
use super::{ABOVE, Axis, BELOW, LEFT, Look, WIDTH, bottom};

/// One row.
#[derive(Clone, Debug)]
pub(in super::super) struct Quantiles {
    pub(in super::super) label: String,
    pub(in super::super) look: Look,
    /// Each by its name, with its value; in order.
    pub(in super::super) values: Vec<(&'static str, f64)>,
}

/// Room to the right, for the last name and number.
const RIGHT: f64 = 110.0;
/// The height of a row: names and numbers stand above and below marks.
const TALL: f64 = 56.0;

/// Rows of marks; `unit` is what the values count.
pub(in super::super) fn quantiles(title: &str, unit: &str, all: &[Quantiles]) -> String {
    let end = ABOVE + all.len() as f64 * TALL;
    let mut svg = Svg::new(WIDTH, end + BELOW, title);
    let values = || all.iter().flat_map(|row| row.values.iter().map(|&(_, value)| value));
    let (least, most) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    if !least.is_finite() {
        return svg.finish();
    }
    let axis = Axis::log(least, most, LEFT, WIDTH - RIGHT);
    bottom(&mut svg, &axis, ABOVE, end, &format!("{unit}, by powers of ten"));
    for (number, row) in all.iter().enumerate() {
        let y = ABOVE + (number as f64 + 0.5) * TALL;
        svg.text((LEFT - 8.0, y + 4.0), Anchor::End, &row.label);
        let places: Vec<_> = row.values.iter().map(|&(_, value)| (axis.at(value), y)).collect();
        svg.path(&places, row.look.dashes(), &row.look.class());
        for (number, (&place, (name, value))) in places.iter().zip(&row.values).enumerate() {
            svg.mark(place, row.look.mark(), &row.look.class());
            // Above and below in turns, and the last to its right: neighbours may be close.
            let (aside, anchor) = match number + 1 {
                last if last == row.values.len() => (-6.0, Anchor::Start),
                _ => (0.0, Anchor::Middle),
            };
            let height = if number % 2 == 0 { -11.0 } else { 20.0 };
            let text = format!("{name} {} {unit}", label(value.round()));
            svg.text((place.0 + aside, y + height), anchor, &text);
        }
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_mark_a_name_and_a_number_for_each_quantile() {
        let row = Quantiles {
            label: "keyed".to_owned(),
            look: Look(2),
            values: vec![("p50", 10.0), ("p99", 987.0)],
        };
        let drawn = quantiles("late", "µs", &[row]);
        assert_eq!(drawn.matches("<polygon").count(), 2, "{drawn}");
        // Two decades over 520 pixels from 130 on.
        assert!(drawn.contains(r#"points="130.0,40.0 648.5,40.0""#), "{drawn}");
        assert!(drawn.contains(">p50 10 µs<") && drawn.contains(">p99 987 µs<"), "{drawn}");
        assert!(!quantiles("late", "µs", &[]).contains("NaN"));
    }
}
