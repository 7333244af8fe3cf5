//! The options of one daemon, with the sources that they come from.

use crate::options::{self, OptionFacts, value};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use wire::nacre::mon::{OptionReport, option_source};

/// Most bytes of names and values in a report, all options together. Options beyond that are left out.
pub const REPORT_BYTES_MAX: usize = 64 << 10;

/// Options whose values nobody is told who asks the cluster.
const SECRET: [&str; 1] = ["key"];

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
    /// From the daemon's command line.
    command_line: Option<String>,
    /// By a command to this daemon, until it ends.
    told: Option<String>,
}

impl Values {
    fn strongest(&self) -> Option<&String> {
        self.by_source().into_iter().rev().find_map(|(_, text)| text)
    }

    fn is_set(&self) -> bool {
        self.by_source()[1..].iter().any(|(_, text)| text.is_some())
    }

    /// Returns the values with their sources, the weakest first. The first is the daemon's own default.
    fn by_source(&self) -> [(u8, Option<&String>); 5] {
        [
            (option_source::DEFAULT, self.own.as_ref()),
            (option_source::MON, self.monitors.as_ref()),
            (option_source::FILE, self.file.as_ref()),
            (option_source::COMMAND_LINE, self.command_line.as_ref()),
            (option_source::OVERRIDE, self.told.as_ref()),
        ]
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
    /// True once the monitors have given values.
    is_given: bool,
    /// Options whose values from the monitors have no effect before the daemon starts anew.
    ignored: BTreeSet<&'static str>,
}

impl Settings {
    /// Makes the settings of the daemon `name`. `observed`: options that it acts on while it runs.
    pub fn new(name: &str, observed: impl IntoIterator<Item = &'static str>) -> Settings {
        Settings {
            name: name.to_owned(),
            observed: observed.into_iter().collect(),
            values: BTreeMap::new(),
            is_given: false,
            ignored: BTreeSet::new(),
        }
    }

    /// Notes a value of the daemon's `ceph.conf`, with variables expanded. Names that are no options are passed over.
    ///
    /// Error: the text is no value of the option; the option stays as it was.
    pub fn from_file(&mut self, name: &str, text: &str) -> Result<(), SetError> {
        self.note(name, text, |values| &mut values.file)
    }

    /// Notes a value of the daemon's command line, as [`Settings::from_file`] does.
    pub fn from_command_line(&mut self, name: &str, text: &str) -> Result<(), SetError> {
        self.note(name, text, |values| &mut values.command_line)
    }

    fn note(
        &mut self,
        name: &str,
        text: &str,
        of_source: impl FnOnce(&mut Values) -> &mut Option<String>,
    ) -> Result<(), SetError> {
        let Some(option) = options::find(name) else { return Ok(()) };
        let kept = value::normalize(option, text).map_err(|e| SetError::Value(e.sentence))?;
        *of_source(self.values.entry(option.name).or_default()) = Some(kept);
        Ok(())
    }

    /// Sets the daemon's own default of an option.
    pub fn set_default(&mut self, name: &str, text: String) {
        if let Some(option) = options::find(name) {
            self.values.entry(option.name).or_default().own = Some(text);
        }
    }

    /// Replaces all values that the monitors gave. Names and values that this version does not know are passed over.
    ///
    /// The first call gives values that the daemon starts with. Later ones do not change options that have effect at a
    /// start only, unless the daemon acts on them while it runs.
    pub fn set_from_monitors<'a>(&mut self, given: impl IntoIterator<Item = (&'a str, &'a str)>) {
        let runs = std::mem::replace(&mut self.is_given, true);
        self.ignored.clear();
        let mut kept: BTreeMap<&'static str, Option<String>> = BTreeMap::new();
        for (name, text) in given {
            let Some(option) = options::find(name) else { continue };
            let Ok(text) = value::normalize(option, text) else { continue };
            let before = self.values.get(option.name).and_then(|values| values.monitors.clone());
            let is_fixed = runs && !option.at_runtime && !self.observed.contains(option.name);
            let is_ignored = is_fixed && before.as_ref() != Some(&text) && self.raw(option) != text;
            // Of a name that comes twice, the last value counts.
            match is_ignored {
                true => self.ignored.insert(option.name),
                false => self.ignored.remove(option.name),
            };
            kept.insert(option.name, if is_ignored { before } else { Some(text) });
        }
        self.values.values_mut().for_each(|values| values.monitors = None);
        for (name, text) in kept {
            self.values.entry(name).or_default().monitors = text;
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

    /// Returns the value in force of an option that this crate's table has, as a number; `None` if it is none. A truth
    /// value is 1 or 0.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.get(options::find(name)?).as_str() {
            "true" => Some(1.0),
            "false" => Some(0.0),
            value => value.parse().ok(),
        }
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
            let default = values.own.clone().unwrap_or_else(|| option.default_for(true));
            object.insert("default".to_owned(), typed(&default));
            for (source, text) in &values.by_source()[1..] {
                if let Some(text) = text {
                    object.insert(option_source::name(*source).to_owned(), typed(text));
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
            let strongest = values.by_source().into_iter().rev().find(|(_, text)| text.is_some());
            let source = strongest.map_or("default", |(source, _)| option_source::name(source));
            (*name, self.get(options::find(name).expect("only options have values")), source)
        })
    }

    /// Returns for monitors which options have values of their own here, by name. Keys are not told.
    pub fn report(&self) -> Vec<OptionReport> {
        let names: BTreeSet<&'static str> = self.values.keys().chain(&self.ignored).copied().collect();
        let names = names.into_iter().filter(|name| !SECRET.contains(name));
        let (mut out, mut bytes) = (Vec::new(), 0);
        for name in names {
            let values = self.values.get(name).cloned().unwrap_or_default();
            let values = values.by_source().into_iter().filter_map(|(source, text)| Some((source, text?.clone())));
            let is_ignored = self.ignored.contains(name);
            let report = OptionReport { name: name.to_owned(), values: values.collect(), is_ignored };
            if bytes + report.bytes() <= REPORT_BYTES_MAX {
                bytes += report.bytes();
                out.push(report);
            }
        }
        out
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
    fn options_that_have_effect_at_a_start_only_keep_what_the_daemon_started_with() {
        let mut it = settings();
        let size = options::find("bluestore_block_size").unwrap();
        assert!(!size.at_runtime);
        it.set_from_monitors([("bluestore_block_size", "4096"), ("osd_max_backfills", "2")]);
        it.set_from_monitors([("bluestore_block_size", "4096")]);
        assert_eq!(it.report(), [report("bluestore_block_size", &[(1, "4096")], false)]);
        it.set_from_monitors([("bluestore_block_size", "8192"), ("osd_max_backfills", "3")]);
        assert_eq!(it.get(size), "4096");
        let ignores = report("bluestore_block_size", &[(1, "4096")], true);
        assert_eq!(it.report(), [ignores, report("osd_max_backfills", &[(1, "3")], false)]);
        it.set_from_monitors([]);
        assert_eq!(it.report(), []);
        it.set_from_monitors([("bluestore_block_size", "8192")]);
        assert_eq!(it.report(), [report("bluestore_block_size", &[], true)], "it has the default");
    }

    #[test]
    fn reports_have_all_values_but_keys_and_what_is_too_large() {
        let mut it = settings();
        it.set_default("osd_memory_target", "77".to_owned());
        it.from_file("osd_memory_target", "1Gi").unwrap();
        it.from_command_line("osd_data", "/d").unwrap();
        it.set("osd_memory_target", "2000000000").unwrap();
        it.set_from_monitors([("osd_memory_target", "2147483648")]);
        it.from_file("key", "AQBH").unwrap();
        it.set("fsid", "x").unwrap_err();
        it.set("osd_mclock_profile", "custom").unwrap();
        it.from_file("crush_location", &"x".repeat(REPORT_BYTES_MAX)).unwrap();
        let all = [(0, "77"), (1, "2147483648"), (2, "1073741824"), (5, "2000000000")];
        let expected = [
            report("osd_data", &[(4, "/d")], false),
            report("osd_mclock_profile", &[(5, "custom")], false),
            report("osd_memory_target", &all, false),
        ];
        assert_eq!(it.report(), expected);
        assert_eq!(it.set_options().map(|(_, _, source)| source).collect::<Vec<_>>()[2], "cmdline");
    }

    fn report(name: &str, values: &[(u8, &str)], is_ignored: bool) -> OptionReport {
        let values = values.iter().map(|(source, text)| (*source, (*text).to_owned())).collect();
        OptionReport { name: name.to_owned(), values, is_ignored }
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
