//! The time of day where this machine is.

use std::time::Duration;

/// Offsets of the local time from UTC.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TimeZone {
    /// Seconds of offset before the first change.
    first_s: i64,
    /// Changes in their order: seconds since 1970, and the offset in seconds from then on.
    changes: Vec<(i64, i64)>,
}

impl TimeZone {
    /// Returns the zone of this process: `TZ` names it, or else `/etc/localtime` is it. It is UTC where nothing can be
    /// read.
    pub fn of_process() -> TimeZone {
        let name = std::env::var("TZ").ok();
        let path = match name.as_deref().map(|name| name.trim_start_matches(':')) {
            None => "/etc/localtime".to_owned(),
            Some(path) if path.starts_with('/') => path.to_owned(),
            Some(name) => format!("/usr/share/zoneinfo/{name}"),
        };
        std::fs::read(path).ok().and_then(|bytes| TimeZone::read(&bytes)).unwrap_or_default()
    }

    /// Reads a compiled zone (RFC 8536, version 2 or later). Rules for times behind the last change are not read.
    fn read(bytes: &[u8]) -> Option<TimeZone> {
        const HEAD: usize = 44;
        let number = |at: usize, width: usize| {
            Some(
                bytes
                    .get(at..at.checked_add(width)?)?
                    .iter()
                    .fold(0_u64, |number, byte| number << 8 | u64::from(*byte)),
            )
        };
        // The counts of a part: indicators of UTC, of standard time, leap seconds, changes, kinds, characters.
        let counts = |at: usize| -> Option<[usize; 6]> {
            if bytes.get(at..at + 4)? != b"TZif" || *bytes.get(at + 4)? < b'2' {
                return None;
            }
            let mut counts = [0; 6];
            for (i, count) in counts.iter_mut().enumerate() {
                *count = usize::try_from(number(at + 20 + 4 * i, 4)?).ok()?;
            }
            Some(counts)
        };
        // The first part has 32-bit times, for programs of old.
        let [utc, standard, leap, changes, kinds, characters] = counts(0)?;
        let second = HEAD + 5 * changes + 6 * kinds + characters + 8 * leap + standard + utc;
        let [_, _, _, changes, ..] = counts(second)?;
        let times = second + HEAD;
        let (kind_of, kinds) = (times + 8 * changes, times + 9 * changes);
        let offset = |kind: u64| Some(i64::from(number(kinds + 6 * usize::try_from(kind).ok()?, 4)? as u32 as i32));
        let change = |i| Some((number(times + 8 * i, 8)? as i64, offset(number(kind_of + i, 1)?)?));
        let changes = (0..changes).map(change).collect::<Option<Vec<_>>>()?;
        Some(TimeZone { first_s: offset(0)?, changes })
    }

    /// Returns the hour of the local day (0 to 23) and the day of the week (0 is Sunday) at a time since 1970.
    pub fn hour_and_week_day(&self, unix: Duration) -> (u32, u32) {
        let unix_s = i64::try_from(unix.as_secs()).unwrap_or(i64::MAX / 2);
        let change = self.changes.iter().rfind(|(from, _)| *from <= unix_s);
        let local_s = unix_s + change.map_or(self.first_s, |(_, offset)| *offset);
        // 1970 began on a Thursday.
        let (hour, day) = (local_s.rem_euclid(86_400) / 3600, (local_s.div_euclid(86_400) + 4).rem_euclid(7));
        (u32::try_from(hour).expect("below 24"), u32::try_from(day).expect("below 7"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A zone of two kinds, one hour ahead of UTC and two, with these changes.
    fn zone(changes: &[(i64, u8)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let head = |changes: usize, kinds: u8| {
            let counts = [0, 0, 0, changes as u8, kinds, 4];
            let counts = counts.into_iter().flat_map(|count| [0, 0, 0, count]);
            b"TZif2".iter().copied().chain([0; 15]).chain(counts).collect::<Vec<u8>>()
        };
        bytes.extend(head(0, 1));
        bytes.extend([0; 6]);
        bytes.extend(b"UTC\0");
        bytes.extend(head(changes.len(), 2));
        changes.iter().for_each(|(at, _)| bytes.extend(at.to_le_bytes().iter().rev()));
        bytes.extend(changes.iter().map(|(_, kind)| kind));
        for hours in [1_i32, -2] {
            bytes.extend((hours * 3600).to_le_bytes().iter().rev());
            bytes.extend([0, 0]);
        }
        bytes.extend(b"ABC\0");
        bytes
    }

    #[test]
    fn hours_and_days_are_those_of_the_zone() {
        let at = |zone: &TimeZone, s: u64| zone.hour_and_week_day(Duration::from_secs(s));
        let utc = TimeZone::default();
        // 2026-11-27, a Friday, 20:53:20.
        assert_eq!(at(&utc, 1_795_812_800), (20, 5));
        assert_eq!(at(&utc, 0), (0, 4));
        let zone =
            TimeZone::read(&zone(&[(-100, 0), (1_795_812_800, 1), (1_795_820_000, 0)])).expect("it is well formed");
        assert_eq!(at(&zone, 1_795_812_799), (21, 5));
        assert_eq!(at(&zone, 1_795_812_800), (18, 5));
        assert_eq!(at(&zone, 1_795_820_000), (23, 5));
        assert_eq!(at(&zone, 1_795_824_000), (1, 6));
    }

    #[test]
    fn damaged_zones_are_none() {
        let whole = zone(&[(0, 1), (5, 0)]);
        // The names at the end are not needed, nor what stands between them and the last offset.
        for end in 0..whole.len() - 6 {
            assert_eq!(TimeZone::read(&whole[..end]), None, "{end}");
        }
        assert!(TimeZone::read(&whole).is_some());
        let mut other = whole;
        other[4] = 0;
        assert_eq!(TimeZone::read(&other), None, "only of old");
    }
}
