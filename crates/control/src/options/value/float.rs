//! Numbers with a fraction, read as C's `strtod` reads them and written with six digits behind the point.

/// Returns the number. Error: a sentence.
pub fn parse(text: &str) -> Result<f64, String> {
    let body = text.trim_start_matches(|c: char| c.is_ascii_whitespace());
    let none = || format!("strict_strtod: expected double, got: '{text}'");
    let (sign, unsigned) = match body.as_bytes().first() {
        Some(b'-') => (-1.0, &body[1..]),
        Some(b'+') => (1.0, &body[1..]),
        _ => (1.0, body),
    };
    let (number, length, exact) = magnitude(unsigned).ok_or_else(none)?;
    if !exact {
        return Err(format!("strict_strtod: floating point overflow or underflow parsing '{text}'"));
    }
    if length < unsigned.len() {
        return Err(format!("strict_strtod: garbage at end of string. got: '{text}'"));
    }
    Ok(sign * number)
}

/// Returns the number that an unsigned text begins with, its bytes, and false if it is beyond what can be represented.
fn magnitude(text: &str) -> Option<(f64, usize, bool)> {
    let lower = text.to_ascii_lowercase();
    for (word, number) in [("infinity", f64::INFINITY), ("inf", f64::INFINITY), ("nan", f64::NAN)] {
        if lower.starts_with(word) {
            return Some((number, word.len(), true));
        }
    }
    if let Some(found) = lower.starts_with("0x").then(|| hexadecimal(&lower)).flatten() {
        return Some(found);
    }
    let bytes = lower.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut length = whole;
    let mut count = whole;
    if bytes.get(length) == Some(&b'.') {
        let fraction = digits(length + 1);
        count += fraction;
        length += 1 + fraction;
    }
    if count == 0 {
        return None;
    }
    let has_weight = bytes[..length].iter().any(|byte| (b'1'..=b'9').contains(byte));
    length += exponent(&bytes[length..], b'e').map_or(0, |(_, bytes)| bytes);
    let number: f64 = lower[..length].parse().ok()?;
    let exact = number.is_finite() && (!has_weight || number >= f64::MIN_POSITIVE);
    Some((number, length, exact))
}

/// Returns the exponent behind `mark` and the bytes of both.
fn exponent(bytes: &[u8], mark: u8) -> Option<(i32, usize)> {
    if bytes.first() != Some(&mark) {
        return None;
    }
    let sign = usize::from(matches!(bytes.get(1), Some(b'+' | b'-')));
    let digits = bytes[1 + sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = std::str::from_utf8(&bytes[1..1 + sign + digits]).ok()?;
    if digits == 0 {
        return None;
    }
    let limit = if text.starts_with('-') { -100_000 } else { 100_000 };
    Some((text.parse().unwrap_or(limit).clamp(-100_000, 100_000), 1 + sign + digits))
}

/// Reads `0x1.8p3`.
fn hexadecimal(lower: &str) -> Option<(f64, usize, bool)> {
    let bytes = lower.as_bytes();
    let mut number = 0.0;
    let mut scale = 0;
    let mut at = 2;
    let mut any = false;
    let mut in_fraction = false;
    while let Some(byte) = bytes.get(at) {
        match char::from(*byte).to_digit(16) {
            Some(digit) => {
                number = number * 16.0 + f64::from(digit);
                scale -= i32::from(in_fraction) * 4;
                any = true;
            }
            None if *byte == b'.' && !in_fraction => in_fraction = true,
            None => break,
        }
        at += 1;
    }
    if !any {
        return None;
    }
    let (power, length) = exponent(&bytes[at..], b'p').unwrap_or((0, 0));
    let scaled = number * 2f64.powi(scale.saturating_add(power));
    let exact = scaled.is_finite() && (number == 0.0 || scaled >= f64::MIN_POSITIVE);
    Some((scaled, at + length, exact))
}

/// Returns C's `%f`.
pub(super) fn written(number: f64) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    format!("{number:.6}")
}

#[cfg(test)]
mod tests {
    use super::{parse, written};

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        let check = |text: &str, expect: &str| {
            let got = parse(text).map(written);
            assert_eq!(got.as_deref().unwrap_or_else(|e| e), expect, "{text}");
        };
        check(".5", "0.500000");
        check(" 5", "5.000000");
        check("-1e3", "-1000.000000");
        check("0x1.8p3", "12.000000");
        check("inf", "inf");
        check("-infinity", "-inf");
        check("0x", "strict_strtod: garbage at end of string. got: '0x'");
        check("1e", "strict_strtod: garbage at end of string. got: '1e'");
        check("5 ", "strict_strtod: garbage at end of string. got: '5 '");
        check("e5", "strict_strtod: expected double, got: 'e5'");
        check(".", "strict_strtod: expected double, got: '.'");
        check("1e400", "strict_strtod: floating point overflow or underflow parsing '1e400'");
        check("1e-310", "strict_strtod: floating point overflow or underflow parsing '1e-310'");
        check("0e999999999999", "0.000000");
    }
}
