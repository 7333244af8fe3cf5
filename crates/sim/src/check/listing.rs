//! A listing names the objects that exist.

use super::Violation;
use crate::history::ObjectName;
use std::collections::{BTreeMap, BTreeSet};

/// An object as a listing names it: namespace and name.
pub type Listed = (Vec<u8>, Vec<u8>);

/// Compares a listing with reads. `listed`: the listing, made while nothing changed. `exist`: tells for each object
/// whether a read found it.
pub fn listing_agrees_with_objects(listed: &[Listed], exist: &BTreeMap<ObjectName, bool>) -> Result<(), Violation> {
    let show = |(nspace, name): &Listed| format!("{}/{}", nspace.escape_ascii(), name.escape_ascii());
    let mut found = BTreeSet::new();
    for object in listed {
        if !found.insert(object.clone()) {
            return Err(Violation(format!("{} is listed twice", show(object))));
        }
    }
    for (object, exists) in exist {
        let entry = (object.nspace().to_vec(), object.to_string().into_bytes());
        if found.remove(&entry) != *exists {
            let what = if *exists { "exists and is not listed" } else { "is listed and does not exist" };
            return Err(Violation(format!("{object} {what}")));
        }
    }
    match found.first() {
        Some(object) => Err(Violation(format!("{} is listed and nobody made it", show(object)))),
        None => Ok(()),
    }
}
