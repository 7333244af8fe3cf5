//! Points in time, and their written forms.

use serde::{Deserialize, Serialize};

/// Milliseconds of a day.
pub const DAY_MS: i64 = 86_400_000;

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// Milliseconds since 1970-01-01T00:00:00Z, leap seconds not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    pub const fn from_seconds(seconds: i64) -> UnixMillis {
        UnixMillis(seconds.saturating_mul(1000))
    }

    /// The point so many milliseconds after 1970 began, or the last one there is.
    pub fn from_unsigned(ms: u64) -> UnixMillis {
        UnixMillis(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    /// A later point, or the last one there is.
    pub const fn plus_ms(self, ms: i64) -> UnixMillis {
        UnixMillis(self.0.saturating_add(ms))
    }

    /// Midnight (UTC) at or after this point.
    pub fn midnight_at_or_after(self) -> UnixMillis {
        match self.0.rem_euclid(DAY_MS) {
            0 => self,
            passed => self.plus_ms(DAY_MS - passed),
        }
    }

    /// True for midnight (UTC).
    pub fn is_midnight(self) -> bool {
        self.0.rem_euclid(DAY_MS) == 0
    }

    /// Reads `YYYY-MM-DD`, or a date and a time of day with its distance from UTC: `YYYY-MM-DDThh:mm[:ss[.f…]]`, then
    /// `Z`, `+hh:mm` or `-hh:mm`. What lies behind milliseconds is cut off. `None` for anything else.
    pub fn parse(text: &str) -> Option<UnixMillis> {
        let mut text = Scanner(text.as_bytes());
        let year = text.digits(4)?;
        text.expect(b'-')?;
        let month = text.digits(2)?;
        text.expect(b'-')?;
        let day = text.digits(2)?;
        let date_ms = days_from_civil(year, month, day)? * DAY_MS;
        if text.0.is_empty() {
            return Some(UnixMillis(date_ms));
        }
        text.expect(b'T')?;
        let hour = text.digits(2)?;
        text.expect(b':')?;
        let minute = text.digits(2)?;
        let (second, fraction_ms) = if text.skip(b':') {
            let second = text.digits(2)?;
            (second, if text.skip(b'.') { text.fraction_ms()? } else { 0 })
        } else {
            (0, 0)
        };
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let offset_minutes = text.offset_minutes()?;
        if !text.0.is_empty() {
            return None;
        }
        Some(UnixMillis(date_ms + ((hour * 60 + minute - offset_minutes) * 60 + second) * 1000 + fraction_ms))
    }

    /// `YYYY-MM-DDThh:mm:ss.mmmZ`.
    pub fn iso8601(self) -> String {
        let (year, month, day) = self.civil();
        let (hour, minute, second) = self.time_of_day();
        let ms = self.0.rem_euclid(1000);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }

    /// `Www, DD Mmm YYYY hh:mm:ss GMT`, the form of HTTP headers.
    pub fn http_date(self) -> String {
        let (year, month, day) = self.civil();
        let (hour, minute, second) = self.time_of_day();
        let weekday = WEEKDAYS[self.0.div_euclid(DAY_MS).rem_euclid(7) as usize];
        let month = MONTHS[month as usize - 1];
        format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    }

    fn time_of_day(self) -> (i64, i64, i64) {
        let seconds = self.0.rem_euclid(DAY_MS) / 1000;
        (seconds / 3600, seconds / 60 % 60, seconds % 60)
    }

    /// Year, month (from 1) and day (from 1) of the Gregorian calendar.
    ///
    /// Years are counted from March, so that the leap day is the last of its year; 400 years have 146,097 days.
    fn civil(self) -> (i64, i64, i64) {
        let days = self.0.div_euclid(DAY_MS) + 719_468;
        let era = days.div_euclid(146_097);
        let day_of_era = days.rem_euclid(146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        (era * 400 + year_of_era + i64::from(month <= 2), month, day)
    }
}

/// Days from 1970-01-01 to a date; `None` if there is no such date.
fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_month = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=days_of_month).contains(&day) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// Text that is left to read.
struct Scanner<'a>(&'a [u8]);

impl Scanner<'_> {
    fn skip(&mut self, byte: u8) -> bool {
        let there = self.0.first() == Some(&byte);
        if there {
            self.0 = &self.0[1..];
        }
        there
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.skip(byte).then_some(())
    }

    fn digits(&mut self, count: usize) -> Option<i64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        digits
            .iter()
            .try_fold(0, |number, &digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
    }

    fn fraction_ms(&mut self) -> Option<i64> {
        let length = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.0.split_at(length);
        self.0 = rest;
        let ms = (0..3).fold(0, |ms, at| ms * 10 + i64::from(digits.get(at).map_or(0, |digit| digit - b'0')));
        (length > 0).then_some(ms)
    }

    fn offset_minutes(&mut self) -> Option<i64> {
        if self.skip(b'Z') {
            return Some(0);
        }
        let sign = if self.skip(b'-') {
            -1
        } else {
            self.expect(b'+')?;
            1
        };
        let hours = self.digits(2)?;
        self.expect(b':')?;
        let minutes = self.digits(2)?;
        (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn written_points_in_time() {
        for (text, ms) in [
            ("1970-01-01", 0),
            ("2017-09-27", 1_506_470_400_000),
            ("2024-02-29T23:59:59Z", 1_709_251_199_000),
            ("2140-01-01T00:00:00.000Z", 5_364_662_400_000),
            ("2026-11-27T23:00:00.5Z", 1_795_820_400_500),
            ("2026-11-28T01:00+02:00", 1_795_820_400_000),
            ("2026-11-27T20:30:00.123999-02:30", 1_795_820_400_123),
            ("1969-12-31T23:59:59.999Z", -1),
        ] {
            assert_eq!(UnixMillis::parse(text), Some(UnixMillis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_point_in_time() {
        for text in [
            "",
            "20200101",
            "2020-1-1",
            "2020-13-01",
            "2020-00-01",
            "2020-02-30",
            "2023-02-29",
            "1900-02-29",
            "2020-01-01T",
            "2020-01-01T00:00:00",
            "2020-01-01T24:00:00Z",
            "2020-01-01T00:60Z",
            "2020-01-01T00:00:60Z",
            "2020-01-01T00:00:00.Z",
            "2020-01-01 00:00:00Z",
            "2020-01-01T00:00:00Zx",
            "2020-01-01T00:00:00+0100",
            "+020-01-01",
            "2020-01-0a",
        ] {
            assert_eq!(UnixMillis::parse(text), None, "{text}");
        }
    }

    #[test]
    fn forms_that_are_answered() {
        let time = UnixMillis(1_795_820_400_500);
        assert_eq!(time.iso8601(), "2026-11-27T23:00:00.500Z");
        assert_eq!(time.http_date(), "Fri, 27 Nov 2026 23:00:00 GMT");
        assert_eq!(UnixMillis(0).http_date(), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(time.midnight_at_or_after().iso8601(), "2026-11-28T00:00:00.000Z");
        assert!(time.midnight_at_or_after().midnight_at_or_after().is_midnight());
    }

    proptest! {
        #[test]
        fn written_and_read_again(ms in -62_135_596_800_000i64..253_402_300_800_000) {
            prop_assert_eq!(UnixMillis::parse(&UnixMillis(ms).iso8601()), Some(UnixMillis(ms)));
        }

        #[test]
        fn no_text_ends_the_reader(text in "\\PC{0,30}") {
            let _ = UnixMillis::parse(&text);
        }
    }
}
