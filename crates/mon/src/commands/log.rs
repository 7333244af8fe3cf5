//! `ceph log`: the cluster log.

use super::command::Command;
use super::context::{Context, addrs_value};
use super::{Answer, Reply};
use crate::Update;
use crate::bounds::{LOG_LINE_BYTES_MAX, NAME_BYTES_MAX, cut};
use crate::state::{LogEntry, LogPriority};
use serde_json::{Value, json};
use types::EntityName;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("log {logtext:String,n=N}", "rw", "add a line to the cluster log", add),
    Command::new(
        "log last {num:Int,range=1,req=false} {level:Choices,req=false,strings=debug|info|sec|warn|error} \
         {channel:Choices,req=false,strings=*|cluster|audit|cephadm}",
        "r",
        "print the last lines of the cluster log",
        last,
    ),
];

/// Lines that are printed, unless the command gives another number.
const LINES: i64 = 20;

fn add(c: &Context<'_>) -> Answer {
    let from: EntityName = c.request.from;
    let mut message = c.args.texts("logtext").join(" ");
    cut(&mut message, LOG_LINE_BYTES_MAX);
    let mut name = c.request.who.name.clone();
    cut(&mut name.id, NAME_BYTES_MAX);
    let entry = LogEntry {
        name,
        rank: from,
        stamp: c.request.now,
        priority: LogPriority::INFO,
        channel: "cluster".to_owned(),
        message,
        ..LogEntry::default()
    };
    c.propose(vec![Update::Log(vec![entry])], Reply::default())
}

fn last(c: &Context<'_>) -> Answer {
    let num = usize::try_from(c.args.int("num").unwrap_or(LINES)).unwrap_or(usize::MAX);
    let least = match c.args.text("level").unwrap_or("info") {
        "debug" => LogPriority::DEBUG,
        "sec" => LogPriority::SECURITY,
        "warn" => LogPriority::WARN,
        "error" => LogPriority::ERROR,
        _ => LogPriority::INFO,
    };
    let channel = c.args.text("channel").unwrap_or("cluster");
    let wanted = |entry: &&LogEntry| entry.priority >= least && (channel == "*" || entry.channel == channel);
    let mut entries: Vec<&LogEntry> = c.state.log.entries.iter().rev().filter(wanted).take(num).collect();
    entries.reverse();
    c.either(
        || entries.iter().map(|entry| line(entry) + "\n").collect(),
        || entries.iter().map(|entry| value(entry)).collect(),
    )
}

/// Returns `2026-11-21T12:04:37.481840+0000 mon.a (mon.0) 95 : cluster [WRN] ...`.
fn line(entry: &LogEntry) -> String {
    let LogEntry { name, rank, stamp, seq, channel, message, .. } = entry;
    format!("{stamp} {name} ({rank}) {seq} : {channel} {} {message}", tag(entry.priority))
}

fn tag(priority: LogPriority) -> &'static str {
    match priority {
        LogPriority::DEBUG => "[DBG]",
        LogPriority::INFO => "[INF]",
        LogPriority::SECURITY => "[SEC]",
        LogPriority::WARN => "[WRN]",
        LogPriority::ERROR => "[ERR]",
        _ => "[???]",
    }
}

fn value(entry: &LogEntry) -> Value {
    json!({
        "name": entry.name.to_string(),
        "rank": entry.rank.to_string(),
        "addrs": addrs_value(&entry.addrs),
        "stamp": entry.stamp.to_string(),
        "seq": entry.seq,
        "channel": entry.channel,
        "priority": tag(entry.priority),
        "message": entry.message,
    })
}
