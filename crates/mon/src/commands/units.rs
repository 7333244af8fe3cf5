//! Numbers as `ceph` prints them for people: `5.1 GiB`, `1.2k`, `7m`.

pub(super) use crate::health::age;

use types::Utime;

/// Length of the longest text with a fraction; a longer one loses digits behind the point.
const CHARS_MAX: usize = 7;

/// Returns bytes with a binary unit: `0 B`, `910 MiB`, `5.1 GiB`.
pub fn bytes(n: u64) -> String {
    scaled(n, 1024, &[" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"])
}

/// Returns a count with a decimal unit: `80`, `1.23k`.
pub fn count(n: u64) -> String {
    scaled(n, 1000, &["", "k", "M", "G", "T", "P", "E"])
}

fn scaled(n: u64, base: u64, units: &[&str]) -> String {
    let (mut scale, mut unit) = (1u64, 0);
    while n / scale >= base {
        scale *= base;
        unit += 1;
    }
    if n.is_multiple_of(scale) {
        return format!("{}{}", n / scale, units[unit]);
    }
    let value = n as f64 / scale as f64;
    let text = |digits: usize| format!("{value:.digits$}{}", units[unit]);
    [2, 1].into_iter().map(text).find(|text| text.len() <= CHARS_MAX).unwrap_or_else(|| text(0))
}

/// Parses a number of bytes as `ceph` does: `4096`, `10K` or `10Ki`. The error is Ceph's sentence.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text).ok_or("strict_iecstrtoll: value not specified")?;
    let letter = match unit {
        _ if unit.len() > 2 => return Err("strict_iecstrtoll: illegal prefix (length > 2)".to_owned()),
        "Bi" => return Err("strict_iecstrtoll: illegal prefix \"Bi\"".to_owned()),
        _ => unit.strip_suffix('i').filter(|letter| !letter.is_empty()).unwrap_or(unit),
    };
    let power = match letter {
        "" | "B" => 0,
        _ => power(letter).ok_or("strict_iecstrtoll: unit prefix not recognized")?,
    };
    scaled_up(number, 1024, power, "strict_iecstrtoll")
}

/// Parses a count as `ceph` does: `80`, `1K` (1000). The error is Ceph's sentence.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text).ok_or("strict_sistrtoll: value not specified")?;
    let power = match unit {
        "" => 0,
        _ => power(unit).ok_or("strict_si_cast: unit prefix not recognized")?,
    };
    scaled_up(number, 1000, power, "strict_sistrtoll")
}

/// Splits a text into its number and the rest; `None` if it is empty.
fn split_unit(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '-' | '+')).unwrap_or(text.len());
    (!text.is_empty()).then(|| text.split_at(end))
}

fn power(letter: &str) -> Option<u32> {
    ["K", "M", "G", "T", "P", "E"].iter().position(|known| *known == letter).map(|at| at as u32 + 1)
}

/// Returns the number times its unit. Error: a sentence, if the number is none, negative, or too large for the signed
/// number in which Ceph keeps limits.
fn scaled_up(number: &str, base: u64, power: u32, who: &str) -> Result<u64, String> {
    let value: i64 = number.parse().map_err(|_| format!("The option value '{number}' seems to be invalid"))?;
    let value = u64::try_from(value).map_err(|_| format!("{who}: value should not be negative"))?;
    let value = value.checked_mul(base.pow(power)).filter(|value| i64::try_from(*value).is_ok());
    value.ok_or_else(|| format!("{who}: the value seems to be too large"))
}

/// Returns a number of `width` characters, the last one its unit (a blank for none): ` 703.1k`, `46464M`.
pub fn fixed(n: f64, width: usize, base: u64) -> String {
    let units = [' ', 'k', 'M', 'G', 'T', 'P', 'E', 'Z'];
    let (mut unit, mut scale) = (0, 1.0);
    while format!("{:.0}", (n / scale).floor()).len() > width - 1 && unit + 1 < units.len() {
        unit += 1;
        scale *= base as f64;
    }
    let text = match unit {
        0 => format!("{:>1$}", n as u64, width - 1),
        _ => format!("{:.6}", n / scale)[..width - 1].to_owned(),
    };
    let text = text.strip_suffix('.').map_or(text.clone(), |whole| format!(" {whole}"));
    format!("{text}{}", units[unit])
}

/// Returns a share in percent with two digits, `0` if it is nothing: `14.82`.
pub fn percent(share: f64) -> String {
    if share == 0.0 { "0".to_owned() } else { format!("{:.2}", share * 100.0) }
}

/// Returns a time as C's `asctime` prints it: `Sat Nov 21 12:00:00 2026`.
pub fn calendar(t: Utime) -> String {
    // The days begin with a Thursday because 1970 did.
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let text = t.to_string();
    let number = |from: usize| text[from..from + 2].parse::<usize>().expect("stamps have two digits there");
    let (month, day) = (MONTHS[number(5) - 1], number(8));
    format!("{} {month} {day:2} {} {}", DAYS[(t.sec / 86_400 % 7) as usize], &text[11..19], &text[..4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_fixed_width_print_as_those_of_modules() {
        for (n, width, text) in [
            (0.0, 5, "   0 "),
            (9999.0, 5, "9999 "),
            (298_000.0 * 1024.0, 5, " 291M"),
            (15.0 * 1_060_000_000.0, 5, "14.8G"),
            (720_000.0, 6, "703.1k"),
            (46_464.0 * 1_048_576.0, 6, "46464M"),
            (12.7, 5, "  12 "),
        ] {
            assert_eq!(fixed(n, width, 1024), text, "{n}");
        }
    }

    #[test]
    fn limits_are_read_as_ceph_reads_them() {
        let invalid = |text: &str| format!("The option value '{text}' seems to be invalid");
        for (text, value) in [
            ("0", Ok(0)),
            ("10K", Ok(10_240)),
            ("10Ki", Ok(10_240)),
            ("7B", Ok(7)),
            ("1E", Ok(1 << 60)),
            ("9223372036854775807", Ok(i64::MAX as u64)),
            ("18446744073709551615", Err(invalid("18446744073709551615"))),
            ("8E", Err("strict_iecstrtoll: the value seems to be too large".to_owned())),
            ("1MiB", Err("strict_iecstrtoll: illegal prefix (length > 2)".to_owned())),
            ("1.5G", Err("strict_iecstrtoll: illegal prefix (length > 2)".to_owned())),
            ("1Bi", Err("strict_iecstrtoll: illegal prefix \"Bi\"".to_owned())),
            ("1i", Err("strict_iecstrtoll: unit prefix not recognized".to_owned())),
            ("1x", Err("strict_iecstrtoll: unit prefix not recognized".to_owned())),
            ("-1", Err("strict_iecstrtoll: value should not be negative".to_owned())),
            ("", Err("strict_iecstrtoll: value not specified".to_owned())),
            ("K", Err(invalid(""))),
        ] {
            assert_eq!(parse_bytes(text), value, "{text}");
        }
        for (text, value) in [
            ("7", Ok(7)),
            ("1K", Ok(1000)),
            ("1Ki", Err("strict_si_cast: unit prefix not recognized".to_owned())),
            ("0x10", Err("strict_si_cast: unit prefix not recognized".to_owned())),
            ("abc", Err("strict_si_cast: unit prefix not recognized".to_owned())),
            ("", Err("strict_sistrtoll: value not specified".to_owned())),
        ] {
            assert_eq!(parse_count(text), value, "{text}");
        }
    }

    #[test]
    fn bytes_print_as_in_ceph_df() {
        for (n, text) in [
            (0, "0 B"),
            (954_580_992, "910 MiB"),
            (5_487_869_952, "5.1 GiB"),
            (6_442_450_944, "6 GiB"),
            (8_200_000, "7.8 MiB"),
            (24_846_336, "24 MiB"),
            (1_720_764_800, "1.6 GiB"),
            (581_241, "568 KiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
        assert_eq!(calendar(Utime { sec: 1_795_262_400, nsec: 5 }), "Sat Nov 21 12:00:00 2026");
        assert_eq!(calendar(Utime { sec: 951_782_400 + 86_400, nsec: 0 }), "Wed Mar  1 00:00:00 2000");
        assert_eq!((count(80), count(1_234), count(999_999)), ("80".into(), "1.23k".into(), "1000.0k".into()));
    }
}
