//! Object information and snapshots of an object as Ceph's tools read them.

use crate::group::object_info::ObjectInfo;
use crate::group::snap_set::SnapSet;
use crate::watch::WatchInfo;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EVersion, EntityName, ObjectId, ReqId};
use wire::basic::Locator;
use wire::{Target, Writer};

/// Ceph's name for the attribute with an object's information.
pub(super) const INFO_ATTR: &[u8] = b"_";
/// Ceph's name for the attribute with what is known of an object's snapshots.
pub(super) const SNAP_SET_ATTR: &[u8] = b"snapset";

/// Bits of `object_info_t::flag_t`.
mod flag {
    pub const WHITEOUT: u32 = 1 << 1;
    /// Flag of every object that is in no cache.
    pub const DIRTY: u32 = 1 << 2;
    pub const OMAP: u32 = 1 << 3;
    pub const DATA_DIGEST: u32 = 1 << 4;
    pub const OMAP_DIGEST: u32 = 1 << 5;
}

/// A digest that is not known.
const NO_DIGEST: u32 = u32::MAX;

/// Returns Ceph's `object_info_t`. The size is that of the whole object.
pub(super) fn object_info(object: &ObjectId, info: &ObjectInfo, size_bytes: u64, has_omap: bool) -> Vec<u8> {
    let object = ObjectId { pool: object.pool.base(), ..object.clone() };
    let (key, nspace) = (Bytes::copy_from_slice(&object.key), Bytes::copy_from_slice(&object.nspace));
    let locator = Locator { key, nspace, ..Locator::pool(object.pool) };
    let mut watchers_by_name: BTreeMap<EntityName, (u64, &WatchInfo)> = BTreeMap::new();
    for ((cookie, client), watch) in &info.watchers {
        watchers_by_name.entry(*client).or_insert((*cookie, watch));
    }
    let mut flags = flag::DIRTY;
    flags |= if has_omap { flag::OMAP } else { 0 };
    flags |= if info.snap_set.is_whiteout { flag::WHITEOUT } else { 0 };
    let (data, omap) = (info.digests.data, info.digests.omap);
    flags |= if data.is_some() { flag::DATA_DIGEST } else { 0 };
    flags |= if omap.is_some() { flag::OMAP_DIGEST } else { 0 };
    let mut w = Writer::new(Target::default());
    w.versioned(17, 8, |w| {
        w.put(&object);
        w.put(&locator);
        // A category.
        w.u32(0);
        w.put(&info.version);
        w.put(&info.prior_version);
        w.put(&info.last_reqid);
        w.u64(size_bytes);
        w.put(&info.mtime);
        match object.is_clone() {
            // The request that has locked the object for writing: none.
            false => w.put(&ReqId::default()),
            // Snapshots that it belongs to: none, they are told elsewhere.
            true => w.count(0),
        }
        w.u64(info.truncate_seq.into());
        w.u64(info.truncate_size);
        // The object is not lost.
        w.bool(false);
        w.count(watchers_by_name.len());
        for (client, (cookie, watch)) in watchers_by_name {
            w.put(&client);
            put_watch(w, cookie, watch);
        }
        w.put(&EVersion::new(0, info.user_version));
        w.bool(false);
        w.count(info.watchers.len());
        for ((cookie, client), watch) in &info.watchers {
            w.u64(*cookie);
            w.put(client);
            put_watch(w, *cookie, watch);
        }
        w.u32(flags);
        // Time when the OSD changed it: not kept apart from the client's time.
        w.put(&info.mtime);
        w.u32(data.unwrap_or(NO_DIGEST));
        w.u32(omap.unwrap_or(NO_DIGEST));
        w.u64(info.expected_object_bytes);
        w.u64(info.expected_write_bytes);
        w.u32(info.alloc_hint_flags);
    });
    w.into_vec()
}

fn put_watch(w: &mut Writer, cookie: u64, watch: &WatchInfo) {
    w.versioned(4, 3, |w| {
        w.u64(cookie);
        w.u32(watch.timeout_s);
        w.put(&watch.addr);
    });
}

/// Returns Ceph's `SnapSet`.
pub(super) fn snap_set(known: &SnapSet) -> Vec<u8> {
    let mut w = Writer::new(Target::default());
    w.versioned(3, 2, |w| {
        w.put(&known.seq);
        // There is always a head.
        w.bool(true);
        // Snapshots of the pool, which are not kept here any more.
        w.count(0);
        w.count(known.clones.len());
        known.clones.iter().for_each(|clone| w.put(&clone.id));
        w.count(known.clones.len());
        for clone in &known.clones {
            w.put(&clone.id);
            w.put(&clone.overlap);
        }
        w.count(known.clones.len());
        for clone in &known.clones {
            w.put(&clone.id);
            w.u64(clone.size_bytes);
        }
        w.count(known.clones.len());
        for clone in &known.clones {
            w.put(&clone.id);
            w.put(&clone.snaps);
        }
    });
    w.into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{PoolId, SnapId, Utime};
    use wire::basic::IntervalSet;
    use wire::{AddrKind, EntityAddr};

    fn bytes_of(hex: &str) -> Vec<u8> {
        let digits: Vec<u32> = hex.chars().filter_map(|digit| digit.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    #[test]
    fn object_information_is_as_ceph_writes_it() {
        // The header of an image, watched twice, as Ceph 16.2 had it; but for the last time, which is the first one
        // again.
        let ceph = bytes_of(
            "1108da01000004033800000000000000170000007262645f6865616465722e373761326134373563633261feffffffffffffff47\
             a0c0be0000000000470100000000000006031c0000004701000000000000ffffffff0000000000000000ffffffffffffffff0000\
             00001501000000000000a40500001401000000000000a405000002021500000008a277000000000000d06e000000000000000000\
             000000000000000000603474606f9a9c0a0202150000000000000000000000000000000000000000000000000000000000000000\
             0000000000000000000100000008a27700000000000004032f000000a01b08e0a67f00001e0000000101011c00000001000000bf\
             06f2291000000002000000ac15400100000000000000001501000000000000000000000002000000a01b08e0a67f000008a27700\
             000000000004032f000000a01b08e0a67f00001e0000000101011c00000001000000bf06f2291000000002000000ac1540010000\
             000000000000808d0be0a67f000008a27700000000000004032f000000808d0be0a67f00001e0000000101011c00000001000000\
             bf06f2291000000002000000ac15400100000000000000000c000000603474606f9a9c0affffffffffffffff0000000000000000\
             000000000000000000000000",
        );
        let addr = EntityAddr::new(AddrKind::LEGACY, "172.21.64.1:0".parse().unwrap(), 0x29f2_06bf);
        let watch = WatchInfo { timeout_s: 30, addr };
        let client = EntityName::client(0x77a2);
        let info = ObjectInfo {
            version: EVersion::new(0x5a4, 0x115),
            prior_version: EVersion::new(0x5a4, 0x114),
            user_version: 0x115,
            last_reqid: ReqId { name: client, tid: 0x6ed0, inc: 0 },
            mtime: Utime { sec: 0x6074_3460, nsec: 0x0a9c_9a6f },
            watchers: [(0x7fa6_e008_1ba0, client), (0x7fa6_e00b_8d80, client)].map(|key| (key, watch)).into(),
            ..ObjectInfo::default()
        };
        let object = ObjectId::head(PoolId(0x147), 0xbec0_a047, b"", b"rbd_header.77a2a475cc2a");
        assert_eq!(object_info(&object, &info, 0, true), ceph);
    }

    #[test]
    fn snapshots_are_as_ceph_writes_them() {
        let sample = bytes_of(
            "0302750000007b0000000000000001020000007b000000000000000c00000000000000010000000c00000000000000010000000c0000\
             000000000000000000010000000c000000000000003930000000000000010000000c00000000000000030000000c000000000000000a\
             000000000000000800000000000000",
        );
        // The sample is older: it has two snapshots of the pool.
        let mut wanted = [&sample[..15], &[0; 4], &sample[35..]].concat();
        wanted[2] -= 16;
        let mut known = SnapSet { seq: SnapId(123), ..SnapSet::default() };
        known.add_clone(SnapId(12), [12, 10, 8].map(SnapId).to_vec(), 12345);
        known.clones[0].overlap = IntervalSet::new();
        assert_eq!(snap_set(&known), wanted);
    }
}
