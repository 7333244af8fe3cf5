//! Daemons that a supervisor leaves stopped for a while, at the wish of another command.
//!
//! The command holds a lock on `run/held` as long as it lives, in which the daemons' names are, and tells the
//! supervisor by a signal when they change. Names that nobody holds mean nothing, so a command that was killed keeps no
//! daemon from being started by the next `nacre up`.

use crate::layout::Layout;
use crate::process::{LOOK_AGAIN, daemon_pid, supervisor_pid};
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::process::kill_process;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A supervisor stops a daemon, killing it if need be, or starts it, within this time.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

fn path(layout: &Layout) -> PathBuf {
    layout.run_dir().join("held")
}

/// Names of the daemons that are held now.
pub fn held(layout: &Layout) -> Vec<String> {
    let Ok(mut file) = File::open(path(layout)) else { return Vec::new() };
    if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
        return Vec::new();
    }
    let mut text = String::new();
    match file.read_to_string(&mut text) {
        Ok(_) => text.lines().map(str::to_owned).collect(),
        Err(_) => Vec::new(),
    }
}

/// The right to hold daemons of one cluster.
pub struct Holder {
    layout: Layout,
    file: File,
}

impl Holder {
    /// Errors: somebody else holds daemons of this cluster.
    pub fn new(layout: &Layout) -> Result<Holder> {
        let path = path(layout);
        let context = || format!("cannot write {}", path.display());
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(false).open(&path).with_context(context)?;
        // A supervisor that looks holds the lock for an instant.
        const TRIES: u32 = 10;
        for attempt in 1.. {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) if attempt < TRIES => std::thread::sleep(POLL),
                Err(rustix::io::Errno::WOULDBLOCK) => bail!("another command keeps daemons of this cluster stopped"),
                Err(error) => return Err(error).with_context(context),
            }
        }
        file.set_len(0).with_context(context)?;
        Ok(Holder { layout: layout.clone(), file })
    }

    /// Tells the supervisor to keep exactly `daemons` stopped, and waits until they have ended.
    pub async fn hold(&mut self, daemons: &[String]) -> Result<()> {
        let text: String = daemons.iter().map(|daemon| format!("{daemon}\n")).collect();
        let written = (|| {
            self.file.set_len(0)?;
            self.file.rewind()?;
            self.file.write_all(text.as_bytes())
        })();
        written.context("cannot write which daemons are to be stopped")?;
        let pid = supervisor_pid(&self.layout).context("the cluster was stopped meanwhile")?;
        kill_process(pid, LOOK_AGAIN).context("cannot tell the cluster's supervisor")?;
        let end = Instant::now() + FOLLOWS_WITHIN;
        while let Some(daemon) = daemons.iter().find(|daemon| daemon_pid(&self.layout, daemon).is_some()) {
            if Instant::now() >= end {
                bail!("{daemon} still runs {} s after it was to stop", FOLLOWS_WITHIN.as_secs());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn names_count_only_while_somebody_holds_them() {
        let dir = Scratch::new();
        let layout = Layout::new(dir.path()).unwrap();
        std::fs::create_dir_all(layout.run_dir()).unwrap();
        assert_eq!(held(&layout), [""; 0]);
        let mut holder = Holder::new(&layout).unwrap();
        holder.file.write_all(b"osd.1\nosd.2\n").unwrap();
        assert_eq!(held(&layout), ["osd.1", "osd.2"]);
        let error = Holder::new(&layout).err().unwrap().to_string();
        assert!(error.contains("another command"), "{error}");
        drop(holder);
        // A child that another test has just forked shares the lock until it becomes its program.
        assert!(crate::process::wait_until_gone(Duration::from_secs(10), || !held(&layout).is_empty()));
        let again = Holder::new(&layout).unwrap();
        assert_eq!(held(&layout), [""; 0], "old names are gone");
        drop(again);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn without_a_supervisor_nothing_is_held() {
        let dir = Scratch::new();
        let layout = Layout::new(dir.path()).unwrap();
        std::fs::create_dir_all(layout.run_dir()).unwrap();
        let error = Holder::new(&layout).unwrap().hold(&["osd.0".into()]).await.unwrap_err().to_string();
        assert!(error.contains("was stopped meanwhile"), "{error}");
    }
}
