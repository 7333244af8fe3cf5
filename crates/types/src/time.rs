//! Wall-clock stamps.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Seconds and nanoseconds since 1970, in the form of the protocol.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Utime {
    pub sec: u32,
    pub nsec: u32,
}

impl Utime {
    pub const ZERO: Utime = Utime { sec: 0, nsec: 0 };

    /// The stamp of a duration since 1970.
    pub fn from_unix(since_1970: Duration) -> Utime {
        Utime { sec: since_1970.as_secs() as u32, nsec: since_1970.subsec_nanos() }
    }

    /// Duration since 1970.
    pub fn to_unix(self) -> Duration {
        Duration::new(self.sec.into(), self.nsec)
    }

    pub fn is_zero(self) -> bool {
        self == Utime::ZERO
    }
}

impl From<SystemTime> for Utime {
    fn from(t: SystemTime) -> Utime {
        Utime::from_unix(t.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

/// Ceph's format of stamps in UTC: `2026-11-21T10:00:00.000000+0000`.
impl fmt::Display for Utime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, rest) = (self.sec / 86_400, self.sec % 86_400);
        let (year, month, day) = civil_from_days(days.into());
        let (hour, minute, second) = (rest / 3600, rest % 3600 / 60, rest % 60);
        let micros = self.nsec / 1000;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}+0000")
    }
}

/// Year, month (1-12) and day (1-31) of a day counted from 1970-01-01, proleptic Gregorian calendar.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    // Days are counted in 400-year eras that begin on 1 March 0000, so that the leap day is the last of its year.
    let z = days + 719_468;
    let era = z / 146_097;
    let day_of_era = z % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_print_like_ceph() {
        let check = |sec, text: &str| assert_eq!(Utime { sec, nsec: 1_500 }.to_string(), text);
        check(0, "1970-01-01T00:00:00.000001+0000");
        check(951_782_400, "2000-02-29T00:00:00.000001+0000");
        check(1_795_262_400, "2026-11-21T12:00:00.000001+0000");
    }
}
