//! Names, capabilities and keyrings that come with commands of `ceph auth`.

use super::{Context, Reply, refuse};
use crate::state::AuthEntry;
use auth::keyring::{Keyring, parse_entity};
use std::collections::BTreeMap;
use std::path::Path;
use types::Errno;

/// Services that have capabilities.
const SERVICES: &[&str] = &["mon", "osd", "mds", "mgr"];
/// Kinds of entities.
const KINDS: &[&str] = &["mon", "mds", "osd", "client", "mgr", "auth"];

fn has_form(entity: &str) -> bool {
    entity.split_once('.').is_some_and(|(kind, _)| KINDS.contains(&kind))
}

/// Returns the name of an entity that is looked up, or an empty one.
pub(super) fn stored_name<'a>(c: &'a Context<'_>) -> Result<&'a str, Reply> {
    let entity = c.args.word("entity");
    match entity.is_empty() || has_form(entity) {
        true => Ok(entity),
        false => refuse(Errno::EINVAL, format!("invalid entity_auth {entity}")),
    }
}

/// Returns the name of an entity that is to be changed or removed.
pub(super) fn changed_name<'a>(c: &'a Context<'_>) -> Result<&'a str, Reply> {
    let entity = c.args.word("entity");
    if has_form(entity) { Ok(entity) } else { refuse(Errno::EINVAL, "bad entity name") }
}

/// Returns the name of an entity that is to exist from now on: one that a keyring can have, or one that exists.
pub(super) fn new_name<'a>(c: &'a Context<'_>) -> Result<&'a str, Reply> {
    let entity = c.args.word("entity");
    if parse_entity(entity).is_none() && !c.state.auth.contains_key(entity) {
        return refuse(Errno::EINVAL, "bad entity name");
    }
    Ok(entity)
}

/// Returns the capabilities among the arguments, each with its service, not checked yet.
pub(super) fn caps_or_none<'a>(c: &'a Context<'_>) -> Result<Vec<(&'a str, &'a str)>, Reply> {
    let words = c.args.texts("caps");
    if !words.len().is_multiple_of(2) {
        return refuse(Errno::EINVAL, "bad capabilities request; odd number of arguments");
    }
    Ok(words.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

/// Checks capabilities, each with its service. Of two for one service the last one counts.
pub(super) fn check_caps(caps: Vec<(&str, &str)>) -> Result<BTreeMap<String, String>, Reply> {
    let checked = caps.into_iter().map(|(service, text)| {
        check(service, text)?;
        Ok((service.to_owned(), text.to_owned()))
    });
    checked.collect()
}

/// Checks one capability. The texts for managers and metadata servers are read as far as to see that they say
/// something: nothing here acts on them.
fn check(service: &str, text: &str) -> Result<(), Reply> {
    if !SERVICES.contains(&service) {
        return refuse(Errno::EINVAL, format!("unknown cap type '{service}'"));
    }
    if let Err(e) = auth::caps::check(service, text) {
        return refuse(Errno::EINVAL, e.to_string());
    }
    if ["mgr", "mds"].contains(&service) {
        let stopped = text.split([',', ';']).map(str::trim_start).find(|clause| {
            let words: Vec<&str> = clause.split([' ', '=']).filter(|word| !word.is_empty()).collect();
            match words[..] {
                ["allow"] | ["allow", "module" | "service", _] => service == "mgr",
                ["allow", ..] | ["profile", _, ..] => false,
                _ => true,
            }
        });
        return match stopped {
            None => Ok(()),
            Some("") if service == "mgr" => refuse(Errno::EINVAL, "mgr capability parse failed, stopped at end of ''"),
            Some(clause) => {
                let sentence = format!("{service} capability parse failed, stopped at '{clause}' of '{text}'");
                refuse(Errno::EINVAL, sentence)
            }
        };
    }
    Ok(())
}

/// Returns the keyring in the command's input, its names and capabilities checked. `failure` begins the sentence about
/// one that cannot be read.
pub(super) fn read_keyring(c: &Context<'_>, failure: &str) -> Result<BTreeMap<String, AuthEntry>, Reply> {
    let ring = Keyring::parse(Path::new("input"), &c.request.input);
    let ring = ring.map_err(|e| Reply::error(Errno::EINVAL, format!("{} ({e})", failure.trim_end())))?;
    for entry in ring.entries.values() {
        for (service, text) in &entry.caps {
            check(service, text)?;
        }
    }
    Ok(ring.entries.into_iter().map(|(name, entry)| (name.to_string(), entry.into())).collect())
}
