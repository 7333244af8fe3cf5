//! Settings of a machine as somebody had them.

use serde::Deserialize;

use crate::finding::{Examination, Finding, Mend, Severity};
use crate::machine::{Machine, plain_setting};

const REFERENCE: &str = include_str!("../profiles/reference.toml");

/// Settings below `/sys` and `/proc/sys`, in TOML.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    pub name: String,
    /// Whose settings these are.
    pub source: String,
    pub setting: Vec<Setting>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    pub path: String,
    pub value: String,
    /// Its purpose.
    pub reason: String,
    /// A larger number serves as well.
    #[serde(default)]
    pub at_least: bool,
    /// The value is memory in KiB, and is left out where it is more than this share of the machine's, in percent.
    pub memory_percent_max: Option<u64>,
}

/// Fault of a profile.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    #[error("no profile: {0}")]
    Form(String),
    #[error("{0} is no setting: a profile sets files below /sys and /proc/sys")]
    Path(String),
    #[error("{path}: {value:?} is no value of one line")]
    Value { path: String, value: String },
    #[error("{path}: {value:?} is no number, which at_least and memory_percent_max need")]
    Number { path: String, value: String },
}

/// True for a file whose values are settings.
pub(crate) fn is_setting(path: &str) -> bool {
    let inside = ["/sys/", "/proc/sys/", "/proc/irq/"].iter().any(|start| path.starts_with(start));
    inside && path.split('/').all(|part| part != ".." && part != ".") && !path.chars().any(char::is_control)
}

/// True for a value that is one line.
pub(crate) fn is_value(value: &str) -> bool {
    !value.trim().is_empty() && !value.chars().any(char::is_control)
}

impl Profile {
    /// Host settings of the reference architectures.
    pub fn reference() -> Profile {
        Profile::from_toml(REFERENCE).expect("the shipped profile is good")
    }

    pub fn from_toml(text: &str) -> Result<Profile, ProfileError> {
        let profile: Profile = toml::from_str(text).map_err(|error| ProfileError::Form(error.to_string()))?;
        for Setting { path, value, at_least, memory_percent_max, .. } in &profile.setting {
            if !is_setting(path) {
                return Err(ProfileError::Path(path.clone()));
            }
            if !is_value(value) {
                return Err(ProfileError::Value { path: path.clone(), value: value.clone() });
            }
            let is_number = value.parse::<u64>().is_ok();
            if !is_number && (*at_least || memory_percent_max.is_some()) {
                return Err(ProfileError::Number { path: path.clone(), value: value.clone() });
            }
        }
        Ok(profile)
    }

    /// Adds a finding for each setting that the machine has otherwise. Where a check has found the same setting, the
    /// profile's value is the one that is set.
    pub(crate) fn compare(&self, machine: &Machine, examination: &mut Examination) {
        for setting in &self.setting {
            let Some(read) = machine.setting(&setting.path) else {
                examination.left_out.push(format!("{}: this machine does not have it", setting.path));
                continue;
            };
            if setting.is_met(&read) {
                continue;
            }
            if let Some(reason) = setting.too_much(machine) {
                examination.left_out.push(format!("{}: {reason}", setting.path));
                continue;
            }
            for finding in &mut examination.findings {
                finding.mends.retain(|mend| !matches!(mend, Mend::Set { path, .. } if *path == setting.path));
            }
            examination.findings.push(Finding {
                id: format!("profile-{}", self.name),
                severity: Severity::Note,
                title: format!("Not as profile {} has it", self.name),
                subject: String::new(),
                read: format!("{} is {read}", setting.path),
                wanted: setting.value.clone(),
                cost: setting.reason.clone(),
                mends: vec![Mend::set(setting.path.as_str(), plain_setting(&setting.value))],
            });
        }
    }
}

impl Setting {
    fn is_met(&self, read: &str) -> bool {
        let number = |text: &str| text.parse::<u64>().ok();
        let is_more = self.at_least && number(read).zip(number(&self.value)).is_some_and(|(read, least)| read >= least);
        is_more || read == plain_setting(&self.value)
    }

    fn too_much(&self, machine: &Machine) -> Option<String> {
        let percent = self.memory_percent_max?;
        let (wanted, memory) = (self.value.parse::<u64>().ok()?, machine.memory_kib()?);
        let is_too_much = u128::from(wanted) * 100 > u128::from(memory) * u128::from(percent);
        is_too_much.then(|| format!("{wanted} KiB are more than {percent} % of this machine's memory"))
    }
}
