//! `ceph config log`, `reset` and `assimilate-conf`: many options at once, and the way back.

use super::auth_kinds;
use super::command::Command;
use super::config::{check_bytes, checked, target};
use super::context::{Context, stamp};
use super::{Answer, Outcome, Reply, done, refuse};
use crate::Update;
use crate::options;
use crate::state::ConfigVersion;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("config log {num:Int,req=false}", "r", "print recent changes of options", log),
    Command::new("config reset {num:Int}", "rw", "go back to the options of an earlier version", reset),
    Command::new(
        "config assimilate-conf",
        "rw",
        "take over the options of a ceph.conf, and return those that stay there",
        assimilate,
    ),
];

/// Versions that are printed where nobody says how many.
const LOG_VERSIONS: i64 = 10;

fn log(c: &Context<'_>) -> Answer {
    let number = c.args.int("num").unwrap_or(LOG_VERSIONS);
    // A negative number means all.
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    let versions = || c.state.config.history().take(number);
    c.either(|| versions().map(version_text).collect(), || versions().map(version_value).collect())
}

fn version_text(version: &ConfigVersion) -> String {
    let mut out = format!("--- {} --- {} ---", version.version, stamp(version.stamp));
    if !version.note.is_empty() {
        out += &format!(" {} ---", version.note);
    }
    out.push('\n');
    for (key, before, after) in changes(version) {
        for (sign, value) in [('-', before), ('+', after)] {
            if let Some(value) = value {
                out += &format!("{sign} {key} = {value}\n");
            }
        }
    }
    out
}

fn version_value(version: &ConfigVersion) -> Value {
    let change = |(key, before, after): (String, Option<&str>, Option<&str>)| {
        let mut entry = json!({ "name": key });
        for (field, value) in [("previous_value", before), ("new_value", after)] {
            if let Some(value) = value {
                entry[field] = json!(value);
            }
        }
        entry
    };
    json!({
        "version": version.version,
        "timestamp": stamp(version.stamp),
        "name": version.note,
        "changes": changes(version).into_iter().map(change).collect::<Vec<_>>(),
    })
}

/// Returns the changes of a version by their keys: the values before and after.
fn changes(version: &ConfigVersion) -> Vec<(String, Option<&str>, Option<&str>)> {
    let change = |it: &'_ crate::state::ConfigChange| it.key();
    let mut all: Vec<_> =
        version.changes.iter().map(|it| (change(it), it.before.as_deref(), it.after.as_deref())).collect();
    all.sort();
    all
}

fn reset(c: &Context<'_>) -> Answer {
    let wanted = c.args.int("num").unwrap_or(-1);
    let config = &c.state.config;
    let way = u64::try_from(wanted).ok().and_then(|version| config.way_back_to(version));
    let Some(way) = way else {
        return refuse(
            Errno::EINVAL,
            format!("version {wanted} is not one of the history: `ceph config log` lists what there is to go back to"),
        );
    };
    if way.is_empty() {
        return done("");
    }
    let changes = way.into_iter().map(|(who, name, value)| Update::Config { who, name, value });
    let note = Update::ConfigNote(format!("reset to {wanted}"));
    let updates: Vec<Update> = [note].into_iter().chain(changes).collect();
    auth_kinds::check_updates(c, &updates)?;
    c.propose(updates, Reply::default())
}

/// Takes the options of a `ceph.conf` that monitors can keep. Others, and those that are set to something else here,
/// come back.
fn assimilate(c: &Context<'_>) -> Answer {
    let text = std::str::from_utf8(&c.request.input)
        .map_err(|_| Reply::error(Errno::EINVAL, "parse error: the input is not text"))?;
    let sections = conf::sections(text).map_err(|e| Reply::error(Errno::EINVAL, format!("parse error: {e}")))?;
    let mut updates = Vec::new();
    let mut left: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    let mut last_error = None;
    for (section, lines) in &sections {
        for (name, value) in lines {
            match taken(c, section, name, value) {
                Ok(update) => {
                    last_error = None;
                    updates.extend(update);
                }
                Err(reply) => {
                    last_error = reply;
                    left.entry(section).or_default().insert(name, value);
                }
            }
        }
    }
    let mut rest = String::new();
    for (section, lines) in left {
        rest += &format!("\n[{section}]\n");
        lines.iter().for_each(|(name, value)| rest += &format!("\t{name} = {value}\n"));
    }
    let reply = Reply::output(rest);
    match last_error {
        // Ceph tells of a bad value if it came last, and nothing else was taken.
        Some(code) if updates.is_empty() => Ok(Outcome::Reply(Reply { code, ..reply })),
        _ => c.propose(updates, reply),
    }
}

/// Returns the change that takes over one option, `None` if it is set like that. Error: it stays where it is; the
/// number tells that its value is bad.
fn taken(c: &Context<'_>, section: &str, name: &str, value: &str) -> Result<Option<Update>, Option<i32>> {
    let option = options::find(name).filter(|option| !option.is_local()).ok_or(None)?;
    let kept = checked(option, value).map_err(|reply| Some(reply.code))?;
    let who = target(section).map_err(|_| None)?;
    check_bytes(&who, name, &kept).map_err(|_| None)?;
    auth_kinds::check_target(&who, name).map_err(|reply| Some(reply.code))?;
    match c.state.config.get(&who, name) {
        Some(now) if now == kept => Ok(None),
        Some(_) => Err(None),
        None => {
            let update = Update::Config { who, name: name.to_owned(), value: Some(kept) };
            auth_kinds::check_updates(c, std::slice::from_ref(&update)).map_err(|reply| Some(reply.code))?;
            Ok(Some(update))
        }
    }
}
