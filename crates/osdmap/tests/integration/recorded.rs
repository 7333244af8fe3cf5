//! Replays the changes that a running Ceph made.
//!
//! The fixtures were recorded from the stores of monitors of Ceph 16.2.15 while pools, OSDs, placements, weights,
//! flags, blocklists, snapshots and the hierarchy were changed by commands: every increment behind its length, from
//! epoch 1, and the last full map.

use osdmap::{Incremental, OsdMap, PgMapping};
use types::{Fsid, OsdId};
use wire::{Decode, Encode, Reader, Release, Target};

const FIRST: (&[u8], &[u8]) = (
    include_bytes!("../fixtures/ceph-16.2.15-first.incrementals"),
    include_bytes!("../fixtures/ceph-16.2.15-first.osdmap"),
);
const SECOND: (&[u8], &[u8]) = (
    include_bytes!("../fixtures/ceph-16.2.15-second.incrementals"),
    include_bytes!("../fixtures/ceph-16.2.15-second.osdmap"),
);

fn increments(bytes: &[u8]) -> Vec<&[u8]> {
    let mut r = Reader::new(bytes);
    std::iter::from_fn(|| (!r.is_empty()).then(|| r.blob().unwrap())).collect()
}

#[test]
fn increments_are_read_written_and_applied_as_ceph_does() {
    for (incrementals, last) in [FIRST, SECOND] {
        let mut map = OsdMap::new(Fsid::default());
        for bytes in increments(incrementals) {
            let inc = Incremental::from_slice(bytes).unwrap();
            let target = Target { features: inc.encode_features, release: Release::PACIFIC };
            assert!(inc.to_vec(target) == bytes, "epoch {} is written differently", inc.epoch);
            map.apply(&inc).unwrap();
            // The monitor's checksum covers every byte of the map that resulted there.
            assert_eq!(map.checksum(target), inc.full_crc, "epoch {}", inc.epoch);
            assert!(PgMapping::compute(&map).errors().is_empty());
        }
        let theirs = OsdMap::from_slice(last).unwrap();
        assert_eq!(map, theirs);
        assert!(theirs.to_vec(Target::PACIFIC) == last, "the full map is written differently");
    }
}

/// The recorded lines are those of `osdmaptool --test-map-pgs-dump-all` of 16.2.15 for the last maps.
#[test]
fn placements_equal_the_recorded_ones() {
    let first = include_str!("../fixtures/ceph-16.2.15-first.placements");
    let second = include_str!("../fixtures/ceph-16.2.15-second.placements");
    for ((_, map), lines) in [(FIRST, first), (SECOND, second)] {
        let map = OsdMap::from_slice(map).unwrap();
        let mut lines = lines.lines();
        for (pg, at) in PgMapping::compute(&map).iter() {
            let raw = map.pg_to_osds_raw(pg).unwrap();
            let raw_primary = raw.iter().copied().find(|osd| *osd != OsdId::NONE);
            let (raw, up) = (show(&raw, raw_primary), show(&at.up, at.up_primary));
            let acting = show(&at.acting, at.acting_primary);
            assert_eq!(lines.next(), Some(format!("{pg} raw {raw} up {up} acting {acting}").as_str()));
        }
        assert_eq!(lines.next(), None);
    }
}

/// Returns `([3,1], p3)`.
fn show(osds: &[OsdId], primary: Option<OsdId>) -> String {
    let osds: Vec<String> = osds.iter().map(|osd| osd.0.to_string()).collect();
    format!("([{}], p{})", osds.join(","), primary.map_or(-1, |osd| osd.0))
}

#[test]
fn damaged_maps_are_refused() {
    for (_, map) in [FIRST, SECOND] {
        assert!(OsdMap::from_slice(map).is_ok());
        for at in 0..map.len() {
            let mut damaged = map.to_vec();
            damaged[at] ^= 0x41;
            assert!(OsdMap::from_slice(&damaged).is_err(), "byte {at} may be anything");
            assert!(OsdMap::from_slice(&map[..at]).is_err(), "{at} bytes suffice");
        }
    }
    for bytes in increments(FIRST.0).into_iter().step_by(7) {
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] = damaged[at].wrapping_add(0x80);
            assert!(Incremental::from_slice(&damaged).is_err(), "byte {at} may be anything");
            assert!(Incremental::from_slice(&bytes[..at]).is_err(), "{at} bytes suffice");
        }
    }
}
