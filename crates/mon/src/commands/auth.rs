//! `ceph auth`: entities, their keys and capabilities.

use super::command::Command;
use super::context::{Context, with_status};
use super::keyring::{self, key_text};
use super::{Answer, Format, Outcome, Reply, done, refuse};
use crate::Update;
use crate::state::AuthEntry;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("auth ls", "rx", "list entities with keys and capabilities", list),
    Command::new("auth list", "rx", "list entities with keys and capabilities", list),
    Command::new("auth get {entity:String}", "rx", "print an entity's keyring with capabilities", get),
    Command::new("auth get-key {entity:String}", "rx", "print an entity's key", get_key),
    Command::new("auth print-key {entity:String}", "rx", "print an entity's key", get_key),
    Command::new("auth print_key {entity:String}", "rx", "print an entity's key", get_key),
    Command::new("auth export {entity:String,req=false}", "rx", "print the keyring of one entity or of all", export),
    Command::new(
        "auth get-or-create {entity:String} {caps:String,n=N,req=false}",
        "rwx",
        "print an entity's keyring, making the entity if there is none",
        get_or_create,
    ),
    Command::new(
        "auth get-or-create-key {entity:String} {caps:String,n=N,req=false}",
        "rwx",
        "print an entity's key, making the entity if there is none",
        get_or_create_key,
    ),
    Command::new(
        "auth add {entity:String} {caps:String,n=N,req=false}",
        "rwx",
        "add an entity, with a key from the input or a fresh one",
        add,
    ),
    Command::new("auth caps {entity:String} {caps:String,n=N}", "rwx", "replace an entity's capabilities", set_caps),
    Command::new("auth rm {entity:String}", "rwx", "remove an entity", remove),
    Command::new("auth del {entity:String}", "rwx", "remove an entity", remove),
    Command::new("auth import", "rwx", "add or replace the entities of the keyring in the input", import),
];

/// Services that have capabilities.
const SERVICES: &[&str] = &["mon", "osd", "mds", "mgr"];

/// Returns the place of an entity in listings: by type, then by name.
fn order(entity: &str) -> (usize, &str) {
    let kinds = ["mon", "mds", "osd", "client", "mgr"];
    let (kind, id) = entity.split_once('.').unwrap_or((entity, ""));
    (kinds.iter().position(|known| *known == kind).unwrap_or(kinds.len()), id)
}

fn is_entity(name: &str) -> bool {
    name.split_once('.').is_some_and(|(kind, _)| ["mon", "mds", "osd", "client", "mgr"].contains(&kind))
        && !name.contains(['[', ']', '\n', '"'])
}

fn sorted<'a>(c: &Context<'a>) -> Vec<(&'a str, &'a AuthEntry)> {
    let mut entries: Vec<_> = c.state.auth.iter().map(|(entity, entry)| (entity.as_str(), entry)).collect();
    entries.sort_by_key(|(entity, _)| order(entity));
    entries
}

fn as_value(entity: &str, entry: &AuthEntry) -> Value {
    json!({"entity": entity, "key": key_text(entry), "caps": entry.caps})
}

fn list(c: &Context<'_>) -> Answer {
    let text = || {
        let mut out = String::new();
        for (entity, entry) in sorted(c) {
            writeln!(out, "{entity}\n\tkey: {}", key_text(entry)).expect("writing to a string");
            for (service, cap) in &entry.caps {
                writeln!(out, "\tcaps: [{service}] {cap}").expect("writing to a string");
            }
        }
        out
    };
    let value =
        || json!({"auth_dump": sorted(c).iter().map(|(name, entry)| as_value(name, entry)).collect::<Vec<_>>()});
    let status = if c.format == Format::Plain { "installed auth entries:\n" } else { "" };
    with_status(c.either(text, value), status)
}

fn get(c: &Context<'_>) -> Answer {
    let entity = c.args.word("entity");
    if !is_entity(entity) {
        return refuse(Errno::EINVAL, format!("invalid entity_auth {entity}"));
    }
    let Some(entry) = c.state.auth.get(entity) else {
        return refuse(Errno::ENOENT, format!("failed to find {entity} in keyring"));
    };
    let answer = c.either(|| keyring::write(entity, entry, true), || json!([as_value(entity, entry)]));
    with_status(answer, format!("exported keyring for {entity}"))
}

fn get_key(c: &Context<'_>) -> Answer {
    let entity = c.args.word("entity");
    let Some(entry) = c.state.auth.get(entity) else {
        return refuse(Errno::ENOENT, format!("don't have {entity}"));
    };
    c.either(|| key_text(entry), || json!({"key": key_text(entry)}))
}

fn export(c: &Context<'_>) -> Answer {
    let entries = match c.args.text("entity") {
        None => sorted(c),
        Some(entity) => match c.state.auth.get_key_value(entity) {
            Some((name, entry)) => vec![(name.as_str(), entry)],
            None => return refuse(Errno::ENOENT, format!("no key for {entity}")),
        },
    };
    let status = match c.args.text("entity") {
        None => "exported master keyring".to_owned(),
        Some(_) => format!("export auth(key={})", key_text(entries[0].1)),
    };
    let text = || entries.iter().map(|(name, entry)| keyring::write(name, entry, true)).collect();
    let value = || entries.iter().map(|(name, entry)| as_value(name, entry)).collect();
    with_status(c.either(text, value), &status)
}

/// Returns the capabilities among the arguments: service, capability, service, capability ...
fn caps(c: &Context<'_>) -> Result<BTreeMap<String, String>, Reply> {
    let words = c.args.texts("caps");
    if !words.len().is_multiple_of(2) {
        return refuse(Errno::EINVAL, "bad capabilities request; odd number of arguments");
    }
    let pairs = words.chunks_exact(2).map(|pair| {
        check_cap(pair[0], pair[1])?;
        Ok((pair[0].to_owned(), pair[1].to_owned()))
    });
    pairs.collect()
}

/// Checks that each clause of a capability allows something or names a profile.
fn check_cap(service: &str, cap: &str) -> Result<(), Reply> {
    if !SERVICES.contains(&service) {
        return refuse(Errno::EINVAL, format!("unknown cap type '{service}'"));
    }
    for clause in cap.split([',', ';']) {
        let first = clause.split([' ', '=']).find(|word| !word.is_empty());
        if !matches!(first, Some("allow" | "profile")) || cap.contains(['\n', '"']) {
            let stopped = clause.trim_start();
            let sentence = format!("{service} capability parse failed, stopped at '{stopped}' of '{cap}'");
            return refuse(Errno::EINVAL, sentence);
        }
    }
    Ok(())
}

/// Returns an entry with a fresh key.
fn new_entry(c: &Context<'_>, caps: BTreeMap<String, String>) -> AuthEntry {
    let secret = c.request.random[..16].try_into().expect("32 bytes hold a key");
    AuthEntry { created: c.request.now, secret, caps }
}

/// Returns the entity's entry, and true if it has to be made.
fn found_or_new(c: &Context<'_>) -> Result<(String, AuthEntry, bool), Reply> {
    let entity = c.args.word("entity");
    if !is_entity(entity) {
        return refuse(Errno::EINVAL, "bad entity name");
    }
    let caps = caps(c)?;
    let Some(entry) = c.state.auth.get(entity) else {
        return Ok((entity.to_owned(), new_entry(c, caps), true));
    };
    if let Some((service, _)) = caps.iter().find(|(service, cap)| entry.caps.get(*service) != Some(cap)) {
        return refuse(Errno::EINVAL, format!("key for {entity} exists but cap {service} does not match"));
    }
    Ok((entity.to_owned(), entry.clone(), false))
}

fn get_or_create(c: &Context<'_>) -> Answer {
    let (entity, entry, new) = found_or_new(c)?;
    let answer = c.either(|| keyring::write(&entity, &entry, false), || json!([as_value(&entity, &entry)]));
    make_if_new(c, answer, entity, entry, new)
}

fn get_or_create_key(c: &Context<'_>) -> Answer {
    let (entity, entry, new) = found_or_new(c)?;
    let answer = c.either(|| format!("{}\n", key_text(&entry)), || json!({"key": key_text(&entry)}));
    make_if_new(c, answer, entity, entry, new)
}

fn make_if_new(c: &Context<'_>, answer: Answer, entity: String, entry: AuthEntry, new: bool) -> Answer {
    match answer? {
        Outcome::Reply(reply) if new => c.propose(vec![Update::Auth { entity, entry: Some(entry) }], reply),
        outcome => Ok(outcome),
    }
}

fn add(c: &Context<'_>) -> Answer {
    let entity = c.args.word("entity");
    if !is_entity(entity) {
        return refuse(Errno::EINVAL, "bad entity name");
    }
    let mut caps = caps(c)?;
    let mut wanted = new_entry(c, BTreeMap::new());
    if !c.request.input.is_empty() {
        let mut given = read_keyring(c)?;
        let Some(entry) = given.remove(entity) else {
            return refuse(Errno::EINVAL, format!("the keyring has no entry for {entity}"));
        };
        if caps.is_empty() {
            caps = entry.caps.clone();
        }
        wanted = entry;
    }
    wanted.caps = caps;
    if let Some(entry) = c.state.auth.get(entity) {
        if let Some((service, _)) = wanted.caps.iter().find(|(service, cap)| entry.caps.get(*service) != Some(cap)) {
            return refuse(Errno::EINVAL, format!("entity {entity} exists but cap {service} does not match"));
        }
        if !c.request.input.is_empty() && entry.secret != wanted.secret {
            return refuse(Errno::EINVAL, format!("entity {entity} exists but key does not match"));
        }
        return done("");
    }
    let reply = Reply::status(format!("added key for {entity}"));
    c.propose(vec![Update::Auth { entity: entity.to_owned(), entry: Some(wanted) }], reply)
}

fn set_caps(c: &Context<'_>) -> Answer {
    let entity = c.args.word("entity");
    let Some(entry) = c.state.auth.get(entity) else {
        return refuse(Errno::ENOENT, format!("couldn't find entry {entity}"));
    };
    let entry = AuthEntry { caps: caps(c)?, ..entry.clone() };
    let reply = Reply::status(format!("updated caps for {entity}"));
    c.propose(vec![Update::Auth { entity: entity.to_owned(), entry: Some(entry) }], reply)
}

fn remove(c: &Context<'_>) -> Answer {
    let entity = c.args.word("entity");
    if !c.state.auth.contains_key(entity) {
        return done(format!("entity {entity} does not exist"));
    }
    c.propose(vec![Update::Auth { entity: entity.to_owned(), entry: None }], Reply::status("updated"))
}

fn import(c: &Context<'_>) -> Answer {
    if c.request.input.is_empty() {
        return refuse(Errno::EINVAL, "auth import: no data supplied");
    }
    let entries = read_keyring(c)?;
    let updates = entries.into_iter().map(|(entity, entry)| Update::Auth { entity, entry: Some(entry) }).collect();
    c.propose(updates, Reply::status("imported keyring"))
}

/// Returns the keyring in the command's input, its names and capabilities checked.
fn read_keyring(c: &Context<'_>) -> Result<BTreeMap<String, AuthEntry>, Reply> {
    let entries = keyring::read(&c.request.input).map_err(|e| Reply::error(Errno::EINVAL, e.to_string()))?;
    for (entity, entry) in &entries {
        if !is_entity(entity) {
            return refuse(Errno::EINVAL, format!("bad entity name '{entity}'"));
        }
        for (service, cap) in &entry.caps {
            check_cap(service, cap)?;
        }
    }
    Ok(entries)
}
