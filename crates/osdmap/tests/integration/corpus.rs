//! Samples of Ceph's own encodings, read and written again.

use osdmap::{
    Incremental, MgrMap, MgrModule, MgrModuleOption, MgrStandby, MonInfo, MonMap, OsdInfo, OsdMap, OsdXInfo,
    PgMergeMeta, PgPool, PoolOpts, PoolSnap,
};
use std::fmt::Write;
use wire::codec::features;
use wire::{Decode, Encode, Reader, Release, Target};

const PACIFIC: Target = Target::PACIFIC;
const REEF: Target =
    Target { features: features::PACIFIC | features::SERVER_QUINCY | features::SERVER_REEF, release: Release::REEF };
const SQUID: Target =
    Target { features: REEF.features | features::SERVER_SQUID | features::CRUSH_MSR, release: Release::SQUID };
const TENTACLE: Target = Target { features: features::TENTACLE, release: Release::TENTACLE };

const OVERLONG: &str = "f97d85482139c3de61f9ec00522b6bd6";

/// Each sample of Ceph type `name` must decode and encode to its own bytes.
fn check<T: Encode + Decode + PartialEq + std::fmt::Debug>(name: &str) {
    let Some(corpus) = std::env::var_os("CEPH_CORPUS") else {
        eprintln!("SKIPPED: {name}: CEPH_CORPUS does not name the folder with Ceph's samples");
        return;
    };
    let mut failures = String::new();
    let mut count = 0;
    for (release, target) in [("16.2.0", PACIFIC), ("18.2.0", REEF), ("19.2.0", SQUID), ("20.3.0", TENTACLE)] {
        let folder = std::path::Path::new(&corpus).join(release).join("objects").join(name);
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            count += 1;
            let mut reader = Reader::new(&bytes);
            match T::decode(&mut reader) {
                Err(error) => writeln!(failures, "{}: {error}", path.display()).unwrap(),
                Ok(value) => {
                    // One sample was recorded with bytes of the next value behind it.
                    let end = bytes.len() - if path.ends_with(OVERLONG) { reader.left() } else { 0 };
                    let bytes = &bytes[..end];
                    let again = value.to_vec(target);
                    if again != bytes {
                        let at = again.iter().zip(bytes).position(|(a, b)| a != b);
                        let at = at.unwrap_or(again.len().min(bytes.len()));
                        let lens = (again.len(), bytes.len());
                        writeln!(failures, "{}: differs at byte {at}, lengths {lens:?}", path.display()).unwrap();
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{name}:\n{failures}");
    assert!(count > 0);
}

macro_rules! samples {
    ($($test:ident: $ty:ty = $name:literal;)*) => { $(#[test] fn $test() { check::<$ty>($name); })* };
}

samples! {
    osd_map: OsdMap = "OSDMap";
    incremental: Incremental = "OSDMap::Incremental";
    pg_pool: PgPool = "pg_pool_t";
    pool_opts: PoolOpts = "pool_opts_t";
    pool_snap_info: PoolSnap = "pool_snap_info_t";
    pg_merge_meta: PgMergeMeta = "pg_merge_meta_t";
    osd_info: OsdInfo = "osd_info_t";
    osd_xinfo: OsdXInfo = "osd_xinfo_t";
    crush_map: crush::CrushMap = "CrushWrapper";
    mon_map: MonMap = "MonMap";
    mon_info: MonInfo = "mon_info_t";
    mgr_map: MgrMap = "MgrMap";
    mgr_standby: MgrStandby = "MgrMap::StandbyInfo";
    mgr_module: MgrModule = "MgrMap::ModuleInfo";
    mgr_module_option: MgrModuleOption = "MgrMap::ModuleOption";
}
