//! The central configuration (`ceph config`).

use std::collections::BTreeMap;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Options by section and name.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ConfigDb {
    sections: BTreeMap<String, BTreeMap<String, String>>,
}

/// The party whose options are looked up.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConfigSubject<'a> {
    /// `mon`, `osd`, `client`, `mgr`, `mds`.
    pub kind: &'a str,
    /// The part behind the dot: `3`, `admin`.
    pub id: &'a str,
    pub host: Option<&'a str>,
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

    /// Returns the options that apply to `subject`: for each the value from its most specific section, and that
    /// section. A whole name is more specific than a type, and that than `global`; with a mask is more specific than
    /// without.
    pub fn effective(&self, subject: &ConfigSubject<'_>) -> BTreeMap<&str, (&str, &str)> {
        let mut best: BTreeMap<&str, (u32, &str, &str)> = BTreeMap::new();
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
}

/// Returns how closely section `who` fits `subject`, or `None` if it does not apply.
fn specificity(who: &str, subject: &ConfigSubject<'_>) -> Option<u32> {
    let mut parts = who.split('/');
    let section = parts.next()?;
    let mut rank = if section == "global" {
        0
    } else if section == subject.kind {
        10
    } else if section.split_once('.') == Some((subject.kind, subject.id)) {
        20
    } else {
        return None;
    };
    for mask in parts {
        let (key, value) = mask.split_once(':')?;
        let actual = match key {
            "host" => subject.host,
            "class" => subject.device_class,
            _ => None,
        };
        if actual != Some(value) {
            return None;
        }
        rank += 1;
    }
    Some(rank)
}

impl Encode for ConfigDb {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| w.put(&self.sections));
    }
}

impl Decode for ConfigDb {
    fn decode(r: &mut Reader<'_>) -> Result<ConfigDb, DecodeError> {
        let (_, mut r) = r.versioned("configuration", 1)?;
        Ok(ConfigDb { sections: r.get()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_section_wins() {
        let mut db = ConfigDb::default();
        for (who, value) in [("global", "1"), ("osd", "2"), ("osd/class:ssd", "3"), ("osd.4", "4"), ("mon", "5")] {
            assert!(db.set(who, "x", Some(value)));
        }
        let check = |kind, id, device_class, expect: Option<&str>| {
            let subject = ConfigSubject { kind, id, host: None, device_class };
            assert_eq!(db.effective(&subject).get("x").map(|(value, _)| *value), expect);
        };
        check("client", "admin", None, Some("1"));
        check("osd", "1", None, Some("2"));
        check("osd", "1", Some("ssd"), Some("3"));
        check("osd", "4", Some("ssd"), Some("4"));
        check("mon", "a", None, Some("5"));
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
