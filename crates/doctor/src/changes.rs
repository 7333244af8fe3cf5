//! Settings that are changed, and the way back.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::finding::{Finding, Mend, sysctl_name};
use crate::machine::{Machine, plain_setting};
use crate::profile::{is_setting, is_value};

const UNDO_FORMAT: &str = "nacre-doctor-undo";
const UNDO_VERSION: u32 = 1;

/// A setting before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    pub path: String,
    pub before: String,
    pub after: String,
}

/// Changes of a machine, as a file in JSON keeps them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Undo {
    format: String,
    version: u32,
    /// Name of the machine.
    pub host: String,
    pub changes: Vec<Change>,
}

/// Fault of a file with changes.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UndoError {
    #[error("no changes of nacre doctor: {0}")]
    Form(String),
    #[error("these are changes of version {0}, and this program knows version {UNDO_VERSION}")]
    Version(u32),
    #[error("these are changes of host {0}, and this is {1}")]
    Host(String, String),
    #[error("{0:?} is no setting")]
    Path(String),
    #[error("{path}: {value:?} is no value of one line")]
    Value { path: String, value: String },
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Done,
    /// It was so already.
    Already,
    /// The value is neither that before nor that after: somebody else has changed it, and it was left alone.
    ChangedSince(String),
    Failed(String),
}

impl Outcome {
    pub fn is_good(&self) -> bool {
        matches!(self, Outcome::Done | Outcome::Already)
    }
}

/// Settings that mend findings, each once, with the values that they have now. Those that cannot be read are left out.
pub fn changes(machine: &Machine, findings: &[Finding]) -> Vec<Change> {
    let mut seen = BTreeSet::new();
    let mends = findings.iter().flat_map(|finding| &finding.mends);
    let settings = mends.filter_map(|mend| match mend {
        Mend::Set { path, value } => Some((path, value)),
        Mend::ByHand(_) => None,
    });
    let fresh = settings.filter(|(path, _)| seen.insert(path.as_str()));
    let changes = fresh.filter_map(|(path, value)| {
        Some(Change { path: path.clone(), before: machine.setting(path)?, after: value.clone() })
    });
    changes.filter(|change| change.before != change.after).collect()
}

impl Change {
    /// Writes the new value, and sees that the machine has taken it.
    pub fn apply(&self, machine: &Machine) -> Outcome {
        set(machine, &self.path, &self.after)
    }

    /// Writes the old value, unless somebody else has changed the setting.
    fn revert(&self, machine: &Machine) -> Outcome {
        match machine.setting(&self.path) {
            None => Outcome::Failed("it cannot be read".into()),
            Some(now) if now == self.before => Outcome::Already,
            Some(now) if now == plain_setting(&self.after) => set(machine, &self.path, &self.before),
            Some(now) => Outcome::ChangedSince(now),
        }
    }

    /// The line of a file in `/etc/sysctl.d` that keeps the new value; `None` for settings of other kinds.
    pub fn sysctl_line(&self) -> Option<String> {
        sysctl_name(&self.path).map(|name| format!("{name} = {}", self.after))
    }
}

fn set(machine: &Machine, path: &str, value: &str) -> Outcome {
    if let Err(error) = machine.write(path, value) {
        return Outcome::Failed(error.to_string());
    }
    match machine.setting(path) {
        Some(now) if now == plain_setting(value) => Outcome::Done,
        now => Outcome::Failed(format!("the machine has made it {}", now.as_deref().unwrap_or("unreadable"))),
    }
}

impl Undo {
    pub fn new(machine: &Machine, changes: Vec<Change>) -> Undo {
        Undo { format: UNDO_FORMAT.into(), version: UNDO_VERSION, host: host(machine), changes }
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("changes have only strings as keys") + "\n"
    }

    /// Reads changes of this machine. What a file says is written to settings only: other paths are refused.
    pub fn from_json(text: &str, machine: &Machine) -> Result<Undo, UndoError> {
        let undo: Undo = serde_json::from_str(text).map_err(|error| UndoError::Form(error.to_string()))?;
        if undo.format != UNDO_FORMAT {
            return Err(UndoError::Form(format!("its format is {:?}", undo.format)));
        }
        if undo.version != UNDO_VERSION {
            return Err(UndoError::Version(undo.version));
        }
        let here = host(machine);
        if undo.host != here {
            return Err(UndoError::Host(undo.host, here));
        }
        for change in &undo.changes {
            if !is_setting(&change.path) {
                return Err(UndoError::Path(change.path.clone()));
            }
            if let Some(value) = [&change.before, &change.after].into_iter().find(|value| !is_value(value)) {
                return Err(UndoError::Value { path: change.path.clone(), value: value.clone() });
            }
        }
        Ok(undo)
    }

    /// Takes all changes back, the last one first.
    pub fn revert(&self, machine: &Machine) -> Vec<(Change, Outcome)> {
        self.changes.iter().rev().map(|change| (change.clone(), change.revert(machine))).collect()
    }
}

fn host(machine: &Machine) -> String {
    machine.read("/proc/sys/kernel/hostname").unwrap_or_default()
}
