//! `ceph config-key`: a small store of keys and values for any client.

use super::command::Command;
use super::context::Context;
use super::{Answer, Outcome, Reply, done, refuse};
use crate::Update;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("config-key get {key:String}", "r", "print the value of a key", get),
    Command::new(
        "config-key set {key:String} {val:String,req=false}",
        "rw",
        "set a key to the value given or to the input",
        set,
    ),
    Command::new(
        "config-key put {key:String} {val:String,req=false}",
        "rw",
        "set a key to the value given or to the input",
        set,
    ),
    Command::new("config-key rm {key:String}", "rw", "remove a key", remove),
    Command::new("config-key del {key:String}", "rw", "remove a key", remove),
    Command::new("config-key exists {key:String}", "r", "say whether a key exists", exists),
    Command::new("config-key ls", "r", "list keys", list),
    Command::new("config-key list", "r", "list keys", list),
    Command::new("config-key dump {key:String,req=false}", "r", "print keys, or those with a prefix, and values", dump),
];

/// Most bytes of a value, and of a key.
const VALUE_BYTES_MAX: usize = 64 * 1024;
const KEY_BYTES_MAX: usize = 1024;

/// Keys of the options that are set, and of their history, as Ceph has them in the same store.
const OPTIONS: &str = "config/";
const HISTORY: &str = "config-history/";

/// Returns keys and values: those of clients, and those that tell of options.
fn all(c: &Context<'_>) -> BTreeMap<String, Bytes> {
    let mut all =
        c.state.config_keys.iter().map(|(key, value)| (key.clone(), value.0.clone())).collect::<BTreeMap<_, _>>();
    let bytes = |value: &str| Bytes::copy_from_slice(value.as_bytes());
    for (who, name, value) in c.state.config.iter() {
        all.insert(format!("{OPTIONS}{who}/{name}"), bytes(value));
    }
    for version in c.state.config.history().filter(|version| version.version > 1) {
        let number = version.version;
        all.insert(format!("{HISTORY}{number}/"), Bytes::new());
        for change in &version.changes {
            for (sign, value) in [('-', &change.before), ('+', &change.after)] {
                if let Some(value) = value {
                    all.insert(format!("{HISTORY}{number}/{sign}{}", change.key()), bytes(value));
                }
            }
        }
    }
    all
}

fn find(c: &Context<'_>, key: &str) -> Option<Bytes> {
    match key.starts_with(OPTIONS) || key.starts_with(HISTORY) {
        true => all(c).remove(key),
        false => c.state.config_keys.get(key).map(|value| value.0.clone()),
    }
}

/// Refuses to write where options are kept.
fn check_writable(key: &str) -> Result<(), Reply> {
    match key.starts_with(OPTIONS) || key.starts_with(HISTORY) {
        true => refuse(Errno::EPERM, format!("'{key}' belongs to the options: `ceph config set` and `rm` change them")),
        false => Ok(()),
    }
}

fn get(c: &Context<'_>) -> Answer {
    match find(c, c.args.word("key")) {
        Some(value) => Ok(Outcome::Reply(Reply::output(value))),
        None => refuse(Errno::ENOENT, format!("key '{}' doesn't exist", c.args.word("key"))),
    }
}

fn set(c: &Context<'_>) -> Answer {
    let key = c.args.word("key");
    check_writable(key)?;
    let value = match c.args.text("val") {
        Some(value) => Bytes::copy_from_slice(value.as_bytes()),
        None => c.request.input.clone(),
    };
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        return refuse(Errno::EINVAL, format!("a key has 1 to {KEY_BYTES_MAX} bytes"));
    }
    if value.len() > VALUE_BYTES_MAX {
        return refuse(
            Errno::EFBIG,
            format!("error: entry size limited to {VALUE_BYTES_MAX} bytes, this one has {}", value.len()),
        );
    }
    let reply = Reply::status(format!("set {key}"));
    c.propose(vec![Update::ConfigKey { key: key.to_owned(), value: Some(value.into()) }], reply)
}

fn remove(c: &Context<'_>) -> Answer {
    let key = c.args.word("key");
    check_writable(key)?;
    if !c.state.config_keys.contains_key(key) {
        return done("key deleted");
    }
    c.propose(vec![Update::ConfigKey { key: key.to_owned(), value: None }], Reply::status("key deleted"))
}

fn exists(c: &Context<'_>) -> Answer {
    let key = c.args.word("key");
    match find(c, key).is_some() {
        true => done(format!("key '{key}' exists")),
        false => refuse(Errno::ENOENT, format!("key '{key}' doesn't exist")),
    }
}

fn list(c: &Context<'_>) -> Answer {
    c.value(all(c).keys().map(|key| json!(key)).collect())
}

fn dump(c: &Context<'_>) -> Answer {
    let prefix = c.args.text("key").unwrap_or_default();
    let mut object = Map::new();
    for (key, value) in all(c).into_iter().filter(|(key, _)| key.starts_with(prefix)) {
        let shown = match std::str::from_utf8(&value) {
            Ok(text) if text.chars().all(|ch| !ch.is_control() || ch.is_whitespace()) => text.to_owned(),
            _ => format!("<<< binary blob of length {} >>>", value.len()),
        };
        object.insert(key, json!(shown));
    }
    c.value(Value::Object(object))
}
