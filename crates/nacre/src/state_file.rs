//! Facts that `nacre up` keeps about a cluster that it made.

use crate::layout::Layout;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Versions of the file's layout: 2 where the engine is not Nacre, which older programs do not know; else 1.
pub const VERSION: u32 = 1;
const VERSION_WITH_ENGINE: u32 = 2;

/// The program whose daemons a cluster is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// This program's daemons.
    #[default]
    Nacre,
    /// A real Ceph's daemons, from the system's packages.
    Ceph,
}

impl Engine {
    pub fn is_nacre(&self) -> bool {
        *self == Engine::Nacre
    }

    /// The version of a state file with this engine.
    pub fn state_version(self) -> u32 {
        if self.is_nacre() { VERSION } else { VERSION_WITH_ENGINE }
    }
}

fn one() -> u32 {
    1
}

fn is_one(n: &u32) -> bool {
    *n == 1
}

/// The content of `cluster.json`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClusterState {
    pub version: u32,
    #[serde(default, skip_serializing_if = "Engine::is_nacre")]
    pub engine: Engine,
    /// Clients and daemons prove who they are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cephx: bool,
    /// Without `cephx`: clients and daemons may prove who they are, and need not. The cluster goes over to proofs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub offers_cephx: bool,
    /// All connections are encrypted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secure: bool,
    pub fsid: String,
    /// False while the cluster is being created: whatever the directory then holds has never been used.
    pub complete: bool,
    pub osds: u32,
    pub osd_size_bytes: u64,
    /// Shards of each OSD.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub osd_shards: u32,
    /// Directories of the OSDs' files for log and metadata, where these do not lie in the OSDs' own files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_dir: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata_dir: Option<PathBuf>,
    pub mons: u32,
    /// Port of the first monitor; the others follow it.
    pub port: u16,
    /// The address that daemons listen on.
    pub bind: IpAddr,
    /// Program version that created the cluster, for people.
    pub created_by: String,
}

impl ClusterState {
    /// True if daemons have keys.
    pub fn has_keys(&self) -> bool {
        self.cephx || self.offers_cephx
    }

    /// Monitors are named by letters.
    pub fn mon_ids(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.mons).map(mon_id)
    }

    /// `mon.a`, ..., `osd.0`, ...: the order in which daemons start. Ceph's manager comes behind the monitors.
    pub fn daemons(&self) -> Vec<String> {
        let mons = self.mon_ids().map(|id| format!("mon.{id}"));
        let manager = (self.engine == Engine::Ceph).then(|| crate::ceph_engine::MANAGER.to_owned());
        mons.chain(manager).chain((0..self.osds).map(|id| format!("osd.{id}"))).collect()
    }

    /// An OSD's file for its log (`wal`) or metadata in a directory outside the cluster's. Other clusters may have such
    /// files there, too, so the name says whose it is. (An older program's said it not; OSDs find their files by
    /// links.)
    pub fn outside_file(&self, dir: &Path, osd: &str, what: &str) -> PathBuf {
        dir.join(format!("{osd}.{}.{what}", self.fsid))
    }

    /// The OSDs' files outside the cluster's directory, as they are made.
    pub fn outside_files(&self) -> Vec<PathBuf> {
        let of = |dir: &PathBuf, what: &str| -> Vec<PathBuf> {
            (0..self.osds).map(|id| self.outside_file(dir, &format!("osd.{id}"), what)).collect()
        };
        let wal = self.wal_dir.iter().flat_map(|dir| of(dir, "wal"));
        wal.chain(self.metadata_dir.iter().flat_map(|dir| of(dir, "metadata"))).collect()
    }

    /// Port of the monitor with this index.
    pub fn mon_port(&self, index: u32) -> u16 {
        self.port + index as u16
    }

    /// Durably replaces the state file.
    pub fn save(&self, layout: &Layout) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        write_durably(&layout.state_file(), text.as_bytes(), 0o644)
    }
}

/// `a` for 0, `b` for 1 and so on; `up` admits no more than 26.
pub fn mon_id(index: u32) -> String {
    char::from(b'a' + index as u8).to_string()
}

/// The contents of a directory, as far as `up` is concerned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// The directory does not exist, or is empty.
    Nothing,
    /// The directory holds a cluster whose creation did not finish. No daemon has used it.
    Unfinished(ClusterState),
    Cluster(ClusterState),
}

/// Looks at `layout`'s directory. Errors: it is something else, or made by a newer program.
pub fn look(layout: &Layout) -> Result<Found> {
    let dir = layout.dir();
    let text = match std::fs::read_to_string(layout.state_file()) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return nothing_else(dir),
        Err(e) if e.kind() == std::io::ErrorKind::NotADirectory => {
            bail!("{} is a file, not a directory; choose another with --dir", dir.display())
        }
        Err(e) => return Err(e).with_context(|| format!("cannot read {}", layout.state_file().display())),
    };
    // The version first: a newer file may differ in everything else.
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let unreadable = || {
        format!(
            "{} is damaged or not written by nacre; restore it, or choose another directory with --dir",
            layout.state_file().display()
        )
    };
    let Version { version } = serde_json::from_str(&text).with_context(unreadable)?;
    if version > VERSION_WITH_ENGINE {
        bail!(
            "{} was made by a newer nacre (layout version {version}, this program knows {VERSION_WITH_ENGINE}); run that version",
            dir.display()
        );
    }
    let state: ClusterState = serde_json::from_str(&text).with_context(unreadable)?;
    let last_mon_port = u32::from(state.port) + state.mons;
    if state.osds == 0 || !(1..=26).contains(&state.mons) || last_mon_port > 65_535 {
        bail!(unreadable());
    }
    Ok(if state.complete { Found::Cluster(state) } else { Found::Unfinished(state) })
}

/// The cluster in `layout`'s directory, for commands that need one.
pub fn require(layout: &Layout) -> Result<ClusterState> {
    match look(layout)? {
        Found::Cluster(state) => Ok(state),
        Found::Nothing | Found::Unfinished(_) => bail!(
            "there is no cluster in {}; start one with 'nacre up --dir {0}', or name the right directory with --dir",
            layout.dir().display()
        ),
    }
}

fn nothing_else(dir: &Path) -> Result<Found> {
    match std::fs::read_dir(dir) {
        // `run/` is what taking the directory leaves, before anything is made in it.
        Ok(mut entries) => {
            match entries.find(|entry| entry.as_ref().map_or(true, |entry| entry.file_name() != "run")) {
                None => Ok(Found::Nothing),
                Some(_) => bail!(
                    "{} is not empty and holds no nacre cluster; choose an empty or new directory with --dir",
                    dir.display()
                ),
            }
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Found::Nothing),
        Err(e) => Err(e).with_context(|| format!("cannot look into {}", dir.display())),
    }
}

/// Writes a file beside its place, flushes it, and renames it there; readers see the old one or the new one. It has no
/// wider mode than `mode` at any time, whatever lay there before.
pub fn write_durably(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let context = || format!("cannot write {}", path.display());
    let beside = path.with_extension("new");
    match std::fs::remove_file(&beside) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e).with_context(context),
        _ => {}
    }
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(mode).open(&beside).with_context(context)?;
    file.write_all(bytes).with_context(context)?;
    file.sync_all().with_context(context)?;
    std::fs::rename(&beside, path).with_context(context)?;
    let parent = path.parent().expect("files of a cluster lie in its directory");
    std::fs::File::open(parent).and_then(|dir| dir.sync_all()).with_context(context)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::scratch::Scratch;

    pub(crate) fn sample() -> ClusterState {
        ClusterState {
            version: VERSION,
            engine: Engine::Nacre,
            cephx: false,
            offers_cephx: false,
            secure: false,
            fsid: "6a0e1b22-7d2f-4b5e-9d1c-2f4b8c6d0e11".into(),
            complete: true,
            osds: 2,
            osd_size_bytes: 1 << 30,
            osd_shards: 1,
            wal_dir: None,
            metadata_dir: None,
            mons: 1,
            port: 40000,
            bind: "127.0.0.1".parse().unwrap(),
            created_by: "test".into(),
        }
    }

    fn error(layout: &Layout) -> String {
        format!("{:#}", look(layout).unwrap_err())
    }

    #[test]
    fn a_saved_state_is_found_again() {
        let dir = Scratch::new();
        let layout = Layout::new(dir.path()).unwrap();
        assert_eq!(look(&layout).unwrap(), Found::Nothing);
        let state = sample();
        state.save(&layout).unwrap();
        assert_eq!(look(&layout).unwrap(), Found::Cluster(state.clone()));
        assert_eq!(state.daemons(), ["mon.a", "osd.0", "osd.1"]);
        assert!(!std::fs::read_to_string(layout.state_file()).unwrap().contains("engine"), "older programs read it");
        let version = Engine::Ceph.state_version();
        let ceph = ClusterState { engine: Engine::Ceph, version, ..state.clone() };
        ceph.save(&layout).unwrap();
        assert_eq!(look(&layout).unwrap(), Found::Cluster(ceph.clone()));
        assert_eq!(ceph.daemons(), ["mon.a", "mgr.x", "osd.0", "osd.1"]);
        let unfinished = ClusterState { complete: false, ..state };
        unfinished.save(&layout).unwrap();
        assert_eq!(look(&layout).unwrap(), Found::Unfinished(unfinished));
        assert!(format!("{:#}", require(&layout).unwrap_err()).contains("no cluster in"));
    }

    #[test]
    fn a_secret_has_no_wider_mode_than_is_asked_for() {
        use std::os::unix::fs::PermissionsExt;
        let dir = Scratch::new();
        let path = dir.path().join("keyring");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        // A file that an earlier attempt left, or somebody else made.
        let beside = dir.path().join("keyring.new");
        std::fs::write(&beside, "left").unwrap();
        std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o644)).unwrap();
        write_durably(&path, b"secret", 0o600).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), mode(&path)), (b"secret".to_vec(), 0o600));
        assert!(!beside.exists());
        write_durably(&path, b"open", 0o644).unwrap();
        assert_eq!(mode(&path) & 0o600, 0o600);
    }

    #[test]
    fn what_is_not_ours_is_refused_with_what_to_do() {
        let dir = Scratch::new();
        let layout = Layout::new(dir.path()).unwrap();
        std::fs::write(dir.path().join("thesis.tex"), "x").unwrap();
        assert!(error(&layout).contains("not empty"));
        std::fs::write(layout.state_file(), r#"{"version": 99, "shape": "unknown"}"#).unwrap();
        assert!(error(&layout).contains("newer nacre"));
        std::fs::write(layout.state_file(), "{").unwrap();
        assert!(error(&layout).contains("damaged"));
        let mut state = sample();
        state.port = 65_535;
        state.save(&layout).unwrap();
        assert!(error(&layout).contains("damaged"));
        let file = Layout::new(&dir.path().join("thesis.tex")).unwrap();
        assert!(error(&file).contains("is a file"));
        assert_eq!(look(&Layout::new(&dir.path().join("new")).unwrap()).unwrap(), Found::Nothing);
    }
}
