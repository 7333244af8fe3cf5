//! Features of new block images: a sum of powers of two, or names.

use super::ValueError;
use types::Errno;

const NAMES: [(&str, u64); 8] = [
    ("layering", 1),
    ("striping", 2),
    ("exclusive-lock", 4),
    ("object-map", 8),
    ("fast-diff", 16),
    ("deep-flatten", 32),
    ("journaling", 64),
    ("data-pool", 128),
];
/// Features that images may have, those without a name here among them.
const ALL: u64 = 0x7ff;
/// The features of an image where nobody says which.
const DEFAULT: u64 = 61;

/// Returns the sum.
pub(super) fn normalize(text: &str) -> Result<String, ValueError> {
    let refused = || ValueError { errno: Errno::EINVAL, sentence: String::new() };
    if text.is_empty() {
        return Ok(DEFAULT.to_string());
    }
    if let Ok(sum) = text.parse::<u64>() {
        return if sum & !ALL == 0 { Ok(sum.to_string()) } else { Err(refused()) };
    }
    let mut sum = 0;
    for name in text.split(',').map(str::trim) {
        sum |= NAMES.iter().find(|(known, _)| *known == name).ok_or_else(refused)?.1;
    }
    Ok(sum.to_string())
}
