//! Tests of repairs: they do only what is proven, and nothing unasked.

use super::harness::{Group, PG_NUM, SimFile, bytes, checked, contents, filled, filled_by, object, open, place};
use crate::{Finding, OfflineError, OfflineStore, RepairAction, plan_repair, repair};
use store::LABEL_OFFSETS;
use types::{EVersion, Epoch, PgId};

fn plan(device: SimFile, remove: &[String]) -> Result<crate::RepairPlan, OfflineError> {
    let mut store = OfflineStore::open_to_mend(device).unwrap();
    let plan = plan_repair(&mut store, remove, &mut |_, _| ());
    assert_eq!(store.into_device().writes, 0, "a plan writes nothing");
    plan
}

fn repaired(device: SimFile, remove: &[String]) -> (SimFile, crate::RepairReport) {
    let mut store = OfflineStore::open_to_mend(device).unwrap();
    let plan = plan_repair(&mut store, remove, &mut |_, _| ()).unwrap();
    repair(store, &plan, &mut |_, _| ()).unwrap()
}

#[test]
fn labels_are_rewritten_from_the_sound_ones() {
    let device = filled();
    let before = contents(device.copy());
    assert_eq!(plan(device.copy(), &[]).unwrap().actions, []);
    for (at, action) in [
        (0, RepairAction::Superblock { device: store::Device::Main, from: LABEL_OFFSETS[1], to: LABEL_OFFSETS[0] }),
        (1, RepairAction::Superblock { device: store::Device::Main, from: LABEL_OFFSETS[0], to: LABEL_OFFSETS[1] }),
    ] {
        let mut damaged = device.copy();
        damaged.sim.corrupt(LABEL_OFFSETS[at] + 50, 4);
        let made = plan(damaged.copy(), &[]).unwrap();
        assert_eq!(made.actions, std::slice::from_ref(&action));
        assert_eq!(made.remains().count(), 0);
        let (after, report) = repaired(damaged, &[]);
        assert_eq!(report.done, [action]);
        assert!(report.after.findings.is_empty(), "{:?}", report.after.findings);
        assert!(checked(after.copy()).findings.is_empty());
        assert!(contents(after) == before);
    }
    // The older root is torn.
    let mut store = open(device.copy());
    store.settle(true).unwrap();
    let newest = store.store().log_state().checkpoint;
    let mut torn = store.into_device();
    torn.sim.corrupt(LABEL_OFFSETS[2 + (newest + 1) as usize % 2] + 100, 1);
    let (after, report) = repaired(torn, &[]);
    assert_eq!(report.done, [RepairAction::Roots]);
    assert!(report.after.findings.is_empty());
    assert!(contents(after) == before);
}

#[test]
fn a_bad_block_stays_bad_and_its_object_goes_only_when_asked_for() {
    let device = filled();
    let victim = object(1, 0);
    let mut damaged = device.copy();
    damaged.sim.corrupt(place(device.copy(), &victim, 4096), 1);
    let made = plan(damaged.copy(), &[]).unwrap();
    assert_eq!((made.actions.len(), made.remains().count()), (0, 1));
    let (after, report) = repaired(damaged.copy(), &[]);
    assert_eq!(report.after.bad_blocks, 1);
    assert!(contents(after).0[&victim].bytes.is_err(), "nothing was guessed");

    let name = victim.to_string();
    let made = plan(damaged.copy(), std::slice::from_ref(&name)).unwrap();
    let version = EVersion { epoch: Epoch(7), version: 1 };
    let group = Some((PgId::new(3, 1), version));
    assert_eq!(made.actions, [RepairAction::RemoveObject { object: victim.clone(), group, bad_blocks: 1 }]);
    let (after, report) = repaired(damaged.copy(), &[name]);
    assert!(report.after.is_clean(), "{:?}", report.after.findings);
    let (objects, _) = contents(after.copy());
    assert!(!objects.contains_key(&victim) && objects.len() == 7);
    let table = pg::PgTable::decode(open(after).pg_table(PgId::new(3, 1)).unwrap()).unwrap();
    assert_eq!(table.missing.into_iter().collect::<Vec<_>>(), [(victim, version)]);

    let refusal = |name: String| plan(damaged.copy(), &[name]).unwrap_err().to_string();
    let whole = object(1, 1).to_string();
    assert_eq!(refusal(whole.clone()), format!("object {whole} is not damaged"));
    assert!(refusal("nothing".into()).starts_with("there is no object nothing"));
}

#[test]
fn an_object_whose_group_cannot_be_told_is_not_removed() {
    let device = filled_by(Group::of_old);
    let victim = object(2, 0);
    let mut damaged = device.copy();
    damaged.sim.corrupt(place(device, &victim, 0), 1);
    let error = plan(damaged, &[victim.to_string()]).unwrap_err().to_string();
    assert!(error.contains("cannot tell which placement group"), "{error}");
}

/// Device offsets of leaves of the metadata tree, including leaves of older trees. Of the many leaves with omap entries
/// only some are taken.
fn leaves(device: &SimFile) -> Vec<u64> {
    let is_leaf = |block: &[u8]| block[4..8] == *b"NCBT" && block[9] == 1;
    // The prefix that all keys of a leaf share, if any, is at offset 64. Its first byte is the table: 3 for omap
    // entries.
    let is_chosen = |(at, (_, block)): &(usize, (u64, &[u8]))| block[14..16] == [0, 0] || block[64] != 3 || at % 8 == 0;
    let leaves = device.sim.blocks().filter(|(_, block)| is_leaf(block)).enumerate();
    leaves.filter(is_chosen).map(|(_, (offset, _))| offset).collect()
}

/// For any lost leaf, a check tells what is lost with it, the rest stays as it was, and groups know what they lack.
#[test]
fn lost_metadata_is_given_up_and_groups_know_what_they_lack() {
    let mut store = open(filled());
    for seed in [1, 2] {
        let mut group = Group::new(seed);
        group.resume(&mut store);
        for n in 20..90 {
            store.submit(group.write(&object(seed, n), 0, bytes(900, n))).unwrap();
        }
    }
    store.settle(true).unwrap();
    let device = store.into_device();
    let before = contents(device.copy());
    let (mut noted, mut started_over, mut lost_tables, mut hopeless, mut harmless) = (0, 0, 0, 0, 0);
    for leaf in leaves(&device) {
        let mut damaged = device.copy();
        damaged.sim.corrupt(leaf + 70, 1);
        let found = checked(damaged.copy());
        if found.is_clean() {
            harmless += 1;
            continue;
        }
        let is_lost = |finding: &Finding| matches!(finding, Finding::Lost { .. });
        assert!(found.findings.iter().any(is_lost), "{:?}", found.findings);
        let plan = match plan(damaged.copy(), &[]) {
            Ok(plan) => plan,
            Err(error) => {
                assert!(error.to_string().contains("this store cannot be repaired"), "{error}");
                assert!(found.findings.iter().any(|finding| matches!(finding, Finding::Hopeless { .. })));
                hopeless += 1;
                continue;
            }
        };
        assert_eq!(plan.remains().collect::<Vec<_>>(), Vec::<&Finding>::new());
        let (after, report) = repaired(damaged, &[]);
        assert!(report.after.is_clean(), "{:?}", report.after.findings);
        assert_eq!(report.done, plan.actions);
        let (objects, tables) = contents(after.copy());
        let mut store = open(after);
        assert!(store.store().stopped().is_none());
        let starts_over = |pg: PgId| {
            report.done.iter().any(|action| matches!(action, RepairAction::StartOver { pg: of, .. } if *of == pg))
        };
        for (object, content) in &before.0 {
            let pg = PgId { pool: object.pool, seed: object.hash % PG_NUM };
            match objects.get(object) {
                Some(now) => assert!(now == content, "{object} has changed"),
                None if starts_over(pg) => started_over += 1,
                None => {
                    let table = pg::PgTable::decode(store.pg_table(pg).unwrap()).unwrap();
                    assert!(table.missing.contains_key(object), "{object} is gone without a word");
                    noted += 1;
                }
            }
        }
        assert!(objects.keys().all(|object| before.0.contains_key(object)));
        for (pg, entries) in &before.1 {
            let table = pg::PgTable::decode(store.pg_table(*pg).unwrap()).unwrap();
            assert_eq!(table.info.complete, !starts_over(*pg));
            lost_tables += u32::from(starts_over(*pg));
            if !starts_over(*pg) {
                assert!(entries.iter().all(|entry| tables[pg].contains(entry)));
            }
        }
    }
    let counts = (noted, started_over, lost_tables, hopeless, harmless);
    assert!(noted > 2 && started_over > 0 && lost_tables > 2 && hopeless < 3, "{counts:?}");
}
