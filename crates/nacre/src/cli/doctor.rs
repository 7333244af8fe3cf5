//! The flags of `nacre doctor`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args, Debug)]
pub struct Doctor {
    /// Settings to compare with, too: 'reference' (those of published reference architectures), or a file in TOML.
    #[arg(long, value_name = "NAME|FILE")]
    pub profile: Option<String>,
    /// Show which settings would mend what was found, ask, and change them until the machine boots. A file keeps what
    /// leads back.
    #[arg(long, conflicts_with_all = ["undo", "json", "html", "torture"])]
    pub fix: bool,
    /// Change without asking.
    #[arg(long)]
    pub yes: bool,
    /// With --fix: the file that leads back, which must not exist. [default: nacre-doctor-undo-TIME.json]
    #[arg(long, value_name = "FILE", requires = "fix")]
    pub undo_file: Option<PathBuf>,
    /// Take back what --fix changed, by its file. Settings that somebody else has changed since are left alone.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["profile", "json", "html", "torture"])]
    pub undo: Option<PathBuf>,
    /// Print as JSON.
    #[arg(long, conflicts_with = "html")]
    pub json: bool,
    /// Write what was found as one HTML file.
    #[arg(long, value_name = "FILE", conflicts_with = "torture")]
    pub html: Option<PathBuf>,
    /// Test if flushes reach a drive: by a new file on it, or by the drive itself, which must be empty. Writes 16 MiB.
    #[arg(long, value_name = "FILE|DEVICE", conflicts_with = "profile")]
    pub torture: Option<PathBuf>,
    /// Step of --torture.
    #[arg(long, value_enum, default_value_t = Step::Measure, requires = "torture")]
    pub step: Step,
    /// With --step write: stop after so long. [default: when the power is cut, or with Ctrl-C]
    #[arg(long, value_name = "SECONDS", requires = "torture")]
    pub seconds: Option<f64>,
    /// With --step verify: the last number that --step write showed, as somebody saw it from another machine.
    #[arg(long, value_name = "N", requires = "torture")]
    pub acknowledged: Option<u64>,
}

/// A step of `--torture`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// Tell how long flushes take, and what that shows of such a drive.
    Measure,
    /// Write and flush numbered records until the power is cut; the numbers are shown.
    Write,
    /// Look, after the power is back, if a record is missing that was flushed.
    Verify,
}
