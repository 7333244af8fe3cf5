//! Connecting to the cluster that the command line names.

use crate::cli::{Login, Target};
use crate::layout::Layout;
use crate::state_file;
use anyhow::Result;
use client::{Cluster, ConfFile, Config, ConnectError, Pool, Who};
use std::path::{Path, PathBuf};

/// Runs `work` on a runtime of its own, with a connection to the cluster.
pub fn with_cluster<T>(target: &Target, work: impl AsyncFnOnce(Cluster) -> Result<T>) -> Result<T> {
    let conf = conf_of(target)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let cluster = connect(&conf, &target.login).await?;
        work(cluster).await
    })
}

/// Connects by a `ceph.conf`.
pub async fn connect(conf: &Path, login: &Login) -> Result<Cluster> {
    let who = login.name.clone().or_else(|| login.id.clone()).unwrap_or_else(|| Who::new("client", "admin"));
    let mut file = ConfFile::load(conf)?;
    if let Some(keyring) = &login.keyring {
        // Keys that the file names in another way would go before this one.
        for (option, value) in [("key", ""), ("keyfile", ""), ("keyring", &*keyring.to_string_lossy())] {
            file.set(&who, option, value);
        }
    }
    let mut config = Config::from_file(&file, &who)?;
    config.connect_timeout = config.connect_timeout.min(std::time::Duration::from_secs(15));
    Cluster::connect(config).await.map_err(|error| {
        let is_denied = matches!(error, ConnectError::Denied { .. });
        let hint = if is_denied { "" } else { "; is the cluster running? ('nacre status' tells)" };
        anyhow::Error::new(error).context(format!("cannot connect with {}{hint}", conf.display()))
    })
}

pub fn conf_of(target: &Target) -> Result<PathBuf> {
    if let Some(conf) = &target.conf {
        return Ok(conf.clone());
    }
    let layout = Layout::new(&target.dir)?;
    state_file::require(&layout)?;
    Ok(layout.conf())
}

/// The pool called `name`, with an error that says what to do.
pub async fn pool(cluster: &Cluster, name: &str, namespace: &str) -> Result<Pool> {
    match cluster.pool(name).await {
        Ok(pool) => Ok(pool.namespace(namespace.as_bytes().to_vec())),
        Err(client::Error::NoPool(_)) => {
            anyhow::bail!(
                "there is no pool '{name}'; 'nacre pool ls' shows what there is, 'nacre pool create {name}' makes it"
            )
        }
        Err(error) => Err(error.into()),
    }
}
