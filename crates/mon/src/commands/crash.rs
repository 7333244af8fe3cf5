//! `ceph crash`: reports of daemons that ended by themselves, as `ceph-crash` posts them.

use super::command::Command;
use super::context::Context;
use super::text_table::TextTable;
use super::{Answer, Outcome, Reply};
use crate::crashes::{self, Crash};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("crash ls", "r", "list crashes", |c| list(c, |_| true)),
    Command::new("crash ls-new", "r", "list crashes that nobody has archived", |c| {
        list(c, |crash| !crash.is_archived())
    }),
    Command::new("crash info {id:String}", "r", "print the report of a crash", info),
    Command::new("crash post", "rw", "keep the report of a crash, from the input", post),
    Command::new("crash rm {id:String}", "rw", "remove a crash", remove),
    Command::new("crash prune {keep:String}", "rw", "remove crashes that are older than some days", prune),
    Command::new("crash archive {id:String}", "rw", "let a crash raise no alarm any more", archive),
    Command::new("crash archive-all", "rw", "let no crash raise an alarm any more", archive_all),
    Command::new("crash stat", "r", "count crashes", stat),
    Command::new("crash json_report {hours:String}", "r", "count late crashes by their programs", json_report),
];

/// Most bytes of a report, and most reports; the oldest go first.
const REPORT_BYTES_MAX: usize = 64 << 10;
const REPORTS_MAX: usize = 500;

/// Answers as the manager does where an argument is wrong: the number is positive, and `ceph` ends with 0.
fn wrong(sentence: String) -> Answer {
    Ok(Outcome::Reply(Reply { code: Errno::EINVAL.0, status: sentence, ..Reply::default() }))
}

fn list(c: &Context<'_>, wanted: impl Fn(&Crash) -> bool) -> Answer {
    let all: Vec<Crash> = crashes::all(c.state).filter(wanted).collect();
    let text = || {
        if all.is_empty() {
            return String::new();
        }
        let columns = [("ID", 'l'), ("ENTITY", 'l'), ("NEW", 'l')];
        let mut table = TextTable::with_columns(&columns);
        for crash in &all {
            let new = if crash.is_archived() { "" } else { " *" };
            table.row(vec![crash.id.clone(), crash.text("entity_name").to_owned(), new.to_owned()]);
        }
        table.render(true)
    };
    c.either(text, || all.iter().map(|crash| crash.report.clone()).collect())
}

fn info(c: &Context<'_>) -> Answer {
    let id = c.args.word("id");
    match crashes::find(c.state, id) {
        Some(crash) => c.value(crash.report),
        None => wrong(format!("crash info: {id} not found")),
    }
}

fn post(c: &Context<'_>) -> Answer {
    let malformed = |why: &str| wrong(format!("malformed crash metadata: {why}"));
    if c.request.input.len() > REPORT_BYTES_MAX {
        return malformed(&format!("a report has {REPORT_BYTES_MAX} bytes at most"));
    }
    let report = match serde_json::from_slice::<Value>(&c.request.input) {
        Ok(Value::Object(report)) => report,
        Ok(_) => return malformed("it is no JSON object"),
        Err(e) => return malformed(&e.to_string()),
    };
    for field in ["crash_id", "timestamp"] {
        if !report.get(field).is_some_and(Value::is_string) {
            return malformed(&format!("missing '{field}' field"));
        }
    }
    let crash = Crash::new(Value::Object(report));
    if crash.id.is_empty() || crash.id.len() > 256 || crash.at().is_none() {
        return malformed("'crash_id' is too long, or 'timestamp' is no time");
    }
    if crashes::find(c.state, &crash.id).is_some() {
        return super::done("");
    }
    let mut updates = vec![crash.update()];
    let mut known: Vec<Crash> = crashes::all(c.state).collect();
    known.sort_by_key(Crash::at);
    let beyond = (known.len() + 1).saturating_sub(REPORTS_MAX);
    updates.extend(known.iter().take(beyond).map(|oldest| crashes::removal(&oldest.id)));
    c.propose(updates, Reply::default())
}

fn remove(c: &Context<'_>) -> Answer {
    let id = c.args.word("id");
    let known = crashes::find(c.state, id).map(|_| crashes::removal(id));
    c.propose(known.into_iter().collect(), Reply::default())
}

fn older<'a>(c: &Context<'a>, days: u64) -> impl Iterator<Item = Crash> + use<'a> {
    let now = c.request.now;
    let span = Duration::from_secs(days.saturating_mul(86_400));
    crashes::all(c.state)
        .filter(move |crash| crash.at().is_some_and(|at| now.to_unix().saturating_sub(at.to_unix()) > span))
}

/// Counts crashes of the last hours by the names of their programs. Its place is the status, as on a Ceph.
fn json_report(c: &Context<'_>) -> Answer {
    let Ok(hours) = c.args.word("hours").trim().parse::<u64>() else {
        return wrong("hours argument must be integer".to_owned());
    };
    let (now, span) = (c.request.now, Duration::from_secs(hours.saturating_mul(3600)));
    let is_late = |crash: &Crash| crash.at().is_some_and(|at| now.to_unix().saturating_sub(at.to_unix()) <= span);
    let mut counts = BTreeMap::<String, u64>::new();
    for crash in crashes::all(c.state).filter(is_late) {
        let program = match crash.text("process_name") {
            "" => "unknown",
            name => name,
        };
        *counts.entry(program.to_owned()).or_default() += 1;
    }
    super::done(serde_json::json!(counts).to_string())
}

fn prune(c: &Context<'_>) -> Answer {
    let Ok(days) = c.args.word("keep").trim().parse::<i64>() else {
        return wrong("keep argument must be integer".to_owned());
    };
    // A negative number keeps nothing, as on a Ceph.
    let gone = older(c, u64::try_from(days).unwrap_or(0));
    c.propose(gone.map(|crash| crashes::removal(&crash.id)).collect(), Reply::default())
}

fn archive(c: &Context<'_>) -> Answer {
    let id = c.args.word("id");
    match crashes::find(c.state, id) {
        Some(crash) if crash.is_archived() => super::done(""),
        Some(crash) => c.propose(vec![crash.archived(c.request.now).update()], Reply::default()),
        None => wrong(format!("crash info: {id} not found")),
    }
}

fn archive_all(c: &Context<'_>) -> Answer {
    let new = crashes::all(c.state).filter(|crash| !crash.is_archived());
    c.propose(new.map(|crash| crash.archived(c.request.now).update()).collect(), Reply::default())
}

fn stat(c: &Context<'_>) -> Answer {
    let mut out = format!("{} crashes recorded\n", crashes::all(c.state).count());
    for days in [1, 3, 7] {
        let old: Vec<Crash> = older(c, days).collect();
        if !old.is_empty() {
            out += &format!("{} older than {days} days old:\n", old.len());
            old.iter().for_each(|crash| out += &format!("{}\n", crash.id));
        }
    }
    c.text(out)
}
