//! Where things lie in a cluster's directory.
//!
//! ```text
//! DIR/cluster.json                  what the cluster is made of (see `state_file`)
//! DIR/ceph.conf                     configuration, for daemons and for Ceph's clients
//! DIR/ceph.client.admin.keyring     key of client.admin
//! DIR/ceph.client.worker.keyring    key of client.worker, which works on block images
//! DIR/s3.master-keys                keys by which the S3 gateway encrypts, if there was one
//! DIR/mon.a/ DIR/osd.0/ ...         the daemons' data
//! DIR/log/NAME.log                  what a daemon says, and nacre-up.log of the supervisor
//! DIR/run/NAME.pid                  process ids of running daemons
//! DIR/run/supervisor.pid            process id of the supervisor, and locked as long as it runs
//! ```

use std::path::{Path, PathBuf};

/// A cluster's directory, as an absolute path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    dir: PathBuf,
}

impl Layout {
    /// `dir` need not exist; a relative one is taken from the working directory.
    pub fn new(dir: &Path) -> std::io::Result<Layout> {
        let absolute = std::path::absolute(dir)?;
        // An existing directory is named without symbolic links, so that command lines compare equal.
        Ok(Layout { dir: absolute.canonicalize().unwrap_or(absolute) })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn state_file(&self) -> PathBuf {
        self.dir.join("cluster.json")
    }

    pub fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    pub fn keyring(&self) -> PathBuf {
        self.dir.join("ceph.client.admin.keyring")
    }

    pub fn s3_master_keys(&self) -> PathBuf {
        self.dir.join("s3.master-keys")
    }

    pub fn log_dir(&self) -> PathBuf {
        self.dir.join("log")
    }

    pub fn log(&self, name: &str) -> PathBuf {
        self.log_dir().join(format!("{name}.log"))
    }

    pub fn run_dir(&self) -> PathBuf {
        self.dir.join("run")
    }

    pub fn pid_file(&self, daemon: &str) -> PathBuf {
        self.run_dir().join(format!("{daemon}.pid"))
    }

    pub fn supervisor_lock(&self) -> PathBuf {
        self.run_dir().join("supervisor.pid")
    }
}
