//! Lines: what becomes of figures when something is varied.

use super::svg::{Anchor, Svg};
use super::{ABOVE, Axis, BELOW, LEFT, Look, WIDTH};

/// What became of one contender.
#[derive(Clone, Debug)]
pub(in super::super) struct Line {
    pub(in super::super) label: String,
    pub(in super::super) look: Look,
    pub(in super::super) points: Vec<Point>,
}

/// At one value of what is varied.
#[derive(Clone, Debug)]
pub(in super::super) struct Point {
    pub(in super::super) x: f64,
    /// What is varied at this value, for people.
    pub(in super::super) shown: String,
    pub(in super::super) median: f64,
    pub(in super::super) low: f64,
    pub(in super::super) high: f64,
}

const HEIGHT: f64 = 260.0;
/// Room to the right, for the names of lines.
const RIGHT: f64 = 110.0;
/// How far from the ends of the axis the first and the last value are.
const INSET: f64 = 14.0;
/// How far an interval is beside that of the line before.
const ASIDE: f64 = 4.0;
/// The least distance of two names.
const NAME: f64 = 15.0;
/// From so many times the least on, what is varied is drawn by its powers of ten.
const LOG_FROM: f64 = 50.0;

/// Lines over what is varied, the names at their right ends.
pub(in super::super) fn lines(title: &str, x_name: &str, unit: &str, all: &[Line]) -> String {
    let mut svg = Svg::new(WIDTH, ABOVE + HEIGHT + BELOW + 14.0, title);
    let points = || all.iter().flat_map(|line| &line.points);
    let least = points().map(|point| point.x).fold(f64::INFINITY, f64::min);
    let most = points().map(|point| point.x).fold(f64::NEG_INFINITY, f64::max);
    if !least.is_finite() {
        return svg.finish();
    }
    let (top, end) = (ABOVE + 14.0, ABOVE + 14.0 + HEIGHT);
    let inner = (LEFT - 50.0, WIDTH - RIGHT);
    let x = if least > 0.0 && most / least >= LOG_FROM {
        Axis::log(least, most, inner.0 + INSET, inner.1 - INSET)
    } else {
        Axis::between(least, most, inner.0 + INSET, inner.1 - INSET)
    };
    let y = Axis::from_zero(points().map(|point| point.high).fold(0.0, f64::max), end, top);
    svg.text((4.0, ABOVE + 2.0), Anchor::Start, unit);
    for tick in y.ticks() {
        let at = y.at(tick.value);
        svg.line((inner.0, at), (inner.1, at), "grid");
        svg.text((inner.0 - 6.0, at + 4.0), Anchor::End, &tick.label);
    }
    svg.line((inner.0, end), (inner.1, end), "axis");
    // Not round numbers: those that were measured.
    let mut labelled: Vec<f64> = Vec::new();
    for point in points() {
        if !labelled.contains(&point.x) {
            labelled.push(point.x);
            svg.line((x.at(point.x), end), (x.at(point.x), end + 4.0), "axis");
            svg.text((x.at(point.x), end + 18.0), Anchor::Middle, &point.shown);
        }
    }
    svg.text((f64::midpoint(inner.0, inner.1), end + 38.0), Anchor::Middle, x_name);
    for (number, line) in all.iter().enumerate() {
        // Intervals at the same value stand beside each other.
        let aside = (number as f64 - (all.len() as f64 - 1.0) / 2.0) * ASIDE;
        draw(&mut svg, line, &x, &y, aside);
    }
    for (at, line) in names(all, &y) {
        svg.text((inner.1 + 12.0, at + 4.0), Anchor::Start, &line.label);
    }
    svg.finish()
}

fn draw(svg: &mut Svg, line: &Line, x: &Axis, y: &Axis, aside: f64) {
    let class = line.look.class();
    let places: Vec<_> =
        line.points.iter().map(|point| (x.at(point.x), y.at(point.median))).collect();
    svg.path(&places, line.look.dashes(), &class);
    for (point, &(at, _)) in line.points.iter().zip(&places) {
        let at = at + aside;
        svg.line((at, y.at(point.low)), (at, y.at(point.high)), &format!("curve {class}"));
    }
    for &place in &places {
        svg.mark(place, line.look.mark(), &class);
    }
}

/// Where the names of lines stand: at their ends, but not on each other.
fn names<'a>(all: &'a [Line], y: &Axis) -> Vec<(f64, &'a Line)> {
    let end = |line: &'a Line| Some((y.at(line.points.last()?.median), line));
    let mut names: Vec<(f64, &Line)> = all.iter().filter_map(end).collect();
    // From below upwards, since what is pushed upwards has room: the axis ends above the highest.
    names.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    for at in 1..names.len() {
        names[at].0 = names[at].0.min(names[at - 1].0 - NAME);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, look: usize, medians: &[(f64, f64)]) -> Line {
        let point = |&(x, median): &(f64, f64)| Point {
            x,
            shown: format!("at {x}"),
            median,
            low: median,
            high: median,
        };
        let (label, points) = (label.to_owned(), medians.iter().map(point).collect());
        Line { label, look: Look(look), points }
    }

    #[test]
    fn lines_go_from_value_to_value_and_have_names_apart() {
        let keyed = line("keyed", 0, &[(1_000.0, 50.0), (100_000.0, 100.0)]);
        let bolt = line("bolt", 1, &[(1_000.0, 50.0), (100_000.0, 99.0)]);
        let all = [keyed, bolt];
        let drawn = lines("keys", "distinct keys", "events/s", &all);
        assert_eq!(drawn.matches("<polyline").count(), 2);
        assert_eq!(drawn.matches("<polygon").count(), 4);
        // A value is written once, whoever was measured there.
        assert_eq!(drawn.matches(">at 1000<").count(), 1, "{drawn}");
        // Two decades from 94 to 636.
        assert!(drawn.contains(r#"points="94.0,156.0 636.0,26.0""#), "{drawn}");
        let y = Axis::from_zero(100.0, 280.0, 20.0);
        let places = names(&all, &y);
        assert_eq!((&*places[0].1.label, &*places[1].1.label), ("bolt", "keyed"));
        assert!(places[0].0 - places[1].0 >= NAME);
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let nothing = lines("keys", "keys", "events/s", &[]);
        assert!(!nothing.contains("NaN") && !nothing.contains("inf"), "{nothing}");
        let one = line("keyed", 0, &[(0.0, 0.0)]);
        let drawn = lines("skew", "skew", "events/s", &[one]);
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}
