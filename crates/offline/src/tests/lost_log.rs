//! Tests of a store that has lost the end of its log: groups know that they have to start over, and the store opens
//! again.

use super::harness::{Group, PG_NUM, SimFile, bytes, checked, contents, filled, object, open, place};
use crate::{Finding, OfflineStore, RepairAction, plan_repair, repair};
use pg::PgTable;
use std::collections::BTreeSet;
use types::PgId;

const LOG: u64 = 128 << 10;
const LOG_BLOCKS: u64 = 64;

/// A store with work in its log.
fn busy() -> SimFile {
    let mut store = open(filled());
    for (seed, number) in [(1, 50), (2, 51)] {
        let mut group = Group::new(seed);
        group.resume(&mut store);
        store.submit(group.write(&object(seed, number), 0, bytes(30_000, number))).unwrap();
        store.settle(true).unwrap();
    }
    for n in 0..30 {
        let seed = 1 + n % 2;
        let mut group = Group::new(seed);
        group.resume(&mut store);
        store.submit(group.write(&object(seed, n % 7), 4096 * u64::from(n % 3), bytes(9000, n))).unwrap();
        store.settle(n == 12).unwrap();
    }
    store.into_device()
}

#[test]
fn a_log_with_an_unusable_block_is_given_up_from_there_on() {
    let device = busy();
    let before = contents(device.copy());
    let (mut harmless, mut cut) = (0, 0);
    for block in 0..LOG_BLOCKS {
        for unreadable in [false, true] {
            let mut damaged = device.copy();
            match unreadable {
                true => damaged.sim.make_unreadable(LOG + block * 4096),
                false => damaged.sim.corrupt(LOG + block * 4096 + 70, 1),
            }
            let report = checked(damaged.copy());
            let is_lost = report.findings.iter().any(|finding| matches!(finding, Finding::Lost { .. }));
            let mut store = OfflineStore::open_to_mend(damaged.copy()).unwrap();
            let plan = plan_repair(&mut store, &[], &mut |_, _| ()).unwrap();
            assert_eq!(plan.remains().collect::<Vec<_>>(), Vec::<&Finding>::new());
            if !is_lost {
                harmless += 1;
                assert_eq!(report.is_clean(), !unreadable);
            }
            let (after, done) = repair(store, &plan, &mut |_, _| ()).unwrap();
            assert!(done.after.findings.is_empty(), "{block}, {unreadable}: {:?}", done.after.findings);
            if !is_lost {
                // Nobody knows that the last record was there, so a corrupt one may be gone.
                assert!(!unreadable || contents(after) == before);
                continue;
            }
            cut += 1;
            assert!(OfflineStore::open(damaged.copy()).is_err(), "it would hide what is lost");
            let mut store = OfflineStore::open(after.copy()).unwrap();
            let groups: BTreeSet<PgId> = store.store().pgs().into_iter().collect();
            assert_eq!(groups.len(), 2);
            for pg in groups {
                let table = PgTable::decode(store.pg_table(pg).unwrap()).unwrap();
                assert!(!table.info.complete && table.info.pg_num == PG_NUM && table.log.is_empty());
            }
            let (objects, _) = contents(after);
            assert!(objects.values().all(|object| object.bytes.is_ok()));
        }
    }
    assert!(harmless > 20 && cut > 20, "{harmless} harmless, {cut} cut");
}

/// Blocks of the former state may since have been given to other objects.
#[test]
fn an_object_with_bad_blocks_goes_where_its_group_starts_over_anyway() {
    let device = busy();
    let (victim, other) = (object(1, 50), object(2, 51));
    let mut damaged = last_lost(&device, false).expect("some record is vouched for");
    damaged.sim.corrupt(place(device.copy(), &victim, 4096), 1);
    let mut store = OfflineStore::open_to_mend(damaged).unwrap();
    let plan = plan_repair(&mut store, &[], &mut |_, _| ()).unwrap();
    assert_eq!(plan.actions[0], RepairAction::RemoveStale { object: victim.clone(), bad_blocks: 1 });
    assert_eq!(plan.remains().count(), 0);
    let (after, done) = repair(store, &plan, &mut |_, _| ()).unwrap();
    assert!(done.after.findings.is_empty(), "{:?}", done.after.findings);
    let (objects, _) = contents(after);
    assert!(!objects.contains_key(&victim) && objects.contains_key(&other));
}

/// The device with damage to the last block of its log at which damage is noticed.
fn last_lost(device: &SimFile, unreadable: bool) -> Option<SimFile> {
    (0..LOG_BLOCKS).rev().find_map(|block| {
        let mut damaged = device.copy();
        match unreadable {
            true => damaged.sim.make_unreadable(LOG + block * 4096),
            false => damaged.sim.corrupt(LOG + block * 4096 + 70, 1),
        }
        let found = checked(damaged.copy()).findings;
        found.iter().any(|finding| matches!(finding, Finding::Lost { .. })).then_some(damaged)
    })
}

/// A repair that is cut off at any moment has either not happened, or its groups know that they start over.
#[test]
fn a_repair_that_is_cut_off_hides_nothing() {
    let device = busy();
    let mut before = 0;
    for unreadable in [true, false] {
        let damaged = last_lost(&device, unreadable).expect("some record is vouched for");
        for writes in 0.. {
            let mut device = damaged.copy();
            device.crash_before_write = Some(writes);
            let mut store = OfflineStore::open_to_mend(device).unwrap();
            let plan = plan_repair(&mut store, &[], &mut |_, _| ()).unwrap();
            let (mut device, _) = repair(store, &plan, &mut |_, _| ()).unwrap();
            let crashed = device.crashed.take();
            let is_over = crashed.is_none();
            match OfflineStore::open(crashed.map_or(device, SimFile::on)) {
                Err(error) => {
                    assert!(error.is_damage() && !is_over, "{error}");
                    before += 1;
                }
                Ok(mut store) => {
                    for pg in store.store().pgs() {
                        let table = PgTable::decode(store.pg_table(pg).unwrap()).unwrap();
                        assert!(!table.info.complete, "{writes}: {pg} believes that it has all");
                    }
                }
            }
            if is_over {
                break;
            }
        }
    }
    assert!(before > 2, "{before}");
}
