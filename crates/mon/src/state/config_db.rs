//! The central configuration (`ceph config`).

use super::ALLOWED_CIPHERS;
use auth::KeyKind;
use std::collections::{BTreeMap, VecDeque};
use types::Utime;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Bytes and versions of the history that are kept; the oldest go first.
const HISTORY_BYTES_MAX: usize = 1 << 20;
const HISTORY_VERSIONS_MAX: usize = 1000;

/// Options by section and name, and how they came to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigDb {
    sections: BTreeMap<String, BTreeMap<String, String>>,
    /// Versions, ascending. The first of all has no changes but those that the cluster began with.
    history: VecDeque<ConfigVersion>,
}

impl Default for ConfigDb {
    fn default() -> ConfigDb {
        ConfigDb { sections: BTreeMap::new(), history: [ConfigVersion { version: 1, ..Default::default() }].into() }
    }
}

/// Changes that happened together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfigVersion {
    /// Ascending by one.
    pub version: u64,
    /// Index of the batch that it came with.
    pub batch: u64,
    pub stamp: Utime,
    /// Reason, such as `reset to 7`; mostly empty.
    pub note: String,
    pub changes: Vec<ConfigChange>,
}

/// A change of one option; `None`: not set.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConfigChange {
    pub who: String,
    pub name: String,
    pub before: Option<String>,
    pub after: Option<String>,
}

impl ConfigChange {
    /// Returns the key under which Ceph keeps the option.
    pub fn key(&self) -> String {
        format!("{}/{}", self.who, self.name)
    }

    fn bytes(&self) -> usize {
        let value = |value: &Option<String>| value.as_ref().map_or(0, String::len);
        self.who.len() + self.name.len() + value(&self.before) + value(&self.after) + 24
    }
}

/// The party whose options are looked up.
#[derive(Clone, Default, Debug)]
pub struct ConfigSubject<'a> {
    /// `mon`, `osd`, `client`, `mgr`, `mds`.
    pub kind: &'a str,
    /// The part behind the dot: `3`, `admin`.
    pub id: &'a str,
    /// Places in the hierarchy that it is in, nearest first: type and name of buckets.
    pub location: Vec<(&'a str, &'a str)>,
    pub device_class: Option<&'a str>,
}

impl ConfigDb {
    /// Sets or removes one option. Returns true if that changed anything. `who` is a section with an optional mask.
    pub fn set(&mut self, who: &str, name: &str, value: Option<&str>) -> bool {
        match value {
            Some(value) => {
                let section = self.sections.entry(who.to_owned()).or_default();
                section.insert(name.to_owned(), value.to_owned()).as_deref() != Some(value)
            }
            None => {
                let Some(section) = self.sections.get_mut(who) else { return false };
                let removed = section.remove(name).is_some();
                if section.is_empty() {
                    self.sections.remove(who);
                }
                removed
            }
        }
    }

    /// Returns the value that is set in exactly this section.
    pub fn get(&self, who: &str, name: &str) -> Option<&str> {
        self.sections.get(who)?.get(name).map(String::as_str)
    }

    /// Returns all set options: section, name, value, ordered.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.sections.iter().flat_map(|(who, section)| {
            section.iter().map(move |(name, value)| (who.as_str(), name.as_str(), value.as_str()))
        })
    }

    /// Returns the approximate bytes of all set options.
    pub fn bytes(&self) -> usize {
        self.iter().map(|(who, name, value)| who.len() + name.len() + value.len() + 16).sum()
    }

    /// Sets or removes one option as part of a batch, and remembers that.
    pub fn change(&mut self, batch: u64, stamp: Utime, who: &str, name: &str, value: Option<&str>) {
        let before = self.get(who, name).map(str::to_owned);
        if !self.set(who, name, value) {
            return;
        }
        let change =
            ConfigChange { who: who.to_owned(), name: name.to_owned(), before, after: value.map(str::to_owned) };
        self.version_of(batch, stamp).changes.push(change);
        self.trim();
    }

    /// Gives the version that a batch makes a reason.
    pub fn note(&mut self, batch: u64, stamp: Utime, note: &str) {
        note.clone_into(&mut self.version_of(batch, stamp).note);
    }

    fn version_of(&mut self, batch: u64, stamp: Utime) -> &mut ConfigVersion {
        // The options that a cluster begins with are no change.
        let is_first = batch == 1;
        if !is_first && self.history.back().is_none_or(|last| last.batch != batch) {
            let version = self.version() + 1;
            self.history.push_back(ConfigVersion { version, batch, stamp, ..ConfigVersion::default() });
        }
        self.history.back_mut().expect("there is the first version, or a later one")
    }

    fn trim(&mut self) {
        while self.history.len() > 1
            && (self.history.len() > HISTORY_VERSIONS_MAX || self.history_bytes() > HISTORY_BYTES_MAX)
        {
            self.history.pop_front();
        }
    }

    /// Returns the newest version.
    pub fn version(&self) -> u64 {
        self.history.back().map_or(1, |last| last.version)
    }

    /// Returns the versions that are remembered, the newest first.
    pub fn history(&self) -> impl Iterator<Item = &ConfigVersion> {
        self.history.iter().rev()
    }

    /// Returns the approximate bytes of the history.
    pub fn history_bytes(&self) -> usize {
        let changes = self.history.iter().flat_map(|version| &version.changes).map(ConfigChange::bytes);
        changes.sum::<usize>() + self.history.iter().map(|version| version.note.len() + 48).sum::<usize>()
    }

    /// Returns the changes that lead back to `version`: section, name, value. `None` if that is not known any more, or
    /// not yet.
    pub fn way_back_to(&self, version: u64) -> Option<Vec<(String, String, Option<String>)>> {
        let oldest = self.history.front().map_or(1, |oldest| oldest.version);
        // Version 0 comes before everything.
        if version > self.version() || version + 1 < oldest {
            return None;
        }
        let mut then: BTreeMap<(&str, &str), &Option<String>> = BTreeMap::new();
        for change in self.history().take_while(|later| later.version > version).flat_map(|it| it.changes.iter().rev())
        {
            then.insert((&change.who, &change.name), &change.before);
        }
        let differs = |(who, name): &(&str, &str), value: &Option<String>| self.get(who, name) != value.as_deref();
        let differing = then.into_iter().filter(|(key, value)| differs(key, value));
        Some(differing.map(|((who, name), value)| (who.to_owned(), name.to_owned(), value.clone())).collect())
    }

    /// Returns the options that apply to `subject`: for each the value from its most specific section, and that
    /// section. A longer name is more specific than a shorter one (`client.a.b` than `client.a`), that than a type, and
    /// that than `global`; within a section, a mask of a low place is more specific than one of a high place, that than
    /// a class, and that than no mask.
    pub fn effective(&self, subject: &ConfigSubject<'_>) -> BTreeMap<&str, (&str, &str)> {
        let mut best: BTreeMap<&str, (Rank, &str, &str)> = BTreeMap::new();
        for (who, section) in &self.sections {
            let Some(rank) = specificity(who, subject) else { continue };
            for (name, value) in section {
                let slot = best.entry(name).or_insert((rank, who, value));
                if rank > slot.0 {
                    *slot = (rank, who, value);
                }
            }
        }
        best.into_iter().map(|(name, (_, who, value))| (name, (value, who))).collect()
    }

    /// Returns one option as it applies to a daemon of a kind, wherever that is.
    pub fn option_of(&self, kind: &str, id: &str, option: &str) -> Option<&str> {
        let subject = ConfigSubject { kind, id, ..ConfigSubject::default() };
        self.effective(&subject).get(option).map(|(value, _)| *value)
    }

    /// Returns the kinds of keys by which all monitors let somebody in.
    pub fn allowed_kinds(&self) -> Vec<KeyKind> {
        let set = self.option_of("mon", "", ALLOWED_CIPHERS).and_then(|text| KeyKind::list(text).ok());
        set.unwrap_or_else(|| KeyKind::ALL.to_vec())
    }
}

/// How closely a section fits: by its name, then by its mask.
type Rank = (usize, usize);

/// Rank of a mask of the nearest place; places above it count less.
const NEAREST: usize = 1000;

/// Returns how closely section `who` fits `subject`, or `None` if it does not apply.
fn specificity(who: &str, subject: &ConfigSubject<'_>) -> Option<Rank> {
    let mut parts = who.split('/');
    let section = parts.next()?;
    let name = if section == "global" {
        0
    } else {
        let whole = format!("{}.{}", subject.kind, subject.id);
        let is_part = section == whole || whole.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'));
        if !is_part {
            return None;
        }
        1 + section.split('.').count()
    };
    let mut by_mask = 0;
    for mask in parts {
        let (key, value) = mask.split_once(':')?;
        by_mask = by_mask.max(match key {
            "class" if subject.device_class == Some(value) => 1,
            "class" => return None,
            _ => NEAREST - subject.location.iter().position(|place| *place == (key, value))?,
        });
    }
    Some((name, by_mask))
}

impl Encode for ConfigChange {
    fn encode(&self, w: &mut Writer) {
        w.str(&self.who);
        w.str(&self.name);
        w.put(&self.before);
        w.put(&self.after);
    }
}

impl Decode for ConfigChange {
    const MIN_BYTES: usize = 10;

    fn decode(r: &mut Reader<'_>) -> Result<ConfigChange, DecodeError> {
        Ok(ConfigChange { who: r.get()?, name: r.get()?, before: r.get()?, after: r.get()? })
    }
}

impl Encode for ConfigVersion {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.version);
            w.u64(self.batch);
            w.put(&self.stamp);
            w.str(&self.note);
            w.put(&self.changes);
        });
    }
}

impl Decode for ConfigVersion {
    const MIN_BYTES: usize = 38;

    fn decode(r: &mut Reader<'_>) -> Result<ConfigVersion, DecodeError> {
        let (_, mut r) = r.versioned("version of the configuration", 1)?;
        Ok(ConfigVersion { version: r.u64()?, batch: r.u64()?, stamp: r.get()?, note: r.get()?, changes: r.get()? })
    }
}

/// Versions of the encoding of [`ConfigDb`].
mod form {
    /// Has the options only.
    pub const OPTIONS: u8 = 1;
    /// Adds the history.
    pub const HISTORY: u8 = 2;
}

impl Encode for ConfigDb {
    fn encode(&self, w: &mut Writer) {
        w.versioned(form::HISTORY, form::OPTIONS, |w| {
            w.put(&self.sections);
            w.put(&Vec::from_iter(self.history.iter().cloned()));
        });
    }
}

impl Decode for ConfigDb {
    fn decode(r: &mut Reader<'_>) -> Result<ConfigDb, DecodeError> {
        let (head, mut r) = r.versioned("configuration", form::HISTORY)?;
        let sections = r.get()?;
        let history = if head.version >= form::HISTORY {
            r.get::<Vec<ConfigVersion>>()?.into()
        } else {
            ConfigDb::default().history
        };
        Ok(ConfigDb { sections, history })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_section_wins() {
        let mut db = ConfigDb::default();
        for (who, value) in [
            ("global", "1"),
            ("osd", "2"),
            ("osd/class:ssd", "3"),
            ("osd.4", "4"),
            ("mon", "5"),
            ("osd/host:h", "6"),
            ("osd/rack:r", "7"),
            ("osd/nothing:x", "8"),
            ("client.a", "9"),
            ("client.a.b", "10"),
            ("client.", "11"),
        ] {
            assert!(db.set(who, "x", Some(value)));
        }
        let check = |kind, id, location: &[(&str, &str)], device_class, expect: &str| {
            let subject = ConfigSubject { kind, id, location: location.to_vec(), device_class };
            assert_eq!(db.effective(&subject)["x"].0, expect, "{kind}.{id}");
        };
        check("client", "admin", &[], None, "1");
        check("client", "a.c", &[], None, "9");
        check("client", "a.b.c", &[], None, "10");
        check("client", "ab", &[], None, "1");
        check("client", "", &[], None, "11");
        check("osd", "1", &[], None, "2");
        check("osd", "1", &[], Some("ssd"), "3");
        check("osd", "1", &[("host", "g"), ("rack", "r")], Some("ssd"), "7");
        check("osd", "1", &[("host", "h"), ("rack", "r")], Some("ssd"), "6");
        check("osd", "4", &[("host", "h")], Some("ssd"), "4");
        check("mon", "a", &[], None, "5");
    }

    #[test]
    fn the_way_back_leads_through_all_changes() {
        let mut db = ConfigDb::default();
        let stamp = Utime { sec: 7, nsec: 0 };
        db.change(1, stamp, "global", "first", Some("1"));
        assert_eq!(db.version(), 1);
        db.change(5, stamp, "osd", "x", Some("1"));
        db.change(5, stamp, "osd", "y", Some("1"));
        db.change(6, stamp, "osd", "x", Some("1"));
        assert_eq!(db.version(), 2, "nothing changed in batch 6");
        let then = db.clone();
        db.change(7, stamp, "osd", "x", Some("2"));
        db.change(8, stamp, "osd", "x", None);
        db.change(9, stamp, "osd", "z", Some("3"));
        assert_eq!((db.version(), db.way_back_to(6), db.way_back_to(5)), (5, None, Some(Vec::new())));
        let back = db.way_back_to(2).unwrap();
        assert_eq!(back.len(), 2);
        db.note(10, stamp, "reset to 2");
        for (who, name, value) in back {
            db.change(10, stamp, &who, &name, value.as_deref());
        }
        assert_eq!((&db.sections, db.version()), (&then.sections, 6));
        assert_eq!(db.way_back_to(0).unwrap().len(), 3);
        let read = ConfigDb::from_slice(&db.to_vec(wire::Target::PACIFIC)).unwrap();
        assert_eq!(read, db);
    }

    #[test]
    fn the_history_is_bounded_and_what_is_forgotten_cannot_be_gone_back_to() {
        let mut db = ConfigDb::default();
        for batch in 2..3000 {
            db.change(batch, Utime::ZERO, "osd", "x", Some(&batch.to_string()));
        }
        assert_eq!(db.history().count(), HISTORY_VERSIONS_MAX);
        let oldest = db.history().last().unwrap().version;
        assert!(db.way_back_to(oldest - 1).is_some() && db.way_back_to(oldest - 2).is_none());
        for batch in 3000..3010 {
            db.change(batch, Utime::ZERO, "osd", "x", Some(&batch.to_string().repeat(100_000)));
        }
        assert!(db.history_bytes() <= HISTORY_BYTES_MAX, "{}", db.history_bytes());
    }

    #[test]
    fn a_configuration_of_version_1_is_read() {
        let mut db = ConfigDb::default();
        db.set("osd", "x", Some("1"));
        let mut w = Writer::new(wire::Target::PACIFIC);
        w.versioned(1, 1, |w| w.put(&db.sections));
        assert_eq!(ConfigDb::from_slice(&w.into_vec()), Ok(db));
    }

    #[test]
    fn setting_says_whether_it_changed_anything() {
        let mut db = ConfigDb::default();
        assert!(db.set("osd", "x", Some("1")));
        assert!(!db.set("osd", "x", Some("1")));
        assert!(db.set("osd", "x", None));
        assert!(!db.set("osd", "x", None));
        assert_eq!(db, ConfigDb::default());
    }
}
