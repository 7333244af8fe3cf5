//! `ceph config ls`, `help` and `show`: which options there are, and what holds for a daemon.

use super::command::Command;
use super::config::{canonical, effective, value_for};
use super::context::Context;
use super::text_table::TextTable;
use super::{Answer, Reply, refuse};
use crate::options::{self, OptionFacts, value};
use serde_json::json;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("config help {key:String}", "r", "explain an option", help),
    Command::new("config ls", "r", "list the options there are", list),
    Command::new(
        "config show {who:String} {key:String,req=false}",
        "r",
        "print the options that a daemon got from here",
        |c| show(c, false),
    ),
    Command::new(
        "config show-with-defaults {who:String}",
        "r",
        "print all options of a daemon, with their defaults",
        |c| show(c, true),
    ),
];

fn list(c: &Context<'_>) -> Answer {
    let names = || options::all().filter(|option| option.listed).map(|option| option.name);
    c.either(|| names().map(|name| format!("{name}\n")).collect(), || names().map(|name| json!(name)).collect())
}

fn help(c: &Context<'_>) -> Answer {
    let key = canonical(c.args.word("key"));
    match options::find(&key) {
        Some(option) => c.either(|| help_text(option), || option.describe()),
        None => refuse(Errno::ENOENT, format!("unrecognized key '{key}'")),
    }
}

fn help_text(option: &OptionFacts) -> String {
    let written = |text: &str| value::written(option.kind, text);
    let (name, kind, level) = (option.name, option.kind.word(), option.level);
    let mut out = format!("{name} - {}\n  ({kind}, {level})\n", options::use_of(name).effect());
    let default = option.default_for(false);
    match option.daemon_default {
        Some(_) => {
            out += &format!("  Default (non-daemon): {default}\n");
            out += &format!("  Default (daemon): {}\n", option.default_for(true));
        }
        None => out += &format!("  Default: {default}\n"),
    }
    if option.min.is_some() || option.max.is_some() {
        let bound = |text: Option<&'static str>| text.map(written).unwrap_or_default();
        out += &format!("  Minimum: {}\n  Maximum: {}\n", bound(option.min), bound(option.max));
    }
    if !option.choices.is_empty() {
        out += &format!("  Possible values:  {}\n", option.choices.join(" "));
    }
    out += &format!("  Can update at runtime: {}\n", option.at_runtime);
    for (heading, list) in [("Services", &option.services), ("Tags", &option.tags), ("See also", &option.see_also)] {
        if !list.is_empty() {
            out += &format!("  {heading}: [{}]\n", list.join(","));
        }
    }
    out
}

/// Refuses a name that no daemon of the cluster has.
fn check_daemon(c: &Context<'_>, who: &str) -> Result<(), Reply> {
    let Some((kind, id)) = who.split_once('.') else {
        return refuse(Errno::EINVAL, "invalid daemon name: use <type>.<id>");
    };
    let is_there = match kind {
        "osd" => super::arguments::parse_osd(id).is_some_and(|osd| c.map().exists(osd)),
        "mon" => c.state.monmap.mons.contains_key(id),
        "mgr" => c.state.manager_map().active_name == id,
        _ => false,
    };
    if is_there { Ok(()) } else { refuse(Errno::ENOENT, format!("no config state for daemon {who}")) }
}

/// Answers with the options that a daemon was given. `defaults`: those that nobody set as well.
fn show(c: &Context<'_>, defaults: bool) -> Answer {
    let who = c.args.word("who");
    check_daemon(c, who)?;
    let effective = effective(c, who)?;
    if !defaults && c.args.has("key") {
        let key = c.args.word("key");
        return match (options::find(key), effective.get(key)) {
            (Some(option), _) => c.text(format!("{}\n", value_for(who, option, &effective))),
            (None, Some((value, _))) => c.text(format!("{value}\n")),
            (None, None) => refuse(Errno::ENOENT, format!("there is no option '{key}'")),
        };
    }
    let mut rows: Vec<(&str, String, &str)> =
        effective.iter().map(|(name, (value, _))| (*name, (*value).to_owned(), "mon")).collect();
    if defaults {
        // Options of the manager's modules are not those of a daemon.
        let unset = options::all().filter(|o| !effective.contains_key(o.name) && !o.name.starts_with("mgr/"));
        rows.extend(unset.map(|option| (option.name, option.default_for(true), "default")));
        rows.sort();
    }
    let text = || {
        let columns = [("NAME", 'l'), ("VALUE", 'l'), ("SOURCE", 'l'), ("OVERRIDES", 'l'), ("IGNORES", 'l')];
        let mut table = TextTable::with_columns(&columns);
        for (name, value, source) in &rows {
            table.row([*name, value, *source, "", ""].iter().map(|cell| (*cell).to_owned()).collect());
        }
        table.render(true)
    };
    let entry = |(name, value, source): &(&str, String, &str)| json!({"name": name, "value": value, "source": source});
    c.either(text, || rows.iter().map(entry).collect())
}
