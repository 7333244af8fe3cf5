//! Class `numops`: arithmetic on numbers that the omap holds as text.

use crate::method::Method;
use crate::object::{Object, Output, Stop};
use bytes::Bytes;
use types::Errno;
use wire::Reader;

pub(crate) const METHODS: &[Method] = &[
    Method::update("add", |object, input| apply(object, input, |value, operand| value + operand)),
    Method::update("mul", |object, input| apply(object, input, |value, operand| value * operand)),
];

/// Number of digits of a result.
const PRECISION: usize = 10;

/// Ceph's EBADMSG: the stored value is no number.
const EBADMSG: Errno = Errno(74);

/// Parses a number as C does; an empty text is zero.
fn number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?.trim_start();
    if text.is_empty() {
        return Some(0.0);
    }
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => hexadecimal(digits).map(|value| sign * value),
        None => text.parse().ok(),
    }
}

/// Parses hexadecimal digits, perhaps with a dot among them, and perhaps with `p` and a power of two.
fn hexadecimal(text: &str) -> Option<f64> {
    let (digits, power) = match text.split_once(['p', 'P']) {
        Some((digits, power)) => (digits, power.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut value = 0.0;
    for digit in whole.chars().chain(fraction.chars()) {
        value = value * 16.0 + f64::from(digit.to_digit(16)?);
    }
    Some(value * 2f64.powi(power - 4 * fraction.len() as i32))
}

/// Formats a number as a C++ stream does: up to [`PRECISION`] digits, without trailing zeros, with an exponent if that
/// is below -4 or not below the precision.
fn text(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let scientific = format!("{value:.*e}", PRECISION - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("that format has one");
    let exponent: i32 = exponent.parse().expect("that format has a number there");
    let without_zeros = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => digits.to_owned(),
    };
    if (-4..PRECISION as i32).contains(&exponent) {
        let decimals = (PRECISION as i32 - 1 - exponent) as usize;
        without_zeros(&format!("{value:.decimals$}"))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
    }
}

fn apply(object: &mut dyn Object, input: &mut Reader<'_>, operation: fn(f64, f64) -> f64) -> Result<Output, Stop> {
    let (key, operand): (Bytes, Bytes) = (input.get()?, input.get()?);
    let operand = number(&operand).ok_or(Errno::EINVAL)?;
    let stored = object.omap_get(&key)?.unwrap_or_default();
    let value = number(&stored).ok_or(EBADMSG)?;
    object.omap_set(vec![(key, text(operation(value, operand)).into())])?;
    Ok(Output::none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_object::{TestObject, encode};

    #[test]
    fn numbers_are_written_as_a_stream_writes_them() {
        let cases: [(f64, &str); 9] = [
            (0.0, "0"),
            (15.0, "15"),
            (-0.5, "-0.5"),
            (1.0 / 3.0, "0.3333333333"),
            (1e10, "1e+10"),
            (1234567890.0, "1234567890"),
            (12345678901.0, "1.23456789e+10"),
            (0.00001, "1e-05"),
            (f64::INFINITY, "inf"),
        ];
        for (value, want) in cases {
            assert_eq!(text(value), want);
        }
    }

    #[test]
    fn a_number_grows_and_what_is_none_is_refused() {
        let input = |key: &str, operand: &str| {
            encode(|w| {
                w.str(key);
                w.str(operand);
            })
        };
        let mut object = TestObject::default();
        assert_eq!(object.call("numops", "add", &input("n", "7.5")).0, 0);
        assert_eq!(object.call("numops", "mul", &input("n", "-2")).0, 0);
        assert_eq!(object.omap[&b"n"[..]], "-15");
        assert_eq!(object.call("numops", "add", &input("n", "-0x1.8p1")).0, 0);
        assert_eq!(object.omap[&b"n"[..]], "-18");
        assert_eq!(object.call("numops", "add", &input("n", "x")).0, -22);
        object.omap.insert(Bytes::from("bad"), Bytes::from("1a"));
        assert_eq!(object.call("numops", "add", &input("bad", "1")).0, -74);
    }
}
