//! Reading configuration files in the syntax of `ceph.conf`, which [`conf`] describes.
//!
//! ```text
//! [global]                           applies to all daemons and clients
//! mon host = [v2:10.0.0.1:3300]      spaces, underscores, hyphens and case in keys mean nothing
//! [osd]                              applies to every OSD
//! [osd.3]                            applies to one
//! osd data = /srv/$name              variables: $cluster $type $id $name $host $pid, or another option
//! ```
//!
//! Where an option appears twice, the later line wins, and the narrower section wins over the wider.

use conf::{Line, LineError, Sections};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use wire::basic::AuthName;

/// The reason why a configuration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}, {error}")]
    Syntax { path: PathBuf, error: LineError },
    #[error("{path}: option '{key}': '{value}' {reason}")]
    Value { path: PathBuf, key: String, value: String, reason: String },
    /// The client must prove who it is, and cannot.
    #[error("{who} has no key: {reason}")]
    NoKey { who: Who, reason: String },
    #[error("{path} has no option '{key}'")]
    Missing { path: PathBuf, key: String },
}

/// Name of the daemon or client whose options are looked up: `client.admin`, `osd.3`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Who {
    /// `client`, `mon`, `osd`, `mgr`.
    pub kind: String,
    pub id: String,
}

impl Who {
    pub fn new(kind: &str, id: &str) -> Who {
        Who { kind: kind.to_owned(), id: id.to_owned() }
    }

    /// Parses `kind.id`; `None` where either part is missing.
    pub fn parse(name: &str) -> Option<Who> {
        let (kind, id) = name.split_once('.')?;
        (!kind.is_empty() && !id.is_empty()).then(|| Who::new(kind, id))
    }

    /// The name in authentication. `None`: the kind is none that there is, or the id has characters that none has.
    pub fn entity(&self) -> Option<AuthName> {
        auth::keyring::parse_entity(&self.to_string())
    }
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.kind, self.id)
    }
}

/// A parsed file: options by section.
#[derive(Clone, Debug, Default)]
pub struct ConfFile {
    path: PathBuf,
    sections: Sections,
}

impl ConfFile {
    /// Reads and parses `path`.
    pub fn load(path: &Path) -> Result<ConfFile, ConfError> {
        let text = std::fs::read_to_string(path).map_err(|source| ConfError::Read { path: path.to_owned(), source })?;
        ConfFile::parse(&text, path)
    }

    /// Parses `text`; `path` only names it in errors.
    pub fn parse(text: &str, path: &Path) -> Result<ConfFile, ConfError> {
        let mut sections = Sections::new();
        let mut section = conf::FIRST_SECTION.to_owned();
        for line in conf::lines(text) {
            match line.map_err(|error| ConfError::Syntax { path: path.to_owned(), error })?.1 {
                Line::Section(name) => section = name,
                Line::Value { name, value } => {
                    sections.entry(section.clone()).or_default().insert(normalize(&name), value);
                }
            }
        }
        Ok(ConfFile { path: path.to_owned(), sections })
    }

    /// Path that the file was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The value of option `key` for `who`, with variables expanded. Spaces, `_` and `-` in `key` mean the same.
    pub fn get(&self, who: &Who, key: &str) -> Option<String> {
        self.expanded(who, key, 0)
    }

    /// Names of all options that are set for `who`, ordered, with `_` between words.
    pub fn keys(&self, who: &Who) -> Vec<&str> {
        let sections = [who.to_string(), who.kind.clone(), "global".to_owned()];
        let found = sections.iter().filter_map(|section| self.sections.get(section));
        let keys: BTreeSet<&str> = found.flat_map(|options| options.keys().map(String::as_str)).collect();
        keys.into_iter().collect()
    }

    /// Like [`ConfFile::get`], for options that must be there.
    pub fn require(&self, who: &Who, key: &str) -> Result<String, ConfError> {
        self.get(who, key).ok_or_else(|| ConfError::Missing { path: self.path.clone(), key: key.to_owned() })
    }

    /// Sets an option for `who`, in place of what the file says.
    pub fn set(&mut self, who: &Who, key: &str, value: &str) {
        self.sections.entry(who.to_string()).or_default().insert(normalize(key), value.to_owned());
    }

    /// `text` with variables expanded as in an option's value.
    pub fn expand(&self, who: &Who, text: &str) -> String {
        self.expand_at(who, text, 0)
    }

    /// An error that names option `key` with its `value`.
    pub fn bad_value(&self, key: &str, value: &str, reason: impl Into<String>) -> ConfError {
        ConfError::Value { path: self.path.clone(), key: key.into(), value: value.into(), reason: reason.into() }
    }

    fn raw(&self, who: &Who, key: &str) -> Option<&String> {
        let key = normalize(key);
        [who.to_string().as_str(), &who.kind, "global"]
            .into_iter()
            .find_map(|section| self.sections.get(section).and_then(|options| options.get(&key)))
    }

    fn expanded(&self, who: &Who, key: &str, depth: usize) -> Option<String> {
        Some(self.expand_at(who, self.raw(who, key)?, depth))
    }

    fn expand_at(&self, who: &Who, text: &str, depth: usize) -> String {
        // Bound for options that refer to each other in a circle: expansion ends here and leaves the variable as it
        // stands.
        const DEPTH_MAX: usize = 8;
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let tail = &rest[at + 1..];
            let (name, after) = match tail.strip_prefix('{').and_then(|t| t.split_once('}')) {
                Some(pair) => pair,
                None => {
                    tail.split_at(tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(tail.len()))
                }
            };
            let value = match name {
                "cluster" => Some("ceph".to_owned()),
                "type" => Some(who.kind.clone()),
                "id" => Some(who.id.clone()),
                "name" => Some(who.to_string()),
                "pid" => Some(std::process::id().to_string()),
                "host" => Some(std::fs::read_to_string("/etc/hostname").unwrap_or_default().trim().to_owned()),
                "" => None,
                other if depth < DEPTH_MAX => self.expanded(who, other, depth + 1),
                _ => None,
            };
            match value {
                Some(value) => out.push_str(&value),
                None => out.push_str(&rest[at..rest.len() - after.len()]),
            }
            rest = after;
        }
        out.push_str(rest);
        out
    }
}

/// `Mon Host`, `mon-host` and `mon_host` are one key.
fn normalize(key: &str) -> String {
    let words = key.split([' ', '\t', '_', '-']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("_").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> ConfFile {
        ConfFile::parse(text, Path::new("x.conf")).unwrap()
    }

    #[test]
    fn narrower_sections_win_and_keys_are_normalised() {
        let conf = parse(
            "# head\n[global]\n Mon Host = a ; first\nosd_data=/g\n\
             [osd]\nosd data = /o/$id\n[osd.3]\nosd-data = /three\n\
             [client.admin]\nlog file = /l/$name.$type ${id}x \\\n tail\n",
        );
        assert_eq!(conf.get(&Who::new("client", "x"), "mon-host").as_deref(), Some("a"));
        assert_eq!(conf.keys(&Who::new("osd", "3")), ["mon_host", "osd_data"]);
        assert_eq!(conf.keys(&Who::new("client", "admin")), ["log_file", "mon_host", "osd_data"]);
        assert_eq!(conf.get(&Who::new("osd", "1"), "osd data").as_deref(), Some("/o/1"));
        assert_eq!(conf.get(&Who::new("osd", "3"), "osd_data").as_deref(), Some("/three"));
        assert_eq!(conf.get(&Who::new("mon", "a"), "osd_data").as_deref(), Some("/g"));
        let log = conf.get(&Who::new("client", "admin"), "log_file").unwrap();
        assert_eq!(log, "/l/client.admin.client adminx  tail");
        assert!(matches!(conf.require(&Who::new("mon", "a"), "nope"), Err(ConfError::Missing { .. })));
    }

    #[test]
    fn quotes_escapes_and_references() {
        let conf = parse(
            "[global]\na = \"x \\# y\" ; z\nb = p\\;q # c\nrun dir = /r\nc = $run_dir/$nothing\nd = $e\ne = $d\n",
        );
        let who = Who::new("client", "admin");
        assert_eq!(conf.get(&who, "a").as_deref(), Some("x # y"));
        assert_eq!(conf.get(&who, "b").as_deref(), Some("p;q"));
        assert_eq!(conf.get(&who, "c").as_deref(), Some("/r/$nothing"));
        assert!(conf.get(&who, "d").is_some(), "circles end");
    }

    #[test]
    fn errors_name_file_and_line() {
        let error = ConfFile::parse("[global]\n\na = 'open\n", Path::new("x.conf")).unwrap_err();
        assert_eq!(error.to_string(), "x.conf, line 3: a quote is not closed");
        assert!(matches!(ConfFile::load(Path::new("/nonexistent")), Err(ConfError::Read { .. })));
    }
}
