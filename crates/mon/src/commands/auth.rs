//! `ceph auth`: entities, their keys and capabilities.

use super::auth_checks::{caps_or_none, changed_name, check_caps, new_name, read_keyring, stored_name};
use super::command::Command;
use super::context::{Context, with_status};
use super::{Answer, Format, Outcome, Reply, auth_kinds, done, refuse};
use crate::Update;
use crate::state::{AuthEntry, MONITORS};
use auth::keyring::Entry;
use auth::{Key, KeyKind};
use serde_json::{Map, Value, json};
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
        "auth get-or-create {entity:String} {caps:String,n=N,req=false} \
         {key_type:Choices,strings=aes|aes256k,req=false}",
        "rwx",
        "print an entity's keyring, making the entity if there is none",
        get_or_create,
    ),
    Command::new(
        "auth get-or-create-key {entity:String} {caps:String,n=N,req=false} \
         {key_type:Choices,strings=aes|aes256k,req=false}",
        "rwx",
        "print an entity's key, making the entity if there is none",
        get_or_create_key,
    ),
    Command::new(
        "auth get-or-create-pending {entity:String} {key_type:Choices,strings=aes|aes256k,req=false}",
        "rwx",
        "print an entity's keyring with the key that is to replace the present one, making that key if there is none",
        get_or_create_pending,
    ),
    Command::new("auth clear-pending {entity:String}", "rwx", "forget an entity's pending key", clear_pending),
    Command::new("auth commit-pending {entity:String}", "rwx", "make an entity's pending key its key", commit_pending),
    Command::new(
        "auth rotate {entity:String} {key_type:Choices,strings=aes|aes256k,req=false}",
        "rwx",
        "replace an entity's key by a new one, and print its keyring",
        rotate,
    ),
    Command::new(
        "auth add {entity:String} {caps:String,n=N,req=false} {key_type:Choices,strings=aes|aes256k,req=false}",
        "rwx",
        "add an entity, with a key from the input or a fresh one",
        add,
    ),
    Command::new(
        "auth caps {entity:String} {caps:String,n=N,req=false}",
        "rwx",
        "replace an entity's capabilities",
        set_caps,
    ),
    Command::new("auth rm {entity:String}", "rwx", "remove an entity", remove),
    Command::new("auth del {entity:String}", "rwx", "remove an entity", remove),
    Command::new("auth import", "rwx", "add or replace the entities of the keyring in the input", import),
];

/// Reason why no command replaces the key of monitors at once: those that have not heard of it would be shut out.
const THEIRS_IN_STEPS: &str = "monitors have to know another key of 'mon.' before one of them proves it: use 'auth \
     get-or-create-pending mon.', then 'auth commit-pending mon.'";

/// Returns the place of an entity in listings: by type, then by name.
fn order(entity: &str) -> (usize, &str) {
    let kinds = ["mon", "mds", "osd", "client", "mgr"];
    let (kind, id) = entity.split_once('.').unwrap_or((entity, ""));
    (kinds.iter().position(|known| *known == kind).unwrap_or(kinds.len()), id)
}

fn sorted<'a>(c: &Context<'a>) -> Vec<(&'a str, &'a AuthEntry)> {
    let listed = c.state.auth.iter().filter(|(entity, _)| *entity != MONITORS);
    let mut entries: Vec<_> = listed.map(|(entity, entry)| (entity.as_str(), entry)).collect();
    entries.sort_by_key(|(entity, _)| order(entity));
    entries
}

fn key_text(entry: &AuthEntry) -> String {
    entry.key.to_text().to_string()
}

fn as_value(entity: &str, entry: &AuthEntry) -> Value {
    let mut fields = Map::new();
    fields.insert("entity".to_owned(), json!(entity));
    fields.insert("key".to_owned(), json!(key_text(entry)));
    if let Some(key) = &entry.pending_key {
        fields.insert("pending_key".to_owned(), json!(*key.to_text()));
    }
    fields.insert("caps".to_owned(), json!(entry.caps));
    Value::Object(fields)
}

/// Returns entity and keys as a keyring has them, and with `caps` the entity's capabilities.
fn keyring(entity: &str, entry: &AuthEntry, caps: bool) -> String {
    let mut entry = Entry::from(entry.clone());
    if !caps {
        entry.caps.clear();
    }
    entry.to_text(entity)
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
    let entity = stored_name(c)?;
    if entity.is_empty() {
        return refuse(Errno::EINVAL, "invalid command");
    }
    let Some(entry) = c.state.auth.get(entity) else {
        return refuse(Errno::ENOENT, format!("failed to find {entity} in keyring"));
    };
    let answer = c.either(|| keyring(entity, entry, true), || json!([as_value(entity, entry)]));
    with_status(answer, format!("exported keyring for {entity}"))
}

fn get_key(c: &Context<'_>) -> Answer {
    let entity = stored_name(c)?;
    let Some(entry) = c.state.auth.get(entity) else {
        return refuse(Errno::ENOENT, format!("don't have {entity}"));
    };
    c.either(|| key_text(entry), || json!({"key": key_text(entry)}))
}

fn export(c: &Context<'_>) -> Answer {
    let wanted = c.args.text("entity").filter(|entity| !entity.is_empty());
    let entries = match wanted {
        None => sorted(c),
        Some(_) => match c.state.auth.get_key_value(stored_name(c)?).filter(|(name, _)| *name != MONITORS) {
            Some((name, entry)) => vec![(name.as_str(), entry)],
            // Ceph prints the key that it does not have.
            None => return refuse(Errno::ENOENT, "no key for auth(key=AAAAAAAAAAAAAAAA)"),
        },
    };
    let status = match wanted {
        None => "exported master keyring".to_owned(),
        Some(_) => format!("export auth(key={})", key_text(entries[0].1)),
    };
    let text = || entries.iter().map(|(name, entry)| keyring(name, entry, true)).collect();
    let value = || entries.iter().map(|(name, entry)| as_value(name, entry)).collect();
    with_status(c.either(text, value), &status)
}

/// Returns a fresh key, of the kind that the command asks for or else of `usual`, if there is one.
fn new_key(c: &Context<'_>, usual: Option<KeyKind>) -> Key {
    let kind = auth_kinds::of_new_key(c, usual);
    let secret = &c.request.random[..kind.secret_bytes()];
    Key::new(kind, c.request.now, secret).expect("the length is that of the kind")
}

/// Returns an entry with a fresh key.
fn new_entry(c: &Context<'_>, caps: BTreeMap<String, String>) -> AuthEntry {
    AuthEntry { key: new_key(c, None), pending_key: None, caps }
}

/// Returns the entity's entry, and true if it has to be made.
fn found_or_new(c: &Context<'_>) -> Result<(String, AuthEntry, bool), Reply> {
    let caps = caps_or_none(c)?;
    let entity = new_name(c)?;
    let wanted = check_caps(caps)?;
    let Some(entry) = c.state.auth.get(entity) else {
        return Ok((entity.to_owned(), new_entry(c, wanted), true));
    };
    if let Some((service, _)) = wanted.iter().find(|(service, cap)| entry.caps.get(*service) != Some(cap)) {
        return refuse(Errno::EINVAL, format!("key for {entity} exists but cap {service} does not match"));
    }
    Ok((entity.to_owned(), entry.clone(), false))
}

fn get_or_create(c: &Context<'_>) -> Answer {
    let (entity, entry, new) = found_or_new(c)?;
    let answer = c.either(|| keyring(&entity, &entry, false), || json!([as_value(&entity, &entry)]));
    if new { replace(c, answer, entity, entry) } else { answer }
}

fn get_or_create_key(c: &Context<'_>) -> Answer {
    let (entity, entry, new) = found_or_new(c)?;
    let answer = c.either(|| format!("{}\n", key_text(&entry)), || json!({"key": key_text(&entry)}));
    if new { replace(c, answer, entity, entry) } else { answer }
}

/// Proposes the entry, with the output of `answer`. Error: it has a key that it had not, of a kind that is not allowed.
fn replace(c: &Context<'_>, answer: Answer, entity: String, entry: AuthEntry) -> Answer {
    check_new_keys(c, &entity, &entry)?;
    match answer? {
        Outcome::Reply(reply) => c.propose(vec![Update::Auth { entity, entry: Some(entry) }], reply),
        outcome => Ok(outcome),
    }
}

fn check_new_keys(c: &Context<'_>, entity: &str, entry: &AuthEntry) -> Result<(), Reply> {
    let is_known = |key: &Key| c.state.auth.get(entity).is_some_and(|known| known.keys().any(|known| known == key));
    let mut new = entry.keys().filter(|key| !is_known(key));
    new.try_for_each(|key| auth_kinds::check_key(c, entity, key))
}

/// Returns the name and the entry of an entity whose key is to be replaced.
fn existing<'a>(c: &'a Context<'_>) -> Result<(&'a str, &'a AuthEntry), Reply> {
    let entity = changed_name(c)?;
    let Some(entry) = c.state.auth.get(entity) else {
        return refuse(Errno::ENOENT, format!("entity {entity} does not exist"));
    };
    Ok((entity, entry))
}

/// Answers with the keys of an entity.
fn keys_of(c: &Context<'_>, entity: &str, entry: &AuthEntry) -> Answer {
    let keys = AuthEntry { caps: BTreeMap::new(), ..entry.clone() };
    c.either(|| keyring(entity, &keys, false), || json!([as_value(entity, &keys)]))
}

fn get_or_create_pending(c: &Context<'_>) -> Answer {
    let (entity, entry) = existing(c)?;
    if entry.pending_key.is_some() {
        return keys_of(c, entity, entry);
    }
    let entry = AuthEntry { pending_key: Some(new_key(c, Some(entry.key.kind()))), ..entry.clone() };
    replace(c, keys_of(c, entity, &entry), entity.to_owned(), entry)
}

fn clear_pending(c: &Context<'_>) -> Answer {
    let (entity, entry) = existing(c)?;
    if entry.pending_key.is_none() {
        return done("");
    }
    replace(c, done(""), entity.to_owned(), AuthEntry { pending_key: None, ..entry.clone() })
}

fn commit_pending(c: &Context<'_>) -> Answer {
    let (entity, entry) = existing(c)?;
    let Some(key) = entry.pending_key.clone() else { return done("no pending key") };
    let absent = c.volatile.quorum.absent(&c.state.monmap);
    if entity == MONITORS && !absent.is_empty() {
        let absent: Vec<String> = absent.iter().map(|name| format!("mon.{name}")).collect();
        let status = format!(
            "not in quorum: {}; a monitor that is away would keep the former key and not come back: start it first, or \
             remove it",
            absent.join(", ")
        );
        return refuse(Errno::EBUSY, status);
    }
    replace(c, done(""), entity.to_owned(), AuthEntry { key, pending_key: None, caps: entry.caps.clone() })
}

fn rotate(c: &Context<'_>) -> Answer {
    let (entity, entry) = existing(c)?;
    if entity == MONITORS {
        return refuse(Errno::EINVAL, THEIRS_IN_STEPS);
    }
    let key = new_key(c, Some(entry.key.kind()));
    let entry = AuthEntry { key, pending_key: None, caps: entry.caps.clone() };
    let answer = c.either(|| keyring(entity, &entry, true), || json!([as_value(entity, &entry)]));
    replace(c, answer, entity.to_owned(), entry)
}

fn add(c: &Context<'_>) -> Answer {
    let caps = caps_or_none(c)?;
    let entity = new_name(c)?;
    let mut given = (!c.request.input.is_empty()).then(|| read_keyring(c, "error decoding keyring")).transpose()?;
    let mut caps = check_caps(caps)?;
    let has_key = given.is_some();
    let key = match given.as_mut().map(|given| given.remove(entity)) {
        Some(None) => return refuse(Errno::EINVAL, format!("key for {entity} not found in provided keyring")),
        Some(Some(entry)) if !caps.is_empty() && !entry.caps.is_empty() => {
            return refuse(Errno::EINVAL, "caps cannot be specified both in keyring and in command");
        }
        Some(Some(entry)) => {
            if caps.is_empty() {
                caps = entry.caps;
            }
            entry.key
        }
        None => new_entry(c, BTreeMap::new()).key,
    };
    if let Some(known) = c.state.auth.get(entity) {
        if has_key && known.key != key {
            return refuse(Errno::EEXIST, format!("entity {entity} exists but key does not match"));
        }
        if known.caps.len() != caps.len() {
            return refuse(Errno::EINVAL, format!("entity {entity} exists but caps do not match"));
        }
        if let Some((service, _)) = caps.iter().find(|(service, cap)| known.caps.get(*service) != Some(cap)) {
            return refuse(Errno::EINVAL, format!("entity {entity} exists but cap {service} does not match"));
        }
        return done("");
    }
    let entry = AuthEntry { key, pending_key: None, caps };
    replace(c, done(format!("added key for {entity}")), entity.to_owned(), entry)
}

fn set_caps(c: &Context<'_>) -> Answer {
    let mut caps = caps_or_none(c)?;
    let entity = changed_name(c)?;
    let Some(entry) = c.state.auth.get(entity) else {
        return refuse(Errno::ENOENT, format!("couldn't find entry {entity}"));
    };
    // If two capabilities are for one service, this command takes the first one.
    caps.reverse();
    let entry = AuthEntry { caps: check_caps(caps)?, ..entry.clone() };
    replace(c, done(format!("updated caps for {entity}")), entity.to_owned(), entry)
}

fn remove(c: &Context<'_>) -> Answer {
    let entity = changed_name(c)?;
    if entity == MONITORS || !c.state.auth.contains_key(entity) {
        return done(format!("entity {entity} does not exist"));
    }
    c.propose(vec![Update::Auth { entity: entity.to_owned(), entry: None }], Reply::status("updated"))
}

fn import(c: &Context<'_>) -> Answer {
    if c.request.input.is_empty() {
        return refuse(Errno::EINVAL, "auth import: no data supplied");
    }
    let entries = read_keyring(c, "error decoding keyring ")?;
    if entries.values().any(|entry| entry.caps.is_empty()) {
        return refuse(Errno::EINVAL, "auth import: no caps supplied");
    }
    if entries.get(MONITORS).is_some_and(|given| c.state.auth.get(MONITORS).is_some_and(|known| known.key != given.key))
    {
        return refuse(Errno::EINVAL, THEIRS_IN_STEPS);
    }
    entries.iter().try_for_each(|(entity, entry)| check_new_keys(c, entity, entry))?;
    let updates = entries.into_iter().map(|(entity, entry)| Update::Auth { entity, entry: Some(entry) }).collect();
    c.propose(updates, Reply::status("imported keyring"))
}
