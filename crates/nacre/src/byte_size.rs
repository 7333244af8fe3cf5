//! Sizes as people write them.

use std::fmt;
use std::str::FromStr;

/// A number of bytes. Reads `4096`, `16GiB`, `16G` (the same), `512MB` (decimal); prints with a binary unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ByteSize(pub u64);

const BINARY: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        let trimmed = text.trim();
        let at = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = (&trimmed[..at], trimmed[at..].trim().to_ascii_lowercase());
        let factor: Option<f64> = match unit.as_str() {
            "" | "b" => Some(1.0),
            _ if !unit.is_ascii() => None,
            _ => "kmgtp".find(&unit[..1]).and_then(|power| match &unit[1..] {
                "" | "i" | "ib" => Some(1024f64.powi(power as i32 + 1)),
                "b" => Some(1000f64.powi(power as i32 + 1)),
                _ => None,
            }),
        };
        let number: Option<f64> = number.parse().ok().filter(|n: &f64| n.is_finite());
        match (number, factor) {
            (Some(n), Some(f)) if n * f < u64::MAX as f64 => Ok(ByteSize((n * f) as u64)),
            _ => Err(format!("'{text}' is not a size; write for example 16GiB, 500MB or 1048576")),
        }
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut unit = 0;
        let mut value = self.0 as f64;
        while value >= 1024.0 && unit + 1 < BINARY.len() {
            value /= 1024.0;
            unit += 1;
        }
        let digits = usize::from(unit > 0 && value < 100.0 && value.fract() > 0.0);
        write!(f, "{value:.digits$} {}", BINARY[unit])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_prints() {
        let check = |text: &str, bytes: u64| assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        check("0", 0);
        check("4096", 4096);
        check("16GiB", 16 << 30);
        check("16 g", 16 << 30);
        check("1.5KiB", 1536);
        check("500MB", 500_000_000);
        check("2T", 2 << 40);
        for bad in ["", "x", "1.2.3G", "5 apples", "-1", "GiB", "16GiBi", "99999999999P", "1é"] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
        assert_eq!(ByteSize(16 << 30).to_string(), "16 GiB");
        assert_eq!(ByteSize(1_500_000_000).to_string(), "1.4 GiB");
        assert_eq!(ByteSize(7).to_string(), "7 B");
        assert_eq!(ByteSize(u64::MAX).to_string(), "16 EiB");
    }
}
