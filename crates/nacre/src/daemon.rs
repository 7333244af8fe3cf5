//! `nacre mon` and `nacre osd`: the daemons.

use crate::cli;
use anyhow::{Context, Result, bail};
use client::{ConfFile, Who};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::path::PathBuf;

/// Asks the kernel to stop this process when its supervisor ends, however it ends.
///
/// Errors: the supervisor has ended already.
fn follow_supervisor(supervised_by: Option<u32>) -> Result<()> {
    let Some(pid) = supervised_by else { return Ok(()) };
    set_parent_process_death_signal(Some(Signal::TERM)).context("cannot follow the supervisor")?;
    // It may have ended before the line above.
    if getppid() != Pid::from_raw(pid as i32) {
        bail!("the supervisor (process {pid}) has ended");
    }
    Ok(())
}

/// A daemon's options, from flags and configuration; flags win.
pub struct Settings<'a> {
    pub conf: ConfFile,
    pub who: Who,
    pub flags: &'a cli::Daemon,
}

impl<'a> Settings<'a> {
    pub fn read(kind: &str, id: &str, flags: &'a cli::Daemon) -> Result<Settings<'a>> {
        Ok(Settings { conf: ConfFile::load(&flags.conf)?, who: Who::new(kind, id), flags })
    }

    pub fn data(&self) -> Result<PathBuf> {
        match &self.flags.data {
            Some(path) => Ok(path.clone()),
            None => Ok(self.conf.require(&self.who, &format!("{} data", self.who.kind))?.into()),
        }
    }
}

pub fn mon(options: &cli::Mon) -> Result<()> {
    follow_supervisor(options.daemon.supervised_by)?;
    let settings = Settings::read("mon", &options.id, &options.daemon)?;
    settings.data()?;
    bail!("this build has no monitor yet")
}

pub fn osd(options: &cli::Osd) -> Result<()> {
    follow_supervisor(options.daemon.supervised_by)?;
    crate::osd_daemon::run(options)
}
