//! Stopping OSDs, giving them empty stores and starting them: those of `nacre up`, or by a program of the operator's.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use client::{Cluster, Config};
use load::rebuild::Hands;
use serde_json::json;

use crate::ceph_engine;
use crate::creation;
use crate::growth_lock::GrowthLock;
use crate::held::Holder;
use crate::layout::Layout;
use crate::osd_daemon::STORE_FILE;
use crate::process::supervisor_pid;
use crate::state_file::{self, ClusterState, Engine, Found};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// The cluster of `nacre up` in a directory, which runs. While this lives nobody else adds daemons.
pub struct OfUp {
    layout: Layout,
    state: ClusterState,
    holder: Holder,
    program: PathBuf,
    _growth: GrowthLock,
}

/// A program of the operator's: `PROGRAM stop 3 4`, `PROGRAM renew 3 4`, `PROGRAM start 3 4`.
pub struct ByProgram {
    program: PathBuf,
}

/// The way in which a run stops OSDs, renews their stores and starts them.
pub enum Replacing {
    Up(Box<OfUp>),
    Program(ByProgram),
}

impl Replacing {
    /// Replaces OSDs by `program` if it is given, or as `nacre up` started the cluster whose configuration is at
    /// `conf`.
    ///
    /// Errors: `program` cannot be used; or the cluster was not made by `nacre up`, or does not run.
    pub fn new(program: Option<&Path>, conf: &Path) -> Result<Replacing> {
        if let Some(program) = program {
            let program = std::path::absolute(program)?;
            std::fs::metadata(&program).with_context(|| format!("cannot use {}", program.display()))?;
            return Ok(Replacing::Program(ByProgram { program }));
        }
        let folder = conf.parent().unwrap_or(Path::new("."));
        let layout = Layout::new(folder)?;
        let hint = "name a program that stops, renews and starts its OSDs with --by";
        let state = match state_file::look(&layout) {
            Ok(Found::Cluster(state)) => state,
            Ok(Found::Nothing | Found::Unfinished(_)) | Err(_) => {
                bail!("the cluster of {} was not made by 'nacre up'; {hint}", conf.display())
            }
        };
        if supervisor_pid(&layout).is_none() {
            bail!("the cluster in {} does not run under 'nacre up'", layout.dir().display());
        }
        let growth = GrowthLock::take(&layout)?;
        let holder = Holder::new(&layout)?;
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        Ok(Replacing::Up(Box::new(OfUp { layout, state, holder, program, _growth: growth })))
    }
}

fn names(osds: &[u32]) -> Vec<String> {
    osds.iter().map(|osd| format!("osd.{osd}")).collect()
}

impl OfUp {
    async fn renew(&mut self, osds: &[u32]) -> Result<()> {
        if let Some(osd) = osds.iter().find(|osd| **osd >= self.state.osds) {
            bail!("osd.{osd} was added by hand: 'nacre up' knows nothing of its store");
        }
        let mut config = Config::from_conf(self.layout.conf())?;
        config.connect_timeout = config.connect_timeout.min(CONNECT_TIMEOUT);
        config.mon_op_timeout.get_or_insert(ANSWER_TIMEOUT);
        let cluster = Cluster::connect(config).await?;
        for osd in osds {
            // A Ceph's manager answers `osd destroy`, and has its monitors do this.
            let prefix = if self.state.engine.is_nacre() { "osd destroy" } else { "osd destroy-actual" };
            let destroy = json!({"prefix": prefix, "id": osd, "yes_i_really_mean_it": true});
            done(&cluster, destroy, Vec::new()).await?;
            match self.state.engine {
                Engine::Nacre => self.renew_ours(&cluster, *osd).await?,
                Engine::Ceph => self.renew_cephs(&cluster, *osd).await?,
            }
        }
        Ok(())
    }

    /// Removes the store's files and makes it anew. The OSD's key stays, and is told to the monitors again.
    async fn renew_ours(&self, cluster: &Cluster, osd: u32) -> Result<()> {
        let name = format!("osd.{osd}");
        let folder = self.layout.dir().join(&name);
        let keyring = folder.join("keyring");
        for what in ["", ".wal", ".metadata"] {
            let link = folder.join(format!("{STORE_FILE}{what}"));
            // A log or metadata on another drive is a file to which this is a link.
            if let Ok(target) = std::fs::read_link(&link) {
                remove(&target)?;
            }
            remove(&link)?;
        }
        if keyring.exists() {
            let text = std::fs::read(&keyring).with_context(|| format!("cannot read {}", keyring.display()))?;
            done(cluster, json!({"prefix": "auth import"}), text).await?;
        }
        creation::mkfs(&self.layout, &name, &self.program, None).await
    }

    async fn renew_cephs(&self, cluster: &Cluster, osd: u32) -> Result<()> {
        let name = format!("osd.{osd}");
        let folder = self.layout.dir().join(&name);
        match std::fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot remove {}", folder.display()));
            }
            _ => {}
        }
        ceph_engine::make(&self.layout, &self.state, &name).await?;
        ceph_engine::register_osd(cluster, &self.layout, osd).await?;
        if self.state.cephx {
            // The cluster's keyring has the keys of all daemons; those that are known are none the worse for it.
            let path = self.layout.keyring();
            let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            done(cluster, json!({"prefix": "auth import"}), text).await?;
        }
        Ok(())
    }
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

async fn done(cluster: &Cluster, command: serde_json::Value, input: Vec<u8>) -> Result<()> {
    let reply = cluster.mon_command(&command.to_string(), input.into()).await?;
    match types::Errno::from_result(reply.result) {
        Some(errno) => {
            bail!("'{}': {} ({errno})", command["prefix"].as_str().unwrap_or("?"), reply.status.trim())
        }
        None => Ok(()),
    }
}

impl ByProgram {
    async fn call(&self, what: &str, osds: &[u32]) -> Result<(), String> {
        let mut command = tokio::process::Command::new(&self.program);
        command.arg(what).args(osds.iter().map(u32::to_string)).stdin(Stdio::null()).stdout(Stdio::null());
        let words = format!("{} {what}", self.program.display());
        let output = command.kill_on_drop(true).output().await.map_err(|error| format!("{words}: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = creation::last_words(&output.stderr).unwrap_or_else(|| "it said nothing".into());
        Err(format!("{words} ended with {}: {said}", output.status))
    }
}

impl Hands for Replacing {
    async fn stop(&mut self, osds: &[u32]) -> Result<(), String> {
        match self {
            Replacing::Up(up) => up.holder.hold(&names(osds)).await.map_err(|error| format!("{error:#}")),
            Replacing::Program(program) => program.call("stop", osds).await,
        }
    }

    async fn renew(&mut self, osds: &[u32]) -> Result<(), String> {
        match self {
            Replacing::Up(up) => up.renew(osds).await.map_err(|error| format!("{error:#}")),
            Replacing::Program(program) => program.call("renew", osds).await,
        }
    }

    async fn start(&mut self, osds: &[u32]) -> Result<(), String> {
        match self {
            Replacing::Up(up) => up.holder.hold(&[]).await.map_err(|error| format!("{error:#}")),
            Replacing::Program(program) => program.call("start", osds).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[tokio::test(flavor = "current_thread")]
    async fn a_program_is_told_which_osds_and_its_failure_is_told() {
        let dir = Scratch::new();
        let script = format!(
            "echo \"$@\" >> {}/said; [ $1 != renew ] || {{ echo 'no drive' >&2; exit 3; }}",
            dir.path().display()
        );
        let program = dir.program(&script);
        let mut hands = Replacing::new(Some(&program), Path::new("/nowhere/ceph.conf")).unwrap();
        hands.stop(&[3, 4]).await.unwrap();
        let error = hands.renew(&[3, 4]).await.unwrap_err();
        assert!(error.contains("renew ended with exit status: 3: no drive"), "{error}");
        hands.start(&[3, 4]).await.unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("said")).unwrap(), "stop 3 4\nrenew 3 4\nstart 3 4\n");
    }

    #[test]
    fn other_clusters_need_a_program() {
        let dir = Scratch::new();
        let conf = dir.path().join("ceph.conf");
        std::fs::write(&conf, "").unwrap();
        let error = Replacing::new(None, &conf).err().unwrap().to_string();
        assert!(error.contains("was not made by 'nacre up'") && error.contains("--by"), "{error}");
        let error = Replacing::new(Some(&dir.path().join("none")), &conf).err().unwrap().to_string();
        assert!(error.contains("cannot use"), "{error}");
    }
}
