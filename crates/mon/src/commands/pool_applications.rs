//! `ceph osd pool application`: the purposes of pools.

use super::command::Command;
use super::context::Context;
use super::{Answer, Reply, done, refuse};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new(
        "osd pool application enable {pool:Poolname} {app:String} {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "say that a pool is for an application (cephfs, rbd, rgw or any other name)",
        enable,
    ),
    Command::new(
        "osd pool application disable {pool:Poolname} {app:String} {yes_i_really_mean_it:Bool,req=false}",
        "rw",
        "say that a pool is not for an application any more",
        disable,
    ),
    Command::new(
        "osd pool application get {pool:Poolname,req=false} {app:String,req=false} {key:String,req=false}",
        "r",
        "print what pools are for",
        get,
    ),
    Command::new(
        "osd pool application set {pool:Poolname} {app:String} {key:String} {value:String}",
        "rw",
        "set a key of an application's metadata",
        set,
    ),
    Command::new(
        "osd pool application rm {pool:Poolname} {app:String} {key:String}",
        "rw",
        "remove a key of an application's metadata",
        remove,
    ),
];

const APPLICATIONS_MAX: usize = 4;
const KEYS_MAX: usize = 64;
const BYTES_MAX: usize = 128;

fn check_text(what: &str, text: &str) -> Result<(), Reply> {
    match text.len() {
        0 => refuse(Errno::EINVAL, format!("{what} must be provided")),
        len if len > BYTES_MAX => refuse(Errno::EINVAL, format!("{what} '{text}' too long; max length {BYTES_MAX}")),
        _ => Ok(()),
    }
}

fn enable(c: &Context<'_>) -> Answer {
    let (id, name, pool) = c.pool("pool")?;
    let app = c.args.word("app");
    check_text("application name", app)?;
    let status = format!("enabled application '{app}' on pool '{name}'");
    if pool.has_application(app) {
        return done(status);
    }
    let others = pool.application_metadata.len();
    if others > 0 && !c.args.flag("yes_i_really_mean_it") {
        let sentence = format!(
            "Are you SURE? Pool '{name}' already has an enabled application; pass --yes-i-really-mean-it to proceed \
             anyway"
        );
        return refuse(Errno::EPERM, sentence);
    }
    if others >= APPLICATIONS_MAX {
        return refuse(
            Errno::EINVAL,
            format!("too many enabled applications on pool '{name}'; max {APPLICATIONS_MAX}"),
        );
    }
    c.change_pool(id, status, |pool| drop(pool.application_metadata.insert(app.to_owned(), BTreeMap::new())))
}

fn disable(c: &Context<'_>) -> Answer {
    let (id, name, pool) = c.pool("pool")?;
    let app = c.args.word("app");
    if !c.args.flag("yes_i_really_mean_it") {
        let sentence = "Are you SURE? Disabling an application within a pool might result in loss of application \
                        functionality; pass --yes-i-really-mean-it to proceed anyway";
        return refuse(Errno::EPERM, sentence);
    }
    if !pool.has_application(app) {
        return done(format!("application '{app}' is not enabled on pool '{name}'"));
    }
    let status = format!("disable application '{app}' on pool '{name}'");
    c.change_pool(id, status, |pool| drop(pool.application_metadata.remove(app)))
}

fn get(c: &Context<'_>) -> Answer {
    if !c.args.has("pool") {
        let mut object = Map::new();
        for (id, pool) in &c.map().pools {
            let name = c.map().pool_name(*id).unwrap_or_default();
            object.insert(name.to_owned(), json!(pool.application_metadata));
        }
        return c.value(Value::Object(object));
    }
    let (_, name, pool) = c.pool("pool")?;
    let Some(app) = c.args.text("app").filter(|app| !app.is_empty()) else {
        return c.value(json!(pool.application_metadata));
    };
    let Some(metadata) = pool.application_metadata.get(app) else {
        return refuse(Errno::ENOENT, format!("pool '{name}' has no application '{app}'"));
    };
    let Some(key) = c.args.text("key").filter(|key| !key.is_empty()) else {
        return c.value(json!(metadata));
    };
    match metadata.get(key) {
        Some(value) => c.text(format!("{value}\n")),
        None => refuse(Errno::ENOENT, format!("application '{app}' on pool '{name}' does not have key '{key}'")),
    }
}

fn set(c: &Context<'_>) -> Answer {
    let (id, name, pool) = c.pool("pool")?;
    let (app, key, value) = (c.args.word("app"), c.args.word("key"), c.args.word("value"));
    check_text("application name", app)?;
    let Some(metadata) = pool.application_metadata.get(app) else {
        return refuse(Errno::ENOENT, format!("application '{app}' is not enabled on pool '{name}'"));
    };
    check_text("key", key)?;
    if value.len() > BYTES_MAX {
        return refuse(Errno::EINVAL, format!("value '{value}' too long; max length {BYTES_MAX}"));
    }
    if metadata.len() >= KEYS_MAX && !metadata.contains_key(key) {
        return refuse(
            Errno::EINVAL,
            format!("too many keys set for application '{app}' on pool '{name}'; max {KEYS_MAX}"),
        );
    }
    let status = format!("set application '{app}' key '{key}' to '{value}' on pool '{name}'");
    c.change_pool(id, status, |pool| {
        pool.application_metadata.entry(app.to_owned()).or_default().insert(key.to_owned(), value.to_owned());
    })
}

fn remove(c: &Context<'_>) -> Answer {
    let (id, name, pool) = c.pool("pool")?;
    let (app, key) = (c.args.word("app"), c.args.word("key"));
    let Some(metadata) = pool.application_metadata.get(app) else {
        return refuse(Errno::ENOENT, format!("application '{app}' is not enabled on pool '{name}'"));
    };
    if !metadata.contains_key(key) {
        return done(format!("application '{app}' on pool '{name}' does not have key '{key}'"));
    }
    let status = format!("removed application '{app}' key '{key}' on pool '{name}'");
    c.change_pool(id, status, |pool| {
        if let Some(metadata) = pool.application_metadata.get_mut(app) {
            metadata.remove(key);
        }
    })
}
