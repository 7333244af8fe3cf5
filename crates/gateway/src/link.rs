//! RADOS for the core, by our own client library.

use bytes::Bytes;
use client::{Cluster, Comparison, Listing, Operation, Outcome, Pool};
use s3::{ObjectNames, Rados, RadosError, Reply, Settings, Step, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use types::Errno;

/// Pool of records and indexes.
pub const META_POOL: &str = "nacre.s3.meta";
/// Pool of the bytes of objects.
pub const DATA_POOL: &str = "nacre.s3.data";

/// The object whose watchers tell by which address the cluster knows each gateway.
const GATEWAYS: &str = "gateways";
/// Seconds for which a gateway that was taken for dead stays shut out: a month. A machine that sleeps longer notices by
/// its clock that it was dead.
const FENCE_S: u32 = 30 * 86_400;
/// Interval of signs of life.
const BEAT_EVERY: Duration = Duration::from_secs(5);

/// The connection of one gateway. Its client may not have a time limit for operations, because one that has run out may
/// still be carried out.
pub struct Link {
    cluster: Cluster,
    pools: Mutex<BTreeMap<String, Pool>>,
    address: String,
}

/// Opens a session of a gateway on a cluster.
///
/// Errors: those of the core, `NoPool` among those of the cluster where the pool of records does not exist.
pub async fn open(cluster: Cluster, session: String, settings: Settings) -> Result<Arc<Store<Link>>, s3::Error> {
    let link = Link::new(cluster, &settings.meta_pool).await.map_err(|e| s3::Error::Rados(failure(&e)))?;
    Store::open(link, session, settings).await
}

/// Shows again and again that a session lives, for which others would take it for dead otherwise. Ends if one did.
pub async fn beating(store: &Store<Link>) {
    loop {
        match store.beat().await {
            Ok(()) => {}
            Err(s3::Error::Rados(RadosError::Fenced)) => return,
            Err(error) => tracing::warn!("cannot show a sign of life: {error}"),
        }
        tokio::time::sleep(BEAT_EVERY).await;
    }
}

impl Link {
    async fn new(cluster: Cluster, meta_pool: &str) -> Result<Link, client::Error> {
        let pool = cluster.pool(meta_pool).await?;
        pool.operate(GATEWAYS, Operation::new().create(false)).await?;
        let watch = pool.watch(GATEWAYS, Duration::ZERO).await?;
        let watchers = pool.watchers(GATEWAYS).await?;
        let own = watchers
            .iter()
            .find(|watcher| watcher.name.num == cluster.client_id() as i64 && watcher.cookie == watch.cookie());
        let own = own.ok_or_else(|| client::Error::Answer("the cluster does not list this gateway".into()))?;
        let address = own.addr.legacy_str();
        watch.end().await?;
        Ok(Link { cluster, pools: Mutex::default(), address })
    }

    async fn pool(&self, name: &str) -> Result<Pool, client::Error> {
        let known = self.pools.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        if let Some(pool) = known {
            return Ok(pool);
        }
        let pool = self.cluster.pool(name).await?;
        self.pools.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), pool.clone());
        Ok(pool)
    }
}

/// A walk over the objects of a pool.
pub struct Names(Listing);

impl ObjectNames for Names {
    async fn next_page(&mut self) -> Result<Option<Vec<String>>, RadosError> {
        let page = self.0.next_page().await.map_err(|e| failure(&e))?;
        Ok(page.map(|objects| {
            objects.into_iter().filter_map(|object| String::from_utf8(object.name.to_vec()).ok()).collect()
        }))
    }
}

impl Rados for Link {
    type Names = Names;

    async fn names(&self, pool: &str) -> Result<Names, RadosError> {
        Ok(Names(self.pool(pool).await.map_err(|e| failure(&e))?.list()))
    }

    async fn operate(&self, pool: &str, object: String, steps: Vec<Step>) -> Result<Vec<Reply>, RadosError> {
        let changes = steps.iter().any(Step::changes);
        let pool = self.pool(pool).await.map_err(|e| failure(&e))?;
        let mut operation = Operation::new();
        for step in &steps {
            operation = with_step(operation, step);
        }
        if changes {
            operation = operation.full_try();
        }
        let outcome = pool.operate(object, operation).await.map_err(|e| failure(&e))?;
        if changes {
            return Ok(vec![Reply::Nothing; steps.len()]);
        }
        let replies = steps.iter().enumerate().map(|(at, step)| reply(&outcome, at, step));
        replies.collect::<Result<_, _>>().map_err(|e| failure(&e))
    }

    fn client(&self) -> String {
        self.address.clone()
    }

    async fn fence(&self, client: &str) -> Result<(), RadosError> {
        let command = serde_json::json!({
            "prefix": "osd blocklist", "blocklistop": "add", "addr": client, "expire": f64::from(FENCE_S)
        });
        let reply = self.cluster.mon_command(&command.to_string(), Bytes::new()).await.map_err(|e| failure(&e))?;
        if let Some(errno) = Errno::from_result(reply.result) {
            return Err(RadosError::Other(format!("blocklisting {client}: {errno} {}", reply.status.trim())));
        }
        // Operations of a client with this map are carried out by OSDs that have it, too.
        self.cluster.wait_for_latest_map().await.map_err(|e| failure(&e)).map(drop)
    }

    fn now_ms(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(task);
    }

    async fn pause(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
}

fn with_step(operation: Operation, step: &Step) -> Operation {
    match step {
        Step::CreateNew => operation.create(true),
        Step::Read { offset, length } => operation.read(*offset, *length),
        Step::Stat => operation.stat(),
        Step::WriteFull(bytes) => operation.write_full(bytes.clone()),
        Step::Remove => operation.remove(),
        Step::GetAttr(name) => operation.get_xattr(name),
        Step::SetAttr(name, value) => operation.set_xattr(name, value),
        Step::AttrIs(name, value) => operation.compare_xattr(name, Comparison::Equal, value),
        Step::List { after, max, prefix } => operation.omap_entries(after.clone(), *max, prefix.clone()),
        Step::Get(keys) => operation.omap_get(&keys.iter().cloned().collect()),
        Step::Set(entries) => operation.omap_set(&entries.iter().cloned().collect()),
        Step::Drop(keys) => operation.omap_remove(&keys.iter().cloned().collect::<BTreeSet<_>>()),
        Step::DropRange(from, end) => operation.omap_remove_range(from.clone(), end.clone()),
        Step::ValueIs(key, value) => operation.omap_compare(key.clone(), Comparison::Equal, value.clone()),
    }
}

fn reply(outcome: &Outcome, at: usize, step: &Step) -> Result<Reply, client::Error> {
    Ok(match step {
        Step::Read { .. } | Step::GetAttr(_) => Reply::Bytes(outcome.bytes(at)?),
        Step::Stat => {
            let stat = outcome.stat(at)?;
            Reply::Stat { bytes: stat.size_bytes, mtime_ms: stat.mtime.to_unix().as_millis() as u64 }
        }
        Step::List { .. } => {
            let (entries, more) = outcome.entries(at)?;
            Reply::Entries { entries, more }
        }
        Step::Get(_) => Reply::Entries { entries: outcome.map(at)?.into_iter().collect(), more: false },
        _ => Reply::Nothing,
    })
}

fn failure(error: &client::Error) -> RadosError {
    match error {
        client::Error::Errno(Errno::ENOENT) => RadosError::NotFound,
        client::Error::Errno(Errno::EEXIST) => RadosError::Exists,
        client::Error::Errno(Errno::ECANCELED) => RadosError::Guard,
        client::Error::Errno(Errno::EBLOCKLISTED) => RadosError::Fenced,
        client::Error::Errno(Errno::ENOSPC | Errno::EDQUOT) => RadosError::Full,
        other => RadosError::Other(other.to_string()),
    }
}
