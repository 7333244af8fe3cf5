//! Reports of crashes, kept in the key/value store under the keys that Ceph's manager uses.

use crate::MonState;
use crate::update::Update;
use serde_json::{Value, json};
use std::time::Duration;
use types::Utime;

const PREFIX: &str = "mgr/crash/crash/";
/// How long a crash raises an alarm.
pub const RECENT: Duration = Duration::from_secs(14 * 86_400);

/// One report.
#[derive(Clone, PartialEq, Debug)]
pub struct Crash {
    pub id: String,
    /// The report as it was posted; `archived` has the time from which on it raises no alarm.
    pub report: Value,
}

impl Crash {
    /// Takes a report. One without an id has an empty one.
    pub fn new(report: Value) -> Crash {
        Crash { id: report["crash_id"].as_str().unwrap_or_default().to_owned(), report }
    }

    /// Returns a field of the report that is a text, else nothing.
    pub fn text(&self, field: &str) -> &str {
        self.report[field].as_str().unwrap_or_default()
    }

    pub fn is_archived(&self) -> bool {
        self.report.get("archived").is_some()
    }

    /// Returns the time of the crash, if the report has one.
    pub fn at(&self) -> Option<Utime> {
        parse_time(self.text("timestamp"))
    }

    /// Returns the report as one that raises no alarm.
    pub fn archived(mut self, now: Utime) -> Crash {
        self.report["archived"] = json!(now.to_string());
        self
    }

    /// Returns the update that keeps it.
    pub fn update(&self) -> Update {
        let value = self.report.to_string().into_bytes();
        Update::ConfigKey { key: format!("{PREFIX}{}", self.id), value: Some(value.into()) }
    }
}

/// Returns the update that removes a report.
pub fn removal(id: &str) -> Update {
    Update::ConfigKey { key: format!("{PREFIX}{id}"), value: None }
}

/// Returns all reports, by their ids.
pub fn all(state: &MonState) -> impl Iterator<Item = Crash> + '_ {
    let keys = state.config_keys.range(PREFIX.to_owned()..).take_while(|(key, _)| key.starts_with(PREFIX));
    keys.filter_map(|(_, value)| serde_json::from_slice(value).ok().map(Crash::new))
}

/// Returns the report of this id.
pub fn find(state: &MonState, id: &str) -> Option<Crash> {
    let value = state.config_keys.get(&format!("{PREFIX}{id}"))?;
    serde_json::from_slice(value).ok().map(Crash::new)
}

/// Returns the reports that give reason for an alarm.
pub fn recent(state: &MonState, now: Utime) -> Vec<Crash> {
    let is_recent = |crash: &Crash| {
        crash.at().is_some_and(|at| now.to_unix().saturating_sub(at.to_unix()) < RECENT) && !crash.is_archived()
    };
    all(state).filter(is_recent).collect()
}

/// Reads `2026-01-02T03:04:05.000006Z`; the fraction may be missing, and a blank may stand for the `T`.
fn parse_time(text: &str) -> Option<Utime> {
    let (date, time) = text.split_once(['T', ' '])?;
    let time = time.trim_end_matches('Z').split('+').next()?;
    let mut date = date.split('-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut time = time.split(':');
    let (hour, minute) = (time.next()?.parse::<i64>().ok()?, time.next()?.parse::<i64>().ok()?);
    let last = time.next()?;
    let (second, fraction) = last.split_once('.').unwrap_or((last, "0"));
    let second = second.parse::<i64>().ok()?;
    let is_date = (1970..2100).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..61).contains(&second);
    if !is_date || !is_time || fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // Days since 1970, with years that begin in March, so that the day that is sometimes there comes last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    Some(Utime { sec: u32::try_from(seconds).ok()?, nsec: nanos })
}

#[cfg(test)]
mod tests {
    use super::parse_time;

    #[test]
    fn times_of_reports_are_read() {
        let check = |text: &str, expect: Option<(u32, u32)>| {
            assert_eq!(parse_time(text).map(|at| (at.sec, at.nsec)), expect, "{text}");
        };
        check("1970-01-01T00:00:00.000001Z", Some((0, 1000)));
        check("2026-01-02T03:04:05.000006Z", Some((1_767_323_045, 6000)));
        check("2024-02-29 12:00:00Z", Some((1_709_208_000, 0)));
        check("2026-01-02", None);
        check("2026-13-02T00:00:00Z", None);
        check("2026-01-02T00:00:00.xZ", None);
        check("9999-01-02T00:00:00Z", None);
        check("", None);
    }
}
