//! `ceph config`: options kept centrally and handed to daemons and clients.

use super::command::Command;
use super::context::Context;
use super::text_table::TextTable;
use super::{Answer, Reply, auth_kinds, done, refuse};
use crate::Update;
use crate::bounds::{OPTION_NAME_BYTES_MAX, OPTION_VALUE_BYTES_MAX};
use crate::options::{self, OptionFacts, value};
use serde_json::{Map, Value, json};
use std::borrow::Cow;
use std::collections::BTreeMap;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "config set {who:String} {name:String} {value:String,req=false} {force:Bool,req=false}",
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
    Command::new("config dump", "r", "print all options that are set", dump),
    Command::new("config generate-minimal-conf", "r", "print a ceph.conf that is enough for clients", minimal_conf),
];

const KINDS: &[&str] = &["mon", "mgr", "osd", "mds", "client", "auth"];

/// Parties that options are set for, in the form in which they are kept: a section, and a mask behind a `/`.
///
/// `osd/class:ssd/host:a` is `osd/host:a/class:ssd`, and `class:ssd` is `global/class:ssd`. Error: `who` names none.
pub(super) fn target(who: &str) -> Result<String, Reply> {
    let unknown = || Reply::error(Errno::EINVAL, format!("unrecognized config target '{who}'"));
    let (mut section, mut place, mut class) = ("global", None, None);
    for part in who.split('/') {
        match part.split_once(':') {
            Some(("class", name)) => class = Some(name),
            Some(there) => place = Some(there),
            None if part == "global" => section = part,
            None => {
                let kind = part.split_once('.').map_or(part, |(kind, _)| kind);
                section = Some(part).filter(|_| KINDS.contains(&kind)).ok_or_else(unknown)?;
            }
        }
    }
    let place = place.filter(|(kind, _)| !kind.is_empty()).map(|(kind, name)| format!("/{kind}:{name}"));
    let class = class.filter(|name| !name.is_empty()).map(|name| format!("/class:{name}"));
    Ok(format!("{section}{}{}", place.unwrap_or_default(), class.unwrap_or_default()))
}

/// Returns section and mask of a target such as `osd/class:ssd`.
pub(super) fn split_target(who: &str) -> (&str, &str) {
    who.split_once('/').unwrap_or((who, ""))
}

/// An option's name may have blanks for underscores.
pub(super) fn canonical(name: &str) -> String {
    name.replace(' ', "_")
}

/// Returns what is kept for `text` as a value of `option`.
pub(super) fn checked(option: &OptionFacts, text: &str) -> Result<String, Reply> {
    let kept = value::normalize(option, text)
        .map_err(|e| Reply::error(e.errno, format!("error parsing value: {}", e.sentence)))?;
    if option.is_local() {
        return refuse(Errno::EINVAL, format!("{} is special and cannot be stored by the mon", option.name));
    }
    auth_kinds::check_value(option.name, &kept)?;
    Ok(kept)
}

fn set(c: &Context<'_>) -> Answer {
    let name = canonical(c.args.word("name"));
    let text = c.args.text("value").unwrap_or_default();
    let kept = match options::find(&name) {
        Some(option) => checked(option, text)?,
        None if c.args.flag("force") => text.to_owned(),
        None => return refuse(Errno::EINVAL, format!("unrecognized config option '{name}'")),
    };
    let who = target(c.args.word("who"))?;
    check_bytes(&who, &name, &kept)?;
    auth_kinds::check_target(&who, &name)?;
    if c.state.config.get(&who, &name) == Some(kept.as_str()) {
        return done("");
    }
    let updates = vec![Update::Config { who, name, value: Some(kept) }];
    auth_kinds::check_updates(c, &updates)?;
    c.propose(updates, Reply::default())
}

/// Refuses names and values that are too long.
pub(super) fn check_bytes(who: &str, name: &str, value: &str) -> Result<(), Reply> {
    if name.is_empty() || name.len() > OPTION_NAME_BYTES_MAX || who.len() > OPTION_NAME_BYTES_MAX {
        return refuse(Errno::EINVAL, format!("names of targets and options have 1 to {OPTION_NAME_BYTES_MAX} bytes"));
    }
    if value.len() > OPTION_VALUE_BYTES_MAX {
        let (bytes, max) = (value.len(), OPTION_VALUE_BYTES_MAX);
        return refuse(Errno::E2BIG, format!("the value has {bytes} bytes, and may have {max}"));
    }
    Ok(())
}

fn remove(c: &Context<'_>) -> Answer {
    let (who, name) = (target(c.args.word("who"))?, canonical(c.args.word("name")));
    if c.state.config.get(&who, &name).is_none() {
        return done("");
    }
    let updates = vec![Update::Config { who, name, value: None }];
    auth_kinds::check_updates(c, &updates)?;
    c.propose(updates, Reply::default())
}

/// One line of a listing.
struct Row<'a> {
    who: String,
    mask: &'a str,
    name: &'a str,
    value: &'a str,
}

/// Returns Ceph's word for the people who should touch the option.
fn level(name: &str) -> &'static str {
    options::find(name).map_or("unknown", |option| option.level)
}

fn at_runtime(name: &str) -> bool {
    options::find(name).is_some_and(|option| option.at_runtime)
}

fn table<'a>(rows: impl Iterator<Item = Row<'a>>) -> String {
    let columns = [("WHO", 'l'), ("MASK", 'l'), ("LEVEL", 'l'), ("OPTION", 'l'), ("VALUE", 'l'), ("RO", 'l')];
    let mut table = TextTable::with_columns(&columns);
    for row in rows {
        let read_only = if at_runtime(row.name) { "" } else { "*" };
        let cells = [&row.who, row.mask, level(row.name), row.name, row.value, read_only];
        table.row(cells.iter().map(|cell| (*cell).to_owned()).collect());
    }
    table.render(true)
}

fn dump(c: &Context<'_>) -> Answer {
    // The whole cluster comes first, then kinds of daemons, each before its single ones, as in Ceph.
    let depth = |section: &str| if section == "global" { 0 } else { 1 + usize::from(section.contains('.')) };
    let kind = |section: &str| KINDS.iter().position(|kind| section.split('.').next() == Some(kind));
    let mut set: Vec<_> = c.state.config.iter().collect();
    set.sort_by_cached_key(|(who, name, _)| {
        let section = split_target(who).0;
        (kind(section), section.to_owned(), (*name).to_owned(), format!("{who}/{name}"))
    });
    let rows = set.iter().map(|(who, name, value)| {
        let (section, mask) = split_target(who);
        let who = format!("{}{section}", "  ".repeat(depth(section)));
        Row { who, mask, name, value }
    });
    let value = || {
        let entry = |(who, name, value): &(&str, &str, &str)| {
            let (section, mask) = split_target(who);
            let mut entry = json!({
                "section": section,
                "name": name,
                "value": value,
                "level": level(name),
                "can_update_at_runtime": at_runtime(name),
                "mask": mask,
            });
            add_mask(mask, &mut entry);
            entry
        };
        set.iter().map(entry).collect()
    };
    c.either(|| table(rows), value)
}

/// Adds the restriction that a mask makes.
fn add_mask(mask: &str, entry: &mut Value) {
    for (key, value) in mask.split('/').filter_map(|part| part.split_once(':')) {
        if key == "class" {
            entry["device_class"] = json!(value);
        } else {
            entry["location_type"] = json!(key);
            entry["location_value"] = json!(value);
        }
    }
}

/// Returns the options that apply to `who`: by name their values and the sections they come from.
pub(super) fn effective<'a>(c: &Context<'a>, who: &'a str) -> Result<BTreeMap<&'a str, (&'a str, &'a str)>, Reply> {
    let (kind, id) = who.split_once('.').unwrap_or((who, ""));
    if !KINDS.contains(&kind) {
        return refuse(Errno::EINVAL, format!("unrecognized entity '{who}'"));
    }
    let osd = (kind == "osd").then(|| super::arguments::parse_osd(id)).flatten();
    let host = osd.and_then(|osd| c.host_name(osd));
    Ok(c.state.config.effective(&c.state.config_subject(kind, id, host)))
}

/// Returns an option's value for `who`, which `effective` has where somebody set it.
pub(super) fn value_for<'a>(
    who: &str,
    option: &OptionFacts,
    effective: &BTreeMap<&str, (&'a str, &'a str)>,
) -> Cow<'a, str> {
    match effective.get(option.name) {
        Some((value, _)) => Cow::Borrowed(*value),
        None => Cow::Owned(option.default_for(!who.starts_with("client"))),
    }
}

fn get(c: &Context<'_>) -> Answer {
    let who = c.args.word("who");
    let effective = effective(c, who)?;
    if let Some(key) = c.args.text("key") {
        let key = canonical(key);
        let Some(option) = options::find(&key) else {
            return refuse(Errno::ENOENT, format!("unrecognized key '{key}'"));
        };
        if option.name == "fsid" {
            return c.text(format!("{}\n", c.state.fsid));
        }
        if option.is_local() {
            return refuse(Errno::EINVAL, format!("{key} is special and cannot be stored by the mon"));
        }
        return c.text(format!("{}\n", value_for(who, option, &effective)));
    }
    let rows = effective.iter().map(|(name, (value, who))| {
        let (section, mask) = split_target(who);
        Row { who: section.to_owned(), mask, name, value }
    });
    let value = || {
        let mut object = Map::new();
        for (name, (value, who)) in &effective {
            let (section, mask) = split_target(who);
            let mut restricted = json!({});
            add_mask(mask, &mut restricted);
            let entry = json!({
                "value": value, "section": section, "mask": restricted, "can_update_at_runtime": at_runtime(name),
            });
            object.insert((*name).to_owned(), entry);
        }
        Value::Object(object)
    };
    c.either(|| table(rows), value)
}

fn minimal_conf(c: &Context<'_>) -> Answer {
    let fsid = c.state.fsid;
    c.text(format!("# minimal ceph.conf for {fsid}\n[global]\n\tfsid = {fsid}\n\tmon_host = {}\n", c.mon_host()))
}
