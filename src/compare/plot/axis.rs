//! From numbers to places, and which numbers are written beside an axis.

use starling::cli::grouped;

/// A range of numbers along a stretch of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    /// Where the lowest is, in pixels.
    pub(super) from: f64,
    /// Where the highest is.
    pub(super) to: f64,
    /// From one number that is written to the next.
    step: f64,
    is_log: bool,
}

/// A number beside an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: String,
}

impl Axis {
    /// Even, from zero to a round number at or above all of these.
    pub(super) fn from_zero(most: f64, from: f64, to: f64) -> Self {
        let step = step(most);
        let high = if most > 0.0 && most.is_finite() { (most / step).ceil() * step } else { 1.0 };
        Self { low: 0.0, high, from, to, step, is_log: false }
    }

    /// Even, from the least to the most.
    pub(super) fn between(low: f64, high: f64, from: f64, to: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, from, to, step: step(high - low), is_log: false }
    }

    /// By powers of ten, from one at or below the least to one at or above the most.
    pub(super) fn log(least: f64, most: f64, from: f64, to: f64) -> Self {
        let low = least.max(1e-3).log10().floor();
        let high = most.max(1e-3).log10().ceil().max(low + 1.0);
        Self { low, high, from, to, step: 1.0, is_log: true }
    }

    /// Where a number is; one beyond an end is at that end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if self.is_log { value.max(1e-3).log10() } else { value };
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.from + share * (self.to - self.from)
    }

    /// Round numbers, from low to high.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let count = ((self.high - self.low) / self.step + 1e-9).floor();
        let mut ticks = Vec::new();
        let mut at = 0.0;
        while at <= count {
            let place = self.low + at * self.step;
            let value = if self.is_log { 10f64.powf(place) } else { place };
            ticks.push(Tick { value, label: label(value) });
            at += 1.0;
        }
        ticks
    }
}

/// One, two or five times a power of ten, of which four to ten reach a number.
fn step(most: f64) -> f64 {
    if !(most > 0.0 && most.is_finite()) {
        return 1.0;
    }
    let power = 10f64.powf((most / 4.0).log10().floor());
    let steps = [5.0, 2.0].map(|times| times * power);
    steps.into_iter().find(|step| most / step >= 4.0).unwrap_or(power)
}

/// A number, short: thousands and millions by letters.
pub(super) fn label(value: f64) -> String {
    let (scaled, letter) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, " G"),
        v if v >= 1e6 => (value / 1e6, " M"),
        v if v >= 1e4 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let rounded = (scaled * 1_000.0).round() / 1_000.0;
    if letter.is_empty() && rounded >= 1_000.0 && rounded.fract() == 0.0 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "below 10,000"
        )]
        return grouped(rounded as u64);
    }
    format!("{rounded}{letter}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks().into_iter().map(|tick| tick.label).collect()
    }

    #[test]
    fn an_even_axis_ends_with_a_round_number() {
        let axis = Axis::from_zero(73_000_000.0, 100.0, 500.0);
        assert_eq!(
            labels(&axis),
            ["0", "10 M", "20 M", "30 M", "40 M", "50 M", "60 M", "70 M", "80 M"]
        );
        assert_eq!((axis.at(0.0), axis.at(40e6), axis.at(80e6)), (100.0, 300.0, 500.0));
        assert_eq!(axis.at(1e12), 500.0);
        assert_eq!(labels(&Axis::from_zero(0.9, 0.0, 1.0)), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(&Axis::from_zero(0.0, 0.0, 1.0)).len(), 2);
        assert!(labels(&Axis::from_zero(f64::NAN, 0.0, 1.0)).len() < 20);
    }

    #[test]
    fn a_logarithmic_axis_has_powers_of_ten() {
        let axis = Axis::log(15.0, 4_000.0, 0.0, 300.0);
        assert_eq!(labels(&axis), ["10", "100", "1 000", "10 k"]);
        assert!((axis.at(100.0) - 100.0).abs() < 1e-9);
        // Upwards, as on the left of a picture.
        assert_eq!(Axis::log(1.0, 10.0, 200.0, 0.0).at(1.0), 200.0);
        assert_eq!(Axis::log(0.0, 0.0, 0.0, 9.0).at(0.0), 0.0);
    }
}
