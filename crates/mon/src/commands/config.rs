//! `ceph config`: options kept centrally and handed to daemons and clients.

use super::config_options::{self, OptionOwner};
use super::context::Context;
use super::table::Command;
use super::text_table::TextTable;
use super::{Answer, Reply, done, refuse};
use crate::Update;
use crate::bounds::{OPTION_NAME_BYTES_MAX, OPTION_VALUE_BYTES_MAX};
use crate::state::ConfigSubject;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "config set {who:String} {name:String} {value:String} {force:Bool,req=false}",
        "rw",
        "set an option for some daemons or clients",
        set,
    ),
    Command::new("config rm {who:String} {name:String}", "rw", "go back to an option's value from elsewhere", remove),
    Command::new(
        "config get {who:String} {key:String,req=false}",
        "r",
        "print the options, or one option, that apply to a daemon or client",
        get,
    ),
    Command::new(
        "config show {who:String} {key:String,req=false}",
        "r",
        "print the options that a daemon got from here",
        show,
    ),
    Command::new("config dump", "r", "print all options that are set", dump),
    Command::new("config help {key:String}", "r", "explain an option", help),
    Command::new("config ls", "r", "list the options there are", list),
    Command::new("config generate-minimal-conf", "r", "print a ceph.conf that is enough for clients", minimal_conf),
    Command::new("config log {num:Int,req=false}", "r", "print recent changes of options", log),
];

const KINDS: &[&str] = &["mon", "mgr", "osd", "mds", "client"];

/// Returns section and mask of a target such as `osd/class:ssd`.
fn split_target(who: &str) -> (&str, &str) {
    who.split_once('/').unwrap_or((who, ""))
}

/// Returns true if options can be set for `who`.
fn is_target(who: &str) -> bool {
    let (section, mask) = split_target(who);
    let kind = section.split_once('.').map_or(section, |(kind, id)| if id.is_empty() { "" } else { kind });
    let masks_ok = mask.is_empty()
        || mask.split('/').all(|part| part.split_once(':').is_some_and(|(key, v)| !key.is_empty() && !v.is_empty()));
    (section == "global" || KINDS.contains(&kind)) && masks_ok
}

fn canonical(name: &str) -> String {
    name.replace([' ', '-'], "_")
}

fn set(c: &Context<'_>) -> Answer {
    let (who, name) = (c.args.word("who"), canonical(c.args.word("name")));
    if !is_target(who) {
        return refuse(Errno::EINVAL, format!("unrecognized config target '{who}'"));
    }
    let value = c.args.word("value");
    if name.is_empty() || name.len() > OPTION_NAME_BYTES_MAX || who.len() > OPTION_NAME_BYTES_MAX {
        return refuse(Errno::EINVAL, format!("names of targets and options have 1 to {OPTION_NAME_BYTES_MAX} bytes"));
    }
    if value.len() > OPTION_VALUE_BYTES_MAX {
        let (bytes, max) = (value.len(), OPTION_VALUE_BYTES_MAX);
        return refuse(Errno::E2BIG, format!("the value has {bytes} bytes, and may have {max}"));
    }
    let value = match config_options::find(&name) {
        OptionOwner::Ours(option) => option.normalize(value).map_err(|e| Reply::error(Errno::EINVAL, e))?,
        OptionOwner::Unknown if !c.args.flag("force") => {
            return refuse(Errno::EINVAL, format!("unrecognized config option '{name}'"));
        }
        OptionOwner::Clients | OptionOwner::Unknown => value.to_owned(),
    };
    if c.state.config.get(who, &name) == Some(value.as_str()) {
        return done("");
    }
    c.propose(vec![Update::Config { who: who.to_owned(), name, value: Some(value) }], Reply::default())
}

fn remove(c: &Context<'_>) -> Answer {
    let (who, name) = (c.args.word("who"), canonical(c.args.word("name")));
    if !is_target(who) {
        return refuse(Errno::EINVAL, format!("unrecognized config target '{who}'"));
    }
    if c.state.config.get(who, &name).is_none() {
        return done("");
    }
    c.propose(vec![Update::Config { who: who.to_owned(), name, value: None }], Reply::default())
}

/// One line of a listing.
struct Row<'a> {
    who: String,
    mask: &'a str,
    name: &'a str,
    value: &'a str,
    known: OptionOwner,
}

fn table<'a>(rows: impl Iterator<Item = Row<'a>>) -> String {
    let columns = [("WHO", 'l'), ("MASK", 'l'), ("LEVEL", 'l'), ("OPTION", 'l'), ("VALUE", 'l'), ("RO", 'l')];
    let mut table = TextTable::with_columns(&columns);
    for row in rows {
        let read_only = if row.known.at_runtime() { "" } else { "*" };
        let cells = [&row.who, row.mask, row.known.level(), row.name, row.value, read_only];
        table.row(cells.iter().map(|cell| (*cell).to_owned()).collect());
    }
    table.render(true)
}

fn dump(c: &Context<'_>) -> Answer {
    // The whole cluster comes first, then kinds of daemons, then single ones, as in Ceph.
    let depth = |section: &str| if section == "global" { 0 } else { 1 + usize::from(section.contains('.')) };
    let mut options: Vec<_> = c.state.config.iter().collect();
    options.sort_by_key(|(who, name, _)| {
        let (section, mask) = split_target(who);
        (depth(section), section, *name, mask)
    });
    let rows = options.iter().map(|(who, name, value)| {
        let (section, mask) = split_target(who);
        let who = format!("{}{section}", "  ".repeat(depth(section)));
        Row { who, mask, name, value, known: config_options::find(name) }
    });
    let value = || {
        let entry = |(who, name, value): &(&str, &str, &str)| {
            let (section, mask) = split_target(who);
            let known = config_options::find(name);
            let mut entry = json!({
                "section": section,
                "name": name,
                "value": value,
                "level": known.level(),
                "can_update_at_runtime": known.at_runtime(),
                "mask": mask,
            });
            add_mask(mask, &mut entry, "location_type", "location_value");
            entry
        };
        options.iter().map(entry).collect()
    };
    c.either(|| table(rows), value)
}

/// Adds the restriction that a mask makes.
fn add_mask(mask: &str, entry: &mut Value, location_type: &str, location_value: &str) {
    for (key, value) in mask.split('/').filter_map(|part| part.split_once(':')) {
        if key == "class" {
            entry["device_class"] = json!(value);
        } else {
            entry[location_type] = json!(key);
            entry[location_value] = json!(value);
        }
    }
}

/// Returns the options that apply to `who`: by name their values and the sections they come from.
fn effective<'a>(c: &Context<'a>, who: &str) -> Result<BTreeMap<&'a str, (&'a str, &'a str)>, Reply> {
    let (kind, id) = who.split_once('.').unwrap_or((who, ""));
    if !KINDS.contains(&kind) && who != "global" {
        return refuse(Errno::EINVAL, format!("unrecognized entity '{who}'"));
    }
    let osd = (kind == "osd").then(|| super::arguments::parse_osd(id)).flatten();
    let (host, class) = match osd {
        Some(osd) => (c.host_name(osd), c.device_class(osd)),
        None => (None, None),
    };
    let subject = ConfigSubject { kind, id, host: host.as_deref(), device_class: class.as_deref() };
    Ok(c.state.config.effective(&subject))
}

fn get(c: &Context<'_>) -> Answer {
    let effective = effective(c, c.args.word("who"))?;
    if let Some(key) = c.args.text("key") {
        let key = canonical(key);
        return match (effective.get(key.as_str()), config_options::find(&key)) {
            (Some((value, _)), _) => c.text(format!("{value}\n")),
            (None, OptionOwner::Ours(option)) => c.text(format!("{}\n", option.default)),
            (None, _) => refuse(Errno::ENOENT, format!("unrecognized key '{key}'")),
        };
    }
    let rows = effective.iter().map(|(name, (value, who))| {
        let (section, mask) = split_target(who);
        Row { who: section.to_owned(), mask, name, value, known: config_options::find(name) }
    });
    let value = || {
        let mut object = Map::new();
        for (name, (value, who)) in &effective {
            let (section, mask) = split_target(who);
            let mut restricted = json!({});
            add_mask(mask, &mut restricted, "location_type", "location_value");
            let at_runtime = config_options::find(name).at_runtime();
            let entry =
                json!({"value": value, "section": section, "mask": restricted, "can_update_at_runtime": at_runtime});
            object.insert((*name).to_owned(), entry);
        }
        Value::Object(object)
    };
    c.either(|| table(rows), value)
}

/// Answers with the options that daemons were given. They have no other source of options.
fn show(c: &Context<'_>) -> Answer {
    let who = c.args.word("who");
    let effective = effective(c, who)?;
    if let Some(key) = c.args.text("key") {
        return match effective.get(canonical(key).as_str()) {
            Some((value, _)) => c.text(format!("{value}\n")),
            None => refuse(Errno::ENOENT, format!("option '{key}' is not set for {who}")),
        };
    }
    let text = || {
        let columns = [("NAME", 'l'), ("VALUE", 'l'), ("SOURCE", 'l'), ("OVERRIDES", 'l'), ("IGNORES", 'l')];
        let mut table = TextTable::with_columns(&columns);
        for (name, (value, _)) in &effective {
            let cells = [*name, *value, "mon", "", ""];
            table.row(cells.iter().map(|cell| (*cell).to_owned()).collect());
        }
        table.render(true)
    };
    let entry = |(name, (value, _)): (&&str, &(&str, &str))| json!({"name": name, "value": value, "source": "mon"});
    c.either(text, || effective.iter().map(entry).collect())
}

fn help(c: &Context<'_>) -> Answer {
    let key = canonical(c.args.word("key"));
    match config_options::find(&key) {
        OptionOwner::Ours(option) => c.either(|| option.help_text(), || option.help_value()),
        _ => refuse(Errno::ENOENT, format!("unrecognized key '{key}'")),
    }
}

fn list(c: &Context<'_>) -> Answer {
    let text = || config_options::names().map(|name| format!("{name}\n")).collect();
    c.either(text, || config_options::names().map(|name| json!(name)).collect())
}

fn minimal_conf(c: &Context<'_>) -> Answer {
    let fsid = c.state.fsid;
    c.text(format!("# minimal ceph.conf for {fsid}\n[global]\n\tfsid = {fsid}\n\tmon_host = {}\n", c.mon_host()))
}

fn log(_: &Context<'_>) -> Answer {
    refuse(Errno::EOPNOTSUPP, "the history of options is not kept; `ceph log last 100 info audit` shows past commands")
}
