//! The host check: what on a machine costs a storage cluster performance or safety, and how that is mended.
//!
//! Start at [`examine`].
//!
//! | module | content |
//! |---|---|
//! | [`machine`] | the one place through which a machine is read and written: files below a root, and commands |
//! | [`finding`] | checks and what they find |
//! | [`checks`] | the table of all checks |
//! | [`profile`] | settings of a machine as others had them, in TOML |
//! | [`changes`] | settings that are changed, with a file that leads back |
//! | [`page`] | findings as a page and as JSON |
//! | [`torture`] | tells if a drive keeps what it said it had flushed |
//!
//! Absent: clusters, daemons, terminals, time of day. Tests inject faults as a folder of files ([`Machine::at`]).

pub mod changes;
pub mod checks;
pub mod finding;
pub mod machine;
pub mod page;
pub mod profile;
pub mod torture;

#[cfg(test)]
mod tests;

pub use changes::{Change, Undo, UndoError};
pub use finding::{Check, Examination, Finding, Mend, Severity};
pub use machine::{Machine, Probed};
pub use profile::{Profile, ProfileError};

/// Carries out all checks, and those of a profile if there is one.
pub fn examine(machine: &Machine, profile: Option<&Profile>) -> Examination {
    let mut examination = Examination::default();
    for check in checks::all() {
        match (check.find)(machine) {
            None => examination.unknown.push(check.id),
            Some(found) if found.is_empty() => examination.fine.push(check.id),
            Some(found) => examination.findings.extend(found.into_iter().map(|one| one.of(check))),
        }
    }
    if let Some(profile) = profile {
        profile.compare(machine, &mut examination);
    }
    examination.findings.sort_by_key(|finding| finding.severity);
    examination
}
