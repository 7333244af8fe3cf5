//! Findings of a check, and things that it lets pass.

use super::harness::{Group, checked, config, filled, findings, formatted, object, open, place};
use crate::{Device, MAKE_ANEW, OfflineError, OfflineStore, check, stats};
use pg::log::LogKind;
use store::{LABEL_OFFSETS, SimDevice, Step, Transaction};
use types::{PgId, PoolId};

#[test]
fn a_sound_store_is_clean_and_nothing_is_written() {
    let device = filled();
    let report = checked(device.copy());
    assert!(report.is_clean() && report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!((report.objects, report.groups, report.omap_keys), (8, 2, 5600));
    assert!(report.verified_bytes > 5_000_000);
    let mut opened = open(device.copy());
    let mut last = (0, None);
    let again = super::super::check::check_open(&mut opened, &mut |done, total| last = (done, total)).unwrap();
    assert_eq!(again, report);
    assert_eq!(last, (report.verified_bytes, Some(report.verified_bytes)));
    assert_eq!(opened.into_device().writes, 0);
    assert!(checked(formatted(&config())).is_clean());
}

#[test]
fn every_bad_block_is_named() {
    let device = filled();
    let large = object(1, 0);
    let at = |offset| place(device.copy(), &large, offset);
    let mut damaged = device.copy();
    damaged.sim.corrupt(at(4096) + 5, 1);
    damaged.sim.corrupt(at(8192) + 4095, 0x80);
    damaged.sim.make_unreadable(at(2_000_000));
    let expected = [
        format!("object {large}: block at byte 4096 (device offset {:#x}) fails its checksum", at(4096)),
        format!("object {large}: block at byte 8192 (device offset {:#x}) fails its checksum", at(8192)),
        format!(
            "object {large}: block at byte 1998848 (device offset {:#x}) cannot be read: Input/output error (5)",
            at(2_000_000)
        ),
    ];
    let report = checked(damaged);
    let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(found[..2], expected[..2]);
    assert!(found[2].starts_with(&expected[2][..expected[2].len() - 24]), "{}", found[2]);
    assert_eq!((report.bad_blocks, report.damage, report.is_clean()), (3, 3, false));
    assert_eq!(report.json()["findings"][0]["object_offset"], 4096);
    assert_eq!(report.json()["status"], "damaged");
}

#[test]
fn lost_copies_of_labels_are_told() {
    let device = filled();
    let mut damaged = device.copy();
    damaged.sim.corrupt(LABEL_OFFSETS[0] + 9, 1);
    assert_eq!(findings(damaged), ["superblock copy at 0x0: damaged; the other copy is sound"]);
    let mut unreadable = device.copy();
    unreadable.sim.make_unreadable(LABEL_OFFSETS[1]);
    unreadable.sim.make_unreadable(LABEL_OFFSETS[3]);
    let report = checked(unreadable);
    assert_eq!((report.damage, report.findings.len()), (2, 2), "{:?}", report.findings);

    // An interrupted write of a root is no damage, but a check mentions it.
    let mut store = open(device.copy());
    store.settle(true).unwrap();
    let newest = store.store().log_state().checkpoint;
    let mut torn = store.into_device();
    torn.sim.corrupt(LABEL_OFFSETS[2 + (newest + 1) as usize % 2] + 100, 1);
    let report = checked(torn);
    assert!(report.is_clean());
    assert_eq!(report.findings.len(), 1);
    assert!(report.findings[0].to_string().ends_with("the other root is in use"), "{}", report.findings[0]);
}

#[test]
fn a_store_that_does_not_open_is_damage_and_what_is_none_is_an_error() {
    let device = filled();
    let mut headless = device.copy();
    LABEL_OFFSETS[..2].iter().for_each(|at| headless.sim.corrupt(at + 30, 1));
    let expected = "both copies of the superblock are damaged; nothing says any longer what is where";
    assert_eq!(findings(headless), [format!("{expected}. {MAKE_ANEW}")]);

    let mut rootless = device.copy();
    let mut store = open(device.copy());
    store.settle(true).unwrap();
    LABEL_OFFSETS[2..].iter().for_each(|at| rootless.sim.corrupt(at + 30, 1));
    assert_eq!(
        findings(rootless),
        [format!("the store does not open: neither checkpoint root is readable. {MAKE_ANEW}")]
    );

    let error = |device| check(device, &mut |_, _| ()).unwrap_err();
    let blank = super::harness::SimFile::on(SimDevice::new(16 << 20));
    assert!(matches!(error(blank), OfflineError::NotAStore { device_bytes: 16_777_216 }));
    let tiny = super::harness::SimFile::on(SimDevice::new(4096));
    assert!(matches!(error(tiny), OfflineError::NotAStore { .. }));
    let mut short = device.copy();
    short.sim.truncate(8 << 20);
    let error = error(short);
    assert!(!error.is_damage() && error.to_string().ends_with("it was cut short"), "{error}");
}

#[test]
fn groups_whose_log_and_objects_disagree_are_found() {
    let mut store = open(filled());
    let mut group = Group::new(0);
    store.submit(group.write(&object(0, 1), 0, vec![1; 10])).unwrap();
    store.submit(group.write(&object(0, 2), 0, vec![1; 10])).unwrap();
    store.submit(group.update(&object(0, 3), LogKind::Delete, Vec::new())).unwrap();
    store.settle(false).unwrap();
    let device = store.into_device();
    assert!(checked(device.copy()).is_clean());

    let break_by = |steps: Vec<Step>| {
        let mut store = open(device.copy());
        store.submit(Transaction { pg: group.pg, steps }).unwrap();
        store.settle(false).unwrap();
        findings(store.into_device())
    };
    let one = object(0, 1);
    let gone = break_by(vec![Step::Remove { object: one.clone() }]);
    assert_eq!(gone, [format!("pg 3.0: object {one} is absent, but the log has it at 7'1")]);
    let noted = pg::missing_step(&one, types::EVersion { epoch: types::Epoch(7), version: 1 });
    assert_eq!(break_by(vec![Step::Remove { object: one.clone() }, noted]), Vec::<String>::new());
    let back = break_by(vec![Step::Clone { from: one.clone(), to: object(0, 3) }]);
    assert_eq!(back, [format!("pg 3.0: object {} is there, but the log has it removed at 7'3", object(0, 3))]);
    let old = break_by(vec![Step::Clone { from: one.clone(), to: object(0, 2) }]);
    assert_eq!(old, [format!("pg 3.0: object {} is at 7'1, but the log has it at 7'2", object(0, 2))]);
    let bare = break_by(vec![Step::RemoveAttr { object: one.clone(), name: b"oi".to_vec() }]);
    assert!(bare.len() == 1 && bare[0].starts_with(&format!("pg 3.0: object {one} has no sound information")));
    let info = break_by(vec![Step::PgRemove { key: "info".into() }]);
    assert_eq!(info, ["pg 3.0: no information of the group"]);
    let attr = Step::SetAttr { object: object(1, 0), name: b"oi".to_vec(), value: "nonsense".into() };
    let odd = break_by(vec![attr]);
    assert!(odd.len() == 2 && odd[0].contains("its information is damaged"), "{odd:?}");
}

#[test]
fn statistics_say_what_is_there() {
    let device = filled();
    let mut store = open(device.copy());
    let found = stats(&mut store, &mut |_, _| ()).unwrap();
    let pool = found.pools[&PoolId(3)];
    assert_eq!((pool.objects, pool.omap_keys), (8, 5600));
    assert_eq!(pool.bytes, found.usage.stored_bytes);
    assert_eq!(pool.omap_bytes, found.usage.omap_bytes);
    assert_eq!(found.groups.len(), 2);
    let group = found.groups[0].table.as_ref().unwrap();
    assert_eq!((found.groups[0].pg, group.log_entries, group.complete), (PgId::new(3, 1), 8, true));
    assert_eq!((found.objects_with_data, found.inline_objects, found.inline_bytes), (4, 2, 200));
    assert_eq!(found.referenced_bytes, found.usage.data_bytes);
    let free = found.free_space.bytes();
    assert!(free >= found.usage.free_bytes && found.free_space.longest_run_bytes <= free);
    let json = found.json();
    let whole = json["free_whole_units"]["bytes"].as_u64().unwrap();
    assert!(whole > 0 && whole <= free && whole % (64 << 10) == 0);
    assert_eq!((&json["space"]["objects"], &json["space"]["inline_bytes"]), (&8.into(), &200.into()));
    assert_eq!(json["pgs"][1]["pg"], "3.2");
    assert!(json["log"]["replay_records"].as_u64().unwrap() > 0 || json["checkpoint"]["number"].as_u64().unwrap() > 0);
}

#[test]
fn clones_share_blocks_and_are_clean() {
    let mut store = open(filled());
    let mut group = Group::new(3);
    let (from, to) = (object(3, 0), object(3, 1));
    store.submit(group.write(&from, 0, vec![7; 40_000])).unwrap();
    let clone = Step::Clone { from: from.clone(), to: to.clone() };
    store.submit(group.update(&to, LogKind::Modify, vec![clone])).unwrap();
    // Without a checkpoint, rot in the very last record cannot be told from a torn write.
    store.settle(true).unwrap();
    let device = store.into_device();
    assert!(checked(device.copy()).is_clean());
    // The block is bad in both objects.
    let mut damaged = device.copy();
    damaged.sim.corrupt(place(device, &from, 0), 1);
    assert_eq!(checked(damaged).bad_blocks, 2);
}

/// Any state that a crash leaves is a clean store. An unfinished turn, a torn record or a torn root is no loss.
#[test]
fn what_a_crash_leaves_is_clean() {
    let mut random = 1u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let mut crashes = 0;
    for _ in 0..3 {
        let mut store = open(formatted(&config()));
        let mut groups = [Group::new(0), Group::new(1)];
        for n in 0..120 {
            let seed = (next() % 2) as u32;
            let target = object(seed, (next() % 9) as u32);
            let txn = match next() % 8 {
                0 => groups[seed as usize].update(
                    &target,
                    LogKind::Delete,
                    vec![Step::Remove { object: target.clone() }],
                ),
                _ => {
                    let (offset, len) = (next() % 60_000, 1 + next() % 20_000);
                    groups[seed as usize].write(&target, offset, super::harness::bytes(len as usize, n))
                }
            };
            store.submit(txn).unwrap();
            if next() % 4 == 0 {
                store.settle(next() % 3 == 0).unwrap();
            }
            let (mut device, bytes) = (store.into_device_unsettled(), config().device_bytes);
            assert_eq!(device.bytes(), bytes);
            for _ in 0..3 {
                let after = super::harness::SimFile::on(device.sim.after_crash(&mut next));
                let report = checked(after);
                assert!(report.is_clean(), "{:?}", report.findings);
                crashes += 1;
            }
            device = super::harness::SimFile::on(device.sim.after_crash(&mut next));
            store = OfflineStore::open(device).unwrap();
            // Each group goes on from the state that survived.
            for group in &mut groups {
                group.resume(&mut store);
            }
        }
    }
    assert_eq!(crashes, 3 * 120 * 3);
}
