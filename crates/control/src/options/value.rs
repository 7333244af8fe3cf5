//! Values of options: from a text to the form in which it is kept, by the rules that Ceph has.
//!
//! Sentences are Ceph's, since tools read them.

use super::{OptionFacts, OptionKind};
use types::{Errno, Fsid};
use wire::{EntityAddr, EntityAddrVec};

mod features;
mod float;
mod timespan;

pub use float::parse as parse_float;

/// Reason why a text is no value of an option.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{sentence}")]
pub struct ValueError {
    pub errno: Errno,
    pub sentence: String,
}

fn wrong<T>(sentence: impl Into<String>) -> Result<T, ValueError> {
    Err(ValueError { errno: Errno::EINVAL, sentence: sentence.into() })
}

/// Returns the form in which a value of this kind is kept, from a short text that is one.
pub fn written(kind: OptionKind, text: &str) -> String {
    match (kind, text.parse::<f64>()) {
        (OptionKind::Float, Ok(number)) => float::written(number),
        _ => text.to_owned(),
    }
}

/// Returns `text` in the form in which it is kept.
pub fn normalize(option: &OptionFacts, text: &str) -> Result<String, ValueError> {
    match option.name {
        "rbd_default_features" => return features::normalize(text),
        // A name that no pool can have stands for the default.
        "rbd_default_pool" if !is_pool_name(text) => return Ok(option.default.to_owned()),
        "rbd_default_data_pool" if !text.is_empty() && !is_pool_name(text) => return Ok(String::new()),
        _ => {}
    }
    match option.kind {
        OptionKind::Text if option.name.starts_with("debug_") => debug_level(text),
        OptionKind::Text => match option.choices.is_empty() || option.choices.contains(&text) {
            true => Ok(text.to_owned()),
            false => {
                let choices: Vec<_> = option.choices.iter().copied().filter(|choice| !choice.is_empty()).collect();
                wrong(format!("'{text}' is not one of the permitted values: {}", choices.join(", ")))
            }
        },
        OptionKind::Bool => boolean(text),
        OptionKind::Int => in_bounds(option, decimal(text, true)?),
        OptionKind::Uint if option.name == "rbd_discard_granularity_bytes" => power_of_two(option, text),
        OptionKind::Uint => in_bounds(option, decimal(text, false)?),
        OptionKind::Size => in_bounds(option, i128::from(parse_size(text)?)),
        OptionKind::Secs => in_bounds(option, i128::from(timespan::parse(text).or_else(wrong)?)),
        OptionKind::Millisecs => match text.parse::<u64>() {
            Ok(number) => in_bounds(option, i128::from(number)),
            Err(_) => wrong("bad lexical cast: source type value could not be interpreted as target"),
        },
        OptionKind::Float => float_in_bounds(option, parse_float(text).or_else(wrong)?),
        OptionKind::Uuid => uuid(text).map_or_else(|| wrong(""), |id| Ok(id.to_string())),
        OptionKind::Addr if text == "-" => Ok("-".to_owned()),
        OptionKind::Addr => address(text).map_or_else(|| wrong(""), |addr| Ok(addr.to_string())),
        OptionKind::AddrVec => addresses(text).map_or_else(|| wrong(""), |addrs| Ok(addrs.to_string())),
    }
}

fn is_pool_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['@', '/'])
}

fn in_bounds(option: &OptionFacts, number: i128) -> Result<String, ValueError> {
    let bound = |text: Option<&'static str>| text.and_then(|text| text.parse::<i128>().ok());
    if let Some(min) = bound(option.min).filter(|min| number < *min) {
        return wrong(format!("Value '{number}' is below minimum {min}"));
    }
    if let Some(max) = bound(option.max).filter(|max| number > *max) {
        return wrong(format!("Value '{number}' exceeds maximum {max}"));
    }
    Ok(number.to_string())
}

fn power_of_two(option: &OptionFacts, text: &str) -> Result<String, ValueError> {
    match decimal(text, false)? {
        number if number != 0 && number & (number - 1) != 0 => wrong("value must be a power of two"),
        number => in_bounds(option, number),
    }
}

fn float_in_bounds(option: &OptionFacts, number: f64) -> Result<String, ValueError> {
    let bound = |text: Option<&'static str>| text.and_then(|text| text.parse::<f64>().ok());
    let text = float::written(number);
    if let Some(min) = bound(option.min).filter(|min| number < *min) {
        return wrong(format!("Value '{text}' is below minimum {}", float::written(min)));
    }
    if let Some(max) = bound(option.max).filter(|max| number > *max) {
        return wrong(format!("Value '{text}' exceeds maximum {}", float::written(max)));
    }
    Ok(text)
}

/// Reads an integer as C's `strtoll` does: blanks before it are allowed, blanks behind it are not.
fn integer(text: &str) -> Result<i64, ValueError> {
    let body = text.trim_start_matches(|c: char| c.is_ascii_whitespace());
    let digits = body.strip_prefix(['+', '-']).unwrap_or(body);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return wrong(format!("Expected option value to be integer, got '{text}'"));
    }
    body.parse().or_else(|_| wrong(format!("The option value '{text}' seems to be invalid")))
}

fn boolean(text: &str) -> Result<String, ValueError> {
    let truth = if text.eq_ignore_ascii_case("true") {
        true
    } else if text.eq_ignore_ascii_case("false") {
        false
    } else {
        match i32::try_from(integer(text)?) {
            Ok(number) => number != 0,
            Err(_) => return wrong(format!("The option value '{text}' seems to be invalid")),
        }
    };
    Ok(truth.to_string())
}

const LETTERS: [u8; 6] = [b'K', b'M', b'G', b'T', b'P', b'E'];

/// Returns the power of a unit: 1 for `K`, 2 for `M`.
fn power(letter: u8) -> Option<u32> {
    LETTERS.iter().position(|known| *known == letter).map(|at| at as u32 + 1)
}

fn is_number_byte(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'+' || byte == b'-'
}

/// Reads an integer with a decimal unit: `5K` is 5000.
fn decimal(text: &str, signed: bool) -> Result<i128, ValueError> {
    let Some(last) = text.bytes().last() else { return wrong("strict_sistrtoll: value not specified") };
    let mut digits = text;
    let mut factor = 1;
    if !text.bytes().all(is_number_byte) {
        match power(last) {
            Some(power) => {
                factor = 1000_i128.pow(power);
                digits = &text[..text.len() - 1];
            }
            None if last == b'B' => {}
            None => return wrong("strict_si_cast: unit prefix not recognized"),
        }
    }
    let number = i128::from(integer(digits)?) * factor;
    if !signed && number < 0 {
        return wrong("strict_sistrtoll: value should not be negative");
    }
    let fits = if signed { i64::try_from(number).is_ok() } else { u64::try_from(number).is_ok() };
    if fits { Ok(number) } else { wrong("strict_sistrtoll: value out of range") }
}

/// Reads bytes with a binary unit: `5K`, `5Ki` and `5KB` are 5120.
pub fn parse_size(text: &str) -> Result<u64, ValueError> {
    if text.is_empty() {
        return wrong("strict_iecstrtoll: value not specified");
    }
    let digits = text.bytes().take_while(|byte| is_number_byte(*byte)).count();
    let (number, unit) = text.split_at(digits);
    let mut shift = 0;
    if let Some(first) = unit.bytes().next() {
        if first == b'B' && unit.ends_with('i') {
            return wrong("strict_iecstrtoll: illegal prefix \"Bi\"");
        }
        if unit.len() > 2 {
            return wrong("strict_iecstrtoll: illegal prefix (length > 2)");
        }
        shift = match power(first) {
            Some(power) => 10 * power,
            None if first == b'B' => 0,
            None => return wrong("strict_iecstrtoll: unit prefix not recognized"),
        };
    }
    let number = i128::from(integer(number)?);
    if number < 0 {
        return wrong("strict_iecstrtoll: value should not be negative");
    }
    u64::try_from(number << shift).or_else(|_| wrong("strict_iecstrtoll: value seems to be too large"))
}

/// Reads a level to log and a level to gather, `N` or `N/M`. Any text behind them does not matter.
fn debug_level(text: &str) -> Result<String, ValueError> {
    let leading = |text: &str| -> Option<(i64, usize)> {
        let blanks = text.len() - text.trim_start().len();
        let body = &text[blanks..];
        let sign = usize::from(body.starts_with(['+', '-']));
        let digits = body[sign..].bytes().take_while(u8::is_ascii_digit).count();
        let number = body[..sign + digits].parse().ok()?;
        Some((number, blanks + sign + digits))
    };
    let Some((log, end)) = leading(text) else {
        return wrong("value must take the form N or N/M, where N and M are integers");
    };
    let gather = text[end..].strip_prefix('/').and_then(leading).map_or(log, |(gather, _)| gather);
    match [log, gather].iter().all(|level| (0..=99).contains(level)) {
        true => Ok(format!("{log}/{gather}")),
        false => Err(ValueError { errno: Errno::ERANGE, sentence: "value must be in range [0, 99]".to_owned() }),
    }
}

fn uuid(text: &str) -> Option<Fsid> {
    text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text).parse().ok()
}

/// Reads one address. Without a word before it, it is one of messenger 2.
fn address(text: &str) -> Option<EntityAddr> {
    text.trim().parse().ok()
}

fn addresses(text: &str) -> Option<EntityAddrVec> {
    let inner = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    match inner.filter(|inner| inner.starts_with('v') || inner.starts_with("any:")) {
        Some(inner) => Some(EntityAddrVec(inner.split(',').map(address).collect::<Option<Vec<_>>>()?)),
        // Ceph takes the first of several addresses without brackets.
        None => Some(EntityAddrVec(vec![address(text.split(',').next()?)?])),
    }
}
