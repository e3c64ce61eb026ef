//! Lengths of time as people write them: `250ms`, `10m`.
//!
//! A bare number is the classic trap of config files: half the readers take it for seconds and the
//! other half for milliseconds. So the unit is required. There is one number and one unit; anything
//! richer would have to be explained.

use std::time::Duration;

/// The longest duration a file may ask for: a year.
///
/// Longer is a slip, and arithmetic with deadlines needs some limit.
pub const DURATION_MAX: Duration = Duration::from_hours(365 * 24);

const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DurationError {
    /// There is a number and nothing else.
    #[error("has no unit")]
    NoUnit,
    /// Not a whole number followed by a known unit.
    #[error("is not a number with a unit")]
    Malformed,
    /// More than [`DURATION_MAX`].
    #[error("is longer than a year")]
    TooLong,
}

/// Reads `250ms`, `1s`, `10m` or `2h`.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(DurationError::Malformed);
    }
    if unit.is_empty() {
        return Err(DurationError::NoUnit);
    }
    let (_, millis) =
        UNITS.iter().find(|(name, _)| *name == unit).ok_or(DurationError::Malformed)?;
    let number: u64 = number.parse().map_err(|_| DurationError::TooLong)?;
    let total = number.checked_mul(*millis).map(Duration::from_millis);
    total.filter(|total| *total <= DURATION_MAX).ok_or(DurationError::TooLong)
}

/// Writes a duration so that [`parse_duration`] reads it again; what is below a millisecond is
/// dropped.
pub fn show_duration(duration: Duration) -> String {
    let millis = duration.as_millis();
    let largest = UNITS.iter().rev().find(|(_, unit)| millis.is_multiple_of(u128::from(*unit)));
    let (name, unit) = largest.filter(|_| millis > 0).unwrap_or(&UNITS[0]);
    format!("{}{name}", millis / u128::from(*unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_the_same() {
        for (text, millis) in
            [("0ms", 0), ("250ms", 250), ("1s", 1_000), ("10m", 600_000), ("2h", 7_200_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)));
            assert_eq!(show_duration(Duration::from_millis(millis)), text);
        }
        assert_eq!(parse_duration("8760h"), Ok(DURATION_MAX));
    }

    #[test]
    fn says_why_not() {
        for (text, error) in [
            ("10", DurationError::NoUnit),
            ("", DurationError::Malformed),
            ("s", DurationError::Malformed),
            ("1.5s", DurationError::Malformed),
            ("1h30m", DurationError::Malformed),
            ("-1s", DurationError::Malformed),
            ("1 s", DurationError::Malformed),
            ("1S", DurationError::Malformed),
            ("8761h", DurationError::TooLong),
            ("99999999999999999999ms", DurationError::TooLong),
            ("18446744073709551615h", DurationError::TooLong),
        ] {
            assert_eq!(parse_duration(text), Err(error), "{text}");
        }
    }
}
