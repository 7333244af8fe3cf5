//! `ceph osd erasure-code-profile`.

use super::command::Command;
use super::context::Context;
use super::{Answer, done, refuse};
use ec::{Profile, ProfileError};
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

/// Unit of which Ceph wants stripe units to be multiples, unless told to `--force`.
const STRIPE_UNIT_MULTIPLE_BYTES: u32 = types::BLOCK_BYTES as u32;

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
    let profile = match Profile::from_words(c.args.texts("profile")) {
        Ok(profile) => profile,
        // A Ceph finds no library for it.
        Err(error @ ProfileError::Plugin(_)) => return refuse(Errno::EIO, error.to_string()),
        Err(error) => return refuse(Errno::EINVAL, error.to_string()),
    };
    let unit_bytes = profile.stripe_unit_bytes().unwrap_or(STRIPE_UNIT_MULTIPLE_BYTES);
    if !unit_bytes.is_multiple_of(STRIPE_UNIT_MULTIPLE_BYTES) && !c.args.flag("force") {
        let sentence = format!(
            "stripe_unit should be a multiple of {STRIPE_UNIT_MULTIPLE_BYTES} bytes for best performance. use --force \
             to override this check"
        );
        return refuse(Errno::EINVAL, sentence);
    }
    let profile = profile.settings().clone();
    let domain = &profile["crush-failure-domain"];
    if c.crush().type_id(domain).is_none() {
        return refuse(Errno::EINVAL, format!("crush-failure-domain={domain} is not a type of the CRUSH map"));
    }
    // A profile of an older map, such as the first one, may lack settings that are filled in today.
    let known = c.map().erasure_code_profiles.get(name);
    let known = known.map(|known| match Profile::from_settings(known.clone()) {
        Ok(profile) => profile.settings().clone(),
        Err(_) => known.clone(),
    });
    match known {
        Some(known) if known == profile => return done(""),
        Some(known) if !c.args.flag("force") => {
            let text = |profile: &BTreeMap<String, String>| {
                let words: Vec<String> = profile.iter().map(|(key, value)| format!("{key}={value}")).collect();
                format!("{{{}}}", words.join(","))
            };
            let sentence = format!(
                "will not override erasure code profile {name} because the existing profile {} is different from the \
                 proposed profile {}",
                text(&known),
                text(&profile)
            );
            return refuse(Errno::EPERM, sentence);
        }
        // OSDs read the profile of the pool as it stands in the map: another one would be another code.
        Some(_) if !users(c, name).is_empty() => {
            let users = users(c, name).join(",");
            let sentence = format!(
                "pool(s) {users} are using the erasure code profile '{name}', which therefore cannot be changed; make \
                 another one"
            );
            return refuse(Errno::EBUSY, sentence);
        }
        _ => {}
    }
    c.change_map("", |incremental| drop(incremental.new_erasure_code_profiles.insert(name.to_owned(), profile)))
}

/// Returns the names of the pools that have the profile.
fn users<'a>(c: &Context<'a>, name: &str) -> Vec<&'a str> {
    let users = c.map().pools.iter().filter(|(_, pool)| pool.is_erasure() && pool.erasure_code_profile == name);
    users.filter_map(|(id, _)| c.map().pool_name(*id)).collect()
}

fn remove(c: &Context<'_>) -> Answer {
    let name = c.args.word("name");
    if !c.map().erasure_code_profiles.contains_key(name) {
        return done(format!("erasure-code-profile {name} does not exist"));
    }
    let users = users(c, name);
    if !users.is_empty() {
        let sentence = format!("{} pool(s) are using the erasure code profile '{name}'", users.join(","));
        return refuse(Errno::EBUSY, sentence);
    }
    c.change_map("", |incremental| incremental.old_erasure_code_profiles.push(name.to_owned()))
}
