//! Protection schemes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Copies, or an erasure code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Protection {
    /// Whole copies, 1 to 10.
    Copies(u32),
    /// `k` data and `m` parity shards.
    Erasure { k: u32, m: u32 },
}

impl Protection {
    /// Schemes that are compared: those of the reference architectures.
    pub const COMMON: [Protection; 7] = [
        Protection::Copies(2),
        Protection::Copies(3),
        Protection::Copies(4),
        Protection::Erasure { k: 4, m: 1 },
        Protection::Erasure { k: 4, m: 2 },
        Protection::Erasure { k: 8, m: 3 },
        Protection::Erasure { k: 8, m: 4 },
    ];

    /// Raw bytes per usable byte.
    pub fn raw_per_usable(self) -> f64 {
        match self {
            Protection::Copies(copies) => f64::from(copies),
            Protection::Erasure { k, m } => f64::from(k + m) / f64::from(k),
        }
    }

    /// Servers that may fail with no byte lost.
    pub fn failures(self) -> u32 {
        match self {
            Protection::Copies(copies) => copies - 1,
            Protection::Erasure { m, .. } => m,
        }
    }

    /// OSDs of a placement group, and so the smallest number of servers.
    pub fn members(self) -> u32 {
        match self {
            Protection::Copies(copies) => copies,
            Protection::Erasure { k, m } => k + m,
        }
    }

    /// Bytes that OSDs send each other per byte that clients write: all members but the primary get theirs from it.
    pub fn storage_bytes_per_written(self) -> f64 {
        match self {
            Protection::Copies(copies) => f64::from(copies - 1),
            Protection::Erasure { k, m } => f64::from(k + m - 1) / f64::from(k),
        }
    }

    /// Bytes that OSDs send each other per byte that clients read: the primary of an erasure-coded group has one of `k`
    /// shards itself.
    pub fn storage_bytes_per_read(self) -> f64 {
        match self {
            Protection::Copies(_) => 0.0,
            Protection::Erasure { k, .. } => f64::from(k - 1) / f64::from(k),
        }
    }

    pub fn is_erasure(self) -> bool {
        matches!(self, Protection::Erasure { .. })
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Protection::Copies(copies) => write!(f, "{copies}x"),
            Protection::Erasure { k, m } => write!(f, "{k}+{m}"),
        }
    }
}

impl From<Protection> for String {
    fn from(protection: Protection) -> String {
        protection.to_string()
    }
}

impl TryFrom<String> for Protection {
    type Error = String;

    fn try_from(text: String) -> Result<Protection, String> {
        text.parse()
    }
}

impl FromStr for Protection {
    type Err = String;

    /// Reads `3x` or `4+2`.
    fn from_str(text: &str) -> Result<Protection, String> {
        let wrong = || format!("{text:?} is neither copies, such as 3x, nor an erasure code, such as 4+2");
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        if let Some(copies) = text.strip_suffix('x') {
            let copies = number(copies)?;
            return match copies {
                1..=10 => Ok(Protection::Copies(copies)),
                _ => Err(format!("{copies} copies are not within 1 to 10")),
            };
        }
        let (k, m) = text.split_once('+').ok_or_else(wrong)?;
        let (k, m) = (number(k)?, number(m)?);
        if !(2..=32).contains(&k) || !(1..=32).contains(&m) || m > k {
            return Err(format!(
                "{text:?} is no code that serves: 2 to 32 data shards, and 1 to as many parity shards"
            ));
        }
        Ok(Protection::Erasure { k, m })
    }
}
