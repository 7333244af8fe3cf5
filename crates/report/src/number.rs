//! Numbers as people read them.

/// Text in place of a value that is not known.
pub const ABSENT: &str = "not available";

/// A number with four significant digits, and at most six decimals.
///
/// ```
/// assert_eq!(report::number::significant(2.0), "2.000");
/// assert_eq!(report::number::significant(81_920.4), "81920");
/// ```
pub fn significant(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = usize::try_from(3 - digits).unwrap_or(0).min(6);
    format!("{value:.decimals$}")
}

/// A number for an axis or a bar: three significant digits at most, with a prefix of the SI from a thousand on.
///
/// ```
/// assert_eq!(report::number::short(1_500.0), "1.5k");
/// assert_eq!(report::number::short(0.02), "0.02");
/// ```
pub fn short(value: f64) -> String {
    let size = value.abs();
    let (scaled, prefix) = match size {
        _ if size >= 0.9995e12 => (value / 1e12, "T"),
        _ if size >= 0.9995e9 => (value / 1e9, "G"),
        _ if size >= 0.9995e6 => (value / 1e6, "M"),
        _ if size >= 0.9995e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = if scaled == 0.0 { 0 } else { scaled.abs().log10().floor() as i32 };
    let decimals = usize::try_from(2 - digits).unwrap_or(0).min(6);
    let text = format!("{scaled:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits() {
        for (value, want) in [
            (0.0, "0.000"),
            (1.0, "1.000"),
            (-12.345, "-12.35"),
            (9999.6, "10000"),
            (123_456.0, "123456"),
            (0.000_012, "0.000012"),
        ] {
            assert_eq!(significant(value), want);
        }
    }

    #[test]
    fn short_ones() {
        for (value, want) in [
            (0.0, "0"),
            (950.0, "950"),
            (999.9, "1k"),
            (1234.0, "1.23k"),
            (20_000_000.0, "20M"),
            (-3.5e9, "-3.5G"),
            (2e12, "2T"),
            (0.001, "0.001"),
            (100.0, "100"),
        ] {
            assert_eq!(short(value), want);
        }
    }
}
