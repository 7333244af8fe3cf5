//! Samples that releases of Ceph wrote, decoded and encoded again.
//!
//! `CEPH_CORPUS` names a folder with `RELEASE/objects/TYPE/SAMPLE`. Without it the test prints that and passes.

use std::fs;
use std::path::{Path, PathBuf};
use types::{EVersion, EntityName, Errno, Fsid, ObjectId, PgId, ReqId, Utime};
use wire::basic::{AuthName, EntityInst, Locator, PgShard, SPgId, SnapContext, StoredObjectId};
use wire::codec::features;
use wire::messages::listing::{CloneInfo, ObjectListing, OldObjectListing, SnapListing, Watcher, Watchers};
use wire::messages::{
    CompatSet, FsMap, LogEntry, ObjectStatCollection, ObjectStats, PoolStat, Redirect, Service, ServiceDaemon,
    ServiceMap, StoreStatfs,
};
use wire::{Decode, DecodeError, Encode, EntityAddr, EntityAddrVec, Release, Target};

const RELEASES: [(&str, Target); 4] = [
    ("16.2.0", Target { features: features::PACIFIC, release: Release::PACIFIC }),
    ("18.2.0", Target { features: features::QUINCY | features::SERVER_REEF, release: Release::REEF }),
    ("19.2.0", Target { features: features::TENTACLE, release: Release::SQUID }),
    ("20.3.0", Target { features: features::TENTACLE, release: Release::TENTACLE }),
];

fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("CEPH_CORPUS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED: CEPH_CORPUS does not name a folder of samples; nothing was checked");
    }
    folder
}

fn samples(corpus: &Path, release: &str, name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = corpus.join(release).join("objects").join(name);
    // Not every release has samples of every type.
    let Ok(entries) = fs::read_dir(&folder) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable folder").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).expect("readable sample"))).collect()
}

/// Checks that every sample of type `name` decodes and is encoded to the same bytes. `refused` is true for the right
/// errors.
fn check<T: Encode + Decode>(corpus: &Path, name: &str, refused: impl Fn(&DecodeError) -> bool) {
    let (mut same, mut left_out) = (0, 0);
    for (release, target) in RELEASES {
        for (path, bytes) in samples(corpus, release, name) {
            match T::from_slice(&bytes) {
                Ok(value) => {
                    assert_eq!(value.to_vec(target), bytes, "{name} differs: {}", path.display());
                    same += 1;
                }
                Err(error) if refused(&error) => left_out += 1,
                Err(error) => panic!("{name} does not decode: {error}: {}", path.display()),
            }
        }
    }
    assert!(same > 0, "no sample of {name} in {}", corpus.display());
    println!("{name}: {same} samples the same, {left_out} refused as they should be");
}

#[test]
fn samples_are_written_again_to_the_same_bytes() {
    let Some(corpus) = corpus() else { return };
    fn all<T: Encode + Decode>(corpus: &Path, name: &str) {
        check::<T>(corpus, name, |_| false);
    }
    all::<AuthName>(&corpus, "EntityName");
    all::<EntityName>(&corpus, "entity_name_t");
    all::<EntityAddr>(&corpus, "entity_addr_t");
    all::<EntityAddrVec>(&corpus, "entity_addrvec_t");
    all::<EntityInst>(&corpus, "entity_inst_t");
    all::<Errno>(&corpus, "errorcode32_t");
    all::<EVersion>(&corpus, "eversion_t");
    all::<Utime>(&corpus, "utime_t");
    all::<Fsid>(&corpus, "uuid_d");
    all::<bytes::Bytes>(&corpus, "object_t");
    all::<i8>(&corpus, "shard_id_t");
    all::<PgId>(&corpus, "pg_t");
    all::<SPgId>(&corpus, "spg_t");
    all::<PgShard>(&corpus, "pg_shard_t");
    all::<ReqId>(&corpus, "osd_reqid_t");
    all::<SnapContext>(&corpus, "SnapContext");
    all::<Locator>(&corpus, "object_locator_t");
    all::<ObjectId>(&corpus, "hobject_t");
    all::<StoredObjectId>(&corpus, "ghobject_t");
    all::<Redirect>(&corpus, "request_redirect_t");
    all::<ObjectListing>(&corpus, "pg_nls_response_t");
    all::<OldObjectListing>(&corpus, "pg_ls_response_t");
    all::<Watcher>(&corpus, "watch_item_t");
    all::<Watchers>(&corpus, "obj_list_watch_response_t");
    all::<CloneInfo>(&corpus, "clone_info");
    all::<SnapListing>(&corpus, "obj_list_snap_response_t");
    all::<ObjectStats>(&corpus, "object_stat_sum_t");
    all::<ObjectStatCollection>(&corpus, "object_stat_collection_t");
    all::<StoreStatfs>(&corpus, "store_statfs_t");
    all::<PoolStat>(&corpus, "pool_stat_t");
    all::<LogEntry>(&corpus, "LogEntry");
    all::<CompatSet>(&corpus, "CompatSet");
    all::<ServiceMap>(&corpus, "ServiceMap");
    all::<Service>(&corpus, "ServiceMap::Service");
    all::<ServiceDaemon>(&corpus, "ServiceMap::Daemon");
    // Maps of clusters that have file systems or metadata servers are refused.
    check::<FsMap>(&corpus, "FSMap", |error| matches!(error, DecodeError::Value { .. }));
}
