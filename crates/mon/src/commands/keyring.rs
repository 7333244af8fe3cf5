//! Keys and keyrings as text: `[client.admin]`, `key = ...`, `caps mon = "allow *"`.

use crate::state::AuthEntry;
use std::collections::BTreeMap;
use std::fmt::Write;
use types::Utime;

/// Number of the only kind of key: AES, 128 bits.
const KEY_AES: u16 = 1;
/// Length of a key: kind, stamp, length, key.
const KEY_BYTES: usize = 2 + 8 + 2 + 16;

/// Reason why a keyring cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeyringError {
    #[error("keyring is not UTF-8")]
    NotText,
    #[error("line {0}: neither '[entity]' nor 'name = value'")]
    Line(usize),
    #[error("line {0}: the key is not a base64 AES key")]
    Key(usize),
    #[error("'{0}' has no key")]
    NoKey(String),
}

/// Returns a key as users see it: `AQ...==`.
pub(super) fn key_text(entry: &AuthEntry) -> String {
    let mut bytes = Vec::with_capacity(KEY_BYTES);
    bytes.extend_from_slice(&KEY_AES.to_le_bytes());
    bytes.extend_from_slice(&entry.created.sec.to_le_bytes());
    bytes.extend_from_slice(&entry.created.nsec.to_le_bytes());
    bytes.extend_from_slice(&16u16.to_le_bytes());
    bytes.extend_from_slice(&entry.secret);
    types::base64::encode(&bytes)
}

/// Returns the time at which a key was made, and the key.
pub(super) fn read_key(text: &str) -> Option<(Utime, [u8; 16])> {
    let bytes = types::base64::decode(text)?;
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let head: [u8; 2] = bytes.get(..2)?.try_into().ok()?;
    let length: [u8; 2] = bytes.get(10..12)?.try_into().ok()?;
    if bytes.len() != KEY_BYTES || u16::from_le_bytes(head) != KEY_AES || u16::from_le_bytes(length) != 16 {
        return None;
    }
    let created = Utime { sec: number(2)?, nsec: number(6)? };
    Some((created, bytes[12..].try_into().ok()?))
}

/// Returns entity and key, and with `caps` the entity's capabilities.
pub(super) fn write(entity: &str, entry: &AuthEntry, caps: bool) -> String {
    let mut out = format!("[{entity}]\n\tkey = {}\n", key_text(entry));
    if caps {
        for (service, cap) in &entry.caps {
            writeln!(out, "\tcaps {service} = \"{cap}\"").expect("writing to a string");
        }
    }
    out
}

/// Reads a keyring as `ceph-authtool` writes it: entities with their keys and capabilities.
pub fn read(text: &[u8]) -> Result<BTreeMap<String, AuthEntry>, KeyringError> {
    let text = std::str::from_utf8(text).map_err(|_| KeyringError::NotText)?;
    let mut entries: BTreeMap<String, (bool, AuthEntry)> = BTreeMap::new();
    let mut current: Option<String> = None;
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(entity) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            entries.entry(entity.to_owned()).or_default();
            current = Some(entity.to_owned());
            continue;
        }
        let (name, value) = line.split_once('=').ok_or(KeyringError::Line(number))?;
        let (has_key, entry) =
            current.as_ref().and_then(|entity| entries.get_mut(entity)).ok_or(KeyringError::Line(number))?;
        let (name, value) = (name.trim(), value.trim().trim_matches('"'));
        if name == "key" {
            (entry.created, entry.secret) = read_key(value).ok_or(KeyringError::Key(number))?;
            *has_key = true;
        } else if let Some(service) = name.strip_prefix("caps") {
            entry.caps.insert(service.trim().to_owned(), value.to_owned());
        } else {
            return Err(KeyringError::Line(number));
        }
    }
    let checked = entries.into_iter().map(|(entity, (has_key, entry))| match has_key {
        true => Ok((entity, entry)),
        false => Err(KeyringError::NoKey(entity)),
    });
    checked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keyrings_read_back() {
        let text = "[client.imp]\n\tkey = AQAXhwFrcxk7CxAAqYYEAGAc4JX9u0T1RQ2hZQ==\n\tcaps mon = \"allow r\"\n";
        let entries = read(text.as_bytes()).unwrap();
        assert_eq!(entries["client.imp"].created.sec, 0x6b01_8717);
        assert_eq!(entries["client.imp"].caps["mon"], "allow r");
        assert_eq!(write("client.imp", &entries["client.imp"], true), text);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |text: &str, expect: &str| assert_eq!(read(text.as_bytes()).unwrap_err().to_string(), expect);
        check("key = x", "line 1: neither '[entity]' nor 'name = value'");
        check("[client.a]\nkey = AAAA", "line 2: the key is not a base64 AES key");
        check("[client.a]\n", "'client.a' has no key");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in any::<Vec<u8>>(), text in "(\\[a\\]\n)?(key ?= ?[A-Za-z0-9=]{0,44}\n)?.{0,30}") {
            let _ = read(&bytes);
            let _ = read(text.as_bytes());
        }
    }
}
