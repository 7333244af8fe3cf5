//! The right to have a command carried out.

use super::table::{self, KnownCommand};
use super::{Reply, Request, refuse};
use crate::identity::Party;
use auth::caps::{Access, MonRequest, caps_arguments};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use types::Errno;

/// Refuses a command to a daemon in person, one JSON object, to all who may not read, write and execute there.
/// `service`: `mon` or `mgr`. A capability may name the command and its arguments.
pub(crate) fn check_tell(who: &Party, service: &str, line: &str) -> Result<(), Reply> {
    let command = match serde_json::from_str(line) {
        Ok(Value::Object(command)) => command,
        _ => Map::new(),
    };
    let prefix = command.get("prefix").and_then(Value::as_str).unwrap_or_default();
    let wanted = MonRequest { service, command: prefix, arguments: &texts(&command), needs: Access::RWX };
    if who.allows(&wanted) { Ok(()) } else { refuse(Errno::EACCES, "insufficient caps") }
}

/// Refuses a command to all whose capabilities do not let them have it carried out with these arguments.
pub(super) fn check(request: &Request<'_>, known: &KnownCommand, command: &Map<String, Value>) -> Result<(), Reply> {
    let prefix = known.signature.prefix.as_str();
    if is_about_images(prefix) {
        // The rights depend on the pool. Their handlers ask for them.
        return Ok(());
    }
    let wanted = MonRequest {
        service: table::module(prefix),
        command: prefix,
        arguments: &texts(command),
        needs: Access::of_letters(known.command.permissions),
    };
    if request.who.allows(&wanted) { Ok(()) } else { refuse(Errno::EACCES, "access denied") }
}

/// Returns the arguments as text, as capabilities name them.
fn texts(command: &Map<String, Value>) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::new();
    for (name, value) in command.iter().filter(|(name, _)| *name != "prefix") {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        match value {
            Value::Array(items) if name == "caps" => {
                texts.extend(caps_arguments(&items.iter().map(text).collect::<Vec<_>>()));
            }
            Value::Array(items) => {
                texts.insert(name.clone(), items.iter().map(text).collect::<Vec<_>>().join(" "));
            }
            value => {
                texts.insert(name.clone(), text(value));
            }
        }
    }
    texts
}

/// Returns true for commands whose rights are those for images at the manager, whoever is asked.
fn is_about_images(prefix: &str) -> bool {
    ["rbd task ", "rbd trash purge schedule "].iter().any(|begin| prefix.starts_with(begin))
}
