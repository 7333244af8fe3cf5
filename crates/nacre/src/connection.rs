//! Connecting to the cluster that the command line names.

use crate::cli::Target;
use crate::layout::Layout;
use crate::state_file;
use anyhow::{Context, Result};
use client::{Cluster, Config, Pool};
use std::path::PathBuf;

/// Runs `work` on a runtime of its own, with a connection to the cluster.
pub fn with_cluster<T>(target: &Target, work: impl AsyncFnOnce(Cluster) -> Result<T>) -> Result<T> {
    let conf = conf_of(target)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let cluster = connect(conf).await?;
        work(cluster).await
    })
}

/// Connects by a `ceph.conf`.
pub async fn connect(conf: PathBuf) -> Result<Cluster> {
    let hint = || format!("cannot connect with {}; is the cluster running? ('nacre status' tells)", conf.display());
    let mut config = Config::from_conf(&conf)?;
    config.connect_timeout = config.connect_timeout.min(std::time::Duration::from_secs(15));
    Cluster::connect(config).await.with_context(hint)
}

fn conf_of(target: &Target) -> Result<PathBuf> {
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
