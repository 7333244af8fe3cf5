//! Folders of new daemons of a cluster that is there: made under names that nobody uses, and given their own once all
//! are complete.
//!
//! So only what this program made, and nobody ever used, is removed: those of an attempt that fails, and what one that
//! was killed left, known by names that are given under [`GrowthLock`] only.

use crate::creation;
use crate::growth_lock::GrowthLock;
use crate::layout::Layout;
use crate::osd_daemon::STORE_FILE;
use crate::state_file::ClusterState;
use anyhow::{Context, Result, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Daemons that are being made. Dropped before [`Making::keep`], it removes what it made.
pub struct Making<'a> {
    layout: &'a Layout,
    /// The files that new OSDs have outside the cluster's directory.
    outside: Vec<PathBuf>,
    /// With the names that they have for now.
    made: Vec<(String, PathBuf)>,
    /// The number of them that have got their own.
    placed: usize,
}

impl<'a> Making<'a> {
    /// Begins to make daemons of a cluster that is to have `grown`. Removes what an attempt that was killed has left.
    ///
    /// Errors: a daemon has a folder already.
    pub fn begin(
        layout: &'a Layout,
        _lock: &GrowthLock,
        grown: &ClusterState,
        daemons: &[String],
    ) -> Result<Making<'a>> {
        if let Some(folder) = daemons.iter().map(|daemon| layout.dir().join(daemon)).find(|folder| is_there(folder)) {
            bail!(
                "{} exists already, and this cluster does not know it: if it was added by hand, add others by hand, too; remove it if \
                 nothing in it is needed",
                folder.display()
            );
        }
        let making = Making { layout, outside: grown.outside_files(), made: Vec::new(), placed: 0 };
        let cannot = || format!("cannot look into {}", layout.dir().display());
        for entry in std::fs::read_dir(layout.dir()).with_context(cannot)? {
            let entry = entry.with_context(cannot)?;
            if entry.file_name().to_str().is_some_and(is_unfinished_name) {
                making.discard(&entry.path())?;
            }
        }
        Ok(making)
    }

    /// Makes the store of one.
    pub async fn make(&mut self, daemon: &str, program: &Path) -> Result<()> {
        let folder = self.layout.dir().join(unfinished_name(daemon));
        self.made.push((daemon.to_owned(), folder.clone()));
        creation::mkfs(self.layout, daemon, program, Some(&folder)).await
    }

    /// Gives all of them their names.
    ///
    /// Errors: somebody else has made one of that name meanwhile, which is left as it is.
    pub fn place(&mut self) -> Result<()> {
        for (daemon, folder) in &self.made {
            let own = self.layout.dir().join(daemon);
            match renameat_with(CWD, folder, CWD, &own, RenameFlags::NOREPLACE) {
                Ok(()) => {}
                // The file system cannot refuse by itself.
                Err(Errno::INVAL | Errno::NOSYS) if !is_there(&own) => std::fs::rename(folder, &own)
                    .with_context(|| format!("cannot rename {} to {}", folder.display(), own.display()))?,
                Err(Errno::EXIST | Errno::INVAL | Errno::NOSYS) => {
                    bail!("{} was made by somebody else meanwhile", own.display())
                }
                Err(e) => {
                    return Err(e).with_context(|| format!("cannot rename {} to {}", folder.display(), own.display()));
                }
            }
            self.placed += 1;
        }
        let dir = File::open(self.layout.dir()).and_then(|dir| dir.sync_all());
        dir.with_context(|| format!("cannot sync {}", self.layout.dir().display()))
    }

    /// The state file tells of them.
    pub fn keep(mut self) {
        self.made.clear();
    }

    /// Removes what was made in a folder, and those files outside to which it has links: it made them, under the
    /// cluster's name.
    fn discard(&self, folder: &Path) -> Result<()> {
        let removed = |result: std::io::Result<()>, path: &Path| match result {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                Err(e).with_context(|| format!("cannot remove {}", path.display()))
            }
            _ => Ok(()),
        };
        for what in ["wal", "metadata"] {
            let target = std::fs::read_link(folder.join(format!("{STORE_FILE}.{what}")));
            if let Some(path) = target.ok().filter(|path| self.outside.contains(path)) {
                removed(std::fs::remove_file(&path), &path)?;
            }
        }
        removed(std::fs::remove_dir_all(folder), folder)
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        for (index, (daemon, folder)) in self.made.iter().enumerate() {
            // No daemon in this list has been started, because the state file does not name it.
            if index < self.placed && std::fs::rename(self.layout.dir().join(daemon), folder).is_err() {
                continue;
            }
            if let Err(error) = self.discard(folder) {
                tracing::warn!("cleaning up: {error:#}");
            }
        }
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

const UNFINISHED: &str = ".new-";

fn unfinished_name(daemon: &str) -> String {
    format!("{daemon}{UNFINISHED}{}", std::process::id())
}

/// `osd.6.new-1234`, `mon.b.new-1234`.
fn is_unfinished_name(name: &str) -> bool {
    let Some((daemon, process)) = name.rsplit_once(UNFINISHED) else { return false };
    let is_daemon = ["osd.", "mon."].iter().any(|kind| daemon.strip_prefix(kind).is_some_and(|id| !id.is_empty()));
    is_daemon && !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_given_here_are_taken_for_unfinished() {
        assert!(is_unfinished_name(&unfinished_name("osd.12")) && is_unfinished_name("mon.b.new-7"));
        for name in ["osd.6", "osd.6.new", "osd.6.new-", "osd.6.new-old", "osd..new-7", "backup.new-7", "log"] {
            assert!(!is_unfinished_name(name), "{name}");
        }
    }
}
