//! `ceph osd erasure-code-profile`: kept and checked; pools cannot use them yet.

use super::context::Context;
use super::table::Command;
use super::{Answer, done, refuse};
use serde_json::json;
use std::collections::BTreeMap;
use types::Errno;

pub(super) const COMMANDS: &[Command] = &[
    Command::new("osd erasure-code-profile ls", "r", "list erasure code profiles", list),
    Command::new("osd erasure-code-profile get {name:String}", "r", "print an erasure code profile", get),
    Command::new(
        "osd erasure-code-profile set {name:String} {profile:String,n=N,req=false} {force:Bool,req=false}",
        "rw",
        "make or replace an erasure code profile: key=value ...",
        set,
    ),
    Command::new("osd erasure-code-profile rm {name:String}", "rw", "remove an erasure code profile", remove),
];

/// What a profile has unless told otherwise.
const DEFAULTS: &[(&str, &str)] = &[
    ("crush-device-class", ""),
    ("crush-failure-domain", "host"),
    ("crush-root", "default"),
    ("k", "2"),
    ("m", "2"),
    ("plugin", "jerasure"),
    ("technique", "reed_sol_van"),
    ("w", "8"),
];

/// Most shards of one stripe.
const SHARDS_MAX: u32 = 32;

fn list(c: &Context<'_>) -> Answer {
    let names: Vec<&String> = c.map().erasure_code_profiles.keys().collect();
    c.either(|| names.iter().map(|name| format!("{name}\n")).collect(), || json!(names))
}

fn get(c: &Context<'_>) -> Answer {
    let name = c.args.word("name");
    let Some(profile) = c.map().erasure_code_profiles.get(name) else {
        return refuse(Errno::ENOENT, format!("unknown erasure code profile '{name}'"));
    };
    c.either(|| profile.iter().map(|(key, value)| format!("{key}={value}\n")).collect(), || json!(profile))
}

fn set(c: &Context<'_>) -> Answer {
    let name = c.args.word("name");
    let mut profile: BTreeMap<String, String> =
        DEFAULTS.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    for word in c.args.texts("profile") {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        if key.is_empty() {
            return refuse(Errno::EINVAL, format!("'{word}' is not of the form key=value"));
        }
        profile.insert(key.to_owned(), value.to_owned());
    }
    let mut shards = 0;
    for key in ["k", "m"] {
        match profile[key].parse::<u32>() {
            Ok(n) if (1..=SHARDS_MAX).contains(&n) => shards += n,
            _ => {
                return refuse(Errno::EINVAL, format!("{key}={} is not a number from 1 to {SHARDS_MAX}", profile[key]));
            }
        }
    }
    if shards > SHARDS_MAX {
        return refuse(Errno::EINVAL, format!("k + m is {shards}, more than {SHARDS_MAX}"));
    }
    if !["jerasure", "isa"].contains(&profile["plugin"].as_str()) {
        return refuse(Errno::EINVAL, format!("unknown erasure code plugin '{}'", profile["plugin"]));
    }
    let domain = &profile["crush-failure-domain"];
    if c.crush().type_id(domain).is_none() {
        return refuse(Errno::EINVAL, format!("crush-failure-domain={domain} is not a type of the CRUSH map"));
    }
    match c.map().erasure_code_profiles.get(name) {
        Some(known) if *known == profile => return done(""),
        Some(known) if !c.args.flag("force") => {
            let text = |profile: &BTreeMap<String, String>| {
                let words: Vec<String> = profile.iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!("{{{}}}", words.join(","))
            };
            let sentence = format!(
                "will not override erasure code profile {name} because the existing profile {} is different from the \
                 proposed profile {}",
                text(known),
                text(&profile)
            );
            return refuse(Errno::EPERM, sentence);
        }
        _ => {}
    }
    c.change_map("", |incremental| drop(incremental.new_erasure_code_profiles.insert(name.to_owned(), profile)))
}

fn remove(c: &Context<'_>) -> Answer {
    let name = c.args.word("name");
    if !c.map().erasure_code_profiles.contains_key(name) {
        return done(format!("erasure-code-profile {name} does not exist"));
    }
    let users = c.map().pools.iter().filter(|(_, pool)| pool.is_erasure() && pool.erasure_code_profile == name);
    let users: Vec<&str> = users.filter_map(|(id, _)| c.map().pool_name(*id)).collect();
    if !users.is_empty() {
        let sentence = format!("{} pool(s) are using the erasure code profile '{name}'", users.join(","));
        return refuse(Errno::EBUSY, sentence);
    }
    c.change_map("", |incremental| incremental.old_erasure_code_profiles.push(name.to_owned()))
}
