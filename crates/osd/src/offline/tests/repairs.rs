//! Repairs: only what is proven, and nothing without being asked.

use super::harness::{Group, SimFile, checked, contents, filled, filled_by, object, open, place};
use crate::offline::{OfflineError, RepairAction, plan_repair, repair};
use store::LABEL_OFFSETS;
use types::{EVersion, Epoch, PgId};

fn plan(device: SimFile, remove: &[String]) -> Result<crate::offline::RepairPlan, OfflineError> {
    let mut store = open(device);
    let plan = plan_repair(&mut store, remove, &mut |_, _| ());
    assert_eq!(store.into_device().writes, 0, "a plan writes nothing");
    plan
}

fn repaired(device: SimFile, remove: &[String]) -> (SimFile, crate::offline::RepairReport) {
    let mut store = open(device);
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
    // The older root.
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
