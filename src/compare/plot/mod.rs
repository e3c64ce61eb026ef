//! Plots, as SVG that stands in a page: bars with intervals, lines of what is varied, quantiles of lateness.
//!
//! A report is one file that is read without a network, in print, in the dark and by people who do not see
//! colours alike. So a plot is drawn here and not by a library: everything that is told apart is told apart by
//! its label and by a pattern, a mark or dashes; colour only helps. What is drawn knows numbers and labels, and
//! nothing of workloads.

mod axis;
mod bars;
mod lines;
mod look;
mod quantiles;
mod svg;

pub(super) use bars::{Bar, bars};
pub(super) use lines::{Line, Point, lines};
pub(super) use look::{Look, STYLE, patterns};
pub(super) use quantiles::{Quantiles, quantiles};
pub(super) use svg::escape;

use axis::Axis;
use svg::{Anchor, Svg};

/// How wide a plot is, in pixels; it is shrunk to the page.
const WIDTH: f64 = 760.0;
/// Room to the left, for the names of rows.
const LEFT: f64 = 130.0;
/// The height of a row.
const ROW: f64 = 30.0;
/// Room below, for numbers and the name of the axis.
const BELOW: f64 = 46.0;
/// Room above.
const ABOVE: f64 = 12.0;

/// An axis along the bottom, with lines up to the top.
fn bottom(svg: &mut Svg, axis: &Axis, top: f64, bottom: f64, name: &str) {
    for tick in axis.ticks() {
        let x = axis.at(tick.value);
        svg.line((x, top), (x, bottom), "grid");
        svg.text((x, bottom + 16.0), Anchor::Middle, &tick.label);
    }
    svg.line((axis.from, bottom), (axis.to, bottom), "axis");
    svg.text((f64::midpoint(axis.from, axis.to), bottom + 36.0), Anchor::Middle, name);
}
