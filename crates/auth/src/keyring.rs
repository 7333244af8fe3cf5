//! Keyring files: entities with their keys and capabilities.
//!
//! ```text
//! # comment
//! [client.admin]
//!         key = AQ...==
//!         caps mon = "allow *"
//! ```
//!
//! The text is that of `ceph-authtool`, in the syntax that [`conf`] describes. Blanks in a name may be underscores.

use crate::key::{Key, KeyError};
use conf::Line;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use types::EntityType;
use wire::basic::AuthName;

/// One entity: its key, and its capabilities by service (`mon` → `allow *`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    pub key: Key,
    /// The key that is to replace the other one. Both are good until then.
    pub pending_key: Option<Key>,
    pub caps: BTreeMap<String, String>,
}

/// Entities by their names.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Keyring {
    pub entries: BTreeMap<AuthName, Entry>,
}

/// A line of a file that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}:{line}: {wrong}", file.display())]
pub struct KeyringError {
    pub file: PathBuf,
    /// Number of the line, from 1.
    pub line: usize,
    pub wrong: Wrong,
}

/// Reason why a line of a keyring cannot be read. Values are not repeated: they may be keys.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Wrong {
    #[error("the file is not text (UTF-8)")]
    NotText,
    #[error("neither '[entity]' nor 'name = value'")]
    Form,
    #[error("'{0}' is no entity: it wants the form 'client.name', with client, osd, mon, mds or mgr")]
    Entity(String),
    #[error("'{0}' stands before the first '[entity]'")]
    NoEntity(String),
    #[error("'{0}' is neither 'key', 'pending key' nor 'caps SERVICE'")]
    Name(String),
    #[error("{0}")]
    Key(KeyError),
    #[error("a quote is not closed")]
    Unclosed,
    #[error("text, '#' or ';' after the value: between quotes a backslash must stand before '#' and ';'")]
    AfterQuote,
    #[error("'{0}' has no key")]
    NoKey(AuthName),
}

impl From<conf::Wrong> for Wrong {
    fn from(wrong: conf::Wrong) -> Wrong {
        use conf::Wrong::{
            AfterQuote, AfterSection, CommentInQuotes, Form, NoBracket, NoName, NoSectionName, Unclosed,
        };
        match wrong {
            Form | NoBracket | NoSectionName | AfterSection | NoName => Wrong::Form,
            Unclosed => Wrong::Unclosed,
            CommentInQuotes | AfterQuote => Wrong::AfterQuote,
        }
    }
}

/// Reads `client.admin`. The name's part after the dot may be empty or have dots.
pub fn parse_entity(text: &str) -> Option<AuthName> {
    let (kind, id) = text.split_once('.')?;
    let kinds = [EntityType::CLIENT, EntityType::OSD, EntityType::MON, EntityType::MDS, EntityType::MGR];
    let kind = kinds.into_iter().find(|known| known.word() == kind)?;
    let plain = !id.chars().any(|c| c.is_control() || c.is_whitespace() || "[]\"#;\\".contains(c));
    plain.then(|| AuthName::new(kind, id))
}

impl Keyring {
    /// Reads the text of `file`, whose name is only for errors.
    ///
    /// Errors: the first line that is wrong. An entity without a key is an error of its first line.
    pub fn parse(file: &Path, text: &[u8]) -> Result<Keyring, KeyringError> {
        let at = |line, wrong| KeyringError { file: file.to_owned(), line, wrong };
        let text = std::str::from_utf8(text).map_err(|_| at(1, Wrong::NotText))?;
        let mut sections: BTreeMap<AuthName, Section> = BTreeMap::new();
        let mut current: Option<AuthName> = None;
        for line in conf::lines(text) {
            let (number, line) = line.map_err(|error| at(error.line, error.wrong.into()))?;
            match line {
                Line::Section(entity) => {
                    let name = parse_entity(&entity).ok_or_else(|| at(number, Wrong::Entity(entity)))?;
                    sections.entry(name.clone()).or_insert_with(|| Section { line: number, ..Section::default() });
                    current = Some(name);
                }
                Line::Value { name, value } => {
                    let name = name.split('_').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
                    let section = current
                        .as_ref()
                        .and_then(|name| sections.get_mut(name))
                        .ok_or_else(|| at(number, Wrong::NoEntity(name.clone())))?;
                    if name == "key" || name == "pending key" {
                        let key = Some(Key::from_text(&value).map_err(|e| at(number, Wrong::Key(e)))?);
                        *(if name == "key" { &mut section.key } else { &mut section.pending_key }) = key;
                    } else if let Some(service) = name.strip_prefix("caps ").filter(|s| !s.contains(' ')) {
                        section.caps.insert(service.to_owned(), value);
                    } else if name != "auid" {
                        // Ceph's releases before 14 wrote `auid`, which had a meaning once.
                        return Err(at(number, Wrong::Name(name)));
                    }
                }
            }
        }
        let entries = sections.into_iter().map(|(name, section)| match section.key {
            Some(key) => Ok((name, Entry { key, pending_key: section.pending_key, caps: section.caps })),
            None => Err(at(section.line, Wrong::NoKey(name))),
        });
        Ok(Keyring { entries: entries.collect::<Result<_, _>>()? })
    }

    pub fn find(&self, name: &AuthName) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// The text, which [`Keyring::parse`] and `ceph-authtool` read.
    pub fn to_text(&self) -> String {
        self.entries.iter().map(|(name, entry)| entry.to_text(&name.to_string())).collect()
    }
}

impl Entry {
    /// The keys that are good: the present one, then the pending one.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        std::iter::once(&self.key).chain(&self.pending_key)
    }

    /// The text of the entity called `name` in a keyring.
    pub fn to_text(&self, name: &str) -> String {
        let mut out = format!("[{name}]\n\tkey = {}\n", self.key.to_text().as_str());
        if let Some(key) = &self.pending_key {
            writeln!(out, "\tpending key = {}", key.to_text().as_str()).expect("writing to a string");
        }
        for (service, caps) in &self.caps {
            writeln!(out, "\tcaps {service} = {}", conf::quoted(caps)).expect("writing to a string");
        }
        out
    }
}

/// A section of a file, as far as it is read.
#[derive(Default)]
struct Section {
    /// The line that it begins at.
    line: usize,
    key: Option<Key>,
    pending_key: Option<Key>,
    caps: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::any_key;
    use proptest::prelude::*;

    const KEY: &str = "AQAXhwFrcxk7CxAAqYYEAGAc4JX9u0T1RQ2hZQ==";

    fn parse(text: &str) -> Result<Keyring, KeyringError> {
        Keyring::parse(Path::new("/etc/ceph/keyring"), text.as_bytes())
    }

    /// The capabilities for `mon` that a line of a keyring gives.
    fn caps_of(line: &str) -> Option<String> {
        let ring = parse(&format!("[client.a]\nkey={KEY}\n{line}\n")).ok()?;
        ring.entries.values().next()?.caps.get("mon").cloned()
    }

    #[test]
    fn lines_are_read_as_by_ceph_authtool() {
        let check = |line: &str, expect: Option<&str>| assert_eq!(caps_of(line).as_deref(), expect, "{line}");
        check("caps mon = allow r # comment", Some("allow r"));
        check("caps mon = allow r ; comment", Some("allow r"));
        check("caps mon = \"allow r ; x\" # c", None);
        check("caps mon = 'allow command \"x\"'", Some("allow command \"x\""));
        check("caps mon = \"allow command \\\"x\\\"\"", Some("allow command \"x\""));
        check("caps_mon = allow r", Some("allow r"));
        check("caps  mon=allow r", Some("allow r"));
        check("capsmon = allow r", None);
        check("caps mon allow r", None);
        check("caps mon = allow\\\n r", Some("allow r"));
        check("caps mon = \"allow r\" x", None);
        check("caps mon = \"allow r", None);
        check("caps mon = ", Some(""));
        check("caps mon = a\\;b", Some("a;b"));
        check("caps mon = a\"b c", Some("a\"b c"));
        check("caps mon = \"a\\\\b\"", Some("a\\b"));
        check("caps mon = \" a \"", Some("a"));
        check("caps mon = x = y", Some("x = y"));
        check("Caps Mon = allow r", None);
        check("caps mon = a\ncaps mon = b", Some("b"));
    }

    #[test]
    fn errors_name_file_and_line() {
        let check = |text: &str, expect: &str| {
            assert_eq!(parse(text).unwrap_err().to_string(), format!("/etc/ceph/keyring:{expect}"));
        };
        check("\nkey = x", "2: 'key' stands before the first '[entity]'");
        check("[a]", "1: 'a' is no entity: it wants the form 'client.name', with client, osd, mon, mds or mgr");
        check(
            "[client.a]\nkey = AQAA",
            "2: the key is base64 of something else: input ends early: 4 bytes needed, 1 left",
        );
        check("# c\n[client.a]\n", "2: 'client.a' has no key");
        check("[client.a\n", "1: neither '[entity]' nor 'name = value'");
        check("[client.a]\ncap mon = allow r", "2: 'cap mon' is neither 'key', 'pending key' nor 'caps SERVICE'");
        check("[client.a]\n\\\ncaps mon = \"a", "2: a quote is not closed");
    }

    #[test]
    fn a_section_may_come_twice() {
        let ring =
            parse(&format!("[client.a]\ncaps mon = x\n[osd.0]\nkey={KEY}\n[client.a] ; more\nkey={KEY}")).unwrap();
        assert_eq!(ring.entries.len(), 2);
        assert_eq!(ring.find(&parse_entity("client.a").unwrap()).unwrap().caps["mon"], "x");
    }

    proptest! {
        #[test]
        fn keyrings_read_back(entries in proptest::collection::btree_map(
            "(client|osd|mgr)\\.[a-z0-9.-]{0,8}",
            (any_key(), proptest::option::of(any_key()), proptest::collection::btree_map("mon|osd|mds", "([ -~]{0,20}[!-~])?", 0..3)),
            0..4,
        )) {
            let entries = entries.into_iter().map(|(name, (key, pending_key, caps))| {
                let caps = caps.into_iter().map(|(service, caps)| (service, caps.trim().to_owned())).collect();
                (parse_entity(&name).unwrap(), Entry { key, pending_key, caps })
            });
            let ring = Keyring { entries: entries.collect() };
            prop_assert_eq!(parse(&ring.to_text()), Ok(ring));
        }

        #[test]
        fn no_bytes_panic(bytes in any::<Vec<u8>>(), lines in "(\\[client.a\\]\n)?([a-z_ =\"'\\\\#;\n]{0,40})") {
            let _ = Keyring::parse(Path::new("x"), &bytes);
            let _ = parse(&lines);
        }
    }
}
