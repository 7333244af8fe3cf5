//! `nacre pool`: pools, with nothing but this binary.

use crate::cli;
use crate::connection::with_cluster;
use crate::health::json_command;
use anyhow::{Result, bail};
use client::Cluster;
use serde_json::{Value, json};

/// Runs a monitor command whose output does not matter.
async fn command(cluster: &Cluster, command: Value) -> Result<()> {
    let reply = cluster.mon_command(&command.to_string(), Default::default()).await?;
    match types::Errno::from_result(reply.result) {
        Some(errno) if reply.status.trim().is_empty() => Err(errno.into()),
        Some(_) => bail!("{}", reply.status.trim().trim_start_matches("Error ")),
        None => Ok(()),
    }
}

pub fn create(options: cli::PoolCreate) -> Result<()> {
    with_cluster(&options.target, async move |cluster| {
        if cluster.pools().await?.contains_key(&options.pool) {
            bail!("there is a pool '{}' already", options.pool);
        }
        let mut create = json!({"prefix": "osd pool create", "pool": options.pool, "pool_type": "replicated"});
        if let Some(pg_num) = options.pg_num {
            create["pg_num"] = json!(pg_num);
            create["pgp_num"] = json!(pg_num);
        }
        if let Some(size) = options.size {
            create["size"] = json!(size);
        }
        command(&cluster, create).await?;
        // Without one, the cluster warns that it does not know what the pool is for.
        command(&cluster, json!({"prefix": "osd pool application enable", "pool": options.pool, "app": "nacre"}))
            .await?;
        // The next command is to find it, whichever monitor it asks.
        cluster.wait_for_latest_map().await?;
        eprintln!("created pool '{}'", options.pool);
        Ok(())
    })
}

/// Makes a pool with the cluster's defaults, for the use of `application`.
pub async fn make_pool(cluster: &Cluster, pool: &str, application: &str) -> Result<()> {
    command(cluster, json!({"prefix": "osd pool create", "pool": pool, "pool_type": "replicated"})).await?;
    command(cluster, json!({"prefix": "osd pool application enable", "pool": pool, "app": application})).await?;
    cluster.wait_for_latest_map().await?;
    Ok(())
}

pub fn ls(options: cli::PoolLs) -> Result<()> {
    with_cluster(&options.target, async move |cluster| {
        for name in cluster.pools().await?.keys() {
            println!("{name}");
        }
        Ok(())
    })
}

pub fn rm(options: cli::PoolRm) -> Result<()> {
    with_cluster(&options.target, async move |cluster| {
        let pool = options.pool;
        if !cluster.pools().await?.contains_key(&pool) {
            bail!("there is no pool '{pool}'");
        }
        if !options.yes {
            let objects = json_command(&cluster, json!({"prefix": "df"})).await?;
            let objects = objects["pools"].as_array().into_iter().flatten().find(|p| p["name"] == pool.as_str());
            let objects = objects.and_then(|p| p["stats"]["objects"].as_u64()).unwrap_or(0);
            bail!("this destroys pool '{pool}' with {objects} objects for good; add --yes if that is wanted");
        }
        let rm = json!({"prefix": "osd pool delete", "pool": pool, "pool2": pool, "yes_i_really_really_mean_it": true});
        command(&cluster, rm).await?;
        cluster.wait_for_latest_map().await?;
        eprintln!("removed pool '{pool}'");
        Ok(())
    })
}
