//! `ceph config ls`, `help` and `show`: which options there are, and what holds for a daemon.

use super::command::Command;
use super::config::{canonical, effective};
use super::context::Context;
use super::text_table::TextTable;
use super::{Answer, Reply, refuse};
use crate::options::{self, OptionFacts, value};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use types::Errno;
use wire::nacre::mon::{OptionReport, option_source};

pub(super) const COMMANDS: &[Command] = &[
    Command::new("config help {key:String}", "r", "explain an option", help),
    Command::new("config ls", "r", "list the options there are", list),
    Command::new(
        "config show {who:String} {key:String,req=false}",
        "r",
        "print the options of a daemon that have values of their own",
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

/// An option of a daemon: the values that it was given, and the one in force.
struct ShownOption<'a> {
    name: &'a str,
    value: String,
    source: &'static str,
    /// Weaker values, the weakest first, with their sources.
    overrides: Vec<(&'static str, &'a str)>,
    ignores: &'static str,
}

impl<'a> ShownOption<'a> {
    /// Returns the row of an option that nobody gave a value, with its default.
    fn unset(option: &'static OptionFacts) -> ShownOption<'a> {
        ShownOption {
            name: option.name,
            value: option.default_for(true),
            source: option_source::name(option_source::DEFAULT),
            overrides: Vec::new(),
            ignores: "",
        }
    }

    fn told(report: &'a OptionReport) -> Option<ShownOption<'a>> {
        let ignores = if report.is_ignored { option_source::name(option_source::MON) } else { "" };
        let Some(((source, value), weaker)) = report.values.split_last() else {
            return options::find(&report.name).map(|option| ShownOption { ignores, ..ShownOption::unset(option) });
        };
        let overrides = weaker.iter().map(|(source, text)| (option_source::name(*source), text.as_str()));
        Some(ShownOption {
            name: &report.name,
            value: value.clone(),
            source: option_source::name(*source),
            overrides: overrides.collect(),
            ignores,
        })
    }

    fn cells(&self) -> Vec<String> {
        let weaker = self.overrides.iter().rev().map(|(source, value)| format!("{source}[{value}]"));
        let overrides = weaker.collect::<Vec<_>>().join(",");
        vec![self.name.to_owned(), self.value.clone(), self.source.to_owned(), overrides, self.ignores.to_owned()]
    }

    fn value(&self) -> Value {
        let mut object = json!({"name": self.name, "value": self.value, "source": self.source});
        if !self.overrides.is_empty() {
            let weaker = self.overrides.iter().map(|(source, value)| json!({"source": source, "value": value}));
            object["overrides"] = weaker.collect();
        }
        if !self.ignores.is_empty() {
            object["ignores"] = json!(self.ignores);
        }
        object
    }
}

/// Answers with the options of a daemon as it told them, or, of one that has not told anything yet, as they were given
/// to it. `defaults`: those that nobody set as well.
fn show(c: &Context<'_>, defaults: bool) -> Answer {
    let who = c.args.word("who");
    check_daemon(c, who)?;
    let mut rows: Vec<ShownOption<'_>> = match c.volatile.options.get(who) {
        Some(told) => told.iter().filter_map(ShownOption::told).collect(),
        None => {
            let given = effective(c, who)?.into_iter().map(|(name, (value, _))| ShownOption {
                name,
                value: value.to_owned(),
                source: option_source::name(option_source::MON),
                overrides: Vec::new(),
                ignores: "",
            });
            given.collect()
        }
    };
    if !defaults && c.args.has("key") {
        let key = c.args.word("key");
        let told = rows.iter().find(|row| row.name == key).map(|row| row.value.clone());
        return match told.or_else(|| options::find(key).map(|option| option.default_for(true))) {
            Some(value) => c.text(format!("{value}\n")),
            None => refuse(Errno::ENOENT, format!("there is no option '{key}'")),
        };
    }
    if defaults {
        let set: BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
        // Options of the manager's modules are not those of a daemon.
        let unset = options::all().filter(|o| !set.contains(o.name) && !o.name.starts_with("mgr/"));
        rows.extend(unset.map(ShownOption::unset));
        rows.sort_by_key(|row| row.name);
    } else {
        // An own default is in force all the same, as others are.
        rows.retain(|row| row.source != option_source::name(option_source::DEFAULT) || !row.ignores.is_empty());
    }
    let text = || {
        let columns = [("NAME", 'l'), ("VALUE", 'l'), ("SOURCE", 'l'), ("OVERRIDES", 'l'), ("IGNORES", 'l')];
        let mut table = TextTable::with_columns(&columns);
        rows.iter().for_each(|row| table.row(row.cells()));
        table.render(true)
    };
    c.either(text, || rows.iter().map(ShownOption::value).collect())
}
