//! Names and values of attributes and of omaps' keys, by the numbers that the workload gives them.

use crate::content::OpId;

/// Attributes and keys from this number on have long values.
pub(crate) const LONG_FROM: u8 = 200;
/// Attributes from this number on have the longest names that there may be.
const LONG_NAME_FROM: u8 = 250;
/// Number of an attribute with a name that is too long.
pub(crate) const TOO_LONG_NAME: u8 = u8::MAX;
const ATTR_NAME_BYTES_MAX: usize = 100;

/// The name of an attribute or a key.
pub(crate) fn name(number: u8) -> Vec<u8> {
    let bytes = match number {
        TOO_LONG_NAME => ATTR_NAME_BYTES_MAX + 1,
        LONG_NAME_FROM.. => ATTR_NAME_BYTES_MAX,
        _ => 0,
    };
    format!("{:_<bytes$}", format!("n{number}")).into_bytes()
}

/// The value that operation `id` gives an attribute or an omap's key. Some values are long.
pub(crate) fn value(name: u8, id: OpId) -> Vec<u8> {
    let mut value = id.to_string().into_bytes();
    if name >= LONG_FROM {
        value.resize(3000 + (id % 9000) as usize, b'.');
    }
    value
}

/// The operation that set a value.
pub(crate) fn set_by(name: u8, bytes: &[u8]) -> Option<OpId> {
    let id = parsed(bytes.split(|byte| *byte == b'.').next()?)?;
    (value(name, id) == bytes).then_some(id)
}

/// A number in a text.
pub(crate) fn parsed<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
