//! The options of one daemon, with the sources that they come from.

use crate::options::{self, OptionFacts, value};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Depth to which options that name other options are followed.
const DEPTH_MAX: usize = 8;

/// One option's values by source, the weakest first.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
struct Values {
    /// The daemon's own default, where it differs from that of the options' table.
    own: Option<String>,
    /// From the monitors (`ceph config set`).
    monitors: Option<String>,
    /// From the daemon's `ceph.conf`.
    file: Option<String>,
    /// By a command to this daemon, until it ends.
    told: Option<String>,
}

impl Values {
    fn strongest(&self) -> Option<&String> {
        self.told.as_ref().or(self.file.as_ref()).or(self.monitors.as_ref()).or(self.own.as_ref())
    }

    fn is_set(&self) -> bool {
        self.told.is_some() || self.file.is_some() || self.monitors.is_some()
    }
}

/// The reason why an option was not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetError {
    #[error("there is no such option")]
    Unknown,
    #[error("it may not be modified at runtime")]
    OnlyAtStart,
    #[error("{0}")]
    Value(String),
}

/// The options of one daemon.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `osd.3`.
    name: String,
    /// Options that the daemon acts on while it runs.
    observed: BTreeSet<&'static str>,
    values: BTreeMap<&'static str, Values>,
}

impl Settings {
    /// Makes the settings of the daemon `name`. `observed`: options that it acts on while it runs.
    pub fn new(name: &str, observed: impl IntoIterator<Item = &'static str>) -> Settings {
        Settings { name: name.to_owned(), observed: observed.into_iter().collect(), values: BTreeMap::new() }
    }

    /// Notes a value of the daemon's `ceph.conf`, with variables expanded. Names that are no options are passed over.
    ///
    /// Error: the text is no value of the option; the option stays as it was.
    pub fn from_file(&mut self, name: &str, text: &str) -> Result<(), SetError> {
        let Some(option) = options::find(name) else { return Ok(()) };
        let kept = value::normalize(option, text).map_err(|e| SetError::Value(e.sentence))?;
        self.values.entry(option.name).or_default().file = Some(kept);
        Ok(())
    }

    /// Sets the daemon's own default of an option.
    pub fn set_default(&mut self, name: &str, text: String) {
        if let Some(option) = options::find(name) {
            self.values.entry(option.name).or_default().own = Some(text);
        }
    }

    /// Replaces all values that the monitors gave. Names and values that this version does not know are passed over.
    pub fn set_from_monitors<'a>(&mut self, given: impl IntoIterator<Item = (&'a str, &'a str)>) {
        self.values.values_mut().for_each(|values| values.monitors = None);
        for (name, text) in given {
            if let Some(option) = options::find(name)
                && let Ok(kept) = value::normalize(option, text)
            {
                self.values.entry(option.name).or_default().monitors = Some(kept);
            }
        }
        self.forget_empty();
    }

    /// Sets an option until the daemon ends. `name`: words of the name may be separated by blanks. Returns a text for
    /// people about the change, empty if there is none.
    pub fn set(&mut self, name: &str, text: &str) -> Result<String, SetError> {
        let option = self.find(name).ok_or(SetError::Unknown)?;
        if !option.at_runtime {
            return Err(SetError::OnlyAtStart);
        }
        let kept = value::normalize(option, text).map_err(|e| SetError::Value(e.sentence))?;
        let before = self.get(option);
        self.values.entry(option.name).or_default().told = Some(kept);
        Ok(self.change(option, &before))
    }

    /// Removes what [`Settings::set`] did. Returns a text for people as it does.
    pub fn unset(&mut self, name: &str) -> Result<String, SetError> {
        let option = self.find(name).ok_or(SetError::Unknown)?;
        let before = self.get(option);
        if let Some(values) = self.values.get_mut(option.name) {
            values.told = None;
        }
        self.forget_empty();
        Ok(self.change(option, &before))
    }

    fn change(&self, option: &OptionFacts, before: &str) -> String {
        let now = self.get(option);
        let effect =
            if self.observed.contains(option.name) { "" } else { "(not observed, change may require restart) " };
        if now == before { String::new() } else { format!("{} = '{now}' {effect}", option.name) }
    }

    fn forget_empty(&mut self) {
        self.values.retain(|_, values| values.strongest().is_some());
    }

    /// Returns the facts of the option of this name. The words of a name may be separated by blanks.
    pub fn find(&self, name: &str) -> Option<&'static OptionFacts> {
        options::find(&name.replace(' ', "_")).filter(|option| !option.name.starts_with("mgr/"))
    }

    /// Returns the value in force, with variables expanded.
    pub fn get(&self, option: &OptionFacts) -> String {
        self.expanded(option, 0)
    }

    /// Returns the value in force of an option that this crate's table has, as a number; `None` if it is none.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(options::find(name)?).parse().ok()
    }

    /// Returns true if somebody set the option.
    pub fn is_set(&self, name: &str) -> bool {
        self.values.get(name).is_some_and(Values::is_set)
    }

    fn raw(&self, option: &OptionFacts) -> String {
        let set = self.values.get(option.name).and_then(Values::strongest);
        set.cloned().unwrap_or_else(|| option.default_for(true))
    }

    fn expanded(&self, option: &OptionFacts, depth: usize) -> String {
        let raw = self.raw(option);
        if !raw.contains('$') || depth == DEPTH_MAX {
            return raw;
        }
        let (kind, id) = self.name.split_once('.').unwrap_or((&self.name, ""));
        let mut out = String::new();
        let mut rest = raw.as_str();
        while let Some(at) = rest.find('$') {
            let tail = &rest[at + 1..];
            let end = tail.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(tail.len());
            out.push_str(&rest[..at]);
            match &tail[..end] {
                "cluster" => out.push_str("ceph"),
                "type" => out.push_str(kind),
                "id" => out.push_str(id),
                "name" => out.push_str(&self.name),
                "pid" => out.push_str(&std::process::id().to_string()),
                other => match options::find(other) {
                    Some(option) => out.push_str(&self.expanded(option, depth + 1)),
                    None => out.push_str(&rest[at..at + 1 + end]),
                },
            }
            rest = &tail[end..];
        }
        out + rest
    }

    /// Returns the answer to `config show`: all options with the values in force.
    pub fn show(&self) -> Value {
        let mut all: Vec<_> = options::all().filter(|option| !option.name.starts_with("mgr/")).collect();
        all.sort_by_key(|option| option.name);
        let mut object = Map::new();
        object.insert("name".to_owned(), json!(self.name));
        object.insert("cluster".to_owned(), json!("ceph"));
        object.extend(all.into_iter().map(|option| (option.name.to_owned(), json!(self.get(option)))));
        Value::Object(object)
    }

    /// Returns the answer to `config diff`: the options that somebody set, or only the one called `one`, with their
    /// values by source.
    pub fn diff(&self, one: Option<&str>) -> Value {
        let set = self.values.iter().filter(|(_, values)| values.is_set()).map(|(name, _)| *name);
        let names: Vec<&str> = match one {
            Some(name) => self.find(name).map(|option| option.name).into_iter().collect(),
            None => set.collect(),
        };
        let entry = |name: &str| {
            let option = options::find(name).expect("only options have values");
            let typed = |text: &str| options::typed(option.kind, text);
            let values = self.values.get(name).cloned().unwrap_or_default();
            let mut object = Map::new();
            let default = values.own.unwrap_or_else(|| option.default_for(true));
            object.insert("default".to_owned(), typed(&default));
            for (source, text) in [("mon", values.monitors), ("file", values.file), ("override", values.told)] {
                if let Some(text) = text {
                    object.insert(source.to_owned(), typed(&text));
                }
            }
            object.insert("final".to_owned(), typed(&self.get(option)));
            (name.to_owned(), Value::Object(object))
        };
        json!({"diff": names.into_iter().map(entry).collect::<Map<_, _>>()})
    }

    /// Returns the options that somebody set: name, value in force, and Ceph's word for its source.
    pub fn set_options(&self) -> impl Iterator<Item = (&'static str, String, &'static str)> {
        self.values.iter().filter(|(_, values)| values.is_set()).map(|(name, values)| {
            let source = match values {
                Values { told: Some(_), .. } => "override",
                Values { file: Some(_), .. } => "file",
                _ => "mon",
            };
            (*name, self.get(options::find(name).expect("only options have values")), source)
        })
    }

    /// Returns the values that commands to this daemon set.
    pub fn overrides(&self) -> BTreeMap<String, String> {
        let told = self.values.iter().filter_map(|(name, values)| Some(((*name).to_owned(), values.told.clone()?)));
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::new("osd.3", ["osd_max_backfills"])
    }

    #[test]
    fn a_stronger_source_wins_and_its_end_brings_back_the_weaker_one() {
        let mut it = settings();
        let backfills = options::find("osd_max_backfills").unwrap();
        let default = it.get(backfills);
        it.set_from_monitors([("osd_max_backfills", "5"), ("no_such_option", "1"), ("osd_scrub_sleep", "x")]);
        assert_eq!(it.get(backfills), "5");
        assert_eq!(it.set("osd max backfills", "7").unwrap(), "osd_max_backfills = '7' ");
        assert_eq!(it.set("osd_max_backfills", "7").unwrap(), "", "no change");
        assert_eq!(
            it.diff(Some("osd_max_backfills"))["diff"]["osd_max_backfills"],
            json!({"default": default.parse::<u64>().unwrap(), "mon": 5, "override": 7, "final": 7})
        );
        assert_eq!(it.set_options().collect::<Vec<_>>(), [("osd_max_backfills", "7".to_owned(), "override")]);
        assert_eq!(it.unset("osd_max_backfills").unwrap(), "osd_max_backfills = '5' ");
        it.from_file("osd_max_backfills", "6").unwrap();
        it.set_from_monitors([("osd_max_backfills", "9")]);
        assert_eq!(it.get(backfills), "6", "the daemon's own file wins over the monitors");
        it.set_from_monitors([]);
        assert_eq!(it.diff(None)["diff"].as_object().unwrap().len(), 1);
        assert!(it.is_set("osd_max_backfills") && !it.is_set("osd_scrub_sleep"));
    }

    #[test]
    fn bad_changes_change_nothing() {
        let mut it = settings();
        assert_eq!(it.set("nonsense", "1"), Err(SetError::Unknown));
        assert_eq!(it.unset("nonsense"), Err(SetError::Unknown));
        assert_eq!(it.set("osd_data", "/x"), Err(SetError::OnlyAtStart));
        assert_eq!(
            it.set("osd_scrub_max_preemptions", "99"),
            Err(SetError::Value("Value '99' exceeds maximum 30".to_owned()))
        );
        assert!(it.from_file("osd_max_backfills", "many").is_err());
        assert_eq!(it.from_file("osd size", "1"), Ok(()), "no option of Ceph's");
        assert_eq!(it, settings());
    }

    #[test]
    fn options_that_nobody_acts_on_are_said_to_need_a_restart() {
        let mut it = settings();
        assert_eq!(
            it.set("osd_scrub_sleep", "0.5").unwrap(),
            "osd_scrub_sleep = '0.500000' (not observed, change may require restart) "
        );
    }

    #[test]
    fn values_name_other_options() {
        let mut it = settings();
        it.from_file("run_dir", "/r").unwrap();
        assert_eq!(it.get(options::find("admin_socket").unwrap()), "/r/ceph-osd.3.asok");
        let shown = it.show();
        assert_eq!(shown["name"], "osd.3");
        assert_eq!(shown["admin_socket"], "/r/ceph-osd.3.asok");
        assert!(shown.as_object().unwrap().len() > 1800);
        assert!(shown.as_object().unwrap().values().all(Value::is_string));
    }
}
