//! Checks and findings.

use serde::Serialize;

use crate::machine::Machine;

/// How bad a finding is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Data may be lost, or daemons may end.
    Danger,
    /// Operations take longer, or fewer are done.
    Cost,
    /// Worth knowing; it costs little, or only some users.
    Note,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Danger => "danger",
            Severity::Cost => "cost",
            Severity::Note => "note",
        }
    }
}

/// A row of the table of checks.
pub struct Check {
    /// Name: letters and hyphens.
    pub id: &'static str,
    pub severity: Severity,
    /// A few words for headings.
    pub title: &'static str,
    /// The cost of leaving it as it is. Figures in it are expectations unless the finding brings a measured one.
    pub cost: &'static str,
    /// Looks; `None` if the machine does not show what the check reads.
    pub find: fn(&Machine) -> Option<Vec<Deviation>>,
}

/// A find of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Deviation {
    /// Where: a drive, an interface; empty for the whole machine.
    pub subject: String,
    /// The value that was read there.
    pub read: String,
    /// The value that it should be.
    pub wanted: String,
    pub mends: Vec<Mend>,
}

/// A step that mends a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mend {
    /// A value is written to a file below `/sys` or `/proc/sys`. It lasts until the machine boots.
    Set { path: String, value: String },
    /// Something that only people do; a command if there is one.
    ByHand(String),
}

impl Mend {
    pub fn set(path: impl Into<String>, value: impl Into<String>) -> Mend {
        Mend::Set { path: path.into(), value: value.into() }
    }

    /// The step as a line for a shell, or as advice.
    pub fn command(&self) -> String {
        match self {
            Mend::Set { path, value } => match sysctl_name(path) {
                Some(name) => format!("sysctl -w {name}=\"{value}\""),
                None => format!("echo {value} > {path}"),
            },
            Mend::ByHand(words) => words.clone(),
        }
    }
}

/// The name that `sysctl` gives a file below `/proc/sys`.
pub fn sysctl_name(path: &str) -> Option<String> {
    path.strip_prefix("/proc/sys/").map(|name| name.replace('/', "."))
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    pub id: String,
    pub severity: Severity,
    pub title: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subject: String,
    pub read: String,
    pub wanted: String,
    pub cost: String,
    pub mends: Vec<Mend>,
}

impl Deviation {
    /// A deviation of the whole machine.
    pub fn new(read: impl Into<String>, wanted: impl Into<String>, mends: Vec<Mend>) -> Deviation {
        Deviation { subject: String::new(), read: read.into(), wanted: wanted.into(), mends }
    }

    /// A deviation of a part of the machine.
    pub fn at(self, subject: impl Into<String>) -> Deviation {
        Deviation { subject: subject.into(), ..self }
    }

    pub(crate) fn of(self, check: &Check) -> Finding {
        Finding {
            id: check.id.into(),
            severity: check.severity,
            title: check.title.into(),
            subject: self.subject,
            read: self.read,
            wanted: self.wanted,
            cost: check.cost.into(),
            mends: self.mends,
        }
    }
}

/// All that was found, the worst first.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Examination {
    pub findings: Vec<Finding>,
    /// Checks that found nothing.
    pub fine: Vec<&'static str>,
    /// Checks that could not look, as the machine does not show what they read.
    pub unknown: Vec<&'static str>,
    /// Settings of the profile that this machine should not have, with the reason.
    pub left_out: Vec<String>,
}

impl Examination {
    /// True if something may lose data or costs performance.
    pub fn is_bad(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity < Severity::Note)
    }
}
