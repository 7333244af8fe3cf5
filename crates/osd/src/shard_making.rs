//! Makes a working shard of an opened store.

use crate::OsdConfig;
use crate::failure::NotReady;
use devices::DeviceFiles;
use pg::Shard;
use pg::ops::Limits;
use reactor::Io;
use store::{Device, Store};
use wire::EntityAddrVec;

/// Sets up a store that has just been opened.
///
/// Errors: the store stopped while it was opened; its device cannot tell its kind.
pub(crate) fn ready_store(
    io: &impl Io,
    files: &DeviceFiles,
    config: &OsdConfig,
    memory: store::Memory,
    mut store: Store,
) -> Result<Store, NotReady> {
    if let Some(why) = store.stopped() {
        return Err(NotReady::Stopped(why.to_owned()));
    }
    if io.is_regular_file(files.of(Device::Main)).map_err(NotReady::Device)? {
        store.prepare_ahead();
    }
    store.set_block_cache_bytes(config.memory().block_cache_bytes);
    store.set_memory(memory);
    let usage = store.usage();
    let replayed = store.replayed_records();
    tracing::info!(
        osd = config.id.0,
        objects = usage.objects,
        free_bytes = usage.free_bytes,
        replayed,
        "store is open"
    );
    Ok(store)
}

/// Makes the shard over a store. Clients reach its OSD at `public_addrs`.
pub(crate) fn make_shard(config: &OsdConfig, store: Store, limits: Limits, public_addrs: EntityAddrVec) -> Shard {
    let mut shard = Shard::new(config.id, store, limits);
    shard.set_check_period(config.check_period);
    shard.set_wall_clock(config.unix_zero);
    shard.set_scrub_periods(config.scrub_period, config.check_period);
    shard.keep_ops(config.kept_ops_per_second);
    shard.set_addrs(public_addrs);
    shard
}

/// A shard's limits.
pub(crate) fn limits(config: &OsdConfig) -> Limits {
    let shares = config.memory();
    Limits {
        client_bytes: shares.client_bytes,
        notify_bytes: shares.notify_bytes,
        dups_bytes: shares.dups_bytes,
        ..Limits::default()
    }
}

/// Memory that the metadata of a shard's store may take.
pub(crate) fn store_memory(config: &OsdConfig) -> store::Memory {
    store::Memory::of(config.memory().metadata_bytes)
}
