//! Tests of exports and imports.

use super::harness::{
    Contents, Group, PG_NUM, SimFile, checked, config, contents, filled, filled_by, formatted, object, open, place,
};
use crate::{ExportScope, OfflineError, StreamError, check_stream, export, import};
use proptest::prelude::*;
use store::StoreConfig;
use types::{Fsid, OsdId, PgId};

const ONE: ExportScope = ExportScope::Group { pg: PgId::new(3, 1), pg_num: None };

fn exported(device: SimFile, scope: ExportScope) -> Vec<u8> {
    let mut out = Vec::new();
    let mut store = open(device);
    let report = export(&mut store, scope, false, &mut out, &mut |_, _| ()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(report.stream_bytes, out.len() as u64);
    assert_eq!(store.into_device().writes, 0);
    let read = check_stream(&out[..], &mut |_, _| ()).unwrap();
    assert_eq!((read.objects, read.bytes, read.groups), (report.objects, report.bytes, report.groups));
    out
}

fn imported(device: SimFile, stream: &[u8], replace: bool) -> Result<SimFile, OfflineError> {
    let mut store = open(device);
    import(&mut store, stream, replace, &mut |_, _| ())?;
    Ok(store.into_device())
}

/// A store of another OSD of the same cluster, with nothing in it.
fn empty() -> SimFile {
    formatted(&StoreConfig { osd: OsdId(8), uuid: Fsid([9; 16]), ..config() })
}

/// The part of the contents that belongs to one group.
fn of_group(contents: Contents, seed: u32) -> Contents {
    let (mut objects, mut tables) = contents;
    objects.retain(|object, _| object.hash % PG_NUM == seed);
    tables.retain(|pg, _| pg.seed == seed);
    (objects, tables)
}

#[test]
fn everything_comes_back_as_it_was() {
    let device = filled();
    let stream = exported(device.copy(), ExportScope::Everything);
    let after = imported(empty(), &stream, false).unwrap();
    assert!(contents(after.copy()) == contents(device));
    assert!(checked(after.copy()).is_clean());
    assert!(exported(after.copy(), ExportScope::Everything)[40..] != stream[40..], "the header names another store");
}

#[test]
fn one_group_moves_without_the_others() {
    let device = filled();
    let stream = exported(device.copy(), ONE);
    let after = imported(empty(), &stream, false).unwrap();
    assert!(contents(after.copy()) == of_group(contents(device.copy()), 1));
    assert!(checked(after.copy()).is_clean());
    let both = imported(
        after,
        &exported(device.copy(), ExportScope::Group { pg: PgId::new(3, 2), pg_num: Some(PG_NUM) }),
        false,
    );
    assert!(contents(both.unwrap()) == contents(device));
}

#[test]
fn what_is_there_is_replaced_only_when_asked_for() {
    let device = filled();
    let stream = exported(device.copy(), ONE);
    let mut store = open(device.copy());
    // The store changes; then the import puts the group back to its former state.
    let mut group = Group::new(1);
    group.resume(&mut store);
    store.submit(group.write(&object(1, 1), 0, vec![9; 9])).unwrap();
    store.submit(group.write(&object(1, 77), 0, vec![9; 9])).unwrap();
    store.settle(false).unwrap();
    let changed = store.into_device();
    let refusal = imported(changed.copy(), &stream, false).err().unwrap().to_string();
    assert_eq!(refusal, "the store has pg 3.1 already; --replace puts the stream in its place");
    assert!(contents(imported(changed.copy(), &stream, true).unwrap()) == contents(device.copy()));

    let all = exported(device.copy(), ExportScope::Everything);
    let refusal = imported(changed.copy(), &all, false).err().unwrap().to_string();
    assert!(refusal.starts_with("the store is not empty (it has 2 placement groups)"), "{refusal}");
    assert!(contents(imported(changed, &all, true).unwrap()) == contents(device));
}

/// The pool was split or merged since the group was exported. The store's content is newer, or is of other objects.
#[test]
fn a_group_as_of_another_number_of_groups_replaces_no_objects_of_others() {
    let device = filled();
    let (one, pg) = (exported(device.copy(), ONE), PgId::new(3, 1));
    // Group 3.1 of 4 has the objects of 3.1 and 3.5 of 8. The store has 3.5 of 8.
    let mut store = open(empty());
    let info = pg::info::PgInfo { pg_num: 8, ..pg::info::PgInfo::default() };
    let theirs = types::ObjectId { hash: 5, ..object(1, 0) };
    let steps = vec![info.step(), store::Step::Touch { object: theirs }];
    store.submit(store::Transaction { pg: PgId::new(3, 5), steps }).unwrap();
    store.settle(true).unwrap();
    let split = store.into_device();
    for replace in [false, true] {
        let refusal = imported(split.copy(), &one, replace).err().unwrap().to_string();
        assert!(refusal.contains("pg 3.1 is one of 4") && refusal.contains("3.5 (one of 8)"), "{refusal}");
        let mut store = open(split.copy());
        assert!(crate::check_beside(&mut store, &one[..]).is_err());
        assert!(contents(store.into_device()) == contents(split.copy()), "nothing has changed");
    }
    // The other way round: the store's content is from before a split.
    let stream = {
        let mut store = open(device.copy());
        let mut table = pg::PgTable::decode(store.pg_table(pg).unwrap()).unwrap();
        table.info.pg_num = 8;
        let step = table.info.step();
        store.submit(store::Transaction { pg, steps: vec![step] }).unwrap();
        store.settle(true).unwrap();
        let mut out = Vec::new();
        export(&mut store, ONE, false, &mut out, &mut |_, _| ()).unwrap();
        out
    };
    let refusal = imported(device.copy(), &stream, true).err().unwrap().to_string();
    assert!(refusal.contains("3.2 (one of 4)"), "{refusal}");
}

#[test]
fn what_does_not_belong_is_refused() {
    let device = filled();
    let stream = exported(device.copy(), ONE);
    let foreign = formatted(&StoreConfig { fsid: Fsid([7; 16]), ..config() });
    let refusal = imported(foreign, &stream, false).err().unwrap().to_string();
    assert!(refusal.starts_with("the stream is of cluster 01010101-"), "{refusal}");

    let refusal = |device: SimFile, pg, pg_num| {
        let scope = ExportScope::Group { pg, pg_num };
        export(&mut open(device), scope, false, Vec::new(), &mut |_, _| ()).unwrap_err().to_string()
    };
    assert_eq!(refusal(device.copy(), PgId::new(3, 0), None), "the store has no pg 3.0; it has: 3.1, 3.2");
    let wrong = refusal(device.copy(), PgId::new(3, 1), Some(8));
    assert_eq!(wrong, "pg 3.1 is of a pool with 4 groups, not 8");
    let old = filled_by(Group::of_old);
    assert!(refusal(old.copy(), PgId::new(3, 1), None).contains("--pg-num"));
    let said = ExportScope::Group { pg: PgId::new(3, 1), pg_num: Some(PG_NUM) };
    assert!(contents(imported(empty(), &exported(old.copy(), said), false).unwrap()) == of_group(contents(old), 1));
}

#[test]
fn a_damaged_object_ends_the_export_or_is_left_out_and_noted_as_missing() {
    let device = filled();
    let victim = object(1, 0);
    let mut damaged = device.copy();
    damaged.sim.corrupt(place(device.copy(), &victim, 2_000_000), 1);
    let error = export(&mut open(damaged.copy()), ONE, false, Vec::new(), &mut |_, _| ()).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("fails its checksum"), "{error}");
    for scope in [ONE, ExportScope::Everything] {
        let mut out = Vec::new();
        let report = export(&mut open(damaged.copy()), scope, true, &mut out, &mut |_, _| ()).unwrap();
        assert_eq!(report.left_out.iter().map(|(object, _)| object).collect::<Vec<_>>(), [&victim]);
        let after = imported(empty(), &out, false).unwrap();
        assert!(checked(after.copy()).is_clean(), "{:?}", checked(after.copy()).findings);
        assert!(!contents(after.copy()).0.contains_key(&victim));
        let table = pg::PgTable::decode(open(after).pg_table(PgId::new(3, 1)).unwrap()).unwrap();
        assert_eq!(table.missing.keys().collect::<Vec<_>>(), [&victim]);
    }
}

#[test]
fn a_stream_that_is_cut_off_leaves_a_group_that_nobody_relies_on() {
    let stream = exported(filled(), ONE);
    for cut in [13, 200, 5000, 1_000_000, stream.len() - 300, stream.len() - 1] {
        let mut store = open(empty());
        let error = import(&mut store, &stream[..cut], false, &mut |_, _| ()).unwrap_err();
        assert!(matches!(error, OfflineError::Stream(StreamError::Truncated { .. })), "{error}");
        store.settle(false).unwrap();
        let after = store.into_device();
        assert!(checked(after.copy()).is_clean());
        let mut store = open(after.copy());
        if cut > 200 {
            let table = pg::PgTable::decode(store.pg_table(PgId::new(3, 1)).unwrap()).unwrap();
            assert!(!table.info.complete);
        }
        // A second attempt puts everything in place.
        drop(store);
        assert!(contents(imported(after, &stream, true).unwrap()) == of_group(contents(filled()), 1));
    }
}

#[test]
fn a_store_without_room_says_so() {
    let small = formatted(&StoreConfig { device_bytes: 4 << 20, wal_bytes: 64 << 10, ..config() });
    let stream = exported(filled(), ExportScope::Everything);
    let error = imported(small, &stream, false).err().unwrap();
    assert!(error.to_string().starts_with("the store takes no more: no space"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Frames with sound checksums in any order, cut and repeated, are refused or taken, and never cause a panic.
    #[test]
    fn frames_in_any_order_are_taken_or_refused(order in prop::collection::vec(0usize..40, 0..12)) {
        use crate::stream::{FrameReader, FrameWriter, Frame};
        let whole = exported_small();
        let mut reader = FrameReader::new(&whole[..]).unwrap();
        let mut frames = Vec::new();
        loop {
            let frame = reader.next().unwrap();
            let end = matches!(frame, Frame::End { .. });
            frames.push(frame);
            if end { break }
        }
        let mut out = Vec::new();
        let mut writer = FrameWriter::new(&mut out).unwrap();
        // The first two frames are in their proper places.
        frames[..2].iter().for_each(|frame| writer.put(frame).unwrap());
        order.iter().for_each(|i| writer.put(&frames[i % frames.len()]).unwrap());
        let checked = check_stream(&out[..], &mut |_, _| ());
        let imported = imported(empty(), &out, false);
        prop_assert!(checked.is_err() || imported.is_ok());
    }
}

fn exported_small() -> Vec<u8> {
    let mut store = open(formatted(&config()));
    let mut group = Group::new(1);
    for n in 0..4 {
        store.submit(group.write(&object(1, n), 5000, vec![n as u8; 6000])).unwrap();
    }
    store.settle(false).unwrap();
    exported(store.into_device().copy(), ONE)
}
