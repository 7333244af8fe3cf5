//! Sessions of `nacre s3` on a cluster: the pools of the gateway, and what is done in them.

use crate::cli;
use crate::conf_writer::random_bytes;
use crate::connection::with_cluster;
use crate::pool_commands::make_pool;
use anyhow::{Context, Result, bail};
use client::Cluster;
use gateway::{DATA_POOL, Link, META_POOL, beating};
use s3::{RadosError, Settings, Store};
use std::sync::Arc;

/// A name for a session that no other has.
fn session_name() -> Result<String> {
    Ok(format!("{:016x}", u64::from_le_bytes(random_bytes()?)))
}

/// Makes the pools of the gateway that do not exist.
async fn make_pools(cluster: &Cluster) -> Result<()> {
    let present = cluster.pools().await?;
    for pool in [META_POOL, DATA_POOL] {
        if !present.contains_key(pool) {
            make_pool(cluster, pool, "rgw").await.with_context(|| format!("cannot make pool '{pool}'"))?;
        }
    }
    Ok(())
}

/// Opens a session on a cluster. `make`: the pools are made if there are none.
pub async fn open(cluster: &Cluster, make: bool, settings: Settings) -> Result<Arc<Store<Link>>> {
    if make {
        make_pools(cluster).await?;
    } else if !cluster.pools().await?.contains_key(META_POOL) {
        bail!("this cluster has no pool '{META_POOL}': 'nacre s3 serve' and 'nacre s3 user add' make it");
    }
    Ok(gateway::open(cluster.clone(), session_name()?, settings).await?)
}

/// Runs `work` with a session of its own, which ends with it.
pub fn with_store(
    target: &cli::Target,
    make: bool,
    work: impl AsyncFnOnce(&Arc<Store<Link>>) -> Result<()>,
) -> Result<()> {
    with_store_of(target, make, Settings::default(), work)
}

/// As [`with_store`], with settings.
pub fn with_store_of(
    target: &cli::Target,
    make: bool,
    settings: Settings,
    work: impl AsyncFnOnce(&Arc<Store<Link>>) -> Result<()>,
) -> Result<()> {
    with_cluster(target, async |cluster| {
        let store = open(&cluster, make, settings).await?;
        let outcome = tokio::select! {
            outcome = work(&store) => outcome,
            () = beating(&store) => Err(s3::Error::Rados(RadosError::Fenced).into()),
        };
        let closed = store.close().await;
        outcome?;
        Ok(closed?)
    })
}
