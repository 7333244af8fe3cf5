//! `ceph health`: alarms.

use super::command::Command;
use super::context::{Context, stamp};
use super::{Answer, Reply, done, refuse, units};
use crate::Update;
use crate::health::{self, HealthReport};
use crate::state::HealthMute;
use serde_json::{Map, Value, json};
use std::time::Duration;
use types::{Errno, Utime};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("health {detail:Choices,req=false,strings=detail}", "r", "print whether the cluster is well", print),
    Command::new(
        "health mute {code:String} {ttl:String,req=false} {sticky:Bool,req=false}",
        "w",
        "hide an alarm, for a time such as 4h or until it ends",
        mute,
    ),
    Command::new("health unmute {code:String,req=false}", "w", "show an alarm again, or all", unmute),
];

pub(super) fn report(c: &Context<'_>) -> HealthReport {
    health::evaluate(c.state, c.volatile)
}

/// Returns the time for which an alarm stays muted, as `59m`. `None` if the mute does not end by itself.
fn time_left(c: &Context<'_>, code: &str) -> Option<String> {
    let expires = c.state.health_mutes.get(code)?.expires?;
    Some(units::age(expires.to_unix().saturating_sub(c.request.now.to_unix())))
}

/// Returns `(muted: CODE(59m) CODE)`, if any alarm is muted.
pub(super) fn muted_text(c: &Context<'_>, report: &HealthReport) -> Option<String> {
    let muted: Vec<String> = report
        .checks
        .keys()
        .filter(|code| report.is_muted(code))
        .map(|code| match time_left(c, code) {
            Some(left) => format!("{code}({left})"),
            None => (*code).to_owned(),
        })
        .collect();
    (!muted.is_empty()).then(|| format!("(muted: {})", muted.join(" ")))
}

fn print(c: &Context<'_>) -> Answer {
    let report = report(c);
    let detail = c.args.has("detail");
    let text = || {
        let heard = report.checks.iter().filter(|(code, _)| !report.is_muted(code));
        let mut parts: Vec<String> = heard.map(|(_, check)| check.summary.clone()).collect();
        parts.extend(muted_text(c, &report));
        let mut out = report.status().word().to_owned();
        if !parts.is_empty() {
            out += &format!(" {}", parts.join("; "));
        }
        out.push('\n');
        if detail {
            out += &detail_text(c, &report);
        }
        out
    };
    c.either(text, || value(c, &report, detail))
}

fn detail_text(c: &Context<'_>, report: &HealthReport) -> String {
    let mut out = String::new();
    for (code, check) in &report.checks {
        if report.is_muted(code) {
            let left = time_left(c, code).map(|left| format!(" ttl {left}")).unwrap_or_default();
            out += &format!("(MUTED{left}) ");
        }
        out += &format!("{} {code}: {}\n", check.severity.tag(), check.summary);
        for line in &check.detail {
            out += &format!("    {line}\n");
        }
    }
    out
}

/// Returns the alarms as values.
pub(super) fn value(c: &Context<'_>, report: &HealthReport, detail: bool) -> Value {
    let mut checks = Map::new();
    for (code, check) in &report.checks {
        let mut entry = Map::new();
        entry.insert("severity".to_owned(), json!(check.severity.word()));
        entry.insert("summary".to_owned(), json!({"message": check.summary, "count": check.count}));
        if detail {
            let lines: Vec<Value> = check.detail.iter().map(|line| json!({"message": line})).collect();
            entry.insert("detail".to_owned(), json!(lines));
        }
        entry.insert("muted".to_owned(), json!(report.is_muted(code)));
        checks.insert((*code).to_owned(), Value::Object(entry));
    }
    let mutes = c.state.health_mutes.iter().map(|(code, mute)| {
        let mut entry = Map::new();
        entry.insert("code".to_owned(), json!(code));
        if let Some(expires) = mute.expires {
            entry.insert("ttl".to_owned(), json!(stamp(expires)));
        }
        entry.insert("sticky".to_owned(), json!(mute.sticky));
        entry.insert("summary".to_owned(), json!(mute.summary));
        entry.insert("count".to_owned(), json!(mute.count));
        Value::Object(entry)
    });
    json!({"status": report.status().word(), "checks": checks, "mutes": mutes.collect::<Vec<_>>()})
}

/// Parses a time such as `90s`, `4h`, `2d`; a bare number is seconds.
fn parse_time(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim() {
        "" | "s" | "sec" | "second" | "seconds" => 1,
        "m" | "min" | "minute" | "minutes" => 60,
        "h" | "hr" | "hour" | "hours" => 3600,
        "d" | "day" | "days" => 86_400,
        "w" | "week" | "weeks" => 7 * 86_400,
        "mo" | "month" | "months" => 30 * 86_400,
        "y" | "year" | "years" => 365 * 86_400,
        _ => return None,
    };
    let total = number.parse::<u64>().ok()?.checked_mul(seconds)?;
    // A stamp has 32 bits of seconds.
    (total < u64::from(u32::MAX / 2)).then(|| Duration::from_secs(total))
}

fn mute(c: &Context<'_>) -> Answer {
    let code = c.args.word("code");
    let sticky = c.args.flag("sticky");
    let expires = match c.args.text("ttl") {
        None => None,
        Some(text) => match parse_time(text) {
            Some(span) => Some(Utime::from_unix(c.request.now.to_unix() + span)),
            None => return refuse(Errno::EINVAL, format!("not a valid duration: {text}")),
        },
    };
    let report = report(c);
    let (summary, count) = match report.checks.get(code) {
        Some(check) => (check.summary.clone(), check.count),
        None if sticky => (String::new(), 0),
        None => return refuse(Errno::ENOENT, format!("health alert {code} is not currently raised")),
    };
    let mute = HealthMute { expires, sticky, summary, count };
    c.propose(vec![Update::HealthMute { code: code.to_owned(), mute: Some(mute) }], Reply::default())
}

fn unmute(c: &Context<'_>) -> Answer {
    let wanted = c.args.text("code");
    let codes = c.state.health_mutes.keys().filter(|code| wanted.is_none_or(|wanted| wanted == *code));
    let updates: Vec<Update> = codes.map(|code| Update::HealthMute { code: code.clone(), mute: None }).collect();
    if updates.is_empty() { done("") } else { c.propose(updates, Reply::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse_time("4h"), Some(Duration::from_secs(14_400)));
        assert_eq!(parse_time("90"), Some(Duration::from_secs(90)));
        for bad in ["", "h", "4x", "99999999999999999999y", "999999999999w"] {
            assert_eq!(parse_time(bad), None, "{bad}");
        }
    }
}
