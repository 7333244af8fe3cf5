//! Omap keys that sort by time, as classes `log` and `timeindex` have them.

use crate::object::{Object, Output, Stop};
use bytes::Bytes;
use types::{Errno, Utime};

/// What such keys begin with.
pub(crate) const PREFIX: &str = "1_";

/// Entries that one listing gives at most.
pub(crate) const ENTRIES_MAX: usize = 1000;

/// What all keys of that microsecond begin with.
pub(crate) fn of(time: Utime) -> String {
    format!("{PREFIX}{:010}.{:06}_", time.sec, time.nsec / 1000)
}

/// Whether `key` is one of the time that `bound` stands for, or later.
pub(crate) fn is_at_or_behind(key: &[u8], bound: &str) -> bool {
    let bound = bound.as_bytes();
    &key[..key.len().min(bound.len())] >= bound
}

/// From where to where a request to trim reaches: by markers where they are given, else by times.
pub(crate) struct TrimRange {
    pub from_time: Utime,
    pub to_time: Utime,
    pub from_marker: Bytes,
    pub to_marker: Bytes,
}

impl TrimRange {
    /// Removes what lies in the range. ENODATA if nothing does.
    pub fn trim(self, object: &mut dyn Object) -> Result<Output, Stop> {
        let after = match self.from_marker.is_empty() {
            true => of(self.from_time).into(),
            false => self.from_marker,
        };
        // All of the last microsecond is meant, and the marker itself.
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
