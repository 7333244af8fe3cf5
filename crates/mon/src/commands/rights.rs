//! The right to have a command carried out.

use super::table::{self, KnownCommand};
use super::{Reply, Request, refuse};
use auth::caps::{Access, MonRequest, caps_arguments};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use types::Errno;

/// Refuses a command to a monitor in person to all who may not do everything with monitors.
pub(super) fn check_tell(request: &Request<'_>) -> Result<(), Reply> {
    let may = !request.tell || request.who.has("mon", Access::RWX);
    if may { Ok(()) } else { refuse(Errno::EACCES, "access denied") }
}

/// Refuses a command to all whose capabilities do not let them have it carried out with these arguments.
pub(super) fn check(request: &Request<'_>, known: &KnownCommand, command: &Map<String, Value>) -> Result<(), Reply> {
    let prefix = known.signature.prefix.as_str();
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
