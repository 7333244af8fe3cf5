//! Sessions of `nacre s3` on a cluster: the pools of the gateway, and what is done in them.

use crate::cli;
use crate::conf_writer::random_bytes;
use crate::connection::with_cluster;
use crate::pool_commands::make_pool;
use anyhow::{Context, Result, bail};
use client::Cluster;
use gateway::{DATA_POOL, Link, META_POOL};
use s3::{Settings, Store};
use std::sync::Arc;
use std::time::Duration;

/// Time between signs of life. A gateway takes a session for dead whose last one was 30 s ago.
const BEAT_EVERY: Duration = Duration::from_secs(5);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A name for a session that no other has.
fn session_name() -> Result<String> {
    Ok(hex(&random_bytes::<8>()?))
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
    with_session(target, make, Settings::default(), work)
}

/// As [`with_store`] without making pools, with settings.
pub fn with_store_of(
    target: &cli::Target,
    settings: Settings,
    work: impl AsyncFnOnce(&Arc<Store<Link>>) -> Result<()>,
) -> Result<()> {
    with_session(target, false, settings, work)
}

fn with_session(
    target: &cli::Target,
    make: bool,
    settings: Settings,
    work: impl AsyncFnOnce(&Arc<Store<Link>>) -> Result<()>,
) -> Result<()> {
    with_cluster(target, async |cluster| {
        let store = open(&cluster, make, settings).await?;
        let outcome = tokio::select! {
            outcome = work(&store) => outcome,
            lost = living(&store) => Err(lost),
        };
        let closed = store.close().await;
        outcome?;
        Ok(closed?)
    })
}

/// Shows that the session lives, for which a gateway would take it for dead otherwise. Ends if one did.
async fn living(store: &Store<Link>) -> anyhow::Error {
    loop {
        match store.beat().await {
            Ok(()) => {}
            Err(error @ s3::Error::Rados(s3::RadosError::Fenced)) => return error.into(),
            Err(error) => tracing::warn!("cannot show a sign of life: {error}"),
        }
        tokio::time::sleep(BEAT_EVERY).await;
    }
}
