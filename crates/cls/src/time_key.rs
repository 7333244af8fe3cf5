//! Omap keys that sort by time, for classes `log` and `timeindex`.

use crate::object::{Object, Output, Stop};
use bytes::Bytes;
use types::{Errno, Utime};

/// Prefix of all such keys.
pub(crate) const PREFIX: &str = "1_";

/// Largest number of entries of one listing.
pub(crate) const ENTRIES_MAX: usize = 1000;

/// Prefix of all keys of the microsecond of `time`.
pub(crate) fn of(time: Utime) -> String {
    format!("{PREFIX}{:010}.{:06}_", time.sec, time.nsec / 1000)
}

/// True if the time of `key` is that of `bound` or later.
pub(crate) fn is_at_or_behind(key: &[u8], bound: &str) -> bool {
    let bound = bound.as_bytes();
    &key[..key.len().min(bound.len())] >= bound
}

/// Range of a request to trim: by markers if they are given, else by times.
pub(crate) struct TrimRange {
    pub from_time: Utime,
    pub to_time: Utime,
    pub from_marker: Bytes,
    pub to_marker: Bytes,
}

impl TrimRange {
    /// Removes the entries in the range. ENODATA if there are none.
    pub fn trim(self, object: &mut dyn Object) -> Result<Output, Stop> {
        let after = match self.from_marker.is_empty() {
            true => of(self.from_time).into(),
            false => self.from_marker,
        };
        // The range includes all of the last microsecond, or the last marker itself.
        let end: Bytes = match self.to_marker.is_empty() {
            true => {
                let next = self.to_time.to_unix() + std::time::Duration::from_micros(1);
                of(Utime::from_unix(next)).into()
            }
            false => [&self.to_marker[..], b"\0"].concat().into(),
        };
        let (first, _) = object.omap_list(&after, b"", 1)?;
        let Some((first, _)) = first.into_iter().next().filter(|(key, _)| *key <= end) else {
            return Err(Errno::ENODATA.into());
        };
        object.omap_remove_range(first, end)?;
        Ok(Output::none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_by_time() {
        assert_eq!(of(Utime { sec: 7, nsec: 1_999 }), "1_0000000007.000001_");
        assert!(of(Utime { sec: 9, nsec: 0 }) < of(Utime { sec: 10, nsec: 0 }));
        let bound = of(Utime { sec: 10, nsec: 0 });
        assert!(is_at_or_behind(b"1_0000000010.000000_x", &bound));
        assert!(!is_at_or_behind(b"1_0000000009.999999_x", &bound));
        assert!(!is_at_or_behind(b"1_00000", &bound));
    }
}
