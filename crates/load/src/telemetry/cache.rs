//! Reads from caches and from drives, as OSDs count them. They are asked as by `ceph tell osd.N perf dump`, on whatever
//! machine they run.

use std::time::Duration;

use client::Cluster;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use types::OsdId;

/// Time limit for an OSD's answer; without an answer its counts are unknown.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time limit for dropping caches.
const DROP_PATIENCE: Duration = Duration::from_secs(20);

/// Running counts over all OSDs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Bytes of data that caches had, and that had to be read.
    pub hit_bytes: u64,
    pub miss_bytes: u64,
    /// Bytes of data in caches now.
    pub cached_bytes: u64,
    /// Objects whose onodes were in memory, and those whose had to be looked up.
    pub onode_hits: u64,
    pub onode_misses: u64,
}

/// The OSDs of a cluster whose caches are read and dropped.
#[derive(Clone)]
pub struct Caches {
    cluster: Cluster,
    osds: Vec<OsdId>,
}

impl Caches {
    /// `osds`: the list of OSDs in an `osd dump`.
    pub fn new(cluster: Cluster, osds: &Value) -> Caches {
        let up = osds.as_array().into_iter().flatten().filter(|osd| osd["up"].as_u64() == Some(1));
        let ids = up.filter_map(|osd| osd["osd"].as_i64().and_then(|id| i32::try_from(id).ok()));
        Caches { cluster, osds: ids.map(OsdId).collect() }
    }

    /// The sum of all OSDs' counts; `None` unless every OSD answers with counts.
    pub async fn read(&self) -> Option<Counts> {
        let answers = self.tell_all("perf dump", PATIENCE).await;
        if answers.is_empty() {
            return None;
        }
        let mut sum = Counts::default();
        for answer in answers {
            sum.add(counts(&answer?)?);
        }
        Some(sum)
    }

    /// Makes every OSD drop its caches. Returns the number that did.
    pub async fn drop_all(&self) -> usize {
        self.tell_all("cache drop", DROP_PATIENCE).await.iter().flatten().count()
    }

    /// Answers in JSON; `None` for an OSD that gave none.
    async fn tell_all(&self, prefix: &str, patience: Duration) -> Vec<Option<Value>> {
        let command = json!({"prefix": prefix, "format": "json"}).to_string();
        let mut asked = JoinSet::new();
        for &osd in &self.osds {
            let (cluster, command) = (self.cluster.clone(), command.clone());
            asked.spawn(async move {
                let answer = tokio::time::timeout(patience, cluster.osd_command(osd, &command)).await.ok()?.ok()?;
                (answer.result >= 0).then(|| serde_json::from_slice(&answer.output).unwrap_or_default())
            });
        }
        asked.join_all().await
    }
}

impl Counts {
    /// Adds other counts.
    pub fn add(&mut self, other: Counts) {
        self.hit_bytes += other.hit_bytes;
        self.miss_bytes += other.miss_bytes;
        self.cached_bytes += other.cached_bytes;
        self.onode_hits += other.onode_hits;
        self.onode_misses += other.onode_misses;
    }
}

/// Counts of one OSD's store, of Nacre or of Ceph.
fn counts(dump: &Value) -> Option<Counts> {
    let of = |section: &str, name: &str| dump[section][name].as_u64();
    let ours = || {
        Some(Counts {
            hit_bytes: of("store", "block_cache_hit_bytes")?,
            miss_bytes: of("store", "block_cache_miss_bytes")?,
            cached_bytes: of("store", "block_cache_bytes")?,
            onode_hits: of("store", "onode_cache_hits")?,
            onode_misses: of("store", "onode_cache_misses")?,
        })
    };
    let ceph_s = || {
        // Releases of Ceph differ in these names.
        let onode = |name: &str| of("bluestore", name).or_else(|| of("bluestore", &format!("bluestore_{name}")));
        Some(Counts {
            hit_bytes: of("bluestore", "bluestore_buffer_hit_bytes")?,
            miss_bytes: of("bluestore", "bluestore_buffer_miss_bytes")?,
            cached_bytes: of("bluestore", "bluestore_buffer_bytes")?,
            onode_hits: onode("onode_hits")?,
            onode_misses: onode("onode_misses")?,
        })
    };
    ours().or_else(ceph_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_both_engines() {
        let nacre = json!({"store": {"block_cache_hit_bytes": 7, "block_cache_miss_bytes": 5, "block_cache_bytes": 3,
                                     "onode_cache_hits": 2, "onode_cache_misses": 1}});
        let ceph = json!({"bluestore": {"bluestore_buffer_hit_bytes": 70, "bluestore_buffer_miss_bytes": 50,
                                        "bluestore_buffer_bytes": 30, "onode_hits": 20,
                                        "onode_misses": 10}});
        let mut sum = counts(&nacre).unwrap();
        sum.add(counts(&ceph).unwrap());
        let want = Counts { hit_bytes: 77, miss_bytes: 55, cached_bytes: 33, onode_hits: 22, onode_misses: 11 };
        assert_eq!(sum, want);
        assert_eq!(counts(&json!({"store": {"block_cache_hit_bytes": 7}})), None, "what is not told is not zero");
        assert_eq!(counts(&json!(null)), None);
    }
}
